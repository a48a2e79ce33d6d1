"""Sums over rows of returns: weight, mean, and sums of products."""

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["BLOCK_ROWS", "Sums", "mean_row", "sums_of"]

BLOCK_ROWS = 1024  # rows that are converted to float64, and summed, at a time


def mean_row(rows, p=None):
    """Sum of the weights, and the mean row. p=None means weights of 1."""
    weight = float(len(rows)) if p is None else float(p.sum())
    return weight, (np.full(len(rows), 1.0) if p is None else p).dot(rows) / (
        weight or 1.0
    )


@dataclass(frozen=True, eq=False)
class Sums:
    """Weight, mean and scatter matrix of rows r_i with weights p_i >= 0."""

    weight: float  # sum p_i
    mean: np.ndarray
    scatter: np.ndarray  # sum p_i (r_i - mean) (r_i - mean)^T

    @classmethod
    def none(cls, n):
        """The sums of zero rows."""
        return cls(0.0, np.zeros(n), np.zeros((n, n)))

    @classmethod
    def of(cls, rows, p=None):
        """The sums of some rows, in float64. p=None means weights of 1."""
        weight, mean = mean_row(rows, p)
        if not weight > 0:
            return cls.none(rows.shape[1])
        off = rows - mean
        if p is not None:
            off *= np.sqrt(p)[:, None]
        # numpy computes A.T @ A with half the work
        return cls(weight, mean, off.T @ off)

    def plus(self, other):
        """The sums of both. The means are merged by their difference, which does not
        depend on an offset."""
        if not other.weight > 0:
            return self
        weight = self.weight + other.weight
        way = other.mean - self.mean
        part = other.weight / weight
        between = (self.weight * part) * np.outer(way, way)
        scatter = self.scatter + other.scatter + between
        return Sums(weight, self.mean + part * way, scatter)

    __add__ = plus

    def times(self, factor):
        """The sums of the same rows with all weights multiplied by a factor."""
        return replace(self, weight=factor * self.weight, scatter=factor * self.scatter)

    def covariance(self):
        """scatter / weight."""
        return self.scatter / self.weight


def sums_of(returns, weights):
    """The sums of all returns, computed in blocks, without a copy of the returns in
    float64."""
    sums = Sums.none(returns.shape[1])
    for i in range(0, len(returns), BLOCK_ROWS):
        some = slice(i, i + BLOCK_ROWS)
        p = None if weights is None else weights[some]
        sums = sums.plus(Sums.of(returns[some].astype(float), p))
    return sums
