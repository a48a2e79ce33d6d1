"""The second-order method ``solver="newton"``, for few assets whose returns are in memory.

The risk is a smooth function of the centred returns, or a sum of hinges, and the mean return is a linear term. A shift
of all returns therefore changes only the linear term. Returns and weights are scaled so that the numbers in the program
are of order one for any unit of the returns.
"""

from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.core.penalties import L1, Box, Simplex
from sk_stormc.portfolio.exact.feasible_set import FeasibleSet, LinearlyConstrained, TradingCosts
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.exact.linear_programs import solve_linear_program
from sk_stormc.portfolio.exact.program import (
    FORMULATIONS,
    Scaled,
    in_dual_ball,
    is_allowed,
    largest_loss,
    without_losses,
)

__all__ = ["Optimum", "can_solve", "last_feasible", "on_bounds", "solve_portfolio", "solve_scaled"]

LARGEST = 4096  # number of assets above which a Hessian needs more than 128 MB
MEMORY = 2**26  # largest number of returns, half a gigabyte
COST = 2**36  # largest number of products in a Hessian, which take some seconds
MET = 1e-15  # rounding of a sum of weights, relative to their size
GROWTH = 4.0  # factor of the exponent of entropic risk between successive solutions
NEGLIGIBLE = 1e-9  # change of the scaled objective, per scaled weight, for which an asset is not added
FAR = 1e8  # weights, relative to a typical one, that count as infinite


@dataclass
class Optimum:
    """A solution of the second-order method."""

    weights: np.ndarray
    value: float  # the objective at the weights
    gap: float  # an upper bound of the objective minus its minimum
    n_iter: int
    unit: float = 0.0  # a typical size of the objective, relative to which rounding is negligible


def can_solve(returns, penalty):
    """Whether Hessians are affordable, the returns are in memory, and the penalty is one of this package."""
    supported = penalty is None or isinstance(penalty, (L1, Box, Simplex, TradingCosts, LinearlyConstrained))
    n_assets = returns.shape[1]
    affordable = n_assets <= LARGEST and returns.size <= MEMORY and returns.size * n_assets <= COST
    return supported and type(returns) is np.ndarray and affordable


def solve_portfolio(problem, penalty, start, callback=None):
    """Minimise a portfolio's objective. ``callback`` is called with the weights after each iteration."""
    feasible = FeasibleSet.of(penalty, problem.returns.shape[1])
    only = feasible.only_point()
    if only is not None:
        only = on_bounds(penalty, only)
        return Optimum(only.astype(start.dtype), problem.value_at(only), 0.0, 0)
    scaled = Scaled.of(problem, feasible)
    program, solution, formulation = _solve_from_nonzero(problem, scaled, start, callback)
    if solution is None:
        return Optimum(start, problem.value_at(start), np.inf, 0, scaled.unit_of_value)
    inside = solution.x[: feasible.n] * scaled.size
    at_bounds, n_more = _at_bounds(problem, scaled, program, solution, formulation)
    n_iter = solution.n_iter + n_more
    # the initial weights are returned if the improvement is only rounding: their zeros stay zeros
    candidates = [start, *(last_feasible(penalty, w, start) for w in (at_bounds, inside))]
    values = [problem.value_at(w) for w in candidates]
    least = min((value for value in values if np.isfinite(value)), default=np.nan)
    best = next((k for k in range(3) if values[k] <= least + 1e-9 * scaled.unit_of_value), 0)
    w, value = np.asarray(candidates[best], float), values[best]
    if np.abs(w).max() > FAR * scaled.size and np.isinf(feasible.implied_bounds()).any():  # there is no minimum
        return Optimum(start, values[0], np.inf, n_iter, scaled.unit_of_value)
    return Optimum(w, value, scaled.gap(program, solution, w, value), n_iter, scaled.unit_of_value)


def _solve_from_nonzero(problem, scaled, start, callback):
    """The solution for all assets, computed from that for the assets with nonzero initial weights.

    Assets that would lower the objective are added until there are none.
    """
    feasible, n_iter = scaled.feasible, 0
    # the others are at a bound of 0; costs or linear constraints may keep further weights at 0
    used = (start != 0) | ((feasible.low != 0) & (feasible.high != 0)) | (feasible.low == feasible.high)
    used |= bool(feasible.needs_presolve or feasible.l1 or feasible.cost.any())

    def expanded(v):
        all_assets = np.zeros(feasible.n)
        all_assets[used] = v[: used.sum()]
        return all_assets

    def value_at(w):
        return problem.value_at(expanded(w))

    def report(x):
        callback(expanded(x) * scaled.size)

    while True:
        if not used.any() or 2 * used.sum() > feasible.n:
            used[:] = True
        part = scaled if used.all() else scaled.restricted(used)
        program, solution, formulation = solve_scaled(problem, part, start[used], value_at, callback and report)
        if solution is None:
            return program, solution, formulation
        n_iter += solution.n_iter
        solution.n_iter = n_iter
        if used.all():
            return program, solution, formulation
        v, active_bounds = expanded(solution.x), expanded(solution.active_bounds).astype(bool) | ~used
        program, _ = scaled.program(v * scaled.size, formulation)
        solution = replace(solution, x=np.r_[v, solution.x[used.sum() :]], active_bounds=active_bounds)
        reduced_cost = scaled.risk_bound(program, solution)[1] + program.E.T @ solution.dual_E
        missing = ~used & (reduced_cost[: feasible.n] < -NEGLIGIBLE)
        if not missing.any():
            return program, solution, formulation
        used |= missing


