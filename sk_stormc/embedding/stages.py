"""The stages of a fit: early exaggeration, the main stage, and further stages from a finished map."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from sk_stormc.embedding.settled import quiet
from sk_stormc.embedding.spreading import goes_on, with_stage
from sk_stormc.embedding.widening import has_tight_groups, widened
from sk_stormc.engine.results import changed
from sk_stormc.solvers import StopReason

__all__ = ["Stage", "further_stages", "new_stages", "run_stages"]

EARLY_PART = 5  # the early stage has a fifth of the iterations
EARLY_MOST = 30  # iterations at most: exaggeration contracts data without clusters, in the end to one point
UNRECORDED = 2**62  # oracle calls between two records, so many that there are none


@dataclass
class Stage:
    """A run of the solver with a horizon and an exaggeration of its own.

    Attributes
    ----------
    n_iter : int
        Number of iterations. The learning rate is 0 at the last one, except in an early stage.
    exaggeration : float
    early : bool
        Whether learning rate and metric are constant, because another stage follows.
    on : bool
        Whether the stage continues from a finished map. If its objective is higher at the end, the earlier map is kept.
    asked : bool
        Whether the stage comes from `SNEEmbedding.optimize`. Its map is kept in any case.
    learning_rate : float or None
        None means that of the solver.
    record_every : int or None
        Iterations between two records. None means the number that the problem advises, and no records in an early
        stage. Except in stages of `SNEEmbedding.optimize`, the records that the problem advises are always made,
        because they show whether the map is still expanding.
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
    """The stages of a resumed fit: its earlier stages, and one more if ``max_iter`` has increased."""
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


def run_stages(stages, fit, problem, x, solver, attributes, lines):
    """Run stages as one run, and add stages while the map is still expanding."""
    horizon = sum(stage.n_iter for stage in stages if not stage.on)
    result = ended = None
    for number, stage in enumerate(stages):  # which may become more
        of_stage = problem.stage(stage.n_iter, stage.exaggeration, early=stage.early, on=stage.on)
        # `warn_if_unsettled` says this of a fit, and records are not what an exaggerated stage lowers
        with nullcontext() if stage.asked and stage.exaggeration == 1 else quiet():
            found = _run(fit, of_stage, x, stage, solver, attributes, result, lines)
        broken_off = found.stop_reason in (StopReason.INTERRUPTED, StopReason.CALLBACK)
        may_be_left = stage.on and stage.exaggeration == 1 and not (stage.asked or broken_off)
        if may_be_left and found.fun > result.fun:
            continue  # the stage made the map worse, so the earlier map is kept
        ended, result = of_stage, found if result is None else with_stage(result, found)
        x = result.x
        lines.record(result.n_iter, ended.divergence_of(result.loss_curve[-1]), stage.early)
        if broken_off:
            break
        if stage.early and found.n_iter == stage.n_iter:  # otherwise the plan may not change, and `resume` decides
            x = _behind_early_stage(stages, number, problem, x)
        if stage is stages[-1] and not stage.asked and goes_on(solver, ended, result, horizon):
            stages.append(Stage(result.n_iter, on=True, record_every=stage.record_every))
    return ended, result


def _behind_early_stage(stages, number, problem, x):
    """The map with which the next stage begins.

    If the map has tight groups, half of the iterations of the next stage become a second early stage, which arranges
    them at little cost. Then the map is drawn out.
    """
    following = stages[number + 1]
    if following.early:  # of a resumed fit
        return x
    of_following = problem.stage(following.n_iter, following.exaggeration)
    if number:  # this was the second early stage
        return widened(of_following, x)
    longer = following.n_iter // 2
    if longer and has_tight_groups(of_following, x):
        following.n_iter -= longer
        stages.insert(1, replace(stages[0], n_iter=longer))
    return x


def _run(fit, problem, x, stage, solver, attributes, before, lines):
    """Run one stage. ``before`` is the result of the earlier stages."""
    n_before, used = (0, 0) if before is None else (before.n_iter, int(before.ifo[-1]))
    own = clone(solver).set_params(max_iter=stage.n_iter)
    if stage.learning_rate is not None:
        own.set_params(learning_rate=stage.learning_rate)
    if own.max_ifo is not None and used:
        own.set_params(max_ifo=max(1, own.max_ifo - used))
    every, silent = None, stage.early and stage.record_every is None

    def show(record):
        lines.record(n_before + record.iteration, problem.divergence_of(record.fun), stage.early)

    if stage.record_every is not None:
        every, advised = stage.record_every * problem.iteration_ifo, problem.advice.record_every
        if not (stage.early or stage.asked):
            every = advised // -(-advised // every)  # the advised records are among these
    elif silent and not (fit.has_callbacks or lines.shown):  # only these ask for the records of an early stage
        every = UNRECORDED
    seen = (lambda x: attributes(x) | {"loss_curve_": np.empty(0)}) if stage.early else attributes
    found = fit.run(own, problem, x, record_every=every, show=show if lines.shown else None, attributes=seen)
    if not silent:
        return found
    return changed(found, **{name: found[name][[0, -1]] for name in ("loss_curve", "ifo", "record_iterations")})
