"""Blocks of dask arrays, data frames and Series: a block is a partition.

With a `distributed.Client` active, dask runs there, and otherwise with its own
scheduler.
"""

import functools
import itertools
import os

import dask
import dask.array
import numpy as np

from sk_stormc.utils.blocks import Blocks, added, as_array, called, check_rows, is_dask
from sk_stormc.utils.frames import columns_of
from sk_stormc.utils.threads import in_one_thread

__all__ = ["DaskBlocks", "dask_blocks", "map_lazily"]

# results that one task adds up: fewer tasks for the scheduler, which takes them one by
# one, and no more results than these in the memory of a worker
ADDED_AT_ONCE = 16


def dask_blocks(tables):
    """The blocks of tables of which the first is a dask collection. Empty partitions
    are left out."""
    first = tables[0]
    partitions = [
        _partitions(_aligned(table, first)) if is_dask(table) else None
        for table in tables
    ]
    of_first, *others = _lengths(tables, partitions)
    for own in others:
        if own != of_first and own is not None:
            k = len(os.path.commonprefix([of_first, own]))
            raise ValueError(
                "dask collections must have the same known divisions or partitions of "
                f"equal lengths, got {len(of_first)} and {len(own)} partitions that "
                f"differ from partition {k} on: repartition them, or set the index of "
                "both frames"
            )
    check_rows(sum(of_first))
    filled = np.flatnonzero(of_first).tolist()
    ends = np.cumsum(np.array(of_first)[filled]).tolist()
    parts = []
    for table, own in zip(tables, partitions, strict=True):
        if own is None:
            parts.append(_divided(table, ends))
            continue
        names = columns_of(table) if table.ndim == 2 else None
        models = partitions[0] if _by_index(table, first) else [None] * len(own)
        parts.append([_array(own[k], names, k, models[k]) for k in filled])
    return DaskBlocks(parts, ends, filled)


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
    """The partitions of a collection of dask, as delayed objects with all columns
    each."""
    if not hasattr(table, "rechunk"):
        return list(table.to_delayed())
    table = table.rechunk({1: -1}) if table.ndim == 2 else table
    # arrays of the same source share its tasks
    return table.to_delayed(optimize_graph=False).ravel().tolist()


@dask.delayed
def _array(part, names, number, model=None):
    """A partition as an array, with the rows of ``model`` if this is given.

    Raises a ValueError for other columns than those of the collection.
    """
    if names is not None and columns_of(part) != names:
        raise ValueError(
            f"partition {number} of X must have the columns {names[:10]}, got "
            f"{columns_of(part)[:10]}"
        )
    if model is not None and not part.index.equals(model.index):
        if not (
            part.index.is_unique
            and model.index.is_unique
            and set(part.index) == set(model.index)
        ):
            raise ValueError(
                "dask frames must have the index of X, got other labels in partition "
                f"{number}"
            )
        part = part.loc[model.index]
    try:
        return as_array(part)
    except ValueError as error:
        raise ValueError(f"{error} (in partition {number})") from error


def _lengths(tables, partitions):
    """Numbers of rows of the partitions of each table; None if they need no comparison.

    dask counts those that are not known, all at once.
    """
    results = []
    for table, own in zip(tables, partitions, strict=True):
        chunks = getattr(table, "chunks", None)
        if own is None or _by_index(table, tables[0]):
            results.append(None)
        elif chunks is not None and not np.isnan(chunks[0]).any():
            results.append([int(n) for n in chunks[0]])
        else:
            results.append([dask.delayed(len)(part) for part in own])
    return dask.compute(results)[0]


def _divided(table, ends):
    """A table in memory in the blocks of the others."""
    table = as_array(table)
    if np.shape(table)[:1] != (ends[-1],):
        raise ValueError(
            f"a table beside X must have its {ends[-1]} rows, got shape "
            f"{np.shape(table)}"
        )
    return np.split(table, ends[:-1])


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
        return called(function, place, start, *parts)


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
        take = dask.delayed(np.take)
        return dask.compute(
            [
                [take(part[k], rows, axis=0) for part in self._parts]
                for k, rows in wanted.items()
            ]
        )[0]

    def beside(self, other):
        """These tables and those of other blocks with the same ends."""
        return DaskBlocks([*self._parts, *other._parts], self.ends, self._numbers)


def map_lazily(function, X, shape, dtype):
    """A dask array with the results of a function of each partition."""
    apply = dask.delayed(_applied)
    shared = dask.delayed(function, pure=False, traverse=False)
    parts = _partitions(X)
    lengths = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(parts)
    arrays = [
        dask.array.from_delayed(apply(shared, part, shape), (n, *shape), dtype)
        for part, n in zip(parts, lengths, strict=True)
    ]
    return dask.array.concatenate(arrays)


def _applied(function, part, shape):
    """A function of a partition, with one thread of BLAS. An empty partition has no
    results."""
    if not len(part):
        return np.empty((0, *shape))
    with in_one_thread():
        return function(part)
