"""Sums over pairs of points: over the edges of a graph, over columns of the matrix of all pairs, over near blocks."""

import numpy as np
from scipy import sparse

__all__ = ["BLOCK_POINTS", "Edges", "block_sums", "column_sums", "columns", "curve_order", "masked_positions"]

COARSE = 0.02  # if squared distances are rounded by more than this, the sums guard against negative ones
FEW_COORDINATES = 3  # up to so many coordinates forces are summed one by one, which is faster then
ROWS, EDGES = 256, 2**15  # of a chunk that stays in the processor's cache
BLOCK_POINTS = 64  # points in a row on the curve that are near to each other and to those of the blocks beside


class Edges:
    """The edges i < j of a symmetric graph: differences x_i - x_j, and forces summed back to the points.

    Parameters
    ----------
    S : sparse array of shape (n, n)
        Symmetric, with positive weights and an empty diagonal.

    Attributes
    ----------
    weight : ndarray of shape (n_edges,)
    i, j : ndarray of shape (n_edges,)
    """

    def __init__(self, S):
        self._by_row = sparse.triu(S, 1, format="csr")
        self._by_row.sort_indices()
        self._by_column = self._by_row.T
        self.n = S.shape[0]
        self.weight = self._by_row.data
        self.i = np.repeat(np.arange(self.n), np.diff(self._by_row.indptr))
        self.j = self._by_row.indices.astype(np.intp)
        self._buffers = {}
        self.last = None  # the caller keeps here what it computed from the last differences

    def buffer(self, name, dtype):
        """A vector over the edges that is used again and again: fresh memory would cost more than its use."""
        key = name, np.dtype(dtype)
        if key not in self._buffers:
            self._buffers[key] = np.empty(len(self.i), dtype)
        return self._buffers[key]

    def differences(self, x):
        """x_i - x_j, a vector for each coordinate, and |x_i - x_j|^2; overwritten at the next call."""
        self.last = None
        square, columns, at_j = self.buffer("square", x.dtype), np.ascontiguousarray(x.T), np.empty(EDGES, x.dtype)
        parts = [self.buffer(k, x.dtype) for k in range(len(columns))]
        for start in range(0, len(square), EDGES):
            some = slice(start, start + EDGES)
            total = square[some]
            total.fill(0)
            for column, part in zip(columns, parts, strict=True):
                step, there = part[some], at_j[: len(total)]
                column.take(self.i[some], out=step, mode="clip")
                step -= column.take(self.j[some], out=there, mode="clip")
                total += np.multiply(step, step, out=there)
        return parts, square

    def sums(self, c):
        """For each point the sum of c over its edges where it is i, and where it is j; float64 for float64."""
        ones = np.ones(self.n, c.dtype)
        self._by_row.data = self._by_column.data = c  # making them anew would cost as much as the sums of few points
        return self._by_row @ ones, self._by_column @ ones

    def forces(self, c, parts, x):
        """sum_j c_ij (x_i - x_j) for each point i, with the differences' ``parts`` at x."""
        if len(parts) > FEW_COORDINATES:  # all coordinates at once, as sum_j c_ij x_i - sum_j c_ij x_j
            self._by_row.data = self._by_column.data = c
            C_x = np.hstack([x, np.ones((self.n, 1), x.dtype)])
            C_x = self._by_row @ C_x + self._by_column @ C_x
            return x * C_x[:, -1:] - C_x[:, :-1]
        F, product = np.empty((self.n, len(parts)), c.dtype), self.buffer("at j", c.dtype)
        for k, part in enumerate(parts):
            F[:, k] = np.subtract(*self.sums(np.multiply(c, part, out=product)))
        return F

    def total(self, k, mask=None):
        """sum of k over the edges, those of a mask only."""
        return float(k.sum(dtype=float) if mask is None else k @ mask)

    def apart(self, block):
        """1 for each edge between points whose blocks are not beside each other, else 0; float32."""
        step = block.take(self.i, out=self.buffer("block", np.int32), mode="clip")
        step -= block.take(self.j, out=self.buffer("block at j", np.int32), mode="clip")
        step += 1  # beside each other: 0, 1 or 2
        return (step.view(np.uint32) > 2).astype(np.float32)

    def ends(self, v):
        """v_i + v_j for each edge."""
        total, at_j = self.buffer("ends", v.dtype), self.buffer("at j", v.dtype)
        v.take(self.i, out=total, mode="clip")
        total += v.take(self.j, out=at_j, mode="clip")
        return total


