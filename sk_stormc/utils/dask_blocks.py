"""Blocks of dask arrays, data frames and Series: a block is a partition.

With a `distributed.Client` active, dask runs there, and otherwise with its own
scheduler.
"""

import functools
import itertools
import os
from dataclasses import dataclass

import dask
import dask.array
import numpy as np

from sk_stormc.utils.arrays import check_unmasked
from sk_stormc.utils.blocks import Blocks, added, as_array, called, check_rows, is_dask
from sk_stormc.utils.frames import (
    check_same_labels,
    columns_of,
    counts_rows,
    is_series,
    is_table,
    row_labels,
)
from sk_stormc.utils.threads import in_one_thread

# results that one task adds up: fewer tasks for the scheduler, which takes them one by
# one, and no more results than these in the memory of a worker
ADDED_AT_ONCE = 16


@dataclass
class Layout:
    """What a collection of dask declares about its partitions, which is checked where
    they lie."""

    name: str
    columns: list | None = None  # of a data frame
    chunks: tuple | None = None  # of an array, along all axes but the first
    by_index: bool = False  # whether its rows are found by the labels of the first

    @classmethod
    def of(cls, name, table, by_index=False):
        """The layout of a collection."""
        if hasattr(table, "rechunk"):
            return cls(name, chunks=table.chunks[1:])
        return cls(name, columns_of(table) if table.ndim == 2 else None, None, by_index)

    def read(self, part, number, n=np.nan):
        """A partition of n rows, or of any number of them: an array, a data frame or a
        Series. The partition of an array is a list of its blocks.

        Raises a ValueError if it is not what the collection declares.
        """
        where = f"partition {number} of {self.name}"
        if self.chunks is None:
            width = () if self.columns is None else (len(self.columns),)
            self._check(where, part, (n, *width))
            if self.columns is not None and columns_of(part) != self.columns:
                raise ValueError(
                    f"{where} must have the columns {self.columns[:10]}, got "
                    f"{columns_of(part)[:10]}"
                )
            return part
        for block, shape in zip(
            part, itertools.product([n], *self.chunks), strict=True
        ):
            self._check(where, block, shape)
        for axis in range(len(self.chunks), 0, -1):
            of_row = len(self.chunks[axis - 1])
            part = [
                np.concatenate(part[k : k + of_row], axis) if of_row > 1 else part[k]
                for k in range(0, len(part), of_row)
            ]
        return part[0]

    def _check(self, where, block, shape):
        if not (isinstance(block, np.ndarray) or is_table(block) or is_series(block)):
            raise ValueError(
                f"{where} must be an array, a data frame or a Series, got a "
                f"{type(block).__name__}"
            )
        check_unmasked(where, block)
        # NaN for lengths that are not known
        if len(block.shape) != len(shape) or any(
            size != known and known == known
            for size, known in zip(block.shape, shape, strict=True)
        ):
            raise ValueError(
                f"{where} must have the shape {shape} that was declared or counted, "
                f"got {block.shape}. A function of map_blocks that drops rows needs "
                f"`chunks=`, or {self.name}.compute_chunk_sizes() afterwards. Rows "
                f"that change with every computation need {self.name}.persist()"
            )


def dask_blocks(names, tables, labels):
    """The blocks of named tables of which the first is a dask collection. Empty
    partitions are left out. ``labels`` are those of the rows of each table in memory,
    or None."""
    first = tables[0]
    layouts = [
        Layout.of(name, table, _by_index(table, first)) if is_dask(table) else None
        for name, table in zip(names, tables, strict=True)
    ]
    partitions = [
        _partitions(_aligned(table, first)) if is_dask(table) else None
        for table in tables
    ]
    of_first, *others = _lengths(tables, layouts, partitions)
    for name, own in zip(names[1:], others, strict=True):
        if own != of_first and own is not None:
            k = len(os.path.commonprefix([of_first, own]))
            raise ValueError(
                f"dask collections must have the same known divisions or partitions of "
                f"equal lengths, got {len(of_first)} partitions of {names[0]} and "
                f"{len(own)} of {name} that differ from partition {k} on: repartition "
                "them, or set the index of both frames"
            )
    check_rows(sum(of_first))
    filled = np.flatnonzero(of_first).tolist()
    ends = np.cumsum(np.array(of_first)[filled]).tolist()
    starts = [0, *ends[:-1]]
    columns = [
        _divided(name, table, index, ends, names[0])
        if own is None
        else [(own[k], None) for k in filled]
        for name, table, index, own in zip(
            names, tables, labels, partitions, strict=True
        )
    ]
    shared = dask.delayed((names, layouts), pure=False, traverse=False)
    blocks = [
        _block(shared, number, start, end - start, parts)
        for number, start, end, *parts in zip(
            filled, starts, ends, *columns, strict=True
        )
    ]
    return DaskBlocks([blocks], ends, filled)


