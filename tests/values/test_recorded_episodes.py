"""Transitions of recorded episodes: lists, dicts, objects, and data sets of Minari."""

from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sk_stormc import ActionValueEstimator, BellmanValueEstimator
from sk_stormc.datasets import collect_transitions, transitions_from_episodes


@dataclass(frozen=True)
class EpisodeData:
    """As Minari has it."""

    id: int
    observations: Any
    actions: Any
    rewards: np.ndarray
    terminations: np.ndarray
    truncations: np.ndarray
    infos: dict


def walk(n, end, seed=0):
    """An episode of n steps."""
    rng = np.random.default_rng(seed)
    steps = np.arange(n) == n - 1
    return EpisodeData(
        seed, rng.normal(size=(n + 1, 2)).astype(np.float32), rng.integers(3, size=n), rng.normal(size=n),
        steps & end, steps & (not end), {"mass": np.ones(n)},
    )  # fmt: skip


EPISODES = [walk(3, True, 0), walk(2, False, 1), walk(1, True, 2)]
NAMES = ("observations", "actions", "rewards", "terminations", "truncations")


def as_dicts(episode):
    return {name: getattr(episode, name) for name in NAMES}


def as_lists(episode):
    return [getattr(episode, name).tolist() for name in NAMES]


def as_tuples(episode):
    return tuple(as_lists(episode))


@pytest.mark.parametrize("form", [lambda episode: episode, as_dicts, as_lists, as_tuples])
def test_forms_of_an_episode(form):
    log = transitions_from_episodes(form(episode) for episode in EPISODES)
    np.testing.assert_array_equal(log.X, np.vstack([episode.observations[:-1] for episode in EPISODES]))
    np.testing.assert_array_equal(log.next_X, np.vstack([episode.observations[1:] for episode in EPISODES]))
    np.testing.assert_array_equal(log.y, np.concatenate([episode.rewards for episode in EPISODES]))
    np.testing.assert_array_equal(log.action, np.concatenate([episode.actions for episode in EPISODES]))
    assert list(log.terminal) == [False, False, True, False, False, True] and log.terminal.dtype == bool
    assert list(log.episode) == [0, 0, 0, 1, 1, 2] and list(log.time) == [0, 1, 2, 4, 5, 7]
    assert sorted(log) == ["X", "action", "episode", "next_X", "terminal", "time", "y"]


def test_one_bool_says_how_an_episode_ended():
    dicts = [as_dicts(episode) | {"terminations": bool(episode.terminations[-1])} for episode in EPISODES]
    for episode in dicts:
        del episode["truncations"]
    np.testing.assert_array_equal(transitions_from_episodes(dicts).terminal, [0, 0, 1, 0, 0, 1])
    for episode in dicts:
        del episode["terminations"]
    assert not transitions_from_episodes(dicts).terminal.any()


Named = namedtuple("Named", "rewards observations terminations actions")


def test_a_named_tuple_is_read_by_name():
    named = [Named(*(getattr(episode, name) for name in Named._fields)) for episode in EPISODES]
    log, expected = transitions_from_episodes(named), transitions_from_episodes(EPISODES)
    for name in expected:
        np.testing.assert_array_equal(log[name], expected[name])
    with pytest.raises(ValueError, match="got episode 0 without observations and actions"):
        transitions_from_episodes([namedtuple("Other", "rewards obs act")([1.0], [[0.0], [1.0]], [1])])


@pytest.mark.parametrize("name", ["done", "dones", "is_terminal", "terminal", "terminals", "terminated"])
@pytest.mark.parametrize("form", [lambda **parts: SimpleNamespace(**parts), dict, lambda **p: namedtuple("E", p)(**p)])
def test_other_names_for_ends_are_refused_in_any_form(form, name):
    parts = {"observations": [[0.0], [1.0]], "actions": [1, 1], "rewards": [0.0, 1.0]}
    for value in (True, [False, True]):
        with pytest.raises(ValueError, match=f"episodes must have terminations.*episode 0 with {name} in their place"):
            transitions_from_episodes([form(**parts, **{name: value})])
    both = form(**parts, **{name: True}, terminations=[False, True])
    assert list(transitions_from_episodes([both]).terminal) == [False, True]


