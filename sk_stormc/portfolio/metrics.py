"""Scorers that can compare portfolios with different values of risk_aversion."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sk_stormc.engine.results import StopReason
from sk_stormc.utils.frames import columns_of
from sk_stormc.utils.parameters import check_number, short
from sk_stormc.utils.types import ArrayLike

__all__ = ["deviation_by_rounding", "has_failed", "make_sharpe_scorer", "sharpe_ratio"]


def sharpe_ratio(estimator: Any, X: ArrayLike, y: Any = None) -> float:
    """Return the Sharpe ratio: mean over standard deviation of the portfolio's return
    per period.

    This scorer does not depend on risk_aversion, so it can be used to choose
    risk_aversion. `CompositionalPortfolio.score` would score each value with a
    different function. If the returns are a time series, use a splitter for time
    series.

    Parameters
    ----------
    estimator : fitted estimator
        Its ``predict(X)`` returns the portfolio's returns.
    X : array-like of shape (n_periods, n_assets)
    y : Ignored

    Returns
    -------
    float
        The ratio per period, not annualised. It is 0 if the returns are constant up to
        rounding, and -inf if the fit has overflowed or diverged.

    Raises
    ------
    ValueError
        If the estimator has no ``predict``.

    See Also
    --------
    make_sharpe_scorer : The annualised ratio of returns in excess of a risk-free
        return.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
    >>> from sk_stormc import CompositionalPortfolio, sharpe_ratio
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(600, 5, mean=0.1, random_state=0)
    >>> search = GridSearchCV(
    ...     CompositionalPortfolio(constraint="long_only", random_state=0),
    ...     {"risk_aversion": [0.1, 1.0, 10.0]},
    ...     scoring=sharpe_ratio,
    ...     cv=TimeSeriesSplit(3),
    ... ).fit(returns)
    >>> search.best_params_["risk_aversion"] > 0
    True
    """
    if not hasattr(estimator, "predict"):
        raise ValueError(
            "estimator must have a method predict that gives returns, got "
            f"{short(estimator)}"
        )
    return (
        -math.inf if has_failed(estimator) else _ratio(np.asarray(estimator.predict(X)))
    )


def make_sharpe_scorer(
    periods_per_year: float = 252, risk_free: float | str = 0.0
) -> Callable[..., float]:
    """Make a scorer of the annualised Sharpe ratio: mean over standard deviation of the
    excess return.

    The excess return is the portfolio's return minus ``risk_free``. A portfolio that is
    nearly all cash has a tiny standard deviation. If cash earns more than
    ``risk_free``, the ratio of such a portfolio is large without any skill. To avoid
    this, pass the return of cash as ``risk_free``. Constant returns score 0, and fits
    that overflowed or diverged score -inf.

    Parameters
    ----------
    periods_per_year : float, default=252
        252 for daily returns, 52 for weekly and 12 for monthly ones.
    risk_free : float or str, default=0.0
        The risk-free return of one period, in the unit of the returns, or the name of
        the column of X that contains it.

    Returns
    -------
    callable
        ``scorer(estimator, X, y=None)``, for ``scoring=``. It can be pickled.

    Raises
    ------
    ValueError
        If a parameter is out of its range. The scorer raises it if X does not have the
        column.

    Examples
    --------
    >>> from sk_stormc import CompositionalPortfolio, make_sharpe_scorer
    >>> from sk_stormc.datasets import make_gaussian_returns
    >>> returns = make_gaussian_returns(600, 5, mean=0.1, random_state=0)
    >>> scorer = make_sharpe_scorer(risk_free=0.01)
    >>> scorer
    make_sharpe_scorer(periods_per_year=252, risk_free=0.01)
    >>> portfolio = CompositionalPortfolio(constraint="long_only", random_state=0).fit(
    ...     returns
    ... )
    >>> bool(0 < scorer(portfolio, returns) < make_sharpe_scorer()(portfolio, returns))
    True
    """
    check_number("periods_per_year", periods_per_year, low=0, inclusive=False)
    if not isinstance(risk_free, str):
        check_number("risk_free", risk_free)
    return _SharpeScorer(periods_per_year, risk_free)


class _SharpeScorer:
    """The scorer that `make_sharpe_scorer` returns."""

    def __init__(self, periods_per_year, risk_free):
        self.periods_per_year, self.risk_free = periods_per_year, risk_free

    def __repr__(self):
        return (
            f"make_sharpe_scorer(periods_per_year={self.periods_per_year}, "
            f"risk_free={self.risk_free!r})"
        )

    def __call__(self, estimator, X, y=None):
        """The annualised Sharpe ratio on the returns of X."""
        if has_failed(estimator):
            return -math.inf
        riskless = self.risk_free
        if isinstance(riskless, str):
            columns = columns_of(X)
            if riskless not in (columns or []):
                available = "an array without names"
                if columns is not None:
                    available = f"columns {columns[:10]}"
                raise ValueError(
                    "risk_free must be a number or the name of a column of X, got "
                    f"{riskless!r} and {available}"
                )
            riskless = np.asarray(X[riskless], dtype=float)
        return math.sqrt(self.periods_per_year) * _ratio(
            np.asarray(estimator.predict(X)), riskless
        )


def has_failed(estimator):
    """Whether the run of a fit overflowed or diverged. Its weights are then hardly
    better than the initialization."""
    return getattr(estimator, "stop_reason_", None) in (
        StopReason.NON_FINITE,
        StopReason.DIVERGED,
    )


def _ratio(returns, riskless=0.0):
    """The mean over the standard deviation of returns - riskless."""
    eps = np.finfo(returns.dtype).eps if returns.dtype.kind == "f" else 0.0
    returns = returns.astype(float)
    excess = returns - riskless
    deviation = excess.std()
    varies = deviation > deviation_by_rounding(returns, eps)
    return float(excess.mean() / deviation) if varies else 0.0


def deviation_by_rounding(returns, eps):
    """The standard deviation up to which returns are the same but for rounding."""
    return 16 * eps * np.abs(returns).max()
