"""How far values may be off: against episodes drawn anew, and against the bootstrap."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.preprocessing import OneHotEncoder
from value_logs import draw as draw_from
from value_logs import fed, some

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
    return some(parts, slice(None), "importance_ratio", "time", "action"), parts[
        "importance_ratio"
    ]


def lstd(**params):
    params = {
        "solver": "lstd",
        "fit_intercept": False,
        "objective": "projected",
    } | params
    return BellmanValueEstimator(GAMMA, **params)


def featured(parts):
    return parts | {"X": parts["X"] @ FEATURES, "next_X": parts["next_X"] @ FEATURES}


def test_deviations_are_those_of_values_from_other_episodes():
    estimates, deviations = [], []
    for seed in range(50):
        parts, ratio = draw(60, seed)
        value = lstd(trace_decay=0.8).fit(**featured(parts), importance_ratio=ratio)
        values, std = value.predict(FEATURES, return_std=True)
        estimates.append(values)
        deviations.append(std)
    spread = np.std(estimates, axis=0, ddof=1)
    np.testing.assert_allclose(
        np.sqrt(np.mean(np.square(deviations), axis=0)), spread, rtol=0.3
    )


def test_deviations_of_bellman_residuals_are_those_of_a_bootstrap():
    params = {"objective": "bellman"}
    parts, ratio = draw(80, 3)
    value = lstd(**params).fit(**featured(parts), importance_ratio=ratio)
    std = value.predict(FEATURES, return_std=True)[1]
    rng, estimates = np.random.default_rng(0), []
    for _ in range(100):
        counts = np.bincount(rng.integers(80, size=80), minlength=80)[
            parts["episode"]
        ].astype(float)
        again = lstd(**params).fit(
            **featured(parts), importance_ratio=ratio, sample_weight=counts
        )
        estimates.append(again.predict(FEATURES))
    np.testing.assert_allclose(std, np.std(estimates, axis=0, ddof=1), rtol=0.3)


def test_the_deviation_of_a_mean_is_its_standard_error():
    y = np.random.default_rng(0).normal(size=8)
    episodes = {"terminal": np.ones(8, dtype=bool), "episode": np.arange(8)}
    value = lstd().fit(np.ones((8, 1)), y, **episodes)
    with pytest.warns(UserWarning, match="estimated from 8 episodes"):
        assert value.predict([[1.0]], return_std=True)[1] == pytest.approx(stats.sem(y))


def test_deviations_of_residuals_that_do_not_vanish():
    """Two states with one feature: the successors decide what the mean error of a state
    is multiplied with."""
    estimates, deviations = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = np.where(rng.random(200) < 0.5, 0.5, -0.5)[:, None]
        ends = (X[:, 0] < 0) | (rng.random(200) < 0.5)
        value = lstd(objective="bellman")
        value.fit(
            X,
            np.ones(200),
            next_X=np.ones((200, 1)),
            terminal=ends,
            episode=np.arange(200),
        )
        values, std = value.predict([[1.0]], return_std=True)
        estimates.append(values[0])
        deviations.append(std[0])
    assert np.sqrt(np.mean(np.square(deviations))) == pytest.approx(
        np.std(estimates, ddof=1), rel=0.3
    )


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_a_stream_says_about_the_same_as_fit(solver):
    parts, ratio = draw(600, 5)
    parts = featured(parts) | {"importance_ratio": ratio}
    expected = lstd().fit(**parts).predict(FEATURES, return_std=True)[1]
    stream = fed(lstd(solver=solver, random_state=0), 700, **parts)
    values, std = stream.predict(FEATURES, return_std=True)
    np.testing.assert_allclose(std, expected, rtol=0.35)  # of 64 groups
    again = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(again.predict(FEATURES, return_std=True)[1], std)


def test_deviations_of_values_that_forget_are_those_of_values_from_other_episodes():
    estimates, deviations = [], []
    for seed in range(25):
        parts = featured(draw(100, seed)[0])
        value = lstd(half_life=150.0).fit(**parts)  # rows: an episode has about 5
        stream = fed(lstd(half_life=150.0), len(parts["y"]) // 4, **parts)
        estimates.append(value.predict(FEATURES))
        deviations.append(
            [each.predict(FEATURES, return_std=True)[1] for each in (value, stream)]
        )
    for std in np.sqrt(np.mean(np.square(deviations), axis=0)):
        np.testing.assert_allclose(std, np.std(estimates, axis=0, ddof=1), rtol=0.35)


def test_groups_of_a_stream_are_sums_over_its_episodes():
    """With traces too, whatever the chunks."""
    parts, ratio = draw(25, 6)
    parts = featured(parts) | {"importance_ratio": ratio}
    deviations = [
        fed(lstd(trace_decay=0.7), size, **parts).predict(FEATURES, True)[1]
        for size in (1000, 7)
    ]
    np.testing.assert_allclose(deviations[1], deviations[0], rtol=1e-8)


def test_intervals_are_values_and_deviations():
    parts, _ = draw(60, 9)
    value = lstd(fit_intercept=True).fit(**featured(parts))
    values, std = value.predict(FEATURES, return_std=True)
    np.testing.assert_array_equal(values, value.predict(FEATURES))
    narrow, wide = (
        value.value_interval(FEATURES, confidence) for confidence in (0.5, 0.99)
    )
    np.testing.assert_allclose(narrow.mean(axis=1), values)
    assert (wide[:, 0] < narrow[:, 0]).all() and (wide[:, 1] > narrow[:, 1]).all()
    reach = stats.t.ppf(0.95, 59) * std
    np.testing.assert_allclose(
        value.value_interval(FEATURES), np.c_[values - reach, values + reach]
    )
    width = np.diff(value.value_interval(FEATURES[[2]])[0])
    np.testing.assert_allclose(
        width, np.diff(value.value_interval(FEATURES[[2, 2]], mean=True))
    )


def test_of_a_feature_that_no_state_has_nothing_is_known():
    parts, _ = draw(40, 10)
    for name in ("X", "next_X"):
        parts[name] = np.column_stack([parts[name], np.zeros(len(parts["y"]))])
    encoder = OneHotEncoder(categories=[np.arange(N + 1)])
    numbers = {name: parts[name].argmax(axis=1)[:, None] for name in ("X", "next_X")}
    for value in (lstd().fit(**parts), lstd().partial_fit(**parts)):
        std = value.predict(np.eye(N + 1), return_std=True)[1]
        assert np.isinf(std[N]) and np.isfinite(std[:N]).all()
    sparse = (
        lstd(features=encoder)
        .fit(**parts | numbers)
        .predict(np.arange(N + 1)[:, None], return_std=True)[1]
    )
    np.testing.assert_allclose(
        sparse, lstd().fit(**parts).predict(np.eye(N + 1), return_std=True)[1]
    )


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


def test_episodes_that_are_not_known_or_too_few():
    parts, _ = draw(30, 12)
    without = some(parts, slice(None), "episode")
    for value in (
        lstd().fit(**without),
        lstd().partial_fit(**without),
        lstd().fit(**parts).fit(**without),
    ):
        with pytest.raises(
            ValueError, match="episode must be given to fit, or to partial_fit"
        ):
            value.predict(parts["X"], return_std=True)
    many = {name: np.pad(parts[name], ((0, 0), (0, 510))) for name in ("X", "next_X")}
    value = lstd().partial_fit(**parts | many)
    with pytest.raises(ValueError, match="X must have at most 512 features .* got 51"):
        value.value_interval(many["X"])
    one = some(parts, parts["episode"] == 0)
    with pytest.raises(ValueError, match="at least 2 different labels"):
        lstd().fit(**one).value_interval(parts["X"])
    with pytest.raises(
        ValueError, match="half_life must be so long that at least 2 episodes count"
    ):
        lstd(half_life=2.0).fit(**parts).predict(parts["X"], return_std=True)
