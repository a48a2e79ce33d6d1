"""Inner components with weights: means use the weights, and draws have them as probabilities."""

from functools import cached_property

import numpy as np

from sk_stormc.core.problem import CompositionalProblem

__all__ = ["WeightedComponents", "with_sum_one"]


class WeightedComponents(CompositionalProblem):
    """A problem whose inner components may have weights.

    Attributes
    ----------
    weights : None or ndarray of shape (n_inner,), default=None
        Numbers >= 0 with sum 1. None means equal weights.
    """

    weights = None

    def draw_inner(self, rng, shape):
        """Indices of components, with probability proportional to their weights."""
        if self.weights is None:
            return rng.integers(self.n_inner, size=shape)
        return np.searchsorted(self._cumulative, rng.random(shape), side="right")

    @cached_property
    def _cumulative(self):
        cumulative = np.cumsum(self.weights)
        cumulative[-1] = 1.0
        return cumulative


def with_sum_one(weights):
    """Weights divided by their sum, which cannot overflow on the way."""
    weights = weights / weights.max()
    return weights / weights.sum()
