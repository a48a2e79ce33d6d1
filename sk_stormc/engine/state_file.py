"""Runs in files: arrays, and JSON that says what they are. Reading a file executes none of its content.

Format 2 is a zip archive, stored and not compressed, which `numpy.load` opens too. Its member "run.json" has the
format's number, the version that wrote it, dtype and shape of each array, and a tree of what was kept. The members
"array_0.npy", ... are the arrays. The archive's comment, its last 64 bytes, is a digest of all bytes before.

A node of the tree is a plain value, or an object with one key, the kind: "array", "object", "known" for what came
before, and the other kinds of `_Reader`. Objects are of classes that derive from `Kept`, and no name in a file imports
anything. Each node is checked before anything is made of it.
"""

import hashlib
import io
import json
import math
import os
import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from sk_stormc.utils.atomic import atomically
from sk_stormc.utils.kept import Kept, Missing, check_field, declared, kept_class, kept_name
from sk_stormc.utils.validation import short

__all__ = ["fill", "has_missing", "read", "write"]

FORMAT = 2
DEEPEST = 50  # nodes within nodes; those of a run are below 20
DIGEST = 64  # letters
PLAIN = (type(None), bool, int, float, str)
KINDS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
DTYPES = {np.dtype(name).str: np.dtype(name) for name in KINDS.split()}

# what the states of generators are: an int is a bound
PCG64 = {"bit_generator": "PCG64", "state": {"state": 2**128, "inc": 2**128}, "has_uint32": 2, "uinteger": 2**32}
KEY = (np.dtype(np.uint32), (624,))
MT19937 = {"bit_generator": "MT19937", "state": {"key": KEY, "pos": 625}, "has_gauss": 2, "gauss": float}


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
            raise ValueError(f"it must have a {kind.__name__}, got {short(value)}")
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} must be a whole file that a Checkpoint wrote: {error}") from error
    return value


def packed(value):
    """A file's bytes."""
    from sk_stormc import __version__

    writer = _Writer()
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
    _check_keys("run.json", found, {"format", "version", "arrays", "tree"})
    if not isinstance(found["arrays"], list) or set(members) != {f"array_{k}.npy" for k in range(len(found["arrays"]))}:
        raise ValueError(f"its arrays must be those that run.json lists, got {short(sorted(members))}")
    arrays = [_array(members[f"array_{k}.npy"], entry) for k, entry in enumerate(found["arrays"])]
    return _Reader(arrays).value(found["tree"])


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
    size = 2 if member[6:7] == b"\1" else 4  # bytes that say how long the header is
    data = member[8 + size + int.from_bytes(member[8 : 8 + size], "little") :]
    if member[:6] != b"\x93NUMPY" or len(data) != DTYPES[dtype].itemsize * math.prod(shape):
        raise ValueError(f"an array of {dtype} must have shape {short(tuple(shape))}, got {len(data)} bytes")
    return np.ndarray(shape, DTYPES[dtype], data, order=order).copy(order="K")


def _check_keys(name, found, keys):
    if not isinstance(found, dict) or found.keys() != set(keys):
        raise ValueError(f"{name} must have {sorted(keys)}, got {short(found)}")


def _is_formed(state, form):
    """Whether a generator's state is of such a form."""
    if isinstance(form, dict):
        same = isinstance(state, dict) and state.keys() == form.keys()
        return same and all(_is_formed(state[name], part) for name, part in form.items())
    if isinstance(form, int):
        return type(state) is int and 0 <= state < form
    if form is KEY:
        return isinstance(state, np.ndarray) and (state.dtype, state.shape) == KEY
    return isinstance(state, float) if form is float else state == form


def _check_generator(state, form):
    if not _is_formed(state, form):
        raise ValueError(f"a file must have the generator {form['bit_generator']} here, got {short(state)}")
    return state


def _is_key(value):
    """Whether the value may be a key of a dictionary: plain, or a tuple of what is."""
    parts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(part, PLAIN) for part in parts)


