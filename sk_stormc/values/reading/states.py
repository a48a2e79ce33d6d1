"""States: validation, and rows of numbers that identify them."""

from __future__ import annotations

import struct
from hashlib import blake2b
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_X_y, validate_data

from sk_stormc.utils.arrays import all_finite, as_numbers
from sk_stormc.utils.blocks import check_finite_rows
from sk_stormc.utils.frames import column, is_table
from sk_stormc.utils.parameters import naming
from sk_stormc.utils.rows import check_in_memory, check_numeric
from sk_stormc.values.markov import refuse_rows

HASHED = 2.0**256  # numbers from this on are hashes of values that are no numbers


def checked_data(estimator, X, y, reset=True):
    """The checked states, as `rows_of`, and rewards. Raises ValueError for dates."""
    check_numeric("y", y)
    states = checked_states(estimator, X, "X", reset)
    y = y if y is None else as_numbers("y", y)  # scikit-learn's own error of None
    with naming("y"):
        check_finite_rows("y", np.atleast_1d(y))
        _, y = check_X_y(
            states,
            y,
            dtype=None,
            ensure_all_finite=False,
            y_numeric=True,
            estimator=estimator,
        )
    return states, y


def checked_states(estimator, X, name="X", reset=False, finite=True):
    """The checked states, as `rows_of`. They must be numbers, unless a transformer
    converts them to numbers."""
    if estimator.features is None:
        check_numeric(name, X)
        with naming(name):
            return validate_data(
                estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=finite
            )
    check_in_memory(name, X)
    with naming(name):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return rows_of(X)


def rows_of(X):
    """Rows of finite numbers that identify the rows of X. Numbers stay as they are;
    others have hashes as numbers."""
    if sparse.issparse(X):
        X = sparse.csr_array(X, dtype=float)
        return X @ np.random.default_rng(0).normal(size=(X.shape[1], 2))
    columns = (
        [column(X, j) for j in range(X.shape[1])]
        if is_table(X)
        else np.asarray(X).reshape(len(X), -1).T
    )
    return np.column_stack([_numbers_of(np.asarray(values)) for values in columns])


def _numbers_of(values):
    """A finite number for each value of a column."""
    if values.dtype.kind in "fiub":
        return np.where(np.isfinite(values), values, [_hash("nan")])
    values = [
        float(value) if isinstance(value, Real) else repr(value)
        for value in values.tolist()
    ]
    values = ["nan" if value != value else value for value in values]
    numbers = {value: _hash(value) for value in set(values) if isinstance(value, str)}
    return np.array([numbers.get(value, value) for value in values], dtype=float)


def _hash(text):
    """The hash of a text as a number between 2^256 and 2^512."""
    bits = int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) % 2**60
    return struct.unpack(">d", (bits + (1279 << 52)).to_bytes(8))[0]


def check_next(estimator, next_X, states, terminal):
    """The checked successors, as `rows_of`. Rows of terminal transitions are
    ignored."""
    try:
        follows = checked_states(estimator, next_X, "next_X", finite=False)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"next_X must have the columns of X: {error}") from error
    if follows.shape != states.shape:
        raise ValueError(
            f"next_X must be of shape {states.shape}, as X is, got {follows.shape}"
        )
    if all_finite(follows):  # and no copy is needed
        return follows
    follows = np.where(terminal[:, None], states, follows)
    refuse_rows(
        ~np.isfinite(follows).all(axis=1),
        lambda k: (
            f"next_X must be finite where not terminal, got NaN or infinity in row {k}"
        ),
    )
    return follows


def distinct_rows(rows):
    """The first occurrence of each distinct row of a matrix, and the number of the
    distinct row for each row."""
    n, column = len(rows), np.sort(rows[:, 0])
    if (column[1:] != column[:-1]).all():  # then all rows are distinct
        return np.arange(n), np.arange(n)
    _, first, number = np.unique(digests(rows), return_index=True, return_inverse=True)
    if len(first) < n and not np.array_equal(rows[first[number]], rows):
        _, first, number = np.unique(
            rows + 0.0, axis=0, return_index=True, return_inverse=True
        )
    return first, number.reshape(-1)


def digests(rows):
    """A 64-bit hash of each row of a matrix."""
    digest = np.zeros(len(rows), dtype=np.uint64)
    golden_ratio = np.uint64(0x9E3779B97F4A7C15)  # in 64 bits, an odd multiplier
    for some in gen_batches(len(rows), 1024):  # they fit in the cache
        bits, part = (rows[some] + 0.0).view(np.uint64), digest[some]  # no -0.0
        for values in bits.T:
            part ^= values ^ (values >> np.uint64(29))
            part *= golden_ratio
            part ^= part >> np.uint64(32)
    return digest
