"""Episodes behind each other in flat arrays, in the forms that D4RL, d3rlpy and replay buffers write."""

import numpy as np
import pytest

from sk_stormc import ActionValueEstimator, BellmanValueEstimator
from sk_stormc.datasets import transitions_from_arrays, transitions_from_episodes

NAMES = "observations", "actions", "rewards", "terminals", "timeouts"


def recorded(seed=0, limit=6, n_episodes=30):
    """Episodes of a walk that ends beyond 2, or is cut off after some steps; each with one more observation."""
    rng, episodes = np.random.default_rng(seed), []
    for _ in range(n_episodes):
        seen, actions, rewards = [rng.normal(size=2)], [], []
        while len(actions) < limit and abs(seen[-1]).max() <= 2:
            actions.append(rng.integers(3))
            seen.append(seen[-1] + rng.normal(size=2))
            rewards.append(seen[-1][0])
        ended = abs(seen[-1]).max() > 2
        if actions:
            episodes.append({"observations": np.array(seen), "actions": actions, "rewards": rewards,
                             "terminations": bool(ended), "truncations": not ended})  # fmt: skip
    return episodes


def flat(episodes, **more):
    """The arrays of D4RL: as many observations as steps, and bools at the last step of each episode."""
    last = [np.arange(len(e["rewards"])) == len(e["rewards"]) - 1 for e in episodes]
    return {
        "observations": np.concatenate([e["observations"][:-1] for e in episodes]).astype(np.float32),
        "actions": np.concatenate([e["actions"] for e in episodes]),
        "rewards": np.concatenate([e["rewards"] for e in episodes]).astype(np.float32),
        "terminals": np.concatenate([part & e["terminations"] for part, e in zip(last, episodes, strict=True)]),
        "timeouts": np.concatenate([part & e["truncations"] for part, e in zip(last, episodes, strict=True)]),
    } | more


def after(episodes):
    return np.concatenate([e["observations"][1:] for e in episodes]).astype(np.float32)


def without_the_last(episodes):
    """The same episodes without the observation behind the last step."""
    return [e | {"observations": e["observations"][:-1].astype(np.float32), "rewards": np.float32(e["rewards"])}
            for e in episodes]  # fmt: skip


def same(log, expected):
    assert sorted(log) == sorted(expected) == ["X", "action", "episode", "next_X", "terminal", "time", "y"]
    for name in expected:
        np.testing.assert_array_equal(log[name], expected[name], err_msg=name)
        assert log[name].dtype.kind == expected[name].dtype.kind


EPISODES = recorded()


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("flags", [bool, int, np.float32, np.uint8])
def test_arrays_of_d4rl_and_d3rlpy(column, flags):
    """D4RL has bools and one axis; d3rlpy has numbers of float32, and columns of shape (n, 1)."""
    arrays = flat(EPISODES)
    assert arrays["terminals"].any() and arrays["timeouts"].any()
    for name in ("terminals", "timeouts"):
        arrays[name] = arrays[name].astype(flags)
    if column:
        arrays |= {name: arrays[name][:, None] for name in NAMES[1:]}
    same(transitions_from_arrays(**arrays), transitions_from_episodes(without_the_last(EPISODES)))
    same(transitions_from_arrays(*arrays.values()), transitions_from_episodes(without_the_last(EPISODES)))


def test_the_last_row_of_the_arrays():
    """It is kept if it is terminal only. What was cut off there, or would have gone on, has no successor."""
    arrays = {"observations": [[0.0], [1.0], [2.0]], "actions": [0, 1, 0], "rewards": [1, 2, 3]}
    for last in ({"terminals": [0, 0, 0]}, {"terminals": [0, 0, 0], "timeouts": [0, 0, 1]}):
        log = transitions_from_arrays(**arrays, **last)
        assert list(log.X.ravel()) == [0, 1] and list(log.next_X.ravel()) == [1, 2] and not log.terminal.any()
    for last in ({"terminals": [0, 0, 1]}, {"terminals": [0, 0, 1], "timeouts": [0, 0, 1]}):
        log = transitions_from_arrays(**arrays, **last)
        assert list(log.X.ravel()) == [0, 1, 2] and list(log.terminal) == [False, False, True]


def test_next_observations_keep_all_rows():
    arrays = flat(EPISODES, next_observations=after(EPISODES))
    names = "observations", "rewards"
    expected = transitions_from_episodes(e | {name: np.float32(e[name]) for name in names} for e in EPISODES)
    same(transitions_from_arrays(**arrays), expected)
    # as a replay buffer or d4rl.qlearning_dataset has them: where a successor is not the next row, an episode begins
    del arrays["timeouts"]
    same(transitions_from_arrays(**arrays), expected)
    arrays["next_observations"] = after(EPISODES).astype(float) * (1 + 1e-8)
    np.testing.assert_array_equal(transitions_from_arrays(**arrays).episode, expected.episode)
    order = np.random.default_rng(0).permutation(len(arrays["rewards"]))
    log = transitions_from_arrays(**{name: part[order] for name, part in arrays.items()})
    assert len(np.unique(log.episode)) > 0.9 * len(order)


