"""One run of a solver on a problem, from its start to its result."""

import copy
import math

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.engine.guard import begins_again, shortened
from sk_stormc.engine.loop import Loop, falls_for_ever
from sk_stormc.engine.oracle import Oracle
from sk_stormc.engine.results import MethodState, RunState, SolverResult, StopReason, outcome
from sk_stormc.utils.validation import as_numbers, seeded
from sk_stormc.utils.warnings import warn

__all__ = ["run", "warn_if_unconverged"]

NOTABLE = 1e-4  # part of the way down by which an end above a recorded value is worth a warning, at the least
BUDGETS = (StopReason.MAX_ITER, StopReason.MAX_IFO)


def run(solver, problem, x0, random_state, state, record_every, on_record, verbose, first_residual):
    """What `CompositionalSolver.solve` does with parameters that it has checked.

    Returns
    -------
    SolverResult
    """
    seed = 0 if state is not None else seeded(random_state).randint(np.iinfo(np.int32).max)
    oracle = Oracle(problem, seed)
    # overflow is looked for by value and reported once, with what to change
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if state is None:
            solver.prepare(oracle, None)
            x = _start_point(problem, oracle, x0)
            whole = RunState(type(solver).__name__, problem.description(), MethodState(x), best_x=x, start=x)
            whole.first_residual = first_residual
            loop = Loop(solver, oracle, whole, record_every, on_record, verbose)
            loop.record(x)
            loop.tell()
            first = copy.copy(whole)
            first.records = list(whole.records)
            loop.saved = first, lambda: Oracle(problem, seed).snapshot()
        else:
            whole = _check_state(solver, problem, state)
            oracle.restore(whole.oracle)
            solver.prepare(oracle, whole.state)
            loop = Loop(solver, oracle, whole, record_every, on_record, verbose)
            loop.reason = StopReason.NON_FINITE if whole.overflowed else None
            first = copy.copy(whole)
            first.state, first.records = state.state, list(whole.records)
            loop.saved = first, lambda: state.oracle
        oracle.hold()
        with loop.listening():
            try:
                _iterate(solver, oracle, loop)
            finally:
                if oracle.streaming and loop.reason is not None:  # if Ctrl-C comes before the result, this is left
                    loop.run.oracle = oracle.snapshot(last=True)
                    problem.state = loop.run
        return _result(solver, problem, oracle, loop)


def _iterate(solver, oracle, loop):
    """Begin where nothing was done yet, and iterate until there is a reason to end."""
    try:
        _begin(solver, oracle, loop)
        while begins_again(solver, oracle, loop.run, loop.reason):
            loop.reason = None
            _begin(solver, oracle, loop)
    except KeyboardInterrupt:
        loop.go_back()
    except Exception as error:
        if oracle.source.broke(error):
            loop.go_back()
        raise
    if loop.interrupted and loop.reason == StopReason.EXHAUSTED:
        loop.reason = StopReason.INTERRUPTED


def _begin(solver, oracle, loop):
    whole = loop.run
    if loop.reason is None and type(whole.state) is MethodState:
        before = oracle.snapshot() if oracle.streaming else None
        try:
            whole.state = solver.init_state(oracle, whole.state.x)
        except EOFError:  # a stream has too few rows as yet
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


