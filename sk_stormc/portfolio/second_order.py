"""The exact methods of `CompositionalPortfolio` behind the interface of a solver, with a record for each iteration."""

from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.results import Record, Report, SolverResult, StopReason, outcome
from sk_stormc.portfolio.limits import Limited
from sk_stormc.portfolio.newton import can_solve
from sk_stormc.portfolio.ratio import Ratio
from sk_stormc.portfolio.utility import ByMoments, Utility
from sk_stormc.portfolio.within_risk import WithinRisk
from sk_stormc.utils.validation import is_word
from sk_stormc.utils.warnings import warn

__all__ = ["conclude_exact", "exact_method", "run_exact"]

TOL = 1e-4  # default of the exact methods, the same as for the other solvers
ROUNDING = 1e-12  # rounding error of the objective, relative to its size
NEGLIGIBLE = 1e-9  # gap that counts as none, relative to a typical size of the objective


def exact_method(portfolio, solver, problem, penalty):
    """The exact method of a fit as a solver; None if it is to be made by steps."""
    needs = ["objective='ratio'"] * (portfolio.objective == "ratio")
    needs += ["max_risk"] * (portfolio.max_risk is not None)
    needs += [
        "risk_measure='cdar', as a drawdown depends on all earlier periods and is not an average of samples,"
    ] * problem.ordered
    if isinstance(penalty, Limited) and solver != "moments":  # which keep to all limits too
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
        program = partial(WithinRisk, problem, penalty, float(portfolio.max_risk))
    elif portfolio.objective == "ratio":
        program = partial(Ratio, problem, penalty)
    else:
        program = partial(ByMoments if solver == "moments" else Utility, problem, penalty)
    name = "newton" if solver == "auto" else solver
    return SecondOrder(name, program, TOL if portfolio.tol is None else portfolio.tol, portfolio.max_iter)


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
