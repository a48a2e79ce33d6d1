"""The exact methods of `CompositionalPortfolio`: objectives, bounds of gaps, and fits with a record per iteration."""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.results import Record, Report, SolverResult, StopReason, outcome
from sk_stormc.portfolio.risk.mean_risk import MEASURES, deviation_of, with_aversion
from sk_stormc.portfolio.second_order.interior_point import interior_point
from sk_stormc.portfolio.second_order.limits import Limited, Limits, constraints_of, linear_minimum
from sk_stormc.portfolio.second_order.newton import can_solve, feasible, nearly, solve_portfolio
from sk_stormc.portfolio.second_order.program import FORMULATIONS, Scaled
from sk_stormc.portfolio.second_order.quadratic import solve_quadratic, sums_of
from sk_stormc.portfolio.second_order.ratio import Ratio
from sk_stormc.utils.validation import is_word
from sk_stormc.utils.warnings import warn

__all__ = ["conclude_exact", "dual_gap", "exact_method", "is_cheap", "run_exact", "slope_gap"]

ITERATIONS = 10  # iterations of Newton's method, after which the bound of a gap is usually within a tenth of the gap
ENDLESS = 30  # iterations if a weight is unbounded, so that every error of a multiplier counts
CHEAP = 2**30  # largest number of products in a Hessian for which a tight bound is computed
TRACKING = 0.01  # fraction of a benchmark's standard deviation below which a tracking error counts as 0
ROUNDS = 60  # iterations of the search for the risk aversion of a maximum risk
NEAR = 1e-7  # relative distance of the risk from its limit that ends the search
UNBOUNDED = 1e-3  # gap, relative to a typical objective, above which there is no minimum for a risk aversion
GROWTH = 10.0  # factor of the risk aversion while the limit is not yet enclosed
TOL = 1e-4  # default of the exact methods, which is also that of the other solvers
ROUNDING = 1e-12  # rounding error of the objective, relative to its size
NEGLIGIBLE = 1e-9  # gap that counts as 0, relative to a typical size of the objective


# bounds of the gap of weights, whatever method computed them


def slope_gap(problem, penalty, w):
    """An upper bound of the gap of a smooth convex objective: the maximum of c @ (w - s) + R(w) - R(s) over s.

    c is the gradient at w. Unbounded weights are limited to twice the largest weight around w.
    """
    with np.errstate(all="ignore"):  # after an overflow the gap is NaN
        c = np.asarray(problem.gradient(w), float)
        value = 0.0 if penalty is None else penalty.value(w)
        return float(np.maximum(c @ w + value - linear_minimum(penalty, c, np.asarray(w, float)), 0.0))


def is_cheap(problem, penalty):
    """Whether a few Hessians, which give a tight bound of the gap, are cheap."""
    return problem.returns.size * problem.returns.shape[1] <= CHEAP and can_solve(problem.returns, penalty)


def dual_gap(problem, penalty, w, gap):
    """A tighter bound of the gap, by the multipliers of a few iterations of Newton's method, if these are cheap.

    The multipliers give a lower bound of the minimum after any number of iterations. It is nearly always tighter than
    the bound by the gradient at w.
    """
    limits, w = Limits.of(penalty, problem.returns.shape[1]), np.asarray(w, float)
    if not is_cheap(problem, penalty) or not np.isfinite(w).all():
        return gap
    if penalty is None and problem.risk_measure == "variance":  # the exact gap, at any distance from the minimum
        best = minimise_by_moments(problem, None, w)
        return float(max(problem.value_at(w) - best.value, 0.0)) + best.gap
    scaled = Scaled.of(problem, limits)
    program, x = scaled.program(w, FORMULATIONS[problem.risk_measure])
    solution = interior_point(program, x, ENDLESS if np.isinf(limits.implied()).any() else ITERATIONS)
    return float(np.fmin(gap, scaled.gap(program, solution, w, problem.value_at(w))))


# the objectives


