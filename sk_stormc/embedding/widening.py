"""Where the main stage of a large map may begin: the map of the early stage, drawn out at once."""

import numpy as np

from sk_stormc.embedding.steps import LARGE

__all__ = ["widened"]

FEWEST, MOST = LARGE, 100_000  # points: it was not found to help fewer, and not tried on more
STEP = 2**0.5  # from one width that is tried to the next
PART = 0.7  # of the best width: the map still spreads, and a wider one has a larger mesh
ROOM = 4.0  # widest map, for each root of a point
ENOUGH = 0.5  # of the divergence, that the best width must take off


def widened(problem, x):
    """The same map drawn out to somewhat less than its best width, if that alone halves its divergence.

    An early stage leaves a small map. Tight groups of points have found their places in it, but as it spreads they push
    each other out of them. If it is drawn out at once they keep them. A map whose points lie in no tight groups loses
    by it. Its divergence falls by much less than half, and it stays as it is.

    Parameters
    ----------
    problem : SNEProblem
        Of the stage that follows.
    x : ndarray of shape (n_variables,)

    Returns
    -------
    ndarray of shape (n_variables,)
        x itself for another kernel, for few and for very many points, and before a stage with exaggeration.
    """
    n = problem.n_inner
    if problem.per_point or problem.n_components > 2 or problem.exaggeration != 1 or not FEWEST <= n <= MOST:
        return x

    def divergence(places):
        return problem.divergence_of(problem.reported(places))

    points = x.reshape(n, -1)
    points = points - points.mean(axis=0, dtype=float).astype(x.dtype)
    widest, factor = float(np.ptp(points, axis=0).max()), 1.0
    best = before = divergence(x)
    while widest * factor * STEP <= ROOM * n**0.5:
        value = divergence((points * x.dtype.type(factor * STEP)).ravel())
        if not value < best:
            break
        factor, best = factor * STEP, value
    drawn = (points * x.dtype.type(PART * factor)).ravel()
    return drawn if before - best > ENOUGH * before else x
