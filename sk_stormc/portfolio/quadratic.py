"""Mean-variance portfolios from a drift and a matrix alone, without the rows that these came from."""

from dataclasses import replace

import numpy as np

from sk_stormc.portfolio.newton import solve_portfolio
from sk_stormc.portfolio.problem import PortfolioProblem

__all__ = ["solve_quadratic"]

SLOPE = 1e-4  # part of the drift that may be left where weights are free
ROUNDING = 1e-14  # of the largest eigenvalue of the scaled matrix: smaller ones are taken for 0


def solve_quadratic(drift, B, penalty, start):
    """Minimise w^T B w - drift^T w + R(w).

    Rows are made up whose mean is the drift and whose covariance is B: 2 n of them serve. So every penalty that
    ``solver="newton"`` knows is served by it, and its bound of the gap too.

    Parameters
    ----------
    drift : ndarray of shape (n_assets,)
    B : ndarray of shape (n_assets, n_assets)
        Positive semidefinite.
    penalty : object of `sk_stormc.penalties`, Turnover or None
    start : ndarray of shape (n_assets,)
        Feasible weights.

    Returns
    -------
    NewtonFit
    """
    root = np.sqrt(len(B)) * _root(B)
    rows = np.concatenate([drift + root, drift - root])
    found = solve_portfolio(PortfolioProblem(rows, 1.0, penalty=penalty), penalty, start)
    if penalty is None:  # a slope that is left leads down without end
        left = np.abs(drift - 2 * B @ found.weights) / size_of(B)
        if left.max() > SLOPE * (np.abs(drift) / size_of(B)).max():
            return replace(found, gap=np.inf)
    return found


def size_of(B):
    """Square roots of the diagonal; the largest where it is 0."""
    size = np.sqrt(np.maximum(B.diagonal(), 0.0))
    return np.where(size > 0, size, size.max() or 1.0)


def _root(B):
    """A matrix L with L^T L = B, by eigenvectors of the matrix with a diagonal of ones."""
    size = size_of(B)
    scaled = B / np.outer(size, size)
    try:
        return np.linalg.cholesky(scaled).T * size
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        values = np.where(values > ROUNDING * values[-1], values, 0.0)
        return np.sqrt(values)[:, None] * vectors.T * size
