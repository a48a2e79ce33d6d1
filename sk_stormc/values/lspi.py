"""LSTDQ and LSPI: action values of a policy from sums over transitions, and least-squares policy iteration."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from sk_stormc.values.least_squares import Solution
from sk_stormc.values.lstd import Moments
from sk_stormc.values.markov import dense, normalized_weights, scale_rows
from sk_stormc.values.objectives import with_ridge
from sk_stormc.values.policies import chosen
from sk_stormc.values.projected import ProjectedBellmanProblem

TIE = 1e-9  # relative difference of two values below which two actions are ties


def of_actions(Z, chances):
    """Features of state-action pairs (CSR): the state's in the block of each action, times its probability."""
    return sparse.csr_array(sparse.hstack([sparse.csr_array(scale_rows(column, Z)) for column in chances.T]))


def unknown_actions(Z, occurs):
    """A mask (n, n_actions) of actions that are not in the log for a state, or None if there are none.

    An action is not in the log for a state if the state has a feature that only rows with other actions have.
    """
    missing = occurs.any(axis=0) & ~occurs
    return dense(abs(Z) @ missing.T.astype(float)) > 0 if missing.any() else None


def best_actions(values, unknown=None, before=None):
    """The best action of each state. Ties: the first, or the one ``before``. An unknown one only if all are."""
    allowed = values
    if unknown is not None:
        allowed = np.where(unknown & ~unknown.all(axis=1, keepdims=True), -np.inf, values)
    best = allowed.argmax(axis=1)
    if before is None:
        return best
    rows = np.arange(len(best))
    return np.where(allowed[rows, before] >= allowed[rows, best] - TIE * abs(values).max(initial=0.0), before, best)


class ActionSums:
    """Sums over transitions that determine the solution of LSTDQ for several policies.

    With psi_k = psi(s_k, a_k), the features phi of the state in the block of the action, the sums are C = sum_k d_k
    psi_k psi_k^T, b = sum_k d_k psi_k r_k and, for a policy pi, A = C - gamma sum_k d_k psi_k psi'_k^T with psi'_k =
    sum_a pi(a | s'_k) psi(s'_k, a). All of them consist of blocks of n_features x n_features, one for each pair of
    actions. The solution adds the ridge to A and C, which is equivalent to additional transitions, each from a state
    with a single feature to the end of the episode, without reward.
    """

    def __init__(self, log, action, n_actions, gamma, ridge):
        Z, y = log.Z, log.y
        self.next_Z, self.gamma, self.n_rows = log.next_Z, gamma, len(y)
        self.shape, self.ridge = (n_actions, Z.shape[1]), np.tile(ridge, n_actions)
        self.rows = [np.flatnonzero(action == a) for a in range(n_actions)]
        self.weighted = scale_rows(normalized_weights(log.weights, len(y)), Z)
        self.largest = np.array([dense(abs(Z[rows]).max(axis=0)).ravel() for rows in self.rows])
        self.occurs = self.largest > 0
        self.C = block_diag(*(dense(self.weighted[rows].T @ Z[rows]) for rows in self.rows))
        self.b = np.concatenate([self.weighted[rows].T @ y[rows] for rows in self.rows])

    def moments(self, chances):
        """The moments of a policy with action probabilities ``chances`` (n, n_actions) in the successors."""
        m, d = self.shape
        led = np.zeros((m, d, m, d))
        for a, rows in enumerate(self.rows):
            for b in range(m):
                taken = rows[chances[rows, b] > 0]
                led[a, :, b] = dense(scale_rows(chances[taken, b], self.weighted[taken]).T @ self.next_Z[taken])
        A = self.C - self.gamma * led.reshape(m * d, m * d)
        return Moments(A, self.b, self.C, 1.0, self.n_rows, self.largest.ravel())

    def solution(self, chances):
        """The coefficients of LSTDQ for probabilities of the actions in the successors, and the `Solution`."""
        solution = self.moments(chances).solution(self.ridge, ends=self.gamma == 1)
        return solution.x.reshape(self.shape), solution


@dataclass
class Iterated:
    """The result of policy iteration."""

    w: np.ndarray  # (n_actions, n_features)
    solution: Solution
    losses: list  # the objective at 0 and at each solution
    changes: list  # for each policy, the fraction of successors whose greedy action is another one
    stopped: bool  # whether ``watch`` has ended the iteration


def iterate_policies(sums, ongoing, max_iter, watch):
    """Least-squares policy iteration: evaluate a policy, then replace it with the greedy policy for its values.

    The first policy is uniform. If the policies form a cycle, the iteration restarts from the policy that always takes
    the first action. In a second cycle it continues with the mixture of the cycle's policies. ``watch`` is called with
    the coefficients and the losses after each evaluation, and ends the iteration if it returns True.
    """
    n, m = sums.n_rows, sums.shape[0]
    next_Z = sums.next_Z[ongoing]
    unknown = unknown_actions(next_Z, sums.occurs)
    chances, action, losses, changes = np.full((n, m), 1 / m), None, [], []
    tried, place = [], {}  # the earlier choices of actions in the successors, and their indices
    restarted = stopped = False
    while len(changes) < max_iter and not stopped:
        w, solution = sums.solution(chances)
        if not losses:
            losses.append(solution.start)  # the objective at 0 is the same for all policies
            watch(np.zeros_like(w), losses)
        action = best_actions(next_Z @ w.T, unknown, action)
        now = np.zeros((n, m))
        now[ongoing] = chosen(action, m)
        losses.append(solution.fun)
        changes.append(float(np.mean((now != chances)[ongoing].any(axis=1))) if len(ongoing) else 0.0)
        stopped = watch(w, losses)
        if not changes[-1]:
            break
        start = place.setdefault(action.tobytes(), len(tried))
        if start < len(tried):
            if restarted:
                now[ongoing] = np.mean([chosen(other, m) for other in tried[start:]], axis=0)
            else:
                action, restarted = np.zeros_like(action), True
                now[ongoing] = chosen(action, m)
            tried, place = [], {}
        else:
            tried.append(action)
        chances = now
    return Iterated(w, solution, losses, changes, stopped)


def problem_of(sums, log, action, chances, ridge):
    """The compositional problem of a given policy, and a function from its variables to coefficients."""
    m, at = sums.shape[0], np.flatnonzero(sums.occurs)
    left, after = of_actions(log.Z, chosen(action, m))[:, at], of_actions(log.next_Z, chances)[:, at]
    left, after, y, weights = with_ridge(left, after, log.y, log.weights, np.tile(ridge, m)[at])

    def spread(x):
        w = np.zeros(sums.occurs.size)
        w[at] = x
        return w.reshape(sums.shape)

    return ProjectedBellmanProblem(left, after, y, sums.gamma, sample_weight=weights), spread


def charged(losses, n_rows):
    """The records of exact solutions, which cost one pass over the data for each policy. The first record is at 0."""
    passes = np.arange(len(losses))
    n = len(passes) - 1
    return {
        "loss_curve_": np.array(losses),
        "ifo_": passes * (2 * n_rows + 1),
        "_pass_ifo": 2 * n_rows + 1,
        "n_evaluations_": {"inner": n * n_rows, "jacobian": n * n_rows, "outer": n},
        "n_iter_": n,
    }


def of_columns(w, fit_intercept):
    """Split w into coefficients and intercepts. With an intercept, it is the last column."""
    return {"coef_": w[:, :-1], "intercept_": w[:, -1]} if fit_intercept else {"coef_": w, "intercept_": 0.0 * w[:, 0]}
