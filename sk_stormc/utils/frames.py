"""Tables and series with labels, of pandas, polars, pyarrow and dask. None of these is imported: what they have counts.

These are the only places that ask a user's object for it.
"""

__all__ = ["column", "columns_of", "has_row_labels", "is_series", "is_table"]


def is_table(X):
    """Whether an object is a table whose columns have types of their own."""
    # a delayed object of dask has every attribute, but its shape is not a tuple
    return hasattr(X, "columns") and hasattr(X, "dtypes") and isinstance(X.shape, tuple)


def has_row_labels(X):
    """Whether an object is a table with labels for its rows too, as a frame of pandas is."""
    return hasattr(X, "columns") and hasattr(X, "index")


def is_series(value):
    """Whether an object holds one value for each of its labels, as a Series of pandas does."""
    return hasattr(value, "index") and not callable(value.index) and hasattr(value, "to_numpy")


def columns_of(X):
    """The labels of the columns of a table; None for an array."""
    columns = getattr(X, "column_names", getattr(X, "columns", None))
    return None if columns is None else list(columns)


def column(X, j):
    """Column j of a table, by its number."""
    return X.iloc[:, j] if hasattr(X, "iloc") else X[columns_of(X)[j]]
