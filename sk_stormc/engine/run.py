"""One run of a solver on a problem, from its start to its result."""

import math

import numpy as np

from sk_stormc.engine.ends import warn_if_clipped, warn_if_far, warn_of_the_end
from sk_stormc.engine.interrupts import Interrupts
from sk_stormc.engine.oracle import Oracle
from sk_stormc.engine.records import Records
from sk_stormc.engine.results import MethodState, RunState, SolverResult, StopReason, outcome
from sk_stormc.engine.stopping import StoppingRule
from sk_stormc.engine.watch import shortened, watch_of
from sk_stormc.utils.validation import as_numbers, is_integer, seeded
from sk_stormc.utils.words import check_unchanged, in_words

__all__ = ["Loop", "run"]

IN_VAIN = 100  # iterations after which a run without a budget ends if the objective is known to have no minimum
KEEP_AT = 16  # iterations between two readings of the clock
FREE = ("max_iter", "max_ifo", "tol", "verbose")  # parameters that may change when a run continues


def run(solver, problem, x0, random_state, state, record_every, on_record, verbose, first_residual):
    """`CompositionalSolver.solve` with checked parameters."""
    # the loop detects overflow by itself, and reports it once
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if state is None:
            seed = seeded(random_state).randint(np.iinfo(np.int32).max)
            oracle = Oracle(problem, seed)
            oracle.metric = solver.run_metric(oracle, None)
            x = _start_point(problem, oracle, x0)
            whole = RunState(type(solver).__name__, problem.description(), MethodState(x), best_x=x, start=x)
            whole.parameters = _described(solver)
            whole.random_state = int(random_state) if is_integer(random_state) else None
            whole.stopping.first = first_residual
            loop = Loop(solver, oracle, whole, record_every, on_record, verbose)
            loop.reason = loop.records.add(x)
            loop.tell()
            loop.interrupts = Interrupts(loop, oracle, whole.copy(), lambda: _snapshot_at_the_start(problem, seed))
        else:
            _check_state(solver, problem, state, x0, random_state)
            oracle, whole = Oracle(problem, 0), state.copy()
            oracle.restore(state.oracle)
            oracle.metric = solver.run_metric(oracle, whole.state)
            loop = Loop(solver, oracle, whole, record_every, on_record, verbose)
            loop.reason = StopReason.NON_FINITE if whole.overflowed else None
            loop.interrupts = Interrupts(loop, oracle, state.copy(), lambda: state.oracle)
        oracle.hold()
        with loop.interrupts.listening():
            try:
                _iterate(solver, oracle, loop)
            finally:
                if loop.reason is not None:  # keep the state of a stream even if Ctrl-C comes before the result
                    loop.watch.leave(oracle, loop.run)
        result = _result(solver, oracle, loop)
        loop.rule = loop.records = loop.interrupts = None  # break reference cycles, which would keep a stream's rows
        warn_of_the_end(solver, oracle, result, loop.watch, loop.unlimited)
        warn_if_clipped(solver, oracle)
        if x0 is not None and state is None:
            warn_if_far(solver, oracle, result, _start_point(problem, Oracle(problem, 0), None))
    return result


# the start


