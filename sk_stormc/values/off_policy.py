"""Off-policy evaluation: the value of a policy from episodes of another one, by importance sampling."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from sk_stormc.utils.types import ArrayLike, Features, FloatArray
from sk_stormc.utils.validation import as_numbers, check_choice, check_int, check_number, naming, short
from sk_stormc.utils.warnings import warn
from sk_stormc.values.episodes import check_episode, clock_of, numbers_of_labels
from sk_stormc.values.estimator import BellmanValueEstimator
from sk_stormc.values.guards import effective_size, warn_of_ratios
from sk_stormc.values.log import Given, read_log
from sk_stormc.values.markov import check_discount
from sk_stormc.values.transitions import check_ratios, check_terminal, check_time

__all__ = ["PolicyValue", "off_policy_value"]

METHODS = ("is", "wis", "pdis", "wpdis", "dr", "wdr")
FEW = 20  # effective number of episodes below which a standard error is itself uncertain


@dataclass(frozen=True, eq=False)
class PolicyValue:
    """The estimated value of a policy with its standard error.

    Two estimates from the same episodes can be subtracted. The standard error of the difference is often far smaller
    than those of the two, because their errors are correlated.

    Attributes
    ----------
    value : float
        Mean discounted return of an episode.
    std_error : float
        Its standard error, over episodes.
    contributions : ndarray of shape (n_episodes,)
        The contribution of each episode: ``value`` plus the episode's influence. Their mean is ``value``, to first
        order. Episodes are in the order of their first rows.
    effective_size : float
        The effective sample size (sum w)^2 / sum w^2, where w is the product of all ratios of an episode. It is
        pessimistic for the methods that do not use all ratios.

    Examples
    --------
    >>> import numpy as np
    >>> from sk_stormc.values.off_policy import PolicyValue
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
        """The confidence interval of the value: the standard error times a quantile of Student's t to either side.

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
        """
        check_number("confidence", confidence, low=0, high=1, inclusive=False)
        reach = stats.t.ppf(0.5 + confidence / 2, len(self.contributions) - 1) * self.std_error
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
        return _from(self.value - other.value, self.contributions - other.contributions, size)


