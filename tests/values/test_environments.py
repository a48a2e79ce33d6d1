"""Transitions logged in Gymnasium's environments, one or a vector of them, and the
models that some publish."""

import sys

import numpy as np
import pytest

from sk_stormc.datasets import MarkovRewardProcess, collect_transitions

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

MODES = list(AutoresetMode)


class Corridor(gymnasium.Env):
    """Cells 0 to 4: action 1 goes right, 0 stays; the last is an end, and an episode is
    cut after ``limit`` steps."""

    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(2)

    def __init__(self, limit=10**9):
        self.limit = limit

    def observe(self):
        return self.cell

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.steps = 0, 0
        return self.observe(), {}

    def step(self, action):
        self.cell += int(action)
        self.steps += 1
        ends, cut = self.cell == 4, self.steps == self.limit
        return self.observe(), float(self.cell), ends, cut, {}


class Seen(Corridor):
    """The corridor, seen through some other space."""

    def __init__(self, space, shown):
        super().__init__()
        self.observation_space, self.observe = space, lambda: shown(self.cell)


def test_an_episode_that_ends():
    log = collect_transitions(Corridor(), lambda cell: 1, 10, seed=0, one_hot=False)
    assert list(log.X.ravel()) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert list(log.next_X.ravel()) == list(log.y) == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert list(np.flatnonzero(log.terminal)) == [3, 7] and log.terminal.dtype == bool
    assert list(log.time) == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11]
    assert list(log.action) == [1] * 10
    names = "X action episode next_X probability terminal time y"
    assert sorted(log) == names.split()


def test_an_episode_that_is_cut_has_a_successor_and_no_end():
    log = collect_transitions(Corridor(limit=3), [1] * 5, 7, seed=0, one_hot=False)
    assert list(log.X.ravel()) == [0, 1, 2, 0, 1, 2, 0]
    assert list(log.next_X.ravel()) == [1, 2, 3, 1, 2, 3, 1]
    assert not log.terminal.any() and list(log.time) == [0, 1, 2, 4, 5, 6, 8]
    # an end at the limit is an end
    log = collect_transitions(Corridor(limit=4), [1] * 5, 5, seed=0)
    assert list(log.terminal) == [False, False, False, True, False]


def test_the_same_seed_gives_the_same_bits():
    before = np.random.get_state()
    given = {"n_transitions": 100, "seed": 5}
    one = collect_transitions("CartPole-v1", **given)
    for env in ("CartPole-v1", gymnasium.make("CartPole-v1")):
        np.testing.assert_equal(dict(collect_transitions(env, **given)), dict(one))
    for seed in (6, None):
        other = collect_transitions("CartPole-v1", **given | {"seed": seed})
        assert not np.array_equal(one.X, other.X)
    np.testing.assert_equal(np.random.get_state(), before)


def test_actions_are_independent_of_what_the_environment_draws():
    """default_rng(seed) is the environment's own generator after reset(seed=seed)."""

    class Coin(Corridor):
        def step(self, action):
            self.draw = int(self.np_random.integers(2))
            return 0, float(action == self.draw), False, False, {}

    for policy in (None, np.full((5, 2), 0.5)):
        agreed = collect_transitions(Coin(), policy, 4000, seed=0).y.mean()
        assert abs(agreed - 0.5) < 0.04


OBSERVATIONS = [  # space, what is seen in cell c, and the columns of cell 1
    (
        spaces.Box(-9, 9, (2, 2), np.float32),
        lambda c: np.full((2, 2), c / 2, np.float32),
        [0.5] * 4, [0.5] * 4,
    ),
    (
        spaces.Box(0, 255, (1, 2), np.uint8), lambda c: np.array([[c, 200]], np.uint8),
        [1, 200], [1, 200],
    ),
    (spaces.Discrete(6, start=-1), np.int64, [1], [0, 0, 1, 0, 0, 0]),
    (
        spaces.MultiDiscrete([5, 2]), lambda c: np.array([c, 1]),
        [1, 1], [0, 1, 0, 0, 0, 0, 1],
    ),
    (
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Dict({"c": spaces.Discrete(5)})}),
        lambda c: {"b": 1, "a": {"c": c}},
        [1, 1], [0, 1, 0, 1, 0, 0, 0],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("space", "shown", "numbers", "columns"), OBSERVATIONS)
