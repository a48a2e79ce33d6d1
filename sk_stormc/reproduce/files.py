"""A user's files: what the readers of returns and of points share, and where results go."""

import argparse
import zipfile
import zlib
from pathlib import Path

import numpy as np

__all__ = ["describe", "directory", "read_array", "read_arrays", "read_as", "read_frame"]


def read_as(path, readers):
    """The path of a file, and what the reader for its suffix, such as ".npz", makes of it."""
    path = Path(path)
    if path.suffix.lower() not in readers:
        *others, last = readers
        raise ValueError(f"{path}: expected a file named {', '.join(others)} or {last}")
    if not path.is_file():
        raise FileNotFoundError(f"No such file: {path}. A path begins where the command is run, or with /")
    return path, readers[path.suffix.lower()](path)


def read_arrays(path):
    """The arrays of a .npz file, by name; a ValueError where it is none."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: expected a .npz file of numpy arrays ({error})") from error
    except (MemoryError, OverflowError) as error:
        raise _too_large(path, error) from None


def read_array(path):
    """The array of a .npy file; a ValueError where it is none."""
    try:
        found = np.load(path)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: expected a .npy file of a numpy array ({error})") from error
    except (MemoryError, OverflowError) as error:
        raise _too_large(path, error) from None
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{path}: expected a .npy file of a numpy array, found a .npz archive")
    return found


def _too_large(path, error):
    """What to say where memory is lacking: mostly the file's header is wrong, since the file itself is there."""
    size = path.stat().st_size
    return ValueError(
        f"{path}: expected arrays that fit in memory ({error}); the file has {size:,} bytes, so that its header is "
        "wrong if it says more than they can hold"
    )


def read_frame(path):
    """What pandas reads from a file of its formats; a ValueError where it cannot."""
    try:
        import pandas
    except ImportError as error:
        raise ValueError(
            f"{path}: reading {path.suffix} needs pandas, which is not installed; without it a .csv, .npz or .npy file "
            "is expected"
        ) from error
    readers = {".parquet": pandas.read_parquet, ".feather": pandas.read_feather}
    try:
        return readers.get(path.suffix.lower(), pandas.read_excel)(path)
    except OSError:
        raise
    except Exception as error:  # of the many packages that pandas calls
        raise ValueError(f"{path}: pandas cannot read it ({' '.join(str(error).split())})") from error


def describe(arrays):
    """Names and shapes, for an error."""
    return ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"


def directory(text):
    """The type of an argument: a directory, or a new one in an existing one. This is found out before the runs."""
    path = Path(text)
    if not text or not (path.is_dir() or (not path.exists() and path.parent.is_dir())):
        raise argparse.ArgumentTypeError(f"expected a directory, or a new one in an existing one, got {text!r}")
    return path
