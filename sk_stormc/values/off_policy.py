"""What a policy is worth, from the episodes of another one: importance sampling, with and without a model of values."""

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
FEW = 20  # episodes, or as many as their weights amount to: with fewer a standard error is itself uncertain


@dataclass(frozen=True, eq=False)
class PolicyValue:
    """The value of a policy, estimated from episodes, and how sure it is.

    Two of them from the same episodes can be subtracted: the difference has a standard error of its own, which is
    often far smaller than those of the two, since chance did the same to both.

    Attributes
    ----------
    value : float
        Mean discounted return of an episode.
    std_error : float
        Its standard error, over episodes.
    contributions : ndarray of shape (n_episodes,)
        What each episode says: ``value`` plus its influence. Their mean is ``value``, to first order. Episodes are in
        the order in which they first came.
    effective_size : float
        (sum w)^2 / sum w^2 for the products w of all ratios of an episode: how many episodes of the policy itself these
        stand for, at the worst.

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
        """Where the value is, with this probability: Student's t times the standard error to either side.

        Parameters
        ----------
        confidence : float, default=0.9
            In (0, 1].

        Returns
        -------
        ndarray of shape (2,)
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
    """The mean discounted return of a policy, from episodes of another one.

    Parameters
    ----------
    y : array-like of shape (n_transitions,)
        Rewards.
    importance_ratio : array-like of shape (n_transitions,)
        For each row the probability of what was done under the policy that is evaluated, over that under the policy
        that acted (``pscore`` of obp and scope-rl). Ones evaluate the policy that acted.
    episode : array-like of shape (n_transitions,)
        A label of each row's episode. Rows of an episode are in order, unless ``time`` orders them.
    gamma : float, default=0.95
        Discount, in [0, 1].
    method : {"is", "wis", "pdis", "wpdis", "dr", "wdr"}, default="wpdis"
        "is" weighs the return of an episode with the product of its ratios; "pdis", per decision, weighs each reward
        with the product up to it only. "wis" and "wpdis" divide by the sum of the weights in place of the number of
        episodes: they have a little bias and far less variance. "dr" is doubly robust: the value of the first state by
        a model, plus the temporal-difference errors of the model weighted per decision; "wdr" divides by the sums of
        weights.
    time : array-like of int of shape (n_transitions,), default=None
        Within the episodes.
    X, next_X, terminal : default=None
        As for `BellmanValueEstimator.fit`, for "dr" and "wdr".
    estimator : BellmanValueEstimator, default=None
        The model of "dr" and "wdr", which is cloned. None is "lstd" with these features and a ridge of 1e-6. Its gamma
        is not looked at.
    cv : int, default=5
        Folds of "dr" and "wdr": the model of an episode is fitted to the other folds, so that it does not know what it
        corrects. At most as many as episodes.

    Returns
    -------
    PolicyValue

    Raises
    ------
    ValueError
        For parameters out of range, lengths that disagree, ratios that are negative or whose products within an episode
        are not finite, fewer than 2 episodes, if all ratios are 0, and for "dr" and "wdr" without X.

    Warns
    -----
    UserWarning
        If there are fewer than 20 episodes, or if their weights amount to fewer, because standard errors are then often
        too small. If ratios are far from 1 on average, as they are where the two policies were swapped.

    See Also
    --------
    sk_stormc.BellmanValueEstimator.value_interval : The direct method: the value that a model gives to first states.

    Notes
    -----
    An episode that was cut off counts with the rewards that it has. "dr" and "wdr" add the model's value of its last
    state. Ratios are as exact as the probabilities they are made of. The product of many is almost always near 0 and
    seldom huge, and a log of few episodes then says less than its standard error claims; ``effective_size`` tells.

    References
    ----------
    Precup, Sutton & Singh, "Eligibility traces for off-policy policy evaluation", 2000 (per decision); Jiang & Li,
    "Doubly robust off-policy value evaluation for reinforcement learning", 2016; Thomas & Brunskill, "Data-efficient
    off-policy policy evaluation for reinforcement learning", 2016 (weighted doubly robust).

    Examples
    --------
    Half of the actions were right, which are worth 1. A policy that does the right thing more often, with probability
    .9, is worth .9:

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
            f"the value is from {m} episodes, which stand for {size:.3g} of the policy itself where all ratios of an "
            f"episode are multiplied. With fewer than {FEW} a standard error is itself uncertain, and often too small."
        )
    return _from(found[0], found[1], size)


def _from(value, contributions, size):
    return PolicyValue(
        float(value), float(contributions.std(ddof=1) / np.sqrt(len(contributions))), contributions, float(size)
    )


def _plain(values):
    return values.mean(), values


def _weighted(weights, values):
    """A weighted mean, and what each value says of it."""
    mean = weights @ values / weights.sum()
    return mean, mean + weights / weights.mean() * (values - mean)


def _by_step(y, ratios, numbers, m, gamma):
    """By step and episode, products of the ratios up to there, and discounted rewards; behind the end, 0."""
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
                "probabilities of the policy over those of the one that acted are seldom above 100"
            )
        weights[t], rewards[t, going] = weight, gamma**t * y[starts[going] + t]
    return weights, rewards


def _in_order(name, column, order):
    """The rows of a column in this order."""
    if column is None:
        return None
    with naming(name):
        n = _num_samples(column)
        if n != len(order):
            raise ValueError(f"{name} must have {len(order)} rows, as y has, got {n}")
        return _safe_indexing(column, order)


def _errors(model, gamma, cv, numbers, y, columns, ratios):
    """Temporal-difference errors and values of a model that was fitted to the other folds."""
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
