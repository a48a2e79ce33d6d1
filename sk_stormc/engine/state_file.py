"""Runs in files: arrays, and JSON that describes them. Reading a file executes no code.

Format 3 is an uncompressed zip archive, which `numpy.load` opens too. Its member "run.json" has the number of the
format, the version that wrote it, dtype and shape of each array, and a tree of the saved objects (`state_tree`). The
members "array_0.npy", ... are the arrays. The archive's comment, its last 64 bytes, is a digest of all other bytes.
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

FORMAT = 3
DIGEST = 64  # length of the digest in bytes


def write(path, value):
    """Write a file atomically."""
    content = packed(value)
    with atomically(path) as file:
        file.write(content)


def read(path, kind):
    """Read a file of `write`."""
    content = Path(path).read_bytes()
    try:
        value = unpacked(content)
        if not isinstance(value, kind):
            raise ValueError(f"it must have a {kind.__name__}, got {in_short(value)}")
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} must be a whole file that a Checkpoint wrote: {error}") from error
    return value


def packed(value):
    """The bytes of a file for a value."""
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
    """The value of a file's bytes. A ValueError if `packed` has not made them."""
    if content[-DIGEST:] != _digest(content[:-DIGEST]):
        if content[30:38] == b"json.npy":
            raise ValueError(f"it has format 1, of version 0.2.0, and this version reads format {FORMAT}: fit anew")
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
    """ "F" if numpy's format stores the array by columns, and otherwise "C"."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _members(content):
    """The bytes of an archive's members by name. Their total size must not exceed that of the archive."""
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
    except Exception as error:  # BadZipFile, struct.error, NotImplementedError, OverflowError and others
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
    """The array that an entry describes. The member's header, which is for numpy.load, is skipped."""
    if not isinstance(entry, list) or len(entry) != 3:
        raise ValueError(f"an array must be described by dtype, shape and order, got {short(entry)}")
    dtype, shape, order = entry
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"an array must have one of the dtypes {sorted(DTYPES)}, got {short(dtype)}")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise ValueError(f"an array must have a shape of integers >= 0, got {short(shape)}")
    if order not in ("C", "F"):
        raise ValueError(f"an array must have order 'C' or 'F', got {short(order)}")
    header = 10 + int.from_bytes(member[8:10], "little")  # header of version 1.0, which arrays of numbers have
    data = member[header:]
    if member[:8] != b"\x93NUMPY\1\0" or len(data) != DTYPES[dtype].itemsize * math.prod(shape):
        raise ValueError(f"an array of {dtype} must have shape {short(tuple(shape))}, got {len(data)} bytes")
    return np.ndarray(shape, DTYPES[dtype], data, order=order).copy(order="K")
