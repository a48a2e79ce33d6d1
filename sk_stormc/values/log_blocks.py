"""Logged transitions whose rows lie in blocks: in a file, or in the partitions of dask
collections."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from sk_stormc.fitting.compat import callbacks_of
from sk_stormc.utils.blocks import blocks_of, check_finite_rows, is_dask, without_rows
from sk_stormc.utils.frames import columns_of
from sk_stormc.utils.mapped_rows import MappedRows
from sk_stormc.utils.validation import as_numbers, check_numeric, row_weights
from sk_stormc.values.episodes import (
    check_episode,
    check_terminal,
    check_time,
    discounts,
    share_of_ends,
)
from sk_stormc.values.markov import check_one_each
from sk_stormc.values.policies import check_actions
from sk_stormc.values.problems import LARGEST_HESSIAN
from sk_stormc.values.states import checked_states
from sk_stormc.values.streams import LARGEST_STREAM
from sk_stormc.values.transitions import (
    LogColumns,
    Transitions,
    check_ratios,
    order_of_log,
    read_log,
    successors,
    successors_in,
    transform,
)
from sk_stormc.values.uncertainty import SumsByKey

# successive rows in a sample, whose successors are then in it too
SAMPLED_RUN = 256


def reads_blocks(X, log_columns, estimator):
    """Whether a fit adds up blocks: of dask collections, and of files if the rows have
    successors of their own.

    Other fits of files read them into memory.
    """
    if is_dask(X):
        return True
    if (
        log_columns.next_X is None
        or log_columns.time is not None
        or not isinstance(MappedRows.of(X), MappedRows)
    ):
        return False
    special = (
        callbacks_of(estimator)
        or estimator.features is not None
        or estimator.trace_decay
    )
    return estimator.solves_itself() and X.shape[1] < LARGEST_HESSIAN and not special


@dataclass
class Reader:
    """Reads the transitions of a block from its parts. It travels to the workers."""

    estimator: Any  # a clone without results that knows the columns
    names: list  # names of the parts
    n_rows: int
    make_frame: Any = None  # makes a data frame of rows, if X is one
    features: Any = None  # the fitted transformer
    # without next_X, sums of weights by the steps of the episodes, for `share_of_ends`
    steps: SumsByKey | None = None

    def columns(self, parts):
        """X, y, the actions and the `LogColumns` of a block. X and next_X are frames
        again if the user's X is one."""
        columns = dict(zip(self.names, parts, strict=True))
        for name in [name for name in ("X", "next_X") if name in columns]:
            check_numeric(name, columns[name])
            if self.make_frame is not None:
                columns[name] = self.make_frame(columns[name])
        names = "X", "y", "action", *LogColumns._fields
        X, y, action, *log_columns = map(columns.get, names)
        return X, y, action, LogColumns(*log_columns)

    def order_of(self, log_columns, n):
        """The `Order` of a block, or None without episodes."""
        time = log_columns.time
        if time is not None and check_time(time, n).dtype.kind != "i":
            raise ValueError(
                "time must be whole numbers for rows in partitions, got dates: number "
                "the steps"
            )
        return order_of_log(log_columns, n)

    def __call__(self, start, *parts):
        """The `Transitions` of a block."""
        X, y, action, log_columns = self.columns(parts)
        n, names, estimator = len(y), columns_of(X), self.estimator
        check_finite_rows("X", parts[0], names)
        states = checked_states(estimator, X)
        y = as_numbers("y", y)
        check_one_each("y", y, n)
        check_finite_rows("y", y)
        weights = row_weights(log_columns.sample_weight, n, all_zero=True)
        action = None if action is None else check_actions(action, n)
        order, episode = self.order_of(log_columns, n), log_columns.episode
        if log_columns.next_X is not None:
            terminal = check_terminal(log_columns.terminal, n)
            rows = np.where(terminal[:, None], 0, parts[self.names.index("next_X")])
            check_finite_rows("next_X", rows, names)
        following = successors(estimator, X, states, log_columns, order, warns=False)
        kept = following.known
        if order is not None and log_columns.next_X is None:
            sums = self.steps.of(order.step).T
            weights *= share_of_ends(*sums, kept, following.terminal)
        weights *= check_ratios(log_columns.importance_ratio, n)
        if estimator.half_life is not None:
            age = self.n_rows - 1.0 - start - np.arange(n)
            weights *= discounts(estimator.half_life, age)
        Z = transform(self.features, X, states, estimator.fit_intercept)
        if Z.shape[1] > LARGEST_STREAM:
            raise ValueError(
                f"X must have at most {LARGEST_STREAM} features for rows in blocks, "
                f"got {Z.shape[1]}"
            )
        kept = kept & (weights > 0)
        rows = slice(None) if kept.all() else kept
        Z, following = Z[rows], following.of(rows)
        return Transitions(
            Z,
            following.features(self.features, Z, estimator.fit_intercept),
            y[rows],
            weights[rows],
            states[rows],
            following,
            None if action is None else action[rows],
            None if episode is None else check_episode(episode, n)[rows],
        )


