"""One table of policies from one log: values, intervals, differences, and which policy
is the best."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sk_stormc.compare.policy_comparison import PolicyComparison
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.blocks import is_dask
from sk_stormc.utils.frames import columns_of, has_row_labels
from sk_stormc.utils.parameters import (
    check_choice,
    check_instance,
    check_number,
    is_list,
    short,
)
from sk_stormc.utils.rows import check_in_memory
from sk_stormc.utils.types import ArrayLike
from sk_stormc.values.action_values import ActionValueEstimator
from sk_stormc.values.markov import check_discount, refuse_rows
from sk_stormc.values.off_policy.behaviour import behaviour_chances, check_classifier
from sk_stormc.values.off_policy.importance_weights import Episodes
from sk_stormc.values.off_policy.value import METHODS, PolicyValue, off_policy_value
from sk_stormc.values.reading.actions import as_chances, check_actions
from sk_stormc.values.reading.episodes import check_episode, check_terminal

BEHAVIOUR = "behaviour"
MODELLED = ("dr", "wdr")
COLUMNS = (
    "value", "std_error", "low", "high", "difference", "difference_low",
    "difference_high", "effective_episodes", "largest_weight", "method", "warning",
)  # fmt: skip


def compare_policies(
    data: Any,
    policies: Mapping[str, Callable[[Any], ArrayLike] | ArrayLike | str],
    *,
    state: str | list[str],
    action: str = "action",
    reward: str = "reward",
    episode: str | None = None,
    time: str | None = None,
    terminal: str | None = None,
    next_state: str | list[str] | None = None,
    probability: str | None = None,
    classifier: Any = None,
    gamma: float = 0.95,
    method: str = "auto",
    estimator: ActionValueEstimator | None = None,
    confidence: float = 0.95,
    baseline: str = BEHAVIOUR,
) -> PolicyComparison:
    """Compare policies by one log of another policy: their values, and the differences
    to a baseline.

    Parameters
    ----------
    data : DataFrame or dict of array-like
        The log, with a row for each transition: a frame of pandas or polars, or arrays
        by name. The other arguments are names of its columns.
    policies : dict
        The policies by name. A policy is

        - a function of the states, given as a frame of the columns ``state`` (as an
          array of shape (n, n_columns) if ``data`` is a dict). It returns an action for
          each state, or probabilities of shape (n, n_actions), in the sorted order of
          the actions in the log;
        - an array of either, with a row for each transition;
        - the name of a column with the policy's probabilities of the logged actions.
    state : str or list of str
        The columns of the state. In a dict, one array may have several columns.
    action : str, default="action"
        The column of the actions, integers or strings.
    reward : str, default="reward"
        The column of the rewards.
    episode : str, default=None
        The column with the label of each row's episode. None means that each row is an
        episode of one step, as in logs of bandits.
    time : str, default=None
        The column of the time within episodes: whole numbers or dates. None means that
        the rows of each episode are in order.
    terminal : str, default=None
        The column that says whether the transition ends its episode for good, and not
        whether the episode was cut off.
    next_state : str or list of str, default=None
        The columns of the states after the transitions, in the order of ``state``. The
        policies get them with the names of ``state``. They are required if "dr" or
        "wdr" is used and episodes are cut off.
    probability : str, default=None
        The column with the probability of the logged action under the behaviour
        policy.
    classifier : classifier, default=None
        Estimates these probabilities if ``probability`` is None, as in
        `estimated_ratios`.
    gamma : float, default=0.95
        Discount factor in [0, 1].
    method : {"auto", "is", "wis", "pdis", "wpdis", "dr", "wdr"}, default="auto"
        As for `off_policy_value`. "auto" is "wdr" for policies whose probabilities of
        all actions are known, if ``terminal`` is given, and "wpdis" for others. It is
        also "wpdis" for arrays if episodes are cut off, because they have no rows for
        the last states.
    estimator : ActionValueEstimator, default=None
        The features and the ridge of the model of "dr" and "wdr".
    confidence : float, default=0.95
        Confidence level of the intervals, in (0, 1).
    baseline : str, default="behaviour"
        The policy that the differences are to: the name of a policy, or "behaviour",
        the behaviour policy.

    Returns
    -------
    PolicyComparison

    Raises
    ------
    ValueError
        If a column is missing or has invalid values (the message names the column and
        the row), a policy gives invalid probabilities, or neither ``probability`` nor
        ``classifier`` is given; and for the reasons of `off_policy_value`.

    See Also
    --------
    off_policy_value : The value of one policy, from arrays.
    sk_stormc.plotting.PolicyValueDisplay : Draws the comparison.

    Notes
    -----
    The value of "behaviour" is the mean discounted return of the log. If episodes were
    cut off, this mean has no rewards after the cut, and "dr" and "wdr" add the model's
    value of the last state. Beside such policies, the value of "behaviour" is therefore
    the return plus the value of the last state under the behaviour policy, from a
    model with the same features (without the action), which is fitted on other folds.
    The difference of two rows of which only one is so corrected is not computed.

    Warnings that concern a row are in its column ``warning``, and are not raised. Then
    no policy is called the best. Leave such a policy out to compare the others.

    Examples
    --------
    A shop shows one of two banners, one of them more often to returning visitors. A
    returning visitor clicks on "b" with probability 0.4, and others, and on "a", with
    0.2.

    >>> import numpy as np
    >>> from sk_stormc import compare_policies
    >>> rng = np.random.default_rng(0)
    >>> returning = rng.integers(2, size=4000)
    >>> chance = np.where(returning, 0.7, 0.5)
    >>> shown = np.where(rng.random(4000) < chance, "b", "a")
    >>> log = {
    ...     "returning": returning,
    ...     "banner": shown,
    ...     "click": rng.random(4000) < 0.2 + 0.2 * returning * (shown == "b"),
    ...     "chance": np.where(shown == "b", chance, 1 - chance),
    ... }
    >>> found = compare_policies(
    ...     log,
    ...     {
    ...         "only a": lambda X: np.full(len(X), "a"),
    ...         "by visitor": lambda X: np.where(X[:, 0] == 1, "b", "a"),
    ...     },
    ...     state="returning",
    ...     action="banner",
    ...     reward="click",
    ...     probability="chance",
    ... )
    >>> found.best_
    'by visitor'
    >>> round(found.values["by visitor"].value, 2)
    0.29
    """
    check_discount(gamma)
    check_choice("method", method, ("auto", *METHODS))
    check_number("confidence", confidence, low=0, high=1, inclusive=False)
    check_policies(policies, baseline)
    if confidence == 1:
        raise ValueError("confidence must be below 1, got 1")
    if estimator is not None:
        check_instance("estimator", estimator, ActionValueEstimator)
    log = _Log.of(
        data, state, action, reward, episode, time, terminal, next_state, probability
    )
    if log.probability is None and classifier is None:
        raise ValueError(
            "probability must name the column with the probability of the logged "
            "action, or classifier must be given, which estimates it; got neither"
        )
    targets = {name: log.target(name, policy) for name, policy in policies.items()}
    methods = {
        name: log.method(name, method, target) for name, target in targets.items()
    }
    modelled = any(how in MODELLED for how in methods.values())
    if modelled and log.cut and log.next_states is None:
        raise ValueError(
            "next_state must be given for the methods 'dr' and 'wdr' where episodes "
            f"are cut off, as that of row {log.cut_row()} is, got None"
        )
    chances = log.probability
    of_log: list[str] = []
    if chances is None:
        check_classifier(classifier)
        groups = None if episode is None else log.episode
        with _recorded(of_log):
            chances = behaviour_chances(log.states, log.action, classifier, groups)
    # beside a model of what follows a cut, the mean return is not that of the log
    methods[BEHAVIOUR] = "dr" if modelled and log.cut else "is"
    targets[BEHAVIOUR] = chances, _one_action
    rows = {}
    for name in (baseline, BEHAVIOUR, *policies):
        if name not in rows:
            (logged, target), how = targets[name], methods[name]
            acted = name == BEHAVIOUR
            messages: list[str] = []
            ratio, given = logged / chances, {}
            if how in MODELLED:
                given = {
                    "X": log.states,
                    "next_X": log.next_states,
                    "action": np.zeros(log.n, int) if acted else log.action,
                    "target": target,
                    "estimator": estimator,
                }
            order = {"time": log.time, "terminal": log.terminal}
            with _recorded(messages), _naming(f"policies[{name!r}]"):
                value = off_policy_value(
                    log.reward, ratio, log.episode, gamma=gamma, method=how, **order,
                    **given,
                )  # fmt: skip
            rows[name] = _Row(
                value,
                "mean" if acted else how,
                log.largest_weight(ratio),
                log.cut and how in MODELLED,
                messages if acted else list(dict.fromkeys(of_log + messages)),
            )
    return _comparison(rows, baseline, confidence)


def check_policies(policies, baseline):
    """Raise a ValueError unless ``policies`` is a dict by name, and ``baseline`` one of
    the names or "behaviour"."""
    if not isinstance(policies, Mapping) or not policies:
        raise ValueError(
            f"policies must be a dict of policies by name, got {short(policies)}"
        )
    for name in policies:
        if not isinstance(name, str) or name == BEHAVIOUR:
            raise ValueError(
                "policies must have names that are strings, except 'behaviour', which "
                f"is the behaviour policy, got {short(name)}"
            )
    check_choice("baseline", baseline, (BEHAVIOUR, *policies))


@contextmanager
def _recorded(messages):
    """A context that adds this package's warnings to a list of texts, and passes others
    on."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in caught:
        if issubclass(one.category, UserWarning):
            messages.append(str(one.message))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _one_action(states):
    """The policy with the only action of a log in which all actions count as one."""
    return np.ones((len(states), 1))


