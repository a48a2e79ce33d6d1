"""Labels of tables and series of pandas, polars, pyarrow and dask.

Only these functions access the attributes by which such objects are recognised. None of
these packages is imported, except pandas to read labels that are texts.
"""

import warnings
from contextlib import suppress

_ORDERED = (
    "integer",
    "floating",
    "mixed-integer-float",
    "datetime64",
    "datetime",
    "date",
    "period",
    "timedelta64",
)
_YEAR = r"(?<!\d)(?:19|20)\d\d(?!\d)"
# pandas reads the year as a day, unless it has four digits
_MONTHS = ("%b-%y", "%b %y")


def is_table(X):
    """Whether an object is a table whose columns have types of their own."""
    # a delayed object of dask has every attribute, but its shape is not a tuple
    return (
        isinstance(getattr(X, "shape", None), tuple)
        and hasattr(X, "columns")
        and hasattr(X, "dtypes")
    )


def has_row_labels(X):
    """Whether an object is a table with labels for its rows too, as a frame of pandas
    is."""
    return hasattr(X, "columns") and hasattr(X, "index")


def is_lazy(X):
    """Whether an object is a query that has not run yet, such as a LazyFrame of
    polars."""
    return callable(getattr(X, "collect", None)) and not hasattr(X, "shape")


def index_of(X):
    """The index of a table in memory, or None if it has no row labels."""
    index = X.index if has_row_labels(X) else None
    return index.compute() if hasattr(index, "compute") else index  # of dask


def rows_of(X):
    """The labels of the rows of a table, or None if it has no row labels."""
    index = index_of(X)
    return None if index is None else list(index)


def counts_rows(index, start=0):
    """Whether an index only counts rows, as that of a frame that was given none: from 0
    or from ``start``, and from 0 again where a file or a partition begins."""
    if type(index).__name__ == "RangeIndex":
        return index.step == 1 and index.start in (0, start)
    if getattr(index.dtype, "kind", "O") not in "iu":
        return False
    numbers = index.to_numpy()
    begins = numbers[:1].tolist() in ([], [0], [start])
    goes_on = (numbers[1:] == numbers[:-1] + 1) | (numbers[1:] == 0)
    return begins and bool(goes_on.all())


def row_labels(table):
    """The index of a table or a Series in memory, or None if it has none."""
    labelled = has_row_labels(table) or is_series(table)
    index = table.index if labelled else None
    return None if hasattr(index, "compute") else index


def check_row_labels(tables, of_other_rows=()):
    """Raise a ValueError if the labels of the rows of some tables in memory disagree.

    Labels must be the same in the same order, of all tables that have some. An index
    that only counts rows is no label, unless it has the labels of another in another
    order. Other objects, and those of another length, are left to other checks, and so
    are all tables if one of them is a dask collection: the passes compare them.

    Parameters
    ----------
    tables : dict
        Tables, Series and other objects by their names.
    of_other_rows : collection of str, default=()
        The names of those that may have labels of other rows, such as the next ones.
    """
    if not any(hasattr(table, "__dask_graph__") for table in tables.values()):
        labels = [(name, row_labels(table)) for name, table in tables.items()]
        check_same_labels(labels, 0, of_other_rows)


def check_same_labels(labels, start=0, of_other_rows=()):
    """`check_row_labels` for pairs of a name and an index or None, of rows from
    ``start`` on."""
    labels = [pair for pair in labels if pair[1] is not None]
    if len(labels) < 2:
        return
    counting = [counts_rows(index, start) for _, index in labels]
    named = [
        pair
        for pair, counts in zip(labels, counting, strict=True)
        if not counts and pair[0] not in of_other_rows
    ]
    first, model = (named or labels)[0]
    for (name, index), counts in zip(labels, counting, strict=True):
        if len(index) != len(model) or index.equals(model):
            continue
        difference = _first_difference(index, model)
        if difference is None:
            continue
        reordered = model[0] in index and index[0] in model and set(index) == set(model)
        if not reordered and (counts or name in of_other_rows):
            continue
        what, remedy = (
            (
                "its values in the order of the rows",
                f"use {name}.reindex({first}.index)",
            )
            if reordered
            else (
                "the labels of the rows",
                "align them. An array without labels is taken by position",
            )
        )
        raise ValueError(
            f"{name} must have {what} of {first}, but has the label {difference[0]} "
            f"where {first} has {difference[1]}: {remedy}"
        )


