"""Logged transitions: validation, successors, features, and the log of a fit."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import _safe_indexing, gen_batches
from sklearn.utils.validation import check_array, check_X_y, validate_data

from sk_stormc.utils.frames import column, is_table
from sk_stormc.utils.validation import (
    all_finite,
    as_flags,
    as_numbers,
    check_in_memory,
    check_numeric,
    naming,
    row_weights,
)
from sk_stormc.utils.warnings import warn
from sk_stormc.values.episodes import check_terminal, fading, in_time, order_of, shares
from sk_stormc.values.log_warnings import (
    warn_of_no_ends,
    warn_of_ranges,
    warn_of_ratios,
    warn_of_scales,
    warn_of_state_numbers,
    warn_of_unknown_successors,
)
from sk_stormc.values.markov import largest_values, minus_scaled, normalized_weights

HASHED = 2.0**256  # numbers from this on are hashes of values that are no numbers


def check_ratios(importance_ratio, n):
    """The n checked importance ratios. None means ones."""
    if importance_ratio is None:
        return np.ones(n)
    ratios = as_numbers("importance_ratio", importance_ratio)
    if ratios.shape != (n,):
        raise ValueError(
            f"importance_ratio must be of shape ({n},), got {ratios.shape}"
        )
    wrong = ~(np.isfinite(ratios) & (ratios >= 0))
    if wrong.any():
        k = np.argmax(wrong)
        raise ValueError(
            f"importance_ratio must be finite and >= 0, got {ratios[k]} in row {k}"
        )
    return ratios


def checked_data(estimator, X, y, reset=True):
    """The checked states, as `rows_of`, and rewards. Raises ValueError for dates."""
    check_numeric("y", y)
    states = checked_states(estimator, X, "X", reset)
    with naming("y"):
        y = _finite("y", y)
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
    if (
        isinstance(X, np.ndarray)
        and X.ndim == 2
        and X.dtype.kind in "fiub"
        and np.isfinite(X).all()
    ):
        return X.astype(float, copy=False)
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


def _finite(name, values):
    """Return the values unchanged, or raise a ValueError that names the first row that
    is not finite."""
    numbers = np.asarray(values)
    wrong = (
        ~np.isfinite(numbers)
        if numbers.dtype.kind == "f" and numbers.ndim
        else np.zeros(1, dtype=bool)
    )
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise ValueError(f"{name} must be finite, got {numbers[at]} in row {at[0]}")
    return values


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
    wrong = ~np.isfinite(follows).all(axis=1)
    if wrong.any():
        raise ValueError(
            "next_X must be finite where not terminal, got NaN or infinity in row "
            f"{np.argmax(wrong)}"
        )
    return follows


def successors(estimator, X, states, log_columns, rows):
    """The successors, as given (with the row of each) and as numbers, and masks of
    known and terminal outcomes.

    ``rows`` is the `Order` of the rows.
    """
    n = len(states)
    at, everything = np.arange(n), np.ones(n, dtype=bool)
    terminal = check_terminal(log_columns.terminal, n)
    if log_columns.next_X is not None:
        if log_columns.time is not None:
            raise ValueError(
                "time must be None if next_X is given, which has the successors"
            )
        follows = check_next(estimator, log_columns.next_X, states, terminal)
        if estimator.features is None or max(states.max(), follows.max()) < HASHED:
            warn_of_ranges(states, follows, terminal)
            warn_of_scales(states, follows, terminal)
        return log_columns.next_X, follows, at, everything, terminal
    if rows is not None:
        return X, states, *successors_in(rows, terminal), terminal
    if log_columns.terminal is None:
        warn(
            "fit was given neither next_X nor terminal nor time nor episode: each row "
            "is taken as an episode of one "
            "step, whose value is the expected reward.",
            UserWarning,
        )
        return X, states, at, everything, everything.copy()
    if not terminal.all():
        raise ValueError(
            "next_X must be given for transitions that are not terminal, or time or "
            "episode; got none of them for "
            f"{np.count_nonzero(~terminal)} of them"
        )
    return X, states, at, everything, terminal


def successors_in(rows, terminal):
    """The row of each successor, and a mask of known outcomes, of rows with an
    `Order`."""
    order = np.argsort(rows.clock)
    known, at = terminal.copy(), np.zeros(len(order), dtype=np.intp)
    at[order[:-1]] = order[1:]
    known[order[:-1]] |= np.diff(rows.clock[order]) == 1
    return at, known


def transform(features, X, states, rows, intercept):
    """Features of some rows of X, with a column of ones if ``intercept``. ``states`` is
    X as numbers."""
    if features is None:
        Z = states if rows is None else states[rows]
    else:
        Z = features.transform(X if rows is None else _safe_indexing(X, rows))
        Z = check_array(
            Z, accept_sparse="csr", dtype=np.float64, input_name="features of X"
        )
        Z = sparse.csr_array(Z) if sparse.issparse(Z) else Z
        n = len(states if rows is None else rows)
        if Z.shape[0] != n:
            raise ValueError(
                f"features must give a row for each of {n} states, got {Z.shape[0]}"
            )
    if not intercept:
        return Z
    n, d = Z.shape
    if sparse.issparse(Z):
        return sparse.csr_array(sparse.hstack([Z, np.ones((n, 1))]))
    with_ones = np.empty((n, d + 1))
    with_ones[:, :d], with_ones[:, d] = Z, 1.0
    return with_ones


def transform_next(features, source, follows, rows, terminal, Z, intercept):
    """Features of the successors of transitions with features Z. They are 0 after
    terminal transitions."""
    n, d = Z.shape
    ongoing = np.flatnonzero(~terminal)
    if not len(ongoing):
        return sparse.csr_array((n, d)) if sparse.issparse(Z) else np.zeros((n, d))
    if features is None and not sparse.issparse(Z):  # one copy of all rows
        at = None if follows.shape[0] == n and (rows == np.arange(n)).all() else rows
        result = transform(None, source, follows, at, intercept)
        result = result.copy() if result is follows else result
        result[terminal] = 0.0
        return result
    successors_Z = transform(features, source, follows, rows[ongoing], intercept)
    if len(ongoing) == n:
        return successors_Z
    if not sparse.issparse(successors_Z):
        result = np.zeros((n, d))
        result[ongoing] = successors_Z
        return result
    at = sparse.csr_array(
        (np.ones(len(ongoing)), (ongoing, np.arange(len(ongoing)))),
        shape=(n, len(ongoing)),
    )
    return at @ successors_Z


class LogColumns(NamedTuple):
    """The user's arguments of `fit` besides X and y."""

    next_X: Any = None
    terminal: Any = None
    time: Any = None
    episode: Any = None
    sample_weight: Any = None
    importance_ratio: Any = None

    def successor_names(self, earlier=()):
        """Names of the arguments about successors that are given now or were
        earlier."""
        names = ("next_X", "terminal", "time", "episode")
        return tuple(
            name for name in names if getattr(self, name) is not None or name in earlier
        )

    def names(self, before=None):
        """Names of the arguments given now or ``before``, and whether any episode ends,
        for `check_given`."""
        earlier, ends = before or ((), False)
        names = self.successor_names(earlier)
        if ends and self.terminal is None and self.next_X is not None:
            warn(
                "terminal was given before, and is None here: no transition counts as "
                "the end of an episode. Give "
                "terminal, with False for transitions that do not end one."
            )
        return names, ends or (
            self.terminal is not None
            and bool(as_flags("terminal", self.terminal).any())
        )


