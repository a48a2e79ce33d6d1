"""Read a page as a notebook, so that the site shows what its blocks of Python print and draw."""

import re

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

# Blocks under a comment "not run", and those that are indented, stay text.
BLOCK = re.compile(r"(?<!-->\n)^```python\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)


def read_page(text):
    """Text and blocks of Python in turn, as the cells of a notebook."""
    cells, end = [], 0
    for block in BLOCK.finditer(text):
        cells += [new_markdown_cell(text[end : block.start()]), new_code_cell(block[1].rstrip("\n"))]
        end = block.end()
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(
        cells=[*cells, new_markdown_cell(text[end:])],
        metadata={"kernelspec": kernel, "language_info": {"name": "python"}},
    )