@pytest.mark.parametrize("form", [lambda **parts: SimpleNamespace(**parts), dict])
def test_next_observations_are_the_successors(form):
    seen, after = [[0.0], [1.0], [2.0]], [[10.0], [11.0], [12.0]]
    parts = {"actions": [0, 1, 0], "rewards": [1, 2, 3], "next_observations": after}
    for observations in (seen, [*seen, [3.0]]):
        log = transitions_from_episodes([form(observations=observations, **parts)] * 2)
        assert list(log.X.ravel()) == [0, 1, 2] * 2 and list(log.next_X.ravel()) == [10, 11, 12] * 2
        assert not log.terminal.any() and list(log.time) == [0, 1, 2, 4, 5, 6]
    with pytest.raises(ValueError, match="next_observations must be as many as rewards, 3, got 2 in episode 0"):
        transitions_from_episodes([form(observations=seen, **parts | {"next_observations": after[:2]})])
    with pytest.raises(ValueError, match="next_observations must be finite, got nan in step 1 of episode 0"):
        transitions_from_episodes([form(observations=seen, **parts | {"next_observations": [[0], [np.nan], [0]]})])
    with pytest.raises(ValueError, match="next_observations must have the same columns.*got 2 in episode 0 and 1"):
        transitions_from_episodes([form(observations=seen, **parts | {"next_observations": np.zeros((3, 2))})])


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("spaced", [False, True])
def test_the_order_of_keys_does_not_matter(listed, spaced):
    place, cell = np.arange(8.0).reshape(4, 2), np.array([0, 2, 1, 2])
    one, other = {"place": place, "cell": cell}, {"cell": cell, "place": place}
    if listed:
        one, other = ([{key: seen[key][k] for key in seen} for k in range(4)] for seen in (one, other))
    spaces = pytest.importorskip("gymnasium").spaces
    space = spaces.Dict({"place": spaces.Box(0, 9, (2,)), "cell": spaces.Discrete(3)}) if spaced else None
    parts = {"actions": [0, 1, 0], "rewards": [1, 2, 3]}
    log = transitions_from_episodes([{"observations": seen, **parts} for seen in (one, other)], observation_space=space)
    np.testing.assert_array_equal(log.X[:3], log.X[3:])
    np.testing.assert_array_equal(log.next_X[:3], log.next_X[3:])
    strange = {"place": place, "kind": cell}
    strange = [{key: strange[key][k] for key in strange} for k in range(4)] if listed else strange
    with pytest.raises(ValueError, match="observations must"):
        transitions_from_episodes(
            [{"observations": seen, **parts} for seen in (one, strange)], observation_space=space
        )


def test_parts_that_do_not_fit():
    for seen, message in (
        ({"a": np.zeros((4, 2)), "b": np.zeros(3)}, "observations must have parts of one length.*episode 0"),
        ([{"a": 0.0}, {"b": 0.0}, {"a": 0.0}, {"a": 0.0}], r"observations must have the keys \['a'\].*got {'b'"),
    ):
        with pytest.raises(ValueError, match=message):
            transitions_from_episodes([{"observations": seen, "actions": [0, 1, 0], "rewards": [1, 2, 3]}])


def test_as_many_observations_as_steps():
    """The last step of an episode that was cut off has no successor; where it ended for good it needs none."""
    short = [as_dicts(episode) | {"observations": episode.observations[:-1]} for episode in EPISODES]
    log, whole = transitions_from_episodes(short), transitions_from_episodes(EPISODES)
    kept = np.array([0, 1, 2, 3, 5])
    for name in ("X", "y", "terminal", "action", "episode"):
        np.testing.assert_array_equal(log[name], whole[name][kept])
    going = ~log.terminal
    np.testing.assert_array_equal(log.next_X[going], whole.next_X[kept][going])