class _Writer:
    """Makes the tree of a value, and collects its arrays."""

    def __init__(self):
        self.arrays, self.known = [], {}

    def node(self, value):
        """A node."""
        if type(value) in PLAIN:
            return value
        if id(value) in self.known:  # what was one object stays one
            return {"known": self.known[id(value)][0]}
        node = self._make(value)
        self.known[id(value)] = len(self.known), value  # the value is held, or its id might come again
        return node

    def _make(self, value):
        if isinstance(value, Kept):
            return {"object": self._object(value)}
        if isinstance(value, (np.ndarray, np.generic)):
            return {"scalar" if isinstance(value, np.generic) else "array": self._array(np.asarray(value))}
        if sparse.issparse(value):
            rows = value.tocsr()
            return {"sparse": [*(self.node(part) for part in (rows.data, rows.indices, rows.indptr)), *rows.shape]}
        if type(value) in (list, tuple):
            return {type(value).__name__: [self.node(part) for part in value]}
        if type(value) is dict:
            if not all(map(_is_key, value)):
                raise ValueError(f"a file must have plain keys or tuples of them, got {short(list(value))}")
            return {"dict": [[self.node(key), self.node(part)] for key, part in value.items()]}
        if isinstance(value, np.random.Generator):
            return {"generator": self.node(_check_generator(value.bit_generator.state, PCG64))}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.node(_check_generator(value.get_state(legacy=False), MT19937))}
        if callable(value):
            return {"callable": getattr(value, "__qualname__", type(value).__name__)}
        raise ValueError(
            f"a file cannot have a {type(value).__name__}: its class must be a dataclass that derives from "
            "sk_stormc.utils.kept.Kept"
        )

    def _array(self, array):
        if array.dtype.str not in DTYPES:
            raise ValueError(f"a file must have arrays of numbers, got {array.dtype} of shape {array.shape}")
        self.arrays.append(array)
        return len(self.arrays) - 1

    def _object(self, value):
        cls = type(value)
        if kept_class(kept_name(cls)) is not cls:
            raise ValueError(f"a file cannot have a {cls.__name__}: another class of this name was defined since")
        names = declared(cls)
        extra = getattr(value, "__dict__", {}).keys() - names.keys()
        if extra:
            raise ValueError(f"{cls.__name__} must declare what it has as fields of a dataclass, got {sorted(extra)}")
        found = {name: getattr(value, name) for name in names}
        for name, part in found.items():
            check_field(cls, name, part)
        return [kept_name(cls), {name: self.node(part) for name, part in found.items()}]


