"""The order of logged rows: labels of episodes, times, ends of episodes, and discounted
weights."""

import datetime
import math
import warnings
from hashlib import blake2b
from math import isnan
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from sk_stormc.utils.arrays import as_flags
from sk_stormc.utils.parameters import short
from sk_stormc.values.markov import check_one_each, refuse_rows

# fraction of the rows that must be wrong before there is a warning; a few do not move
# the values
WARNED_SHARE = 0.01


def check_terminal(terminal, n):
    """The checked terminal flags, n booleans. None means that no row ends its
    episode."""
    if terminal is None:
        return np.zeros(n, dtype=bool)
    flags = as_flags("terminal", terminal)
    check_one_each("terminal", flags, n)
    return flags


def check_time(time, n):
    """The n checked times: integers, or dates or durations of NumPy."""
    array = np.asarray(time)
    check_one_each("time", array, n)
    times = _without_objects(array) if array.dtype.kind == "O" else array
    kind = times.dtype.kind
    if kind in "mM":
        wrong = np.isnat(times)
    elif kind in "iuf":
        wrong = (times != np.rint(times)) | ~(abs(times) < 2.0**63)
    else:
        wrong = np.ones(n, dtype=bool)
    refuse_rows(
        wrong,
        lambda k: f"time must be whole numbers or dates, got {array[k]} in row {k}",
    )
    return times if kind in "mM" else times.astype(np.int64)


def _without_objects(array):
    """Numbers and dates that are objects as an array of their own type."""
    for kind, dtype in (
        (Integral, np.int64),
        (Real, float),
        (datetime.date, "M8[us]"),
        (datetime.timedelta, "m8[us]"),
    ):
        if all(
            isinstance(value, kind) and not isinstance(value, bool) for value in array
        ):
            with warnings.catch_warnings():
                # NumPy's that dates of a time zone become those of UTC
                warnings.simplefilter("ignore", UserWarning)
                return array.astype(dtype)
    return array


def check_episode(episode, n):
    """The checked labels of n rows, of any type, without missing ones."""
    labels = np.asarray(episode)
    if labels.shape != (n,):
        raise ValueError(
            f"episode must be one label for each of the {n} rows, got shape "
            f"{labels.shape}"
        )
    wrong = False
    if labels.dtype.kind in "fmM":
        wrong = np.isnan(labels)
    elif labels.dtype.kind == "O":
        wrong = [_is_missing(label) for label in labels]
    refuse_rows(
        wrong,
        lambda k: f"episode must have a label in each row, got {labels[k]} in row {k}",
    )
    return labels


def _is_missing(label):
    return (
        label is None
        or type(label).__name__ in ("NAType", "NaTType")
        or (isinstance(label, float) and isnan(label))
    )


def numbers_of_labels(labels):
    """The number of each label, in the order of first occurrence."""
    if labels.dtype.kind == "O":  # objects may not be sortable
        numbers = {}
        try:
            return np.array(
                [numbers.setdefault(label, len(numbers)) for label in labels.tolist()],
                dtype=np.intp,
            )
        except TypeError as error:
            raise ValueError(
                "episode must have labels such as numbers or strings, got "
                f"{short(labels[0])}"
            ) from error
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    return first.argsort().argsort()[numbers.reshape(-1)]


def keys_of(labels):
    """A 64-bit key of each label of an episode: the number itself, or a hash."""
    if labels.dtype.kind in "iu" or (
        labels.dtype.kind == "f" and (labels == np.rint(labels)).all()
    ):
        return labels.astype(np.int64).view(np.uint64)
    return hashes_of(
        labels,
        lambda name: np.uint64(int.from_bytes(blake2b(name, digest_size=8).digest())),
    )


def hashes_of(labels, hash_of):
    """A hash of each label as text, which does not depend on the process."""
    if labels.dtype.kind == "O":  # objects may not be sortable
        labels = labels.astype(str)
    labels, number = np.unique(labels, return_inverse=True)
    names = labels.astype(str).tolist()
    return np.array([hash_of(name.encode()) for name in names])[number]


class Order(NamedTuple):
    """The order of logged rows."""

    numbers: np.ndarray | None  # of the episodes, if there are labels
    time: np.ndarray | None  # as given, checked
    clock: np.ndarray  # a common time: the successor of a row is the row with clock + 1
    # number of steps since the episode began; without labels, since the last gap
    step: np.ndarray

    def has_gaps(self):
        """Whether a row that is not the last one has no successor."""
        return bool(np.ptp(self.clock) >= len(self.clock))

    def last(self):
        """The number of the last row, or of the last one of each episode."""
        order = np.argsort(self.clock)
        numbers = np.zeros(len(order)) if self.numbers is None else self.numbers[order]
        return order[np.append(np.diff(numbers) != 0, True)]

    def keys(self, rows):
        """Keys of some rows for `Traces.over`, and of the rows that continue their
        traces. They hold in other chunks of a stream too, if times are numbers."""
        if self.time is None:  # the next row of an episode continues its trace
            left = np.zeros((len(self.clock), 1), dtype=int)[rows]
            return left, left
        time = self.time if self.time.dtype.kind == "i" else self.clock
        return time[rows, None], time[rows, None] + 1


