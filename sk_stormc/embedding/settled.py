"""Warnings at the end of a fit whose map has not converged."""

import warnings
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

from sk_stormc.embedding.spreading import loss_of_second_half
from sk_stormc.solvers import StopReason, STORMCompositional
from sk_stormc.utils.warnings import warn

__all__ = ["quiet", "warn_if_unsettled"]

WORSE = 0.01  # of the start's divergence, by which the last map may be above the best; and must be below the start
PROBE, MOVING = 3, 5.5e-3  # iterations beyond the last, and the part of the divergence that they must not take off
# of the divergence, taken off by the second half of the last stage, where so many iterations were asked for, and where
# "auto" chose them, which of many points is a compromise with time; up to twice that is still to gain then
SPREADING = 0.03, 0.06
DOT = 0.01  # a width at which all distances in a map are the same to its kernel
NOTHING = 3e-4  # a divergence, or a difference of two, that no map shows


def warn_if_unsettled(model, problem, result):
    """Warn if a map has not left its start, is worse than a recorded one, or has not converged.

    A map has not converged if a few more iterations at the full learning rate would lower the divergence notably, or if
    the divergence was falling steadily up to the end, as in a map that expands slowly.
    """
    said = _worse(model, problem)
    if said is None and result.stop_reason == StopReason.MAX_ITER and model.solver_.tol == 0:
        said = _spreading(model, problem, result) or _moving(model, problem, result)
    if said is None and result.stop_reason in (StopReason.MAX_ITER, StopReason.MAX_IFO, StopReason.CONVERGED):
        said = _stuck(model, problem, result)
    if said is not None:
        warn(said, ConvergenceWarning)


# What to say; None where it is not so. What falls while the map is exaggerated is not the divergence.


def _worse(model, problem):
    start, last, best = model.loss_curve_[0], model.loss_curve_[-1], model.loss_curve_.min()
    if problem.exaggeration != 1 or last <= best + max(WORSE * start, NOTHING):
        return None
    return (
        f"the map's divergence, {last:.4g}, is above one that was recorded, {best:.4g}. Use a smaller "
        "learning_rate or larger batches."
    )


def _spreading(model, problem, result):
    fallen, automatic = loss_of_second_half(problem, result), model.solver_.max_iter is None
    if fallen <= SPREADING[automatic]:
        return None
    return (
        f"the map was still spreading after {model.n_iter_} iterations: the last {problem.advice.max_iter // 2} "
        f"lowered its divergence, {model.loss_curve_[-1]:.4g}, by {fallen:.1%}. Increase max_iter."
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


def _further(problem, result):
    """The divergence at the end, and after a few more iterations at the full learning rate."""
    with quiet():
        probe = STORMCompositional(max_iter=PROBE, tol=0)
        found = probe.solve(problem.stage(PROBE, held=0.1), result.x, random_state=0)
    return problem.divergence_of(found.loss_curve[[0, -1]])


@contextmanager
def quiet():
    """Ignore the warning that a run's last point is not the best that it recorded."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*returns its last point", ConvergenceWarning)
        yield