def _by_index(table, first):
    """Whether a table is aligned with the first one by the index, because the divisions
    of both are known."""
    return table is not first and all(
        getattr(frame, "known_divisions", False) for frame in (table, first)
    )


def _aligned(table, first):
    """A frame or Series with the divisions of the first frame, if those of both are
    known."""
    if not _by_index(table, first) or table.divisions == first.divisions:
        return table
    (low, *_, high), (least, *_, most) = first.divisions, table.divisions
    if least < low or most > high:
        raise ValueError(
            f"dask frames must have the index of X, from {low!r} to {high!r}, got "
            f"{least!r} to {most!r}"
        )
    return table.repartition(divisions=first.divisions, force=True)


def _partitions(table):
    """The partitions of a collection of dask, as delayed objects: of an array, a list
    of the blocks with the same rows."""
    if not hasattr(table, "rechunk"):
        return list(table.to_delayed())
    # arrays of the same source share its tasks
    grid = table.to_delayed(optimize_graph=False)
    return grid.reshape(len(grid), -1).tolist()


@dask.delayed
def _block(shared, number, start, n, parts):
    """The n rows of each table from ``start`` on as arrays, checked and aligned.
    ``parts`` are pairs of values and labels."""
    (names, layouts), tables, labels, model = shared, [], [], None
    for name, layout, (part, index) in zip(names, layouts, parts, strict=True):
        if layout is not None:
            part = layout.read(part, number, np.nan if layout.by_index else n)
            index = row_labels(part)
        model = index if model is None else model
        if layout is not None and layout.by_index:
            part, index = _in_order(part, model, number), model
        tables.append(part)
        labels.append((name, index))
    try:
        check_same_labels(labels, start)
        return tuple(map(as_array, tables))
    except ValueError as error:
        raise ValueError(f"{error} (in partition {number})") from error


def _in_order(part, index, number):
    """The rows of a partition in the order of an index."""
    if part.index.equals(index):
        return part
    if not (part.index.is_unique and index.is_unique and set(part.index) == set(index)):
        raise ValueError(
            f"dask frames must have the index of X, got other labels in partition "
            f"{number}"
        )
    return part.loc[index]


def _lengths(tables, layouts, partitions):
    """Numbers of rows of the partitions of each table; None if they need no comparison.

    dask counts those that are not known, all at once.
    """
    count, results = dask.delayed(_length), []
    for table, layout, own in zip(tables, layouts, partitions, strict=True):
        chunks = getattr(table, "chunks", None)
        if own is None or layout.by_index:
            results.append(None)
        elif chunks is not None and not np.isnan(chunks[0]).any():
            results.append([int(n) for n in chunks[0]])
        else:
            results.append([count(part, layout, k) for k, part in enumerate(own)])
    return dask.compute(results)[0]


def _length(part, layout, number):
    """The number of rows of a partition."""
    return layout.read(part, number).shape[0]


