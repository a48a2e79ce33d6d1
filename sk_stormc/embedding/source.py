"""The source of batches of columns of the kernel matrix."""

import numpy as np

from sk_stormc.core.source import FiniteSource

__all__ = ["ColumnSource"]


class ColumnSource(FiniteSource):
    """Columns of n points. f is never sampled, because it is one sparse product and would cause most of the noise.

    Parameters
    ----------
    n : int
        Number of points.
    n_near : int or None
        Cost of the near field of a batch, in components. With a near field, draws are stratified: one from each of
        batch_size equal intervals. None means that there is no near field, and that draws are independent.
    """

    def __init__(self, n, n_near):
        super().__init__(n, n)
        self.n_near = n_near

    def sizes(self, size):
        """The batch size for g and its Jacobian, and None (all) for f."""
        return size, size, None

    def price(self, kind, size):
        """The cost of a batch: the draws, and for g and its Jacobian also the near field."""
        return size if kind == "outer" or self.n_near is None else size + self.n_near

    def draw_inner(self, rng, shape):
        """Indices of the drawn columns."""
        if self.n_near is None:
            return super().draw_inner(rng, shape)
        spread = (np.arange(shape[-1]) + rng.random(shape)) * (self.n_inner / shape[-1])
        return np.minimum(spread.astype(np.intp), self.n_inner - 1)
