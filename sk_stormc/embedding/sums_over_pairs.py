"""Sums over pairs of points: over the edges of a graph, and over columns of the matrix
of all pairs."""

import copy
import itertools
import math

import numpy as np
from scipy import sparse

from sk_stormc.embedding.neighbors.checks import row_numbers
from sk_stormc.embedding.neighbors.graph import kept_entries
from sk_stormc.utils.machine import CACHE_NUMBERS, TASK_NUMBERS
from sk_stormc.utils.threads import each, parts


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
        self.n = P.shape[0]
        self._upper, self._chunks = upper, even_rows(upper, CACHE_NUMBERS)
        # at most eight blocks: `matrix` adds vectors of all points for each
        size = max(TASK_NUMBERS, upper.nnz // 8)
        self._blocks = [_block(upper, rows) for rows in even_rows(upper, size)]
        self.weight = upper.data
        self.i = np.repeat(np.arange(self.n), np.diff(upper.indptr))
        self.j = upper.indices.astype(np.intp)
        self.pointer = upper.indptr

    def squares(self, X, out, change=None):
        """|x_i - x_j|^2 for each edge, from X of shape (d, n), written to out.
        ``change`` is then applied in place."""
        columns = _in_pairs(X)

        def task(rows):
            pointer = self.pointer[rows.start : rows.stop + 1]
            edges, count = slice(pointer[0], pointer[-1]), np.diff(pointer)
            total = out[edges]
            total.fill(0)
            for x in columns:
                difference = np.repeat(x[rows], count)
                difference -= x.take(self.j[edges], mode="clip")
                squares = difference.view(X.dtype)
                squares *= squares
                total += squares if x.dtype == X.dtype else squares[::2] + squares[1::2]
            if change is not None:
                change(total)

        each(task, self._chunks, len(out))
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
                return rows, by_row @ x, by_column @ x[rows]

            out = np.zeros_like(X)
            sums = each(halves, list(itertools.product(X, blocks)), len(c))
            for k, (rows, of_rows, of_columns) in enumerate(sums):
                total = out[k // len(blocks)]
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
        return v.take(self.i) + v.take(self.j)

    def symmetric(self):
        """The matrix of the graph in float32."""
        half = self._upper.astype(np.float32)
        return half + half.T


def _upper_half(P):
    """The upper half of P + P^T."""
    above = P.indices > row_numbers(P)
    return kept_entries(P, above) + kept_entries(P, ~above).T


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
    ends = np.linspace(0, matrix.nnz, max(1, matrix.nnz // size) + 1)[1:-1]
    bounds = {0, *np.searchsorted(matrix.indptr, ends).tolist(), matrix.shape[0]}
    return [slice(*pair) for pair in itertools.pairwise(sorted(bounds))]


def _block(upper, rows):
    """A block of rows of the upper half: the rows, the slice of their edges, their
    matrix and its transpose."""
    pointer = upper.indptr[rows.start : rows.stop + 1]
    edges = slice(pointer[0], pointer[-1])
    half = sparse.csr_array(
        (upper.data[edges], upper.indices[edges], pointer - pointer[0]),
        shape=(len(pointer) - 1, upper.shape[1]),
    )
    return rows, edges, half, half.T


def _lengths(x, constant, sign, chosen=slice(None), dof=1.0):
    """A function that writes constant + sign |x_i - x_b|^2 / dof to an array, for some
    points i and the chosen points b, without the first of them."""
    if dof != 1:
        x = x / x.dtype.type(math.sqrt(dof))
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
    # whether rounding is so notable that wrong signs must be removed
    coarse = np.finfo(x.dtype).eps * np.abs(M[:, d]).max() > 0.02

    def product(rows, out, first=0):
        np.matmul(M[rows], C[:, first:], out=out)
        if coarse:
            (np.maximum if sign > 0 else np.minimum)(out, constant, out=out)
        return out

    return product


def _left_out(pattern, chosen):
    """A function that sets entries of the pattern to zero in some rows of the (n, B)
    matrix of its ``chosen`` columns."""
    part = pattern[chosen].tocsc()
    row = np.repeat(np.arange(part.shape[1]), np.diff(part.indptr))
    positions, pointer = row * len(chosen) + part.indices, part.indptr

    def leave_out(rows, of_rows):
        some = positions[pointer[rows.start] : pointer[rows.stop]]
        of_rows.reshape(-1)[some - rows.start * len(chosen)] = 0

    return leave_out


def columns(x, chosen, pattern):
    """exp(-|x_i - x_b|^2) for all points i and chosen columns b, with zeros on the
    pattern, and its row sums."""
    n, B = len(x), len(chosen)
    product, leave_out = _lengths(x, 0, -1, chosen), _left_out(pattern, chosen)
    E = np.empty((n, B), x.dtype)
    sums, ones = np.empty(n, x.dtype), np.ones(B, x.dtype)
    for rows in parts(n, CACHE_NUMBERS // B):
        e = product(rows, E[rows])
        np.exp(e, out=e)
        leave_out(rows, e)
        np.matmul(e, ones, out=sums[rows])
    return E, sums


def column_sums(x, chosen, pattern, dof):
    """Sums of w = 1 / (1 + |x_i - x_b|^2 / a) over the chosen columns b without the
    pattern. a is ``dof``."""
    n, B = len(x), len(chosen)
    product, leave_out = _lengths(x, 1, 1, chosen, dof), _left_out(pattern, chosen)
    V = _with_ones(x[chosen])
    sums, total = np.empty((n, V.shape[1]), x.dtype), 0.0
    blocks = parts(n, CACHE_NUMBERS // B)
    W = np.empty((blocks[0].stop, B), x.dtype)
    ones = np.ones(W.size, x.dtype)
    for rows in blocks:
        w = product(rows, W[: rows.stop - rows.start])
        np.reciprocal(w, out=w)
        leave_out(rows, w)
        flat = w.reshape(-1)
        k = flat if dof == 1 else flat**dof
        total += float(k @ ones[: flat.size])
        np.multiply(flat, k, out=flat)
        np.matmul(w, V, out=sums[rows])
    return total, x * sums[:, :1] - sums[:, 1:]


def student_t_sums(x, mesh, dof):
    """The sum of the kernel over all pairs i != j, and the repulsive forces on the
    points: on a mesh, if there is one and it costs less, or pair by pair."""
    if mesh is not None and not np.isfinite(x).all():
        return math.nan, np.full_like(x, math.nan)
    return mesh(x) if mesh is not None and mesh.pays(x) else all_pairs(x, dof)


def all_pairs(x, dof):
    """Sums of w = 1 / (1 + |x_i - x_j|^2 / a) over all pairs i != j. Each pair is
    computed once. a is ``dof``."""
    n = len(x)
    product, V = _lengths(x, 1, 1, dof=dof), _with_ones(x)
    sums, total = np.zeros_like(V), 0.0
    blocks = parts(n, CACHE_NUMBERS // n)
    largest = blocks[0].stop * n
    space, ones = np.empty(largest, x.dtype), np.ones(largest, x.dtype)
    for rows in blocks:  # the columns start at the first of these rows
        size, width = rows.stop - rows.start, n - rows.start
        flat = space[: size * width]
        w = product(rows, flat.reshape(size, width), rows.start)
        np.reciprocal(w, out=w)
        flat[:: width + 1] = 0  # pairs i = j
        k = flat if dof == 1 else flat**dof
        # the square block on the diagonal contains both halves
        square = k.reshape(w.shape)[:, :size]
        total += 2 * float(k @ ones[: flat.size]) - float(square.sum())
        np.multiply(flat, k, out=flat)
        sums[rows] += w @ V[rows.start :]
        sums[rows.stop :] += w[:, size:].T @ V[rows]
    return total, x * sums[:, :1] - sums[:, 1:]


def _with_ones(x):
    """The rows (1, x_i)."""
    return np.hstack([np.ones((len(x), 1), x.dtype), x])
