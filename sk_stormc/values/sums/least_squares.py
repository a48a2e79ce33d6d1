"""The exact minimisers for policy evaluation: least squares by the SVD, with columns
scaled to equal norms."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg
from sklearn.utils import gen_batches

from sk_stormc.values.markov import dense

# eigenvalues of C below this fraction of the largest are rounding errors, which its
# inverse would amplify
EIGENVALUE_ROUNDING = 1e-12
# singular values of A below this fraction of the largest are 0: a direction that the
# transitions do not determine, or in which episodes never end
SINGULAR = 1e-11


@dataclass(frozen=True)
class LeastSquaresSolution:
    """A minimiser, and measures of how well the data determine it."""

    # if there are several minimisers, the one of minimum norm, with each variable
    # divided by its unit
    x: np.ndarray
    rank: int  # numerical rank of the system
    # largest singular value of the column-scaled system over the smallest one within
    # the rank
    condition: float
    endless: bool = False  # whether the values do not exist according to `is_endless`
    start: float = 0.0  # the objective at 0
    fun: float = 0.0  # the objective at x


def ridge(alpha, n_columns, fit_intercept):
    """The ridge weights of all columns. With an intercept, the weight of the last
    column is 0."""
    weights = np.full(n_columns, float(alpha))
    if fit_intercept:
        weights[-1] = 0.0
    return weights


def of_columns(w, fit_intercept):
    """Split w into coefficients and intercepts. With an intercept, it is the last
    column."""
    coef, intercept = w, np.zeros(w.shape[:-1])
    if fit_intercept:
        coef, intercept = w[..., :-1], w[..., -1]
    return {
        "coef_": coef,
        "intercept_": intercept if w.ndim > 1 else float(intercept),
    }


def solve_rows(A, b, alpha, unit):
    """Minimise |A x - b|^2 + sum_j alpha_j x_j^2. ``unit`` is the unit of each
    variable, for the minimum norm."""
    n, d = A.shape
    scale = inverse_lengths(np.sqrt((A * A).sum(axis=0)))
    if n <= d:
        rows = np.column_stack([dense(A), b])
    else:
        rows = np.zeros((0, d + 1))
        for some in gen_batches(n, max(4096, d)):
            block = np.column_stack([dense(A[some]), b[some]])
            rows = np.linalg.qr(np.vstack([rows, block]), mode="r")
    A, b = rows[:, :-1], rows[:, -1]
    solution = _ridge(A * scale, b, alpha, scale, unit)
    x = solution.x
    return replace(
        solution, start=_square(b), fun=_square(A @ x - b) + float(alpha @ x**2)
    )


def solve_moments(A, b, C, alpha, unit, exact=True):
    """Minimise (A x - b)^T C^+ (A x - b) + sum_j alpha_j x_j^2.

    Without alpha, A x = b usually has a solution, unless A is singular in a direction
    in which C is not. The equation is then solved directly, because C^+ would only
    amplify rounding errors.
    """
    scale = inverse_lengths(np.sqrt(C.diagonal()))
    scaled, target = scale[:, None] * A * scale, scale * b
    if exact and not alpha.any():
        solution = _ridge(scaled, target, alpha, scale, unit)
        residual = np.linalg.norm(scaled @ (solution.x / scale) - target)
        # otherwise the equation has no solution
        if solution.rank == len(b) or residual <= 1e-5 * np.linalg.norm(target):
            return replace(solution, start=_within(scale[:, None] * C * scale, target))
    root, spread = root_of_inverse(C)
    A, b = root.T @ A, root.T @ b
    solution = _ridge(A * scale, b, alpha, scale, unit)
    fun = _square(A @ solution.x - b) + float(alpha @ solution.x**2)
    # the root amplifies rounding errors of C by spread
    return replace(
        solution, condition=solution.condition * spread, start=_square(b), fun=fun
    )


def root_of_inverse(C):
    """A root with |root^T u|^2 = u^T C^+ u, and the root of the condition number of the
    scaled C within its rank."""
    scale = inverse_lengths(np.sqrt(C.diagonal()))
    values, vectors = np.linalg.eigh(scale[:, None] * C * scale)
    positive = values > EIGENVALUE_ROUNDING * max(values[-1], 0.0)
    values = np.sqrt(values[positive])
    root = scale[:, None] * vectors[:, positive] / values
    return root, values[-1] / values[0] if len(values) else 1.0


def is_endless(A, C, x, n_rows):
    """Whether a component of the values grows by more than a factor of 1 / gamma from
    one step to the next.

    C^+ A is the identity minus gamma times the linear map from features to expected
    next features. If an eigenvalue has a negative real part, the sum of the discounted
    rewards along the eigenvector diverges. The equations still have a solution, of the
    wrong sign if the eigenvalue is real. On-policy transitions of long episodes have
    none.
    """
    if n_rows < 10 * len(x):  # growth could be noise
        return False
    rounding = 1e-9  # of an eigenvalue
    scale = inverse_lengths(np.sqrt(C.diagonal()))
    scaled = scale[:, None] * A * scale
    symmetric = scaled + scaled.T + rounding * np.eye(len(A))
    try:
        linalg.cholesky(symmetric, check_finite=False)
        return False  # the real parts of all eigenvalues are positive
    except linalg.LinAlgError:
        root = root_of_inverse(C)[0]
        values, vectors = linalg.eig(root.T @ A @ root, check_finite=False)
        of_values = root.T @ C @ x
        parts = np.abs(linalg.lstsq(vectors, of_values, check_finite=False)[0])
        growing = parts[values.real < -rounding]
        return bool((growing > 0.01 * np.linalg.norm(of_values)).any())


def check_ends(A, C):
    """Raise a ValueError if gamma = 1 does not determine the values: A is singular in a
    direction in which C is not."""
    root = root_of_inverse(C)[0]
    values = np.linalg.svd(root.T @ A @ root, compute_uv=False)
    if len(values) and values[-1] <= SINGULAR * values[0]:
        refuse_no_ends()


def refuse_no_ends():
    """Raise the ValueError for a gamma of 1 that does not determine the values."""
    raise ValueError(
        "gamma must be a number < 1, got 1: without a discount, values are determined "
        "only if an episode ends from every state under the policy that is evaluated, "
        "which these transitions do not show. Pass terminal= to mark the transitions "
        "that end an episode."
    )


def _ridge(A, b, alpha, scale, unit):
    """The x = scale * v that minimises |A v - b|^2 + sum_j alpha_j x_j^2."""
    penalised, d = np.flatnonzero(alpha), A.shape[1]
    if len(penalised):
        ridge = np.sqrt(alpha[penalised]) * scale[penalised]
        shrink = np.ones(d)
        # otherwise a column with a tiny unit would dominate the scale
        shrink[penalised] = 1 / np.maximum(1, ridge)
        A, scale = A * shrink, scale * shrink
        below = np.zeros((len(penalised), d))
        below[np.arange(len(penalised)), penalised] = ridge * shrink[penalised]
        A, b = np.vstack([A, below]), np.append(b, np.zeros(len(penalised)))
    # 2000: the rounding of sums over many rows
    rounding = max(2000, 10 * max(A.shape)) * np.finfo(float).eps
    v, _, rank, values = np.linalg.lstsq(A, b, rcond=rounding)
    x = scale * v
    if 0 < rank < d:  # x divided by its units should have minimum norm, not v
        lengths = inverse_lengths(unit) / scale
        # QR with pivoting takes half the time of the SVD
        again, _, same, _ = linalg.lstsq(
            A * lengths, b, rounding, lapack_driver="gelsy", check_finite=False
        )
        x = scale * lengths * again if same == rank else x
    return LeastSquaresSolution(
        x, int(rank), float(values[0] / values[rank - 1]) if rank else 1.0
    )


def _within(C, u):
    """u^T C^+ u."""
    if not u.size:  # for which SciPy 1.13 raises an error
        return 0.0
    try:
        factor = linalg.cho_factor(C, check_finite=False)
        v = linalg.cho_solve(factor, u, check_finite=False)
    except linalg.LinAlgError:
        v, *_ = linalg.lstsq(
            C, u, EIGENVALUE_ROUNDING, lapack_driver="gelsy", check_finite=False
        )
    return float(u @ v)


def _square(v):
    """|v|^2."""
    return float(v @ v)


def inverse_lengths(lengths):
    """1 / lengths, and 1 where a length is 0."""
    lengths = np.asarray(lengths).ravel()
    return 1 / np.where(lengths > 0, lengths, 1.0)
