"""objective="auto": visits are rows and never weights, and "bellman" is taken where its
bias does not show."""

import re

import numpy as np
import pytest

from sk_stormc import BellmanValueEstimator


def ring(visits, n_states=2000, gamma=0.9, seed=0, reach=None):
    """A ring of states with features (cos, sin), whose values are exactly 10 + 5 cos +
    3 sin.

    A step goes to one of the next ``reach`` states on both sides.
    """
    rng = np.random.default_rng(seed)
    state = np.repeat(np.arange(n_states), visits)
    low, high = (-n_states // 3, n_states // 3) if reach is None else (-reach, reach)
    step = rng.integers(low, high + 1, size=len(state))
    angle = 2 * np.pi / n_states
    X, next_X = (
        np.column_stack([np.cos(angle * s), np.sin(angle * s)])
        for s in (state, state + step)
    )
    mean = np.cos(angle * np.arange(low, high + 1)).mean()
    y = 10 * (1 - gamma) + (1 - gamma * mean) * (X @ [5.0, 3.0])
    return X, y + 0.1 * rng.normal(size=len(y)), next_X


def test_weights_are_not_visits():
    rng = np.random.default_rng(0)
    log = {"X": rng.normal(size=(60, 2)), "y": rng.normal(size=60)}
    log |= {"next_X": rng.normal(size=(60, 2)), "terminal": np.arange(60) % 6 == 5}
    log["sample_weight"] = np.where(np.arange(60) % 2, 1.8, 0.2)
    value = BellmanValueEstimator(0.9, "lstd").fit(**log)
    assert value.objective_ == "projected" and "0%" in value.objective_reason_
    # rows of the same state are visits, whatever their weights; those of weight 0 are
    # not there
    twice = {name: np.concatenate([part, part]) for name, part in log.items()}
    assert value.fit(**twice).objective_ == "bellman"
    twice["sample_weight"][60:] = 0
    assert value.fit(**twice).objective_ == "projected"


def test_minus_zero_is_zero():
    """The state 0 is visited twice, however its zeros are signed."""
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [1.0, -0.0]])
    value = BellmanValueEstimator(0.5, fit_intercept=False)
    value.fit(X, [1.0, 3.0, 0.0, 0.0], terminal=np.ones(4, bool))
    assert value.n_states_ == 2 and value.objective_ == "bellman"


@pytest.mark.parametrize("visits", [2, 10])
def test_few_visits_where_features_generalise(visits):
    X, y, next_X = ring(visits)
    value = BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X)
    assert value.objective_ == "projected" and "bias" in value.objective_reason_
    np.testing.assert_allclose(value.coef_, [5.0, 3.0], atol=0.5)
    value.set_params(objective="bellman").fit(X, y, next_X=next_X)
    assert value.coef_[0] < 4.5


def test_bias_and_noise_of_states_visited_once_are_those_of_values_from_other_logs():
    """Half of the rows are the only visits of their states."""
    visits, errors, stated = np.tile([1, 1, 2], 100), [], []
    value, biased = (
        BellmanValueEstimator(0.9, "lstd", objective=objective)
        for objective in ("auto", "bellman")
    )
    for seed in range(40):
        X, y, next_X = ring(visits, 300, seed=seed, reach=5)
        reason = value.fit(X, y, next_X=next_X).objective_reason_
        stated.append([float(x) for x in re.findall(r"\(about (\S+)\)", reason)])
        values = biased.fit(X, y, next_X=next_X).predict(X)
        errors.append(values - 10 - X @ [5.0, 3.0])
    bias = np.sqrt(np.mean(np.mean(errors, axis=0) ** 2))
    noise = np.sqrt(np.mean(np.var(errors, axis=0)))
    # bias is of first order
    np.testing.assert_allclose(np.mean(stated, axis=0), [bias, noise], rtol=0.3)


def test_bellman_where_its_bias_does_not_show():
    X, y, next_X = ring(400, n_states=50)
    value = BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X)
    assert value.objective_ == "bellman" and "not above" in value.objective_reason_
    # nothing varies within a state
    left, came = np.tile(np.random.default_rng(0).normal(size=(2, 30, 2)), (2, 1))
    assert value.fit(left, left[:, 0], next_X=came).objective_ == "bellman"


def test_features_that_tell_states_apart():
    rng = np.random.default_rng(0)
    (state, after), y = rng.integers(10, size=(2, 40)), rng.normal(size=40)
    # no feature of the last belongs to one state only
    for table in (np.eye(10), np.tril(np.ones((10, 10)))):
        value = BellmanValueEstimator(0.9, "lstd")
        value.fit(table[state], y, next_X=table[after])
        assert value.objective_ == "bellman" and "apart" in value.objective_reason_
