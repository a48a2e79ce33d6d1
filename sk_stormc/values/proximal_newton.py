"""The projected objective of moments of transitions, and its inverse Hessian as a metric (proximal Newton steps)."""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from sk_stormc.core.metrics import Metric
from sk_stormc.values.forgetting import fading, remaining, remembered
from sk_stormc.values.moments import Moments

__all__ = ["CURVATURE", "ProximalNewton"]

RIDGE = 1e-8  # ridge of the scaled C, below which directions are not determined by the transitions
PROXIMAL = 1e-3  # proximal weight of C, as a fraction of (1 - gamma)^2, the smallest curvature of stationary states
CURVATURE = 0.5  # curvature that methods assume; with it a step of "storm-c" is that of the proximal point
SHORT = 4e-2  # weight of the squared coefficients, relative to the proximal weight: prefers solutions of small norm
SHORTEST = 1e-7  # upper bound of that weight
LEAST, MOST = 8, 64  # smallest and largest number of steps to the start of a stream, on its first transitions
STILL = 1e-3  # relative change of the values (root mean square) that ends these steps


@dataclass(frozen=True, eq=False)
class ProximalNewton(Metric):
    """The projected objective of some moments, and its inverse Hessian as a metric.

    The objective is |L^-1 (A w - b)|^2 with the means A and b and L L^T = C. alpha is added to the diagonals of A and
    C. A small multiple of C is added to the Hessian, so that a step is one of the proximal point method: it contracts
    in the norm of C, even if A is ill-conditioned. All columns are first divided by their root mean squares.

    Attributes
    ----------
    moments : Moments
    proximal : float
        Weight of C in the Hessian.
    alpha : ndarray of shape (n_features,)
        The ridge.
    half_life : float or None
        Half-life of the weights, in transitions.
    """

    stays = False
    curvature = CURVATURE

    moments: Moments
    proximal: float
    alpha: np.ndarray = field(repr=False)
    half_life: float | None = None

    @classmethod
    def none(cls, gamma, alpha, half_life=None):
        """The metric of no transition."""
        return cls(Moments.none(len(alpha)), PROXIMAL * (1 - gamma) ** 2, alpha, half_life)

    def plus(self, Z, difference, y, weights):
        """The metric after more transitions. ``difference`` is phi - gamma phi'."""
        before = self.moments
        if self.half_life is not None:
            before = before * remaining(self.half_life, len(y))
            weights = weights * fading(self.half_life, np.arange(len(y)))
        return replace(self, moments=before + Moments.of(Z, difference, y, weights))

    def __deepcopy__(self, memo):
        return self  # immutable

    def __getstate__(self):
        return {field.name: vars(self)[field.name] for field in fields(self)}

    def __setstate__(self, state):
        self.__dict__.update(state)

    @cached_property
    def means(self):
        """A, b and C, with the ridge."""
        A, b, C = self.moments.means()
        ridge = np.diag(self.alpha)
        return A + ridge, b, C + ridge

    @cached_property
    def size_of_columns(self):
        """Root mean squares of the features, or 1 for features that are 0 in all states."""
        size = np.sqrt(self.means[2].diagonal())
        return np.where(size > 0, size, 1.0)

    @cached_property
    def factor(self):
        """L of the scaled C, lower triangular."""
        s = self.size_of_columns
        return cholesky(self.means[2] / np.outer(s, s) + RIDGE * np.eye(len(s)), lower=True)

    @cached_property
    def whitened(self):
        """L^-1 A of the scaled columns, and L^-1 A L^-T.

        The coefficient of a feature that is 0 in all states stays 0, as in `BellmanValueEstimator.fit`. The value of
        such a successor is unknown and must not be used to fit the others.
        """
        s = self.size_of_columns
        A, _, C = self.means
        A = np.where(C.diagonal() > 0, A, 0.0) / np.outer(s, s)
        left = solve_triangular(self.factor, A, lower=True)
        return left, solve_triangular(self.factor, left.T, lower=True).T

    @cached_property
    def hessian_factor(self):
        """Lower triangular factor of half the Hessian in coordinates in which C is the identity."""
        M = self.whitened[1]
        H = M.T @ M + self.proximal * np.eye(len(M))
        W = solve_triangular(self.factor, np.eye(len(M)), lower=True)
        H += min(SHORT * self.proximal, SHORTEST) * (W @ W.T)
        return cholesky(H, lower=True)

    # the objective

    def residual(self, x):
        """L^-1 (A x - b)."""
        A, b, _ = self.means
        return solve_triangular(self.factor, (A @ x - b) / self.size_of_columns, lower=True)

    def pull(self, v):
        """(L^-1 A)^T v."""
        return (v @ self.whitened[0]) * self.size_of_columns

    def value(self, x):
        """The objective."""
        u = self.residual(x)
        return float(u @ u)

    def gradient(self, x):
        """The gradient of the objective."""
        return 2 * self.pull(self.residual(x))

    # the metric

    def apply(self, F):
        """The inverse Hessian times F."""
        L, H, s = self.factor, self.hessian_factor, self.size_of_columns
        p = solve_triangular(L, F / s, lower=True)
        p = solve_triangular(H, solve_triangular(H, p, lower=True), lower=True, trans=1)
        return solve_triangular(L, p, lower=True, trans=1) / (2 * s)

    def size(self, x):
        """A lower bound of sqrt(x^T M^-1 x), with the proximal part of M^-1 only."""
        return np.sqrt(2 * self.proximal) * self.spread(x)

    def spread(self, x):
        """Root mean square of the values with the coefficients x."""
        return float(np.linalg.norm(self.factor.T @ (x * self.size_of_columns)))

    def settled(self, x):
        """The point to which steps from x converge on these moments."""
        for k in range(MOST):
            step = self.apply(self.gradient(x))
            x = x - step
            if k + 1 >= LEAST and self.spread(step) <= STILL * self.spread(x):
                break
        return x

    def sampling_error(self, noise):
        """Root mean square of the values' sampling error at the minimiser. ``noise`` is that of the TD errors.

        Its square is sigma^2 / n times the trace of (M^T M)^-1 with M = L^-1 A L^-T: the asymptotic variance of LSTD
        for uncorrelated errors. Directions that the transitions do not determine do not count, because M is 0 there.
        """
        inverse = cho_solve((self.hessian_factor, True), self.whitened[1].T)
        return noise * float(np.linalg.norm(inverse)) / np.sqrt(remembered(self.half_life, self.moments.n_rows))