def test_observations(space, shown, numbers, columns):
    # keys are in an order of their own
    if isinstance(space, spaces.Dict) and list(space.spaces) != ["b", "a"]:
        columns = columns[2:] + columns[:2]
    for one_hot, expected in ((False, numbers), (True, columns)):
        log = collect_transitions(
            Seen(space, shown), lambda observation: 1, 3, seed=0, one_hot=one_hot
        )
        np.testing.assert_array_equal(log.next_X[0], expected)
        # the same observation, about to be left
        np.testing.assert_array_equal(log.X[1], expected)
        single = space.dtype == np.float32
        assert log.X.dtype == log.next_X.dtype == (np.float32 if single else np.float64)


def test_observations_that_change_in_place():
    state = np.zeros(1)

    def shown(cell):
        state[:] = cell
        return state

    env = Seen(spaces.Box(0, 9, (1,), np.float64), shown)
    log = collect_transitions(env, lambda cell: 1, 4, seed=0)
    assert np.c_[log.X, log.next_X].tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]


def test_policies():
    for policy in ([0, 1, 0, 1, 0], [[0.5, 0.5]] * 5, np.eye(2)[[1] * 5]):
        env = Corridor(limit=50)
        log = collect_transitions(env, policy, 500, seed=1, one_hot=False)
        share = np.mean(log.action[log.X[:, 0] == 0])
        expected = policy[0] if np.ndim(policy) == 1 else policy[0][1]
        assert share == pytest.approx(expected, abs=0.1 * (expected == 0.5))
    given = {"n_transitions": 5, "seed": 0}
    still = collect_transitions("Pendulum-v1", lambda seen: np.zeros(1), **given)
    assert still.action.shape == (5, 1)
    assert collect_transitions("Pendulum-v1", **given).action.std() > 0


def test_a_log_has_the_probabilities_of_what_was_done():
    acted = np.full((16, 4), [0.1, 0.2, 0.3, 0.4])
    target = acted[:, ::-1].copy()
    target[0] = np.eye(4)[2]
    given = {"policy": acted, "target": target, "n_transitions": 300, "seed": 0}
    ratios = []
    for one_hot in (True, False):
        log = collect_transitions("FrozenLake-v1", one_hot=one_hot, **given)
        state = log.X.argmax(axis=1) if one_hot else log.X[:, 0].astype(int)
        np.testing.assert_allclose(log.probability, acted[0, log.action])
        np.testing.assert_allclose(log.target_probability, target[state, log.action])
        expected = log.target_probability / log.probability
        np.testing.assert_array_equal(log.importance_ratio, expected)
        ratios.append(expected.tolist())
    assert ratios[0] == ratios[1]
    for policy, ratio in (
        (lambda X: X[:, 2] > 0, lambda log: 2.0 * (log.action == (log.X[:, 2] > 0))),
        (lambda X: np.tile([0.3, 0.7], (len(X), 1)), lambda log: 0.6 + 0.8 * log.action),
    ):  # fmt: skip
        target = lambda X, policy=policy: 1 * policy(X)  # noqa: E731
        log = collect_transitions("CartPole-v1", None, 100, seed=0, target=target)
        np.testing.assert_allclose(log.importance_ratio, ratio(log))
    log = collect_transitions("CartPole-v1", lambda x: 0, 10, seed=0)
    assert np.isnan(log.probability).all()


def test_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    for work in (collect_transitions, MarkovRewardProcess.from_gymnasium):
        with pytest.raises(ImportError, match="need gymnasium: pip install gymnasium"):
            work("Taxi-v4")


