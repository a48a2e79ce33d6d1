"""The results of `walk_forward`: returns, weights, trades and costs, and a summary of
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sk_stormc.portfolio.metrics import deviation_by_rounding
from sk_stormc.utils.types import FloatArray

__all__ = [
    "BENCHMARK",
    "EQUAL",
    "WalkForwardComparison",
    "WalkForwardResult",
    "drawdowns_of",
    "statistics_of",
]

EQUAL, BENCHMARK = "1/N", "benchmark"


@dataclass(frozen=True, eq=False, repr=False)
class WalkForwardResult:
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
        Weights at the beginning of each period, after trades. What is missing to a sum
        of 1 is cash.
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

    def summary(self) -> Any:
        """Return statistics of the portfolio, of equal weights and of the benchmark.

        With net returns r_1, ..., r_T, wealth W_t = (1 + r_1) ... (1 + r_t), W_0 = 1,
        and P periods a year:

        - "annual return" is W_T^(P / T) - 1, and -1 if all is lost;
        - "annual deviation" is sqrt(P) s, where s^2 = sum_t (r_t - m)^2 / (T - 1) and m
          is the mean of r_t;
        - "Sharpe ratio" is sqrt(P) m / s, in excess of cash, which earns nothing. It is
          NaN if s is 0;
        - "largest drawdown" is the largest 1 - W_t / max(W_0, ..., W_t);
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
        return _table({self.name: self})


class WalkForwardComparison(dict[str, WalkForwardResult]):
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

    def summary(self) -> Any:
        """Return the statistics of `WalkForwardResult.summary` for all portfolios.

        Returns
        -------
        DataFrame or dict of dict
            A row for each statistic and a column for each portfolio. A dict with a dict
            for each portfolio if the returns were an array.
        """
        return _table(self)


def _table(results: Mapping[str, WalkForwardResult]) -> Any:
    """The statistics of all results, of equal weights and of the benchmark."""
    columns = {name: _statistics(result) for name, result in results.items()}
    first = next(iter(results.values()))
    if first.equal_weights is not None:
        columns[EQUAL] = _statistics(first.equal_weights)
    if first.benchmark_returns is not None:
        unknown = dict.fromkeys(columns[first.name], np.nan)
        columns[BENCHMARK] = unknown | statistics_of(
            first.benchmark_returns, first.periods_per_year
        )
    if not hasattr(first.returns, "index"):
        return columns
    from pandas import DataFrame

    return DataFrame(columns)


def statistics_of(returns: Any, periods_per_year: float) -> dict[str, float]:
    """The statistics that depend on the net returns only."""
    returns = np.asarray(returns, dtype=float)
    mean = returns.mean()
    deviation = np.std(returns, ddof=1) if len(returns) > 1 else np.nan
    if deviation <= deviation_by_rounding(returns, np.finfo(float).eps):
        deviation = 0.0
    wealth, root = max(np.prod(1 + returns), 0.0), np.sqrt(periods_per_year)
    return {
        "annual return": float(wealth ** (periods_per_year / len(returns)) - 1),
        "annual deviation": float(root * deviation),
        "Sharpe ratio": float(root * mean / deviation) if deviation else np.nan,
        "largest drawdown": float(drawdowns_of(returns).max()),
    }


def drawdowns_of(returns: Any) -> FloatArray:
    """What the wealth after each period is below its maximum so far, as a fraction of
    the maximum."""
    wealth = np.cumprod(np.append(1.0, 1 + np.asarray(returns, dtype=float)))
    return (1 - wealth / np.maximum.accumulate(wealth))[1:]


def _statistics(result: WalkForwardResult) -> dict[str, float]:
    """All statistics of a portfolio."""
    years = len(result.dates) / result.periods_per_year
    in_assets = np.asarray(result.weights).any(axis=1)
    return statistics_of(result.returns, result.periods_per_year) | {
        "annual turnover": float(np.sum(result.turnover) / years),
        "annual costs": float(np.sum(result.costs) / years),
        "share of time in cash": float(np.mean(~in_assets)),
        "share of time in error": float(np.mean(result.in_error)),
    }
