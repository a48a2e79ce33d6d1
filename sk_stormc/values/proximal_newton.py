"""The projected objective that moments of transitions make, and the metric in which its steps are short and few."""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from sk_stormc.core.metrics import Metric
from sk_stormc.values.forgetting import fading, remaining, remembered
from sk_stormc.values.moments import Moments

__all__ = ["CURVATURE", "ProximalNewton"]

RIDGE = 1e-8  # of C with columns of size one: of directions that are smaller, the transitions say nothing
PROXIMAL = 1e-3  # of (1 - gamma)^2, the least curvature there can be in the norm of C where states are stationary
CURVATURE = 0.5  # said to methods, where it is at most 1: a step of "storm-c" is then that of the proximal point
SHORT = 4e-2  # of that, of the squared coefficients: of solutions that fit alike, steps lead to a short one
SHORTEST = 1e-7  # the most of that
LEAST, MOST = 8, 64  # steps to where a stream starts, on the moments of its first transitions
STILL = 1e-3  # of the values, root mean square: a step of this length is the last one


@dataclass(frozen=True, eq=False)
class ProximalNewton(Metric):
    """The projected objective of some moments, and the metric that they make: its inverse Hessian.

    The objective is |L^-1 (A w - b)|^2, of means A and b, with L L^T = C; alpha is added to the diagonals of A and C.
    The Hessian gets a small multiple of C, so that a step is that of a proximal point method: it contracts in the norm
    of C for these moments, however ill-conditioned A is. All columns are divided by their root mean squares first.

    Attributes
    ----------
    moments : Moments
    proximal : float
        Of C in the Hessian.
    alpha : ndarray of shape (n_features,)
    half_life : float or None
        Of the weights, in transitions.
    """

    stays = False
    curvature = CURVATURE

    moments: Moments
    proximal: float
    alpha: np.ndarray = field(repr=False)
    half_life: float | None = None

    @classmethod
    def none(cls, gamma, alpha, half_life=None):
        """That of no transition."""
        return cls(Moments.none(len(alpha)), PROXIMAL * (1 - gamma) ** 2, alpha, half_life)

    def plus(self, Z, difference, y, weights):
        """That of these transitions too; ``difference`` is phi - gamma phi'."""
        before = self.moments
        if self.half_life is not None:
            before = before * remaining(self.half_life, len(y))
            weights = weights * fading(self.half_life, np.arange(len(y)))
        return replace(self, moments=before + Moments.of(Z, difference, y, weights))

    def __deepcopy__(self, memo):
        return self  # nothing is written into

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
        """Root mean squares; 1 for a feature that no transition has."""
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

        A feature that no left state has is left alone, as in `BellmanValueEstimator.fit`: of the value of a successor
        that was never left nothing is known, and it must not be what explains the others.
        """
        s = self.size_of_columns
        A, _, C = self.means
        A = np.where(C.diagonal() > 0, A, 0.0) / np.outer(s, s)
        left = solve_triangular(self.factor, A, lower=True)
        return left, solve_triangular(self.factor, left.T, lower=True).T

    @cached_property
    def hessian_factor(self):
        """Lower triangular factor of half the Hessian where C is the identity."""
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
        """Its gradient."""
        return 2 * self.pull(self.residual(x))

    # the metric

    def apply(self, F):
        """The inverse Hessian times F."""
        L, H, s = self.factor, self.hessian_factor, self.size_of_columns
        p = solve_triangular(L, F / s, lower=True)
        p = solve_triangular(H, solve_triangular(H, p, lower=True), lower=True, trans=1)
        return solve_triangular(L, p, lower=True, trans=1) / (2 * s)

    def size(self, x):
        """sqrt(x^T M^-1 x), with C times the proximal number for M^-1: a lower bound."""
        return np.sqrt(2 * self.proximal) * self.spread(x)

    def spread(self, x):
        """Root mean square of the values that have the coefficients x."""
        return float(np.linalg.norm(self.factor.T @ (x * self.size_of_columns)))

    def settled(self, x):
        """Where steps from x lead on these moments, when they change the values no more."""
        for k in range(MOST):
            step = self.apply(self.gradient(x))
            x = x - step
            if k + 1 >= LEAST and self.spread(step) <= STILL * self.spread(x):
                break
        return x

    def sampling_error(self, noise):
        """Root mean square of the error of values, of a minimiser from TD errors of this root mean square.

        sigma^2 / n times the trace of (M^T M)^-1, M = L^-1 A L^-T: the asymptotic variance of LSTD where the errors of
        transitions are uncorrelated. Directions that no transition has do not count: M is 0 there.
        """
        inverse = cho_solve((self.hessian_factor, True), self.whitened[1].T)
        return noise * float(np.linalg.norm(inverse)) / np.sqrt(remembered(self.half_life, self.moments.n_rows))
