"""Base class of the objectives of policy evaluation, which are least squares in the weights of a linear value."""

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.utils.validation import as_numbers, check_choice
from sk_stormc.values.least_squares import NEGLIGIBLE, solve_rows
from sk_stormc.values.markov import check_discount, dense, largest_values, normalized_weights

__all__ = ["LARGEST_METRIC", "LinearValue", "inverse"]

LARGEST_METRIC = 2000  # number of variables up to which the metric is a full matrix


class LinearValue(CompositionalProblem):
    """The objective Phi(w) = |A w - b|^2 + sum_j alpha_j w_j^2: its metric and minimiser.

    Subclasses provide A and b by `_least_squares`.
    """

    jacobian_kind = "constant"

    def _set(self, gamma, alpha, metric, d, sample_weight, n):
        check_discount(gamma)
        check_choice("metric", metric, ("auto", None))
        alpha = as_numbers("alpha", alpha)
        if alpha.shape not in ((), (d,)) or not np.isfinite(alpha).all() or (alpha < 0).any():
            raise ValueError(f"alpha must be one number >= 0 or {d} of them, got {alpha}")
        self.gamma, self.alpha, self.n_variables = float(gamma), np.broadcast_to(alpha, d), d
        self._automatic, self._metric = metric == "auto", None
        self.weights = normalized_weights(sample_weight, n)
        self._drawn_by = None if sample_weight is None else self.weights

    @property
    def metric(self):
        """The inverse Hessian of shape (n_variables, n_variables). Above 2000 variables, the inverse of its diagonal.

        Directions whose curvature is a rounding error get the scale of the steepest direction, because F is a rounding
        error there too. The metric is computed on first use.
        """
        if self._automatic and self._metric is None:
            A, d = self._least_squares()[0], self.n_variables
            if d > LARGEST_METRIC:
                curvature = 2 * (np.asarray(A.multiply(A).sum(0)).ravel() if sparse.issparse(A) else (A**2).sum(0))
                curvature += 2 * self.alpha
                self._metric = 1 / np.where(curvature > 0, curvature, curvature.max() or 1.0)
            else:
                self._metric = inverse(self.hessian())
        return self._metric

    @metric.setter
    def metric(self, value):
        self._automatic, self._metric = False, value

    def hessian(self):
        """The Hessian of Phi, 2 A^T A + 2 diag(alpha).

        Returns
        -------
        ndarray of shape (n_variables, n_variables)
        """
        A = self._least_squares()[0]
        return 2 * dense(A.T @ A) + 2 * np.diag(self.alpha)

    def solution(self):
        """The exact minimiser of Phi, with the rank and the condition number of the least-squares problem.

        Returns
        -------
        Solution
        """
        return solve_rows(*self._least_squares(), self.alpha, self._unit())

    def minimizer(self):
        """The exact minimiser of Phi, by least squares.

        If there are several, it is the one of minimum norm, after features are divided by their largest absolute value.
        For `ProjectedBellmanProblem` without alpha this is the solution of LSTD (Bradtke & Barto 1996).

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return self.solution().x

    def is_endless(self, x):
        """Whether the values of the transitions are known not to exist.

        Parameters
        ----------
        x : ndarray of shape (n_variables,)
            A solution.

        Returns
        -------
        bool
        """
        return False

    def _unit(self):
        """The largest absolute value of each feature, or 1 if it is 0."""
        largest = largest_values(self.features)
        return np.where(largest > 0, largest, 1.0)


def inverse(H):
    """The inverse of a symmetric matrix. Eigenvalues that are 0 up to rounding are replaced by the largest one."""
    factor, failed = lapack.dpotrf(H, lower=1)
    scale = factor.diagonal() ** 2 / np.maximum(H.diagonal(), np.finfo(float).tiny)
    if not failed and scale.min() > 1e-6:  # far from singular: ten times as fast
        result = np.tril(lapack.dpotri(factor, lower=1)[0])
        return result + np.tril(result, -1).T
    values, vectors = np.linalg.eigh(H)
    top = values[-1] if values[-1] > 0 else 1.0
    return (vectors / np.where(values > NEGLIGIBLE * top, values, top)) @ vectors.T
