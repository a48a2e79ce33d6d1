"""Values of actions from a stream of transitions: the sums of LSTDQ, for a given policy."""

import numpy as np
from sklearn.base import clone

from sk_stormc.solvers import StopReason
from sk_stormc.utils.validation import is_word, row_weights, short
from sk_stormc.values.action_data import check_actions, chosen, numbers_of, policy_chances
from sk_stormc.values.action_sums import charged, of_actions
from sk_stormc.values.lstd import ILL_CONDITIONED, Collected, attributes_of, check_stream_size
from sk_stormc.values.transitions import checked_data, successors, transform, transform_next

__all__ = ["go_on_with_actions", "streams_actions"]

HELD = ("gamma", "fit_intercept", "policy")


def streams_actions(estimator):
    """Whether an `ActionValueEstimator` supports `partial_fit`. An AttributeError says why not (see `only_if`)."""
    if is_word(vars(estimator)["policy"], "greedy"):
        raise AttributeError(
            "policy='greedy' evaluates several policies on all transitions, so it needs them at once: partial_fit is "
            "for a given policy"
        )
    if not is_word(estimator.solver, "auto", "lstd"):
        raise AttributeError(f"{estimator.solver!r} needs all transitions at once; for partial_fit set solver='auto'")
    return True


def go_on_with_actions(estimator, X, y, action, given, actions):
    """`ActionValueEstimator.partial_fit`, on a copy that is discarded if anything is raised."""
    held = check_stays(estimator)
    told = given.told(vars(estimator).get("_given"))
    fitted = hasattr(estimator, "coef_")
    states, y = checked_data(estimator, X, y, reset=not fitted)
    done = check_actions(action, len(y))
    labels = labels_of(estimator, done, actions)
    done = numbers_of(done, labels, among="the actions of this stream", hint=": give all of them in the first call")
    features = estimator.features_ if fitted else estimator.features and clone(estimator.features).fit(X, y)
    Z = transform(features, X, states, None, estimator.fit_intercept)
    source, follows, at, kept, terminal = successors(estimator, X, states, given.next_X, given.terminal, None)
    weights = np.where(kept, row_weights(given.sample_weight, len(y), all_zero=True), 0.0)
    next_Z = transform_next(features, source, follows, at, terminal | ~kept, Z, estimator.fit_intercept)
    going, m, d = np.flatnonzero(kept & ~terminal), len(labels), Z.shape[1]
    check_stream_size(m * d)
    chances = np.zeros((len(y), m))
    chances[going] = policy_chances(vars(estimator)["policy"], source, follows[at[going]], at[going], labels)
    sums = vars(estimator).get("_stream")
    told_before = sums is not None and estimator.condition_number_ >= ILL_CONDITIONED
    sums = sums or Collected.none(m * d, estimator.gamma)
    sums = sums.plus(of_actions(Z, chosen(done, m)), of_actions(next_Z, chances), y.astype(float), weights)
    found = sums.solution(np.tile(estimator._alphas(d), m))
    n, known = sums.moments.n_rows, sums.moments.largest.reshape(m, d) > 0
    vars(estimator).update(
        attributes_of(found, {}, StopReason.EXHAUSTED, told_before) | charged([found.start, found.fun], n),
        _stream=sums, _held=held, _given=told, _known=known[:, : d - estimator.fit_intercept],
        features_=features, actions_=labels, **of_columns(found.x.reshape(m, d), estimator.fit_intercept),
    )  # fmt: skip
    vars(estimator).pop("policy_changes_", None)  # from an earlier fit


def of_columns(w, fit_intercept):
    """Split w into coefficients and intercepts. With an intercept, it is the last column."""
    return {"coef_": w[:, :-1], "intercept_": w[:, -1]} if fit_intercept else {"coef_": w, "intercept_": 0.0 * w[:, 0]}


def check_stays(estimator):
    """Raise a ValueError if a parameter that must stay constant has changed. Return these parameters."""
    held = {name: vars(estimator)[name] for name in HELD}
    if vars(estimator).get("_stream") is None:
        return held
    for name, before in estimator._held.items():
        now = held[name]
        if before is now or (not callable(now) and not callable(before) and np.array_equal(before, now)):
            continue
        raise ValueError(
            f"{name} must stay as it was while its stream goes on, got {short(now)}: begin again with fit or a clone"
        )
    return held


def labels_of(estimator, done, actions):
    """The sorted labels of all actions: those of the first call, or of an earlier fit."""
    given = None if actions is None else np.unique(check_actions(actions, len(actions)))
    if hasattr(estimator, "actions_"):
        if given is not None and not np.array_equal(given, estimator.actions_):
            raise ValueError(
                f"actions must stay {estimator.actions_.tolist()} while the stream goes on, got {given.tolist()}"
            )
        return estimator.actions_
    return np.unique(done) if given is None else given
