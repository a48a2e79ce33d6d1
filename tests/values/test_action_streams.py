"""Values of actions from chunks: those of `fit`, for a policy that is given."""

import pickle

import numpy as np
import pytest
from helpers import few_of
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from sk_stormc import ActionValueEstimator

STATES = 6


def transitions(n=400, seed=0):
    rng = np.random.default_rng(seed)
    s, action = rng.integers(STATES, size=n), rng.integers(3, size=n)
    to = np.clip(s + action - 1, 0, STATES - 1)
    names = np.array(["left", "stay", "right"])
    return {
        "X": s[:, None].astype(float), "y": rng.normal(size=n) + to, "action": names[action],
        "next_X": to[:, None].astype(float), "terminal": rng.random(n) < 0.1,
    }  # fmt: skip


def right(X):
    return np.full(len(X), "right")


CHANCES = np.random.default_rng(1).dirichlet(np.ones(3), size=STATES)
SPLINES = FrozenEstimator(SplineTransformer(3, degree=2).fit(np.arange(STATES)[:, None]))
LABELS = np.array(["left", "right", "stay"])[np.arange(STATES) % 3]


def fed(estimator, parts, cuts, **extra):
    for rows in np.split(np.arange(len(parts["y"])), cuts):
        estimator = estimator.partial_fit(**{name: part[rows] for name, part in parts.items()}, **extra)
    return estimator


@pytest.mark.parametrize("policy", [right, CHANCES, LABELS], ids=["function", "probabilities", "actions"])
@pytest.mark.parametrize("features", [OneHotEncoder(categories=[np.arange(STATES)]), SPLINES, None])
@pytest.mark.parametrize("fit_intercept", few_of([True, False], 0))
def test_chunks_are_as_all_at_once(policy, features, fit_intercept):
    parts = transitions()
    q = ActionValueEstimator(policy, 0.9, features=features, alpha=1e-3, fit_intercept=fit_intercept)
    whole = clone(q).fit(**parts)
    q = fed(q, parts, [1, 90, 91, 300], actions=["stay", "right", "left"])
    states = np.arange(STATES)[:, None].astype(float)
    np.testing.assert_allclose(q.predict(states), whole.predict(states), rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(q.policy(states), whole.policy(states))
    assert q.score(**parts) == pytest.approx(-np.mean(q.td_error(**parts) ** 2))
    assert q.ifo_[-1] == 2 * 400 + 1 and not hasattr(q, "policy_changes_")


def test_weights_and_a_fit_before():
    parts, weights = transitions(), np.random.default_rng(2).integers(3, size=400).astype(float)
    whole = ActionValueEstimator(CHANCES, 0.9).fit(**parts, sample_weight=weights)
    q = ActionValueEstimator(CHANCES, 0.9).fit(**transitions(seed=9))
    q = fed(q, parts | {"sample_weight": weights}, [120])
    np.testing.assert_allclose(q.coef_, whole.coef_, rtol=1e-7)
    expected = pickle.loads(pickle.dumps(q)).partial_fit(**transitions(seed=5)).coef_
    np.testing.assert_array_equal(q.partial_fit(**transitions(seed=5)).coef_, expected)
    np.testing.assert_allclose(q.fit(**parts).partial_fit(**parts).coef_, q.fit(**parts).coef_, rtol=1e-7)


def test_a_stream_has_no_greedy_policy_and_no_other_solver():
    greedy, other = ActionValueEstimator(), ActionValueEstimator(right, solver="storm-c")
    assert not hasattr(greedy, "partial_fit") and not hasattr(other, "partial_fit")
    with pytest.raises(AttributeError, match="policy='greedy' evaluates several policies on all transitions"):
        greedy.partial_fit(**transitions())
    with pytest.raises(AttributeError, match="for partial_fit set solver='auto'"):
        other.partial_fit(**transitions())


def test_what_stays_and_what_is_refused():
    parts, states = transitions(), np.arange(STATES)[:, None].astype(float)
    q = ActionValueEstimator(CHANCES, 0.9).partial_fit(**parts)
    before = q.predict(states)
    np.testing.assert_array_equal(q.set_params(policy=CHANCES.copy()).predict(states), before)
    odd = parts | {"action": np.where(np.arange(400) == 8, "jump", parts["action"])}
    with pytest.raises(ValueError, match="action must be among the actions of this stream, .* got 'jump' in row 8"):
        q.partial_fit(**odd)
    with pytest.raises(ValueError, match="actions must stay .* while the stream goes on, got .*'up'"):
        q.partial_fit(**parts, actions=["left", "up"])
    for name, value in (("gamma", 0.5), ("policy", right), ("fit_intercept", False)):
        with pytest.raises(ValueError, match=f"{name} must stay .* while its stream goes on"):
            clone_of(q).set_params(**{name: value}).partial_fit(**parts)
    np.testing.assert_array_equal(q.predict(states), before)
    wide = {"X": np.ones((2, 1400)), "y": [0.0, 1.0], "terminal": [True, True], "action": [0, 1], "actions": [0, 1, 2]}
    with pytest.raises(ValueError, match="at most 4000 features for partial_fit .* for all actions together"):
        ActionValueEstimator(lambda X: np.zeros(len(X), int)).partial_fit(**wide)


def clone_of(q):
    return pickle.loads(pickle.dumps(q))


def test_without_a_discount():
    parts = transitions()
    whole = ActionValueEstimator(LABELS, 1.0, features=OneHotEncoder(sparse_output=False), fit_intercept=False)
    whole.fit(**parts)
    q = fed(clone(whole), parts, [200])
    np.testing.assert_allclose(q.coef_, whole.coef_, rtol=1e-6)
    with pytest.raises(ValueError, match="gamma must be a number < 1, got 1"):
        fed(clone(whole), parts | {"terminal": np.zeros(400, bool)}, [200])
