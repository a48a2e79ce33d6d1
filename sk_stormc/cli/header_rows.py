"""The rows of names and of units at the top of a table."""

import re

import numpy as np

from sk_stormc.cli.column_texts import is_amount, is_number

SEPARATED = (
    "commas (.csv), tabs (.tsv) or blanks (.txt), or as --sep ';' --decimal , says"
)
FIRST = "column 1"  # the name of the first column if it has none
# no names of assets
INDEX = ("", "date", "index", FIRST, "timestamp", "time", "day", "month", "period")
DATE = r"(19|20)\d\d(\d{2}|\d{4}|\D.*)?"  # yyyy, yyyymm, yyyymmdd, yyyy-mm-dd


def names_of_columns(head, decimal, n_names, reading):
    """The names of the columns, and the number of rows of them and of units.

    ``head`` has the first rows as texts, of which the first has ``n_names`` cells.
    Without names, columns are numbered.
    """
    path, notes = reading.file, reading.form
    extra = head.shape[1] - n_names
    row = head.iloc[0, :n_names]
    is_data = _is_data(path, row, decimal, head)
    _check_widths(path, row, extra)
    if is_data:
        return [str(k + 1) for k in range(head.shape[1])], 0
    numeric = head.map(is_amount)
    levels = [row]
    if _has_levels(row, head, numeric):
        levels = [row.ffill(), head.iloc[1]]
        # a last row may only name the first column
        if len(head) > 3 and head.iloc[2, 1:].isna().all():
            levels.append(head.iloc[2])
        notes.append(f"names in {len(levels)} rows")
    names = _joined_levels(levels)
    names = ["index"] * extra + names
    n_rows = len(levels)
    if _is_units(head, numeric, n_rows):
        cells = [str(cell) for cell in head.iloc[n_rows].dropna()]
        notes.append(f"row {n_rows + 1} left out, as units: {', '.join(cells[:4])}")
        n_rows += 1
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise ValueError(
            f"{path}: expected names that differ, found {twice[0]!r} twice"
        )
    return names, n_rows


def _has_levels(row, head, numeric):
    """Whether a row of names is the first of several: names are repeated or merged, and
    the next row has other names."""
    after = row.iloc[1:]
    repeated = after.duplicated().any() or (after.isna().any() and after.notna().any())
    if not repeated or len(head) < 3:
        return False
    below = head.iloc[1, 1:]
    return below.notna().any() and not numeric.iloc[1, 1:].any()


def _joined_levels(levels):
    """Names of columns from rows of names, of which the last one that has a name for
    the first column names it."""
    parts = [
        [cell for cell in cells if isinstance(cell, str)]
        for cells in zip(*levels, strict=False)
    ]
    parts[0] = parts[0][-1:]
    # a name of pandas for a column without one
    blank = r"\s*|Unnamed: \d+(_level_\d+)?"
    return [
        f"column {k + 1}" if re.fullmatch(blank, name) else name
        for k, name in enumerate(map(" ".join, parts))
    ]


def _is_units(head, numeric, k):
    """Whether row k has texts above columns of numbers, and no number."""
    if len(head) < k + 3 or numeric.iloc[k].any():
        return False
    below = head.iloc[k + 1 :]
    known = below.notna()
    of_numbers = known.any() & (numeric.iloc[k + 1 :] | ~known).all()
    return bool((of_numbers & head.iloc[k].notna()).any())


def _check_widths(path, row, extra):
    """Raise a ValueError if there are ``extra`` columns without names, other than one
    of names of rows."""
    if extra > 1 or (
        extra == 1 and (len(row) == 1 or str(row.iloc[0]).lower() in INDEX)
    ):
        title = "; --skip-rows N leaves out N lines above the names" * (len(row) < 3)
        raise ValueError(
            f"{path}: expected names of all columns, in columns separated by "
            f"{SEPARATED}, found {len(row)} names above {len(row) + extra} columns"
            f"{title}"
        )


def _is_data(path, row, decimal, below):
    """Whether a first row, as text, has a number or a date, and then numbers, of which
    some may be missing.

    The names of the columns below it do not tell, because pandas renames equal ones.
    """
    from pandas import isna, to_numeric

    row = row.str.replace(decimal, ".", regex=False)
    first, others = row.iloc[0], row.iloc[1:].dropna()
    if len(row) == 1 and not is_number(first):
        return False
    if to_numeric(others, errors="coerce").isna().any() or len(row) > 1 > len(others):
        return False
    if isna(first):
        # names that are numbers, beside an index without a name, have no decimal point
        return bool(others.str.contains(".", regex=False).any())
    if row.is_unique and row.str.fullmatch(r"\d+", na=False).all():
        # data, or names that are numbers?
        dates = row.str.fullmatch(DATE)
        others = below.iloc[1:].apply(to_numeric, errors="coerce")
        fractions = (others % 1 > 0).any(axis=None)
        counts = len(row) > 1 and (np.diff(row.astype(float)) == 1).all()
        if counts or (fractions and (dates.all() or not dates.iloc[0])):
            raise ValueError(
                f"{path}: expected names in the first row, such as 'a{first}', or "
                f"numbers, such as {first}.0, found {', '.join(row[:3])}, which may "
                "be either"
            )
    return any(map(str.isdigit, first))
