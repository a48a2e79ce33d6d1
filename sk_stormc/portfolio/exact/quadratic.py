"""Mean-variance portfolios from sums of products of the returns, without the returns."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sk_stormc.core.penalties import Simplex
from sk_stormc.portfolio.exact.newton import Optimum, solve_portfolio
from sk_stormc.portfolio.risk.mean_risk import PortfolioProblem

__all__ = ["Sums", "mean_of", "solve_quadratic", "sums_of"]

ROWS = 1024  # rows of a block whose products are summed


def mean_of(rows, p=None):
    """Sum of the weights, and the mean row. p=None means weights of 1."""
    weight = float(len(rows)) if p is None else float(p.sum())
    return weight, (np.full(len(rows), 1.0) if p is None else p).dot(rows) / (weight or 1.0)


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
        weight, mean = mean_of(rows, p)
        if not weight > 0:
            return cls.none(rows.shape[1])
        off = rows - mean
        if p is not None:
            off *= np.sqrt(p)[:, None]
        return cls(weight, mean, off.T @ off)  # numpy computes A.T @ A with half the work

    def plus(self, other):
        """The sums of both. The means are merged by their difference, which does not depend on an offset."""
        if not other.weight > 0:
            return self
        weight = self.weight + other.weight
        way = other.mean - self.mean
        part = other.weight / weight
        scatter = self.scatter + other.scatter + (self.weight * part) * np.outer(way, way)
        return Sums(weight, self.mean + part * way, scatter)

    def times(self, factor):
        """The sums of the same rows with all weights multiplied by a factor."""
        return replace(self, weight=factor * self.weight, scatter=factor * self.scatter)

    def covariance(self):
        """scatter / weight."""
        return self.scatter / self.weight


def sums_of(returns, weights):
    """The sums of all returns, computed in blocks, without a copy of the returns in float64."""
    sums = Sums.none(returns.shape[1])
    for i in range(0, len(returns), ROWS):
        p = None if weights is None else weights[i : i + ROWS]
        sums = sums.plus(Sums.of(returns[i : i + ROWS].astype(float), p))
    return sums


SLOPE = 1e-4  # slope, relative to the expected return, up to which unconstrained weights count as a minimum
GUESSES = 20  # maximum number of active sets that are tried
EXACT = 1e-9  # gap that ends the search for the active set, relative to risk and return
WELL = 1e-8  # smallest pivot for a Cholesky solution, which is twenty times faster than least squares
ROUNDING = 1e-14  # eigenvalues below this fraction of the largest count as 0


def solve_quadratic(expected_return, B, penalty, start):
    """Minimise w^T B w - expected_return^T w + R(w).

    The general case is solved by ``solver="newton"``, on 2 n artificial rows with this mean and covariance, for the
    same penalties and with the same bound of the gap.
    """
    if penalty is None:
        return _free(expected_return, B)
    solution = _long_only(expected_return, B, penalty.total, start > 0) if isinstance(penalty, Simplex) else None
    if solution is not None:
        return solution
    root = np.sqrt(len(B)) * _root(B)
    rows = np.concatenate([expected_return + root, expected_return - root])
    return solve_portfolio(PortfolioProblem(rows, 1.0, penalty=penalty), penalty, start)


def _free(expected_return, B):
    """The optimal unconstrained weights. The gap is infinite if a slope remains, as the objective is then unbounded."""
    size = size_of(B)
    scaled, slope = B / np.outer(size, size), expected_return / size
    w = _solution(2 * scaled, slope)
    left = slope - 2 * (scaled @ w)
    gap = float(abs(left @ w)) if np.abs(left).max() <= SLOPE * np.abs(slope).max() else np.inf
    w = w / size
    return Optimum(w, float(w @ B @ w - expected_return @ w), gap, 1)


def _solution(K, right):
    """K^-1 right, or the least-squares solution if K is nearly singular. The diagonal of K is 2."""
    try:
        factor = cho_factor(K)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(K, right, rcond=ROUNDING)[0]
    if factor[0].diagonal().min() ** 2 < WELL:
        return np.linalg.lstsq(K, right, rcond=ROUNDING)[0]
    w = cho_solve(factor, right)
    return w + cho_solve(factor, right - K @ w)


def _long_only(expected_return, B, total, held):
    """The optimal weights >= 0 with a given sum, by an active-set method that starts from the mask ``held``.

    Returns None if the active set is not found in a few attempts.
    """
    for k in range(GUESSES):
        n = np.count_nonzero(held)
        K, right = np.zeros((n + 1, n + 1)), np.append(expected_return[held], total)
        K[:n, :n], K[:n, n], K[n, :n] = 2 * B[np.ix_(held, held)], -1.0, 1.0
        try:
            solution = np.linalg.solve(K, right)
        except np.linalg.LinAlgError:
            return None
        w = np.zeros(len(B))
        w[held] = solution[:n]
        if (w < 0).any():
            held = w > 0
            continue
        slope = 2 * (B @ w) - expected_return
        least, gap = slope.min(), float(slope @ w - total * slope.min())
        risk = float(w @ B @ w)
        if gap <= EXACT * (risk + abs(expected_return @ w - total * expected_return.mean())):
            return Optimum(w, float(risk - expected_return @ w), max(gap, 0.0), k + 1)
        held = held | (slope < 0.5 * (solution[n] + least))
    return None


def size_of(B):
    """Square roots of the diagonal of B. Zeros are replaced by the largest."""
    size = np.sqrt(np.maximum(B.diagonal(), 0.0))
    return np.where(size > 0, size, size.max() or 1.0)


def _root(B):
    """A matrix L with L^T L = B, by Cholesky's method or, if B is singular, from eigenvectors of the scaled matrix."""
    size = size_of(B)
    scaled = B / np.outer(size, size)
    try:
        return np.linalg.cholesky(scaled).T * size
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        values = np.where(values > ROUNDING * values[-1], values, 0.0)
        return np.sqrt(values)[:, None] * vectors.T * size
