"""Maps of tight groups of points: how they are recognised, and rescaled at once after their early stage."""

import numpy as np

__all__ = ["has_tight_groups", "rescaled"]

STEP = 2**0.5  # from one factor that is tried to the next
PART = 0.8  # of the best factor: the map still expands, and a wider one has a larger mesh
ROOM = 6.0  # widest map, for each root of a point
ENOUGH = 0.5  # of the divergence, that rescaling the map must take off


def has_tight_groups(problem, x):
    """Whether the divergence of a map halves if the map is rescaled, all at once.

    An early stage leaves a small map. Tight groups of points have found their places in it, but as it expands slowly
    they push each other out of them. If such a map is rescaled at once, they keep them. A map whose points lie in no
    tight groups loses by it, and its divergence falls by much less than half.
    """
    if problem.per_point or problem.n_components > 2 or problem.exaggeration != 1:
        return False
    values = (value for _, value in _widths(problem, x))
    first = next(values, None)  # None if it is not a number; then there are no further values
    return any(value < (1 - ENOUGH) * first for value in values)


def rescaled(problem, x):
    """The same map, rescaled to somewhat less than its best width."""
    factors = [factor for factor, _ in _widths(problem, x)]
    return _times(problem, x, PART * factors[-1]) if len(factors) > 1 else x


def _widths(problem, x):
    """Yield factors of a map, from 1, and its divergence with each, as long as this number falls."""
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