@dataclass
class _Log:
    """The checked columns of a log."""

    data: Any
    states: Any  # as policies get them
    next_states: Any
    action: np.ndarray
    reward: np.ndarray
    episode: np.ndarray
    time: np.ndarray | None
    terminal: np.ndarray | None
    probability: np.ndarray | None
    ends_given: bool

    @classmethod
    def of(
        cls, data, state, action, reward, episode, time, terminal, next_state,
        probability,
    ):  # fmt: skip
        """The columns by their names."""
        data = _checked_data(data)
        y = _numbers(data, "reward", reward)
        n, labels, when, ends = len(y), None, None, None
        if terminal is not None:
            with _naming("terminal", terminal):
                ends = check_terminal(_column(data, "terminal", terminal), n)
        if episode is not None:
            with _naming("episode", episode):
                labels = check_episode(_column(data, "episode", episode), n)
            when = None if time is None else _column(data, "time", time)
        elif time is not None or not (ends is None or ends.all()):
            given = "rows that are not terminal" if time is None else "time"
            raise ValueError(
                "episode must be given, because without it each row is an episode of "
                f"one step, got {given}"
            )
        with _naming("action", action):
            actions = check_actions(_column(data, "action", action), n)
        chances = None if probability is None else _chances(data, probability, n)
        return cls(
            data,
            _states(data, "state", state),
            None
            if next_state is None
            else _states(data, "next_state", next_state, state),
            actions,
            y,
            np.arange(n) if labels is None else labels,
            when,
            np.ones(n, bool) if episode is None else ends,
            chances,
            terminal is not None,
        )

    @property
    def n(self):
        """The number of rows."""
        return len(self.reward)

    @cached_property
    def cut(self):
        """Whether episodes are cut off, as all are if it is not known."""
        return self.terminal is None or bool(self._cut_rows().any())

    def _cut_rows(self):
        return ~np.isin(self.episode, self.episode[self.terminal])

    def cut_row(self):
        """The number of a row of an episode that is cut off."""
        return 0 if self.terminal is None else int(np.argmax(self._cut_rows()))

    def target(self, name, policy):
        """The probability of each logged action under a policy, and the policy as
        `off_policy_value` takes it: None for a column of such probabilities."""
        if isinstance(policy, str):
            return _chances(self.data, policy, self.n, f"policies[{name!r}]"), None
        actions, number = np.unique(self.action, return_inverse=True)
        label = f"policies[{name!r}]"
        choice = np.asarray(policy(self.states) if callable(policy) else policy)
        if choice.shape[:1] != (self.n,):
            raise ValueError(
                f"{label} must be a function of states, the name of a column, or an "
                f"array, which have a row for each of {self.n} rows, got shape "
                f"{choice.shape}"
            )
        chances = as_chances(choice, self.n, actions, label)
        logged = chances[np.arange(self.n), number]
        return logged, policy if callable(policy) else chances

    def method(self, name, method, target):
        """The method for a policy."""
        _, policy = target
        if method in MODELLED and policy is None:
            raise ValueError(
                f"policies[{name!r}] must be a function of states or an array for "
                f"method={method!r}, which needs the probabilities of all actions, got "
                "the name of a column"
            )
        if method != "auto":
            return method
        known = callable(policy) or (policy is not None and not self.cut)
        return "wdr" if self.ends_given and known else "wpdis"

    def largest_weight(self, ratio):
        """The largest product of the ratios of an episode, as a share of all."""
        episodes = Episodes.of(0, self.reward, ratio, self.episode, self.time)
        final = episodes.weights.final
        if final.max() == -np.inf:
            return np.nan
        return float(np.exp(final.max() - np.logaddexp.reduce(final)))