def test_an_episode_of_one_step_that_is_cut_off_leaves_no_row():
    log = transitions_from_arrays(
        np.arange(5.0), [0] * 5, np.ones((5, 1)), np.zeros(5), np.array([0, 1, 1, 0, 1])[:, None],
    )  # fmt: skip
    assert list(log.X.ravel()) == [0, 3] and list(log.next_X.ravel()) == [1, 4]
    assert list(log.episode) == [0, 2] and log.time[1] > log.time[0] + 1


def test_observations_of_any_form():
    arrays = flat(EPISODES)
    expected = transitions_from_arrays(**arrays)
    seen = arrays["observations"]
    images = transitions_from_arrays(**arrays | {"observations": np.repeat(seen[:, :, None], 3, axis=2)})
    assert images.X.shape == (len(expected.y), 6)
    np.testing.assert_array_equal(images.X[:, ::3], expected.X)
    parts = {"left": seen[:, 0], "right": seen[:, 1]}
    behind = {"right": after(EPISODES)[:, 1], "left": after(EPISODES)[:, 0]}
    log = transitions_from_arrays(**arrays | {"observations": parts}, next_observations=behind)
    np.testing.assert_array_equal(log.X, seen)
    np.testing.assert_array_equal(log.next_X, after(EPISODES))
    spaces = pytest.importorskip("gymnasium").spaces
    cells = np.array([0.0, 2.0, 1.0, 2.0], np.float32)
    given = {"actions": [0] * 4, "rewards": [0.0] * 4, "terminals": [0, 0, 0, 1]}
    given["observation_space"] = spaces.Discrete(3)
    np.testing.assert_array_equal(transitions_from_arrays(cells, **given).X, np.eye(3)[[0, 2, 1, 2]])
    np.testing.assert_array_equal(transitions_from_arrays(cells[:, None], **given, one_hot=False).X, cells[:, None])
    with pytest.raises(ValueError, match=r"observations must be of their space, Discrete\(3\); got 3"):
        transitions_from_arrays(cells + 1, **given)


def test_both_estimators_take_them():
    arrays = flat(recorded(n_episodes=100))
    log = transitions_from_arrays(**arrays)
    value = BellmanValueEstimator(0.5, "lstd").fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
    timed = BellmanValueEstimator(0.5, "lstd").fit(log.X, log.y, episode=log.episode, terminal=log.terminal)
    np.testing.assert_allclose(value.coef_, timed.coef_, atol=0.3)
    q = ActionValueEstimator(gamma=0.5)
    q.fit(log.X, log.y, action=log.action, next_X=log.next_X, terminal=log.terminal, episode=log.episode)
    assert q.predict(log.X).shape == (len(log.y), 3)


def spoilt(**parts):
    return flat(EPISODES[:2]) | parts


N = len(flat(EPISODES[:2])["rewards"])


@pytest.mark.parametrize(
    "arrays, message",
    [
        (spoilt(rewards=np.full(N, np.nan)), "rewards must be finite, got nan in row 0"),
        (spoilt(rewards=np.zeros((N, 2))), rf"rewards must be one for each row, got shape \({N}, 2\)"),
        (spoilt(rewards=[]), r"rewards must be one for each row, got shape \(0,\)"),
        (spoilt(rewards=["a"] * N), "rewards must be numbers"),
        (spoilt(observations=np.zeros((N + 1, 2))), f"observations must be as many as rewards, {N}, got {N + 1}"),
        (spoilt(observations=np.full((N, 2), np.inf)), "observations must be finite, got inf in row 0"),
        (spoilt(next_observations=np.zeros((N, 3))), "next_observations must have the same columns.*got 3 in .* and 2"),
        (spoilt(next_observations=np.zeros((2, 2))), f"next_observations must be as many as rewards, {N}, got 2"),
        (spoilt(next_observations=np.full((N, 2), np.nan)), "next_observations must be finite, got nan in row 0"),
        (spoilt(actions=np.zeros(N - 1)), f"actions must be one for each of the {N} rows"),
        (spoilt(actions=3), f"actions must be one for each of the {N} rows"),
        (spoilt(actions=[np.nan] * N), "actions must be finite, got .*nan.* in row 0"),
        (spoilt(terminals=np.full(N, 2)), f"terminals must be {N} booleans, or 0 and 1, got int64"),
        (spoilt(terminals=True), f"terminals must be {N} booleans, or 0 and 1, got bool of shape"),
        (spoilt(terminals=["no"] * N), f"terminals must be {N} booleans"),
        (spoilt(timeouts=np.zeros(3)), f"timeouts must be {N} booleans, or 0 and 1, got float64 of shape"),
        (spoilt(terminals=np.zeros(N), timeouts=np.ones(N)), "observations must have a row that has a successor or is"),
        (spoilt(one_hot="no"), "one_hot must be True or False"),
    ],
)
def test_arrays_that_do_not_fit(arrays, message):
    with pytest.raises(ValueError, match=message):
        transitions_from_arrays(**arrays)
