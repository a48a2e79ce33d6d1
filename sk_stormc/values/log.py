"""The transitions of one fit: features of states and successors, and which rows follow one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from sk_stormc.utils.validation import row_weights
from sk_stormc.values.episodes import in_order, in_time
from sk_stormc.values.forgetting import fading
from sk_stormc.values.guards import told, warn_of_ratios, warn_of_state_numbers, warn_of_unknown_successors
from sk_stormc.values.markov import largest_values
from sk_stormc.values.transitions import check_ratios, checked_data, successors, transform, transform_next

__all__ = ["Given", "Log", "distinct_rows", "read_log"]

BLOCK = 1024  # rows that are at hand at a time
ODD = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits: multiples of it are far from one another


class Given(NamedTuple):
    """Columns beside X and y, as the user gave them."""

    next_X: Any = None
    terminal: Any = None
    time: Any = None
    episode: Any = None
    sample_weight: Any = None
    importance_ratio: Any = None

    def told(self, before=None):
        """As `guards.told` has it."""
        return told(self.next_X, self.terminal, self.time, before, self.episode)


@dataclass
class Log:
    """The usable transitions of a fit: with a successor or terminal, and of positive weight.

    Attributes
    ----------
    features : transformer or None
        Fitted.
    Z, next_Z : ndarray or sparse matrix of shape (n, n_known)
        Features of the states, and of the successors, 0 where an episode ended.
    y, weights, ratios : ndarray of shape (n,)
        Ratios are contained in the weights.
    terminal : ndarray of shape (n,), bool
    states, follows : ndarray of shape (n, n_columns)
        The numbers that X has, and those of the successors.
    columns : ndarray of shape (n_known,)
        Which features Z has: those that a left state has. Of others no transition says anything.
    n_features : int
        All of them.
    kept : ndarray of shape (n_rows,), bool
        Which rows of the data these are.
    episode : ndarray of int of shape (n,) or None
        Numbers of the episodes.
    clock : array-like of shape (n_rows,) or None
        What orders the rows.
    source : array-like
        The data that has the successors, as the user gave it.
    at : ndarray of int of shape (n,)
        The successor of each transition is this row of it.
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
        """Features, features of the successors, rewards, weights."""
        return self.Z, self.next_Z, self.y, self.weights

    def leads_to(self):
        """What identifies the successors: the end of an episode, or a state.

        Returns
        -------
        ndarray of shape (n, 1 + n_columns)
        """
        found = np.column_stack([self.terminal, self.follows + 0.0])
        found[self.terminal, 1:] = 0.0
        return found


def read_log(estimator, X, y, given, half_life=None):
    """The transitions that a user gives.

    Parameters
    ----------
    estimator : BellmanValueEstimator
        A copy, whose number and names of columns are set.
    X, y : array-like
    given : Given
    half_life : float or None
        Of the weights, in transitions.

    Returns
    -------
    Log
    """
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
    rows = slice(None) if kept.all() else kept  # a slice copies nothing
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
    """The distinct rows of a matrix.

    Parameters
    ----------
    rows : ndarray of float of shape (n, n_columns)

    Returns
    -------
    first : ndarray of int of shape (n_distinct,)
        The first row of each kind.
    number : ndarray of int of shape (n,)
        The kind of each row.
    """
    n = len(rows)
    if all_differ(rows[:, 0]):  # one column is enough to tell
        return np.arange(n), np.arange(n)
    digest = np.zeros(n, dtype=np.uint64)
    for start in range(0, n, BLOCK):
        bits, part = (rows[start : start + BLOCK] + 0.0).view(np.uint64), digest[start : start + BLOCK]  # no -0.0
        for column in bits.T:  # unequal rows have the same 64 bits by chance alone, and then are found out
            part ^= column ^ (column >> np.uint64(29))
            part *= np.uint64(ODD)
            part ^= part >> np.uint64(32)
    _, first, number = np.unique(digest, return_index=True, return_inverse=True)
    if len(first) < n and not np.array_equal(rows[first[number]], rows):
        _, first, number = np.unique(rows + 0.0, axis=0, return_index=True, return_inverse=True)
    return first, number.reshape(-1)


def all_differ(numbers):
    """Whether no two of some numbers are equal. To sort all of them takes longer than the products of a small log."""
    numbers, n = numbers + 0.0, len(numbers)  # no -0.0
    places = 8 * 2 ** n.bit_length()  # few numbers share a place
    place = ((numbers.view(np.uint64) * np.uint64(ODD)) >> np.uint64(65 - places.bit_length())).astype(np.intp)
    last = np.empty(places, dtype=np.intp)
    last[place] = np.arange(n)
    crowded = np.zeros(places, dtype=bool)
    crowded[place[last[place] != np.arange(n)]] = True
    rest = numbers[crowded[place]]
    return len(np.unique(rest)) == len(rest)
