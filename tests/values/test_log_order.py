"""What the order of the rows shows about a log: right logs, in any order, say nothing,
and nearly all wrong ones ask."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from value_logs import messages, some

from sk_stormc import (
    ActionValueEstimator,
    BellmanValueEstimator,
    estimated_ratios,
    off_policy_value,
)
from sk_stormc.datasets import transitions_from_arrays


def logged(rng, n=200, ends=0.08, limit=None, ongoing=False):
    """Steps of an autoregression whose episodes begin far away, with the observations
    after the last steps too, and their episodes and steps."""
    d, persistence = rng.integers(1, 4), rng.choice([0.9, 0.98, 1.0])
    X, next_X, terminal = np.zeros((n, d)), np.zeros((n, d)), rng.random(n) < ends
    terminal &= not ongoing
    episode, step = np.zeros(n, int), np.zeros(n, int)
    starts, noise = 3 + rng.normal(size=(n, d)), 0.3 * rng.normal(size=(n, d))
    state, number, t = starts[0], 0, 0
    for k in range(n):
        X[k], episode[k], step[k] = state, number, t
        next_X[k] = state = persistence * state + noise[k]
        t += 1
        if terminal[k] or t == limit:
            state, number, t = starts[k], number + 1, 0
    return {"X": X, "next_X": next_X, "terminal": terminal}, episode, step


def on_a_table(rng, n=200, m=12):
    """Steps between numbered states, as indicators, and whether they end in the last
    one."""
    P, s, steps = rng.dirichlet(np.full(m, 0.3), size=m), 0, []
    for _ in range(n):
        after = rng.choice(m, p=P[s])
        steps.append((s, after))
        s = 0 if after == m - 1 else after
    s, after = np.transpose(steps)
    return {"X": np.eye(m)[s], "next_X": np.eye(m)[after], "terminal": after == m - 1}


def alternating(logs):
    """The rows of several logs in turn, as a vector environment gives them."""
    return {
        name: np.stack([log[name] for log in logs], axis=1).reshape(
            -1, *logs[0][name].shape[1:]
        )
        for name in logs[0]
    }


def right_log(kind, rng):
    """A log without a mistake."""
    log, episode, step = logged(rng, limit=rng.choice([None, 25]))
    order, n = rng.permutation(200), len(episode)
    if kind == "table":
        log = on_a_table(rng)
        return some(log, np.lexsort(log["X"].T) if rng.random() < 0.5 else order)
    if kind in ("alternating", "alternating, with resets"):
        logs, shape = [log], log["X"].shape
        while logs[-1]["X"].shape != shape or len(logs) == 1:
            logs[1:] = [logged(rng)[0]]
        if "resets" in kind:
            for part in logs:
                last = np.flatnonzero(part["terminal"][:-1])
                part["next_X"][last] = part["X"][last + 1]
        return alternating(logs)
    if kind == "continuing":
        log = logged(rng, ongoing=True)[0]
        folds = rng.choice([KFold(5), KFold(5, shuffle=True, random_state=0)])
        return some(log, next(folds.split(step))[0], "terminal")
    if kind == "clock":
        log, _, step = logged(rng, ends=0.0, limit=25)
        X, after = (
            np.column_stack([log[name], step + k])
            for k, name in enumerate(("X", "next_X"))
        )
        return {"X": X, "next_X": after, "terminal": step == 24}
    if kind == "same path":
        place, states = np.tile(np.arange(24), 9), np.eye(25)
        X, after = states[place], states[place + 1]
        return {"X": X, "next_X": after, "terminal": place == 23}
    return {
        "in order": log,
        "labelled": log | {"episode": episode},
        "shuffled": some(log, order),
        "newest first": some(log, slice(None, None, -1)),
        "sorted": some(log, np.lexsort(log["X"].T)),
        "single precision": log | {"next_X": np.float32(log["next_X"])},
        "steps": some(log, slice(None), "next_X") | {"episode": episode},
        "contexts": log | {"terminal": np.ones(n, bool)},
    }[kind]


RIGHT = (
    "in order", "labelled", "shuffled", "newest first", "sorted", "single precision",
    "steps", "contexts", "table", "alternating", "alternating, with resets",
    "continuing", "clock", "same path",
)  # fmt: skip


def asked(log, y=None):
    """What a fit asks about a log."""
    y = np.sin(np.arange(len(log["X"]))) if y is None else y
    value = BellmanValueEstimator(0.9, objective="projected", alpha=1e-6)
    found = messages(value.fit, log["X"], y, **{k: log[k] for k in log if k != "X"})
    return [text for text in found if "?" in text]


@pytest.mark.parametrize("n", [3, pytest.param(43, marks=pytest.mark.slow)])
def test_right_logs_say_nothing(n):
    for seed, kind in enumerate(RIGHT):
        rng = np.random.default_rng([n, seed])
        for _ in range(n):
            assert not asked(right_log(kind, rng)), kind


SHIFTED = "is next_X shifted by one row? It is the X"
LIMIT = "episodes end after exactly 25 steps"
WRONG = {
    "no terminal": "terminal was not given, and the rows are in order except",
    "copy": "next_X is equal to X in all",
    "two rows later": f"{SHIFTED} two rows",
    "a row earlier": f"{SHIFTED} of the row",
    "late terminal": "is terminal shifted by one row",
    "early terminal": "is terminal shifted by one row",
    "limit": LIMIT,
    "limit, and early ends": LIMIT,
}


def wrong_log(kind, rng):
    """A log with a mistake."""
    log, _, step = logged(rng, 400)
    X, terminal = log["X"], log["terminal"]
    if kind.startswith("limit"):
        log, _, step = logged(rng, 400, 0.02 * ("early" in kind), limit=25)
        return log | {"terminal": log["terminal"] | (step == 24)}
    changes = {
        "no terminal": {"terminal": None},
        "copy": {"next_X": X.copy()},
        "two rows later": {"next_X": np.roll(X, -2, axis=0)},
        "a row earlier": {"next_X": np.roll(X, 1, axis=0)},
        "late terminal": {"terminal": np.roll(terminal, 1)},
        "early terminal": {"terminal": np.roll(terminal, -1)},
    }
    return log | changes[kind]


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_logs_ask(kind):
    rng = np.random.default_rng(7)
    found = [asked(wrong_log(kind, rng)) for _ in range(20)]
    assert all(len(texts) < 2 for texts in found)
    assert np.mean([WRONG[kind] in "".join(texts) for texts in found]) >= 0.85
    shuffled = rng.permutation(400)
    log = {k: v[shuffled] for k, v in wrong_log(kind, rng).items() if v is not None}
    assert not asked(log) or kind == "copy"


def test_ends_of_a_chain_that_were_forgotten():
    """The values would be 1 / (1 - gamma), whatever the state."""
    place = np.tile([0, 1, 2], 20)
    chain = {"X": np.eye(3)[place], "next_X": np.eye(3)[np.minimum(place + 1, 2)]}
    (text,) = asked(chain)
    assert "20 of 60" in text or "19 of 60" in text
    assert not asked(chain | {"terminal": place == 2})
    q = ActionValueEstimator(gamma=0.9, policy=lambda X: np.zeros(len(X), int))
    found = messages(q.fit, y=np.ones(60), action=place % 2, **chain)
    assert any("Do episodes end there" in part for part in found)


def test_arrays_whose_terminals_are_a_limit():
    rng = np.random.default_rng(0)
    X, ends = rng.normal(size=(300, 2)), np.arange(300) % 25 == 24
    arrays = X, np.zeros(300, int), rng.normal(size=300)
    (found,) = messages(transitions_from_arrays, *arrays, ends)
    assert "12 of 12 episodes end after exactly 25" in found
    for right in (np.roll(ends, 3) & (X[:, 0] > 0), np.arange(300) % 10 == 9):
        assert not messages(transitions_from_arrays, *arrays, right)


def test_rewards_that_are_running_sums():
    rng = np.random.default_rng(1)
    log, episode, step = logged(rng, 600)
    gains = rng.integers(0, 3, size=600).astype(float)
    sums = pd.Series(gains).groupby(episode).cumsum().to_numpy()
    parts = log | {"episode": episode}
    text = "y only grows within episodes"
    for wrong in (sums, -sums, gains.cumsum()):
        assert any(text in part for part in asked(parts, wrong))
        found = messages(off_policy_value, wrong, np.ones(600), episode)
        assert any(text in part for part in found)
    for right in (gains, np.ones(600), log["terminal"] * 1.0, 10.0 + step, -gains):
        assert not asked(parts, right)
        found = messages(off_policy_value, right, np.ones(600), episode)
        assert not any(text in part for part in found)


def test_rows_that_begin_with_the_newest():
    """A return of 1 at the first step is discounted if it comes last."""
    y, time = np.tile([1.0, 0, 0, 0], 30), np.tile(np.arange(4), 30)
    columns = y[::-1], np.ones(120), np.repeat(np.arange(30), 4)[::-1]
    order = {"time": time[::-1], "terminal": (time == 3)[::-1], "gamma": 0.5}
    assert off_policy_value(*columns, **order).value == pytest.approx(1)
    with pytest.raises(ValueError, match="terminal must be the last row of an episode"):
        off_policy_value(*columns, **order | {"time": None})


def test_terminal_is_checked_in_partitions():
    da = pytest.importorskip("dask.array")
    y, ratio = da.ones(120, chunks=40), da.ones(120, chunks=40)
    episode = da.from_array(np.repeat(np.arange(30), 4), chunks=40)
    ends = np.tile([0, 0, 0, 1], 30)
    assert off_policy_value(y, ratio, episode, gamma=1.0, terminal=ends).value == 4
    with pytest.raises(ValueError, match="terminal must be the last row of an episode"):
        off_policy_value(y, ratio, episode, terminal=ends[::-1].copy())


def test_a_mean_of_ratios_that_is_off_by_little():
    """3.7 standard errors, which only unweighted methods turn into a wrong value."""
    n = 2000
    ratio = np.where(np.arange(n) % 2 == 0, 1.4, 0.6)
    ratio += 3.7 * ratio.std() / np.sqrt(n)
    given = np.ones(n), ratio, np.arange(n)
    for method in ("is", "pdis", "wpdis"):
        found = messages(off_policy_value, *given, method=method)
        assert any("on average, but should be about 1" in text for text in found)


def test_a_policy_that_the_state_determines_has_no_ratios():
    rng = np.random.default_rng(2)
    X, half = rng.normal(size=(1000, 2)), np.full(1000, 0.5)
    mixed = rng.random(1000) < 1 / (1 + np.exp(-X[:, 0]))
    for action, wrong in ((X[:, 0] > 0, True), (mixed, False)):
        given = X, action.astype(int), half, LogisticRegression(C=1000)
        found = messages(estimated_ratios, *given)
        assert any("the estimated ratio is 0.5" in text for text in found) == wrong
        assert wrong or not found


@pytest.mark.parametrize("constant", [0.0, 7.0])
def test_a_bandit_without_context(constant):
    """A policy of one row is that of all states, whatever number they have."""
    rng = np.random.default_rng(3)
    action, X = rng.integers(2, size=200), np.full((200, 1), constant)
    y, chances = action + rng.normal(size=200), [[0.3, 0.7]]
    ends, policies = np.ones(200, bool), (chances, np.tile(chances, (200, 1)))
    ratio = np.where(action, 0.7, 0.3) / 0.5
    parts = {"X": X, "action": action, "terminal": ends, "method": "dr"}
    one, tiled = (
        off_policy_value(y, ratio, np.arange(200), target=target, **parts).value
        for target in policies
    )
    assert one == pytest.approx(tiled)
    log = {"action": action, "next_X": X + 0, "terminal": np.arange(200) % 2 > 0}
    found = [
        ActionValueEstimator(policy, 0.5, alpha=1e-9).fit(X, y, **log).predict(X[:1])
        for policy in (chances, lambda S: np.tile(chances, (len(S), 1)))
    ]
    np.testing.assert_allclose(*found)
    estimated = estimated_ratios(X, action, chances, LogisticRegression())
    assert estimated.mean() == pytest.approx(1, abs=0.05)
