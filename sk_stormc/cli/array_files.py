"""Readers of .npz and .npy files."""

import zipfile
import zlib

import numpy as np

ARRAYS = (".npz", ".npy")
BROKEN = zipfile.BadZipFile, zlib.error


def refuse_columns(path, options):
    """Raise a ValueError if an option names a column, and the file has only arrays."""
    named = {"index": options.index, "label": options.label, "drop": options.drop}
    for option, value in named.items():
        if value:
            raise ValueError(
                f"{path}: --{option} needs a table with names of columns, found arrays"
            )


def read_arrays(path):
    """The arrays of a .npz file, or the array of a .npy file under the name "array"."""
    try:
        loaded = np.load(path)
        if isinstance(loaded, np.ndarray):
            return {"array": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, MemoryError, OverflowError, *BROKEN) as error:
        raise ValueError(
            f"{path}: expected numpy arrays that fit in memory ({error})"
        ) from error


def matrix_of(path, arrays, preferred):
    """Name and values of the first array with a preferred name, or of the only
    two-dimensional array."""
    names = [name for name in preferred if name in arrays][:1]
    names = names or [name for name, array in arrays.items() if array.ndim == 2]
    if len(names) != 1:
        raise ValueError(
            f"{path}: expected an array {preferred[0]!r} or one two-dimensional "
            f"array, found {described(arrays)}"
        )
    array = arrays[names[0]]
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iufb":
        raise ValueError(
            f"{path}: expected {names[0]!r} to hold real numbers in two dimensions, "
            f"found {array.dtype} of shape {array.shape}"
        )
    return names[0], array.astype(float)


def described(arrays):
    shapes = [f"{name} {array.shape}" for name, array in arrays.items()]
    return ", ".join(shapes) or "nothing"
