"""Mean-variance portfolios from sums of products of the returns, without the
returns."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sk_stormc.portfolio.convex_program import PROGRAM_TOLERANCE
from sk_stormc.portfolio.exact.program import Optimum, solve_portfolio
from sk_stormc.portfolio.mean_risk import MeanRisk
from sk_stormc.portfolio.risk.variance import Variance

__all__ = ["root_of", "size_of", "solve_quadratic"]


def solve_quadratic(expected_return, B, feasible, start):
    """Minimise w^T B w - expected_return^T w plus the costs over a `FeasibleSet`.

    The general case is solved by ``solver="newton"``, on 2 n artificial rows with this
    mean and covariance, for the same sets and with the same bound of the gap.
    """
    if feasible.proximal() is None:
        return _free(expected_return, B)
    if feasible.simplex is not None and feasible.as_box() is not None:
        solution = _long_only(expected_return, B, feasible.budget, start > 0)
        if solution is not None:
            return solution
    if not np.isfinite(B).all():
        raise ValueError(
            "X must be returns whose squares are finite: measure them in a larger unit"
        )
    root = np.sqrt(len(B)) * root_of(B)
    rows = np.concatenate([expected_return + root, expected_return - root])
    return solve_portfolio(MeanRisk.of(rows, Variance(), 1.0, penalty=feasible), start)


def _free(expected_return, B):
    """The optimal unconstrained weights. The gap is infinite if a slope remains, as the
    objective is then unbounded."""
    size = size_of(B)
    scaled, slope = B / np.outer(size, size), expected_return / size
    w = _solution(2 * scaled, slope)
    left = slope - 2 * (scaled @ w)
    bounded = np.abs(left).max() <= 1e-4 * np.abs(slope).max()
    gap = float(abs(left @ w)) if bounded else np.inf
    w = w / size
    value = float(w @ B @ w - expected_return @ w)
    return Optimum(w, value, value - gap, 1)


def _solution(K, right):
    """K^-1 right, or the least-squares solution if K is nearly singular. The diagonal
    of K is 2."""
    try:
        factor = cho_factor(K)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(K, right)[0]
    # Cholesky's solution, which is twenty times faster, is inaccurate for tiny pivots
    if factor[0].diagonal().min() ** 2 < 1e-8:
        return np.linalg.lstsq(K, right)[0]
    w = cho_solve(factor, right)
    return w + cho_solve(factor, right - K @ w)


def _long_only(expected_return, B, total, held):
    """The optimal weights >= 0 with a given sum, by an active-set method that starts
    from the mask ``held``.

    Returns None if the active set is not found in a few attempts.
    """
    for k in range(20):
        n = np.count_nonzero(held)
        one = np.ones((n, 1))
        K = np.block([[2 * B[np.ix_(held, held)], -one], [one.T, np.zeros((1, 1))]])
        try:
            solution = np.linalg.solve(K, np.append(expected_return[held], total))
        except np.linalg.LinAlgError:
            return None
        w = np.zeros(len(B))
        w[held] = solution[:n]
        if (w < 0).any():
            held = w > 0
            continue
        slope, risk = 2 * (B @ w) - expected_return, float(w @ B @ w)
        least = slope.min()
        gap = float(slope @ w - total * least)
        gained = abs(expected_return @ w - total * expected_return.mean())
        if gap <= PROGRAM_TOLERANCE * (risk + gained):
            value = float(risk - expected_return @ w)
            return Optimum(w, value, value - max(gap, 0.0), k + 1)
        held = held | (slope < 0.5 * (solution[n] + least))
    return None


def size_of(B):
    """Square roots of the diagonal of B. Zeros are replaced by the largest."""
    size = np.sqrt(np.maximum(B.diagonal(), 0.0))
    return np.where(size > 0, size, size.max() or 1.0)


def root_of(B):
    """A matrix L with L^T L = B, by Cholesky's method or, if B is singular, from
    eigenvectors of the scaled matrix."""
    size = size_of(B)
    scaled = B / np.outer(size, size)
    try:
        return np.linalg.cholesky(scaled).T * size
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        rounding = len(B) * np.finfo(float).eps * values[-1]
        values = np.where(values > rounding, values, 0.0)
        return np.sqrt(values)[:, None] * vectors.T * size
