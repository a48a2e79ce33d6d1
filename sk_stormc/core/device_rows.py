"""The rows of a problem for JAX, and where they lie: in arrays on devices, each once,
or in blocks in memory, in files and on the workers of a cluster."""

import numpy as np

from sk_stormc.core.block_rows import (
    RowsInBlocks,
    check_int32,
    in_type,
    kind_of_row,
    lazy_leaf,
)
from sk_stormc.core.pytrees import (
    fill,
    flatten,
    import_jax,
    is_floating,
    is_real,
    precision,
    with_numpy_floats,
)
from sk_stormc.utils.arrays import as_numbers, check_all_finite
from sk_stormc.utils.blocks import MappedRows, is_dask
from sk_stormc.utils.frames import check_same_labels, row_labels
from sk_stormc.utils.parameters import naming
from sk_stormc.utils.rows import check_numeric


class TreeRows:
    """The rows of a pytree of arrays with a common first axis, or of None, which has
    one row.

    Attributes
    ----------
    n : int
        Number of rows.
    leaves : list of ndarray, jax.Array or dask collection
        An array that ``checked`` has under the id of a leaf is taken from there, and
        others are added to it.
    kinds : list of tuple
        The shape of a row of each leaf, and its type.
    blocks : RowsInBlocks or None
        The rows if a leaf is a dask collection.
    labels : dict
        By the name of a leaf or of weights, the labels of its rows, or None.
    """

    def __init__(self, name, data, dtype, checked):
        self.n, self.leaves, self.kinds, self._template = 1, [], [], None
        self.names, self.blocks, self.labels = [], None, {}
        if data is None:
            return
        leaves, self.names, self._template = flatten(name, data)
        names, lazy = self.names, any(map(is_dask, leaves))
        for part, leaf in zip(names, leaves, strict=True):
            if id(leaf) not in checked:
                checked[id(leaf)] = _checked(part, leaf, dtype)
            self.leaves.append(checked[id(leaf)])
        self.kinds = list(map(kind_of_row, self.leaves))
        self.add_labels(zip(names, leaves, strict=True))
        if lazy:
            with naming(name):
                key = tuple(map(id, self.leaves))  # of both sides, if they are equal
                if key not in checked:
                    checked[key] = RowsInBlocks(names, self.leaves, None, self.labels)
                self.blocks = checked[key]
            self.n = self.blocks.n_rows
            return
        self.n = len(self.leaves[0])
        for part, leaf in zip(names, self.leaves, strict=True):
            if len(leaf) != self.n:
                raise ValueError(
                    f"{name} must have arrays of the same length, got {self.n} rows in "
                    f"{names[0]} and {len(leaf)} in {part}"
                )
        if not self.n:
            raise ValueError(f"{name} must have at least one row, got none")

    def add_labels(self, tables):
        """Keep the labels of tables, by their names. Raises a ValueError if those in
        memory disagree."""
        self.labels |= {name: row_labels(table) for name, table in tables}
        check_same_labels(list(self.labels.items()))

    def without_leaves(self):
        """The structure of the rows, for workers."""
        rows = object.__new__(type(self))
        vars(rows).update(vars(self), leaves=[], blocks=None, labels={})
        return rows

    def some(self, n, dtype):
        """The shapes and types of the leaves of n rows, for tracing."""
        shape_of = import_jax().ShapeDtypeStruct
        return tuple(
            shape_of((n, *shape), dtype if is_floating(kind) else kind)
            for shape, kind in self.kinds
        )

    def in_blocks(self, weights):
        """These rows, and their weights, in blocks."""
        if self.blocks is not None and weights is None:
            return self.blocks
        return RowsInBlocks(self.names, self.leaves, weights, self.labels)

    def one(self, dtype):
        """The shapes and types of the leaves of one row."""
        shape_of = import_jax().ShapeDtypeStruct
        return tuple(
            shape_of(leaf.shape[1:], leaf.dtype) for leaf in self.some(1, dtype)
        )

    def tree(self, leaves):
        """The pytree of the leaves of some rows, or None if there are no data."""
        return fill(self._template, leaves) if leaves else None

    def __getstate__(self):  # a jax.Array would lose float64 where it is read
        leaves = [leaf if is_dask(leaf) else np.asarray(leaf) for leaf in self.leaves]
        return vars(self) | {"leaves": leaves}


