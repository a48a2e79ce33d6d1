"""The program of a portfolio: its scaled objective for the interior-point method, the
solution, and a bound of its gap.

The risk is a smooth function of the centred returns, or a sum of hinges, and the mean
return is a linear term. A shift of all returns therefore changes only the linear term.
Returns and weights are scaled so that the numbers in the program are of order one for
any unit of the returns.
"""

from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.portfolio.convex_program import (
    ACCURACY,
    INFINITE_WEIGHT,
    PROGRAM_TOLERANCE,
    Formulation,
    Hinges,
    Program,
    RiskLimit,
    lower_bound,
    risk_bound,
)
from sk_stormc.portfolio.exact.cutting_planes import minimise_by_cuts
from sk_stormc.portfolio.exact.feasible_set import FeasibleSet
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.mean_risk import shares

__all__ = ["Optimum", "Scaled", "at_size", "can_solve", "refined", "solve_portfolio"]

MAX_ASSETS = 4096  # number of assets above which a Hessian needs more than 128 MB
MAX_RETURNS = 2**26  # largest number of returns, half a gigabyte
MAX_PRODUCTS = 2**36  # largest number of products in a Hessian, which take some seconds
# how far weights may be from the typical size that a program was solved in
FAR_FROM_SIZE = 1e2


def quadratic(c, H):
    """The function c @ x + x @ H @ x / 2, with its gradient and Hessian. H is None for
    a linear function."""
    if H is None:
        zero = np.zeros((len(c), len(c)))
        return lambda x: (float(c @ x), c, zero)

    def function(x):
        Hx = H @ x
        return float(0.5 * x @ Hx + c @ x), Hx + c, H

    return function


def padded(function, n, m, slope=0.0):
    """A function of the first n of m variables as one of all, plus slope @ x."""

    def of_all(x):
        f, g, H = function(x[:n])
        if m > n:
            whole = np.zeros((m, m))
            whole[:n, :n] = H
            g, H = np.r_[g, np.zeros(m - n)], whole
        return f + float(np.sum(slope * x)), g + slope, H

    return of_all


def plus_squares(function, weight):
    """The function plus sum_j weight_j x_j^2, for the first variables x_j."""
    n = len(weight)

    def squared(x):
        f, g, H = function(x)
        g, H, first = g.copy(), H.copy(), np.arange(n)
        g[:n] += 2 * weight * x[:n]
        H[first, first] += 2 * weight
        return f + float(weight @ x[:n] ** 2), g, H

    return squared


