"""The semivariance, mean min(y - mean y, 0)^2."""

from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.portfolio.convex_program import Formulation, Hinges
from sk_stormc.portfolio.moments import Moments
from sk_stormc.portfolio.risk.variance import Variance
from sk_stormc.portfolio.sums import Sums, mean_row

__all__ = ["Semivariance"]


@dataclass(frozen=True, eq=False)
class SemivarianceMoments(Moments):
    """Mean and semivariance: -return_weight <mean, w> + risk_weight mean min(<r_i -
    mean, w>, 0)^2.

    The second moments are those of the rows in which the portfolio's return is below
    its mean.
    """

    return_weight: float
    risk_weight: float
    weight: float
    mean: np.ndarray
    below: Sums
    far = 1.5

    @classmethod
    def none(cls, task):
        """Empty moments."""
        n = task.returns.shape[1]
        return cls(task.return_weight, task.risk_weight, 0.0, np.zeros(n), Sums.none(n))

    def plus(self, rows, p, w):
        """Add rows. The weights w determine which of them are below the mean."""
        new, mean = mean_row(rows, p)
        weight = self.weight + new
        mean = self.mean + (new / weight) * (mean - self.mean)
        if w.any():
            there = rows @ w < mean @ w
            below = Sums.of(rows[there], None if p is None else p[there])
        else:  # all returns are equal to the mean, so each row counts half
            below = Sums.of(rows, p).times(0.5)
        return replace(self, weight=weight, mean=mean, below=self.below.plus(below))

    def times(self, factor):
        """Multiply the weights of all rows by a factor."""
        return replace(
            self, weight=factor * self.weight, below=self.below.times(factor)
        )

    def matrix(self):
        """The sum of (r_i - mean) (r_i - mean)^T over the rows below the mean, divided
        by the weight of all rows."""
        off = self.below.mean - self.mean
        return (
            self.below.scatter + self.below.weight * np.outer(off, off)
        ) / self.weight

    def counts(self, rows, w):
        """The weight of each row in the matrix."""
        return (rows @ w < self.mean @ w).astype(float)


@dataclass
class Semivariance(Variance):
    """The semivariance, mean min(y - mean y, 0)^2: the variance with the returns below
    the mean only."""

    name = "semivariance"
    rounds = "sample"
    below_mean = True
    moments = SemivarianceMoments  # type: ignore[assignment]

    def formulation(self, scaled, v):
        """A quadratic hinge for each period."""
        zero = np.zeros(len(scaled.p))
        hinges = [Hinges(-scaled.Q, zero, zero, scaled.risk_weight * scaled.p)]
        return Formulation(-scaled.expected_return, hinges=hinges)
