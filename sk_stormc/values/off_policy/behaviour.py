"""Importance ratios for an unknown behaviour policy, whose probabilities are estimated
by a classifier of actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.blocks import computed
from sk_stormc.utils.frames import check_row_labels
from sk_stormc.utils.parameters import check_int, naming, short
from sk_stormc.utils.types import ArrayLike, Features, FloatArray
from sk_stormc.utils.warnings import warn
from sk_stormc.values.markov import SUM_TOLERANCE, refuse_rows
from sk_stormc.values.reading.actions import chances_of, check_actions, check_policy
from sk_stormc.values.reading.episodes import check_episode
from sk_stormc.values.reading.log_warnings import warn_of_ratios
from sk_stormc.values.reading.states import HASHED, distinct_rows, rows_of

SIGNIFICANCE = 1e-3  # probability of a warning if the classifier has no misfit


def estimated_ratios(
    X: Features,
    action: ArrayLike,
    target: ArrayLike,
    classifier: Any,
    *,
    episode: ArrayLike | None = None,
    cv: int = 5,
) -> FloatArray:
    """Estimate the importance ratios of a target policy if the behaviour policy is
    unknown.

    A classifier estimates the probability of each action in a state under the behaviour
    policy. The probabilities of a row are computed by a classifier that was fitted on
    other folds. A classifier that was fitted on the row would overestimate the
    probability of the action that was taken, and the ratios would be too small.

    Parameters
    ----------
    X : array-like of shape (n_transitions, n_features)
        The states in which the actions were taken.
    action : array-like of shape (n_transitions,)
        The actions: integers or strings.
    target : array-like or callable
        The target policy, as for `off_policy_value`: an array of shape (n_transitions,
        n_actions) contains the probabilities of all actions in the state of each row,
        in the sorted order of the labels; one of shape (n_transitions,) with labels
        contains an action for each. A callable receives X, and returns such an array.
        If X contains numbers or indicators of states, an array of shape (n_states,
        n_actions) or (n_states,) works too. In addition, floats of shape
        (n_transitions,) are the probabilities of the actions of the rows. Actions that
        no row has cannot be included.
    classifier : classifier
        A scikit-learn classifier with `predict_proba`, which is cloned. Its
        probabilities should be calibrated, and hardly regularised; see the Notes.
    episode : array-like of shape (n_transitions,), default=None
        A label of each row's episode. All rows of an episode are in the same fold. Pass
        it if the rows of an episode are similar, or if the ratios are for
        `off_policy_value`, whose standard errors assume independent episodes.
    cv : int, default=5
        Number of folds, at most the number of episodes or of the rows of the rarest
        action.

    Returns
    -------
    ndarray of shape (n_transitions,)
        For ``importance_ratio`` of `BellmanValueEstimator.fit` and of
        `off_policy_value`.

    Raises
    ------
    ValueError
        If shapes disagree, the classifier has no `predict_proba`, there are fewer than
        two actions, episodes or rows of an action, a probability of the target is not
        in [0, 1] or a row of them does not sum to 1, or the probability that the
        classifier estimates for an action that was taken is 0 (the message names the
        row).

    Warns
    -----
    UserWarning
        If the actions depend on a column of X, or on a state that occurs at least 20
        times, by more than the classifier's probabilities do: its features have a small
        unit, it is regularised too much, or it cannot represent the policy. If the mean
        of the ratios is far from 1, for example because the state determines the
        action, so that the log lacks the other actions of the target policy.

    See Also
    --------
    off_policy_value : The value of the target policy, from these ratios.
    sk_stormc.datasets.collect_transitions : Logs the ratios if the behaviour policy is
        known.

    Notes
    -----
    Estimated ratios often give a smaller error than the true ones, because they correct
    for the actions that were taken more often than they are probable, by chance. Their
    own error is not part of the standard errors of `off_policy_value`. States that
    influence both the actions and the rewards must be columns of X.

    Regularisation of the classifier draws the probabilities of all states to the
    frequencies of the actions. The ratios are then too close to those of a behaviour
    policy that ignores the state, so that values are biased, by more than their
    standard errors show. The bias does not decrease with the number of episodes unless
    the regularisation does. A logistic regression with C=1 or more on standardised
    columns is hardly regularised for hundreds of rows, and one with C=0.01 is far too
    much. Too little regularisation increases the variance only. A warning is raised if
    the actions show that a classifier misses what they depend on.

    Examples
    --------
    The behaviour policy takes action 1 more often for larger values of the first
    column. The target policy takes both actions with equal probability.

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sk_stormc import estimated_ratios
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> chance = 1 / (1 + np.exp(-X[:, 0]))
    >>> action = (rng.random(2000) < chance).astype(int)
    >>> ratios = estimated_ratios(X, action, np.full(2000, 0.5), LogisticRegression())
    >>> true = 0.5 / np.where(action == 1, chance, 1 - chance)
    >>> bool(abs(ratios / true - 1).mean() < 0.05)
    True
    """
    check_int("cv", cv, low=2)
    check_classifier(classifier)
    X, action, target, episode = computed(X, action, target, episode)
    check_row_labels(
        {"X": X, "action": action, "target": target, "episode": episode},
        of_other_rows=("target",),
    )
    taken, labels, number = _numbered(X, action)
    chances = _target_chances(target, X, number, labels)
    ratios = chances / behaviour_chances(X, taken, classifier, episode, cv)
    warn_of_ratios(ratios, "the estimated ratio")
    return ratios


def check_classifier(classifier):
    """Raise a ValueError unless the classifier has `predict_proba`."""
    if (
        isinstance(classifier, type)
        or not hasattr(classifier, "fit")
        or not hasattr(classifier, "predict_proba")
    ):
        raise ValueError(
            "classifier must be a classifier with predict_proba, got "
            f"{short(classifier)}"
        )


def _numbered(X, action):
    """The checked labels of the actions, the sorted labels that there are, and their
    number in each row."""
    with naming("X"):
        n = _num_samples(X)
    with naming("action"):
        if n != _num_samples(action):
            raise ValueError(
                f"X and action must have as many rows, got {n} and "
                f"{_num_samples(action)}"
            )
    taken = check_actions(action, n)
    labels, number, counts = np.unique(taken, return_inverse=True, return_counts=True)
    if len(labels) < 2 or counts.min() < 2:
        k = np.argmin(counts)
        raise ValueError(
            "action must have at least two actions, and two rows of each, got "
            f"{counts[k]} of {labels[k].item()!r} and {len(labels)} in all"
        )
    return taken, labels, number


def behaviour_chances(X, action, classifier, episode=None, cv=5):
    """The probability of each row's action under the behaviour policy, from the
    classifier of the other folds. Warns if actions depend on more than it shows."""
    taken, labels, number = _numbered(X, action)
    n, counts = len(taken), np.bincount(number)
    if episode is None:
        folds = StratifiedKFold(min(cv, counts.min())).split(number, number)
    else:
        groups = check_episode(episode, n)
        n_groups = len(np.unique(groups))
        if n_groups < 2:
            raise ValueError(
                f"episode must have at least 2 different labels, got {n_groups}"
            )
        folds = GroupKFold(min(cv, n_groups)).split(number, groups=groups)
    predicted = np.zeros((n, len(labels)))
    for train, test in folds:
        missing = np.setdiff1d(labels, taken[train])
        if len(missing):
            raise ValueError(
                "action must have actions in episodes of several folds, got "
                f"{missing[0].item()!r} in those of one "
                "fold only: change cv or join rare actions"
            )
        fitted = clone(classifier).fit(_safe_indexing(X, train), taken[train])
        predicted[test] = fitted.predict_proba(_safe_indexing(X, test))
    behaviour = predicted[np.arange(n), number]
    refuse_rows(
        ~(np.isfinite(behaviour) & (behaviour > 0)),
        lambda k: (
            "classifier must give actions that were taken a positive probability, got "
            f"{behaviour[k]:g} for {taken[k].item()!r} in row {k}: use a smoother one, "
            "such as LogisticRegression, trees with a larger min_samples_leaf, or "
            "CalibratedClassifierCV"
        ),
    )
    warn_of_misfit(rows_of(X), number, predicted, labels)
    return behaviour


def warn_of_misfit(states, number, predicted, labels):
    """Warn if actions depend on columns, or on states that occur often, by more than
    the predicted probabilities."""
    n, m = predicted.shape
    missed = (number[:, None] == np.arange(m)) - predicted
    variance = predicted * (1 - predicted)

    def squares(tested):
        spread = np.maximum((tested * tested).T @ variance, 1e-9)
        return np.square(tested.T @ missed) / spread

    columns = np.flatnonzero(
        (states.max(axis=0) < HASHED) & (np.ptp(states, axis=0) > 0)
    )
    of_columns = squares(stats.zscore(states[:, columns]))
    first, state = distinct_rows(states)
    often = np.flatnonzero(np.bincount(state) >= 20)  # else no normal law
    indicators = sparse.csr_array(
        (np.ones(n), (np.arange(n), state)), shape=(n, len(first))
    )[:, often]
    of_states = squares(indicators)
    where = None
    if (
        of_columns.size
        and stats.chi2.sf(of_columns.max(), 1) * of_columns.size < SIGNIFICANCE
    ):
        j, k = np.unravel_index(of_columns.argmax(), of_columns.shape)
        where = f"column {columns[j]} of X"
    elif (
        of_states.size
        and stats.chi2.sf(of_states.sum(axis=0), len(often)).min() * m < SIGNIFICANCE
    ):
        j, k = np.unravel_index(of_states.argmax(), of_states.shape)
        where = f"the state of row {first[often[j]]}"
    if where:
        warn(
            "the classifier's probabilities do not fit the log: action "
            f"{labels[k].item()!r} depends on {where} by more than they do, so that "
            "values are biased. Scale the columns of X, regularise less, or use a "
            "classifier that can represent the policy."
        )


def _target_chances(target, X, number, labels):
    """The checked probabilities of the actions with these numbers, under the target
    policy."""
    n, array = len(number), None if callable(target) else np.asarray(target)
    if array is not None and array.shape == (n,):
        if array.dtype.kind == "f" or (
            array.dtype.kind == "O" and all(isinstance(p, float) for p in array)
        ):
            chances = as_numbers("target", target)
            refuse_rows(
                ~((chances >= 0) & (chances <= 1 + SUM_TOLERANCE)),
                lambda k: (
                    f"target must be probabilities from 0 to 1, got {chances[k]} in "
                    f"row {k}"
                ),
            )
            return chances
        if array.dtype.kind == "b" and labels.dtype.kind != "b":
            raise ValueError(
                f"target must be among the actions {short(labels.tolist())}, or "
                "floats, got booleans"
            )
    check_policy(target, "target")
    return chances_of(target, X, rows_of(X), labels, "target")[np.arange(n), number]
