"""Points of embeddings: the checks, and a second axis for those of one component."""

import numpy as np

from sk_stormc.utils.arrays import all_finite, as_numbers
from sk_stormc.utils.parameters import short


def finite_points(name, value):
    """The finite coordinates of points, as an array."""
    points = as_numbers(name, value)
    if points.ndim != 2 or not points.size or not all_finite(points):
        raise ValueError(
            f"{name} must be finite and of shape (n_points, n_components), got "
            f"{short(points)}"
        )
    return points


def spread_out(Z):
    """Points of one component, spread along a second axis by a low-discrepancy
    sequence. Others do not change."""
    if Z.shape[1] > 1:
        return Z
    return np.column_stack([Z[:, 0], np.arange(len(Z)) * 0.6180339887 % 1])