@dataclass
class Scaled:
    """A portfolio's objective divided by ``unit_of_value``, as a function of the scaled
    weights v = w / size.

    It is -expected_return @ v plus risk_weight times the risk of Q v, plus the costs of
    the feasible set.
    """

    feasible: FeasibleSet
    # returns, divided by their median deviation, and centred if a shift changes the
    # risk by a constant
    Q: np.ndarray
    p: np.ndarray  # weights of the periods, of sum 1
    expected_return: np.ndarray
    risk_weight: float
    rate: float  # factor of the exponents of entropic risk
    size: float
    unit_of_value: float
    offset: float  # constant part of the objective, which the budget determines
    # with a limit of the risk: the mean return of the objective, the largest scaled
    # risk, and the constant part of risk - limit
    net_return: np.ndarray | None = None
    most_risk: float = np.inf
    of_limit: float = 0.0

    @classmethod
    def of(cls, task, feasible, limit=None, size=None):
        """The scaled objective of a task. With a limit of the risk, in the unit of the
        returns, the objective is the mean return alone.

        ``size`` is a typical weight, if it is known.
        """
        R, measure = np.asarray(task.returns, float), task.measure
        p = shares(len(R), task.p)
        mean = p @ R
        Q = R - mean
        deviation = np.sqrt(p @ Q**2)
        varying = deviation > 1e-13 * np.abs(R).max(axis=0)
        Q[:, ~varying] = 0.0
        unit = (
            float(np.median(deviation[varying]))
            if varying.any()
            else float(np.abs(mean).max()) or 1.0
        )
        Q = (R if measure.shift is None else Q) / unit
        risk_weight, known = task.risk_weight, size
        size = feasible.size() or np.inf
        # if only the risk restricts the weights, they may be far below the bounds
        around_zero = (
            not feasible.budget and ((feasible.low <= 0) & (feasible.high >= 0)).all()
        )
        if around_zero and limit is not None:
            size = min(size, limit / unit)
        elif around_zero and measure.power != 1 and task.return_weight and risk_weight:
            reward = max(1.0, float((np.abs(mean) / np.maximum(deviation, unit)).max()))
            size = min(size, reward / (unit * risk_weight))
        if around_zero and feasible.l2 and task.return_weight:
            size = min(size, float(np.abs(mean).max()) / feasible.l2 or np.inf)
        size = known or (size if np.isfinite(size) else 1.0)
        unit_of_return = unit * size
        # a quadratic risk is proportional to the square of the weights
        rate = risk_weight if measure.power == 1 else risk_weight * unit_of_return
        return_weight = task.return_weight - risk_weight * (measure.shift or 0.0)
        offset = 0.0
        if feasible.budget is not None:
            middle = float(np.median(mean[feasible.in_budget > 0]))
            offset = -return_weight * middle * feasible.budget
            mean = mean - middle * feasible.in_budget
        expected_return = return_weight * mean / unit
        if task.linear is not None:
            expected_return = expected_return - task.linear_weight * task.linear / unit
        of_risk = rate if measure.power else 1.0
        costs = feasible.l1, float(feasible.cost.max(initial=0.0)), feasible.l2 * size
        largest = float(np.abs(expected_return).max())
        norm = max(task.return_weight, of_risk, largest, max(costs) / unit)
        unit_of_value = unit_of_return * norm
        of_risk = of_risk / norm
        scaled = cls(
            feasible,
            Q,
            p,
            expected_return / norm,
            of_risk,
            rate,
            size,
            unit_of_value,
            offset,
        )
        return (
            scaled if limit is None else scaled._within(limit, measure, return_weight)
        )

    def _within(self, limit, measure, return_weight):
        """The mean return subject to a limit of the risk, for an objective with the
        risk weight 1: the part of the risk in its mean return becomes one of the
        limit."""
        net = 1.0 / return_weight
        of_limit = (1.0 - net) * self.offset - limit**measure.power
        return replace(
            self,
            expected_return=(1.0 - net) * self.expected_return,
            net_return=net * self.expected_return,
            offset=net * self.offset,
            most_risk=-of_limit / self.unit_of_value,
            of_limit=of_limit,
        )

    def program(self, start, formulation):
        """The `Program` for one of the formulations of a risk, and its starting
        point."""
        feasible, n = self.feasible, self.feasible.n
        v = start / self.size
        risk = formulation(self, v)
        k = 0 if risk.level is None else np.size(risk.level)
        low, high, A, lower, upper, E, e = feasible.constraints(self.size)
        A, E = (np.insert(M, [n] * k, 0.0, axis=1) for M in (A, E))
        low = np.insert(low, n, np.full(k, risk.lowest))
        high = np.insert(high, n, np.full(k, np.inf))
        m, kinks, slope = len(low), [], np.zeros(len(low))
        # |v - at| = 2 max(v - at, 0) - (v - at)
        for some, cost, at in feasible.costs():
            cost, at = cost * self.size / self.unit_of_value, at / self.size
            kinks.append(Hinges(some, -at[some], 2 * cost[some], np.zeros(some.size)))
            slope[:n] -= cost
        x = feasible.lifted(v, self.size)
        x = np.insert(x, n, risk.level) if k else x
        rows = np.zeros((0, n)) if risk.rows is None else risk.rows
        A = np.concatenate([np.pad(rows, ((0, 0), (0, m - rows.shape[1]))), A])
        lower = np.r_[np.full(len(rows), -np.inf), lower]
        upper = np.r_[np.zeros(len(rows)), upper]
        curved, limit = risk.curved or quadratic(risk.linear, risk.quadratic), None
        if self.net_return is not None:
            limit = RiskLimit(
                padded(curved, n + k, m), len(risk.hinges), self.most_risk
            )
            curved = quadratic(np.pad(-self.net_return, (0, k)), None)
        if feasible.l2:
            curved = plus_squares(
                curved,
                feasible.l2 * self.size**2 / self.unit_of_value * feasible.in_budget,
            )

        smooth = padded(curved, n + k, m, slope)
        terms = smooth, risk.hinges + kinks, low, high, A, lower, upper, E, e
        return Program(*terms, len(rows), formulation, risk.reach, limit), x

    def minimise(self, start, formulation, callback=None, x=None):
        """The solution that the interior-point method finds for one of the formulations
        of a risk, from a point x of the program if it is given."""
        program, first = self.program(start, formulation)
        return interior_point(program, first if x is None else x, callback=callback)

    def minimise_by_cuts(self, start, formulation_at, n_levels, callback=None):
        """The solution that cutting planes find for a risk that is not negative."""
        return minimise_by_cuts(self, start, formulation_at, n_levels, callback)

    def largest_return(self, start, callback=None):
        """The solution without the risk."""
        return self.minimise(
            start, lambda scaled, v: Formulation(-scaled.expected_return), callback
        )

    def restricted(self, some):
        """The same objective restricted to some assets. The other weights are 0."""
        net = self.net_return
        return replace(
            self,
            Q=self.Q[:, some],
            expected_return=self.expected_return[some],
            net_return=net if net is None else net[some],
            feasible=self.feasible.restricted(some),
        )

    def lower(self, solution):
        """A lower bound of the minimum, from the multipliers of a solution. -infinity
        if nothing proves one."""
        n, program = self.feasible.n, solution.program
        low, high = (bound / self.size for bound in self.feasible.implied_bounds())
        rest = np.minimum(program.low[n:], 0.0)  # a level may be 0
        most = program.high[n:].copy()
        largest = np.maximum(np.abs(low), np.abs(high))
        if np.isfinite(program.reach) and np.isfinite(largest).all():
            reach = program.reach * float((np.abs(self.Q) @ largest).max())
            rest[0], most[0] = max(rest[0], -reach), min(most[0], reach)
        bound = lower_bound(solution, np.r_[low, rest], np.r_[high, most])
        # constant term of |v - at| = 2 max(v - at, 0) - (v - at)
        of_costs = float(self.feasible.cost @ self.feasible.previous)
        constant = of_costs + self.offset + solution.multiplier * self.of_limit
        return bound * self.unit_of_value + constant


