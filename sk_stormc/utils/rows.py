"""Checks of rows of data and of their weights: a ValueError names the table, the column
and the row."""

import numpy as np
from scipy import sparse

from sk_stormc.utils.arrays import all_finite, as_numbers, check_unmasked
from sk_stormc.utils.frames import (
    as_text,
    column,
    columns_of,
    is_lazy,
    is_table,
    rows_of,
)
from sk_stormc.utils.parameters import short
from sk_stormc.utils.warnings import warn

TEXT = ("str", "string")  # pandas' names


def check_weights(sample_weight, n, where):
    """Weights of n rows: an array of finite numbers >= 0, not all zero. Errors use
    ``where`` to name a row."""
    weights = as_numbers("sample_weight", sample_weight)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must be of shape ({n},), got {weights.shape}")
    check_not_negative(weights, where)
    if not weights.any():
        raise ValueError("sample_weight must have a positive entry, got only zeros")
    return weights


def check_not_negative(weights, where, start=0):
    """Raise a ValueError unless weights of rows, of which the first has the number
    ``start``, are finite and >= 0."""
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"sample_weight must be finite and >= 0, got {weights[k]} {where} "
            f"{start + k}"
        )


def row_weights(sample_weight, n, all_zero=False, where="in row"):
    """Weights of n rows. None means ones, and a number is used for all rows. All may be
    0 only if ``all_zero``. Errors use ``where`` to name a row."""
    if sample_weight is None:
        return np.ones(n)
    weights = as_numbers("sample_weight", sample_weight)
    weights = np.full(n, weights) if weights.ndim == 0 else weights
    nothing = all_zero and weights.shape == (n,) and not weights.any()
    return weights if nothing else check_weights(weights, n, where)


def check_in_memory(name, data):
    """Raise a ValueError for queries that have not run yet, and for masked values."""
    if not isinstance(data, np.ndarray) and is_lazy(data):
        raise ValueError(
            f"{name} must be in memory, got a {type(data).__name__}: call its method "
            "collect() first"
        )
    check_unmasked(name, data)


def check_numeric(name, data):
    """Raise a ValueError for dates, durations, masked values and columns of text or
    objects.

    NumPy and scikit-learn would silently convert dates to days or microseconds since
    1970.
    """
    check_in_memory(name, data)
    # dask's delayed objects have every attribute
    if not isinstance(getattr(data, "shape", ()), tuple):
        return
    if not isinstance(data, np.ndarray) and is_table(data):
        for j, (label, dtype) in enumerate(
            zip(columns_of(data), data.dtypes, strict=True)
        ):
            values = None
            if getattr(dtype, "kind", None) == "O" and str(dtype) not in TEXT:
                values = np.asarray(column(data, j), dtype=object)
                missing = [type(value).__name__ == "NAType" for value in values]
                if any(missing):  # NumPy does not convert them
                    row = (rows_of(data) or range(len(values)))[missing.index(True)]
                    raise ValueError(
                        f"{name} must have all its values, got <NA> in column "
                        f"{label!r}, first in row {as_text(row)}: "
                        "fill them in, or leave out such rows or columns"
                    )
            if not _holds_numbers(dtype, values):
                raise ValueError(
                    f"{name} must be numbers, but column {label!r} holds {dtype}: "
                    "leave it out, or encode it. sk_stormc.preprocessing.TableScaler "
                    "encodes tables with columns of several types"
                )
            if getattr(dtype, "ordered", None) is False:
                warn(
                    f"column {label!r} of {name} holds categories, which are read as "
                    "numbers. Encode them, as sklearn.preprocessing.OneHotEncoder and "
                    "sk_stormc.preprocessing.TableScaler do, or convert the column to "
                    "numbers if its order has a meaning",
                    UserWarning,
                )
        return
    if isinstance(data, (list, tuple)):
        try:
            data = np.asarray(data)
        except ValueError:  # rows of different lengths, which a later check reports
            return
    kind = getattr(getattr(data, "dtype", None), "kind", "f")
    if kind in "mM" or (
        kind == "O" and isinstance(data, np.ndarray) and _holds_dates(data)
    ):
        first = np.asarray(data).ravel()[:1]
        raise ValueError(
            f"{name} must be numbers, got {data.dtype} values such as {short(first)}"
        )


def check_finite(name, expected, blocks, data, remedy):
    """Raise a ValueError for missing or infinite numbers, with their columns, the first
    row and a remedy.

    ``blocks`` yields the number of the first row and the numbers of each block of rows,
    and ``data`` are the data as the user passed them.
    """
    where, first, nan = np.zeros(1, dtype=bool), None, False
    for start, block in blocks:
        if all_finite(block.data if sparse.issparse(block) else block):
            continue
        columns, row, has_nan = _not_finite(block)
        if row is not None:
            where, nan = where | columns, nan or has_nan
            first = start + row if first is None else first
    if first is None:
        return
    columns, rows = columns_of(data) if is_table(data) else None, rows_of(data)
    places = np.flatnonzero(where)
    names = [int(j) if columns is None else columns[j] for j in places[:10]]
    more = f" and {len(places) - 10} more" if len(places) > 10 else ""
    raise ValueError(
        f"{name} must be {expected}, got {'NaN' if nan else 'infinity (inf)'} in "
        f"column{'s' * (len(places) > 1)} {names}{more}, first in row "
        f"{first if rows is None else as_text(rows[first])}. {remedy}"
    )


def _not_finite(block):
    """Which columns of a block are not finite, the first such row or None, and whether
    there is NaN."""
    if sparse.issparse(block):
        block = block.tocoo()
        wrong = ~np.isfinite(block.data)
        columns = np.bincount(block.col[wrong], minlength=block.shape[1]) > 0
        return (
            columns,
            min(block.row[wrong], default=None),
            bool(np.isnan(block.data).any()),
        )
    wrong = ~np.isfinite(block)
    of_rows = wrong.any(axis=1)
    return (
        wrong.any(axis=0),
        int(of_rows.argmax()) if of_rows.any() else None,
        bool(np.isnan(block).any()),
    )


def _holds_numbers(dtype, values):
    """Whether a column holds numbers or booleans. ``values`` are those of a column of
    objects, which may be numbers."""
    if hasattr(dtype, "is_numeric"):  # of polars
        return dtype.is_numeric() or str(dtype) == "Boolean"
    if values is None:
        return str(dtype) not in TEXT and getattr(dtype, "kind", "f") not in "mM"
    try:
        values.astype(float)
    except (TypeError, ValueError):
        return False
    return not _holds_dates(values)


def _holds_dates(values):
    return any(isinstance(v, (np.datetime64, np.timedelta64)) for v in values.flat)
