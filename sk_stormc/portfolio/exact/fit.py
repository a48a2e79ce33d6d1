"""The exact methods of `CompositionalPortfolio`: objectives, bounds of gaps, and fits with a record per iteration."""

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.results import Record, Report, SolverResult, StopReason, outcome
from sk_stormc.portfolio.exact.feasible_set import FeasibleSet, LinearlyConstrained, linear_minimum, without_costs
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.exact.program import Scaled, can_solve, last_feasible, on_bounds, solve_portfolio
from sk_stormc.portfolio.exact.quadratic import solve_quadratic
from sk_stormc.portfolio.exact.ratio import Ratio
from sk_stormc.portfolio.mean_risk import deviation_of
from sk_stormc.portfolio.sums import sums_of
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


def slope_gap(problem, w):
    """An upper bound of the gap of a smooth convex objective: the maximum of c @ (w - s) + R(w) - R(s) over s.

    c is the gradient at w. Unbounded weights are restricted to twice the largest weight around w.
    """
    with np.errstate(all="ignore"):  # after an overflow the gap is NaN
        c = np.asarray(problem.gradient(w), float)
        value = 0.0 if problem.penalty is None else problem.penalty.value(w)
        return float(np.maximum(c @ w + value - linear_minimum(problem.penalty, c, np.asarray(w, float)), 0.0))


def is_cheap(task):
    """Whether a few Hessians, which give a tight bound of the gap, are cheap."""
    return task.returns.size * task.returns.shape[1] <= CHEAP and can_solve(task)


def dual_gap(task, w, gap):
    """A tighter bound of the gap, by the multipliers of a few iterations of Newton's method, if these are cheap.

    The multipliers give a lower bound of the minimum after any number of iterations. It is nearly always tighter than
    the bound by the gradient at w.
    """
    if not is_cheap(task) or not np.isfinite(w).all():
        return gap
    w = np.asarray(w, float)
    if task.penalty is None and task.measure.rounds == "sums":  # the exact gap, at any distance from the minimum
        best = minimise_by_moments(task, w)
        return float(max(task.value(w) - best.value, 0.0)) + best.gap
    feasible = FeasibleSet.of(task.penalty, len(w))
    scaled = Scaled.of(task, feasible)
    program, x = scaled.program(w, task.measure.formulation)
    solution = interior_point(program, x, ENDLESS if np.isinf(feasible.implied_bounds()).any() else ITERATIONS)
    return float(np.fmin(gap, scaled.gap(solution, task.value(w))))


# the objectives


class Utility:
    """The problem of maximising the utility, for Newton's method."""

    def __init__(self, task):
        self.task, self.penalty = task, task.penalty
        n, penalty = task.returns.shape[1], task.penalty
        empty = on_bounds(penalty, np.zeros(n))
        constrained = isinstance(penalty, LinearlyConstrained)
        n_weights = n - (constrained and penalty.has_benchmark)
        allowed = not empty[:n_weights].any() and not (constrained and penalty.violation(empty))
        starts = [] if penalty is None else [penalty.project(np.full(n, 1 / n))]
        self.start = min([empty] * allowed + starts, key=task.value)

    def value_at(self, weights):
        """The exact objective."""
        return self.task.value(weights)

    def last_feasible(self, weights):
        """The nearest feasible weights, or the last feasible ones on the segment from the initialization."""
        return last_feasible(self.penalty, weights, self.start)

    def minimise(self, callback):
        """Find the weights and a bound of the gap. ``callback`` is called with the weights after each iteration."""
        return solve_portfolio(self.task, self.start, callback)

    def gap_at(self, weights):
        """A bound of the gap for the weights of a fit that ended early."""
        return dual_gap(self.task, weights, np.inf)

    def spread(self, w):
        """The scale of the gap: the objective of equal weights minus that of w, or the risk of w if it is larger.

        A gap relative to this scale does not depend on the unit of the returns, on a shift of them, or on constant
        assets.
        """
        task, equal = self.task, np.full(len(w), 1 / len(w))
        if self.penalty is not None:
            equal = self.penalty.project(equal)
        deviation = deviation_of(np.asarray(task.returns @ w, float), task.p)
        # the benchmark itself may be optimal
        if isinstance(self.penalty, LinearlyConstrained) and self.penalty.has_benchmark:
            deviation = max(deviation, TRACKING * float(np.std(task.returns[:, -1])))
        risk = task.risk_weight * deviation**2 if task.measure.power == 2 else deviation
        return max(task.value(equal) - task.value(w), risk)