class Counter(gymnasium.Env):
    """Counts from 100 * its own number; an episode ends after ``length`` steps, or is
    cut off after ``limit``."""

    observation_space = spaces.Box(0, 1e6, (1,))
    action_space = spaces.Discrete(3, start=5)

    def __init__(self, number, length=3, limit=10**9):
        self.number, self.length, self.limit, self.episodes = number, length, limit, -1

    def observe(self):
        count = 1000 * self.number + 100 * self.episodes + self.steps
        return np.array([count], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.episodes = 0, self.episodes + 1
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        ends, cut = self.steps == self.length, self.steps == self.limit
        return self.observe(), float(action), ends, cut, {}


def vector(mode, *kinds, **more):
    makers = [lambda k=k, kind=kind: Counter(k, *kind) for k, kind in enumerate(kinds)]
    return SyncVectorEnv(makers, autoreset_mode=mode, **more)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("copy", [True, False])
def test_no_row_is_an_autoreset(mode, copy):
    env = vector(mode, (2,), (4,), copy=copy)
    log = collect_transitions(env, lambda seen: np.full(2, 6), 12, seed=0)
    left, came = log.X.ravel(), log.next_X.ravel()
    begins, equal = np.diff(left // 100) != 0, np.testing.assert_array_equal
    equal(came, left + 1)
    assert set(log.y) == {6.0} and set(log.action) == {6} and log.action.shape == (12,)
    equal(log.terminal, (came % 100) == np.where(left < 1000, 2, 4))
    assert (np.diff(left // 1000) >= 0).all()  # one environment after the other
    equal(np.diff(log.episode), begins)
    equal(np.diff(log.time), np.where(begins, 2, 1))
    assert log.X.dtype == np.float32 and (left[:2] == [0, 1]).all()


@pytest.mark.parametrize("mode", MODES)
def test_an_episode_that_is_cut_off_keeps_its_last_state(mode):
    log = collect_transitions(vector(mode, (10**9, 3)), lambda seen: [5], 7)
    assert not log.terminal.any()
    assert list(log.next_X.ravel()) == [1, 2, 3, 101, 102, 103, 201]


def test_an_array_as_policy_acts_in_all_environments():
    """With the same bits for the same seed."""

    class Numbered(Corridor):
        action_space = spaces.Discrete(2, start=3)

        def step(self, action):
            return super().step(action - 3)

    env, policy = SyncVectorEnv([Numbered] * 3), np.full((5, 2), [0.2, 0.8])
    log, again = (collect_transitions(env, policy, 800, seed=3) for _ in range(2))
    np.testing.assert_equal(dict(log), dict(again))
    assert set(log.action) == {3, 4}
    assert np.mean(log.action == 4) == pytest.approx(0.8, abs=0.05)
    np.testing.assert_array_equal(log.probability, np.where(log.action == 4, 0.8, 0.2))


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1"])
def test_models(name):
    """Values by a system of equations from the published lists, whose episodes end in
    some states."""
    env, rng = gymnasium.make(name), np.random.default_rng(0)
    n, m = env.observation_space.n, env.action_space.n
    actions, chances = rng.integers(m, size=n), rng.dirichlet(np.ones(m), n)
    for policy, acts in (
        (None, np.full((n, m), 1 / m)), (actions, np.eye(m)[actions]), (chances, chances)
    ):  # fmt: skip
        A, b, ends = np.eye(n), np.zeros(n), set()
        for s, published in env.unwrapped.P.items():
            for a, outcomes in published.items():
                for p, after, reward, ended in outcomes:
                    A[s, after] -= 0.9 * acts[s, a] * p * (not ended)
                    b[s] += acts[s, a] * p * reward
                    ends |= {after} if ended else set()
        A[list(ends)], b[list(ends)] = np.eye(n)[list(ends)], 0
        model = MarkovRewardProcess.from_gymnasium(env, policy, 0.9)
        assert model.gamma == 0.9 and model.n_states == n
        expected = np.linalg.solve(A, b)
        np.testing.assert_allclose(model.exact_value(), expected, atol=1e-9)


class Published(Corridor):
    """The corridor's model: action 0 stays at a cost of 1, action 1 goes right."""

    def __init__(self, P, **attributes):
        super().__init__()
        self.P = P
        self.__dict__.update(attributes)


def corridor():
    P = {
        s: {0: [(1.0, s, -1.0, False)], 1: [(1.0, s + 1, 2.0, s == 3)]}
        for s in range(4)
    }
    P[4] = {a: [(1.0, 0, 7.0, False)] for a in range(2)}
    return P


def test_rewards_are_means_over_actions():
    P, policy = corridor(), [[0.75, 0.25]] + [[0.0, 1.0]] * 4
    # the same successor by two actions
    P[0] = {0: [(1.0, 1, -1.0, False)], 1: [(1.0, 1, 2.0, False)]}
    model = MarkovRewardProcess.from_gymnasium(Published(P), policy, 0.5)
    assert model.rewards[0, 1] == -0.25
    expected = [-0.25 + 0.5 * 3.5, 3.5, 3.0, 2.0, 0.0]
    np.testing.assert_allclose(model.exact_value(), expected)


LAKE, POLE = {"env": "FrozenLake-v1"}, {"env": "CartPole-v1"}
PENDULUM, TWO = {"env": "Pendulum-v1"}, {"env": SyncVectorEnv([Corridor] * 2)}
THIRDS = np.full((16, 4), 0.3)
REFUSED = [
    (LAKE | {"policy": [0, 1]}, r"be actions of shape \(16,\) or .*of shape \(16, 4\)"),
    (LAKE | {"policy": [0] * 15 + [4]}, "have actions from 0 to 3, got 4 in state 15"),
    (LAKE | {"policy": THIRDS}, "probabilities >= 0 .*sum 1.2 in state 0"),
    (LAKE | {"policy": lambda s: 4}, r"policy must give actions of Discrete\(4\), got"),
    (POLE | {"policy": [0, 1]}, "env must have Discrete observations for an array as"),
    (PENDULUM | {"policy": lambda s: 0.5}, r"shape \(1,\), got 0.5 of shape \(\)"),
    ({"env": "NoSuchThing-v7"}, "env must be the id of a registered environment, got"),
    (TWO | {"policy": lambda seen: 1}, "2 actions, one for each environment.*got 1"),
    (TWO | {"policy": lambda seen: [0, 2]}, "give actions of Discrete.*got.*2"),
    (POLE | {"policy": lambda x: 0, "target": [0]}, "be None or an array where target"),
    (POLE | {"target": lambda X: np.ones((len(X), 2))}, "target must be .*sum to 1"),
    (PENDULUM | {"target": [0]}, "target must be None unless actions are Discrete"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_collect_transitions(given, message):
    with pytest.raises(ValueError, match=message):
        collect_transitions(**{"n_transitions": 5, "seed": 0} | given)


class Steps(Corridor):
    """The corridor with other steps, and with another result of reset."""

    def __init__(self, made=lambda step: step, first=None):
        super().__init__()
        self.made, self.first = made, first

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        return result if self.first is None else self.first

    def step(self, action):
        return self.made(super().step(action))


BOX = spaces.Box(-9, 9, (2,))
PARTS = spaces.Dict({"a": spaces.MultiDiscrete([3, 3]), "b": BOX})
SEVERAL = spaces.Tuple([BOX, spaces.Sequence(BOX)])
BROKEN = [
    (Seen(SEVERAL, lambda c: "a"), "of Box, Discrete.* got Sequence"),
    (Seen(spaces.Discrete(3), lambda c: c), r"own space, Discrete\(3\); got 3"),
    (Seen(PARTS, lambda c: {"a": [0, 0.5], "b": [0, 0]}), "own space, Dict.*got 0.5"),
    (Seen(BOX, lambda c: [0, c if c < 4 else np.nan]), "finite .*, got nan in row 3"),
    (Steps(lambda s: (s[0], np.nan, *s[2:])), "give finite rewards, got nan in row 0"),
    (Steps(lambda s: (s[0], [1, 2], *s[2:])), r"the reward of a step, got \[1, 2"),
    (Steps(lambda s: s[:4]), "truncated, info.* from step.* got 4 values"),
    (Steps(first=0), r"must return \(observation, info\) from reset.* got 0"),
]


@pytest.mark.parametrize(("env", "message"), BROKEN)
def test_environments_that_break_their_interface(env, message):
    with pytest.raises(ValueError, match=message):
        collect_transitions(env, lambda seen: 1, 6, seed=0)


def test_rewards_are_one_number_and_a_vector_has_its_mode():
    for form in (lambda r: np.array([r]), np.float32, np.array, int):
        env = Steps(lambda s, form=form: (s[0], form(s[1]), *s[2:]))
        log = collect_transitions(env, lambda c: 1, 6, seed=0)
        np.testing.assert_array_equal(log.y, [1, 2, 3, 4, 1, 2])
    env = vector(MODES[0], (2,))
    env.metadata = {}
    with pytest.raises(ValueError, match="env must have the mode of automatic resets"):
        collect_transitions(env, n_transitions=4)


START = {"initial_state_distrib": np.full(5, 0.2)}


def spoilt(state, outcomes):
    """The corridor with other outcomes of a state."""
    return {"env": Published(corridor() | {state: outcomes})}


MODELS = [
    (spoilt(3, [[(1.0, 3, 0.0)], []]), "env.unwrapped.P must have a list of"),
    (spoilt(3, [[(1.0, 5, 0.0, False)], []]), "states from 0 to 4, got 5 from 3"),
    (spoilt(3, [[(0.5, 3, 0.0, False)], []]), "sum to 1, got 0.25 in row 3"),
    (spoilt(2, [[(1.0, 4, 0.0, False)]] * 2), "state 4, which it enters in both ways"),
    ({"env": Published(corridor(), **START)}, "state 4, .* starts from"),
    (POLE, r"unwrapped.P, .* got <TimeLimit.*CartPole.*collect_transitions logs"),
    (LAKE | {"policy": lambda s: 0}, "policy must be None or an array for a model"),
    (TWO, "env must be one gymnasium.Env"),
]


@pytest.mark.parametrize(("given", "message"), MODELS)
def test_models_of_environments(given, message):
    with pytest.raises(ValueError, match=message):
        MarkovRewardProcess.from_gymnasium(**given)
