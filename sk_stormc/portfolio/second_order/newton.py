"""The second-order method ``solver="newton"``: for few assets whose returns are in memory.

The risk is a smooth function of the centred returns, or a sum of hinges, and the mean return is a linear term. A shift
of all returns therefore changes the linear term only. Returns and weights are scaled, so that the numbers of the
program are of size one for any unit of the returns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.core.penalties import L1, Box, Simplex
from sk_stormc.portfolio.second_order.interior_point import Program, Solution, interior_point
from sk_stormc.portfolio.second_order.limits import Limited, Limits, Turnover
from sk_stormc.portfolio.second_order.linear_programs import solve_linear_program
from sk_stormc.portfolio.second_order.program import (
    FORMULATIONS,
    Scaled,
    is_allowed,
    largest_loss,
    nothing_lost,
    shrunk,
)

__all__ = ["NewtonFit", "can_solve", "feasible", "nearly", "solve_portfolio", "solve_scaled"]

LARGEST = 4096  # number of assets above which a Hessian needs more than 128 MB
MEMORY = 2**26  # largest number of returns, half a gigabyte
COST = 2**36  # largest number of products of a Hessian, some seconds
ROUNDS = 5  # of the active-set strategy, which adds assets to a subset of them
MET = 1e-15  # rounding of a sum of weights, relative to their size
GROWTH = 4.0  # of the exponent of entropic risk from one solution to the next
FAR = 1e8  # weights, relative to a typical one, that count as infinite
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
    unit : float
        A typical size of the objective, for which rounding is negligible.
    """

    weights: np.ndarray
    value: float
    gap: float
    n_iter: int
    unit: float = 0.0


def can_solve(returns, penalty):
    """Whether Hessians are affordable, the returns are in memory, and the penalty is one of this package."""
    known = penalty is None or isinstance(penalty, (L1, Box, Simplex, Turnover, Limited))
    n_assets = returns.shape[1]
    affordable = n_assets <= LARGEST and returns.size <= MEMORY and returns.size * n_assets <= COST
    return known and type(returns) is np.ndarray and affordable


def solve_portfolio(problem, penalty, start, watch=None):
    """Minimise a portfolio's objective."""
    limits = Limits.of(penalty, problem.returns.shape[1])
    forced = limits.forced()
    if forced is not None:
        forced = nearly(penalty, forced)
        return NewtonFit(forced.astype(start.dtype), problem.value_at(forced), 0.0, 0)
    scaled = Scaled.of(problem, limits)
    there, n_iter = _held(limits, start), 0
    for round in range(ROUNDS):
        some = _solved_with(there, problem, scaled, start, watch)
        if some is None:
            return NewtonFit(start, problem.value_at(start), np.inf, 0, scaled.unit_of_value)
        n_iter += some.found.n_iter
        if not some.missing.any():
            break
        there = there | some.missing
        there = there if 2 * there.sum() <= limits.n and round < ROUNDS - 2 else np.ones(limits.n, dtype=bool)
    at_bounds, inside, more = _exact(some, problem)
    # the start is kept where nothing is better but for rounding: what it has at 0 stays there
    candidates = [start, *(feasible(penalty, w, start) for w in (at_bounds, inside))]
    values = [problem.value_at(w) for w in candidates]
    least = min((value for value in values if np.isfinite(value)), default=np.nan)
    best = next((k for k in range(3) if values[k] <= least + 1e-9 * scaled.unit_of_value), 0)
    w, value = np.asarray(candidates[best], float), values[best]
    if np.abs(w).max() > FAR * scaled.size and np.isinf(limits.implied()).any():  # it falls for ever
        return NewtonFit(start, values[0], np.inf, n_iter + more, scaled.unit_of_value)
    gap = scaled.gap(some.program_of_all, some.found_of_all, w, value)
    return NewtonFit(w, value, gap, n_iter + more, scaled.unit_of_value)


def feasible(penalty, w, start):
    """The last feasible portfolio on the way from the start to w."""
    return penalty.toward(w, start) if isinstance(penalty, Limited) else nearly(penalty, w)


def _held(limits, start):
    """A mask of the assets to solve for first: those held at the start or free to change sign. All if most are."""
    there = (start != 0) | ((limits.low != 0) & (limits.high != 0)) | (limits.low == limits.high)
    kinks = limits.limited or limits.l1 or limits.cost.any()  # these can hold an asset at 0 by a kink of the objective
    few = there.any() and 2 * there.sum() <= limits.n and not kinks
    return there if few else np.ones(limits.n, dtype=bool)


@dataclass
class _WithSome:
    """The solution with some of the assets, which is found much faster than that with all.

    Attributes
    ----------
    there : ndarray of shape (n_assets,), dtype bool
        These assets.
    scaled : Scaled
    program : Program
    found : Solution
    measure : callable
        By which the program was written.
    program_of_all, found_of_all : Program, Solution
        The program with all assets, and the solution as one of it.
    missing : ndarray of shape (n_assets,), dtype bool
        Which of the other assets may lower the bound of the objective.
    """

    there: np.ndarray
    scaled: Scaled
    program: Program
    found: Solution
    measure: Callable
    program_of_all: Program
    found_of_all: Solution
    missing: np.ndarray


