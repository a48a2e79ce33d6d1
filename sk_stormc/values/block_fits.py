"""Fits of values to logs whose rows lie in blocks: sums over the blocks, and exact
solutions in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag
from sklearn.utils.validation import validate_data

from sk_stormc.fitting.compat import callbacks_of
from sk_stormc.solvers import StopReason
from sk_stormc.utils.blocks import added, is_dask
from sk_stormc.utils.mapped_rows import MappedRows, blocks
from sk_stormc.utils.warnings import warn
from sk_stormc.values.log_blocks import LogBlocks
from sk_stormc.values.log_warnings import warn_of_no_information
from sk_stormc.values.lspi import (
    ActionSums,
    best_actions,
    charged,
    iterate_policies,
    led_to,
    of_actions,
    of_columns,
    unknown_actions,
    warn_if_not_converged,
)
from sk_stormc.values.lstd import Moments, attributes_of, warn_of_few_states
from sk_stormc.values.markov import dense, largest_values, scale_rows
from sk_stormc.values.objectives import REPEATING, text_of_repeating
from sk_stormc.values.policies import (
    check_actions,
    chosen,
    numbers_of,
    policy_chances,
    warn_of_unknown,
)
from sk_stormc.values.problems import LARGEST_HESSIAN
from sk_stormc.values.transitions import digests, distinct_rows
from sk_stormc.values.uncertainty import Spread, SumsByKey, keys_of

NONE = (
    "X must have a usable transition, with a successor or terminal, and of positive "
    "weight; got none"
)


def reads_blocks(X, log_columns, estimator):
    """Whether a fit adds up blocks: of dask collections, and of files if the rows have
    successors of their own.

    Other fits of files read them into memory.
    """
    if is_dask(X):
        return True
    if (
        log_columns.next_X is None
        or log_columns.time is not None
        or not isinstance(MappedRows.of(X), MappedRows)
    ):
        return False
    special = (
        callbacks_of(estimator)
        or estimator.features is not None
        or getattr(estimator, "trace_decay", 0)
    )
    return estimator.solves_itself() and X.shape[1] < LARGEST_HESSIAN and not special


def reason_for_blocks(estimator, X, log_columns):
    """Why a `BellmanValueEstimator` minimises the "projected" objective by blocks, or
    None if it does not do so."""
    if not reads_blocks(X, log_columns, estimator) or (
        estimator.objective == "bellman" and not is_dask(X)
    ):
        return None
    if estimator.objective != "auto":
        return "as given"
    if is_dask(X):
        return "rows in partitions are added up, and not grouped by their states"
    hashes = np.concatenate(
        [
            digests(np.asarray(block, dtype=float))
            for _, block in blocks(MappedRows.of(X))
        ]
    )
    for weights in (log_columns.sample_weight, log_columns.importance_ratio):
        if np.shape(weights) == hashes.shape:  # other shapes raise an error later
            hashes = np.where(np.asarray(weights) > 0, hashes, 0)
    visits = np.unique(hashes[hashes > 0], return_counts=True)[1]
    share = visits[visits > 1].sum() / max(1, visits.sum())
    return text_of_repeating(share) if share < REPEATING else None


# Values of states


def fit_states(estimator, X, y, log_columns, reason):
    """Fit a `BellmanValueEstimator` by the "projected" objective. Its attributes change
    at the end."""
    log, gamma = LogBlocks(estimator, X, y, log_columns), estimator.gamma

    def moments_of(t):
        if not len(t.y):
            return None
        moments = Moments.of_log(t.Z, t.next_Z, gamma, t.y, t.weights)
        ends = Largest(
            np.stack([dense(t.Z.max(axis=0)).ravel(), -dense(t.Z.min(axis=0)).ravel()])
        )
        return moments, int(t.terminal.sum()), ends, FewRows.of(t.states, t.Z.shape[1])

    total = log.sum(moments_of)
    if total is None:
        raise ValueError(NONE)
    moments, n_ends, ends, few = total
    d = len(moments.b)
    alpha = estimator._alphas(d)
    solution = moments.solution(alpha, ends=gamma == 1)
    x, columns, spread = solution.x, np.flatnonzero(moments.largest), None
    if log_columns.episode is not None and d <= LARGEST_HESSIAN:
        ridge = np.diag(alpha[columns])

        def scores_of(t):
            error = t.weights * (t.Z @ x - gamma * (t.next_Z @ x) - t.y)
            return scores_by_episode(t, dense(scale_rows(error, t.Z[:, columns])))

        bread = moments.means()[0][np.ix_(columns, columns)] + ridge
        spread = spread_of(log.sum(scores_of), bread, moments, estimator.half_life)
    if not alpha.any():
        differ = moments.largest if len(few.rows) == 1 else ends.values.sum(axis=0)
        warn_of_few_states(
            len(few.rows), np.count_nonzero(differ[: d - estimator.fit_intercept])
        )
    n = moments.n_rows
    exact = attributes_of(
        solution, {"inner": n, "jacobian": n, "outer": 1}, StopReason.CONVERGED
    )

    validate_data(estimator, log.empty, skip_check_array=True)
    estimator.__dict__.pop("n_states_", None)
    coef, intercept = (x[:-1], float(x[-1])) if estimator.fit_intercept else (x, 0.0)
    estimator.__dict__.update(
        exact, coef_=coef, intercept_=intercept, features_=log.features,
        objective_="projected",
        objective_reason_=reason, _spread=spread and (spread, columns),
        _given=(log_columns.successor_names(), n_ends > 0),
        _progress=None, _stream=None, _pending=None, _groups=None, _counts=None,
    )  # fmt: skip
    estimator._report_result()
    return estimator


def scores_by_episode(t, scores):
    """Sums over the episodes of a block of the rows' contributions to the equations,
    and of their weights."""
    if not len(t.y):
        return None
    rows = np.column_stack([scores, t.weights])
    most = max(4, 2**24 // rows.shape[1])  # 134 MB, before episodes are grouped
    return SumsByKey.by(keys_of(t.episode), rows, most)


def spread_of(scores, bread, moments, half_life=None):
    """The `Spread` of a fit from the sums of all episodes."""
    sums = scores.sums / moments.weight
    return Spread.of(bread, sums[:, :-1], moments.n_rows, half_life, sums[:, -1])


# Values of actions


@dataclass(frozen=True, eq=False)
class GreedyPolicy:
    """A policy of policy iteration, as the coefficients from which its actions follow
    in any state.

    Each action is the best one for its coefficients; ties are resolved in favour of the
    one before. The policy is uniform without coefficients. With ``mixed`` it is a
    mixture of the policies of that many coefficients before the last.
    """

    coefficients: tuple = ()
    constant: bool = False  # whether the first policy always takes the first action
    mixed: int = 0

    def choices(self, Z, unknown):
        """The actions in states with features Z, of all greedy policies one after
        another."""
        choices = [np.zeros(Z.shape[0], dtype=int)] if self.constant else []
        for w in self.coefficients:
            choices.append(
                best_actions(Z @ w.T, unknown, choices[-1] if choices else None)
            )
        return choices

    def chances(self, Z, unknown, m):
        """The probabilities of m actions in states with features Z."""
        choices = self.choices(Z, unknown)
        if self.mixed:
            return np.mean(
                [chosen(action, m) for action in choices[-1 - self.mixed : -1]], axis=0
            )
        return chosen(choices[-1], m) if choices else np.full((Z.shape[0], m), 1 / m)


class BlockActionSums(ActionSums):
    """`ActionSums` over a log in blocks. A policy is a `GreedyPolicy`, or a given
    one."""

    def __init__(self, log, estimator):
        def sums_of(t):
            """Sums over the transitions of a block: of each action, and as the
            attributes below."""
            if not len(t.y):
                return None
            weighted, by_action = scale_rows(t.weights, t.Z), SumsOfActions()
            for action in np.unique(t.action).tolist():
                rows = t.action == action
                left, Z = weighted[rows].T, t.Z[rows]
                sums = (
                    dense(left @ Z),
                    dense(left @ t.next_Z[rows]),
                    left @ t.y[rows],
                    Largest(largest_values(Z)),
                )
                by_action[action] = sums
            ends = Largest(
                np.array(
                    [t.y.max(), -t.y.min(), t.terminal.any(), (~t.terminal).any()],
                    dtype=float,
                )
            )
            return by_action, t.weights.sum(), len(t.y), int((~t.terminal).sum()), ends

        total = log.sum(sums_of)
        if total is None:
            raise ValueError(NONE)
        by_action, self.weight, self.n_rows, self.n_ongoing, ends = total
        self.log = log
        self.gamma = estimator.gamma
        self.actions = np.array(sorted(by_action))
        C, after, b, largest = zip(
            *(by_action[action] for action in self.actions.tolist()), strict=True
        )
        m, d = self.shape = len(C), len(b[0])
        self.ridge = np.tile(estimator._alphas(d), m)
        self.largest = np.array([values.values for values in largest])
        self.occurs = self.largest > 0
        self.C, self.b = block_diag(*C) / self.weight, np.concatenate(b) / self.weight
        high, low, ended, went_on = ends.values
        self.rewards = np.array([high, -low])
        self.terminal = np.array([ended > 0, went_on == 0])
        led = np.repeat(np.stack(after)[:, :, None], m, axis=2) / m
        # the last policy with sums, and these
        self._led = (self._uniform, led / self.weight)
        self._evaluated = None  # the moments of the last solution

    def _sum(self, function):
        """Add up ``function(transitions, successors with features, unknown actions,
        numbers of the actions)``."""
        actions, occurs = self.actions, self.occurs

        def of_block(t):
            if not len(t.y):
                return None
            ongoing = np.flatnonzero(~t.terminal)
            next_Z = t.next_Z[ongoing]
            return function(
                t,
                ongoing,
                next_Z,
                unknown_actions(next_Z, occurs),
                numbers_of(t.action, actions),
            )

        return self.log.sum(of_block)

    def evaluate(self, policy):
        """Keep the sums of psi_k psi'_k^T of a policy. Return its share of unknown
        actions in the successors."""
        m, actions = self.shape[0], self.actions

        def of_block(t, ongoing, next_Z, unknown, number):
            chances = chances_in(policy, t, ongoing, next_Z, unknown, actions)
            rare = 0.0 if unknown is None else float((chances * unknown).sum())
            rows = [np.flatnonzero(number[ongoing] == a) for a in range(m)]
            return led_to(
                scale_rows(t.weights[ongoing], t.Z[ongoing]), next_Z, rows, chances
            ), rare

        led, rare = self._sum(of_block)
        self._led = policy, led / self.weight
        return rare / max(1, self.n_ongoing)

    def moments(self, policy):
        """The moments of a policy."""
        if self._led[0] is not policy:
            self.evaluate(policy)
        n = len(self.b)
        A = self.C - self.gamma * self._led[1].reshape(n, n)
        self._evaluated = Moments(
            A, self.b, self.C, 1.0, self.n_rows, self.largest.ravel()
        )
        return self._evaluated

    @cached_property
    def _uniform(self):
        return GreedyPolicy()

    def uniform(self):
        """The policy that takes all actions with the same probability."""
        return self._uniform

    def constant(self, policy):
        """The policy that always takes the first action."""
        return GreedyPolicy(constant=True)

    def mixture(self, policies, policy):
        """The mixture of the policies of a cycle, which ``policy`` has closed."""
        return replace(policy, mixed=len(policies))

    def greedy(self, policy, w):
        """The policy that is greedy for the values w, a digest of its actions, and the
        fraction of changed actions.

        The same pass computes the sums of the new policy.
        """
        new = replace(policy, coefficients=(*policy.coefficients, w), mixed=0)
        m = self.shape[0]

        def of_block(t, ongoing, next_Z, unknown, number):
            action = new.choices(next_Z, unknown)[-1]
            chances = chosen(action, m)
            changed = int(
                (chances != policy.chances(next_Z, unknown, m)).any(axis=1).sum()
            )
            rows = [np.flatnonzero(number[ongoing] == a) for a in range(m)]
            led = led_to(
                scale_rows(t.weights[ongoing], t.Z[ongoing]), next_Z, rows, chances
            )
            return (
                led,
                [hashlib.sha256(action.astype(np.int64).tobytes()).digest()],
                changed,
            )

        led, digests_of_blocks, changed = self._sum(of_block)
        self._led = new, led / self.weight
        return new, tuple(digests_of_blocks), changed / max(1, self.n_ongoing)

    def spread(self, policy, w):
        """The `Spread` of the values of the policy that was solved last, and the
        columns that are determined."""
        columns = np.flatnonzero(self.occurs)
        actions = self.actions
        gamma = self.gamma
        m = self.shape[0]

        def scores_of(t, ongoing, next_Z, unknown, number):
            error = (t.Z @ w.T)[np.arange(len(t.y)), number] - t.y
            chances = chances_in(policy, t, ongoing, next_Z, unknown, actions)
            error[ongoing] -= gamma * (chances * (next_Z @ w.T)).sum(axis=1)
            psi = of_actions(t.Z, chosen(number, m))[:, columns]
            return scores_by_episode(t, dense(scale_rows(t.weights * error, psi)))

        moments = self._evaluated
        bread = (moments.A + np.diag(self.ridge))[np.ix_(columns, columns)]
        return spread_of(
            self._sum(scores_of), bread, replace(moments, weight=self.weight)
        ), columns


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


@dataclass(frozen=True, eq=False)
class FewRows:
    """Distinct rows of a matrix, up to a largest number of them."""

    rows: np.ndarray
    most: int

    @classmethod
    def of(cls, rows, most):
        """The first distinct rows."""
        return cls(rows[distinct_rows(rows)[0][:most]], most)

    def __add__(self, other):
        return FewRows.of(np.concatenate([self.rows, other.rows]), self.most)


def chances_in(policy, t, ongoing, next_Z, unknown, actions):
    """The probabilities of the actions in the successors of the transitions that go
    on."""
    if isinstance(policy, GreedyPolicy):
        return policy.chances(next_Z, unknown, len(actions))
    return policy_chances(
        policy, t.source, t.follows[t.at[ongoing]], t.at[ongoing], actions
    )


def fit_actions(estimator, X, y, action, log_columns):
    """Fit an `ActionValueEstimator` by least squares. Its attributes change at the
    end."""
    policy = vars(estimator)["policy"]
    if action is None:
        check_actions(None, 0)
    log = LogBlocks(estimator, X, y, log_columns, action)
    sums = BlockActionSums(log, estimator)
    m, changes = sums.shape[0], None
    if m == 1:
        warn(
            f"action is {sums.actions[0]} in all rows that count: there is no other "
            "action to choose."
        )
    if isinstance(policy, str):
        best = iterate_policies(sums, estimator.max_iter, lambda w, losses: False)
        policy = best.policy
        w = best.w
        solution = best.solution
        losses = best.losses
        changes = best.changes
        reason = warn_if_not_converged(changes)
        warn_of_no_information(sums.rewards, sums.terminal)
    else:
        warn_of_unknown(sums.evaluate(policy))
        w, solution = sums.solution(policy)
        losses, reason = [solution.start, solution.fun], StopReason.CONVERGED
    spread = None
    if log_columns.episode is not None and w.size <= LARGEST_HESSIAN:
        spread = sums.spread(policy, w)
    exact = attributes_of(solution, {}, reason) | charged(losses, sums.n_rows)

    validate_data(estimator, log.empty, skip_check_array=True)
    estimator.__dict__.pop("policy_changes_", None)
    estimator.__dict__.update(
        exact, **of_columns(w, estimator.fit_intercept), features_=log.features,
        actions_=sums.actions, _spread=spread,
        _given=(log_columns.successor_names(), bool(sums.terminal[0])), _progress=None,
        _stream=None,
        _known=sums.occurs[:, : w.shape[1] - estimator.fit_intercept],
    )  # fmt: skip
    if changes is not None:
        estimator.policy_changes_ = np.array(changes)
    estimator._report_result()
    return estimator
