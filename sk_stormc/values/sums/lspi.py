"""LSTDQ and LSPI: action values of a policy from sums over transitions, and
least-squares policy iteration."""

import hashlib
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.solvers import StopReason
from sk_stormc.utils.blocks import added
from sk_stormc.utils.warnings import warn
from sk_stormc.values.markov import dense
from sk_stormc.values.reading.actions import numbers_of, warn_of_unknown
from sk_stormc.values.sums.action_blocks import (
    LARGEST_SYSTEM,
    ActionBlocks,
    SuccessorOperator,
    UniformSuccessorOperator,
    WholeEquations,
    batches,
    expected_pairs,
    expected_values,
    pairs,
    sums_by_action,
)
from sk_stormc.values.sums.least_squares import LeastSquaresSolution
from sk_stormc.values.sums.objectives import with_ridge
from sk_stormc.values.sums.projected import ProjectedBellmanProblem
from sk_stormc.values.sums.uncertainty import spread_of_sums, sums_of_episodes

# columns of all actions together up to which rows in blocks are added up
LARGEST_FORMED = 4000


def unknown_actions(Z, occurs):
    """A mask (n, n_actions) of actions that are not in the log for a state, or None if
    there are none.

    An action is not in the log for a state if the state has a feature that only rows
    with other actions have.
    """
    missing = (occurs.any(axis=0) & ~occurs).T.astype(float)
    if not missing.any():
        return None
    unknown = np.empty((Z.shape[0], len(occurs)), dtype=bool)
    for rows in batches(*unknown.shape):
        unknown[rows] = dense(abs(Z[rows]) @ missing) > 0
    return unknown


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
            earlier, action = self.before.action(Z, unknown), np.empty(Z.shape[0], int)
            for rows in batches(len(action), len(self.w)):
                of_rows = (
                    None if part is None else part[rows] for part in (unknown, earlier)
                )
                action[rows] = best_actions(Z[rows] @ self.w.T, *of_rows)
            self._last = Z, action
        return action

    def chances(self, Z, unknown, m):
        """The probabilities of m actions in states with features Z (CSR, except for the
        uniform policy)."""
        if self.mixed:
            all_of_them = [one.chances(Z, unknown, m) for one in self.mixed]
            return sum(all_of_them[1:], all_of_them[0]) / len(all_of_them)
        action, n = self.action(Z, unknown), Z.shape[0]
        if action is None:
            return np.broadcast_to(1 / m, (n, m))
        return sparse.csr_array((np.ones(n), action, np.arange(n + 1)), shape=(n, m))


