"""Transitions logged in Gymnasium's environments, and the models that some of them publish."""

import sys

import numpy as np
import pytest

from sk_stormc import BellmanValueEstimator
from sk_stormc.datasets import MarkovRewardProcess, collect_transitions

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces


class Corridor(gymnasium.Env):
    """Cells 0 to 4: action 1 goes right, 0 stays; the last is an end, and an episode is cut after ``limit`` steps."""

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
        return self.observe(), float(self.cell), self.cell == 4, self.steps == self.limit, {}


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
    assert sorted(log) == ["X", "action", "episode", "next_X", "probability", "terminal", "time", "y"]


def test_an_episode_that_is_cut_has_a_successor_and_no_end():
    log = collect_transitions(Corridor(limit=3), [1, 1, 1, 1, 1], 7, seed=0, one_hot=False)
    assert list(log.X.ravel()) == [0, 1, 2, 0, 1, 2, 0]
    assert list(log.next_X.ravel()) == [1, 2, 3, 1, 2, 3, 1]
    assert not log.terminal.any() and list(log.time) == [0, 1, 2, 4, 5, 6, 8]


def test_an_end_at_the_limit_is_an_end():
    log = collect_transitions(Corridor(limit=4), [1, 1, 1, 1, 1], 5, seed=0)
    assert list(log.terminal) == [False, False, False, True, False]


@pytest.mark.parametrize("limit", [3, 10**9])
def test_time_alone_tells_what_follows(limit):
    """The same values as with next_X, of which rows before a cut are not used."""
    log = collect_transitions(Corridor(limit), n_transitions=400, seed=0)
    kept = log.terminal | np.append(np.diff(log.time) == 1, False)
    given = BellmanValueEstimator(0.9, "lstd", fit_intercept=False).fit(
        log.X[kept], log.y[kept], next_X=log.next_X[kept], terminal=log.terminal[kept]
    )
    timed = BellmanValueEstimator(0.9, "lstd", fit_intercept=False).fit(
        log.X, log.y, time=log.time, terminal=log.terminal
    )
    np.testing.assert_allclose(timed.predict(np.eye(5)), given.predict(np.eye(5)), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_values_from_a_log_are_those_of_the_model():
    log = collect_transitions("FrozenLake-v1", n_transitions=50_000, seed=0)
    value = BellmanValueEstimator(0.9, random_state=0).fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
    exact = MarkovRewardProcess.from_gymnasium("FrozenLake-v1", gamma=0.9).exact_value()
    left = log.X.any(axis=0)
    assert left.sum() == 11  # the others are holes and the goal
    np.testing.assert_allclose(value.predict(np.eye(16))[left], exact[left], atol=0.04)
    # a log whose actions knew what the environment would draw would not agree
    won = MarkovRewardProcess.from_gymnasium("FrozenLake-v1", gamma=1 - 1e-9).exact_value()[0]
    assert abs(log.y.sum() / log.terminal.sum() - won) < 0.01


def test_the_same_seed_gives_the_same_bits():
    before = np.random.get_state()[1].copy()
    one, two, other = (collect_transitions("CartPole-v1", n_transitions=300, seed=s) for s in (5, 5, 6))
    for key in one:
        np.testing.assert_array_equal(one[key], two[key])
    assert not np.array_equal(one.X, other.X)
    assert not np.array_equal(collect_transitions("CartPole-v1", n_transitions=9).X, one.X[:9])
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    env = gymnasium.make("CartPole-v1")
    np.testing.assert_array_equal(collect_transitions(env, n_transitions=300, seed=5).X, one.X)
    np.testing.assert_array_equal(collect_transitions(env, n_transitions=300, seed=5).action, one.action)


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
        (spaces.Box(-9, 9, (2, 2), np.float32), lambda c: np.full((2, 2), c / 2, np.float32), [0.5] * 4, [0.5] * 4),
        (spaces.Box(-9, 9, (2,), np.float64), lambda c: np.array([c, -c]), [1, -1], [1, -1]),
        (spaces.Box(0, 255, (1, 2), np.uint8), lambda c: np.array([[c, 200]], np.uint8), [1, 200], [1, 200]),
        (spaces.Discrete(6, start=-1), lambda c: np.int64(c), [1], [0, 0, 1, 0, 0, 0]),
        (spaces.MultiDiscrete([5, 2]), lambda c: np.array([c, 1]), [1, 1], [0, 1, 0, 0, 0, 0, 1]),
        (spaces.MultiBinary(3), lambda c: np.array([0, 1, c > 0]), [0, 1, 1], [0, 1, 1]),
        (
            spaces.Tuple([spaces.Discrete(5), spaces.Box(0, 9, (2,), np.float32)]),
            lambda c: (c, np.array([c, 7], np.float32)),
            [1, 1, 7],
            [0, 1, 0, 0, 0, 1, 7],
        ),
        (
            spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Dict({"c": spaces.Discrete(5)})}),
            lambda c: {"b": 1, "a": {"c": c}},
            [1, 1],
            [0, 1, 0, 1, 0, 0, 0],
        ),
    ],
)
def test_observations(space, shown, numbers, columns):
    if isinstance(space, spaces.Dict):  # its keys are in an order of their own
        columns = columns if list(space.spaces) == ["b", "a"] else columns[2:] + columns[:2]
    for one_hot, expected in ((False, numbers), (True, columns)):
        log = collect_transitions(Seen(space, shown), lambda observation: 1, 3, seed=0, one_hot=one_hot)
        np.testing.assert_array_equal(log.next_X[0], expected)
        np.testing.assert_array_equal(log.X[1], expected)  # the same observation, about to be left
        single = space.dtype == np.float32
        assert log.X.dtype == log.next_X.dtype == (np.float32 if single else np.float64)


