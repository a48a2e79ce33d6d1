"""The least value of a linear function among the weights that a penalty allows: what bounds of a gap rest on."""

import numpy as np

from sk_stormc.core.penalties import Box, Simplex, as_penalty
from sk_stormc.portfolio.limits import implied
from sk_stormc.portfolio.turnover import Turnover

__all__ = ["AROUND", "lowest"]

LARGE = 1e8  # a step after which a proximal point is that of a linear objective, in units of the portfolio's deviation
AROUND = 2.0  # radius within which a bound holds where weights have none, relative to the largest weight


def lowest(penalty, w, c, scale, deviation):
    """Where c @ s + R(s) is least; weights that may go on without end are within twice the largest around w.

    Parameters
    ----------
    penalty : object of `sk_stormc.penalties`, Turnover or None
        R.
    w, c : ndarray of shape (n_assets,)
    scale : ndarray of shape (n_assets,)
        Inverse variances of the assets.
    deviation : float
        Of the portfolio's return.

    Returns
    -------
    s : ndarray of shape (n_assets,), or None for a penalty that is not one of sk_stormc
    penalty : object
        R with the bounds that were taken.
    """
    finite = bounded(penalty, w, AROUND * np.max(np.abs(w) / np.sqrt(scale)) * np.sqrt(scale))
    step = LARGE * max(deviation, 1e-300) * scale
    return (None if finite is None else finite.prox(-step * c, step)), finite


def bounded(penalty, w, radius):
    """The penalty with finite bounds: those that follow from bounds and budget, else radius around w."""
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
