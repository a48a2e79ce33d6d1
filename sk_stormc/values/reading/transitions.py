"""Logged transitions: successors, features, and the log of a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array

from sk_stormc.utils.arrays import as_flags, as_numbers
from sk_stormc.utils.frames import check_row_labels
from sk_stormc.utils.rows import row_weights
from sk_stormc.utils.warnings import warn
from sk_stormc.values.markov import (
    check_one_each,
    largest_values,
    refuse_rows,
    side_by_side,
)
from sk_stormc.values.reading.actions import check_actions, policy_chances
from sk_stormc.values.reading.episodes import (
    check_episode,
    check_terminal,
    fading,
    in_time,
    order_of,
    share_of_ends,
    shares,
)
from sk_stormc.values.reading.log_order import warn_of_rows
from sk_stormc.values.reading.log_warnings import (
    warn_of_no_ends,
    warn_of_ranges,
    warn_of_ratios,
    warn_of_scales,
    warn_of_state_numbers,
    warn_of_unknown_successors,
)
from sk_stormc.values.reading.states import HASHED, check_next, checked_data

NONE = (
    "X must have a usable transition, with a successor or terminal, and of positive "
    "weight; got none"
)


def check_ratios(importance_ratio, n):
    """The n checked importance ratios. None means ones."""
    if importance_ratio is None:
        return np.ones(n)
    ratios = as_numbers("importance_ratio", importance_ratio)
    check_one_each("importance_ratio", ratios, n)
    refuse_rows(
        ~(np.isfinite(ratios) & (ratios >= 0)),
        lambda k: (
            f"importance_ratio must be finite and >= 0, got {ratios[k]} in row {k}"
        ),
    )
    return ratios


class Successors(NamedTuple):
    """The successors of some transitions."""

    source: Any  # the user's data that contain them: X or next_X
    states: np.ndarray  # the same as numbers
    at: np.ndarray  # row of each successor in these
    known: np.ndarray  # whether it is known how the transition ends
    terminal: np.ndarray  # whether there is none, because the episode ends

    def of(self, rows):
        """The successors of some of the transitions."""
        parts = (part[rows] for part in (self.at, self.known, self.terminal))
        return Successors(self.source, self.states, *parts)

    def ongoing(self):
        """The transitions with a successor."""
        return np.flatnonzero(self.known & ~self.terminal)

    def features(self, transformer, Z, intercept):
        """Features of the successors of transitions with features Z. They are 0 after
        terminal transitions."""
        n, ongoing = len(self.at), np.flatnonzero(~self.terminal)
        if transformer is None:
            next_Z = with_intercept(self.states[self.at], intercept)  # a copy
            next_Z[self.terminal] = 0.0
            return next_Z
        if not len(ongoing):
            return 0.0 * Z
        at = self.at[ongoing]
        next_Z = transform(transformer, self.source, self.states, intercept, at)
        if len(ongoing) == n:
            return next_Z
        entries = np.ones(len(ongoing)), (ongoing, np.arange(len(ongoing)))
        return sparse.csr_array(entries, shape=(n, len(ongoing))) @ next_Z

    def chances(self, policy, actions, name="policy"):
        """The probabilities of the actions under a policy in the successors, of shape
        (n_ongoing, n_actions)."""
        at = self.at[self.ongoing()]
        if not len(at):  # which a function may not expect
            return np.zeros((0, len(actions)))
        return policy_chances(policy, self.source, self.states[at], at, actions, name)


def successors(estimator, X, states, log_columns, rows, warns=True):
    """The `Successors` of the user's rows. ``rows`` is the `Order` of the rows."""
    n = len(states)
    terminal = check_terminal(log_columns.terminal, n)
    following = Successors(X, states, np.arange(n), np.ones(n, dtype=bool), terminal)
    if log_columns.next_X is not None:
        follows = check_next(estimator, log_columns.next_X, states, terminal)
        if warns and (
            estimator.features is None or max(states.max(), follows.max()) < HASHED
        ):
            warn_of_ranges(states, follows, terminal)
            warn_of_scales(states, follows, terminal)
        return following._replace(source=log_columns.next_X, states=follows)
    if rows is not None:
        at, known = successors_in(rows, terminal)
        return following._replace(at=at, known=known)
    if log_columns.terminal is None:
        if warns:
            warn(
                "fit was given neither next_X nor terminal nor time nor episode: each "
                "row is taken as an episode of one step, whose value is the expected "
                "reward.",
                UserWarning,
            )
        return following._replace(terminal=~terminal)
    if not terminal.all():
        raise ValueError(
            "next_X must be given for transitions that are not terminal, or time or "
            f"episode; got none of them for {np.count_nonzero(~terminal)} of them"
        )
    return following


