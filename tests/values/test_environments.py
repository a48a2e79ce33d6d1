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
        return (
            self.observe(),
            float(self.cell),
            self.cell == 4,
            self.steps == self.limit,
            {},
        )


class Seen(Corridor):
    """The corridor, seen through some other space."""

    def __init__(self, space, shown):
        super().__init__()
        self.observation_space, self.observe = space, lambda: shown(self.cell)


def test_an_episode_that_ends():
    log = collect_transitions(Corridor(), lambda cell: 1, 10, seed=0, one_hot=False)
    assert list(log.X.ravel()) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert list(log.next_X.ravel()) == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert list(log.y) == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert list(np.flatnonzero(log.terminal)) == [3, 7] and log.terminal.dtype == bool
    assert list(log.time) == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11]
    assert list(log.action) == [1] * 10
    assert sorted(log) == [
        "X",
        "action",
        "episode",
        "next_X",
        "probability",
        "terminal",
        "time",
        "y",
    ]


def test_an_episode_that_is_cut_has_a_successor_and_no_end():
    log = collect_transitions(
        Corridor(limit=3), [1, 1, 1, 1, 1], 7, seed=0, one_hot=False
    )
    assert list(log.X.ravel()) == [0, 1, 2, 0, 1, 2, 0]
    assert list(log.next_X.ravel()) == [1, 2, 3, 1, 2, 3, 1]
    assert not log.terminal.any() and list(log.time) == [0, 1, 2, 4, 5, 6, 8]
    # an end at the limit is an end
    log = collect_transitions(Corridor(limit=4), [1, 1, 1, 1, 1], 5, seed=0)
    assert list(log.terminal) == [False, False, False, True, False]


def test_the_same_seed_gives_the_same_bits():
    before = np.random.get_state()
    env = gymnasium.make("CartPole-v1")
    one, two, other = (
        collect_transitions("CartPole-v1", n_transitions=100, seed=s) for s in (5, 5, 6)
    )
    for log in (two, collect_transitions(env, n_transitions=100, seed=5)):
        for key in one:
            np.testing.assert_array_equal(one[key], log[key])
    assert not np.array_equal(one.X, other.X)
    assert not np.array_equal(
        collect_transitions("CartPole-v1", n_transitions=9).X, one.X[:9]
    )
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


@pytest.mark.parametrize(
    ("space", "shown", "numbers", "columns"),
    [
        (
            spaces.Box(-9, 9, (2, 2), np.float32),
            lambda c: np.full((2, 2), c / 2, np.float32),
            [0.5] * 4,
            [0.5] * 4,
        ),
        (
            spaces.Box(0, 255, (1, 2), np.uint8),
            lambda c: np.array([[c, 200]], np.uint8),
            [1, 200],
            [1, 200],
        ),
        (spaces.Discrete(6, start=-1), lambda c: np.int64(c), [1], [0, 0, 1, 0, 0, 0]),
        (
            spaces.MultiDiscrete([5, 2]),
            lambda c: np.array([c, 1]),
            [1, 1],
            [0, 1, 0, 0, 0, 0, 1],
        ),
        (
            spaces.Dict(
                {"b": spaces.Discrete(2), "a": spaces.Dict({"c": spaces.Discrete(5)})}
            ),
            lambda c: {"b": 1, "a": {"c": c}},
            [1, 1],
            [0, 1, 0, 1, 0, 0, 0],
        ),
    ],
)
def test_observations(space, shown, numbers, columns):
    if isinstance(space, spaces.Dict):  # its keys are in an order of their own
        columns = (
            columns if list(space.spaces) == ["b", "a"] else columns[2:] + columns[:2]
        )
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

    log = collect_transitions(
        Seen(spaces.Box(0, 9, (1,), np.float64), shown), lambda cell: 1, 4, seed=0
    )
    np.testing.assert_array_equal(
        np.c_[log.X, log.next_X], [[0, 1], [1, 2], [2, 3], [3, 4]]
    )