@pytest.mark.parametrize("kind", ["dict", "list of dicts", "tuple"])
def test_observations_of_several_parts(kind):
    place, cell = np.arange(8.0).reshape(4, 2), np.array([0, 2, 1, 2])
    seen = {
        "dict": {"place": place, "cell": cell},
        "list of dicts": [{"place": p, "cell": c} for p, c in zip(place, cell, strict=True)],
        "tuple": (place, cell),
    }[kind]
    log = transitions_from_episodes([{"observations": seen, "actions": [0, 1, 0], "rewards": [1, 2, 3]}])
    np.testing.assert_array_equal(log.X, np.c_[place, cell][:-1])
    spaces = pytest.importorskip("gymnasium").spaces
    parts = spaces.Box(0, 9, (2,)), spaces.Discrete(3)
    space = spaces.Tuple(parts) if kind == "tuple" else spaces.Dict({"place": parts[0], "cell": parts[1]})
    episode = {"observations": seen, "actions": [0, 1, 0], "rewards": [1, 2, 3]}
    given = {"episodes": [episode], "observation_space": space}
    ordered = [place, np.eye(3)[cell]] if kind == "tuple" else [np.eye(3)[cell], place]  # Gymnasium sorts the keys
    np.testing.assert_array_equal(transitions_from_episodes(**given).next_X, np.hstack(ordered)[1:])
    assert transitions_from_episodes(**given, one_hot=False).X.shape == (3, 3)


def test_episodes_of_an_environment_are_the_log_of_it():
    gymnasium = pytest.importorskip("gymnasium")
    log = collect_transitions("FrozenLake-v1", n_transitions=3000, seed=0)
    cells, came = log.X.argmax(axis=1), log.next_X.argmax(axis=1)
    episodes = []
    for number in range(log.episode.max() + 1):
        rows = np.flatnonzero(log.episode == number)
        seen = np.append(cells[rows], came[rows[-1]])
        episodes.append((seen, log.action[rows], log.y[rows], log.terminal[rows]))
    again = transitions_from_episodes(episodes, observation_space=gymnasium.spaces.Discrete(16))
    for name in again:
        np.testing.assert_array_equal(again[name], log[name])
    numbers = transitions_from_episodes(episodes)
    np.testing.assert_array_equal(numbers.X, cells[:, None])


def test_both_estimators_take_them():
    log = transitions_from_episodes([walk(20, seed % 2 == 0, seed) for seed in range(20)])
    value = BellmanValueEstimator(0.5, "lstd").fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
    timed = BellmanValueEstimator(0.5, "lstd").fit(log.X, log.y, episode=log.episode, terminal=log.terminal)
    assert value.coef_ == pytest.approx(timed.coef_, abs=0.1)
    q = ActionValueEstimator(gamma=0.5)
    q.fit(log.X, log.y, action=log.action, next_X=log.next_X, terminal=log.terminal, episode=log.episode)
    assert q.policy(log.X).shape == (400,)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Minari asks who made the data set
def test_a_data_set_of_minari(tmp_path, monkeypatch):
    """Written here: two environments' worth of episodes, of which the loader knows the space."""
    minari = pytest.importorskip("minari")
    pytest.importorskip("pyarrow")
    gymnasium = pytest.importorskip("gymnasium")
    from minari.data_collector.episode_buffer import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    rng, buffers = np.random.default_rng(0), []
    for number, n in enumerate((5, 3, 8)):
        steps = np.arange(n) == n - 1
        buffers.append(EpisodeBuffer(
            id=number, observations=rng.integers(4, size=n + 1), actions=rng.integers(2, size=n),
            rewards=rng.normal(size=n).tolist(), terminations=(steps & (number != 1)).tolist(),
            truncations=(steps & (number == 1)).tolist(),
        ))  # fmt: skip
    minari.create_dataset_from_buffers(
        "ours/cells-v0", buffers, observation_space=gymnasium.spaces.Discrete(4),
        action_space=gymnasium.spaces.Discrete(2), data_format="arrow",
    )
    log = transitions_from_episodes(minari.load_dataset("ours/cells-v0"))
    np.testing.assert_array_equal(log.X.argmax(axis=1), np.concatenate([part.observations[:-1] for part in buffers]))
    np.testing.assert_array_equal(log.action, np.concatenate([part.actions for part in buffers]))
    assert log.X.shape == (16, 4) and list(np.flatnonzero(log.terminal)) == [4, 15]
    np.testing.assert_array_equal(np.bincount(log.episode), [5, 3, 8])


