"""Prices that are taken for returns warn, and returns do not."""

import warnings

import numpy as np
import pytest

from sk_stormc import CompositionalPortfolio
from sk_stormc.portfolio.returns import Returns

PRICES = {
    "prices": lambda e: 30 * np.exp(np.cumsum(e, axis=0)),
    "logarithms": lambda e: 3.4 + np.cumsum(e, axis=0),
    "a negative tick": lambda e: np.where(
        np.arange(len(e))[:, None] == len(e) // 2, -37, 30 * np.exp(np.cumsum(e, 0))
    ),
    "large": lambda e: 1e300 * np.exp(np.cumsum(e, axis=0)),
}
RETURNS = {
    "returns": lambda e: e,
    "near 100": lambda e: 100 + 100 * e,
    "annual": lambda e: 0.05 + 5 * e,  # of bonds: most are positive
    "one rate": lambda e: np.hstack([e, e, 1e-4 * np.exp(np.cumsum(e[:, :1], axis=0))]),
    "cash": lambda e: np.hstack([np.full((len(e), 4), 1e-4), e[:, :1]]),
    "smoothed": lambda e: 0.005 + e + 0.5 * np.vstack([e[:1], e[:-1]]),
}


def share_of_warnings(make, n, d, trials=30):
    rng, count = np.random.default_rng([n, d]), 0
    for _ in range(trials):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Returns.of(make(0.01 * rng.standard_normal((n, d)))).warn_of_prices()
        count += bool(caught)
    return count / trials


@pytest.mark.parametrize("kind", PRICES)
def test_prices_and_their_logarithms_are_told_from_returns(kind):
    for n, least in ((14, 0.0), (15, 0.65), (30, 0.9), (250, 1.0)):
        share = share_of_warnings(PRICES[kind], n, 3)
        assert share >= least and (n > 14 or not share)


@pytest.mark.parametrize("kind", RETURNS)
def test_returns_are_not_called_prices(kind):
    for n in (15, 30, 250):
        assert share_of_warnings(RETURNS[kind], n, 4) == 0.0
        assert share_of_warnings(RETURNS[kind], n, 1) <= 0.03


def test_fits_and_streams_warn_once():
    returns = 0.01 * np.random.default_rng(0).normal(size=(120, 4))
    prices = 20 * np.exp(np.cumsum(returns, axis=0))
    stream = CompositionalPortfolio(constraint="long_only", solver="moments")
    for run, X in ((stream.fit, prices), (stream.partial_fit, prices[:100])):
        with pytest.warns(UserWarning, match="looks like prices, not returns"):
            run(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.partial_fit(prices[100:])
        CompositionalPortfolio(constraint="long_only").fit(1 + returns)
