"""Products of importance ratios within episodes, and the estimates with these
weights."""

import numpy as np

from sk_stormc.utils.validation import short


class Weights:
    """Products of the ratios of an episode up to each row, and estimates with these
    weights.

    Products are computed as sums of logarithms, because products of many ratios
    underflow. All arrays have an entry for each row or each episode, however long the
    episodes are. The rows of an episode are contiguous and in order, and ``numbers`` of
    the episodes are 0, 1, ... in this order. With ``weighted``, estimates are divided
    by the sums of the weights in place of the number of episodes. An episode that has
    ended keeps its last weight in the sums of later steps. ``totals`` are the
    logarithms of these sums, of more episodes than these; None computes them.
    """

    def __init__(self, ratios, numbers, weighted, totals=None):
        n, self.numbers, self.weighted = len(ratios), numbers, weighted
        # first row of each episode
        self.start = np.flatnonzero(np.append(True, np.diff(numbers) > 0))
        self.last, self.m = np.append(self.start[1:], n) - 1, len(self.start)
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
        if weighted:
            self._total = (
                total_by_step(self.ongoing(), self.length, self.final)
                if totals is None
                else totals
            )
            total = self._total[self.step]
            # 0 if all weights are 0
            self.share = np.exp(logs - np.where(np.isfinite(total), total, np.inf))
            return
        with np.errstate(over="ignore"):
            self.share = np.exp(logs) / self.m
        if not np.isfinite(self.share).all():
            raise ValueError(
                "importance_ratio must have finite products within episodes, got "
                f"{short(ratios.max())} at the most: "
                "probabilities under the target policy over those under the behaviour "
                "policy are rarely above 100"
            )

    def ongoing(self):
        """Logarithms of the sums of the weights at each step, of the episodes that have
        this step."""
        n_steps = self.step.max() + 1
        largest = np.full(n_steps, -np.inf)
        np.maximum.at(largest, self.step, self.logs)
        unit = np.where(np.isfinite(largest), largest, 0.0)
        with np.errstate(divide="ignore"):
            return (
                np.log(
                    np.bincount(self.step, np.exp(self.logs - unit[self.step]), n_steps)
                )
                + unit
            )

    def of_rows(self, values):
        """The estimate from a value of each row, and the contribution of each
        episode."""
        weighted = self.share * values
        if not self.weighted:
            parts = self.m * np.bincount(self.numbers, weighted)
            return parts.mean(), parts
        mean = np.bincount(self.step, weighted)
        return mean.sum(), mean.sum() + self.m * self.influence(weighted, mean)

    def influence(self, weighted, mean):
        """The influence of each episode on the weighted estimate, from its rows and the
        means of the steps."""
        influence = np.bincount(self.numbers, weighted - self.share * mean[self.step])
        # an episode that has ended is included, with a value of 0, in the means of
        # later steps
        for sign in (1, -1):
            with np.errstate(divide="ignore"):
                size = np.log(np.maximum(sign * mean, 0.0))
            later = np.where(np.isfinite(size), size - self._total, -np.inf)[::-1]
            later = np.append(np.logaddexp.accumulate(later)[::-1], -np.inf)
            influence -= sign * np.exp(self.final + later[self.length])
        return influence

    def of_episodes(self, values):
        """The estimate from the sums of the values of each episode, and the
        contribution of each episode."""
        values = np.bincount(self.numbers, values)
        if not self.weighted:
            parts = np.exp(self.final) * values
            return parts.mean(), parts
        return of_returns(values, self.final)


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
