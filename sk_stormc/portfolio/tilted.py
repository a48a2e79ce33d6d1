"""The second-order expansion of a log-sum-exp over many rows around a point, from moments of the rows."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.portfolio.sums import Sums

__all__ = ["Tilted", "tilts"]


def tilts(rows, x):
    """exp(-<r_i, x>), divided by the largest of them."""
    y = rows @ x
    return np.exp(y.min() - y)


@dataclass(frozen=True, eq=False)
class Tilted:
    """log sum p_i exp(-<r_i, x>) around x: its value, and mean and covariance of the rows with these weights."""

    x: np.ndarray
    log_weight: float
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, rows, p, x):
        """The expansion for some rows around x."""
        weights = tilts(rows, x) if p is None else p * tilts(rows, x)
        sums = Sums.of(rows, weights)
        return cls(x, float(np.log(sums.weight) - (rows @ x).min()), sums.mean, sums.covariance())

    def log_at(self, x):
        """The logarithm at another x, to second order."""
        way = x - self.x
        return float(self.log_weight - self.mean @ way + 0.5 * way @ self.covariance @ way)

    def around(self, x):
        """The same quadratic function, expanded around another x."""
        way = x - self.x
        return Tilted(x, self.log_at(x), self.mean - self.covariance @ way, self.covariance)

    def plus(self, other):
        """The expansion for the rows of both, which must be around the same x."""
        log_weight = float(np.logaddexp(self.log_weight, other.log_weight))
        parts = [
            Sums(np.exp(one.log_weight - log_weight), one.mean, np.exp(one.log_weight - log_weight) * one.covariance)
            for one in (self, other)
        ]
        both = parts[0].plus(parts[1])
        return Tilted(self.x, log_weight, both.mean, both.covariance())
