"""Standard errors and intervals of action values: against episodes drawn anew, and
against values of states."""

import warnings

import numpy as np
import pytest
from value_logs import draw as draw_from
from value_logs import some

from sk_stormc import ActionValueEstimator

GAMMA, N = 0.9, 6
# the rest ends the episode
CHANCES = np.random.default_rng(7).dirichlet(np.full(N, 0.5), size=(N, 2)) * 0.85
REWARDS = np.random.default_rng(8).normal(size=(N, 2))
FEATURES = np.column_stack([np.ones(N), np.arange(N), np.arange(N) % 2])


def draw(m, seed):
    """m episodes whose policy takes both actions alike."""
    parts = draw_from(m, seed, CHANCES, REWARDS, np.array([0.5, 0.5]), 0.3)
    parts = some(parts, slice(None), "importance_ratio", "time")
    return parts | {"X": parts["X"] @ FEATURES, "next_X": parts["next_X"] @ FEATURES}


def target(X):
    return np.tile([0.2, 0.8], (len(X), 1))


def test_deviations_are_those_of_values_from_other_episodes():
    estimates, deviations = [], []
    for seed in range(40):
        q = ActionValueEstimator("greedy", GAMMA, fit_intercept=False).fit(
            **draw(100, seed)
        )
        values, std = q.predict(FEATURES, return_std=True)
        assert values.shape == std.shape == (N, 2)
        estimates.append(values)
        deviations.append(std)
    spread = np.std(estimates, axis=0, ddof=1)
    np.testing.assert_allclose(
        np.sqrt(np.mean(np.square(deviations), axis=0)), spread, rtol=0.4
    )


def test_iterative_solvers_have_the_same():
    log = draw(100, 1)
    exact, iterative = (
        ActionValueEstimator(target, GAMMA, solver).fit(**log)
        for solver in ("lstd", "lbfgs")
    )
    np.testing.assert_allclose(
        iterative.value_interval(FEATURES),
        exact.value_interval(FEATURES),
        rtol=1e-3,
        atol=1e-3,
    )


def test_the_mean_over_states():
    q = ActionValueEstimator(gamma=GAMMA).fit(**draw(100, 1))
    low, high = q.value_interval(FEATURES, mean=True).T
    np.testing.assert_allclose((low + high) / 2, q.predict(FEATURES).mean(axis=0))
    assert (high - low <= np.ptp(q.value_interval(FEATURES), axis=2).mean(axis=0)).all()


def test_a_state_in_which_an_action_was_never_taken():
    """Its value has no standard error, while those of the others stay finite."""
    X = np.eye(2)[np.arange(120) % 2]
    log = {
        "action": np.arange(120) % 4 == 1,
        "terminal": np.ones(120, dtype=bool),
        "episode": np.arange(120),
    }
    q = ActionValueEstimator(fit_intercept=False).fit(
        X, np.random.default_rng(0).normal(size=120), **log
    )
    assert np.isinf(q.predict(np.eye(2), return_std=True)[1]).tolist() == [
        [False, True],
        [False, False],
    ]


def test_what_they_need():
    log = draw(30, 0)
    q = ActionValueEstimator(gamma=GAMMA).fit(**log)
    q.fit(**{name: part for name, part in log.items() if name != "episode"})
    with pytest.raises(ValueError, match="episode must be given to fit"):
        q.predict(FEATURES, return_std=True)
    with pytest.raises(ValueError, match="return_std must be True or False, got 1"):
        q.predict(FEATURES, return_std=1)
    q.fit(
        **log
        | {
            "episode": np.zeros(len(log["y"])),
            "terminal": np.zeros(len(log["y"]), dtype=bool),
        }
    )
    with pytest.raises(
        ValueError, match="episode must have at least 2 different labels"
    ):
        q.value_interval(FEATURES)
    q.fit(**draw(10, 0))
    with pytest.warns(UserWarning, match="estimated from 10 episodes"):
        q.value_interval(FEATURES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q.predict(FEATURES)


def test_partial_fit_forgets_them():
    log = draw(40, 0)
    q = ActionValueEstimator(target, GAMMA).fit(**log)
    q.partial_fit(**{name: part for name, part in log.items() if name != "episode"})
    with pytest.raises(ValueError, match="episode must be given to fit"):
        q.predict(FEATURES, return_std=True)


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_a_feature_that_no_row_has_changes_nothing_but_its_own_states(solver):
    log, extra = draw(60, 2), [[0.0, 1.0, 0.0, 2.0]]
    wide = {name: np.insert(log[name], 1, 0.0, axis=1) for name in ("X", "next_X")}
    q = ActionValueEstimator(target, GAMMA, solver, random_state=0)
    narrow = q.fit(**log).predict(FEATURES, return_std=True)
    q.fit(**log | wide)
    for part, expected in zip(
        q.predict(np.insert(FEATURES, 1, 0.0, axis=1), return_std=True),
        narrow,
        strict=True,
    ):
        np.testing.assert_allclose(part, expected, rtol=1e-6)
    assert np.isinf(q.predict(extra, return_std=True)[1]).all()
