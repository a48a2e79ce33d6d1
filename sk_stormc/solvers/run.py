"""One run: its records, its budgets, why it stops, what it returns."""

import math
from dataclasses import dataclass, field

import numpy as np

from sk_stormc.schedules import at

__all__ = ["Loop", "MethodState", "Record", "RunState", "SolverResult", "StopReason", "falls_for_ever"]

PASSES = 100  # the budget where neither max_iter nor max_ifo is given


class StopReason:
    """Why a run ended: the values of ``stop_reason``."""

    CONVERGED = "converged"  #: |x~ - x| / eta fell to tol times its first value, or to rounding
    MAX_ITER = "max_iter"  #: max_iter iterations were made
    MAX_IFO = "max_ifo"  #: the next iteration would have exceeded max_ifo
    NON_FINITE = "non_finite"  #: a value was infinite or NaN, or on its way there; x is the best iterate recorded
    EXHAUSTED = "exhausted"  #: the stream has no rows for another iteration
    CALLBACK = "callback"  #: on_record returned a true value


@dataclass
class MethodState:
    """What every method's state has; arrays are rebound, never written into.

    Attributes
    ----------
    x : ndarray of shape (n_variables,)
        The iterate x_t.
    t : int
        Iterations made.
    residual : float or None
        |x~ - x| / eta where it was last measured, for the stopping rule.
    at_anchor : bool or None
        Whether it was measured with full gradients; None for a method without anchors.
    """

    x: np.ndarray
    t: int = 0
    residual: float | None = None
    at_anchor: bool | None = None


@dataclass
class RunState:
    """A whole run, to be pickled and resumed: the method's state, the oracle's, and the records."""

    method: str
    state: MethodState = None
    oracle: dict = None
    records: list = field(default_factory=list)  # (iteration, ifo, fun)
    best_x: np.ndarray = None
    best_fun: float = math.inf
    milestones: tuple = (None, None)  # x_t at the last two t that are powers of two
    next_record: float = 0
    seen: int = -1  # the last iteration that was looked at
    measured: tuple = None  # (iteration, residual) as last compared with tol
    first_residual: float | None = None
    first_length: float = 0.0  # the first residual that is not 0
    window: tuple = (0.0, 0, None)  # sum and number of residuals, IFO at which the pass ends


@dataclass
class SolverResult:
    """What a run found.

    Attributes
    ----------
    x : ndarray of shape (n_variables,)
    fun : float
        Phi(x), R included.
    loss_curve : ndarray of shape (n_records,)
        Phi at the records: at x_0 first, at the returned x last.
    ifo : ndarray of shape (n_records,)
        Cumulative IFO at the records; 0 first, the total last.
    n_evaluations : dict
        Component evaluations by kind: "inner", "jacobian", "outer".
    n_iter : int
        Iterations, those before a resumption included.
    stop_reason : {"converged", "max_iter", "max_ifo", "non_finite", "exhausted", "callback"}
    n_guarded : int
        Entries of estimates of u that had left the domain of f and were put back.
    state : RunState
        For ``state=`` of another run; picklable, free of the data.
    """

    x: np.ndarray
    fun: float
    loss_curve: np.ndarray
    ifo: np.ndarray
    n_evaluations: dict
    n_iter: int
    stop_reason: str
    n_guarded: int
    state: RunState = field(repr=False)


@dataclass(frozen=True)
class Record:
    """What ``on_record`` is given: iteration, ifo, fun, x."""

    iteration: int
    ifo: int
    fun: float
    x: np.ndarray


