"""Returns from a user's .npz or .csv file."""

import re

import numpy as np

from sk_stormc.experiments._files import describe, read_arrays, read_as, read_lines

__all__ = ["read_returns"]

_DATE = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])?")  # yyyymm or yyyymmdd
_MISSING_CODES = (-99.99, -999.0)  # of the French data library
_NO_NUMBER = ("", "na", "n/a", "null", "none", "-")


def read_returns(path):
    """Read a matrix of returns.

    A .npz file holds an array ``returns``, or ``returns_bp`` in basis points, or exactly one two-dimensional
    array. A .csv file has one column of numbers for each asset, with or without a row of names above them and
    a column of dates before them.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    returns : ndarray of shape (n_periods, n_assets)
        float64, in the file's unit; basis points become fractions.
    note : str
        What was done to the numbers; empty where nothing was.

    Raises
    ------
    OSError
        Where the file cannot be read.
    ValueError
        For a file of another kind or content (the message names the file and what was expected) and for
        missing values, which are named by column; -99.99 and -999 count as missing.
    """
    path, (returns, names, note) = read_as(path, {".npz": _read_npz, ".csv": _read_csv})
    missing = ~np.isfinite(returns) | np.isin(returns, _MISSING_CODES)
    if missing.any():
        column = int(np.argmax(missing.any(axis=0)))
        raise ValueError(
            f"{path}: expected finite returns, column {names[column]!r} has {missing[:, column].sum()} missing or "
            f"infinite of {len(returns)} (the first is period {np.argmax(missing[:, column]) + 1})"
        )
    return returns, note


def _read_npz(path):
    arrays = read_arrays(path)
    keys = [key for key in ("returns", "returns_bp") if key in arrays]
    keys = keys or [name for name, array in arrays.items() if array.ndim == 2]
    if len(keys) != 1 and "returns" not in keys:
        raise ValueError(
            f"{path}: expected an array 'returns' or one two-dimensional array, found {describe(arrays)}"
        )
    array = arrays[keys[0]]
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iuf":
        raise ValueError(
            f"{path}: expected {keys[0]!r} to hold real numbers, of shape (n_periods, n_assets), found "
            f"{array.dtype} of shape {array.shape}"
        )
    names, array = _numbered(array.shape[1]), array.astype(float)
    if keys[0] == "returns_bp":
        return array / 1e4, names, "returns_bp divided by 10,000"
    return array, names, ""


def _read_csv(path):
    lines = read_lines(path)
    expected = "expected a column of numbers for each asset, perhaps names above and dates before them"
    if not lines:
        raise ValueError(f"{path}: {expected}; found no line")
    first = lines[0][1]
    has_names = any(_number(cell) is None for cell in first[1:] or first)
    header = first if has_names else _numbered(len(first))
    body = lines[1:] if has_names else lines
    if not body:
        raise ValueError(f"{path}: {expected}; found no row of numbers")
    for number, row in body:
        if len(row) != len(header):
            raise ValueError(f"{path}, line {number}: expected {len(header)} columns, found {len(row)}")
    skip = int(len(header) > 1 and _is_date_column(header[0], [row[0] for _, row in body]))
    names, values = header[skip:], np.empty((len(body), len(header) - skip))
    for i, (number, row) in enumerate(body):
        for j, cell in enumerate(row[skip:]):
            value = _number(cell)
            if value is None:
                raise ValueError(f"{path}, line {number}: {expected}; found {cell!r} in column {names[j]!r}")
            values[i, j] = value
    return values, names, ""


def _numbered(n_columns):
    return [str(i + 1) for i in range(n_columns)]


def _number(cell):
    """The cell's number, NaN where it is missing, None where it is something else."""
    if cell.lower() in _NO_NUMBER:
        return np.nan
    try:
        return float(cell)
    except ValueError:
        return None


def _is_date_column(name, cells):
    if name.lower() in ("", "date", "index"):  # "": pandas' unnamed index
        return True
    return all(_number(cell) is None or _DATE.fullmatch(cell) for cell in cells)
