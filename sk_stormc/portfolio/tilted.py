"""The logarithm of a sum of exponentials of many rows, to second order around a point, from sums alone."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.portfolio.sums import Sums

__all__ = ["Tilted", "tilts"]


def tilts(rows, x):
    """exp(-<r_i, x>) over the largest of them."""
    y = rows @ x
    return np.exp(y.min() - y)


@dataclass(frozen=True, eq=False)
class Tilted:
    """log sum p_i exp(-<r_i, x>) around x: log of the sum, mean and covariance of the rows with these weights.

    Attributes
    ----------
    x : ndarray of shape (n_assets,)
    log_weight : float
    mean : ndarray of shape (n_assets,)
    covariance : ndarray of shape (n_assets, n_assets)
    """

    x: np.ndarray
    log_weight: float
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, rows, p, x):
        """Of some rows."""
        weights = tilts(rows, x) if p is None else p * tilts(rows, x)
        sums = Sums.of(rows, weights)
        return cls(x, float(np.log(sums.weight) - (rows @ x).min()), sums.mean, sums.covariance())

    def log_at(self, x):
        """The logarithm at another x, to second order."""
        way = x - self.x
        return float(self.log_weight - self.mean @ way + 0.5 * way @ self.covariance @ way)

    def around(self, x):
        """The same function, written around another x."""
        way = x - self.x
        return Tilted(x, self.log_at(x), self.mean - self.covariance @ way, self.covariance)

    def plus(self, other):
        """Of both, where they are written around the same x."""
        log_weight = float(np.logaddexp(self.log_weight, other.log_weight))
        parts = [
            Sums(np.exp(one.log_weight - log_weight), one.mean, np.exp(one.log_weight - log_weight) * one.covariance)
            for one in (self, other)
        ]
        both = parts[0].plus(parts[1])
        return Tilted(self.x, log_weight, both.mean, both.covariance())
