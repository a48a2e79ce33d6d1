"""Runs in files: arrays, and JSON that says what they are. Reading a file executes none of its content.

Format 2 is a zip archive, stored and not compressed, which `numpy.load` opens too. Its member "run.json" has the
format's number, the version that wrote it, dtype and shape of each array, and a tree of what was kept (`state_tree`).
The members "array_0.npy", ... are the arrays. The archive's comment, its last 64 bytes, is a digest of all the others.
"""

import hashlib
import io
import json
import math
import os
import zipfile
from pathlib import Path

import numpy as np

from sk_stormc.engine.state_tree import DTYPES, Reader, Writer, check_keys
from sk_stormc.utils.atomic import atomically
from sk_stormc.utils.kept import in_short
from sk_stormc.utils.validation import short

__all__ = ["read", "write"]

FORMAT = 2
DIGEST = 64  # letters


def write(path, value):
    """Write a file as a whole or not at all.

    Parameters
    ----------
    path : path-like
    value : object
        Numbers, strings, containers, arrays, generators and objects of classes that derive from
        `sk_stormc.utils.kept.Kept`. Of other callables the name is written.

    Raises
    ------
    ValueError
        For what cannot be in a file.
    """
    content = packed(value)
    with atomically(path) as file:
        file.write(content)


def read(path, kind):
    """What `write` has written.

    Parameters
    ----------
    path : path-like
    kind : type
        Of the object that the file must have.

    Returns
    -------
    object
        With `Missing` where it had callables.

    Raises
    ------
    ValueError
        For any file that `write` has not written, or that was changed since, in whatever way.
    """
    content = Path(path).read_bytes()
    try:
        value = unpacked(content)
        if not isinstance(value, kind):
            raise ValueError(f"it must have a {kind.__name__}, got {in_short(value)}")
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} must be a whole file that a Checkpoint wrote: {error}") from error
    return value


def packed(value):
    """A file's bytes."""
    from sk_stormc import __version__

    writer = Writer()
    tree = writer.node(value)
    arrays = [[a.dtype.str, list(a.shape), _order(a)] for a in writer.arrays]
    text = json.dumps({"format": FORMAT, "version": __version__, "arrays": arrays, "tree": tree})
    return archived(text, writer.arrays)


def archived(text, arrays):
    """JSON and arrays as an archive, with its digest."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = b"0" * DIGEST
        archive.writestr(zipfile.ZipInfo("run.json"), text)
        for k, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"array_{k}.npy"), "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    content = file.getvalue()[:-DIGEST]
    return content + _digest(content)


def unpacked(content):
    """What a file's bytes say; a ValueError where they are not as `packed` makes them."""
    if content[-DIGEST:] != _digest(content[:-DIGEST]):
        if content[30:38] == b"json.npy":
            raise ValueError("it has format 1, of version 0.2.0, and this version reads format 2: fit anew")
        raise ValueError("its digest is not that of its content, which is damaged, was changed, or is something else")
    members = _members(content)
    found = _parsed(members.pop("run.json", b""))
    if not isinstance(found, dict) or type(found.get("format")) is not int:
        raise ValueError("it must have the number of its format")
    if found["format"] != FORMAT:
        written = short(found.get("version"))
        raise ValueError(f"it has format {found['format']}, of version {written}; this version reads format {FORMAT}")
    check_keys("run.json", found, {"format", "version", "arrays", "tree"})
    if not isinstance(found["arrays"], list) or set(members) != {f"array_{k}.npy" for k in range(len(found["arrays"]))}:
        raise ValueError(f"its arrays must be those that run.json lists, got {short(sorted(members))}")
    arrays = [_array(members[f"array_{k}.npy"], entry) for k, entry in enumerate(found["arrays"])]
    return Reader(arrays).value(found["tree"])


def _digest(content):
    return hashlib.blake2b(content, digest_size=DIGEST // 2).hexdigest().encode()


def _order(array):
    """ "F" where numpy's format has the columns one behind the other."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _members(content):
    """By name the bytes of an archive's members, which together are not more than the archive's."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if len({entry.filename for entry in entries}) < len(entries):
                raise ValueError("it has two members of one name")
            if sum(entry.file_size for entry in entries) > len(content):
                raise ValueError("its members claim to be larger than the file")
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError("its members must not be compressed")
            return {entry.filename: archive.read(entry) for entry in entries}
    except ValueError:
        raise
    except Exception as error:  # of a dozen kinds: BadZipFile, struct.error, NotImplementedError, OverflowError, ...
        raise ValueError(f"it is no zip archive that can be read: {error}") from error


def _parsed(text):
    def pairs(items):
        found = dict(items)
        if len(found) < len(items):
            raise ValueError(f"run.json has a key twice, among {short([key for key, _ in items])}")
        return found

    try:
        return json.loads(text, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError("run.json is nested too deeply") from None


def _array(member, entry):
    """An array as its entry describes it; the header of the member, which is for numpy.load, is skipped."""
    if not isinstance(entry, list) or len(entry) != 3:
        raise ValueError(f"an array must be described by dtype, shape and order, got {short(entry)}")
    dtype, shape, order = entry
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"an array must have one of the dtypes {sorted(DTYPES)}, got {short(dtype)}")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise ValueError(f"an array must have a shape of integers >= 0, got {short(shape)}")
    if order not in ("C", "F"):
        raise ValueError(f"an array must have order 'C' or 'F', got {short(order)}")
    header = 10 + int.from_bytes(member[8:10], "little")  # of version 1.0, which arrays of numbers have
    data = member[header:]
    if member[:8] != b"\x93NUMPY\1\0" or len(data) != DTYPES[dtype].itemsize * math.prod(shape):
        raise ValueError(f"an array of {dtype} must have shape {short(tuple(shape))}, got {len(data)} bytes")
    return np.ndarray(shape, DTYPES[dtype], data, order=order).copy(order="K")
