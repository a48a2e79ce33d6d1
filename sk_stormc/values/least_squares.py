"""The exact minimisers of policy evaluation: least squares by singular values, in columns of equal length."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, sparse

from sk_stormc.values.markov import dense

__all__ = [
    "ENOUGH_ROWS",
    "NEGLIGIBLE",
    "Solution",
    "check_ends",
    "is_endless",
    "root_of_inverse",
    "solve_moments",
    "solve_rows",
]

ENOUGH_ROWS = 10  # for each feature, before growth is told from chance
NEGLIGIBLE = 1e-12  # of the largest eigenvalue: what is below is rounding
ENDLESS = 1e-11  # of the largest singular value: episodes that end so seldom are taken never to end
ROUNDING = 1e-9  # of an eigenvalue
LITTLE = 0.01  # of the values' root mean square
BLOCK = 4096  # rows that are factorised together
INCONSISTENT = 1e-5  # residual, relative to the right-hand side, that rounding and cut directions cannot explain


@dataclass(frozen=True)
class Solution:
    """Where the minimum is, and how well the data determine it.

    Attributes
    ----------
    x : ndarray of shape (n_variables,)
        Where there are several, the shortest one, each column being measured in its unit.
    rank : int
        Directions that are above rounding.
    condition : float
        The largest singular value of the column-scaled system over the smallest one within the rank. The rounding of
        the data is multiplied by it. 1 for an empty system.
    vanishes : bool, default=False
        Whether the residual of the equations is 0 there, but for rounding.
    endless : bool, default=False
        Whether the values that the equations describe do not exist, as `is_endless` says, where it has been asked.
    """

    x: np.ndarray
    rank: int
    condition: float
    vanishes: bool = False
    endless: bool = False


def solve_rows(A, b, alpha, unit):
    """Minimise |A x - b|^2 + sum_j alpha_j x_j^2.

    Parameters
    ----------
    A : ndarray or sparse matrix of shape (n, d)
        With more rows than columns it is reduced to a triangle, block by block.
    b : ndarray of shape (n,)
    alpha : ndarray of shape (d,)
    unit : ndarray of shape (d,)
        What the size of a column is measured in, where several solutions are to be told apart.

    Returns
    -------
    Solution
    """
    n, d = A.shape
    scale = _inverse(np.sqrt((A.multiply(A) if sparse.issparse(A) else A * A).sum(axis=0)))
    if n <= d:
        rows = np.column_stack([dense(A), b])
    else:
        rows, step = np.zeros((0, d + 1)), max(BLOCK, d)
        for start in range(0, n, step):
            block = np.column_stack([dense(A[start : start + step]), b[start : start + step]])
            rows = np.linalg.qr(np.vstack([rows, block]), mode="r")
    return _ridge(rows[:, :-1] * scale, rows[:, -1], alpha, scale, unit)


def solve_moments(A, b, C, alpha, unit, exact=True):
    """Minimise (A x - b)^T C^+ (A x - b) + sum_j alpha_j x_j^2.

    Without alpha the residual can vanish, unless A is singular where C is not. A x = b is then solved as it is, since
    C^+ would only spread rounding over it.

    Parameters
    ----------
    A, C : ndarrays of shape (d, d)
        C symmetric and positive semidefinite.
    b : ndarray of shape (d,)
    alpha, unit
        As for `solve_rows`.
    exact : bool, default=True
        Whether A x and b lie in the range of C, as they do if all three are of the same rows.

    Returns
    -------
    Solution
    """
    scale = _inverse(np.sqrt(C.diagonal()))
    scaled, target = scale[:, None] * A * scale, scale * b
    if exact and not alpha.any():
        found = _ridge(scaled, target, alpha, scale, unit)
        residual = np.linalg.norm(scaled @ (found.x / scale) - target)
        if found.rank == len(b) or residual <= INCONSISTENT * np.linalg.norm(target):
            return replace(found, vanishes=True)
    root, spread = root_of_inverse(C)
    found = _ridge(root.T @ A * scale, root.T @ b, alpha, scale, unit)
    return replace(found, condition=found.condition * spread)  # the root has the rounding of C, this much larger


def root_of_inverse(C):
    """A root of a generalised inverse of a covariance, found in columns of equal length.

    Parameters
    ----------
    C : ndarray of shape (d, d)
        Symmetric, positive semidefinite.

    Returns
    -------
    root : ndarray of shape (d, rank)
        |root^T u|^2 = u^T C^+ u for u in the range of C.
    spread : float
        The root of the condition number of the scaled C over its rank.
    """
    scale = _inverse(np.sqrt(C.diagonal()))
    values, vectors = np.linalg.eigh(scale[:, None] * C * scale)
    found = values > NEGLIGIBLE * max(values[-1], 0.0)
    values = np.sqrt(values[found])
    return scale[:, None] * vectors[:, found] / values, values[-1] / values[0] if len(values) else 1.0


def is_endless(A, C, x, n_rows):
    """Whether a part of the values is multiplied by more than 1 / gamma from one step to the next.

    C^+ A is the identity minus gamma times the mean step of the features. Where it has a real eigenvalue below 0, the
    sum of the discounted rewards along the eigenvector has no end, but the equations have a solution, of the wrong
    sign. Transitions of long episodes under the policy itself have no such eigenvalue.

    Parameters
    ----------
    A, C : ndarrays of shape (d, d)
        As for `solve_moments`.
    x : ndarray of shape (d,)
        The solution. A direction in which it has nothing does not matter.
    n_rows : int
        Of how many transitions these are; few say nothing of what grows without end.

    Returns
    -------
    bool
    """
    if n_rows < ENOUGH_ROWS * len(x):
        return False
    scale = _inverse(np.sqrt(C.diagonal()))
    scaled = scale[:, None] * A * scale
    try:
        linalg.cholesky(scaled + scaled.T + ROUNDING * np.eye(len(A)), check_finite=False)
        return False  # the real parts of all eigenvalues are then positive
    except linalg.LinAlgError:
        root = root_of_inverse(C)[0]
        values, vectors = linalg.eig(root.T @ A @ root, check_finite=False)
        of_values = root.T @ C @ x
        parts = np.abs(linalg.lstsq(vectors, of_values, check_finite=False)[0])
        growing = (values.imag == 0) & (values.real < -ROUNDING)
        return bool((parts[growing] > LITTLE * np.linalg.norm(of_values)).any())


def check_ends(A, C):
    """Raise where values without a discount are not determined: where A is singular in a direction that C is not.

    Parameters
    ----------
    A, C : ndarrays of shape (d, d)
        As for `solve_moments`.
    """
    root = root_of_inverse(C)[0]
    values = np.linalg.svd(root.T @ A @ root, compute_uv=False)
    if len(values) and values[-1] <= ENDLESS * values[0]:
        raise ValueError(
            "gamma must be a number < 1, got 1: without a discount, values are determined only if an episode ends from "
            "every state under the policy that is evaluated, and these transitions do not say so. terminal= tells "
            "which ones end an episode."
        )


def _ridge(A, b, alpha, scale, unit):
    """The x = scale * v for which |A v - b|^2 + sum_j alpha_j x_j^2 is least."""
    penalised, d = np.flatnonzero(alpha), A.shape[1]
    if len(penalised):
        ridge = np.sqrt(alpha[penalised]) * scale[penalised]
        shrink = np.ones(d)
        shrink[penalised] = 1 / np.maximum(1, ridge)  # or a column in a tiny unit would set the scale of rounding
        A, scale = A * shrink, scale * shrink
        below = np.zeros((len(penalised), d))
        below[np.arange(len(penalised)), penalised] = ridge * shrink[penalised]
        A, b = np.vstack([A, below]), np.append(b, np.zeros(len(penalised)))
    rounding = 10 * np.finfo(float).eps * max(A.shape)
    v, _, rank, values = np.linalg.lstsq(A, b, rcond=rounding)
    x = scale * v
    if 0 < rank < d:  # v is the shortest solution; x should be, in its units
        lengths = 1 / (unit * scale)
        # by QR with pivoting, half of the time of singular values
        again, _, same, _ = linalg.lstsq(A * lengths, b, rounding, lapack_driver="gelsy", check_finite=False)
        x = scale * lengths * again if same == rank else x
    return Solution(x, int(rank), float(values[0] / values[rank - 1]) if rank else 1.0)


def _inverse(lengths):
    lengths = np.asarray(lengths).ravel()
    return 1 / np.where(lengths > 0, lengths, 1.0)