def successors_in(rows, terminal):
    """The row of each successor, and a mask of known outcomes, of rows with an
    `Order`."""
    order = np.argsort(rows.clock)
    known, at = terminal.copy(), np.zeros(len(order), dtype=np.intp)
    at[order[:-1]] = order[1:]
    known[order[:-1]] |= np.diff(rows.clock[order]) == 1
    return at, known


def transform(transformer, X, states, intercept, rows=None):
    """Features of X, or of some rows of it, with a column of ones if ``intercept``.
    ``states`` is X as numbers."""
    n = len(states if rows is None else rows)
    if transformer is None:
        Z = states if rows is None else states[rows]
    else:
        Z = transformer.transform(X if rows is None else _safe_indexing(X, rows))
        Z = check_array(
            Z, accept_sparse="csr", dtype=np.float64, input_name="features of X"
        )
        Z = sparse.csr_array(Z) if sparse.issparse(Z) else Z
        if Z.shape[0] != n:
            raise ValueError(
                f"features must give a row for each of {n} states, got {Z.shape[0]}"
            )
    return with_intercept(Z, intercept)


def with_intercept(Z, intercept):
    """The features, with a column of ones if ``intercept``."""
    if not intercept:
        return Z
    return side_by_side(Z, np.ones((Z.shape[0], 1)))


class LogColumns(NamedTuple):
    """The user's arguments of `fit` besides X and y."""

    next_X: Any = None
    terminal: Any = None
    time: Any = None
    episode: Any = None
    sample_weight: Any = None
    importance_ratio: Any = None

    def check_labels(self, X, y, **action):
        """Raise a ValueError if tables in memory have other labels of rows than X, or
        the same in another order. Rewards and successors may have those of the next
        rows."""
        tables = {"X": X, "y": y} | action | self._asdict()
        check_row_labels(tables, of_other_rows=("y", "next_X"))

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


@dataclass(eq=False)
class Chunk:
    """Transitions of which it is known how they end, in the order of time. Those of
    weight 0 are left out, except in a stream and with eligibility traces, which they
    end."""

    Z: np.ndarray  # features of the states
    next_Z: np.ndarray  # features of the successors, 0 after terminal transitions
    y: np.ndarray
    weights: np.ndarray  # after multiplication by the ratios
    ratios: np.ndarray
    states: np.ndarray  # before the transformer
    following: Successors
    action: np.ndarray | None  # labels
    episode: np.ndarray | None  # labels
    # keys of the rows for `Traces.over`, and of the rows that continue their traces,
    # or None for the states
    keys: tuple | None = None
    when: np.ndarray | None = None  # numbers in the order of arrival, of a stream
    # numbers of the rows whose successors may be in the next chunk of a stream
    waiting: np.ndarray | None = None

    @property
    def rows(self):
        """The tuple (Z, next_Z, y, weights)."""
        return self.Z, self.next_Z, self.y, self.weights

    @property
    def terminal(self):
        """Whether a transition ends its episode."""
        return self.following.terminal

    def follows(self):
        """The successors, before the transformer."""
        return self.following.states[self.following.at]

    def leads_to(self):
        """Rows that identify the successors: whether the episode ends, and the state,
        or 0 if it ends."""
        rows = np.column_stack([self.terminal, self.follows() + 0.0])
        rows[self.terminal, 1:] = 0.0
        return rows

    def counted(self):
        """The transitions of positive weight."""
        rows = self.weights > 0
        if rows.all():
            return self
        parts = {
            name: part[rows]
            for name, part in vars(self).items()
            if part is not None and name not in ("following", "keys", "waiting")
        }
        following = self.following.of(rows)
        return replace(self, **parts, following=following, keys=None)

    def without_zeros(self, occurs):
        """The transitions with the features that occur, or with the first one if there
        are none, and their numbers."""
        columns = np.flatnonzero(occurs) if occurs.any() else np.arange(1)
        if len(columns) == occurs.sum() == self.Z.shape[1]:
            return self, columns
        next_Z = self.next_Z[:, columns] * float(occurs.any())
        return replace(self, Z=self.Z[:, columns], next_Z=next_Z), columns


