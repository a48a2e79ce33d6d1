"""Data must be numbers: NumPy and scikit-learn would turn dates into days or microseconds since 1970 without a word."""

import numpy as np

from sk_stormc.utils.frames import column, columns_of, is_lazy, is_table
from sk_stormc.utils.validation import short

__all__ = ["refuse_no_numbers"]

TEXT = ("str", "string", "String")  # pandas' and polars' names


def refuse_no_numbers(name, data):
    """Raise for dates, durations, masked values, and columns of a frame that hold text or other objects, no numbers."""
    if not isinstance(data, np.ndarray) and is_lazy(data):
        raise ValueError(f"{name} must be in memory, got a {type(data).__name__}: call its method collect() first")
    if np.ma.is_masked(data):  # NumPy and scikit-learn would take what the mask hides
        raise ValueError(f"{name} must have all its values, got {np.ma.count_masked(data)} that are masked: fill them")
    if not isinstance(getattr(data, "shape", ()), tuple):  # dask's delayed objects have every attribute
        return
    if not isinstance(data, np.ndarray) and is_table(data):
        for j, dtype in enumerate(data.dtypes):
            if not _holds_numbers(dtype, lambda j=j: column(data, j)):
                raise ValueError(
                    f"{name} must be numbers, but column {columns_of(data)[j]!r} holds {dtype}: leave it out"
                )
        return
    if isinstance(data, (list, tuple)):
        try:
            data = np.asarray(data)
        except ValueError:  # rows of different lengths, which a later check names
            return
    kind = getattr(getattr(data, "dtype", None), "kind", "f")
    if kind in "mM" or (kind == "O" and isinstance(data, np.ndarray) and _holds_dates(data)):
        first = np.asarray(data).ravel()[:1]
        raise ValueError(f"{name} must be numbers, got {data.dtype} values such as {short(first)}")


def _holds_numbers(dtype, values_of):
    if str(dtype) in TEXT or (hasattr(dtype, "is_temporal") and dtype.is_temporal()):
        return False
    kind = getattr(dtype, "kind", "f")  # types of polars have no kind
    if kind != "O":
        return kind not in "mM"
    values = np.asarray(values_of(), dtype=object)
    values = values[[type(v).__name__ != "NAType" for v in values]]  # a missing value of pandas is found later
    try:
        values.astype(float)
    except (TypeError, ValueError):
        return False
    return not _holds_dates(values)


def _holds_dates(values):
    return any(isinstance(v, (np.datetime64, np.timedelta64)) for v in values.flat)
