"""Logs of transitions as columns by name, and what several test files of values do with
them."""

import warnings

import numpy as np


def walk(n=600, d=4, seed=0, ends=0.02):
    """Correlated states in order with noisy rewards, of which a few end an episode."""
    rng = np.random.default_rng(seed)
    states = np.zeros((n + 1, d))
    for t in range(n):
        states[t + 1] = 0.9 * states[t] + rng.normal(size=d)
    y = np.cos(states[:-1]).sum(axis=1) + rng.normal(size=n)
    return {
        "X": states[:-1],
        "y": y,
        "next_X": states[1:].copy(),
        "terminal": rng.random(n) < ends,
    }


def episodes(lengths, seed=0, every=1):
    """Episodes one after the other, their numbers and steps. Only one in ``every``
    ends, others are cut off."""
    rng, n = np.random.default_rng(seed), sum(lengths)
    X, last = rng.normal(size=(n, 3)), np.cumsum(lengths) - 1
    next_X = np.roll(X, -1, axis=0)
    next_X[last] = rng.normal(size=(len(last), 3))
    terminal = np.isin(np.arange(n), last[::every])
    parts = {
        "X": X,
        "y": X[:, 0] + rng.normal(size=n),
        "next_X": next_X,
        "terminal": terminal,
    }
    return (
        parts,
        np.repeat(np.arange(len(lengths)), lengths),
        np.concatenate([np.arange(k) for k in lengths]),
    )


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
    X, next_X = np.eye(n_states)[s], np.eye(n_states)[np.clip(after, 0, n_states - 1)]
    terminal = (after < 0) | (after == n_states)
    return {
        "X": X,
        "y": (after == n_states) * 1.0,
        "next_X": next_X,
        "terminal": terminal,
        "episode": episode,
    }, action


def draw(m, seed, chances, rewards, target, noise, cut=None):
    """m episodes of a policy that takes two actions alike, with the ratios of a target,
    perhaps cut off."""
    rng, rows, n = np.random.default_rng(seed), [], len(chances)
    for episode in range(m):
        s, t = rng.integers(n), 0
        while s is not None:
            a = int(rng.random() < 0.5)
            after = int(np.searchsorted(np.cumsum(chances[s, a]), rng.random()))
            rows.append(
                (
                    s,
                    after % n,
                    after == n,
                    rewards[s, a] + noise * rng.normal(),
                    episode,
                    2 * target[a],
                    t,
                    a,
                )
            )
            s, t = (after, t + 1) if after < n and t + 1 != cut else (None, 0)
    s, after, ends, y, episode, ratio, t, a = (
        np.array(part) for part in zip(*rows, strict=True)
    )
    parts = {
        "X": np.eye(n)[s],
        "y": y,
        "next_X": np.eye(n)[after],
        "terminal": ends.astype(bool),
        "episode": episode,
    }
    return parts | {"importance_ratio": ratio, "time": t, "action": a}


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
