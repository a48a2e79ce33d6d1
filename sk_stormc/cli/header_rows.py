"""The rows of names and of units at the top of a table."""

import re

import numpy as np

from sk_stormc.cli.column_texts import is_number, numbers_of_texts

SEPARATED = (
    "commas (.csv), tabs (.tsv) or blanks (.txt), or as --sep ';' --decimal , says"
)
FIRST = "column 1"  # the name of the first column if it has none
# no names of assets
INDEX = ("", "date", "index", FIRST, "timestamp", "time", "day", "month", "period")
DATE = r"(19|20)\d\d(\d{2}|\d{4}|\D.*)?"  # yyyy, yyyymm, yyyymmdd, yyyy-mm-dd
MOST_LEVELS = 3  # most rows of names


def names_of_columns(path, head, decimal, notes, n_names):
    """The names of the columns, and the number of rows of them and of units.

    ``head`` has the first rows as texts, of which the first has ``n_names`` cells.
    Without names, columns are numbered.
    """
    width = head.shape[1]
    row = head.iloc[0, :n_names]
    if _is_data(path, row, decimal, head):
        _check_widths(path, row, width - n_names, data=True)
        return [str(k + 1) for k in range(width)], 0
    extra = width - n_names
    _check_widths(path, row, extra)
    numeric = head.map(_is_amount)
    levels = [row.ffill() if _has_levels(row, head, numeric) else row]
    while (
        len(levels) < min(MOST_LEVELS, len(head) - 1)
        and _has_levels(row, head, numeric)
        and not numeric.iloc[len(levels), 1:].any()
        and (len(levels) < 2 or head.iloc[len(levels), 1:].isna().all())
    ):
        levels.append(head.iloc[len(levels)])
    names = _joined_levels(levels)
    names = ["index"] * extra + names
    n_rows = len(levels)
    if _is_units(head, numeric, n_rows):
        cells = [str(cell) for cell in head.iloc[n_rows].dropna()]
        notes.append(f"row {n_rows + 1} left out, as units: {', '.join(cells[:4])}")
        n_rows += 1
    if len(levels) > 1:
        notes.append(f"names in {len(levels)} rows")
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
    """Names of columns from rows of names; a last row may only name the first
    column."""
    if len(levels) == 1:
        cells = levels[0].tolist()
    else:
        cells = [
            " ".join(
                str(level.iloc[k]) for level in levels if isinstance(level.iloc[k], str)
            )
            for k in range(len(levels[0]))
        ]
        own = [level.iloc[0] for level in levels if isinstance(level.iloc[0], str)]
        cells[0] = own[-1] if own else ""
    # a name of pandas for a column without one
    blank = r"\s*|Unnamed: \d+(_level_\d+)?"
    return [
        f"column {k + 1}"
        if not isinstance(cell, str) or re.fullmatch(blank, cell)
        else cell
        for k, cell in enumerate(cells)
    ]


def _is_units(head, numeric, k):
    """Whether row k has texts above columns of numbers, and no number."""
    if len(head) < k + 3 or numeric.iloc[k].any():
        return False
    below = head.iloc[k + 1 :]
    known = below.notna()
    of_numbers = known.any() & (numeric.iloc[k + 1 :] | ~known).all()
    return bool((of_numbers & head.iloc[k].notna()).any())


def _is_amount(cell):
    """Whether a text is a number, perhaps with marks, such as 1.05% and € 5."""
    from pandas import Series

    if not isinstance(cell, str) or not any(map(str.isdigit, cell)):
        return False
    if is_number(cell):
        return True
    try:
        return numbers_of_texts(Series([cell]), usual=".") is not None
    except ValueError:
        return True


def _check_widths(path, row, extra, data=False):
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
