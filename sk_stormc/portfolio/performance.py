"""Statistics of the returns of a portfolio over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from sk_stormc.portfolio.metrics import deviation_by_rounding
from sk_stormc.utils.types import FloatArray

__all__ = [
    "BENCHMARK",
    "EQUAL",
    "compared_returns",
    "drawdowns_of",
    "monthly_returns",
    "statistics_of",
]

# names of equal weights and of the benchmark beside portfolios
EQUAL, BENCHMARK = "1/N", "benchmark"
TAIL = 0.05  # share of the periods of the CVaR


def compared_returns(results: dict[str, Any]) -> dict[str, Any]:
    """The net returns in results of `sk_stormc.walk_forward`: those of the portfolios,
    of equal weights and of the benchmark."""
    returns = {name: result.returns for name, result in results.items()}
    first = next(iter(results.values()))
    if first.equal_weights is not None:
        returns[EQUAL] = first.equal_weights.returns
    if first.benchmark_returns is not None:
        returns[BENCHMARK] = first.benchmark_returns
    return returns


def statistics_of(
    returns: Any, periods_per_year: float, benchmark: Any = None
) -> dict[str, float]:
    """The statistics of `WalkForwardResult.summary` that depend on net returns only."""
    returns = np.asarray(returns, dtype=float)
    mean = returns.mean()
    deviation = np.std(returns, ddof=1) if len(returns) > 1 else np.nan
    if deviation <= deviation_by_rounding(returns, np.finfo(float).eps):
        deviation = 0.0
    wealth, root = max(np.prod(1 + returns), 0.0), np.sqrt(periods_per_year)
    annual = float(wealth ** (periods_per_year / len(returns)) - 1)
    downside = np.sqrt(np.mean(np.minimum(returns, 0.0) ** 2))
    drawdown = float(drawdowns_of(returns).max())
    statistics = {
        "annual return": annual,
        "annual deviation": float(root * deviation),
        "Sharpe ratio": float(root * mean / deviation) if deviation else np.nan,
        "Sortino ratio": float(root * mean / downside) if downside else np.nan,
        "largest drawdown": drawdown,
        "Calmar ratio": annual / drawdown if drawdown else np.nan,
        "CVaR": _cvar(returns),
    }
    if benchmark is not None:
        benchmark = np.asarray(benchmark, dtype=float)
        excess = benchmark - benchmark.mean()
        beta = float(excess @ (returns - mean) / (excess @ excess or np.nan))
        alpha = float(periods_per_year * (mean - beta * benchmark.mean()))
        statistics |= {"beta": beta, "annual alpha": alpha}
    return statistics


def _cvar(returns):
    """The mean loss in the worst periods, of which the last one counts in part."""
    weights = np.clip(TAIL * len(returns) - np.arange(len(returns)), 0, 1)
    return float(-np.average(np.sort(returns), weights=weights))


def drawdowns_of(returns: Any) -> FloatArray:
    """What the wealth after each period is below its maximum so far, as a fraction of
    the maximum."""
    wealth = np.cumprod(np.append(1.0, 1 + np.asarray(returns, dtype=float)))
    return (1 - wealth / np.maximum.accumulate(wealth))[1:]


def monthly_returns(returns: Any, dates: Any) -> tuple[np.ndarray, FloatArray]:
    """The years, and the compound return of each of their months, NaN for months
    without a period. ``dates`` are in ascending order."""
    months = np.asarray(dates).astype("M8[M]")
    found, first = np.unique(months, return_index=True)
    growth = np.multiply.reduceat(1 + np.asarray(returns, dtype=float), first)
    number = found.astype(int)  # since January 1970
    years = np.arange(number[0] // 12, number[-1] // 12 + 1)
    table = np.full((len(years), 12), np.nan)
    table[number // 12 - years[0], number % 12] = growth - 1
    return years + 1970, table
