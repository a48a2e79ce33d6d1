"""Checkpoint files: arrays, and a header in JSON that describes the objects that
contain them.

A file is an ``.npz`` archive that `numpy.load` opens, followed by a digest of all its
bytes. Its array "header" contains the number of the format, the version that wrote it,
and a tree of the saved objects. A node of the tree is a plain value, or a list of its
kind and its content. Objects are dataclasses, for which the header contains the module
and the name of the class, and the fields. Reading a file imports nothing and calls
nothing that it names.
"""

import hashlib
import io
import json
import os
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from sk_stormc.utils.atomic import atomically
from sk_stormc.utils.descriptions import UNKNOWN, describe

FILE_FORMAT = 5  # files of another one cannot be read
DIGEST_BYTES = 32  # at the end of a file
PLAIN = (type(None), bool, int, float, str)


def write(path, value):
    """Write a value to a file, atomically."""
    from sk_stormc import __version__

    writer = NodeWriter()
    header = {
        "format": FILE_FORMAT,
        "version": __version__,
        "value": writer.node(value),
    }
    archive = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(
        archive, header=text, **{f"array_{k}": a for k, a in enumerate(writer.arrays)}
    )
    content = archive.getvalue()
    with atomically(path) as file:
        file.write(content + _digest(content))


def read(path, kind, functions=()):
    """Read the object of class ``kind`` from a file. ``functions`` are the functions
    that its parameters may name."""
    content, name = Path(path).read_bytes(), os.fspath(path)
    if _digest(content[:-DIGEST_BYTES]) != content[-DIGEST_BYTES:]:
        raise ValueError(
            f"{name} must be a complete file of a Checkpoint, but its digest does not "
            "match: it was truncated or changed, is of another kind, or was written by "
            "a version before 0.4. Fit again, or restore a copy"
        )
    try:
        with np.load(io.BytesIO(content[:-DIGEST_BYTES]), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FILE_FORMAT:
            raise ValueError(
                f"version {header['version']} wrote it. Fit again, or resume the fit "
                "with that version"
            )
        value = NodeReader(arrays, functions).value(header["value"])
    except Exception as error:  # only files made by hand cause other errors
        raise ValueError(
            f"{name} must be a file that a Checkpoint of this version wrote: {error}"
        ) from error
    if not isinstance(value, kind):
        raise ValueError(
            f"{name} must have a {kind.__name__}, got a {type(value).__name__}"
        )
    return value


def _digest(content):
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


class NodeWriter:
    """Converts a value to nodes, and collects its arrays."""

    def __init__(self):
        self.arrays, self.numbers = [], {}

    def node(self, value):
        """The node of a value. An object that occurs several times stays one object."""
        if type(value) in PLAIN:
            return value
        if id(value) not in self.numbers:
            node = self._make(value)
            # a reference, so that the id is not used again
            self.numbers[id(value)] = (len(self.numbers), value)
            return node
        return ["same", self.numbers[id(value)][0]]

    def _make(self, value):
        kind = type(value)
        if isinstance(value, (np.ndarray, np.generic)):
            if value.dtype.hasobject:
                raise ValueError(
                    f"a file must have arrays of numbers, got {value.dtype} of shape "
                    f"{value.shape}"
                )
            self.arrays.append(value)
            name = "array" if isinstance(value, np.ndarray) else "scalar"
            return [name, f"array_{len(self.arrays) - 1}"]
        if sparse.issparse(value):
            rows = value.tocsr()
            parts = rows.data, rows.indices, rows.indptr, rows.shape
            return ["sparse", list(map(self.node, parts))]
        if kind in (list, tuple):
            return [kind.__name__, list(map(self.node, value))]
        if kind is dict:
            return ["dict", [list(map(self.node, item)) for item in value.items()]]
        if isinstance(value, np.random.Generator):
            return ["generator", self.node(value.bit_generator.state)]
        if isinstance(value, np.random.RandomState):
            return ["random_state", self.node(value.get_state(legacy=False))]
        if is_dataclass(kind):
            parts = {name: self.node(part) for name, part in _parts(value).items()}
            return ["object", [_name(kind), parts]]
        if callable(value) and UNKNOWN not in describe(value):
            return ["function", describe(value)]
        raise ValueError(
            f"a file cannot have a value of class {kind.__name__}: a state must have "
            "numbers, arrays, dataclasses and "
            "functions that are defined at the top of a module"
        )


class NodeReader:
    """Converts nodes to values."""

    def __init__(self, arrays, functions):
        self.arrays, self.values = arrays, []
        self.functions = {describe(function): function for function in functions}

    def value(self, node):
        """The value of a node."""
        if type(node) in PLAIN:
            return node
        kind, content = node
        if kind == "same":
            return self.values[content]
        self.values.append(value := self._make(kind, content))
        return value

    def _make(self, kind, content):
        match kind:
            case "array":
                return self.arrays[content]
            case "scalar":
                return self.arrays[content][()]
            case "sparse":
                *parts, shape = map(self.value, content)
                return sparse.csr_array(tuple(parts), shape=shape)
            case "list":
                return list(map(self.value, content))
            case "tuple":
                return tuple(map(self.value, content))
            case "dict":
                return {self.value(key): self.value(part) for key, part in content}
            case "generator":
                generator = np.random.default_rng(0)
                generator.bit_generator.state = self.value(content)
                return generator
            case "random_state":
                generator = np.random.RandomState(0)
                generator.set_state(self.value(content))
                return generator
            case "object":
                return self._object(*content)
            # if it is missing, the parameters differ, which raises an error before it
            # is called
            case "function":
                return self.functions.get(content, content)
        raise ValueError(f"it has a node of an unknown kind, {kind!r}")

    def _object(self, name, parts):
        cls = _class(name)
        if cls is None or parts.keys() != {field.name for field in fields(cls)}:
            raise ValueError(
                "its objects must be of dataclasses that are imported here, got "
                f"{name} of {list(parts)}"
            )
        value = object.__new__(cls)
        for field, part in parts.items():
            # some classes are frozen
            object.__setattr__(value, field, self.value(part))
        return value


def _name(cls):
    """Module and name of a dataclass, by which `_class` finds it."""
    name = f"{cls.__module__}:{cls.__qualname__}"
    if _class(name) is not cls:
        raise ValueError(
            f"a file cannot have a {cls.__name__}: its class must be defined at the "
            "top of a module"
        )
    return name


def _class(name):
    """The dataclass of a name, or None if no imported module defines it."""
    module, _, name = name.partition(":")
    cls = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return cls if isinstance(cls, type) and is_dataclass(cls) else None


def _parts(value):
    """The fields of a dataclass by name. It must have no other attributes."""
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    extra = getattr(value, "__dict__", {}).keys() - parts.keys()
    if extra:
        raise ValueError(
            f"{type(value).__name__} must declare what it has as fields, got also "
            f"{sorted(extra)}"
        )
    return parts
