"""Points, and perhaps labels, from a user's file."""

import numpy as np

from sk_stormc.reproduce.files import describe, read_array, read_arrays, read_as
from sk_stormc.reproduce.text_table import Numbers, read_cells

__all__ = ["read_points"]

LABELS = ("y", "label", "labels", "target")


def read_points(path):
    """Read a matrix of points and their labels.

    A .npz file holds an array ``X``, or exactly one two-dimensional array, and perhaps a vector ``y``; a .npy file
    holds X. A .csv, .tsv or .txt file has a row of names and a row of numbers for each point, separated by commas,
    semicolons, tabs or blanks; a column named y, label, labels or target holds the labels.
    """
    texts = dict.fromkeys((".csv", ".tsv", ".txt"), _read_text)
    path, (X, y) = read_as(path, {".npz": _read_npz, ".npy": _read_npy, **texts})
    if len(X) < 10 or not np.isfinite(X).all():
        raise ValueError(f"{path}: expected at least 10 points, all numbers finite, found shape {X.shape}")
    return X, None if y is None else np.unique(y, return_inverse=True)[1]


def _read_npz(path):
    arrays = read_arrays(path)
    names = [name for name, a in arrays.items() if a.ndim == 2 and a.dtype.kind in "iuf"]
    names = [name for name in names if name == "X"] or names
    if len(names) != 1:
        raise ValueError(
            f"{path}: expected an array 'X' or one two-dimensional array of numbers, found {describe(arrays)}"
        )
    X, y = arrays[names[0]].astype(float), arrays.get("y")
    if y is not None and y.shape != (len(X),):
        raise ValueError(f"{path}: expected y of shape ({len(X)},), found {describe(arrays)}")
    return X, y


def _read_npy(path):
    X = read_array(path)
    if X.ndim != 2 or X.dtype.kind not in "iuf":
        raise ValueError(f"{path}: expected a two-dimensional array of numbers, found {X.dtype} of shape {X.shape}")
    return X.astype(float), None


def _read_text(path):
    rows = [cells for _, cells in read_cells(path)]
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(f"{path}: expected a row of names and rows of as many numbers")
    names, columns = [name.lower() for name in rows[0]], list(zip(*rows[1:], strict=True))
    labels = [k for k, name in enumerate(names) if name in LABELS]
    features = [column for k, column in enumerate(columns) if k not in labels]
    numbers = Numbers(cell for column in features for cell in column)
    values = [[numbers.value(cell) for cell in column] for column in features]
    for column, found in zip(features, values, strict=True):
        if None in found:
            wrong = column[found.index(None)]
            raise ValueError(f"{path}: expected numbers below the row of names, found {wrong!r}")
    X = np.array(values).T
    return X, np.array(columns[labels[0]]) if labels else None
