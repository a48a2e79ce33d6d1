"""The order of logged rows: labels of episodes, times, ends of episodes, and discounted weights."""

import math
from math import isnan

import numpy as np

from sk_stormc.utils.validation import short

LONGEST = 1000.0  # half-lives after which weights do not decrease further, so that they stay positive


def check_terminal(terminal, n):
    """The checked terminal flags, n booleans."""
    given = np.asarray(terminal)
    if given.shape != (n,):
        raise ValueError(f"terminal must be of shape ({n},), got {given.shape}")
    if given.dtype == object and all(isinstance(v, (bool, np.bool_)) for v in given):
        given = given.astype(bool)
    if given.dtype != bool:
        raise ValueError(f"terminal must be boolean, got {given.dtype} values such as {given[0]!r}")
    return given


def check_time(time, n, distinct=True):
    """The n checked times: integers, which must be distinct if ``distinct``."""
    given = np.asarray(time)
    if given.shape != (n,):
        raise ValueError(f"time must be of shape ({n},), got {given.shape}")
    if not np.issubdtype(given.dtype, np.integer):
        raise ValueError(f"time must be integers, got {given.dtype} values such as {given[0]!r}")
    values, counts = np.unique(given, return_counts=True) if distinct else (given, np.ones(1))
    if counts.max() > 1:
        raise ValueError(
            f"time must have distinct values, got {values[np.argmax(counts)]} {counts.max()} times. If it begins again "
            "in each episode, give episode=, or continue it from the episode before, with a gap between them."
        )
    return given


def check_episode(episode, n):
    """The checked labels of n rows, of any type, without missing ones."""
    labels = np.asarray(episode)
    if labels.shape != (n,):
        raise ValueError(f"episode must be one label for each of the {n} rows, got shape {labels.shape}")
    kind = labels.dtype.kind
    if kind == "f":
        wrong = np.isnan(labels)
    elif kind in "mM":
        wrong = np.isnat(labels)
    else:
        wrong = np.array([kind == "O" and _is_missing(label) for label in labels], dtype=bool)
    if wrong.any():
        k = np.argmax(wrong)
        raise ValueError(f"episode must have a label in each row, got {labels[k]} in row {k}")
    return labels


def _is_missing(label):
    return label is None or type(label).__name__ in ("NAType", "NaTType") or (isinstance(label, float) and isnan(label))


def numbers_of_labels(labels):
    """The number of each label, in the order of first occurrence."""
    if labels.dtype.kind == "O":  # objects may not be sortable
        numbers = {}
        try:
            return np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=np.intp)
        except TypeError as error:
            raise ValueError(f"episode must have labels such as numbers or strings, got {short(labels[0])}") from error
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[numbers.reshape(-1)]


def in_order(episode, time, terminal, n):
    """The episode numbers and one common time of n rows, from labels of episodes and times within them."""
    if episode is None:
        return None, time
    labels = check_episode(episode, n)
    ends = np.zeros(n, dtype=bool) if terminal is None else check_terminal(terminal, n)
    time = None if time is None else check_time(time, n, distinct=False)
    numbers = numbers_of_labels(labels)
    return numbers, clock_of(numbers, time, ends, labels)


def in_time(numbers, time, n):
    """The order in time of n rows for a half-life: their times if these are distinct, or the order of the rows."""
    if time is None:
        return np.arange(n)
    time = np.asarray(time)
    if numbers is None or len(np.unique(time)) == n:
        return time
    order = np.argsort(numbers, kind="stable")
    back = (numbers[order[1:]] == numbers[order[:-1]]) & (time[order[1:]] < time[order[:-1]])
    if back.any():
        k, j = order[np.argmax(back)], order[np.argmax(back) + 1]
        raise ValueError(
            f"half_life must be None if rows are not in the order in which they happened and time begins again in "
            f"each episode, got time {time[k]} in row {k} and {time[j]} in row {j}: sort the rows"
        )
    return np.arange(n)


def clock_of(numbers, time, terminal, labels):
    """One common time for all episodes: it increases by 1 within an episode, with a gap between episodes."""
    n = len(numbers)
    order = np.argsort(numbers, kind="stable") if time is None else np.lexsort((time, numbers))
    same = numbers[order[1:]] == numbers[order[:-1]]
    step = np.where(same, 1, 2)
    if time is not None:
        before, after = time[order[:-1]], time[order[1:]]
        twice = same & (before == after)
        if twice.any():
            k = order[np.argmax(twice)]
            raise ValueError(f"time must have distinct values within an episode, got {time[k]} twice in {labels[k]}")
        step = np.where(same & (after == before + 1), 1, 2)
    late = same & terminal[order[:-1]]
    if late.any():
        k, j = order[np.argmax(late)], order[np.argmax(late) + 1]
        raise ValueError(
            f"terminal must be the last row of an episode, got row {j} after row {k}, which ends episode "
            f"{labels[k]}: sort the rows, or give later rows another label"
        )
    clock = np.empty(n, dtype=np.int64)
    clock[order] = np.append(0, np.cumsum(step)) if n else 0
    return clock


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