def off_policy_value(
    y: ArrayLike,
    importance_ratio: ArrayLike,
    episode: ArrayLike,
    *,
    gamma: float = 0.95,
    method: str = "wpdis",
    time: ArrayLike | None = None,
    X: Features | None = None,
    next_X: Features | None = None,
    terminal: ArrayLike | None = None,
    estimator: BellmanValueEstimator | None = None,
    cv: int = 5,
) -> PolicyValue:
    """The mean discounted return of a target policy, from episodes of a behaviour policy.

    Parameters
    ----------
    y : array-like of shape (n_transitions,)
        Rewards.
    importance_ratio : array-like of shape (n_transitions,)
        For each row the probability of the action under the target policy, divided by that under the behaviour policy
        (``pscore`` of obp and scope-rl). Ones evaluate the behaviour policy.
    episode : array-like of shape (n_transitions,)
        A label of each row's episode. Rows of an episode are in order, unless ``time`` orders them.
    gamma : float, default=0.95
        Discount factor in [0, 1].
    method : {"is", "wis", "pdis", "wpdis", "dr", "wdr"}, default="wpdis"
        "is" (importance sampling) multiplies the return of an episode by the product of its ratios. "pdis" (per
        decision) multiplies each reward by the product of the ratios up to it. "wis" and "wpdis" (weighted) divide by
        the sum of the weights in place of the number of episodes, which gives a small bias and far less variance. "dr"
        is doubly robust: the value of the first state by a model, plus the temporal-difference errors of the model
        weighted per decision. "wdr" is "dr" divided by the sums of the weights.
    time : array-like of int of shape (n_transitions,), default=None
        Time within the episodes. None means that the rows of an episode are in order.
    X, next_X, terminal : array-like, default=None
        As for `BellmanValueEstimator.fit`, for "dr" and "wdr".
    estimator : BellmanValueEstimator, default=None
        The model of "dr" and "wdr", which is cloned. None means "lstd" with these features and a ridge of 1e-6. Its own
        gamma is not used.
    cv : int, default=5
        Number of folds of "dr" and "wdr", at most the number of episodes. The model of an episode is fitted on the
        other folds, so that it is independent of the episode (cross-fitting).

    Returns
    -------
    PolicyValue

    Raises
    ------
    ValueError
        If a parameter is out of its range, lengths disagree, ratios are negative or their products within an episode
        are not finite, there are fewer than 2 episodes, all ratios are 0, or X is missing for "dr" and "wdr".

    Warns
    -----
    UserWarning
        If the number of episodes, or their effective number, is below 20, because standard errors are then often too
        small. If ratios are far from 1 on average, as they are if the two policies were swapped.

    See Also
    --------
    sk_stormc.BellmanValueEstimator.value_interval : The direct method: a model's values of the first states.

    Notes
    -----
    An episode that was cut off counts with its rewards so far. "dr" and "wdr" add the model's value of its last state.
    The product of many ratios is almost always near 0 and rarely huge. With few episodes the standard error is then too
    small. A small ``effective_size`` shows this.

    References
    ----------
    Precup, Sutton & Singh, "Eligibility traces for off-policy policy evaluation", 2000 (per decision); Jiang & Li,
    "Doubly robust off-policy value evaluation for reinforcement learning", 2016; Thomas & Brunskill, "Data-efficient
    off-policy policy evaluation for reinforcement learning", 2016 (weighted doubly robust).

    Examples
    --------
    Half of the logged actions were right and have a reward of 1. A policy that takes the right action with probability
    0.9 has the value 0.9:

    >>> import numpy as np
    >>> from sk_stormc import off_policy_value
    >>> right = np.tile([True, False], 50)
    >>> ratio = np.where(right, 0.9, 0.1) / 0.5
    >>> better = off_policy_value(right.astype(float), ratio, episode=np.arange(100))
    >>> round(better.value, 3), round(better.std_error, 3)
    (0.9, 0.018)
    """
    check_discount(gamma)
    check_choice("method", method, METHODS)
    check_int("cv", cv, low=2)
    y = as_numbers("y", y)
    if y.ndim != 1 or not len(y) or not np.isfinite(y).all():
        raise ValueError(f"y must be finite, one reward for each transition, got {short(y)}")
    n = len(y)
    ratios, labels = check_ratios(importance_ratio, n), check_episode(episode, n)
    numbers = numbers_of_labels(labels)
    m = int(numbers.max(initial=-1)) + 1
    if m < 2:
        raise ValueError(f"episode must have at least 2 different labels, got {m}")
    ends = np.zeros(n, dtype=bool) if terminal is None else check_terminal(terminal, n)
    clock = clock_of(numbers, None if time is None else check_time(time, n, distinct=False), ends, labels)
    warn_of_ratios(ratios)
    order, first = np.argsort(clock), np.zeros(m)
    y, ratios, numbers = y[order], ratios[order], numbers[order]
    if method in ("dr", "wdr"):
        model = BellmanValueEstimator(solver="lstd", alpha=1e-6) if estimator is None else estimator
        columns = {"X": X, "next_X": next_X, "terminal": terminal, "time": time if next_X is None else None}
        if (np.diff(order) != 1).any():
            columns = {name: _in_order(name, column, order) for name, column in columns.items()}
        y, values = _errors(model, gamma, min(cv, m), numbers, y, columns | {"episode": labels[order]}, ratios)
        first = values[np.append(True, np.diff(numbers) > 0)]
    weights, rewards = _by_step(y, ratios, numbers, m, gamma)
    whole = weights[-1]
    if not (whole if method == "wis" else ratios).any():
        raise ValueError("importance_ratio must be positive, in all rows of one episode for 'wis', got 0 everywhere")
    if method in ("is", "wis"):
        returns = rewards.sum(axis=0)
        found = _weighted(whole, returns) if method == "wis" else _plain(whole * returns)
    elif method in ("pdis", "dr"):
        found = _plain(first + (weights * rewards).sum(axis=0))
    else:
        value, influence = first.mean(), first - first.mean()
        for weight, reward in zip(weights, rewards, strict=True):
            if weight.any():
                mean, part = _weighted(weight, reward)
                value, influence = value + mean, influence + part - mean
        found = value, value + influence
    size = effective_size(whole)
    if min(m, size) < FEW:
        warn(
            f"the value is from {m} episodes, whose effective number is {size:.3g} if all ratios of an episode are "
            f"multiplied. With fewer than {FEW} a standard error is itself uncertain, and often too small."
        )
    return _from(found[0], found[1], size)