def masked_positions(pattern, chosen):
    """Where the entries of a pattern lie in the (n, B) matrix of its ``chosen`` columns, row by row.

    Parameters
    ----------
    pattern : sparse array of shape (n, n)
        Symmetric.
    chosen : ndarray of shape (B,)

    Returns
    -------
    positions : ndarray
        Flat, ascending.
    pointer : ndarray of shape (n + 1,)
        Where each row's begin.
    """
    part = pattern[chosen].tocsc()
    row = np.repeat(np.arange(part.shape[1]), np.diff(part.indptr))
    return row * len(chosen) + part.indices, part.indptr


def _factors(x, chosen, constant, sign):
    """M (n, d + 2) and C (d + 2, B) with M @ C = constant + sign |x_i - x_b|^2; and whether rounding shows."""
    n, d = x.shape
    x = x - x.mean(axis=0)
    M = np.ones((n, d + 2), x.dtype)
    M[:, :d] = x
    M[:, d] = sign * np.einsum("ij,ij->i", x, x)
    C = np.empty((d + 2, len(chosen)), x.dtype)
    C[:d] = (-2 * sign) * x[chosen].T
    C[d] = 1
    C[d + 1] = constant + M[chosen, d]
    return M, C, np.finfo(x.dtype).eps * np.abs(M[:, d]).max() > COARSE


def columns(x, chosen, pattern):
    """exp(-|x_i - x_b|^2) for all points i and the chosen columns b, 0 on the pattern; and its row sums.

    Returns
    -------
    E : ndarray of shape (n, B)
    sums : ndarray of shape (n,)
    """
    n, B = len(x), len(chosen)
    M, C, coarse = _factors(x, chosen, 0, -1)
    positions, pointer = masked_positions(pattern, chosen)
    E, sums, ones = np.empty((n, B), x.dtype), np.empty(n, x.dtype), np.ones(B, x.dtype)
    for start in range(0, n, ROWS):
        rows = slice(start, min(n, start + ROWS))
        e = np.matmul(M[rows], C, out=E[rows])
        if coarse:
            np.minimum(e, 0, out=e)
        np.exp(e, out=e)
        e.reshape(-1)[positions[pointer[start] : pointer[rows.stop]] - start * B] = 0
        np.matmul(e, ones, out=sums[rows])
    return E, sums


def column_sums(x, chosen, pattern):
    """Sums over chosen columns b off the pattern, with w = 1 / (1 + |x_i - x_b|^2).

    Returns
    -------
    total : float
        sum_ib w.
    forces : ndarray of shape (n, d)
        sum_b w^2 (x_i - x_b).
    """
    n, d = x.shape
    M, C, coarse = _factors(x, chosen, 1, 1)
    B = len(chosen)
    V = np.ones((B, d + 1), x.dtype)
    V[:, 1:] = x[chosen]
    positions, pointer = masked_positions(pattern, chosen)
    sums, total = np.empty((n, d + 1), x.dtype), 0.0
    W, ones = np.empty((ROWS, B), x.dtype), np.ones(ROWS * B, x.dtype)
    for start in range(0, n, ROWS):
        stop = min(n, start + ROWS)
        w = W[: stop - start]
        _inverse(np.matmul(M[start:stop], C, out=w), coarse)
        flat = w.reshape(-1)
        flat[positions[pointer[start] : pointer[stop]] - start * B] = 0
        total += float(flat @ ones[: flat.size])
        np.multiply(w, w, out=w)
        np.matmul(w, V, out=sums[start:stop])
    return total, x * sums[:, :1] - sums[:, 1:]


def curve_order(x):
    """The points in the order of a space-filling (Z-order) curve: neighbours on the curve are near to each other.

    Parameters
    ----------
    x : ndarray of shape (n, d)

    Returns
    -------
    ndarray of shape (n,)
    """
    d = min(x.shape[1], 16)
    bits = 16 // d
    code = np.zeros(len(x), np.uint16)
    for k, column in enumerate(x.T[:d]):
        low, high = column.min(), column.max()
        cell = ((column - low) / (high - low or 1) * (2**bits - 0.01)).astype(np.uint16)
        for bit in range(bits):  # interleaved with those of the other coordinates
            code |= ((cell >> bit) & 1) << (bit * d + k)
    return np.argsort(code, kind="stable")


