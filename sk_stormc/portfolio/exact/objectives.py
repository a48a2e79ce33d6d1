"""The objectives of the exact methods: the utility, and the mean return within a
maximum risk; and bounds of gaps."""

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from sk_stormc.portfolio.exact.feasible_set import minimise_around
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.exact.linear_programs import minimise_linear
from sk_stormc.portfolio.exact.program import (
    Optimum,
    Scaled,
    can_solve,
    solve_portfolio,
)
from sk_stormc.portfolio.exact.quadratic import solve_quadratic
from sk_stormc.portfolio.exact.tolerances import (
    ACCURACY,
    PROGRAM_TOLERANCE,
    RELATIVE_ROUNDING,
)
from sk_stormc.portfolio.mean_risk import MeanRisk, deviation_of, shares
from sk_stormc.portfolio.risk.semideviation import Semideviation
from sk_stormc.portfolio.sums import sums_of

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
    return float(np.fmin(gap, scaled.gap(solution, task.value(w))))


# the objectives


class Utility:
    """The problem of maximising the utility, for Newton's method."""

    def __init__(self, task):
        self.task, self.feasible = task, task.penalty
        starts = [self.feasible.project(self.feasible.equal)]
        if self.feasible.proximal() is None:
            starts = []
        if self.feasible.allows_empty():
            starts.insert(0, self.feasible.empty)
        self.start = min(starts, key=task.value)

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

    def spread(self, w):
        """The scale of the gap: the objective of equal weights minus that of w, or the
        risk of w if it is larger.

        A gap relative to this scale does not depend on the unit of the returns, on a
        shift of them, or on constant assets.
        """
        task, equal = self.task, self.feasible.project(self.feasible.equal)
        deviation = deviation_of(np.asarray(task.returns @ w, float), task.p)
        # the benchmark itself, with a tracking error of 0, may be optimal
        if self.feasible.has_benchmark:
            deviation = max(deviation, 0.01 * float(np.std(task.returns[:, -1])))
        risk = task.risk_weight * deviation**2 if task.measure.power == 2 else deviation
        return max(task.value(equal) - task.value(w), risk)


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
    """The problem of maximising the mean return after costs subject to risk(w) <=
    max_risk.

    The risk decreases as the risk aversion lambda increases. If it has a jump, as in
    linear programs, a mixture of the portfolios on both sides has exactly the risk
    max_risk. Each lambda gives a lower bound of the objective (Lagrange).
    """

    def __init__(self, task, max_risk):
        self.risk = task.with_aversion(np.inf)
        self.mean = task.mean
        self.max_risk = max_risk
        # with a risk that is proportional to the weights, their scale would be
        # undetermined if nothing restricts it
        feasible = task.penalty
        endless = feasible.budget is None and np.isinf(feasible.implied_bounds()).any()
        super().__init__(
            task if task.measure.power == 1 or endless else proportional(task)
        )
        least = solve_portfolio(
            self.task.with_aversion(np.inf, feasible.without_costs()), self.start
        )
        self.start = min(
            np.asarray(least.weights, float),
            feasible.at_limits(least.weights),
            key=self.risk_at,
        )
        smallest = self.risk_at(self.start)
        if smallest > max_risk + PROGRAM_TOLERANCE * least.unit:
            raise BelowLeastRisk(max_risk, smallest, self.start)
        # a risk of 0 is one up to rounding
        self.risk_limit = max(max_risk, smallest, RELATIVE_ROUNDING * least.unit)
        self.aversion = 0.0  # that of the best lower bound

    def risk_at(self, weights):
        """The risk, in the unit of the returns."""
        risk = self.risk.value(weights)
        return risk if self.risk.measure.power == 1 else max(risk, 0.0) ** 0.5

    def allows(self, weights):
        """Whether the risk is within the limit."""
        return self.risk_at(weights) <= self.risk_limit

    def value_at(self, weights):
        """Minus the mean return after costs."""
        return self.feasible.value(weights) - float(self.mean @ weights)

    def gap_at(self, weights):
        """Infinity: there is no bound for the weights of a fit that ended early."""
        return np.inf

    def minimise(self, callback):
        """Search for the risk aversion. ``callback`` is called with the best weights so
        far after each iteration."""
        richest = self._richest()
        if richest is not None and self.allows(richest):
            callback(richest)
            value = self.value_at(richest)
            return Optimum(richest, value, 0.0, 1, abs(value))
        within, beyond, bound, unit = self.start, richest, -np.inf, 0.0
        lam, low, high = self._first(), 0.0, np.inf
        power = self.task.measure.power
        limit = self.risk_limit**power
        for _ in range(60):  # a bisection alone takes some forty
            # the weights of an iteration may exceed the limit, so ``callback`` receives
            # the best so far
            task = self.task.with_aversion(lam, self.feasible)
            solution = solve_portfolio(
                task, self.start, lambda _, best=within: callback(best)
            )
            w, unit = self.feasible.at_limits(solution.weights), solution.unit
            of_lam = solution.value - solution.gap - lam * limit
            if not bound >= of_lam:
                bound, self.aversion = of_lam, lam
            if not solution.gap <= 1e-3 * unit:  # both return and risk are unbounded
                low = lam
            elif self.risk_at(w) > self.risk_limit:
                beyond, low = w, lam
            else:
                within, high = min(within, w, key=self.value_at), lam
            best = within if beyond is None else self._mixed(within, beyond)
            if self.value_at(best) - bound <= ACCURACY * (abs(bound) + unit) or (
                low and high / low < 1 + PROGRAM_TOLERANCE
            ):
                break
            slack = lam * (limit - self.risk_at(within) ** power)
            if not low and 0 < slack <= PROGRAM_TOLERANCE * abs(self.value_at(within)):
                break  # the limit does not bind
            if low and np.isfinite(high):
                lam = np.sqrt(low * high)
            else:  # the limit is not yet enclosed
                lam = 10 * low if low else high / 10
            # at the chord's slope both are equally good
            if beyond is not None and np.isfinite(high):
                rise = self.risk_at(beyond) ** power - self.risk_at(within) ** power
                fall = self.value_at(within) - self.value_at(beyond)
                lam = np.clip(np.divide(fall, rise), low, high)
        return replace(
            solution,
            weights=best,
            value=self.value_at(best),
            gap=self.value_at(best) - bound,
        )

    def _richest(self):
        """The portfolio of the largest mean return after costs, or None if weights have
        no bounds."""
        feasible = self.feasible
        low, high = feasible.implied_bounds()
        if np.isinf(low).any() or np.isinf(high).any() or feasible.l2:
            return None
        return self.last_feasible(minimise_linear(feasible, -self.mean, low, high)[0])

    def _first(self):
        """The risk aversion at which the best asset alone, without constraints, would
        have the risk max_risk."""
        deviation = np.sqrt(1 / self.risk.inverse_variances().astype(float))
        best = max(float((np.abs(self.mean) / deviation).max()), 1e-300)
        return best / (2 * self.max_risk) if self.task.measure.power == 2 else best

    def _mixed(self, within, beyond):
        """The mixture, with a risk equal to the limit, of a portfolio within the limit
        and one beyond it."""

        def over(part):
            return self.risk_at(within + part * (beyond - within)) - self.risk_limit

        part = brentq(over, 0.0, 1.0, xtol=1e-12) if over(0.0) < 0 < over(1.0) else 0.0
        step = RELATIVE_ROUNDING
        while part > 0 and over(part) > 0:
            part, step = max(part - step, 0.0), 2 * step
        return within + part * (beyond - within)
