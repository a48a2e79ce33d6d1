"""One run of a solver on a problem, from its start to its result."""

import math
import signal
import threading
from contextlib import contextmanager

import numpy as np

from sk_stormc.core.penalties import projected
from sk_stormc.engine.diagnostics import warn_if_clipped, warn_if_far, warn_of_the_end
from sk_stormc.engine.oracle import Oracle
from sk_stormc.engine.results import (
    MethodState,
    Record,
    Report,
    RunState,
    SolverResult,
    StopReason,
    result_of,
)
from sk_stormc.engine.stopping import Stopping, StoppingRule
from sk_stormc.engine.stream_policy import StreamPolicy
from sk_stormc.utils.arrays import as_numbers, check_all_finite
from sk_stormc.utils.descriptions import check_unchanged, describe
from sk_stormc.utils.parameters import drawn_seed, is_integer

DEFAULT_PASSES = 100  # the budget if neither max_iter nor max_ifo is given
# parameters that may change when a run continues
MAY_CHANGE = ("max_iter", "max_ifo", "tol", "verbose")


def run(
    solver,
    problem,
    x0,
    random_state,
    state,
    record_every,
    on_record,
    verbose,
    first_residual,
):
    """`CompositionalSolver.solve` with checked parameters."""
    # the loop detects overflow, and reports it once
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if state is None:
            oracle = Oracle(problem, drawn_seed(random_state))
            oracle.preconditioner = solver.run_preconditioner(oracle, None)
            x = _start_point(problem, oracle, x0)
            run = RunState(
                type(solver).__name__,
                problem.description(),
                MethodState(x),
                best_x=x,
                start=x,
                parameters=_parameters(solver),
                random_state=int(random_state) if is_integer(random_state) else None,
                stopping=Stopping(first=first_residual),
            )
        else:
            _check_state(solver, problem, state, x0, random_state)
            oracle, run = Oracle(problem, 0), state.copy()
            oracle.restore(state.oracle)
            oracle.preconditioner = solver.run_preconditioner(oracle, run.state)
        loop = Loop(solver, oracle, run, record_every, on_record, verbose)
        if state is None:
            loop.record()
            loop.notify()
        elif run.overflowed:
            loop.reason = StopReason.NON_FINITE
        if loop.stream is not None:
            loop.stream.store(loop)
        with _ending_by_ctrl_c(loop):
            try:
                _iterate(solver, oracle, loop)
            finally:  # also if Ctrl-C comes before the result
                if loop.stream is not None and loop.reason is not None:
                    loop.stream.store_last(oracle, run)
        result = _result(solver, oracle, loop)
        loop.rule = None  # break a reference cycle, which would keep a stream's rows
        warn_of_the_end(solver, oracle, result, loop.stream is None, loop.unlimited)
        warn_if_clipped(solver, oracle)
        if x0 is not None and state is None:
            far = warn_if_far(
                solver, oracle, result, _start_point(problem, Oracle(problem, 0), None)
            )
            result.success = result.success and not far
    return result


def _iterate(solver, oracle, loop):
    """Initialise the state of the method if there is none, and iterate until there is a
    reason to stop."""
    run, stream = loop.run, loop.stream
    while True:
        if loop.reason is None and type(run.state) is MethodState:
            x = run.state.x
            run.state = (
                solver.init_state(oracle, x)
                if stream is None
                else stream.init_state(loop, x)
            )
            if not isinstance(run.state, MethodState):
                raise ValueError(
                    "init_state must return a MethodState, got "
                    f"{type(run.state).__name__}"
                )
        if loop.reason is None:
            solver.iterate(oracle, run.state, loop)
        if stream is None or not stream.restarts(solver, oracle, run, loop.reason):
            break
        loop.reason = None
    if loop.interrupted and loop.reason == StopReason.EXHAUSTED:
        loop.reason = StopReason.INTERRUPTED


