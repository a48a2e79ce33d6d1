"""Checks of parameters: each raises a ValueError that names the parameter, the value and what was expected."""

import math
from numbers import Integral, Real

import numpy as np

__all__ = [
    "as_numbers",
    "check_batch_size",
    "check_choice",
    "check_int",
    "check_number",
    "check_schedule",
    "check_weights",
]


def _fail(name, value, expected):
    raise ValueError(f"{name} must be {expected}, got {value!r}")


def _words(words):
    return "".join(f", or {word!r}" for word in words)


def _is_word(value, words):
    return any(value is word or (isinstance(value, str) and value == word) for word in words)


def check_number(name, value, low=-math.inf, high=math.inf, inclusive=True, words=()):
    """A finite real number between low and high (low itself only if inclusive), or one of the words."""
    if _is_word(value, words):
        return
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < low or value > high or (value == low and not inclusive):
        bounds = [] if low == -math.inf else [f"{'>=' if inclusive else '>'} {low}"]
        bounds += [] if high == math.inf else [f"<= {high}"]
        _fail(name, value, " ".join(["a finite number", " and ".join(bounds)]).strip() + _words(words))


def check_schedule(name, value, first=0, words=(), **bounds):
    """A number as for `check_number`, or a schedule, of which the value at iteration ``first`` is looked at."""
    if not callable(value):
        return check_number(name, value, words=words, **bounds)
    try:
        found = float(value(first))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must give a number for iteration {first}, got {value!r}: {error}") from error
    check_number(f"{name} at iteration {first}", found, **bounds)


def check_int(name, value, low, words=()):
    """An integer >= low, or one of the words."""
    if _is_word(value, words):
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        _fail(name, value, f"an integer >= {low}{_words(words)}")


def check_choice(name, value, choices):
    """One of the choices."""
    if not _is_word(value, choices):
        _fail(name, value, "one of " + ", ".join(repr(c) for c in choices))


def check_batch_size(name, value):
    """An integer >= 1, None for all, "auto", or a triple (B_g, B_dg, B_f) of integers and None."""
    if isinstance(value, (tuple, list)):
        if len(value) != 3:
            _fail(name, value, "one number or a triple (B_g, B_dg, B_f)")
        for part in value:
            check_int(name, part, low=1, words=(None,))
    else:
        check_int(name, value, low=1, words=(None, "auto"))


def as_numbers(name, value, dtype=float):
    """value as an array of numbers, a copy."""
    try:
        return np.array(value, dtype=dtype)
    except (TypeError, ValueError):
        _fail(name, value, "numbers")


def check_weights(sample_weight, n, where):
    """Weights of n rows: an array of finite numbers >= 0, not all zero; ``where`` is how an error names a row."""
    weights = as_numbers("sample_weight", sample_weight)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must be of shape ({n},), got {weights.shape}")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        k = np.argmax(wrong)
        raise ValueError(f"sample_weight must be finite and >= 0, got {weights[k]} {where} {k}")
    if not weights.any():
        raise ValueError("sample_weight must have a positive entry, got only zeros")
    return weights
