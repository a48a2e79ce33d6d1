"""The methods of a fit, exact and iterative ones, and which of them a fit uses."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.results import Record, Report, StopReason, result_of
from sk_stormc.engine.stopping import Gap
from sk_stormc.portfolio.convex_program import (
    ACCURACY,
    PROGRAM_TOLERANCE,
    RELATIVE_ROUNDING,
)
from sk_stormc.portfolio.exact.integer import WithIntegerLimits, check_integer_limits
from sk_stormc.portfolio.exact.objectives import (
    ByMoments,
    Utility,
    WithinRisk,
    dual_gap,
    is_cheap,
    slope_gap,
)
from sk_stormc.portfolio.exact.program import (
    MAX_ASSETS,
    MAX_PRODUCTS,
    MAX_RETURNS,
    can_solve,
)
from sk_stormc.portfolio.exact.ratio import Ratio
from sk_stormc.portfolio.mean_risk import MeanRisk
from sk_stormc.portfolio.risk.semideviation import Semideviation
from sk_stormc.portfolio.rounds.fit import Rounds, refuse_ordered
from sk_stormc.utils.parameters import is_word
from sk_stormc.utils.warnings import warn

__all__ = ["ExactMethod", "Iterative", "method_of", "takes_rounds"]

TOL = 1e-4  # default of the exact methods, which is also that of the other solvers
# Periods in memory from which rounds are faster for a piecewise linear risk.
MANY_PERIODS = 10_000


# the choice of the method


def takes_rounds(solver, measure, table, limits):
    """Whether a fit of `Returns` with this solver and these integer limits is made by
    rounds, passes over returns in blocks."""
    if limits is not None:
        if not table.in_memory:
            raise ValueError(
                f"{' and '.join(limits.names)} needs returns in memory, got "
                f"{type(table.given).__name__}: load them"
            )
        return False
    n, d = table.shape
    exact = is_word(solver, "auto", "newton") and d <= MAX_ASSETS
    if table.in_dask:
        if not exact and not (is_word(solver, "moments") and measure.rounds == "sums"):
            raise ValueError(
                "X must be an array or a data frame in memory, or a memmap, with this "
                f"solver or with more than {MAX_ASSETS} assets, got a dask collection "
                f"of {d} assets: use solver='auto', or compute X"
            )
        refuse_ordered(measure)
        return True
    large = n * d > MAX_RETURNS or n * d**2 > MAX_PRODUCTS
    return (exact and not measure.ordered) and (
        type(table.values) is not np.ndarray
        or large
        or (measure.rounds == "rows" and n >= MANY_PERIODS)
    )


def method_of(portfolio, solver, task, limits):
    """The method that fits a task, given the checked solver."""
    tol = TOL if portfolio.tol is None else portfolio.tol
    if task.in_blocks:
        goal = goal_of(portfolio, ACCURACY)
        # the root is homogeneous
        rooted = task.measure.name == "semivariance" and goal is not Utility
        measure = Semideviation(2.0) if rooted else task.measure
        rounds = partial(Rounds, replace(task, measure=measure), goal, tol)
        name = "moments" if is_word(solver, "moments") else "newton"
        return ExactMethod(portfolio, name, task, rounds, tol, iteration="round")
    needs = ["objective='ratio'"] * (portfolio.objective == "ratio")
    needs += ["max_risk"] * (portfolio.max_risk is not None)
    needs += [f"risk_measure={task.measure.name!r}"] * (task.measure.problem is None)
    if limits is not None:
        check_integer_limits(portfolio, task.measure, limits)
        needs += [*limits.names] or ["solver='scip'"]
    by_moments = is_word(solver, "moments")  # which meet all constraints, too
    needs += [] if by_moments else task.penalty.parameters()
    if needs and not is_word(solver, "auto", "newton", "scip"):
        raise ValueError(
            f"solver={portfolio.solver!r} cannot be used with {' and '.join(needs)}, "
            "which only the second-order method supports: take solver='auto' or "
            "'newton'"
        )
    automatic = is_word(solver, "auto") and can_solve(task)
    if not (needs or automatic or is_word(solver, "newton", "moments")):
        return Iterative(portfolio, task)
    if not (by_moments or can_solve(task)):
        raise ValueError(
            f"{' and '.join(needs) or 'solver=' + repr(solver)} needs returns that "
            "are an array in memory, of at most "
            "4096 assets and 2**26 numbers (2**36 for a Hessian), got "
            f"{type(task.returns).__name__} of shape "
            f"{task.returns.shape}: "
            + ("use fewer periods or assets" if needs else "use solver='storm-c'")
        )
    if by_moments:
        return ExactMethod(portfolio, "moments", task, partial(ByMoments, task), tol)
    goal = goal_of(portfolio, tol)
    if limits is None:
        return ExactMethod(
            portfolio, "newton", task, partial(goal, task), tol, evaluations=2
        )
    chosen = partial(WithIntegerLimits, portfolio, goal, limits, tol, task)
    return ExactMethod(portfolio, "scip", task, chosen, tol)


def goal_of(portfolio, tol):
    """The goal of a `CompositionalPortfolio`, as a function of its task."""
    if portfolio.max_risk is not None:
        return partial(WithinRisk, max_risk=portfolio.max_risk, tol=tol)
    return Ratio if portfolio.objective == "ratio" else Utility


# exact methods


class _Ended(Exception):
    """Raised when the budget or a callback ends a fit."""


@dataclass(eq=False)
class ExactMethod:
    """An exact method for an objective with an interface like that of `Utility`.

    It is also what `Fit` runs as the solver.
    """

    portfolio: Any
    name: str
    task: MeanRisk
    make_objective: Any
    tol: float
    evaluations: int = 1  # of each component in an iteration: of a gradient, a Hessian
    iteration: str = "iteration"  # its name in messages

    max_ifo, resumable = None, False

    @property
    def max_iter(self):
        """The budget of iterations."""
        return self.portfolio.max_iter

    @property
    def solver(self):
        """What `Fit` runs."""
        return self

    def get_params(self, deep=True):
        """The parameters: none besides the name."""
        return {}

    def run(self, fit):
        """The result of the fit, with a bound of its gap."""
        n = self.task.penalty.n_assets
        return fit.run(
            self,
            self.task,
            verbose=self.portfolio.verbose,
            attributes=lambda w: {"weights_": w[:n], "n_features_in_": n},
        )

    def solve(self, task, x0=None, *, random_state=None, on_record=None, verbose=0):
        """Run the method. Ctrl-C, a callback or the budget ends it at the best feasible
        weights so far."""
        m, n = self.evaluations * task.n_inner, self.evaluations * task.n_outer
        self.of_iteration = {"inner": m, "jacobian": m, "outer": n}
        self.objective = objective = self.make_objective()
        self.on_record, self.n_iter, self.n_more, self.records = on_record, 0, 0, []
        self.report = Report(2 * task.n_inner + task.n_outer) if verbose else None
        self.best, self.value = objective.start, objective.value_at(objective.start)
        gap, self.contradiction = np.inf, 0.0
        try:
            self._record()
            solution = objective.minimise(self._iterated)
            self.best, self.value = solution.weights, solution.value
            exact = task.penalty.at_limits(self.best)
            value = objective.value_at(exact) if objective.allows(exact) else np.inf
            rounding = PROGRAM_TOLERANCE * solution.unit + solution.error
            rounding += RELATIVE_ROUNDING * abs(self.value)
            if value <= self.value + rounding:
                self.best, self.value = exact, value
            scale, tol = objective.spread(self.best), max(self.tol, ACCURACY)
            stated = Gap(self.value, solution.lower, scale, tol, rounding)
            # without a bound, the gap says nothing about a method that has reached its
            # tolerance
            good = stated.is_small or (solution.lower == -np.inf and solution.done)
            reason = solution.reason or (
                StopReason.CONVERGED if good else StopReason.MAX_ITER
            )
            gap, self.contradiction = stated.size, stated.contradiction
        except _Ended as ended:
            reason = ended.args[0]
            gap = objective.gap_at(self.best)
        except KeyboardInterrupt:
            reason = StopReason.INTERRUPTED
        if self.records[-1][0] == self.n_iter:  # its value may have changed since
            self.records.pop()
        self.records.append((self.n_iter, self._ifo(), self.value))
        n_evaluations = {
            kind: self.n_iter * count + self.n_more
            for kind, count in self.of_iteration.items()
        }
        return result_of(
            self.records, self.best, reason, n_evaluations=n_evaluations, gap=gap
        )

    def _ifo(self):
        return self.n_iter * sum(self.of_iteration.values()) + 3 * self.n_more

    def _iterated(self, weights, n_more=0):
        """Count an iteration and further evaluations of each kind. Store its weights if
        they are the best so far."""
        self.n_iter, self.n_more = self.n_iter + 1, self.n_more + n_more
        weights = self.objective.last_feasible(weights)
        value = self.objective.value_at(weights)
        if not self.value <= value:
            self.best, self.value = weights, value
        self._record()
        if self.n_iter >= (self.max_iter or np.inf):
            raise _Ended(StopReason.MAX_ITER)

    def _record(self):
        n, ifo, value = self.n_iter, self._ifo(), float(self.value)
        self.records.append((n, ifo, value))
        if self.report is not None:
            self.report.line(n, ifo, value, np.nan)
        if self.on_record is None:
            return
        if self.on_record(
            Record(n, ifo, value, self.best.copy(), lambda: None, lambda: np.inf)
        ):
            raise _Ended(StopReason.CALLBACK)

    def conclude(self, result):
        """Warn if the fit has ended with a gap above tol, or raise KeyboardInterrupt
        again."""
        if result.stop_reason == StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        if result.stop_reason not in (StopReason.MAX_ITER, StopReason.TIME_LIMIT):
            return
        why = (
            f"may be above its minimum by up to {result.gap:.2g}, where "
            f"tol={self.tol:g} of its spread was asked for"
        )
        if self.task.unbounded_below():
            why = (
                "has no minimum, since some combination of assets has a mean return "
                "and no risk"
            )
        elif self.contradiction:
            why = (
                f"is below a lower bound of its minimum, by {self.contradiction:.2g}: "
                "they contradict each other, and the gap is not known. Either the "
                "returns changed between passes, as random numbers of dask without a "
                "seed do (X.persist() keeps them), or this is an error of sk_stormc"
            )
        elif result.gap == np.inf:
            why = "may be far above its minimum, if there is one"
        after = f"{result.n_iter} {self.iteration}s"
        instead = "Add bounds or a budget, or raise max_iter or tol"
        if result.stop_reason == StopReason.TIME_LIMIT:
            after = f"time_limit={self.portfolio.time_limit:g} seconds"
            instead = "Raise time_limit or tol"
        missed = self.task.penalty.missed(result.x)
        if missed is not None:
            why = f"is that of weights that miss {missed} of its size"
            instead = "Loosen limits that nearly contradict each other"
        warn(
            f"CompositionalPortfolio has not converged: after {after} the objective "
            f"{result.fun:.6g} {why}. {instead}.",
            ConvergenceWarning,
        )


# iterative methods


class Iterative:
    """An iterative solver, on the compositional problem of a task."""

    def __init__(self, portfolio, task):
        self.portfolio, self.task = portfolio, task
        self.solver = portfolio._stepping_solver()
        self.problem = task.problem(task.penalty.proximal())
        if can_solve(task):
            instead = "solver='auto', which is exact"
            self.problem.advice = replace(self.problem.advice, instead=instead)
        self.solver.accept(self.problem)

    def run(self, fit):
        """The result of the fit, with a bound of its gap."""
        x0, first_residual = self._warm_start(fit)
        n_assets = self.task.penalty.n_assets
        result = fit.run(
            self.solver,
            self.problem,
            x0,
            first_residual=first_residual,
            verbose=self.portfolio.verbose,
            attributes=lambda x: {"weights_": x, "n_features_in_": n_assets},
        )
        gap = slope_gap(self.problem, self.task.penalty, result.x)
        result.gap = dual_gap(self.task, result.x, gap) if gap > 0 else gap
        return result

    def _warm_start(self, fit):
        """The initialization of a warm start, and the residual to which its tol is
        relative."""
        portfolio, n_assets = self.portfolio, self.task.penalty.n_assets
        if not (portfolio.warm_start and hasattr(portfolio, "weights_")):
            return None, None
        if len(portfolio.weights_) != n_assets:
            raise ValueError(
                f"warm_start=True needs returns of the {len(portfolio.weights_)} "
                f"assets fitted before, got {n_assets}"
            )
        last, residual = portfolio._progress, None
        if (
            last is not None
            and last.runs
            and last.parameters == fit.progress.parameters
        ):
            residual = last.runs[-1].first_residual
        return portfolio.weights_, residual

    def conclude(self, result):
        """Warn if the run has not converged, or if it has converged with a notable
        gap."""
        tol, instead = self.solver.tol, self.problem.advice.instead
        self.portfolio._conclude(self.solver, result, instead)
        notable = result.gap > max(1e-3, 10 * tol) * abs(result.fun)
        tight = is_cheap(self.problem.task)  # other bounds are loose
        if result.stop_reason == StopReason.CONVERGED and tight and notable:
            warn(
                f"CompositionalPortfolio has converged to tol={tol:g}, but its "
                f"objective {result.fun:.6g} may be above its minimum by up to "
                f"{result.gap:.2g}, since some assets may be nearly combinations of "
                "others. Add bounds or an l1 "
                f"norm{', or take ' * bool(instead)}{instead}.",
                ConvergenceWarning,
            )