def _from(value, contributions, size):
    return PolicyValue(
        float(value), float(contributions.std(ddof=1) / np.sqrt(len(contributions))), contributions, float(size)
    )


def _plain(values):
    return values.mean(), values


def _weighted(weights, values):
    """A weighted mean, and the contribution of each value: the mean plus the value's influence."""
    mean = weights @ values / weights.sum()
    return mean, mean + weights / weights.mean() * (values - mean)


def _by_step(y, ratios, numbers, m, gamma):
    """Products of the ratios up to each step, and discounted rewards, of shape (n_steps, n_episodes).

    After the end of an episode rewards are 0.
    """
    starts = np.searchsorted(numbers, np.arange(m))
    lengths = np.diff(np.append(starts, len(y)))
    weights, rewards = np.ones((lengths.max(), m)), np.zeros((lengths.max(), m))
    weight = np.ones(m)
    for t in range(len(weights)):
        going = np.flatnonzero(lengths > t)
        with np.errstate(over="ignore"):
            weight[going] *= ratios[starts[going] + t]
        if not np.isfinite(weight).all():
            raise ValueError(
                f"importance_ratio must have finite products within episodes, got {short(ratios.max())} at the most: "
                "probabilities under the target policy over those under the behaviour policy are rarely above 100"
            )
        weights[t], rewards[t, going] = weight, gamma**t * y[starts[going] + t]
    return weights, rewards


def _in_order(name, column, order):
    """The rows of a column in a given order."""
    if column is None:
        return None
    with naming(name):
        n = _num_samples(column)
        if n != len(order):
            raise ValueError(f"{name} must have {len(order)} rows, as y has, got {n}")
        return _safe_indexing(column, order)


def _errors(model, gamma, cv, numbers, y, columns, ratios):
    """Temporal-difference errors and values of a model that was fitted on the other folds."""
    X = columns.pop("X")
    if X is None:
        raise ValueError("X must be given for the methods 'dr' and 'wdr', which need a model of values, got None")
    if not isinstance(model, BellmanValueEstimator):
        raise ValueError(f"estimator must be a BellmanValueEstimator, got {model!r}")
    read_log(clone(model), X, y, Given(**columns, importance_ratio=ratios))  # raises if anything is wrong
    errors, values = np.zeros(len(y)), np.zeros(len(y))
    for train, test in GroupKFold(cv).split(numbers, groups=numbers):
        parts = [
            {name: None if part is None else _safe_indexing(part, rows) for name, part in columns.items()}
            for rows in (train, test)
        ]
        rows = _safe_indexing(X, train), y[train]
        fitted = clone(model).set_params(gamma=gamma).fit(*rows, **parts[0], importance_ratio=ratios[train])
        left = _safe_indexing(X, test)
        error = fitted.td_error(left, y[test], **parts[1])
        values[test] = fitted.predict(left)
        errors[test] = np.where(np.isnan(error), y[test] - values[test], error)
    return errors, values
