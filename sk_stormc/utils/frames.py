"""Labels of tables and series of pandas, polars, pyarrow and dask, none of which is imported.

Only these functions access the attributes by which such objects are recognised.
"""

import re

__all__ = [
    "categories_of",
    "column",
    "columns_of",
    "direction_of",
    "has_row_labels",
    "is_lazy",
    "is_series",
    "is_table",
    "rows_of",
]


_ORDERED = ("integer", "floating", "mixed-integer-float", "datetime64", "datetime", "date", "period", "timedelta64")


def is_table(X):
    """Whether an object is a table whose columns have types of their own."""
    # a delayed object of dask has every attribute, but its shape is not a tuple
    return isinstance(getattr(X, "shape", None), tuple) and hasattr(X, "columns") and hasattr(X, "dtypes")


def has_row_labels(X):
    """Whether an object is a table with labels for its rows too, as a frame of pandas is."""
    return hasattr(X, "columns") and hasattr(X, "index")


def is_lazy(X):
    """Whether an object is a query that has not run yet, such as a LazyFrame of polars."""
    return callable(getattr(X, "collect", None)) and not hasattr(X, "shape")


def rows_of(X):
    """The labels of the rows of a table, or None if it has no row labels."""
    return list(X.index) if has_row_labels(X) else None


def direction_of(X):
    """The order of the row labels: "ascending", "descending" or "neither", or None if they cannot be ordered.

    Dates and numbers can be ordered, and so can texts that are all dates, such as "2020-01-31" or "31/01/2020".
    """
    index = X.index if has_row_labels(X) else None
    kind = getattr(index, "inferred_type", None)
    if kind == "string":
        keys = _dates(index)
        if keys is None:
            return None
        ascending, descending = keys == sorted(keys), keys == sorted(keys, reverse=True)
    elif kind in _ORDERED:
        ascending, descending = index.is_monotonic_increasing, index.is_monotonic_decreasing
    else:
        return None
    return "ascending" if ascending else "descending" if descending else "neither"


def _dates(texts):
    """Keys in the order of texts that are all dates, or None. Months are not above 12, which tells them from days."""
    if all(re.match(r"\d{4}-\d\d", text) for text in texts):
        return list(texts)
    parts = [re.match(r"(\d\d?)[./-](\d\d?)[./-](\d{4})", text) for text in texts]
    if not all(parts):
        return None
    numbers = [tuple(map(int, part.groups())) for part in parts]
    if max(first for first, _, _ in numbers) > 12:
        return [(year, month, day) for day, month, year in numbers]
    return [(year, month, day) for month, day, year in numbers] if max(n[1] for n in numbers) > 12 else None


def is_series(value):
    """Whether an object holds one value for each of its labels, as a Series of pandas does."""
    return hasattr(value, "index") and not callable(value.index) and hasattr(value, "to_numpy")


def categories_of(values):
    """The categories of a Categorical of pandas or an Enum of polars, in their order, or None for other values."""
    categories = getattr(getattr(values, "dtype", None), "categories", None)
    return list(categories) if hasattr(categories, "__len__") else None


def columns_of(X):
    """The labels of the columns of a table, or None for an array."""
    columns = getattr(X, "column_names", getattr(X, "columns", None))
    return None if columns is None else list(columns)


def column(X, j):
    """Column j of a table, by its number."""
    return X.iloc[:, j] if hasattr(X, "iloc") else X[columns_of(X)[j]]
