"""objective="auto": visits are rows and never weights, and "bellman" is taken where its bias does not show."""

import numpy as np
import pytest

from sk_stormc import BellmanValueEstimator
from sk_stormc.values.objectives import tells_apart


def off_policy(n=20_000, seed=0):
    """Uniform logging of s' = .8 s + .4 (2 a - 1) + noise, with ratios {0, 2} for the target "always a = 1"."""
    rng = np.random.default_rng(seed)
    s, a = rng.normal(scale=2.0, size=n), rng.integers(2, size=n)
    after = 0.8 * s + 0.4 * (2 * a - 1) + 0.3 * rng.normal(size=n)
    X, next_X = (np.column_stack([z, z**2]) for z in (s, after))
    return X, s, next_X, 2.0 * a


def ring(visits, n_states=2000, gamma=0.9, seed=0):
    """A ring of states with features (cos, sin), whose values are exactly 10 + 5 cos + 3 sin."""
    rng = np.random.default_rng(seed)
    state = np.repeat(np.arange(n_states), visits)
    step = rng.integers(-n_states // 3, n_states // 3 + 1, size=len(state))
    angle = 2 * np.pi / n_states
    X, next_X = (np.column_stack([np.cos(angle * s), np.sin(angle * s)]) for s in (state, state + step))
    mean = np.cos(angle * np.arange(-n_states // 3, n_states // 3 + 1)).mean()
    y = 10 * (1 - gamma) + (1 - gamma * mean) * (X @ [5.0, 3.0])
    return X, y + 0.1 * rng.normal(size=len(y)), next_X


def test_integer_ratios_do_not_change_the_objective():
    X, y, next_X, ratios = off_policy()
    weights = ratios, 0.99999999 * ratios
    values = [BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X, sample_weight=w) for w in weights]
    assert [value.objective_ for value in values] == ["projected"] * 2
    np.testing.assert_allclose(values[0].coef_, values[1].coef_, rtol=1e-6)
    np.testing.assert_allclose(values[0].coef_, [1 / (1 - 0.9 * 0.8), 0.0], atol=0.1)  # V is linear in s


def test_a_constant_weight_changes_nothing():
    X, y, next_X, _ = off_policy(2000)
    plain, weighted = (
        BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X, sample_weight=w) for w in (None, np.full(2000, 2))
    )
    assert plain.objective_reason_ == weighted.objective_reason_
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-9)


@pytest.mark.parametrize("visits", [2, 10])
def test_few_visits_where_features_generalise(visits):
    X, y, next_X = ring(visits)
    value = BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X)
    assert value.objective_ == "projected" and "bias" in value.objective_reason_
    np.testing.assert_allclose(value.coef_, [5.0, 3.0], atol=0.5)
    biased = BellmanValueEstimator(0.9, "lstd", objective="bellman").fit(X, y, next_X=next_X)
    assert biased.coef_[0] < 4.5


def test_bellman_where_its_bias_does_not_show():
    X, y, next_X = ring(400, n_states=50)
    value = BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X)
    assert value.objective_ == "bellman" and "not above" in value.objective_reason_
    # nothing varies within a state
    rng = np.random.default_rng(0)
    left, came = rng.normal(size=(2, 30, 2))
    value.fit(np.tile(left, (2, 1)), np.tile(left[:, 0], 2), next_X=np.tile(came, (2, 1)))
    assert value.objective_ == "bellman"


def test_features_that_tell_states_apart():
    rng = np.random.default_rng(0)
    state, after = rng.integers(10, size=(2, 40))
    value = BellmanValueEstimator(0.9, "lstd").fit(np.eye(10)[state], rng.normal(size=40), next_X=np.eye(10)[after])
    assert value.objective_ == "bellman" and "apart" in value.objective_reason_
    triangle = np.tril(np.ones((6, 6)))
    assert tells_apart(triangle) and not tells_apart(triangle[:, 1:]) and not tells_apart(np.ones((2, 3)))
