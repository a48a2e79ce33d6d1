"""Which classes the files of runs may name: those that derive from `Kept`, each with the fields that it declares."""

import types
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from numbers import Integral, Real
from weakref import WeakValueDictionary

import numpy as np

from sk_stormc.utils.validation import short

__all__ = ["Kept", "Missing", "check_field", "contents", "declared", "in_short", "kept_class", "kept_name"]

# Classes by name. A class that is defined again replaces the old one.
_CLASSES: WeakValueDictionary[str, type] = WeakValueDictionary()


class Kept:
    """Base of the dataclasses whose objects may be in the file of a run.

    To derive from it is all that a class has to do, and `MethodState` has done it for the states of methods. A file
    has such an object as the name of its class and its fields. On the way in and on the way out each field must be of
    the type that it declares; None may be in a field whose default is None.
    """

    __slots__ = ()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        other = _CLASSES.get(kept_name(cls))
        if other is not None and other.__module__ != cls.__module__:
            raise TypeError(f"{cls.__module__} and {other.__module__} both have a class {cls.__name__} for files")
        _CLASSES[kept_name(cls)] = cls


class Missing:
    """A placeholder for a callable, which files never contain."""

    def __init__(self, name):
        self.name = name


def kept_name(cls):
    """The name of a class in files; for classes of this package it does not change with their module."""
    room = cls.__module__.partition(".")[0]
    return cls.__name__ if room == "sk_stormc" else f"{cls.__module__}.{cls.__name__}"


def kept_class(name):
    """The class of a name; None if no class that is imported already has it. Nothing is imported."""
    return _CLASSES.get(name)


@lru_cache(256)
def declared(cls):
    """The fields of a class: by name the type, and whether None is the default."""
    if not is_dataclass(cls):
        raise ValueError(f"{cls.__name__} must be a dataclass to be in a file")
    try:
        hints = typing.get_type_hints(cls)
    except NameError:  # annotations as strings, with names that are local to a function
        hints = {}
    return {field.name: (hints.get(field.name, object), field.default is None) for field in fields(cls)}


def contents(value):
    """The fields of an object of such a class, by name."""
    return {name: getattr(value, name) for name in declared(type(value))}


def check_field(cls, name, value):
    """Raise a ValueError if a field's value is not of the type that its class declares."""
    hint, optional = declared(cls)[name]
    if not (optional and value is None) and not _is_a(value, hint):
        expected = getattr(hint, "__name__", None) if isinstance(hint, type) else str(hint)
        raise ValueError(f"{cls.__name__}.{name} must be {expected}, got {in_short(value)}")


def in_short(value):
    """A value for an error; of objects and of nested containers the type, as in a file they may be very deep."""
    parts = value if isinstance(value, (tuple, list)) else (value,)
    plain = all(isinstance(part, (types.NoneType, bool, int, float, str, np.ndarray, np.generic)) for part in parts)
    return short(value) if plain else f"a {type(value).__name__}"


def _is_a(value, hint):
    if hint in (object, typing.Any):
        return True
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in (types.UnionType, typing.Union):
        return any(_is_a(value, part) for part in parts)
    if kind is Callable:
        return callable(value) or isinstance(value, Missing)
    if kind in _ABSTRACT:
        return isinstance(value, _ABSTRACT[kind]) and not isinstance(value, (bool, np.bool_))
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if not isinstance(kind, type):  # a TypeVar, a Literal
        return True
    return isinstance(value, kind) and _holds(value, kind, parts)


_ABSTRACT = {int: Integral, float: Real}  # numpy's numbers too, and whole numbers as floats


def _holds(value, kind, parts):
    """Whether what a container holds is of the declared types."""
    if kind is list and parts:
        return all(_is_a(item, parts[0]) for item in value)
    if kind is dict and parts:
        return all(_is_a(key, parts[0]) and _is_a(item, parts[1]) for key, item in value.items())
    if kind is tuple and parts:
        parts = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        return len(parts) == len(value) and all(_is_a(*pair) for pair in zip(value, parts, strict=True))
    return True
