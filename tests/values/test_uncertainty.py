"""How far values may be off: against episodes drawn anew, and against the bootstrap."""

import pickle
import warnings

import numpy as np
import pytest
from helpers import slow_but
from sklearn.preprocessing import OneHotEncoder

from sk_stormc import BellmanValueEstimator

GAMMA, N = 0.9, 6
CHANCES = np.random.default_rng(7).dirichlet(np.full(N, 0.5), size=(N, 2)) * 0.85  # the rest ends the episode
REWARDS = np.random.default_rng(8).normal(size=(N, 2))
TARGET = np.array([0.8, 0.2])  # the policy that acts takes both actions alike
FEATURES = np.column_stack([np.ones(N), np.arange(N), np.arange(N) % 2])


def draw(m, seed):
    """m episodes of a policy with two actions: (columns, states)."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(m):
        s = rng.integers(N)
        while s is not None:
            a = int(rng.random() < 0.5)
            after = int(np.searchsorted(np.cumsum(CHANCES[s, a]), rng.random()))
            rows.append((s, after % N, after == N, REWARDS[s, a] + 0.3 * rng.normal(), episode, 2 * TARGET[a]))
            s = after if after < N else None
    s, after, ends, y, episode, ratio = (np.array(part) for part in zip(*rows, strict=True))
    return {
        "X": np.eye(N)[s], "y": y, "next_X": np.eye(N)[after], "terminal": ends.astype(bool), "episode": episode
    }, ratio  # fmt: skip


def exact(policy):
    P = np.einsum("a,sat->st", policy, CHANCES)
    return np.linalg.solve(np.eye(N) - GAMMA * P, REWARDS @ policy)


def lstd(**params):
    params = {"solver": "lstd", "fit_intercept": False, "objective": "projected"} | params
    return BellmanValueEstimator(GAMMA, **params)


def featured(parts):
    return parts | {"X": parts["X"] @ FEATURES, "next_X": parts["next_X"] @ FEATURES}


@pytest.mark.parametrize("decay", slow_but([0.0, 0.8], 0.8))
@pytest.mark.parametrize("off_policy", [False, True])
def test_deviations_are_those_of_values_from_other_episodes(off_policy, decay):
    found, said = [], []
    for seed in range(50):
        parts, ratio = draw(60, seed)
        extra = {"importance_ratio": ratio} if off_policy else {}
        value = lstd(trace_decay=decay).fit(**featured(parts), **extra)
        values, std = value.predict(FEATURES, return_std=True)
        found.append(values)
        said.append(std)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(said), axis=0)), np.std(found, axis=0, ddof=1), rtol=0.3)


WAYS = [{}, {"fit_intercept": True}, {"objective": "bellman"}, {"alpha": 1e-3}]


@pytest.mark.parametrize("params", slow_but(WAYS, {}))
def test_deviations_are_those_of_a_bootstrap(params):
    parts, ratio = draw(80, 3)
    value = lstd(**params).fit(**featured(parts), importance_ratio=ratio)
    std = value.predict(FEATURES, return_std=True)[1]
    rng, found = np.random.default_rng(0), []
    for _ in range(100):
        counts = np.bincount(rng.integers(80, size=80), minlength=80)[parts["episode"]].astype(float)
        again = lstd(**params).fit(**featured(parts), importance_ratio=ratio, sample_weight=counts)
        found.append(again.predict(FEATURES))
    np.testing.assert_allclose(std, np.std(found, axis=0, ddof=1), rtol=0.3)


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_a_stream_says_about_the_same_as_fit(solver):
    parts, ratio = draw(1000, 5)
    parts = featured(parts) | {"importance_ratio": ratio}
    whole = lstd().fit(**parts).predict(FEATURES, return_std=True)[1]
    stream = lstd(solver=solver, random_state=0)
    for start in range(0, len(ratio), 700):
        stream.partial_fit(**{name: part[start : start + 700] for name, part in parts.items()})
    values, std = stream.predict(FEATURES, return_std=True)
    np.testing.assert_allclose(std, whole, rtol=0.35)  # of 64 groups
    again = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(again.predict(FEATURES, return_std=True)[1], std)


@pytest.mark.slow
def test_deviations_of_values_that_forget_are_those_of_values_from_other_episodes():
    """In `fit`, and in a stream of four chunks."""
    found, said = [], []
    for seed in range(30):
        parts, _ = draw(100, seed)
        parts = featured(parts)
        value, stream = (lstd(half_life=150.0) for _ in range(2))  # rows: an episode has about 5
        value.fit(**parts)
        for rows in np.array_split(np.arange(len(parts["y"])), 4):
            stream.partial_fit(**{name: part[rows] for name, part in parts.items()})
        values, std = value.predict(FEATURES, return_std=True)
        again, by_groups = stream.predict(FEATURES, return_std=True)
        np.testing.assert_allclose(again, values, rtol=1e-6)
        found.append(values)
        said.append((std, by_groups))
    spread = np.std(found, axis=0, ddof=1)
    for std in np.sqrt(np.mean(np.square(said), axis=0)):
        np.testing.assert_allclose(std, spread, rtol=0.35)


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_a_half_life_longer_than_the_log_changes_little_and_a_short_one_much(solver):
    parts, _ = draw(300, 2)
    parts, deviations = featured(parts), []
    for half_life in (None, 1e9, 400.0):
        value = lstd(solver=solver, half_life=half_life, random_state=0).partial_fit(**parts)
        deviations.append(value.predict(FEATURES, return_std=True)[1])
    np.testing.assert_allclose(deviations[1], deviations[0], rtol=0.05)
    assert (deviations[2] > 1.1 * deviations[0]).all()


def test_groups_of_a_stream_are_sums_over_its_episodes():
    """With traces too, whatever the chunks."""
    parts, ratio = draw(40, 6)
    parts = featured(parts) | {"importance_ratio": ratio}
    deviations = []
    for size in (1000, 7, 1):
        stream = lstd(trace_decay=0.7)
        for start in range(0, len(ratio), size):
            stream.partial_fit(**{name: part[start : start + size] for name, part in parts.items()})
        deviations.append(stream.predict(FEATURES, return_std=True)[1])
    for other in deviations[1:]:
        np.testing.assert_allclose(other, deviations[0], rtol=1e-8)


@pytest.mark.parametrize("off_policy", [False, True])
def test_intervals_contain_the_values_as_often_as_they_say(off_policy):
    """On 60 logs of 40 episodes; the benchmark has 500."""
    truth, inside, means = exact(TARGET if off_policy else np.full(2, 0.5)), [], []
    for seed in range(100, 160):
        parts, ratio = draw(40, seed)
        value = lstd().fit(**parts, importance_ratio=ratio if off_policy else None)
        low, high = value.value_interval(np.eye(N)).T
        inside.append((low < truth) & (truth < high))
        low, high = value.value_interval(np.eye(N), mean=True)
        means.append(low < truth.mean() < high)
    assert 0.82 < np.mean(inside) < 0.97
    assert 0.82 < np.mean(means) < 0.97


def test_intervals_are_values_and_deviations():
    parts, _ = draw(60, 9)
    value = lstd(fit_intercept=True).fit(**featured(parts))
    values, std = value.predict(FEATURES, return_std=True)
    np.testing.assert_array_equal(values, value.predict(FEATURES))
    narrow, wide = (value.value_interval(FEATURES, confidence) for confidence in (0.5, 0.99))
    np.testing.assert_allclose(narrow.mean(axis=1), values)
    assert (wide[:, 0] < narrow[:, 0]).all() and (wide[:, 1] > narrow[:, 1]).all()
    width = np.diff(value.value_interval(FEATURES[[2]])[0])
    np.testing.assert_allclose(width, np.diff(value.value_interval(FEATURES[[2, 2]], mean=True)))


def test_of_a_feature_that_no_state_has_nothing_is_known():
    parts, _ = draw(40, 10)
    for name in ("X", "next_X"):
        parts[name] = np.column_stack([parts[name], np.zeros(len(parts["y"]))])
    encoder = OneHotEncoder(categories=[np.arange(N + 1)])
    numbers = {name: parts[name].argmax(axis=1)[:, None] for name in ("X", "next_X")}
    for value in (lstd().fit(**parts), lstd().partial_fit(**parts)):
        std = value.predict(np.eye(N + 1), return_std=True)[1]
        assert np.isinf(std[N]) and np.isfinite(std[:N]).all()
    sparse = lstd(features=encoder).fit(**parts | numbers).predict(np.arange(N + 1)[:, None], return_std=True)[1]
    np.testing.assert_allclose(sparse, lstd().fit(**parts).predict(np.eye(N + 1), return_std=True)[1])


def test_few_episodes_warn():
    parts, _ = draw(12, 11)
    value = lstd().fit(**featured(parts))
    with pytest.warns(UserWarning, match="estimated from 12 episodes"):
        value.predict(FEATURES, return_std=True)
    with pytest.warns(UserWarning, match="fewer than 20"):
        value.value_interval(FEATURES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value.predict(FEATURES)


def test_errors():
    parts, _ = draw(30, 12)
    without = {name: part for name, part in parts.items() if name != "episode"}
    for value in (lstd().fit(**without), lstd().partial_fit(**without), lstd().fit(**parts).fit(**without)):
        with pytest.raises(ValueError, match="episode must be given to fit, or to partial_fit"):
            value.predict(parts["X"], return_std=True)
    one = {name: part[parts["episode"] == 0] for name, part in parts.items()}
    with pytest.raises(ValueError, match="at least 2 different labels"):
        lstd().fit(**one).value_interval(parts["X"])
    value = lstd().fit(**parts)
    for wrong in (0, 1.5, np.nan, "0.9"):
        with pytest.raises(ValueError, match="confidence must be"):
            value.value_interval(parts["X"], wrong)
    with pytest.raises(ValueError, match="return_std must be"):
        value.predict(parts["X"], return_std=1)
