"""Prices that are taken for returns warn, and returns do not."""

import warnings

import numpy as np
import pytest

from sk_stormc import CompositionalPortfolio
from sk_stormc.portfolio.returns import warn_of_prices


def returns_of(seed, n=250, d=4):
    return 0.0004 + 0.01 * np.random.default_rng(seed).standard_normal((n, d))


def warned(X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_prices(X)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize("n", [60, 250, 3000])
def test_prices_are_told_from_returns(n):
    for seed in range(40):
        returns = returns_of(seed, n)
        prices = 100 * np.exp(np.cumsum(returns, axis=0))
        assert warned(prices) and warned(1e300 * prices) == warned(prices)
        assert not warned(returns) and not warned(1 + returns) and not warned(100 + returns)
        cash = np.full((n, 1), 1e-4)
        assert not warned(np.hstack([cash, cash, cash, cash, returns[:, :1]]))
    assert not warned(np.full((n, 3), 1e-4)) and not warned(prices[:14])


def test_fits_and_streams_warn_once():
    returns = returns_of(0)
    prices = 20 * np.exp(np.cumsum(returns, axis=0))
    with pytest.warns(UserWarning, match="looks like prices, not returns"):
        CompositionalPortfolio(constraint="long_only").fit(prices)
    stream = CompositionalPortfolio(constraint="long_only", solver="moments")
    with pytest.warns(UserWarning, match="looks like prices, not returns"):
        stream.partial_fit(prices[:100])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.partial_fit(prices[100:])
        CompositionalPortfolio(constraint="long_only").fit(1 + returns)
