"""Tables as plain text."""

__all__ = ["format_table"]


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
