"""Where batches of columns of the kernel matrix come from."""

import numpy as np

from sk_stormc.core.source import FiniteSource

__all__ = ["ColumnSource"]


class ColumnSource(FiniteSource):
    """Columns of n points; f is taken whole, since it is one sparse product, and most noise if sampled.

    Parameters
    ----------
    n : int
    n_near : int or None
        What the near field costs that comes with each batch, in components. None means that there is none, and that
        draws are independent; else there is one from each of batch_size equal stretches.
    """

    def __init__(self, n, n_near):
        super().__init__(n, n)
        self.n_near = n_near

    def sizes(self, size):
        """The size for g and its Jacobian, and all of f."""
        return size, size, None

    def price(self, kind, size):
        """The draws, and for g and its Jacobian the near field."""
        return size if kind == "outer" or self.n_near is None else size + self.n_near

    def draw_inner(self, rng, shape):
        """Numbers of columns."""
        if self.n_near is None:
            return super().draw_inner(rng, shape)
        spread = (np.arange(shape[-1]) + rng.random(shape)) * (self.n_inner / shape[-1])
        return np.minimum(spread.astype(np.intp), self.n_inner - 1)
