"""The exact methods of `CompositionalPortfolio` behind the interface of a solver, with a record for each iteration."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.records import Report
from sk_stormc.engine.results import Record, SolverResult, StopReason, outcome
from sk_stormc.portfolio.gaps import dual_gap
from sk_stormc.portfolio.limits import Limited
from sk_stormc.portfolio.newton import can_solve, feasible, nearly, solve_portfolio
from sk_stormc.portfolio.problem import deviation_of
from sk_stormc.portfolio.quadratic import solve_quadratic
from sk_stormc.portfolio.risk_measures import MEASURES
from sk_stormc.portfolio.sums import Sums
from sk_stormc.utils.validation import is_word
from sk_stormc.utils.warnings import warn

__all__ = ["ByMoments", "SecondOrder", "Utility", "check_exact", "conclude_exact", "needs_exact"]

TRACKING = 0.01  # fraction of a benchmark's standard deviation below which a tracking error counts as 0
ROUNDING = 1e-12  # rounding error of the objective, relative to its size
NEGLIGIBLE = 1e-9  # gap that counts as none, relative to a typical size of the objective
ROWS = 1024  # rows of a block whose products are summed


def needs_exact(portfolio, problem, penalty):
    """What of a fit only the second-order method supports, in words; empty if nothing does."""
    needs = ["objective='ratio'"] * (portfolio.objective == "ratio")
    needs += ["max_risk"] * (portfolio.max_risk is not None)
    needs += [
        "risk_measure='cdar', as a drawdown depends on all earlier periods and is not an average of samples,"
    ] * problem.ordered
    if isinstance(penalty, Limited) and portfolio.solver != "moments":  # which keep to all limits too
        needs += penalty.parameters()
    return " and ".join(needs)


def check_exact(problem, penalty, needs, solver):
    """Raise a ValueError if the second-order method is needed but does not fit the data, the penalty or the solver."""
    if not is_word(solver, "auto", "newton"):
        raise ValueError(
            f"solver={solver!r} cannot be used with {needs}, which only the second-order method supports: take "
            "solver='auto' or 'newton'"
        )
    if not can_solve(problem.returns, penalty):
        raise ValueError(
            f"{needs} needs returns that are an array in memory, of at most 4096 assets and 2**26 numbers, got "
            f"{type(problem.returns).__name__} of shape {problem.returns.shape}: use solver='storm-c'"
            + " without" * (needs != "solver='newton'")
        )


class Utility:
    """The problem of the largest utility, for Newton's method."""

    def __init__(self, problem, penalty):
        n = problem.returns.shape[1]
        self.problem, self.penalty = problem, penalty
        empty = nearly(penalty, np.zeros(n))
        limited = isinstance(penalty, Limited)
        allowed = not empty[: n - (limited and penalty.active)].any() and not (limited and penalty.missed(empty))
        starts = [] if penalty is None else [penalty.project(np.full(n, 1 / n))]
        self.start = min([empty] * allowed + starts, key=problem.value_at)

    def value_at(self, weights):
        """The objective, exact."""
        return self.problem.value_at(weights)

    def feasible(self, weights):
        """The nearest feasible weights, or the last ones on the way from the start."""
        return feasible(self.penalty, weights, self.start)

    def minimise(self, watch):
        """Find the weights, and a bound of the gap. ``watch`` is called with the weights after each iteration."""
        return solve_portfolio(self.problem, self.penalty, self.start, watch)

    def gap_at(self, weights):
        """A bound of the gap of weights at which a fit was ended early."""
        return dual_gap(self.problem, self.penalty, weights, np.inf)

    def spread(self, w):
        """The scale of the gap: the objective of equal weights minus that of w, or the risk of w if that is more.

        A gap relative to it does not depend on the unit of the returns, on a shift of them, or on constant assets.
        """
        problem, equal = self.problem, np.full(len(w), 1 / len(w))
        if self.penalty is not None:
            equal = self.penalty.project(equal)
        deviation = deviation_of(np.asarray(problem.returns @ w, float), problem.weights)
        if isinstance(self.penalty, Limited) and self.penalty.active:  # the benchmark itself may be the best portfolio
            deviation = max(deviation, TRACKING * float(np.std(problem.returns[:, -1])))
        risk = problem._price * deviation**2 if MEASURES[problem.risk_measure].power == 2 else deviation
        return max(problem.value_at(equal) - problem.value_at(w), risk)