def _first_difference(index, model):
    """The first labels that differ, as texts, or None."""
    for k in range(0, len(index), 1024):
        for pair in zip(index[k : k + 1024], model[k : k + 1024], strict=True):
            if len(set(pair)) > 1:  # missing values of pandas have no truth value
                return tuple(map(as_text, pair))
    return None


def direction_of(labels):
    """The order of the labels of rows, or of an index of texts: "ascending",
    "descending" or "neither".

    It is "unknown" for texts with years that are not read, such as dates in other
    languages, and None for labels that have no order. Dates and numbers have one, and
    so have texts that are all dates or all numbers.
    """
    kind = getattr(labels, "inferred_type", None)
    if kind is None:
        return None
    labels = labels.dropna()
    if labels.inferred_type == "string":
        readings = _readings(labels)
        if not readings:
            return "unknown" if labels.str.contains(_YEAR).all() else None
    elif all(
        level.inferred_type in _ORDERED for level in getattr(labels, "levels", [labels])
    ):
        readings = [labels]
    else:
        return None
    orders = {_order(keys) for keys in readings} - {"neither"}
    return orders.pop() if len(orders) == 1 else "neither"


def _order(keys):
    """The order of values that can be compared."""
    return (
        "ascending"
        if keys.is_monotonic_increasing
        else "descending"
        if keys.is_monotonic_decreasing
        else "neither"
    )


def _readings(texts):
    """What texts may mean: numbers, dates with the month or the day first, or parts of
    years, such as Q1 2018."""
    if texts.str.fullmatch(r"[+-]?\d+").all():
        return [texts.astype(float)]
    readings = (
        [texts.astype(float)] if texts.str.fullmatch(r"[+-]?\d*\.\d+").all() else []
    )
    readings += _dates(texts)
    # no months by their names
    alike = len(texts.str.replace(r"\d+", "0", regex=True).unique()) == 1
    if not readings and alike and texts.str.contains(_YEAR).all():
        texts = texts.str.replace(f"^(.*?)({_YEAR})", r"\2 \1", regex=True)
        readings = [
            texts.str.replace(r"\d+", lambda digits: digits[0].zfill(9), regex=True)
        ]
    return readings


def _dates(texts):
    """The dates that pandas reads, with the month or the day first: those of the first
    form in which it reads any."""
    from pandas import to_datetime

    readings = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # texts that do not tell their form
        for form in (*_MONTHS, None, "mixed"):
            for day_first in (False, True):
                with suppress(ValueError, TypeError, OverflowError):
                    readings.append(
                        to_datetime(texts, format=form, dayfirst=day_first, utc=True)
                    )
            if readings:
                break
    # pandas takes 1 for a year that is not there
    return [dates for dates in readings if dates.year.min() > 1]


def is_series(value):
    """Whether an object holds one value for each of its labels, as a Series of pandas
    does."""
    return (
        hasattr(value, "index")
        and not callable(value.index)
        and hasattr(value, "to_numpy")
    )


def as_text(label):
    """A label as it is shown in a message: dates as text, without the name of their
    class."""
    return f"'{label}'" if hasattr(label, "isoformat") else repr(label)


def columns_of(X):
    """The labels of the columns of a table, or None for an array."""
    columns = getattr(X, "column_names", getattr(X, "columns", None))
    return None if columns is None else list(columns)


def column(X, j):
    """Column j of a table, by its number."""
    return X.iloc[:, j] if hasattr(X, "iloc") else X[columns_of(X)[j]]
