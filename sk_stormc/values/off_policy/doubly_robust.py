"""The model of doubly robust estimates: action values under the target policy,
cross-fitted over folds of episodes."""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from sk_stormc.utils.parameters import naming
from sk_stormc.values.action_values import ActionValueEstimator
from sk_stormc.values.markov import refuse_rows
from sk_stormc.values.reading.actions import chances_of, check_actions, check_policy
from sk_stormc.values.reading.log_order import warn_of_rows
from sk_stormc.values.reading.log_warnings import warn_of_no_ends, warn_of_state_numbers
from sk_stormc.values.reading.states import checked_data
from sk_stormc.values.reading.transitions import (
    LogColumns,
    Successors,
    fitted_features,
    successors,
    successors_in,
    transform,
)
from sk_stormc.values.sums.action_blocks import (
    SuccessorOperator,
    equations,
    expected_pairs,
    expected_values,
    pairs,
    sums_by_action,
)

NEEDED = {
    "X": "the states",
    "action": "the action of each row",
    "target": "the target policy's probabilities of all actions in each row, "
    "(n_transitions, n_actions), or a function "
    "of states",
}


@dataclass(eq=False)
class QLog:
    """The transitions of whole episodes in order, with actions and the target
    policy."""

    model: ActionValueEstimator
    X: Any
    states: np.ndarray
    y: np.ndarray
    action: np.ndarray
    following: Successors
    now: np.ndarray  # the target's probabilities of the actions in the states
    after: np.ndarray  # the same in the successors


def read_q_log(model, rows, X, action, target, next_X, terminal):
    """Check the data of "dr" and "wdr", and sort them like the ``rows``, which are
    `Episodes`."""
    for name, value in {"X": X, "action": action, "target": target}.items():
        if value is None:
            raise ValueError(
                f"{name} must be given for the methods 'dr' and 'wdr', whose model is "
                "Q(s, a) under the target policy: "
                f"pass {NEEDED[name]}; got None. 'pdis' and 'wpdis' need no model"
            )
    model = ActionValueEstimator(alpha=1e-6) if model is None else model
    if not isinstance(model, ActionValueEstimator) or not model.solves_itself():
        raise ValueError(
            "estimator must be an ActionValueEstimator with solver='auto', because the "
            f"methods 'dr' and 'wdr' need Q(s, a), got {model!r}"
        )
    order = rows.order
    n, model = len(order), clone(model)
    model._check_parameters()
    check_policy(target, "target")
    by_row = not callable(target) and len(target) == n
    columns = {
        "X": X,
        "action": check_actions(action, n),
        "next_X": next_X,
        "terminal": terminal,
    }
    columns["target"] = np.asarray(target) if by_row else None
    X, action, next_X, terminal, by_rows = (
        _in_order(name, column, order) for name, column in columns.items()
    )
    states, y = checked_data(model, X, rows.y)
    actions, action = np.unique(action, return_inverse=True)
    warn_of_state_numbers(model.features, states)
    log_columns = LogColumns(next_X, terminal)
    following = successors(model, X, states, log_columns, rows)
    warn_of_rows(y, states, log_columns, rows, following)
    kept = following.known
    if by_row:
        _, kept = successors_in(rows, following.terminal)
    if not kept.all():  # the value after such a row is part of the estimate
        k = order[np.argmin(kept)]
        hint = (
            ". If episodes end, pass terminal" if log_columns.terminal is None else ""
        )
        raise ValueError(
            "target must be a function of states for the methods 'dr' and 'wdr' where "
            f"episodes are cut off, which also gets next_X: row {k} is not terminal, "
            f"and an array of rows has no probabilities for its successor{hint}"
            if by_row and next_X is not None
            else "next_X must be given for the methods 'dr' and 'wdr' where episodes "
            f"are cut off or have gaps: row {k} is "
            f"not terminal and has no successor{hint}"
        )
    warn_of_no_ends(log_columns, True)
    ongoing, after = following.ongoing(), np.zeros((n, len(actions)))
    now = chances_of(by_rows if by_row else target, X, states, actions, "target")
    after[ongoing] = (
        now[ongoing + 1] if by_row else following.chances(target, actions, "target")
    )
    check_agreement(rows.ratios, now[np.arange(n), action], order)
    return QLog(model, X, states, y, action, following, now, after)


