"""Tables as plain text."""

__all__ = ["format_table"]


def format_table(header, rows, left=2):
    """Text as a table with aligned columns.

    Parameters
    ----------
    header : sequence of str
    rows : list of sequences of str
    left : int, default=2
        Number of columns that are aligned to the left. The others are aligned to the right.

    Returns
    -------
    str

    Examples
    --------
    >>> from sk_stormc.compare.text_table import format_table
    >>> print(format_table(("data", "method", "IFO"), [("mine", "storm-c", "64"), ("mine", "lbfgs", "128")]))
    data  method   IFO
    ------------------
    mine  storm-c   64
    mine  lbfgs    128
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        first = [cell.ljust(width) for cell, width in zip(row[:left], widths[:left], strict=True)]
        others = [cell.rjust(width) for cell, width in zip(row[left:], widths[left:], strict=True)]
        lines.append("  ".join(first + others))
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines)
