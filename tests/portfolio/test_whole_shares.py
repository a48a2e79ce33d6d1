"""Tests of whole shares."""

import numpy as np
import pandas as pd
import pytest

from sk_stormc import whole_shares


def test_whole_shares_are_the_best_of_all():
    """Against all numbers of shares that could be better."""
    rng = np.random.default_rng(0)
    for trial in range(60):
        n = int(rng.integers(1, 4))
        prices = rng.uniform(5, 60, n).round(2)
        weights = rng.dirichlet(np.ones(n)) if trial % 2 else rng.normal(size=n)
        capital = float(rng.integers(50, 300))
        weights *= min(1.0, 15 * prices.min() / capital / np.abs(weights).max())
        found = whole_shares(weights, prices, capital)
        ideal = capital * weights
        ends = [sorted((0, int(np.floor(x)), int(np.ceil(x)))) for x in ideal / prices]
        every = np.array(
            np.meshgrid(*[np.arange(e[0], e[-1] + 1) for e in ends])
        ).reshape(n, -1)
        cost = prices @ every
        distance = np.abs(prices[:, None] * every - ideal[:, None]).sum(axis=0)
        best = distance[cost <= capital + 1e-9].min()
        own = np.abs(prices * found.shares - ideal).sum()
        assert own <= best + 1e-6 and found.cash >= -1e-9
        assert found.cash == pytest.approx(capital - prices @ found.shares)


def test_whole_shares_by_label():
    weights = pd.Series({"a": 0.5, "b": 0.5})
    prices = pd.Series({"b": 3.0, "a": 7.0, "c": 1.0})
    found = whole_shares(weights, prices, 100.0)
    assert found.shares.to_dict() == {"a": 7, "b": 17} and found.cash == 0.0
    assert whole_shares(dict(weights), prices, 100.0).shares.to_dict() == {
        "a": 7,
        "b": 17,
    }
    assert whole_shares([0.5, 0.5], [7, 3], 100).shares.dtype == np.int64
    for args, words in (
        (([0.5], [1.0, 2.0], 10), "a price for each of 1 weights, got 2"),
        (([0.5], [0.0], 10), "prices must be positive, got 0"),
        (([0.5], [1.0], 0), "capital must be"),
        (([np.nan], [1.0], 10), "weights must be finite"),
        ((weights, prices[["a"]], 10), "has nothing for 'b'"),
    ):
        with pytest.raises(ValueError, match=words):
            whole_shares(*args)
