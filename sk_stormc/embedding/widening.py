"""Where the main stage of a large map begins: the map of the early stage, drawn out to the width that suits it best."""

import numpy as np

__all__ = ["FEWEST", "widened"]

FEWEST, MOST = 35_000, 200_000  # points: of a smaller map parts mix while it spreads, and a larger one costs too much
STEP = 2**0.5  # from one width that is tried to the next
PART = 0.7  # of the best width: the map still spreads, and a wider one has a larger mesh
ROOM = 4.0  # widest map, for each root of a point


def widened(problem, x):
    """The same map, as wide as its objective likes best.

    An early stage leaves a small and crowded map. As it spreads its parts push each other out of the places that they
    have found. If it is drawn out at once they keep them.

    Parameters
    ----------
    problem : SNEProblem
        Of the stage that follows.
    x : ndarray of shape (n_variables,)

    Returns
    -------
    ndarray of shape (n_variables,)
        x itself for another kernel, for few and for very many points, and where the map is wide enough.
    """
    n = problem.n_inner
    if problem.per_point or problem.n_components > 2 or not FEWEST <= n <= MOST:
        return x
    points = x.reshape(n, -1)
    points = points - points.mean(axis=0, dtype=float).astype(x.dtype)
    widest, factor, best = float(np.ptp(points, axis=0).max()), 1.0, problem.objective(x)
    while widest * factor * STEP <= ROOM * n**0.5:
        value = problem.objective((points * x.dtype.type(factor * STEP)).ravel())
        if not value < best:
            break
        factor, best = factor * STEP, value
    factor *= PART
    return (points * x.dtype.type(factor)).ravel() if factor > 1 else x