@dataclass
class Log:
    """The usable transitions of a fit: terminal or with a successor, and of positive
    weight."""

    features: Any  # the fitted transformer
    Z: np.ndarray  # features of the states
    next_Z: np.ndarray  # features of the successors, 0 after terminal transitions
    y: np.ndarray
    weights: np.ndarray  # after multiplication by the ratios
    ratios: np.ndarray
    terminal: np.ndarray
    states: np.ndarray  # before the transformer
    follows: np.ndarray  # the successors, before the transformer
    # columns of the features that Z contains: those that are not 0 in all rows
    columns: np.ndarray
    n_features: int  # number of features, including those that are 0
    kept: np.ndarray  # mask of the usable rows of the data
    episode: np.ndarray | None  # numbers of the episodes
    order: Any  # the `Order` of all rows of the data, or None
    source: Any  # the user's data with the successors: X or next_X
    at: np.ndarray  # row of each successor in ``source``

    @property
    def rows(self):
        """The tuple (Z, next_Z, y, weights)."""
        return self.Z, self.next_Z, self.y, self.weights

    def leads_to(self):
        """Rows that identify the successors: whether the episode ends, and the state,
        or 0 if it ends."""
        rows = np.column_stack([self.terminal, self.follows + 0.0])
        rows[self.terminal, 1:] = 0.0
        return rows