def test_policies():
    for policy in ([0, 1, 0, 1, 0], [[0.5, 0.5]] * 5, np.eye(2)[[1] * 5]):
        log = collect_transitions(
            Corridor(limit=50), policy, 500, seed=1, one_hot=False
        )
        chosen = np.bincount(
            log.action[log.X[:, 0] == 0], minlength=2
        ) / np.count_nonzero(log.X[:, 0] == 0)
        expected = np.atleast_2d(np.eye(2)[policy] if np.ndim(policy) == 1 else policy)[
            0
        ]
        np.testing.assert_allclose(
            chosen, expected, atol=0.1 if 0 < expected[0] < 1 else 0
        )
    pendulum = collect_transitions(
        "Pendulum-v1", lambda observation: np.zeros(1), 5, seed=0
    )
    assert pendulum.action.shape == (5, 1)
    assert collect_transitions("Pendulum-v1", n_transitions=5, seed=0).action.std() > 0


def test_a_log_has_the_probabilities_of_what_was_done():
    acted, target = (
        np.full((16, 4), [0.1, 0.2, 0.3, 0.4]),
        np.full((16, 4), [0.4, 0.3, 0.2, 0.1]),
    )
    target[0] = np.eye(4)[2]
    expected = {}
    for one_hot in (True, False):
        log = collect_transitions(
            "FrozenLake-v1", acted, 300, seed=0, target=target, one_hot=one_hot
        )
        state = log.X.argmax(axis=1) if one_hot else log.X[:, 0].astype(int)
        np.testing.assert_allclose(log.probability, acted[0, log.action])
        np.testing.assert_allclose(log.target_probability, target[state, log.action])
        np.testing.assert_array_equal(
            log.importance_ratio, log.target_probability / log.probability
        )
        assert (
            expected.setdefault("ratio", log.importance_ratio.tolist())
            == log.importance_ratio.tolist()
        )
    log = collect_transitions(
        "CartPole-v1",
        n_transitions=100,
        seed=0,
        target=lambda X: (X[:, 2] > 0).astype(int),
    )
    np.testing.assert_array_equal(
        log.importance_ratio, 2.0 * (log.action == (log.X[:, 2] > 0))
    )
    chances = lambda X: np.column_stack([np.full(len(X), 0.3), np.full(len(X), 0.7)])  # noqa: E731
    log = collect_transitions("CartPole-v1", n_transitions=100, seed=0, target=chances)
    np.testing.assert_allclose(
        log.importance_ratio, np.where(log.action == 1, 1.4, 0.6)
    )
    assert np.isnan(
        collect_transitions("CartPole-v1", lambda x: 0, 10, seed=0).probability
    ).all()


def test_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    for work in (
        lambda: collect_transitions("CartPole-v1"),
        lambda: MarkovRewardProcess.from_gymnasium("Taxi-v4"),
    ):
        with pytest.raises(ImportError, match="need gymnasium: pip install gymnasium"):
            work()


