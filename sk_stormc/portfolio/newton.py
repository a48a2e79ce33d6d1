"""The second-order method ``solver="newton"``: for few assets whose returns are in memory.

The risk is a smooth function of the centred returns, or a sum of hinges, and the mean return is a linear term. A shift
of all returns therefore changes the linear term only. Returns and weights are scaled, so that the numbers of the
program are of size one for any unit of the returns.
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

LARGEST = 500  # number of assets above which Hessians cost too much
MEMORY = 2**26  # largest number of returns, half a gigabyte
ROUNDS = 5  # of the active-set strategy, which adds assets to a subset of them
ENOUGH = 1e-9  # largest contribution of a left-out asset to the gap, relative to the objective's size


@dataclass
class NewtonFit:
    """A solution of the second-order method.

    Attributes
    ----------
    weights : ndarray of shape (n_assets,)
    value : float
        The objective at the weights.
    gap : float
        An upper bound of the objective minus its minimum. If bounds and budget do not limit the weights, the minimum
        is over weights of at most three times the largest.
    n_iter : int
    """

    weights: np.ndarray
    value: float
    gap: float
    n_iter: int


def can_solve(returns, penalty):
    """Whether the assets are few, the returns are in memory, and the penalty is one of this package."""
    known = penalty is None or isinstance(penalty, (L1, Box, Simplex, Turnover, Limited))
    return known and type(returns) is np.ndarray and returns.shape[1] <= LARGEST and returns.size <= MEMORY


def solve_portfolio(problem, penalty, start):
    """Minimise a portfolio's objective.

    Parameters
    ----------
    problem : PortfolioProblem
        A problem of any risk measure.
    penalty : object of `sk_stormc.penalties`, Turnover or None
        Penalty of the weights.
    start : ndarray of shape (n_assets,)
        Feasible weights. They are returned if nothing better is found.

    Returns
    -------
    NewtonFit
    """
    limits = Limits.of(penalty, problem.returns.shape[1])
    forced = limits.forced()
    if forced is not None:
        return NewtonFit(forced.astype(start.dtype), problem.value_at(forced), 0.0, 0)
    scaled = Scaled.of(problem, limits)
    of = _Assets(problem, scaled, _held(limits, start))
    for round in range(ROUNDS):
        missing = of.solved(start)
        if not missing.any() or of.found is None:
            break
        there = of.there | missing
        of.there = there if 2 * there.sum() <= limits.n and round < ROUNDS - 2 else np.ones(limits.n, dtype=bool)
    if of.found is None:
        return NewtonFit(start, problem.value_at(start), np.inf, 0)
    # keep the start if the others are better by rounding only, so that its zeros stay exact zeros
    candidates = [start, *(nearly(penalty, v) for v in of.exact())]
    missed = [penalty.missed(v) if isinstance(penalty, Limited) else 0.0 for v in candidates]
    kept = [miss <= max(KEPT, missed[-1]) for miss in missed]
    values = [problem.value_at(v) if allowed else np.nan for v, allowed in zip(candidates, kept, strict=True)]
    least = min((value for value in values if np.isfinite(value)), default=np.nan)
    best = next((k for k in range(3) if values[k] <= least + 1e-9 * scaled.unit_of_value), 0)
    w, value = np.asarray(candidates[best], float), values[best]
    return NewtonFit(w, value, scaled.gap(of.program_of_all, of.found_of_all, w, value), of.n_iter)


def _held(limits, start):
    """A mask of the assets to solve for first: those held at the start or free to change sign. All if most are."""
    there = (start != 0) | ((limits.low != 0) & (limits.high != 0)) | (limits.low == limits.high)
    kinks = limits.limited or limits.l1 or limits.cost.any()  # these can hold an asset at 0 by a kink of the objective
    few = there.any() and 2 * there.sum() <= limits.n and not kinks
    return there if few else np.ones(limits.n, dtype=bool)


class _Assets:
    """The problem restricted to some assets, which is much faster, with a test whether the others can be left out."""

    def __init__(self, problem, scaled, there):
        self.problem, self.scaled, self.there, self.n_iter = problem, scaled, there, 0

    def solved(self, start):
        """Solve the restricted problem. Return a mask of the assets to add, which may lower the objective's bound."""
        n, few = len(start), self.there.sum()
        self.of = self.scaled if few == n else self.scaled.among(self.there)
        self.program, self.found, self.measure = _solved(self.problem, self.of, start[self.there], self._value_at)
        self.program_of_all, self.found_of_all = self.program, self.found
        if self.found is None:
            return np.zeros(n, dtype=bool)
        self.n_iter += self.found.n_iter
        if few == n:
            return np.zeros(n, dtype=bool)
        v = self._of_all(self.found.x[:few])
        self.program_of_all, _ = self.scaled.program(v * self.scaled.size, self.measure)
        self.found_of_all = replace(self.found, x=np.r_[v, self.found.x[few:]])
        added = self.scaled.bound(self.program_of_all, self.found_of_all)[1][:n]
        return ~self.there & ~(added >= -ENOUGH)

    def exact(self):
        """Two versions of the solution: with weights at bounds and kinks set there exactly, and as it is.

        In the first version the other weights are solved for again.
        """
        found, limits, size = self.found, self.of.limits, self.of.size
        inside = w = found.x[: limits.n] * size
        held = limits.held(found, size, len(self.program.hinges))
        if np.isfinite(held).any() and not self.problem.ordered:  # a linear program's solution is already a vertex
            w = np.where(np.isfinite(held), held, w)
            if np.isnan(held).any():
                again = interior_point(*replace(self.of, limits=limits.with_held(held)).program(w, self.measure))
                w = np.where(np.isfinite(held), held, again.x[: limits.n] * size)
                self.n_iter += again.n_iter
        return self._of_all(w), self._of_all(inside)

    def _of_all(self, v):
        w = np.zeros(len(self.there))
        w[self.there] = v
        return w

    def _value_at(self, w):
        return self.problem.value_at(self._of_all(w))


def _solved(problem, scaled, start, value_at):
    """The program of a problem, its solution, and the function of `measures` that formulated it."""
    measure = MEASURES[problem.risk_measure]
    if problem.ordered:
        program, _ = scaled.program(start, measure)
        return program, solve_linear_program(program), measure
    if problem.risk_measure == "evar" and not _spreads(scaled.p, len(start), problem.allowed):
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
        return scaled.gap(program, found, w, value_at(w))

    return (other, again, nothing_lost) if gap(other, again) < gap(program, found) else (program, found, measure)


def _spreads(p, n_assets, allowed):
    """Whether the minimiser of the largest loss is certainly not that of EVaR.

    A vertex of the dual puts weight on at most n_assets + 1 periods. Its divergence is then above the allowed one.
    """
    most = min(n_assets + 1, len(p))
    return float(np.log(np.partition(p, -most)[-most:].sum())) < -allowed


def nearly(penalty, w):
    """The weights with bounds and budget met exactly."""
    if isinstance(penalty, Limited):
        return penalty.nearly(w)
    return w if penalty is None else penalty.project(w)