def minimise_by_moments(task, start):
    """The portfolio that is optimal for the variance, from sums of products of the returns, in one pass."""
    sums = sums_of(task.returns, task.p)
    return solve_quadratic(task.return_weight * sums.mean, task.risk_weight * sums.covariance(), task.penalty, start)


class ByMoments(Utility):
    """The problem of maximising the utility for the variance, from sums of products of the returns."""

    def __init__(self, task):
        if task.measure.rounds != "sums":
            raise ValueError(
                "solver='moments' can fit risk_measure='variance' only, which moments determine, and learns the others "
                f"in partial_fit only, got {task.measure.name!r}: use solver='auto' or 'storm-c'"
            )
        super().__init__(task)

    def minimise(self, callback):
        """Compute the sums, and solve the quadratic program."""
        solution = minimise_by_moments(self.task, self.start)
        callback(solution.weights)
        return solution


class WithinRisk(Utility):
    """The problem of maximising the mean return after costs subject to risk(w) <= max_risk.

    The risk decreases as the risk aversion lambda increases. If it has a jump, as in linear programs, a mixture of the
    portfolios on both sides has exactly the risk max_risk. Each lambda gives a lower bound of the objective (Lagrange).
    """

    def __init__(self, task, max_risk):
        if not task.measure.power:
            raise ValueError("max_risk needs a risk apart from the mean return, got risk_measure='entropic'")
        super().__init__(task)
        power = task.measure.power
        self.max_risk, self.risk_limit = max_risk, max_risk**power
        self.risk_at = task.with_aversion(np.inf).value  # for variance and semivariance without a root
        constraints = without_costs(task.penalty)
        least = solve_portfolio(task.with_aversion(np.inf, constraints), self.start)
        self.start = np.asarray(least.weights, float)
        smallest = self.risk_at(self.start)
        if smallest > self.risk_limit:
            raise ValueError(
                f"max_risk must be at least {max(smallest, 0.0) ** (1 / power):.6g}, the least risk of a portfolio "
                f"that meets the constraints, got {max_risk!r}"
            )

    def value_at(self, weights):
        """Minus the mean return after costs."""
        costs = 0.0 if self.penalty is None else self.penalty.value(weights)
        return costs - float(self.task.mean @ weights)

    def gap_at(self, weights):
        """Infinity: there is no bound for the weights of a fit that ended early."""
        return np.inf

    def minimise(self, callback):
        """Search for the risk aversion. ``callback`` is called with the best weights so far after each iteration."""
        within, beyond, bound, unit = self.start, None, -np.inf, 0.0
        lam, low, high = self._first(), 0.0, np.inf
        for _ in range(ROUNDS):
            # the weights of an iteration may exceed the limit, so ``callback`` receives the best so far
            task = self.task.with_aversion(lam, self.penalty)
            solution = solve_portfolio(task, self.start, lambda _, best=within: callback(best))
            w, unit = np.asarray(solution.weights, float), solution.unit
            bound = max(bound, solution.value - solution.gap - lam * self.risk_limit)
            if not solution.gap <= UNBOUNDED * unit:  # both return and risk may be unbounded
                low = lam
            elif self.risk_at(w) > self.risk_limit:
                beyond, low = w, lam
            else:
                within, high = min(within, w, key=self.value_at), lam
            best = within if beyond is None else self._mixed(within, beyond)
            if self.value_at(best) - bound <= NEAR * (abs(bound) + unit) or (low and high / low < 1 + 1e-9):
                break
            if not low and lam * self.risk_limit <= 1e-9 * abs(self.value_at(within)):
                break  # the limit does not bind
            lam = high / GROWTH if not low else low * GROWTH if np.isinf(high) else np.sqrt(low * high)
            if beyond is not None and np.isfinite(high):  # at the chord's slope both are equally good
                rise = self.risk_at(beyond) - self.risk_at(within)
                lam = np.clip((self.value_at(within) - self.value_at(beyond)) / rise, low, high)
        return replace(solution, weights=best, value=self.value_at(best), gap=self.value_at(best) - bound)

    def _first(self):
        """The risk aversion at which the best asset alone, without constraints, would have the risk max_risk."""
        deviation = np.sqrt(1 / self.task.inverse_variances().astype(float))
        best = max(float((np.abs(self.task.mean) / deviation).max()), 1e-300)
        return best / (2 * self.max_risk) if self.task.measure.power == 2 else best

    def _mixed(self, within, beyond):
        """The mixture, with a risk equal to the limit, of a portfolio within the limit and one beyond it."""

        def over(part):
            return self.risk_at(within + part * (beyond - within)) - self.risk_limit

        part = brentq(over, 0.0, 1.0, xtol=1e-12) if over(0.0) < 0 < over(1.0) else 0.0
        while over(part) > 0:
            part *= 1 - 1e-9
        return within + part * (beyond - within)


