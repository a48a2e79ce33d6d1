"""Files that are written as a whole or not at all."""

import glob
import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows, which does not remove a file that is open

    LOCK_EX = LOCK_NB = 0

    def flock(file, operation):
        """Do nothing."""


__all__ = ["atomically"]


@contextmanager
def atomically(path):
    """Open a temporary binary file, which gets its name when all of it is on the disk.

    Temporary files of the same path that a killed process has left behind are removed.

    Parameters
    ----------
    path : path-like
        What is there stays as it is if anything fails.

    Yields
    ------
    file object
    """
    path = Path(path)
    _remove_remains(path)
    handle, temporary = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):  # some file systems have no locks, and nothing is then taken for remains
                flock(file, LOCK_EX | LOCK_NB)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _remove_remains(path):
    """Remove the temporary files of a path that no process holds a lock of."""
    for remains in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        with suppress(OSError), open(remains, "rb") as file:
            flock(file, LOCK_EX | LOCK_NB)
            remains.unlink()


def _sync(folder):
    """Write a new name to the disk, if the system can (Windows cannot open folders)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
