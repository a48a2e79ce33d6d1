"""A sample of the edges of a graph, which replaces all of them in the linear system of the metric."""

import copy

import numpy as np
from scipy import sparse

from sk_stormc.embedding.pairs import TASK, Edges, even_rows
from sk_stormc.utils.threads import each

__all__ = ["ThinnedEdges"]

MULTIPLIER, DROPPED = 2654435761, 11  # 2**32 over the golden ratio; binary digits of a weight that are left out, of 23
ROUNDS = 5  # iterations of the scaling that corrects the sums of the points


class ThinnedEdges(Edges):
    """Edges drawn in proportion to their weight, hardly more than a given number of them.

    A number of an edge is divided by the probability that the edge was drawn. Whether an edge is drawn depends on the
    digits of its weight, so that nothing is random, and the order of the points makes no difference unless weights are
    equal. All edges are kept of a point that would have none. Then the numbers are scaled until each point's sum of
    weights is nearly that of all its edges, since a point whose sum is too small would take steps that are too long.

    Parameters
    ----------
    edges : Edges
    number : int
        Of edges, at most but for those of points that would have none.

    Attributes
    ----------
    drawn : ndarray of shape (n_drawn,)
        Which edges.
    """

    def __init__(self, edges, number):
        i, j, weight = edges.i, edges.j, edges.weight.astype(float)
        probability = np.minimum(1.0, weight * (number / weight.sum()))
        taken = _scattered(weight) < probability
        without = _sums(i, j, taken, edges.n) == 0
        kept = without[i] | without[j]
        probability[kept] = 1.0
        self.drawn = np.flatnonzero(taken | kept)
        whole = _sums(i, j, weight, edges.n)
        i, j, weight = i[self.drawn], j[self.drawn], weight[self.drawn]
        self._times = 1 / probability[self.drawn]
        for _ in range(ROUNDS):
            now = _sums(i, j, weight * self._times, edges.n)
            self._times *= np.sqrt(whole[i] / now[i] * whole[j] / now[j])
        half = sparse.csr_array((weight * self._times, (i, j)), shape=(edges.n, edges.n))
        super().__init__(half)

    def _lay_out(self, upper):
        """All entries of the symmetric matrix, in blocks of rows, each with the edge of every entry.

        For several products with the same values, these are faster than the halves that all edges have. They need the
        values of the edges twice, in another order.
        """
        both = sparse.csr_array((np.arange(1, upper.nnz + 1, dtype=np.int32), upper.indices, upper.indptr), upper.shape)
        both = (both + both.T).tocsr()
        self._entries = []
        for rows in even_rows(both, TASK):
            entries = both[rows]
            self._entries.append((rows, entries.data - 1, entries))

    def matrix(self, c):
        """As `Edges.matrix`."""
        blocks = []
        for rows, edge, entries in self._entries:
            entries = copy.copy(entries)
            entries.data = c.take(edge)
            blocks.append((rows, entries))

        def product(X):
            out = np.empty_like(X)

            def multiply(task):
                k, (rows, entries) = task
                out[k, rows] = entries @ X[k]

            each(multiply, [(k, block) for k in range(len(X)) for block in blocks], len(c))
            return out

        return product

    def of(self, c):
        """The numbers of the drawn edges, from those of all."""
        return c[self.drawn] * self._times.astype(c.dtype)


def _scattered(weight):
    """A number above 0 and below 1 for each weight, as if it were random (multiplicative hashing)."""
    digits = weight.astype(np.float32).view(np.uint32)
    # the last digits are left out, because they change if the points are reordered or given in single precision
    found = ((digits >> DROPPED) * np.uint32(MULTIPLIER) + 0.5) / 2**32  # not 0, or weights of nearly 0 could be drawn
    # of edges of the same weight, as between copies of points, some should be drawn, so the nth is moved n times
    edges = np.arange(len(digits), dtype=np.uint64)
    ordered = np.sort((digits.astype(np.uint64) << 32) | edges)
    weights = ordered >> 32
    again = 1 + np.flatnonzero(weights[1:] == weights[:-1])
    k = np.arange(len(again))
    nth = 1 + k - np.maximum.accumulate(np.where(np.diff(again, prepend=-1) > 1, k, 0))
    edge = (ordered[again] & 0xFFFFFFFF).astype(np.intp)
    found[edge] = (found[edge] + nth * (MULTIPLIER / 2**32)) % 1.0
    return found


def _sums(i, j, values, n):
    """For each point the sum of its edges' values."""
    return np.bincount(i, values, n) + np.bincount(j, values, n)
