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
    assert list(log) == list(expected)
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
    for name, of in (
        ("X", lambda e: e.observations[:-1]), ("next_X", lambda e: e.observations[1:]),
        ("y", lambda e: e.rewards), ("action", lambda e: e.actions),
    ):  # fmt: skip
        expected = np.concatenate([of(episode) for episode in EPISODES])
        np.testing.assert_array_equal(log[name], expected)
    assert list(np.flatnonzero(log.terminal)) == [2, 5] and log.terminal.dtype == bool
    assert list(log.episode) == [0, 0, 0, 1, 1, 2]
    assert list(log.time) == [0, 1, 2, 4, 5, 7]
    no_ends = [{name: getattr(e, name) for name in NAMES[:3]} for e in EPISODES]
    assert not transitions_from_episodes(no_ends).terminal.any()


@pytest.mark.parametrize("form", [SimpleNamespace, dict])
def test_other_names_for_ends_are_refused(form):
    parts = {"observations": [[0.0], [1.0]], "actions": [1, 1], "rewards": [0.0, 1.0]}
    parts["terminals"] = [False, True]
    message = "must have terminations.*episode 0 with terminals in their place"
    with pytest.raises(ValueError, match=message):
        transitions_from_episodes([form(**parts)])
    both = form(**parts, terminations=[False, True])
    assert list(transitions_from_episodes([both]).terminal) == [False, True]


