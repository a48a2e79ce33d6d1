"""Large maps of tight groups of points: how they are recognised, and drawn out at once after their early stage."""

import numpy as np

from sk_stormc.embedding.steps import LARGE, LARGEST

__all__ = ["has_tight_groups", "widened"]

STEP = 2**0.5  # from one width that is tried to the next
PART = 0.8  # of the best width: the map still spreads, and a wider one has a larger mesh
ROOM = 6.0  # widest map, for each root of a point
ENOUGH = 0.5  # of the divergence, that drawing the map out must take off


def has_tight_groups(problem, x):
    """Whether the divergence of a map halves if the map is drawn out, all at once.

    An early stage leaves a small map. Tight groups of points have found their places in it, but as it spreads slowly
    they push each other out of them. If such a map is drawn out at once, they keep them. A map whose points lie in no
    tight groups loses by it, and its divergence falls by much less than half.
    """
    if problem.per_point or problem.n_components > 2 or problem.exaggeration != 1:
        return False
    if not LARGE <= problem.n_inner <= LARGEST:
        return False
    values = (value for _, value in _drawn_out(problem, x))
    first = next(values, None)  # None if it is not a number; then there are no further values
    return any(value < (1 - ENOUGH) * first for value in values)


def widened(problem, x):
    """The same map drawn out to somewhat less than its best width."""
    factors = [factor for factor, _ in _drawn_out(problem, x)]
    return _times(problem, x, PART * factors[-1]) if len(factors) > 1 else x


def _drawn_out(problem, x):
    """Yield factors by which a map is drawn out, from 1, and its divergence then, as long as this number falls."""
    widest, factor, best = float(np.ptp(x.reshape(problem.n_inner, -1), axis=0).max()), 1.0, np.inf
    while True:
        value = problem.divergence_of(problem.reported(_times(problem, x, factor)))
        if not value < best:
            return
        yield factor, value
        factor, best = factor * STEP, value
        if widest * factor > ROOM * problem.n_inner**0.5:
            return


def _times(problem, x, factor):
    """The map x times a factor, about its mean."""
    points = x.reshape(problem.n_inner, -1)
    return ((points - points.mean(axis=0, dtype=float).astype(x.dtype)) * x.dtype.type(factor)).ravel()
