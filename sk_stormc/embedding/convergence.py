"""Convergence of a map, and the warnings of a fit whose map has not converged."""

import warnings
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

from sk_stormc.solvers import StopReason, STORMCompositional
from sk_stormc.utils.warnings import warn

__all__ = ["quiet", "warn_if_not_converged"]

WORSE = 0.01  # allowed excess over the best divergence, and least decrease, relative to the initial divergence
PROBE, MOVING = 3, 5.5e-3  # number of additional iterations, and their allowed relative decrease of the divergence
DOT = 0.01  # width below which the kernel does not distinguish the distances in a map
NARROW = 0.1  # allowed relative decrease of the divergence by distances that halve the kernel far away
NOTHING = 3e-4  # a divergence, or a difference of two, that is not visible in a map


def warn_if_not_converged(model, problem, result):
    """Warn if a map has not left its initialization, is worse than a recorded one, or has not converged.

    A map has not converged if a few more iterations at the full learning rate would lower the divergence notably.
    """
    message = _worse(model, problem)
    if message is None and result.stop_reason == StopReason.MAX_ITER and model.solver_.tol == 0:
        message = _moving(model, problem, result)
    if message is None and result.stop_reason in (StopReason.MAX_ITER, StopReason.MAX_IFO, StopReason.CONVERGED):
        message = _stuck(model, problem, result) or _narrow(model, problem, result)
    if message is not None:
        warn(message, ConvergenceWarning)


# Each function returns the warning, or None. The objective of an exaggerated map is not the divergence.


def _worse(model, problem):
    start, last, best = model.loss_curve_[0], model.loss_curve_[-1], model.loss_curve_.min()
    if problem.exaggeration != 1 or last <= best + max(WORSE * start, NOTHING):
        return None
    return (
        f"the map's divergence, {last:.4g}, is above one that was recorded, {best:.4g}. Use a smaller "
        "learning_rate or larger batches."
    )


def _moving(model, problem, result):
    if problem.exaggeration != 1:
        return None
    before, after = _further(problem, result)
    if before - after <= max(MOVING * before, NOTHING):
        return None
    return (
        f"the map was still moving after {model.n_iter_} iterations: {PROBE} more would lower its divergence, "
        f"{before:.4g}, by {(before - after) / before:.1%}. Increase max_iter."
    )


def _stuck(model, problem, result):
    start, last, width = model.loss_curve_[0], model.loss_curve_[-1], model.embedding_.std(axis=0).max()
    exaggerated = problem.exaggeration != 1
    if last <= NOTHING or (width > DOT if exaggerated else start - last > WORSE * start):
        return None
    advice = (
        f"Steps of {type(model.solver_).__name__} as set are too short or too few: use solver='storm-c', a larger "
        "learning_rate or a larger max_iter."
    )
    if exaggerated:
        advice = f"Use a smaller exaggeration: {problem.exaggeration:g} draws all points together."
    elif result.stop_reason == StopReason.CONVERGED:
        advice = f"Use a smaller tol: with {model.solver_.tol:g} the solver ended there."
    return (
        f"the map has hardly left its start: its divergence was {start:.4g} there and is {last:.4g} after "
        f"{model.n_iter_} iterations, and its points have a standard deviation of {width:.2g}. {advice}"
    )


def _narrow(model, problem, result):
    """With few degrees of freedom the best map is so wide that steps of a limited length do not reach its width."""
    if problem.dof >= 1 or problem.exaggeration != 1:
        return None
    factor = 2 ** (1 / problem.dof)
    wider = (factor * result.x).astype(result.x.dtype)
    before, after = (problem.divergence_of(problem.reported(x)) for x in (result.x, wider))
    if before - after <= max(NARROW * before, NOTHING):
        return None
    return (
        f"the map is too narrow for dof={problem.dof:g}: with all distances times {factor:.3g}, its divergence of "
        f"{before:.4g} would be {after:.4g}. Use a larger dof. solver='lbfgs' reaches larger distances."
    )


def _further(problem, result):
    """The divergence at the end, and after a few more iterations at the full learning rate."""
    with quiet():
        probe = STORMCompositional(max_iter=PROBE, tol=0)
        further = probe.solve(problem.stage(PROBE, held=0.1), result.x, random_state=0)
    return problem.divergence_of(further.loss_curve[[0, -1]])


@contextmanager
def quiet():
    """Ignore the warning that a run's last point is not the best that it recorded."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*returns its last point", ConvergenceWarning)
        yield