class Counter(gymnasium.Env):
    """Counts from 100 * its own number; an episode ends after ``length`` steps, or is
    cut off after ``limit``."""

    observation_space = spaces.Box(0, 1e6, (1,))
    action_space = spaces.Discrete(3, start=5)

    def __init__(self, number, length=3, limit=10**9):
        self.number, self.length, self.limit, self.episodes = number, length, limit, -1

    def observe(self):
        return np.array(
            [1000 * self.number + 100 * self.episodes + self.steps], np.float32
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.episodes = 0, self.episodes + 1
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        return (
            self.observe(),
            float(action),
            self.steps == self.length,
            self.steps == self.limit,
            {},
        )


def vector(mode, *kinds, **more):
    return SyncVectorEnv(
        [
            lambda number=number, kind=kind: Counter(number, *kind)
            for number, kind in enumerate(kinds)
        ],
        autoreset_mode=mode,
        **more,
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("copy", [True, False])
def test_no_row_is_an_autoreset(mode, copy):
    env = vector(mode, (2,), (4,), copy=copy)
    log = collect_transitions(env, lambda seen: np.full(2, 6), 12, seed=0)
    left, came = log.X.ravel(), log.next_X.ravel()
    np.testing.assert_array_equal(came, left + 1)
    assert set(log.y) == {6.0} and set(log.action) == {6} and log.action.shape == (12,)
    np.testing.assert_array_equal(
        log.terminal, (came % 100) == np.where(left < 1000, 2, 4)
    )
    assert (np.diff(left // 1000) >= 0).all()  # one environment after the other
    np.testing.assert_array_equal(np.diff(log.episode), np.diff(left // 100) != 0)
    np.testing.assert_array_equal(
        np.diff(log.time), np.where(np.diff(left // 100) != 0, 2, 1)
    )
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

    env, policy = SyncVectorEnv([Numbered] * 7), np.full((5, 2), [0.2, 0.8])
    log, again = (collect_transitions(env, policy, 2000, seed=3) for _ in range(2))
    for name in log:
        np.testing.assert_array_equal(log[name], again[name])
    assert set(log.action) == {3, 4} and np.mean(log.action == 4) == pytest.approx(
        0.8, abs=0.04
    )
    np.testing.assert_array_equal(log.probability, np.where(log.action == 4, 0.8, 0.2))


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1"])
@pytest.mark.parametrize("kind", ["uniform", "actions", "probabilities"])
def test_models(name, kind):
    """Values by a system of equations from the published lists, whose episodes end in
    some states."""
    env, rng = gymnasium.make(name), np.random.default_rng(0)
    n, m = env.observation_space.n, env.action_space.n
    actions, chances = rng.integers(m, size=n), rng.dirichlet(np.ones(m), n)
    policy = {"uniform": None, "actions": actions, "probabilities": chances}[kind]
    chances = {"uniform": np.full((n, m), 1 / m), "actions": np.eye(m)[actions]}.get(
        kind, chances
    )
    A, b, ends = np.eye(n), np.zeros(n), set()
    for s, published in env.unwrapped.P.items():
        for a, outcomes in published.items():
            for p, after, reward, ended in outcomes:
                A[s, after] -= 0.9 * chances[s, a] * p * (not ended)
                b[s] += chances[s, a] * p * reward
                ends |= {after} if ended else set()
    A[list(ends)], b[list(ends)] = np.eye(n)[list(ends)], 0
    model = MarkovRewardProcess.from_gymnasium(env, policy, 0.9)
    assert model.gamma == 0.9 and model.n_states == n
    np.testing.assert_allclose(model.exact_value(), np.linalg.solve(A, b), atol=1e-9)


class Published(Corridor):
    """The corridor's model: action 0 stays at a cost of 1, action 1 goes right."""

    def __init__(self, P, **attributes):
        super().__init__()
        self.P = P
        self.__dict__.update(attributes)


def corridor(last=True):
    P = {
        s: {0: [(1.0, s, -1.0, False)], 1: [(1.0, s + 1, 2.0, last and s == 3)]}
        for s in range(4)
    }
    P[4] = {a: [(1.0, 0, 7.0, False)] for a in range(2)}
    return P


def test_rewards_are_means_over_actions():
    P = corridor()
    # the same successor by two actions
    P[0] = {0: [(1.0, 1, -1.0, False)], 1: [(1.0, 1, 2.0, False)]}
    model = MarkovRewardProcess.from_gymnasium(
        Published(P), [[0.75, 0.25]] + [[0.0, 1.0]] * 4, 0.5
    )
    assert model.rewards[0, 1] == -0.25
    np.testing.assert_allclose(
        model.exact_value(), [-0.25 + 0.5 * 3.5, 3.5, 3.0, 2.0, 0.0]
    )


LAKE, POLE, PENDULUM = (
    {"env": "FrozenLake-v1"},
    {"env": "CartPole-v1"},
    {"env": "Pendulum-v1"},
)
TWO = {"env": gymnasium.make_vec("CartPole-v1", num_envs=2)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            LAKE | {"policy": [0, 1]},
            r"policy must be actions of shape \(16,\) or .*of shape \(16, 4\), got",
        ),
        (
            LAKE | {"policy": [0] * 15 + [4]},
            "policy must have actions from 0 to 3, got 4 in state 15",
        ),
        (
            LAKE | {"policy": np.full((16, 4), 0.3)},
            "policy must have probabilities >= 0 .*sum 1.2 in state 0",
        ),
        (
            LAKE | {"policy": lambda s: 4},
            r"policy must give actions of Discrete\(4\), got 4",
        ),
        (
            POLE | {"policy": [0, 1]},
            "env must have Discrete observations for an array as policy, got Box",
        ),
        (
            PENDULUM | {"policy": lambda s: 0.5},
            r"give actions of Box.*shape \(1,\), got 0.5 of shape \(\)",
        ),
        (
            {"env": "NoSuchThing-v7"},
            "env must be the id of a registered environment, got 'NoSuchThing-v7': ",
        ),
        (
            TWO | {"policy": lambda seen: 1},
            "policy must give 2 actions, one for each environment.*got 1",
        ),
        (
            TWO | {"policy": lambda seen: [0, 2]},
            "policy must give actions of Discrete.*got.*2",
        ),
        (
            POLE | {"policy": lambda x: 0, "target": [0]},
            "policy must be None or an array where target is given",
        ),
        (
            POLE | {"target": lambda X: np.ones((len(X), 2))},
            "target must be a policy of the environment: .*sum to 1",
        ),
        (PENDULUM | {"target": [0]}, "target must be None unless actions are Discrete"),
    ],
)
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
OWN = "env must give observations of its own space, "


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            Seen(spaces.Tuple([BOX, spaces.Sequence(BOX)]), lambda c: "a"),
            "of Box, Discrete.* got Sequence",
        ),
        (Seen(spaces.Discrete(3), lambda c: c), OWN + r"Discrete\(3\); got 3"),
        (Seen(PARTS, lambda c: {"a": [0, 0.5], "b": [0, 0]}), OWN + "Dict.*got 0.5"),
        (
            Seen(BOX, lambda c: np.array([0, c if c < 4 else np.nan])),
            "give finite observations, got nan in row 3",
        ),
        (
            Steps(lambda s: (s[0], np.nan, *s[2:])),
            "env must give finite rewards, got nan in row 0",
        ),
        (
            Steps(lambda s: (s[0], [1, 2], *s[2:])),
            r"env must give one number as the reward of a step, got \[1, 2",
        ),
        (
            Steps(lambda s: s[:4]),
            "env must return .*terminated, truncated, info.* from step.* got 4 values",
        ),
        (Steps(first=0), r"env must return \(observation, info\) from reset.* got 0"),
    ],
)
def test_environments_that_break_their_interface(env, message):
    with pytest.raises(ValueError, match=message):
        collect_transitions(env, lambda seen: 1, 6, seed=0)


def test_rewards_are_one_number_and_a_vector_has_its_mode():
    for form in (lambda r: np.array([r]), np.float32, lambda r: np.array(r), int):
        log = collect_transitions(
            Steps(lambda s, form=form: (s[0], form(s[1]), *s[2:])),
            lambda c: 1,
            6,
            seed=0,
        )
        np.testing.assert_array_equal(log.y, [1, 2, 3, 4, 1, 2])
    env = vector(MODES[0], (2,))
    env.metadata = {}
    with pytest.raises(
        ValueError, match="env must have the mode of automatic resets in metadata"
    ):
        collect_transitions(env, n_transitions=4)


START = {"initial_state_distrib": np.full(5, 0.2)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"env": Published(corridor() | {3: [[(1.0, 3, 0.0)], []]})},
            "env.unwrapped.P must have a list of",
        ),
        (
            {"env": Published(corridor() | {3: [[(1.0, 5, 0.0, False)], []]})},
            "states from 0 to 4, got 5 from 3",
        ),
        (
            {"env": Published(corridor() | {3: [[(0.5, 3, 0.0, False)], []]})},
            "rows that sum to 1, got 0.25 in row 3",
        ),
        (
            {"env": Published(corridor() | {2: [[(1.0, 4, 0.0, False)]] * 2})},
            "state 4, which it enters in both ways",
        ),
        ({"env": Published(corridor(), **START)}, "state 4, .* starts from"),
        (POLE, r"unwrapped.P, .* got <TimeLimit.*CartPole.*collect_transitions logs"),
        (LAKE | {"policy": lambda s: 0}, "policy must be None or an array for a model"),
        (TWO, "env must be one gymnasium.Env"),
    ],
)
def test_models_of_environments(given, message):
    with pytest.raises(ValueError, match=message):
        MarkovRewardProcess.from_gymnasium(**given)