def block_sums(x, positions, pattern):
    """Sums over near blocks, exact, and over columns that stand for all others off the pattern; w = 1 / (1 + D).

    Each block of 64 points in a row on the curve is near to itself and the two beside. Chosen are B columns by their
    positions on the curve; where they are near, or on the pattern, they are left out.

    Parameters
    ----------
    x : ndarray of shape (n, d)
    positions : ndarray of shape (B,)
    pattern : sparse array of shape (n, n)
        Symmetric; holds the diagonal.

    Returns
    -------
    total : float
        sum w over the pairs, the sampled ones n / B times.
    forces : ndarray of shape (n, d)
        sum w^2 (x_i - x_j).
    block : ndarray of shape (n,)
        Each point's.
    """
    n, d = x.shape
    order, dtype = curve_order(x), x.dtype
    position_of = np.empty(n, np.intp)
    position_of[order] = np.arange(n)
    n_blocks, weight, B = -(-n // BLOCK_POINTS), n / len(positions), len(positions)
    M = np.zeros((n_blocks * BLOCK_POINTS, d + 2), dtype)  # [x, |x|^2, 1], in the curve's order, whole blocks
    M[:n, :d] = x[order]
    M[:n, :d] -= M[:n, :d].mean(axis=0)
    M[:n, d] = np.einsum("ij,ij->i", M[:n, :d], M[:n, :d])
    # the last block is filled up with points so far away that w is nearly 0 and w^2 is 0. They are not at infinity,
    # because kernels of matrix products (those of AVX-512, for example) may multiply infinity by zeros beside it
    nowhere = np.finfo(dtype).max / 64
    M[n:, d], M[:, d + 1] = nowhere, 1
    coarse = np.finfo(dtype).eps * M[:n, d].max() > COARSE
    points = M[:n, :d]
    # by column [-2 x, 1, 1 + |x|^2] and [1, x], with a block before and after
    C = np.zeros((len(M) + 2 * BLOCK_POINTS, d + 2), dtype)
    C[:, d], C[:, d + 1] = 1, nowhere
    V = np.zeros((len(C), d + 1), dtype)
    inner = slice(BLOCK_POINTS, BLOCK_POINTS + n)
    C[inner, :d], C[inner, d + 1] = -2 * points, 1 + M[:n, d]
    V[inner, 0], V[inner, 1:] = 1, points
    near_C, near_V = (_windows(A, n_blocks) for A in (C, V))
    near_C = near_C.transpose(0, 2, 1)
    far_C, far_V = np.ascontiguousarray(C[inner][positions].T), V[inner][positions] * dtype.type(weight)

    part = pattern[order[positions]]
    left_out = np.sort(position_of[part.indices] * B + np.repeat(np.arange(B), np.diff(part.indptr)))
    step = ROWS // BLOCK_POINTS
    pointer = np.searchsorted(left_out, np.arange(0, n_blocks + step, step) * (BLOCK_POINTS * B))
    apart = (np.abs(np.arange(n_blocks)[:, None] - positions // BLOCK_POINTS) > 1).astype(dtype)[:, None]

    sums, near, far = np.empty((n_blocks, BLOCK_POINTS, d + 1), dtype), 0.0, 0.0
    near_W, far_W = np.empty((step, BLOCK_POINTS, 3 * BLOCK_POINTS), dtype), np.empty((step, BLOCK_POINTS, B), dtype)
    ones = np.ones(ROWS * max(B, 3 * BLOCK_POINTS), dtype)
    for k, start in enumerate(range(0, n_blocks, step)):
        stop = min(n_blocks, start + step)
        rows = M[start * BLOCK_POINTS : stop * BLOCK_POINTS].reshape(stop - start, BLOCK_POINTS, d + 2)
        w = _inverse(np.matmul(rows, near_C[start:stop], out=near_W[: stop - start]), coarse)
        near += float(w.reshape(-1) @ ones[: w.size])
        np.matmul(np.multiply(w, w, out=w), near_V[start:stop], out=sums[start:stop])
        w = _inverse(np.matmul(rows, far_C, out=far_W[: stop - start]), coarse)
        w.reshape(-1)[left_out[pointer[k] : pointer[k + 1]] - start * BLOCK_POINTS * B] = 0
        w *= apart[start:stop]
        far += float(w.reshape(-1) @ ones[: w.size])
        sums[start:stop] += np.matmul(np.multiply(w, w, out=w), far_V)
    sums = sums.reshape(-1, d + 1)[:n]
    forces = np.empty_like(x)
    forces[order] = points * sums[:, :1] - sums[:, 1:]
    return near - n + weight * far, forces, (position_of // BLOCK_POINTS).astype(np.int32)


def _windows(A, n_blocks):
    """Each block of rows with the ones before and after, without a copy."""
    row, column = A.strides
    shape, strides = (n_blocks, 3 * BLOCK_POINTS, A.shape[1]), (BLOCK_POINTS * row, row, column)
    return np.lib.stride_tricks.as_strided(A, shape, strides, writeable=False)


def _inverse(D, coarse):
    """1 / D, written into D, which is not below 1."""
    if coarse:
        np.maximum(D, 1, out=D)
    return np.reciprocal(D, out=D)
