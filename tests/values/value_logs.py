"""Logs of transitions as columns by name, and what several test files of values do with
them."""

import warnings

import numpy as np


def walk(n=600, d=4, seed=0, ends=0.02):
    """Correlated states in order with noisy rewards, of which a few end an episode."""
    rng, states = np.random.default_rng(seed), np.zeros((n + 1, d))
    for t in range(n):
        states[t + 1] = 0.9 * states[t] + rng.normal(size=d)
    X, y = states[:-1], np.cos(states[:-1]).sum(axis=1) + rng.normal(size=n)
    terminal = rng.random(n) < ends
    return {"X": X, "y": y, "next_X": states[1:].copy(), "terminal": terminal}


def episodes(lengths, seed=0, every=1):
    """Episodes one after the other, their numbers and steps. Only one in ``every``
    ends, others are cut off."""
    rng, n = np.random.default_rng(seed), sum(lengths)
    X, last = rng.normal(size=(n, 3)), np.cumsum(lengths) - 1
    next_X = np.roll(X, -1, axis=0)
    next_X[last] = rng.normal(size=(len(last), 3))
    parts = {"X": X, "y": X[:, 0] + rng.normal(size=n), "next_X": next_X}
    parts["terminal"] = np.isin(np.arange(n), last[::every])
    steps = np.concatenate([np.arange(k) for k in lengths])
    return parts, np.repeat(np.arange(len(lengths)), lengths), steps


def walk_on_states(n_episodes, n_states=5, seed=0):
    """A walk that leaves its states on either side, on the right with a reward of 1:
    columns, actions."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(n_episodes):
        s = rng.integers(n_states)
        while 0 <= s < n_states:
            action = rng.integers(2)
            rows.append((s, s + 2 * action - 1, episode, action))
            s += 2 * action - 1
    s, after, episode, action = np.array(rows).T
    states, right = np.eye(n_states), after == n_states
    log = {"X": states[s], "next_X": states[after.clip(0, n_states - 1)]}
    log |= {"y": right * 1.0, "terminal": right | (after < 0), "episode": episode}
    return log, action


def draw(m, seed, chances, rewards, target, noise, cut=None):
    """m episodes of a policy that takes two actions alike, with the ratios of a target,
    perhaps cut off."""
    rng, rows, n = np.random.default_rng(seed), [], len(chances)
    for episode in range(m):
        s, t = rng.integers(n), 0
        while s is not None:
            a = int(rng.random() < 0.5)
            after = int(np.searchsorted(np.cumsum(chances[s, a]), rng.random()))
            y, ends = rewards[s, a] + noise * rng.normal(), after == n
            rows.append((s, after % n, ends, y, episode, 2 * target[a], t, a))
            s, t = (after, t + 1) if not ends and t + 1 != cut else (None, 0)
    names = (
        "X",
        "next_X",
        "terminal",
        "y",
        "episode",
        "importance_ratio",
        "time",
        "action",
    )
    columns = map(np.array, zip(*rows, strict=True))
    log = dict(zip(names, columns, strict=True))
    return log | {name: np.eye(n)[log[name]] for name in ("X", "next_X")}


def some(parts, rows, *left_out):
    """Some rows of all columns but those left out."""
    return {name: part[rows] for name, part in parts.items() if name not in left_out}


def fed(estimator, size, **parts):
    """The estimator after `partial_fit` of chunks of a size."""
    for start in range(0, len(parts["y"]), size):
        estimator.partial_fit(**some(parts, slice(start, start + size)))
    return estimator


def coefficients(value):
    return np.append(value.coef_, value.intercept_)


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


def messages(call, *args, **kwargs):
    """The warnings of a call, as texts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **kwargs)
    return [str(warning.message) for warning in caught]
