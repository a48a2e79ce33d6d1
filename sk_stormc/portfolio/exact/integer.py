"""Integer limits of a portfolio: at most so many assets, and a least weight of those
that are held.

SCIP chooses the assets (`integer_program`), and the exact methods fit their weights.
"""

import time
from dataclasses import replace

import numpy as np

from sk_stormc.engine.results import StopReason
from sk_stormc.engine.stopping import Gap
from sk_stormc.portfolio.convex_program import (
    ACCURACY,
    CONSTRAINT_TOLERANCE,
    PROGRAM_TOLERANCE,
)
from sk_stormc.portfolio.exact.feasible_set import bounds_around
from sk_stormc.portfolio.exact.integer_program import IntegerProgram, scip
from sk_stormc.portfolio.exact.program import Optimum, solve_portfolio
from sk_stormc.portfolio.exact.ratio import Ratio, net_return
from sk_stormc.portfolio.mean_risk import deviation_of

__all__ = ["WithIntegerLimits", "check_integer_limits"]

# radius that replaces missing bounds of SCIP's variables, relative to the largest
# weight; without it SCIP's relaxations are unbounded
SCIP_RADIUS = 10.0


def check_integer_limits(portfolio, measure, limits):
    """Raise a ValueError unless SCIP can take the risk measure and is the solver, or an
    ImportError without it."""
    names = " and ".join(limits.names) or "solver='scip'"
    if portfolio.solver not in ("auto", "scip"):
        raise ValueError(
            f"{names} needs solver='auto' or 'scip', got {portfolio.solver!r}"
        )
    if measure.name in ("entropic", "evar"):
        raise ValueError(
            f"{names} cannot be used with risk_measure={measure.name!r}, whose "
            "program is not quadratic"
        )
    if getattr(measure, "order", 2.0) not in (1.0, 2.0):
        raise ValueError(
            f"{names} needs order=1 or 2, got {measure.order!r}, for which the "
            "program is not quadratic"
        )
    scip()


def last_weights(portfolio, limits):
    """The weights of the last fit, for a warm start."""
    w, n_assets = np.asarray(portfolio.weights_, float), limits.min_held.size
    if len(w) != n_assets:
        raise ValueError(
            f"warm_start=True needs returns of the {len(w)} assets fitted before, got "
            f"{n_assets}"
        )
    return w


