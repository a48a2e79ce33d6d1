"""Logs as people have them: what would give a wrong answer without a word is said, or refused."""

import warnings

import numpy as np
import pytest

from sk_stormc import ActionValueEstimator, BellmanValueEstimator, off_policy_value
from sk_stormc.datasets import transitions_from_episodes
from sk_stormc.values.lstd import Moments

N, STATES = 5, np.eye(5)


def walk(n_episodes=60, seed=0):
    """A walk to either side of five states, whose right end is worth 1: columns, actions and times in the episodes."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(n_episodes):
        s, t = rng.integers(N), 0
        while 0 <= s < N:
            action = rng.integers(2)
            to = s + 2 * action - 1
            rows.append((s, np.clip(to, 0, N - 1), float(to == N), not 0 <= to < N, episode, action, t))
            s, t = to, t + 1
    s, to, y, terminal, episode, action, time = (np.array(column) for column in zip(*rows, strict=True))
    return {"X": STATES[s], "y": y, "next_X": STATES[to], "terminal": terminal, "episode": episode}, action, time


def some(parts, rows, *left_out):
    return {name: part[rows] for name, part in parts.items() if name not in left_out}


def value(**params):
    return BellmanValueEstimator(0.9, "lstd", fit_intercept=False, **params)


def shuffled(n):
    return np.random.default_rng(3).permutation(n)


def test_ratios_that_are_swapped_or_miss_actions_warn():
    parts, action, _ = walk(200)
    for first in (0.5, 0.7, 0.9):
        ratio = np.where(action == 0, first, 1 - first) / 0.5
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value().fit(**parts, importance_ratio=ratio)
    for wrong in (1 / ratio, np.full(len(ratio), 2.0), np.where(action == 0, 0.5, 0.0)):
        with pytest.warns(UserWarning, match="importance_ratio is .* on average, but should be about 1"):
            value().fit(**parts, importance_ratio=wrong)
        with pytest.warns(UserWarning, match="importance_ratio is .* on average, but should be about 1"):
            off_policy_value(parts["y"], wrong, parts["episode"])


def test_ratios_that_leave_a_few_rows_warn():
    parts, _, _ = walk()
    ratio = np.where(np.arange(len(parts["y"])) == 3, 1e200, 1.0)
    with pytest.warns(UserWarning, match="effective sample size is 1:"):
        value().fit(**parts, importance_ratio=ratio)


def test_products_of_ratios_that_overflow_are_refused_and_huge_ones_warn():
    parts, _, _ = walk()
    y, episode = parts["y"], parts["episode"]
    with pytest.raises(ValueError, match="importance_ratio must have finite products within episodes, got .*1e\\+100"):
        off_policy_value(y, np.full(len(y), 1e100), episode, method="pdis")
    with pytest.warns(UserWarning, match="effective number is 1 "):
        found = off_policy_value(y, np.where(np.arange(len(y)) == 3, 1e200, 1.0), episode)
    assert found.effective_size == 1.0


@pytest.mark.parametrize("method", ["wpdis", "dr"])
def test_rows_of_episodes_in_any_order_by_time(method):
    parts, action, time = walk()
    ratio = np.where(action == 1, 1.2, 0.8)
    at = np.lexsort((shuffled(len(time)), parts["episode"]))
    target = lambda X: np.tile([0.4, 0.6], (len(X), 1))  # noqa: E731
    given = some(parts, slice(None), "y", "episode") | {"action": action} if method == "dr" else {}
    how = {"method": method, "target": target}
    expected = off_policy_value(parts["y"], ratio, parts["episode"], **how, **given)
    given = {name: part[at] for name, part in given.items()}
    found = off_policy_value(parts["y"][at], ratio[at], parts["episode"][at], time=time[at], **how, **given)
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    with pytest.raises(ValueError, match="next_X must have .* rows, as y has"):
        wrong = given | how | {"method": "dr", "X": parts["X"], "next_X": parts["X"][1:], "action": action}
        off_policy_value(parts["y"][at], ratio, parts["episode"][at], time=time[at], **wrong)


def test_episodes_with_other_names_for_their_ends():
    episode = {"observations": [[0.0], [1.0], [2.0]], "actions": [1, 1], "rewards": [0.0, 1.0]}
    for name in ("dones", "terminals", "terminated"):
        with pytest.raises(ValueError, match=f"episodes must have terminations, .* episode 0 with {name}"):
            transitions_from_episodes([episode | {name: [False, True]}])
        transitions_from_episodes([episode | {name: [False, True], "terminations": [False, True]}])
    with pytest.raises(ValueError, match="truncations must be False before the last step of an episode"):
        transitions_from_episodes([episode | {"truncations": [True, False]}])
    assert not transitions_from_episodes([episode | {"truncations": [False, True]}]).terminal.any()


def test_a_half_life_needs_an_order():
    parts, _, time = walk()
    at = shuffled(len(time))
    expected = value(half_life=50).fit(**some(parts, slice(None), "next_X"), time=time).predict(STATES)
    with pytest.raises(ValueError, match="half_life must be None if rows are not in the order"):
        value(half_life=50).fit(**some(parts, at, "next_X"), time=time[at])
    clock = np.arange(len(time))  # goes on from one episode to the next
    found = value(half_life=50).fit(**some(parts, at, "next_X"), time=clock[at]).predict(STATES)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_chunk_without_terminal_after_one_with_it_warns():
    parts, _, _ = walk()
    stream = value().partial_fit(**some(parts, slice(100)))
    with pytest.warns(UserWarning, match="terminal was given before, and is None here"):
        stream.partial_fit(**some(parts, slice(100, None), "terminal"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value().partial_fit(**some(parts, slice(100))).partial_fit(**some(parts, slice(100, None)))


def test_successors_of_which_nothing_is_known_warn():
    parts, _, _ = walk()
    with pytest.warns(UserWarning, match="of the successors have a feature that no row of X has"):
        value().fit(**some(parts, parts["X"][:, 2] == 0))
    ends = parts["terminal"] | (parts["next_X"][:, 2] > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = parts["X"][:, 2] == 0
        value().fit(**some(parts | {"terminal": ends}, kept, "episode"))


def test_features_whose_squares_vanish_are_refused():
    parts, _, _ = walk()
    tiny = parts | {"X": 1e-170 * parts["X"], "next_X": 1e-170 * parts["next_X"]}
    for fit in (value().partial_fit, value(objective="projected").fit):
        with pytest.raises(ValueError, match="X must have features whose squares are not 0"):
            fit(**tiny)
    assert Moments.none(3).solution(np.zeros(3)).x.tolist() == [0.0, 0.0, 0.0]


def test_actions_to_choose_from():
    parts, action, _ = walk()
    q = ActionValueEstimator(gamma=0.9, fit_intercept=False)
    with pytest.warns(UserWarning, match="action is 1 in all rows that count: there is no other action to choose"):
        q.fit(**some(parts, action == 1, "episode"), action=action[action == 1])
    named = np.array(["left", "right"], dtype=object)[action]
    named[7] = None
    with pytest.raises(ValueError, match="action must be all integers or all strings, got None in row 7"):
        q.fit(**parts, action=named)


def test_episodes_of_one_step_and_of_one_label():
    parts, _, _ = walk()
    alone = some(parts, parts["terminal"])
    alone["episode"] = np.arange(len(alone["y"])).astype(str)
    estimator = value().fit(**alone)
    expected = [alone["y"][alone["X"][:, s] > 0].mean() for s in (0, 4)]
    np.testing.assert_allclose(estimator.predict(STATES[[0, 4]]), expected)
    assert np.isfinite(estimator.predict(STATES[[4]], return_std=True)[1]).all()
    one = some(parts, parts["episode"] == 5)
    with pytest.raises(ValueError, match="at least 2 different labels"):
        value().fit(**one).value_interval(STATES)


@pytest.mark.parametrize("name", ["terminal", "y", "episode", "time", "action", "sample_weight"])
def test_columns_of_polars(name):
    polars = pytest.importorskip("polars")
    parts, action, time = walk()
    parts |= {"time": time, "sample_weight": 1.0 + action}
    column = np.array(["left", "right"])[action]
    for estimator, more in ((value(), {}), (ActionValueEstimator(gamma=0.9, fit_intercept=False), {"action": column})):
        given = some(parts | more, slice(None), "next_X")
        if name not in given:
            continue
        expected = estimator.fit(**given).predict(STATES)
        given[name] = polars.Series(given[name])
        np.testing.assert_array_equal(estimator.fit(**given).predict(STATES), expected)
        given |= {"next_X": parts["next_X"], "time": None}
        score = some(given, slice(None), "time")
        assert estimator.fit(**score).score(**score) < 0
    stream = value().partial_fit(**some(given, slice(None), "action", "time"))
    assert stream.partial_fit(**some(given, slice(None), "action", "time")).coef_.shape == (N,)


def choices(reward, **params):
    """A greedy policy from a log whose rewards are all the same."""
    parts, action, _ = walk(200)
    q = ActionValueEstimator(gamma=0.9, fit_intercept=False, **params)
    return q.fit(**some(parts, slice(None), "y", "episode", "terminal"), y=np.full(len(action), reward), action=action)


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_a_log_that_does_not_tell_actions_apart_warns(alpha):
    with pytest.warns(UserWarning, match="does not tell which action is better: all rewards are 1 and no episode ends"):
        q = choices(1.0, alpha=alpha)
    assert alpha or np.ptp(q.predict(STATES), axis=1).max() < 1e-9
    with pytest.warns(UserWarning, match="does not tell which action is better: all rewards are 0, so that"):
        choices(0.0, alpha=alpha)
    parts, action, _ = walk(200)
    greedy, ones = ActionValueEstimator(gamma=0.9, fit_intercept=False, alpha=alpha), np.ones(len(action))
    with pytest.warns(UserWarning, match="all rewards are 1 and each row ends an episode"):
        greedy.fit(parts["X"], ones, action=action, terminal=np.ones(len(action), dtype=bool))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        greedy.fit(**some(parts, slice(None), "y"), y=ones, action=action)  # the longer an episode, the better
        greedy.fit(**some(parts, slice(None), "terminal"), action=action)
        greedy.set_params(policy=[1] * N).fit(**some(parts, slice(None), "y", "terminal"), y=ones, action=action)