def _start_point(problem, oracle, x0):
    own = problem.initial_point(oracle.rng)
    x = own if x0 is None else as_numbers("x0", x0, own.dtype)
    if x.shape != (problem.n_variables,):
        raise ValueError(f"x0 must have shape ({problem.n_variables},), got {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"x0 must be finite, got {x[~np.isfinite(x)][0]} at {np.argmin(np.isfinite(x))}")
    return x if problem.penalty is None else problem.penalty.project(x)


def _snapshot_at_the_start(problem, seed):
    oracle = Oracle(problem, seed)
    problem.initial_point(oracle.rng)  # repeat the draw of the run
    return oracle.snapshot()


def _described(solver):
    """The parameters that a run keeps when it continues, in words."""
    return {name: in_words(value) for name, value in solver.get_params(deep=False).items() if name not in FREE}


def _check_state(solver, problem, state, x0, random_state):
    """Raise a ValueError if a run with these arguments is not the one of the state."""
    if not isinstance(state, RunState) or state.method != type(solver).__name__:
        found = getattr(state, "method", type(state).__name__)
        hint = ": give its state" if isinstance(state, SolverResult) else ""
        raise ValueError(f"state must come from a run of {type(solver).__name__}, got one of {found}{hint}")
    if state.state.x.shape != (problem.n_variables,):
        raise ValueError(f"state is of {state.state.x.size} variables, the problem has {problem.n_variables}")
    if state.problem != problem.description():
        raise ValueError(f"state must come from a run on {problem.description()}, got one on {state.problem}")
    for name, now in _described(solver).items():
        before = state.parameters.get(name, "nothing")
        check_unchanged(name, before, now, "a run that continues", "other parameters need a new run")
    if random_state is not None and not (is_integer(random_state) and random_state == state.random_state):
        before = "an integer was not given" if state.random_state is None else f"{state.random_state} was given"
        raise ValueError(f"random_state must be None or that of the run of state, where {before}, got {random_state}")
    if x0 is not None:
        x = _start_point(problem, Oracle(problem, 0), x0)
        k = int(np.argmax(x != state.start))
        if x[k] != state.start[k]:
            raise ValueError(f"x0 must be None or that of the run of state, {state.start[k]} at {k}, got {x[k]}")
    if math.isfinite(state.best_fun) and math.isfinite(problem.n_inner):
        found = problem.reported(state.best_x)
        sizes = [abs(fun) for _, _, fun in state.records if math.isfinite(fun)]
        if not abs(found - state.best_fun) <= math.sqrt(np.finfo(state.best_x.dtype).eps) * max(sizes):
            raise ValueError(
                f"state must come from a run on the same data: the objective at its best point is {found:.9g} here, "
                f"and was {state.best_fun:.9g}"
            )


# iterations


def _iterate(solver, oracle, loop):
    """Initialise the state if necessary, and iterate until there is a reason to stop."""
    try:
        _begin(solver, oracle, loop)
        while loop.watch.begins_again(solver, oracle, loop.run, loop.reason):
            loop.reason = None
            _begin(solver, oracle, loop)
    except KeyboardInterrupt:
        loop.go_back()
    except Exception as error:
        if oracle.source.broke(error):
            loop.go_back()
        raise
    if loop.interrupts.pressed and loop.reason == StopReason.EXHAUSTED:
        loop.reason = StopReason.INTERRUPTED


def _begin(solver, oracle, loop):
    whole = loop.run
    if loop.reason is None and type(whole.state) is MethodState:
        before = loop.watch.begins(oracle)
        try:
            whole.state = solver.init_state(oracle, whole.state.x)
        except EOFError:  # a stream has too few rows so far
            if before is None:
                raise
            oracle.restore(before)
            loop.reason = StopReason.EXHAUSTED
        if not isinstance(whole.state, MethodState):
            raise ValueError(f"init_state must return a MethodState, got {type(whole.state).__name__}")
        if whole.times and whole.state.rule is not None:
            whole.state.rule = shortened(whole.state.rule, whole.times)
    if loop.reason is None:
        solver.iterate(oracle, whole.state, loop)


class Loop:
    """The work between iterations. `take_stock` is called before each, and ``reason`` is None while the run continues.

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
    watch : Watch
        The part that differs between finite sums and streams.
    rule : StoppingRule
    records : Records
    interrupts : Interrupts
    """

    def __init__(self, solver, oracle, run, record_every=None, on_record=None, verbose=0):
        problem = oracle.problem
        self.solver, self.oracle, self.run, self.reason = solver, oracle, run, None
        self.watch = watch_of(oracle.source)
        self.a_pass = 2 * problem.n_inner + problem.n_outer
        max_iter = solver.max_iter
        if max_iter is None and solver.max_ifo is None:
            max_iter = problem.advice.max_iter
        self.unlimited = max_iter is None and solver.max_ifo is None
        self.max_iter, self.max_ifo = max_iter or math.inf, solver.max_ifo or math.inf
        self.rule = StoppingRule(solver, oracle, run, self)
        every = record_every or problem.advice.record_every or self.a_pass
        self.records = Records(self, oracle, every, on_record, verbose)
        self.interrupts = Interrupts(self, oracle, run, oracle.snapshot)
        self._longest = 0.0  # residuals up to this value are not an overflow
        self._eps = float(np.finfo(run.state.x.dtype).eps)

    def take_stock(self):
        """Record, measure and count after an iteration. It sets ``reason`` if the run should end."""
        s, run = self.run.state, self.run
        if s.t > run.last_checked:
            run.last_checked = s.t
            self._look(s)
        if self.reason is None and self.solver.tol and self.rule.converged(s):
            self.reason = StopReason.CONVERGED
        if self.reason is None and self.interrupts.pressed:
            self.reason = StopReason.INTERRUPTED
        if self.unlimited:
            self.max_iter, passes = self.solver.default_budget(self.oracle, s)
            self.max_ifo = passes * self.a_pass
            problem = self.oracle.problem
            if s.t == IN_VAIN and math.isinf(self.max_ifo) and problem.advice.unbounded_below(problem):
                self.max_iter = IN_VAIN
        if self.reason is None:
            if s.t + run.t_before >= self.max_iter:
                self.reason = StopReason.MAX_ITER
            elif self.max_ifo < math.inf or self.watch.runs_out:
                self.reserve(self.solver.cost(self.oracle, s))

    def reserve(self, ifo):
        """Set ``reason`` if this additional IFO would exceed max_ifo, or the rows that a stream has left."""
        if self.oracle.ifo + ifo > self.max_ifo:
            self.reason = StopReason.MAX_IFO
        elif not self.oracle.lasts(ifo):
            self.reason = StopReason.EXHAUSTED

    def _look(self, s):
        """The work that is done once for each iteration."""
        run, oracle, t = self.run, self.oracle, s.t
        if t and s.residual is not None and not s.residual <= self._longest and self._overflows(s.residual):
            self.reason = StopReason.NON_FINITE
            return
        self.rule.watch(s)
        due = t and oracle.ifo >= run.next_record
        if due:
            self.reason = self.records.add(s.x)
            if self.reason is None and self.watch.has_diverged(oracle, run, s.x):
                self.reason = StopReason.DIVERGED
        if t & (t - 1) == 0:
            run.milestones = (run.milestones[1], s.x)
        if t % KEEP_AT == 0:
            self.interrupts.keep()
        if due:
            self.tell()

    def _overflows(self, residual):
        """Whether a residual is NaN, or 1/eps times the first residual that is not 0."""
        run = self.run
        run.first_length = run.first_length or residual
        longest = self.watch.longest(run.first_length)
        self._longest = longest / self._eps
        return not residual * self._eps <= longest

    def tell(self):
        """Call the callback if there is a new record."""
        self.reason = self.records.tell() or self.reason

    def snapshot(self):
        """A copy of the run that does not change when the run continues."""
        run = self.run.copy()
        run.oracle = self.oracle.snapshot()
        return run

    def n_left(self):
        """The approximate number of records that the budgets allow. Infinite at the start, before costs are known."""
        if type(self.run.state) is MethodState:
            return math.inf
        cost = self.solver.cost(self.oracle, self.run.state)
        ifo = min((self.max_iter - self.run.t) * cost, self.max_ifo - self.oracle.ifo)
        return ifo / max(self.records.every, cost)

    def go_back(self):
        """Return to the last saved state of the run."""
        self.run = self.rule.run = self.interrupts.go_back()
        self.reason = StopReason.INTERRUPTED


# the result


def _result(solver, oracle, loop):
    whole, reason = loop.run, loop.reason
    whole.oracle = oracle.snapshot(last=True)
    oracle.hold()
    records, t = list(whole.records), whole.t  # the last record belongs to this stop, not to the state
    whole.overflowed = reason in (StopReason.NON_FINITE, StopReason.DIVERGED)
    if whole.overflowed:
        x, fun = whole.best_x, whole.best_fun
        records = [r for r in records if math.isfinite(r[2])]
    else:
        if reason == StopReason.CONVERGED:
            x = whole.stopping.answer
        else:
            x = solver.finish(oracle, whole.state) if whole.state.t else whole.state.x
        known = x is whole.state.x and records[-1][0] == t
        fun = records[-1][2] if known else oracle.reported(x)
    if not records or records[-1] != (t, oracle.ifo, fun):
        records.append((t, oracle.ifo, fun))
    iterations, ifo, curve = zip(*records, strict=True)
    return SolverResult(
        x=x,
        fun=fun,
        loss_curve=np.array(curve),
        ifo=np.array(ifo),
        n_evaluations=dict(oracle.n_evaluations),
        **outcome(t, reason),
        residual=loop.rule.residual(),
        n_guarded=oracle.n_guarded,
        state=whole,
        record_iterations=np.array(iterations),
    )
