"""The stages of a fit: early exaggeration, the main one, and further ones from a finished map."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from sk_stormc.embedding.lines import Lines
from sk_stormc.embedding.settled import quiet
from sk_stormc.embedding.spreading import goes_on, with_stage
from sk_stormc.engine.results import changed
from sk_stormc.solvers import StopReason
from sk_stormc.utils.kept import Kept

__all__ = ["Stage", "further_stages", "new_stages", "run_stages"]

EARLY_PART = 5  # the early stage has a fifth of the iterations
UNRECORDED = 2**62  # oracle calls between two records


@dataclass
class Stage(Kept):
    """A run of the solver with a horizon and an exaggeration of its own.

    Attributes
    ----------
    n_iter : int
        The learning rate is 0 at its last iteration, unless it is an early one.
    exaggeration : float
    early : bool
        Whether learning rate and metric are held, since another stage follows.
    on : bool
        Whether it goes on from a finished map. If it ends higher than it began, the map before is kept.
    asked : bool
        Whether `SNEEmbedding.optimize` asked for it. Its map is kept in any case.
    """

    n_iter: int
    exaggeration: float = 1.0
    early: bool = False
    on: bool = False
    asked: bool = False


def new_stages(n_iter, early):
    """The stages of a new fit.

    Parameters
    ----------
    n_iter : int
        Of all.
    early : float
        Exaggeration of the early stage; at 1 there is none.

    Returns
    -------
    list of Stage
    """
    n_early = n_iter // EARLY_PART if early > 1 else 0
    first = [Stage(n_early, early, early=True)] if n_early else []
    return [*first, Stage(n_iter - n_early)]


def further_stages(before, max_iter):
    """The stages of a fit that is resumed: those that it had, and one more where it may have more iterations.

    Parameters
    ----------
    before : list of Stage
    max_iter : int or None
        None keeps what there is.

    Returns
    -------
    list of Stage

    Raises
    ------
    ValueError
        For fewer iterations than the fit was to have, as its learning rate is 0 at the last of them.
    """
    stages = [copy.copy(stage) for stage in before]
    had = sum(stage.n_iter for stage in stages if not stage.asked)
    if max_iter is None or max_iter == had:
        return stages
    if max_iter < had:
        raise ValueError(
            f"max_iter must be at least {had} for resume, got {max_iter}: the fit had so many iterations, and its "
            "learning rate is 0 at the last of them"
        )
    return [*stages, Stage(max_iter - had, on=True)]


def run_stages(fit, problem, x, solver, attributes, verbose):
    """Run all stages of a fit's plan, and more of them while the map still spreads; as one run.

    Parameters
    ----------
    fit : Fit
        Its progress has the plan.
    problem : SNEProblem
    x : ndarray of shape (n_variables,)
    solver : CompositionalSolver
        The user's.
    attributes : callable
        Makes the fitted attributes of a point.
    verbose : int

    Returns
    -------
    problem : SNEProblem
        Of the last stage.
    result : SolverResult
    """
    stages, lines = fit.progress.plan, Lines(problem.divergence_of) if verbose else None
    horizon = sum(stage.n_iter for stage in stages if not stage.on)
    result = ended = None
    for stage in stages:  # which may become more
        of_stage = problem.stage(stage.n_iter, stage.exaggeration, early=stage.early, on=stage.on)
        # the early stage may have come near the end: `warn_if_unsettled` looks at the whole run
        with quiet() if len(stages) > 1 else nullcontext():
            found = _run(fit, of_stage, x, stage, solver, attributes, result, lines)
        broken_off = found.stop_reason in (StopReason.INTERRUPTED, StopReason.CALLBACK)
        if stage.on and not (stage.asked or broken_off) and found.fun > result.fun:
            return ended, result  # it cannot go on
        ended, result = of_stage, found if result is None else with_stage(result, found)
        x = result.x
        if lines:
            lines.line(result.n_iter, result.loss_curve[-1])
        if broken_off:
            break
        if stage is stages[-1] and goes_on(solver, ended, result, horizon):
            stages.append(Stage(result.n_iter, on=True))
    return ended, result


def _run(fit, problem, x, stage, solver, attributes, before, lines):
    """One stage; ``before`` is the result of those before it."""
    n_before, used = (0, 0) if before is None else (before.n_iter, int(before.ifo[-1]))
    own = clone(solver).set_params(max_iter=stage.n_iter)
    if own.max_ifo is not None and used:
        own.set_params(max_ifo=max(1, own.max_ifo - used))
    show, every = lines.after(n_before) if lines else None, None
    if stage.early:  # only a callback asks for its records, and does not compare them with those that follow
        every, of_all = None if fit.has_callbacks else UNRECORDED, attributes

        def attributes(x):
            return of_all(x) | {"loss_curve_": np.empty(0)}

    found = fit.run(own, problem, x, record_every=every, show=show, attributes=attributes)
    if stage.early:
        ends = {name: found[name][[0, -1]] for name in ("loss_curve", "ifo", "record_iterations")}
        found = changed(found, **ends)
    return found