# what is refused


def spoilt(**parts):
    return [as_dicts(EPISODES[0]), as_dicts(EPISODES[1]) | parts]


@pytest.mark.parametrize(
    "episodes, message",
    [
        (3, "episodes must be a sequence of episodes, got 3"),
        (as_dicts(EPISODES[0]), "episodes must be a sequence of episodes"),
        ([], "episodes must have a step.*got none"),
        ([3], "episodes must have observations, actions, rewards, got episode 0 without observations and actions"),
        ([{"observations": [[1.0]], "actions": []}], "got episode 0 without rewards"),
        ([tuple(range(6))], "episodes must have up to 5 parts, got 6 in episode 0"),
        (spoilt(rewards=[1.0, np.nan]), "rewards must be finite, got nan in step 1 of episode 1"),
        (spoilt(rewards=["a", "b"]), "rewards must be numbers.*in episode 1"),
        (spoilt(rewards=[[1.0], [2.0]]), r"rewards must be one for each step, got shape \(2, 1\) in episode 1"),
        (spoilt(actions=[0.0, np.nan]), "actions must be finite, got nan in step 1 of episode 1"),
        (spoilt(actions=np.array([[0.0, 1.0], [np.inf, 1.0]])), "actions must be finite.*step 1 of episode 1"),
        (spoilt(actions=[1, None]), "actions must be finite, got None in step 1 of episode 1"),
        (spoilt(actions=[1]), "actions must be as many as rewards, 2, got 1 in episode 1"),
        (spoilt(observations=np.zeros((5, 2))), "observations must be 3, one more.*or 2, got 5 in episode 1"),
        (spoilt(observations=np.zeros((3, 4))), "observations must have the same columns.*got 4 in episode 1 and 2"),
        (spoilt(observations=[[0, 0], [np.nan, 0], [0, 0]]), "observations must be finite.*step 1 of episode 1"),
        (spoilt(terminations=[True, False]), "terminations must be False before the last step.*step 0 of episode 1"),
        (spoilt(terminations=[0.5, 0.5]), "terminations must be booleans.*in episode 1"),
        (spoilt(terminations=[True] * 3), r"terminations must be booleans, one or 2.*shape \(3,\) in episode 1"),
    ],
)
def test_episodes_that_do_not_fit(episodes, message):
    with pytest.raises(ValueError, match=message):
        transitions_from_episodes(episodes)


def test_states_that_are_not_of_the_space():
    spaces = pytest.importorskip("gymnasium").spaces
    episode = {"observations": [0, 7, 1], "actions": [0, 0], "rewards": [0, 0]}
    with pytest.raises(ValueError, match=r"observations must be of their space, Discrete\(4\); got 7"):
        transitions_from_episodes([episode], observation_space=spaces.Discrete(4))
    with pytest.raises(ValueError, match="observation_space must have observations of Box.*Text"):
        transitions_from_episodes([episode], observation_space=spaces.Text(4))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("estimator", [BellmanValueEstimator(0.5, "lstd"), ActionValueEstimator(gamma=0.5)])
def test_the_row_of_a_reward_that_is_none_is_named(estimator, bad):
    log = transitions_from_episodes(EPISODES)
    given = {"next_X": log.next_X, "terminal": log.terminal}
    given |= {"action": log.action} if isinstance(estimator, ActionValueEstimator) else {}
    log.y[4] = bad
    with pytest.raises(ValueError, match=f"y must be finite, got {bad} in row 4"):
        estimator.fit(log.X, log.y, **given)
