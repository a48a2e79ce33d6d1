"""Maps by a named solver: a run of the engine for each stage."""

import sys
from contextlib import nullcontext

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.embedding.defaults import PROBE_REGULARIZATION
from sk_stormc.engine.results import changed, joined
from sk_stormc.solvers import StopReason, STORMCompositional
from sk_stormc.utils.warnings import ignored


def run_stages(solver, fit, problem, stages, start, attributes, lines, before=None):
    """Run the stages, each from the previous map, after the iterations of the result
    ``before``, if there are any.

    Return the problem of the last stage, and the result of all iterations, with
    divergences as losses.
    """
    result, last, n_before = None, None, 0 if before is None else before.n_iter
    x = start.ravel()
    for stage in stages:
        of_stage = problem.stage(
            stage.n_iter, stage.exaggeration, stage.held, further=stage.on
        )
        # `warn_if_not_converged` warns for a fit, and an exaggerated stage does not
        # minimise the recorded values
        with nullcontext() if stage.asked and stage.exaggeration == 1 else quiet():
            of_this = _run(
                fit, of_stage, x, stage, solver, attributes, result, lines, n_before
            )
        stopped = of_this.stop_reason in (StopReason.INTERRUPTED, StopReason.CALLBACK)
        may_be_left = stage.on and stage.exaggeration == 1 and not stage.asked
        if may_be_left and not stopped and of_this.fun > result.fun:
            continue  # the stage made the map worse, so the earlier map is kept
        last, result = of_stage, of_this if result is None else joined(result, of_this)
        x, value = result.x, last.divergence_of(result.loss_curve[-1])
        lines.record(n_before + result.n_iter, value, stage.early)
        if stopped:
            break
    result = changed(result, loss_curve=problem.divergence_of(result.loss_curve))
    return last, result if before is None else joined(before, result)


def further_by_solver(problem, x, n_iter):
    """The divergence of a map, and after a few more iterations at the full learning
    rate."""
    with quiet():
        probe = STORMCompositional(max_iter=n_iter, tol=0)
        stage = problem.stage(n_iter, held=PROBE_REGULARIZATION)
        further = probe.solve(stage, x, random_state=0)
    return problem.divergence_of(further.loss_curve[[0, -1]])


def quiet():
    """Ignore the warning that a run's last point is not the best that it recorded."""
    return ignored(ConvergenceWarning, "returns its last point")


def _run(fit, problem, x, stage, solver, attributes, before, lines, n_before):
    """Run one stage. ``before`` is the result of the earlier stages, which began after
    ``n_before`` iterations."""
    own = clone(solver).set_params(max_iter=stage.n_iter)
    if stage.learning_rate is not None:
        own.set_params(learning_rate=stage.learning_rate)
    if before is not None:
        n_before += before.n_iter
        if own.max_ifo is not None:
            own.set_params(max_ifo=max(1, own.max_ifo - int(before.ifo[-1])))
    every, silent = None, stage.early and stage.record_every is None
    if stage.record_every is not None:
        every = stage.record_every * problem.iteration_ifo
    elif silent and not (fit.has_callbacks or lines.shown):
        every = sys.maxsize  # only these use the records of an early stage

    def show(record):
        value = problem.divergence_of(record.fun)
        lines.record(n_before + record.iteration, value, stage.early)

    def seen(x):
        return attributes(x) | ({"loss_curve_": np.empty(0)} if stage.early else {})

    result = fit.run(
        own,
        problem,
        x,
        record_every=every,
        show=show if lines.shown else None,
        attributes=seen,
        n_before=n_before,
    )
    if not silent:
        return result
    curves = ("loss_curve", "ifo", "record_iterations")
    return changed(result, **{name: result[name][[0, -1]] for name in curves})