def last_feasible(penalty, w, start):
    """The last feasible portfolio on the segment from the initial weights to w."""
    return penalty.last_feasible(w, start) if isinstance(penalty, LinearlyConstrained) else on_bounds(penalty, w)


def _at_bounds(problem, scaled, program, solution, formulation):
    """The weights with those at a bound or a kink fixed there and the others solved for again; and the iterations."""
    feasible, size = scaled.feasible, scaled.size
    w = solution.x[: feasible.n] * size
    held = feasible.fixed_weights(solution, size, len(program.hinges))
    if problem.ordered or not np.isfinite(held).any():  # a linear program has a solution at a vertex
        return w, 0
    w = np.where(np.isfinite(held), held, w)
    if not np.isnan(held).any():
        return w, 0
    some = np.full(feasible.n, feasible.needs_presolve) | (held != 0)  # weights at 0 are left out if that is possible
    rest = scaled if some.all() else scaled.restricted(some)
    rest = replace(rest, feasible=rest.feasible.with_fixed(held[some]))
    again = interior_point(*rest.program(w[some], formulation))
    w[some] = np.where(np.isfinite(held[some]), held[some], again.x[: some.sum()] * size)
    return w, again.n_iter


def solve_scaled(problem, scaled, start, value_at, callback=None):
    """The program of a problem, its solution, and the formulation of the risk that was used."""
    formulation = FORMULATIONS[problem.risk_measure]
    if problem.ordered:
        program, _ = scaled.program(start, formulation)
        solution = solve_linear_program(program)
        if callback is not None and solution is not None:
            callback(solution.x)
        return program, solution, formulation
    if problem.risk_measure == "evar" and not _needs_temperature(scaled.p, len(start), problem.allowed):
        program, x = scaled.program(start, largest_loss)
        solution = interior_point(program, x, callback=callback)
        if is_allowed(solution.dual_A[: len(scaled.p)], scaled.p, problem.allowed):
            return program, solution, largest_loss
    program, x = scaled.program(start, formulation)
    solution = interior_point(program, x, callback=callback)
    if not solution.done and problem.risk_measure == "entropic":
        solution = _by_continuation(scaled, start, formulation, solution, callback)
    if solution.done or problem.parameters().get("order", 1) == 1:
        return program, solution, formulation
    other, x = scaled.program(start, without_losses)  # the root is not smooth at a risk of 0
    again = interior_point(other, x, callback=callback)
    again.slope[0], again.n_iter = in_dual_ball(again.slope[0], scaled), again.n_iter + solution.n_iter

    def gap(program, solution):
        w = solution.x[: len(start)] * scaled.size
        return scaled.gap(program, solution, w, value_at(w))

    if gap(other, again) < gap(program, solution):
        return other, again, without_losses
    return program, solution, formulation


def _by_continuation(scaled, start, formulation, solution, callback):
    """The solution for a large exponent, from those for smaller ones: else few periods would determine the risk."""
    n_iter, (_, x) = solution.n_iter, scaled.program(start, formulation)
    for k in range(int(np.ceil(np.log(max(scaled.rate, 1.0)) / np.log(GROWTH))), -1, -1):
        program, _ = replace(scaled, rate=scaled.rate / GROWTH**k).program(start, formulation)
        solution = interior_point(program, x, callback=callback)
        x, n_iter = solution.x, n_iter + solution.n_iter
    return replace(solution, n_iter=n_iter)


def _needs_temperature(p, n_assets, allowed):
    """Whether the minimiser of the largest loss cannot be that of EVaR.

    A vertex of the dual has weight on at most n_assets + 1 periods. Its divergence is then above the allowed one.
    """
    most = min(n_assets + 1, len(p))
    return float(np.log(np.partition(p, -most)[-most:].sum())) < -allowed


def on_bounds(penalty, w):
    """The weights with bounds and budget satisfied exactly. Weights that satisfy them up to rounding are unchanged."""
    if isinstance(penalty, LinearlyConstrained):
        return penalty.on_bounds(w)
    if penalty is None:
        return w
    box = penalty.box if isinstance(penalty, TradingCosts) else penalty.as_box()
    met = box.budget is None or abs(w.sum() - box.budget) <= MET * max(abs(box.budget), np.abs(w).sum())
    return w if met and (w >= box.low).all() and (w <= box.high).all() else penalty.project(w)
