"""Transitions of vector environments, whichever way they begin a new episode, and actions that are none."""

import numpy as np
import pytest

from sk_stormc.datasets import MarkovRewardProcess, collect_transitions

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

MODES = list(AutoresetMode)


class Counter(gymnasium.Env):
    """Counts from 100 * its own number; an episode ends after ``length`` steps, or is cut off after ``limit``."""

    observation_space = spaces.Box(0, 1e6, (1,))
    action_space = spaces.Discrete(3, start=5)

    def __init__(self, number, length=3, limit=10**9):
        self.number, self.length, self.limit, self.episodes = number, length, limit, -1

    def observe(self):
        return np.array([1000 * self.number + 100 * self.episodes + self.steps], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.episodes = 0, self.episodes + 1
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        return self.observe(), float(action), self.steps == self.length, self.steps == self.limit, {}


def vector(mode, *kinds, **more):
    return SyncVectorEnv(
        [lambda number=number, kind=kind: Counter(number, *kind) for number, kind in enumerate(kinds)],
        autoreset_mode=mode, **more,
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("copy", [True, False])
def test_no_row_is_an_autoreset(mode, copy):
    env = vector(mode, (2,), (4,), copy=copy)
    log = collect_transitions(env, lambda seen: np.full(2, 6), 12, seed=0)
    left, came = log.X.ravel(), log.next_X.ravel()
    np.testing.assert_array_equal(came, left + 1)
    assert set(log.y) == {6.0} and set(log.action) == {6} and log.action.shape == (12,)
    np.testing.assert_array_equal(log.terminal, (came % 100) == np.where(left < 1000, 2, 4))
    assert (np.diff(left // 1000) >= 0).all()  # one environment behind the other
    np.testing.assert_array_equal(np.diff(log.episode), np.diff(left // 100) != 0)
    np.testing.assert_array_equal(np.diff(log.time), np.where(np.diff(left // 100) != 0, 2, 1))
    assert log.X.dtype == np.float32 and (left[:2] == [0, 1]).all()


@pytest.mark.parametrize("mode", MODES)
def test_an_episode_that_is_cut_off_keeps_its_last_state(mode):
    log = collect_transitions(vector(mode, (10**9, 3)), lambda seen: [5], 7)
    assert not log.terminal.any()
    assert list(log.next_X.ravel()) == [1, 2, 3, 101, 102, 103, 201]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 7])
def test_as_many_rows_as_asked_for(mode, n):
    log = collect_transitions(vector(mode, (2,), (3,), (1,)), n_transitions=n, seed=1)
    assert {len(column) for column in log.values()} == {n}


@pytest.mark.parametrize("mode", MODES)
def test_observations_of_several_parts(mode):
    class Parts(Counter):
        observation_space = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 9, (2,))})

        def observe(self):
            return {"a": self.steps, "b": np.full(2, self.steps, np.float32)}

    env = SyncVectorEnv([lambda: Parts(0, 2)] * 2, autoreset_mode=mode)
    log = collect_transitions(env, n_transitions=8, seed=0)
    np.testing.assert_array_equal(log.X[:2], [[1, 0, 0, 0, 0], [0, 1, 0, 1, 1]])
    np.testing.assert_array_equal(log.next_X[:2], [[0, 1, 0, 1, 1], [0, 0, 1, 2, 2]])


def test_the_values_of_a_lake_of_several_copies():
    """An array as policy acts in all of them, and the same seed has the same bits."""
    env = gymnasium.make_vec("FrozenLake-v1", num_envs=7)
    policy = np.random.default_rng(0).dirichlet(np.ones(4), 16)
    log, again = (collect_transitions(env, policy, 7000, seed=3) for _ in range(2))
    for name in log:
        np.testing.assert_array_equal(log[name], again[name])
    state, P = log.X.argmax(axis=1), np.zeros((16, 16))
    np.add.at(P, (state, log.next_X.argmax(axis=1)), 1)
    often = P.sum(axis=1) > 300
    model = MarkovRewardProcess.from_gymnasium("FrozenLake-v1", policy).transition_matrix.toarray()
    assert often.sum() >= 4
    np.testing.assert_allclose(P[often] / P[often].sum(axis=1, keepdims=True), model[often], atol=0.1)
    share = np.array([np.mean(log.action[state == s] == 2) for s in np.flatnonzero(often)])
    np.testing.assert_allclose(share, policy[often, 2], atol=0.08)


def test_a_vector_that_gymnasium_makes_itself():
    env = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="vector_entry_point")
    log = collect_transitions(env, n_transitions=1000, seed=0)
    going = np.flatnonzero(np.diff(log.time) == 1)
    np.testing.assert_array_equal(log.X[going + 1], log.next_X[going])
    starts = np.append(0, going[np.append(False, np.diff(going) > 1)] + 0)
    assert abs(log.X[starts]).max() < 0.5 and log.terminal.sum() > 20
    assert abs(log.next_X[~log.terminal, 2]).max() < 0.21  # of a row within an episode, the pole is up


@pytest.mark.parametrize(
    "act, message",
    [
        (lambda seen: 5, "policy must give 2 actions, one for each environment.*got 5"),
        (lambda seen: [5], "policy must give 2 actions"),
        (lambda seen: [5, 0], "policy must give actions of Discrete.*got.*0"),
        (lambda seen: [5, np.nan], "policy must give actions of Discrete.*got.*5.0"),
    ],
)
def test_actions_of_a_vector(act, message):
    with pytest.raises(ValueError, match=message):
        collect_transitions(vector(MODES[0], (2,), (2,)), act, 4)


def test_a_vector_must_say_when_it_begins_again():
    env = vector(MODES[0], (2,))
    env.metadata = {}
    with pytest.raises(ValueError, match="env must have the mode of automatic resets in metadata"):
        collect_transitions(env, n_transitions=4)
    with pytest.raises(ValueError, match="env must have Discrete observations for an array as policy"):
        collect_transitions(vector(MODES[0], (2,)), [0, 1], 4)


# actions and rewards that are none


@pytest.mark.parametrize(
    "action, message",
    [
        (0.5, r"policy must give actions of Box.*arrays of shape \(1,\), got 0.5 of shape \(\)"),
        ([0.5, 0.5], r"got \[0.5, 0.5\] of shape \(2,\)"),
        ([np.nan], "policy must give actions of Box.*nan"),
        (["left"], "actions of policy must be numbers"),
    ],
)
def test_pendulum_says_what_an_action_is(action, message):
    with pytest.raises(ValueError, match=message):
        collect_transitions("Pendulum-v1", lambda seen: action, 5, seed=0)
    assert collect_transitions("Pendulum-v1", lambda seen: [0.5], 5, seed=0).action.shape == (5, 1)


def test_rewards_are_finite():
    class Broken(Counter):
        def step(self, action):
            return self.observe(), np.nan, False, False, {}

    with pytest.raises(ValueError, match="env must give finite rewards, got nan in row 0"):
        collect_transitions(Broken(0), n_transitions=3)
