"""Texts that describe the parameters of a run. Equal texts mean equal parameters, in another process too."""

import functools
import hashlib
import re
import sysconfig
import types

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

__all__ = ["UNKNOWN", "check_unchanged", "in_words"]

INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
UNKNOWN = "that cannot be told from another"


def check_unchanged(name, before, now, purpose, advice):
    """Raise a ValueError if the description of a parameter has changed, or describes what cannot be compared."""
    if UNKNOWN in before or UNKNOWN in now:
        raise ValueError(
            f"{name} must be something that can be compared for {purpose}, such as a function, a dataclass or a "
            f"BaseEstimator, got {now}"
        )
    if before != now:
        raise ValueError(f"{name} must stay {before} for {purpose}, got {now}: {advice}")


def in_words(value, within=(), seen=None):
    """A short text that describes a parameter, and is the same in another process.

    ``within`` are the objects that contain the value, and ``seen`` the ids of the functions already described.

    Functions are distinguished by their code, their defaults, the values in their closures, and the values and
    functions of their own module to which they refer. Functions of installed packages are identified by their code
    alone.
    """
    if type(value) in (type(None), bool, int, float, str):
        return repr(value)
    if any(value is outer for outer in within):
        return "itself"
    within, seen = (*within, value), set() if seen is None else seen

    def words(part):
        return in_words(part, within, seen)

    def listed(parts):
        return ", ".join(map(words, parts))

    def named(parts):
        return ", ".join(f"{name}={words(part)}" for name, part in parts.items())

    kind = type(value).__name__
    match value:
        case BaseEstimator():
            return f"{kind}({named(value.get_params(deep=False))})"
        case tuple() | list():
            return f"({listed(value)})"
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(words, value)))}}}"
        case dict():
            return f"{{{', '.join(f'{words(key)}: {words(part)}' for key, part in value.items())}}}"
        case np.generic():
            return repr(value.item())
        case np.random.RandomState():
            return f"RandomState{words(value.get_state())}"
        case np.random.Generator():
            return f"Generator({words(value.bit_generator.state)})"
        case functools.partial():
            return f"partial({listed((value.func, *value.args))}, {named(value.keywords)})"
        case types.FunctionType():
            name = f"{value.__module__}.{value.__qualname__}"
            if id(value) in seen:
                return name
            seen.add(id(value))
            return f"{name}({named(_referred(value))})"
        case types.MethodType():
            return f"{words(value.__func__)} of {words(value.__self__)}"
        case types.BuiltinFunctionType() if not isinstance(value.__self__, (types.ModuleType, types.NoneType)):
            return f"{value.__qualname__} of {words(value.__self__)}"
        case type() | types.BuiltinFunctionType():
            return f"{value.__module__}.{value.__qualname__}"
        case np.ufunc() | types.ModuleType():
            return f"{kind} {value.__name__}"
    if hasattr(value, "shape"):
        names = value.axes if hasattr(value, "iloc") else ()  # axes of pandas objects
        return " named ".join(map(_array_in_words, (value, *names)))
    if hasattr(value, "__wrapped__"):  # a decorator that returns an object, such as a cache or a compiler
        return f"{kind} of {words(value.__wrapped__)}"
    if hasattr(value, "__dict__"):
        call = type(value).__call__ if callable(value) else None
        own = isinstance(call, types.FunctionType) and not call.__module__.startswith("sk_stormc.")
        return f"{kind}({named(vars(value))})" + (f" with {words(call)}" if own else "")
    text = repr(value)
    return f"a {kind} {UNKNOWN}" if re.search(r" at 0x[0-9a-fA-F]+", text) else text


def _referred(function):
    """The values on which a function's result depends besides its arguments, by name."""
    code, names = function.__code__, set()
    found = {"code": hashlib.blake2b(_content(code, names).encode(), digest_size=6).hexdigest()}
    if function.__defaults__:
        found["defaults"] = function.__defaults__
    if function.__kwdefaults__:
        found["kwdefaults"] = function.__kwdefaults__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # the cell has no value yet
            found[name] = None
    if not code.co_filename.startswith(INSTALLED):
        known = ((name, function.__globals__[name]) for name in sorted(names & function.__globals__.keys()))
        found |= {name: value for name, value in known if _is_followed(value, function.__module__)}
    return found


def _is_followed(value, module):
    """Whether a global of a function is part of its identity: a plain value, or a function of its own module."""
    if isinstance(value, types.FunctionType):
        return value.__module__ == module
    return isinstance(value, (bool, int, float, str, tuple, list, dict, set, frozenset, np.ndarray, np.generic))


def _content(code, names):
    """The content of a code object without its location. Referenced names are added to ``names``."""
    names.update(code.co_names)
    constants = []
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            constants.append(_content(value, names))
        else:
            constants.append(repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value))
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    called = code.co_names, code.co_varnames, code.co_freevars
    return repr((code.co_code, code.co_exceptiontable, constants, *called, counts))


def _array_in_words(value):
    """The description of an array, a sparse matrix or a pandas object: dtype, shape and a checksum."""
    if sparse.issparse(value):
        rows = value.tocsr()
        parts = ", ".join(map(_array_in_words, (rows.data, rows.indices, rows.indptr)))
        return f"sparse of shape {rows.shape} with {parts}"
    array = np.asarray(value)
    content = repr(array.tolist()).encode() if array.dtype.hasobject or array.dtype.char in "gG" else array.tobytes()
    return f"{array.dtype} of shape {array.shape} with checksum {hashlib.blake2b(content, digest_size=8).hexdigest()}"
