"""Whether a map still spreads when its iterations end, and how it goes on.

Parts of a map that are far from each other move apart slowly. A few iterations more do not show it, since each takes
little off the divergence. What shows it is the second half of a stage, in which the learning rate falls: the divergence
of a map that is done falls by next to nothing there.
"""

import numpy as np

from sk_stormc.engine.results import joined
from sk_stormc.solvers import StopReason, STORMCompositional

__all__ = ["goes_on", "loss_of_second_half", "with_stage"]

SLOW, DONE = 0.02, 0.008  # of the divergence: a map goes on above the first, until below the second
LEAST = 8  # records of a stage, to tell from
MANY, TIMES = 10_000, 8  # points, above which it would take long; times the first horizon, at most


def loss_of_second_half(problem, result):
    """What the second half of the last stage took off, as a part of the divergence at its end.

    Parameters
    ----------
    problem : SNEProblem
        Of the last stage.
    result : SolverResult
        Of the whole run.

    Returns
    -------
    float
        0 where that cannot be told: few records, sampled columns, exaggeration, or a kernel other than "student-t".
    """
    begin = result.n_iter - problem.advice.max_iter
    of_stage = result.record_iterations >= begin
    if problem.per_point or not problem.is_exact or problem.exaggeration != 1 or of_stage.sum() < LEAST:
        return 0.0
    # only the records that the problem advises: more of them must not change what is found
    advised = np.diff((result.ifo[of_stage] - result.ifo[of_stage][0]) // problem.advice.record_every, prepend=0) > 0
    behind = result.record_iterations[of_stage] >= begin + problem.advice.max_iter / 2
    losses = problem.divergence_of(result.loss_curve[of_stage])
    middle = losses[np.argmax(advised & behind)]
    return float((middle - losses[-1]) / max(losses[-1], 1e-12))


def goes_on(solver, problem, result, horizon):
    """Whether a map is to have as many iterations again.

    Parameters
    ----------
    solver : CompositionalSolver
        The user's. A number of iterations or calls that it sets is kept to.
    problem, result
        As for `loss_of_second_half`.
    horizon : int
        Number of iterations before any were added.

    Returns
    -------
    bool
    """
    free = solver.max_iter is None and solver.max_ifo is None and solver.tol == 0
    own = isinstance(solver, STORMCompositional) and solver.learning_rate == "auto"
    plain = problem.exaggeration == 1  # else the divergence is not what falls
    few = problem.n_inner <= MANY and 2 * result.n_iter <= TIMES * horizon
    if not (free and own and plain and few and result.stop_reason == StopReason.MAX_ITER):
        return False
    return loss_of_second_half(problem, result) > (SLOW if result.n_iter == horizon else DONE)


def with_stage(before, stage):
    """A run and a further stage of it as one."""
    return joined(
        before,
        stage,
        loss_curve=np.concatenate([before.loss_curve, stage.loss_curve[1:]]),
        ifo=np.concatenate([before.ifo, stage.ifo[1:] + before.ifo[-1]]),
        record_iterations=np.concatenate([before.record_iterations, stage.record_iterations[1:] + before.n_iter]),
    )
