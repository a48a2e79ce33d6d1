"""LSTDQ and LSPI: action values of a policy from sums over transitions, and
least-squares policy iteration."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.solvers import StopReason
from sk_stormc.utils.warnings import warn
from sk_stormc.values.least_squares import Solution
from sk_stormc.values.lstd import Moments
from sk_stormc.values.markov import dense, normalized_weights, scale_rows
from sk_stormc.values.objectives import with_ridge
from sk_stormc.values.policies import chosen
from sk_stormc.values.projected import ProjectedBellmanProblem
from sk_stormc.values.uncertainty import spread_of_log


def of_actions(Z, chances):
    """Features of state-action pairs (CSR): the state's in the block of each action,
    times its probability."""
    return sparse.csr_array(
        sparse.hstack([sparse.csr_array(scale_rows(column, Z)) for column in chances.T])
    )


def unknown_actions(Z, occurs):
    """A mask (n, n_actions) of actions that are not in the log for a state, or None if
    there are none.

    An action is not in the log for a state if the state has a feature that only rows
    with other actions have.
    """
    missing = occurs.any(axis=0) & ~occurs
    return dense(abs(Z) @ missing.T.astype(float)) > 0 if missing.any() else None


def best_actions(values, unknown=None, before=None):
    """The best action of each state. Ties: the first, or the one ``before``. An unknown
    one only if all are."""
    allowed = values
    if unknown is not None:
        allowed = np.where(
            unknown & ~unknown.all(axis=1, keepdims=True), -np.inf, values
        )
    best = allowed.argmax(axis=1)
    if before is None:
        return best
    rows = np.arange(len(best))
    rounding = 1e-9 * abs(values).max(initial=0.0)
    tied = allowed[rows, before] >= allowed[rows, best] - rounding
    return np.where(tied, before, best)


class ActionSums:
    """Sums over transitions that determine the solution of LSTDQ for several policies.

    With psi_k = psi(s_k, a_k), the features phi of the state in the block of the
    action, the sums are C = sum_k d_k psi_k psi_k^T, b = sum_k d_k psi_k r_k and, for a
    policy pi, A = C - gamma sum_k d_k psi_k psi'_k^T with psi'_k = sum_a pi(a | s'_k)
    psi(s'_k, a). All of them consist of blocks of n_features x n_features, one for each
    pair of actions. The solution adds the ridge to A and C, which is equivalent to
    additional transitions, each from a state with a single feature to the end of the
    episode, without reward.
    """

    def __init__(self, log, action, n_actions, gamma, ridge):
        Z, y = log.Z, log.y
        self.next_Z, self.gamma, self.n_rows = log.next_Z, gamma, len(y)
        self.shape, self.ridge = (n_actions, Z.shape[1]), np.tile(ridge, n_actions)
        self.rows = [np.flatnonzero(action == a) for a in range(n_actions)]
        self.weighted = scale_rows(normalized_weights(log.weights, len(y)), Z)
        self.largest = np.array(
            [dense(abs(Z[rows]).max(axis=0)).ravel() for rows in self.rows]
        )
        self.occurs = self.largest > 0
        self.C = block_diag(
            *(dense(self.weighted[rows].T @ Z[rows]) for rows in self.rows)
        )
        self.b = np.concatenate([self.weighted[rows].T @ y[rows] for rows in self.rows])
        self.ongoing = np.flatnonzero(~log.terminal)

    def moments(self, policy):
        """The moments of a policy."""
        m, d = self.shape
        led = led_to(self.weighted, self.next_Z, self.rows, policy.chances)
        A = self.C - self.gamma * led.reshape(m * d, m * d)
        return Moments(A, self.b, self.C, 1.0, self.n_rows, self.largest.ravel())

    def solution(self, policy):
        """The coefficients of LSTDQ for a policy, and the `Solution`."""
        solution = self.moments(policy).solution(self.ridge, ends=self.gamma == 1)
        return solution.x.reshape(self.shape), solution

    def uniform(self):
        """The policy that takes all actions with the same probability."""
        return RowsPolicy(np.full((self.n_rows, self.shape[0]), 1 / self.shape[0]))

    def constant(self, policy):
        """The policy that always takes the first action."""
        return self._taking(np.zeros_like(policy.action))

    def mixture(self, policies, policy):
        """The mixture of the policies of a cycle, which ``policy`` has closed."""
        return RowsPolicy(
            np.mean([other.chances for other in policies], axis=0), policy.action
        )

    def greedy(self, policy, w):
        """The policy that is greedy for the values w, a key of its actions, and the
        fraction of changed actions."""
        action = best_actions(self._successors @ w.T, self._unknown, policy.action)
        new, changed = self._taking(action), 0.0
        if len(self.ongoing):
            changed = float(
                np.mean((new.chances != policy.chances)[self.ongoing].any(axis=1))
            )
        return new, action.tobytes(), changed

    def _taking(self, action):
        """The policy with an action for each successor."""
        chances = np.zeros((self.n_rows, self.shape[0]))
        chances[self.ongoing] = chosen(action, self.shape[0])
        return RowsPolicy(chances, action)

    @cached_property
    def _successors(self):
        return self.next_Z[self.ongoing]

    @cached_property
    def _unknown(self):
        return unknown_actions(self._successors, self.occurs)


@dataclass(frozen=True, eq=False)
class RowsPolicy:
    """The actions of a policy in the successors of all rows."""

    chances: np.ndarray  # (n, n_actions), the probabilities of the actions
    action: np.ndarray | None = (
        None  # the last greedy action of each row that goes on, for ties
    )


def led_to(weighted, next_Z, rows, chances):
    """The sums of psi_k psi'_k^T, of shape (n_actions, d, n_actions, d). ``rows`` are
    those of each action."""
    m, d = len(rows), weighted.shape[1]
    led = np.zeros((m, d, m, d))
    for a, of_action in enumerate(rows):
        for b in range(m):
            taken = of_action[chances[of_action, b] > 0]
            led[a, :, b] = dense(
                scale_rows(chances[taken, b], weighted[taken]).T @ next_Z[taken]
            )
    return led


@dataclass
class Iterated:
    """The result of policy iteration."""

    w: np.ndarray  # (n_actions, n_features)
    solution: Solution
    policy: object  # the policy with these values
    losses: list  # the objective at 0 and at each solution
    # for each policy, the fraction of successors whose greedy action is another one
    changes: list
    stopped: bool  # whether ``notify`` has ended the iteration


def iterate_policies(sums, max_iter, notify):
    """Least-squares policy iteration: evaluate a policy, then replace it with the
    greedy policy for its values.

    The first policy is uniform. If the policies form a cycle, the iteration restarts
    from the policy that always takes the first action. In a second cycle it continues
    with the mixture of the cycle's policies. ``notify`` is called with the coefficients
    and the losses after each evaluation, and ends the iteration if it returns True.
    """
    following, losses, changes = sums.uniform(), [], []
    tried, place = [], {}  # the earlier greedy policies, and their indices
    restarted = stopped = False
    while len(changes) < (max_iter or 50) and not stopped:
        policy = following
        w, solution = sums.solution(policy)
        if not losses:
            # the objective at 0 is the same for all policies
            losses.append(solution.start)
            notify(np.zeros_like(w), losses)
        following, key, changed = sums.greedy(policy, w)
        losses.append(solution.fun)
        changes.append(changed)
        stopped = notify(w, losses)
        if not changed:
            break
        start = place.setdefault(key, len(tried))
        if start == len(tried):
            tried.append(following)
            continue
        following = (
            sums.mixture(tried[start:], following)
            if restarted
            else sums.constant(following)
        )
        restarted, tried, place = True, [], {}
    return Iterated(w, solution, policy, losses, changes, stopped)


def warn_if_not_converged(changes):
    """The stop reason of policy iteration. Warns if the policy has not converged."""
    if not changes[-1]:
        return StopReason.CONVERGED
    warn(
        f"after {len(changes)} policies (max_iter) the best policy still changes in "
        f"{changes[-1]:.2%} of "
        "the successors, and the policy may be far from the best. A smaller gamma, a "
        "larger alpha or other "
        "features can help; policy_changes_ has the changes of all iterations.",
        ConvergenceWarning,
    )
    return StopReason.MAX_ITER


def spread_of_actions(sums, log, action, chances, w):
    """The `Spread` of the coefficients of a policy, and their columns among the
    features of all actions."""
    at, m = np.flatnonzero(sums.occurs), sums.shape[0]
    left = of_actions(log.Z, chosen(action, m))[:, at]
    after = of_actions(log.next_Z, chances)[:, at]
    rows = replace(log, Z=left, next_Z=after)
    columns = np.flatnonzero(
        np.isin(np.arange(log.n_features), log.columns)[None, :]
        & np.ones((m, 1), dtype=bool)
    )
    return spread_of_log(
        "projected", rows, None, w.ravel()[at], sums.ridge[at], sums.gamma
    ), columns[at]


def problem_of(sums, log, action, chances, ridge):
    """The compositional problem of a given policy, and a function from its variables to
    coefficients."""
    m, at = sums.shape[0], np.flatnonzero(sums.occurs)
    left = of_actions(log.Z, chosen(action, m))[:, at]
    after = of_actions(log.next_Z, chances)[:, at]
    left, after, y, weights = with_ridge(
        left, after, log.y, log.weights, np.tile(ridge, m)[at]
    )

    def spread(x):
        w = np.zeros(sums.occurs.size)
        w[at] = x
        return w.reshape(sums.shape)

    return ProjectedBellmanProblem(
        left, after, y, sums.gamma, sample_weight=weights
    ), spread


def charged(losses, n_rows):
    """The records of exact solutions, which cost one pass over the data for each
    policy. The first record is at 0."""
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
    """Split w into coefficients and intercepts. With an intercept, it is the last
    column."""
    return (
        {"coef_": w[:, :-1], "intercept_": w[:, -1]}
        if fit_intercept
        else {"coef_": w, "intercept_": 0.0 * w[:, 0]}
    )
