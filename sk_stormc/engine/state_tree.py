"""Conversion of a saved run to a JSON tree and back. Leaves are numbers, text and indices of arrays.

A node is a plain value, or a JSON object with one key, its kind: "array", "object", "known" for an object that occurred
before, and the other kinds of `Reader`. Objects are of classes that derive from `Kept`. No name in a tree causes an
import. Each node is checked before it is used, and all errors are ValueErrors.
"""

import numpy as np
from scipy import sparse

from sk_stormc.utils.kept import Kept, Missing, check_field, contents, declared, in_short, kept_class, kept_name
from sk_stormc.utils.validation import short

__all__ = ["DTYPES", "Reader", "Writer", "check_keys", "fill"]

DEEPEST = 50  # largest depth of nested nodes; that of a run is below 20
PLAIN = (type(None), bool, int, float, str)
KINDS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
DTYPES = {np.dtype(name).str: np.dtype(name) for name in KINDS.split()}

# the forms of the states of generators; an int is an upper bound
PCG64 = {"bit_generator": "PCG64", "state": {"state": 2**128, "inc": 2**128}, "has_uint32": 2, "uinteger": 2**32}
KEY = (np.dtype(np.uint32), (624,))
MT19937 = {"bit_generator": "MT19937", "state": {"key": KEY, "pos": 625}, "has_gauss": 2, "gauss": float}


def check_keys(name, found, keys):
    """Raise a ValueError if parsed JSON is not a dictionary with these keys."""
    if not isinstance(found, dict) or found.keys() != set(keys):
        raise ValueError(f"{name} must have {sorted(keys)}, got {short(found)}")


def _is_formed(state, form):
    """Whether a generator's state has the given form."""
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
        raise ValueError(f"a file must have the generator {form['bit_generator']} here, got {in_short(state)}")
    return state


def _is_key(value):
    """Whether the value may be a key of a dictionary: a plain value, or a tuple of plain values."""
    parts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(part, PLAIN) for part in parts)


class Writer:
    """Converts a value to a tree, and collects its arrays."""

    def __init__(self):
        self.arrays, self.known = [], {}

    def node(self, value):
        """The node of a value."""
        if type(value) in PLAIN:
            return value
        if id(value) in self.known:  # an object that occurs several times stays one object
            return {"known": self.known[id(value)][0]}
        node = self._make(value)
        self.known[id(value)] = len(self.known), value  # keep a reference, so that the id is not reused
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
        found = contents(value)
        for name, part in found.items():
            check_field(cls, name, part)
        return [kept_name(cls), {name: self.node(part) for name, part in found.items()}]


class Reader:
    """Converts a tree to a value. There is a method for each kind of node, which checks and converts it."""

    def __init__(self, arrays):
        self.arrays, self.known, self.depth = arrays, [], 0

    def value(self, node):
        """The value of a node."""
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
                raise ValueError(f"a dict must have plain keys, each once, got {in_short(key)}")
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
        check_keys(f"a {cls.__name__}", found, declared(cls))
        value = object.__new__(cls)
        for field, part in found.items():
            part = self.value(part)
            check_field(cls, field, part)
            object.__setattr__(value, field, part)  # some classes are frozen
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


def fill(value, like, done=None):
    """Replace missing callables by those of ``like``, an object of the same structure."""
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
            others = contents(like) if type(like) is type(value) else {}
            for name, part in contents(value).items():
                object.__setattr__(value, name, fill(part, others.get(name), done))
    return done[id(value)][1]
