"""Upper bounds of the gap between an objective and its minimum, at weights found by any method."""

import numpy as np

from sk_stormc.portfolio.interior_point import interior_point
from sk_stormc.portfolio.limits import Limits
from sk_stormc.portfolio.linear_bound import linear_minimum
from sk_stormc.portfolio.measures import MEASURES
from sk_stormc.portfolio.newton import can_solve
from sk_stormc.portfolio.quadratic import solve_quadratic
from sk_stormc.portfolio.scaled import Scaled
from sk_stormc.portfolio.sums import sums_of

__all__ = ["dual_gap", "is_cheap", "slope_gap"]

ITERATIONS = 10  # of Newton's method, after which the bound is usually within a tenth of the gap
ENDLESS = 30  # of them where a weight has no bound, so that every error of a multiplier counts
CHEAP = 2**30  # largest number of products of a Hessian


def slope_gap(problem, penalty, w):
    """An upper bound of the gap of a smooth convex objective: the maximum of c @ (w - s) + R(w) - R(s) over s.

    c is the gradient at w. Weights without a bound are limited to twice the largest weight around w.
    """
    with np.errstate(all="ignore"):  # after an overflow the gap is NaN
        c = np.asarray(problem.gradient(w), float)
        value = 0.0 if penalty is None else penalty.value(w)
        return float(np.maximum(c @ w + value - linear_minimum(penalty, c, np.asarray(w, float)), 0.0))


def is_cheap(problem, penalty):
    """Whether a few Hessians, for a tight bound of the gap, are cheap."""
    return problem.returns.size * problem.returns.shape[1] <= CHEAP and can_solve(problem.returns, penalty)


def dual_gap(problem, penalty, w, gap):
    """A better bound of the gap, by the multipliers of a few iterations of Newton's method, where these are cheap.

    The multipliers give a lower bound of the minimum after any number of iterations. It is nearly always tighter than
    the bound by the gradient at w.
    """
    limits, w = Limits.of(penalty, problem.returns.shape[1]), np.asarray(w, float)
    if not is_cheap(problem, penalty) or not np.isfinite(w).all():
        return gap
    if penalty is None and problem.risk_measure == "variance":  # the exact gap, however far the minimum is
        covariance = sums_of(problem.returns, problem.weights).covariance()
        best = solve_quadratic(problem._gain * problem._mean, problem._price * covariance, None, w)
        return float(max(problem.value_at(w) - best.value, 0.0)) + best.gap
    scaled = Scaled.of(problem, limits)
    program, x = scaled.program(w, MEASURES[problem.risk_measure])
    found = interior_point(program, x, ENDLESS if np.isinf(limits.implied()).any() else ITERATIONS)
    return float(np.fmin(gap, scaled.gap(program, found, w, problem.value_at(w))))
