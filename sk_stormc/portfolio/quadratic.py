"""Mean-variance portfolios from the mean (drift) and the covariance matrix, without the returns."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sk_stormc.core.penalties import Simplex
from sk_stormc.portfolio.newton import NewtonFit, solve_portfolio
from sk_stormc.portfolio.problem import PortfolioProblem

__all__ = ["solve_quadratic"]

SLOPE = 1e-4  # remaining slope, relative to the drift, up to which unconstrained weights count as a minimum
GUESSES = 20  # maximum number of active sets that are tried
EXACT = 1e-9  # gap that ends the search for the active set, relative to risk and return
WELL = 1e-8  # smallest pivot for a Cholesky solution, which is twenty times faster than least squares
ROUNDING = 1e-14  # eigenvalues below this fraction of the largest count as 0


def solve_quadratic(drift, B, penalty, start):
    """Minimise w^T B w - drift^T w + R(w).

    The general case is solved by ``solver="newton"``, on 2 n artificial rows whose mean is the drift and whose
    covariance is B. This supports the same penalties and gives the same bound of the gap.
    """
    if penalty is None:
        return _free(drift, B)
    found = _long_only(drift, B, penalty.total, start > 0) if isinstance(penalty, Simplex) else None
    if found is not None:
        return found
    root = np.sqrt(len(B)) * _root(B)
    rows = np.concatenate([drift + root, drift - root])
    return solve_portfolio(PortfolioProblem(rows, 1.0, penalty=penalty), penalty, start)


def _free(drift, B):
    """The optimal unconstrained weights. The gap is infinite if a slope remains: the objective is unbounded below."""
    size = size_of(B)
    scaled, slope = B / np.outer(size, size), drift / size
    w = _solution(2 * scaled, slope)
    left = slope - 2 * (scaled @ w)
    gap = float(abs(left @ w)) if np.abs(left).max() <= SLOPE * np.abs(slope).max() else np.inf
    w = w / size
    return NewtonFit(w, float(w @ B @ w - drift @ w), gap, 1)


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


def _long_only(drift, B, total, held):
    """The optimal weights >= 0 with a given sum, by an active-set method that starts from the mask ``held``.

    None if it does not find the active set in a few attempts.
    """
    for k in range(GUESSES):
        n = np.count_nonzero(held)
        K, right = np.zeros((n + 1, n + 1)), np.append(drift[held], total)
        size = size_of(B)[held]
        K[:n, :n], K[:n, n], K[n, :n] = 2 * B[np.ix_(held, held)] / np.outer(size, size), -1 / size, 1 / size
        right[:n] /= size
        try:
            found = np.linalg.solve(K, right)
        except np.linalg.LinAlgError:
            return None
        w = np.zeros(len(B))
        w[held] = found[:n] / size
        if (w < 0).any():
            held = w > 0
            continue
        slope = 2 * (B @ w) - drift
        least, gap = slope.min(), float(slope @ w - total * slope.min())
        risk = float(w @ B @ w)
        if gap <= EXACT * (risk + abs(drift @ w - total * drift.mean())):
            return NewtonFit(w, float(risk - drift @ w), max(gap, 0.0), k + 1)
        held = held | (slope < 0.5 * (found[n] + least))
    return None


def size_of(B):
    """Square roots of the diagonal of B. Zeros are replaced by the largest."""
    size = np.sqrt(np.maximum(B.diagonal(), 0.0))
    return np.where(size > 0, size, size.max() or 1.0)


def _root(B):
    """A matrix L with L^T L = B, by Cholesky or, if B is singular, by eigenvectors of the scaled matrix."""
    size = size_of(B)
    scaled = B / np.outer(size, size)
    try:
        return np.linalg.cholesky(scaled).T * size
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        values = np.where(values > ROUNDING * values[-1], values, 0.0)
        return np.sqrt(values)[:, None] * vectors.T * size
