"""LSTDQ for many actions: a system of equations of which only the blocks of single
actions are formed."""

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, gmres
from sklearn.utils import gen_batches

from sk_stormc.values.markov import dense, largest_values, scale_rows
from sk_stormc.values.sums.least_squares import (
    SINGULAR,
    LeastSquaresSolution,
    inverse_lengths,
    refuse_no_ends,
)
from sk_stormc.values.sums.lstd import TransitionMoments

# number of columns of all actions together up to which the system is formed as a whole,
# which gives its rank and its condition number
LARGEST_SYSTEM = 500
ACCEPTED = 1e-9  # relative residual that is at most left


def pairs(Z, number, m):
    """Features of state-action pairs (CSR): the state's in the block of its action, of
    m actions."""
    n, d = Z.shape
    if sparse.issparse(Z):
        Z = sparse.csr_array(Z)
        data, indptr = Z.data, Z.indptr
        indices = Z.indices + d * np.repeat(number, np.diff(indptr))
    else:
        data, indptr = Z.ravel(), d * np.arange(n + 1)
        indices = (d * number[:, None] + np.arange(d)).ravel()
    return sparse.csr_array((data, indices, indptr), shape=(n, m * d))


def expected_pairs(Z, chances):
    """Features of states and of an action that is drawn with these probabilities (CSR),
    of shape (n, n_actions * n_features)."""
    entries = sparse.coo_array(chances)
    rows, number = entries.coords
    gather = sparse.csr_array(
        (entries.data, (rows, np.arange(len(rows)))), shape=(Z.shape[0], len(rows))
    )
    return sparse.csr_array(gather @ pairs(Z[rows], number, chances.shape[1]))


def expected_values(next_Z, W, chances):
    """The values of an action that is drawn with these probabilities, in states with
    features next_Z. W has the coefficients, of shape (n_actions, n_features)."""
    if sparse.issparse(chances):
        return expected_pairs(next_Z, chances) @ W.ravel()
    values = np.empty(len(chances))
    for rows in batches(*chances.shape):
        of_actions = next_Z[rows] @ W.T
        values[rows] = np.einsum("ij,ij->i", of_actions, chances[rows])
    return values


