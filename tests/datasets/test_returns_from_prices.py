"""Tests of returns from prices."""

import numpy as np
import pandas as pd
import pytest

from sk_stormc.datasets import returns_from_prices

RNG = np.random.default_rng(5)
DAYS = pd.bdate_range("2023-01-02", periods=200, name="Date")
NAMES = ["AAPL", "MSFT", "XOM"]
PRICES = pd.DataFrame(
    (50 * np.exp(0.01 * RNG.normal(size=(200, 3)).cumsum(axis=0))).round(2),
    DAYS,
    NAMES,
)
RETURNS = PRICES.pct_change().dropna()


def test_returns_are_those_of_pandas_in_every_container():
    pd.testing.assert_frame_equal(
        returns_from_prices(PRICES), RETURNS, check_freq=False
    )
    np.testing.assert_allclose(returns_from_prices(PRICES.to_numpy()), RETURNS)
    one = returns_from_prices(PRICES["XOM"])
    pd.testing.assert_series_equal(one, RETURNS["XOM"], check_freq=False)
    np.testing.assert_allclose(returns_from_prices(list(PRICES["XOM"])), RETURNS["XOM"])
    pl = pytest.importorskip("polars")
    found = returns_from_prices(pl.DataFrame(PRICES.to_dict("list")))
    assert isinstance(found, pl.DataFrame) and found.columns == NAMES
    np.testing.assert_allclose(found.to_numpy(), RETURNS)


def holes(rows, name="XOM"):
    prices = PRICES.copy()
    prices.loc[DAYS[rows], name] = np.nan
    return prices


def test_missing_prices():
    with pytest.raises(ValueError, match="one is missing of 'XOM' at 2023-01-11"):
        returns_from_prices(holes([7]))
    with pytest.raises(ValueError, match="before the asset begins, of 'XOM'"):
        returns_from_prices(holes([0, 1]))
    dropped = returns_from_prices(holes([7]), missing="drop")
    np.testing.assert_allclose(dropped, PRICES.drop(DAYS[7]).pct_change().dropna())
    filled = returns_from_prices(holes([7]), missing="ffill")
    np.testing.assert_allclose(filled, holes([7]).ffill().pct_change().dropna())
    for missing in ("drop", "ffill"):
        with pytest.warns(UserWarning, match=r"assets begin later .*\['XOM'\]"):
            late = returns_from_prices(holes([0, 1]), missing=missing)
        np.testing.assert_allclose(late, RETURNS[2:])


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        (PRICES.assign(XOM=0.0), "positive, got 0 of 'XOM' at 2023-01-02"),
        (PRICES[::-1], "ascending order"),
        (PRICES.iloc[[0, 0, 1]], "each date once, got twice: '2023-01-02"),
        (PRICES[:1], "at least two periods"),
        (-PRICES.to_numpy(), "of column 0 at row 0"),
    ],
)
def test_prices_that_give_no_returns(prices, words):
    with pytest.raises(ValueError, match=words):
        returns_from_prices(prices)


def test_possible_splits_are_named():
    split = PRICES.copy()
    split.loc[DAYS[50] :, "MSFT"] /= 4
    with pytest.warns(
        UserWarning, match="0.2.* times that before of 'MSFT' at 2023-03-13"
    ):
        returns_from_prices(split)
