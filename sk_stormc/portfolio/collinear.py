"""A warning about nearly collinear assets, for which a small gradient does not imply a small gap."""


import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.utils.warnings import warn

__all__ = ["flat_direction", "warn_of_a_flat_direction"]

LARGEST = 2000  # assets, because the memory for the covariance matrix grows as their square
NOTABLE = 1e-3  # possible decrease that is worth a warning, as a fraction of |Phi|
ILL = 1e4  # condition number above which a small gradient does not imply a small gap


def flat_direction(problem, x, fun, tol):
    """By how much a mean-variance objective can still decrease, if that is notable.

    At weights x the objective is F^T S^+ F / (4 lambda) above its minimum, where F is its gradient and S the
    covariance. If one asset is nearly a copy of another, the variance of their difference is tiny. The gradient along
    it is then tiny too, however far away the minimum is. Returns the possible decrease, and the condition number of the
    correlation matrix, or None.
    """
    returns = problem.returns
    if not isinstance(returns, np.ndarray) or returns.shape[1] > LARGEST or len(returns) <= returns.shape[1]:
        return None
    centred = returns - problem.mean
    weighted = centred / len(returns) if problem.weights is None else centred * problem.weights[:, None]
    S = (centred.T @ weighted).astype(float)
    unit = np.sqrt(S.diagonal())
    if not unit.all():
        return None
    values, vectors = np.linalg.eigh(S / np.outer(unit, unit))
    values = np.maximum(values, np.finfo(returns.dtype).eps * len(values))
    F = vectors.T @ (problem.gradient(x) / unit)
    left = float(F @ (F / values)) / (4 * problem.risk_aversion)
    notable = values[-1] > ILL * values[0] and left > max(NOTABLE, 10 * tol) * abs(fun)
    return (left, values[-1] / values[0]) if notable else None


def warn_of_a_flat_direction(problem, x, fun, tol):
    """Warn if `flat_direction`, which has the same parameters, finds a notable decrease."""
    found = flat_direction(problem, x, fun, tol)
    if found is not None:
        left, condition = found
        warn(
            f"CompositionalPortfolio has converged to tol={tol:g}, but some assets are nearly combinations of others "
            f"(condition number {condition:.1g} of their correlations): along these the objective can "
            f"still fall by {left / abs(fun):.1%} of its size, by large opposite weights. Add bounds or an "
            "l1 norm, drop assets, or take solver='newton'.",
            ConvergenceWarning,
        )