class LogBlocks:
    """A log in blocks: sums over its `Transitions`.

    Warnings are those of a sample of rows, on which ``features`` is fitted too. The
    sample contains all rows of a short log.
    """

    def __init__(self, estimator, X, y, log_columns, action=None):
        refuse(estimator, X, log_columns)
        columns = {"X": X, "y": y, "action": action} | log_columns._asdict()
        for name in ("X", "next_X"):
            columns[name] = MappedRows.of(columns[name])
        weight = log_columns.sample_weight
        if np.ndim(weight) == 0 and not is_dask(weight):
            row_weights(weight, 1)  # a constant has no effect
            columns["sample_weight"] = None
        names = [name for name, column in columns.items() if column is not None]
        self.blocks = blocks_of(*(columns[name] for name in names), names=names)
        self.n_rows = self.blocks.n_rows
        self.empty, make_frame = without_rows(X), None
        if columns_of(X) is not None:
            make_frame = partial(type(self.empty), columns=self.empty.columns)
        check_columns(self.empty, log_columns.next_X)
        blank = clone(estimator, safe=False)
        validate_data(blank, self.empty, skip_check_array=True)
        self.reader = Reader(blank, names, self.n_rows, make_frame)
        if "episode" in names and log_columns.next_X is None:
            self.reader.steps = self._steps()
        self.features = self.reader.features = self._features_of_sample()

    def sum(self, function):
        """Add up ``function(transitions)`` over the blocks that have any."""
        reader = self.reader

        def of_block(start, *parts):
            transitions = reader(start, *parts)
            return function(transitions) if len(transitions.y) else None

        return self.blocks.sum(of_block)

    def _steps(self):
        """The sums of the log for `share_of_ends`. Raises a ValueError for an episode
        that continues in the next block."""
        reader = self.reader

        def of_block(start, *parts):
            *_, y, _, log_columns = reader.columns(parts)
            n, order = len(y), reader.order_of(log_columns, len(y))
            terminal = check_terminal(log_columns.terminal, n)
            _, known = successors_in(order, terminal)
            weights = row_weights(log_columns.sample_weight, n, all_zero=True)
            counted = weights[:, None] * np.column_stack([~terminal, known & ~terminal])
            labels = np.unique(check_episode(log_columns.episode, n))
            return SumsByKey.by(order.step, counted), [labels]

        sums, labels = self.blocks.sum(of_block)
        check_whole(
            labels, "next_X must be given, or partitions must contain whole episodes"
        )
        return sums

    def _features_of_sample(self):
        """``features``, fitted on a sample. Gives the warnings of `read_log` for the
        sample."""
        n, ends = self.n_rows, np.array(self.blocks.ends)
        # the sample's rows fit in 128 MB
        most = min(2**17, max(SAMPLED_RUN, 2**24 // self.empty.shape[1]))
        if n <= most:
            rows = np.arange(n)
        elif self.reader.steps is not None:  # episodes begin with the blocks
            begins, size = np.append(0, ends[:-1]), max(2, most // len(ends))
            rows = np.concatenate(
                [
                    np.arange(a, min(a + size, b))
                    for a, b in zip(begins, ends, strict=True)
                ]
            )
        else:
            begins = np.linspace(0, n - SAMPLED_RUN, most // SAMPLED_RUN).astype(int)
            rows = np.unique(begins[:, None] + np.arange(SAMPLED_RUN))
        X, y, _, log_columns = self.reader.columns(self.blocks.take(rows))
        try:
            estimator = copy.copy(self.reader.estimator)
            return read_log(estimator, X, y, log_columns).features
        except ValueError:
            # raises with the number of the row in its partition
            self.sum(lambda transitions: None)
            raise


def check_whole(labels, remedy):
    """Raise a ValueError if an episode has rows in several blocks. ``labels`` are those
    of each block."""
    labels, count = np.unique(np.concatenate(labels), return_counts=True)
    if (count > 1).any():
        label = labels[np.argmax(count > 1)]
        raise ValueError(f"episode {label!s} continues in another partition: {remedy}")


def refuse(estimator, X, log_columns):
    """Raise a ValueError for what rows in blocks do not support."""
    for name, table in (("X", X), ("next_X", log_columns.next_X)):
        if len(getattr(table, "shape", (0, 0))) == 1:
            raise ValueError(
                f"{name} must have two dimensions, got shape {table.shape}"
            )
    if not estimator.solves_itself():
        raise ValueError(
            "solver must be 'auto' or 'lstd' for rows in blocks, got "
            f"{estimator.solver!r}"
        )
    if estimator.objective == "bellman":
        raise ValueError(
            "objective must be 'auto' or 'projected' for rows in blocks, got "
            "'bellman', which groups all transitions of a state"
        )
    if estimator.trace_decay:
        raise ValueError(
            f"trace_decay must be 0 for rows in blocks, got {estimator.trace_decay}: "
            "partial_fit takes the blocks of an ordered log one after another"
        )
    if callbacks_of(estimator):
        raise ValueError(
            "callbacks must not be set for rows in blocks, whose exact solution has "
            "no iterations"
        )
    if log_columns.time is not None and log_columns.next_X is not None:
        raise ValueError(
            "time must be None if next_X is given, which has the successors"
        )
    if log_columns.time is not None and log_columns.episode is None:
        raise ValueError("next_X or episode must be given with time for rows in blocks")
    if estimator.half_life is not None and log_columns.next_X is None:
        raise ValueError(
            "next_X must be given with half_life for rows in blocks, got None"
        )


def check_columns(empty, next_X):
    """Raise a ValueError unless next_X has the columns of X."""
    if next_X is None:
        return
    for kind, found, expected in (
        ("number of columns", next_X.shape[1], empty.shape[1]),
        ("columns", columns_of(next_X), columns_of(empty)),
    ):
        if found != expected:
            raise ValueError(
                f"next_X must have the columns of X, got the {kind} {found} in place "
                f"of {expected}"
            )
