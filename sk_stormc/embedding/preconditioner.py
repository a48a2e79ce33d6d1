"""The preconditioner of neighbour embedding: the graph Laplacian of the attraction at a
point.

The Hessian of the attraction is about L_c, the graph Laplacian with the edge weights
c_ij of the attraction's gradient. A step along (L_c + mu I)^-1 F moves whole clusters
as easily as the points within them (the "spectral direction" of Vladymyrov &
Carreira-Perpinan, "Partial-Hessian strategies for fast learning of nonlinear
embeddings", 2012).
"""

import copy
import itertools
import math
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components

from sk_stormc.core.preconditioners import Preconditioner
from sk_stormc.core.schedules import at
from sk_stormc.embedding.neighbors.graph import GOLDEN
from sk_stormc.embedding.sums_over_pairs import Edges, even_rows
from sk_stormc.utils.machine import TASK_NUMBERS
from sk_stormc.utils.threads import each, parts

MAX_AGGREGATES = 600  # the time of factorising the coarse matrix grows with their cube
# edges of a point after sparsification, if it has at least twice as many; with two,
# divergences are up to 2 % higher
EDGES_PER_POINT = 15


class Graph:
    """The symmetric graph of affinities, with what the preconditioner derives from it
    when it is first needed.

    Parameters
    ----------
    P : CSR array of shape (n, n)
    sparsified : bool, default=True
        Whether the preconditioner uses a sample of many edges.
    """

    def __init__(self, P, sparsified=True):
        self.edges, self._sparsified = Edges(P), sparsified

    @cached_property
    def drawn(self):
        """The edges of the preconditioner's linear system."""
        number = EDGES_PER_POINT * self.edges.n
        many = self._sparsified and len(self.edges.weight) >= 2 * number
        return SparsifiedEdges(self.edges, number) if many else self.edges

    @cached_property
    def aggregates(self):
        """Groups of points: the coarse level of the linear system."""
        return Aggregates(self.edges, self.drawn)