class ByMoments(Utility):
    """The problem of the largest utility for the variance, from sums of products of the returns, in one pass."""

    def __init__(self, problem, penalty):
        if problem.risk_measure != "variance":
            raise ValueError(
                "solver='moments' can fit risk_measure='variance' only, which moments determine, and learns the others "
                f"in partial_fit only, got {problem.risk_measure!r}: use solver='auto' or 'storm-c'"
            )
        super().__init__(problem, penalty)

    def minimise(self, watch):
        """Sum, and solve the quadratic program."""
        problem, sums = self.problem, Sums.none(self.problem.n_variables)
        for i in range(0, problem.n_inner, ROWS):
            p = None if problem.weights is None else problem.weights[i : i + ROWS]
            sums = sums.plus(Sums.of(problem.returns[i : i + ROWS].astype(float), p))
        found = solve_quadratic(problem._gain * sums.mean, problem._price * sums.covariance(), self.penalty, self.start)
        watch(found.weights)
        return found


class _Ended(Exception):
    """The budget or a callback has ended a fit."""


class SecondOrder:
    """An exact method, as `Fit.run` expects a solver."""

    def __init__(self, name, program, tol, max_iter):
        self.name, self.program_of, self.tol, self.max_iter = name, program, tol, max_iter or np.inf

    def get_params(self, deep=True):
        """The method, which a resumed fit must have in common."""
        return {"method": self.name}

    def solve(self, problem, x0=None, *, random_state=None, on_record=None, verbose=0):
        """Run the method. Ctrl-C, a callback or the budget ends it at the best feasible weights so far."""
        times = 2 if self.name == "newton" else 1  # gradient and Hessian
        m, n = times * problem.n_inner, times * problem.n_outer
        self.evaluations = {"inner": m, "jacobian": m, "outer": n}  # of an iteration
        self.program = program = self.program_of()
        self.on_record, self.n_iter, self.records = on_record, 0, []
        self.report = Report(2 * problem.n_inner + problem.n_outer) if verbose else None
        self.best, self.value = program.start, program.value_at(program.start)
        gap = np.inf
        try:
            self._record()
            found = program.minimise(self._iterated)
            self.best, self.value, gap = found.weights, found.value, found.gap
            small = max(self.tol, 1e-7) * program.spread(self.best)
            small += ROUNDING * abs(self.value) + NEGLIGIBLE * found.unit
            reason = StopReason.CONVERGED if abs(gap) <= small else StopReason.MAX_ITER
        except _Ended as ended:
            reason = ended.args[0]
            gap = program.gap_at(self.best)
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
        """Count an iteration, and keep its weights if they are the best so far."""
        self.n_iter += 1
        weights = self.program.feasible(weights)
        value = self.program.value_at(weights)
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


def conclude_exact(result, tol, problem):
    """Warn if an exact fit has ended with a gap above tol, or raise KeyboardInterrupt again."""
    if result.stop_reason == StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if result.stop_reason != StopReason.MAX_ITER:
        return
    why = f"may be above its minimum by up to {result.gap:.2g}, where tol={tol:g} of its spread was asked for"
    if problem.unbounded_below():
        why = "has no minimum, since some combination of assets has a mean return and no risk"
    elif result.gap == np.inf:
        why = "may be far above its minimum, if there is one"
    warn(
        f"CompositionalPortfolio has not converged: after {result.n_iter} iterations the objective {result.fun:.6g} "
        f"{why}. Add bounds or a budget, or raise max_iter or tol.",
        ConvergenceWarning,
    )
