"""Affinities that the user passes in place of data: normalisation and validation."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sk_stormc.embedding.neighbors.checks import row_numbers
from sk_stormc.utils.types import Array, SparseMatrix
from sk_stormc.utils.validation import check_bool


def normalised_affinities(X: Array | SparseMatrix, joint: bool) -> SparseMatrix:
    """Normalise affinities that the user passed in place of data."""
    if X.ndim != 2 or X.shape[0] != X.shape[1]:
        raise ValueError(
            f"with metric='affinities' X must be square, got shape {X.shape}"
        )
    P = sparse.csr_array(X, dtype=float, copy=True)
    P.sum_duplicates()
    lowest = P.data.min(initial=0)
    if lowest < 0:
        raise ValueError(
            f"with metric='affinities' X must not be negative, got {lowest:.6g}"
        )
    P.data[row_numbers(P) == P.indices] = 0
    top = P.data.max(initial=0)
    if top > 0:
        P.data /= top  # avoids overflow and underflow of the sums
    if joint:
        P = ((P + P.T) / 2).tocsr()
    P.eliminate_zeros()
    P.sort_indices()
    sums = P.sum(axis=1)
    if not sums.all():
        raise ValueError(
            "with metric='affinities' X must have a positive affinity of each sample "
            f"to another, got none in row {int(np.argmin(sums))}"
        )
    P.data /= sums.sum() if joint else np.repeat(sums, np.diff(P.indptr))
    return P


def check_affinities(P: SparseMatrix, joint: bool = False) -> SparseMatrix:
    """Check that P contains probabilities and has an empty diagonal, and return it as a
    float CSR array.

    Parameters
    ----------
    P : sparse matrix of shape (n_points, n_points)
    joint : bool, default=False
        If true, all entries of P together must sum to 1, and otherwise each row.

    Returns
    -------
    sparse array of shape (n_points, n_points)

    Raises
    ------
    ValueError
        If P is not square, not sparse or not finite, has negative or diagonal entries,
        or does not sum to 1. The message names the row.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.affinities import check_affinities, perplexity_affinities
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> check_affinities(perplexity_affinities(X, perplexity=5)).shape
    (50, 50)
    """
    check_bool("joint", joint)
    if (
        not sparse.issparse(P)
        or P.ndim != 2
        or P.shape[0] != P.shape[1]
        or P.shape[0] < 2
    ):
        raise ValueError(
            "affinities must be a square sparse matrix of at least two points, got "
            f"{getattr(P, 'shape', type(P))}"
        )
    P = sparse.csr_array(P, dtype=float)
    P.sum_duplicates()
    P.eliminate_zeros()
    if not np.isfinite(P.data).all() or (P.data < 0).any():
        raise ValueError("affinities must be finite and not negative")
    sums = P.sum(axis=1)
    if joint and abs(sums.sum() - 1) > 1e-5:
        raise ValueError(f"joint affinities must sum to 1, got {sums.sum():.6g}")
    row = int(np.argmax(np.abs(sums - 1)))
    if not joint and abs(sums[row] - 1) > 1e-5:
        raise ValueError(
            f"the rows of affinities must sum to 1, row {row} sums to {sums[row]:.6g}"
        )
    if P.diagonal().any():
        raise ValueError(
            f"the diagonal of affinities must be empty, got {P.diagonal().max():.3g}"
        )
    return P
