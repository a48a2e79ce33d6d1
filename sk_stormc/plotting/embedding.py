"""Displays of embeddings: two components in the plane, three in perspective, more in pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.gridspec import GridSpecFromSubplotSpec
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from scipy.ndimage import uniform_filter

from sk_stormc.plotting._style import BLUE, COLORS, axes_for, check_kwargs
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.validation import as_numbers, check_bool, check_text, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EmbeddingDisplay"]

# Petroff's ten colours, which colour-blind people can distinguish; Okabe & Ito's are fewer and more distinct.
TEN = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
SHAPES = "o^sDv*Pp"
CONTINUOUS = "viridis"
NUMBERS = 20  # number of distinct integers above which they are a scale and not classes
CLASSES = len(TEN) * len(SHAPES)
WRITTEN = 40  # maximum number of classes whose names are written on the map
LISTED = 20  # number of rows of a legend
CELLS = 12  # number of cells along each axis of the map, in which the points of a class are counted
PAIRED = 5  # number of components shown in pairs
RASTER = 5000  # number of points from which a vector file contains them as pixels


class EmbeddingDisplay:
    """Display of an embedding: its points, coloured by class or by a number.

    The more points there are, the smaller and more transparent they are drawn. They are drawn in random order, so that
    no class covers the others. The name of each class is written where its points are densest, if there is space.
    Coordinates have no unit and no ticks, because only proximity is meaningful.

    Parameters
    ----------
    embedding : array-like of shape (n_points, n_components)
    y : array-like of shape (n_points,), default=None
        The values that determine the colours. Strings, booleans and up to 20 distinct integers are classes. Other
        numbers get a colour bar, and NaN is grey. None draws all points in one colour.
    y_label : str, default=""
        Title of the legend or of the colour bar.

    Attributes
    ----------
    scatter_ : list of matplotlib.collections.PathCollection
        The points, one collection for each shape and each pair of components.
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
        If points are not finite, if the length of y differs from the number of points, or if there are more than 80
        classes.

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

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            None creates a new figure. For three components the axes must have been created with ``projection="3d"``.
            For more components, the pairs are drawn in place of the axes.
        legend : bool, default=True
            Whether to draw a legend or a colour bar.
        **kwargs
            Passed to `matplotlib.axes.Axes.scatter`, such as ``s``, ``alpha`` and ``cmap``.

        Returns
        -------
        self : EmbeddingDisplay
        """
        check_bool("legend", legend)
        check_text("y_label", self.y_label)
        extra = {"s", "c", "marker", "vmin", "vmax", "edgecolors"}
        check_kwargs("plot", {name: value for name, value in kwargs.items() if name not in extra}, PathCollection)
        Z = as_numbers("embedding", self.embedding)
        if Z.ndim != 2 or not Z.size or not np.isfinite(Z).all():
            raise ValueError(f"embedding must be finite and of shape (n_points, n_components), got {short(Z)}")
        colours = _Colours(self.y, Z)
        self.scatter_, self.labels_, self.legend_, self.colorbar_ = [], [], None, None
        d = Z.shape[1]
        if d > 3:
            self._plot_pairs(ax, Z[:, :PAIRED], d, colours, kwargs)
        else:
            self._plot_one(ax, Z, colours, kwargs)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]  # a SubFigure only if the caller gave its axes
        if legend and self.y is not None:
            self._write_legend(colours, own=ax is None)
        if d == 2 and colours.names is not None and len(colours.names) <= WRITTEN:
            self.labels_ = _name_classes(self.ax_, Z, colours)
        return self

    def _plot_one(self, ax, Z, colours, kwargs):
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
        self._scatter(ax, Z, colours, kwargs)
        second = "(the height has no meaning)" if d == 1 else "component 2"
        ax.set(xlabel="component 1", ylabel=second, xticks=[], yticks=[])
        if d == 3:
            ax.set(zlabel="component 3", zticks=[])
            ax.set_box_aspect(np.ptp(Z, axis=0).clip(1e-3 * np.ptp(Z)))
        elif d == 2:
            ax.set_aspect("equal", "datalim")
        self.ax_, self.axes_ = ax, np.array([ax])

    def _plot_pairs(self, ax, Z, d, colours, kwargs):
        k = Z.shape[1]
        word = "component " if ax is None else ""  # left out if the caller's axes may be too small
        ax = axes_for(ax, figsize=(1.9 * k, 1.8 * k))
        if ax.get_subplotspec() is None:
            raise ValueError(f"ax must be of a grid of subplots, to hold the pairs of {d} components, got {short(ax)}")
        title = f"components 1 to {k} of {d}, in pairs" if k < d else f"{d} components, in pairs"
        ax.set_title(title, fontsize="medium")
        ax.set(xticks=[], yticks=[], facecolor="none")
        ax.set_frame_on(False)
        grid = GridSpecFromSubplotSpec(k - 1, k - 1, ax.get_subplotspec())
        self.ax_, panels = ax, []
        for row in range(1, k):
            for column in range(row):
                one = ax.figure.add_subplot(grid[row - 1, column])
                self._scatter(one, Z[:, [column, row]], colours, kwargs, crowd=k - 1)
                one.set(xticks=[], yticks=[])
                one.set_aspect("equal", "datalim")
                one.set_xlabel(f"{word}{column + 1}" if row == k - 1 else "", fontsize="small")
                one.set_ylabel(f"{word}{row + 1}" if column == 0 else "", fontsize="small")
                panels.append(one)
        self.axes_ = np.array(panels)

    def _scatter(self, ax, Z, colours, kwargs, crowd=1):
        n = len(Z)
        style = {
            "s": np.clip(420 / np.sqrt(n), 0.3, 36) / crowd,
            "alpha": float(np.clip(14 / n**0.32, 0.25, 0.9)),
            "linewidths": 0,
            "rasterized": n >= RASTER,
            **kwargs,
        }
        order = np.random.default_rng(0).permutation(n)
        for marker, rows, colour in colours.groups(order):
            self.scatter_.append(ax.scatter(*Z[rows].T, **{"marker": marker, **colour, **style}))

    def _write_legend(self, colours, own):
        figure = self.ax_.figure
        if colours.names is None:
            axes = self.axes_.tolist()
            pad = 0.14 if self.ax_.name == "3d" else 0.02  # the third axis has its label on this side
            self.colorbar_ = figure.colorbar(self.scatter_[-1], ax=axes, label=self.y_label, shrink=0.8, pad=pad)
            self.colorbar_.solids.set(alpha=1)
            return
        handles = [
            Line2D([], [], linestyle="", marker=marker, color=color, markersize=6, label=name)
            for name, (color, marker) in zip(colours.names, colours.looks, strict=True)
        ]
        columns = -(-len(handles) // LISTED)
        style = {"title": self.y_label or None, "fontsize": "small", "ncols": columns, "handletextpad": 0.2}
        if len(self.axes_) > 1:  # the upper triangle of the pairs is empty
            self.legend_ = self.ax_.legend(handles=handles, loc="upper right", **style)
        elif own:
            self.legend_ = figure.legend(handles=handles, loc="outside right center", **style)
        else:
            self.legend_ = self.ax_.legend(handles=handles, loc="best", framealpha=0.85, **style)


class _Colours:
    """The style of each point: ``names`` and ``looks`` of classes, or ``values`` of a scale."""

    def __init__(self, y, Z):
        n = len(Z)
        self.names = self.values = None
        if y is None:
            return
        y = np.asarray(y)
        if y.shape != (n,):
            raise ValueError(f"y must be of shape ({n},), one for each point, got {y.shape}")
        if y.dtype.kind in "fiu" and not self._few_integers(y):
            self.values = y.astype(float)
            return
        if y.dtype.kind not in "biufOUST":
            raise ValueError(f"y must be numbers or names of classes, got {y.dtype}")
        names, self.codes = np.unique(y.astype(str) if y.dtype.kind not in "biuf" else y, return_inverse=True)
        if len(names) > CLASSES:
            raise ValueError(f"y must have at most {CLASSES} classes, got {len(names)}")
        is_float = y.dtype.kind == "f"
        self.names = [f"{name:g}" if is_float else str(name) for name in names]
        palette = COLORS if len(names) <= len(COLORS) else TEN
        self.looks = [(palette[k % len(palette)], SHAPES[k // len(palette)]) for k in range(len(names))]

    @staticmethod
    def _few_integers(y):
        return np.isfinite(y).all() and (y == np.rint(y)).all() and len(np.unique(y)) <= NUMBERS

    def groups(self, order):
        """(marker, rows, keywords of scatter) of the points that are drawn by one call."""
        if self.values is not None:
            good = np.isfinite(self.values)
            missing = order[~good[order]]
            if missing.size:
                yield "o", missing, {"c": "0.8"}
            rows, values = order[good[order]], self.values[good]
            limits = {"vmin": values.min(), "vmax": values.max()} if values.size else {}
            yield "o", rows, {"c": self.values[rows], "cmap": CONTINUOUS, **limits}
        elif self.names is None:
            yield "o", order, {"c": BLUE}
        else:
            colour = np.array([look[0] for look in self.looks])
            shape = np.array([look[1] for look in self.looks])
            for marker in dict.fromkeys(shape):
                rows = order[shape[self.codes[order]] == marker]
                yield marker, rows, {"c": colour[self.codes[rows]].tolist()}


def _name_classes(ax, Z, colours):
    """Write the name of each class where its points are densest, unless another name is there."""
    figure = ax.figure.figure
    figure.draw_without_rendering()  # the layout determines how much space there is
    labels, boxes, extent = [], [], np.stack([Z.min(axis=0), Z.max(axis=0)], axis=1)
    for k in np.argsort(-np.bincount(colours.codes), kind="stable"):  # the largest first
        x, y = _heart(Z[colours.codes == k], extent)
        label = ax.text(x, y, colours.names[k], ha="center", va="center", fontsize="medium", fontweight="bold")
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