def test_observations_that_change_in_place():
    state = np.zeros(1)

    def shown(cell):
        state[:] = cell
        return state

    log = collect_transitions(Seen(spaces.Box(0, 9, (1,), np.float64), shown), lambda cell: 1, 4, seed=0)
    np.testing.assert_array_equal(np.c_[log.X, log.next_X], [[0, 1], [1, 2], [2, 3], [3, 4]])


@pytest.mark.parametrize(
    "space", [spaces.Text(5), spaces.Tuple([spaces.Discrete(2), spaces.Sequence(spaces.Discrete(3))])]
)
def test_other_spaces_are_named(space):
    with pytest.raises(ValueError, match=r"observations of Box, Discrete.* got (Text|Sequence)"):
        collect_transitions(Seen(space, lambda c: "a"), n_transitions=5)


def test_an_observation_outside_its_space():
    with pytest.raises(ValueError, match=r"own space, Discrete\(3\); got 3"):
        collect_transitions(Seen(spaces.Discrete(3), lambda c: c), lambda c: 1, 8, seed=0)
    parts = spaces.Dict({"a": spaces.MultiDiscrete([3, 3]), "b": spaces.Box(-9, 9, (2,))})
    for shown, found in (
        ({"a": [0, 7], "b": [0, 0]}, "got 7"), ({"a": [0, 0.5], "b": [0, 0]}, "got 0.5"), ({"a": [0, 1]}, "got {'a'"),
        ({"a": [0, 1], "b": [0, 0, 0]}, "got {'a'"), ([0, 1], r"got \[0, 1\]"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"env must give observations of its own space, Dict.*{found}"):
            collect_transitions(Seen(parts, lambda c, shown=shown: shown), lambda c: 1, 3, seed=0)


def test_observations_of_several_numbers_and_random_actions():
    for space, shown in ((spaces.MultiDiscrete([5, 2]), [1, 0]), (spaces.MultiDiscrete([[5], [2]]), [[1], [0]])):
        log = collect_transitions(Seen(space, lambda c, shown=shown: np.array(shown)), n_transitions=4, seed=0)
        np.testing.assert_array_equal(log.X, [[0, 1, 0, 0, 0, 1, 0]] * 4)
        np.testing.assert_array_equal(log.probability, 0.5)
        target = collect_transitions(  # of the rows of the log
            Seen(space, lambda c, shown=shown: np.array(shown)), None, 4, seed=0, target=lambda X: [[0.2, 0.8]] * len(X)
        )
        np.testing.assert_allclose(target.importance_ratio, np.where(target.action == 1, 1.6, 0.4))


class Steps(Corridor):
    """Steps that are what a test says."""

    def __init__(self, made, first=(0, {})):
        super().__init__()
        self.made, self.first = made, first

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.first

    def step(self, action):
        return self.made(super().step(action))


def test_observations_that_are_not_numbers():
    for late, row in ((False, 0), (True, 3)):
        shown = lambda c, late=late: np.array([0.0, 0.0 if late and c < 4 else np.nan])  # noqa: E731
        with pytest.raises(ValueError, match=f"env must give finite observations, got nan in row {row}"):
            collect_transitions(Seen(spaces.Box(-9, 9, (2,)), shown), lambda c: 1, 6, seed=0)


def test_rewards_are_one_number():
    for form in (lambda r: np.array([r]), np.float32, lambda r: np.array(r), int):
        log = collect_transitions(Steps(lambda s, form=form: (s[0], form(s[1]), *s[2:])), lambda c: 1, 6, seed=0)
        np.testing.assert_array_equal(log.y, [1, 2, 3, 4, 1, 2])
    for wrong, found in (([1.0, 2.0], r"\[1.0, 2.0\]"), ("one", "'one'"), (np.zeros((0,)), "array")):
        with pytest.raises(ValueError, match=f"env must give one number as the reward of a step, got {found}"):
            collect_transitions(Steps(lambda s, wrong=wrong: (s[0], wrong, *s[2:])), lambda c: 1, 6, seed=0)


def test_interfaces_before_gymnasium():
    with pytest.raises(ValueError, match="env must return .*terminated, truncated, info.* from step.* got 4 values"):
        collect_transitions(Steps(lambda s: (s[0], s[1], s[2], {})), lambda c: 1, 6, seed=0)
    with pytest.raises(ValueError, match=r"env must return \(observation, info\) from reset.* got 0"):
        collect_transitions(Steps(lambda s: s, first=0), lambda c: 1, 6, seed=0)


def test_policies():
    for policy in ([0, 1, 0, 1, 0], [[0.5, 0.5]] * 5, np.eye(2)[[1] * 5]):
        log = collect_transitions(Corridor(limit=50), policy, 500, seed=1, one_hot=False)
        chosen = np.bincount(log.action[log.X[:, 0] == 0], minlength=2) / np.count_nonzero(log.X[:, 0] == 0)
        expected = np.atleast_2d(np.eye(2)[policy] if np.ndim(policy) == 1 else policy)[0]
        np.testing.assert_allclose(chosen, expected, atol=0.1 if 0 < expected[0] < 1 else 0)
    pendulum = collect_transitions("Pendulum-v1", lambda observation: np.zeros(1), 5, seed=0)
    assert pendulum.action.shape == (5, 1)
    assert collect_transitions("Pendulum-v1", n_transitions=5, seed=0).action.std() > 0


@pytest.mark.parametrize(
    ("env", "policy", "message"),
    [
        ("FrozenLake-v1", "greedy", "policy must be numbers, got 'greedy'"),
        ("FrozenLake-v1", [0, 1], r"policy must be actions of shape \(16,\) or probabilities of shape \(16, 4\), got"),
        ("FrozenLake-v1", [0] * 15 + [4], "policy must have actions from 0 to 3, got 4 in state 15"),
        ("FrozenLake-v1", [0.5] * 16, "policy must have actions from 0 to 3, got 0.5 in state 0"),
        ("FrozenLake-v1", np.full((16, 4), 0.3), "policy must have probabilities >= 0 .*sum 1.2 in state 0"),
        ("FrozenLake-v1", [[1.5, -0.5, 0, 0]] * 16, "policy must have probabilities >= 0 .* in state 0"),
        ("FrozenLake-v1", [[np.nan] * 4] * 16, "policy must have probabilities >= 0 .* in state 0"),
        ("FrozenLake-v1", lambda s: 4, r"policy must give actions of Discrete\(4\), got 4"),
        ("FrozenLake-v1", lambda s: [1, 2], r"policy must give actions of Discrete\(4\), got \[1, 2\]"),
        ("FrozenLake-v1", lambda s: None, r"policy must give actions of Discrete\(4\), got None"),
        ("CartPole-v1", [0, 1], "env must have Discrete observations for an array as policy, got Box"),
        ("Pendulum-v1", [0, 1], "env must have Discrete observations for an array as policy, got Box"),
        ("NoSuchThing-v7", None, "env must be the id of a registered environment, got 'NoSuchThing-v7': "),
        (gymnasium, None, "env must be one gymnasium.Env or the id of one, got <module"),
    ],
)
def test_policies_and_environments_that_do_not_fit(env, policy, message):
    with pytest.raises(ValueError, match=message):
        collect_transitions(env, policy, 5, seed=0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_transitions": 0}, "n_transitions must be an integer >= 1, got 0"),
        ({"n_transitions": 2.5}, "n_transitions must be an integer >= 1, got 2.5"),
        ({"seed": -1}, "seed must be an integer >= 0"),
        ({"seed": "a"}, "seed must be an integer >= 0"),
        ({"one_hot": "no"}, "one_hot must be True or False, got 'no'"),
    ],
)
def test_parameters_out_of_range(params, message):
    with pytest.raises(ValueError, match=message):
        collect_transitions("CartPole-v1", **params)


