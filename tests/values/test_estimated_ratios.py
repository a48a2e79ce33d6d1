"""Ratios of a target policy where it is not known who acted: probabilities of actions from a classifier."""

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from sk_stormc import estimated_ratios, off_policy_value

WEIGHTS = np.array([[0.0, 0.0], [1.0, -0.5], [-0.5, 1.0]])  # of three actions, behind a softmax on two features
STEPS = 3


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def log(n_episodes=1500, seed=0, chances=lambda X: softmax(X @ WEIGHTS.T)):
    """Episodes of three steps, in which action 1 has a reward where it is probable, and moves the state a little."""
    rng = np.random.default_rng(seed)
    state, rows = rng.normal(size=(n_episodes, 2)), []
    for _ in range(STEPS):
        p = chances(state)
        action = (rng.random(n_episodes)[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
        reward = (action == 1) * (1 + state[:, 0]) + 0.3 * rng.normal(size=n_episodes)
        rows.append((state, action, reward))
        state = 0.8 * state + 0.3 * (action == 1)[:, None] + 0.5 * rng.normal(size=(n_episodes, 2))
    X, action, y = (np.stack(part, axis=1) for part in zip(*rows, strict=True))  # episode by episode
    episode = np.repeat(np.arange(n_episodes), STEPS)
    return X.reshape(-1, 2), action.ravel(), y.ravel(), episode


def target(X):
    """A policy that mixes all actions with the opposite of who acted."""
    return 0.5 * softmax(-0.5 * X @ WEIGHTS.T) + 0.5 / 3


X, ACTION, Y, EPISODE = log()
BEHAVIOUR = softmax(X @ WEIGHTS.T)
TRUE = (target(X) / BEHAVIOUR)[np.arange(len(ACTION)), ACTION]


@pytest.mark.parametrize("episode", [None, EPISODE])
def test_ratios_are_near_the_true_ones(episode):
    found = estimated_ratios(X, ACTION, target(X), LogisticRegression(), episode=episode)
    assert np.abs(np.log(found / TRUE)).mean() < 0.05 and abs(found.mean() - 1) < 0.05
    own = target(X)[np.arange(len(X)), ACTION]
    np.testing.assert_allclose(estimated_ratios(X, ACTION, own, LogisticRegression(), episode=episode), found)


def test_the_value_is_nearer_than_without_a_correction():
    value = log(100_000, seed=1, chances=target)[2].reshape(-1, STEPS) @ 0.9 ** np.arange(STEPS)
    ratios = estimated_ratios(X, ACTION, target(X), LogisticRegression(), episode=EPISODE)
    plain, estimated, true = (
        off_policy_value(Y, ratio, EPISODE, gamma=0.9).value - value.mean() for ratio in (np.ones(len(Y)), ratios, TRUE)
    )
    assert abs(plain) > 0.5 and abs(estimated) < 0.2 * abs(plain) and abs(estimated) < 2 * abs(true) + 0.1


def test_no_row_is_predicted_by_a_classifier_that_knows_it():
    """A tree that learns its rows by heart would give all taken actions the probability 1."""
    rng = np.random.default_rng(0)
    states, action = rng.normal(size=(400, 2)), rng.integers(2, size=400)  # the action does not depend on the state
    tree = DecisionTreeClassifier(min_samples_leaf=2, random_state=0)
    assert tree.fit(states, action).predict_proba(states).max(axis=1).mean() > 0.8
    with pytest.raises(ValueError, match="classifier must give .* a positive probability, got 0 for . in row"):
        estimated_ratios(states, action, np.full(400, 0.5), tree)
    twice, both, labels = np.vstack([states, states]), np.tile(action, 2), np.tile(np.arange(400), 2)
    smooth = DecisionTreeClassifier(min_samples_leaf=40, random_state=0)
    found = estimated_ratios(twice, both, np.full(800, 0.5), smooth, episode=labels)
    assert 0.8 < np.median(found) < 1.25  # copies of a row are in the same fold, by their labels


def test_rows_of_other_kinds():
    found = estimated_ratios(X, ACTION, target(X), LogisticRegression(), episode=EPISODE)
    named = np.array(["a", "b", "c"])[ACTION]
    labels = np.array([f"e{k:05d}" for k in EPISODE])
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    for classifier in (LogisticRegression(), pipeline):
        again = estimated_ratios(X, named, target(X), classifier, episode=labels)
        np.testing.assert_allclose(again, found, rtol=0.02)
    assert not hasattr(pipeline[-1], "coef_")  # a clone was fitted
    order = np.random.default_rng(0).permutation(len(X))
    again = estimated_ratios(X[order], ACTION[order], target(X)[order], LogisticRegression(), episode=EPISODE[order])
    np.testing.assert_allclose(again, found[order], rtol=1e-3)
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    for table, column in ((polars.DataFrame, polars.Series), (pandas.DataFrame, pandas.Series)):
        given = table({"one": X[:, 0], "two": X[:, 1]}), column(ACTION), table(target(X))
        again = estimated_ratios(*given, LogisticRegression(), episode=column(EPISODE))
        np.testing.assert_allclose(again, found)


def test_a_classifier_of_the_shares_gives_the_shares():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = estimated_ratios(X, ACTION, np.full((len(X), 3), 1 / 3), DummyClassifier(), cv=2)
    np.testing.assert_allclose(found, 1 / 3 / np.bincount(ACTION)[ACTION] * len(X), rtol=0.01)


ROWS = np.arange(len(X))
GIVEN = {"X": X, "action": ACTION, "target": target(X), "classifier": LogisticRegression()}


@pytest.mark.parametrize(
    "given, message",
    [
        ({"classifier": RidgeClassifier()}, "classifier must be a classifier with predict_proba, got RidgeClassifier"),
        ({"classifier": SVC()}, "classifier must be a classifier with predict_proba, got SVC"),
        ({"classifier": LogisticRegression}, "classifier must be a classifier with predict_proba, got <class"),
        ({"classifier": None}, "classifier must be a classifier with predict_proba, got None"),
        ({"action": ACTION[:-1]}, "X and action must have as many rows, got 4500 and 4499"),
        ({"action": None}, "action: Expected sequence or array-like, got .*None"),
        ({"action": 0 * ACTION}, "action must have at least two actions, .*got 4500 of 0 and 1 in all"),
        ({"action": np.where(ROWS == 7, 9, ACTION)}, "action must have .* two rows of each, got 1 of 9 and 4 in all"),
        ({"action": X[:, 0]}, "action must be labels of a finite choice"),
        ({"target": target(X)[:, :2]}, r"target must be probabilities of shape \(4500, 3\), of the actions \[0, 1"),
        ({"target": 2 * target(X)}, r"target must (have|be) probabilities"),
        ({"target": np.full((len(X), 3), 0.3)}, "target must have probabilities >= 0 that sum .*0.9 in row 0"),
        ({"target": np.where(ROWS == 5, -0.1, 0.5)}, "target must be probabilities from 0 to 1, got .*-0.1.* in row 5"),
        ({"target": np.where(ROWS == 5, np.nan, 0.5)}, "target must be probabilities from 0 .*nan.* in row 5"),
        ({"target": "greedy"}, "target must be numbers, got 'greedy'"),
        ({"episode": 0 * EPISODE}, "episode must have at least 2 different labels, got 1"),
        ({"episode": EPISODE[:5]}, "episode must be one label for each of the 4500 rows"),
        ({"episode": ACTION}, "action must have actions in episodes of several folds, got . in those of one fold only"),
        ({"cv": 1}, "cv must be an integer >= 2, got 1"),
    ],
)
def test_what_does_not_fit(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        estimated_ratios(**GIVEN | given)
