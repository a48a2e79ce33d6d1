"""Validation of action labels, and the action probabilities of a policy in the
successor states."""

import numpy as np
from sklearn.utils import _safe_indexing

from sk_stormc.utils.parameters import is_word, short
from sk_stormc.utils.warnings import warn
from sk_stormc.values.markov import SUM_TOLERANCE, refuse_rows
from sk_stormc.values.reading.episodes import WARNED_SHARE

NUMBERS = int, float, np.number, np.bool_


def check_actions(action, n, name="action"):
    """The n checked action labels."""
    if action is None:
        raise ValueError(f"{name} must be given, the action of each row, got None")
    labels = np.asarray(action)
    if labels.shape != (n,):
        raise ValueError(
            f"{name} must be one label for each of the {n} rows, got shape "
            f"{labels.shape}. If each action is a vector, "
            "number the finitely many actions and give these numbers."
        )
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels):
        labels = labels.astype(str)
    if labels.dtype.kind == "O":
        try:
            labels = np.array(labels.tolist(), dtype=float)
        except (TypeError, ValueError):
            odd = next(
                (k for k, v in enumerate(labels) if not isinstance(v, (str, *NUMBERS))),
                None,
            )
            where = (
                short(action) if odd is None else f"{short(labels[odd])} in row {odd}"
            )
            raise ValueError(
                f"{name} must be all integers or all strings, got {where}"
            ) from None
    if labels.dtype.kind not in "iubfU":
        raise ValueError(
            f"{name} must be integers or strings, got {labels.dtype} values such as "
            f"{labels[0]!r}"
        )
    if labels.dtype.kind == "f":
        refuse_rows(
            ~np.isfinite(labels),
            lambda k: f"{name} must be finite, got {labels[k]} in row {k}",
        )
        refuse_rows(
            labels != np.rint(labels),
            lambda k: (
                f"{name} must be labels of a finite choice, got {labels[k]} in row "
                f"{k}: give the numbers of the bins of a continuous action"
            ),
        )
        labels = labels.astype(np.int64)
    return labels


def distinct_actions(actions):
    """The sorted labels of all actions, from a list of them."""
    try:
        n = len(actions)
        one_each = n > 0 and np.ndim(actions) == 1
    except (TypeError, ValueError):
        one_each = False
    if not one_each:
        raise ValueError(
            f"actions must be a list of the labels of all actions, got {short(actions)}"
        )
    return np.unique(check_actions(actions, n, "actions"))


def numbers_of(labels, actions, where="action", among="those that fit had", hint=""):
    """The index of each label among the sorted actions."""
    at = np.minimum(np.searchsorted(actions, labels), len(actions) - 1)
    refuse_rows(
        actions[at] != labels,
        lambda k: (
            f"{where} must be among {among}, {short(actions.tolist())}, got "
            f"{labels[k].item()!r} in row {k}{hint}"
        ),
    )
    return at


def check_policy(policy, name="policy"):
    """Raise a ValueError unless the policy is a callable, an array that
    `policy_chances` accepts, or "greedy"."""
    first = "'greedy', " if name == "policy" else ""
    if (callable(policy) and not isinstance(policy, type)) or (
        first and is_word(policy, "greedy")
    ):
        return
    array = np.asarray(policy)
    valid = array.ndim in (1, 2) and array.dtype.kind in "iubfU" and array.size
    if not valid:
        raise ValueError(
            f"{name} must be {first}a function of states, or an array of actions "
            "(n_states,) or of "
            f"their probabilities (n_states, n_actions), got {short(policy)}"
        )


def policy_chances(policy, source, follows, rows, actions, name="policy"):
    """The probability of each action in some states under a policy, of shape (n_states,
    n_actions).

    The states are ``follows``, as numbers. They are some rows of ``source``, which are
    passed to a callable policy. ``actions`` are sorted.
    """
    if callable(policy):
        choice = np.asarray(policy(_safe_indexing(source, rows)))
        if choice.ndim == 0 or len(choice) != len(rows):
            raise ValueError(
                f"{name} must give an action, or a row of probabilities, for each of "
                f"{len(rows)} states, got shape {choice.shape}"
            )
    else:
        choice = np.asarray(policy)
        choice = choice[_numbers_of_states(follows, len(choice), name)]
    return as_chances(choice, len(rows), actions, name)


def chances_of(target, X, states, actions, name):
    """The probabilities under a policy in the states of all rows, from an array with a
    row for each, or as above."""
    n = len(states)
    if not callable(target) and len(target) == n:
        return as_chances(np.asarray(target), n, actions, name)
    return policy_chances(target, X, states, np.arange(n), actions, name)


def as_chances(choice, n, actions, name="policy"):
    """The checked probabilities for n states, from probabilities or from one action for
    each state."""
    if choice.ndim == 1:
        labels = check_actions(choice, n) if n else choice
        return chosen(numbers_of(labels, actions, f"actions of {name}"), len(actions))
    if choice.shape != (n, len(actions)) or choice.dtype.kind not in "iubf":
        raise ValueError(
            f"{name} must give probabilities of the actions {short(actions)}, got "
            f"{choice.dtype} of shape {choice.shape}"
        )
    return check_probabilities(name, choice)


def check_probabilities(name, probabilities, where="row"):
    """Rows of probabilities, normalised to sum 1. Raises a ValueError that names the
    first invalid row."""
    with np.errstate(invalid="ignore"):
        total = probabilities.sum(axis=1)
    valid = ((probabilities >= 0) & np.isfinite(probabilities)).all(axis=1)
    refuse_rows(
        ~(valid & (abs(total - 1) <= SUM_TOLERANCE)),
        lambda k: (
            f"{name} must have probabilities >= 0 that sum to 1, got "
            f"{short(probabilities[k])} with the sum {total[k]:.6g} in {where} {k}"
        ),
    )
    return probabilities / total[:, None]


def chosen(numbers, n_actions):
    """One-hot probabilities of shape (n, n_actions): 1 for the action with the given
    index."""
    return (numbers[:, None] == np.arange(n_actions)).astype(float)


def _numbers_of_states(states, n, name):
    """The numbers of states, from one column of integers or from n indicators
    (one-hot). An array of one row is for all states."""
    if n == 1:
        return np.zeros(len(states), dtype=int)
    if states.shape[1] == 1:
        numbers = states[:, 0]
    elif states.shape[1] == n and (np.count_nonzero(states, axis=1) == 1).all():
        numbers = states.argmax(axis=1)
    else:
        raise ValueError(
            f"{name} is an array for {n} states, and needs X of one column with their "
            f"numbers, or of {n} indicators; got {states.shape[1]} columns that are "
            "neither. Use a function of states instead."
        )
    refuse_rows(
        ~np.isin(numbers, np.arange(n)),
        lambda k: (
            f"{name} must have a row for each state, got {n} rows and state "
            f"{numbers[k]:g}"
        ),
    )
    return numbers.astype(int)


def warn_of_unknown(share):
    """Warn if a policy takes actions that are not in the log in a notable fraction of
    the successors."""
    if share > WARNED_SHARE:
        warn(
            f"in {share:.0%} of the successors the policy takes an action that the log "
            "never has there: the states have features that no row with this action "
            "has. The coefficients of such features are set to 0."
        )
