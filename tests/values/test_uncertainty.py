"""How far values may be off: against episodes drawn anew, and against the bootstrap."""

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.preprocessing import OneHotEncoder
from value_logs import draw as draw_from
from value_logs import fed, messages, some

from sk_stormc import BellmanValueEstimator

GAMMA, N = 0.9, 6
# the rest ends the episode
CHANCES = np.random.default_rng(7).dirichlet(np.full(N, 0.5), size=(N, 2)) * 0.85
REWARDS = np.random.default_rng(8).normal(size=(N, 2))
TARGET = np.array([0.8, 0.2])  # the policy that acts takes both actions alike
FEATURES = np.column_stack([np.ones(N), np.arange(N), np.arange(N) % 2])


def draw(m, seed):
    """m episodes of a policy with two actions: columns, and the ratios of the
    target."""
    parts = draw_from(m, seed, CHANCES, REWARDS, TARGET, 0.3)
    ratio = parts.pop("importance_ratio")
    return some(parts, slice(None), "time", "action"), ratio


def lstd(**params):
    given = {"solver": "lstd", "fit_intercept": False, "objective": "projected"}
    return BellmanValueEstimator(GAMMA, **given | params)


def featured(parts, **more):
    of_states = {name: parts[name] @ FEATURES for name in ("X", "next_X")}
    return parts | of_states | more


def check_deviations(estimates, deviations, rtol=0.3):
    """Stated deviations are on average those of the estimates from other logs."""
    stated = np.sqrt(np.mean(np.square(deviations), axis=0))
    np.testing.assert_allclose(stated, np.std(estimates, axis=0, ddof=1), rtol=rtol)


def test_deviations_are_those_of_values_from_other_episodes():
    found = []
    for seed in range(40):
        parts, ratio = draw(40, seed)
        value = lstd(trace_decay=0.8).fit(**featured(parts, importance_ratio=ratio))
        found.append(value.predict(FEATURES, return_std=True))
    check_deviations(*zip(*found, strict=True))


def test_deviations_of_bellman_residuals_are_those_of_a_bootstrap():
    parts, ratio = draw(80, 3)
    parts = featured(parts, importance_ratio=ratio)
    value = lstd(objective="bellman").fit(**parts)
    std = value.predict(FEATURES, return_std=True)[1]
    rng, estimates = np.random.default_rng(0), []
    for _ in range(100):
        counts = np.bincount(rng.integers(80, size=80), minlength=80)
        value.fit(**parts, sample_weight=counts[parts["episode"]])
        estimates.append(value.predict(FEATURES))
    check_deviations(estimates, [std])


def test_the_deviation_of_a_mean_is_its_standard_error():
    y = np.random.default_rng(0).normal(size=8)
    episodes = {"terminal": np.ones(8, dtype=bool), "episode": np.arange(8)}
    value = lstd().fit(np.ones((8, 1)), y, **episodes)
    with pytest.warns(UserWarning, match="estimated from 8 episodes"):
        assert value.predict([[1.0]], return_std=True)[1] == pytest.approx(stats.sem(y))


def test_deviations_of_residuals_that_do_not_vanish():
    """Two states with one feature: the successors decide what the mean error of a state
    is multiplied with."""
    found, n = [], 200
    given = {"next_X": np.ones((n, 1)), "episode": np.arange(n)}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = np.where(rng.random(n) < 0.5, 0.5, -0.5)[:, None]
        ends = (X[:, 0] < 0) | (rng.random(n) < 0.5)
        value = lstd(objective="bellman").fit(X, np.ones(n), terminal=ends, **given)
        found.append(value.predict([[1.0]], return_std=True))
    check_deviations(*zip(*found, strict=True))


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_a_stream_says_about_the_same_as_fit(solver):
    parts, ratio = draw(600, 5)
    parts = featured(parts, importance_ratio=ratio)
    expected = lstd().fit(**parts).predict(FEATURES, return_std=True)[1]
    stream = fed(lstd(solver=solver, random_state=0), 700, **parts)
    std = stream.predict(FEATURES, return_std=True)[1]
    np.testing.assert_allclose(std, expected, rtol=0.35)  # of 64 groups
    again = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(again.predict(FEATURES, return_std=True)[1], std)


