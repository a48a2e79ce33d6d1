"""Rows of aligned tables in blocks: slices of arrays and files, or the partitions of dask collections.

A pass calls a function with each block, where the block lies, and adds what it returns in the order of the blocks. The
same blocks therefore give the same bits for any number of workers. Only the results travel.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from sk_stormc.utils.frames import is_series, is_table
from sk_stormc.utils.mapped_rows import MappedRows

__all__ = ["Blocks", "blocks_of", "is_dask"]

BLOCK_BYTES = 2**24  # size of a block of an array or a file


def is_dask(X: Any) -> bool:
    """Whether an object is a collection of dask, which is not imported for others."""
    if not type(X).__module__.startswith("dask"):
        return False
    from dask import is_dask_collection

    return is_dask_collection(X)


def blocks_of(*tables: Any, rows: int | None = None) -> Blocks:
    """The blocks of tables with as many rows each, of which None are left out.

    Parameters
    ----------
    *tables : ndarray, MappedRows, data frame, Series or dask collection
        If one of them is a dask collection, the first one must be. The others are then divided like it: dask frames
        by known divisions if they have the same, other dask collections by equal lengths of partitions, and tables in
        memory by position.
    rows : int, default=None
        Number of rows of a block in memory. None means about 16 MB.

    Returns
    -------
    Blocks

    Raises
    ------
    ValueError
        If the tables have different numbers of rows, or partitions that cannot be aligned.
    """
    some = [table for table in tables if table is not None]
    if is_dask(some[0]):
        from sk_stormc.utils.dask_blocks import dask_blocks

        return dask_blocks(some)
    lengths = {len(table) for table in some}
    if len(lengths) > 1:
        raise ValueError(f"tables must have as many rows, got {sorted(lengths)}")
    (n,) = lengths
    first = some[0]
    width = int(np.prod(np.shape(first)[1:], dtype=int)) or 1
    size = rows or max(1, BLOCK_BYTES // (8 * width))
    ends = [*range(size, n, size), n]
    return LocalBlocks([_rows_by_position(table) for table in some], ends)


class Blocks:
    """Aligned tables in blocks of rows.

    Attributes
    ----------
    ends : list of int
        For each block, the number of the row after its last one.
    n_rows : int
    """

    def __init__(self, parts, ends):
        self._parts, self.ends, self.n_rows = parts, list(ends), int(ends[-1])
        self.starts = [0, *self.ends[:-1]]

    def sum(self, function: Callable) -> Any:
        """Add up ``function(start, *parts)`` over the blocks, where start is the number of the first row.

        Parameters
        ----------
        function : callable
            It returns a number, an array, a list, or a tuple of these. Lists are joined.

        Returns
        -------
        object
            As the function returns.
        """
        raise NotImplementedError

    def map(self, function: Callable) -> Blocks:
        """The blocks of one table with a row ``function(start, *parts)[i]`` for each row, kept where the blocks lie."""
        raise NotImplementedError

    def take(self, rows: np.ndarray) -> tuple:
        """Some rows of each table, by their numbers in ascending order, as arrays."""
        raise NotImplementedError

    def beside(self, other: Blocks) -> Blocks:
        """These tables and those of other blocks with the same ends."""
        return type(self)([*self._parts, *other._parts], self.ends)


class LocalBlocks(Blocks):
    """Blocks of tables in memory or in a file."""

    def _blocks(self):
        for k, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            yield start, [part(k, start, end) for part in self._parts]

    def sum(self, function):
        """Add up what the function returns for the blocks, in their order."""
        total = None
        for start, parts in self._blocks():
            total = added(total, function(start, *parts))
        return total

    def map(self, function):
        """The results of the function, as the blocks of one table."""
        results = [function(start, *parts) for start, parts in self._blocks()]
        return LocalBlocks([lambda k, start, end: results[k]], self.ends)

    def take(self, rows):
        """Some rows of each table."""
        begins, taken = np.searchsorted(rows, [0, *self.ends]), []
        for k, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            some = rows[begins[k] : begins[k + 1]] - start
            if len(some):
                taken.append([part(k, start, end)[some] for part in self._parts])
        return tuple(np.concatenate(of_table) for of_table in zip(*taken, strict=True))


def _rows_by_position(table):
    """A function that returns the rows of a block of a table as an array."""
    if is_table(table) or is_series(table):
        table = table.to_numpy()
    elif not isinstance(table, MappedRows):
        table = np.asarray(table)
    return lambda k, start, end: table[start:end]


def added(a, b):
    """The sum of two results of a pass. None is nothing."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        return tuple(itertools.starmap(added, zip(a, b, strict=True)))
    return a + b