class Utility:
    """The problem of maximising the utility, for Newton's method."""

    def __init__(self, problem, penalty):
        n = problem.returns.shape[1]
        self.problem, self.penalty = problem, penalty
        empty = nearly(penalty, np.zeros(n))
        limited = isinstance(penalty, Limited)
        allowed = not empty[: n - (limited and penalty.active)].any() and not (limited and penalty.missed(empty))
        starts = [] if penalty is None else [penalty.project(np.full(n, 1 / n))]
        self.start = min([empty] * allowed + starts, key=problem.value_at)

    def value_at(self, weights):
        """The exact objective."""
        return self.problem.value_at(weights)

    def feasible(self, weights):
        """The nearest feasible weights, or the last feasible ones on the segment from the initialization."""
        return feasible(self.penalty, weights, self.start)

    def minimise(self, watch):
        """Find the weights and a bound of the gap. ``watch`` is called with the weights after each iteration."""
        return solve_portfolio(self.problem, self.penalty, self.start, watch)

    def gap_at(self, weights):
        """A bound of the gap for the weights of a fit that ended early."""
        return dual_gap(self.problem, self.penalty, weights, np.inf)

    def spread(self, w):
        """The scale of the gap: the objective of equal weights minus that of w, or the risk of w if it is larger.

        A gap relative to this scale does not depend on the unit of the returns, on a shift of them, or on constant
        assets.
        """
        problem, equal = self.problem, np.full(len(w), 1 / len(w))
        if self.penalty is not None:
            equal = self.penalty.project(equal)
        deviation = deviation_of(np.asarray(problem.returns @ w, float), problem.weights)
        if isinstance(self.penalty, Limited) and self.penalty.active:  # the benchmark itself may be optimal
            deviation = max(deviation, TRACKING * float(np.std(problem.returns[:, -1])))
        risk = problem._risk_weight * deviation**2 if MEASURES[problem.risk_measure].power == 2 else deviation
        return max(problem.value_at(equal) - problem.value_at(w), risk)


def minimise_by_moments(problem, penalty, start):
    """The portfolio that is optimal for the variance, from sums of products of the returns, in one pass."""
    sums = sums_of(problem.returns, problem.weights)
    expected_return, risk = problem._return_weight * sums.mean, problem._risk_weight * sums.covariance()
    return solve_quadratic(expected_return, risk, penalty, start)


class ByMoments(Utility):
    """The problem of maximising the utility for the variance, from sums of products of the returns."""

    def __init__(self, problem, penalty):
        if problem.risk_measure != "variance":
            raise ValueError(
                "solver='moments' can fit risk_measure='variance' only, which moments determine, and learns the others "
                f"in partial_fit only, got {problem.risk_measure!r}: use solver='auto' or 'storm-c'"
            )
        super().__init__(problem, penalty)

    def minimise(self, watch):
        """Compute the sums, and solve the quadratic program."""
        solution = minimise_by_moments(self.problem, self.penalty, self.start)
        watch(solution.weights)
        return solution