def test_deviations_of_values_that_forget_are_those_of_values_from_other_episodes():
    of_fits, of_streams = [], []
    for seed in range(25):
        parts = featured(draw(60, seed)[0])
        value = lstd(half_life=100.0).fit(**parts)  # rows: an episode has about 5
        stream = fed(lstd(half_life=100.0), len(parts["y"]) // 3 + 1, **parts)
        of_fits.append(value.predict(FEATURES, return_std=True))
        of_streams.append(stream.predict(FEATURES, return_std=True))
    for found in (of_fits, of_streams):
        check_deviations(*zip(*found, strict=True), rtol=0.4)


def test_groups_of_a_stream_are_sums_over_its_episodes():
    """With traces too, whatever the chunks."""
    parts, ratio = draw(25, 6)
    parts = featured(parts, importance_ratio=ratio)
    deviations = [
        fed(lstd(trace_decay=0.7), size, **parts).predict(FEATURES, True)[1]
        for size in (1000, 7)
    ]
    np.testing.assert_allclose(*deviations, rtol=1e-8)


def test_intervals_are_values_and_deviations():
    value = lstd(fit_intercept=True).fit(**featured(draw(60, 9)[0]))
    values, std = value.predict(FEATURES, return_std=True)
    np.testing.assert_array_equal(values, value.predict(FEATURES))
    for confidence in (0.5, 0.9):
        reach = stats.t.ppf(0.5 + confidence / 2, 59) * std
        found = value.value_interval(FEATURES, confidence)
        np.testing.assert_allclose(found, np.c_[values - reach, values + reach])
    one = value.value_interval(FEATURES[[2]])[0]
    mean = value.value_interval(FEATURES[[2, 2]], mean=True)
    np.testing.assert_allclose(np.diff(one), np.diff(mean))


def test_of_a_feature_that_no_state_has_nothing_is_known():
    parts, _ = draw(40, 10)
    for name in ("X", "next_X"):
        parts[name] = np.pad(parts[name], ((0, 0), (0, 1)))
    for value in (lstd().partial_fit(**parts), lstd().fit(**parts)):
        std = value.predict(np.eye(N + 1), return_std=True)[1]
        assert np.isinf(std[N]) and np.isfinite(std[:N]).all()
    numbers = {name: parts[name].argmax(axis=1)[:, None] for name in ("X", "next_X")}
    states = np.arange(N + 1)[:, None]
    sparse = lstd(features=OneHotEncoder(categories=[states[:, 0]]))
    sparse.fit(**parts | numbers)
    np.testing.assert_allclose(sparse.predict(states, return_std=True)[1], std)


def test_few_episodes_warn():
    value = lstd().fit(**featured(draw(12, 11)[0]))
    with pytest.warns(UserWarning, match="estimated from 12 episodes"):
        value.predict(FEATURES, return_std=True)
    with pytest.warns(UserWarning, match="fewer than 20"):
        value.value_interval(FEATURES)
    assert not messages(value.predict, FEATURES)


def test_episodes_that_are_not_known_or_too_few():
    parts, _ = draw(30, 12)
    without = some(parts, slice(None), "episode")
    many = {name: np.pad(parts[name], ((0, 0), (0, 510))) for name in ("X", "next_X")}
    one, unknown = some(parts, parts["episode"] == 0), "given to fit, or to partial_fit"
    for value, message in (
        (lstd().fit(**without), unknown),
        (lstd().partial_fit(**without), unknown),
        (lstd().fit(**parts).fit(**without), unknown),
        (lstd().fit(**one), "at least 2 different labels"),
        (lstd(half_life=2.0).fit(**parts), "so long that at least 2 episodes count"),
    ):
        with pytest.raises(ValueError, match=message):
            value.predict(parts["X"], return_std=True)
    value = lstd().partial_fit(**parts | many)
    with pytest.raises(ValueError, match="X must have at most 512 features .* got 51"):
        value.value_interval(many["X"])
