"""Logs of transitions as columns by name, and what several test files of values do with them."""

import warnings

import numpy as np


def walk(n=600, d=4, seed=0, ends=0.02):
    """Correlated states in order with noisy rewards, of which a few end an episode."""
    rng = np.random.default_rng(seed)
    states = np.zeros((n + 1, d))
    for t in range(n):
        states[t + 1] = 0.9 * states[t] + rng.normal(size=d)
    y = np.cos(states[:-1]).sum(axis=1) + rng.normal(size=n)
    return {"X": states[:-1], "y": y, "next_X": states[1:].copy(), "terminal": rng.random(n) < ends}


def episodes(lengths, seed=0, every=1):
    """Whole episodes one behind the other, their numbers and steps. Only one in ``every`` ends, others are cut off."""
    rng, n = np.random.default_rng(seed), sum(lengths)
    X, last = rng.normal(size=(n, 3)), np.cumsum(lengths) - 1
    next_X = np.roll(X, -1, axis=0)
    next_X[last] = rng.normal(size=(len(last), 3))
    terminal = np.isin(np.arange(n), last[::every])
    parts = {"X": X, "y": X[:, 0] + rng.normal(size=n), "next_X": next_X, "terminal": terminal}
    return parts, np.repeat(np.arange(len(lengths)), lengths), np.concatenate([np.arange(k) for k in lengths])


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
