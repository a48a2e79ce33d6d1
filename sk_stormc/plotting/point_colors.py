"""What the colours of points mean: classes, each with a place in their order and a
look, or values of a scale."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LinearSegmentedColormap, is_color_like, to_hex

from sk_stormc.plotting._style import COLORS, local_times
from sk_stormc.utils.arrays import check_unmasked
from sk_stormc.utils.frames import is_series
from sk_stormc.utils.parameters import short

# Okabe & Ito's eight colours, which colour-blind people can distinguish, and twelve
# more. Each of these is as far from white and from all before it as possible, in
# CIELAB.
PALETTE = (
    *COLORS, "#88dd00", "#4422bb", "#ff00bb", "#555500", "#ff0055", "#ccdd88",
    "#aa88ff", "#ffaa88", "#00ee88",
    "#008800", "#005555", "#881111",
)  # fmt: skip
SHAPES = "o^sDv*Pp"
GREY = "#cccccc"  # of missing values
MISSING = "missing"
CLASSES = len(PALETTE) * len(SHAPES)


@dataclass
class PointColors:
    """The colours of points.

    Attributes
    ----------
    codes : ndarray of int of shape (n_points,)
        The class of each point, as its place in ``names``. -1 is a missing value.
    names : list of str or None
        The classes in their order. None if the colours are those of a scale, or if all
        points have the same.
    looks : list of tuple or None
        Colour and shape of each class.
    values : ndarray of shape (n_points,) or None
        Values of a scale. NaN is a missing value.
    scale : {"numbers", "dates", "durations"}
        What the values are. Dates are days since 1970, and durations have a unit.
    unit : str
        The unit of durations, such as "hours", and otherwise "".
    """

    codes: np.ndarray
    names: list[str] | None = None
    looks: list[tuple[str, str]] | None = None
    values: np.ndarray | None = None
    scale: str = "numbers"
    unit: str = ""

    def title(self, label):
        """The title of a scale, with its unit."""
        return f"{label} ({self.unit})".lstrip() if self.unit else label

    def text_of(self, value):
        """A value of a scale as text."""
        if self.scale == "dates" and np.isfinite(value):
            return str(np.datetime64(int(value), "D"))
        return f"{value:.6g}"

    def limits(self):
        """The smallest and the largest finite value of a scale, or None."""
        values = np.empty(0) if self.values is None else self.values
        good = values[np.isfinite(values)]
        return (good.min(), good.max()) if good.size else None

    def with_missing(self):
        """Names and looks, the last ones for missing values if there are any."""
        if (self.codes >= 0).all():
            return self.names, self.looks
        return [*self.names, MISSING], [*self.looks, (GREY, SHAPES[0])]


def point_colors(
    y,
    n,
    y_new=None,
    n_new=0,
    palette=None,
    order=None,
    known=None,
    continuous=False,
):
    """The `PointColors` of n points with the values y, and of n_new further ones with
    the values y_new.

    Parameters
    ----------
    y, y_new : array-like or None
    n, n_new : int
    palette : dict of colours by class, list of colours, name of a colormap, or None
    order : list of classes or None
    known : dict or None
        The looks of classes that were drawn before.
    continuous : bool
        Whether few integers are a scale, too.
    """
    for name, value in (("palette", palette), ("order", order)):
        if value is not None and (
            not hasattr(value, "__iter__") or isinstance(value, type)
        ):
            raise ValueError(
                f"{name} must be a list of "
                f"{'colours' if name == 'palette' else 'classes'}, got {short(value)}"
            )
    old = _read("y", y, n, continuous)
    new = _read("y_new", y_new, n_new, continuous)
    if continuous and any(part and part.names is not None for part in (old, new)):
        raise ValueError("continuous must be False for classes that are not numbers")
    if old is None and new is None:
        return PointColors(np.zeros(n + n_new, int))
    if old is not None and new is not None:
        if (old.names is None) != (new.names is None):
            old = _read("y", y, n, as_scale=True)
            new = _read("y_new", y_new, n_new, as_scale=True)
        if (old.names is None, old.scale) != (new.names is None, new.scale):
            raise ValueError("y_new must be classes, numbers or dates if y are")
    old, new = old or _all_missing(new, n), new or _all_missing(old, n_new)
    if old.values is not None:
        values, unit = np.concatenate([old.values, new.values]), ""
        if old.scale == "durations":
            values, unit = _with_unit(values)
        codes = np.zeros(n + n_new, int)
        return PointColors(codes, values=values, scale=old.scale, unit=unit)
    names = _ordered(dict.fromkeys([*old.names, *new.names]), order)
    if len(names) > CLASSES:
        raise ValueError(f"y must have at most {CLASSES} classes, got {len(names)}")
    codes = [_places(part.names, names)[part.codes] for part in (old, new)]
    looks = _looks(names, palette, known or {})
    return PointColors(np.concatenate(codes), names, looks)


def _with_unit(seconds):
    """Durations in the largest unit of which the longest has at least two."""
    longest = np.abs(seconds[np.isfinite(seconds)]).max(initial=0.0)
    units = {"days": 86_400.0, "hours": 3600.0, "minutes": 60.0}
    for unit, length in units.items():
        if longest >= 2 * length:
            return seconds / length, unit
    return seconds, "seconds"


def _places(some, names):
    """The places of some names among all, and last that of missing values, -1."""
    place = {name: k for k, name in enumerate(names)}
    return np.array([*(place[name] for name in some), -1])


def _all_missing(like, n):
    """The colours of n points without values, beside those of others."""
    if like.names is None:
        missing = np.full(n, np.nan)
        return PointColors(np.zeros(n, int), values=missing, scale=like.scale)
    return PointColors(np.full(n, -1), [])


def _read(name, y, n, as_scale=False):
    """The classes, without looks, or the values of a scale, as which few integers may
    count. None if there are none."""
    if y is None:
        return None
    if isinstance(y, np.ma.MaskedArray):
        check_unmasked(name, y)
    if np.shape(y) != (n,):
        raise ValueError(
            f"{name} must be of shape ({n},), one for each point, got {np.shape(y)}"
        )
    categories = _categories(y)
    if categories is not None:
        names, codes = categories
        used, codes = np.unique(codes, return_inverse=True)
        present = used[used >= 0]
        codes -= len(used) - len(present)  # -1 is the first, if values are missing
        return PointColors(codes, [str(names[k]) for k in present])
    values = y.to_numpy() if is_series(y) else np.asarray(y)
    values = values.astype(object) if values.dtype.kind == "T" else values
    missing = _is_missing(values)
    present = values[~missing]
    if present.dtype.kind == "O":
        present = _as_one_type(present)
    kind = present.dtype.kind
    if kind in "Mm" or (kind in "fiu" and (as_scale or not _are_few_integers(present))):
        values = np.full(n, np.nan)
        scale = {"M": "dates", "m": "durations"}.get(kind, "numbers")
        nanoseconds = {"dates": 86_400e9, "durations": 1e9}  # of the unit
        if scale != "numbers":
            present = present.astype(f"{kind}8[ns]").astype(float) / nanoseconds[scale]
        values[~missing] = present
        return PointColors(np.zeros(n, int), values=values, scale=scale)
    if kind not in "biufUS":
        raise ValueError(
            f"{name} must be numbers, dates or names of classes, got {values.dtype}"
        )
    is_text = kind not in "biuf"
    found, of_present = np.unique(
        present.astype(str) if is_text else present, return_inverse=True
    )
    texts = [_name(one) for one in found.tolist()]
    # "t2" comes before "t10"
    names, codes = sorted(texts, key=_natural) if is_text else texts, np.full(n, -1)
    codes[~missing] = _places(texts, names)[of_present]
    return PointColors(codes, names)


def _name(value):
    """The name of a class: 1.0 is 1."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if is_whole else value)


