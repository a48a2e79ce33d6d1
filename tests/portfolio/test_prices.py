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


def share_of_warnings(make, n, d, trials=400):
    rng = np.random.default_rng([n, d])
    return np.mean([bool(warned(make(0.01 * rng.standard_normal((n, d)), rng))) for _ in range(trials)])


PRICES = {
    "prices": lambda e, rng: 30 * np.exp(np.cumsum(e, axis=0)),
    "logarithms": lambda e, rng: 3.4 + np.cumsum(e, axis=0),
    "small": lambda e, rng: -2.0 + np.cumsum(e, axis=0),
    "tick": lambda e, rng: np.where(np.arange(len(e))[:, None] == len(e) // 2, -37, 30 * np.exp(np.cumsum(e, axis=0))),
}
RETURNS = {
    "returns": lambda e, rng: e,
    "near 1": lambda e, rng: 1 + e,
    "near 100": lambda e, rng: 100 + 100 * e,
    "annual": lambda e, rng: 0.05 + 5 * e,  # of bonds: most are positive
    "heavy tails": lambda e, rng: 0.01 * rng.standard_t(2, e.shape),
    "one rate": lambda e, rng: np.hstack([e, e, 1e-4 * np.exp(np.cumsum(e[:, :1], axis=0))]),
    "smoothed": lambda e, rng: 0.005 + e + 0.5 * np.vstack([e[:1], e[:-1]]),
}


@pytest.mark.parametrize("kind", PRICES)
def test_few_prices_and_their_logarithms_are_told(kind):
    for n, least in ((15, 0.7), (30, 0.9), (60, 0.97), (250, 1.0)):
        assert share_of_warnings(PRICES[kind], n, 3) >= least


@pytest.mark.parametrize("kind", RETURNS)
def test_returns_are_not_called_prices(kind):
    for n in (10, 15, 30, 60, 250):
        assert share_of_warnings(RETURNS[kind], n, 4) == 0.0
        assert share_of_warnings(RETURNS[kind], n, 1) <= 0.02


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