class ActionSums:
    """Sums over transitions that determine the solution of LSTDQ for several policies.

    With psi_k = psi(s_k, a_k), the features phi of the state in the block of the
    action, the sums are C = sum_k d_k psi_k psi_k^T, b = sum_k d_k psi_k r_k and, for a
    policy pi, A = C - gamma sum_k d_k psi_k psi'_k^T with psi'_k = sum_a pi(a | s'_k)
    psi(s'_k, a). All of them consist of blocks of n_features x n_features, one for each
    pair of actions. The solution adds the ridge to A and C, which is equivalent to
    additional transitions, each from a state with a single feature to the end of the
    episode, without reward. A policy is a `GreedyPolicy`, or a given one.
    """

    def __init__(self, log, estimator):
        total = log.sum(sums_of_actions)
        by_action, self.weight, self.n_rows, self.n_ongoing, rewards = total
        self.log, self.gamma = log, estimator.gamma
        self.actions = np.array(sorted(by_action))
        C, after, b, largest, self.counts = map(
            np.array,
            zip(*(by_action[action] for action in self.actions.tolist()), strict=True),
        )
        self.C, after, self.b = (part / self.weight for part in (C, after, b))
        m, d = self.shape = b.shape
        self.ridge = estimator._alphas(d)
        self.largest = np.array([of_action.values for of_action in largest])
        self.occurs = self.largest > 0
        # the highest reward, and minus the lowest one
        self.rewards = rewards.values
        self.uniform = GreedyPolicy()
        self._block = None
        if log.in_memory:
            self._block = action_block(log.chunk, self.actions, self.occurs)
        self.goes_on = self.n_ongoing > 0 < self.gamma
        # whether sums are formed for each pair of actions
        self.formed = self.goes_on and (m * d <= LARGEST_SYSTEM or not log.in_memory)
        if self.formed and m * d > LARGEST_FORMED:
            raise ValueError(
                f"X must have at most {LARGEST_FORMED} features for rows in blocks, of "
                f"all actions together, got {m} actions with {d}: use fit of rows in "
                "memory, which forms no such sums"
            )
        self._solved = None  # the last equations
        # the last policy with sums, and these
        led = UniformSuccessorOperator(after)
        self._led = self.uniform, led.matrix() if self.formed else led

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
        actions, formed, weight = self.actions, self.formed, self.weight
        goes_on = self.goes_on
        uniform = before is self.uniform

        def of_block(t, ongoing, next_Z, unknown, number):
            chances = chances_in(policy, t, next_Z, unknown, actions)
            rare = probability_of(unknown, chances)
            changed, digest = len(ongoing) * (len(actions) > 1), b""
            if before is not None and not uniform:
                differ = chances != chances_in(before, t, next_Z, unknown, actions)
                changed = len(np.unique(differ.nonzero()[0]))
            if before is not None:
                digest = hashlib.sha256(chances.indices).digest()
            led = None
            if goes_on:
                rows = t.Z[ongoing], next_Z, t.weights[ongoing] / weight
                led = SuccessorOperator(*rows, number[ongoing], chances)
            return led.matrix() if formed else led, rare, changed, [digest]

        led, rare, changed, digests = self._sum(of_block)
        self._led = policy, led
        n = max(1, self.n_ongoing)
        return rare / n, changed / n, tuple(digests)

    def equations(self, policy):
        """The equations for a policy."""
        if self._led[0] is not policy:
            self.evaluate(policy)
        led = self._led[1]
        sums = self.C, self.b, self.largest, self.ridge, self.gamma
        if self.formed:
            return WholeEquations(*sums, led, self.n_rows)
        return ActionBlocks(*sums, led if self.goes_on else None, self.counts)

    def solution(self, policy):
        """The coefficients of LSTDQ for a policy, and the `LeastSquaresSolution`."""
        self._solved = self.equations(policy)
        solution = self._solved.solution()
        return solution.x, solution

    def spread(self, policy, w):
        """The `Spread` of the values of the policy that was solved last, for the
        columns that are determined."""
        columns, actions = np.flatnonzero(self.occurs), self.actions
        gamma, m = self.gamma, self.shape[0]

        def scores_of(t, ongoing, next_Z, unknown, number):
            psi = pairs(t.Z, number, m)
            error = psi @ w.ravel() - t.y
            chances = chances_in(policy, t, next_Z, unknown, actions)
            error[ongoing] -= gamma * expected_values(next_Z, w, chances)
            return sums_of_episodes(t, psi[:, columns], error)

        bread = (self._solved or self.equations(policy)).matrix()
        bread = bread[np.ix_(columns, columns)]
        return spread_of_sums(self._sum(scores_of), bread, self)

    def problem(self, policy):
        """The compositional problem of a given policy for a log in memory, and a
        function from its variables to coefficients."""
        log, ongoing, _, unknown, number = self._block
        m, at = self.shape[0], np.flatnonzero(self.occurs)
        chances = np.zeros((len(log.y), m))
        chances[ongoing] = log.following.chances(policy, self.actions)
        rare = probability_of(unknown, chances[ongoing])
        warn_of_unknown(rare / max(1, self.n_ongoing))
        left = pairs(log.Z, number, m)[:, at]
        after = expected_pairs(log.next_Z, chances)[:, at]
        ridge = np.tile(self.ridge, m)[at]
        *rows, weights = with_ridge(left, after, log.y, log.weights, ridge)

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
    labels, number, counts = np.unique(
        t.action, return_inverse=True, return_counts=True
    )
    rows = t.Z, t.next_Z, t.y, t.weights
    C, after, b, largest = sums_by_action(*rows, number, len(labels))
    by_action = SumsOfActions(
        zip(
            labels.tolist(),
            zip(C, after, b, map(Largest, largest), counts, strict=True),
            strict=True,
        )
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
    solution: LeastSquaresSolution
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
