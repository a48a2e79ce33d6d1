"""The common offset of the samples, and the rounding error that it causes in distances."""

import numpy as np

__all__ = ["grain", "offsets"]

SAMPLE = 10_000  # largest number of rows that are used


def offsets(X):
    """The lower median of each column.

    It is one of the column's values. Therefore integers stay integers, and equal distances stay equal, after it is
    subtracted. Unlike the mean it is robust against outliers.
    """
    rows = _some(X)
    middle = (len(rows) - 1) // 2
    return np.array(np.partition(rows, middle, axis=0)[middle])


def grain(X):
    """An estimate of the rounding error of squared distances: float32 numbers near 1e8 are 8 apart, for example.

    Constant columns are ignored.
    """
    rows = _some(X)
    steps = np.spacing(np.abs(offsets(rows))).astype(float)
    varied = rows.max(axis=0) > rows.min(axis=0)
    return float(np.square(steps[varied]).sum() / 6)  # variance of the difference of two rounding errors


def _some(X):
    """Evenly spaced rows, at most about `SAMPLE` of them."""
    return np.asarray(X[:: -(-len(X) // SAMPLE)])
