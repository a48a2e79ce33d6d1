"""Warnings at the end of a fit whose map has not converged."""

import warnings
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

from sk_stormc.embedding.spreading import loss_of_second_half
from sk_stormc.solvers import StopReason, STORMCompositional
from sk_stormc.utils.warnings import warn

__all__ = ["quiet", "warn_if_unsettled"]

WORSE = 0.01  # tolerance relative to the start's divergence: of the last map above the best one, and below the start
PROBE, MOVING = 3, 5.5e-3  # number of probe iterations, and their relative decrease that causes a warning
SPREADING = 0.06  # relative decrease in the second half of the last stage that causes a warning
NOTHING = 1e-4  # divergences, or differences of two, that are too small to see in a map


def warn_if_unsettled(model, problem, result):
    """Warn if a map has not left its start, is worse than a recorded one, or has not converged.

    A map has not converged if a few more iterations at the full learning rate would lower the divergence notably, or if
    the divergence was falling steadily up to the end, as in a map that expands slowly.

    Parameters
    ----------
    model : SNEEmbedding
        The fitted estimator.
    problem : SNEProblem
        The problem of the last stage.
    result : SolverResult
        The result of all stages.
    """
    start, last, best = model.loss_curve_[0], model.loss_curve_[-1], model.loss_curve_.min()
    plain = problem.exaggeration == 1  # otherwise the divergence is not what is minimised
    if plain and last > best + max(WORSE * start, NOTHING):
        said = (
            f"the map's divergence, {last:.4g}, is above one that was recorded, {best:.4g}. Use a smaller "
            "learning_rate or larger batches."
        )
    elif model.solver_.tol != 0 or result.stop_reason != StopReason.MAX_ITER:
        return
    elif (fallen := loss_of_second_half(problem, result)) > SPREADING:
        said = (
            f"the map was still spreading after {model.n_iter_} iterations: the last {problem.advice.max_iter // 2} "
            f"lowered its divergence, {last:.4g}, by {fallen:.1%}. Increase max_iter."
        )
    else:
        before, after = _further(problem, result)
        if plain and before - after > max(MOVING * before, NOTHING):
            said = (
                f"the map was still moving after {model.n_iter_} iterations: {PROBE} more would lower its divergence, "
                f"{before:.4g}, by {(before - after) / before:.1%}. Increase max_iter."
            )
        elif start - last <= WORSE * start and last > NOTHING and plain:
            said = (
                f"the map has hardly left its start: its divergence was {start:.4g} there and is {last:.4g} after "
                f"{model.n_iter_} iterations, and its points have a standard deviation of "
                f"{model.embedding_.std(axis=0).max():.2g}. Steps of {type(model.solver_).__name__} as set are too "
                "short or too few: use solver='storm-c', a larger learning_rate or a larger max_iter."
            )
        else:
            return
    warn(said, ConvergenceWarning)


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
