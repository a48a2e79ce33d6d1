"""Offsets of data: what all samples have in common, and what rounding it has taken from them."""

import numpy as np

__all__ = ["grain", "offsets"]

SAMPLE = 10_000  # rows that are looked at


def offsets(X):
    """A number for each column that is near the middle of its values: their lower median, which is one of them.

    So whole numbers stay whole, and equal distances equal. Unlike a mean it is not moved by a sample far out.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)

    Returns
    -------
    ndarray of shape (n_features,)
    """
    rows = _some(X)
    middle = (len(rows) - 1) // 2
    return np.array(np.partition(rows, middle, axis=0)[middle])


def grain(X):
    """The part of squared distances that is the rounding of the data, about: numbers near 1e8 are 8 apart in float32.

    A column that is the same number everywhere counts for nothing.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)

    Returns
    -------
    float
    """
    rows = _some(X)
    steps = np.spacing(np.abs(offsets(rows))).astype(float)
    varied = rows.max(axis=0) > rows.min(axis=0)
    return float(np.square(steps[varied]).sum() / 6)  # each of two numbers is off by up to half a step


def _some(X):
    """Rows at even distances, at most about `SAMPLE`."""
    return np.asarray(X[:: -(-len(X) // SAMPLE)])
