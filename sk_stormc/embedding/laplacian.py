"""The metric of neighbour embedding: the graph Laplacian of the attraction at a point.

The Hessian of the attraction is about L_c, the graph Laplacian with the edge weights c_ij of the attraction's gradient.
A step along (L_c + mu I)^-1 F moves whole clusters as easily as the points within them (the "spectral direction" of
Vladymyrov & Carreira-Perpinan, "Partial-Hessian strategies for fast learning of nonlinear embeddings", 2012).
"""

import copy
import math

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sk_stormc.core.metrics import Metric
from sk_stormc.core.schedules import at
from sk_stormc.utils.threads import each, parts

__all__ = ["Aggregates", "GraphLaplacian"]

FEW, AGGREGATE, MOST = 300, 40, 600  # number of aggregates that costs nothing, points per aggregate, largest number
EDGES = 2**18  # edges of a thread's task


class Aggregates:
    """Groups (aggregates) of points that are close in a graph: the coarse level of the metric's linear system.

    Seeds are evenly spaced among the points sorted by weight. Every other point joins the group to which it has the
    strongest edges. Points that are not connected to any seed form one more group.

    Parameters
    ----------
    edges : Edges
        By these the groups are formed.
    summed : Edges, default=None
        Edges whose values `solver` is given. None means ``edges``.

    Attributes
    ----------
    label : ndarray of shape (n_points,)
        The group of each point.
    """

    def __init__(self, edges, summed=None):
        n = edges.n
        m = min(MOST, max(1, n // AGGREGATE, min(FEW, n // 10)))
        label = np.full(n, -1, np.int32)
        S = edges.symmetric()
        order = np.argsort(S.sum(axis=1), kind="stable")  # does not depend on the order of the points
        label[order[(np.arange(m) * n) // m]] = np.arange(m)
        newly = np.flatnonzero(label >= 0)
        while newly.size:  # the groups grow along edges of the points that joined last
            free = np.flatnonzero(label < 0)
            groups = sparse.csr_array((np.ones(newly.size, S.dtype), (newly, label[newly])), shape=(n, m))
            pull = (S[free] @ groups).tocsr()
            reached = np.flatnonzero(np.diff(pull.indptr))
            newly = free[reached]
            label[newly] = _strongest(pull)[reached]
        if (label < 0).any():
            label[label < 0], m = m, m + 1
        self.label, self.m = label, m
        self.size = np.bincount(label, minlength=m)
        summed = summed or edges
        a, b = label[summed.i], label[summed.j]
        cell = np.maximum(a, b).astype(np.intp) * m + np.minimum(a, b)
        found = np.bincount(cell, minlength=m * m) > 0  # pairs of groups that have edges
        self._one, self._other = np.divmod(np.flatnonzero(found), m)
        cell = (np.cumsum(found, dtype=np.int32) - 1)[cell]
        shape, size = len(self._one), min(EDGES, len(cell))
        ones, pointer = np.ones(size, np.float32), np.arange(size + 1, dtype=np.int32)
        self._cells = [  # matrices that sum the weights of some edges for each pair of groups
            (some, sparse.csc_array((ones[:k], cell[some], pointer[: k + 1]), shape=(shape, k)))
            for some in parts(len(cell), EDGES)
            for k in (some.stop - some.start,)
        ]
        self._sum = sparse.csr_array((np.ones(n, np.float32), label, np.arange(n + 1)), shape=(n, m)).T.tocsr()

    def solver(self, c, mu):
        """A solver of the coarse system, in which all points of a group move together."""
        factor = self._factor(c, mu)

        def solve(r):
            sums = np.stack(each(lambda row: self._sum @ row, r, r.size), axis=1)
            coarse = np.ascontiguousarray(cho_solve(factor, sums, check_finite=False).T, r.dtype)
            out = np.empty_like(r)
            each(lambda k: coarse[k].take(self.label, out=out[k], mode="clip"), range(len(r)), r.size)
            return out

        return solve

    def _factor(self, c, mu):
        """The Cholesky factor of the coarse matrix. Only its lower half is built."""
        weight = np.zeros(len(self._one))
        for of_some in each(lambda cells: cells[1] @ c[cells[0]], self._cells):
            weight += of_some
        apart = self._one != self._other
        one, other, weight = self._one[apart], self._other[apart], weight[apart]
        diagonal = mu * self.size + np.bincount(one, weight, self.m) + np.bincount(other, weight, self.m)
        for dtype in (c.dtype, float):  # single precision takes half the time, and is enough unless mu is tiny
            L = np.zeros((self.m, self.m), dtype, order="F")
            L[one, other] = -weight
            np.fill_diagonal(L, diagonal)
            try:
                return cho_factor(L, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                if dtype is float:
                    raise


class GraphLaplacian(Metric):
    """The metric M = (L_c + mu I)^-1 for each coordinate, by a few conjugate-gradient iterations from zero.

    The preconditioner has two levels: the diagonal, and aggregates of points.

    Parameters
    ----------
    problem : object
        Its ``edges``, ``thinned`` and ``aggregates`` are used, and its ``new_near()`` if ``near`` is None.
    mu : float or callable
        Regularisation, or a function of the iteration.
    iterations : int
        Number of conjugate-gradient iterations.
    near : NearField, default=None
        The near field of a run. Its ``attraction(x)`` returns the edge weights c and their sums for each point. None
        creates a new one each time.

    Notes
    -----
    Starting the iterations from the last step instead of zero would be unstable, because stopping early from zero is
    part of the regularisation.
    """

    stays = False

    def __init__(self, problem, mu, iterations, near=None):
        self.problem, self.mu, self.iterations, self.near = problem, mu, iterations, near
        self.c = self.degree = None

    def at(self, x, t):
        """The metric at x: the edges' weights there, and mu for iteration t."""
        metric = copy.copy(self)
        metric.mu = at(self.mu, t)
        near = self.problem.new_near() if self.near is None else self.near
        metric.c, metric.degree = near.attraction(x)
        return metric

    def apply(self, F):
        """An approximation of (L_c + mu I)^-1 F."""
        if not np.isfinite(F).all():
            return np.full_like(F, math.nan)
        edges, dtype = self.problem.edges, F.dtype
        c, degree = self.c, self.degree
        if self.problem.thinned is not None:
            edges = self.problem.thinned
            c = edges.of(c)
            degree = edges.sums(c)
        product = edges.matrix(c)
        R = F.reshape(edges.n, -1).T.copy()
        diagonal = degree + dtype.type(self.mu)
        of_groups = self.problem.aggregates.solver(c, self.mu)

        def precondition(r):
            return r / diagonal + of_groups(r)

        q, z = np.zeros_like(R), precondition(R)
        p, rz = z, np.einsum("ij,ij->i", R, z)
        for left in reversed(range(self.iterations)):
            A_p = diagonal * p - product(p)
            length = _ratio(rz, np.einsum("ij,ij->i", p, A_p))
            q += length * p
            if left:
                R -= length * A_p
                z, before = precondition(R), rz
                rz = np.einsum("ij,ij->i", R, z)
                p = z + _ratio(rz, before) * p
        return np.ascontiguousarray(q.T).ravel()

    def block_lengths(self, q, p, n_blocks):
        """Euclidean step lengths of the points. The metric's norm has no meaning for a single point."""
        q = q.reshape(n_blocks, -1)
        return np.sqrt(np.einsum("ij,ij->i", q, q))

    def size(self, x):
        """sqrt(x^T (L_c + mu I) x)."""
        X = np.ascontiguousarray(x.reshape(self.problem.edges.n, -1).T)
        A_x = (self.degree + x.dtype.type(self.mu)) * X - self.problem.edges.matrix(self.c)(X)
        return math.sqrt(max(float(np.vdot(X, A_x)), 0.0))


def _strongest(pull):
    """The column of the largest entry in each row, the first among ties. scipy's argmax loops over rows."""
    pull.sort_indices()
    count = np.diff(pull.indptr)
    some = np.flatnonzero(count)
    largest = np.maximum.reduceat(pull.data, pull.indptr[some])
    at = np.flatnonzero(pull.data == np.repeat(largest, count[some]))
    columns = np.zeros(len(count), np.int32)
    columns[some] = pull.indices[at[np.searchsorted(at, pull.indptr[some])]]
    return columns


def _ratio(a, b):
    """a / b as a column, and 0 where b is not positive, so that a coordinate whose system is solved does not change."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)[:, None]
