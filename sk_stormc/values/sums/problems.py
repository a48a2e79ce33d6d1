"""Policy evaluation with linear values: the least-squares base class, and the Bellman
residual of a model."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from sk_stormc.core.advice import Advice, Published
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.source import FiniteSource
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import check_choice
from sk_stormc.utils.types import ArrayLike, SparseMatrix
from sk_stormc.values.markov import (
    check_discount,
    check_features,
    check_model,
    dense,
    largest_values,
    normalized_weights,
    scale_rows,
)
from sk_stormc.values.sums.least_squares import EIGENVALUE_ROUNDING, solve_rows

# number of variables up to which the preconditioner is a full matrix; that of more
# takes seconds
LARGEST_HESSIAN = 2000


class LinearValue(CompositionalProblem):
    """The objective Phi(w) = |A w - b|^2 + sum_j alpha_j w_j^2, with its preconditioner
    and minimiser.

    Subclasses provide A and b by `_least_squares`.
    """

    jacobian_kind = "constant"

    def _set(self, gamma, alpha, preconditioner, d, sample_weight, n):
        check_discount(gamma)
        check_choice("preconditioner", preconditioner, ("auto", None))
        alpha = as_numbers("alpha", alpha)
        if (
            alpha.shape not in ((), (d,))
            or not np.isfinite(alpha).all()
            or (alpha < 0).any()
        ):
            raise ValueError(
                f"alpha must be one number >= 0 or {d} of them, got {alpha}"
            )
        self.gamma = float(gamma)
        self.alpha = np.broadcast_to(alpha, d)
        self.n_variables = d
        if preconditioner is None:
            self.preconditioner = None
        self.weights = normalized_weights(sample_weight, n)
        self._drawn_by = None if sample_weight is None else self.weights

    @cached_property
    def preconditioner(self):
        """The inverse Hessian of shape (n_variables, n_variables). Above 2000
        variables, the inverse of its diagonal.

        Directions whose curvature is a rounding error get the scale of the steepest
        direction, because F is also a rounding error in these directions. The matrix is
        computed on first use.
        """
        if self.n_variables <= LARGEST_HESSIAN:
            return inverse(self.hessian())
        A = self._least_squares()[0]
        curvature = 2 * ((A * A).sum(axis=0) + self.alpha)
        return 1 / np.where(curvature > 0, curvature, curvature.max() or 1.0)

    def hessian(self):
        """The Hessian of Phi, 2 A^T A + 2 diag(alpha).

        Returns
        -------
        ndarray of shape (n_variables, n_variables)
        """
        A = self._least_squares()[0]
        return 2 * dense(A.T @ A) + 2 * np.diag(self.alpha)

    def solution(self):
        """The exact minimiser of Phi, with the rank and the condition number, as a
        `LeastSquaresSolution`."""
        return solve_rows(*self._least_squares(), self.alpha, self._largest())

    def minimizer(self):
        """The exact minimiser of Phi, by least squares.

        If there are several, it is the minimum-norm solution, after features are
        divided by their largest absolute value. For `ProjectedBellmanProblem` without
        alpha this is the solution of LSTD (Bradtke & Barto 1996).

        Returns
        -------
        ndarray of shape (n_variables,)
        """
        return self.solution().x

    def is_endless(self, x):
        """Whether the values of the transitions, with the solution x, are detected not
        to exist."""
        return False

    def _largest(self):
        """The largest absolute value of each feature."""
        return largest_values(self.features)


def inverse(H):
    """The inverse of a symmetric matrix. Eigenvalues that are 0 up to rounding are
    replaced by the largest one."""
    factor, failed = lapack.dpotrf(H, lower=1)
    scale = factor.diagonal() ** 2 / np.maximum(H.diagonal(), np.finfo(float).tiny)
    if (
        not failed and scale.min() > 1e-6
    ):  # far from singular: Cholesky is ten times as fast
        result = np.tril(lapack.dpotri(factor, lower=1)[0])
        return result + np.tril(result, -1).T
    values, vectors = np.linalg.eigh(H)
    top = values[-1] if values[-1] > 0 else 1.0
    values = np.where(values > EIGENVALUE_ROUNDING * top, values, top)
    return (vectors / values) @ vectors.T


class SuccessorSource(FiniteSource):
    """The source of batches of a `BellmanProblem`: an independent successor for every
    state."""

    def __init__(self, problem, outer_weights):
        super().__init__(problem.n_inner, problem.n_outer, outer_weights=outer_weights)
        self.problem = problem

    def draw_inner(self, rng, shape):
        """Entries of P, of shape (*shape, n_states)."""
        n = self.n_outer
        drawn = np.empty(
            (*shape, n),
            np.int32 if self.problem.entry_rewards.size < 2**31 else np.int64,
        )
        for batch in drawn:
            batch[:] = self.problem.entries_of(np.arange(n), rng.random(batch.shape))
        return drawn


class BellmanProblem(LinearValue):
    r"""Minimise the mean squared Bellman residual of linear values, for a given or an
    estimated model.

    .. math::

        \Phi(w) = \sum_s d_s (\varphi_s^T w - u_s)^2 + \alpha |w|^2, \qquad
        u_s = \mathrm{E} [\, r + \gamma V(s') \mid s \,]

    The value of a state is V(s) = phi_s^T w. The weights d_s sum to one. By default
    they are 1/n for n states, which gives the paper's problem divided by n. The inner
    value is u, and an outer component is a state. An inner component depends on
    ``sampling``:

    - "successor": an independent successor s' ~ P(s, .) for every state. It is exact
      for deterministic transitions.
    - "column": a column j of P as in the paper, with u_s = m P_sj (r_sj + gamma V(j))
      for m columns.

    Both are unbiased. "column" has far more variance. The Jacobian gamma P Phi does not
    depend on w. The product is never computed: the Jacobian is represented by P, or by
    a batch's estimate of P, and ``vjp`` multiplies by the factors.

    Parameters
    ----------
    transition_matrix : array-like or sparse matrix of shape (n_states, n_successors)
        The matrix P, with rows >= 0 that sum to one.
    rewards : array-like of shape (n_states,) or (n_states, n_successors)
        Rewards on leaving a state, or for each transition. The latter may be sparse.
    features : array-like or sparse matrix of shape (n_states, n_features), default=None
        The phi_s. None means one indicator for each state.
    gamma : float, default=0.95
        Discount factor in [0, 1]. A factor of 1 requires that all episodes end.
    next_features : array-like or sparse matrix, default=None
        Features of the successors, of shape (n_successors, n_features). A row of zeros
        represents the end of an episode. None means that the successors are the states.
    sample_weight : array-like of shape (n_states,), default=None
        The weights d_s, up to a factor. None means equal weights.
    alpha : float or array-like of shape (n_features,), default=0.0
        Weight of the squared coefficients, one for all or one for each.
    sampling : {"successor", "column"}, default="successor"
        The inner components, as described above.
    preconditioner : {"auto"} or None, default="auto"
        Preconditioner of the steps. "auto" uses the inverse Hessian (its diagonal above
        2000 features). Steps then depend neither on the scale of the features nor on
        how close gamma is to 1. None means unscaled steps, as in the papers.

    Raises
    ------
    ValueError
        If rows of P are negative or do not sum to one (the message names the first),
        shapes disagree, values are not finite, or a parameter is out of range.

    References
    ----------
    Yuan & Hu, "Stochastic Recursive Momentum Method for Non-Convex Compositional
    Optimization", reinforcement learning.

    Examples
    --------
    >>> from sk_stormc import minimize
    >>> from sk_stormc.problems import BellmanProblem
    >>> problem = BellmanProblem(
    ...     [[0.0, 1.0], [0.0, 1.0]], rewards=[1.0, 0.0], gamma=0.9
    ... )
    >>> minimize(problem, tol=1e-8, random_state=0).x.round(4) + 0.0
    array([1., 0.])
    """

    # full batches cost no more than drawing a few successors for every state, and even
    # less if P is sparse
    advice = Advice(
        batch_size=None,
        published=Published(
            eta=0.1, epsilon=0.1, a=0.1, B=(20, 20, 1), S=(100, 100, 1)
        ),
    )

    def __init__(
        self,
        transition_matrix: ArrayLike | SparseMatrix,
        rewards: ArrayLike | SparseMatrix,
        features: Any = None,
        gamma: float = 0.95,
        *,
        next_features: Any = None,
        sample_weight: ArrayLike | None = None,
        alpha: float = 0.0,
        sampling: Any = "successor",
        preconditioner: Any = "auto",
    ) -> None:
        check_choice("sampling", sampling, ("successor", "column"))
        P, self.entry_rewards = check_model(transition_matrix, rewards)
        n, m = P.shape
        if features is None:
            features = sparse.eye_array(n, format="csr")
        self.features = check_features("features", features, n)
        d = self.features.shape[1]
        self.next_features = self.features
        if next_features is not None:
            self.next_features = check_features("next_features", next_features, m, d)
        elif n != m:
            raise ValueError(
                "transition_matrix must be square without next_features, got shape "
                f"{P.shape}"
            )
        self._set(gamma, alpha, preconditioner, d, sample_weight, n)
        self.sampling, self.transition_matrix = sampling, P
        self.n_outer, self.n_inner = n, m if sampling == "column" else n
        # entry e of P, in the order of its data, belongs to state s for starts[s] <= e
        # < starts[s + 1]
        if sparse.issparse(P):
            self._data = P.data
            self._starts = P.indptr.astype(np.intp)
            self._columns = P.indices
        else:
            self._data = P.ravel()
            self._starts = np.arange(0, n * m + 1, m)
            self._columns = None
        self._expected = self._row_sums(self._data * self.entry_rewards)

    # draws

    @property
    def source(self):
        """The source of batches: states by their weights for f, and successors or
        columns for g."""
        if self.sampling == "column":
            return FiniteSource(
                self.n_inner, self.n_outer, outer_weights=self._drawn_by
            )
        return SuccessorSource(self, self._drawn_by)

    def entries_of(self, states, uniform):
        """Draw a transition for each of n states: positions in the data of P, by
        inversion of (..., n) uniform numbers.

        ``entry_rewards`` contains their rewards, and `successors_of` returns their
        successors.
        """
        low = self._up_to[self._starts[states]]
        high = self._up_to[self._starts[states + 1]]
        needle, up_to = low + uniform * (high - low), self._up_to[1:]
        last = np.searchsorted(up_to, high)  # the last nonzero entry of each row
        return np.minimum(np.searchsorted(up_to, needle, side="right"), last)

    @cached_property
    def _up_to(self):
        """Cumulative probabilities over all entries of P, from 0."""
        return np.append(0.0, np.cumsum(self._data))

    def successors_of(self, entries):
        """The numbers of the successors of entries of P."""
        return (
            entries % self.transition_matrix.shape[1]
            if self._columns is None
            else self._columns.take(entries)
        )

    def inner_batch(self, draws):
        """(rewards, M): the estimate of E[r | s], and that of P as entries (n_draws,
        n_states) or column factors."""
        if draws is None:
            return self._expected, None
        if self.sampling == "column":
            factors = np.bincount(draws, minlength=self.n_inner) * (
                self.n_inner / len(draws)
            )
            return self._row_sums(
                self._data * self.entry_rewards * self._spread(factors)
            ), factors
        return self.entry_rewards.take(draws).sum(0) / len(draws), draws

    def outer_batch(self, draws):
        """(states, their features, their weights)."""
        if draws is None:
            return slice(None), self.features, self.weights
        return draws, self.features[draws], 1 / len(draws)

    # g, dg, f and its gradient

    def inner(self, x, batch):
        """u_s = E[r + gamma V(s') | s], of shape (n_states,)."""
        rewards, M = batch
        V = self.gamma * (self.next_features @ x)
        if M is None:
            return rewards + self.transition_matrix @ V
        if self.sampling == "column":
            return rewards + self.transition_matrix @ (M * V)
        return rewards + V.take(self.successors_of(M)).sum(0) / len(M)

    def jacobian(self, x, batch):
        """The data of the batch's estimate P_B of P. The Jacobian is gamma P_B times
        the features."""
        M = batch[1]
        if M is None:
            return self._data
        if self.sampling == "column":
            return self._data * self._spread(M)
        return np.bincount(M.ravel(), minlength=self._data.size) / len(M)

    def vjp(self, J, v):
        """gamma Phi^T P^T v."""
        if self._columns is None:
            pulled = v @ J.reshape(self.transition_matrix.shape)
        elif J is self._data:
            pulled = v @ self.transition_matrix
        else:
            P = self.transition_matrix
            pulled = v @ sparse.csr_array((J, P.indices, P.indptr), shape=P.shape)
        return self.gamma * (pulled @ self.next_features)

    def outer_gradient(self, x, u, batch):
        """f_x = 2 sum_s d_s delta_s phi_s + 2 alpha w and f_u = -2 d_s delta_s, with
        delta_s = <phi_s, w> - u_s."""
        states, features, weights = batch
        slope = 2 * weights * (features @ x - u[states])
        f_u = (
            -slope
            if isinstance(states, slice)
            else np.bincount(states, -slope, minlength=len(u))
        )
        return slope @ features + 2 * self.alpha * x, f_u

    def outer(self, x, u):
        """sum_s d_s (<phi_s, w> - u_s)^2 + alpha |w|^2."""
        return float(self.weights @ (self.features @ x - u) ** 2 + self.alpha @ x**2)

    def _spread(self, factors):
        """One factor for each successor, broadcast to the entries of P."""
        return (
            np.tile(factors, self.n_outer)
            if self._columns is None
            else factors.take(self._columns)
        )

    def _row_sums(self, entries):
        # no row is empty, because each sums to one
        return np.add.reduceat(entries, self._starts[:-1])

    def _least_squares(self):
        """sqrt(d) (Phi - gamma P Phi) and sqrt(d) E[r | s]."""
        root = np.sqrt(self.weights)
        A = self.features - self.gamma * (self.transition_matrix @ self.next_features)
        return scale_rows(root, A), root * self._expected