class Aggregates:
    """Groups (aggregates) of points that are close in a graph: the coarse level of the
    preconditioner's linear system.

    Seeds are evenly spaced among the points sorted by weight. Every other point joins
    the group to which its edges are strongest. Points that are not connected to any
    seed form one additional group.

    Parameters
    ----------
    edges : Edges
        The edges that determine the groups.
    summed : Edges
        The edges whose values are passed to `solver`.

    Attributes
    ----------
    label : ndarray of shape (n_points,)
        The group of each point.
    component : ndarray of shape (n_points,)
        The connected component of each point in the graph of the groups, without its
        weakest edges.
    """

    def __init__(self, edges, summed):
        n = edges.n
        # about 40 points each, but up to 300 aggregates take little time
        m = min(MAX_AGGREGATES, max(1, n // 40, min(300, n // 10)))
        label = np.full(n, -1, np.int32)
        S = edges.symmetric()
        weight = S.sum(axis=1)
        # independent of the order of the points
        order = np.argsort(weight, kind="stable")
        label[order[(np.arange(m) * n) // m]] = np.arange(m)
        newly = np.flatnonzero(label >= 0)
        while newly.size:  # the groups grow along edges of the points that joined last
            free = np.flatnonzero(label < 0)
            groups = sparse.csr_array(
                (np.ones(newly.size, S.dtype), (newly, label[newly])), shape=(n, m)
            )
            reached, strongest = _strongest(S[free] @ groups)
            newly = free[reached]
            label[newly] = strongest
        if (label < 0).any():
            label[label < 0], m = m, m + 1
        self.label, self.m = label, m
        self.size = np.bincount(label, minlength=m)
        a, b = label[summed.i], label[summed.j]
        cell = np.maximum(a, b).astype(np.intp) * m + np.minimum(a, b)
        # pairs of groups that are connected by edges
        joined = np.bincount(cell, minlength=m * m) > 0
        self._one, self._other = np.divmod(np.flatnonzero(joined), m)
        cell = (np.cumsum(joined, dtype=np.int32) - 1)[cell]
        # matrices that sum the weights of some edges for each pair of groups
        self._cells = [
            (some, _summing(cell[some], len(self._one)))
            for some in parts(len(cell), TASK_NUMBERS)
        ]
        self._sum = _summing(label, m).tocsr()
        self.component = _components(self._sum, S)[label]
        self._component_size = np.bincount(self.component)

    def solver(self, c, mu):
        """A solver of the coarse system, in which all points of a group move
        together."""
        factor = self._factor(c, mu)

        def solve(r):
            sums = np.column_stack([self._sum @ row for row in r])
            coarse = cho_solve(factor, sums, check_finite=False).T.astype(r.dtype)
            return coarse.take(self.label, axis=1, mode="clip")

        return solve

    def component_means(self, q):
        """The mean of each row of q over the component of each point, or 0 if there is
        only one component."""
        if len(self._component_size) == 1:
            return 0
        sums = [np.bincount(self.component, row) for row in q]
        means = (np.stack(sums) / self._component_size)[:, self.component]
        return means.astype(q.dtype)

    def _factor(self, c, mu):
        """The Cholesky factor of the coarse matrix. Only its lower half is built."""
        sums = each(lambda cells: cells[1] @ c[cells[0]], self._cells)
        weight = sum(sums, np.zeros(len(self._one)))  # in double precision
        apart = self._one != self._other
        one, other, weight = self._one[apart], self._other[apart], weight[apart]
        diagonal = mu * self.size + _sums(one, other, weight, self.m)
        # single precision takes half the time, and is sufficient unless mu is tiny
        for dtype in (c.dtype, float):
            L = np.zeros((self.m, self.m), dtype, order="F")
            L[one, other] = -weight
            np.fill_diagonal(L, diagonal)
            try:
                return cho_factor(L, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                if dtype is float:
                    raise


class GraphLaplacian(Preconditioner):
    """The preconditioner (L_c + mu I)^-1 of a problem's steps, by conjugate-gradient
    iterations from zero.

    The linear system itself has a two-level preconditioner: the diagonal, and
    aggregates of points. A component of the graph moves as a whole by 1 / mu times its
    mean force. Components repel each other at any distance, so that they would drift
    apart until each of them is a dot on the map. Therefore ``floor`` is the smallest mu
    of these motions.

    Starting the iterations from the last step instead of zero would be unstable,
    because stopping early from zero is part of the regularisation.

    Parameters
    ----------
    problem : SNEProblem
        Its ``graph`` is used, and its ``new_near()`` outside of a run.
    mu : float or callable
        Regularisation, or a function of the iteration.
    iterations : int
        Number of conjugate-gradient iterations.
    floor : float
        Smallest regularisation of the motion of a component as a whole.
    """

    stays = False
    near = None  # the near field of a run, whose problem would be in a cycle

    def __init__(self, problem, mu, iterations, floor):
        self.problem, self.mu = problem, mu
        self.iterations, self.floor = iterations, floor

    def at(self, x, t):
        """The preconditioner at x: the weights of the edges at x, and mu for iteration
        t."""
        preconditioner = copy.copy(self)
        preconditioner.mu = at(self.mu, t)
        near = self.near or self.problem.new_near()
        preconditioner.c, preconditioner.degree, _ = near.forces(x)
        return preconditioner

    def apply(self, F):
        """An approximation of (L_c + mu I)^-1 F."""
        if not np.isfinite(F).all():
            return np.full_like(F, math.nan)
        graph, c, degree, dtype = self.problem.graph, self.c, self.degree, F.dtype
        edges, R = graph.drawn, F.reshape(self.problem.n_inner, -1).T.copy()
        if edges is not graph.edges:
            c = edges.of(c)
        product = edges.matrix(c)
        if edges is not graph.edges:
            degree = product(np.ones((1, R.shape[1]), c.dtype))[0]
        diagonal = degree + dtype.type(self.mu)
        of_groups = graph.aggregates.solver(c, self.mu)

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
        if self.mu < self.floor:
            means = graph.aggregates.component_means(q)
            q -= dtype.type(1 - self.mu / self.floor) * means
        return q.T.ravel()

    def block_lengths(self, q, p, n_blocks):
        """Euclidean step lengths of the points, because the preconditioner's norm is
        not defined for a single point."""
        q = q.reshape(n_blocks, -1)
        return np.sqrt(np.einsum("ij,ij->i", q, q))

    def size(self, x):
        """sqrt(x^T (L_c + mu I) x)."""
        X = np.ascontiguousarray(x.reshape(self.problem.n_inner, -1).T)
        A_x = (self.degree + x.dtype.type(self.mu)) * X
        A_x -= self.problem.edges.matrix(self.c)(X)
        return math.sqrt(max(float(np.vdot(X, A_x)), 0.0))


def _summing(label, m):
    """The matrix (m, n) that sums numbers for each label."""
    n = len(label)
    ones, pointer = np.ones(n, np.float32), np.arange(n + 1, dtype=np.int32)
    return sparse.csc_array((ones, label, pointer), shape=(m, n))


def _components(groups, S):
    """The connected component of each group, in the graph of groups without edges that
    are weak for both of them, with less than a hundredth of their weight."""
    between = (groups @ S @ groups.T).tocoo()
    weight = between.sum(axis=1)
    strong = between.data > 0.01 * np.minimum(weight[between.row], weight[between.col])
    row, col = between.row[strong], between.col[strong]
    graph = sparse.csr_array((np.ones(len(row)), (row, col)), between.shape)
    return connected_components(graph, directed=False)[1]


def _strongest(pull):
    """The rows that are not empty, and the column of the largest entry in each of them,
    the first among ties. scipy's argmax loops over rows."""
    pull.sort_indices()
    count = np.diff(pull.indptr)
    rows = np.flatnonzero(count)
    first = pull.indptr[rows]
    largest = np.maximum.reduceat(pull.data, first)
    at = np.flatnonzero(pull.data == np.repeat(largest, count[rows]))
    return rows, pull.indices[at[np.searchsorted(at, first)]]


def _ratio(a, b):
    """a / b as a column, and 0 if b is not positive, so that a coordinate whose system
    is solved does not change."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)[:, None]


class SparsifiedEdges:
    """Sparsified edges: edges drawn in proportion to their weight, about a given number
    of them.

    The value of a drawn edge is divided by the probability that it was drawn. The
    digits of the weight determine whether an edge is drawn. The result is therefore not
    random, and does not depend on the order of the points unless weights are equal. If
    none of a point's edges was drawn, all of them are kept. The values are then scaled
    until each point's sum of weights is nearly that of all its edges, since a point
    whose sum is too small would take steps that are too long.

    Parameters
    ----------
    edges : Edges
    number : int
        Maximum number of edges, not counting those of points without any drawn edge.

    Attributes
    ----------
    drawn : ndarray of shape (n_drawn,)
        Indices of the drawn edges.
    i, j : ndarray of shape (n_drawn,)
        Their end points.
    """

    def __init__(self, edges, number):
        i, j, weight = edges.i, edges.j, edges.weight.astype(float)
        probability = np.minimum(1.0, weight * (number / weight.sum()))
        taken = _scattered(weight) < probability
        without = _sums(i, j, taken, edges.n) == 0
        kept = without[i] | without[j]
        probability[kept] = 1.0
        self.drawn = np.flatnonzero(taken | kept)
        sums = _sums(i, j, weight, edges.n)
        i, j, weight = i[self.drawn], j[self.drawn], weight[self.drawn]
        self._times = 1 / probability[self.drawn]
        for _ in range(5):  # after which the sums differ by some percent at most
            now = _sums(i, j, weight * self._times, edges.n)
            self._times *= np.sqrt(sums[i] / now[i] * sums[j] / now[j])
        self.i, self.j = i, j
        # All entries of the symmetric matrix, in blocks of rows, each with the edge of
        # every entry. For several products with the same values, these are faster than
        # the halves that all edges have. They need the values of the edges twice, in
        # another order.
        number = np.arange(1, len(i) + 1, dtype=np.int32)
        ends = i.astype(np.int32), j.astype(np.int32)
        both = sparse.csr_array((number, ends), shape=(edges.n, edges.n))
        both = both + both.T
        self._entries = []
        for rows in even_rows(both, TASK_NUMBERS):
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

            each(multiply, list(itertools.product(range(len(X)), blocks)), len(c))
            return out

        return product

    def of(self, c):
        """The values of the drawn edges, from those of all edges."""
        return c[self.drawn] * self._times.astype(c.dtype)


def _scattered(weight):
    """A pseudo-random number between 0 and 1 for each weight (multiplicative
    hashing)."""
    digits = weight.astype(np.float32).view(np.uint32)
    # The last 11 of 23 binary digits are ignored, because some of them change if the
    # points are reordered or given in single precision. The result is not 0, or weights
    # near 0 could be drawn.
    hashed = ((digits >> 11) + 0.5) * GOLDEN % 1.0
    # some edges of the same weight, as between copies of points, should be drawn, so
    # the nth is moved n times
    edges = np.arange(len(digits), dtype=np.uint64)
    ordered = np.sort((digits.astype(np.uint64) << 32) | edges)
    weights = ordered >> 32
    again = 1 + np.flatnonzero(weights[1:] == weights[:-1])
    k = np.arange(len(again))
    nth = 1 + k - np.maximum.accumulate(np.where(np.diff(again, prepend=-1) > 1, k, 0))
    edge = (ordered[again] & 0xFFFFFFFF).astype(np.intp)
    hashed[edge] = (hashed[edge] + nth * GOLDEN) % 1.0
    return hashed


def _sums(i, j, values, n):
    """The sum of the values of its edges for each point."""
    return np.bincount(i, values, n) + np.bincount(j, values, n)
