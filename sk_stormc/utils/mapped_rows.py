"""Rows of a numpy memmap, which are read from its file a block or a batch at a time."""

import mmap
import os

import numpy as np

from sk_stormc.utils.machine import BLOCK_BYTES


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
        # the file was deleted or changed or has no name, but the mapping is valid
        except (OSError, TypeError):
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