class WithinRisk(Utility):
    """The problem of maximising the mean return after costs subject to risk(w) <= max_risk.

    The risk decreases as the risk aversion lambda increases. If it has a jump, as in linear programs, a mixture of the
    portfolios on both sides has exactly the risk max_risk. Each lambda gives a lower bound of the objective (Lagrange).
    """

    def __init__(self, problem, penalty, max_risk):
        if problem.risk_measure == "entropic":
            raise ValueError("max_risk needs a risk apart from the mean return, got risk_measure='entropic'")
        super().__init__(problem, penalty)
        self.max_risk, self.limit = max_risk, max_risk ** MEASURES[problem.risk_measure].power
        self.of_risk = with_aversion(problem, np.inf)
        constraints = constraints_of(penalty)
        least = solve_portfolio(with_aversion(problem, np.inf, constraints), constraints, self.start)
        self.start = np.asarray(least.weights, float)
        smallest = self.risk_at(self.start)
        if smallest > self.limit:
            power = MEASURES[problem.risk_measure].power
            raise ValueError(
                f"max_risk must be at least {max(smallest, 0.0) ** (1 / power):.6g}, the least risk of a portfolio "
                f"that meets the constraints, got {max_risk!r}"
            )

    def risk_at(self, weights):
        """The risk, for variance and semivariance without a root."""
        return self.of_risk.value_at(weights)

    def value_at(self, weights):
        """Minus the mean return after costs."""
        costs = 0.0 if self.penalty is None else self.penalty.value(weights)
        return costs - float(self.problem._mean @ weights)

    def gap_at(self, weights):
        """Infinity: there is no bound for the weights of a fit that ended early."""
        return np.inf

    def minimise(self, watch):
        """Search for the risk aversion. ``watch`` is called with the best weights so far after each iteration."""
        within, beyond, bound, unit = self.start, None, -np.inf, 0.0
        lam, low, high = self._first(), 0.0, np.inf
        for _ in range(ROUNDS):
            problem = with_aversion(self.problem, lam, self.penalty)
            # the weights of an iteration may exceed the limit, so ``watch`` receives the best so far
            solution = solve_portfolio(problem, self.penalty, self.start, lambda _, best=within: watch(best))
            w, unit = np.asarray(solution.weights, float), solution.unit
            bound = max(bound, solution.value - solution.gap - lam * self.limit)
            if not solution.gap <= UNBOUNDED * unit:  # both return and risk may be unbounded
                low = lam
            elif self.risk_at(w) > self.limit:
                beyond, low = w, lam
            else:
                within, high = min(within, w, key=self.value_at), lam
            best = within if beyond is None else self._mixed(within, beyond)
            if self.value_at(best) - bound <= NEAR * (abs(bound) + unit) or (low and high / low < 1 + 1e-9):
                break
            if not low and lam * self.limit <= 1e-9 * abs(self.value_at(within)):
                break  # the limit does not bind
            lam = high / GROWTH if not low else low * GROWTH if np.isinf(high) else np.sqrt(low * high)
            if beyond is not None and np.isfinite(high):  # at the chord's slope both are equally good
                rise = self.risk_at(beyond) - self.risk_at(within)
                lam = np.clip((self.value_at(within) - self.value_at(beyond)) / rise, low, high)
        return replace(solution, weights=best, value=self.value_at(best), gap=self.value_at(best) - bound)

    def _first(self):
        """The risk aversion at which the best asset alone, without constraints, would have the risk max_risk."""
        problem = self.problem
        deviation = np.sqrt(1 / problem._inverse_variance()[: problem.returns.shape[1]].astype(float))
        best = max(float((np.abs(problem._mean) / deviation).max()), 1e-300)
        return best / (2 * self.max_risk) if MEASURES[problem.risk_measure].power == 2 else best

    def _mixed(self, within, beyond):
        """The mixture, with a risk equal to the limit, of a portfolio within the limit and one beyond it."""

        def over(part):
            return self.risk_at(within + part * (beyond - within)) - self.limit

        part = brentq(over, 0.0, 1.0, xtol=1e-12) if over(0.0) < 0 < over(1.0) else 0.0
        while over(part) > 0:
            part *= 1 - 1e-9
        return within + part * (beyond - within)

# fits


def exact_method(portfolio, solver, problem, penalty):
    """The exact method of a fit as a solver, or None if the fit uses an iterative solver."""
    needs = ["objective='ratio'"] * (portfolio.objective == "ratio")
    needs += ["max_risk"] * (portfolio.max_risk is not None)
    needs += [
        "risk_measure='cdar', as a drawdown depends on all earlier periods and is not an average of samples,"
    ] * problem.ordered
    if isinstance(penalty, Limited) and solver != "moments":  # these methods also satisfy all limits
        needs += penalty.parameters()
    if not (needs or isinstance(solver, str)):
        return None
    if needs and not is_word(solver, "auto", "newton"):
        raise ValueError(
            f"solver={portfolio.solver!r} cannot be used with {' and '.join(needs)}, which only the second-order "
            "method supports: take solver='auto' or 'newton'"
        )
    if solver == "auto" and not (needs or can_solve(problem.returns, penalty)):
        return None
    if solver != "moments" and not can_solve(problem.returns, penalty):
        raise ValueError(
            f"{' and '.join(needs) or 'solver=' + repr(solver)} needs returns that are an array in memory, of at most "
            f"4096 assets and 2**26 numbers (2**36 for a Hessian), got {type(problem.returns).__name__} of shape "
            f"{problem.returns.shape}: " + ("use fewer periods or assets" if needs else "use solver='storm-c'")
        )
    if portfolio.max_risk is not None:
        objective = partial(WithinRisk, problem, penalty, float(portfolio.max_risk))
    elif portfolio.objective == "ratio":
        objective = partial(Ratio, problem, penalty)
    else:
        objective = partial(ByMoments if solver == "moments" else Utility, problem, penalty)
    name = "newton" if solver == "auto" else solver
    return SecondOrder(name, objective, TOL if portfolio.tol is None else portfolio.tol, portfolio.max_iter)


