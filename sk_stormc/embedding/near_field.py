"""The near field: the kernel along the edges of the graph, cached for the last point of a run."""

import numpy as np

from sk_stormc.embedding.pairs import TASK
from sk_stormc.utils.threads import each, parts

__all__ = ["NearField", "same_point"]


def same_point(x, y):
    """Whether two arrays hold the same point. They are compared by value, because arrays may be changed in place."""
    return x is not None and x.dtype == y.dtype and bool((x == y).all())


class NearField:
    """The kernel along the edges, and the weights of the attraction, cached for the last point.

    One iteration needs them several times at the same point. The buffers in which they are computed are reused. Each
    run has its own near field, so that runs do not disturb each other.

    Parameters
    ----------
    edges : Edges
    kernel : object
        A kernel of kernels.py.
    exaggeration : float
        The factor alpha of the attraction.
    """

    def __init__(self, edges, kernel, exaggeration):
        self.edges, self.kernel, self.exaggeration = edges, kernel, exaggeration
        self._x = self._rows = self._w = self._attraction = None
        self._weight, self._buffers = {}, {}

    def at(self, x):
        """The coordinates as rows, and w of each edge."""
        if not same_point(self._x, x):
            self._x = self._attraction = None  # the cache stays empty if what follows is interrupted
            self._rows = np.ascontiguousarray(x.reshape(self.edges.n, -1).T)
            self._w = self.edges.squares(self._rows, self.buffer("w", x.dtype), self.kernel.base)
            self._x = x.copy()
        return self._rows, self._w

    def attraction(self, x):
        """The weights c_ij = 2 alpha s_ij phi'(D_ij) of the edges, s = P + P.T, and their sums for each point."""
        w = self.at(x)[1]
        if self._attraction is None:
            if w.dtype not in self._weight:
                self._weight[w.dtype] = (2 * self.exaggeration * self.edges.weight).astype(w.dtype)
            c, weight = np.empty_like(w), self._weight[w.dtype]  # not in a buffer, because a metric keeps it

            def task(some):
                c[some] = self.kernel.attraction(weight[some], w[some])

            each(task, parts(len(c), TASK))
            self._attraction = c, self.edges.sums(c)
        return self._attraction

    def buffer(self, name, dtype):
        """A reused vector over the edges. Allocating a new one would cost more than the computation."""
        key = name, np.dtype(dtype)
        if key not in self._buffers:
            self._buffers[key] = np.empty(len(self.edges.i), dtype)
        return self._buffers[key]