def test_several_environments_at_once_have_no_model():
    with pytest.raises(ValueError, match="env must be one gymnasium.Env"):
        MarkovRewardProcess.from_gymnasium(gymnasium.make_vec("FrozenLake-v1", 2))


def test_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    for work in (lambda: collect_transitions("CartPole-v1"), lambda: MarkovRewardProcess.from_gymnasium("Taxi-v4")):
        with pytest.raises(ImportError, match="need gymnasium: pip install gymnasium"):
            work()


# models


def by_iteration(env, chances, gamma):
    """Values by sweeps over the published lists, which end with an episode."""
    P, V = env.unwrapped.P, np.zeros(env.observation_space.n)
    over = {t for s in P for a in P[s] for _, t, _, ended in P[s][a] if ended}
    for _ in range(400):
        V = np.array([
            0 if s in over else sum(
                chances[s][a] * p * (r + gamma * (not ended) * V[t]) for a in P[s] for p, t, r, ended in P[s][a]
            )
            for s in P
        ])  # fmt: skip
    return V


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", pytest.param("Taxi-v4", marks=pytest.mark.slow)])
def test_models(name):
    env = gymnasium.make(name)
    n, n_actions = env.observation_space.n, env.action_space.n
    rng = np.random.default_rng(0)
    actions, chances = rng.integers(n_actions, size=n), rng.dirichlet(np.ones(n_actions), n)
    for policy, table in (
        (None, np.full((n, n_actions), 1 / n_actions)),
        (actions, np.eye(n_actions)[actions]),
        (chances, chances),
    ):
        model = MarkovRewardProcess.from_gymnasium(env, policy, 0.9)
        assert model.gamma == 0.9 and model.n_states == n
        expected = by_iteration(env, table, 0.9)
        np.testing.assert_allclose(model.exact_value(), expected, atol=1e-9 * abs(expected).max())


