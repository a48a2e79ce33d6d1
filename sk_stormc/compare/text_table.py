"""Tables as plain text, and as HTML for notebooks."""

import html

__all__ = ["format_html", "format_table"]


def format_table(header, rows, left=2):
    """Text as a table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        first = [cell.ljust(width) for cell, width in zip(row[:left], widths[:left], strict=True)]
        others = [cell.rjust(width) for cell, width in zip(row[left:], widths[left:], strict=True)]
        lines.append("  ".join(first + others))
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines)


def format_html(header, rows, left=2):
    """An HTML table, whose first columns are aligned on the left and the others on the right."""
    lines = ["<table>"]
    for tag, row in (("th", header), *(("td", row) for row in rows)):
        sides = ["left"] * left + ["right"] * (len(row) - left)
        cells = [
            f'<{tag} style="text-align: {side}">{html.escape(cell)}</{tag}>'
            for cell, side in zip(row, sides, strict=True)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</table>"])