def _checked_data(data):
    """The log as a dict of arrays, or as a frame."""
    if isinstance(data, Mapping):
        return data
    if is_dask(data):
        raise ValueError("data must be in memory, got a dask collection: compute it")
    check_in_memory("data", data)
    if columns_of(data) is None or not len(data):
        raise ValueError(
            "data must be a data frame or a dict of arrays, with rows, got "
            f"{short(data)}"
        )
    return data


@contextmanager
def _naming(role, name=None):
    """A context that adds the role of a column and its name to messages of errors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        label = role if name is None else f"{role}={name!r}"
        raise kind(f"{label}: {error}") from error


def _column(data, role, name):
    """A column of the data as an array."""
    names = list(data) if isinstance(data, Mapping) else columns_of(data)
    if not isinstance(name, Hashable) or names.count(name) != 1:
        raise ValueError(
            f"{role} must name a column of data, which has {short(names)}, got "
            f"{short(name)}"
        )
    return np.asarray(data[name])


def _states(data, role, names, renamed=None):
    """The columns of states, for a frame perhaps with other names, and without its
    index."""
    names = list(names) if is_list(names) else [names]
    columns = [_column(data, role, name) for name in names]
    renamed = names if renamed is None else renamed
    renamed = list(renamed) if is_list(renamed) else [renamed]
    if len(renamed) != len(names) or not names:
        raise ValueError(
            f"{role} must name as many columns as state, {short(renamed)}, got "
            f"{short(names)}"
        )
    if isinstance(data, Mapping):
        mixed = any(column.dtype.kind not in "iufb" for column in columns)
        columns = [column.reshape(len(column), -1) for column in columns]
        return np.hstack([c.astype(object) for c in columns] if mixed else columns)
    frame = data[names]
    if has_row_labels(frame):
        frame = frame.reset_index(drop=True)
    frame.columns = renamed
    return frame


def _numbers(data, role, name):
    """A column of finite numbers."""
    with _naming(role, name):
        values = as_numbers("values", _column(data, role, name))
    refuse_rows(
        ~np.isfinite(values),
        lambda k: f"{role}={name!r} must be finite, got {values[k]} in row {k}",
    )
    return values


def _chances(data, name, n, role="probability"):
    """A column of probabilities, which are positive for the behaviour policy."""
    values = _numbers(data, role, name)
    low = "above 0" if role == "probability" else "at least 0"
    refuse_rows(
        (values < 0) | (values > 1) | ((values == 0) & (role == "probability")),
        lambda k: (
            f"{role}={name!r} must be probabilities, {low} and at most 1, got "
            f"{values[k]} in row {k}"
        ),
    )
    return values


class _Row(NamedTuple):
    """The result of one policy."""

    value: PolicyValue
    method: str
    largest: float  # share of the largest weight of an episode
    after_cut: bool  # whether the value includes what follows a cut
    messages: list

    def minus(self, other, confidence):
        """The difference of two rows and its interval, or NaN if they measure different
        things."""
        if self.after_cut != other.after_cut:
            return np.full(3, np.nan)
        difference = self.value - other.value
        with _recorded([]):
            return np.array([difference.value, *difference.interval(confidence)])


def _comparison(rows, baseline, confidence):
    """The `PolicyComparison` of rows by name."""
    columns = {"policy": list(rows)} | {name: [] for name in COLUMNS}
    for name, row in rows.items():
        value, messages = row.value, list(row.messages)
        with _recorded([]):
            low, high = value.interval(confidence)
        same = name == baseline
        difference = np.zeros(3) if same else row.minus(rows[baseline], confidence)
        if np.isnan(difference[0]):
            messages.append(
                f"episodes were cut off, and of {name!r} and {baseline!r} only one "
                "value includes what follows: there is no difference. Use one method "
                "for all rows"
            )
        cells = (
            value.value, value.std_error, low, high, *difference, value.effective_size,
            row.largest, row.method, "; ".join(messages),
        )  # fmt: skip
        for column, cell in zip(COLUMNS, cells, strict=True):
            columns[column].append(cell)
    best, reason = _best(rows, columns["warning"], confidence)
    columns = {name: np.array(column) for name, column in columns.items()}
    values = {name: row.value for name, row in rows.items()}
    return PolicyComparison(values, baseline, confidence, best, reason, columns)


def _best(rows, messages, confidence):
    """The row that is better than all others, or None, and the reason."""
    warned = [name for name, text in zip(rows, messages, strict=True) if text]
    if warned:
        return None, (
            f"There are warnings of {', '.join(warned)}, whose intervals may be wrong. "
            "To choose among other policies, leave these out."
        )
    first = max(rows, key=lambda name: rows[name].value.value)
    others = [name for name in rows if name != first]
    level = 1 - (1 - confidence) / len(others)
    shared = f"confidence {confidence:.4g}"
    if len(others) > 1:
        shared += f" for all {len(others)} differences, {level:.5g} each"
    for name in others:
        gap, low, high = rows[first].minus(rows[name], level)
        if not low > 0:
            return None, (
                f"{first} has the largest value, but minus {name} it is {gap:.4g}, "
                f"{low:.4g} to {high:.4g} ({shared})."
            )
    return first, f"Its difference to every other row is above 0 ({shared})."
