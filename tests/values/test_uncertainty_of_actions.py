"""Standard errors and intervals of action values: against episodes drawn anew, and
against values of states."""

import numpy as np
import pytest
from value_logs import draw as draw_from
from value_logs import messages, some

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
    found = []
    for seed in range(40):
        q = ActionValueEstimator("greedy", GAMMA, fit_intercept=False)
        found.append(q.fit(**draw(100, seed)).predict(FEATURES, return_std=True))
    estimates, deviations = zip(*found, strict=True)
    stated = np.sqrt(np.mean(np.square(deviations), axis=0))
    np.testing.assert_allclose(stated, np.std(estimates, axis=0, ddof=1), rtol=0.4)


def test_iterative_solvers_have_the_same():
    found = [
        ActionValueEstimator(target, GAMMA, solver)
        .fit(**draw(100, 1))
        .value_interval(FEATURES)
        for solver in ("lstd", "lbfgs")
    ]
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-3)


def test_the_mean_over_states():
    q = ActionValueEstimator(gamma=GAMMA).fit(**draw(100, 1))
    low, high = q.value_interval(FEATURES, mean=True).T
    np.testing.assert_allclose((low + high) / 2, q.predict(FEATURES).mean(axis=0))
    assert (high - low <= np.ptp(q.value_interval(FEATURES), axis=2).mean(axis=0)).all()


def test_a_state_in_which_an_action_was_never_taken():
    """Its value has no standard error, while those of the others stay finite."""
    k, y = np.arange(120), np.random.default_rng(0).normal(size=120)
    log = {"action": k % 4 == 1, "terminal": np.ones(120, dtype=bool), "episode": k}
    q = ActionValueEstimator(fit_intercept=False).fit(np.eye(2)[k % 2], y, **log)
    unknown = np.isinf(q.predict(np.eye(2), return_std=True)[1])
    assert unknown.tolist() == [[False, True], [False, False]]


def test_what_they_need():
    log, q = draw(30, 0), ActionValueEstimator(target, gamma=GAMMA)
    without, n = some(log, slice(None), "episode"), len(log["y"])
    one = {"episode": np.zeros(n), "terminal": np.zeros(n, dtype=bool)}
    q.fit(**log)
    with pytest.raises(ValueError, match="return_std must be True or False, got 1"):
        q.predict(FEATURES, return_std=1)
    for forget in (q.fit, q.partial_fit):
        forget(**without)
        with pytest.raises(ValueError, match="episode must be given to fit"):
            q.predict(FEATURES, return_std=True)
        q.fit(**log)
    q.fit(**log | one)
    with pytest.raises(ValueError, match="have at least 2 different labels"):
        q.value_interval(FEATURES)
    q.fit(**draw(10, 0))
    with pytest.warns(UserWarning, match="estimated from 10 episodes"):
        q.value_interval(FEATURES)
    assert not messages(q.predict, FEATURES)


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_a_feature_that_no_row_has_changes_nothing_but_its_own_states(solver):
    log, states = draw(60, 2), np.insert(FEATURES, 1, 0.0, axis=1)
    wide = {name: np.insert(log[name], 1, 0.0, axis=1) for name in ("X", "next_X")}
    q = ActionValueEstimator(target, GAMMA, solver, random_state=0)
    narrow = q.fit(**log).predict(FEATURES, return_std=True)
    found = q.fit(**log | wide).predict(states, return_std=True)
    np.testing.assert_allclose(found, narrow, rtol=1e-6)
    assert np.isinf(q.predict([[0.0, 1.0, 0.0, 2.0]], return_std=True)[1]).all()
