"""What `CompositionalPortfolio` checks and prepares before a fit: parameters, returns,
weights and constraints."""

import numpy as np

from sk_stormc.portfolio.constraints import penalty_of
from sk_stormc.portfolio.labels import assets_of, check_row_labels
from sk_stormc.portfolio.returns import (
    check_ascending,
    check_finite_returns,
    check_period_order,
    expected_means,
    faded,
    own_forecast,
    warn_of_prices,
    with_expected_returns,
)
from sk_stormc.portfolio.risk import MEASURES
from sk_stormc.portfolio.rounds import Rows
from sk_stormc.utils.blocks import is_dask
from sk_stormc.utils.frames import rows_of
from sk_stormc.utils.validation import is_real

__all__ = ["check_objective", "prepared", "prepared_rows", "rows_in_blocks"]


def check_objective(portfolio):
    """Raise a ValueError for parameters that define different objectives."""
    ratio = portfolio.objective == "ratio"
    max_risk = portfolio.max_risk
    l2 = portfolio.l2
    ratios = ["objective='ratio'"] * ratio
    if ratio and max_risk is not None:
        raise ValueError(
            f"max_risk must be None with objective='ratio', got {max_risk!r}"
        )
    refusing = ratios
    if l2 and refusing:
        raise ValueError(f"l2 must be 0 with {refusing[0]}, got {l2!r}")
    if portfolio.min_return is None:
        return
    refusing = ratios + [f"max_risk={max_risk!r}"] * (max_risk is not None)
    if refusing:
        raise ValueError(
            f"min_return must be None with {refusing[0]}, got {portfolio.min_return!r}"
        )
    if is_real(portfolio.risk_aversion) and portfolio.risk_aversion != np.inf:
        raise ValueError(
            "min_return needs risk_aversion=numpy.inf, for the least risk of a "
            "portfolio with at least this mean "
            f"return, got risk_aversion={portfolio.risk_aversion!r}"
        )


def prepared(portfolio, X, returns, sample_weight):
    """The returns with expected means and a benchmark, the weights of the periods or
    None, and the penalty or None."""
    measure = MEASURES[portfolio.risk_measure]
    penalty = penalty_of(portfolio, returns.shape[1], assets_of(X))
    check_ascending(X, counts=portfolio.half_life is not None or measure.ordered)
    check_row_labels("sample_weight", sample_weight, X)
    warn_of_prices(returns)
    weights = faded(sample_weight, len(returns), portfolio.half_life)
    returns = with_expected_returns(returns, portfolio, X, weights)
    if isinstance(returns, np.ndarray):
        if measure.power == 1:
            # float32 is too coarse for the duality gap
            returns = returns.astype(float, copy=False)
        if portfolio.min_return is not None:
            penalty = penalty.with_min_return(portfolio._task(returns, weights).mean)
    return returns, weights, penalty


def prepared_rows(portfolio, X, returns, sample_weight):
    """`prepared` for rounds: the returns are `Rows`, which contain the weights of the
    periods."""
    columns = assets_of(X)
    penalty = penalty_of(portfolio, returns.shape[1], columns)
    check_period_order(
        X,
        counts=portfolio.half_life is not None
        or MEASURES[portfolio.risk_measure].ordered,
    )
    rows = rows_in_blocks(portfolio, X, returns, sample_weight)
    warn_of_prices(rows.head())
    if portfolio.expected_returns is not None:
        means = expected_means(portfolio.expected_returns, columns, returns.shape[1])
        rows.shift_to(means, own_forecast(portfolio, columns))
    if portfolio.min_return is not None:
        penalty = penalty.with_min_return(rows.mean)
    return rows, None, penalty


def rows_in_blocks(portfolio, X, returns, sample_weight):
    """The returns in blocks, with weights of periods and a benchmark."""
    if is_dask(X):
        return Rows(
            X,
            returns.dtype,
            sample_weight,
            portfolio.half_life,
            portfolio.benchmark,
            assets_of(X),
        )
    check_row_labels("sample_weight", sample_weight, X)
    labels = assets_of(X), rows_of(X)
    return Rows(
        returns,
        returns.dtype,
        sample_weight,
        portfolio.half_life,
        portfolio.benchmark,
        *labels,
        lambda rows: check_finite_returns(X, returns),
    )
