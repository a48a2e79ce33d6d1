"""Tables as plain text, as HTML for notebooks, and as Markdown.

A table has a header and rows of cells, which are texts. `table` makes both from
records.
"""

import html
import math


def table(records, columns):
    """Header and rows of records: a column is a format of the record's fields, or a
    function of the record."""
    cells = [c.format_map if isinstance(c, str) else c for c in columns.values()]
    return list(columns), [[cell(record) for cell in cells] for record in records]


def finite(value, spec):
    """A number as a cell has it, or a dash if it is None or not finite."""
    return "-" if value is None or not math.isfinite(value) else format(value, spec)


def as_text(header, rows, left=2):
    """Text with aligned columns, the first ones on the left and the others on the
    right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    sides = "<" * left + ">" * (len(header) - left)
    lines = [
        "  ".join(
            f"{cell:{side}{width}}"
            for cell, side, width in zip(row, sides, widths, strict=True)
        )
        for row in (header, *rows)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_html(header, rows, left=2):
    """An HTML table, whose first columns are aligned on the left and the others on the
    right."""
    lines, tag = [], "th"
    for row in (header, *rows):
        cells = [
            f'<{tag} style="text-align: '
            f'{"left" if k < left else "right"}">{html.escape(cell)}</{tag}>'
            for k, cell in enumerate(row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
        tag = "td"
    return "\n".join(["<table>", *lines, "</table>"])


def as_markdown(header, rows, rule=" --- "):
    """A table in Markdown. ``rule`` is what stands below the header of a column."""
    first, *others = (
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |"
        for line in (header, *rows)
    )
    return "\n".join([first, "|" + f"{rule}|" * len(header), *others])
