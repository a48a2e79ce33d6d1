"""Files that are written as a whole or not at all."""

import glob
import os
import re
import secrets
import shutil
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}


@contextmanager
def atomically(path):
    """Open a temporary binary file, which is renamed to ``path`` once all of it is on
    the disk.

    A link stays a link, and the file to which it points is replaced. A stream, such as
    a named pipe, gets the bytes when all of them are known. Temporary files of the same
    path from killed processes are removed. An OSError names ``path``.
    """
    named = os.fspath(path)
    write = _stream if is_stream(path) else _replacement
    try:
        with write(Path(os.path.realpath(path)), Path(path)) as file:
            yield file
    except OSError as error:
        # a full disk has no name, and nobody knows that of the temporary file
        if error.filename is None or str(error.filename).endswith(".part"):
            error.filename = named
        raise


def is_stream(path):
    """Whether a path is a pipe or a device, which holds no bytes that can be
    replaced."""
    path = Path(path)
    inherited = path.as_posix().startswith(("/dev/", "/proc/"))
    return inherited or (path.exists() and not (path.is_file() or path.is_dir()))


def descriptor(path):
    """The number of an open file of this process that a path names, or None."""
    name = Path(path).as_posix()
    number = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", name)
    return int(number[1]) if number else STANDARD.get(name)


@contextmanager
def _stream(_, path):
    """A temporary file whose content is then appended to a stream."""
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        number = descriptor(path)
        # an open file goes on where it is, which may be in the middle of a log
        target = path if number is None else os.dup(number)
        with open(target, "wb") as stream:
            shutil.copyfileobj(file, stream)


@contextmanager
def _replacement(path, _):
    """A temporary file that then replaces a file."""
    _remove_remains(path)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        # with the permissions that a new file has, or those of the old one
        with open(temporary, "xb") as file:
            # some file systems have no locks; no temporary file is then removed
            with suppress(OSError):
                _lock(file)
            if path.exists():
                shutil.copymode(path, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
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