def run_exact(portfolio, method, problem, penalty, fit):
    """Run an exact method. Return the result, its weights and a bound of its gap."""
    n_assets = problem.returns.shape[1] - (isinstance(penalty, Limited) and penalty.active)
    result = fit.run(
        method,
        problem,
        verbose=portfolio.verbose,
        attributes=lambda w: {"weights_": w[:n_assets], "n_features_in_": n_assets},
    )
    return result, result.x, result.gap


class _Ended(Exception):
    """Raised when the budget or a callback ends a fit."""


class SecondOrder:
    """An exact method with the interface of a solver that `Fit.run` expects."""

    begins_again = True  # instead of continuing, in a resumed fit

    def __init__(self, name, make_objective, tol, max_iter):
        self.name, self.make_objective, self.tol, self.max_iter = name, make_objective, tol, max_iter or np.inf

    def get_params(self, deep=True):
        """The parameters of the method, which must be the same when a fit is resumed."""
        return {"method": self.name}

    def solve(self, problem, x0=None, *, random_state=None, on_record=None, verbose=0):
        """Run the method. Ctrl-C, a callback or the budget ends it at the best feasible weights so far."""
        times = 2 if self.name == "newton" else 1  # gradient and Hessian
        m, n = times * problem.n_inner, times * problem.n_outer
        self.evaluations = {"inner": m, "jacobian": m, "outer": n}  # evaluations of an iteration
        self.objective = objective = self.make_objective()
        self.on_record, self.n_iter, self.records = on_record, 0, []
        self.report = Report(2 * problem.n_inner + problem.n_outer) if verbose else None
        self.best, self.value = objective.start, objective.value_at(objective.start)
        gap = np.inf
        try:
            self._record()
            solution = objective.minimise(self._iterated)
            self.best, self.value, gap = solution.weights, solution.value, solution.gap
            small = max(self.tol, 1e-7) * objective.spread(self.best)
            small += ROUNDING * abs(self.value) + NEGLIGIBLE * solution.unit
            reason = StopReason.CONVERGED if abs(gap) <= small else StopReason.MAX_ITER
        except _Ended as ended:
            reason = ended.args[0]
            gap = objective.gap_at(self.best)
        except KeyboardInterrupt:
            reason = StopReason.INTERRUPTED
        last = self.n_iter, self._ifo(), self.value
        if self.records[-1] != last:
            self.records.append(last)
        iterations, ifo, curve = map(np.array, zip(*self.records, strict=True))
        return SolverResult(
            x=self.best,
            fun=self.value,
            loss_curve=curve,
            ifo=ifo,
            record_iterations=iterations,
            n_evaluations={kind: self.n_iter * count for kind, count in self.evaluations.items()},
            residual=np.nan,
            n_guarded=0,
            state=None,
            gap=gap,
            **outcome(self.n_iter, reason),
        )

    def _ifo(self):
        return self.n_iter * sum(self.evaluations.values())

    def _iterated(self, weights):
        """Count an iteration, and store its weights if they are the best so far."""
        self.n_iter += 1
        weights = self.objective.feasible(weights)
        value = self.objective.value_at(weights)
        if not self.value <= value:
            self.best, self.value = weights, value
        self._record()
        if self.n_iter >= self.max_iter:
            raise _Ended(StopReason.MAX_ITER)

    def _record(self):
        n, ifo, value = self.n_iter, self._ifo(), float(self.value)
        self.records.append((n, ifo, value))
        if self.report is not None:
            self.report.line(n, ifo, value, np.nan)
        if self.on_record is None:
            return
        if self.on_record(Record(n, ifo, value, self.best.copy(), lambda: None, lambda: np.inf)):
            raise _Ended(StopReason.CALLBACK)


def conclude_exact(portfolio, method, problem, result):
    """Warn if an exact fit has ended with a gap above tol, or raise KeyboardInterrupt again."""
    if result.stop_reason == StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if result.stop_reason != StopReason.MAX_ITER:
        return
    why = f"may be above its minimum by up to {result.gap:.2g}, where tol={method.tol:g} of its spread was asked for"
    if problem.unbounded_below():
        why = "has no minimum, since some combination of assets has a mean return and no risk"
    elif result.gap == np.inf:
        why = "may be far above its minimum, if there is one"
    warn(
        f"CompositionalPortfolio has not converged: after {result.n_iter} iterations the objective {result.fun:.6g} "
        f"{why}. Add bounds or a budget, or raise max_iter or tol.",
        ConvergenceWarning,
    )
