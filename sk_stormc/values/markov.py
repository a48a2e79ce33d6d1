"""Validation of the arguments of policy-evaluation problems, and helpers for dense and
sparse matrices."""

import numpy as np
from scipy import sparse

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import check_number
from sk_stormc.utils.rows import check_weights

# tolerance of the sum of probabilities; those in float32 have a larger error than 1e-7
SUM_TOLERANCE = 1e-6


def dense(A):
    """A as an ndarray."""
    return A.toarray() if sparse.issparse(A) else A


def refuse_rows(wrong, message):
    """Raise a ValueError with ``message(k)`` for the first row k that is wrong, if
    there is one."""
    if np.any(wrong):
        raise ValueError(message(int(np.argmax(wrong))))


def check_one_each(name, values, n):
    """Raise a ValueError unless an array has one value for each of n rows."""
    if values.shape != (n,):
        raise ValueError(f"{name} must be of shape ({n},), got {values.shape}")


def check_discount(gamma):
    """Raise a ValueError unless gamma is in [0, 1]."""
    check_number("gamma", gamma, low=0, high=1)


def largest_values(A):
    """The largest absolute value of each column; 0 if there are no rows."""
    if not A.shape[0]:
        return np.zeros(A.shape[1])
    if sparse.issparse(A):
        return dense(abs(A).max(axis=0)).ravel()
    n, d = A.shape
    # joining several narrow rows into one of 256 numbers is ten times as fast
    together = max(1, 256 // d) if A.flags.c_contiguous else 1
    joined = n // together * together
    parts = [A[joined:]]
    if joined:
        wide = A[:joined].reshape(-1, together * d)
        parts += [
            wide.max(axis=0).reshape(together, d),
            wide.min(axis=0).reshape(together, d),
        ]
    return abs(np.vstack(parts)).max(axis=0)


def minus_scaled(A, factor, B):
    """A - factor B, with one temporary array."""
    if sparse.issparse(A) or sparse.issparse(B):
        return A - factor * B
    result = B * -factor
    result += A
    return result


def scale_rows(weights, A):
    """diag(weights) @ A."""
    return (
        sparse.diags_array(weights) @ A if sparse.issparse(A) else weights[:, None] * A
    )


def side_by_side(A, B):
    """The columns of A, followed by those of B: dense, or CSR if A is sparse."""
    if sparse.issparse(A):
        return sparse.csr_array(sparse.hstack([A, B]))
    return np.hstack([A, B])


def summed_entries(rows, columns, weights, values, shape):
    """The sums of the weights of each entry of a matrix, and the weighted means of its
    values, as CSR arrays with the same entries."""
    total, mean = (
        sparse.csr_array((part, (rows, columns)), shape=shape)
        for part in (weights, weights * values)
    )
    for summed in (total, mean):
        # scipy 1.13 does not add up duplicate entries by itself
        summed.sum_duplicates()
    mean.data /= total.data
    return total, mean


def normalized_weights(sample_weight, n):
    """Weights of n states or transitions, normalised to sum to one."""
    if sample_weight is None:
        return np.full(n, 1 / n)
    weights = check_weights(sample_weight, n, "in row")
    weights = weights / weights.max()  # so that the sum cannot overflow
    return weights / weights.sum()


def check_features(name, features, n_rows, n_columns=None):
    """Return a checked finite matrix of features with n_rows rows, in float64: dense,
    or CSR if sparse."""
    if sparse.issparse(features):
        features = sparse.csr_array(features, dtype=float)
    else:
        features = np.ascontiguousarray(as_numbers(name, features))
    width = "n_features" if n_columns is None else n_columns
    if (
        features.ndim != 2
        or features.shape[0] != n_rows
        or features.shape[1] != (n_columns or features.shape[1])
    ):
        raise ValueError(
            f"{name} must be of shape ({n_rows}, {width}), got {features.shape}"
        )
    if not features.shape[1]:
        raise ValueError(f"{name} must have a column, got shape {features.shape}")
    if not np.isfinite(features.data if sparse.issparse(features) else features).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return features


def check_model(transition_matrix, rewards):
    """Return a checked transition matrix with its rewards."""
    name = "transition_matrix"
    if sparse.issparse(transition_matrix):
        P = sparse.csr_array(transition_matrix, dtype=float, copy=True)
        P.sum_duplicates()
        P.eliminate_zeros()
    else:
        P = np.ascontiguousarray(as_numbers(name, transition_matrix))
    if P.ndim != 2 or not all(P.shape):
        raise ValueError(
            f"{name} must be of shape (n_states, n_successors), got {P.shape}"
        )
    n, m = P.shape
    columns = None
    if sparse.issparse(P):
        data = P.data
        columns = P.indices
        rows = np.repeat(np.arange(n), np.diff(P.indptr))
    else:
        data, rows = P.ravel(), np.repeat(np.arange(n), m)
    refuse_rows(
        ~(np.isfinite(data) & (data >= 0)),
        lambda e: (
            f"{name} must have finite entries >= 0, got {data[e]} in row {rows[e]}"
        ),
    )
    total = np.bincount(rows, data, minlength=n)
    refuse_rows(
        np.abs(total - 1) > SUM_TOLERANCE,
        lambda s: f"{name} must have rows that sum to 1, got {total[s]:.6g} in row {s}",
    )
    data /= total[rows]

    R = (
        sparse.csr_array(rewards, dtype=float)
        if sparse.issparse(rewards)
        else as_numbers("rewards", rewards)
    )
    if R.shape not in ((n,), (n, m)):
        raise ValueError(
            f"rewards must be of shape ({n},) or ({n}, {m}), got {R.shape}"
        )
    where = (
        rows
        if R.ndim == 1
        else (rows, np.tile(np.arange(m), n) if columns is None else columns)
    )
    R = np.ravel(dense(R[where]))
    refuse_rows(
        ~np.isfinite(R),
        lambda e: f"rewards must be finite, got {R[e]} in row {rows[e]}",
    )
    return P, R
