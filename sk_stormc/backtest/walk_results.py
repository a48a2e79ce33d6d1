"""The results of `walk_forward`: returns, weights, trades and costs, and a summary of
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sk_stormc.compare.tables import as_html, finite
from sk_stormc.portfolio.performance import (
    BENCHMARK,
    EQUAL,
    compared_returns,
    statistics_of,
)

if TYPE_CHECKING:
    from sk_stormc.plotting import WalkForwardDisplay

__all__ = ["WalkForwardComparison", "WalkForwardResult"]


class _Walks:
    """What the results of one and of several portfolios have in common."""

    def _by_name(self) -> Mapping[str, WalkForwardResult]:
        """The results by the names of the portfolios."""
        raise NotImplementedError

    def summary(self) -> Any:
        """Return statistics of the portfolios, of equal weights and of the benchmark.

        With net returns r_1, ..., r_T, wealth W_t = (1 + r_1) ... (1 + r_t), W_0 = 1,
        and P periods a year:

        - "annual return" is W_T^(P / T) - 1, and -1 if all is lost;
        - "annual deviation" is sqrt(P) s, where s^2 = sum_t (r_t - m)^2 / (T - 1) and m
          is the mean of r_t;
        - "Sharpe ratio" is sqrt(P) m / s, in excess of cash, which earns nothing. It is
          NaN if s is 0;
        - "Sortino ratio" is sqrt(P) m / d, where d^2 = sum_t min(r_t, 0)^2 / T;
        - "largest drawdown" is the largest 1 - W_t / max(W_0, ..., W_t);
        - "Calmar ratio" is the annual return over the largest drawdown;
        - "CVaR" is the mean loss of a period in the worst 5 % of the periods;
        - "beta" is the covariance with the benchmark's returns b_t over their variance,
          and "annual alpha" is P (m - beta mean(b_t)). Only if there is a benchmark;
        - "annual turnover" is the sum of all turnovers, and "annual costs" that of all
          costs, times P / T;
        - "share of time in cash" is the share of the periods in which nothing is held;
        - "share of time in error" is the share of the periods for which the fit has
          failed, so that earlier weights are held, or cash.

        The last four are NaN for the benchmark.

        Returns
        -------
        DataFrame or dict of dict
            A row for each statistic and a column for each portfolio. A dict with a dict
            for each portfolio if the returns were an array.
        """
        results = self._by_name()
        columns = {name: _statistics(result) for name, result in results.items()}
        first = next(iter(results.values()))
        if first.equal_weights is not None:
            columns[EQUAL] = _statistics(first.equal_weights)
        benchmark = first.benchmark_returns
        if benchmark is not None:
            unknown = dict.fromkeys(columns[first.name], np.nan)
            columns[BENCHMARK] = unknown | statistics_of(
                benchmark, first.periods_per_year, benchmark
            )
        if not hasattr(first.returns, "index"):
            return columns
        from pandas import DataFrame

        return DataFrame(columns)

    def to_frame(self) -> Any:
        """Return the net returns of the portfolios, of equal weights and of the
        benchmark as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            A row for each period and a column for each portfolio.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        from pandas import DataFrame

        results = self._by_name()
        returns = compared_returns(results)
        columns = {name: np.asarray(values) for name, values in returns.items()}
        return DataFrame(columns, index=next(iter(results.values())).dates)

    def plot(self, **kwargs: Any) -> WalkForwardDisplay:
        """Draw wealth, drawdowns and weights.

        Parameters
        ----------
        **kwargs
            For `sk_stormc.plotting.WalkForwardDisplay.from_results`.

        Returns
        -------
        sk_stormc.plotting.WalkForwardDisplay
        """
        from sk_stormc.plotting import WalkForwardDisplay  # matplotlib

        return WalkForwardDisplay.from_results(self, **kwargs)

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the summary as a table of texts.

        Returns
        -------
        header : list of str
        rows : list of list of str
        """
        summary = {name: dict(of) for name, of in dict(self.summary()).items()}
        names = list(summary)
        rows = [
            [statistic, *(finite(summary[name][statistic], ".4f") for name in names)]
            for statistic in summary[names[0]]
        ]
        return ["", *names], rows

    def _repr_html_(self):
        return as_html(*self.cells(), left=1)


@dataclass(frozen=True, eq=False, repr=False)
class WalkForwardResult(_Walks):
    """What a portfolio has earned in a `walk_forward`, with its weights, trades and
    costs.

    Arrays are pandas objects if the returns were a DataFrame: Series and DataFrames
    with the labels of its rows and columns. A trade, a failed fit and a warning have
    the label of the first period in which the new weights are held.

    Attributes
    ----------
    name : str
        Name of the portfolio.
    returns : Series or ndarray of shape (n_periods,)
        Net returns of the portfolio as fractions, in each period from the first trade
        on.
    gross_returns : Series or ndarray of shape (n_periods,)
        Returns before costs.
    weights : DataFrame or ndarray of shape (n_periods, n_assets)
        Weights at the beginning of each period, after trades. The rest to a
        sum of 1 is held in cash.
    weights_before, weights_after : DataFrame or ndarray of shape (n_trades, n_assets)
        Weights before and after each trade. They are equal where a fit has failed.
    turnover : Series or ndarray of shape (n_trades,)
        Sum of the absolute changes of the weights in each trade, the first purchase
        included.
    costs : Series or ndarray of shape (n_trades,)
        Costs of each trade, as a fraction of the wealth.
    in_error : Series or ndarray of bool of shape (n_periods,)
        Whether the last fit before the period has failed.
    errors : dict of str
        The exception of each fit that has failed.
    warnings : dict of list of str
        The warnings of the fits.
    left_out : dict of list
        The assets that had missing returns in a window, and therefore the weight 0
        after it.
    missing : dict of list
        With ``missing="zero"``, the assets that had missing returns while they were
        held.
    lost_in : label or None
        The period in which everything was lost, if there was one.
    dates, trade_dates : Index or ndarray
        Labels of the periods and of the trades, or numbers of their rows.
    equal_weights : WalkForwardResult or None
        The result of equal weights, "1/N", in all assets without missing returns in a
        window, traded at the same dates with the same costs. None for that result
        itself.
    benchmark_returns : Series, ndarray of shape (n_periods,) or None
        Returns of the benchmark, without costs.
    periods_per_year : float
        Number of periods of a year.

    See Also
    --------
    sk_stormc.plotting.WalkForwardDisplay : Draws wealth, drawdowns and weights.

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio, walk_forward
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = 0.01 * make_gaussian_returns(400, 4, mean=0.05, random_state=0)
    >>> portfolio = CompositionalPortfolio(risk_measure="cvar", constraint="long_only")
    >>> result = walk_forward(portfolio, returns, window=250, refit_every=50)
    >>> result
    WalkForwardResult('portfolio', 150 periods, 3 trades)
    >>> list(result.summary())
    ['portfolio', '1/N']
    """

    name: str
    returns: Any
    gross_returns: Any
    weights: Any
    weights_before: Any
    weights_after: Any
    turnover: Any
    costs: Any
    in_error: Any
    errors: dict[Any, str]
    warnings: dict[Any, list[str]]
    left_out: dict[Any, list]
    missing: dict[Any, list]
    lost_in: Any
    dates: Any
    trade_dates: Any
    equal_weights: WalkForwardResult | None
    benchmark_returns: Any
    periods_per_year: float

    def __repr__(self) -> str:
        failed = f", {len(self.errors)} failed fits" if self.errors else ""
        return (
            f"WalkForwardResult({self.name!r}, {len(self.dates)} periods, "
            f"{len(self.trade_dates)} trades{failed})"
        )

    def _by_name(self):
        return {self.name: self}

    def tearsheet(self, figure: Any = None) -> Any:
        """Draw wealth, drawdowns, rolling statistics, trades, monthly returns and the
        statistics of `summary` on one page.

        Parameters
        ----------
        figure : matplotlib.figure.Figure, default=None
            None means a new figure.

        Returns
        -------
        sk_stormc.plotting.TearsheetDisplay
        """
        from sk_stormc.plotting import TearsheetDisplay  # matplotlib

        return TearsheetDisplay.from_result(self, figure)


class WalkForwardComparison(_Walks, dict[str, WalkForwardResult]):
    """The results of several portfolios in a `walk_forward`, by their names.

    Attributes
    ----------
    equal_weights : WalkForwardResult
        The result of equal weights.
    benchmark_returns : Series, ndarray of shape (n_periods,) or None
        Returns of the benchmark, without costs.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc import CompositionalPortfolio, walk_forward
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = 0.01 * make_gaussian_returns(400, 4, mean=0.05, random_state=0)
    >>> tail = CompositionalPortfolio(risk_measure="cvar", constraint="long_only")
    >>> least = CompositionalPortfolio(risk_aversion=np.inf, constraint="long_only")
    >>> results = walk_forward(
    ...     {"tail": tail, "least variance": least}, returns, window=250
    ... )
    >>> list(results.summary())
    ['tail', 'least variance', '1/N']
    >>> results["tail"]
    WalkForwardResult('tail', 150 periods, 8 trades)
    """

    @property
    def equal_weights(self) -> WalkForwardResult | None:
        """The result of equal weights."""
        return next(iter(self.values())).equal_weights

    @property
    def benchmark_returns(self) -> Any:
        """Returns of the benchmark, without costs."""
        return next(iter(self.values())).benchmark_returns

    def _by_name(self):
        return self


def _statistics(result: WalkForwardResult) -> dict[str, float]:
    """All statistics of a portfolio."""
    years = len(result.dates) / result.periods_per_year
    in_assets = np.asarray(result.weights).any(axis=1)
    returns, benchmark = result.returns, result.benchmark_returns
    return statistics_of(returns, result.periods_per_year, benchmark) | {
        "annual turnover": float(np.sum(result.turnover) / years),
        "annual costs": float(np.sum(result.costs) / years),
        "share of time in cash": float(np.mean(~in_assets)),
        "share of time in error": float(np.mean(result.in_error)),
    }
