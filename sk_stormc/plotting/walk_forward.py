"""Wealth, drawdowns and weights of portfolios over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, product
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from sk_stormc.plotting._style import (
    COLORS,
    LINE_STYLES,
    axes_for,
    check_kwargs,
    draw_grid,
    grey,
    local_times,
    log_axis,
    shortened,
    visible,
    write_literally,
)
from sk_stormc.portfolio.performance import (
    BENCHMARK,
    EQUAL,
    compared_returns,
    drawdowns_of,
    statistics_of,
)
from sk_stormc.utils.arrays import all_finite, as_numbers
from sk_stormc.utils.frames import column, columns_of, index_of, is_table
from sk_stormc.utils.parameters import check_bool, check_number, short
from sk_stormc.utils.types import ArrayLike

# of the assets with an area of their own
AREAS = [color for color in COLORS if color != "#000000"]
OTHERS = "others"  # name of the area of the other assets
# shares of grey and line styles of what portfolios are compared with
STYLES = {EQUAL: (0.45, "--"), BENCHMARK: (0.1, ":")}


class WalkForwardDisplay:
    """Wealth and drawdowns of portfolios over time as lines, and their weights as
    areas.

    The wealth is that of an investment of 1, after costs, on a logarithmic axis. The
    assets with the largest weights on average have areas of their own, in the same
    colours for all portfolios. The other assets share one area. Short positions are
    below 0. What is missing to 1 is cash.

    Parameters
    ----------
    returns : dict of array-like of shape (n_periods,), or DataFrame
        Net returns of each portfolio, as fractions. The index of a data frame has the
        dates, unless they are given.
    weights : dict of array-like of shape (n_periods, n_assets), default=None
        Weights of portfolios at the beginning of each period.
    dates : array-like of shape (n_periods,), default=None
        Dates or numbers of the periods.
    asset_names : sequence of str, default=None
        Names of the assets.
    periods_per_year : float, default=252
        252 for daily returns, 52 for weekly and 12 for monthly ones. The legend has the
        return and the deviation of a year.

    Attributes
    ----------
    wealth_lines_, drawdown_lines_ : dict of matplotlib.lines.Line2D
        The lines of each portfolio.
    areas_ : dict of dict of matplotlib.collections.PolyCollection
        The areas of each portfolio by the names of the assets.
    axes_ : ndarray of matplotlib.axes.Axes
        Those of the wealth and of the drawdowns, and those of the weights of each
        portfolio.
    figure_ : matplotlib.figure.Figure

    See Also
    --------
    sk_stormc.walk_forward : Computes the results that are drawn.

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio, walk_forward
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> from sk_stormc.plotting import WalkForwardDisplay
    >>> returns = 0.01 * make_gaussian_returns(400, 4, mean=0.05, random_state=0)
    >>> result = walk_forward(
    ...     CompositionalPortfolio(constraint="long_only"), returns, window=250
    ... )
    >>> display = WalkForwardDisplay.from_results(result)
    >>> list(display.wealth_lines_), list(display.areas_)
    (['portfolio', '1/N'], ['portfolio'])
    """

    figure_: Figure
    wealth_lines_: dict[str, Any]
    drawdown_lines_: dict[str, Any]
    areas_: dict[str, dict[str, Any]]

    def __init__(
        self,
        returns: Any,
        weights: Mapping[str, ArrayLike] | None = None,
        *,
        dates: ArrayLike | None = None,
        asset_names: Sequence[Any] | None = None,
        periods_per_year: float = 252,
    ) -> None:
        self.returns = returns
        self.weights = weights
        self.dates = dates
        self.asset_names = asset_names
        self.periods_per_year = periods_per_year

    @classmethod
    def from_results(
        cls,
        results: Any,
        *,
        weights: bool = True,
        periods_per_year: float | None = None,
        axes: Sequence[Axes] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the results of `sk_stormc.walk_forward`, with equal weights and the
        benchmark.

        Parameters
        ----------
        results : WalkForwardResult or WalkForwardComparison
        weights : bool, default=True
            Whether to draw the weights of the portfolios.
        periods_per_year : float, default=None
            Number of periods of a year. None means that of `sk_stormc.walk_forward`.
        axes : sequence of matplotlib.axes.Axes, default=None
            Axes for the wealth, the drawdowns, and the weights of each portfolio. None
            means those of a new figure.
        **kwargs
            Properties of the lines of the portfolios, see `plot`.

        Returns
        -------
        WalkForwardDisplay

        Raises
        ------
        ValueError
            If the results are not those of `sk_stormc.walk_forward`, and for the
            reasons of `plot`.
        """
        check_bool("weights", weights)
        given = (
            results
            if isinstance(results, Mapping)
            else {getattr(results, "name", None): results}
        )
        if not given or not all(map(is_walk, given.values())):
            raise ValueError(
                f"results must be those of walk_forward, got {short(results)}"
            )
        first = next(iter(given.values()))
        if periods_per_year is None:
            periods_per_year = first.periods_per_year
        display = cls(
            compared_returns(given),
            {str(name): one.weights for name, one in given.items() if weights},
            dates=first.dates,
            asset_names=getattr(first.weights, "columns", None),
            periods_per_year=periods_per_year,
        )
        return display.plot(axes, **kwargs)

    def plot(
        self, axes: Sequence[Axes] | None = None, *, legend: bool = True, **kwargs: Any
    ) -> Self:
        """Draw wealth, drawdowns and weights below each other.

        Parameters
        ----------
        axes : sequence of matplotlib.axes.Axes, default=None
            Axes for the wealth, the drawdowns, and the weights of each portfolio. None
            means those of a new figure.
        legend : bool, default=True
        **kwargs
            Properties of the lines of the portfolios, such as ``linewidth=2``.

        Returns
        -------
        self : WalkForwardDisplay

        Raises
        ------
        ValueError
            If values are not finite, or have different lengths.
        """
        check_bool("legend", legend)
        check_number("periods_per_year", self.periods_per_year, low=0, inclusive=False)
        check_kwargs("plot", kwargs, Line2D)
        if "label" in kwargs:
            raise ValueError(
                "label must not be given: the keys of returns name the portfolios"
            )
        returns, weights, names = self._checked()
        dates = self.dates
        if dates is None and is_table(self.returns):
            dates = index_of(self.returns)
        dates = positions(dates, len(next(iter(returns.values()))))
        axes, named = self._axes(axes, list(weights)), _named(weights)
        labels = {}
        for name, values in returns.items():
            statistics = statistics_of(values, self.periods_per_year)
            labels[name] = (
                f"{shortened(name)}: {statistics['annual return']:.1%} a year, "
                f"deviation {statistics['annual deviation']:.1%}"
            )
        self.wealth_lines_, self.drawdown_lines_ = draw_wealth(
            axes[0], axes[1], dates, returns, labels, **kwargs
        )
        self.areas_ = {}
        for ax, (name, values) in zip(axes[2:], weights.items(), strict=True):
            self.areas_[name] = _draw_areas(ax, dates, values, named, names)
            ax.set(ylabel="weights")
            title = shortened(name, 60)
            ax.set_title(title, loc="left", fontsize="medium", parse_math=False)
        if legend:
            self._write_legends(axes)
        for ax in axes:  # the caller's axes may not share theirs
            show_dates(ax, dates)
        self.axes_, self.figure_ = np.array(axes, dtype=object), axes[0].figure
        return self

    def _write_legends(self, axes):
        """The legends of the portfolios, above their wealth, and of the assets."""
        style = {"fontsize": "small", "frameon": False}
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2}
        legends = [axes[0].legend(**place, **style)]
        areas = {
            label: area
            for drawn in self.areas_.values()
            for label, area in drawn.items()
        }
        labels = sorted(areas, key=lambda label: label == OTHERS)  # the last one
        if labels:
            handles = [areas[label] for label in labels]
            place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
            names = [shortened(label, 24) for label in labels]
            legends.append(axes[2].legend(handles, names, **place, **style))
        write_literally(*legends)

    def _checked(self):
        """The returns and the weights as arrays, and the names of the assets."""
        returns = self.returns
        if is_table(returns):
            names = map(str, columns_of(returns))
            returns = {name: column(returns, k) for k, name in enumerate(names)}
        returns = checked_returns(returns)
        n = next(iter(returns.values())).size
        weights = _by_portfolio("weights", {} if self.weights is None else self.weights)
        names = self.asset_names
        for name, values in weights.items():
            shaped = values.ndim == 2 and len(values) == n and values.size
            if not shaped or not all_finite(values):
                raise ValueError(
                    f"weights must be finite arrays with {n} rows, got "
                    f"{short(values)} for {name!r}"
                )
            n_assets = values.shape[1]
            names = range(n_assets) if names is None else names
            if np.shape(names) != (n_assets,):
                raise ValueError(
                    f"asset_names must be {n_assets} names, got "
                    f"{short(self.asset_names)}"
                )
        return returns, weights, [] if names is None else list(map(str, names))

    def _axes(self, axes, weights):
        """The given axes, or new ones below each other."""
        n = 2 + len(weights)
        if axes is None:
            from matplotlib import pyplot as plt  # importing pyplot chooses a backend

            heights = [3.0, 1.5, *[2.0] * len(weights)]
            size = 8.0, 0.6 + sum(heights)
            _, axes = plt.subplots(
                n,
                figsize=size,
                sharex=True,
                layout="constrained",
                height_ratios=heights,
            )
        axes = list(np.ravel(np.asarray(axes, dtype=object)))
        if len(axes) != n:
            raise ValueError(
                f"axes must be {n} axes: for the wealth, the drawdowns and {weights}, "
                f"got {len(axes)}"
            )
        return [axes_for(ax) for ax in axes]


