"""The variance, mean (y - mean y)^2."""

from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.core.penalties import as_penalty
from sk_stormc.portfolio.compositional import PortfolioProblem
from sk_stormc.portfolio.convex_program import Formulation, gram
from sk_stormc.portfolio.mean_risk import Measure, RiskInBlocks, mean_of, shares
from sk_stormc.portfolio.moments import Moments
from sk_stormc.portfolio.sums import Sums
from sk_stormc.utils.blocks import blocks

__all__ = ["Variance", "free_box", "riskless"]


@dataclass(frozen=True, eq=False)
class VarianceMoments(Moments):
    """Mean and variance: -return_weight <mean, w> + risk_weight w^T covariance w."""

    return_weight: float
    risk_weight: float
    all: Sums
    exact = True

    @classmethod
    def none(cls, task):
        """Empty moments."""
        return cls(
            task.return_weight, task.risk_weight, Sums.none(task.returns.shape[1])
        )

    def plus(self, rows, p, w):
        """Add rows."""
        return replace(self, all=self.all.plus(Sums.of(rows, p)))

    def times(self, factor):
        """Multiply the weights of all rows by a factor."""
        return replace(self, all=self.all.times(factor))

    def matrix(self):
        """The covariance matrix."""
        return self.all.covariance()

    @property
    def mean(self):
        """The mean return."""
        return self.all.mean


def free_box(task):
    """The `Box` of a task whose weights have no bounds and no costs, or None."""
    box = as_penalty(task.penalty).as_box()
    if box is None or np.any(box.alpha) or np.isfinite([box.low, box.high]).any():
        return None
    return box


def riskless(task):
    """Whether some portfolio has a mean return but no variance: True, False, or None if
    this is unknown.

    Such a portfolio exists if an asset is constant, or if there are no more periods
    than assets.
    """
    if not task.return_weight:
        return False  # a risk is not negative
    R, box = task.returns, free_box(task)
    if box is None:
        return None
    with_budget = box.budget is not None
    if (
        len(R) + with_budget <= R.shape[1]
    ):  # some portfolio has no variance, and in general a nonzero mean
        return bool(task.mean.astype(R.dtype).any())
    if with_budget:
        return None
    suspects = np.flatnonzero((R[:64] == R[0]).all(axis=0) & (R[0] != 0))
    for _, rows in blocks(R):
        suspects = suspects[(rows[:, suspects] == R[0][suspects]).all(axis=0)]
    return bool(suspects.size) or None


@dataclass
class Variance(Measure):
    """The variance, mean (y - mean y)^2."""

    name = "variance"
    power = 2
    rounds = "sums"
    below_mean = False  # whether only the returns below the mean count
    moments = VarianceMoments
    problem = PortfolioProblem

    def value(self, y, p=None):
        """The mean of the squared deviations."""
        return mean_of(self._deviations(y, p) ** 2, p)

    def subgradient(self, y, p=None):
        """The gradient 2 p_i (d_i - mean d)."""
        d = self._deviations(y, p)
        return 2 * (d - mean_of(d, p)) * shares(len(y), p)

    def in_blocks(self, total, mean, ends):
        """The mean of the squared deviations, and the slopes as in `subgradient`."""
        most = 0.0 if self.below_mean else np.inf

        def deviations(y, p):
            d = np.minimum(y - mean, most)
            return np.array([p @ d**2, p @ d])

        risk, middle = total(deviations)
        return RiskInBlocks(
            float(risk), lambda y, p: 2 * p * (np.minimum(y - mean, most) - middle)
        )

    def _deviations(self, y, p):
        d = y - mean_of(y, p)
        return np.minimum(d, 0) if self.below_mean else d

    def objective(self, task, w, u=None):
        """The objective of a `MeanRisk` without penalty, as the mean of returns and
        squares about u, their mean, over the periods."""
        u = task.mean.astype(task.returns.dtype)[None].dot(w)[0] if u is None else u
        total = 0.0
        for start, rows in blocks(task.returns):
            y = rows @ w
            d = y - u
            if self.below_mean:
                np.minimum(d, 0, out=d)
            values = task.risk_weight * d.astype(float) ** 2 - task.return_weight * y
            p = None if task.p is None else task.p[start : start + len(y)]
            total += values.sum() if p is None else p @ values
        return float(total / len(task.returns) if task.p is None else total)

    def unbounded_below(self, task):
        """Whether some portfolio has a mean return but no variance, or None if this is
        unknown."""
        return riskless(task)

    def formulation(self, scaled, v):
        """A quadratic function of the weights."""
        return Formulation(
            -scaled.expected_return,
            quadratic=2 * scaled.risk_weight * gram(scaled.Q, scaled.p),
        )
