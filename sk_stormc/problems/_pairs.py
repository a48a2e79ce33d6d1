"""Sums over pairs of points: exactly over the edges of a graph, and over sampled columns of the matrix of all pairs."""

import numpy as np
from scipy import sparse

__all__ = ["Edges", "column_sums", "columns", "masked_positions"]

ROWS = 256  # of a chunk that stays in the processor's cache


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
        self._upper = sparse.triu(S, 1, format="csr")
        self._upper.sort_indices()
        self.n = S.shape[0]
        self.weight = self._upper.data
        self.i = np.repeat(np.arange(self.n), np.diff(self._upper.indptr))
        self.j = self._upper.indices.astype(np.intp)
        self._buffers = {}

    def buffer(self, name, dtype):
        """A vector over the edges that is used again and again: fresh memory would cost more than its use."""
        key = name, np.dtype(dtype)
        if key not in self._buffers:
            self._buffers[key] = np.empty(len(self.i), dtype)
        return self._buffers[key]

    def differences(self, x):
        """x_i - x_j, a vector for each coordinate, and |x_i - x_j|^2; overwritten at the next call."""
        at_j, square = self.buffer("at j", x.dtype), self.buffer("square", x.dtype)
        square.fill(0)
        parts = []
        for k, column in enumerate(np.ascontiguousarray(x.T)):
            part = self.buffer(k, x.dtype)
            column.take(self.i, out=part, mode="clip")
            part -= column.take(self.j, out=at_j, mode="clip")
            square += np.multiply(part, part, out=at_j)
            parts.append(part)
        return parts, square

    def sums(self, c):
        """For each point the sum of c over its edges where it is i, and where it is j; float64 for float64."""
        ones = np.ones(self.n, c.dtype)
        C = sparse.csr_array((c, self._upper.indices, self._upper.indptr), shape=(self.n, self.n))
        return C @ ones, C.T @ ones

    def forces(self, c, parts):
        """sum_j c_ij (x_i - x_j) for each point i, with the differences' ``parts``."""
        F, product = np.empty((self.n, len(parts)), c.dtype), self.buffer("product", c.dtype)
        for k, part in enumerate(parts):
            F[:, k] = np.subtract(*self.sums(np.multiply(c, part, out=product)))
        return F

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
    return M, C, np.finfo(x.dtype).eps * np.abs(M[:, d]).max() > 1e-4


def columns(x, chosen, pattern):
    """exp(-|x_i - x_b|^2) for all points i and the chosen columns b, 0 on the pattern: (n, B)."""
    M, C, coarse = _factors(x, chosen, 0, -1)
    E = M @ C
    if coarse:
        np.minimum(E, 0, out=E)
    np.exp(E, out=E)
    E.reshape(-1)[masked_positions(pattern, chosen)[0]] = 0
    return E


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
        np.matmul(M[start:stop], C, out=w)
        if coarse:
            np.maximum(w, 1, out=w)
        np.reciprocal(w, out=w)
        flat = w.reshape(-1)
        flat[positions[pointer[start] : pointer[stop]] - start * B] = 0
        total += float(flat @ ones[: flat.size])
        np.multiply(w, w, out=w)
        np.matmul(w, V, out=sums[start:stop])
    return total, x * sums[:, :1] - sums[:, 1:]
