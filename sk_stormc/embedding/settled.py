"""Whether a map is done: what a fit warns of at its end."""

import warnings
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

from sk_stormc.embedding.spreading import loss_of_second_half
from sk_stormc.solvers import StopReason, STORMCompositional
from sk_stormc.utils.warnings import warn

__all__ = ["quiet", "warn_if_unsettled"]

WORSE = 0.01  # of the start's divergence, by which the last map may be above the best; and must be below the start
PROBE, MOVING = 3, 5.5e-3  # iterations beyond the last, and the part of the divergence that they must not take off
SPREADING = 0.06  # of the divergence, taken off by the second half of the last stage
NOTHING = 1e-4  # a divergence, or a difference of two, that no map shows


def warn_if_unsettled(model, problem, result):
    """Warn where a map has not left its start, is worse than one that was recorded, or would still move.

    The last is where a few iterations more at the full rate would lower the divergence by a notable part of itself, or
    where it was falling steadily up to the end, as it does in a map that spreads slowly.

    Parameters
    ----------
    model : SNEEmbedding
        Fitted.
    problem : SNEProblem
    result : SolverResult
        Of the whole run.
    """
    start, last, best = model.loss_curve_[0], model.loss_curve_[-1], model.loss_curve_.min()
    plain = problem.exaggeration == 1  # else the divergence is not what falls
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
    """The divergence at the end, and after a few more iterations at the full rate."""
    with quiet():
        probe = STORMCompositional(max_iter=PROBE, tol=0)
        found = probe.solve(problem.stage(PROBE, held=0.1), result.x, random_state=0)
    return problem.divergence_of(found.loss_curve[[0, -1]])


@contextmanager
def quiet():
    """Ignore that a run's last point is not the best that it recorded."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*returns its last point", ConvergenceWarning)
        yield
