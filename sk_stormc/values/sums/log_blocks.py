"""The log of a fit: in memory, or in blocks of a file or the partitions of dask
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
from sk_stormc.utils.blocks import (
    MappedRows,
    blocks_of,
    check_finite_rows,
    is_dask,
    without_rows,
)
from sk_stormc.utils.frames import columns_of
from sk_stormc.utils.rows import check_numeric, row_weights
from sk_stormc.values.reading.episodes import check_episode, check_terminal, check_time
from sk_stormc.values.reading.transitions import (
    NONE,
    LogColumns,
    LogReader,
    order_of_log,
    read_log,
    successors_in,
)
from sk_stormc.values.sums.lstd import LARGEST_STREAM
from sk_stormc.values.sums.problems import LARGEST_HESSIAN
from sk_stormc.values.sums.uncertainty import SumsByKey

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


class TransitionLog:
    """The log of a fit: sums over its `Chunk`, or `Chunk`s. ``columns`` are the numbers
    of the features that it has, of ``n_columns``."""

    in_memory = False
    columns: np.ndarray
    n_columns: int
    features: Any  # the fitted transformer
    table: Any  # X, or an empty table with its columns
    given: tuple  # for `check_given`

    def sum(self, function):
        """Add up ``function(chunk)``."""
        raise NotImplementedError

    def spread_out(self, w):
        """Numbers of all features, from those of the columns in the last axis."""
        whole = np.zeros((*w.shape[:-1], self.n_columns))
        whole[..., self.columns] = w
        return whole


class LogInMemory(TransitionLog):
    """A log in memory, without the features that are 0 in all rows that count."""

    in_memory = True

    def __init__(self, estimator, X, y, log_columns, action=None):
        self.table, self.given = X, log_columns.names()
        reader = LogReader(copy.copy(estimator))
        chunk, occurs = read_log(reader, X, y, log_columns, action)
        self.chunk, self.columns = chunk.without_zeros(occurs)
        self.features, self.n_columns = reader.features, len(occurs)

    def sum(self, function):
        return function(self.chunk)


class LogBlocks(TransitionLog):
    """A log whose rows lie in blocks.

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
        self.table, make_frame = without_rows(X), None
        self.given = log_columns.successor_names(), False
        if columns_of(X) is not None:
            make_frame = partial(type(self.table), columns=self.table.columns)
        check_next_columns(self.table, log_columns.next_X)
        self.arguments = Arguments(names, columns_of(X), make_frame)
        blank = clone(estimator, safe=False)
        validate_data(blank, self.table, skip_check_array=True)
        self.reader = LogReader(blank, n_rows=self.blocks.n_rows)
        if "episode" in names and log_columns.next_X is None:
            self.reader.steps = self._steps()
        self.n_columns = self._read_sample()
        self.columns = np.arange(self.n_columns)
        self.features = self.reader.features

    def sum(self, function):
        """Add up ``function(chunk)`` over the blocks that have any transitions that
        count. Raises a ValueError if there are none."""
        arguments, reader = self.arguments, self.reader

        def of_block(start, *parts):
            chunk = reader(start, *arguments(parts)).counted()
            return function(chunk) if len(chunk.y) else None

        total = self.blocks.sum(of_block)
        if total is None:
            raise ValueError(NONE)
        return total

    def _steps(self):
        """The sums of the log for `share_of_ends`. Raises a ValueError for an episode
        that continues in the next block."""
        arguments = self.arguments

        def of_block(start, *parts):
            _, y, _, log_columns = arguments(parts)
            n, order = len(y), order_of_log(log_columns, len(y))
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

    def _read_sample(self):
        """Fit ``features`` on a sample. Gives the warnings of `read_log` for the
        sample, and returns the number of features."""
        reader, n, ends = self.reader, self.blocks.n_rows, np.array(self.blocks.ends)
        # the sample's rows fit in 128 MB
        most = min(2**17, max(SAMPLED_RUN, 2**24 // self.table.shape[1]))
        if n <= most:
            rows = np.arange(n)
        elif reader.steps is not None:  # episodes begin with the blocks
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
        parts = self.blocks.take(rows)
        try:
            X, y, _, log_columns = self.arguments(parts, finite=False)
            chunk, _ = read_log(reader, X, y, log_columns)
        except ValueError:
            reader.kind = "block"
            # raises with the number of the row in its partition
            self.sum(lambda chunk: 0)
            raise
        reader.kind, d = "block", chunk.Z.shape[1]
        if d > LARGEST_STREAM:
            raise ValueError(
                f"X must have at most {LARGEST_STREAM} features for rows in blocks, "
                f"got {d}"
            )
        return d


@dataclass
class Arguments:
    """The arguments of a `LogReader` from the parts of a block."""

    names: list  # names of the parts
    of_X: list | None  # names of the columns of X
    make_frame: Any  # makes a data frame of rows, if X is one

    def __call__(self, parts, finite=True):
        """X, y, the actions and the `LogColumns`. X and next_X are frames again if the
        user's X is one."""
        columns = dict(zip(self.names, parts, strict=True))
        time = columns.get("time")
        if time is not None and check_time(time, len(time)).dtype.kind != "i":
            raise ValueError(
                "time must be whole numbers for rows in partitions, got dates: number "
                "the steps"
            )
        for name in [name for name in ("X", "next_X") if name in columns]:
            rows = columns[name]
            check_numeric(name, rows)
            if finite:
                if name == "next_X":  # rows of terminal transitions are ignored
                    ends = check_terminal(columns.get("terminal"), len(rows))
                    rows = np.where(ends[:, None], 0, rows)
                check_finite_rows(name, rows, self.of_X)
            if self.make_frame is not None:
                columns[name] = self.make_frame(columns[name])
        names = "X", "y", "action", *LogColumns._fields
        X, y, action, *log_columns = map(columns.get, names)
        return X, y, action, LogColumns(*log_columns)


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
    if (
        log_columns.time is not None
        and log_columns.episode is None
        and log_columns.next_X is None
    ):
        raise ValueError("next_X or episode must be given with time for rows in blocks")
    if estimator.half_life is not None and log_columns.next_X is None:
        raise ValueError(
            "next_X must be given with half_life for rows in blocks, got None"
        )


def check_next_columns(empty, next_X):
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
