"""Transitions along which features grow faster than the discount shrinks rewards have no values, and fits say so."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import ActionValueEstimator, BellmanValueEstimator


def log(growth, seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, X[:, 0] + 0.1 * rng.standard_normal(n), X * [growth, 0.5, 0.9] + 0.3 * rng.standard_normal((n, 3))


def warned(make, X, y, next_X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(X, y, next_X=next_X)
    return [w for w in caught if "do not exist" in str(w.message)]


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_growth_beyond_the_discount_warns(solver):
    def fitted(gamma):
        return BellmanValueEstimator(gamma, solver, random_state=0).fit

    for seed in range(10):
        assert len(warned(fitted(0.9), *log(1.2, seed))) == 1
        assert not warned(fitted(0.9), *log(1.02, seed)) and not warned(fitted(0.7), *log(1.2, seed))


def test_growth_of_what_no_reward_depends_on_does_not_warn():
    X, _, next_X = log(1.3)
    assert not warned(BellmanValueEstimator(0.9, "lstd", fit_intercept=True).fit, X, np.full(len(X), -1.0), next_X)


def test_few_rows_say_nothing_of_growth():
    X, y, next_X = log(1.3, n=20)
    assert not warned(BellmanValueEstimator(0.9, "lstd").fit, X, y, next_X)
    stream = BellmanValueEstimator(0.9, "lstd")
    assert not warned(stream.partial_fit, X, y, next_X)
    assert warned(stream.partial_fit, *log(1.3, 1))


def test_traces_and_action_values_warn_too():
    X, y, next_X = log(1.3)
    with pytest.warns(ConvergenceWarning, match="values do not exist"):
        BellmanValueEstimator(0.9, "lstd", trace_decay=0.5).fit(X, y, next_X=next_X)
    for solver in ("lstd", "storm-c"):
        with pytest.warns(ConvergenceWarning, match="values do not exist"):
            fit = ActionValueEstimator(lambda X: np.zeros(len(X), int), 0.9, solver).fit
            fit(X, y, action=np.zeros(len(X), int), next_X=next_X)
