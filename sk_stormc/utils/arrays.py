"""Checks of arrays: a ValueError names the array, the value and the place."""

from numbers import Real

import numpy as np

from sk_stormc.utils.parameters import short

# numbers that are checked at once, so that a memory map stays in its file
CHECKED = 2**20


def as_numbers(name, value, dtype=float):
    """A copy of value as an array of numbers. Dates, text and complex numbers raise an
    error."""
    check_unmasked(name, value)
    try:
        given = np.asarray(value)
        of_objects = given.dtype.kind == "O"
        texts = of_objects and any(isinstance(v, (str, bytes)) for v in given.flat)
        if given.dtype.kind in "fiubO" and not texts:  # NumPy would read texts
            return np.array(value, dtype=dtype)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} must be numbers, got {short(value)}")


def as_flags(name, value, where=""):
    """An array of booleans, from booleans or from 0 and 1 of any type of numbers."""
    given = np.asarray(value)
    check_unmasked(name, value)
    if given.dtype == bool:
        return given
    if given.dtype.kind in "iuf":
        right = (given == 0) | (given == 1)
    else:
        right = [
            isinstance(flag, (Real, np.bool_)) and flag in (0, 1)
            for flag in given.ravel().tolist()
        ]
        right = np.array(right, dtype=bool).reshape(given.shape)
    if not right.all():
        at = np.argwhere(~right)[0]
        where = (
            f"step {at[0]} of {where}" if where else f"row {at[0] if len(at) else 0}"
        )
        raise ValueError(
            f"{name} must be booleans, or 0 and 1, got {short(given[tuple(at)])} in "
            f"{where}"
        )
    return given.astype(bool)


def check_unmasked(name, value):
    """Raise a ValueError for masked values, which NumPy and scikit-learn would use."""
    if np.ma.is_masked(value):
        raise ValueError(
            f"{name} must have all its values, got {np.ma.count_masked(value)} that "
            "are masked: fill them"
        )


def all_finite(array):
    """Whether all numbers of an array are finite."""
    with np.errstate(all="ignore"):
        # they are if their sum is, which takes a third of the time
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def check_all_finite(name, array, start=0):
    """Raise a ValueError that names the place of the first number that is not finite.
    ``start`` is the number of the first row."""
    rows = array if array.ndim else array[None]
    size = max(1, CHECKED // max(1, rows[:1].size))
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        if not all_finite(part):
            k = np.argwhere(~np.isfinite(part))[0]
            value = part[tuple(k)]
            k[0] += start + first
            where = tuple(k.tolist()) if k.size > 1 else k[0]
            place = f" at {where}" if array.ndim else ""
            raise ValueError(f"{name} must be finite, got {value}{place}")