def test_next_observations_are_the_successors():
    parts = {"actions": [0, 1, 0], "rewards": [1, 2, 3]}
    parts["next_observations"] = [[10.0], [11.0], [12.0]]
    for n in (3, 4):
        episode = {"observations": np.arange(n)[:, None]} | parts
        log = transitions_from_episodes([episode] * 2)
        assert list(log.X.ravel()) == [0, 1, 2] * 2
        assert list(log.next_X.ravel()) == [10, 11, 12] * 2
        assert not log.terminal.any() and list(log.time) == [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("kind", ["dict", "list of dicts", "tuple"])
def test_observations_of_several_parts(kind):
    place, cell = np.arange(8.0).reshape(4, 2), np.array([0, 2, 1, 2])
    rows = zip(place, cell, strict=True)
    seen = {
        "dict": {"place": place, "cell": cell},
        "list of dicts": [{"place": p, "cell": c} for p, c in rows],
        "tuple": (place, cell),
    }[kind]
    episode = {"observations": seen, "actions": [0, 1, 0], "rewards": [1, 2, 3]}
    log = transitions_from_episodes([episode])
    np.testing.assert_array_equal(log.X, np.c_[place, cell][:-1])
    spaces = pytest.importorskip("gymnasium").spaces
    parts = spaces.Box(0, 9, (2,)), spaces.Discrete(3)
    space, expected = spaces.Tuple(parts), [place, np.eye(3)[cell]]
    if kind != "tuple":  # Gymnasium sorts the keys
        space = spaces.Dict({"place": parts[0], "cell": parts[1]})
        expected = expected[::-1]
    log = transitions_from_episodes([episode], observation_space=space)
    np.testing.assert_array_equal(log.next_X, np.hstack(expected)[1:])
    log = transitions_from_episodes([episode], observation_space=space, one_hot=False)
    assert log.X.shape == (3, 3)


def recorded(seed=0, limit=6, n_episodes=30):
    """Episodes of a walk that ends beyond 2, or is cut off after some steps; each with
    one more observation."""
    rng, episodes = np.random.default_rng(seed), []
    for _ in range(n_episodes):
        seen, actions = [rng.uniform(-1, 1, size=2)], []
        while len(actions) < limit and abs(seen[-1]).max() <= 2:
            actions.append(rng.integers(3))
            seen.append(seen[-1] + rng.normal(size=2))
        seen, ends = np.array(seen, np.float32), bool(abs(seen[-1]).max() > 2)
        episode = {"observations": seen, "actions": actions, "rewards": seen[1:, 0]}
        episodes.append(episode | {"terminations": ends, "truncations": not ends})
    return episodes


def flat(episodes, **more):
    """The arrays of D4RL: as many observations as steps, and bools at the last step of
    each episode."""
    parts = []
    for e in episodes:
        last = np.arange(len(e["rewards"])) == len(e["rewards"]) - 1
        ends, cut = last & e["terminations"], last & e["truncations"]
        parts.append((e["observations"][:-1], e["actions"], e["rewards"], ends, cut))
    names = "observations", "actions", "rewards", "terminals", "timeouts"
    columns = map(np.concatenate, zip(*parts, strict=True))
    return dict(zip(names, columns, strict=True)) | more


RECORDED = recorded()
AFTER = np.concatenate([e["observations"][1:] for e in RECORDED])


def test_arrays_of_d4rl_and_d3rlpy():
    """D4RL has bools and one axis; d3rlpy has numbers of float32, and columns of shape
    (n, 1)."""
    arrays = flat(RECORDED)
    assert arrays["terminals"].any() and arrays["timeouts"].any()
    expected = transitions_from_episodes(
        e | {"observations": e["observations"][:-1]} for e in RECORDED
    )
    same(transitions_from_arrays(*arrays.values()), expected)
    for name in ("terminals", "timeouts"):
        arrays[name] = arrays[name].astype(np.float32)
    for name in ("actions", "rewards", "terminals", "timeouts"):
        arrays[name] = arrays[name][:, None]
    same(transitions_from_arrays(**arrays), expected)


def test_the_last_row_of_the_arrays():
    """It is kept if it is terminal only. What was cut off there, or would have gone on,
    has no successor."""
    arrays = np.array([[0.0], [1.0], [2.0]]), [0, 1, 0], [1, 2, 3]
    for end, timeouts in ((0, None), (0, [0, 0, 1]), (1, None), (1, [0, 0, 1])):
        log = transitions_from_arrays(*arrays, [0, 0, end], timeouts)
        assert list(log.X.ravel()) == [0, 1, 2][: 2 + end]
        assert list(log.next_X.ravel()[:2]) == [1, 2]
        assert list(log.terminal) == [False, False, True][: 2 + end]
    one_step = transitions_from_arrays(
        np.arange(5.0), [0] * 5, np.ones(5), np.zeros(5), [0, 1, 1, 0, 1]
    )
    assert list(one_step.episode) == [0, 2] and one_step.time[1] > one_step.time[0] + 1


def test_next_observations_keep_all_rows():
    arrays = flat(RECORDED, next_observations=AFTER)
    expected = transitions_from_episodes(RECORDED)
    same(transitions_from_arrays(**arrays), expected)
    # as a replay buffer or d4rl.qlearning_dataset has them: where a successor is not
    # the next row, an episode begins
    del arrays["timeouts"]
    same(transitions_from_arrays(**arrays), expected)
    arrays["next_observations"] = AFTER.astype(float) * (1 + 1e-8)
    found = transitions_from_arrays(**arrays)
    np.testing.assert_array_equal(found.episode, expected.episode)
    order = np.random.default_rng(0).permutation(len(AFTER))
    shuffled = {name: part[order] for name, part in arrays.items()}
    found = transitions_from_arrays(**shuffled)
    assert len(np.unique(found.episode)) > 0.9 * len(order)


def test_observations_of_a_space_and_images():
    spaces = pytest.importorskip("gymnasium").spaces
    images = np.arange(12.0).reshape(2, 3, 2)
    log = transitions_from_arrays(images, [0, 1], [0.0, 1.0], [0, 1])
    np.testing.assert_array_equal(log.X, np.arange(12.0).reshape(2, 6))
    arrays = [0, 2, 1], [0] * 3, [0] * 3, [0, 0, 1]
    log = transitions_from_arrays(*arrays, observation_space=spaces.Discrete(3))
    np.testing.assert_array_equal(log.X, np.eye(3)[[0, 2, 1]])
    cells = {"observations": [0, 7, 1], "actions": [0, 0], "rewards": [0, 0]}
    message = r"observations must be of their space, Discrete\(4\); got 7"
    with pytest.raises(ValueError, match=message):
        transitions_from_episodes([cells], observation_space=spaces.Discrete(4))
