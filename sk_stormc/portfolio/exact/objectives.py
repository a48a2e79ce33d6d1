"""The goals of the exact methods, which are points of one curve; and bounds of gaps.

For each risk aversion a, F(a) is the minimum over the feasible set of a risk(w) minus
the mean return after costs. It is concave with the slope risk(w). The utility is F(a),
the mean return within a maximum risk is the maximum over a of F(a) - a max_risk, and
the largest ratio is the root of F (`ratio`). A goal is made for the returns in memory,
for each table of `rounds`, and for each choice of assets with integer limits.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from sk_stormc.engine.stopping import Gap
from sk_stormc.portfolio.convex_program import (
    ACCURACY,
    CONSTRAINT_TOLERANCE,
    INFINITE_WEIGHT,
    PROGRAM_TOLERANCE,
    RELATIVE_ROUNDING,
)
from sk_stormc.portfolio.exact.feasible_set import FARTHEST_WEIGHT, minimise_around
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.exact.program import (
    Optimum,
    Scaled,
    at_size,
    can_solve,
    refined,
    solve_portfolio,
)
from sk_stormc.portfolio.exact.quadratic import solve_quadratic
from sk_stormc.portfolio.mean_risk import MeanRisk, deviation_of, shares
from sk_stormc.portfolio.risk.semideviation import Semideviation
from sk_stormc.portfolio.sums import sums_of

# part of the maximum risk within which weights serve as an inner point of the limit
WELL_WITHIN = 0.9
# points of the search after which it ends if none has brought the bounds closer
MOST_WITHOUT_PROGRESS = 12

__all__ = [
    "BelowLeastRisk",
    "ByMoments",
    "Utility",
    "WithinRisk",
    "dual_gap",
    "is_cheap",
    "slope_gap",
]


# bounds of the gap of weights, whatever method computed them


def slope_gap(problem, feasible, w):
    """An upper bound of the gap of a smooth convex objective: the maximum of c @ (w -
    s) + R(w) - R(s) over s.

    c is the gradient at w. Unbounded weights are restricted to twice the largest weight
    around w.
    """
    with np.errstate(all="ignore"):  # after an overflow the gap is NaN
        c = np.asarray(problem.gradient(w), float)
        value = feasible.value(w)
        least = minimise_around(feasible, c, np.asarray(w, float))[1]
        return float(np.maximum(c @ w + value - least, 0.0))


def is_cheap(task):
    """Whether a few Hessians, which give a tight bound of the gap, are cheap."""
    products = task.returns.size * task.returns.shape[1]  # in a Hessian
    return products <= 2**30 and can_solve(task)


def dual_gap(task, w, gap):
    """A tighter bound of the gap, by the multipliers of a few iterations of Newton's
    method, if these are cheap.

    The multipliers give a lower bound of the minimum after any number of iterations. It
    is nearly always tighter than the bound by the gradient at w.
    """
    if not is_cheap(task) or not np.isfinite(w).all():
        return gap
    w = np.asarray(w, float)
    if (
        task.penalty.proximal() is None and task.measure.rounds == "sums"
    ):  # the exact gap, at any distance from the minimum
        best = minimise_by_moments(task, w)
        return float(max(task.value(w) - best.value, 0.0)) + best.gap
    feasible = task.penalty
    scaled = Scaled.of(task, feasible)
    program, x = scaled.program(w, task.measure.formulation)
    # after ten iterations the bound is usually within a tenth of the gap; if a weight
    # is unbounded, every error of a multiplier counts
    unbounded = np.isinf(feasible.implied_bounds()).any()
    solution = interior_point(program, x, 30 if unbounded else 10)
    return float(np.fmin(gap, task.value(w) - scaled.lower(solution)))


# the objectives


class Utility:
    """The goal of maximising the utility, for Newton's method. The objective is minus
    the utility."""

    max_risk = np.inf

    def __init__(self, task, start=None):
        self.task, self.feasible, self._given = task, task.penalty, start
        self.aversion = self.risk_weight = task.linear_weight
        # entropic risk contains the mean
        self.return_weight = task.return_weight if task.measure.power else 0.0

    @cached_property
    def start(self):
        """The initial weights. Assets whose weights are 0 enter where that lowers the
        objective."""
        if self._given is not None:
            return self._given
        starts = [self.feasible.project(self.feasible.equal)]
        if self.feasible.proximal() is None:
            starts = []
        if self.feasible.allows_empty():
            starts.insert(0, self.feasible.empty)
        return min(starts, key=self.task.value)

    def value(self, w, risk):
        """The objective of weights whose risk is known."""
        earned = self.return_weight * float(self.task.mean @ w)
        return self.risk_weight * risk - earned + self.feasible.value(w)

    def excess(self, risk):
        """By how much a risk is above its maximum."""
        return -self.max_risk

    def lower(self, point, slope):
        """The lower bound of F that follows from risk(s) >= risk(w) + slope @ (s - w)
        for all s."""
        w, a = point.w, self.aversion
        c = a * slope - self.return_weight * self.task.mean
        least = minimise_around(self.feasible, c, w)[1]
        return a * (point.risk - float(slope @ w)) + least

    def aversion_at(self, value):
        """The risk aversion of a point of F that is near an objective."""
        return self.aversion

    def value_at(self, weights):
        """The exact objective."""
        return self.task.value(weights)

    def last_feasible(self, weights):
        """The nearest feasible weights, or the last feasible ones on the segment from
        the initialization."""
        return self.feasible.last_feasible(weights, self.start)

    def minimise(self, callback):
        """Find the weights and a bound of the gap. ``callback`` is called with the
        weights after each iteration."""
        return solve_portfolio(self.task, self.start, callback)

    def allows(self, weights):
        """Whether weights that meet the constraints are allowed."""
        return True

    def gap_at(self, weights):
        """A bound of the gap for the weights of a fit that ended early."""
        return dual_gap(self.task, weights, np.inf)

    def spread(self, w, at=None):
        """The scale of the gap: the objective of equal weights minus that of w, or the
        risk of w and its costs if that is larger.

        A gap relative to this scale does not depend on the unit of the returns, on a
        shift of them, or on constant assets. ``at`` gives the objective of weights and
        the deviation of their returns.
        """
        at, feasible, task = at or self._figures, self.feasible, self.task
        (value, deviation), (of_equal, _) = map(
            at, (w, feasible.project(feasible.equal))
        )
        # the benchmark itself, with a tracking error of 0, may be optimal
        if not np.any(w[: feasible.n_assets]):  # the optimum may be the empty one
            deviation = max(deviation, at(feasible.equal)[1])
        if feasible.has_benchmark:
            deviation = max(deviation, 0.01 * at(feasible.empty)[1])
        risk = task.risk_weight * deviation**2 if task.measure.power == 2 else deviation
        return max(of_equal - value, risk + feasible.value(w))

    def _figures(self, w):
        y = np.asarray(self.task.returns @ w, float)
        return self.value_at(w), deviation_of(y, self.task.p)


def minimise_by_moments(task, start):
    """The portfolio that is optimal for the variance, from sums of products of the
    returns, in one pass."""
    sums = sums_of(task.returns, task.p)
    return solve_quadratic(
        task.return_weight * sums.mean,
        task.risk_weight * sums.covariance(),
        task.penalty,
        start,
    )


def proportional(task):
    """The task with the root of the variance or semivariance as risk, which is
    proportional to the weights."""
    if task.measure.below_mean:
        return MeanRisk.of(
            task.returns, Semideviation(2.0), task.risk_aversion, task.p, task.penalty
        )
    p = shares(len(task.returns), task.p)[:, None]
    root = np.linalg.qr(np.sqrt(p) * (task.returns - task.mean), mode="r")
    # half of them are below the mean
    rows = np.sqrt(2 * len(root)) * np.concatenate([root, -root])
    return MeanRisk.of(
        task.mean + rows, Semideviation(2.0), task.risk_aversion, penalty=task.penalty
    )


class ByMoments(Utility):
    """The problem of maximising the utility for the variance, from sums of products of
    the returns."""

    def __init__(self, task):
        if task.measure.rounds != "sums":
            raise ValueError(
                "solver='moments' can fit risk_measure='variance' only, which moments "
                "determine, and learns the others "
                f"in partial_fit only, got {task.measure.name!r}: use solver='auto' "
                "or 'storm-c'"
            )
        super().__init__(task)

    def minimise(self, callback):
        """Compute the sums, and solve the quadratic program."""
        solution = minimise_by_moments(self.task, self.start)
        callback(solution.weights)
        return solution


def last_within(excess):
    """The largest part, from 0 to 1, of a way along which a convex function is not
    above 0; 0 if it is nowhere below."""
    part = 0.0
    if excess(0.0) < 0 < excess(1.0):
        part = brentq(excess, 0.0, 1.0, xtol=1e-12)
    step = RELATIVE_ROUNDING
    while part > 0 and excess(part) > 0:
        part, step = max(part - step, 0.0), 2 * step
    return part


class _Inside(Exception):
    """Raised when weights well within the limit are found."""

    def __init__(self, weights):
        super().__init__()
        self.weights = weights


class BelowLeastRisk(ValueError):
    """The maximum risk is below that of all portfolios. ``weights`` have the least
    risk."""

    def __init__(self, max_risk, least, weights):
        super().__init__(
            f"max_risk must be at least {least:.6g}, the least risk of a portfolio "
            "that meets the constraints, got "
            f"{max_risk!r}"
        )
        self.weights = weights


class WithinRisk(Utility):
    """The goal of maximising the mean return after costs subject to risk(w) <=
    max_risk.

    The objective, minus this return, is at least F(a) - a max_risk for all a
    (Lagrange).
    """

    def __init__(self, task, start=None, *, max_risk, tol=ACCURACY):
        self.risk = task.with_aversion(np.inf)
        self.max_risk, self.tol = float(max_risk), max(tol, ACCURACY)
        # with a risk that is proportional to the weights, their scale would be
        # undetermined if nothing restricts it
        low, high = task.penalty.implied_bounds()
        self.endless = bool(np.isinf([low, high]).any())
        sizeless = task.penalty.budget is None and self.endless
        super().__init__(
            task if task.measure.power == 1 or sizeless else proportional(task), start
        )
        self.risk_weight, self.return_weight = 0.0, 1.0
        self.aversion = 0.0  # that of the best lower bound

    @cached_property
    def _inside(self):
        """Weights well within the limit, or those of the least risk if there are none;
        and the limit, which is not below it."""
        first = super().start

        def stop_inside(w):
            w = self.feasible.last_feasible(w, first)
            if self.risk_at(w) <= WELL_WITHIN * self.max_risk:
                raise _Inside(w)

        try:
            stop_inside(first)
            task = self.task.with_aversion(np.inf, self.feasible.without_costs())
            least = solve_portfolio(task, first, stop_inside)
        except _Inside as found:
            weights, smallest = found.weights, 0.0
        else:
            weights = min(
                np.asarray(least.weights, float),
                self.feasible.at_limits(least.weights),
                key=self.risk_at,
            )
            smallest = self.risk_at(weights)
            if smallest > self.max_risk + PROGRAM_TOLERANCE * least.unit:
                raise BelowLeastRisk(self.max_risk, smallest, weights)
        # a risk of 0 is one up to rounding
        deviation = self.risk.inverse_variances().astype(float) ** -0.5
        rounding = RELATIVE_ROUNDING * float(np.abs(weights) @ deviation)
        return weights, max(self.max_risk, smallest, rounding)

    @property
    def start(self):
        """Weights within the limit."""
        return self._inside[0]

    @property
    def limit(self):
        """The maximum risk, in the unit of the returns."""
        return self._inside[1]

    def excess(self, risk):
        """By how much a risk is above its maximum, in the unit of the returns."""
        return max(risk, 0.0) ** (1 / self.risk.measure.power) - self.max_risk

    def lower(self, point, slope):
        """The lower bound of the objective, by that of F."""
        limit = self.max_risk**self.task.measure.power
        return super().lower(point, slope) - self.aversion * limit

    def risk_at(self, weights):
        """The risk, in the unit of the returns."""
        risk = self.risk.value(weights)
        return risk if self.risk.measure.power == 1 else max(risk, 0.0) ** 0.5

    def allows(self, weights):
        """Whether the risk is within the limit."""
        return self.risk_at(weights) <= self.limit

    def value_at(self, weights):
        """Minus the mean return after costs."""
        return self.feasible.value(weights) - float(self.task.mean @ weights)

    def gap_at(self, weights):
        """Infinity: there is no bound for the weights of a fit that ended early."""
        return np.inf

    def spread(self, w, at=None):
        """The scale of the gap: the objective."""
        return abs((at or self._figures)(w)[0])

    def minimise(self, callback):
        """Find the weights. ``callback`` is called with the best weights so far after
        each iteration."""
        with np.errstate(all="ignore"):  # weights without a limit may overflow
            return self._minimised(callback)

    def _minimised(self, callback):
        free = self._at(0.0, self.start, callback, refine=False)
        w = np.asarray(free.weights, float)
        if np.isfinite(free.lower) and self.risk_at(w) <= self.limit * (1 + ACCURACY):
            free = self._at(0.0, self.start, callback)
            w = self.feasible.at_limits(np.asarray(free.weights, float))
            w = w if self.allows(w) else free.weights
            if self.allows(w):  # the limit does not bind
                return replace(free, weights=w, value=self.value_at(w))
        best, first = self._in_one_solve(callback)
        if self._gap(best).is_small:
            self.aversion = first
            return best
        return self._search(callback, free, best, first)

    def _gap(self, optimum):
        rounding = PROGRAM_TOLERANCE * optimum.unit + optimum.error
        scale = self.spread(optimum.weights)
        return Gap(optimum.value, optimum.lower, scale, self.tol, rounding)

    def _at(self, aversion, best, callback, feasible=None, refine=True):
        """The point of F for a risk aversion. Its weights may exceed the limit, so
        ``callback`` receives the best so far."""
        task = self.task.with_aversion(aversion, feasible or self.feasible)
        return solve_portfolio(task, self.start, lambda _: callback(best), refine)

    def _in_one_solve(self, callback):
        """The `Optimum` that one interior-point solve finds, in which the risk aversion
        is an unknown; and this risk aversion."""
        task, n = self.task.with_aversion(1.0, self.feasible), self.feasible.n
        multiplier = np.nan

        def solve(size):
            nonlocal multiplier
            scaled = Scaled.of(task, self.feasible, self.limit, size)

            def report(x):
                callback(self._within(x[:n] * scaled.size))

            solution = task.measure.solve(scaled, self.start, report)
            multiplier = solution.multiplier
            found = refined(scaled, solution)[0], solution.x[:n] * scaled.size
            within = (self._at_limits(self._within(w)) for w in found)
            candidates = [self.start, *within]
            w = min(candidates, key=self.value_at)
            proofs = solution, solution.raised(1 + ACCURACY)
            lower = max(map(scaled.lower, proofs))
            if self.endless and np.abs(found[1]).max() > INFINITE_WEIGHT * scaled.size:
                lower = -np.inf
            unit = scaled.unit_of_value
            best = Optimum(w, self.value_at(w), lower, 0, unit, solution.done)
            return best, solution.x, scaled.size

        return at_size(solve, self.feasible), multiplier

    def _within(self, w):
        """Feasible weights, mixed with those at the start if their risk is beyond the
        limit."""
        w = self.feasible.last_feasible(w, self.start)
        return w if self.allows(w) else self._mixed(self.start, w)

    def _at_limits(self, w):
        """Weights within the limit, those near a bound exactly there."""
        step = RELATIVE_ROUNDING
        while step < CONSTRAINT_TOLERANCE:
            # weights exactly at bounds change the risk by about as much as rounding
            exact = self.feasible.at_limits(w + step * (self.start - w))
            if self.allows(exact):
                return exact
            step *= 2
        return w

    def _search(self, callback, free, best, first):
        """Search for the risk aversion a with the largest F(a) - a max_risk. A mixture
        of portfolios on both sides of the limit has exactly this risk."""
        power = self.task.measure.power
        limit = self.limit**power
        within, beyond, proof = self.start, None, free
        if np.isfinite(free.lower):
            beyond = np.asarray(free.weights, float)
        if best is not None:
            proof = max(free, best, key=lambda one: one.lower)
        w_best = within if best is None else best.weights
        low, high, errors = 0.0, np.inf, [0.0, 0.0]
        solved = best is not None and best.done and first > 0
        a = first if solved else self._first()
        size = max(self.feasible.size() or 0.0, float(np.abs(self.start).max()))
        size = max(size, self.limit * np.sqrt(self.risk.inverse_variances().max()))
        bounded = self.feasible.bounded(self.start, FARTHEST_WEIGHT * size)
        smallest, since = np.inf, 0
        for k in range(60):
            point = self._at(a, w_best, callback)
            w = self.feasible.at_limits(point.weights)
            has_minimum = abs(point.gap) <= 1e-3 * point.unit
            if has_minimum and not proof.lower >= point.lower - a * limit:
                proof, self.aversion = replace(point, lower=point.lower - a * limit), a
            if not has_minimum:  # both return and risk are unbounded
                low = a
                if beyond is None or self.task.measure.ordered:
                    far = self._at(a, w_best, callback, bounded).weights
                    beyond = None if self.allows(far) else np.asarray(far, float)
            elif not self.allows(w):
                beyond, low, errors[0] = w, a, self._error(point, a * limit)
            else:
                within, high = min(within, w, key=self.value_at), a
                errors[1] = self._error(point, a * limit)
            # both are on the curve, and so is their mixture where the risk jumps
            mixed = within if beyond is None else self._mixed(within, beyond)
            w_best = min(w_best, mixed, key=self.value_at)
            best = replace(proof, weights=w_best, value=self.value_at(w_best))
            gap = replace(self._gap(best), tol=ACCURACY)
            if gap.size < 0.9 * smallest:
                smallest, since = gap.size, k
            if gap.is_small or k - since >= MOST_WITHOUT_PROGRESS:
                break
            if low and high / low < 1 + ACCURACY:
                return replace(best, error=sum(errors))
            a = self._next(low, high, within, beyond, chord=k % 3 == 2)
        return best

    @staticmethod
    def _error(point, scale):
        """The error of a point of F, if it is small relative to the terms of F."""
        gap = Gap(point.value, point.lower, scale, ACCURACY)
        return gap.size if gap.is_small else 0.0

    def _next(self, low, high, within, beyond, chord):
        """The next risk aversion: that at which both portfolios are equally good, or
        one between the last two."""
        if beyond is None or not low or high == np.inf:  # the limit is not enclosed
            if not low:
                return high / 10
            return 10 * low if high == np.inf else np.sqrt(low * high)
        power = self.task.measure.power
        risks = np.array([self.risk_at(within), self.limit, self.risk_at(beyond)])
        if chord or not risks[0] > 0:
            rise = risks[2] ** power - risks[0] ** power
            a = np.divide(self.value_at(within) - self.value_at(beyond), rise)
        else:
            # exact for a variance between two changes of the active set
            least, middle, most = risks**-2.0
            part = (middle - most) / (least - most) if least > most else 0.5
            a = (low**-2.0 + part * (high**-2.0 - low**-2.0)) ** -0.5
        least = (high / low) ** 0.01
        return a if least * low < a < high / least else np.sqrt(low * high)

    def _first(self):
        """The risk aversion at which the best asset alone, without constraints, would
        have the risk max_risk."""
        deviation = np.sqrt(1 / self.risk.inverse_variances().astype(float))
        best = max(float((np.abs(self.task.mean) / deviation).max()), 1e-300)
        return best / (2 * self.limit) if self.task.measure.power == 2 else best

    def _mixed(self, within, beyond):
        """The mixture, with a risk equal to the limit, of a portfolio within the limit
        and one beyond it."""
        way = beyond - within

        def excess(part):
            return self.risk_at(within + part * way) - self.limit

        return within + last_within(excess) * way