@dataclass
class Optimum:
    """The result of an exact method."""

    weights: np.ndarray
    value: float  # the objective at the weights
    lower: float  # a lower bound of the minimum
    n_iter: int
    unit: float = (
        0.0  # a typical size of the objective, relative to which rounding is negligible
    )
    done: bool = False  # whether the method has reached its tolerance
    reason: str | None = None  # why the method ended early, if it did
    error: float = 0.0  # of the lower bound, of a program that was solved

    @property
    def gap(self):
        """An upper bound of the objective minus its minimum."""
        return self.value - self.lower


def can_solve(task):
    """Whether Hessians are affordable, and the returns are in memory."""
    size, n_assets = task.returns.size, task.returns.shape[1]
    affordable = (
        n_assets <= MAX_ASSETS
        and size <= MAX_RETURNS
        and size * n_assets <= MAX_PRODUCTS
    )
    return type(task.returns) is np.ndarray and affordable


def solve_portfolio(task, start, callback=None, refine=True):
    """Minimise a portfolio's objective. ``callback`` is called with the weights after
    each iteration. Without ``refine``, weights at bounds and kinks are only near
    them."""
    only = task.penalty.only_point()
    if only is not None:
        only = task.penalty.on_bounds(only)
        value = task.value(only)
        unit = Scaled.of(task, task.penalty).unit_of_value
        return Optimum(only.astype(start.dtype), value, value, 0, unit)
    return at_size(
        lambda size: _solved(
            task, Scaled.of(task, task.penalty, size=size), start, callback, refine
        ),
        task.penalty,
    )


def at_size(solve, feasible):
    """The best `Optimum` of ``solve(size)``, again with the size of its weights if that
    of the program was far off, or with that of the bounds if it was not solved.

    ``solve`` also returns the scaled weights of the program's solution, and their size.
    """
    largest = float(np.abs(feasible.implied_bounds()).max())
    size, found = None, []
    for _ in range(4):
        optimum, v, size = solve(size)
        found.append(optimum)
        v = np.abs(v[: feasible.n_assets])
        # weights without bounds may grow for want of a minimum
        far = v.max() > FAR_FROM_SIZE and np.isfinite(largest)
        far = far or 0 < v.sum() < 1 / FAR_FROM_SIZE
        # the empty portfolio may be one up to rounding of large bounds
        empty = not v.any() and optimum.gap > ACCURACY * abs(optimum.value)
        if far and np.isfinite(optimum.lower):
            size = size * float(v.max())
        elif empty and np.isfinite(optimum.lower):
            size = float(np.abs(feasible.previous).max()) or size / FAR_FROM_SIZE**2
        elif FAR_FROM_SIZE * size < largest < np.inf and not optimum.done:
            size = largest
        else:
            break
    best = min(found, key=lambda optimum: optimum.value)
    return replace(best, lower=max(optimum.lower for optimum in found))


