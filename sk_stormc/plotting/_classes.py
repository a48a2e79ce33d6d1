"""What the values of points mean: classes in an order, with colours and shapes, or numbers. Nothing is drawn here."""

from dataclasses import dataclass
from decimal import Decimal
from numbers import Number

import numpy as np

from sk_stormc.plotting._style import COLORS
from sk_stormc.utils.frames import categories_of
from sk_stormc.utils.validation import is_real, naming

__all__ = ["GREY", "Classes", "Numbers", "classes_or_numbers", "numbers_of"]

# Petroff's ten colours, which colour-blind people can distinguish; Okabe & Ito's are fewer and more distinct.
TEN = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
SHAPES = "o^sDv*Pp"
GREY = "0.8"  # of points without a value
INTEGERS = 20  # largest number of distinct integers that are classes and not numbers
CLASSES = len(TEN) * len(SHAPES)


@dataclass
class Numbers:
    """A number for each point: ``values`` of shape (n_points,), NaN where it is missing or infinite."""

    values: np.ndarray


@dataclass
class Classes:
    """A class for each point: ``codes`` of shape (n_points,) are positions in ``names``, and -1 where it is missing."""

    codes: np.ndarray
    names: list[str]

    def looks(self, known):
        """The (colour, shape) of each name. Names of ``known`` keep theirs. None, for missing values, comes last."""
        new = [name for name in self.names if name not in known]
        used = {look for name, look in known.items() if name is not None}
        n = len(used) + len(new)
        if n > CLASSES:
            raise ValueError(f"y must have at most {CLASSES} classes, got {n}{' with those on ax' * bool(used)}")
        few = n <= len(COLORS) or any(color in COLORS for color, _ in used)
        palettes = (COLORS, TEN) if few else (TEN, COLORS)
        free = [(color, shape) for palette in palettes for shape in SHAPES for color in palette]
        looks = known | dict(zip(new, (look for look in free if look not in used), strict=False))
        missing = {None: (GREY, SHAPES[0])} if (self.codes < 0).any() else {}
        return {name: looks[name] for name in self.names} | missing


def classes_or_numbers(y, n):
    """The `Classes` or `Numbers` of n points. Few integers are classes, and so are the values of a Categorical."""
    if y is None:
        return None
    with naming("y"):
        categories, y = categories_of(y), _as_array(y)
    if y.shape != (n,):
        raise ValueError(f"y must be of shape ({n},), one for each point, got {y.shape}")
    if y.dtype.kind not in "biufOUST":
        raise ValueError(f"y must be numbers or names of classes, got {y.dtype}")
    good, numbers, levels = ~_are_missing(y), numbers_of(y), categories
    if categories is None and numbers is not None and np.isfinite(numbers).any():
        levels = np.unique(y[good])
        if len(levels) > INTEGERS or not all(float(level).is_integer() for level in levels):
            return Numbers(numbers)
    texts = [_name(value) for value in y[good]]
    present = set(texts)
    order = sorted(present) if levels is None else dict.fromkeys(map(_name, levels))
    names = [name for name in order if name in present]
    places = {name: k for k, name in enumerate(names)}
    codes = np.full(n, -1)
    codes[good] = [places[text] for text in texts]
    return Classes(codes, names)


def numbers_of(values):
    """The values as floats, NaN where they are missing or infinite. None if some are no numbers."""
    values = _as_array(values)
    if values.dtype.kind == "O":
        missing = _are_missing(values)
        if not all(map(_is_number, values[~missing])):
            return None
        values = np.where(missing, np.nan, values)
    elif values.dtype.kind not in "iuf":
        return None
    numbers = values.astype(float)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _as_array(values):
    """The values as an array. Masked ones are missing, and numbers in a list of texts stay numbers."""
    if isinstance(values, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(values), None, values.data.astype(object))
    array = np.asarray(values)
    if array.dtype.kind == "S":
        return array.astype(str)
    return np.array(values, dtype=object) if array.dtype.kind == "U" and isinstance(values, (list, tuple)) else array


def _are_missing(values):
    """Where the values are missing: None, NaN, NaT or pandas.NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    return np.array([_is_missing(value) for value in values.astype(object)], dtype=bool)


def _is_missing(value):
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (Number, np.generic)) and bool(value != value)


def _is_number(value):
    return is_real(value) or isinstance(value, Decimal)


def _name(value):
    """The name of a class, which is the same for 1, 1.0 and Decimal("1")."""
    return str(int(value)) if _is_number(value) and value % 1 == 0 else str(value)
