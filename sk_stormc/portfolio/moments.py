"""Moments of past rows: sums of products from which the objective over all of these
rows is computed.

For the variance the objective is exact. For the other measures it is a second-order
expansion around the weights that were optimal when a row was added, so that it is
quadratic in the weights like mean and variance.

Each class belongs to one measure, in the measure's file. `none` makes empty moments for
a `MeanRisk`, `plus` adds rows around given weights, `times` discounts the rows so far,
`minimised` finds the optimal weights by quadratic programs, and `value` is the
objective. One fixed row is subtracted from all returns.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.portfolio.sums import Sums

__all__ = ["Moments", "Tilted", "tilts"]


class Moments:
    """Base class of the moments."""

    exact = False  # whether the objective is exact
    # squared distance from the weights around which rows were added, relative to
    # `size`, above which it is inaccurate
    far = math.inf

    @property
    def earned(self):
        """Minus the change of the objective when 1 is added to the portfolio's return
        in all periods."""
        return self.return_weight

    def minimised(self, solve, w):
        """The minimiser that ``solve(expected_return, matrix)`` finds, an `Optimum`."""
        return solve(self.return_weight * self.mean, self.risk_weight * self.matrix())

    def value(self, w):
        """The objective without penalty."""
        return float(
            self.risk_weight * (w @ self.matrix() @ w)
            - self.return_weight * (self.mean @ w)
        )

    def size(self, w):
        """The scale of squared changes of the weights, in the norm of `matrix`: the
        squared norm of the weights."""
        return float(w @ self.matrix() @ w)


def tilts(rows, x):
    """exp(-<r_i, x>), divided by the largest of these values."""
    y = rows @ x
    return np.exp(y.min() - y)


@dataclass(frozen=True, eq=False)
class Tilted:
    """Second-order expansion of log sum p_i exp(-<r_i, x>) around x: value, and mean
    and covariance of tilted rows."""

    x: np.ndarray
    log_weight: float
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, rows, p, x):
        """The expansion for some rows around x."""
        weights = tilts(rows, x) if p is None else p * tilts(rows, x)
        sums = Sums.of(rows, weights)
        return cls(
            x,
            float(np.log(sums.weight) - (rows @ x).min()),
            sums.mean,
            sums.covariance(),
        )

    def log_at(self, x):
        """The logarithm at another x, to second order."""
        way = x - self.x
        return float(
            self.log_weight - self.mean @ way + 0.5 * way @ self.covariance @ way
        )

    def times(self, factor):
        """The expansion with the weights of all rows multiplied by a factor."""
        return replace(self, log_weight=self.log_weight + np.log(factor))

    def around(self, x):
        """The same quadratic function, expanded around another x."""
        way = x - self.x
        return Tilted(
            x, self.log_at(x), self.mean - self.covariance @ way, self.covariance
        )

    def plus(self, other):
        """The expansion for the rows of both, which must be around the same x."""
        log_weight = float(np.logaddexp(self.log_weight, other.log_weight))
        parts = [
            Sums(
                np.exp(one.log_weight - log_weight),
                one.mean,
                np.exp(one.log_weight - log_weight) * one.covariance,
            )
            for one in (self, other)
        ]
        both = parts[0].plus(parts[1])
        return Tilted(self.x, log_weight, both.mean, both.covariance())
