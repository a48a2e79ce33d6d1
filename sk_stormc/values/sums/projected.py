"""Policy evaluation from logged transitions: the mean squared projected Bellman error,
which LSTD minimises."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from sk_stormc.core.advice import Advice
from sk_stormc.core.source import FiniteSource
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.types import ArrayLike, SparseMatrix
from sk_stormc.values.markov import check_features, dense, minus_scaled, scale_rows
from sk_stormc.values.sums.least_squares import (
    EIGENVALUE_ROUNDING,
    is_endless,
    root_of_inverse,
    solve_moments,
)
from sk_stormc.values.sums.lstd import TransitionMoments
from sk_stormc.values.sums.problems import LARGEST_HESSIAN, LinearValue


class ProjectedBellmanProblem(LinearValue):
    r"""Minimise the mean squared projected Bellman error of linear values, on logged
    transitions.

    .. math::

        \Phi(w) = u^T C^+ u + \alpha |w|^2,
        \qquad u = \sum_k d_k \varphi_k
            \bigl( (\varphi_k - \gamma \varphi'_k)^T w - r_k \bigr),
        \qquad C = \sum_k d_k \varphi_k \varphi_k^T

    The value of a state is V(s) = phi(s)^T w. The minimiser is the solution of LSTD.
    The inner value u is a mean over the transitions k. The mean is also over
    successors, so states do not have to repeat. f has a single component.

    Parameters
    ----------
    features, next_features : array-like or sparse matrix
        Features phi_k of the states and phi'_k of their successors, of shape
        (n_transitions, n_features). The latter are zeros after terminal transitions.
    rewards : array-like of shape (n_transitions,)
        The rewards r_k.
    gamma : float, default=0.95
        Discount factor in [0, 1]. A factor of 1 requires that all episodes end.
    sample_weight : array-like of shape (n_transitions,), default=None
        The weights d_k, up to a factor. Transitions are drawn with probabilities
        proportional to them.
    alpha : float or array-like of shape (n_features,), default=0.0
        Weight of the squared coefficients, one for all or one for each.
    preconditioner : {"auto"} or None, default="auto"
        Preconditioner of the steps. "auto" uses the inverse Hessian (its diagonal above
        2000 features). None means unscaled steps.
    covariance : ndarray of shape (n_features, n_features), default=None
        The matrix C, symmetric and positive semidefinite. None means that of these
        transitions. If the equation u = 0 has a solution, it is the minimiser for any
        C.

    Raises
    ------
    ValueError
        If shapes disagree, values are not finite, or a parameter is out of range.

    References
    ----------
    Sutton et al., "Fast gradient-descent methods for temporal-difference learning with
    linear function approximation", 2009 (the objective); Bradtke & Barto, "Linear
    least-squares algorithms for temporal difference learning", 1996.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.problems import ProjectedBellmanProblem
    >>> problem = ProjectedBellmanProblem(
    ...     [[1.0], [2.0]], [[2.0], [0.0]], rewards=[1.0, 0.0], gamma=0.5
    ... )
    >>> minimize(problem, tol=1e-8, random_state=0).x.round(6)
    array([0.25])
    >>> problem.minimizer()
    array([0.25])
    """

    n_outer = 1

    def __init__(
        self,
        features: Any,
        next_features: Any,
        rewards: ArrayLike | SparseMatrix,
        gamma: float = 0.95,
        *,
        sample_weight: ArrayLike | None = None,
        alpha: float = 0.0,
        preconditioner: Any = "auto",
        covariance: Any = None,
    ) -> None:
        self.rewards = as_numbers("rewards", rewards)
        n = len(self.rewards) if self.rewards.ndim == 1 else 0
        if not n or not np.isfinite(self.rewards).all():
            raise ValueError(
                "rewards must be finite, one for each transition, got shape "
                f"{self.rewards.shape}"
            )
        features = check_features("features", features, n)
        d = features.shape[1]
        next_features = check_features("next_features", next_features, n, d)
        self._take(features, next_features, gamma, alpha, preconditioner, sample_weight)
        self._covariance = (
            None
            if covariance is None
            else check_features("covariance", covariance, d, d)
        )

    @classmethod
    def checked(cls, features, next_features, rewards, gamma, sample_weight, alpha):
        """The problem of validated transitions."""
        problem = cls.__new__(cls)
        problem.rewards, problem._covariance = rewards, None
        problem._take(features, next_features, gamma, alpha, "auto", sample_weight)
        return problem

    def _take(
        self, features, next_features, gamma, alpha, preconditioner, sample_weight
    ):
        self.features, (self.n_inner, d) = features, features.shape
        self.next_features = next_features
        self._set(gamma, alpha, preconditioner, d, sample_weight, self.n_inner)

    @cached_property
    def _difference(self):
        """The rows phi_k - gamma phi'_k: the Jacobian is sum_k d_k phi_k (phi_k - gamma
        phi'_k)^T."""
        return minus_scaled(self.features, self.gamma, self.next_features)

    @cached_property
    def covariance(self):
        """C, of shape (n_features, n_features)."""
        if self._covariance is not None:
            return dense(self._covariance)
        return self._moments.parts[2]

    @cached_property
    def _root(self):
        """A matrix with root root^T = C^+ on the range of u."""
        return root_of_inverse(self.covariance)[0]

    @cached_property
    def _moments(self):
        """The moments of all transitions. The weights sum to one."""
        return TransitionMoments.of_log(
            self.features, self.next_features, self.rewards, self.weights, self.gamma
        )

    @property
    def _full(self):
        """J and mean r phi over all transitions."""
        return self._moments.parts[:2]

    def _largest(self):
        return self._moments.largest

    @property
    def source(self):
        """The source of batches: transitions, with probabilities proportional to their
        weights."""
        return FiniteSource(self.n_inner, 1, self._drawn_by)

    def inner_batch(self, draws, weights=None):
        """(features, features minus those of the successors, rewards), or (J, mean r
        phi) over all transitions.

        Both u and its Jacobian are linear in the first features, which are therefore
        scaled by the weights of a draw.
        """
        if draws is None:
            return self._full
        features = (
            self.features[draws]
            if weights is None
            else scale_rows(weights, self.features[draws])
        )
        return features, self._difference[draws], self.rewards[draws]

    def outer_batch(self, draws, weights=None):
        """None, because f has a single component."""
        return None

    def inner(self, x, batch):
        """u = mean phi_k ((phi_k - gamma phi'_k) . w - r_k), of shape (n_features,)."""
        if len(batch) == 2:
            return batch[0] @ x - batch[1]
        features, difference, rewards = batch
        return (difference @ x - rewards) @ features / len(rewards)

    def jacobian(self, x, batch):
        """mean phi_k (phi_k - gamma phi'_k)^T, of shape (n_features, n_features)."""
        if len(batch) == 2:
            return batch[0]
        features, difference, rewards = batch
        return dense(features.T @ difference) / len(rewards)

    def outer_gradient(self, x, u, batch):
        """f_x = 2 alpha w and f_u = 2 C^+ u."""
        return 2 * self.alpha * x, self._root @ (2 * (u @ self._root))

    def outer(self, x, u):
        """u^T C^+ u + alpha |w|^2."""
        projected = u @ self._root
        return float(projected @ projected + self.alpha @ x**2)

    def _least_squares(self):
        """root^T J and root^T mean r phi."""
        return tuple(self._root.T @ part for part in self._full)

    def solution(self):
        """The exact minimiser of Phi, with the rank and the condition number, as a
        `LeastSquaresSolution`."""
        A, b, _ = self._moments.means()
        C, exact = self.covariance, self._covariance is None
        solution = solve_moments(A, b, C, self.alpha, self._largest(), exact=exact)
        return replace(solution, endless=is_endless(A, C, solution.x, self.n_inner))

    def is_endless(self, x):
        """As `least_squares.is_endless`, but False (unknown) for more than 2000
        features or few transitions."""
        if self.n_variables > LARGEST_HESSIAN:
            return False
        A, _, C = self._moments.means()
        return is_endless(A, C, x, self.n_inner)

    def expected_smoothness(self, size, preconditioner):
        """max_v E|H_B v|^2 / <v, H v> over all transitions, in the norm of the
        preconditioner, for `Advice`; 0 (unknown) above 2000 features.

        H_B = 2 J^T C^+ J_B + 2 diag(alpha) is the linear map of w in the gradient of a
        batch of B transitions, and H its mean. A step of length eta contracts in mean
        square if eta is below 2 over this number. H_B is not symmetric, so its largest
        eigenvalues are not sufficient to bound a step.
        """
        d, root = self.n_variables, preconditioner.root()
        if root is None or d > LARGEST_HESSIAN:
            return 0.0
        root = root if np.ndim(root) == 2 else root * np.eye(d)
        J = self._full[0]
        pull = self._root @ (self._root.T @ (J @ root))  # C^+ J root
        weights, S = self.weights, 0.0
        # blocks of 32 MB
        for rows in gen_batches(self.n_inner, max(1, 2**22 // d)):
            lengths = np.square(self.features[rows] @ pull).sum(axis=1)
            difference = self._difference[rows]
            S = S + dense(
                scale_rows(4 * weights[rows] * lengths, difference).T @ difference
            )
        # root^T H, without alpha
        half = root.T @ (2 * J.T @ (self._root @ (self._root.T @ J)))
        full = half + root.T * (2 * self.alpha)
        second = full.T @ full + (
            0.0 if size[0] is None else (S - half.T @ half) / size[0]
        )
        values, vectors = np.linalg.eigh(self.hessian())
        positive = values > EIGENVALUE_ROUNDING * max(values[-1], 0.0)
        if not positive.any():
            return 0.0
        white = vectors[:, positive] / np.sqrt(values[positive])
        return float(np.linalg.eigvalsh(white.T @ second @ white)[-1])

    @cached_property
    def advice(self):
        """Full batches if the preconditioner is a full matrix, as J is then stored and
        a step costs as little as a few rows."""
        scaled = vars(self).get("preconditioner", "auto") is not None
        size = None if scaled and self.n_variables <= LARGEST_HESSIAN else "auto"
        return Advice(
            batch_size=size, smoothness=ProjectedBellmanProblem.expected_smoothness
        )