@contextmanager
def _ending_by_ctrl_c(loop):
    """Let the first Ctrl-C end the run after its iteration. A second one raises
    KeyboardInterrupt at once."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def note(signum, frame):
        # do not disturb a run that is already ending
        if loop.interrupted and loop.reason is None:
            raise KeyboardInterrupt
        loop.interrupted = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# the starting point, and the state of an earlier run


def _start_point(problem, oracle, x0):
    """The starting point: x0, or by default that of the problem, within the domain of
    the penalty."""
    default = problem.initial_point(oracle.rng)
    x = default if x0 is None else as_numbers("x0", problem.ravel(x0), default.dtype)
    if x.shape != (problem.n_variables,):
        raise ValueError(f"x0 must have shape ({problem.n_variables},), got {x.shape}")
    check_all_finite("x0", x)
    return projected(problem.penalty, x)


def _parameters(solver):
    """Descriptions of the parameters that must be the same in a run that continues."""
    return {
        name: describe(value)
        for name, value in solver.get_params(deep=False).items()
        if name not in MAY_CHANGE
    }


def _check_state(solver, problem, state, x0, random_state):
    """Raise a ValueError if a run with these arguments differs from the run of the
    state."""
    if not isinstance(state, RunState) or state.method != type(solver).__name__:
        method = getattr(state, "method", type(state).__name__)
        hint = ": give its state" if isinstance(state, SolverResult) else ""
        raise ValueError(
            f"state must come from a run of {type(solver).__name__}, got one of "
            f"{method}{hint}"
        )
    if state.state.x.shape != (problem.n_variables,):
        raise ValueError(
            f"state is of {state.state.x.size} variables, the problem has "
            f"{problem.n_variables}"
        )
    if state.problem != problem.description():
        raise ValueError(
            f"state must come from a run on {problem.description()}, got one on "
            f"{state.problem}"
        )
    advice = "a run that continues", "other parameters need a new run"
    for name, value in _parameters(solver).items():
        check_unchanged(name, state.parameters.get(name, "nothing"), value, *advice)
    if random_state is not None and not (
        is_integer(random_state) and random_state == state.random_state
    ):
        before = (
            "an integer was not given"
            if state.random_state is None
            else f"{state.random_state} was given"
        )
        raise ValueError(
            f"random_state must be None or that of the run of state, where {before}, "
            f"got {random_state}"
        )
    if x0 is not None:
        x = _start_point(problem, Oracle(problem, 0), x0)
        k = int(np.argmax(x != state.start))
        if x[k] != state.start[k]:
            raise ValueError(
                f"x0 must be None or that of the run of state, {state.start[k]} at "
                f"{k}, got {x[k]}"
            )
    if math.isfinite(state.best_fun) and math.isfinite(problem.n_inner):
        fun = problem.reported(state.best_x)
        sizes = [abs(fun) for _, _, fun in state.records if math.isfinite(fun)]
        rounding = math.sqrt(np.finfo(state.best_x.dtype).eps) * max(sizes)
        if not abs(fun - state.best_fun) <= rounding:
            raise ValueError(
                "state must come from a run on the same data: the objective at its "
                f"best point is {fun:.9g} here, and was {state.best_fun:.9g}"
            )


# iterations


class Loop:
    """The work between iterations. `after_iteration` is called before the first
    iteration and after each iteration.

    Parameters
    ----------
    solver : CompositionalSolver
    oracle : Oracle
    run : RunState
    record_every : int or None
    on_record : callable or None
    verbose : int

    Attributes
    ----------
    reason : str or None
        Why the run stops. None while it continues.
    stream : StreamPolicy or None
        The part that is specific to streams. None for a finite sum.
    rule : StoppingRule
    interrupted : bool
        Whether Ctrl-C was pressed.
    """

    def __init__(self, solver, oracle, run, record_every, on_record, verbose):
        problem = oracle.problem
        self.solver, self.oracle, self.run, self.reason = solver, oracle, run, None
        self.stream = None if oracle.source.finite else StreamPolicy()
        self.interrupted = False
        self.pass_ifo = 2 * problem.n_inner + problem.n_outer
        max_iter = solver.max_iter
        if max_iter is None and solver.max_ifo is None:
            max_iter = problem.advice.max_iter
        self.unlimited = max_iter is None and solver.max_ifo is None
        self.max_iter, self.max_ifo = max_iter or math.inf, solver.max_ifo or math.inf
        self.rule = StoppingRule(self)
        self.record_every = record_every or problem.advice.record_every or self.pass_ifo
        self.on_record = on_record
        self.report = Report(self.pass_ifo) if verbose else None
        self._eps = float(np.finfo(run.state.x.dtype).eps)

    def after_iteration(self):
        """Record, measure and count, and set ``reason`` if the run should end."""
        s, run = self.run.state, self.run
        # otherwise a run continues, whose last iteration was processed before
        if s.t > run.last_processed:
            run.last_processed = s.t
            self._measure_and_record(s)
        if self.reason is None and self.solver.tol and self.rule.converged(s):
            self.reason = StopReason.CONVERGED
        if self.reason is None and self.interrupted:
            self.reason = StopReason.INTERRUPTED
        if self.unlimited:
            self.max_iter, passes = self.solver.default_budget(self.oracle, s)
            self.max_ifo = passes * self.pass_ifo
            problem = self.oracle.problem
            # full batches, with which an unbounded objective would only overflow
            if (
                s.t == DEFAULT_PASSES
                and math.isinf(self.max_ifo)
                and problem.advice.unbounded_below(problem)
            ):
                self.max_iter = DEFAULT_PASSES
        if self.reason is None:
            if s.t + run.t_before_restart >= self.max_iter:
                self.reason = StopReason.MAX_ITER
            elif self.max_ifo < math.inf or self.stream is not None:
                self.reserve(self.solver.cost(self.oracle, s))

    def reserve(self, ifo):
        """Set ``reason`` if this additional IFO would exceed max_ifo, or the rows that
        a stream has left."""
        if self.oracle.ifo + ifo > self.max_ifo:
            self.reason = StopReason.MAX_IFO
        elif not self.oracle.lasts(ifo):
            self.reason = StopReason.EXHAUSTED

    def _measure_and_record(self, s):
        """The work that is done once for each iteration."""
        run, t = self.run, s.t
        if t and s.residual is not None and self._overflows(s.residual):
            self.reason = StopReason.NON_FINITE
            return
        self.rule.measure(s)
        if t & (t - 1) == 0:
            run.milestones = (run.milestones[1], s.x)
        due = t and self.oracle.ifo >= run.next_record
        if due:
            self.record()
        if self.stream is not None and self.reason is None:
            if due and self.stream.has_diverged(self.oracle, run, s.x):
                self.reason = StopReason.DIVERGED
            else:
                self.stream.store(self)
        if due:
            self.notify()

    def _overflows(self, residual):
        """Whether a residual is NaN, or 1/eps times the first residual that is not 0.

        A stream may start at the minimum of its first rows, so that its first residual
        is no scale.
        """
        run = self.run
        run.first_length = run.first_length or residual
        largest = run.first_length if self.stream is None else math.inf
        return not residual * self._eps <= largest

    def record(self):
        """Record Phi at the current iterate. Set ``reason`` if it is not finite."""
        run, ifo, x = self.run, self.oracle.ifo, self.run.state.x
        t, fun = run.t, self.oracle.reported(x)
        run.records.append((t, ifo, fun))
        run.next_record = (ifo // self.record_every + 1) * self.record_every
        if fun < run.best_fun and (self.stream is None or not t):
            run.best_x, run.best_fun = x, fun
        if self.report is not None:
            self.report.line(t, ifo, fun, self.rule.residual())
        if not math.isfinite(fun):
            self.reason = StopReason.NON_FINITE

    def notify(self):
        """Call ``on_record`` with the new record, if it is finite. It may set
        ``reason``."""
        t, ifo, fun = self.run.records[-1]
        if self.on_record is None or not math.isfinite(fun):
            return
        record = Record(
            t, ifo, fun, self.run.state.x.copy(), self.snapshot, self.n_left
        )
        try:
            if self.on_record(record):
                self.reason = StopReason.CALLBACK
        except StopIteration:  # as in scipy
            self.reason = StopReason.CALLBACK
        except KeyboardInterrupt:
            self.reason = StopReason.INTERRUPTED

    def snapshot(self):
        """A copy of the run that does not change when the run continues."""
        run = self.run.copy()
        run.oracle = self.oracle.snapshot()
        return run

    def n_left(self):
        """The approximate number of records that the budgets allow. Infinite at the
        start, before costs are known."""
        if type(self.run.state) is MethodState:
            return math.inf
        cost = self.solver.cost(self.oracle, self.run.state)
        ifo = min((self.max_iter - self.run.t) * cost, self.max_ifo - self.oracle.ifo)
        return ifo / max(self.record_every, cost)


# the result


def _result(solver, oracle, loop):
    """The result of a run that has ended."""
    run, reason = loop.run, loop.reason
    run.oracle = oracle.snapshot(last=True)
    records, t = list(run.records), run.t  # the last record is not part of the state
    run.overflowed = reason in (StopReason.NON_FINITE, StopReason.DIVERGED)
    if run.overflowed:
        x, fun = run.best_x, run.best_fun
        records = [r for r in records if math.isfinite(r[2])]
    else:
        if reason == StopReason.CONVERGED:
            x = run.stopping.point
        else:
            x = solver.finish(oracle, run.state) if run.state.t else run.state.x
        is_recorded = x is run.state.x and records[-1][0] == t
        fun = records[-1][2] if is_recorded else oracle.reported(x)
    if not records or records[-1] != (t, oracle.ifo, fun):
        records.append((t, oracle.ifo, fun))
    return result_of(
        records,
        x,
        reason,
        n_evaluations=dict(oracle.n_evaluations),
        residual=loop.rule.residual(),
        n_guarded=oracle.n_guarded,
        state=run,
    )
