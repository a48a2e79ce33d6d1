"""Texts that describe the parameters of a run. Equal texts mean equal parameters, also
in another process."""

import functools
import hashlib
import math
import re
import types

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from sk_stormc.utils.blocks import MappedRows
from sk_stormc.utils.machine import BLOCK_BYTES

UNKNOWN = "that cannot be told from another"


def check_unchanged(name, before, now, purpose, advice):
    """Raise a ValueError if the description of a parameter has changed, or its object
    cannot be compared."""
    if UNKNOWN in before or UNKNOWN in now:
        raise ValueError(
            f"{name} must be something that can be compared for {purpose}, such as a "
            "function that is defined at the top of a module, a dataclass or a "
            f"BaseEstimator, got {now if UNKNOWN in now else before}"
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
        return " named ".join(map(fingerprint, (value, *names)))
    if hasattr(value, "__dict__"):
        return f"{kind}({named(vars(value))})"
    text = repr(value)
    return f"a {kind} {UNKNOWN}" if re.search(r" at 0x[0-9a-fA-F]+", text) else text


def fingerprint(data):
    """Dtype, shape and a digest of all numbers of an array, a sparse matrix or a pandas
    object, row by row, or None. Rows of a file are read in blocks."""
    if data is None:
        return None
    if sparse.issparse(data):
        rows = data.tocsr()
        parts = rows.data, rows.indices, rows.indptr
    else:
        data = np.asanyarray(data)  # keeps a memmap
        if not data.shape:  # such as one weight for all rows
            return repr(data.item())
        parts = _blocks(MappedRows.of(data))
    # faster than BLAKE2 on processors that support it
    digest, dtype = hashlib.sha256(), None
    for part in parts:
        # their bytes are addresses, or have padding
        if part.dtype.hasobject or part.dtype.char in "gG":
            part = _as_floats(part)
        dtype = dtype or part.dtype
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8))
    digits = digest.hexdigest()[:16]
    return f"{dtype} of shape {tuple(data.shape)} with digest {digits}"


def _blocks(rows):
    """Blocks of rows, the same for data in memory and in a file. There is one empty
    block if there are no rows."""
    size = max(1, BLOCK_BYTES // (8 * max(1, math.prod(rows.shape[1:]))))
    for start in range(0, max(1, rows.shape[0]), size):
        yield rows[start : start + size]


def _as_floats(part):
    """Objects as floats, or their text as bytes."""
    try:
        return part.astype(float)
    except (TypeError, ValueError):
        return np.frombuffer(repr(part.tolist()).encode(), np.uint8)
