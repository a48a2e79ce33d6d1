"""Off-policy evaluation: the value of a policy from episodes of another policy, by
importance sampling."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy import stats

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.blocks import blocks_of, is_dask
from sk_stormc.utils.frames import check_row_labels
from sk_stormc.utils.parameters import check_choice, check_int, check_number, short
from sk_stormc.utils.threads import in_one_thread
from sk_stormc.utils.types import ArrayLike, Features, FloatArray
from sk_stormc.utils.warnings import warn
from sk_stormc.values.action_values import ActionValueEstimator
from sk_stormc.values.markov import check_discount
from sk_stormc.values.off_policy.doubly_robust import cross_fitted, folds_of, read_q_log
from sk_stormc.values.off_policy.importance_weights import (
    Episodes,
    estimate,
    read_ratios,
)
from sk_stormc.values.reading.log_order import warn_of_running_sums
from sk_stormc.values.reading.log_warnings import effective_size, warn_of_ratios
from sk_stormc.values.sums.uncertainty import FEW_EPISODES

METHODS = ("is", "wis", "pdis", "wpdis", "dr", "wdr")
REMEDY = (
    "More episodes help, a target policy that is closer to the behaviour policy, "
    "method='wdr' with features that "
    "represent Q(s, a), or ratios that are clipped, at 10 say, which adds a bias."
)


@dataclass(frozen=True, eq=False)
class PolicyValue:
    """The estimated value of a policy with its standard error.

    Two estimates from the same episodes can be subtracted. The standard error of the
    difference is often far smaller than those of the estimates, because their errors
    are correlated.

    Attributes
    ----------
    value : float
        Mean discounted return of an episode.
    std_error : float
        The standard error of the value over episodes.
    contributions : ndarray of shape (n_episodes,)
        The contribution of each episode: ``value`` plus the episode's influence. Their
        mean is ``value``, to first order. Episodes are in the order of their first
        rows.
    effective_size : float
        The effective sample size (sum w)^2 / sum w^2, where w is the product of all
        ratios of an episode. It is too small for the methods that do not use all
        ratios.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.values.off_policy.value import PolicyValue
    >>> one = PolicyValue(2.0, 0.5, np.array([1.5, 2.5]), 2.0)
    >>> other = PolicyValue(1.0, 0.5, np.array([0.5, 1.5]), 2.0)
    >>> (one - other).std_error
    0.0
    """

    value: float
    std_error: float
    contributions: FloatArray = field(repr=False)
    effective_size: float

    def interval(self, confidence: float = 0.9) -> FloatArray:
        """Return the confidence interval of the value, whose half-width is the standard
        error times a Student's t quantile.

        Parameters
        ----------
        confidence : float, default=0.9
            Confidence level in (0, 1]. With 1, the interval is infinite.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper end.

        Raises
        ------
        ValueError
            If the confidence is out of its range.

        Warns
        -----
        UserWarning
            If the effective number of episodes is below 2.
        """
        check_number("confidence", confidence, low=0, high=1, inclusive=False)
        if self.effective_size < 2:
            warn(
                "the interval is from one episode in effect: their effective number "
                f"is {self.effective_size:.3g}, and "
                f"the interval may be far too narrow. {REMEDY}"
            )
        reach = (
            stats.t.ppf(0.5 + confidence / 2, len(self.contributions) - 1)
            * self.std_error
        )
        return np.array([self.value - reach, self.value + reach])

    def __sub__(self, other: PolicyValue) -> PolicyValue:
        if not isinstance(other, PolicyValue):
            return NotImplemented
        if len(self.contributions) != len(other.contributions):
            raise ValueError(
                "values can be subtracted if they are from the same episodes, got "
                f"{len(self.contributions)} episodes and {len(other.contributions)}"
            )
        size = min(self.effective_size, other.effective_size)
        value = self.value - other.value
        contributions = self.contributions - other.contributions
        # values of equal policies differ by rounding errors, which may have one sign
        size_of_terms = max(abs(self.value), np.abs(self.contributions).max())
        rounding = 64 * np.finfo(float).eps * size_of_terms
        if max(abs(value), np.abs(contributions).max()) <= rounding:
            value, contributions = 0.0, np.zeros_like(contributions)
        return _from(value, contributions, size)


def off_policy_value(
    y: ArrayLike,
    importance_ratio: ArrayLike,
    episode: ArrayLike,
    *,
    gamma: float = 0.95,
    method: Literal["is", "wis", "pdis", "wpdis", "dr", "wdr"] = "wpdis",
    time: ArrayLike | None = None,
    terminal: ArrayLike | None = None,
    X: Features | None = None,
    next_X: Features | None = None,
    action: ArrayLike | None = None,
    target: Any = None,
    estimator: ActionValueEstimator | None = None,
    cv: int = 5,
) -> PolicyValue:
    """Estimate the mean discounted return of a target policy from episodes of a
    behaviour policy.

    Parameters
    ----------
    y : array-like of shape (n_transitions,)
        Rewards. For a dask array, the other columns may be dask arrays too, and each
        episode lies in one partition. "dr" and "wdr" need arrays in memory.
    importance_ratio : array-like of shape (n_transitions,)
        For each row the probability of the action under the target policy, divided by
        that under the behaviour policy (``pscore`` of obp and scope-rl). Ratios of 1
        evaluate the behaviour policy.
    episode : array-like of shape (n_transitions,)
        A label of each row's episode. Rows of an episode must be in order, unless
        ``time`` orders them. Rows in a wrong order, as in exports that begin with the
        newest, give a wrong value: pass ``time``, or ``terminal``, against which the
        order is checked.
    gamma : float, default=0.95
        Discount factor in [0, 1].
    method : {"is", "wis", "pdis", "wpdis", "dr", "wdr"}, default="wpdis"
        "is" (importance sampling) multiplies the return of an episode by the product of
        its ratios. "pdis" (per decision) multiplies each reward by the product of the
        ratios up to it. "wis" and "wpdis" (weighted) divide by the sum of the weights
        in place of the number of episodes, which gives a small bias and far less
        variance. "dr" is doubly robust: the value of the first state from a model of
        Q(s, a), plus the temporal-difference errors of the model weighted per decision.
        Its mean is correct if either the model or the ratios are. "wdr" is "dr" divided
        by the sums of the weights.
    time : array-like of shape (n_transitions,), default=None
        Time within the episodes: whole numbers or dates. None means that the rows of an
        episode are in order.
    terminal : array-like of shape (n_transitions,), default=None
        Whether a transition ends its episode for good. No method accepts rows of an
        episode after such a row, which shows that rows are not in order. "dr" and "wdr"
        add the value of the last state if an episode does not end.
    X, next_X : array-like, default=None
        As for `ActionValueEstimator.fit`, for "dr" and "wdr". Without next_X the next
        row of the episode is the successor, and all episodes must end.
    action : array-like of shape (n_transitions,), default=None
        The actions: integers or strings. "dr" and "wdr" require them.
    target : array-like or callable, default=None
        The target policy, which "dr" and "wdr" require: V(s) = sum_a target(a | s) Q(s,
        a). An array of shape (n_transitions, n_actions) contains the probabilities of
        all actions in the state of each row, in the sorted order of the labels; one of
        shape (n_transitions,) contains an action for each. A callable receives rows of
        X or next_X, and returns such an array for them. It is required if episodes were
        cut off, because an array of rows has no probabilities for their last
        successors. If X contains numbers or indicators of states, an array of shape
        (n_states, n_actions) or (n_states,) works too. The ratios must be possible for
        these probabilities.
    estimator : ActionValueEstimator, default=None
        The features, the intercept and the ridge of the model of "dr" and "wdr". None
        means the columns of X and a ridge of 1e-6. Its own gamma and policy are not
        used. The model is the exact solution of LSTDQ.
    cv : int, default=5
        Number of folds of "dr" and "wdr", at most the number of episodes. The model for
        an episode is fitted on the other folds, so that it is independent of the
        episode (cross-fitting). The folds depend on the labels of the episodes, not on
        their order.

    Returns
    -------
    PolicyValue

    Raises
    ------
    ValueError
        If a parameter is out of its range, lengths disagree, ratios are negative, their
        products within an episode are not finite (except for the weighted methods),
        there are fewer than 2 episodes, all ratios are 0, a row follows the end of its
        episode, or, for "dr" and "wdr", if X,
        action or target is missing, or the successor of a row that is not terminal, or
        if a ratio is positive for an action that the target does not take, or below the
        target's probability of the action.

    Warns
    -----
    UserWarning
        If the number of episodes, or their effective number, is below 20, because
        standard errors are then often too small. Except for "dr" and "wdr" this
        includes the effective number that ratios of this size give on average, which is
        smaller than that of the log if the largest products of ratios are missing in
        it. If fewer than 20 episodes have another return than all others, as where
        rewards are rare. If ratios, or their products within episodes, are far from 1
        on average, for example because the two policies were swapped. If time has gaps
        within episodes.
        If the rewards look like running sums.
        For "dr" and "wdr", if ``terminal`` is not given, because all episodes then
        count as cut off, and if X contains numbers of states.

    See Also
    --------
    sk_stormc.BellmanValueEstimator.value_interval : The direct method: a model's values
        of the first states.

    Notes
    -----
    An episode that was cut off contributes its rewards so far. "dr" and "wdr" add the
    model's value of its last state. Their standard errors then include that of the
    model, to first order. They do not include the bias of features that cannot
    represent Q. The product of many ratios is almost always near 0 and rarely huge.
    With few episodes the standard error is then too small, which a small
    ``effective_size`` indicates. If the largest products are missing in the log,
    ``effective_size`` is too large. The effective number that can be expected is
    therefore also computed from the mean square of single ratios, as if these were
    independent.

    References
    ----------
    Precup, Sutton & Singh, "Eligibility traces for off-policy policy evaluation", 2000
    (per decision); Jiang & Li, "Doubly robust off-policy value evaluation for
    reinforcement learning", 2016; Thomas & Brunskill, "Data-efficient off-policy policy
    evaluation for reinforcement learning", 2016 (weighted doubly robust).

    Examples
    --------
    Half of the logged actions are correct and have a reward of 1. A policy that takes
    the correct action with probability 0.9 has the value 0.9:

    >>> import numpy as np
    >>> from sk_stormc import off_policy_value
    >>> right = np.tile([True, False], 50)
    >>> ratio = np.where(right, 0.9, 0.1) / 0.5
    >>> better = off_policy_value(right.astype(float), ratio, episode=np.arange(100))
    >>> round(better.value, 3), round(better.std_error, 3)
    (0.9, 0.018)

    With a model of Q the ratios may even be wrong:

    >>> data = {
    ...     "X": np.ones((100, 1)),
    ...     "action": right.astype(int),
    ...     "terminal": np.ones(100, dtype=bool),
    ... }
    >>> chances = np.tile([0.1, 0.9], (100, 1))
    >>> value = off_policy_value(
    ...     right, np.ones(100), np.arange(100), method="dr", target=chances, **data
    ... )
    >>> round(value.value, 3)
    0.9
    """
    check_discount(gamma)
    check_choice("method", method, METHODS)
    check_int("cv", cv, low=2)
    columns = y, importance_ratio, episode
    check_row_labels(
        {"y": y, "importance_ratio": importance_ratio, "episode": episode, "time": time}
        | {"terminal": terminal, "X": X, "action": action, "target": target}
        | {"next_X": next_X},
        of_other_rows=("y", "next_X", "target"),
    )
    modelled = method in ("dr", "wdr")
    if is_dask(y):
        if modelled:
            raise ValueError(
                "method must be 'is', 'wis', 'pdis' or 'wpdis' for dask collections, "
                f"got {method!r}"
            )
        if importance_ratio is None or episode is None:
            raise ValueError("importance_ratio and episode must be given, got None")
        more = {"time": time, "terminal": terminal}
        more = {name: part for name, part in more.items() if part is not None}
        names = "y", "importance_ratio", "episode", *more
        blocks = blocks_of(*columns, *more.values(), names=names)

        def sum_of(function):
            def of_block(*parts):
                named = dict(zip(more, parts[4:], strict=True))
                return function(Episodes.of(*parts[:4], **named))

            return blocks.sum(of_block)

    else:
        y = as_numbers("y", y)
        if y.ndim != 1 or not len(y) or not np.isfinite(y).all():
            raise ValueError(
                f"y must be finite, one reward for each transition, got {short(y)}"
            )
        rows = Episodes.of(0, *columns, time, terminal)
        warn_of_running_sums(rows.y, rows.weights.numbers)

        def sum_of(function):
            return function(rows)

    with in_one_thread():
        found, first, influence = read_ratios(sum_of, gamma, method), 0.0, 0.0
        if modelled:
            log = read_q_log(estimator, rows, X, action, target, next_X, terminal)
            found.expected = np.inf
            weights, m = rows.weights, len(found.final)
            cut = weights.last[~log.following.terminal[weights.last]]
            share = np.zeros(len(weights.step))
            share[cut] = (
                gamma ** (weights.step[cut] + 1) * weights.share(found.totals)[cut]
            )
            fold = folds_of(rows.labels[weights.start], min(cv, m))
            values, errors, influence = cross_fitted(
                log, gamma, weights.numbers, fold, share
            )
            first, influence = values[weights.start], m * (influence - influence.mean())
            method = {"dr": "pdis", "wdr": "wpdis"}[method]
            rows = rows._replace(y=errors)
            found.returns = rows.by_episode(gamma, method)
        value, parts = estimate(sum_of, found, gamma, method)
    return _policy_value(value + np.mean(first), parts + first + influence, found)


def _policy_value(value, parts, found):
    """The `PolicyValue`. Warns if the effective number of episodes is small."""
    final, expected = found.final, found.expected
    # a logarithm of -inf is that of a weight of 0
    m, largest = len(parts), max(final.max(), np.finfo(float).min)
    size = effective_size(np.exp(final - largest))
    if min(m, size, expected) < FEW_EPISODES:
        less = (
            f", and {expected:.3g} on average for ratios of this size"
            if expected < size
            else ""
        )
        warn(
            f"the value is from {m} episodes, whose effective number is {size:.3g} if "
            f"all ratios of an episode are multiplied{less}. With fewer than "
            f"{FEW_EPISODES} a standard error is itself uncertain, and often too "
            f"small. {REMEDY}"
        )
    elif found.n_others < FEW_EPISODES:
        warn(
            f"only {found.n_others} of {m} episodes have a return that differs from "
            f"{found.usual:.4g}, and the value depends on these. With fewer than "
            f"{FEW_EPISODES} a standard error is itself uncertain, and often too "
            "small. More episodes help."
        )
    elif np.isfinite(expected) and not found.odd:
        # the square of a product above exp(300) may overflow
        products = np.exp(np.minimum(final, 300.0))
        warn_of_ratios(products, "the product of the ratios of an episode")
    return _from(value, parts, size)


def _from(value, contributions, size):
    """A `PolicyValue` from the contributions of the episodes."""
    error = contributions.std(ddof=1) / np.sqrt(len(contributions))
    return PolicyValue(float(value), float(error), contributions, float(size))
