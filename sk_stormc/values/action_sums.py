"""LSTDQ and LSPI: the value of actions under a policy from sums over transitions, and the iteration of policies."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from sk_stormc.values.action_data import chosen
from sk_stormc.values.least_squares import Solution
from sk_stormc.values.markov import dense, normalized_weights, scale_rows
from sk_stormc.values.moments import Moments
from sk_stormc.values.projected import ProjectedBellmanProblem

__all__ = [
    "ActionSums",
    "Iterated",
    "best_actions",
    "charged",
    "iterate_policies",
    "of_actions",
    "problem_of",
    "unknown_actions",
]

TIE = 1e-9  # of the largest value: actions that are as near to the best one as this are as good


def of_actions(Z, chances):
    """Features of states and actions: those of the state in the block of each action, times its probability.

    Parameters
    ----------
    Z : ndarray or sparse matrix of shape (n, n_features)
    chances : ndarray of shape (n, n_actions)

    Returns
    -------
    csr_array of shape (n, n_actions * n_features)
    """
    return sparse.csr_array(sparse.hstack([sparse.csr_array(scale_rows(column, Z)) for column in chances.T]))


def unknown_actions(Z, known):
    """Where a state has a feature that only rows of other actions have, booleans (n, n_actions); None for nowhere."""
    missing = known.any(axis=0) & ~known
    return dense(abs(Z) @ missing.T.astype(float)) > 0 if missing.any() else None


def best_actions(values, unknown=None, before=None):
    """The best action of each state, the first of equals.

    Parameters
    ----------
    values : ndarray of shape (n, n_actions)
    unknown : ndarray of bool of shape (n, n_actions), default=None
        Actions that are not chosen where there are others.
    before : ndarray of int of shape (n,), default=None
        Actions that are chosen again where none is better by more than rounding.

    Returns
    -------
    ndarray of int of shape (n,)
    """
    open_to = values
    if unknown is not None:
        open_to = np.where(unknown & ~unknown.all(axis=1, keepdims=True), -np.inf, values)
    best = open_to.argmax(axis=1)
    if before is None:
        return best
    rows = np.arange(len(best))
    return np.where(open_to[rows, before] >= open_to[rows, best] - TIE * abs(values).max(initial=0.0), before, best)


class ActionSums:
    """Sums over transitions that determine the solution of LSTDQ, for one policy after the other.

    With psi_k = psi(s_k, a_k), the features phi of the state in the block of the action, these are C = sum_k d_k psi_k
    psi_k^T, b = sum_k d_k psi_k r_k and, for a policy pi, A = C - gamma sum_k d_k psi_k psi'_k^T with psi'_k = sum_a
    pi(a | s'_k) psi(s'_k, a). All are made of blocks of n_features x n_features, one for each pair of actions. A ridge
    on A is added to C too: it is what transitions would add that leave one feature alone, without reward, for the end.

    Parameters
    ----------
    log : Log
    action : ndarray of int of shape (n,)
    n_actions : int
    gamma : float
    ridge : ndarray of shape (n_features,)
    """

    def __init__(self, log, action, n_actions, gamma, ridge):
        Z, y = log.Z, log.y
        self.next_Z, self.gamma, self.n_rows = log.next_Z, gamma, len(y)
        self.shape = n_actions, Z.shape[1]
        self.rows = [np.flatnonzero(action == a) for a in range(n_actions)]
        self.weighted = scale_rows(normalized_weights(log.weights, len(y)), Z)
        self.largest = np.array([dense(abs(Z[rows]).max(axis=0)).ravel() for rows in self.rows])
        self.known = self.largest > 0
        self.C = block_diag(*(dense(self.weighted[rows].T @ Z[rows]) + np.diag(ridge) for rows in self.rows))
        self.b = np.concatenate([self.weighted[rows].T @ y[rows] for rows in self.rows])

    def moments(self, chances):
        """The moments of a policy, of whose probabilities (n, n_actions) those in the successors are given."""
        m, d = self.shape
        led = np.zeros((m, d, m, d))
        for a, rows in enumerate(self.rows):
            for b in range(m):
                taken = rows[chances[rows, b] > 0]
                led[a, :, b] = dense(scale_rows(chances[taken, b], self.weighted[taken]).T @ self.next_Z[taken])
        A = self.C - self.gamma * led.reshape(m * d, m * d)
        return Moments(A, self.b, self.C, 1.0, self.n_rows, self.largest.ravel())

    def solution(self, chances):
        """LSTDQ's solution for a policy.

        Parameters
        ----------
        chances : ndarray of shape (n, n_actions)
            Probabilities of the actions in the successors.

        Returns
        -------
        w : ndarray of shape (n_actions, n_features)
            0 for a feature that no row of the action has.
        found : Solution
        fun : float
            The mean square projected Bellman error that is left: 0 where A w = b has a solution.
        """
        x, found, fun = self.moments(chances).solution(np.zeros(self.largest.size), ends=self.gamma == 1)
        return x.reshape(self.shape), found, fun


@dataclass
class Iterated:
    """What the iteration of policies came to.

    Attributes
    ----------
    w : ndarray of shape (n_actions, n_features)
    found : Solution
    losses : list of float
        The objective at each solution.
    changes : list of float
        The share of the successors in which what is best for each solution is not what its policy did. 0 at the end
        where the policy stays.
    """

    w: np.ndarray
    found: Solution
    losses: list
    changes: list


def iterate_policies(sums, going, max_iter):
    """Least-squares policy iteration: the value of a policy, then the policy that is best for these values.

    The first policy takes all actions alike. Where policies come back in a circle, it begins again with the policy that
    always takes the first action, and in a second circle goes on with the mixture of its policies.

    Parameters
    ----------
    sums : ActionSums
    going : ndarray of int
        Rows whose episode goes on.
    max_iter : int

    Returns
    -------
    Iterated
    """
    n, m = sums.n_rows, sums.shape[0]
    next_Z = sums.next_Z[going]
    unknown = unknown_actions(next_Z, sums.known)
    chances, action, losses, changes = np.full((n, m), 1 / m), None, [], []
    tried, place = [], {}  # actions in the successors, and when they were found
    again = False
    while len(losses) < max_iter:
        w, found, fun = sums.solution(chances)
        action = best_actions(next_Z @ w.T, unknown, action)
        now = np.zeros((n, m))
        now[going] = chosen(action, m)
        losses.append(fun)
        changes.append(float(np.mean((now != chances)[going].any(axis=1))) if len(going) else 0.0)
        if not changes[-1]:
            break
        start = place.setdefault(action.tobytes(), len(tried))
        if start < len(tried):
            if again:
                now[going] = np.mean([chosen(other, m) for other in tried[start:]], axis=0)
            else:
                action, again = np.zeros_like(action), True
                now[going] = chosen(action, m)
            tried, place = [], {}
        else:
            tried.append(action)
        chances = now
    return Iterated(w, found, losses, changes)


def problem_of(sums, log, action, chances, ridge):
    """The compositional problem of a policy that is given, and what makes the coefficients of its variables.

    Parameters
    ----------
    sums : ActionSums
    log, action, ridge
        As they were given to it.
    chances : ndarray of shape (n, n_actions)

    Returns
    -------
    problem : ProjectedBellmanProblem
    spread : callable
    """
    m, at = sums.shape[0], np.flatnonzero(sums.known)
    left, after = of_actions(log.Z, chosen(action, m))[:, at], of_actions(log.next_Z, chances)[:, at]
    y, weights, ridge = log.y, normalized_weights(log.weights, len(log.y)), np.tile(ridge, m)[at]
    alone = np.flatnonzero(ridge)  # each of these features alone leads to the end
    if len(alone):
        left = sparse.vstack([left, sparse.eye_array(len(ridge), format="csr")[alone]], format="csr")
        after = sparse.vstack([after, sparse.csr_array((len(alone), len(ridge)))], format="csr")
        y, weights = np.append(y, np.zeros(len(alone))), np.append(weights, ridge[alone])

    def spread(x):
        w = np.zeros(sums.known.size)
        w[at] = x
        return w.reshape(sums.shape)

    return ProjectedBellmanProblem(left, after, y, sums.gamma, sample_weight=weights), spread


def charged(losses, n_rows):
    """The records of exact solutions: one pass for each policy."""
    n, passes = len(losses), np.arange(1, len(losses) + 1)
    return {
        "loss_curve_": np.array(losses),
        "ifo_": passes * (2 * n_rows + 1),
        "n_evaluations_": {"inner": n * n_rows, "jacobian": n * n_rows, "outer": n},
        "n_iter_": n,
    }