def _solved(task, scaled, start, callback, refine):
    feasible = scaled.feasible
    solution = _solve_from_nonzero(task, scaled, start, callback)
    if solution is None:
        value = task.value(start)
        found = Optimum(start, value, -np.inf, 0, scaled.unit_of_value)
        return found, start / scaled.size, scaled.size
    inside = solution.x[: feasible.n] * scaled.size
    at_bounds, n_more = refined(scaled, solution) if refine else (inside, 0)
    n_iter = solution.n_iter + n_more
    # the initial weights are returned if the improvement is only rounding: their zeros
    # stay zeros
    candidates = [
        start,
        *(feasible.last_feasible(w, start) for w in (at_bounds, inside)),
    ]
    values = [task.value(w) for w in candidates]
    least = min((value for value in values if np.isfinite(value)), default=np.nan)
    good = np.array(values) <= least + PROGRAM_TOLERANCE * scaled.unit_of_value
    best = int(good.argmax())  # the first one
    w, value = np.asarray(candidates[best], float), values[best]
    if (
        np.abs(w).max() > INFINITE_WEIGHT * scaled.size
        and np.isinf(feasible.implied_bounds()).any()
    ):  # there is no minimum
        found = Optimum(start, values[0], -np.inf, n_iter, scaled.unit_of_value)
        return found, solution.x, scaled.size
    lower = scaled.lower(solution)
    if (
        task.measure.nonnegative and not task.return_weight
    ):  # neither costs nor risk are below 0
        lower = max(lower, 0.0)
    unit = scaled.unit_of_value
    found = Optimum(w, value, lower, n_iter, unit, solution.done)
    return found, solution.x, scaled.size


def _solve_from_nonzero(task, scaled, start, callback):
    """The solution for all assets, computed from that for the assets with nonzero
    initial weights.

    Assets that would lower the objective are added until there are none.
    """
    feasible, n_iter = scaled.feasible, 0
    # the others are at a bound of 0; costs or linear constraints may keep further
    # weights at 0
    used = (
        (start != 0)
        | ((feasible.low != 0) & (feasible.high != 0))
        | (feasible.low == feasible.high)
    )
    used |= bool(
        feasible.needs_presolve
        or feasible.l1
        or feasible.cost.any()
        or task.measure.by_cuts
    )

    def expanded(v):
        all_assets = np.zeros(feasible.n)
        all_assets[used] = v[: used.sum()]
        return all_assets

    def report(x):
        callback(expanded(x) * scaled.size)

    while True:
        if not used.any() or 2 * used.sum() > feasible.n:
            used[:] = True
        part = scaled if used.all() else scaled.restricted(used)
        solve = task.measure.solve if task.risk_weight else Scaled.largest_return
        solution = solve(part, start[used], callback and report)
        if solution is None:
            return None
        n_iter += solution.n_iter
        solution.n_iter = n_iter
        if used.all():
            return solution
        v = expanded(solution.x)
        active_bounds = expanded(solution.active_bounds).astype(bool) | ~used
        active_bounds = np.r_[active_bounds, solution.active_bounds[used.sum() :]]
        program, _ = scaled.program(v * scaled.size, solution.program.formulation)
        solution = replace(
            solution,
            program=program,
            x=np.r_[v, solution.x[used.sum() :]],
            active_bounds=active_bounds,
        )
        reduced_cost = risk_bound(solution)[1] + program.E.T @ solution.dual_E
        missing = ~used & (reduced_cost[: feasible.n] < -PROGRAM_TOLERANCE)
        if not missing.any():
            return solution
        used |= missing


def refined(scaled, solution):
    """The weights with those at a bound or a kink fixed there and the others solved for
    again; and the iterations."""
    feasible, size = scaled.feasible, scaled.size
    w = solution.x[: feasible.n] * size
    held = feasible.fixed_weights(solution, size, len(solution.program.hinges))
    if solution.at_vertex or not np.isfinite(held).any():
        return w, 0
    w = np.where(np.isfinite(held), held, w)
    if not np.isnan(held).any():
        return w, 0
    # weights at 0 are left out if that is possible
    some = np.full(feasible.n, feasible.needs_presolve) | (held != 0)
    rest = scaled if some.all() else scaled.restricted(some)
    rest = replace(rest, feasible=rest.feasible.with_fixed(held[some]))
    again = rest.minimise(w[some], solution.program.formulation)
    w[some] = np.where(
        np.isfinite(held[some]), held[some], again.x[: some.sum()] * size
    )
    return w, again.n_iter
