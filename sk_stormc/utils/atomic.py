"""Files that are written as a whole or not at all."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

__all__ = ["atomically"]


@contextmanager
def atomically(path):
    """Open a temporary binary file, which gets its name when all of it is on the disk.

    Parameters
    ----------
    path : path-like
        What is there stays as it is if anything fails.

    Yields
    ------
    file object
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(folder):
    """Write a new name to the disk, if the system can (Windows cannot open folders)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