class WithIntegerLimits:
    """A goal with integer limits.

    ``goal`` is a function of the task. Each choice of assets is fitted by the exact
    method. SCIP searches for better choices.
    """

    def __init__(self, portfolio, goal, limits, tol, task):
        self.goal, self.limits, self.tol = goal, limits, max(tol, ACCURACY)
        self.time_limit = portfolio.time_limit
        self.ends = time.monotonic() + self.time_limit
        self.task, self.n = task, task.returns.shape[1]
        self.relaxed = goal(task)
        self.relaxation = self.relaxed.minimise(lambda w: None)
        self.bound = self.relaxation.lower
        w = np.asarray(self.relaxation.weights, float)
        self.feasible = task.penalty
        self.there = self.feasible.in_budget > 0
        largest = float(limits.min_held.max())
        if largest * CONSTRAINT_TOLERANCE > self._size(w):
            raise ValueError(
                "min_held must be in the unit of the weights, which are up to "
                f"{self._size(w):.3g} without it, got {largest:.6g}"
            )
        self.best, self.value = None, np.inf
        if limits.allow(w):
            self.best, self.value = w, self.relaxation.value
        else:
            self._try(self._largest(w))
            if portfolio.warm_start and hasattr(portfolio, "weights_"):
                self._try(
                    np.append(
                        last_weights(portfolio, limits), self.feasible.low[~self.there]
                    )
                )
        if self.best is None:
            self._search_for_a_start(w)
        self.start = self.best
        self.scale = self.relaxed.spread(w) or self.relaxation.unit or 1.0

    # the interface of an objective of `ExactMethod`

    def value_at(self, weights):
        """The exact objective."""
        return self.relaxed.value_at(weights)

    def allows(self, weights):
        """Whether the weights meet the integer limits and those of the objective."""
        return self.limits.allow(weights) and self.relaxed.allows(weights)

    def last_feasible(self, weights):
        """The weights themselves, which are always feasible here."""
        return weights

    def spread(self, weights):
        """The scale of the gap."""
        return self.scale

    def gap_at(self, weights):
        """A bound of the gap for the weights of a fit that ended early."""
        return max(self.value_at(weights) - self.bound, 0.0)

    def minimise(self, callback):
        """Search for the best portfolio. ``callback`` is called with each better
        one."""
        callback(self.best)
        reason = None
        if not Gap(self.value, self.bound, self.scale, self.tol).is_small:
            reason = self._search(callback)
        return Optimum(
            self.best,
            self.value,
            self.bound,
            0,
            self.relaxation.unit,
            reason=reason,
        )

    # portfolios of chosen assets

    def _try(self, chosen):
        """Fit the assets that are held in ``chosen``, with their signs. Return whether
        this is the best portfolio."""
        feasible = self.limits.only(self.feasible, chosen)
        if feasible is None:
            return False
        try:
            goal = self.goal(replace(self.task, penalty=feasible))
            solution = goal.minimise(lambda w: None)
        except ValueError:
            # no portfolio of these assets has so small a risk, or a positive mean
            # return
            return False
        w = feasible.on_bounds(np.asarray(solution.weights, float))
        met = np.isfinite(w).all() and self.limits.allow(w)
        met &= feasible.violation(w) <= PROGRAM_TOLERANCE
        value = self.value_at(w) if met else np.inf
        if not value < self.value:
            return False
        self.best, self.value = w, value
        return True

    def _largest(self, w):
        """The largest weights, as many as the limits allow; the others are 0."""
        order = np.argsort(-np.abs(np.where(self.there, w, 0.0)), kind="stable")
        m = int(self.there.sum())
        for count in range(min(self.limits.max_assets or m, m), 0, -1):
            chosen = np.where(self.there, 0.0, w)
            some = order[:count]
            chosen[some] = np.where(
                w[some] == 0, np.where(self.feasible.high[some] > 0, 1.0, -1.0), w[some]
            )
            if self.limits.only(self.feasible, chosen) is not None:
                return chosen
        return np.where(self.there, 0.0, w)

    # SCIP

    def _program(self, most_k=None):
        """The program without its objective. Missing bounds are replaced by a radius
        around the weights."""
        w = np.asarray(
            self.relaxation.weights if self.best is None else self.best, float
        )
        size = self._size(w)
        low, high = self._finite_bounds(
            self.feasible, np.where(self.there, 0.0, w), size
        )
        return IntegerProgram(
            self.feasible, low, high, self.limits, size, self.best, most_k
        )

    def _size(self, w):
        """The size of the weights w."""
        return float(np.abs(w[self.there]).max()) or self.feasible.size() or 1.0

    def _finite_bounds(self, feasible, w, size):
        """Bounds around w for SCIP, which are not so far that they are within its
        tolerance of infinite ones."""
        radius = SCIP_RADIUS * max(size, self.limits.min_held.max())
        low, high = bounds_around(feasible, w, radius)
        far = radius / CONSTRAINT_TOLERANCE
        low = np.where(w - low > far, w - radius, low)
        return low, np.where(high - w > far, w + radius, high)

    def _deviation(self, w):
        """The deviation of the return of a portfolio, in which the program measures
        risks."""
        y = np.asarray(self.task.returns @ w, float)
        return deviation_of(y, self.task.p) or float(np.abs(y).max()) or 1.0

    def _search_for_a_start(self, w):
        """Find a portfolio that meets all limits, with a large mean return for a ratio,
        or raise a ValueError."""
        program = self._program()
        scale = float(np.abs(self.task.mean).max()) * program.size or 1.0
        objective = (program.costs - program.mean_return(self.task.mean)) * (1 / scale)
        self._limit_risk(program, self._deviation(w))
        _, reason = program.minimise(objective, 0.0, self._seconds(), self._try)
        if self.best is not None:
            return
        limits = " and ".join(self.limits.names) or "solver='scip'"
        if reason == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        if reason == StopReason.TIME_LIMIT:
            raise ValueError(
                f"time_limit={self.time_limit} has ended before a portfolio was found "
                f"that meets {limits} and the "
                "other limits: use a larger one"
            )
        if self._is_ratio and self._is_possible(self.feasible):
            raise ValueError(
                "objective='ratio' needs a portfolio whose mean return, less its "
                "costs, is positive, but none that "
                f"meets {limits} has it"
            )
        raise ValueError(
            "the integer limits must leave a portfolio, but no weights meet "
            f"{self._contradiction()}"
        )

    def _is_possible(self, feasible):
        """Whether SCIP finds weights that meet the integer limits and a set's
        constraints."""
        found, w = [], self.feasible.empty
        low, high = self._finite_bounds(feasible, w, feasible.size() or 1.0)
        program = IntegerProgram(
            feasible, low, high, self.limits, feasible.size() or 1.0
        )
        program.minimise(
            program.scip.quicksum([]),
            0.0,
            self._seconds(),
            lambda w: found.append(w) or True,
        )
        return bool(found)

    def _contradiction(self):
        """The names of limits that contradict each other: without any one of them, the
        others can be met."""
        limits, feasible = self.limits.names, self.feasible
        max_risk = self.relaxed.max_risk
        if max_risk < np.inf and self._is_possible(feasible):
            return " and ".join([*limits, f"max_risk={max_risk}"])
        for name, (_, limit) in feasible.limits.items():
            others = replace(feasible, **{name: None})
            if self._is_possible(others):
                limits = [*limits, f"{name}={limit}"]
            else:
                feasible = others
        kept = np.ones(len(feasible.linear.A), bool)
        for k in range(len(kept)):
            kept[k] = False
            others = replace(feasible, linear=self.feasible.linear.only(kept))
            kept[k] = self._is_possible(others)
        names = self.feasible.linear.names
        limits = [*limits, *(repr(names[k]) for k in np.flatnonzero(kept))]
        return " and ".join(dict.fromkeys(limits)) + " with the bounds and the budget"

    def _limit_risk(self, program, deviation):
        if self.relaxed.max_risk < np.inf:
            limit = (self.relaxed.max_risk / deviation) ** self.task.measure.power
            program.model.addCons(program.risk(self.task, deviation) <= limit)

    @property
    def _is_ratio(self):
        return isinstance(self.relaxed, Ratio)

    def _seconds(self):
        return self.ends - time.monotonic()

    def _search(self, callback):
        """Run SCIP, and set the best portfolio and the bound. Return why SCIP ended, or
        None if the gap is small."""

        def better(w):
            if self._try(w):
                callback(self.best)

        deviation, task = self._deviation(self.best), self.task
        if self._is_ratio:
            return self._search_for_ratio(better, deviation)
        program, scale = self._program(), self.scale
        self._limit_risk(program, deviation)
        earned, risk_weight = self.relaxed.return_weight, self.relaxed.risk_weight
        objective = program.costs * (1 / scale)
        if risk_weight:
            of_risk = risk_weight * deviation**task.measure.power / scale
            objective += program.risk(task, deviation) * of_risk
        if earned:
            objective -= program.mean_return(task.mean) * (earned / scale)
        bound, reason = program.minimise(objective, self.tol, self._seconds(), better)
        self.bound = max(self.bound, bound * scale)
        return reason

    def _search_for_ratio(self, better, deviation):
        """The same for a ratio: the least risk for the mean return of the best
        portfolio so far.

        The factor k of the weights is at most the risk of this portfolio divided by the
        least risk of all.
        """
        task, power, w = self.task, self.task.measure.power, self.best
        risk = task.with_aversion(np.inf)
        least = solve_portfolio(
            task.with_aversion(np.inf, self.feasible.without_costs()), w
        )
        smallest = max(least.lower, 0.0) ** (1 / power)
        of_best = risk.value(w) ** (1 / power)
        if not smallest > 0:
            raise ValueError(
                "objective='ratio' with integer limits needs a positive risk of all "
                "portfolios that meet the other "
                f"limits, but the least is {least.value:.3g}"
            )
        earned = net_return(w, task.mean, self.feasible)
        program = self._program(of_best / smallest * (1 + PROGRAM_TOLERANCE))
        program.model.addCons(
            (program.mean_return(task.mean) - program.costs) * (1 / earned) == 1.0
        )
        objective = program.risk(task, deviation) * (deviation**power / of_best**power)
        bound, reason = program.minimise(objective, self.tol, self._seconds(), better)
        if bound > 0:
            self.bound = max(self.bound, -earned / (bound ** (1 / power) * of_best))
        return reason
