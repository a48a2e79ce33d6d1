"""Logged transitions: validation, successors, features, and the log of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array, check_X_y, validate_data

from sk_stormc.utils.validation import as_numbers, check_numeric, naming, row_weights
from sk_stormc.utils.warnings import warn
from sk_stormc.values.episodes import check_terminal, check_time, fading, in_order, in_time
from sk_stormc.values.log_warnings import (
    warn_of_ranges,
    warn_of_ratios,
    warn_of_scales,
    warn_of_state_numbers,
    warn_of_unknown_successors,
)
from sk_stormc.values.markov import largest_values, minus_scaled, normalized_weights

BLOCK = 1024  # rows of a block
ODD = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits, a multiplier for hashing


def check_ratios(importance_ratio, n):
    """The n checked importance ratios. None means ones."""
    if importance_ratio is None:
        return np.ones(n)
    ratios = as_numbers("importance_ratio", importance_ratio)
    if ratios.shape != (n,):
        raise ValueError(f"importance_ratio must be of shape ({n},), got {ratios.shape}")
    wrong = ~(np.isfinite(ratios) & (ratios >= 0))
    if wrong.any():
        k = np.argmax(wrong)
        raise ValueError(f"importance_ratio must be finite and >= 0, got {ratios[k]} in row {k}")
    return ratios


def checked_data(estimator, X, y, reset=True):
    """The checked states and rewards as numbers. Raises ValueError for dates."""
    check_numeric("X", X)
    check_numeric("y", y)
    with naming("X"):
        states = validate_data(estimator, X, reset=reset, dtype=np.float64)
    with naming("y"):
        y = _finite("y", y)
        _, y = check_X_y(states, y, dtype=None, ensure_all_finite=False, y_numeric=True, estimator=estimator)
    return states, y


def _finite(name, values):
    """Return the values unchanged, or raise a ValueError that names the first row that is not finite."""
    numbers = np.asarray(values)
    wrong = ~np.isfinite(numbers) if numbers.dtype.kind == "f" and numbers.ndim else np.zeros(1, dtype=bool)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise ValueError(f"{name} must be finite, got {numbers[at]} in row {at[0]}")
    return values


def check_next(estimator, next_X, states, terminal):
    """The checked successors as finite numbers. Rows of terminal transitions are ignored."""
    check_numeric("next_X", next_X)
    try:
        follows = validate_data(estimator, next_X, reset=False, dtype=np.float64, ensure_all_finite=False)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"next_X must have the columns of X: {error}") from error
    if follows.shape != states.shape:
        raise ValueError(f"next_X must be of shape {states.shape}, as X is, got {follows.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(follows.sum()):  # all are finite, and no copy is needed
            return follows
    follows = np.where(terminal[:, None], states, follows)
    wrong = ~np.isfinite(follows).all(axis=1)
    if wrong.any():
        raise ValueError(f"next_X must be finite where not terminal, got NaN or infinity in row {np.argmax(wrong)}")
    return follows


def successors(estimator, X, states, next_X, terminal, time):
    """The successors, as given (with the row of each) and as numbers, and masks of usable and terminal rows."""
    n = len(states)
    rows, everything = np.arange(n), np.ones(n, dtype=bool)
    if next_X is None and terminal is None and time is None:
        warn(
            "fit was given neither next_X nor terminal nor time nor episode: each row is taken as an episode of one "
            "step, whose value is the expected reward.",
            UserWarning,
        )
        return X, states, rows, everything, everything.copy()
    terminal = np.zeros(n, dtype=bool) if terminal is None else check_terminal(terminal, n)
    if next_X is not None:
        if time is not None:
            raise ValueError("time must be None if next_X is given, which has the successors")
        follows = check_next(estimator, next_X, states, terminal)
        warn_of_ranges(states, follows, terminal)
        warn_of_scales(states, follows, terminal)
        return next_X, follows, rows, everything, terminal
    if time is None:
        if not terminal.all():
            warn(
                f"fit was given neither next_X nor time: {np.count_nonzero(~terminal)} rows that are not terminal have "
                "no successor and are dropped.",
                UserWarning,
            )
        return X, states, rows, terminal.copy(), terminal
    time = check_time(time, n)
    order = np.argsort(time)
    rows = np.zeros(n, dtype=np.intp)
    rows[order[:-1]] = order[1:]
    consecutive = np.zeros(n, dtype=bool)
    consecutive[order[:-1]] = time[order[1:]] == time[order[:-1]] + 1
    return X, states, rows, consecutive | terminal, terminal


def transform(features, X, states, rows, intercept):
    """Features of some rows of X, with a column of ones if ``intercept``. ``states`` is X as numbers."""
    if features is None:
        Z = states if rows is None else states[rows]
    else:
        Z = features.transform(X if rows is None else _safe_indexing(X, rows))
        Z = check_array(Z, accept_sparse="csr", dtype=np.float64, input_name="features of X")
        Z = sparse.csr_array(Z) if sparse.issparse(Z) else Z
    if not intercept:
        return Z
    n, d = Z.shape
    if sparse.issparse(Z):
        return sparse.csr_array(sparse.hstack([Z, np.ones((n, 1))]))
    with_ones = np.empty((n, d + 1))
    with_ones[:, :d], with_ones[:, d] = Z, 1.0
    return with_ones


def transform_next(features, source, follows, rows, terminal, Z, intercept):
    """Features of the successors of transitions with features Z. They are 0 after terminal transitions."""
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
    at = sparse.csr_array((np.ones(len(ongoing)), (ongoing, np.arange(len(ongoing)))), shape=(n, len(ongoing)))
    return at @ successors_Z


class Given(NamedTuple):
    """The user's arguments of `fit` besides X and y."""

    next_X: Any = None
    terminal: Any = None
    time: Any = None
    episode: Any = None
    sample_weight: Any = None
    importance_ratio: Any = None

    def names(self, before=None):
        """Names of the arguments given now or ``before``, and whether any episode ends, for `check_given`."""
        earlier, ends = before or ((), False)
        names = ("next_X", "terminal", "time", "episode")
        names = tuple(name for name in names if getattr(self, name) is not None or name in earlier)
        if ends and self.terminal is None and self.next_X is not None:
            warn("terminal was given before, and is None here: no transition counts as the end of an episode. Give "
                 "terminal, with False for transitions that do not end one.")
        return names, ends or (self.terminal is not None and bool(np.asarray(self.terminal).any()))