def check_agreement(ratios, chances, order):
    """Raise a ValueError if ratios are not the target's probabilities divided by some
    probability."""
    # ratios may have been rounded to three digits
    refuse_rows(
        (ratios < (1 - 1e-3) * chances) & (chances > 0),
        lambda k: (
            f"importance_ratio must be at least {chances[k]:.6g}, the probability of "
            "the action under target, as it is divided by a probability, got "
            f"{ratios[k]:.6g} in row {order[k]}"
        ),
    )
    refuse_rows(
        (chances == 0) & (ratios > 0),
        lambda k: (
            "importance_ratio must be 0, as target does not take this action, got "
            f"{ratios[k]:.6g} in row {order[k]}"
        ),
    )


def _in_order(name, column, order):
    """The rows of a column in a given order."""
    if column is None:
        return None
    with naming(name):
        n = _num_samples(column)
        if n != len(order):
            raise ValueError(f"{name} must have {len(order)} rows, as y has, got {n}")
        return _safe_indexing(column, order)


def folds_of(labels, cv):
    """The fold of each episode, from hashes of the labels, independent of the order of
    the episodes."""
    names = [str(label) for label in labels.tolist()]
    order = sorted(
        range(len(names)), key=lambda k: (zlib.crc32(names[k].encode()), names[k])
    )
    fold = np.empty(len(names), dtype=int)
    fold[order] = np.arange(len(names)) % cv
    return fold


def cross_fitted(log, gamma, numbers, fold, share):
    """V(s) and r + gamma V(s') - Q(s, a) of all rows, with the model of the other
    folds; influences of the episodes.

    ``share`` is the weight of V(s') in the estimate, for the last row of an episode
    that was cut off, and 0 for other rows. The other values of the model cancel in the
    expectation of a doubly robust estimate. The influence of an episode is its
    first-order effect on the estimate through those values of the other folds, from the
    sandwich of the equations of their models.
    """
    model, (n, m) = log.model, log.now.shape
    values, errors, influence = np.zeros(n), np.zeros(n), np.zeros(len(fold))
    for k in np.unique(fold):
        test = fold[numbers] == k
        train = np.flatnonzero(~test)
        features = fitted_features(model, _safe_indexing(log.X, train), log.y[train])
        Z = transform(features, log.X, log.states, model.fit_intercept)
        next_Z = log.following.features(features, Z, model.fit_intercept)
        fitted = equations_of(log, train, Z, next_Z, gamma)
        w, psi = fitted.solution().x, pairs(Z, log.action, m)
        error = log.y - psi @ w.ravel()
        error += gamma * expected_values(next_Z, w, log.after)
        values[test], errors[test] = expected_values(Z, w, log.now)[test], error[test]
        cut = np.flatnonzero(test & (share != 0))
        if len(cut):
            # the derivative of the estimate with respect to w, times that of w with
            # respect to an episode's weight
            after = expected_pairs(next_Z[cut], log.after[cut])
            h = fitted.transposed((after.T @ share[cut]).reshape(w.shape))
            effect = psi[train] @ h.ravel() / len(train) * error[train]
            influence += np.bincount(numbers[train], effect, minlength=len(fold))
    return values, errors, influence


def equations_of(log, rows, Z, next_Z, gamma):
    """The equations of the model of some rows."""
    model, m = log.model, log.now.shape[1]
    number, n = log.action[rows], len(rows)
    parts = Z[rows], next_Z[rows], log.y[rows], np.full(n, 1 / n), number
    C, _, b, largest = sums_by_action(*parts, m)
    on = np.flatnonzero(~log.following.terminal[rows])
    led = None
    if len(on) and gamma:
        left, after, _, weights, _ = (part[on] for part in parts)
        led = SuccessorOperator(left, after, weights, number[on], log.after[rows[on]])
    counts = np.bincount(number, minlength=m)
    return equations(C, b, largest, model._alphas(Z.shape[1]), gamma, led, counts)
