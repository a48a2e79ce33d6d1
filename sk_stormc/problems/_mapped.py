"""Rows that stay in their file: of a numpy memmap, read a block or a batch at a time."""

import mmap

import numpy as np

__all__ = ["MappedRows", "blocks"]

BLOCK = 2**24  # bytes read at a time


class MappedRows:
    """The rows of a memmap, mapped anew for every read: a mapping keeps what it has touched in memory.

    Has what is used of an array with two axes: slices and `take` give arrays, ``@`` and `dot` a number for each row.
    """

    ndim = 2

    def __init__(self, filename, dtype, offset, shape):
        self.filename, self.dtype, self.offset, self.shape = filename, dtype, offset, shape

    @classmethod
    def of(cls, X):
        """Those of X, or X itself where it is not a memmap of floats with rows one behind the other."""
        floats = isinstance(X, np.memmap) and X.dtype in (np.float32, np.float64) and X.dtype.isnative
        if not floats or X.ndim != 2 or not X.size or not X.flags.c_contiguous:
            return X
        root = X
        while isinstance(root.base, np.ndarray):
            root = root.base
        if not (isinstance(root, np.memmap) and isinstance(root.base, mmap.mmap)) or root.mode == "c":
            return X
        # of a view, numpy keeps the offset of the whole
        rows = cls(root.filename, X.dtype, root.offset + X.ctypes.data - root.ctypes.data, X.shape)
        try:
            rows._open()
        except (OSError, TypeError, ValueError):  # the file has gone or changed or has no name, the mapping is there
            return X
        return rows

    def _open(self):
        with open(self.filename, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self.dtype, self.size, self.offset).reshape(self.shape)

    def __len__(self):
        return self.shape[0]

    @property
    def size(self):
        """Number of entries."""
        return self.shape[0] * self.shape[1]

    def __getitem__(self, rows):
        """Some rows, as an array."""
        return np.array(self._open()[rows])

    def take(self, rows, axis=0, mode="clip"):
        """Rows by number, as an array."""
        return self._open().take(rows, axis, mode=mode)

    def dot(self, x):
        """self @ x."""
        return np.concatenate([block @ x for _, block in blocks(self)])

    __matmul__ = dot


def blocks(rows, whole=True):
    """Blocks of rows with the number of their first: all at once where they are in memory, unless not ``whole``."""
    if whole and not isinstance(rows, MappedRows):
        yield 0, rows
        return
    size = max(1, BLOCK // (rows.dtype.itemsize * rows.shape[1]))
    for i in range(0, len(rows), size):
        yield i, rows[i : i + size]
