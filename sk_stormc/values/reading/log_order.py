"""What the order of the rows shows about a log: warnings that ask about ends that are
missing, successors that are shifted, and rewards that are sums.

Logs may be in any order, which is why these checks say nothing unless nearly all rows
agree with a mistake, and no right log that is known does.
"""

from typing import NamedTuple

import numpy as np

from sk_stormc.utils.warnings import warn
from sk_stormc.values.reading.states import HASHED, distinct_rows

COMPARED = 2**21  # most numbers of X that are compared
EQUAL_UP_TO = 1e-6  # of the range of a column, for numbers that were rounded
# shares of rows that agree, beyond those by chance
NEARLY_ALL, MOST, FEW = 0.8, 0.5, 0.2
SAMPLED = 250  # rows that show whether a log is in order
MIN_ROWS, MIN_ENDS = 20, 5
LONG = 20  # least number of steps of a horizon


class OrderedRows(NamedTuple):
    """The first rows of a log, in the order in which they seem to have happened."""

    states: np.ndarray
    follows: np.ndarray
    terminal: np.ndarray
    near: np.ndarray  # the difference of equal values of a column

    @classmethod
    def of(cls, states, follows, terminal, clock=None):
        """The rows in the order of a clock, or as they are."""
        n, d = states.shape
        sorts = clock is not None and (np.diff(clock) < 0).any()
        order = np.argsort(clock) if sorts else slice(None)
        rows = slice(max(MIN_ROWS, COMPARED // d))
        parts = (part[order][rows] for part in (states, follows, terminal))
        states, follows, terminal = parts
        some = states[:: -(-len(states) // SAMPLED)]
        near = EQUAL_UP_TO * np.ptp(some, axis=0)
        near[some.max(axis=0) >= HASHED] = 0.0
        return cls(states, follows, terminal, near)

    def equal(self, left, right):
        """Whether rows are equal, up to rounding."""
        rows, equal = np.arange(len(left)), np.zeros(len(left), dtype=bool)
        for j, near in enumerate(self.near):
            rows = rows[abs(left[rows, j] - right[rows, j]) <= near]
            if not len(rows):  # as of most pairs after the first columns
                break
        equal[rows] = True
        return equal

    def arrives(self, rows, later):
        """Whether the successors of rows are the states of the rows so much later, or
        earlier."""
        return self.equal(self.follows[rows], self.states[rows + later])

    def agreement(self, later):
        """The share of ongoing rows that arrive, of those whose state changes, beyond
        the share by chance: Cohen's kappa of a sample of the rows. 0 for few rows."""
        n, rng = len(self.states), np.random.default_rng(0)
        rows = np.arange(max(0, -later), min(n, n - later))
        if len(rows) > SAMPLED:
            rows = rows[rng.integers(len(rows), size=SAMPLED)]
        rows = rows[~self.terminal[rows]]
        rows = rows[~self.arrives(rows, 0)]
        if len(rows) < MIN_ROWS:
            return 0.0
        others = rng.integers(n, size=len(rows))
        chance = self.equal(self.follows[rows], self.states[others]).mean()
        return (self.arrives(rows, later).mean() - chance) / max(1 - chance, 1e-12)

    def distances(self, left, right):
        """The squared distances of states, in units of the columns' variances."""
        variance = self.states.var(axis=0)
        varied = variance > 0
        return np.square(right - left)[:, varied] @ (1 / variance[varied])

    def changes(self, rows, later):
        """The `distances` from each row's state to that of the row so much later."""
        return self.distances(self.states[rows], self.states[rows + later])

    def like_steps(self, left, right):
        """Whether pairs of states look like steps, as beside rows that were left out:
        most are steps that the log has, or, if steps do not repeat, hardly longer than
        them."""
        steps, pairs = (
            np.hstack(part) for part in ((self.states, self.follows), (left, right))
        )
        _, number = distinct_rows(np.vstack([steps, pairs]))
        counts = np.bincount(number[: len(steps)], minlength=number.max() + 1)
        if np.count_nonzero(counts == 1) < 0.5 * len(steps):
            return (counts[number[len(steps) :]] > 0).mean() >= 0.5
        others = np.random.default_rng(0).permutation(len(steps))
        step, far, length = (
            np.median(self.distances(*ends))
            for ends in (
                (self.states, self.follows),
                (self.states, self.states[others]),
                (left, right),
            )
        )
        return step < 0.5 * far and length**2 < step * far


def warn_of_rows(y, states, log_columns, order, following):
    """All warnings about the rows of a log. ``order`` is their `Order`, or None, and
    ``following`` are the `Successors`."""
    terminal, columns = following.terminal, [states]
    clock = None if order is None else order.clock
    if log_columns.next_X is not None:
        columns.append(following.states)
        known = log_columns.terminal is not None or order is not None
        warn_of_order(OrderedRows.of(*columns, terminal, clock), known)
    if log_columns.terminal is not None:
        warn_of_horizon(terminal, clock, columns)
    if log_columns.episode is not None:
        rows = np.argsort(clock)
        warn_of_running_sums(y[rows], order.numbers[rows])


def warn_of_order(rows, knows_ends):
    """Warn if `OrderedRows` contradict ``next_X`` or ``terminal``. ``knows_ends`` says
    whether there are terminal flags or labels of episodes."""
    if warn_of_copies(rows):
        return
    agreement = rows.agreement(1)
    if agreement >= MOST:
        (warn_of_shifted_ends if knows_ends else warn_of_missing_ends)(rows)
    elif agreement < FEW:
        warn_of_shifted_successors(rows)


def warn_of_copies(rows):
    """Warn if the successor of each row is its own state, although states differ.
    Returns whether there was a warning."""
    on = np.flatnonzero(~rows.terminal)
    copies = (
        len(on) >= MIN_ROWS / 2
        # of a few rows first
        and all(
            np.array_equal(rows.follows[some], rows.states[some])
            for some in (on[:MIN_ROWS], on)
        )
        and np.ptp(rows.states, axis=0).any()
    )
    if copies:
        warn(
            f"next_X is equal to X in all {len(on)} rows that are not terminal, as if "
            "no state ever changed. Is it a copy of X? It should contain the states "
            "after the transitions."
        )
    return copies


def warn_of_missing_ends(rows):
    """Warn if terminal was not given, and some rows are not followed by the row of
    their successor."""
    place = np.arange(len(rows.states) - 1)
    breaks = place[~rows.arrives(place, 1)]
    # one break is that of a fold
    if len(breaks) > 1 and not rows.like_steps(
        rows.follows[breaks], rows.states[breaks + 1]
    ):
        warn(
            "terminal was not given, and the rows are in order except that "
            f"{len(breaks)} of {len(rows.states)} are not followed by "
            "their next_X. Do episodes end there, or are they cut off? Pass terminal, "
            "with True for the transitions that end an episode and False for rows "
            "that go on."
        )


def warn_of_shifted_ends(rows):
    """Warn if the next rows have the successors of terminal rows, and not those of the
    rows beside them."""
    ends = np.flatnonzero(rows.terminal)
    ends = ends[(ends > 0) & (ends < len(rows.states) - 2)]
    if len(ends) < MIN_ENDS or rows.arrives(ends, 1).mean() < NEARLY_ALL:
        return
    for beside, where in ((ends - 1, "before"), (ends + 1, "after")):
        breaks = ~rows.arrives(beside, 1) & ~rows.terminal[beside]
        if breaks.mean() >= NEARLY_ALL:
            warn(
                "is terminal shifted by one row? The terminal rows are followed by "
                f"their next_X, and the rows {where} them are not. terminal should "
                "mark the last transition of each episode."
            )


def warn_of_shifted_successors(rows):
    """Warn if successors are the states two rows later or one row before.

    Right logs have such successors too, if two environments alternate or if the newest
    row is the first. Then the rows are no steps of one episode in the order of time.
    """
    n, ends = len(rows.states), np.flatnonzero(rows.terminal)
    if rows.agreement(2) >= MOST:
        on, where = np.arange(n - 2), "two rows later"
        longer = rows.changes(on, 2) - rows.changes(on, 1)
        steps = longer.sum() > 3 * np.sqrt(n) * longer.std()
    elif rows.agreement(-1) >= MOST:
        # the state jumps after the end of an episode, and not before it
        ends, where = ends[(ends > 0) & (ends < n - 1)], "of the row before"
        after, before = rows.changes(ends, 1), rows.changes(ends, -1)
        signs = np.sign(after - before).sum()
        steps = signs > 2.5 * np.sqrt(len(ends)) and after.sum() > 4 * before.sum()
    else:
        return
    if steps:
        warn(
            f"is next_X shifted by one row? It is the X {where} in nearly all rows. In "
            "an ordered log, the state after the transition is the X of the next row."
        )


def warn_of_horizon(terminal, clock, columns, remedy="terminal must be False there"):
    """Warn if many episodes end after the same number of steps, more than any other, as
    if a limit of steps was passed as terminal.

    It may be an end if a column separates these ends from all other rows, as one with
    the step does. ``clock`` is a common time of the rows, or None if they are in order.
    """
    order = np.arange(len(terminal)) if clock is None else np.argsort(clock)
    ends = terminal[order]
    begins = np.append(True, ends[:-1])
    if clock is not None:
        begins[1:] |= np.diff(clock[order]) > 1
    step = np.arange(len(ends))
    step -= np.maximum.accumulate(np.where(begins, step, 0)) - 1
    lengths = step[ends]
    longest = lengths.max(initial=0)
    at_last = np.count_nonzero(lengths == longest)
    near = np.count_nonzero((lengths >= 0.9 * longest) & (lengths < longest))
    if longest < LONG or at_last < MIN_ENDS + 3 * near:
        return
    last, others = (order[ends & (step == longest)], order[~ends | (step < longest)])
    for values in columns:
        inside, outside = values[last], values[others]
        apart = (inside.min(axis=0) > outside.max(axis=0)) | (
            inside.max(axis=0) < outside.min(axis=0)
        )
        if apart.any():
            return
    warn(
        f"{at_last} of {len(lengths)} episodes end after exactly {longest} steps, the "
        f"largest number. Is this a limit after which they are cut off? Then {remedy}. "
        "If they really end, values depend on the step: add it to X."
    )


def warn_of_running_sums(y, numbers):
    """Warn if rewards are running sums: they only grow within episodes, by steps as
    large as the first reward. Rows are in order, with the number of their episode."""
    first = np.append(True, np.diff(numbers) > 0)
    last = np.append(first[1:], True)
    step = np.diff(y)[~first[1:]]
    if first.sum() < MIN_ENDS or len(step) < 4 * first.sum():
        return
    largest = abs(step).max()
    before = np.append(0.0, y[last][:-1])
    grows = (step >= 0).all() or (step <= 0).all()
    begins = any(
        (abs(start) <= largest).all() for start in (y[first], y[first] - before)
    )
    if grows and begins and np.median(abs(y[last] - y[first])) > 3 * largest > 0:
        warn(
            "y only grows within episodes, by at most about its first value, as "
            "running sums of rewards do. Is it the reward of each transition? "
            "Then the differences of successive rows are the rewards."
        )
