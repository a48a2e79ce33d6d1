"""The fits of `CompositionalPortfolio` with an exact method: its choice, a record per
iteration, and what it says."""

from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.results import Record, Report, StopReason, result_of
from sk_stormc.engine.stopping import Gap
from sk_stormc.portfolio.exact.integer import WithIntegerLimits, check_integer_limits
from sk_stormc.portfolio.exact.objectives import (
    ByMoments,
    Utility,
    WithinRisk,
)
from sk_stormc.portfolio.exact.program import can_solve
from sk_stormc.portfolio.exact.ratio import Ratio
from sk_stormc.portfolio.exact.tolerances import (
    ACCURACY,
    PROGRAM_TOLERANCE,
    RELATIVE_ROUNDING,
)
from sk_stormc.utils.validation import is_word
from sk_stormc.utils.warnings import warn

__all__ = ["TOL", "ExactMethod", "conclude_exact", "exact_method", "run_exact"]

TOL = 1e-4  # default of the exact methods, which is also that of the other solvers


def exact_method(portfolio, solver, task, limits=None):
    """The exact method of a fit as a solver, or None if the fit uses an iterative
    solver."""
    needs = ["objective='ratio'"] * (portfolio.objective == "ratio")
    needs += ["max_risk"] * (portfolio.max_risk is not None)
    needs += [f"risk_measure={task.measure.name!r}"] * (task.measure.problem is None)
    if limits is not None:
        check_integer_limits(portfolio, task.measure, limits)
        needs, solver = [*limits.names] or ["solver='scip'"], "auto"
    if solver != "moments":  # which meet all constraints, too
        needs += task.penalty.parameters()
    if not (needs or isinstance(solver, str)):
        return None
    if needs and not is_word(solver, "auto", "newton"):
        raise ValueError(
            f"solver={portfolio.solver!r} cannot be used with {' and '.join(needs)}, "
            "which only the second-order "
            "method supports: take solver='auto' or 'newton'"
        )
    if solver == "auto" and not (needs or can_solve(task)):
        return None
    if solver != "moments" and not can_solve(task):
        raise ValueError(
            f"{' and '.join(needs) or 'solver=' + repr(solver)} needs returns that "
            "are an array in memory, of at most "
            "4096 assets and 2**26 numbers (2**36 for a Hessian), got "
            f"{type(task.returns).__name__} of shape "
            f"{task.returns.shape}: "
            + ("use fewer periods or assets" if needs else "use solver='storm-c'")
        )
    tol = TOL if portfolio.tol is None else portfolio.tol
    if portfolio.max_risk is not None:
        objective = partial(WithinRisk, task, max_risk=portfolio.max_risk, tol=tol)
    elif portfolio.objective == "ratio":
        objective = partial(Ratio, task)
    else:
        objective = partial(ByMoments if solver == "moments" else Utility, task)
    name = "newton" if solver == "auto" else solver
    if limits is not None:
        name = "scip"
        objective = partial(WithIntegerLimits, portfolio, objective, limits, tol)
    return ExactMethod(name, objective, tol, portfolio.max_iter)


def run_exact(portfolio, method, task, fit):
    """Run an exact method. Return the result, its weights and a bound of its gap."""
    n_assets = task.penalty.n_assets
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
    """An exact method as a `Method` of a fit."""

    max_ifo, resumable = None, False

    def __init__(self, name, make_objective, tol, max_iter, iteration="iteration"):
        self.name = name
        self.make_objective = make_objective
        self.tol = tol
        self.max_iter = max_iter or np.inf
        self.iteration = iteration  # its name in messages: an iteration, or a round

    def get_params(self, deep=True):
        """The parameters: none besides its name."""
        return {}

    def solve(self, task, x0=None, *, random_state=None, on_record=None, verbose=0):
        """Run the method. Ctrl-C, a callback or the budget ends it at the best feasible
        weights so far."""
        # gradient and Hessian
        times = 2 if self.name == "newton" and self.iteration == "iteration" else 1
        m, n = times * task.n_inner, times * task.n_outer
        # evaluations of an iteration
        self.evaluations = {"inner": m, "jacobian": m, "outer": n}
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
            for kind, count in self.evaluations.items()
        }
        return result_of(
            self.records, self.best, reason, n_evaluations=n_evaluations, gap=gap
        )

    def _ifo(self):
        return self.n_iter * sum(self.evaluations.values()) + 3 * self.n_more

    def _iterated(self, weights, n_more=0):
        """Count an iteration and further evaluations of each kind. Store its weights if
        they are the best so far."""
        self.n_iter, self.n_more = self.n_iter + 1, self.n_more + n_more
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
        if self.on_record(
            Record(n, ifo, value, self.best.copy(), lambda: None, lambda: np.inf)
        ):
            raise _Ended(StopReason.CALLBACK)


def conclude_exact(portfolio, method, task, result):
    """Warn if an exact fit has ended with a gap above tol, or raise KeyboardInterrupt
    again."""
    if result.stop_reason == StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if result.stop_reason not in (StopReason.MAX_ITER, StopReason.TIME_LIMIT):
        return
    why = (
        f"may be above its minimum by up to {result.gap:.2g}, where "
        f"tol={method.tol:g} of its spread was asked for"
    )
    if method.iteration == "iteration" and task.measure.unbounded_below(task):
        why = (
            "has no minimum, since some combination of assets has a mean return and "
            "no risk"
        )
    elif method.contradiction:
        why = (
            f"is below a lower bound of its minimum, by {method.contradiction:.2g}: "
            "they contradict each other, and the gap is not known. Either the returns "
            "changed between passes, as random numbers of dask without a seed do "
            "(X.persist() keeps them), or this is an error of sk_stormc"
        )
    elif result.gap == np.inf:
        why = "may be far above its minimum, if there is one"
    after = f"{result.n_iter} {method.iteration}s"
    instead = "Add bounds or a budget, or raise max_iter or tol"
    if result.stop_reason == StopReason.TIME_LIMIT:
        after = f"time_limit={portfolio.time_limit:g} seconds"
        instead = "Raise time_limit or tol"
    missed = task.penalty.missed(result.x)
    if missed is not None:
        why = f"is that of weights that miss {missed} of its size"
        instead = "Loosen limits that nearly contradict each other"
    warn(
        f"CompositionalPortfolio has not converged: after {after} the objective "
        f"{result.fun:.6g} {why}. {instead}.",
        ConvergenceWarning,
    )
