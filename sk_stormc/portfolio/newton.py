"""The second-order method of the portfolios, ``solver="newton"``: for few assets whose returns are in memory.

A risk is written as a smooth function, or by hinges, of the centred returns, and the mean return as a linear term. So a
shift of all returns changes the linear term alone. Returns and weights are measured in units of their own, so that the
program is about numbers of size one whatever the unit of the returns.
"""

from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.core.penalties import L1, Box, Simplex
from sk_stormc.portfolio.interior_point import interior_point
from sk_stormc.portfolio.limits import KEPT, Limited, Limits
from sk_stormc.portfolio.linear_program import solve_linear_program
from sk_stormc.portfolio.measures import MEASURES, is_allowed, largest_loss, nothing_lost, shrunk
from sk_stormc.portfolio.scaled import Scaled
from sk_stormc.portfolio.turnover import Turnover

__all__ = ["NewtonFit", "can_solve", "solve_portfolio"]

LARGEST = 500  # assets, beyond which Hessians are dear
MEMORY = 2**26  # entries of the returns, half a gigabyte


@dataclass
class NewtonFit:
    """What the method found.

    Attributes
    ----------
    weights : ndarray of shape (n_assets,)
    value : float
        The objective there.
    gap : float
        The objective is above its minimum by this much at most. Where bounds and budget leave weights free, this holds
        among weights up to three times the largest.
    n_iter : int
    """

    weights: np.ndarray
    value: float
    gap: float
    n_iter: int


def can_solve(returns, penalty):
    """Whether the assets are few, the returns in memory, and the penalty one of this library."""
    known = penalty is None or isinstance(penalty, (L1, Box, Simplex, Turnover, Limited))
    return known and type(returns) is np.ndarray and returns.shape[1] <= LARGEST and returns.size <= MEMORY


def solve_portfolio(problem, penalty, start):
    """Minimise a portfolio's objective.

    Parameters
    ----------
    problem : PortfolioProblem
        Of any risk measure.
    penalty : object of `sk_stormc.penalties`, Turnover or None
        On the weights.
    start : ndarray of shape (n_assets,)
        Feasible weights. They are returned where nothing better is found.

    Returns
    -------
    NewtonFit
    """
    limits = Limits.of(penalty, problem.returns.shape[1])
    forced = limits.forced()
    if forced is not None:
        return NewtonFit(forced.astype(start.dtype), problem.value_at(forced), 0.0, 0)
    scaled = Scaled.of(problem, limits)
    program, found, measure = _solved(problem, scaled, start)
    if found is None:
        return NewtonFit(start, problem.value_at(start), np.inf, 0)
    linear = problem.ordered
    inside = found.x[: limits.n] * scaled.size
    w, n_iter = inside, found.n_iter
    held = limits.held(found, scaled.size, len(program.hinges))
    if np.isfinite(held).any() and not linear:  # a linear program ends at a corner
        # the method stays inside: what is at a bound or a kink is put there, and the other weights follow
        w = np.where(np.isfinite(held), held, w)
        if np.isnan(held).any():
            inner = replace(scaled, limits=limits.with_held(held))
            again = interior_point(*inner.program(w, measure))
            w, n_iter = np.where(np.isfinite(held), held, again.x[: limits.n] * scaled.size), n_iter + again.n_iter
    # the start is kept where nothing is better but for rounding: what it has at 0 stays there
    candidates = [start, *(nearly(penalty, v) for v in (w, inside))]
    missed = [penalty.missed(v) if isinstance(penalty, Limited) else 0.0 for v in candidates]
    kept = [miss <= max(KEPT, missed[-1]) for miss in missed]
    values = [problem.value_at(v) if allowed else np.nan for v, allowed in zip(candidates, kept, strict=True)]
    least = min((value for value in values if np.isfinite(value)), default=np.nan)
    best = next((k for k in range(3) if values[k] <= least + 1e-9 * scaled.unit_of_value), 0)
    w, value = np.asarray(candidates[best], float), values[best]
    return NewtonFit(w, value, scaled.gap(program, found, w, value), n_iter)


def _solved(problem, scaled, start):
    """The program of a problem, its solution, and the measure by which it was written."""
    measure = MEASURES[problem.risk_measure]
    if problem.ordered:
        program, _ = scaled.program(start, measure)
        return program, solve_linear_program(program), measure
    if problem.risk_measure == "evar":
        program, x = scaled.program(start, largest_loss)
        found = interior_point(program, x)
        if is_allowed(found.of_A[: len(scaled.p)], scaled.p, problem.allowed):
            return program, found, largest_loss
    program, x = scaled.program(start, measure)
    found = interior_point(program, x)
    if found.done or problem.parameters().get("order", 1) == 1:
        return program, found, measure
    other, x = scaled.program(start, nothing_lost)  # a root is not smooth where the risk is 0
    again = interior_point(other, x)
    again.slope[0], again.n_iter = shrunk(again.slope[0], scaled), again.n_iter + found.n_iter

    def gap(program, found):
        w = found.x[: len(start)] * scaled.size
        return scaled.gap(program, found, w, problem.value_at(w))

    return (other, again, nothing_lost) if gap(other, again) < gap(program, found) else (program, found, measure)


def nearly(penalty, w):
    """Weights whose bounds and budget are kept exactly."""
    if isinstance(penalty, Limited):
        return penalty.nearly(w)
    return w if penalty is None else penalty.project(w)
