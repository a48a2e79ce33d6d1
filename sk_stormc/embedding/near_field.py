"""What a run remembers of the last point that it evaluated: the kernel along the edges of the graph."""

import numpy as np

from sk_stormc.embedding.pairs import TASK
from sk_stormc.utils.threads import each, parts

__all__ = ["NearField", "same_point"]


def same_point(x, y):
    """Whether two arrays hold the same point: by value, since an array may have been written into since.

    Parameters
    ----------
    x : ndarray or None
        None is no point.
    y : ndarray

    Returns
    -------
    bool
    """
    return x is not None and x.dtype == y.dtype and bool((x == y).all())


class NearField:
    """The kernel along the edges at one point at a time, and the weights of the attraction there.

    One iteration asks for them several times at the same point. They are kept here for the last point, with the memory
    that they are computed in. A run has a near field of its own, so that runs do not disturb each other.

    Parameters
    ----------
    edges : Edges
    kernel : object
        Of kernels.py.
    exaggeration : float
        alpha.
    """

    def __init__(self, edges, kernel, exaggeration):
        self.edges, self.kernel, self.exaggeration = edges, kernel, exaggeration
        self._x = self._rows = self._w = self._attraction = None
        self._weight, self._buffers = {}, {}

    def at(self, x):
        """The coordinates as rows, and w of each edge.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        rows : ndarray of shape (d, n_points)
        w : ndarray of shape (n_edges,)
            What the kernel keeps of them (kernels.py). Overwritten at the next point.
        """
        if not same_point(self._x, x):
            self._x = self._attraction = None  # if what follows is interrupted, nothing is known
            self._rows = np.ascontiguousarray(x.reshape(self.edges.n, -1).T)
            self._w = self.edges.squares(self._rows, self.buffer("w", x.dtype), self.kernel.base)
            self._x = x.copy()
        return self._rows, self._w

    def attraction(self, x):
        """The weights c_ij = 2 alpha s_ij phi'(D_ij) of the edges, s = P + P.T, and their sums for each point.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)

        Returns
        -------
        c : ndarray of shape (n_edges,)
        sums : ndarray of shape (n_points,)
        """
        w = self.at(x)[1]
        if self._attraction is None:
            if w.dtype not in self._weight:
                self._weight[w.dtype] = (2 * self.exaggeration * self.edges.weight).astype(w.dtype)
            c, weight = np.empty_like(w), self._weight[w.dtype]  # not in a buffer: a metric keeps it

            def task(some):
                c[some] = self.kernel.attraction(weight[some], w[some])

            each(task, parts(len(c), TASK))
            self._attraction = c, self.edges.sums(c)
        return self._attraction

    def buffer(self, name, dtype):
        """A vector over the edges that is used again and again: fresh memory would cost more than its use."""
        key = name, np.dtype(dtype)
        if key not in self._buffers:
            self._buffers[key] = np.empty(len(self.edges.i), dtype)
        return self._buffers[key]
