"""Displays of embeddings: two components in the plane, three in perspective, more in
pairs."""

from __future__ import annotations

from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cbook import normalize_kwargs
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecFromSubplotSpec

from sk_stormc.plotting._style import MAX_NAMES, axes_for, check_kwargs
from sk_stormc.plotting.map_legends import name_classes, write_colorbar, write_legend
from sk_stormc.plotting.point_colors import PointColors, point_colors
from sk_stormc.plotting.point_layers import COLORED, PointLayers
from sk_stormc.plotting.points import finite_points, spread_out
from sk_stormc.utils.atomic import atomically
from sk_stormc.utils.parameters import check_bool, check_text, naming, short
from sk_stormc.utils.types import ArrayLike, FloatArray

# so that classes keep them
_looks_on_axes: WeakKeyDictionary[Any, dict[str, tuple[str, str]]] = WeakKeyDictionary()


class EmbeddingDisplay:
    """Display of an embedding: its points, coloured by class or by a number.

    The more points there are, the smaller and more transparent they are drawn. They are
    drawn in random order, so that no class covers the others. The name of each class is
    written on its largest island, where most of the points are its own, if there is
    space. Coordinates have no unit and no ticks, because only proximity is meaningful.

    Parameters
    ----------
    embedding : array-like of shape (n_points, n_components)
    y : array-like of shape (n_points,), default=None
        The values that determine the colours. Strings, booleans, categories and up to
        20 distinct integers are classes. The order of the classes is that of the
        categories, and otherwise ascending. Other numbers, dates, periods and durations
        get a colour bar; infinite ones have the colours at its ends. Missing values are
        grey, and the last entry of a legend. None draws all points in one colour.
    y_label : str, default=""
        Title of the legend or of the colour bar.
    palette : dict, list of colours or str, default=None
        Colours of the classes by their names, or in their order, such as a palette of
        seaborn or scanpy, or the name of a colormap of matplotlib. None means 20
        colours, of which colour-blind people can distinguish the first eight. Further
        classes have other shapes. A scale uses the colormap, or one between the colours
        of a list.
    order : list of str, default=None
        The order of the classes. It may have classes that y does not have.
    new : array-like of shape (n_new, n_components), default=None
        Further points, such as those of `SNEEmbedding.transform`. They are drawn larger
        and with an outline, and the others fainter.
    y_new : array-like of shape (n_new,), default=None
        Their values.
    continuous : bool, default=False
        Whether numbers get a colour bar even if they are few integers, such as years or
        grades.

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
        If points are not finite, if the length of y differs from the number of points,
        if there are more than 160 classes, if palette or order lack a class, or if
        continuous is True for other classes than numbers.

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

    def __init__(
        self,
        embedding: ArrayLike,
        *,
        y: ArrayLike | None = None,
        y_label: str = "",
        palette: Any = None,
        order: Any = None,
        new: ArrayLike | None = None,
        y_new: ArrayLike | None = None,
        continuous: bool = False,
    ) -> None:
        self.embedding = embedding
        self.y = y
        self.y_label = y_label
        self.palette = palette
        self.order = order
        self.new = new
        self.y_new = y_new
        self.continuous = continuous

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        y: ArrayLike | None = None,
        *,
        y_label: str = "",
        palette: Any = None,
        order: Any = None,
        X_new: Any = None,
        y_new: ArrayLike | None = None,
        continuous: bool = False,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the map of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            An estimator that has the attribute ``embedding_``, or a pipeline that ends
            with one.
        y : array-like of shape (n_points,), default=None
        y_label : str, default=""
        palette : dict, list of colours or str, default=None
        order : list of str, default=None
        X_new : array-like of shape (n_new, n_features), default=None
            Further samples, which ``estimator.transform`` places in the map.
        y_new : array-like of shape (n_new,), default=None
        continuous : bool, default=False
        ax : matplotlib.axes.Axes, default=None
        **kwargs
            Passed to `plot`.

        Returns
        -------
        EmbeddingDisplay

        Raises
        ------
        ValueError
            If the estimator is not fitted or has no ``embedding_``, and for the reasons
            of `EmbeddingDisplay`.
        """
        last = estimator[-1] if hasattr(estimator, "steps") else estimator
        if not hasattr(last, "embedding_"):
            raise ValueError(
                f"estimator must be fitted and have embedding_, got {short(estimator)}"
            )
        check_text("y_label", y_label)
        name = y_label or getattr(y, "name", None)
        with naming("X_new"):
            new = None if X_new is None else estimator.transform(X_new)
        y_label = "" if name is None else str(name)
        display = cls(
            last.embedding_,
            y=y,
            y_label=y_label,
            palette=palette,
            order=order,
            new=new,
            y_new=y_new,
            continuous=continuous,
        )
        return display.plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        legend: bool = True,
        labels: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the points.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            None creates a new figure. For three components the axes must have been
            created with ``projection="3d"``. For more components, the pairs are drawn
            in place of the axes. Classes that were drawn on the axes before keep their
            colours.
        legend : bool, default=True
            Whether to draw a legend or a colour bar.
        labels : bool, default=True
            Whether to write the names of the classes on a map in two dimensions.
        **kwargs
            Passed to `matplotlib.axes.Axes.scatter`, such as ``s``, ``alpha`` and
            ``norm``. ``s``, ``c``, ``alpha``, ``edgecolors`` and ``linewidths`` may
            have an entry for each point, first those of the embedding and then the new
            ones. ``c`` and ``color`` replace the colours of y, and there is no legend.

        Returns
        -------
        self : EmbeddingDisplay
        """
        check_bool("legend", legend)
        check_bool("labels", labels)
        check_text("y_label", self.y_label)
        own_of_scatter = "s", "c", "marker", "vmin", "vmax"
        others = [name for name in kwargs if name not in own_of_scatter]
        check_kwargs("plot", others, PathCollection)
        kwargs = normalize_kwargs(kwargs, PathCollection)
        known = _looks_on_axes.get(ax) if isinstance(ax, Axes) else None
        Z, n_old, colors = self.checked(known)
        if any(name in kwargs for name in COLORED):
            colors = PointColors(np.zeros(len(Z), int))
        self.scatter_, self.labels_, self.legend_, self.colorbar_ = [], [], None, None
        d = Z.shape[1]
        layers = PointLayers(colors, n_old, self.palette, kwargs)
        if d > 3:
            self._plot_pairs(ax, Z[:, :5], d, layers)
        else:
            self._plot_one(ax, Z, layers)
        self.figure_ = self.ax_.figure  # type: ignore[assignment]  # a SubFigure only if the caller gave its axes
        if colors.values is not None and legend:
            self.colorbar_ = write_colorbar(
                self.ax_, self.axes_, self.scatter_, self.y_label, colors
            )
        if colors.names is not None and colors.looks is not None:
            known = _looks_on_axes.setdefault(self.ax_, {})
            known |= zip(colors.names, colors.looks, strict=True)
            if legend:  # also of classes that were drawn on these axes before
                looks = known | dict(zip(*colors.with_missing(), strict=True))
                self.legend_ = write_legend(
                    self.ax_, looks, self.y_label, d > 3, own=ax is None
                )
            if labels and d == 2 and len(colors.names) <= MAX_NAMES:
                self.labels_ = name_classes(self.ax_, Z, colors)
        return self

    def to_plotly(self, hover: Any = None) -> Any:
        """The points as an interactive figure: a click on an entry of the legend shows
        or hides its class.

        Parameters
        ----------
        hover : DataFrame, Series or dict of array-like, default=None
            Columns with a value for each point, first those of the embedding and then
            the new ones. They are shown at the point under the cursor, below its class
            or value, and its row in ``embedding`` or ``new``.

        Returns
        -------
        plotly.graph_objects.Figure

        Raises
        ------
        ImportError
            If plotly is not installed.
        ValueError
            If hover has another number of values, and for the reasons of
            `EmbeddingDisplay`.

        Examples
        --------
        >>> import numpy as np
        >>> from sk_stormc.plotting import EmbeddingDisplay
        >>> points = np.random.default_rng(0).normal(size=(90, 2))
        >>> display = EmbeddingDisplay(points, y=np.repeat(["a", "b", "c"], 30))
        >>> figure = display.to_plotly(hover={"row": np.arange(90)})  # doctest: +SKIP
        """
        from sk_stormc.plotting.interactive import interactive_figure

        return interactive_figure(self, hover)

    def to_html(self, path: Any, hover: Any = None, title: str = "") -> None:
        """Write an interactive page to a file, which opens without a network.

        Parameters
        ----------
        path : path-like
            The file. It contains the script of plotly, which takes about 4.5 MB.
        hover : DataFrame, Series or dict of array-like, default=None
            As in `to_plotly`.
        title : str, default=""
            Title of the page, and above the map.

        Raises
        ------
        ImportError
            If plotly is not installed.
        ValueError
            For the reasons of `to_plotly`.
        """
        from sk_stormc.plotting.interactive import html_page

        check_text("title", title)
        page = html_page({"": self}, hover, title)
        with atomically(path) as file:
            file.write(page.encode("utf-8"))

    def islands(self, X: Any) -> list[dict]:
        """What the points on each island of the map have in common.

        An island is a connected group of points with at least 10 of them, and 1 % of
        all. Distances between islands have little meaning.

        Parameters
        ----------
        X : data frame or array-like of shape (n_points, n_columns)
            What is known about the points of the embedding, such as the data of the
            fit: numbers, texts and categories, also with missing values.

        Returns
        -------
        list of dict
            A row for each island, the largest first, and for each of the three columns
            in which it differs most from the other points, in units of the column's
            standard deviation. "here" and "elsewhere" are means of numbers, or the
            share of the category that differs most. ``pandas.DataFrame(rows)`` is a
            table. It is empty if all points are on one island.

        Raises
        ------
        ValueError
            If X has another number of rows, or the embedding has another number of
            components than two.

        Examples
        --------
        >>> import numpy as np
        >>> from sk_stormc.plotting import EmbeddingDisplay
        >>> points = np.random.default_rng(0).normal(size=(200, 2))
        >>> points[:80] += 20
        >>> table = np.arange(200)[:, None] < 80
        >>> EmbeddingDisplay(points).islands(table)[0]["elsewhere"]
        '1'
        """
        from sk_stormc.plotting.map_islands import describe_islands

        Z = finite_points("embedding", self.embedding)
        if Z.shape[1] != 2:
            raise ValueError(
                f"embedding must have two components to have islands, got {Z.shape[1]}"
            )
        if np.ndim(X) != 2 or len(X) != len(Z):
            raise ValueError(
                f"X must be a table with a row for each of {len(Z)} points, got shape "
                f"{np.shape(X)}"
            )
        return describe_islands(Z, X)

    def checked(self, known: dict | None = None) -> tuple[FloatArray, int, PointColors]:
        """The points, old and new; the number of old ones; and the colours of all.

        Parameters
        ----------
        known : dict, default=None
            The colour and shape of classes that were drawn before.

        Returns
        -------
        tuple

        Raises
        ------
        ValueError
            For the reasons of `EmbeddingDisplay`.
        """
        check_bool("continuous", self.continuous)
        Z, new, n_new = finite_points("embedding", self.embedding), self.new, 0
        points = Z
        if new is not None:
            new = finite_points("new", new)
            if new.shape[1] != Z.shape[1]:
                raise ValueError(
                    f"new must have the {Z.shape[1]} components of embedding, got "
                    f"{new.shape[1]}"
                )
            points, n_new = np.vstack([Z, new]), len(new)
        elif self.y_new is not None:
            raise ValueError("y_new must be None without new points")
        colors = point_colors(
            self.y,
            len(Z),
            self.y_new,
            n_new,
            self.palette,
            self.order,
            known,
            self.continuous,
        )
        return points, len(Z), colors

    def _plot_one(self, ax, Z, layers):
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
                f"ax must {'' if d == 3 else 'not '}be made with projection='3d' for "
                f"{d} components, got {short(ax)}"
            )
        self.scatter_ += layers.draw(ax, spread_out(Z))
        second = "(the height has no meaning)" if d == 1 else "component 2"
        ax.set(xlabel="component 1", ylabel=second, xticks=[], yticks=[])
        if d == 3:
            ax.set(zlabel="component 3", zticks=[])
            for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
                axis.labelpad = -8  # there are no ticks between an axis and its label
            ax.set_box_aspect(np.ptp(Z, axis=0).clip(1e-3 * np.ptp(Z) or 1.0))
        elif d == 2:
            ax.set_aspect("equal", "datalim")
        self.ax_, self.axes_ = ax, np.array([ax])

    def _plot_pairs(self, ax, Z, d, layers):
        k = Z.shape[1]
        # left out if the caller's axes may be too small
        word = "component " if ax is None else ""
        ax = axes_for(ax, figsize=(1.9 * k, 1.8 * k))
        if ax.get_subplotspec() is None:
            raise ValueError(
                f"ax must be of a grid of subplots, to hold the pairs of {d} "
                f"components, got {short(ax)}"
            )
        shown = f"components 1 to {k} of {d}" if k < d else f"{d} components"
        ax.set_title(f"{shown}, in pairs", fontsize="medium")
        ax.set(xticks=[], yticks=[], facecolor="none")
        ax.set_frame_on(False)
        grid = GridSpecFromSubplotSpec(k - 1, k - 1, ax.get_subplotspec())
        self.ax_, panels = ax, []
        for row in range(1, k):
            for column in range(row):
                one = ax.figure.add_subplot(grid[row - 1, column])
                self.scatter_ += layers.draw(one, Z[:, [column, row]], crowd=k - 1)
                one.set(xticks=[], yticks=[])
                one.set_aspect("equal", "datalim")
                if row == k - 1:
                    one.set_xlabel(f"{word}{column + 1}", fontsize="small")
                if column == 0:
                    one.set_ylabel(f"{word}{row + 1}", fontsize="small")
                panels.append(one)
        self.axes_ = np.array(panels)