@dataclass
class Log:
    """The usable transitions of a fit: terminal or with a successor, and of positive weight."""

    features: Any  # the fitted transformer
    Z: np.ndarray  # features of the states
    next_Z: np.ndarray  # features of the successors, 0 after terminal transitions
    y: np.ndarray
    weights: np.ndarray  # after multiplication by the ratios
    ratios: np.ndarray
    terminal: np.ndarray
    states: np.ndarray  # before the transformer
    follows: np.ndarray  # the successors, before the transformer
    columns: np.ndarray  # columns of the features that Z contains: those that are not 0 in all rows
    n_features: int  # number of features, including those that are 0
    kept: np.ndarray  # mask of the usable rows of the data
    episode: np.ndarray | None  # numbers of the episodes
    clock: Any  # time by which all rows of the data are ordered
    source: Any  # the user's data with the successors: X or next_X
    at: np.ndarray  # row of each successor in ``source``

    @property
    def rows(self):
        """The tuple (Z, next_Z, y, weights)."""
        return self.Z, self.next_Z, self.y, self.weights

    def leads_to(self):
        """Rows that identify the successors: whether the episode ends, and the state, or 0 if it ends."""
        rows = np.column_stack([self.terminal, self.follows + 0.0])
        rows[self.terminal, 1:] = 0.0
        return rows


def read_log(estimator, X, y, given, half_life=None):
    """The validated `Log` of the user's data. The estimator is a copy, whose number and names of columns are set."""
    states, y = checked_data(estimator, X, y)
    y, n = y.astype(float), len(y)
    ratios = check_ratios(given.importance_ratio, n)
    if given.importance_ratio is not None:
        warn_of_ratios(ratios)
    weights = row_weights(given.sample_weight, n) * ratios
    numbers, clock = in_order(given.episode, given.time, given.terminal, n)
    time = given.time if given.next_X is not None else clock
    source, follows, at, kept, terminal = successors(estimator, X, states, given.next_X, given.terminal, time)
    if half_life is not None:
        weights[kept] *= fading(half_life, in_time(numbers, given.time, n)[kept])
    kept &= weights > 0
    if not kept.any():
        raise ValueError(
            "X must have a usable transition: one with a successor or terminal, and of positive weight; got none"
        )
    warn_of_state_numbers(estimator.features, states)
    features = None if estimator.features is None else clone(estimator.features).fit(X, y)
    Z = transform(features, X, states, None, estimator.fit_intercept)
    rows = slice(None) if kept.all() else kept  # a slice avoids copies
    Z, at, terminal = Z[rows], at[rows], terminal[rows]
    next_Z = transform_next(features, source, follows, at, terminal, Z, estimator.fit_intercept)
    d, occurs = Z.shape[1], largest_values(Z) > 0
    columns = np.flatnonzero(occurs) if occurs.any() else np.arange(1)
    if len(columns) < d or not occurs.any():
        warn_of_unknown_successors(next_Z, occurs)
        Z, next_Z = Z[:, columns], next_Z[:, columns] * float(occurs.any())
    numbers = None if numbers is None else numbers[rows]
    follows = follows if given.next_X is not None and kept.all() else follows[at]
    columns_of_log = y[rows], weights[rows], ratios[rows], terminal, states[rows], follows
    return Log(features, Z, next_Z, *columns_of_log, columns, d, kept, numbers, clock, source, at)


def distinct_rows(rows):
    """The first occurrence of each distinct row of a matrix, and the number of the distinct row for each row."""
    n, column = len(rows), np.sort(rows[:, 0])
    if (column[1:] != column[:-1]).all():  # then all rows are distinct
        return np.arange(n), np.arange(n)
    digest = np.zeros(n, dtype=np.uint64)
    for start in range(0, n, BLOCK):
        bits, part = (rows[start : start + BLOCK] + 0.0).view(np.uint64), digest[start : start + BLOCK]  # no -0.0
        for column in bits.T:  # a 64-bit hash of each row; collisions are detected below
            part ^= column ^ (column >> np.uint64(29))
            part *= np.uint64(ODD)
            part ^= part >> np.uint64(32)
    _, first, number = np.unique(digest, return_index=True, return_inverse=True)
    if len(first) < n and not np.array_equal(rows[first[number]], rows):
        _, first, number = np.unique(rows + 0.0, axis=0, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


def by_state(rows, visited, gamma):
    """Shares of the states, their features, and means over their transitions of phi - gamma phi' and of the reward."""
    (Z, next_Z, y, weights), (number, first) = rows, visited
    visits, n = np.bincount(number, weights), len(y)
    mean = sparse.csr_array((weights / visits[number], (number, np.arange(n))), shape=(len(first), n))
    features = Z[first]
    return normalized_weights(visits, len(visits)), features, minus_scaled(features, gamma, mean @ next_Z), mean @ y
