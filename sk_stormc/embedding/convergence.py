"""Convergence of a map, and the warnings of a fit whose map has not converged."""

from sklearn.exceptions import ConvergenceWarning

from sk_stormc.embedding.descent import Descent, further_by_descent
from sk_stormc.embedding.problem import recorded_divergence
from sk_stormc.embedding.solver_runs import further_by_solver
from sk_stormc.solvers import StopReason
from sk_stormc.utils.warnings import warn

# A difference of two divergences that is not visible in a map. Without it, maps with a
# divergence near 0 would be said to move.
INVISIBLE_DIVERGENCE = 3e-4
# allowed excess over the best divergence, and least decrease of a fit, relative to the
# initial divergence
NOTABLE_DIVERGENCE = 0.01
PROBE_ITERATIONS = 3  # that show whether a map still moves


def warn_if_not_converged(model, method, problem, result):
    """Warn if a map has not left its initialization, is worse than a recorded one, or
    has not converged.

    A map has not converged if a few more iterations at the full learning rate would
    lower the divergence notably.

    Parameters
    ----------
    model : SNEEmbedding
    method : Descent or CompositionalSolver
    problem : SNEProblem
        Its ``exaggeration`` is that of the last stage. An exaggerated map does not
        minimise the divergence.
    result : SolverResult
    """
    message, reason = _worse(model, problem), result.stop_reason
    if message is None and reason == StopReason.MAX_ITER and method.tol == 0:
        message = _moving(model, method, problem, result)
    if message is None and reason in (
        StopReason.MAX_ITER,
        StopReason.MAX_IFO,
        StopReason.NO_DECREASE,
        StopReason.CONVERGED,
    ):
        message = _stuck(model, method, problem, result) or _narrow(problem, result)
    if message is not None:
        warn(message, ConvergenceWarning)


# Each function returns the warning, or None.


def _worse(model, problem):
    start = model.loss_curve_[0]
    last = model.loss_curve_[-1]
    best = model.loss_curve_.min()
    if problem.exaggeration != 1 or last <= best + max(
        NOTABLE_DIVERGENCE * start, INVISIBLE_DIVERGENCE
    ):
        return None
    return (
        f"the map's divergence, {last:.4g}, is above one that was recorded, "
        f"{best:.4g}. Use a smaller learning_rate or larger batches."
    )


def _moving(model, method, problem, result):
    if problem.exaggeration != 1:
        return None
    is_descent = isinstance(method, Descent)
    further = further_by_descent if is_descent else further_by_solver
    before, after = further(problem, result.x, PROBE_ITERATIONS)
    # PROBE_ITERATIONS may decrease a divergence by .55 %
    if before - after <= max(5.5e-3 * before, INVISIBLE_DIVERGENCE):
        return None
    return (
        f"the map was still moving after {model.n_iter_} iterations: "
        f"{PROBE_ITERATIONS} more would lower its divergence, {before:.4g}, by "
        f"{(before - after) / before:.1%}. Increase max_iter."
    )


def _stuck(model, method, problem, result):
    start = model.loss_curve_[0]
    last = model.loss_curve_[-1]
    width = model.embedding_.std(axis=0).max()
    exaggerated = problem.exaggeration != 1
    decreased = start - last > NOTABLE_DIVERGENCE * start
    # far below its width, the kernel does not distinguish the distances in a map
    left = width > 0.01 if exaggerated else decreased
    if left or last <= INVISIBLE_DIVERGENCE:
        return None
    advice = (
        f"Steps of {type(method).__name__} as set are too short or too few: use "
        "solver='auto', a larger learning_rate or a larger max_iter."
    )
    if exaggerated:
        advice = (
            f"Use a smaller exaggeration: {problem.exaggeration:g} draws all points "
            "together."
        )
    elif result.stop_reason == StopReason.CONVERGED:
        advice = f"Use a smaller tol: with {method.tol:g} the fit ended there."
    return (
        f"the map has hardly left its start: its divergence was {start:.4g} there and "
        f"is {last:.4g} after {model.n_iter_} iterations, and its points have a "
        f"standard deviation of {width:.2g}. {advice}"
    )


def _narrow(problem, result):
    """With few degrees of freedom the best map is so wide that steps of a limited
    length do not reach its width."""
    if problem.dof >= 1 or problem.exaggeration != 1:
        return None
    factor = 2 ** (1 / problem.dof)  # halves the kernel of far points
    before = recorded_divergence(problem, result.x)
    wider = (factor * result.x).astype(result.x.dtype)
    after = recorded_divergence(problem, wider)
    if before - after <= max(0.1 * before, INVISIBLE_DIVERGENCE):
        return None
    return (
        f"the map is too narrow for dof={problem.dof:g}: with all distances times "
        f"{factor:.3g}, its divergence of {before:.4g} would be {after:.4g}. Use a "
        "larger dof. solver='lbfgs' reaches larger distances."
    )