def _solved_with(there, problem, scaled, start, watch):
    """The solution with some of the assets; None if none was found."""
    few = there.sum()
    of = scaled if there.all() else scaled.among(there)

    def see(x):
        watch(_of_all(there, x[:few] * scaled.size))

    def value_at(w):
        return problem.value_at(_of_all(there, w))

    program, found, measure = solve_scaled(problem, of, start[there], value_at, watch and see)
    if found is None:
        return None
    if there.all():
        return _WithSome(there, of, program, found, measure, program, found, ~there)
    v = _of_all(there, found.x[:few])
    program_of_all, _ = scaled.program(v * scaled.size, measure)
    found_of_all = replace(found, x=np.r_[v, found.x[few:]])
    added = scaled.bound(program_of_all, found_of_all)[1][: len(there)]
    missing = ~there & ~(added >= -ENOUGH)
    return _WithSome(there, of, program, found, measure, program_of_all, found_of_all, missing)


def _exact(some, problem):
    """The solution with what it has at a bound or a kink put there and the other weights after it; and as it is.

    The third is how many iterations that took.
    """
    found, limits, size = some.found, some.scaled.limits, some.scaled.size
    inside = w = found.x[: limits.n] * size
    held, n_iter = limits.held(found, size, len(some.program.hinges)), 0
    if np.isfinite(held).any() and not problem.ordered:  # a linear program ends at a corner
        w = np.where(np.isfinite(held), held, w)
        if np.isnan(held).any():
            there = np.full(limits.n, limits.limited) | (held != 0)  # those at 0 are left out where that is possible
            rest = some.scaled if there.all() else some.scaled.among(there)
            rest = replace(rest, limits=rest.limits.with_held(held[there]))
            again = interior_point(*rest.program(w[there], some.measure))
            w[there] = np.where(np.isfinite(held[there]), held[there], again.x[: there.sum()] * size)
            n_iter = again.n_iter
    return _of_all(some.there, w), _of_all(some.there, inside), n_iter


def _of_all(there, v):
    """The weights of some assets as weights of all."""
    w = np.zeros(len(there))
    w[there] = v
    return w


def solve_scaled(problem, scaled, start, value_at, watch=None):
    """The program of a problem, its solution, and the function of `measures` that formulated it."""
    measure = FORMULATIONS[problem.risk_measure]
    if problem.ordered:
        program, _ = scaled.program(start, measure)
        found = solve_linear_program(program)
        if watch is not None and found is not None:
            watch(found.x)
        return program, found, measure
    if problem.risk_measure == "evar" and not _spreads(scaled.p, len(start), problem.allowed):
        program, x = scaled.program(start, largest_loss)
        found = interior_point(program, x, watch=watch)
        if is_allowed(found.of_A[: len(scaled.p)], scaled.p, problem.allowed):
            return program, found, largest_loss
    program, x = scaled.program(start, measure)
    found = interior_point(program, x, watch=watch)
    if not found.done and problem.risk_measure == "entropic":
        found = _by_continuation(scaled, start, measure, found, watch)
    if found.done or problem.parameters().get("order", 1) == 1:
        return program, found, measure
    other, x = scaled.program(start, nothing_lost)  # a root is not smooth where the risk is 0
    again = interior_point(other, x, watch=watch)
    again.slope[0], again.n_iter = shrunk(again.slope[0], scaled), again.n_iter + found.n_iter

    def gap(program, found):
        w = found.x[: len(start)] * scaled.size
        return scaled.gap(program, found, w, value_at(w))

    return (other, again, nothing_lost) if gap(other, again) < gap(program, found) else (program, found, measure)


def _by_continuation(scaled, start, measure, found, watch):
    """The solution for a large exponent, from those for smaller ones: at first few periods would make up the risk."""
    n_iter, (_, x) = found.n_iter, scaled.program(start, measure)
    for k in range(int(np.ceil(np.log(max(scaled.rate, 1.0)) / np.log(GROWTH))), -1, -1):
        program, _ = replace(scaled, rate=scaled.rate / GROWTH**k).program(start, measure)
        found = interior_point(program, x, watch=watch)
        x, n_iter = found.x, n_iter + found.n_iter
    return replace(found, n_iter=n_iter)


def _spreads(p, n_assets, allowed):
    """Whether the minimiser of the largest loss is certainly not that of EVaR.

    A vertex of the dual puts weight on at most n_assets + 1 periods. Its divergence is then above the allowed one.
    """
    most = min(n_assets + 1, len(p))
    return float(np.log(np.partition(p, -most)[-most:].sum())) < -allowed


def nearly(penalty, w):
    """The weights with bounds and budget met exactly. Those that meet them up to rounding keep their last bits."""
    if isinstance(penalty, Limited):
        return penalty.nearly(w)
    if penalty is None:
        return w
    box = penalty.box if isinstance(penalty, Turnover) else penalty.as_box()
    met = box.budget is None or abs(w.sum() - box.budget) <= MET * max(abs(box.budget), np.abs(w).sum())
    return w if met and (w >= box.low).all() and (w <= box.high).all() else penalty.project(w)