def batches(n, m):
    """Batches of n states, whose values of m actions fit in the cache."""
    return gen_batches(n, max(1, 2**18 // m)) if n else ()


def sums_by_action(Z, next_Z, y, weights, number, m):
    """The sums of phi phi^T, of phi phi'^T and of phi r over the transitions of each of
    m actions, and the largest absolute values of the features."""
    d, order = Z.shape[1], np.argsort(number, kind="stable")
    ends = np.searchsorted(number[order], np.arange(m + 1))
    C, after, b, largest = (
        np.zeros(shape) for shape in ((m, d, d), (m, d, d), (m, d), (m, d))
    )
    for a in np.flatnonzero(np.diff(ends)):
        rows = order[ends[a] : ends[a + 1]]
        part = Z[rows]
        left = scale_rows(weights[rows], part).T
        C[a], after[a] = dense(left @ part), dense(left @ next_Z[rows])
        b[a], largest[a] = left @ y[rows], largest_values(part)
    return C, after, b, largest


class SuccessorOperator:
    """Transitions that go on, as factors of the sums L = sum_k d_k psi_k psi'_k^T.

    ``number`` are those of the actions, and ``chances`` the probabilities of the
    actions in the successors, of shape (n_transitions, n_actions).
    """

    def __init__(self, Z, next_Z, weights, number, chances):
        self.shape = chances.shape[1], Z.shape[1]
        self.left, self.next_Z, self.number = scale_rows(weights, Z), next_Z, number
        if (
            not sparse.issparse(chances)
            and 8 * np.count_nonzero(chances) < chances.size
        ):
            chances = sparse.csr_array(chances)
        self.chances = chances

    @cached_property
    def weighted(self):
        """The d_k psi_k."""
        return pairs(self.left, self.number, self.shape[0])

    @cached_property
    def next_psi(self):
        """The psi'_k, or None if they have many entries."""
        sparse_ones = sparse.issparse(self.chances)
        return expected_pairs(self.next_Z, self.chances) if sparse_ones else None

    def led(self, W):
        """L W, of shape (n_actions, n_features)."""
        if self.next_psi is not None:
            values = self.next_psi @ W.ravel()
        else:
            values = expected_values(self.next_Z, W, self.chances)
        return (self.weighted.T @ values).reshape(self.shape)

    def led_back(self, H):
        """L^T H, of shape (n_actions, n_features)."""
        u = self.weighted @ H.ravel()
        if self.next_psi is not None:
            return (self.next_psi.T @ u).reshape(self.shape)
        total = np.zeros(self.shape)
        for rows in batches(*self.chances.shape):
            total += dense((u[rows, None] * self.chances[rows]).T @ self.next_Z[rows])
        return total

    def matrix(self):
        """L, with a row and a column for each feature of each action."""
        (m, d), chances = self.shape, dense(self.chances)
        led = np.zeros((m, d, m, d))
        for a in range(m):
            of_action = np.flatnonzero(self.number == a)
            for b in range(m):
                rows = of_action[chances[of_action, b] > 0]
                weighted = scale_rows(chances[rows, b], self.left[rows])
                led[a, :, b] = dense(weighted.T @ self.next_Z[rows])
        return led.reshape(m * d, m * d)


class UniformSuccessorOperator:
    """The `SuccessorOperator` of the uniform policy, from the sums of phi_k phi'_k^T of
    each action."""

    def __init__(self, after):
        self.after = after

    def led(self, W):
        """L W, of shape (n_actions, n_features)."""
        return self.after @ W.mean(axis=0)

    def led_back(self, H):
        """L^T H, of shape (n_actions, n_features)."""
        row = np.einsum("aij,ai->j", self.after, H) / len(H)
        return np.tile(row, (len(H), 1))

    def matrix(self):
        """L, with a row and a column for each feature of each action."""
        m, d, _ = self.after.shape
        return np.tile(self.after.reshape(m * d, d), m) / m


def equations(C, b, largest, ridge, gamma, transitions, counts):
    """The equations of LSTDQ: as a whole if they are small and transitions go on, else
    by blocks of actions. The parameters are those of `ActionBlocks`."""
    if transitions is None or b.size > LARGEST_SYSTEM:
        return ActionBlocks(C, b, largest, ridge, gamma, transitions, counts)
    led = transitions.matrix()
    return WholeEquations(C, b, largest, ridge, gamma, led, counts.sum())


class WholeEquations:
    """The equations (C + ridge - gamma L) w = b of LSTDQ, with a matrix L."""

    def __init__(self, C, b, largest, ridge, gamma, led, n_rows):
        self.gamma, self.shape, C = gamma, b.shape, block_diag(*C)
        self.ridge = np.tile(ridge, len(b))
        sums = np.column_stack([C - gamma * led, C, b.ravel()])
        self.moments = TransitionMoments(sums, 1.0, n_rows, largest.ravel())

    def solution(self):
        """The coefficients, of shape (n_actions, n_features), as the ``x`` of a
        `LeastSquaresSolution`."""
        solution = self.moments.solution(self.ridge, ends=self.gamma == 1)
        return replace(solution, x=solution.x.reshape(self.shape))

    def transposed(self, gradient):
        """The solution h of the transposed equations for another right side, with
        features scaled to a common size."""
        C = self.moments.parts[2].diagonal()
        scale = inverse_lengths(np.sqrt(C))
        scaled = scale[:, None] * self.matrix() * scale
        h = np.linalg.lstsq(scaled.T, scale * gradient.ravel(), rcond=SINGULAR)[0]
        return (scale * h).reshape(self.shape)

    def matrix(self):
        """The equations as a matrix, with a row for each feature of each action."""
        return self.moments.parts[0] + np.diag(self.ridge)


class ActionBlocks:
    """The equations (C + ridge - gamma L) w = b of LSTDQ, with means over transitions.

    C consists of a block for each action, and L is only multiplied, in a pass over the
    transitions. With the inverses of the blocks, GMRES converges in some ten passes. If
    no transition goes on, the blocks are solved separately. Coefficients of directions
    in which the rows of an action do not vary are 0.

    Parameters
    ----------
    C, b, largest : ndarray
        The blocks of C, of shape (n_actions, n_features, n_features), and b and the
        largest absolute values of the features, of shape (n_actions, n_features).
    ridge : ndarray of shape (n_features,)
    gamma : float
    transitions : object or None
        It multiplies by L, as `SuccessorOperator` does. None means that L is 0.
    counts : ndarray of shape (n_actions,)
        Numbers of rows, for messages.
    """

    def __init__(self, C, b, largest, ridge, gamma, transitions, counts):
        ridge = ridge * (largest > 0)
        self.C = C + ridge[:, None] * np.eye(C.shape[1])
        self.b, self.largest, self.total = b, largest, 1 + ridge.sum()
        self.gamma, self.transitions, self.counts = gamma, transitions, counts

    @cached_property
    def _inverses(self):
        """The inverses of the blocks of C within their ranks, their ranks, and the
        condition number."""
        d = self.C.shape[1]
        scale = inverse_lengths(np.sqrt(np.einsum("ajj->aj", self.C))).reshape(-1, d)
        # the tolerance of `least_squares.solve_moments`
        rounding = max(2000, 10 * d) * np.finfo(float).eps
        values, vectors = np.linalg.eigh(scale[:, :, None] * self.C * scale[:, None])
        kept = values > rounding * values.max()
        short = np.flatnonzero(~kept.all(axis=1))
        if len(short):
            # the minimum norm is that of coefficients divided by their units
            scale[short] = inverse_lengths(self.largest[short]).reshape(-1, d)
            s, ranks = scale[short], kept[short].sum(axis=1)
            units, directions = np.linalg.eigh(
                s[:, :, None] * self.C[short] * s[:, None]
            )
            of_rank = np.arange(d) >= d - ranks[:, None]
            vectors[short] = directions
            inverses = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
            inverses[short] = np.where(of_rank, 1 / np.where(of_rank, units, 1.0), 0.0)
        else:
            inverses = 1 / values
        inverse = (vectors * inverses[:, None]) @ vectors.transpose(0, 2, 1)
        condition = values[kept].max(initial=1.0) / values[kept].min(
            initial=values.max()
        )
        return scale[:, :, None] * inverse * scale[:, None], kept.sum(), condition

    def _precondition(self, V):
        return np.einsum("aij,aj->ai", self._inverses[0], V)

    def _operator(self, transposed=False):
        """I - gamma P L with the inverse P of C, or its transpose, I - gamma L^T P."""
        led = self.transitions.led_back if transposed else self.transitions.led
        first, second = (
            (self._precondition, led) if transposed else (led, self._precondition)
        )

        def product(v):
            return v - self.gamma * second(first(v.reshape(self.b.shape))).ravel()

        return LinearOperator((self.b.size, self.b.size), matvec=product, dtype=float)

    def _solve(self, right, transposed=False):
        """The solution of the preconditioned equations, and its relative residual."""
        operator, right = self._operator(transposed), right.ravel()
        size, x = np.linalg.norm(right) or 1.0, np.zeros(len(right))
        residual = right
        for _ in range(2):  # the second time refines the solution
            x = x + gmres(operator, residual, rtol=1e-8, restart=60, maxiter=5)[0]
            residual = right - operator.matvec(x)
        return x.reshape(self.b.shape), np.linalg.norm(residual) / size

    def solution(self):
        """The coefficients, of shape (n_actions, n_features), as the ``x`` of a
        `LeastSquaresSolution`.

        Raises a ValueError if the transitions determine too little.
        """
        _, rank, condition = self._inverses
        right = self._precondition(self.b)
        x, rest, endless = right, 0 * right, False
        if self.transitions is not None:
            x, residual = self._solve(right)
            self._check(residual)
            if self.gamma == 1:
                # if the system is singular, it has no solution for most right sides
                at_random = np.random.default_rng(0).normal(size=self.b.shape)
                self._check(self._solve(self._precondition(at_random))[1])
            rest = self.C_times(x) - self.gamma * self.transitions.led(x) - self.b
            endless = self._is_endless(x)
        start, fun = (np.sum(u * self._precondition(u)) for u in (self.b, rest))
        return LeastSquaresSolution(
            x,
            int(rank),
            float(condition),
            endless,
            start / self.total,
            fun / self.total,
        )

    def C_times(self, W):
        """C W, of shape (n_actions, n_features)."""
        return np.einsum("aij,aj->ai", self.C, W)

    def transposed(self, gradient):
        """The solution h of the transposed equations for another right side."""
        h = gradient
        if self.transitions is not None:
            h, residual = self._solve(gradient, transposed=True)
            self._check(residual)
        return self._precondition(h)

    def _check(self, residual):
        """Raise a ValueError if the residual of the equations is not small."""
        if residual <= ACCEPTED:
            return
        if self.gamma == 1:
            refuse_no_ends()
        half, least = np.quantile(self.counts, [0.5, 0.0]).astype(int).tolist()
        m, d = self.b.shape
        raise ValueError(
            f"X must have transitions that determine the values of {m} actions, whose "
            f"equations have no solution up to {ACCEPTED:g}: a relative residual of "
            f"{residual:.1e} is left. Half of the actions have at most {half} rows, "
            f"one has {least}, for {d} columns of features. Set alpha (1e-3 times "
            "the mean square of a feature, say), merge rare actions, use fewer "
            "features, or a smaller gamma"
        )

    def matrix(self):
        """The equations as a matrix, with a row for each feature of each action."""
        A = block_diag(*self.C)
        return (
            A
            if self.transitions is None
            else A - self.gamma * self.transitions.matrix()
        )

    def _is_endless(self, x):
        """As `least_squares.is_endless`, for the component of the values that grows
        fastest."""
        if self.counts.sum() < 10 * x.size:
            return False
        found, v0 = [], np.random.default_rng(0).normal(size=x.size)
        for transposed in (False, True):
            operator = self._operator(transposed)
            try:
                # the largest real part of gamma P L
                value, vector = eigs(
                    operator, k=1, which="SR", tol=1e-6, maxiter=50, v0=v0
                )
            except ArpackError:  # of a cluster, as of values that only decay
                return False
            if value[0].real > -1e-9:
                return False
            found.append(vector[:, 0])
        right, left = found
        part = abs((left @ x.ravel()) / (left @ right))

        def size(v):
            return np.sqrt(abs(np.vdot(v, self.C_times(v.reshape(x.shape)).ravel())))

        return bool(part * size(right) > 0.01 * size(x.ravel()))
