"""Texts that describe the parameters of a run. Equal texts mean equal parameters, also
in another process."""

import functools
import hashlib
import re
import types

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

__all__ = ["UNKNOWN", "check_unchanged", "describe"]

UNKNOWN = "that cannot be told from another"


def check_unchanged(name, before, now, purpose, advice):
    """Raise a ValueError if the description of a parameter has changed, or its object
    cannot be compared."""
    if UNKNOWN in before or UNKNOWN in now:
        raise ValueError(
            f"{name} must be something that can be compared for {purpose}, such as a "
            "function that is defined at the "
            "top of a module, a dataclass or a BaseEstimator, got "
            f"{now if UNKNOWN in now else before}"
        )
    if before != now:
        raise ValueError(
            f"{name} must stay {before} for {purpose}, got {now}: {advice}"
        )


def describe(value, within=()):
    """A short text that describes a parameter. ``within`` are the objects that contain
    it.

    Functions and classes are described by module and name, and objects by their
    attributes.
    """
    if type(value) in (type(None), bool, int, float, str):
        return repr(value)
    if any(value is outer for outer in within):
        return "itself"
    within = (*within, value)

    def described(part):
        return describe(part, within)

    def listed(parts):
        return ", ".join(map(described, parts))

    def named(parts):
        return ", ".join(f"{name}={described(part)}" for name, part in parts.items())

    kind = type(value).__name__
    match value:
        case BaseEstimator():
            return f"{kind}({named(value.get_params(deep=False))})"
        case tuple() | list():
            return f"({listed(value)})"
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(described, value)))}}}"
        case dict():
            items = (f"{described(k)}: {described(part)}" for k, part in value.items())
            return f"{{{', '.join(items)}}}"
        case np.generic():
            return repr(value.item())
        case np.random.RandomState():
            return f"RandomState{described(value.get_state())}"
        case np.random.Generator():
            return f"Generator({described(value.bit_generator.state)})"
        case functools.partial():
            return (
                f"partial({listed((value.func, *value.args))}, {named(value.keywords)})"
            )
        case types.MethodType() | types.BuiltinMethodType() if not isinstance(
            value.__self__, (types.ModuleType, types.NoneType)
        ):
            return f"{value.__qualname__} of {described(value.__self__)}"
        case np.ufunc() | types.ModuleType():
            return f"{kind} {value.__name__}"
    if isinstance(name := getattr(value, "__qualname__", None), str):
        return (
            f"the function {name} {UNKNOWN}"
            if "<" in name
            else f"{value.__module__}.{name}"
        )
    if hasattr(value, "shape"):
        names = value.axes if hasattr(value, "iloc") else ()  # axes of pandas objects
        return " named ".join(map(_of_array, (value, *names)))
    if hasattr(value, "__dict__"):
        return f"{kind}({named(vars(value))})"
    text = repr(value)
    return f"a {kind} {UNKNOWN}" if re.search(r" at 0x[0-9a-fA-F]+", text) else text


def _of_array(value):
    """The description of an array, a sparse matrix or a pandas object: dtype, shape and
    a digest."""
    if sparse.issparse(value):
        rows = value.tocsr()
        parts = ", ".join(map(_of_array, (rows.data, rows.indices, rows.indptr)))
        return f"sparse of shape {rows.shape} with {parts}"
    array = np.asarray(value)
    content = (
        repr(array.tolist()).encode()
        if array.dtype.hasobject or array.dtype.char in "gG"
        else array.tobytes()
    )
    return (
        f"{array.dtype} of shape {array.shape} with digest "
        f"{hashlib.blake2b(content, digest_size=8).hexdigest()}"
    )
