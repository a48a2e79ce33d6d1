"""By how much an objective is above its minimum at most, at weights that any method has found."""

import numpy as np

from sk_stormc.portfolio.interior_point import interior_point
from sk_stormc.portfolio.limits import Limits, implied
from sk_stormc.portfolio.linear_bound import lowest
from sk_stormc.portfolio.measures import MEASURES
from sk_stormc.portfolio.newton import can_solve
from sk_stormc.portfolio.problem import typical_size
from sk_stormc.portfolio.scaled import Scaled

__all__ = ["dual_gap", "slope_gap"]

ITERATIONS = 10  # of Newton's method: more often than not the bound is then within a tenth
LARGEST = 2**22  # returns, of more of which a Hessian is dear


def slope_gap(problem, penalty, w):
    """By how much the objective of a smooth risk is above its minimum at most: c @ (w - s) + R(w) - R(s) over all s.

    c is the gradient. Weights that may go on without end are taken within twice the largest weight around w.
    """
    with np.errstate(all="ignore"):  # weights of a run that overflowed have no gap
        c = np.asarray(problem.gradient(w), float)
        w, scale = np.asarray(w, float), np.asarray(problem._inverse_variance(), float)
        # in the returns' own precision: products of a block of a file with other numbers would copy it
        y = problem.returns @ w.astype(problem.returns.dtype)
        best, finite = lowest(penalty, w, c, scale, typical_size(y))
        if best is None:
            return np.nan
        value = 0.0 if penalty is None else penalty.value(w)
        # w is one of the s; the best is found but for a part in 1e8, which is more than the gap of an exact minimum
        return float(np.maximum(c @ (w - best) + value - finite.value(best), 0.0))


def dual_gap(problem, penalty, w, gap):
    """The gap by the multipliers of a few iterations of Newton's method, where these are cheap.

    They bound the minimum from below wherever the iterations stand, and nearly always better than the gradient of w.

    Parameters
    ----------
    problem : PortfolioProblem
    penalty : object of `sk_stormc.penalties`, Turnover or None
    w : ndarray of shape (n_assets,)
    gap : float
        What is known without.

    Returns
    -------
    float
        At most ``gap``, which it is where returns are many or in a file, and where weights may go on without end.
    """
    limits, w = Limits.of(penalty, problem.returns.shape[1]), np.asarray(w, float)
    low, high = (limits.low, limits.high) if limits.budget is None else implied(limits.low, limits.high, limits.budget)
    endless = np.isinf(low).any() or np.isinf(high).any()
    if endless or problem.returns.size > LARGEST or not can_solve(problem.returns, penalty) or not np.isfinite(w).all():
        return gap
    scaled = Scaled.of(problem, limits)
    program, x = scaled.program(w, MEASURES[problem.risk_measure])
    found = interior_point(program, x, ITERATIONS)
    return float(np.fmin(gap, scaled.gap(program, found, w, problem.value_at(w))))
