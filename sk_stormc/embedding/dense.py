"""The Jacobian of the normalisers as an array, which step 9 can track. It is only for few points."""

import os

import numpy as np

__all__ = ["check_memory", "dense_jacobian"]

SHARE = 0.25  # of the machine's memory that it may take


def check_memory(size, n, d):
    """A ValueError where a tracked Jacobian of so many bytes would take too much of the machine's memory."""
    # held at the same time: the estimate, the batch's Jacobians at both points, and a product
    needed, there = 4 * size, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > SHARE * there:
        raise ValueError(
            f"jacobian='dense' of {n} points in {d} dimensions needs about {needed / 1e9:.1f} GB, more than "
            f"{SHARE:.0%} of this machine's {there / 1e9:.1f} GB; use jacobian='operator'"
        )


def dense_jacobian(points, W, kernel, per_point):
    """Of Z_k = sum_i W_ki k(D_ki) in x_k and in every x_i, or of their sum.

    Parameters
    ----------
    points : ndarray of shape (n, d)
    W : ndarray of shape (n, n)
    kernel : object
        Of kernels.py.
    per_point : bool

    Returns
    -------
    ndarray of shape (n, n d), or (1, n d)
    """
    n = len(points)
    difference = points[:, None] - points[None]
    w = kernel.base(np.einsum("kid,kid->ki", difference, difference))
    towards = (2 * W * kernel.repulsion(w))[:, :, None] * difference  # d Z_k / d x_i
    if not per_point:
        return (towards.sum(axis=0) - towards.sum(axis=1)).reshape(1, -1).astype(points.dtype)
    towards[np.arange(n), np.arange(n)] -= towards.sum(axis=1)
    return towards.reshape(n, -1).astype(points.dtype)
