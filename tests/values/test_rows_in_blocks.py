"""A fit goes over its rows block by block, copies them once and writes into nothing that it was given."""

import numpy as np
import pytest

from sk_stormc import BellmanValueEstimator
from sk_stormc.values.lstd import NUMBERS, ROWS, Moments
from sk_stormc.values.markov import largest_values


def transitions(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 1, d))
    return X[:-1], 0.5 * X[:-1] + X[1:], rng.normal(size=n) + X[:-1, 0], rng.random(n) < 0.05


@pytest.mark.parametrize("weighted", [False, True])
def test_many_blocks_are_one(weighted):
    d = NUMBERS // ROWS  # so wide that blocks have the least number of rows
    X, next_X, y, terminal = transitions(2 * ROWS + 7, d)
    next_X[terminal] = 0.0
    weights = np.random.default_rng(1).random(len(y)) * (y > -1) if weighted else np.full(len(y), 0.5)
    one, many = Moments.of(X, X - 0.9 * next_X, y, weights), Moments.of_log(X, next_X, 0.9, y, weights)
    for a, b in zip((*one.means(), one.largest, one.weight), (*many.means(), many.largest, many.weight), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-14)
    assert many.n_rows == len(y)


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 3), (300, 3), (1000, 1), (513, 256), (5, 700)])
def test_the_largest_value_of_each_column(shape):
    A = np.random.default_rng(0).normal(size=shape) - 1.0
    expected = abs(A).max(axis=0, initial=0.0)
    for layout in (A, np.asfortranarray(A), A[::-1]):
        np.testing.assert_array_equal(largest_values(layout), expected)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("behind", [np.nan, np.inf, 1e308, 0.0])
def test_what_is_behind_the_end_does_not_matter_and_nothing_is_written_into(behind, intercept):
    X, next_X, y, terminal = transitions(400, 3)
    expected = BellmanValueEstimator(0.9, "lstd", fit_intercept=intercept).fit(X, y, next_X=next_X, terminal=terminal)
    next_X[terminal] = behind
    given = X.copy(), next_X.copy(), y.copy()
    value = BellmanValueEstimator(0.9, "lstd", fit_intercept=intercept).fit(X, y, next_X=next_X, terminal=terminal)
    np.testing.assert_array_equal(value.coef_, expected.coef_)
    for before, after in zip(given, (X, next_X, y), strict=True):
        np.testing.assert_array_equal(before, after)


def test_successors_that_are_not_finite_are_named():
    X, next_X, y, terminal = transitions(400, 3)
    terminal[:] = False
    next_X[17, 1] = np.inf
    with pytest.raises(ValueError, match="next_X must be finite where not terminal, got NaN or infinity in row 17"):
        BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X, terminal=terminal)
