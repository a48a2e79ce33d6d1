"""Importance sampling for episodes in the partitions of dask collections."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.utils.blocks import blocks_of, check_finite_rows
from sk_stormc.utils.validation import as_numbers
from sk_stormc.values.episodes import check_episode, order_of
from sk_stormc.values.importance_weights import (
    Weights,
    expected_size,
    of_returns,
    total_by_step,
)
from sk_stormc.values.log_blocks import check_whole
from sk_stormc.values.log_warnings import warn_of_gaps, warn_of_mean_ratio
from sk_stormc.values.transitions import check_ratios


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


def weights_of(parts, totals):
    """The rewards of a block, in order, the `Weights`, the ratios, the labels and the
    number of gaps."""
    y, ratios, episode, *time = parts
    n = len(y)
    y = as_numbers("y", y)
    check_finite_rows("y", y)
    ratios, labels = check_ratios(ratios, n), check_episode(episode, n)
    rows = order_of(labels, time[0] if time else None, np.zeros(n, dtype=bool), n)
    order = np.argsort(rows.clock)
    numbers = rows.numbers[order]
    gaps = int(np.ptp(rows.clock)) - (n - 1) - int(numbers.max())
    totals = np.full(n, np.inf) if totals is None else totals
    return y[order], Weights(ratios[order], numbers, True, totals), ratios, labels, gaps


def estimate_by_blocks(y, importance_ratio, episode, time, gamma, method):
    """The estimate, the contributions of the episodes, the logarithms of their weights,
    the expected size, and whether there was a warning about the ratios.
    """
    if importance_ratio is None or episode is None:
        raise ValueError("importance_ratio and episode must be given, got None")
    blocks = blocks_of(y, importance_ratio, episode, time)
    whole = method in ("is", "wis")

    def first_pass(start, *parts):
        y, weights, ratios, labels, gaps = weights_of(parts, None)
        returns = gamma**weights.step * y
        with np.errstate(over="ignore"):
            weighted = np.bincount(weights.numbers, np.exp(weights.logs) * returns)
        steps = [
            BySteps(np.bincount(step).astype(float))
            for step in (weights.step, weights.length - 1)
        ]
        with np.errstate(over="ignore"):
            of_ratios = len(y), ratios.sum(), np.square(ratios).sum(), gaps
        of_episodes = (
            [weights.final],
            [weights.length],
            [np.bincount(weights.numbers, returns)],
            [weighted],
        )
        return (
            of_ratios,
            of_episodes,
            tuple(steps),
            BySteps(weights.ongoing(), True),
            [np.unique(labels)],
        )

    (n, total, squares, gaps), of_episodes, steps, ongoing, labels = blocks.sum(
        first_pass
    )
    check_whole(labels, "their rows must lie in one partition")
    final, length, returns, weighted = (np.concatenate(part) for part in of_episodes)
    m = len(final)
    if m < 2:
        raise ValueError(f"episode must have at least 2 different labels, got {m}")
    if final.max() == -np.inf if method == "wis" else not total:
        raise ValueError(
            "importance_ratio must be positive, in all rows of one episode for 'wis', "
            "got 0 everywhere"
        )
    size = 1.0 if np.isinf(squares) else total**2 / squares if squares else 0.0
    odd = warn_of_mean_ratio(
        n, total / n, np.sqrt(max(squares / n - (total / n) ** 2, 0.0)), size
    )
    warn_of_gaps(gaps)
    counts = steps[whole].values
    factor = counts if whole else counts * gamma ** np.arange(len(counts))
    expected = expected_size(
        m, n / size if size else np.inf, np.arange(len(counts)), factor
    )
    if method == "wis":
        return *of_returns(returns, final), final, expected, odd
    if method in ("is", "pdis"):
        with np.errstate(over="ignore", invalid="ignore"):
            parts = np.exp(final) * returns if whole else weighted
        if not np.isfinite(parts).all():
            raise ValueError(
                "importance_ratio must have finite products within episodes: give "
                "method='wpdis'"
            )
        return parts.mean(), parts, final, expected, odd
    totals = total_by_step(ongoing.values, length, final)

    def means(start, *parts):
        y, weights, *_ = weights_of(parts, totals)
        return BySteps(
            np.bincount(weights.step, weights.share * gamma**weights.step * y)
        )

    mean = blocks.sum(means).values

    def influences(start, *parts):
        y, weights, *_ = weights_of(parts, totals)
        return [weights.influence(weights.share * gamma**weights.step * y, mean)]

    value = mean.sum()
    return (
        value,
        value + m * np.concatenate(blocks.sum(influences)),
        final,
        expected,
        odd,
    )
