"""The stages of a fit: early exaggeration, rescaling, the main stage, and further stages from a finished map."""

from __future__ import annotations

import copy
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from sk_stormc.embedding.convergence import quiet
from sk_stormc.engine.results import changed, joined
from sk_stormc.solvers import StopReason

__all__ = ["Lines", "Stage", "further_stages", "has_tight_groups", "new_stages", "rescaled", "run_stages"]

EARLY_PART = 5  # the early stage has a fifth of the iterations
EARLY_MOST = 30  # maximum of its iterations: exaggeration contracts data without clusters, eventually to one point
UNRECORDED = 2**62  # number of oracle calls between two records, so large that there are none

# rescaling of maps with tight groups
STEP = 2**0.5  # ratio of successive factors that are tried
PART = 0.8  # fraction of the best factor that is used: the map still expands, and a wider one has a larger mesh
ROOM = 6.0  # largest width of a map, divided by the square root of the number of points
ENOUGH = 0.5  # relative decrease of the divergence, by rescaling, above which the map is rescaled


@dataclass
class Stage:
    """A run of the solver with its own horizon and exaggeration.

    Attributes
    ----------
    n_iter : int
        Number of iterations. The learning rate is 0 at the last one, except in an early stage.
    exaggeration : float
    early : bool
        Whether learning rate and preconditioner are constant, because another stage follows.
    on : bool
        Whether the stage continues from a finished map. If its final objective is higher, the earlier map is kept.
    asked : bool
        Whether the stage was requested by `SNEEmbedding.optimize`. Its map is kept in any case.
    learning_rate : float or None
        None means the learning rate of the solver.
    record_every : int or None
        Iterations between two records. None means the number in the problem's advice, and no records in an early stage.
    """

    n_iter: int
    exaggeration: float = 1.0
    early: bool = False
    on: bool = False
    asked: bool = False
    learning_rate: float | None = None
    record_every: int | str | None = None