def test_ends_are_worth_nothing_and_never_left():
    for name, ends in (("FrozenLake-v1", [5, 7, 11, 12, 15]), ("CliffWalking-v1", [47])):
        model = MarkovRewardProcess.from_gymnasium(name, gamma=0.99)
        assert (model.exact_value()[ends] == 0).all()
        log = model.transitions(5000, random_state=0)
        assert not log.X[:, ends].any()
        np.testing.assert_array_equal(log.terminal, log.next_X[:, ends].any(axis=1))
    np.testing.assert_array_equal(
        MarkovRewardProcess.from_gymnasium("FrozenLake-v1", features=np.ones((16, 2))).features, np.ones((16, 2))
    )


class Published(Corridor):
    """The corridor's model: action 0 stays at a cost of 1, action 1 goes right."""

    def __init__(self, P, **attributes):
        super().__init__()
        self.P = P
        self.__dict__.update(attributes)


def corridor(last=True):
    P = {s: {0: [(1.0, s, -1.0, False)], 1: [(1.0, s + 1, 2.0, last and s == 3)]} for s in range(4)}
    P[4] = {a: [(1.0, 0, 7.0, False)] for a in range(2)}
    return P


def test_rewards_are_means_over_actions():
    P = corridor()
    P[0] = {0: [(1.0, 1, -1.0, False)], 1: [(1.0, 1, 2.0, False)]}  # the same successor by two actions
    model = MarkovRewardProcess.from_gymnasium(Published(P), [[0.75, 0.25]] + [[0.0, 1.0]] * 4, 0.5)
    assert model.rewards[0, 1] == -0.25
    np.testing.assert_allclose(model.exact_value(), [-0.25 + 0.5 * 3.5, 3.5, 3.0, 2.0, 0.0])


