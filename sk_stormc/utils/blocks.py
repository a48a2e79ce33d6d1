"""Rows of aligned tables in blocks: slices of arrays and files, or the partitions of
dask collections.

A pass calls a function with each block, where the block lies, and adds what it returns
in the order of the blocks. The same blocks therefore give the same bits for any number
of workers. Only the results travel.
"""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from sk_stormc.utils.arrays import all_finite
from sk_stormc.utils.frames import (
    column,
    columns_of,
    is_series,
    is_table,
    row_labels,
)
from sk_stormc.utils.machine import BLOCK_BYTES


def is_dask(X: Any) -> bool:
    """Whether an object is an array, a data frame or a Series of dask, which is not
    imported for others."""
    if not type(X).__module__.startswith("dask") or not isinstance(
        getattr(X, "shape", None), tuple
    ):
        return False
    try:
        import dask.array
    except ImportError as error:
        raise ImportError(
            'dask collections need dask.array: pip install "sk_stormc[dask]"'
        ) from error
    return dask.is_dask_collection(X)


def blocks_of(
    *tables: Any,
    rows: int | None = None,
    names: Sequence[str] = ("X",),
    labels: Mapping[str, Any] = MappingProxyType({}),
) -> Blocks:
    """The blocks of tables with as many rows each, of which None are left out.

    Parameters
    ----------
    *tables : ndarray, MappedRows, data frame, Series or dask collection
        If one of them is a dask collection, the first one must be. The others are then
        divided like it: dask frames by the index if they have the same known divisions,
        other dask collections by equal lengths of partitions, and tables in memory by
        position. Each pass checks that partitions are as long and as wide as they are
        declared, and that labels of rows agree, as `check_row_labels` does.
    rows : int, default=None
        Number of rows of a block in memory. None means about 16 MB.
    names : sequence of str, default=("X",)
        The names of the tables, for messages. Those without one are "a table beside X".
    labels : mapping, default={}
        By their names, the labels of the rows of tables in memory that have lost
        them.

    Returns
    -------
    Blocks
        None of them is empty.

    Raises
    ------
    ValueError
        If the tables have no rows, different numbers of rows, or partitions that cannot
        be aligned. A pass raises it for partitions that are not as they are declared,
        for masked values, and for labels of rows that disagree.

    Notes
    -----
    A function receives contiguous and aligned arrays, because NumPy and BLAS round sums
    differently for other layouts, such as those of arrays that have travelled between
    processes.
    """
    named = itertools.zip_longest(tables, names, fillvalue="a table beside X")
    some, names = zip(*(pair for pair in named if pair[0] is not None), strict=True)
    if is_dask(some[0]):
        from sk_stormc.utils.dask_blocks import dask_blocks

        own = [
            labels.get(name, row_labels(table))
            for table, name in zip(some, names, strict=True)
        ]
        return dask_blocks(names, some, own)
    if any(map(is_dask, some)):
        raise ValueError(
            "X must be a dask collection if one of the tables beside it is: compute "
            "these, or divide X"
        )
    lengths = {len(table) for table in some}
    if len(lengths) > 1:
        raise ValueError(f"tables must have as many rows, got {sorted(lengths)}")
    (n,) = lengths
    check_rows(n)
    width = int(np.prod(np.shape(some[0])[1:], dtype=int)) or 1
    size = rows or max(1, BLOCK_BYTES // (8 * width))
    ends = [*range(size, n, size), n]
    return LocalBlocks([_rows_by_position(table) for table in some], ends)


def computed(*tables: Any) -> tuple:
    """Tables in memory. Those of dask are computed together, and keep their labels."""
    if not any(map(is_dask, tables)):
        return tables
    import dask

    return dask.compute(*tables, traverse=False)


def refuse_dask(*tables: Any) -> None:
    """Raise a ValueError for dask collections in `partial_fit`, which takes the rows in
    the order of their arrival."""
    for table in filter(is_dask, tables):
        raise ValueError(
            f"partial_fit needs rows in memory, got a {type(table).__name__} of dask: "
            "use fit, which reads dask collections by partitions, or pass one "
            "partition after another, as X.partitions[k].compute()"
        )


def without_rows(X: Any) -> Any:
    """An array or a data frame with the columns of rows in blocks, for checks of
    these."""
    return np.empty((0, *X.shape[1:])) if columns_of(X) is None else X._meta.iloc[:0]


def check_rows(n):
    """Raise a ValueError for tables without rows."""
    if not n:
        raise ValueError("X must have a row, got 0 rows")


class Blocks:
    """Aligned tables in blocks of rows.

    A ValueError that a function raises for a block gets the place of the block.

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
        """Add up ``function(start, *parts)`` over the blocks, where start is the number
        of the first row.

        Parameters
        ----------
        function : callable
            It returns None, an object with ``+``, such as a number, an array or a list,
            or a tuple of these.

        Returns
        -------
        object
            As the function returns.
        """
        raise NotImplementedError

    def map(self, function: Callable) -> Blocks:
        """The blocks of one table with a row ``function(start, *parts)[i]`` for each
        row, kept where the blocks lie. dask computes them in the first pass that uses
        them."""
        raise NotImplementedError

    def take(self, rows: np.ndarray) -> tuple:
        """Some rows of each table, by their numbers in ascending order, as arrays."""
        begins, wanted = np.searchsorted(rows, [0, *self.ends]), {}
        for k, start in enumerate(self.starts):
            some = rows[begins[k] : begins[k + 1]] - start
            if len(some):
                wanted[k] = some
        return tuple(map(np.concatenate, zip(*self._taken(wanted), strict=True)))

    def _taken(self, wanted):
        """The wanted rows of each block, for each table."""
        raise NotImplementedError

    def beside(self, other: Blocks) -> Blocks:
        """These tables and those of other blocks with the same ends."""
        return type(self)([*self._parts, *other._parts], self.ends)


class LocalBlocks(Blocks):
    """Blocks of tables in memory or in a file."""

    def _results(self, function):
        for k, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            place = (
                f"in the block that begins at row {start}" if len(self.ends) > 1 else ""
            )
            yield called(
                function, place, start, *(part(k, start, end) for part in self._parts)
            )

    def sum(self, function):
        """Add up what the function returns for the blocks, in their order."""
        total = None
        for value in self._results(function):
            total = added(total, value)
        return total

    def map(self, function):
        """The results of the function, as the blocks of one table."""
        results = list(self._results(function))
        return LocalBlocks([lambda k, start, end: results[k]], self.ends)

    def _taken(self, wanted):
        """The wanted rows of each block, for each table."""
        for k, rows in wanted.items():
            place = k, self.starts[k], self.ends[k]
            yield [part(*place)[rows] for part in self._parts]


def _rows_by_position(table):
    """A function that returns the rows of a block of a table as an array."""
    table = table if isinstance(table, MappedRows) else as_array(table)
    return lambda k, start, end: table[start:end]


def as_array(table):
    """A table in memory as an array, of numbers if it has columns. A Series or an array
    may hold labels.

    Raises a ValueError that names a column without numbers.
    """
    if not (is_table(table) or is_series(table)):
        return np.asarray(table)
    dtypes = list(table.dtypes) if is_table(table) else [table.dtype]
    if not hasattr(table, "iloc") or all(
        isinstance(dtype, np.dtype) and dtype.kind != "O" for dtype in dtypes
    ):
        return table.to_numpy()
    if not is_table(table):  # with a type of its own for missing values, or with labels
        kind = getattr(table.dtype, "kind", "O")
        # decimals of arrow are objects for NumPy
        number = kind in "iufb" or str(table.dtype).startswith("decimal")
        return (
            table.to_numpy(dtype=float, na_value=np.nan) if number else table.to_numpy()
        )
    try:
        return table.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        for j, name in enumerate(columns_of(table)):
            for i, value in enumerate(column(table, j)):
                _check_is_number(value, name, i)
        raise


def _check_is_number(value, name, i):
    """Raise a ValueError that names the column and the row of a value that is no
    number."""
    try:
        np.array([value]).astype(float)
    except (TypeError, ValueError) as error:
        if type(value).__name__ != "NAType":
            raise ValueError(
                f"X must hold numbers, got {value!r} in column {name!r}, row {i}"
            ) from error


def check_finite_rows(name, rows, columns=None):
    """Raise a ValueError that names the column and the row of the first number that is
    not finite. ``columns`` are the names of the columns."""
    if rows.dtype.kind != "f" or all_finite(rows):
        return
    i, *j = np.argwhere(~np.isfinite(rows))[0].tolist()
    where = f"row {i}"
    if j:
        where = f"column {j[0] if columns is None else columns[j[0]]!r}, {where}"
    raise ValueError(f"{name} must be finite, got {rows[(i, *j)]} in {where}")


def called(function, place, start, *parts):
    """The result of a function for a block. A ValueError gets the place of the block,
    if it is not empty."""
    parts = [np.require(part, requirements=["C", "A"]) for part in parts]
    try:
        return function(start, *parts)
    except ValueError as error:
        if not place:
            raise
        raise ValueError(f"{error} ({place})") from error


def added(a, b):
    """The sum of two results of a pass. None is nothing."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tuple):
        return tuple(itertools.starmap(added, zip(a, b, strict=True)))
    return a + b


def map_lazily(
    function: Callable, X: Any, shape: tuple = (), dtype: Any = float
) -> Any:
    """A dask array with the results of a function of each partition of a dask
    collection.

    Parameters
    ----------
    function : callable
        It returns an array with a row for each row of a partition.
    X : dask collection
    shape : tuple, default=()
        The shape of a row of the results.
    dtype : dtype, default=float

    Returns
    -------
    dask.array.Array
        With the chunks of the rows of X, whose lengths are not computed.
    """
    from sk_stormc.utils.dask_blocks import map_lazily

    return map_lazily(function, X, shape, dtype)


def of_partitions(function: Callable, X: Any) -> list:
    """The results of a function of each partition of a dask collection, which are
    checked as in a pass.

    Parameters
    ----------
    function : callable
    X : dask collection

    Returns
    -------
    list
    """
    from sk_stormc.utils.dask_blocks import of_partitions

    return of_partitions(function, X)


# rows of a file


class MappedRows:
    """The rows of a memmap, read from its file.

    Through the mapping, Linux would keep a megabyte in memory for each row. The class
    provides a part of an array's interface. Slices, rows and `take` return arrays, and
    ``@`` returns a number for each row.
    """

    ndim = 2

    def __init__(self, filename, dtype, offset, shape):
        self.filename, self.dtype, self.offset, self.shape = (
            filename,
            dtype,
            offset,
            shape,
        )

    @classmethod
    def of(cls, X):
        """The rows of X, or X itself if it is not a memmap of floats with contiguous
        rows."""
        floats = (
            isinstance(X, np.memmap)
            and X.dtype in (np.float32, np.float64)
            and X.dtype.isnative
        )
        if not floats or X.ndim != 2 or not X.size or not X.flags.c_contiguous:
            return X
        root = X
        while isinstance(root.base, np.ndarray):
            root = root.base
        if (
            not (isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap))
            or root.mode == "c"
        ):
            return X
        # for a view, numpy keeps the offset of the whole array
        rows = cls(
            root.filename,
            X.dtype,
            root.offset + X.ctypes.data - root.ctypes.data,
            X.shape,
        )
        try:
            rows.take([len(rows) - 1])
        except (
            OSError,
            TypeError,
        ):  # the file was deleted or changed or has no name, but the mapping is valid
            return X
        return rows

    def __len__(self):
        return self.shape[0]

    @property
    def size(self):
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def __getitem__(self, rows):
        """A row, or a slice of them without a step, as an array."""
        if not isinstance(rows, slice):
            return self.take([rows])[0]
        start, stop, _ = rows.indices(len(self))
        return self._read([start], max(0, stop - start))

    def take(self, rows, axis=0, mode="clip"):
        """Rows by number, as an array."""
        return self._read(rows, 1)

    def _read(self, starts, length):
        """``length`` rows from each of some starts."""
        width = self.shape[1] * self.dtype.itemsize
        # half the time of a file object
        file = os.open(self.filename, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            parts = []
            for start in np.asarray(starts).tolist():
                os.lseek(file, self.offset + start * width, os.SEEK_SET)
                parts.append(os.read(file, length * width))
        finally:
            os.close(file)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if len(data) != len(parts) * length * width:
            raise OSError(f"{self.filename} has become shorter than {len(self)} rows")
        return np.frombuffer(data, self.dtype).reshape(-1, self.shape[1])

    def __matmul__(self, x):
        return np.concatenate([block @ x for _, block in blocks(self)])

    dot = __matmul__


def blocks(rows, whole=True):
    """Blocks of rows, each with the number of its first row. With ``whole``, rows in
    memory are one block."""
    if whole and not isinstance(rows, MappedRows):
        yield 0, rows
        return
    size = max(1, BLOCK_BYTES // (rows.dtype.itemsize * rows.shape[1]))
    for i in range(0, len(rows), size):
        yield i, rows[i : i + size]