def checked_returns(given):
    """The net returns of portfolios as finite vectors of one length, by name."""
    returns = _by_portfolio("returns", given, at_least=1)
    n = next(iter(returns.values())).size
    for name, values in returns.items():
        if values.shape != (n,) or not n or not all_finite(values):
            raise ValueError(
                "returns must be finite vectors of one length, got "
                f"{short(values)} for {name!r}"
            )
    return returns


def draw_wealth(wealth, drawdowns, dates, returns, labels, **kwargs):
    """Draw the wealth and the drawdowns of portfolios, and return the lines of both by
    name. ``kwargs`` are properties of the lines, except of equal weights and the
    benchmark."""
    # the colours again, with other lines, for more portfolios
    looks, wealth_lines, drawdown_lines = cycle(product(LINE_STYLES, COLORS)), {}, {}
    all_wealth = {name: np.cumprod(1 + values) for name, values in returns.items()}
    for name, values in all_wealth.items():
        if name in STYLES:
            share, line = STYLES[name]
            style = {"color": grey(share), "linestyle": line}
        else:
            line, color = next(looks)
            style = {"color": visible(color), "linestyle": line, **kwargs}
        (wealth_lines[name],) = wealth.plot(dates, values, label=labels[name], **style)
        below = -drawdowns_of(returns[name])
        (drawdown_lines[name],) = drawdowns.plot(dates, below, **style)
    wealth.set(ylabel="wealth, after costs")
    if all(values.min() > 0 for values in all_wealth.values()):
        wealth.set_yscale("log")
        log_axis(wealth.yaxis)
    drawdowns.set(ylabel="drawdown")
    drawdowns.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    draw_grid(wealth)
    draw_grid(drawdowns)
    return wealth_lines, drawdown_lines


