"""Common parts of all figures: colours, line styles, axes, ticks of logarithmic axes,
labels without overlap."""

from itertools import cycle

import numpy as np
from matplotlib.artist import ArtistInspector
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, Locator, MaxNLocator, NullLocator

from sk_stormc.utils.validation import short

__all__ = [
    "BLUE",
    "COLORS",
    "GRID",
    "MAX_NAMES",
    "LogTickFormatter",
    "LogTicks",
    "axes_for",
    "check_kwargs",
    "log_axis",
    "place_labels",
    "styles_of",
    "unmanaged_figure",
]

BLUE = "#0072B2"
# Okabe & Ito's colours, the darkest ones first, because pale ones are hard to see on
# white.
COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#882255",
)
GRID = {"color": "0.9", "linewidth": 0.6}
MAX_NAMES = 40  # names that are written on a picture; more would hide it

# Colours, line styles and markers, each of which distinguishes the methods by itself.
# Methods with nearly equal curves have a wide and a narrow line, so that both are
# visible.
_STYLES = {
    "scgd": {
        "color": "#E69F00",
        "linestyle": "-",
        "linewidth": 4.5,
        "zorder": 1.8,
        "marker": "o",
    },
    "acc-scgd": {
        "color": "#CC79A7",
        "linestyle": (0, (1, 1)),
        "linewidth": 3.0,
        "zorder": 1.9,
        "marker": "p",
    },
    "asc-pg": {
        "color": "#000000",
        "linestyle": (0, (1, 2)),
        "linewidth": 1.6,
        "marker": "x",
    },
    "vrsc-pg": {
        "color": "#56B4E9",
        "linestyle": (0, (2.5, 0.5)),
        "linewidth": 4.5,
        "zorder": 1.8,
        "marker": "D",
    },
    "scvr": {
        "color": "#0072B2",
        "linestyle": (0, (4, 1, 1, 1, 1, 1)),
        "linewidth": 1.4,
        "marker": "<",
    },
    "civr": {
        "color": "#D55E00",
        "linestyle": (0, (8, 2)),
        "linewidth": 1.4,
        "marker": ">",
    },
    "sarah-c": {
        "color": "#000000",
        "linestyle": (0, (5, 3)),
        "linewidth": 1.3,
        "marker": "^",
    },
    "storm-c-paper": {
        "color": "#009E73",
        "linestyle": (0, (6, 1.5, 1, 1.5)),
        "linewidth": 2.2,
        "marker": "v",
    },
    "storm-c": {"color": "#D55E00", "linestyle": "-", "linewidth": 2.2, "marker": "s"},
    "sketchy-storm": {
        "color": "#882255",
        "linestyle": (0, (1, 1)),
        "linewidth": 2.4,
        "marker": "h",
    },
    "lbfgs": {
        "color": "#0072B2",
        "linestyle": (0, (3, 1.2)),
        "linewidth": 2.2,
        "marker": "P",
    },
}
_OTHERS = [
    {"color": color, "linestyle": style, "linewidth": 2.0, "marker": marker}
    for color, style, marker in zip(
        ("#CC79A7", "#0072B2", "#D55E00", "#009E73", "#000000", "#E69F00", "#56B4E9"),
        ("--", "-.", ":", (0, (8, 2)), (0, (3, 1, 1, 1)), (0, (1, 3)), "-"),
        "dX*H8os",
        strict=True,
    )
]


def styles_of(labels):
    """The style of each label's curve. The names of solvers have the same style in all
    figures."""
    others = cycle(_OTHERS)
    return {label: dict(_STYLES.get(label) or next(others)) for label in labels}


def check_kwargs(where, kwargs, artist):
    """Raise a ValueError for a keyword that is not a property of the matplotlib
    class."""
    inspector = ArtistInspector(artist)
    properties = {
        *inspector.get_setters(),
        *(alias for names in inspector.aliasd.values() for alias in names),
    }
    unknown = [name for name in kwargs if name not in properties]
    if unknown:
        raise ValueError(
            f"{where} takes properties of matplotlib's {artist.__name__}, got "
            f"{', '.join(unknown)}"
        )


def axes_for(ax, **figure):
    """The axes to draw on, and their figure: the given axes, or new axes from
    pyplot."""
    if ax is None:
        from matplotlib import pyplot as plt  # importing pyplot chooses a backend

        return plt.figure(layout="constrained", **figure).add_subplot()
    if not hasattr(ax, "get_xaxis") or not hasattr(ax, "scatter"):
        raise ValueError(f"ax must be matplotlib axes or None, got {short(ax)}")
    return ax


