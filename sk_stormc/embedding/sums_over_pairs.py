"""Sums over pairs of points: over the edges of a graph, and over columns of the matrix
of all pairs."""

import copy
import itertools
import math

import numpy as np
from scipy import sparse

from sk_stormc.utils.machine import CACHE_NUMBERS, TASK_NUMBERS
from sk_stormc.utils.threads import each, parts

__all__ = [
    "AllPairs",
    "Edges",
    "column_sums",
    "columns",
    "even_rows",
    "masked_positions",
]


class Edges:
    """The edges i < j of a symmetric graph: their lengths in an embedding, and sums
    over the edges of each point.

    A value of an edge represents the two entries ij and ji of a symmetric matrix.
    Coordinates are rows, because a product with a contiguous vector is faster than with
    a column of an array.

    Parameters
    ----------
    P : CSR array of shape (n, n)
        A matrix with positive entries and an empty diagonal, in canonical format. The
        edges are the entries of P + P^T.

    Attributes
    ----------
    weight : ndarray of shape (n_edges,)
        Weights of the edges.
    i, j : ndarray of shape (n_edges,)
        End points of the edges, i < j.
    pointer : ndarray of shape (n + 1,)
        Index of the first edge of each i.
    """

    def __init__(self, P):
        upper = _upper_half(P)
        if len(upper.indices) < 2**31:  # half the memory traffic
            upper.indices, upper.indptr = (
                upper.indices.astype(np.int32),
                upper.indptr.astype(np.int32),
            )
        self.n = P.shape[0]
        self._upper, self._chunks = upper, even_rows(upper, CACHE_NUMBERS)
        self._lay_out(upper)
        self.weight = upper.data
        self.i = np.repeat(np.arange(self.n), np.diff(upper.indptr))
        self.j = upper.indices.astype(np.intp)
        self.pointer = upper.indptr

    def _lay_out(self, upper):
        """Prepare the entries for `matrix`."""
        # at most eight blocks: `matrix` adds vectors of all points for each
        size = max(TASK_NUMBERS, upper.nnz // 8)
        self._blocks = [_block(upper, rows) for rows in even_rows(upper, size)]

    def squares(self, X, out, change=None):
        """|x_i - x_j|^2 for each edge, from X of shape (d, n), written to out.
        ``change`` is then applied in place."""
        columns, pointer = _in_pairs(X), self.pointer

        def task(chunks):
            for rows in chunks:
                some = slice(int(pointer[rows.start]), int(pointer[rows.stop]))
                count, total = np.diff(pointer[rows.start : rows.stop + 1]), out[some]
                total.fill(0)
                for x in columns:
                    difference = np.repeat(x[rows], count)
                    difference -= x.take(self.j[some], mode="clip")
                    squares = difference.view(X.dtype)
                    squares *= squares
                    total += (
                        squares if x.dtype == X.dtype else squares[::2] + squares[1::2]
                    )
                if change is not None:
                    change(total)

        of_task = parts(len(self._chunks), TASK_NUMBERS // CACHE_NUMBERS)
        each(task, [self._chunks[some] for some in of_task], len(out))
        return out

    def matrix(self, c):
        """A function that multiplies rows by the symmetric matrix C of the edge values
        c."""
        blocks = []
        for rows, edges, upper, lower in self._blocks:
            # shallow copies share the indices; new matrices would take as long as the
            # sums for few points
            by_row, by_column = copy.copy(upper), copy.copy(lower)
            by_row.data = by_column.data = c[edges]
            blocks.append((rows, by_row, by_column))

        def product(X):
            def halves(task):
                x, (rows, by_row, by_column) = task
                return by_row @ x, by_column @ x[rows]

            sums = iter(each(halves, list(itertools.product(X, blocks)), len(c)))
            out = np.zeros_like(X)
            for total in out:
                for rows, *_ in blocks:
                    of_rows, of_columns = next(sums)
                    total[rows] += of_rows
                    total += of_columns
            return out

        return product

    def sums(self, c):
        """The sum of c over the edges of each point."""
        return self.matrix(c)(np.ones((1, self.n), c.dtype))[0]

    def forces(self, c, X):
        """c_i = sum_j c_ij, and sum_j c_ij (x_i - x_j) as rows, for each point i."""
        ones = np.ones((1, self.n), c.dtype)
        sums = self.matrix(c)(np.vstack([ones, X]))
        return sums[0], sums[0] * X - sums[1:]

    def log_sum(self, w):
        """The sum over all edges of their weight times log(w)."""

        def of_some(some):
            return float(self.weight[some] @ np.log(w[some]))

        return sum(each(of_some, parts(len(self.weight), TASK_NUMBERS)))

    def ends(self, v):
        """v_i + v_j for each edge."""
        total = v.take(self.i)
        total += v.take(self.j)
        return total

    def symmetric(self):
        """The matrix of the graph in float32."""
        half = self.weight.astype(np.float32), self._upper.indices, self._upper.indptr
        half = sparse.csr_array(half, shape=(self.n, self.n))
        return (half + half.T).tocsr()


def _upper_half(P):
    """The upper half of P + P^T."""
    n = P.shape[0]
    above = P.indices > np.repeat(
        np.arange(n, dtype=P.indices.dtype), np.diff(P.indptr)
    )
    halves = []
    for half in (above, ~above):
        starts = np.concatenate([[0], np.cumsum(half, dtype=P.indptr.dtype)])[P.indptr]
        halves.append(
            sparse.csr_array((P.data[half], P.indices[half], starts), shape=(n, n))
        )
    upper, lower = halves
    return upper + lower.T.tocsr()


def _in_pairs(X):
    """The rows of X, in pairs as complex numbers, which can be gathered in the time of
    real numbers."""
    columns = []
    for k in range(0, len(X), 2):
        pair = X[k : k + 2]
        kind = np.result_type(X.dtype, np.complex64) if len(pair) == 2 else X.dtype
        columns.append(pair.T.copy().view(kind).ravel())
    return columns


def even_rows(matrix, size):
    """Slices of a CSR matrix's rows with about ``size`` entries each."""
    count = max(1, matrix.nnz // size)
    ends = np.searchsorted(
        matrix.indptr, np.linspace(0, matrix.nnz, count + 1)[1:-1]
    ).tolist()
    bounds = [0, *ends, matrix.shape[0]]
    return [
        slice(*pair)
        for pair in zip(bounds, bounds[1:], strict=False)
        if pair[0] < pair[1]
    ]


def _block(upper, rows):
    """A block of rows of the upper half: the rows, the slice of their edges, their
    matrix and its transpose."""
    edges = slice(int(upper.indptr[rows.start]), int(upper.indptr[rows.stop]))
    pointer = upper.indptr[rows.start : rows.stop + 1] - upper.indptr[rows.start]
    shape = rows.stop - rows.start, upper.shape[1]
    half = sparse.csr_array(
        (upper.data[edges], upper.indices[edges], pointer), shape=shape
    )
    return rows, edges, half, half.T


def masked_positions(pattern, chosen):
    """Positions of a pattern's entries in the flattened (n, B) matrix of its ``chosen``
    columns."""
    part = pattern[chosen].tocsc()
    row = np.repeat(np.arange(part.shape[1]), np.diff(part.indptr))
    return row * len(chosen) + part.indices, part.indptr


def _factors(x, chosen, constant, sign):
    """M (n, d + 2) and C (d + 2, B) with M @ C = constant + sign |x_i - x_b|^2, and
    whether rounding is so notable that wrong signs must be removed."""
    n, d = x.shape
    x = x - x.mean(axis=0)
    M = np.ones((n, d + 2), x.dtype)
    M[:, :d] = x
    M[:, d] = sign * np.einsum("ij,ij->i", x, x)
    chosen_x = x[chosen]
    C = np.empty((d + 2, len(chosen_x)), x.dtype)
    C[:d] = (-2 * sign) * chosen_x.T
    C[d] = 1
    C[d + 1] = constant + M[chosen, d]
    rounding = np.finfo(x.dtype).eps * np.abs(M[:, d]).max()
    return M, C, rounding > 0.02


def columns(x, chosen, pattern):
    """exp(-|x_i - x_b|^2) for all points i and chosen columns b, with zeros on the
    pattern, and its row sums."""
    n, B = len(x), len(chosen)
    M, C, coarse = _factors(x, chosen, 0, -1)
    positions, pointer = masked_positions(pattern, chosen)
    E = np.empty((n, B), x.dtype)
    sums, ones = np.empty(n, x.dtype), np.ones(B, x.dtype)
    for rows in parts(n, CACHE_NUMBERS // B):
        e = np.matmul(M[rows], C, out=E[rows])
        if coarse:
            np.minimum(e, 0, out=e)
        np.exp(e, out=e)
        left_out = positions[pointer[rows.start] : pointer[rows.stop]]
        e.reshape(-1)[left_out - rows.start * B] = 0
        np.matmul(e, ones, out=sums[rows])
    return E, sums


def column_sums(x, chosen, pattern, dof=1.0):
    """Sums of w = 1 / (1 + |x_i - x_b|^2 / a) over the chosen columns b without the
    pattern. a is ``dof``."""
    n, d = x.shape
    M, C, coarse = _factors(_in_units(x, dof), chosen, 1, 1)
    B = len(chosen)
    V = np.ones((B, d + 1), x.dtype)
    V[:, 1:] = x[chosen]
    positions, pointer = masked_positions(pattern, chosen)
    sums, total = np.empty((n, d + 1), x.dtype), 0.0
    blocks = parts(n, CACHE_NUMBERS // B)
    W = np.empty((blocks[0].stop, B), x.dtype)
    ones = np.ones(blocks[0].stop * B, x.dtype)
    for rows in blocks:
        w = W[: rows.stop - rows.start]
        _inverse(np.matmul(M[rows], C, out=w), coarse)
        flat = w.reshape(-1)
        left_out = positions[pointer[rows.start] : pointer[rows.stop]]
        flat[left_out - rows.start * B] = 0
        k = flat if dof == 1 else flat**dof
        total += float(k @ ones[: flat.size])
        np.multiply(w, k.reshape(w.shape), out=w)
        np.matmul(w, V, out=sums[rows])
    return total, x * sums[:, :1] - sums[:, 1:]


def _in_units(x, dof):
    """x / sqrt(a)."""
    return x if dof == 1 else x / x.dtype.type(math.sqrt(dof))


def _inverse(D, coarse):
    """1 / D in place. D is at least 1 up to rounding, which ``coarse`` removes."""
    if coarse:
        np.maximum(D, 1, out=D)
    return np.reciprocal(D, out=D)


class AllPairs:
    """Sums of w = 1 / (1 + |x_i - x_j|^2 / a) over all pairs i != j. Each pair is
    computed once.

    Parameters
    ----------
    n : int
        Number of points.
    """

    def __init__(self, n):
        self.n, self._blocks = n, parts(n, CACHE_NUMBERS // n)

    def __call__(self, x, dof=1.0):
        """The sums."""
        M, C, coarse = _factors(_in_units(x, dof), slice(None), 1, 1)
        V = np.hstack([np.ones((self.n, 1), x.dtype), x])
        sums, total = np.zeros_like(V), 0.0
        largest = self._blocks[0].stop * self.n
        space, ones = np.empty(largest, x.dtype), np.ones(largest, x.dtype)
        for rows in self._blocks:  # the columns start at the first of these rows
            size, width = rows.stop - rows.start, self.n - rows.start
            flat = space[: size * width]
            w = flat.reshape(size, width)
            _inverse(np.matmul(M[rows], C[:, rows.start :], out=w), coarse)
            flat[:: width + 1] = 0  # pairs i = j
            k = flat if dof == 1 else flat**dof
            # the square block on the diagonal contains both halves
            square = k.reshape(w.shape)[:, :size]
            total += 2 * float(k @ ones[: flat.size]) - float(square.sum())
            np.multiply(flat, k, out=flat)
            sums[rows] += w @ V[rows.start :]
            sums[rows.stop :] += w[:, size:].T @ V[rows]
        return total, x * sums[:, :1] - sums[:, 1:]
