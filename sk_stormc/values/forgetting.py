"""Exponential forgetting: the weight of a transition halves every ``half_life`` rows."""

import math

import numpy as np

__all__ = ["fading", "remaining", "remembered"]

LONGEST = 1000.0  # half-lives after which weights do not fall further, so that they stay above 0


def fading(half_life, when):
    """The discount factors of the weights of rows, at the time of the last row."""
    n = len(when)
    if half_life is None:
        return np.ones(n)
    age = np.empty(n)
    age[np.argsort(when, kind="stable")] = np.arange(n)[::-1]
    return np.exp2(-np.minimum(age / half_life, LONGEST))


def remaining(half_life, n):
    """The discount factor of a weight after n more rows."""
    return 1.0 if half_life is None else 2.0 ** (-n / half_life)


def remembered(half_life, n):
    """The effective sample size of n discounted rows: the squared sum of their weights over the sum of squares."""
    return n if half_life is None else min(n, 2 * half_life / math.log(2))