def unmanaged_figure(width, height):
    """A figure that is not managed by pyplot, so that no backend is chosen."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


class LogTicks(Locator):
    """Ticks of a logarithmic axis, with enough ticks even if it spans less than a
    decade.

    Parameters
    ----------
    first : float, default=None
        The value from which a symmetric logarithmic axis that begins at 0 is
        logarithmic. 0 then has a tick too.
    """

    def __init__(self, first=None):
        self.first = first

    def __call__(self):
        """The ticks for the current limits of the axis."""
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin, vmax):
        """The ticks between two numbers."""
        low, high = sorted((vmin, vmax))
        zero = [] if self.first is None or low > 0 else [0.0]
        low = low if self.first is None else max(low, self.first)
        if not 0 < low < high:
            return np.array(zero)
        slack = 1e-9
        bottom, top = np.log10(low), np.log10(high)
        powers = np.arange(np.ceil(bottom - slack), np.floor(top + slack) + 1)
        if len(powers) >= 3:
            ticks = 10.0 ** powers[:: int(np.ceil(len(powers) / 8))]
        else:
            decades = 10.0 ** np.arange(np.floor(bottom), np.ceil(top) + 1)
            for steps in ([1, 3], [1, 2, 5]):
                ticks = self._within((decades[:, None] * steps).ravel(), low, high)
                if len(ticks) >= 3:
                    break
            else:
                ticks = self._within(
                    MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high),
                    low,
                    high,
                )
        return np.concatenate([zero, ticks])

    @staticmethod
    def _within(ticks, low, high):
        return ticks[(ticks >= low * (1 - 1e-9)) & (ticks <= high * (1 + 1e-9))]


class LogTickFormatter(Formatter):
    """Plain numbers if all of them are short, otherwise powers of ten with factors."""

    def __call__(self, x, pos=None):
        """The label of one tick."""
        return self.format_ticks([x])[0]

    def format_ticks(self, values):
        """The labels of all ticks."""
        sizes = np.abs([value for value in values if value])
        if not sizes.size or (sizes.min() >= 1e-3 and sizes.max() < 1e5):
            return [f"{value:,.10g}" for value in values]
        return [self._power(value) for value in values]

    @staticmethod
    def _power(value):
        if not value:
            return "0"
        power = int(np.floor(np.log10(abs(value)) + 1e-9))
        factor = value / 10.0**power
        times = "" if np.isclose(factor, 1) else rf"{factor:.4g}\times"
        return rf"${times}10^{{{power}}}$"


def log_axis(axis, first=None):
    """Set the ticks of a logarithmic axis."""
    axis.set_major_locator(LogTicks(first))
    axis.set_major_formatter(LogTickFormatter())
    axis.set_minor_locator(NullLocator())


def place_labels(ax, points, texts, *, taken=(), **style):
    """Write names beside points without overlap. Names for which there is no space are
    left out."""
    figure = ax.figure.figure
    figure.draw_without_rendering()  # the layout determines how much space there is
    frame, written, boxes = ax.get_window_extent(), [], list(taken)
    for point, text in zip(np.asarray(points, dtype=float), texts, strict=True):
        for dx, dy, ha, va in _SIDES:
            label = ax.annotate(
                text,
                point,
                (dx, dy),
                textcoords="offset points",
                ha=ha,
                va=va,
                annotation_clip=True,
                **style,
            )
            label.set_in_layout(False)
            box = label.get_window_extent().padded(1)
            inside = (
                frame.x0 <= box.x0
                and box.x1 <= frame.x1
                and frame.y0 <= box.y0
                and box.y1 <= frame.y1
            )
            if inside and not any(box.overlaps(other) for other in boxes):
                written.append(label)
                boxes.append(box)
                break
            label.remove()
    return written


_SIDES = [
    (5, 0, "left", "center"),
    (-5, 0, "right", "center"),
    (0, 5, "center", "bottom"),
    (0, -5, "center", "top"),
    (4, 4, "left", "bottom"),
    (4, -4, "left", "top"),
    (-4, 4, "right", "bottom"),
    (-4, -4, "right", "top"),
    (0, -11, "center", "top"),
    (0, 11, "center", "bottom"),
    (8, -9, "left", "top"),
    (-8, -9, "right", "top"),
]