@dataclass
class LogReader:
    """Reads the `Chunk` of some rows of a log. It travels to the workers."""

    estimator: Any  # a copy without results; the first rows set its columns
    # what the rows are: a whole "log", or a sample of one; a "block" of one, or a
    # "chunk" of a stream
    kind: str = "log"
    features: Any = None  # the transformer, which the first rows fit
    n_rows: int | None = None  # number of rows of the whole log
    # sums of weights by the steps of the whole log, for `share_of_ends`
    steps: Any = None

    def __call__(self, start, X, y, action, log_columns):
        """The `Chunk` of rows, the first of which is row ``start`` of the log."""
        checked = self.checked(X, y, action, log_columns)
        return self.read(start, X, log_columns, *checked)

    def read(self, start, X, log_columns, states, y, action, ratios, weights):
        """The `Chunk` of rows of which the parts in ``checked`` are known."""
        estimator, whole = self.estimator, self.kind == "log"
        n, warns = len(y), self.kind != "block"
        order = order_of_log(log_columns, n)
        following = successors(estimator, X, states, log_columns, order, warns)
        known, terminal = following.known, following.terminal
        if warns and self.n_rows in (None, n):  # a sample is not in order
            warn_of_rows(y, states, log_columns, order, following)
        if whole:
            check_log(estimator.features, log_columns, states, ratios, order, following)
        if order is not None and log_columns.next_X is None and self.kind != "chunk":
            weights = weights * (
                shares(order.step, known, terminal, weights)
                if self.steps is None
                else share_of_ends(*self.steps.of(order.step).T, known, terminal)
            )
        weights = weights * ratios
        if estimator.half_life is not None and self.kind != "chunk":
            later = 0 if self.n_rows is None else self.n_rows - start - n
            when = in_time(order, n)[known]
            weights[known] *= fading(estimator.half_life, when, later)
        if self.features is None:
            self.features = fitted_features(estimator, X, y)
        Z = transform(self.features, X, states, estimator.fit_intercept)
        rows, kept = slice(None), known  # a slice avoids copies
        if self.kind != "chunk" and not estimator.trace_decay:
            kept = known & (weights > 0)
        if order is not None and (np.diff(order.clock) < 0).any():
            rows = np.argsort(order.clock)
            rows = rows[kept[rows]]
        elif not kept.all():
            rows = np.flatnonzero(kept)
        Z, following = Z[rows], following.of(rows)
        next_Z = following.features(self.features, Z, estimator.fit_intercept)
        labels, when, last = log_columns.episode, None, None
        if self.kind == "chunk":
            when = in_time(order, n)[rows]
            last = np.flatnonzero(~known) if order is None else order.last()
            last = last[~known[last]]
        return Chunk(
            Z,
            next_Z,
            y[rows],
            weights[rows],
            ratios[rows],
            states[rows],
            following,
            None if action is None else action[rows],
            None if labels is None else check_episode(labels, n)[rows],
            None if order is None else order.keys(rows),
            when,
            last,
        )

    def checked(self, X, y, action, log_columns):
        """The checked states, rewards, actions, importance ratios and weights of some
        rows."""
        first = self.kind == "log" or (
            self.kind == "chunk" and not hasattr(self.estimator, "coef_")
        )
        states, y = checked_data(self.estimator, X, y, reset=first)
        y, n = y.astype(float), len(y)
        if self.estimator.has_actions:
            action = np.zeros(n, int) if action is None else check_actions(action, n)
        ratios = check_ratios(log_columns.importance_ratio, n)
        weights = row_weights(log_columns.sample_weight, n, all_zero=self.kind != "log")
        return states, y, action, ratios, weights


def check_log(features, log_columns, states, ratios, order, following):
    """Warn of what looks wrong in the rows of a whole log. Raise a ValueError if the
    successors of none of its rows are known."""
    if log_columns.importance_ratio is not None:
        warn_of_ratios(ratios)
    known, terminal = following.known, following.terminal
    warn_of_no_ends(
        log_columns,
        order is not None and (log_columns.episode is not None or order.has_gaps()),
    )
    if not (terminal.all() or known[~terminal].any()):
        raise ValueError(
            "X must have a usable transition, with a successor or terminal: got no "
            f"successor of the {np.count_nonzero(~terminal)} rows that are not "
            "terminal. time must increase by 1 in each step, and episodes of one row "
            "need next_X or terminal"
        )
    warn_of_state_numbers(features, states)


def read_log(reader, X, y, log_columns, action=None):
    """The `Chunk` of a whole log, and a mask of the features that are not 0 in all rows
    that count. Raises a ValueError if there are no such rows."""
    chunk = reader(0, X, y, action, log_columns)
    counted = chunk.counted()
    if not len(counted.y):
        raise ValueError(NONE)
    occurs = largest_values(counted.Z) > 0
    if not occurs.all():
        warn_of_unknown_successors(counted.next_Z, occurs)
    return chunk, occurs


def order_of_log(log_columns, n):
    """The `Order` of the n rows of a log, or None without episodes and times."""
    if log_columns.time is not None and log_columns.next_X is not None:
        raise ValueError(
            "time must be None if next_X is given, which has the successors"
        )
    terminal = check_terminal(log_columns.terminal, n)
    return order_of(log_columns.episode, log_columns.time, terminal, n)


def fitted_features(estimator, X, y):
    """The transformer, fitted on the rows. None without one."""
    features = estimator.features
    return None if features is None else clone(features).fit(X, y)