def _natural(text):
    """A key that sorts the numbers in texts by their size."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", text)
        if part
    ]


def _categories(y):
    """Names and codes of a categorical of pandas or polars, or None."""
    of_pandas = getattr(y, "cat", y)
    if hasattr(of_pandas, "categories") and hasattr(of_pandas, "codes"):
        return list(of_pandas.categories), np.asarray(of_pandas.codes, dtype=int)
    if type(getattr(y, "dtype", None)).__name__ == "Enum" and hasattr(y, "to_physical"):
        return list(y.dtype.categories), np.asarray(
            y.to_physical().cast(int).fill_null(-1)
        )
    return None


def _is_missing(values):
    """Which values are None, NaN, NaT or NA."""
    if values.dtype.kind != "O":
        # NaN and NaT are not equal to themselves
        return values != values
    return np.array(
        [
            v is None or type(v).__name__ in ("NAType", "NaTType") or v != v
            for v in values
        ],
        dtype=bool,
    )


def _as_one_type(values):
    """Objects as numbers, booleans or dates, if all of them are. Others are classes by
    their text."""
    kinds = {type(value) for value in values}
    if all(issubclass(kind, (bool, np.bool_)) for kind in kinds):
        return values.astype(bool)
    if all(
        issubclass(kind, (int, float, np.number)) and not issubclass(kind, bool)
        for kind in kinds
    ):
        return np.array(values.tolist())
    if all(hasattr(value, "start_time") for value in values):  # periods of pandas
        values = np.array([value.start_time for value in values], dtype=object)
    if all(hasattr(value, "isoformat") and hasattr(value, "year") for value in values):
        return local_times(values).astype("M8[ns]")
    if all(hasattr(value, "total_seconds") for value in values):
        return values.astype("m8[us]")
    return values.astype(str)


def _are_few_integers(values):
    """Whether numbers are classes, and not a scale."""
    return bool((values == np.rint(values)).all()) and len(np.unique(values)) <= 20


def _ordered(names, order):
    """The classes in an order, which may have further ones."""
    if order is None:
        return list(names)
    order = dict.fromkeys(name for one in order for name in (str(one), _name(one)))
    lacking = [name for name in names if name not in order]
    if lacking:
        raise ValueError(
            "order must have all classes, got none of "
            f"{', '.join(map(repr, lacking[:10]))}"
        )
    return [name for name in order if name in names]


def _looks(names, palette, known):
    """Colour and shape of each class."""
    if isinstance(palette, dict):
        given = {_name(name): color for name, color in palette.items()}
        given |= {str(name): color for name, color in palette.items()}
        lacking = [name for name in names if name not in given]
        if lacking:
            raise ValueError(
                "palette must have a colour for each class, got none for "
                f"{', '.join(lacking[:10])}"
            )
        return [(_color(given[name]), SHAPES[0]) for name in names]
    colors = _colors_of(palette, len(names))
    fresh = ((color, shape) for shape in SHAPES for color in colors)
    taken = set(known.values())
    unused = (look for look in fresh if look not in taken)
    looks = [known.get(name) or next(unused, None) for name in names]
    if None in looks:
        raise ValueError(
            f"palette must have more than {len(colors)} colours for {len(names)} "
            f"classes, as each colour has {len(SHAPES)} shapes"
        )
    return looks


def _colors_of(palette, n):
    """The colours of a palette, as a list."""
    if palette is None:
        return PALETTE
    if isinstance(palette, str):
        if palette not in colormaps:
            raise ValueError(
                "palette must be a list or dict of colours or the name of a "
                f"colormap, got {palette!r}"
            )
        colormap = colormaps[palette]
        colors = getattr(colormap, "colors", ())
        if not 0 < len(colors) <= 64:  # a continuous one
            colors = colormap(np.linspace(0, 1, max(n, 2)))
        return [to_hex(color) for color in colors]
    colors = [_color(color) for color in palette]
    if not colors:
        raise ValueError("palette must have at least one colour, got none")
    return colors


def colormap_of(palette):
    """The colormap of a scale."""
    if palette is None or isinstance(palette, dict):
        return colormaps["viridis"]
    if isinstance(palette, str):
        _colors_of(palette, 2)  # raises for other names
        return colormaps[palette]
    return LinearSegmentedColormap.from_list("palette", _colors_of(palette, 2))


def _color(value):
    if not is_color_like(value):
        raise ValueError(
            f"palette must have colours that matplotlib knows, got {short(value)}"
        )
    return to_hex(value)
