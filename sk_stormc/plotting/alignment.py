"""Alignment of an embedding with another one of the same points."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import orthogonal_procrustes

from sk_stormc.plotting.points import finite_points
from sk_stormc.utils.parameters import check_bool, short
from sk_stormc.utils.types import ArrayLike, FloatArray


def align_embedding(
    embedding: ArrayLike, reference: ArrayLike, *, rows: Any = None, scale: bool = True
) -> FloatArray:
    """Rotate, reflect, move and scale an embedding so that its points are close to
    those of another embedding.

    Neighbour embeddings do not determine orientation and position, so that two maps of
    the same points can only be compared after they are aligned. The result s (z_i - z̄)
    Q + r̄ minimises the sum of squared distances

        sum_i |s (z_i - z̄) Q + r̄ - r_i|^2

    over orthogonal matrices Q and factors s >= 0, where z_i are the points of the
    embedding, r_i those of the reference, and z̄ and r̄ their means
    (`scipy.linalg.orthogonal_procrustes`).

    Parameters
    ----------
    embedding : array-like of shape (n_points, n_components)
    reference : array-like of shape (n_reference, n_components)
    rows : slice, or array-like of int or bool, default=None
        The rows of the embedding that are the points of the reference, in its order.
        Other points are moved with them. None means all rows.
    scale : bool, default=True
        Whether to scale the embedding, or to use s = 1.

    Returns
    -------
    ndarray of shape (n_points, n_components)

    Raises
    ------
    ValueError
        If points are not finite, or if the shapes differ.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.plotting import align_embedding
    >>> reference = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    >>> turned = 2 * reference[:, ::-1] + 5
    >>> align_embedding(turned, reference).round(6) + 0.0
    array([[0., 0.],
           [4., 0.],
           [0., 1.]])
    """
    check_bool("scale", scale)
    Z, R = finite_points("embedding", embedding), finite_points("reference", reference)
    try:
        some = slice(None) if rows is None else rows
        matched = Z[some if isinstance(some, slice) else np.asarray(some)]
    except IndexError as error:
        raise ValueError(
            f"rows must be a slice, indices or a mask of {len(Z)} points, got "
            f"{short(rows)}"
        ) from error
    if matched.shape != R.shape:
        raise ValueError(
            "reference must have the shape of the "
            f"embedding{'' if rows is None else ' at rows'}, {matched.shape}, got "
            f"{R.shape}: rows selects the points of the embedding that are in the "
            "reference"
        )
    center = matched.mean(axis=0)
    Q, singular_values = orthogonal_procrustes(matched - center, R - R.mean(axis=0))
    width = np.square(matched - center).sum()
    factor = singular_values / width if scale and width > 0 else 1.0
    return factor * (Z - center) @ Q + R.mean(axis=0)
