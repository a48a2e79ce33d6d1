"""A portfolio as a point of the rounds: its returns over all rows, its risk and its
objective."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sk_stormc.portfolio.mean_risk import RiskInBlocks

__all__ = ["Point", "PortfolioReturns", "ReturnsBySums"]


class PortfolioReturns:
    """A portfolio's return in each period.

    Attributes
    ----------
    kept : Blocks
        The returns and the weights of the periods, of shape (n_rows, 2).
    ends : tuple of two floats
        The smallest and the largest return in a period of positive weight.
    deviation : float
        The standard deviation.
    """

    def __init__(self, kept):
        (ends, powers) = kept.sum(ends_and_powers)
        low, high = np.transpose(ends)
        self.kept, self.ends = kept, (float(low.min()), float(high.max()))
        self.deviation = float(np.sqrt(max(powers[1] - powers[0] ** 2, 0.0)))

    def risk(self, measure, mean):
        """The `RiskInBlocks` of a measure, given the mean return."""
        if measure.ordered:
            y, p = np.concatenate(self.kept.sum(lambda start, kept: [kept])).T
            return RiskInBlocks(measure.value(y, p), measure.subgradient(y, p))
        return measure.in_blocks(
            lambda f: self.kept.sum(lambda start, kept: f(kept[:, 0], kept[:, 1])),
            mean,
            self.ends,
        )

    def counted(self, of=None):
        """Sums ``total(f)`` of ``f(of(y), 1)`` over the periods that count."""

        def total(f):
            def of_block(start, kept):
                y = kept[kept[:, 1] > 0, 0]
                return f(y if of is None else of(y), np.ones(len(y)))

            return self.kept.sum(of_block)

        return total


def ends_and_powers(start, kept):
    """The smallest and the largest return of positive weight in a block, and the
    weighted sums of the returns and of their squares."""
    y, p = kept.T
    some = y[p > 0]
    ends = some.min(initial=np.inf), some.max(initial=-np.inf)
    return [ends], np.array([p @ y, p @ y**2])


class ReturnsBySums:
    """The variance of a portfolio's returns, by the covariance of all assets."""

    def __init__(self, variance):
        self.variance = max(float(variance), 0.0)
        self.deviation = np.sqrt(self.variance)

    def risk(self, measure, mean):
        """The variance, as `RiskInBlocks` without a gradient."""
        return RiskInBlocks(self.variance, None)


@dataclass(eq=False)
class Point:
    """A portfolio."""

    w: np.ndarray
    returns: Any  # `PortfolioReturns` or `ReturnsBySums`
    value: float  # of the objective
    risk: float
    slope: Any
    kink: float | None