def read_log(estimator, X, y, log_columns, half_life=None):
    """The validated `Log` of the user's data. The estimator is a copy, whose number and
    names of columns are set."""
    states, y = checked_data(estimator, X, y)
    y, n = y.astype(float), len(y)
    ratios = check_ratios(log_columns.importance_ratio, n)
    if log_columns.importance_ratio is not None:
        warn_of_ratios(ratios)
    weights = row_weights(log_columns.sample_weight, n)
    order = order_of(
        log_columns.episode,
        log_columns.time,
        check_terminal(log_columns.terminal, n),
        n,
    )
    source, follows, at, kept, terminal = successors(
        estimator, X, states, log_columns, order
    )
    warn_of_no_ends(
        log_columns,
        order is not None and (log_columns.episode is not None or order.has_gaps()),
    )
    if order is not None:
        weights *= shares(order.step, kept, terminal, weights)
    if not (terminal.all() or kept[~terminal].any()):
        raise ValueError(
            "X must have a usable transition, with a successor or terminal: got no "
            "successor of the "
            f"{np.count_nonzero(~terminal)} rows that are not terminal. time must "
            "increase by 1 in each step, and "
            "episodes of one row need next_X or terminal"
        )
    weights *= ratios
    if half_life is not None:
        weights[kept] *= fading(half_life, in_time(order, n)[kept])
    kept &= weights > 0
    if not kept.any():
        raise ValueError(
            "X must have a usable transition, with a successor or terminal, and of "
            "positive weight; got none"
        )
    warn_of_state_numbers(estimator.features, states)
    features = (
        None if estimator.features is None else clone(estimator.features).fit(X, y)
    )
    Z = transform(features, X, states, None, estimator.fit_intercept)
    rows = slice(None) if kept.all() else kept  # a slice avoids copies
    Z, at, terminal = Z[rows], at[rows], terminal[rows]
    next_Z = transform_next(
        features, source, follows, at, terminal, Z, estimator.fit_intercept
    )
    d, occurs = Z.shape[1], largest_values(Z) > 0
    columns = np.flatnonzero(occurs) if occurs.any() else np.arange(1)
    if len(columns) < d or not occurs.any():
        warn_of_unknown_successors(next_Z, occurs)
        Z, next_Z = Z[:, columns], next_Z[:, columns] * float(occurs.any())
    numbers = None if log_columns.episode is None else order.numbers[rows]
    follows = follows if log_columns.next_X is not None and kept.all() else follows[at]
    columns_of_log = (
        y[rows],
        weights[rows],
        ratios[rows],
        terminal,
        states[rows],
        follows,
    )
    return Log(
        features,
        Z,
        next_Z,
        *columns_of_log,
        columns,
        d,
        kept,
        numbers,
        order,
        source,
        at,
    )


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


def by_state(rows, visited, gamma):
    """Shares of the states, their features, and means over their transitions of phi -
    gamma phi' and of the reward."""
    (Z, next_Z, y, weights), (number, first) = rows, visited
    visits, n = np.bincount(number, weights), len(y)
    mean = sparse.csr_array(
        (weights / visits[number], (number, np.arange(n))), shape=(len(first), n)
    )
    features = Z[first]
    return (
        normalized_weights(visits, len(visits)),
        features,
        minus_scaled(features, gamma, mean @ next_Z),
        mean @ y,
    )
