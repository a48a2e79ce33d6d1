"""Inner components with weights, which are the weights of means and the probabilities
of draws."""

from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.source import FiniteSource


class WeightedComponents(CompositionalProblem):
    """A problem whose inner components may have weights.

    Attributes
    ----------
    weights : None or ndarray of shape (n_inner,), default=None
        Numbers >= 0 with sum 1. None means equal weights.
    """

    weights = None

    @property
    def source(self):
        """Components drawn with probability proportional to their weights."""
        return FiniteSource(self.n_inner, self.n_outer, self.weights)


def with_sum_one(weights):
    """Weights divided by their sum, without overflow."""
    weights = weights / weights.max()
    return weights / weights.sum()
