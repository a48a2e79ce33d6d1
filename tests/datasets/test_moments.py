"""Returns with a given mean and covariance."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import LedoitWolf

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import returns_from_moments


def moments(n, seed=0, unit=1.0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, 2 * n)) * 10.0 ** rng.uniform(-2, 2, size=(n, 1))
    return unit * rng.normal(size=n), unit**2 * (A @ A.T) / n


@pytest.mark.parametrize("n, unit", [(1, 1e6), (2, 1.0), (30, 1e-9), (30, 1e6)])
def test_mean_and_covariance_are_exact(n, unit):
    mean, C = moments(n, unit=unit)
    returns, deviation = returns_from_moments(mean, C), np.sqrt(np.diagonal(C))
    assert returns.shape == (2 * n, n)
    assert np.abs((returns.mean(axis=0) - mean) / deviation).max() < 1e-13
    centred = returns - returns.mean(axis=0)
    error = centred.T @ centred / (2 * n) - C
    assert np.abs(error / np.outer(deviation, deviation)).max() < 1e-12


def test_the_portfolio_is_that_of_the_moments():
    mean, C = moments(6, seed=3)
    portfolio = CompositionalPortfolio(risk_aversion=2.0, solver="newton")
    weights = portfolio.fit(returns_from_moments(mean, C)).weights_
    np.testing.assert_allclose(weights, np.linalg.solve(4 * C, mean), rtol=1e-6)
    # more assets than periods: Ledoit and Wolf's is regular
    X = np.random.default_rng(0).normal(size=(40, 60))
    shrunk = LedoitWolf().fit(X).covariance_
    least = CompositionalPortfolio(risk_aversion=np.inf, budget=1)
    weights = least.fit(returns_from_moments(X.mean(axis=0), shrunk)).weights_
    inverse = np.linalg.solve(shrunk, np.ones(60))
    np.testing.assert_allclose(weights, inverse / inverse.sum(), rtol=1e-5)


def test_labels():
    names = ["b", "a", "c"]
    mean, C = moments(3)
    frame, expected = pd.DataFrame(C, names, names), returns_from_moments(mean, C)
    by_label = dict(zip(names, mean, strict=True))
    series = pd.Series(by_label)[["a", "b", "c"]]
    for labelled in (by_label, series, {**by_label, "other": 1.0}, mean):
        returns = returns_from_moments(labelled, frame)
        assert list(returns.columns) == names
        np.testing.assert_array_equal(returns.to_numpy(), expected)


def test_singular_and_slightly_indefinite_matrices():
    singular = np.ones((3, 3)) * 0.04
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        returns = returns_from_moments(np.zeros(3), singular)
        zero = returns_from_moments([0.01, 0.02], np.zeros((2, 2)))
    found = np.cov(returns, rowvar=False, ddof=0)
    np.testing.assert_allclose(found, singular, atol=1e-15)
    np.testing.assert_array_equal(zero, np.tile([0.01, 0.02], (4, 1)))
    _, C = moments(5, seed=1)
    deviation = np.sqrt(np.diagonal(C))
    values, vectors = np.linalg.eigh(C / np.outer(deviation, deviation))
    values[0] = -1e-3 * values[-1]
    words = "covariance has eigenvalues below 0, of up to 0.001 of the largest"
    with pytest.warns(UserWarning, match=words):
        returns = returns_from_moments(np.zeros(5), vectors * values @ vectors.T)
    values[0] = 0
    found = np.cov(returns, rowvar=False, ddof=0)
    np.testing.assert_allclose(found, vectors * values @ vectors.T, atol=0.02)


HALF = [0.1, 0.1]


@pytest.mark.parametrize(
    ("mean", "covariance", "words"),
    [
        ([0.1], np.eye(2), r"shape \(2,\), as covariance has 2 assets, got \(1,\)"),
        (HALF, np.ones((2, 3)), r"of shape \(n_assets, n_assets\), got \(2, 3\)"),
        ([0.1, np.nan], np.eye(2), "mean must be finite, got nan"),
        (HALF, [[1, 0.2], [0.1, 1]], r"got 0.2 for \[0, 1\] and 0.1 for \[1, 0\]"),
        (HALF, [[1, 2], [2, 1]], "eigenvalues, got one that is 0.33 of the largest"),
        (HALF, -np.eye(2), "must not have negative eigenvalues"),
        ({"a": 0.1, "b": 0.1}, np.eye(2), "no labels if covariance has none"),
        ({"a": 0.1}, pd.DataFrame(np.eye(2), [*"ab"], [*"ab"]), r"nothing for \['b'\]"),
        (HALF, pd.DataFrame(np.eye(2), [*"ab"], [*"ba"]), "same labels for rows and c"),
    ],
)
def test_what_is_refused(mean, covariance, words):
    with pytest.raises(ValueError, match=words):
        returns_from_moments(mean, covariance)
