"""The Jacobian of the normalisers as a dense array, which step 9 of Algorithm 1 can
track. For few points only."""

import numpy as np

from sk_stormc.utils.machine import machine_memory


def check_memory(size, n, d):
    """Raise a ValueError if a tracked Jacobian of ``size`` bytes would use too much of
    the machine's memory."""
    # in memory at the same time: the estimate, the batch's Jacobians at both points,
    # and a product
    needed, there = 4 * size, machine_memory()
    if needed > there / 4:
        raise ValueError(
            f"jacobian='dense' of {n} points in {d} dimensions needs about "
            f"{needed / 1e9:.1f} GB, more than a quarter of this machine's "
            f"{there / 1e9:.1f} GB; use jacobian='operator'"
        )


def dense_jacobian(points, chosen, left_out, near_field, kernel, per_point):
    """The Jacobian of the normalisers Z_k = sum_i W_ki k(D_ki), or of their sum, with
    respect to all points. The weights W are those of the chosen columns without the
    pairs that are left out, and those of the near field."""
    n = len(points)
    chosen = np.arange(n) if chosen is None else chosen
    W = np.bincount(chosen, minlength=n) * (n / len(chosen)) * (1 - left_out)
    if near_field:
        W += left_out - np.eye(n)
    difference = points[:, None] - points[None]
    w = kernel.base(np.einsum("kid,kid->ki", difference, difference))
    towards = (2 * W * kernel.repulsion(w))[:, :, None] * difference  # d Z_k / d x_i
    if per_point:
        towards[np.arange(n), np.arange(n)] -= towards.sum(axis=1)
    else:
        towards = towards.sum(axis=0) - towards.sum(axis=1)
    return towards.reshape(-1, points.size).astype(points.dtype)
