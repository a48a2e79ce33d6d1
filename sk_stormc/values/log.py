"""The transitions of a fit: features of states and successors, and the order of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from sk_stormc.utils.validation import row_weights
from sk_stormc.values.episodes import in_order, in_time
from sk_stormc.values.forgetting import fading
from sk_stormc.values.guards import told, warn_of_ratios, warn_of_state_numbers, warn_of_unknown_successors
from sk_stormc.values.markov import largest_values, minus_scaled, normalized_weights
from sk_stormc.values.transitions import check_ratios, checked_data, successors, transform, transform_next

__all__ = ["Given", "Log", "by_state", "distinct_rows", "read_log"]

BLOCK = 1024  # rows of a block
ODD = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits, a multiplier for hashing


class Given(NamedTuple):
    """The user's arguments of `fit` besides X and y."""

    next_X: Any = None
    terminal: Any = None
    time: Any = None
    episode: Any = None
    sample_weight: Any = None
    importance_ratio: Any = None

    def told(self, before=None):
        """The names of the given arguments and whether any episode ends; see `guards.told`."""
        return told(self.next_X, self.terminal, self.time, before, self.episode)


@dataclass
class Log:
    """The usable transitions of a fit: terminal or with a successor, and of positive weight.

    Attributes
    ----------
    features : transformer or None
        The fitted transformer.
    Z, next_Z : ndarray or sparse matrix of shape (n, n_known)
        Features of the states, and of the successors. The latter are 0 after terminal transitions.
    y, weights, ratios : ndarray of shape (n,)
        Rewards, weights and importance ratios. The weights are already multiplied by the ratios.
    terminal : ndarray of bool of shape (n,)
    states, follows : ndarray of shape (n, n_columns)
        The states and the successors, before the transformer.
    columns : ndarray of int of shape (n_known,)
        The features in Z: those that are not 0 in all rows. The transitions do not determine the others.
    n_features : int
        Number of all features.
    kept : ndarray of bool of shape (n_rows,)
        Mask of the usable rows of the data.
    episode : ndarray of int of shape (n,) or None
        Numbers of the episodes.
    clock : array-like of shape (n_rows,) or None
        Time that orders the rows.
    source : array-like
        The user's data that contain the successors: X or next_X.
    at : ndarray of int of shape (n,)
        Row of each successor in ``source``.
    """

    features: Any
    Z: np.ndarray
    next_Z: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    ratios: np.ndarray
    terminal: np.ndarray
    states: np.ndarray
    follows: np.ndarray
    columns: np.ndarray
    n_features: int
    kept: np.ndarray
    episode: np.ndarray | None
    clock: Any
    source: Any
    at: np.ndarray

    @property
    def rows(self):
        """The tuple (Z, next_Z, y, weights)."""
        return self.Z, self.next_Z, self.y, self.weights

    def leads_to(self):
        """Rows that identify the successors: whether the episode ends, and the state, or 0 if it ends."""
        found = np.column_stack([self.terminal, self.follows + 0.0])
        found[self.terminal, 1:] = 0.0
        return found


def read_log(estimator, X, y, given, half_life=None):
    """The checked `Log` of the user's data. The estimator is a copy, whose number and names of columns are set."""
    states, y = checked_data(estimator, X, y)
    y, n = y.astype(float), len(y)
    ratios = check_ratios(given.importance_ratio, n)
    if given.importance_ratio is not None:
        warn_of_ratios(ratios)
    weights = row_weights(given.sample_weight, n) * ratios
    numbers, clock = None, given.time
    if given.episode is not None:
        numbers, clock = in_order(given.episode, given.time, given.terminal, n)
    time = given.time if given.next_X is not None else clock
    source, follows, at, kept, terminal = successors(estimator, X, states, given.next_X, given.terminal, time)
    if half_life is not None:
        when = in_time(numbers, given.time, n)
        weights[kept] *= fading(half_life, when[kept])
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
    d, known = Z.shape[1], largest_values(Z) > 0
    columns = np.flatnonzero(known) if known.any() else np.arange(1)
    if len(columns) < d or not known.any():
        warn_of_unknown_successors(next_Z, known)
        Z, next_Z = Z[:, columns], next_Z[:, columns] * float(known.any())
    numbers = None if numbers is None else numbers[rows]
    follows = follows if given.next_X is not None and kept.all() else follows[at]
    said = y[rows], weights[rows], ratios[rows], terminal, states[rows], follows
    return Log(features, Z, next_Z, *said, columns, d, kept, numbers, clock, source, at)


def distinct_rows(rows):
    """The first occurrence of each distinct row of a matrix, and the number of the distinct row for each row."""
    n = len(rows)
    if all_differ(rows[:, 0]):  # then all rows are distinct
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


def all_differ(numbers):
    """Whether all numbers are distinct, by a hash table. Sorting would take longer than the fit of a small log."""
    numbers, n = numbers + 0.0, len(numbers)  # no -0.0
    places = 8 * 2 ** n.bit_length()  # large enough that few numbers share a place
    place = ((numbers.view(np.uint64) * np.uint64(ODD)) >> np.uint64(65 - places.bit_length())).astype(np.intp)
    last = np.empty(places, dtype=np.intp)
    last[place] = np.arange(n)
    crowded = np.zeros(places, dtype=bool)
    crowded[place[last[place] != np.arange(n)]] = True
    rest = numbers[crowded[place]]
    return len(np.unique(rest)) == len(rest)
