"""Older transitions that count less: a weight is halved every so many rows."""

import math

import numpy as np

__all__ = ["fading", "remaining", "remembered"]

LONGEST = 1000.0  # half-lives: what is older has 2^-1000 of its weight, which is nothing, but above 0


def fading(half_life, when):
    """What is left of the weights of rows when the last of them has come.

    Parameters
    ----------
    half_life : float or None
        In rows; None forgets nothing.
    when : ndarray of shape (n,)
        In which order the rows came.

    Returns
    -------
    ndarray of shape (n,)
    """
    n = len(when)
    if half_life is None:
        return np.ones(n)
    age = np.empty(n)
    age[np.argsort(when, kind="stable")] = np.arange(n)[::-1]
    return np.exp2(-np.minimum(age / half_life, LONGEST))


def remaining(half_life, n):
    """What is left of a weight after n more rows."""
    return 1.0 if half_life is None else 2.0 ** (-n / half_life)


def remembered(half_life, n):
    """How many equal weights say as much as the fading ones of n rows: the square of their sum over that of squares."""
    return n if half_life is None else min(n, 2 * half_life / math.log(2))
