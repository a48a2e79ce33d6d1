"""Files that are written as a whole or not at all."""

import glob
import os
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["atomically"]


@contextmanager
def atomically(path):
    """Open a temporary binary file, which is renamed to ``path`` once all of it is on
    the disk.

    Temporary files of the same path from killed processes are removed.
    """
    path = Path(path)
    _remove_remains(path)
    handle, temporary = tempfile.mkstemp(
        prefix=f"{path.name}.", suffix=".part", dir=path.parent
    )
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(
                OSError
            ):  # some file systems have no locks; no temporary file is then removed
                _lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _remove_remains(path):
    """Remove the temporary files of a path on which no process holds a lock."""
    for remains in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        with suppress(OSError):
            with open(remains, "rb") as file:
                _lock(file)
            remains.unlink()


def _lock(file):
    """Lock a file, or raise an OSError. Windows needs no locks, because it does not
    remove a file that is open."""
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync(folder):
    """Write a new name to the disk, if the system can (Windows cannot open folders)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
