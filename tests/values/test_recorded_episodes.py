"""Transitions of recorded episodes: lists of them, flat arrays, data sets of Minari."""

from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

from sk_stormc.datasets import transitions_from_arrays, transitions_from_episodes

NAMES = "observations", "actions", "rewards", "terminations", "truncations"


def walk(n, end, seed=0):
    """An episode of n steps, as Minari has it."""
    rng, last = np.random.default_rng(seed), np.arange(n) == n - 1
    return SimpleNamespace(
        id=seed,
        observations=rng.normal(size=(n + 1, 2)).astype(np.float32),
        actions=rng.integers(3, size=n),
        rewards=rng.normal(size=n),
        terminations=last & end,
        truncations=last & (not end),
        infos={"mass": np.ones(n)},
    )


EPISODES = [walk(3, True, 0), walk(2, False, 1), walk(1, True, 2)]
Named = namedtuple("Named", "rewards observations terminations actions")


def as_dicts(episode):
    return {name: getattr(episode, name) for name in NAMES}


def same(log, expected):
    assert (
        sorted(log)
        == sorted(expected)
        == ["X", "action", "episode", "next_X", "terminal", "time", "y"]
    )
    for name in expected:
        np.testing.assert_array_equal(log[name], expected[name], err_msg=name)
        assert log[name].dtype.kind == expected[name].dtype.kind


FORMS = [
    lambda episode: episode,
    lambda episode: [getattr(episode, name).tolist() for name in NAMES],
    lambda episode: Named(*(getattr(episode, name) for name in Named._fields)),
    lambda episode: (
        as_dicts(episode)
        | {"terminations": bool(episode.terminations[-1]), "truncations": None}
    ),
]


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_an_episode(form):
    log = transitions_from_episodes(form(episode) for episode in EPISODES)
    np.testing.assert_array_equal(
        log.X, np.vstack([episode.observations[:-1] for episode in EPISODES])
    )
    np.testing.assert_array_equal(
        log.next_X, np.vstack([episode.observations[1:] for episode in EPISODES])
    )
    np.testing.assert_array_equal(
        log.y, np.concatenate([episode.rewards for episode in EPISODES])
    )
    np.testing.assert_array_equal(
        log.action, np.concatenate([episode.actions for episode in EPISODES])
    )
    assert (
        list(log.terminal) == [False, False, True, False, False, True]
        and log.terminal.dtype == bool
    )
    assert list(log.episode) == [0, 0, 0, 1, 1, 2] and list(log.time) == [
        0,
        1,
        2,
        4,
        5,
        7,
    ]
    no_ends = [
        {name: as_dicts(episode)[name] for name in NAMES[:3]} for episode in EPISODES
    ]
    assert not transitions_from_episodes(no_ends).terminal.any()


@pytest.mark.parametrize("form", [lambda **parts: SimpleNamespace(**parts), dict])
def test_other_names_for_ends_are_refused(form):
    parts = {
        "observations": [[0.0], [1.0]],
        "actions": [1, 1],
        "rewards": [0.0, 1.0],
        "terminals": [False, True],
    }
    with pytest.raises(
        ValueError,
        match="episodes must have terminations.*episode 0 with terminals in their "
        "place",
    ):
        transitions_from_episodes([form(**parts)])
    both = form(**parts, terminations=[False, True])
    assert list(transitions_from_episodes([both]).terminal) == [False, True]