def _start_point(problem, oracle, x0):
    own = problem.initial_point(oracle.rng)
    x = own if x0 is None else as_numbers("x0", x0, own.dtype)
    if x.shape != (problem.n_variables,):
        raise ValueError(f"x0 must have shape ({problem.n_variables},), got {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"x0 must be finite, got {x[~np.isfinite(x)][0]} at {np.argmin(np.isfinite(x))}")
    return x if problem.penalty is None else problem.penalty.project(x)


def _check_state(solver, problem, state):
    if not isinstance(state, RunState) or state.method != type(solver).__name__:
        found = getattr(state, "method", type(state).__name__)
        hint = ": give its state" if isinstance(state, SolverResult) else ""
        raise ValueError(f"state must come from a run of {type(solver).__name__}, got one of {found}{hint}")
    if state.state.x.shape != (problem.n_variables,):
        raise ValueError(f"state is of {state.state.x.size} variables, the problem has {problem.n_variables}")
    if state.problem != problem.description():
        raise ValueError(f"state must come from a run on {problem.description()}, got one on {state.problem}")
    if math.isfinite(state.best_fun) and math.isfinite(problem.n_inner):
        found = problem.reported(state.best_x)
        sizes = [abs(fun) for _, _, fun in state.records if math.isfinite(fun)]
        if not abs(found - state.best_fun) <= math.sqrt(np.finfo(state.best_x.dtype).eps) * max(sizes):
            raise ValueError(
                f"state must come from a run on the same data: the objective at its best point is {found:.9g} here, "
                f"and was {state.best_fun:.9g}"
            )
    whole = copy.copy(state)  # arrays are never written into, so a copy of what is bound anew is enough
    whole.state, whole.records = copy.deepcopy(state.state), list(state.records)
    return whole


def _result(solver, problem, oracle, loop):
    whole, reason = loop.run, loop.reason
    whole.oracle = oracle.snapshot(last=True)
    oracle.hold()
    records, t = list(whole.records), whole.t  # the last record belongs to this stop, not to the state
    whole.overflowed = reason in (StopReason.NON_FINITE, StopReason.DIVERGED)
    if whole.overflowed:
        x, fun = whole.best_x, whole.best_fun
        records = [r for r in records if math.isfinite(r[2])]
    else:
        x = solver.finish(oracle, whole.state) if whole.state.t else whole.state.x
        known = x is whole.state.x and records[-1][0] == t
        fun = records[-1][2] if known else oracle.reported(x)
    if not records or records[-1] != (t, oracle.ifo, fun):
        records.append((t, oracle.ifo, fun))
    iterations, ifo, curve = zip(*records, strict=True)
    result = SolverResult(
        x=x,
        fun=fun,
        loss_curve=np.array(curve),
        ifo=np.array(ifo),
        n_evaluations=dict(oracle.n_evaluations),
        **outcome(t, reason),
        residual=loop.residual(),
        n_guarded=oracle.n_guarded,
        state=whole,
        record_iterations=np.array(iterations),
    )
    if reason == StopReason.NON_FINITE:
        _warn(
            solver,
            f"met a value that is not finite at iteration {t}; the best finite iterate (objective {fun:.6g}) is "
            "kept. Decrease learning_rate, use learning_rate='auto', or rescale the data.",
        )
    elif reason == StopReason.DIVERGED:
        _warn(
            solver,
            f"went up on this stream, with shorter steps too: it ends at iteration {t}, and the best point recorded "
            f"is kept (objective {fun:.6g}). {_for_streams(solver, oracle.source)}",
        )
    elif reason in BUDGETS and falls_for_ever(problem, whole, x, fun):
        _warn(
            solver,
            f"stops at {fun:.6g} after {oracle.ifo} IFO, while the objective still falls: it seems unbounded "
            "below. Add a constraint or a penalty, or more samples than variables.",
        )
    else:
        if oracle.streaming:
            _warn_if_uphill(solver, oracle, result, whole.start)
        elif t:
            _warn_if_above(solver, result)
        if loop.unlimited:
            warn_if_unconverged(solver, result)
    return result


def _warn_if_above(solver, result):
    """Warn where the returned point is above the start, or above a recorded point by a notable part of the way."""
    start, best = float(result.loss_curve[0]), float(np.min(result.loss_curve))
    rounding = 8 * np.finfo(result.x.dtype).eps * max(abs(start), abs(result.fun))
    if result.fun > start + rounding:
        found = f"above the start's, {start:.6g}"
    elif result.fun - best > max(solver.tol, NOTABLE) * (start - best) + rounding:
        found = f"above one that it had recorded, {best:.6g}"
    else:
        return
    advice = "" if type(solver).__name__ == "STORMCompositional" else "solver='storm-c', "
    _warn(
        solver,
        f"returns its last point, whose objective {result.fun:.6g} is {found}. Use {advice}a smaller learning_rate "
        "or larger batches.",
    )


def _warn_if_uphill(solver, oracle, result, start):
    """Warn where the objective over the recent rows is higher than at the start, beyond what is chance."""
    if result.n_iter and oracle.source.uphill(result.x, start):
        _warn(
            solver,
            f"is at an objective of {result.fun:.6g} over the last rows, where the start's is "
            f"{oracle.problem.objective(start):.6g}. {_for_streams(solver, oracle.source)}",
        )


def _for_streams(solver, source):
    """What to change."""
    advice = "" if type(solver).__name__ == "STORMCompositional" else "solver='storm-c', "
    return f"Use {advice}a smaller learning_rate or larger batches, or {source.instead}."


def warn_if_unconverged(solver, result):
    """Warn where the run's budget ended before tol was met.

    Parameters
    ----------
    solver : CompositionalSolver
    result : SolverResult
    """
    if solver.tol == 0 or result.stop_reason not in BUDGETS:
        return
    far = f"at {result.residual:.2g} of" if math.isfinite(result.residual) else "not yet comparable with"
    name = result.stop_reason if getattr(solver, result.stop_reason) is not None else "max_iter or max_ifo"
    _warn(
        solver,
        f"has not converged: its budget ended after {result.n_iter} iterations and {result.ifo[-1]} IFO with "
        f"|x~ - x| / learning_rate {far} its first value, where tol={solver.tol:g} was asked for. Raise {name} or tol.",
    )


def _warn(solver, message):
    warn(f"{type(solver).__name__} {message}", ConvergenceWarning)