def _checked(name, leaf, dtype):
    """A leaf as an array. Arrays of NumPy and JAX are not copied."""
    jax, array = import_jax(), leaf
    if is_dask(leaf):
        return lazy_leaf(name, leaf)
    if type(leaf).__module__.startswith("dask."):  # which NumPy would compute
        raise ValueError(
            f"{name} must be an array, a data frame or a Series of dask, got a "
            f"{type(leaf).__name__}"
        )
    if not isinstance(leaf, jax.Array):
        leaf = with_numpy_floats(leaf)
        check_numeric(name, leaf)
        with naming(name):
            array = np.asanyarray(leaf)  # keeps a memmap
        if array.dtype.kind not in "fiub":
            array = as_numbers(name, leaf)
    elif not is_real(array.dtype):
        raise ValueError(
            f"{name} must be real numbers, got a jax.Array of {array.dtype} (of keys, "
            "give jax.random.key_data)"
        )
    if not array.ndim:
        raise ValueError(f"{name} must have an axis of rows, got the number {array}")
    if is_floating(array.dtype):
        _check_finite(name, array)
    elif dtype == np.float32 and array.size:
        with precision(np.dtype(float)):
            check_int32(name, int(array.min()), int(array.max()))
    return array


def _check_finite(name, array):
    """Raise a ValueError for numbers that are not finite. Of a jax.Array, only one
    number leaves its devices."""
    jax = import_jax()
    if not isinstance(array, jax.Array):
        return check_all_finite(name, MappedRows.of(array))
    with precision(np.dtype(float)):
        if not jax.jit(lambda a: jax.numpy.isfinite(a).all())(array):
            check_all_finite(name, np.asarray(array))


