"""The minimum of a linear function plus a penalty, which bounds the gap of an objective."""

import numpy as np

from sk_stormc.core.penalties import Box, Simplex, as_penalty
from sk_stormc.portfolio.limits import implied
from sk_stormc.portfolio.turnover import Turnover

__all__ = ["AROUND", "lowest"]

LARGE = 1e8  # step so long that the proximal point minimises the linear objective, in standard deviations of the return
AROUND = 2.0  # radius around w that replaces missing bounds, relative to the largest weight


def lowest(penalty, w, c, scale, deviation):
    """Minimise c @ s + R(s) over s. Weights without a bound are limited to twice the largest weight around w.

    Parameters
    ----------
    penalty : object of `sk_stormc.penalties`, Turnover or None
        The penalty R.
    w, c : ndarray of shape (n_assets,)
        The weights around which missing bounds are replaced, and the coefficients of the linear function.
    scale : ndarray of shape (n_assets,)
        Inverse variances of the assets.
    deviation : float
        Standard deviation of the portfolio's return.

    Returns
    -------
    s : ndarray of shape (n_assets,) or None
        The minimiser. None for a penalty that is not of this package.
    penalty : object
        R with the finite bounds that were used.
    """
    finite = bounded(penalty, w, AROUND * np.max(np.abs(w) / np.sqrt(scale)) * np.sqrt(scale))
    step = LARGE * max(deviation, 1e-300) * scale
    return (None if finite is None else finite.prox(-step * c, step)), finite


def bounded(penalty, w, radius):
    """The penalty with finite bounds: those that bounds and budget imply, and otherwise a radius around w."""
    if isinstance(penalty, Turnover):
        return Turnover(penalty.previous, penalty.cost, bounded(penalty.box, w, radius))
    box = as_penalty(penalty).as_box()
    if box is None or isinstance(penalty, Simplex):
        return box and penalty
    low, high = (np.broadcast_to(bound, w.shape).astype(float) for bound in (box.low, box.high))
    if box.budget is not None:
        low, high = implied(low, high, box.budget)
    low, high = np.where(np.isinf(low), w - radius, low), np.where(np.isinf(high), w + radius, high)
    return Box(np.minimum(low, w), np.maximum(high, w), budget=box.budget, alpha=box.alpha)
