"""Readers of .npz and .npy files."""

import zipfile
import zlib
from contextlib import contextmanager

import numpy as np
from numpy.lib import format as npy

BROKEN = EOFError, MemoryError, OverflowError, zipfile.BadZipFile, zlib.error
ONLY = "array"  # the name of the array of a .npy file


def read_matrix(path, preferred, beside=None):
    """Read the first array with a preferred name, or the only two-dimensional array.

    Return its name, its values as floats, and the array named ``beside``, or None. No
    other array of the file is read.
    """
    shapes = _shapes(path)
    names = [name for name in preferred if name in shapes][:1]
    names = names or [name for name, shape in shapes.items() if len(shape) == 2]
    found = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
    if len(names) != 1:
        raise ValueError(
            f"{path}: expected an array {preferred[0]!r} or one two-dimensional "
            f"array, found {found}"
        )
    array = _read(path, names[0])
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iufb":
        raise ValueError(
            f"{path}: expected {names[0]!r} to hold real numbers in two dimensions, "
            f"found {array.dtype} of shape {array.shape}"
        )
    if beside not in shapes:
        return names[0], array.astype(float, copy=False), None
    if shapes[beside] != (len(array),):
        raise ValueError(
            f"{path}: expected {beside} of shape ({len(array)},), found {found}"
        )
    return names[0], array.astype(float, copy=False), _read(path, beside)


def _shapes(path):
    """The shapes of the arrays of a file, from their headers."""
    with _readable(path):
        loaded = np.load(path.source(), mmap_mode=None if path.content else "r")
        if isinstance(loaded, np.ndarray):
            return {ONLY: loaded.shape}
        shapes = {}
        with loaded:
            for member in loaded.zip.namelist():
                with loaded.zip.open(member) as file:
                    newer = npy.read_magic(file) > (1, 0)
                    read = npy.read_array_header_2_0 if newer else None
                    shape, *_ = (read or npy.read_array_header_1_0)(file)
                shapes[member.removesuffix(".npy")] = shape
        return shapes


def _read(path, name):
    """An array of a file. Objects are not read, since that would execute code."""
    with _readable(path):
        loaded = np.load(path.source(), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return loaded[name]


@contextmanager
def _readable(path):
    """Whatever numpy raises for a file becomes a ValueError with its path."""
    try:
        yield
    except (ValueError, *BROKEN) as error:
        raise ValueError(
            f"{path}: expected numpy arrays that fit in memory ({error})"
        ) from error
