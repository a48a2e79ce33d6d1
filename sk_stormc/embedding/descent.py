"""The default method of maps: a preconditioned gradient descent with momentum, which
is deterministic.

A map x of n points in d dimensions minimises the divergence of t-SNE with a degrees of
freedom,

    KL(P || Q) = sum_ij p_ij log p_ij + a sum_ij p_ij log(1 + D_ij / a) + log Z,   Z =
    sum_ij (1 + D_ij / a)^-a,

where D_ij = |x_i - x_j|^2. The attraction is a sum over the edges of P's graph. The
repulsion is a sum over all pairs, on a mesh in one and two dimensions (`Mesh`).
`descend` is the whole method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.embedding.defaults import (
    MAX_RECORDS,
    MOMENTUM,
    PROBE_REGULARIZATION,
    full_rate,
)
from sk_stormc.embedding.problem import recorded_divergence
from sk_stormc.embedding.stages import Stage
from sk_stormc.engine.results import Record, StopReason, result_of
from sk_stormc.utils.warnings import warn

# Fraction of the best factor by which a map with tight groups is rescaled. The map
# still expands, and a wider one has a larger mesh.
RESCALING = 0.8


@dataclass(frozen=True, repr=False)
class State:
    """All that a descent needs to continue. Every iteration replaces it at once, so
    that Ctrl-C leaves it complete.

    Attributes
    ----------
    x : ndarray of shape (n, d)
        The map.
    stages : tuple of Stage
        The stage that goes on, and those after it.
    t : int
        Iterations of this stage so far.
    velocity : ndarray of shape (n, d), or 0.0
        The average of the steps.
    n_before, ifo_before : int
        Iterations and oracle calls of earlier stages.
    records : tuple
        (iteration, ifo, divergence) of each record.
    recorded : ndarray of shape (n, d) or None
        The map at the last record.
    seen : int
        The last iteration that was recorded, or only shown to callbacks.
    first, last : float or None
        The length of the gradient at the beginning of the stage, to which tol is
        relative, and the last one.
    finished : State or None
        The finished map from which a further stage continues.
    """

    x: np.ndarray
    stages: tuple = ()
    t: int = 0
    velocity: np.ndarray | float = 0.0
    n_before: int = 0
    ifo_before: int = 0
    records: tuple = ()
    recorded: np.ndarray | None = None
    seen: int = -1
    first: float | None = None
    last: float | None = None
    finished: State | None = None

    @property
    def n_iter(self):
        """Number of iterations."""
        return self.n_before + self.t

    @property
    def ifo(self):
        """Number of oracle calls: all components of g, its Jacobian and f, at the start
        and in each iteration."""
        return self.ifo_before + (3 * len(self.x) * (self.t + 1) if self.t else 0)


def descend(problem, state, tol=0.0, on_record=None):
    """Iterate until the last stage ends. Return the last state, and why the descent
    stopped.

    An iteration is x <- x - eta v. v is an average of the steps q = (L + mu I)^-1 F,
    where F is the gradient and L the graph Laplacian of the attraction. Before a step
    is averaged, it is shortened so that no point moves too far.
    """
    try:
        while state.stages:
            stage = state.stages[0]
            of_stage = problem.stage(
                stage.n_iter, stage.exaggeration, stage.held, stage.on
            ).in_run()
            rate = full_rate(problem.meshed, stage.on)
            longest = of_stage.advice.precision
            if stage.on and state.finished is None:
                state = replace(state, finished=replace(state, stages=()))
            while True:
                state, reason = _observed(of_stage, state, on_record)
                if reason is not None:
                    return state, reason
                t, shape = state.t, state.x.shape
                if t == stage.n_iter:
                    break
                x = state.x.ravel()
                F = of_stage.gradient(x)
                q = of_stage.preconditioner.at(x, t).apply(F)
                if tol and not stage.early:
                    state = _measured(state, F, q)
                    if state.last <= tol * state.first:
                        return state, StopReason.CONVERGED
                q = q.reshape(shape)
                lengths = np.sqrt(np.einsum("ij,ij->i", q, q))[:, None]
                step = np.minimum(0.5, longest / lengths) * q
                velocity = (1 - MOMENTUM) * step + MOMENTUM * state.velocity
                x = state.x - learning_rate(stage, rate, t) * velocity
                state = replace(state, x=x, velocity=velocity, t=t + 1)
            state = _at_next_stage(problem, state)
    except KeyboardInterrupt:
        return state, StopReason.INTERRUPTED
    return state, StopReason.MAX_ITER


def _observed(problem, state, on_record):
    """Record and show the map if that is due. Return also why the descent stops, or
    None."""
    stage, t = state.stages[0], state.t
    kept = _is_kept(stage, t)
    if not _is_due(state) or not (kept or on_record):
        return state, None
    value = recorded_divergence(problem, state.x)
    if not math.isfinite(value):
        return state, StopReason.NON_FINITE
    state = _recorded(state, value, kept)
    stops = on_record and on_record(_record(state, value))
    goes_on = len(state.stages) > 1 or t < stage.n_iter
    return state, StopReason.CALLBACK if stops and goes_on else None


def _measured(state, F, q):
    """The state with the length of the gradient, in the norm of the preconditioner."""
    length = math.sqrt(max(float(np.vdot(F, q)), 0.0))
    first = length if state.first is None else state.first
    return replace(state, first=first, last=length)


def learning_rate(stage, rate, t):
    """The learning rate of iteration t, which falls to 0 in the second half of a stage
    that no other follows."""
    if stage.learning_rate is not None:
        return stage.learning_rate
    return rate if stage.held else rate * min(1.0, (1 - t / stage.n_iter) / 0.5)


# records


def _n_records(stage, n, t):
    """The number of records after the start, up to iteration t."""
    a_pass = 3 * n
    every = a_pass * (stage.record_every or 0)
    every = every or stage.n_iter * a_pass // min(MAX_RECORDS, stage.n_iter)
    return a_pass * t // every


def _is_due(state):
    """Whether the map is to be recorded, or to be shown to callbacks."""
    stage, n, t = state.stages[0], len(state.x), state.t
    changes = _n_records(stage, n, t + 1) > _n_records(stage, n, t)
    return state.seen != state.n_iter and (changes or t in (0, stage.n_iter))


def _is_kept(stage, t):
    """Whether a record is kept. Others, in an early stage, are only shown."""
    return t in (0, stage.n_iter) or not stage.early or stage.record_every is not None


def _recorded(state, value, kept):
    """The state after the map was recorded."""
    state = replace(state, seen=state.n_iter)
    if not kept:
        return state
    record = state.n_iter, state.ifo, value
    return replace(state, records=(*state.records, record), recorded=state.x)


def _record(state, value):
    """The record of a state, as callbacks see it."""
    stage, n = state.stages[0], len(state.x)
    left = sum(_n_records(some, n, some.n_iter) for some in state.stages)
    left -= _n_records(stage, n, state.t)
    return Record(
        state.n_iter,
        state.ifo,
        value,
        state.x,
        lambda: state,
        lambda: left,
        stage.early,
    )


# stages


def _at_next_stage(problem, state):
    """The state at the beginning of the next stage, or at the end of the descent.

    If rescaling alone would halve the divergence of the map that the early stage
    leaves, the map has tight groups of points. They have found their places in it, from
    which they would push each other while the map expands slowly. Half of the
    iterations of the next stage then become a second early stage, after which the map
    is rescaled at once, to somewhat less than its best width.
    """
    (stage, *later), x = state.stages, state.x
    worse = (
        state.finished is not None
        and state.records[-1][2] > state.finished.records[-1][2]
    )
    if worse and stage.exaggeration == 1 and not stage.asked:
        # the further iterations are left out
        return replace(state.finished, stages=tuple(later))
    if stage.early and problem.n_components <= 2 and later[0].exaggeration == 1:
        values = dict(_widths(problem, x))
        widest, half = max(values, default=1.0), later[0].n_iter // 2
        if widest > 1 and state.n_before:
            x = _scaled(x, RESCALING * widest)
        elif widest > 1 and half and 2 * values[widest] < values[1.0]:
            second = replace(stage, n_iter=half)
            rest = replace(later[0], n_iter=later[0].n_iter - half)
            later = [second, rest, *later[1:]]
    return State(
        x,
        tuple(later),
        0,
        0.0,
        state.n_iter,
        state.ifo,
        state.records,
        state.recorded,
        state.seen,
    )


def _widths(problem, x):
    """Yield factors, starting with 1, and the divergence of the map times the factor,
    while it decreases."""
    widest, factor, best = float(np.ptp(x, axis=0).max()), 1.0, math.inf
    while True:
        value = recorded_divergence(problem, _scaled(x, factor))
        if not value < best:
            return
        yield factor, value
        factor, best = factor * 2**0.5, value
        if widest * factor > 6 * len(x) ** 0.5:  # wider maps are not useful
            return


def _scaled(x, factor):
    """The map, scaled by a factor about its mean."""
    return (x - x.mean(axis=0, dtype=float).astype(x.dtype)) * x.dtype.type(factor)


class Descent:
    """The descent as a `Method` of a fit.

    Parameters
    ----------
    max_iter : int, default=None
        Number of iterations, if the user has set it.
    tol : float, default=0.0
        A stage ends when the length of the gradient, in the norm of the preconditioner,
        is at most tol times its first value. 0 means that all iterations are made.
    """

    name, max_ifo, resumable = "descent", None, True

    def __init__(self, max_iter=None, tol=0.0):
        self.max_iter, self.tol = max_iter, tol

    def get_params(self, deep=True):
        """The parameters that must be the same when a fit is resumed: none."""
        return {}

    def run(self, fit, problem, stages, start, fitted, lines, before=None):
        """Run the stages of a fit from a map, after the iterations of the result
        ``before``, if there are any.

        Return the problem of the last stage, and the result of all iterations.
        ``fitted`` returns the attributes of the estimator for a map.
        """
        state = State(start.astype(np.float32))
        if before is not None:
            # the state of this run contains the earlier records
            fit.progress.runs.clear()
            curves = before.record_iterations, before.ifo, before.loss_curve
            records = zip(*(curve.tolist() for curve in curves), strict=True)
            state = replace(
                state,
                n_before=before.n_iter,
                ifo_before=int(before.ifo[-1]),
                records=tuple(records),
                recorded=state.x,
                seen=before.n_iter,
            )
        # those that the state of a resumed fit does not have
        new = stages if fit.before is None else stages[len(fit.before.plan) :]

        def show(record):
            lines.record(record.iteration, record.fun, record.early)

        result = fit.run(
            self,
            problem,
            state,
            stages=new,
            attributes=fitted,
            show=show if lines.shown else None,
        )
        ended = (*result.state.stages, stages[-1])[0]
        if before is not None:
            added = (int(result.ifo[-1]) - state.ifo_before) // 3
            result.n_evaluations = {
                kind: count + added for kind, count in before.n_evaluations.items()
            }
        return problem.stage(ended.n_iter, ended.exaggeration), result

    def solve(
        self,
        problem,
        start=None,
        *,
        state=None,
        stages=(),
        on_record=None,
        random_state=None,
    ):
        """Continue from the state of an earlier run, or from the start, and return the
        result of all iterations."""
        state = state or start
        state = replace(state, stages=(*state.stages, *stages))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            state, reason = descend(problem, state, self.tol, on_record)
            if reason == StopReason.INTERRUPTED and not state.n_iter:
                raise KeyboardInterrupt
            x, records = state.x, list(state.records)
            if reason == StopReason.NON_FINITE:
                x = state.recorded
                records.append((state.n_iter, state.ifo, records[-1][2]))
                warn(
                    f"the map is not finite at iteration {state.n_iter}; the last one "
                    "that was recorded is kept. Use a smaller learning_rate, or "
                    "rescale the data.",
                    ConvergenceWarning,
                )
            elif records[-1][0] != state.n_iter:
                value = recorded_divergence(problem, x)
                records.append((state.n_iter, state.ifo, value))
        return result_of(
            records,
            x,
            reason,
            n_evaluations=dict.fromkeys(("inner", "jacobian", "outer"), state.ifo // 3),
            residual=state.last / state.first if state.first else math.nan,
            state=state,
        )


def further_by_descent(problem, x, n_iter):
    """The divergence of a map, and after a few more iterations at the full learning
    rate."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        stage = Stage(n_iter, held=PROBE_REGULARIZATION)
        state, _ = descend(problem, State(x, stages=(stage,)))
    return state.records[0][2], state.records[-1][2]
