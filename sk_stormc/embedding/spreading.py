"""Whether a map is still expanding when its iterations end, and its continuation.

Distant parts of a map move apart slowly. A few more iterations do not show this, because each of them lowers the
divergence by little. The second half of a stage shows it, in which the learning rate falls to 0: the divergence of a
converged map hardly falls there.
"""

import numpy as np

from sk_stormc.engine.results import joined
from sk_stormc.solvers import StopReason, STORMCompositional

__all__ = ["goes_on", "loss_of_second_half", "with_stage"]

SLOW, DONE = 0.02, 0.008  # relative decreases: more iterations are added above the first, until it is below the second
LEAST = 8  # smallest number of records of a stage for this test
MANY, TIMES = 10_000, 8  # largest number of points, and largest multiple of the first horizon, for added iterations


def loss_of_second_half(problem, result):
    """The decrease of the divergence in the second half of the last stage, relative to the final divergence."""
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
    """Whether the number of iterations of a map should be doubled."""
    free = solver.max_iter is None and solver.max_ifo is None and solver.tol == 0
    own = isinstance(solver, STORMCompositional) and solver.learning_rate == "auto"
    plain = problem.exaggeration == 1  # otherwise the divergence is not what is minimised
    few = problem.n_inner <= MANY and 2 * result.n_iter <= TIMES * horizon
    if not (free and own and plain and few and result.stop_reason == StopReason.MAX_ITER):
        return False
    return loss_of_second_half(problem, result) > (SLOW if result.n_iter == horizon else DONE)


def with_stage(before, stage):
    """The result of a run and a further stage as one run."""
    return joined(
        before,
        stage,
        loss_curve=np.concatenate([before.loss_curve, stage.loss_curve[1:]]),
        ifo=np.concatenate([before.ifo, stage.ifo[1:] + before.ifo[-1]]),
        record_iterations=np.concatenate([before.record_iterations, stage.record_iterations[1:] + before.n_iter]),
    )