# fits


def exact_method(portfolio, solver, task):
    """The exact method of a fit as a solver, or None if the fit uses an iterative solver."""
    needs = ["objective='ratio'"] * (portfolio.objective == "ratio")
    needs += ["max_risk"] * (portfolio.max_risk is not None)
    needs += [f"risk_measure={task.measure.name!r} (the order of the periods counts)"] * task.measure.ordered
    if isinstance(task.penalty, LinearlyConstrained) and solver != "moments":  # moments meet all constraints, too
        needs += task.penalty.parameters()
    if not (needs or isinstance(solver, str)):
        return None
    if needs and not is_word(solver, "auto", "newton"):
        raise ValueError(
            f"solver={portfolio.solver!r} cannot be used with {' and '.join(needs)}, which only the second-order "
            "method supports: take solver='auto' or 'newton'"
        )
    if solver == "auto" and not (needs or can_solve(task)):
        return None
    if solver != "moments" and not can_solve(task):
        raise ValueError(
            f"{' and '.join(needs) or 'solver=' + repr(solver)} needs returns that are an array in memory, of at most "
            f"4096 assets and 2**26 numbers (2**36 for a Hessian), got {type(task.returns).__name__} of shape "
            f"{task.returns.shape}: " + ("use fewer periods or assets" if needs else "use solver='storm-c'")
        )
    if portfolio.max_risk is not None:
        objective = partial(WithinRisk, task, float(portfolio.max_risk))
    elif portfolio.objective == "ratio":
        objective = partial(Ratio, task)
    else:
        objective = partial(ByMoments if solver == "moments" else Utility, task)
    name = "newton" if solver == "auto" else solver
    return ExactMethod(name, objective, TOL if portfolio.tol is None else portfolio.tol, portfolio.max_iter)


def run_exact(portfolio, method, task, fit):
    """Run an exact method. Return the result, its weights and a bound of its gap."""
    penalty = task.penalty
    n_assets = task.returns.shape[1] - (isinstance(penalty, LinearlyConstrained) and penalty.has_benchmark)
    result = fit.run(
        method,
        task,
        verbose=portfolio.verbose,
        attributes=lambda w: {"weights_": w[:n_assets], "n_features_in_": n_assets},
    )
    return result, result.x, result.gap


class _Ended(Exception):
    """Raised when the budget or a callback ends a fit."""


class ExactMethod:
    """An exact method with the interface of a solver that `Fit.run` expects."""

    begins_again = True  # instead of continuing, in a resumed fit

    def __init__(self, name, make_objective, tol, max_iter):
        self.name, self.make_objective, self.tol, self.max_iter = name, make_objective, tol, max_iter or np.inf

    def get_params(self, deep=True):
        """The parameters of the method, which must be the same when a fit is resumed."""
        return {"method": self.name}

    def solve(self, task, x0=None, *, random_state=None, on_record=None, verbose=0):
        """Run the method. Ctrl-C, a callback or the budget ends it at the best feasible weights so far."""
        times = 2 if self.name == "newton" else 1  # gradient and Hessian
        m, n = times * task.n_inner, times * task.n_outer
        self.evaluations = {"inner": m, "jacobian": m, "outer": n}  # evaluations of an iteration
        self.objective = objective = self.make_objective()
        self.on_record, self.n_iter, self.records = on_record, 0, []
        self.report = Report(2 * task.n_inner + task.n_outer) if verbose else None
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
        weights = self.objective.last_feasible(weights)
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


def conclude_exact(portfolio, method, task, result):
    """Warn if an exact fit has ended with a gap above tol, or raise KeyboardInterrupt again."""
    if result.stop_reason == StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if result.stop_reason != StopReason.MAX_ITER:
        return
    why = f"may be above its minimum by up to {result.gap:.2g}, where tol={method.tol:g} of its spread was asked for"
    if task.measure.unbounded_below(task):
        why = "has no minimum, since some combination of assets has a mean return and no risk"
    elif result.gap == np.inf:
        why = "may be far above its minimum, if there is one"
    warn(
        f"CompositionalPortfolio has not converged: after {result.n_iter} iterations the objective {result.fun:.6g} "
        f"{why}. Add bounds or a budget, or raise max_iter or tol.",
        ConvergenceWarning,
    )