class Placement:
    """Where the rows and their weights lie.

    Attributes
    ----------
    pool : list of jax.Array
        Each array on devices once.
    where : dict
        For each side whose rows are on devices, the positions of its leaves in the
        pool.
    blocks : dict
        For each other side, its `RowsInBlocks` with their weights.
    weight_at : dict
        For each side, the position of its weights in the pool, or None.
    mesh : jax.sharding.Mesh or None
        The mesh of sharded rows.
    axes : dict
        For each side, the axes of the mesh over which its rows are divided.
    host : dict
        For each side, its leaves in memory, from which batches are taken. None if they
        are taken from blocks, or gathered on devices.

    Parameters
    ----------
    rows, weights : dict
        The rows and the weights of each side.
    dtype : dtype
        The float type of the copies on devices.
    limit : int
        Number of bytes up to which arrays in memory and in files are copied to devices.
    """

    def __init__(self, rows, weights, dtype, limit):
        self.pool, self._positions, self._dtype = [], {}, dtype
        self._devices_of([leaf for side in rows.values() for leaf in side.leaves])
        jax = import_jax()
        first = set(jax.devices()[:1])
        self.on_cpu = all(device.platform == "cpu" for device in self._devices or first)
        self.where, self.weight_at, self.host, self.axes = {}, {}, {}, {}
        self.blocks, left = {}, limit
        for side, given in rows.items():
            self.axes[side] = axes = self._axes_of(given)
            size = self._size_of_new(given, axes)
            on_devices = any(isinstance(leaf, jax.Array) for leaf in given.leaves)
            self.host[side] = None
            if given.blocks is not None or (size > max(left, 0) and not on_devices):
                self.blocks[side] = given.in_blocks(weights[side])
                continue
            left -= size
            self.where[side] = [self._put(leaf, axes) for leaf in given.leaves]
            self.weight_at[side] = (
                None if weights[side] is None else self._put(weights[side], axes)
            )
            if self.on_cpu and self._devices <= first:  # without a copy
                self.host[side] = [np.asarray(self.pool[k]) for k in self.where[side]]

    def take(self, side, draws):
        """The leaves of some rows in memory. Draws are indices, a slice, or the leaves
        themselves."""
        if isinstance(draws, tuple):
            return draws
        if side in self.blocks:
            parts = self.blocks[side].take(draws)
        elif isinstance(draws, slice):
            parts = [leaf[draws] for leaf in self.host[side]]
        else:
            parts = [leaf.take(draws, 0) for leaf in self.host[side]]
        return in_type(parts, self._dtype)

    def takes(self, side):
        """Whether batches are taken in memory, and not gathered on devices."""
        return side in self.blocks or self.host[side] is not None

    def _size_of_new(self, rows, axes):
        """The bytes of the leaves that are not of JAX and not yet on devices."""
        if rows.blocks is not None:
            return 0
        of_jax = import_jax().Array
        new = {
            id(leaf): leaf
            for leaf in rows.leaves
            if (id(leaf), axes) not in self._positions and not isinstance(leaf, of_jax)
        }.values()
        return sum(
            leaf.size
            * (self._dtype if is_floating(leaf.dtype) else leaf.dtype).itemsize
            for leaf in new
        )

    def _devices_of(self, leaves):
        """The devices, and the mesh if they are several, of the leaves that are
        jax.Arrays."""
        jax = import_jax()
        arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
        several = [
            leaf.sharding for leaf in arrays if len(leaf.sharding.device_set) > 1
        ]
        for sharding in several:
            if not isinstance(sharding, jax.sharding.NamedSharding) or any(
                sharding.spec[1:]
            ):
                raise ValueError(
                    "arrays on several devices must have a NamedSharding that "
                    f"divides only their rows, got {sharding}"
                )
        self.mesh = several[0].mesh if several else None
        self._devices = arrays[0].sharding.device_set if arrays else set()
        for leaf in arrays:
            if leaf.sharding.device_set != self._devices or (
                several and leaf.sharding.mesh != self.mesh
            ):
                raise ValueError(
                    f"arrays must lie on the same devices, got {arrays[0].sharding} "
                    f"and {leaf.sharding}"
                )

    def _axes_of(self, rows):
        """The axes of the mesh over which rows are divided: as they are, or like the
        others if they are in memory."""
        if self.mesh is None:
            return ()
        jax = import_jax()
        axes = [_divided(leaf) for leaf in rows.leaves if isinstance(leaf, jax.Array)]
        if axes or not rows.leaves:
            return max(axes, key=len, default=())
        return () if rows.n % self.mesh.size else tuple(self.mesh.axis_names)

    def _put(self, leaf, axes):
        """The position of a leaf in the pool, into which it is put if it is not
        there."""
        jax, key = import_jax(), (id(leaf), axes)
        if key not in self._positions:
            self._positions[key] = len(self.pool)
            if self._dtype == np.float32 and leaf.dtype.itemsize == 8:
                short = "f4" if is_floating(leaf.dtype) else f"{leaf.dtype.kind}4"
                with precision(np.dtype(float)):
                    leaf = leaf.astype(short)
            elif not isinstance(leaf, jax.Array) and leaf.dtype.kind == "f":
                leaf = leaf.astype(self._dtype, copy=False)
            target = next(iter(self._devices)) if self._devices else None
            if self.mesh is not None:
                target = jax.sharding.NamedSharding(
                    self.mesh, jax.sharding.PartitionSpec(axes or None)
                )
            if not isinstance(leaf, jax.Array) or self.mesh is not None:
                with precision(self._dtype):
                    leaf = jax.device_put(leaf, target)
            self.pool.append(leaf)
        return self._positions[key]


def _divided(array):
    """The axes of a mesh over which the rows of an array are divided."""
    spec = getattr(array.sharding, "spec", ())
    first = spec[0] if len(spec) else None
    return () if first is None else first if isinstance(first, tuple) else (first,)