def _divided(name, table, labels, ends, first):
    """A table in memory in the blocks of the others, and its labels."""
    table = as_array(table)
    if np.shape(table)[:1] != (ends[-1],):
        raise ValueError(
            f"{name} must have the {ends[-1]} rows of {first}, got shape "
            f"{np.shape(table)}"
        )
    labels = None if labels is None or counts_rows(labels) else labels
    return [
        (table[start:end], None if labels is None else labels[start:end])
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


class Kept(list):
    """The delayed results of a map. The first pass that uses them leaves them on the
    workers, for the next passes."""

    computed = False

    def become(self, computed):
        """Replace the delayed objects by computed ones, for all blocks that use
        them."""
        self[:], self.computed = computed, True


@dask.delayed
def _called(function, place, start, *parts):
    """A function of a block, with one thread of BLAS, so that a result does not depend
    on their number."""
    with in_one_thread():
        return called(function, place, start, *_tables(parts))


@dask.delayed
def _rows(numbers, *parts):
    """Some rows of each table of a block."""
    return [np.take(table, numbers, axis=0) for table in _tables(parts)]


def _tables(parts):
    """The tables of a block: each part has several, or one that was mapped."""
    for part in parts:
        yield from part if isinstance(part, tuple) else (part,)


@dask.delayed
def _added(*values):
    """The sum of results, in their order."""
    return functools.reduce(added, values)


class DaskBlocks(Blocks):
    """Blocks that lie where dask keeps them. ``numbers`` are those of their
    partitions."""

    def __init__(self, parts, ends, numbers):
        super().__init__(parts, ends)
        self._numbers = numbers

    def _tasks(self, function):
        # sent once, and not with every task
        shared = dask.delayed(function, pure=False, traverse=False)
        for k, (number, start) in enumerate(
            zip(self._numbers, self.starts, strict=True)
        ):
            place = f"in partition {number}, which begins at row {start}"
            yield _called(shared, place, start, *(part[k] for part in self._parts))

    def sum(self, function):
        """Add up what the function returns for the blocks, in their order, where they
        lie."""
        results, total = list(self._tasks(function)), []
        for k in range(0, len(results), ADDED_AT_ONCE):
            total = [_added(*total, *results[k : k + ADDED_AT_ONCE])]
        kept = [part for part in self._parts if isinstance(part, Kept)]
        new = [part for part in kept if not part.computed]
        # for schedulers whose tasks run in threads of this process
        with in_one_thread():
            *computed, total = dask.persist(*itertools.chain(*new), *total)
            total = total.compute()
        computed = iter(computed)
        for part in new:
            part.become(itertools.islice(computed, len(part)))
        return total

    def map(self, function):
        """The results of the function, as the blocks of one table."""
        return DaskBlocks([Kept(self._tasks(function))], self.ends, self._numbers)

    def _taken(self, wanted):
        """The wanted rows of each block, for each table."""
        return dask.compute(
            [
                _rows(rows, *(part[k] for part in self._parts))
                for k, rows in wanted.items()
            ]
        )[0]

    def beside(self, other):
        """These tables and those of other blocks with the same ends."""
        return DaskBlocks([*self._parts, *other._parts], self.ends, self._numbers)


def map_lazily(function, X, shape, dtype):
    """A dask array with the results of a function of each partition."""
    apply = dask.delayed(_applied)
    shared = dask.delayed((function, Layout.of("X", X)), pure=False, traverse=False)
    arrays = [
        dask.array.from_delayed(
            apply(shared, shape, *place), (place[-1], *shape), dtype
        )
        for place in _places(X)
    ]
    return dask.array.concatenate(arrays)


def _applied(shared, shape, *place):
    """A function of a partition, with one thread of BLAS. An empty partition has no
    results."""
    function, layout = shared
    part = layout.read(*place)
    if not len(part):
        return np.empty((0, *shape))
    with in_one_thread():
        return function(part)


def _places(X):
    """Each partition, its number and its length, which is NaN if it is not known."""
    parts = _partitions(X)
    lengths = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(parts)
    return zip(parts, range(len(parts)), lengths, strict=True)


def of_partitions(function, X):
    """The results of a function of each partition."""
    layout, call = Layout.of("X", X), dask.delayed(_of_partition)
    shared = dask.delayed((function, layout), pure=False, traverse=False)
    return dask.compute([call(shared, *place) for place in _places(X)])[0]


def _of_partition(shared, *place):
    """The result of a function of a partition."""
    function, layout = shared
    return function(layout.read(*place))
