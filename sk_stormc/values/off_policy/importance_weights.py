"""Products of importance ratios within episodes, and the estimates with these weights,
of rows in memory or in the partitions of dask collections."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.blocks import check_finite_rows
from sk_stormc.values.reading.episodes import check_episode, check_terminal, order_of
from sk_stormc.values.reading.log_warnings import warn_of_gaps, warn_of_mean_ratio
from sk_stormc.values.reading.transitions import check_ratios
from sk_stormc.values.sums.log_blocks import check_whole


class Weights:
    """Products of the ratios of an episode up to each row.

    Products are computed as sums of logarithms, because products of many ratios
    underflow. All arrays have an entry for each row or each episode, however long the
    episodes are. The rows of an episode are contiguous and in order, and ``numbers`` of
    the episodes are 0, 1, ... in this order.
    """

    def __init__(self, ratios, numbers):
        n, self.numbers = len(ratios), numbers
        # first row of each episode
        self.start = np.flatnonzero(np.append(True, np.diff(numbers) > 0))
        self.last = np.append(self.start[1:], n) - 1
        self.length = self.last - self.start + 1
        # number of steps since the start of the episode
        self.step = np.arange(n) - self.start[numbers]
        with np.errstate(divide="ignore"):
            logs = np.log(ratios)
        for rows in map(slice, self.start, self.last + 1):
            # one episode at a time, so that no number depends on another episode
            logs[rows] = np.cumsum(logs[rows])
        self.logs = logs
        # logarithm of the product of all ratios of an episode
        self.final = logs[self.last]

    def ongoing(self):
        """Logarithms of the sums of the weights at each step, of the episodes that have
        this step."""
        n_steps = self.step.max() + 1
        largest = np.full(n_steps, -np.inf)
        np.maximum.at(largest, self.step, self.logs)
        unit = np.where(np.isfinite(largest), largest, 0.0)
        parts = np.exp(self.logs - unit[self.step])
        with np.errstate(divide="ignore"):
            return np.log(np.bincount(self.step, parts, n_steps)) + unit

    def share(self, totals):
        """The weights of the rows, divided by ``exp(totals)`` of their steps, or 0 if
        all weights of a step are 0."""
        total = totals[self.step]
        with np.errstate(over="ignore"):
            share = np.exp(self.logs - np.where(np.isfinite(total), total, np.inf))
        if not np.isfinite(share).all():
            raise ValueError(
                "importance_ratio must have finite products within episodes: "
                "probabilities under the target policy over those under the behaviour "
                "policy are rarely above 100. 'wpdis' and 'wdr' need no such products"
            )
        return share

    def influence(self, weighted, mean, totals):
        """The influence of each episode on the weighted estimate, from its rows and the
        means of the steps."""
        share = self.share(totals)
        influence = np.bincount(self.numbers, weighted - share * mean[self.step])
        # an episode that has ended is included, with a value of 0, in the means of
        # later steps
        for sign in (1, -1):
            with np.errstate(divide="ignore"):
                size = np.log(np.maximum(sign * mean, 0.0))
            later = np.where(np.isfinite(size), size - totals, -np.inf)[::-1]
            later = np.append(np.logaddexp.accumulate(later)[::-1], -np.inf)
            influence -= sign * np.exp(self.final + later[self.length])
        return influence


class Episodes(NamedTuple):
    """The rows of a block with whole episodes, in the order of the episodes and of
    time."""

    y: np.ndarray
    ratios: np.ndarray
    weights: Weights
    labels: np.ndarray
    clock: np.ndarray
    order: np.ndarray  # the numbers of the rows before they were sorted
    n_gaps: int  # in time

    @classmethod
    def of(cls, start, y, ratios, episode, time=None, terminal=None):
        """The sorted rows of a block that begins with row ``start``."""
        y, n = as_numbers("y", y), len(y)
        check_finite_rows("y", y)
        ratios, labels = check_ratios(ratios, n), check_episode(episode, n)
        rows = order_of(labels, time, check_terminal(terminal, n), n)
        order = np.argsort(rows.clock)
        numbers, ratios = rows.numbers[order], ratios[order]
        n_gaps = int(np.ptp(rows.clock)) - (n - 1) - int(numbers.max())
        weights = Weights(ratios, numbers)
        clock = rows.clock[order]
        return cls(y[order], ratios, weights, labels[order], clock, order, n_gaps)

    def by_episode(self, gamma, method):
        """The discounted return of each episode, for "pdis" with the weights of the
        rows."""
        weights = self.weights
        returns = gamma**weights.step * self.y
        if method in ("is", "pdis"):
            share = weights.share(np.zeros(weights.length.max()))
            returns = share * returns if method == "pdis" else returns
        return np.bincount(weights.numbers, returns)


@dataclass(frozen=True, eq=False)
class BySteps:
    """An array with an entry for each step, which is extended when longer episodes are
    added."""

    values: np.ndarray
    logarithms: bool = False  # whether the values are logarithms of what is added

    def __add__(self, other):
        n = max(len(self.values), len(other.values))
        fill = -np.inf if self.logarithms else 0.0
        both = [
            np.pad(part.values, (0, n - len(part.values)), constant_values=fill)
            for part in (self, other)
        ]
        return BySteps(
            np.logaddexp(*both) if self.logarithms else both[0] + both[1],
            self.logarithms,
        )


@dataclass
class Ratios:
    """What the estimates need to know of the ratios of all episodes."""

    returns: np.ndarray  # as `Episodes.by_episode`
    final: np.ndarray  # logarithms of the products of all ratios of an episode
    totals: np.ndarray  # logarithms of the sums of the weights at each step
    expected: float  # the effective number of episodes, on average
    odd: bool  # whether there was a warning about the ratios
    usual: float  # the most frequent return of an episode, without weights
    n_others: int  # number of episodes with another return


def read_ratios(sum_of, gamma, method):
    """The `Ratios`, checked. ``sum_of(function)`` adds up ``function(episodes)`` over
    the blocks."""

    def first_pass(rows):
        weights, ratios = rows.weights, rows.ratios
        with np.errstate(over="ignore"):
            of_ratios = len(ratios), ratios.sum(), np.square(ratios).sum(), rows.n_gaps
        counts = weights.length - 1 if method in ("is", "wis") else weights.step
        return (
            of_ratios,
            tuple(
                [part]
                for part in (
                    weights.final,
                    weights.length,
                    rows.by_episode(gamma, method),
                    rows.by_episode(gamma, "wis"),
                )
            ),
            BySteps(np.bincount(counts).astype(float)),
            BySteps(weights.ongoing(), True),
            [np.unique(rows.labels)],
        )

    (n, total, squares, n_gaps), of_episodes, counts, ongoing, labels = sum_of(
        first_pass
    )
    check_whole(labels, "their rows must lie in one partition")
    final, length, returns, plain = (np.concatenate(part) for part in of_episodes)
    found, often = np.unique(plain, return_counts=True)
    usual = found[often.argmax()], len(plain) - often.max()
    m = len(final)
    if m < 2:
        raise ValueError(f"episode must have at least 2 different labels, got {m}")
    if final.max() == -np.inf if method == "wis" else not total:
        raise ValueError(
            "importance_ratio must be positive, in all rows of one episode for 'wis', "
            "got 0 everywhere"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        size = 1.0 if np.isinf(squares) else total**2 / squares if squares else 0.0
        deviation = np.sqrt(max(squares / n - (total / n) ** 2, 0.0))
    odd = warn_of_mean_ratio(n, total / n, deviation, size)
    warn_of_gaps(n_gaps)
    steps = np.arange(len(counts.values))
    factor = 1.0 if method in ("is", "wis") else gamma**steps
    growth = n / size if size else np.inf
    expected = expected_size(m, growth, steps, counts.values * factor)
    totals = (
        total_by_step(ongoing.values, length, final)
        if method in ("wpdis", "wdr")
        else np.full(len(ongoing.values), np.log(m))
    )
    return Ratios(returns, final, totals, expected, odd, *usual)


def estimate(sum_of, found, gamma, method):
    """The estimate and the contribution of each episode. ``found`` are the `Ratios`."""
    if method == "wis":
        return of_returns(found.returns, found.final)
    if method in ("is", "pdis"):
        weights = np.exp(found.final) if method == "is" else 1.0
        parts = weights * found.returns
        return parts.mean(), parts
    totals = found.totals

    def weighted(rows):
        weights = rows.weights
        return weights.share(totals) * (gamma**weights.step * rows.y)

    mean = sum_of(lambda rows: BySteps(np.bincount(rows.weights.step, weighted(rows))))
    mean = mean.values
    influences = sum_of(
        lambda rows: [rows.weights.influence(weighted(rows), mean, totals)]
    )
    return mean.sum(), mean.sum() + len(found.final) * np.concatenate(influences)


def of_returns(values, final):
    """The weighted estimate from the returns of the episodes and the logarithms of
    their weights."""
    share = np.exp(final - np.logaddexp.reduce(final))
    mean = share @ values
    return mean, mean + len(final) * share * (values - mean)


def total_by_step(ongoing, length, final):
    """Logarithms of the sums of all episodes' weights at each step. Those that have
    ended keep their last weight."""
    order = np.argsort(length, kind="stable")
    ended = np.append(-np.inf, np.logaddexp.accumulate(final[order]))
    return np.logaddexp(
        ongoing,
        ended[np.searchsorted(length[order], np.arange(len(ongoing)), side="right")],
    )


def expected_size(m, growth, steps, weights):
    """The effective number of m episodes on average, if ratios are independent.

    The largest products are often missing in a log, whose own effective number is then
    too large. The mean square of single ratios, relative to the squared mean, is the
    growth. It is known well, and that of a product of t ratios is its t-th power.
    ``weights`` are those of products up to some steps.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return m / np.average(growth ** (steps + 1.0), weights=weights)