def test_a_state_that_is_an_end_at_times_only():
    P = corridor()
    P[2][0] = [(1.0, 4, 0.0, False)]
    with pytest.raises(ValueError, match="state 4, which it enters in both ways"):
        MarkovRewardProcess.from_gymnasium(Published(P))
    # it does not matter where that cannot happen
    start = np.array([0.0, 0.0, 0.0, 1.0, 0.0])
    model = MarkovRewardProcess.from_gymnasium(Published(P, initial_state_distrib=start), [1] * 5)
    assert model.exact_value()[4] == 0
    with pytest.raises(ValueError, match="state 4, .* starts from"):
        MarkovRewardProcess.from_gymnasium(Published(corridor(), initial_state_distrib=np.full(5, 0.2)))


def test_a_model_without_ends():
    V = MarkovRewardProcess.from_gymnasium(Published(corridor(last=False)), [1] * 5, 0.5).exact_value()
    assert V[4] == pytest.approx(7 + 0.5 * V[0]) and V[3] == pytest.approx(2 + 0.5 * V[4])


def test_models_that_are_none():
    for change, message in (
        ({3: {0: [(1.0, 3, 0.0, False)]}}, "env.unwrapped.P must have a list of .* for each state and action, got"),
        ({3: [[(1.0, 3, 0.0)], []]}, "env.unwrapped.P must have a list of"),
        ({3: [[(1.0, 5, 0.0, False)], []]}, "env.unwrapped.P must lead to states from 0 to 4, got 5 from 3"),
        ({3: [[(0.5, 3, 0.0, False)], []]}, "rows that sum to 1, got 0.25 in row 3"),
        ({3: [[(1.0, 3, np.nan, False)]] * 2}, "rewards must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            MarkovRewardProcess.from_gymnasium(Published({**corridor(), **change}))


def test_environments_without_a_model():
    with pytest.raises(ValueError, match=r"unwrapped.P, .* got <TimeLimit.*CartPole.*collect_transitions logs"):
        MarkovRewardProcess.from_gymnasium("CartPole-v1")
    with pytest.raises(ValueError, match="policy must be None or an array for a model"):
        MarkovRewardProcess.from_gymnasium("FrozenLake-v1", lambda s: 0)
    with pytest.raises(ValueError, match="gamma must be"):
        MarkovRewardProcess.from_gymnasium("FrozenLake-v1", gamma=1)


def test_repr():
    assert repr(MarkovRewardProcess.from_gymnasium("Taxi-v4", gamma=0.9)) == (
        "MarkovRewardProcess(n_states=500, n_features=500, gamma=0.9)"
    )
