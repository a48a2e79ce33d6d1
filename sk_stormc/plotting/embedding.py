"""Displays of embeddings: two components in the plane, three in perspective, more in pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import matplotlib
import numpy as np
from matplotlib.cbook import normalize_kwargs
from matplotlib.collections import PathCollection
from matplotlib.colors import is_color_like
from matplotlib.gridspec import GridSpecFromSubplotSpec
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from scipy.ndimage import uniform_filter

from sk_stormc.plotting._classes import GREY, Classes, Numbers, classes_or_numbers, numbers_of
from sk_stormc.plotting._style import BLUE, axes_for, check_kwargs
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.validation import as_numbers, check_bool, check_text, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EmbeddingDisplay"]

CONTINUOUS = "viridis"
WRITTEN = 40  # maximum number of classes whose names are written on the map
LISTED = 20  # number of rows of a legend
CELLS = 12  # number of cells along each axis of the map, in which the points of a class are counted
PAIRED = 5  # number of components shown in pairs
RASTER = 5000  # number of points from which a vector file contains them as pixels

# Keywords of scatter, by their names without aliases
COLORING = ("c", "color", "facecolor")
MAPPING = ("cmap", "norm", "vmin", "vmax")
UNSORTED = ("linestyle", "antialiased", "urls")  # matplotlib does not sort them by depth in three dimensions
if matplotlib.__version_info__ < (3, 11):
    UNSORTED += ("alpha",)
PER_POINT = (*COLORING, "edgecolor", "alpha", "s", "sizes", "linewidth", "linestyle", "antialiased", "urls", "array")


class EmbeddingDisplay:
    """Display of an embedding: its points, coloured by class or by a number.

    The more points there are, the smaller and more transparent they are drawn. They are drawn in random order, so that
    no class covers the others. The name of each class is written where its points are densest, if there is space.
    Coordinates have no unit and no ticks, because only proximity is meaningful.

    Parameters
    ----------
    embedding : array-like of shape (n_points, n_components)
    y : array-like of shape (n_points,), default=None
        The values that determine the colours. Strings, booleans, the values of a Categorical and up to 20 distinct
        integers are classes. They are sorted, or in the order of the categories. Other numbers get a colour bar.
        Missing values (None, NaN, NaT, ``pandas.NA`` and masked ones) are grey, and the last entry of the legend. None
        draws all points in one colour.
    y_label : str, default=""
        Title of the legend or of the colour bar.

    Attributes
    ----------
    scatter_ : list of matplotlib.collections.PathCollection
        The points, one collection for each shape and each pair of components. Those of missing values come first.
    labels_ : list of matplotlib.text.Text
        Names of classes on the map.
    legend_ : matplotlib.legend.Legend or None
    colorbar_ : matplotlib.colorbar.Colorbar or None
    axes_ : ndarray of matplotlib.axes.Axes
        The axes with the points. There are several if components are drawn in pairs.
    ax_ : matplotlib.axes.Axes
        The only one of these axes, or for pairs the empty axes around them.
    figure_ : matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If points are not finite, if the length of y or of an argument of `plot` differs from the number of points, or
        if there are more than 80 classes.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.plotting import EmbeddingDisplay
    >>> points = np.random.default_rng(0).normal(size=(90, 2))
    >>> display = EmbeddingDisplay(points, y=np.repeat(["a", "b", "c"], 30)).plot()
    >>> [text.get_text() for text in display.legend_.get_texts()]
    ['a', 'b', 'c']
    """

    ax_: Axes
    figure_: Figure
    scatter_: list[Any]

    def __init__(self, embedding: ArrayLike, *, y: ArrayLike | None = None, y_label: str = "") -> None:
        self.embedding = embedding
        self.y = y
        self.y_label = y_label

    @classmethod
    def from_estimator(
        cls, estimator: Any, y: ArrayLike | None = None, *, y_label: str = "", ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw the map of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator that has the attribute ``embedding_``.
        y : array-like of shape (n_points,), default=None
        y_label : str, default=""
        ax : matplotlib.axes.Axes, default=None
        **kwargs
            Passed to `plot`.

        Returns
        -------
        EmbeddingDisplay

        Raises
        ------
        ValueError
            If the estimator is not fitted or has no ``embedding_``, and for the reasons of `EmbeddingDisplay`.
        """
        if not hasattr(estimator, "embedding_"):
            raise ValueError(f"estimator must be fitted and have embedding_, got {short(estimator)}")
        check_text("y_label", y_label)
        name = y_label or getattr(y, "name", None)
        return cls(estimator.embedding_, y=y, y_label="" if name is None else str(name)).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, legend: bool = True, **kwargs: Any) -> Self:
        """Draw the points.

        On axes with the points of another display, classes keep their colours, and the legend shows those of both.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            None creates a new figure. For three components the axes must have been created with ``projection="3d"``.
            For more components, the pairs are drawn in place of the axes.
        legend : bool, default=True
            Whether to draw a legend or a colour bar.
        **kwargs
            Passed to `matplotlib.axes.Axes.scatter`, such as ``s``, ``alpha``, ``cmap`` and ``norm``. Sizes, colours,
            line widths and alpha may be arrays of shape (n_points,), with a value for each point in the order of the
            embedding. ``c``, ``color`` and ``facecolors`` replace the colours by y, and there is then no legend.

        Returns
        -------
        self : EmbeddingDisplay
        """
        check_bool("legend", legend)
        check_text("y_label", self.y_label)
        kwargs = normalize_kwargs({name: v for name, v in kwargs.items() if v is not None}, PathCollection)
        extra = {"s", "c", "marker", "vmin", "vmax"}
        check_kwargs("plot", _without(kwargs, extra), PathCollection)
        Z = as_numbers("embedding", self.embedding)
        if Z.ndim != 2 or not Z.size or not np.isfinite(Z).all():
            raise ValueError(f"embedding must be finite and of shape (n_points, n_components), got {short(Z)}")
        values = classes_or_numbers(self.y, len(Z))
        before = [] if ax is None else _points_on(axes_for(ax))
        known = {name: look for points in before for name, look in points.looks.items()}
        looks = values.looks(known) if isinstance(values, Classes) else {}
        groups = _groups(values, looks, kwargs, Z)
        self.scatter_, self.labels_, self.legend_, self.colorbar_ = [], [], None, None
        d = Z.shape[1]
        if d > 3:
            self._plot_pairs(ax, Z[:, :PAIRED], d, groups, list(dict.fromkeys(points.axes for points in before)))
        else:
            self._plot_one(ax, Z, groups)
        for points in self.scatter_:  # the next display on these axes finds them
            points.map_axes, points.looks = self.ax_, looks
        self.figure_ = self.ax_.figure  # type: ignore[assignment]  # a SubFigure only if the caller gave its axes
        if legend and values is not None and not any(name in kwargs for name in COLORING):
            if isinstance(values, Numbers):
                self._draw_colorbar()
            else:
                marker = {name: kwargs["marker"] for name in looks.keys() - known.keys() if "marker" in kwargs}
                self._draw_legend(known | looks, marker, own=ax is None)
        if d == 2 and isinstance(values, Classes) and len(values.names) <= WRITTEN:
            self.labels_ = _name_classes(self.ax_, Z, values)
        return self

    def _plot_one(self, ax, Z, groups):
        d = Z.shape[1]
        if ax is None:
            ax = axes_for(None, figsize=(6.4, 5.2))
            if d == 3:
                figure = ax.figure
                ax.remove()
                ax = figure.add_subplot(projection="3d")
        ax = axes_for(ax)
        if (d == 3) != (ax.name == "3d"):
            raise ValueError(
                f"ax must {'' if d == 3 else 'not '}be made with projection='3d' for {d} components, got {short(ax)}"
            )
        if d == 1:  # spread along the vertical axis by a low-discrepancy sequence
            Z = np.column_stack([Z[:, 0], np.arange(len(Z)) * 0.6180339887 % 1])
        self._scatter(ax, Z, groups)
        second = "(the height has no meaning)" if d == 1 else "component 2"
        ax.set(xlabel="component 1", ylabel=second, xticks=[], yticks=[])
        if d == 3:
            ax.set(zlabel="component 3", zticks=[])
            sizes = np.ptp([ax.get_xlim(), ax.get_ylim(), ax.get_zlim()], axis=1)
            ax.set_box_aspect(sizes.clip(1e-3 * sizes.max()))
        elif d == 2:
            ax.set_aspect("equal", "datalim")
        self.ax_, self.axes_ = ax, np.array([ax])

    def _plot_pairs(self, ax, Z, d, groups, panels):
        k = Z.shape[1]
        pairs = [(column, row) for row in range(1, k) for column in range(row)]
        if panels and len(panels) != len(pairs):
            raise ValueError(f"ax must hold the pairs of {d} components, got {len(panels)} panels for other ones")
        word = "component " if ax is None else ""  # left out if the caller's axes may be too small
        ax = axes_for(ax, figsize=(1.9 * k, 1.8 * k))
        if ax.get_subplotspec() is None:
            raise ValueError(f"ax must be of a grid of subplots, to hold the pairs of {d} components, got {short(ax)}")
        if not panels:
            title = f"components 1 to {k} of {d}, in pairs" if k < d else f"{d} components, in pairs"
            ax.set_title(title, fontsize="medium")
            ax.set(xticks=[], yticks=[], facecolor="none")
            ax.set_frame_on(False)
            grid = GridSpecFromSubplotSpec(k - 1, k - 1, ax.get_subplotspec())
            panels = [ax.figure.add_subplot(grid[row - 1, column]) for column, row in pairs]
            for one, (column, row) in zip(panels, pairs, strict=True):
                one.set(xticks=[], yticks=[])
                one.set_aspect("equal", "datalim")
                one.set_xlabel(f"{word}{column + 1}" if row == k - 1 else "", fontsize="small")
                one.set_ylabel(f"{word}{row + 1}" if column == 0 else "", fontsize="small")
        for one, pair in zip(panels, pairs, strict=True):
            self._scatter(one, Z[:, pair], groups, crowd=k - 1)
        self.ax_, self.axes_ = ax, np.array(panels)

    def _scatter(self, ax, Z, groups, crowd=1):
        size = np.clip(420 / np.sqrt(len(Z)), 0.3, 36) / crowd
        for rows, style in groups:
            self.scatter_.append(ax.scatter(*Z[rows].T, **{"s": size, **style}))

    def _draw_colorbar(self):
        axes = self.axes_.tolist()
        pad = 0.14 if self.ax_.name == "3d" else 0.02  # the third axis has its label on this side
        self.colorbar_ = self.ax_.figure.colorbar(self.scatter_[-1], ax=axes, label=self.y_label, shrink=0.8, pad=pad)
        self.colorbar_.solids.set(alpha=1)

    def _draw_legend(self, looks, marker, own):
        """Draw the legend of all classes on the axes, in place of an earlier one. ``own`` puts it beside the axes."""
        figure, names = self.ax_.figure, sorted(looks, key=lambda name: name is None)
        handles = [
            Line2D([], [], linestyle="", marker=marker.get(name, looks[name][1]), color=looks[name][0], markersize=6)
            for name in names
        ]
        earlier = [one for one in (*figure.legends, self.ax_.get_legend()) if _is_of(self.ax_, one)]
        style = {
            "handles": handles,
            "labels": ["missing" if name is None else name for name in names],
            "title": self.y_label or next((one.get_title().get_text() for one in earlier), None),
            "fontsize": "small",
            "ncols": -(-len(handles) // LISTED),
            "handletextpad": 0.2,
        }
        if len(self.axes_) > 1:  # the upper triangle of the pairs is empty
            self.legend_ = self.ax_.legend(loc="upper right", **style)
        elif own or any(one in figure.legends for one in earlier):
            self.legend_ = figure.legend(loc="outside right center", **style)
        else:
            self.legend_ = self.ax_.legend(loc="best", framealpha=0.85, **style)
        self.legend_.map_axes = self.ax_
        for one in earlier:
            if one in figure.legends:  # the axes replace their own
                one.remove()


def _points_on(ax):
    """The points that displays have drawn on the axes, or on the panels that stand in their place."""
    drawn = [points for one in ax.figure.axes for points in one.collections]
    return [points for points in drawn if _is_of(ax, points)]


def _is_of(ax, artist):
    """Whether a display has drawn the artist for the axes."""
    return getattr(artist, "map_axes", None) is ax


def _groups(values, looks, kwargs, Z):
    """(rows, keywords) of the points that one call of scatter draws, those without a value first."""
    n, d = Z.shape
    if (numbers := _numbers_for(kwargs.get("c"), n)) is not None:
        values, kwargs = Numbers(numbers), _without(kwargs, ["c"])
    own_colors = any(name in kwargs for name in COLORING)
    if isinstance(values, Numbers) and own_colors:
        values = None
    elif isinstance(values, Numbers):
        kwargs = kwargs | {"cmap": _with_grey(kwargs.get("cmap", CONTINUOUS))}
    each = {name: _for_each(name, kwargs[name], n) for name in PER_POINT if name in kwargs}
    each = {name: of_points for name, of_points in each.items() if of_points is not None}
    for name in UNSORTED if d == 3 else ():
        if name in each:
            raise ValueError(f"{name} must be one value for all points of three components, got one for each point")
    common = {"alpha": float(np.clip(14 / n**0.32, 0.25, 0.9)), "linewidth": 0, "rasterized": n >= RASTER}
    common |= _without(kwargs, each)
    groups = []
    for rows, look in _parts(values, looks, np.random.default_rng(0).permutation(n)):
        style = look | (_without(common, MAPPING) if look["c"] is GREY else common)
        style |= {name: _rows_of(of_points, rows) for name, of_points in each.items()}
        if own_colors and "c" not in kwargs:
            del style["c"]
        groups += [(rows, style)] if rows.size else []
    return groups


def _parts(values, looks, order):
    """(rows, colour and shape) of the points without a value, and of those of each shape."""
    if values is None:
        yield order, {"c": BLUE}
    elif isinstance(values, Numbers):
        numbers = values.values[order]
        missing = np.isnan(numbers)
        yield order[missing], {"c": GREY}
        yield order[~missing], {"c": numbers[~missing]}
    else:
        codes = values.codes[order]
        yield order[codes < 0], {"c": GREY}
        colors, shapes = (np.array([look[k] for look in looks.values()]) for k in (0, 1))
        for shape in dict.fromkeys(shapes.tolist()):
            some = (codes >= 0) & (shapes[codes] == shape)
            yield order[some], {"c": colors[codes[some]].tolist(), "marker": shape}


def _without(kwargs, names):
    return {name: value for name, value in kwargs.items() if name not in names}


def _numbers_for(c, n):
    """The numbers of an argument c that holds one for each point, or None for colours. This is matplotlib's rule."""
    try:
        numbers = numbers_of(c)
    except (TypeError, ValueError):  # lists of colours in several formats
        return None
    return numbers.ravel() if numbers is not None and numbers.size == n and len(numbers) == n else None


def _with_grey(cmap):
    """The colormap, with grey for numbers that its norm does not map, such as negative ones for a logarithm."""
    cmap = matplotlib.colormaps.get_cmap(cmap)
    return cmap if cmap.get_bad()[3] else cmap.with_extremes(bad=GREY)


def _for_each(name, value, n):
    """The values of a keyword, one for each point, or None if it has one value for all of them."""
    one_color = name in (*COLORING, "edgecolor") and is_color_like(value)
    one_dash = name == "linestyle" and isinstance(value, tuple)
    if isinstance(value, str) or not np.iterable(value) or one_color or one_dash or len(value) == 1:
        return None
    if len(value) != n:
        raise ValueError(f"{name} must be one value or one for each of the {n} points, got {len(value)}")
    return np.asarray(value) if hasattr(value, "to_numpy") else value


def _rows_of(values, rows):
    return values[rows] if isinstance(values, np.ndarray) else [values[k] for k in rows]


def _name_classes(ax, Z, classes):
    """Write the name of each class where its points are densest, unless it or another name is there."""
    figure = ax.figure.figure
    figure.draw_without_rendering()  # the layout determines how much space there is
    written = {text.get_text() for text in ax.texts}
    labels, boxes = [], [text.get_window_extent() for text in ax.texts]
    extent = np.stack([Z.min(axis=0), Z.max(axis=0)], axis=1)
    sizes = np.bincount(classes.codes[classes.codes >= 0], minlength=len(classes.names))
    for k in np.argsort(-sizes, kind="stable"):  # the largest first
        if classes.names[k] in written:
            continue
        x, y = _heart(Z[classes.codes == k], extent)
        label = ax.text(x, y, classes.names[k], ha="center", va="center", fontsize="medium", fontweight="bold")
        label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
        label.set(in_layout=False, clip_on=True)
        box = label.get_window_extent()
        if any(box.overlaps(other) for other in boxes):
            label.remove()
            continue
        labels.append(label)
        boxes.append(box)
    return labels


def _heart(points, extent):
    """The point in the middle of the densest part of a class, which may have several parts."""
    counts, *edges = np.histogram2d(*points.T, bins=CELLS, range=extent)
    around = uniform_filter(counts, 3, mode="constant")
    best = np.unravel_index(np.argmax(around * (counts > 0)), counts.shape)
    low = [edge[max(k - 1, 0)] for edge, k in zip(edges, best, strict=True)]
    high = [edge[min(k + 2, CELLS)] for edge, k in zip(edges, best, strict=True)]
    near = points[((points >= low) & (points <= high)).all(axis=1)]
    return near[np.abs(near - np.median(near, axis=0)).sum(axis=1).argmin()]