def order_of(episode, time, terminal, n):
    """The `Order` of n rows from labels of episodes, times or both. None without
    either."""
    if episode is None and time is None:
        return None
    labels = np.zeros(n, dtype=int) if episode is None else check_episode(episode, n)
    numbers = numbers_of_labels(labels)
    time = None if time is None else check_time(time, n)
    order = np.lexsort((np.arange(n) if time is None else time, numbers))
    before, after = order[:-1], order[1:]
    ticks = np.arange(n) if time is None else time[order]
    same = numbers[before] == numbers[after]
    unit = _unit_of(np.diff(ticks)[same])
    hint = ". If it begins again in each episode, give episode="
    refuse_rows(
        same & (ticks[1:] == ticks[:-1]),
        lambda k: (
            f"time must have distinct values within an episode, got {time[before[k]]} "
            f"in rows {before[k]} and {after[k]}{hint if episode is None else ''}"
        ),
    )
    if episode is not None:
        refuse_rows(
            same & terminal[before],
            lambda k: (
                f"terminal must be the last row of an episode, got row {after[k]} "
                f"after row {before[k]}, which ends episode {labels[before[k]]}: sort "
                "the rows, or give later rows another label"
            ),
        )
    follows = same & (np.diff(ticks) == unit) & ~terminal[before]
    begins = np.append(True, ~(follows if episode is None else same))
    first = np.maximum.accumulate(np.where(begins, np.arange(n), 0))
    clock, step = np.empty((2, n), dtype=np.int64)
    clock[order] = np.append(0, np.cumsum(np.where(follows, 1, 2)))
    step[order] = (ticks - ticks[first]) // unit
    return Order(None if episode is None else numbers, time, clock, step)


def _unit_of(later):
    """The time of a step, from the differences of successive times: 1, or for dates the
    smallest difference."""
    if later.dtype.kind not in "mM":
        return 1
    none, one = np.arange(2).astype(later.dtype)
    later = later[later > none]
    unit = later.min() if len(later) else one
    odd = later[later % unit != none]
    if len(odd):
        raise ValueError(
            "time must be whole numbers, or dates at multiples of a step, got dates "
            f"that are {unit} and {odd[0]} apart: number the steps, or sort the rows "
            "of each episode, give episode= and leave time out"
        )
    return unit


def shares(step, known, terminal, weights):
    """Factors of the weights of rows, so that no outcome counts too much because others
    are not in the log.

    Where an episode is cut off, or a row is missing, the successor is not known. An end
    always is. Ends at a step therefore count in the share of the other rows at this
    step whose successors are known: the inverse probability weights of censored data,
    up to a factor for each step. Whether successors are known may depend on the step,
    but not on the state.
    """
    number = np.unique(step, return_inverse=True)[1]
    ongoing, seen = (
        np.bincount(number, weights * rows)[number]
        for rows in (~terminal, known & ~terminal)
    )
    return share_of_ends(ongoing, seen, known, terminal)


def share_of_ends(ongoing, seen, known, terminal):
    """`shares` from the sums of the weights at the step of each row: of rows that do
    not end, and of those whose successors are known."""
    share = np.divide(seen, ongoing, out=np.ones(len(seen)), where=ongoing > 0)
    return np.where(terminal, share, known)


def in_time(rows, n):
    """The order in time of n rows with an `Order`, for a half-life: distinct times, or
    the order of the rows."""
    numbers, time = (None, None) if rows is None else rows[:2]
    if time is None:
        return np.arange(n)
    if numbers is None or len(np.unique(time)) == n:
        return time
    order = np.argsort(numbers, kind="stable")
    back = (numbers[order[1:]] == numbers[order[:-1]]) & (
        time[order[1:]] < time[order[:-1]]
    )
    refuse_rows(
        back,
        lambda k: (
            "half_life must be None if rows are not in the order in which they "
            "happened and time begins again in each episode, got time "
            f"{time[order[k]]} in row {order[k]} and {time[order[k + 1]]} in row "
            f"{order[k + 1]}: sort the rows"
        ),
    )
    return np.arange(n)


def fading(half_life, when, later=0):
    """The discount factors of the weights of rows, at the time of the last row, or
    after some ``later`` rows."""
    n = len(when)
    if half_life is None:
        return np.ones(n)
    age = np.empty(n)
    age[np.argsort(when, kind="stable")] = np.arange(n)[::-1]
    return discounts(half_life, age + later)


def discounts(half_life, age):
    """The discount factors of rows of this age. They stay positive."""
    return np.exp2(-np.minimum(age / half_life, 1000.0))


def remaining(half_life, n):
    """The discount factor of a weight after n more rows."""
    return 1.0 if half_life is None else 2.0 ** (-n / half_life)


def remembered(half_life, n):
    """The effective sample size of n discounted rows: the squared sum of their weights
    over the sum of squares."""
    return n if half_life is None else min(n, 2 * half_life / math.log(2))