class _Reader:
    """Makes the value of a tree. A method for each kind of node checks what it has, and makes it."""

    def __init__(self, arrays):
        self.arrays, self.known, self.depth = arrays, [], 0

    def value(self, node):
        """A node's value."""
        if isinstance(node, PLAIN):
            if type(node) is int and abs(node) >= 2**128:
                raise ValueError("it has an integer of more than 128 bits")
            return node
        if not isinstance(node, dict) or len(node) != 1:
            raise ValueError(f"a node must be a plain value or have one kind, got {short(node)}")
        ((kind, content),) = node.items()
        if kind == "known":
            return self.known[_index(content, len(self.known))]
        if kind not in self.KINDS:
            raise ValueError(f"a node must be one of {', '.join(self.KINDS)}, got {short(kind)}")
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        value = self.KINDS[kind](self, content)
        self.depth -= 1
        self.known.append(value)
        return value

    def _array(self, content):
        return self.arrays[_index(content, len(self.arrays))]

    def _scalar(self, content):
        array = self._array(content)
        if array.shape:
            raise ValueError(f"a scalar must have shape (), got {array.shape}")
        return array[()]

    def _list(self, content):
        if not isinstance(content, list):
            raise ValueError(f"a list or tuple must have a list, got {short(content)}")
        return [self.value(part) for part in content]

    def _tuple(self, content):
        return tuple(self._list(content))

    def _dict(self, content):
        if not isinstance(content, list) or not all(isinstance(p, list) and len(p) == 2 for p in content):
            raise ValueError(f"a dict must have a list of pairs, got {short(content)}")
        found = {}
        for key, part in content:
            key = self.value(key)
            if not _is_key(key) or key in found:
                raise ValueError(f"a dict must have plain keys, each once, got {short(key)}")
            found[key] = self.value(part)
        return found

    def _sparse(self, content):
        if not isinstance(content, list) or len(content) != 5 or not all(type(n) is int for n in content[3:]):
            raise ValueError(f"a sparse array must have data, indices, indptr and a shape, got {short(content)}")
        data, indices, indptr = (self.value(part) for part in content[:3])
        whole = all(isinstance(part, np.ndarray) and part.ndim == 1 for part in (data, indices, indptr))
        if not whole or {indices.dtype.kind, indptr.dtype.kind} != {"i"} or min(content[3:]) < 0:
            raise ValueError("a sparse array must have vectors of data and integers, and a shape")
        found = sparse.csr_array((data, indices, indptr), shape=tuple(content[3:]))
        found.check_format(full_check=True)
        return found

    def _generator(self, content):
        generator = np.random.Generator(np.random.PCG64(0))
        generator.bit_generator.state = _check_generator(self.value(content), PCG64)
        return generator

    def _random_state(self, content):
        generator = np.random.RandomState(0)
        generator.set_state(_check_generator(self.value(content), MT19937))
        return generator

    def _callable(self, content):
        if not isinstance(content, str):
            raise ValueError(f"a callable must have a name, got {short(content)}")
        return Missing(content)

    def _object(self, content):
        if not isinstance(content, list) or len(content) != 2 or not isinstance(content[0], str):
            raise ValueError(f"an object must have a class and fields, got {short(content)}")
        name, found = content
        cls = kept_class(name)
        if cls is None:
            raise ValueError(f"its objects must be of classes that are kept in files and imported here, got {name!r}")
        _check_keys(f"a {cls.__name__}", found, declared(cls))
        value = object.__new__(cls)
        for field, part in found.items():
            part = self.value(part)
            check_field(cls, field, part)
            object.__setattr__(value, field, part)  # some are frozen
        return value

    KINDS = {
        "array": _array,
        "scalar": _scalar,
        "sparse": _sparse,
        "list": _list,
        "tuple": _tuple,
        "dict": _dict,
        "generator": _generator,
        "random_state": _random_state,
        "callable": _callable,
        "object": _object,
    }


def _index(k, n):
    if type(k) is not int or not 0 <= k < n:
        raise ValueError(f"a node must point to one of the {n} before it, got {short(k)}")
    return k


# callables


def has_missing(value, seen=None):
    """Whether callables are missing in an object or a tuple."""
    seen = set() if seen is None else seen
    if isinstance(value, Missing):
        return True
    if id(value) in seen or not isinstance(value, (tuple, Kept)):
        return False
    seen.add(id(value))
    return any(has_missing(part, seen) for part in _parts(value))


def fill(value, like, done=None):
    """Put callables of ``like``, an object of the same shape, where some are missing.

    Raises
    ------
    ValueError
        If ``like`` has none there.
    """
    done = {} if done is None else done
    if isinstance(value, Missing):
        if not callable(like):
            raise ValueError(f"the solver must have the callable {value.name!r}, as the run in the file had")
        return like
    if not isinstance(value, (tuple, Kept)):
        return value
    if id(value) not in done:
        done[id(value)] = value, value
        if isinstance(value, tuple):
            like = like if isinstance(like, tuple) and len(like) == len(value) else [None] * len(value)
            done[id(value)] = value, tuple(fill(p, other, done) for p, other in zip(value, like, strict=True))
        else:
            for name in declared(type(value)):
                object.__setattr__(value, name, fill(getattr(value, name), getattr(like, name, None), done))
    return done[id(value)][1]


def _parts(value):
    return value if isinstance(value, tuple) else [getattr(value, name) for name in declared(type(value))]
