"""Rows in blocks that lie in memory, in a file or on the workers of a cluster, and sums
of functions that JAX evaluates there."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.core.pytrees import precision
from sk_stormc.core.row_functions import RowFunctions, compiled
from sk_stormc.utils.arrays import check_all_finite
from sk_stormc.utils.blocks import MappedRows, added, as_array, blocks_of, is_dask

RANGE_OF_INT32 = np.iinfo(np.int32)


class RowsInBlocks:
    """The blocks of some leaves and of their weights, with the names of the leaves, and
    the shape and type of a row of each. ``labels`` are those of rows in memory.

    Numbers of dask collections are checked in every pass, and others were checked
    before.
    """

    def __init__(self, names, leaves, weights=None, labels=None):
        self.names, self.kinds = names, list(map(kind_of_row, leaves))
        self.lazy = any(map(is_dask, leaves))
        # those of dask, which divide the others, are the first ones of a block
        self.order = sorted(range(len(leaves)), key=lambda k: not is_dask(leaves[k]))
        self._tables = [MappedRows.of(leaves[k]) for k in self.order]
        self.weighted = weights is not None
        ordered = [*(names[k] for k in self.order), "sample_weight"]
        self._blocks = blocks_of(
            *self._tables, weights, names=ordered, labels=labels or {}
        )
        self.n_rows = self._blocks.n_rows

    def sum(self, function):
        """Add up ``function(start, *parts)`` over the blocks, as in
        `sk_stormc.utils.blocks`."""
        return self._blocks.sum(function)

    def take(self, draws):
        """The leaves of the rows with these numbers, which are read in their order."""
        ascending = np.argsort(draws, kind="stable")
        numbers = draws[ascending]
        tables = (
            self._blocks.take(numbers)
            if self.lazy
            else [table.take(numbers, 0) for table in self._tables]
        )
        places = np.argsort(ascending, kind="stable")
        leaves = self.in_order(tables[: len(self.order)])  # without weights
        return [
            leaf[places].astype(dtype, copy=False)
            for leaf, (_, dtype) in zip(leaves, self.kinds, strict=True)
        ]

    def in_order(self, tables):
        """The tables of a block in the order of the leaves."""
        leaves = dict(zip(self.order, tables, strict=True))
        return [leaves[k] for k in range(len(leaves))]

    def layout(self):
        """These rows without their blocks, as it is sent to workers."""
        layout = object.__new__(type(self))
        vars(layout).update(vars(self), _tables=None, _blocks=None)
        return layout


@dataclass
class BlockSum:
    """A sum over the rows of a block, of which ``size`` are evaluated at once.

    It is called where the block lies. ``name`` is that of a function of `RowFunctions`.
    """

    functions: RowFunctions
    name: str
    args: tuple
    size: int
    rows: RowsInBlocks  # a layout

    def __call__(self, start, *parts):
        """The sum over a block that begins at row ``start``."""
        total = None
        for rows, p in self.portions(start, parts):
            total = added(total, self.called(self.name, *self.args, rows, p))
        return total

    def called(self, name, *args):
        """The value of a function of rows, as an array."""
        with precision(self.functions.dtype):
            return np.asarray(compiled(self.functions, name)(*args))

    def portions(self, start, parts):
        """The rows of a block and their weights, in portions of at most two lengths."""
        *tables, p = parts if self.rows.weighted else (*parts, None)
        leaves = self.rows.in_order(tables)
        if self.rows.lazy:
            leaves = [
                self._checked(name, leaf, dtype, start)
                for name, leaf, (_, dtype) in zip(
                    self.rows.names, leaves, self.rows.kinds, strict=True
                )
            ]
        for cut in equal_parts(len(leaves[0]), self.size):
            rows = [leaf[cut] for leaf in leaves]
            yield in_type(rows, self.functions.dtype), None if p is None else p[cut]

    def _checked(self, name, leaf, dtype, start):
        """A leaf of a block of a dask collection, in the type of the collection."""
        if leaf.dtype.kind not in "fiub":
            raise ValueError(f"{name} must be numbers, got {leaf.dtype}")
        if leaf.dtype.kind == "f":
            check_all_finite(name, leaf, start)
            if dtype.kind != "f":
                raise ValueError(
                    f"{name} must be of {dtype} as the whole collection, got "
                    f"{leaf.dtype}"
                )
        elif dtype.kind != "f" and self.functions.dtype == np.float32 and leaf.size:
            check_int32(name, int(leaf.min()), int(leaf.max()))
        return leaf.astype(dtype, copy=False)


def equal_parts(n, size):
    """Slices of n rows, as few as possible of at most ``size`` rows, of at most two
    lengths."""
    ends = np.linspace(0, n, -(-n // size) + 1).astype(int).tolist()
    return list(map(slice, ends[:-1], ends[1:]))


def in_type(leaves, dtype):
    """Arrays of which floats are converted to a float type."""
    return tuple(
        leaf.astype(dtype, copy=False) if leaf.dtype.kind == "f" else leaf
        for leaf in leaves
    )


def check_int32(name, low, high):
    """Raise a ValueError for integers beyond those that JAX has in runs in float32."""
    if not RANGE_OF_INT32.min <= low <= high <= RANGE_OF_INT32.max:
        raise ValueError(
            f"{name} must be within the range of int32 where x0 is float32, got up to "
            f"{high}"
        )


def lazy_leaf(name, leaf):
    """A dask collection of numbers."""
    shape, dtype = kind_of_row(leaf)
    if dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers, got a dask collection of {dtype}")
    if not leaf.ndim or any(np.isnan(size) for size in shape):
        raise ValueError(
            f"{name} must have an axis of rows, and other axes of known lengths, got "
            f"shape {leaf.shape}"
        )
    return leaf


def kind_of_row(leaf):
    """The shape and the type of a row."""
    array = as_array(leaf._meta) if is_dask(leaf) else leaf
    return tuple(leaf.shape[1:]), array.dtype