def new_stages(n_iter, early, exaggeration=1.0, record_every=None):
    """The stages of a new fit."""
    n_early = min(n_iter // EARLY_PART, EARLY_MOST) if early > 1 else 0
    first = [Stage(n_early, early, early=True, record_every=record_every)] if n_early else []
    return [*first, Stage(n_iter - n_early, exaggeration, record_every=record_every)]


def further_stages(before, max_iter, exaggeration=1.0, record_every=None):
    """The stages of a resumed fit: its earlier stages, and an additional one if ``max_iter`` has increased."""
    stages = [copy.copy(stage) for stage in before]
    had = sum(stage.n_iter for stage in stages if not stage.asked)
    if max_iter is None or max_iter == had:
        return stages
    if max_iter < had:
        raise ValueError(
            f"max_iter must be at least {had} for resume, got {max_iter}: the fit had so many iterations, and its "
            "learning rate is 0 at the last of them"
        )
    return [*stages, Stage(max_iter - had, exaggeration, on=True, record_every=record_every)]


def run_stages(stages, fit, problem, x, solver, attributes, lines, n_before=0):
    """Run the stages as one run after ``n_before`` iterations, each from the previous map.

    Return the last problem and the result, whose iterations begin at 0.
    """
    result = last = None
    for number, stage in enumerate(stages):  # further stages may be added
        held = 1.0 if stage.early else None
        of_stage = problem.stage(stage.n_iter, stage.exaggeration, held, further=stage.on)
        # `warn_if_not_converged` warns for a fit, and an exaggerated stage does not minimise the recorded values
        with nullcontext() if stage.asked and stage.exaggeration == 1 else quiet():
            of_this = _run(fit, of_stage, x, stage, solver, attributes, result, lines, n_before)
        ended_early = of_this.stop_reason in (StopReason.INTERRUPTED, StopReason.CALLBACK)
        may_be_left = stage.on and stage.exaggeration == 1 and not (stage.asked or ended_early)
        if may_be_left and of_this.fun > result.fun:
            continue  # the stage made the map worse, so the earlier map is kept
        last, result = of_stage, of_this if result is None else joined(result, of_this)
        x = result.x
        lines.record(n_before + result.n_iter, last.divergence_of(result.loss_curve[-1]), stage.early)
        if ended_early:
            break
        if stage.early and of_this.n_iter == stage.n_iter:  # otherwise the stages may not change, and `resume` decides
            x = _after_early_stage(stages, number, problem, x)
    return last, result


def _after_early_stage(stages, number, problem, x):
    """The map from which the next stage starts.

    If the map has tight groups, half of the iterations of the next stage become a second early stage, which arranges
    the groups at little cost. The map is then rescaled.
    """
    following = stages[number + 1]
    if following.early:  # a resumed fit
        return x
    of_following = problem.stage(following.n_iter, following.exaggeration)
    if number:  # this was the second early stage
        return rescaled(of_following, x)
    longer = following.n_iter // 2
    if longer and has_tight_groups(of_following, x):
        following.n_iter -= longer
        stages.insert(1, replace(stages[0], n_iter=longer))
    return x


def has_tight_groups(problem, x):
    """Whether the divergence of a map halves if the map is rescaled at once.

    An early stage results in a small map. Tight groups of points have reached their positions in it, but as the map
    expands slowly they push each other away from these positions. If the map is rescaled at once, they keep them.
    Rescaling a map without tight groups decreases its divergence by much less than half.
    """
    if problem.per_point or problem.n_components > 2 or problem.exaggeration != 1:
        return False
    values = (value for _, value in _widths(problem, x))
    first = next(values, None)  # None if it is NaN; there are then no further values
    return any(value < (1 - ENOUGH) * first for value in values)


def rescaled(problem, x):
    """The same map, rescaled to somewhat less than its best width."""
    factors = [factor for factor, _ in _widths(problem, x)]
    return _times(problem, x, PART * factors[-1]) if len(factors) > 1 else x


def _widths(problem, x):
    """Yield factors, starting with 1, and the divergence of the map times the factor, while it decreases."""
    widest, factor, best = float(np.ptp(x.reshape(problem.n_inner, -1), axis=0).max()), 1.0, np.inf
    while True:
        value = problem.divergence_of(problem.reported(_times(problem, x, factor)))
        if not value < best:
            return
        yield factor, value
        factor, best = factor * STEP, value
        if widest * factor > ROOM * problem.n_inner**0.5:
            return


def _times(problem, x, factor):
    """The map x, scaled by a factor about its mean."""
    points = x.reshape(problem.n_inner, -1)
    return ((points - points.mean(axis=0, dtype=float).astype(x.dtype)) * x.dtype.type(factor)).ravel()


def _run(fit, problem, x, stage, solver, attributes, before, lines, n_before):
    """Run one stage. ``before`` is the result of the earlier stages, which began after ``n_before`` iterations."""
    n_before, used = (n_before, 0) if before is None else (n_before + before.n_iter, int(before.ifo[-1]))
    own = clone(solver).set_params(max_iter=stage.n_iter)
    if stage.learning_rate is not None:
        own.set_params(learning_rate=stage.learning_rate)
    if own.max_ifo is not None and used:
        own.set_params(max_ifo=max(1, own.max_ifo - used))
    every, silent = None, stage.early and stage.record_every is None

    def show(record):
        lines.record(n_before + record.iteration, problem.divergence_of(record.fun), stage.early)

    if stage.record_every is not None:
        every = stage.record_every * problem.iteration_ifo
    elif silent and not (fit.has_callbacks or lines.shown):  # only these use the records of an early stage
        every = UNRECORDED
    seen = (lambda x: attributes(x) | {"loss_curve_": np.empty(0)}) if stage.early else attributes
    shown = show if lines.shown else None
    result = fit.run(own, problem, x, record_every=every, show=shown, attributes=seen, n_before=n_before)
    if not silent:
        return result
    return changed(result, **{name: result[name][[0, -1]] for name in ("loss_curve", "ifo", "record_iterations")})


class Lines:
    """The output for ``verbose=1``: one line per part of the preparation, and one with the divergence of each record.

    Parameters
    ----------
    shown : bool
        Whether to print anything.
    """

    def __init__(self, shown):
        self.shown, self.began, self.last = bool(shown), time.perf_counter(), None
        if shown:
            print(f"{'iteration':>10}{'KL divergence':>16}{'seconds':>10}")

    def done(self, part):
        """Print that a part of the preparation is completed."""
        self._print(part, "")

    def record(self, iteration, divergence, early=False):
        """Print a record, unless the last line has the same iteration."""
        if iteration != self.last:
            self.last = iteration
            self._print(f"{'early ' if early else ''}{iteration}", f"{divergence:.6f}")

    def _print(self, first, second):
        if self.shown:
            print(f"{first:>10}{second:>16}{time.perf_counter() - self.began:10.2f}", flush=True)
