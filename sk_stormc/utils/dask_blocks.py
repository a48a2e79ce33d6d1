"""Blocks of dask arrays, data frames and Series: a block is a partition.

With a `distributed.Client` active, dask runs there, and otherwise with its own scheduler.
"""

from __future__ import annotations

import dask
import numpy as np

from sk_stormc.utils.blocks import Blocks, added, is_dask
from sk_stormc.utils.frames import columns_of, is_series, is_table
from sk_stormc.utils.threads import in_one_thread

__all__ = ["DaskBlocks", "dask_blocks"]


def dask_blocks(tables):
    """The blocks of tables of which the first is a dask collection."""
    first, parts, lengths = tables[0], [], None
    for table in tables:
        if not is_dask(table):
            parts.append(table)
            continue
        delayed = _partitions(_aligned(table, first))
        parts.append(delayed)
        own = _lengths(table, delayed)
        lengths = lengths or own
        if own != lengths:
            pairs_of_lengths = enumerate(zip(own, lengths, strict=False))
            k = next((k for k, (a, b) in pairs_of_lengths if a != b), min(len(own), len(lengths)))
            raise ValueError(
                f"dask collections must have partitions of equal lengths, got {len(own)} and {len(lengths)} partitions "
                f"that differ from partition {k} on: repartition them, or set the index of both frames"
            )
    ends = np.cumsum(lengths).tolist()
    return DaskBlocks([_divided(part, ends) for part in parts], ends)


def _aligned(table, first):
    """A frame or Series with the divisions of the first frame, if those of both are known."""
    known = getattr(table, "known_divisions", False) and getattr(first, "known_divisions", False)
    return table.repartition(divisions=first.divisions) if known and table.divisions != first.divisions else table


def _partitions(table):
    """The partitions of a collection of dask, as delayed objects with all columns each."""
    if hasattr(table, "rechunk"):
        table = table.rechunk({1: -1}) if table.ndim == 2 and table.numblocks[1] > 1 else table
        return [_array(part) for part in table.to_delayed().ravel()]
    names = columns_of(table) if is_table(table) else None
    return [_array(part, names, k) for k, part in enumerate(table.to_delayed())]


@dask.delayed
def _array(part, names=None, number=0):
    """A partition as an array of numbers. Raises a ValueError for other columns than those of the collection."""
    if names is not None and columns_of(part) != names:
        raise ValueError(f"partition {number} of X must have the columns {names[:10]}, got {columns_of(part)[:10]}")
    if not (is_table(part) or is_series(part)):
        return np.asarray(part)
    try:
        return part.to_numpy(dtype=float, na_value=np.nan) if _has_objects(part) else part.to_numpy()
    except (TypeError, ValueError) as error:
        raise ValueError(f"partition {number} of X must hold numbers: {error}") from error


def _has_objects(part):
    """Whether to_numpy() would return objects, as for columns with a type of their own for missing values."""
    dtypes = list(part.dtypes) if is_table(part) else [part.dtype]
    return any(not isinstance(dtype, np.dtype) or dtype.kind == "O" for dtype in dtypes)


def _lengths(table, delayed):
    """Number of rows of each partition, which dask counts if it does not know them."""
    chunks = getattr(table, "chunks", None)
    if chunks is not None and not np.isnan(chunks[0]).any():
        return [int(n) for n in chunks[0]]
    return list(dask.compute(*map(dask.delayed(len), delayed)))


def _divided(part, ends):
    """A table in memory in the blocks of the others."""
    if isinstance(part, list):
        return part
    table = part.to_numpy() if is_table(part) or is_series(part) else np.asarray(part)
    if len(table) != ends[-1]:
        raise ValueError(f"a table beside X must have its {ends[-1]} rows, got {len(table)}")
    return np.split(table, ends[:-1])


@dask.delayed
def _called(function, start, *parts):
    """A function of a block, with one thread of BLAS, so that a result does not depend on their number."""
    with in_one_thread():
        return function(start, *parts)


class DaskBlocks(Blocks):
    """Blocks that lie where dask keeps them."""

    def _tasks(self, function):
        shared = dask.delayed(function, pure=False, traverse=False)  # sent once, and not with every task
        for k, start in enumerate(self.starts):
            yield _called(shared, start, *(part[k] for part in self._parts))

    def sum(self, function):
        """Add up what the function returns for the blocks, in their order, where they lie."""
        total, add = None, dask.delayed(added)
        for value in self._tasks(function):
            total = value if total is None else add(total, value)
        return total.compute()

    def map(self, function):
        """The results of the function, as the blocks of one table. They stay on the workers."""
        return DaskBlocks([list(dask.persist(*self._tasks(function)))], self.ends)

    def take(self, rows):
        """Some rows of each table."""
        begins, taken = np.searchsorted(rows, [0, *self.ends]), []
        for k, start in enumerate(self.starts):
            some = rows[begins[k] : begins[k + 1]] - start
            if len(some):
                taken.append([dask.delayed(np.take)(part[k], some, axis=0) for part in self._parts])
        (taken,) = dask.compute(taken)
        return tuple(np.concatenate(of_table) for of_table in zip(*taken, strict=True))
