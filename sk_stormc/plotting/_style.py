"""Common parts of all figures: colours, line styles, axes, ticks of logarithmic axes,
labels without overlap."""

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import Formatter, Locator, MaxNLocator, NullLocator

from sk_stormc.utils.parameters import short

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
# of lines without markers, which are distinguished by colour first
LINE_STYLES = ("-", "--", "-.", ":")
MAX_NAMES = 40  # names that are written on a picture; more would hide it

# Colours, line styles and markers, each of which distinguishes the methods by itself.
# Methods with nearly equal curves have a wide and a narrow line, so that both are
# visible.
_PROPERTIES = "color", "linestyle", "linewidth", "marker", "zorder"
_STYLES = {
    "scgd": ("#E69F00", "-", 4.5, "o", 1.8),
    "acc-scgd": ("#CC79A7", (0, (1, 1)), 3.0, "p", 1.9),
    "asc-pg": ("#000000", (0, (1, 2)), 1.6, "x", 2),
    "vrsc-pg": ("#56B4E9", (0, (2.5, 0.5)), 4.5, "D", 1.8),
    "scvr": ("#0072B2", (0, (4, 1, 1, 1, 1, 1)), 1.4, "<", 2),
    "civr": ("#D55E00", (0, (8, 2)), 1.4, ">", 2),
    "sarah-c": ("#000000", (0, (5, 3)), 1.3, "^", 2),
    "storm-c-paper": ("#009E73", (0, (6, 1.5, 1, 1.5)), 2.2, "v", 2),
    "storm-c": ("#D55E00", "-", 2.2, "s", 2),
    "sketchy-storm": ("#882255", (0, (1, 1)), 2.4, "h", 2),
    "lbfgs": ("#0072B2", (0, (3, 1.2)), 2.2, "P", 2),
}
_OTHERS = (
    ("#CC79A7", "--", 2.0, "d", 2),
    ("#0072B2", "-.", 2.0, "X", 2),
    ("#D55E00", ":", 2.0, "*", 2),
    ("#009E73", (0, (8, 2)), 2.0, "H", 2),
    ("#000000", (0, (3, 1, 1, 1)), 2.0, "8", 2),
    ("#E69F00", (0, (1, 3)), 2.0, "o", 2),
    ("#56B4E9", "-", 2.0, "s", 2),
)


def styles_of(labels):
    """The style of each label's curve. The names of solvers have the same style in all
    figures."""
    styles, k, n = {}, 0, len(_OTHERS)
    for label in labels:
        look = _STYLES.get(label)
        if look is None:
            # each lap combines the colours with the lines and markers of others
            color, look = _OTHERS[k % n][0], _OTHERS[(k + k // n) % n]
            look, k = (color, *look[1:]), k + 1
        styles[label] = dict(zip(_PROPERTIES, look, strict=True))
        styles[label]["color"] = visible(styles[label]["color"])
    return styles


def grey(share):
    """A grey between the text (0) and the background (1) of the current style."""
    text, background = (
        to_rgb(rcParams["text.color"]),
        to_rgb(rcParams["axes.facecolor"]),
    )
    mixed = (1 - share) * np.array(text) + share * np.array(background)
    return to_hex(mixed)


def visible(color):
    """A colour, of which black is the colour of the text: it would not be visible on a
    dark background."""
    return to_hex(rcParams["text.color"]) if to_hex(color) == "#000000" else color


def draw_grid(ax):
    """Draw a faint grid below the curves."""
    ax.grid(True, color=grey(0.9), linewidth=0.6)
    ax.set_axisbelow(True)


def shortened(name, length=28):
    """A name of at most ``length`` characters, of which the middle is left out."""
    if len(name) <= length:
        return name
    return f"{name[: length // 2]}…{name[1 - length // 2 :]}"


def check_kwargs(where, kwargs, artist):
    """Raise a ValueError for a keyword that is not a property of the matplotlib
    class."""
    unknown = [name for name in kwargs if not hasattr(artist, f"set_{name}")]
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
    if not isinstance(ax, Axes):
        raise ValueError(f"ax must be matplotlib axes or None, got {short(ax)}")
    return ax


def write_literally(*artists):
    """Draw the texts of artists, such as names in a legend, as they are. Matplotlib
    would read a part between two dollar signs as a formula."""
    for artist in artists:
        for text in artist.findobj(Text):
            text.set_parse_math(False)


def local_times(values):
    """An array of objects in which datetimes have no time zone, because NumPy's have
    none."""

    def local(value):
        return value.replace(tzinfo=None) if getattr(value, "tzinfo", None) else value

    return np.frompyfunc(local, 1, 1)(values)


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
        decades = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        parts = [
            np.outer(10.0**decades, part).ravel() for part in ([1], [1, 3], [1, 2, 5])
        ]
        linear = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        for ticks in (*parts, linear):
            ticks = ticks[(ticks >= low * (1 - 1e-9)) & (ticks <= high * (1 + 1e-9))]
            if len(ticks) >= 3:
                break
        return np.concatenate([zero, ticks[:: max(1, -(-len(ticks) // 8))]])


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


def place_labels(ax, points, texts, taken, **style):
    """Write names beside points without overlap, also with the boxes that are taken.
    Names for which there is no space are left out. The layout must be determined."""
    frame, written, boxes = ax.get_window_extent(), [], list(taken)
    for point, text in zip(np.asarray(points, dtype=float), texts, strict=True):
        for dx, dy in _OFFSETS:
            label = ax.annotate(
                text,
                point,
                (dx, dy),
                textcoords="offset points",
                ha=("center", "left", "right")[np.sign(dx)],
                va=("center", "bottom", "top")[np.sign(dy)],
                annotation_clip=True,
                parse_math=False,
                **style,
            )
            label.set_in_layout(False)
            box = label.get_window_extent().padded(1)
            inside = frame.contains(*box.min) and frame.contains(*box.max)
            if inside and not any(box.overlaps(other) for other in boxes):
                written.append(label)
                boxes.append(box)
                break
            label.remove()
    return written


_OFFSETS = (
    (5, 0), (-5, 0), (0, 5), (0, -5), (4, 4), (4, -4), (-4, 4), (-4, -4), (0, -11),
    (0, 11), (8, -9), (-8, -9),
)  # fmt: skip
