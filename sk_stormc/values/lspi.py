"""LSTDQ and LSPI: action values of a policy from sums over transitions, and
least-squares policy iteration."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.solvers import StopReason
from sk_stormc.utils.blocks import added
from sk_stormc.utils.warnings import warn
from sk_stormc.values.least_squares import Solution
from sk_stormc.values.lstd import Moments
from sk_stormc.values.markov import dense, largest_values, scale_rows
from sk_stormc.values.objectives import with_ridge
from sk_stormc.values.policies import chosen, numbers_of, warn_of_unknown
from sk_stormc.values.projected import ProjectedBellmanProblem
from sk_stormc.values.transitions import NONE, Chunk
from sk_stormc.values.uncertainty import spread_of_sums, sums_of_episodes


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


class GreedyPolicy:
    """A policy of policy iteration, as coefficients from which its actions follow in
    any state.

    Each action is the best one for the coefficients ``w``. Ties are resolved in favour
    of the policy ``before``. Without coefficients, the policy is uniform, or always
    takes the ``first`` action. With ``mixed`` it is a mixture of these policies.
    """

    def __init__(self, w=None, before=None, first=False, mixed=()):
        self.w, self.before, self.first, self.mixed = w, before, first, mixed
        self._last = None, None  # features of states, and the actions in these

    def __getstate__(self):
        return vars(self) | {"_last": (None, None)}

    def action(self, Z, unknown):
        """The greedy action in states with features Z, or None if it is uniform."""
        if self.w is None:
            return np.zeros(Z.shape[0], dtype=int) if self.first else None
        states, action = self._last
        if states is not Z:
            earlier = self.before.action(Z, unknown)
            action = best_actions(Z @ self.w.T, unknown, earlier)
            self._last = Z, action
        return action

    def chances(self, Z, unknown, m):
        """The probabilities of m actions in states with features Z."""
        if self.mixed:
            return np.mean([one.chances(Z, unknown, m) for one in self.mixed], axis=0)
        action = self.action(Z, unknown)
        return np.full((Z.shape[0], m), 1 / m) if action is None else chosen(action, m)


class ActionSums:
    """Sums over transitions that determine the solution of LSTDQ for several policies.

    With psi_k = psi(s_k, a_k), the features phi of the state in the block of the
    action, the sums are C = sum_k d_k psi_k psi_k^T, b = sum_k d_k psi_k r_k and, for a
    policy pi, A = C - gamma sum_k d_k psi_k psi'_k^T with psi'_k = sum_a pi(a | s'_k)
    psi(s'_k, a). All of them consist of blocks of n_features x n_features, one for each
    pair of actions. The solution adds the ridge to A and C, which is equivalent to
    additional transitions, each from a state with a single feature to the end of the
    episode, without reward. A policy is a `GreedyPolicy`, or a given one. The log is a
    `Chunk` or a `LogBlocks`.
    """

    def __init__(self, log, estimator):
        total = log.sum(sums_of_actions)
        if total is None:
            raise ValueError(NONE)
        by_action, self.weight, self.n_rows, self.n_ongoing, rewards = total
        self.log, self.gamma = log, estimator.gamma
        self.actions = np.array(sorted(by_action))
        C, after, b, largest = zip(
            *(by_action[action] for action in self.actions.tolist()), strict=True
        )
        m, d = self.shape = len(C), len(b[0])
        self.ridge = np.tile(estimator._alphas(d), m)
        self.largest = np.array([of_action.values for of_action in largest])
        self.occurs = self.largest > 0
        self.C, self.b = block_diag(*C) / self.weight, np.concatenate(b) / self.weight
        # the highest reward, and minus the lowest one
        self.rewards = rewards.values
        led = np.repeat(np.stack(after)[:, :, None], m, axis=2) / m
        self.uniform = GreedyPolicy()
        # the last policy with sums, and these
        self._led = self.uniform, led / self.weight
        self._evaluated = None  # the moments of the last solution
        in_memory = isinstance(log, Chunk)
        self._block = (
            action_block(log, self.actions, self.occurs) if in_memory else None
        )

    def _sum(self, function):
        """Add up ``function(*action_block)`` over the log."""
        if self._block is not None:
            return function(*self._block)
        actions, occurs = self.actions, self.occurs
        return self.log.sum(lambda t: function(*action_block(t, actions, occurs)))

    def evaluate(self, policy, before=None):
        """Keep the sums of psi_k psi'_k^T of a policy. Return its share of unknown
        actions in the successors, the fraction of these in which it differs from the
        policy ``before``, and a digest of its actions."""
        actions = self.actions

        def of_block(t, ongoing, next_Z, unknown, number):
            chances = chances_in(policy, t, next_Z, unknown, actions)
            rare = probability_of(unknown, chances)
            changed = 0
            if before is not None:
                differ = chances != chances_in(before, t, next_Z, unknown, actions)
                changed = int(differ.any(axis=1).sum())
            digest = hashlib.sha256(np.ascontiguousarray(chances)).digest()
            led = led_to(t, ongoing, next_Z, number, chances)
            return led, rare, changed, [digest]

        led, rare, changed, digests = self._sum(of_block)
        self._led = policy, led / self.weight
        n = max(1, self.n_ongoing)
        return rare / n, changed / n, tuple(digests)

    def moments(self, policy):
        """The moments of a policy."""
        if self._led[0] is not policy:
            self.evaluate(policy)
        n = len(self.b)
        A = self.C - self.gamma * self._led[1].reshape(n, n)
        sums = np.column_stack([A, self.C, self.b])
        self._evaluated = Moments(sums, 1.0, self.n_rows, self.largest.ravel())
        return self._evaluated

    def solution(self, policy):
        """The coefficients of LSTDQ for a policy, and the `Solution`."""
        solution = self.moments(policy).solution(self.ridge, ends=self.gamma == 1)
        return solution.x.reshape(self.shape), solution

    def spread(self, policy, w):
        """The `Spread` of the values of the policy that was solved last, for the
        columns that are determined."""
        columns, actions = np.flatnonzero(self.occurs), self.actions
        gamma, m = self.gamma, self.shape[0]

        def scores_of(t, ongoing, next_Z, unknown, number):
            error = (t.Z @ w.T)[np.arange(len(t.y)), number] - t.y
            chances = chances_in(policy, t, next_Z, unknown, actions)
            error[ongoing] -= gamma * (chances * (next_Z @ w.T)).sum(axis=1)
            psi = of_actions(t.Z, chosen(number, m))[:, columns]
            return sums_of_episodes(t, psi, error)

        moments = replace(self._evaluated or self.moments(policy), weight=self.weight)
        bread = (moments.parts[0] + np.diag(self.ridge))[np.ix_(columns, columns)]
        return spread_of_sums(self._sum(scores_of), bread, moments)

    def problem(self, policy):
        """The compositional problem of a given policy for a log in memory, and a
        function from its variables to coefficients."""
        log, ongoing, _, unknown, number = self._block
        m, at = self.shape[0], np.flatnonzero(self.occurs)
        chances = np.zeros((len(log.y), m))
        chances[ongoing] = log.following.chances(policy, self.actions)
        rare = probability_of(unknown, chances[ongoing])
        warn_of_unknown(rare / max(1, self.n_ongoing))
        left = of_actions(log.Z, chosen(number, m))[:, at]
        after = of_actions(log.next_Z, chances)[:, at]
        *rows, weights = with_ridge(left, after, log.y, log.weights, self.ridge[at])

        def spread_out(x):
            w = np.zeros(self.occurs.size)
            w[at] = x
            return w.reshape(self.shape)

        problem = ProjectedBellmanProblem(*rows, self.gamma, sample_weight=weights)
        return problem, spread_out


def probability_of(unknown, chances):
    """The sum over states of the probabilities of unknown actions."""
    return 0.0 if unknown is None else float((chances * unknown).sum())


def sums_of_actions(t):
    """Sums over the transitions of a block that are the same for all policies: of each
    action, and of all."""
    weighted, by_action = scale_rows(t.weights, t.Z), SumsOfActions()
    for action in np.unique(t.action).tolist():
        rows = t.action == action
        left, Z = weighted[rows].T, t.Z[rows]
        by_action[action] = (
            dense(left @ Z),
            dense(left @ t.next_Z[rows]),
            left @ t.y[rows],
            Largest(largest_values(Z)),
        )
    n_ongoing, rewards = int((~t.terminal).sum()), np.array([t.y.max(), -t.y.min()])
    return by_action, t.weights.sum(), len(t.y), n_ongoing, Largest(rewards)


def action_block(t, actions, occurs):
    """Transitions, those that go on, the features of the successors of these, unknown
    actions in these, and the numbers of the actions that were taken."""
    ongoing = t.following.ongoing()
    next_Z = t.next_Z[ongoing]
    unknown = unknown_actions(next_Z, occurs)
    return t, ongoing, next_Z, unknown, numbers_of(t.action, actions)


def chances_in(policy, t, next_Z, unknown, actions):
    """The probabilities of the actions in the successors with features next_Z."""
    if isinstance(policy, GreedyPolicy):
        return policy.chances(next_Z, unknown, len(actions))
    return t.following.chances(policy, actions)


def led_to(t, ongoing, next_Z, number, chances):
    """The sums of psi_k psi'_k^T, of shape (n_actions, d, n_actions, d)."""
    m, d = chances.shape[1], next_Z.shape[1]
    led = np.zeros((m, d, m, d))
    for a in range(m):
        of_action = np.flatnonzero(number[ongoing] == a)
        for b in range(m):
            taken = of_action[chances[of_action, b] > 0]
            rows = ongoing[taken]
            weighted = scale_rows(chances[taken, b] * t.weights[rows], t.Z[rows])
            led[a, :, b] = dense(weighted.T @ next_Z[taken])
    return led


class SumsOfActions(dict):
    """Tuples of sums by the labels of actions, which are added by ``+``."""

    def __add__(self, other):
        return SumsOfActions(
            {
                label: added(self.get(label), other.get(label))
                for label in {**self, **other}
            }
        )


@dataclass(frozen=True, eq=False)
class Largest:
    """Largest values, whose sum is the maximum of both."""

    values: np.ndarray

    def __add__(self, other):
        return Largest(np.maximum(self.values, other.values))


@dataclass
class Iterated:
    """The result of policy iteration."""

    w: np.ndarray  # (n_actions, n_features)
    solution: Solution
    policy: GreedyPolicy  # the policy with these values
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
    following, losses, changes = sums.uniform, [], []
    tried, place = [], {}  # the earlier greedy policies, and their indices
    restarted = stopped = False
    while len(changes) < (max_iter or 50) and not stopped:
        policy = following
        w, solution = sums.solution(policy)
        if not losses:
            # the objective at 0 is the same for all policies
            losses.append(solution.start)
            notify(np.zeros_like(w), losses)
        following = GreedyPolicy(w, policy)
        _, changed, digest = sums.evaluate(following, policy)
        losses.append(solution.fun)
        changes.append(changed)
        stopped = notify(w, losses)
        if not changed:
            break
        start = place.setdefault(digest, len(tried))
        if start == len(tried):
            tried.append(following)
            continue
        following = (
            GreedyPolicy(w, policy, mixed=tried[start:])
            if restarted
            else GreedyPolicy(first=True)
        )
        restarted, tried, place = True, [], {}
    return Iterated(w, solution, policy, losses, changes, stopped)


def warn_if_not_converged(changes):
    """The stop reason of policy iteration. Warns if the policy has not converged."""
    if not changes[-1]:
        return StopReason.CONVERGED
    warn(
        f"after {len(changes)} policies (max_iter) the best policy still changes in "
        f"{changes[-1]:.2%} of the successors, and the policy may be far from the "
        "best. A smaller gamma, a larger alpha or other features can help; "
        "policy_changes_ has the changes of all iterations.",
        ConvergenceWarning,
    )
    return StopReason.MAX_ITER


def of_columns(w, fit_intercept):
    """Split w into coefficients and intercepts. With an intercept, it is the last
    column."""
    coef, intercept = w, np.zeros(w.shape[:-1])
    if fit_intercept:
        coef, intercept = w[..., :-1], w[..., -1]
    return {
        "coef_": coef,
        "intercept_": intercept if w.ndim > 1 else float(intercept),
    }
