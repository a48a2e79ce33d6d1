"""Runs in files: arrays in a npz, everything else as JSON in one of them. Reading one executes none of its content."""

import json
import os
import sys
import zipfile
from dataclasses import dataclass, is_dataclass

import numpy as np
from scipy import sparse

from sk_stormc.utils.atomic import atomically

__all__ = ["fill", "has_missing", "read", "write"]

FORMAT = 1
PLAIN = (type(None), bool, int, float, str)


@dataclass
class Missing:
    """Stands for a callable, which is in no file, until `fill` puts one in its place."""

    name: str


def fill(value, like):
    """Put callables of ``like``, an object of the same shape, where some are missing.

    Raises
    ------
    ValueError
        If ``like`` has none there.
    """
    if isinstance(value, Missing):
        if not callable(like):
            raise ValueError(f"the solver must have the callable {value.name!r}, as the run in the file had")
        return like
    if isinstance(value, tuple):
        like = like if isinstance(like, tuple) and len(like) == len(value) else [None] * len(value)
        return tuple(fill(part, other) for part, other in zip(value, like, strict=True))
    if is_dataclass(value):
        for name, part in _parts(value).items():
            object.__setattr__(value, name, fill(part, getattr(like, name, None)))
    return value


def has_missing(value):
    """Whether callables are missing."""
    if is_dataclass(value):
        return isinstance(value, Missing) or any(has_missing(part) for part in _parts(value).values())
    return isinstance(value, tuple) and any(has_missing(part) for part in value)


def _parts(value):
    """An object's attributes, with slots or without."""
    return vars(value) if hasattr(value, "__dict__") else {name: getattr(value, name) for name in value.__slots__}


def _pack(value, arrays, known):
    if isinstance(value, PLAIN) and not isinstance(value, np.generic):
        return value
    if id(value) in known:  # what was one object stays one
        return {"known": known[id(value)][0]}
    if isinstance(value, (np.ndarray, np.generic)):
        arrays.append(np.asarray(value))
        node = {"scalar" if isinstance(value, np.generic) else "array": len(arrays) - 1}
    elif sparse.issparse(value):
        rows = value.tocsr()
        parts = [_pack(part, arrays, known) for part in (rows.data, rows.indices, rows.indptr)]
        node = {"sparse": parts, "shape": list(value.shape)}
    elif isinstance(value, (list, tuple)):
        node = {type(value).__name__: [_pack(part, arrays, known) for part in value]}
    elif isinstance(value, dict):
        node = {"dict": [[_pack(key, arrays, known), _pack(part, arrays, known)] for key, part in value.items()]}
    elif isinstance(value, np.random.Generator):
        node = {"generator": _pack(value.bit_generator.state, arrays, known)}
    elif isinstance(value, np.random.RandomState):
        node = {"random_state": _pack(value.get_state(legacy=False), arrays, known)}
    elif callable(value) and not type(value).__module__.startswith("sk_stormc."):
        return {"callable": getattr(value, "__qualname__", type(value).__name__)}
    else:
        fields = {name: _pack(part, arrays, known) for name, part in _parts(value).items()}
        node = {"class": [type(value).__module__, type(value).__qualname__], "fields": fields}
    known[id(value)] = len(known), value  # the value is held, or its id might come again
    return node | {"number": len(known) - 1}


def _unpack(node, arrays, known, modules):
    def unpack(node):
        return _unpack(node, arrays, known, modules)

    if isinstance(node, PLAIN):
        return node
    if "known" in node:
        return known[node["known"]]
    if "callable" in node:
        return Missing(node["callable"])
    if "array" in node:
        value = arrays[node["array"]]
    elif "scalar" in node:
        value = arrays[node["scalar"]][()]
    elif "sparse" in node:
        value = sparse.csr_array(tuple(unpack(part) for part in node["sparse"]), shape=tuple(node["shape"]))
    elif "list" in node:
        value = [unpack(part) for part in node["list"]]
    elif "tuple" in node:
        value = tuple(unpack(part) for part in node["tuple"])
    elif "dict" in node:
        value = {unpack(key): unpack(part) for key, part in node["dict"]}
    elif "generator" in node:
        value = np.random.Generator(_bit_generator(unpack(node["generator"])))
    elif "random_state" in node:
        value = np.random.RandomState()
        value.set_state(unpack(node["random_state"]))
    else:
        value = object.__new__(_known_class(*node["class"], modules))
        for name, part in node["fields"].items():
            object.__setattr__(value, name, unpack(part))  # some are frozen
    known[node["number"]] = value
    return value


def _bit_generator(state):
    kinds = {"PCG64": np.random.PCG64, "MT19937": np.random.MT19937, "Philox": np.random.Philox}
    if state["bit_generator"] not in kinds:
        raise ValueError(f"the file must have generators of {sorted(kinds)}, got {state['bit_generator']!r}")
    generator = kinds[state["bit_generator"]](0)
    generator.state = state
    return generator


def _known_class(module, name, modules):
    """A class of this package or of one of the modules, all of which are imported already."""
    if module.split(".")[0] == "sk_stormc" or module in modules:
        found = getattr(sys.modules.get(module), name, None)
        if isinstance(found, type):
            return found
    raise ValueError(f"the file must have objects of classes that are imported here, got {module}.{name}")


def write(path, head, value):
    """Write a file as a whole or not at all.

    Parameters
    ----------
    path : path-like
    head : dict
        What `json` can write.
    value : object
        Numbers, strings, containers, arrays, generators and objects of the classes of states.
    """
    arrays = []
    tree = _pack(value, arrays, {})
    text = json.dumps({"format": FORMAT, "head": head, "tree": tree}).encode()
    arrays = {f"array_{k}": array for k, array in enumerate(arrays)}
    with atomically(path) as file:
        np.savez(file, json=np.frombuffer(text, np.uint8), **arrays)


def read(path, modules=()):
    """What `write` has written.

    Parameters
    ----------
    path : path-like
    modules : tuple of str, default=()
        Whose classes are known besides those of this package: that of the solver.

    Returns
    -------
    head : dict
    value : object
        With `Missing` where it had callables.

    Raises
    ------
    ValueError
        For a file that is none of these, of a format that is not known, or with objects of other classes.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            found = json.loads(file["json"].tobytes())
            arrays = [file[f"array_{k}"] for k in range(len(file.files) - 1)]
        form = found["format"]
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{os.fspath(path)} must be a file that a Checkpoint wrote: {error}") from error
    if form != FORMAT:
        raise ValueError(f"{os.fspath(path)} must have format {FORMAT}, got {form}: another version wrote it")
    return found["head"], _unpack(found["tree"], arrays, {}, modules)
