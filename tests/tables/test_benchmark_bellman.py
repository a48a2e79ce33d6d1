"""What the benchmark of policy evaluation compares with is right."""

import numpy as np
import pytest

from sk_stormc import BellmanValueEstimator
from sk_stormc.datasets import collect_transitions

gymnasium = pytest.importorskip("gymnasium")
from benchmarks import _bellman_fits, _bellman_logs  # noqa: E402 - they import gymnasium


@pytest.mark.parametrize("name", _bellman_logs.STARTS)
def test_a_rollout_begins_where_it_should(name):
    env = gymnasium.make(name)
    seen = collect_transitions(env, n_transitions=60, seed=2, one_hot=False).X
    bare = env.unwrapped
    for observation in seen:
        bare.reset(seed=0)
        _bellman_logs.STARTS[name](bare, observation)
        if name in ("CartPole-v1", "MountainCar-v0"):
            found = bare.state
        else:
            found = bare._get_obs() if name == "Blackjack-v1" else bare._get_ob()
        np.testing.assert_allclose(found, observation, atol=1e-5)


@pytest.mark.slow
def test_rollouts_are_discounted():
    """The uniform policy's exact value, where MountainCar cannot reach its goal, and a hand that loses or wins."""
    gammas = np.array([0.5, 0.9])
    found = _bellman_logs.rollouts(gymnasium.make("MountainCar-v0"), np.array([[-0.5, 0.0]]), 1, gammas)
    np.testing.assert_allclose(found, [[[-2.0, -10.0]]], rtol=1e-12)
    hand = np.array([[21.0, 10.0, 0.0]])  # a hit goes over 21, a stick wins but for a dealer's 21
    found = _bellman_logs.rollouts(gymnasium.make("Blackjack-v1"), hand, 4000, gammas)
    stick = 1 - 1 / 13 - 0.0385  # a dealer with a ten gets 21 by an ace, or with three cards or more
    assert found[..., 0].mean() == pytest.approx((stick - 1) / 2, abs=0.06)


@pytest.mark.parametrize("part", ["frozen_lake", "cart_pole"])
def test_lstd_in_numpy(part):
    log = _bellman_logs.Log(part, 3000, (0.95,), quick=True)
    states, values, error = log.values(0.95, 3000)
    assert (error > 0) == (part == "cart_pole") and states.shape[0] == len(values)
    rows = log.rows
    model = BellmanValueEstimator(0.95, "lstd", objective="projected", features=log.features, alpha=log.alpha)
    model.fit(rows.X, rows.y, next_X=rows.next_X, terminal=rows.terminal)
    found = _bellman_fits.lstd(log, 3000, 0.95, states)
    np.testing.assert_allclose(found[log.alpha], model.predict(states), atol=1e-4)
    assert set(found) == ({0.0} if part == "frozen_lake" else set(_bellman_fits.RIDGES))


def test_the_verdict_counts_what_was_silent():
    def row(n, **entries):
        every = dict.fromkeys(_bellman_fits.METHODS, {"rmse": 1.0, "warned": []})
        known = {"n": n, "gamma": 0.95, "size": 1.0, "error": 0.0, "numpy": 1.0, "best": 0.5, "best_alpha": 0.1}
        return {**known, **every, '`fit`, "storm-c"': entries}

    rows = [
        row(1000, rmse=2.0, warned=[]),
        row(10_000, rmse=1.3, warned=[]),
        row(10_000, rmse=None, warned=["ConvergenceWarning"]),
        row(10_000, rmse=1.0, warned=["ConvergenceWarning"]),
        row(10_000, error="not finite"),
    ]
    first, second = _bellman_fits.verdict({"taxi": rows}).splitlines()[2:4]
    assert first == '| `fit`, "storm-c" | 1 | 2 | 1 | 2.00 (Taxi, 1,000, 0.95) | 2 | 1 | 3.30, 4 |'
    assert second == '| `fit`, "lstd" | 0 | 0 | 0 | 1.00 (Taxi, 1,000, 0.95) | 0 | 0 | 2.00, 5 |'
    cells = [_bellman_fits.cell(r, '`fit`, "storm-c"') for r in rows]
    assert cells == ["2.00", "1.30", "not finite *", "1.00 *", "error"]
    small = {**row(1000, rmse=5e-4, warned=[]), "numpy": 1e-9}  # both below a thousandth of the values
    assert _bellman_fits.ratio(small, '`fit`, "storm-c"') == 1.0
    assert "| Taxi | 1,000 | 0.95 | 1 | 1 | 0.5 (0.1) | 2.00 |" in _bellman_fits.all_cells({"taxi": rows})
