"""Read a page as a notebook, so that the site shows what its blocks of Python print and
draw."""

import re

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

# A comment before a block says that it is not run, or describes what it draws for those
# who cannot see it. A last line that is a name is shown, such as a table. What other
# expressions return is not.
SHOW = {True: "last_expr", False: "none"}
BLOCK = re.compile(
    r"^(?:<!-- (not run|picture): ([^>]+) -->\n)?```python\n(.*?)^```\n?",
    re.DOTALL | re.MULTILINE,
)


def pages_without_code(folder):
    """The pages in a folder that have nothing to run, as strings."""
    pages = {
        page: BLOCK.findall(page.read_text(encoding="utf-8"))
        for page in folder.rglob("*.md")
    }
    return [
        str(page)
        for page, blocks in pages.items()
        if all(what == "not run" for what, _, _ in blocks)
    ]


def hidden(code):
    """A cell that is run, and neither shown nor part of the page."""
    return new_code_cell(code, metadata={"tags": ["remove-cell"]})


def read_page(text):
    """Text and blocks of Python in turn, as the cells of a notebook."""
    cells, end, shown = [], 0, None
    for block in BLOCK.finditer(text):
        what, words, code = block.groups()
        if what != "not run":
            look = {"mystnb": {"image": {"alt": words}}} if what else {}
            cells.append(new_markdown_cell(text[end : block.start()]))
            last = code.rstrip().split("\n")[-1]
            if shown != last.isidentifier():
                shown = last.isidentifier()
                cells.append(
                    hidden(f"get_ipython().ast_node_interactivity = {SHOW[shown]!r}")
                )
            cells.append(new_code_cell(code.rstrip("\n"), metadata=look))
            end = block.end()
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(
        cells=[*cells, new_markdown_cell(text[end:])],
        metadata={"kernelspec": kernel, "language_info": {"name": "python"}},
    )
