"""One page about what a portfolio has earned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import PercentFormatter

from sk_stormc.plotting._style import (
    COLORS,
    draw_grid,
    grey,
    shortened,
    write_literally,
)
from sk_stormc.plotting.walk_forward import (
    checked_returns,
    draw_wealth,
    is_walk,
    positions,
    show_dates,
)
from sk_stormc.portfolio.performance import (
    BENCHMARK,
    compared_returns,
    monthly_returns,
    statistics_of,
)
from sk_stormc.utils.arrays import all_finite, as_numbers
from sk_stormc.utils.parameters import check_number, is_real, short
from sk_stormc.utils.types import ArrayLike, FloatArray

AS_NUMBERS = ("Sharpe ratio", "Sortino ratio", "Calmar ratio", "beta")


class TearsheetDisplay:
    """One page about a portfolio over time: wealth and drawdowns, Sharpe ratio and
    deviation over the last half-year, trades and costs, the return of each month, and
    statistics.

    Parameters
    ----------
    returns : dict of array-like of shape (n_periods,)
        Net returns as fractions: those of the portfolio first, then those with which it
        is compared.
    dates : array-like of shape (n_periods,), default=None
        Dates or numbers of the periods. Monthly returns need dates.
    turnover, costs : array-like of shape (n_trades,), default=None
        Turnover and costs of each trade.
    trade_dates : array-like of shape (n_trades,), default=None
        Dates or numbers of the trades.
    statistics : dict of dict of float, default=None
        Statistics by the names of the portfolios. None means those that depend on
        returns only.
    periods_per_year : float, default=252
        252 for daily returns, 52 for weekly and 12 for monthly ones.

    Attributes
    ----------
    rolling_sharpe_, rolling_deviation_ : ndarray of shape (n_periods,)
        Annual Sharpe ratio and deviation over the half-year that ends with each period.
        NaN for periods before the first half-year.
    years_ : ndarray of int of shape (n_years,)
        The years of the monthly returns. Empty without dates.
    monthly_returns_ : ndarray of shape (n_years, 12)
        Compound returns of the months. NaN for months without a period.
    axes_ : dict of matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    See Also
    --------
    WalkForwardDisplay : Draws several portfolios, and their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.plotting import TearsheetDisplay
    >>> returns = 0.01 * np.random.default_rng(0).normal(size=500)
    >>> days = np.arange("2021-01-04", "2022-05-19", dtype="M8[D]")
    >>> display = TearsheetDisplay({"noise": returns}, dates=days).plot()
    >>> display.monthly_returns_.shape
    (2, 12)
    """

    figure_: Figure
    axes_: dict[str, Any]
    rolling_sharpe_: FloatArray
    rolling_deviation_: FloatArray
    years_: np.ndarray
    monthly_returns_: FloatArray

    def __init__(
        self,
        returns: dict[str, ArrayLike],
        *,
        dates: ArrayLike | None = None,
        turnover: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        trade_dates: ArrayLike | None = None,
        statistics: dict[str, dict[str, float]] | None = None,
        periods_per_year: float = 252,
    ) -> None:
        self.returns = returns
        self.dates = dates
        self.turnover = turnover
        self.costs = costs
        self.trade_dates = trade_dates
        self.statistics = statistics
        self.periods_per_year = periods_per_year

    @classmethod
    def from_result(cls, result: Any, figure: Figure | None = None) -> Self:
        """Draw a result of `sk_stormc.walk_forward`.

        Parameters
        ----------
        result : WalkForwardResult
        figure : matplotlib.figure.Figure, default=None
            None means a new figure.

        Returns
        -------
        TearsheetDisplay

        Raises
        ------
        ValueError
            If it is not the result of one portfolio.
        """
        if not is_walk(result):
            raise ValueError(
                f"result must be that of a portfolio in walk_forward, got "
                f"{short(result)}"
            )
        display = cls(
            compared_returns({result.name: result}),
            dates=result.dates,
            turnover=result.turnover,
            costs=result.costs,
            trade_dates=result.trade_dates,
            statistics={name: dict(of) for name, of in dict(result.summary()).items()},
            periods_per_year=result.periods_per_year,
        )
        return display.plot(figure)

    def plot(self, figure: Figure | None = None) -> Self:
        """Draw the page.

        Parameters
        ----------
        figure : matplotlib.figure.Figure, default=None
            None means a new figure.

        Returns
        -------
        self : TearsheetDisplay

        Raises
        ------
        ValueError
            If returns are not finite or have different lengths, if turnover or costs
            are not finite numbers of each trade, or if statistics are not numbers.
        """
        if not (figure is None or isinstance(figure, FigureBase)):
            raise ValueError(
                f"figure must be a matplotlib figure or None, got {short(figure)}"
            )
        check_number("periods_per_year", self.periods_per_year, low=0, inclusive=False)
        returns = checked_returns(self.returns)
        name, own = next(iter(returns.items()))
        dates, trades = positions(self.dates, len(own)), self._checked_trades()
        statistics = self._checked_statistics(returns)
        if figure is None:
            from matplotlib import pyplot as plt  # importing pyplot chooses a backend

            figure = plt.figure(figsize=(11, 11), layout="constrained")
        panels: Any = [["wealth", "statistics"], ["drawdown", "statistics"]]
        panels += [["Sharpe ratio", "deviation"], ["turnover", "months"]]
        axes = figure.subplot_mosaic(
            panels, width_ratios=[3, 2], height_ratios=[3, 1.5, 2, 2.4]
        )
        figure.suptitle(shortened(name, 60), parse_math=False)
        labels = {name: shortened(name) for name in returns}
        _, lines = draw_wealth(axes["wealth"], axes["drawdown"], dates, returns, labels)
        write_literally(axes["wealth"].legend(fontsize="small", frameon=False))
        axes["drawdown"].fill_between(
            dates, lines[name].get_ydata(), color=lines[name].get_color(), alpha=0.3
        )
        self._draw_rolling(axes, dates, own)
        self._draw_trades(axes["turnover"], *trades)
        self._draw_months(axes["months"], dates, own)
        _write_statistics(axes["statistics"], statistics)
        for key in ("wealth", "drawdown", "Sharpe ratio", "deviation"):
            show_dates(axes[key], dates)
        self.axes_, self.figure_ = axes, figure
        return self

    def _draw_rolling(self, axes, dates, returns):
        """Draw the Sharpe ratio and the deviation of the last half-year."""
        n, root = len(returns), np.sqrt(self.periods_per_year)
        window = min(max(round(self.periods_per_year / 2), 2), n)
        mean, deviation = np.full((2, n), np.nan)
        if n > 1:
            recent = np.lib.stride_tricks.sliding_window_view(returns, window)
            mean[window - 1 :] = recent.mean(axis=1)
            deviation[window - 1 :] = recent.std(axis=1, ddof=1)
        # constant returns have no ratio
        ratio = np.divide(mean, deviation, np.full(n, np.nan), where=deviation > 0)
        self.rolling_sharpe_ = root * ratio
        self.rolling_deviation_ = root * deviation
        for key, values in (
            ("Sharpe ratio", self.rolling_sharpe_),
            ("deviation", self.rolling_deviation_),
        ):
            axes[key].plot(dates, values, color=COLORS[0])
            axes[key].set(ylabel=f"{key} of {window} periods")
            draw_grid(axes[key])
        axes["Sharpe ratio"].axhline(0.0, color=grey(0.3), linewidth=0.6)
        axes["deviation"].yaxis.set_major_formatter(PercentFormatter(1.0))

    def _checked_trades(self):
        """The dates, turnover and costs of the trades, as vectors or None."""
        found = {}
        for key in ("turnover", "costs"):
            value = getattr(self, key)
            values = found[key] = None if value is None else as_numbers(key, value)
            if values is not None and (values.ndim != 1 or not all_finite(values)):
                raise ValueError(f"{key} must be finite numbers, got {short(value)}")
        turnover, costs = found["turnover"], found["costs"]
        n = 0 if turnover is None else len(turnover)
        if costs is not None and len(costs) != n:
            raise ValueError(
                f"costs must be those of {n} trades, as turnover, got {len(costs)}"
            )
        return positions(self.trade_dates, n, "trade_dates"), turnover, costs

    def _draw_trades(self, ax, dates, turnover, costs):
        """Draw the turnover of each trade, and the sum of the costs so far."""
        ax.set(ylabel="turnover")
        if not len(dates):
            ax.text(0.5, 0.5, "no trades", ha="center", transform=ax.transAxes)
            return
        ax.vlines(dates, 0, turnover, color=COLORS[0])
        ax.set_ylim(0)
        show_dates(ax, dates, limits=False)
        if costs is not None:
            sums, ax = np.cumsum(costs), ax.twinx()
            ax.plot(dates, sums, color=COLORS[1], drawstyle="steps-post")
            ax.set_ylabel("sum of the costs", color=COLORS[1])
            ax.set_ylim(0)
            ax.yaxis.set_major_formatter(PercentFormatter(1.0))

    def _draw_months(self, ax, dates, returns):
        """Draw the return of each month and year, as a table with colours."""
        ax.set_axis_off()
        self.years_, self.monthly_returns_ = np.empty(0, int), np.empty((0, 12))
        if dates.dtype.kind != "M":
            ax.text(0.5, 0.5, "no dates", ha="center", transform=ax.transAxes)
            return
        self.years_, table = monthly_returns(returns, dates)
        self.monthly_returns_ = table
        span = np.nanmax(np.abs(table)) or 1.0
        ax.imshow(
            table, cmap="RdYlGn", norm=TwoSlopeNorm(0, -span, span), aspect="auto"
        )
        of_years = np.nanprod(1 + table, axis=1) - 1
        style = {"ha": "center", "va": "center", "fontsize": "x-small"}
        for row, year in enumerate(self.years_):
            ax.text(-1, row, str(year), **style)
            ax.text(12.2, row, f"{of_years[row]:.1%}", fontweight="bold", **style)
            for month in np.flatnonzero(np.isfinite(table[row])):
                text = f"{100 * table[row, month]:.1f}"
                ax.text(month, row, text, color="black", **style)
        for month in range(12):
            ax.text(month, -0.75, f"{month + 1:02d}", **style)
        ax.set(
            title="returns of months and years",
            xlim=(-1.6, 13),
            ylim=(len(table) - 0.5, -1.2),
        )

    def _checked_statistics(self, returns):
        """The given statistics, or those that depend on returns only."""
        if self.statistics is None:
            benchmark = returns.get(BENCHMARK)
            return {
                name: statistics_of(values, self.periods_per_year, benchmark)
                for name, values in returns.items()
            }
        given = self.statistics
        tables = list(given.values()) if isinstance(given, Mapping) else []
        if not tables or not all(isinstance(of, Mapping) and of for of in tables):
            raise ValueError(
                "statistics must be a dict with a dict of numbers for each portfolio, "
                f"got {short(given)}"
            )
        for label, value in (item for of in tables for item in of.items()):
            if not is_real(value):
                raise ValueError(
                    f"statistics must be numbers, got {short(value)} for {label!r}"
                )
        return given


def _write_statistics(ax, statistics):
    """Write the statistics as a table."""
    ax.set_axis_off()
    labels = list(next(iter(statistics.values())))
    cells = [
        [_cell(label, of.get(label, np.nan)) for of in statistics.values()]
        for label in labels
    ]
    header = [shortened(name, 12) for name in statistics]
    table = ax.table(
        cells, rowLabels=labels, colLabels=header, loc="center right", edges="open"
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    table.scale(1, 1.3)
    write_literally(table)


def _cell(label, value):
    """A statistic as text: a ratio as a number, others as percentages."""
    if not np.isfinite(value):
        return "-"
    return f"{value:.2f}" if label in AS_NUMBERS else f"{value:.1%}"
