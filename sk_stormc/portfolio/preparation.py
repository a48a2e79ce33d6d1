"""What `CompositionalPortfolio` checks and prepares before a fit: parameters, returns,
weights and constraints."""

import numpy as np

from sk_stormc.portfolio.constraints import feasible_set_of
from sk_stormc.portfolio.labels import assets_of, check_row_labels
from sk_stormc.portfolio.returns import (
    check_finite_returns,
    check_period_order,
    expected_means,
    faded,
    own_forecast,
    warn_of_prices,
    with_expected_returns,
)
from sk_stormc.portfolio.risk import MEASURES
from sk_stormc.portfolio.rounds.rows import Rows
from sk_stormc.utils.blocks import is_dask
from sk_stormc.utils.frames import rows_of
from sk_stormc.utils.validation import is_real, is_word

__all__ = ["check_objective", "prepared", "rows_in_blocks"]


def check_objective(portfolio):
    """Raise a ValueError for parameters that define different objectives, and for a
    solver that does not have the risk measure."""
    measure, solver = MEASURES[portfolio.risk_measure], portfolio.solver
    if measure.problem is None and not is_word(solver, "auto", "newton", "scip"):
        *others, last = (repr(name) for name in MEASURES if MEASURES[name].problem)
        raise ValueError(
            f"solver={solver!r} has risk_measure {', '.join(others)} and {last}; take "
            f"'auto' or 'newton' for {measure.name!r}"
        )
    max_risk, min_return = portfolio.max_risk, portfolio.min_return
    other = None if max_risk is None else f"max_risk={max_risk!r}"
    if portfolio.objective == "ratio":
        other = "objective='ratio'"
        if max_risk is not None:
            raise ValueError(f"max_risk must be None with {other}, got {max_risk!r}")
        if portfolio.l2:
            raise ValueError(f"l2 must be 0 with {other}, got {portfolio.l2!r}")
    if other is not None and not measure.power:
        raise ValueError(
            f"{other if max_risk is None else 'max_risk'} needs a risk apart from the "
            f"mean return, got risk_measure={portfolio.risk_measure!r}"
        )
    if min_return is None:
        return
    if other is not None:
        raise ValueError(f"min_return must be None with {other}, got {min_return!r}")
    if is_real(portfolio.risk_aversion) and portfolio.risk_aversion != np.inf:
        raise ValueError(
            "min_return needs risk_aversion=numpy.inf, for the least risk of a "
            "portfolio with at least this mean return, got "
            f"risk_aversion={portfolio.risk_aversion!r}"
        )


def prepared(portfolio, X, returns, sample_weight, by_rounds):
    """The returns with expected means and a benchmark, the weights of the periods or
    None, and the penalty or None.

    For rounds the returns are `Rows`, which contain the weights of the periods.
    """
    measure, columns = MEASURES[portfolio.risk_measure], assets_of(X)
    n_assets = returns.shape[1]
    penalty = feasible_set_of(portfolio, n_assets, columns)
    check_period_order(X, portfolio.half_life is not None or measure.ordered)
    if not is_dask(X):
        check_row_labels(sample_weight, X)
    if by_rounds:
        half_life, weights = portfolio.half_life, None
        returns = rows_in_blocks(portfolio, X, returns, sample_weight, half_life)
        warn_of_prices(returns.head())
        if portfolio.expected_returns is not None:
            means = expected_means(portfolio.expected_returns, columns, n_assets)
            returns.shift_to(means, own_forecast(portfolio, columns))
    else:
        warn_of_prices(returns)
        weights = faded(sample_weight, len(returns), portfolio.half_life)
        returns = with_expected_returns(returns, portfolio, X, weights)
        if isinstance(returns, np.ndarray) and measure.power == 1:
            # float32 is too coarse for the duality gap
            returns = returns.astype(float, copy=False)
    if portfolio.min_return is not None:
        table = returns if by_rounds else portfolio._task(returns, weights)
        penalty = penalty.with_min_return(portfolio.min_return, table.mean)
    return returns, weights, penalty


def rows_in_blocks(portfolio, X, returns, sample_weight, half_life=None):
    """The returns in blocks, with weights of periods and a benchmark."""
    table, rows, check = X, None, None
    if not is_dask(X):
        table, rows = returns, rows_of(X)

        def check(_):
            check_finite_returns(X, returns)

    return Rows(
        table,
        sample_weight,
        half_life,
        portfolio.benchmark,
        assets_of(X),
        rows,
        check,
    )