def test_next_observations_are_the_successors():
    parts = {
        "actions": [0, 1, 0],
        "rewards": [1, 2, 3],
        "next_observations": [[10.0], [11.0], [12.0]],
    }
    for observations in ([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0], [3.0]]):
        log = transitions_from_episodes([{"observations": observations} | parts] * 2)
        assert (
            list(log.X.ravel()) == [0, 1, 2] * 2
            and list(log.next_X.ravel()) == [10, 11, 12] * 2
        )
        assert not log.terminal.any() and list(log.time) == [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("kind", ["dict", "list of dicts", "tuple"])
def test_observations_of_several_parts(kind):
    place, cell = np.arange(8.0).reshape(4, 2), np.array([0, 2, 1, 2])
    seen = {
        "dict": {"place": place, "cell": cell},
        "list of dicts": [
            {"place": p, "cell": c} for p, c in zip(place, cell, strict=True)
        ],
        "tuple": (place, cell),
    }[kind]
    log = transitions_from_episodes(
        [{"observations": seen, "actions": [0, 1, 0], "rewards": [1, 2, 3]}]
    )
    np.testing.assert_array_equal(log.X, np.c_[place, cell][:-1])
    spaces = pytest.importorskip("gymnasium").spaces
    parts = spaces.Box(0, 9, (2,)), spaces.Discrete(3)
    space = (
        spaces.Tuple(parts)
        if kind == "tuple"
        else spaces.Dict({"place": parts[0], "cell": parts[1]})
    )
    episode = {"observations": seen, "actions": [0, 1, 0], "rewards": [1, 2, 3]}
    given = {"episodes": [episode], "observation_space": space}
    # Gymnasium sorts the keys
    ordered = [place, np.eye(3)[cell]] if kind == "tuple" else [np.eye(3)[cell], place]
    np.testing.assert_array_equal(
        transitions_from_episodes(**given).next_X, np.hstack(ordered)[1:]
    )
    assert transitions_from_episodes(**given, one_hot=False).X.shape == (3, 3)


def recorded(seed=0, limit=6, n_episodes=30):
    """Episodes of a walk that ends beyond 2, or is cut off after some steps; each with
    one more observation."""
    rng, episodes = np.random.default_rng(seed), []
    for _ in range(n_episodes):
        seen, actions, rewards = [rng.normal(size=2)], [], []
        while len(actions) < limit and abs(seen[-1]).max() <= 2:
            actions.append(rng.integers(3))
            seen.append(seen[-1] + rng.normal(size=2))
            rewards.append(seen[-1][0])
        ended = abs(seen[-1]).max() > 2
        if actions:
            episodes.append(
                {
                    "observations": np.array(seen),
                    "actions": actions,
                    "rewards": rewards,
                    "terminations": bool(ended),
                    "truncations": not ended,
                }
            )
    return episodes


def flat(episodes, **more):
    """The arrays of D4RL: as many observations as steps, and bools at the last step of
    each episode."""
    last = [np.arange(len(e["rewards"])) == len(e["rewards"]) - 1 for e in episodes]
    return {
        "observations": np.concatenate(
            [e["observations"][:-1] for e in episodes]
        ).astype(np.float32),
        "actions": np.concatenate([e["actions"] for e in episodes]),
        "rewards": np.concatenate([e["rewards"] for e in episodes]).astype(np.float32),
        "terminals": np.concatenate(
            [part & e["terminations"] for part, e in zip(last, episodes, strict=True)]
        ),
        "timeouts": np.concatenate(
            [part & e["truncations"] for part, e in zip(last, episodes, strict=True)]
        ),
    } | more


def after(episodes):
    return np.concatenate([e["observations"][1:] for e in episodes]).astype(np.float32)


def without_the_last(episodes):
    """The same episodes without the observation after the last step."""
    return [
        e
        | {
            "observations": e["observations"][:-1].astype(np.float32),
            "rewards": np.float32(e["rewards"]),
        }
        for e in episodes
    ]


RECORDED = recorded()


def test_arrays_of_d4rl_and_d3rlpy():
    """D4RL has bools and one axis; d3rlpy has numbers of float32, and columns of shape
    (n, 1)."""
    arrays = flat(RECORDED)
    assert arrays["terminals"].any() and arrays["timeouts"].any()
    expected = transitions_from_episodes(without_the_last(RECORDED))
    same(transitions_from_arrays(*arrays.values()), expected)
    for name in ("terminals", "timeouts"):
        arrays[name] = arrays[name].astype(np.float32)
    arrays |= {
        name: arrays[name][:, None]
        for name in ("actions", "rewards", "terminals", "timeouts")
    }
    same(transitions_from_arrays(**arrays), expected)


def test_the_last_row_of_the_arrays():
    """It is kept if it is terminal only. What was cut off there, or would have gone on,
    has no successor."""
    arrays = {
        "observations": [[0.0], [1.0], [2.0]],
        "actions": [0, 1, 0],
        "rewards": [1, 2, 3],
    }
    for end, timeouts in ((0, None), (0, [0, 0, 1]), (1, None), (1, [0, 0, 1])):
        log = transitions_from_arrays(
            **arrays, terminals=[0, 0, end], timeouts=timeouts
        )
        assert list(log.X.ravel()) == [0, 1, 2][: 2 + end] and list(
            log.next_X.ravel()[:2]
        ) == [1, 2]
        assert list(log.terminal) == [False, False, True][: 2 + end]
    one_step = transitions_from_arrays(
        np.arange(5.0), [0] * 5, np.ones(5), np.zeros(5), [0, 1, 1, 0, 1]
    )
    assert list(one_step.episode) == [0, 2] and one_step.time[1] > one_step.time[0] + 1


def test_next_observations_keep_all_rows():
    arrays = flat(RECORDED, next_observations=after(RECORDED))
    names = "observations", "rewards"
    expected = transitions_from_episodes(
        e | {name: np.float32(e[name]) for name in names} for e in RECORDED
    )
    same(transitions_from_arrays(**arrays), expected)
    # as a replay buffer or d4rl.qlearning_dataset has them: where a successor is not
    # the next row, an episode begins
    del arrays["timeouts"]
    same(transitions_from_arrays(**arrays), expected)
    arrays["next_observations"] = after(RECORDED).astype(float) * (1 + 1e-8)
    np.testing.assert_array_equal(
        transitions_from_arrays(**arrays).episode, expected.episode
    )
    order = np.random.default_rng(0).permutation(len(arrays["rewards"]))
    log = transitions_from_arrays(
        **{name: part[order] for name, part in arrays.items()}
    )
    assert len(np.unique(log.episode)) > 0.9 * len(order)


def test_observations_of_a_space_and_images():
    spaces = pytest.importorskip("gymnasium").spaces
    images = transitions_from_arrays(
        np.arange(12.0).reshape(2, 3, 2), [0, 1], [0.0, 1.0], [0, 1]
    )
    np.testing.assert_array_equal(images.X, np.arange(12.0).reshape(2, 6))
    cells = transitions_from_arrays(
        [0, 2, 1], [0] * 3, [0] * 3, [0, 0, 1], observation_space=spaces.Discrete(3)
    )
    np.testing.assert_array_equal(cells.X, np.eye(3)[[0, 2, 1]])
    cells = {"observations": [0, 7, 1], "actions": [0, 0], "rewards": [0, 0]}
    with pytest.raises(
        ValueError, match=r"observations must be of their space, Discrete\(4\); got 7"
    ):
        transitions_from_episodes([cells], observation_space=spaces.Discrete(4))