class Loop:
    """Bookkeeping of one run: budgets, records, stopping. `proceed` is asked before every iteration."""

    def __init__(self, solver, oracle, run, record_every, on_record):
        problem = oracle.problem
        self.solver, self.oracle, self.run, self.on_record = solver, oracle, run, on_record
        self.a_pass = 2 * problem.n_inner + problem.n_outer
        self.record_every = record_every or problem.defaults.get("record_every", self.a_pass)
        max_iter = solver.max_iter
        if max_iter is None and solver.max_ifo is None:
            max_iter = problem.defaults.get("max_iter")
        unlimited = max_iter is None and solver.max_ifo is None
        self.max_ifo = PASSES * self.a_pass if unlimited else solver.max_ifo or math.inf
        self.max_iter = max_iter or math.inf
        self.reason = None

    def record(self, x):
        """Record Phi(x) for the iteration of the state, and ask the callback."""
        run, t, ifo, fun = self.run, self.run.state.t, self.oracle.ifo, self.oracle.objective(x)
        run.records.append((t, ifo, fun))
        run.next_record = (ifo // self.record_every + 1) * self.record_every
        if fun < run.best_fun:
            run.best_x, run.best_fun = x, fun
        if not math.isfinite(fun):
            self.reason = StopReason.NON_FINITE
        elif self.on_record is not None and self.on_record(Record(t, ifo, fun, x)):
            self.reason = StopReason.CALLBACK

    def proceed(self):
        """Whether to make another iteration, from the state the last one left."""
        s, run = self.run.state, self.run
        if s.t > run.seen:
            run.seen = s.t
            self._look(s)
        if self.reason is None and self._converged(s):
            self.reason = StopReason.CONVERGED
        if self.reason is None and s.t >= self.max_iter:
            self.reason = StopReason.MAX_ITER
        return self.reason is None and self.afford(self.solver.cost(self.oracle, s))

    def _converged(self, s):
        run, tol = self.run, self.solver.tol
        if tol == 0 or s.t == 0 or run.measured is None or run.measured[0] != s.t:
            return False
        return run.measured[1] <= tol * run.first_residual or self._at_rounding(s)

    def _at_rounding(self, s):
        """Whether a step would only move x by its rounding: a start at the optimum has nothing to fall from."""
        metric, rate = self.oracle.problem.metric, getattr(s, "learning_rate", None)
        if not s.at_anchor or rate is None:
            return False
        if hasattr(metric, "inverse_length"):
            size = metric.inverse_length(s.x)
        elif np.ndim(metric) == 2:  # which would have to be solved for
            return False
        else:
            size = np.linalg.norm(s.x if metric is None else s.x / np.sqrt(metric))
        rate = at(rate, s.t)  # 0 at the end of a schedule, where a step says nothing
        return rate > 0 and rate * s.residual <= 4 * np.finfo(s.x.dtype).eps * size

    def _look(self, s):
        run = self.run
        if s.t and s.residual is not None:
            run.first_length = run.first_length or s.residual
            if not s.residual * np.finfo(s.x.dtype).eps <= run.first_length:  # NaN, or nothing of the start is left
                self.reason = StopReason.NON_FINITE
                return
        if s.t and self.oracle.ifo >= run.next_record:
            self.record(s.x)
        if s.t & (s.t - 1) == 0:
            run.milestones = (run.milestones[1], s.x)
        if s.residual is not None:
            self._measure(s)

    def _measure(self, s):
        """Take the residual as it is at an anchor, else its average over a pass where one is complete."""
        run, value = self.run, s.residual
        if s.at_anchor is None:
            total, number, end = run.window
            total, number = total + value, number + 1
            end = self.oracle.ifo + self.a_pass if end is None else end
            if self.oracle.ifo < end:
                run.window = (total, number, end)
                return
            value, run.window = total / number, (0.0, 0, None)
        elif not s.at_anchor:
            return
        run.measured = (s.t, value)
        if run.first_residual is None:
            run.first_residual = value

    def afford(self, ifo):
        """Whether so much more IFO stays within max_ifo."""
        if self.oracle.ifo + ifo > self.max_ifo:
            self.reason = StopReason.MAX_IFO
        elif self.reason is None and not self.oracle.lasts(ifo):
            self.reason = StopReason.EXHAUSTED
        return self.reason is None


def falls_for_ever(problem, run, x, fun):
    """Whether Phi is unbounded below: the problem knows, or it falls in proportion along the way of the run.

    The way since the milestone before the last is followed ten thousand million times as far. So far out, a bounded
    objective has turned up again even where the steps were far too short.
    """
    known = problem.unbounded_below()
    if known is not None:
        return known
    way = x - (x if run.milestones[0] is None else run.milestones[0])
    if abs(way).max() <= 16 * np.finfo(x.dtype).eps * abs(x).max():
        return False  # rounding leads nowhere

    def fall(s):
        point = x + s * way
        return fun - problem.objective(point if problem.penalty is None else problem.penalty.project(point))

    return fall(1e8) > 0 and fall(1e10) > 10 * fall(1e8)