def show_dates(ax, dates, limits=True):
    """Write the dates of an axis briefly, and let the axis begin and end with them."""
    if limits and len(dates) > 1:
        ax.set_xlim(dates[0], dates[-1])
    if dates.dtype.kind == "M":
        locator = ax.xaxis.get_major_locator()
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def is_walk(result):
    """Whether an object is a result of `sk_stormc.walk_forward`, which this package
    does not import."""
    return hasattr(result, "equal_weights") and hasattr(result, "trade_dates")


def _by_portfolio(name, given, at_least=0):
    """The returns or weights of each portfolio, as arrays."""
    if not isinstance(given, Mapping) or len(given) < at_least:
        raise ValueError(
            f"{name} must be a dict of the {name} of each portfolio, got {short(given)}"
        )
    return {
        key: as_numbers(f"{name}[{key!r}]", values) for key, values in given.items()
    }


def positions(dates, n, name="dates"):
    """The positions of dates on an axis: dates or numbers, or the numbers of the rows
    of labels that are neither."""
    if dates is None:
        return np.arange(n)
    dates = dates.to_timestamp() if hasattr(dates, "to_timestamp") else dates
    if np.shape(dates) != (n,):
        raise ValueError(f"{name} must be {n} dates or numbers, got {short(dates)}")
    dates = np.asarray(dates)
    if dates.dtype.kind in "iufM":
        return dates
    try:
        return local_times(dates).astype("M8[us]")
    except ValueError:
        return np.arange(n)


def _named(weights):
    """The places of the assets with an area of their own: those with the largest
    weights on average."""
    if not weights:
        return []
    size = np.mean([np.abs(values).mean(axis=0) for values in weights.values()], axis=0)
    return [k for k in np.argsort(-size, kind="stable")[: len(AREAS)] if size[k] > 0]


def _draw_areas(ax, dates, weights, named, names):
    """Draw the weights as areas, those of short positions below 0. Assets that are not
    named have one area."""
    others = [k for k in np.flatnonzero(weights.any(axis=0)) if k not in named]
    labels = [names[k] for k in named] + [OTHERS] * bool(others)
    groups = [[k] for k in named] + [others] * bool(others)
    colors = [*AREAS[: len(named)], grey(0.8)]
    areas = {}
    for part in (np.minimum(weights, 0.0), np.maximum(weights, 0.0)):
        if part.any():
            rows = [part[:, group].sum(axis=1) for group in groups]
            drawn = ax.stackplot(dates, rows, colors=colors, linewidth=0)
            areas = dict(zip(labels, drawn, strict=True))
    ax.axhline(0.0, color=grey(0.3), linewidth=0.6)
    return areas
