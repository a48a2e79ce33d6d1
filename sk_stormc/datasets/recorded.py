"""Transitions of recorded episodes: lists of episodes, flat arrays, or Minari data
sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sk_stormc.datasets.acting import stacked
from sk_stormc.datasets.spaces import Observations, finite_numbers, place_of
from sk_stormc.utils.arrays import as_flags
from sk_stormc.utils.parameters import check_bool, short
from sk_stormc.utils.types import ArrayLike
from sk_stormc.utils.warnings import warn
from sk_stormc.values.reading.episodes import WARNED_SHARE, shares
from sk_stormc.values.reading.log_order import warn_of_horizon

OTHERS = "done", "dones", "is_terminal", "terminal", "terminals", "terminated"
PARTS = (
    "observations",
    "actions",
    "rewards",
    "terminations",
    "truncations",
    "next_observations",
)


def transitions_from_episodes(
    episodes: Iterable[Any], *, observation_space: Any = None, one_hot: bool = True
) -> Bunch:
    """Convert recorded episodes to transitions, for `BellmanValueEstimator.fit` and
    `ActionValueEstimator.fit`.

    Parameters
    ----------
    episodes : iterable
        The episodes. Each is an object with the attributes, or a mapping with the keys,
        observations, actions, rewards, terminations and truncations, or a tuple of
        these in this order. The last two may be missing. A named tuple is treated as an
        object. The episodes of a Minari data set have this form, so the data set itself
        can be passed.

        - observations: a sequence of T + 1 observations, the last of which follows the
          last step. If there are only T, the last step is dropped unless it is
          terminal, or there are next_observations. Observations with several parts are
          a mapping or a tuple of such sequences, or a list of mappings. Named parts are
          in the order of the first episode, or of the space.
        - next_observations: a sequence of the T observations that follow the steps,
          which may be missing.
        - actions, rewards: sequences of length T.
        - terminations: whether each of the T steps is terminal, or one bool for the
          last step. Without them no step is terminal.
        - truncations: the same for episodes that were cut off. They have no effect,
          because a truncated episode would have continued.
    observation_space : gymnasium.Space, default=None
        The space of the observations. None means the space of the data set, if it has
        one. Discrete and MultiDiscrete parts are converted to indicators.
    one_hot : bool, default=True
        Whether Discrete and MultiDiscrete parts are converted to indicators. If False,
        they are kept as numbers.

    Returns
    -------
    log : sklearn.utils.Bunch
        X, y, next_X, terminal, time, action and episode, as returned by
        `collect_transitions`. ``episode`` counts the episodes from 0. If it contains
        ``sample_weight``, pass this to `fit`, as for `transitions_from_arrays`.

    Warns
    -----
    UserWarning
        If there is ``sample_weight``, or if, without ``timeouts`` and
        ``next_observations``, many episodes end after the same large number of steps,
        as if a limit of steps was recorded in ``terminals``.

    Raises
    ------
    ValueError
        If an episode lacks a part, has inconsistent parts, or has ``dones`` or the like
        in place of terminations, if numbers are not finite, or if an episode ends or is
        cut off before its last step. The message names the episode and the step, both
        counted from 0.

    See Also
    --------
    transitions_from_arrays : Episodes concatenated in flat arrays.
    collect_transitions : Log the transitions of a policy in an environment.

    Examples
    --------
    >>> from sk_stormc.datasets import transitions_from_episodes
    >>> episodes = [
    ...     {
    ...         "observations": [[0.0], [1.0], [2.0]],
    ...         "actions": [1, 1],
    ...         "rewards": [0.0, 1.0],
    ...         "terminations": True,
    ...     },
    ...     {"observations": [[2.0], [1.0]], "actions": [0], "rewards": [0.0]},
    ... ]
    >>> log = transitions_from_episodes(episodes)
    >>> log.X.ravel(), log.next_X.ravel()
    (array([0., 1., 2.]), array([1., 2., 1.]))
    >>> log.terminal, log.episode
    (array([False,  True, False]), array([0, 0, 1]))
    """
    check_bool("one_hot", one_hot)
    if isinstance(episodes, (str, Mapping)) or not isinstance(episodes, Iterable):
        raise ValueError(
            f"episodes must be a sequence of episodes, got {short(episodes)}"
        )
    space = (
        getattr(episodes, "observation_space", None)
        if observation_space is None
        else observation_space
    )
    seen = Observations(space)
    parts: list[tuple] = []
    for number, episode in enumerate(episodes):
        parts.append(_rows_of_episode(episode, f"episode {number}", seen))
    if not any(len(part[0]) for part in parts):
        raise ValueError("episodes must have a step, got none")
    *columns, actions = zip(*parts, strict=True)
    actions = stacked([action for part in actions for action in part])
    episode = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    return _log(seen, one_hot, *map(np.concatenate, columns), actions, episode)


def transitions_from_arrays(
    observations: Any,
    actions: ArrayLike,
    rewards: ArrayLike,
    terminals: ArrayLike,
    timeouts: ArrayLike | None = None,
    *,
    next_observations: Any = None,
    observation_space: Any = None,
    one_hot: bool = True,
) -> Bunch:
    """Convert episodes that are concatenated in flat arrays, as in D4RL and d3rlpy, to
    transitions.

    An episode ends with each row in which ``terminals`` or ``timeouts`` is true, and
    the next row begins another one. Within an episode the successor of a row is the
    observation of the next row. If ``next_observations`` is None, the last observation
    of an episode that was cut off is not in the arrays. The last row of such an episode
    has no successor, and is dropped. The last row of the arrays is also dropped, unless
    it is terminal, because its successor is missing in any case. If all episodes are
    cut off at the same step, terminal rows at this step are dropped too: as there are
    no others, they would show that every episode ends there.

    Parameters
    ----------
    observations : array-like of shape (n_rows, ...), mapping or tuple
        The observations before the steps. Arrays are flattened. Observations with
        several parts are a mapping or a tuple of arrays.
    actions : array-like of shape (n_rows,) or (n_rows, n_columns)
        The actions. Integers of shape (n_rows, 1) are converted to an array of shape
        (n_rows,).
    rewards : array-like of shape (n_rows,) or (n_rows, 1)
        The rewards.
    terminals : array-like of shape (n_rows,) or (n_rows, 1)
        Whether the step is terminal: booleans, or 0 and 1.
    timeouts : array-like of shape (n_rows,) or (n_rows, 1), default=None
        Whether the episode is cut off after the step, in the same form. A row that is
        true in both is terminal. None means that no row is cut off, except, with
        ``next_observations``, the rows whose successor is not the next row, after which
        another episode begins. Without ``timeouts`` and ``next_observations``, only
        ``terminals`` separate episodes, and an episode that was cut off would seem to
        lead to the start of the next one.
    next_observations : array-like of shape (n_rows, ...), mapping or tuple, \
            default=None
        The observations after the steps. No row is then dropped.
    observation_space : gymnasium.Space, default=None
        The space of the observations. Discrete and MultiDiscrete parts are converted to
        indicators.
    one_hot : bool, default=True
        Whether Discrete and MultiDiscrete parts are converted to indicators. If False,
        they are kept as numbers.

    Returns
    -------
    log : sklearn.utils.Bunch
        X, y, next_X, terminal, time, action and episode, as returned by
        `collect_transitions`, for the rows that are kept. The successor of a terminal
        row without next_observations is its own observation, which has no effect. Ends
        are in proportion to the other rows of the same step that are kept: with
        ``sample_weight`` below 1, which is part of the log only if ends would count
        more than 1 % too much without it, and is to be passed to `fit`.

    Warns
    -----
    UserWarning
        If there is ``sample_weight``, or if, without ``timeouts`` and
        ``next_observations``, many episodes end after the same large number of steps,
        as if a limit of steps was recorded in ``terminals``.

    Raises
    ------
    ValueError
        If arrays differ in their number of rows, numbers are not finite, terminals or
        timeouts are neither booleans nor 0 and 1, or no row has a successor. The
        message names the row.

    See Also
    --------
    transitions_from_episodes : A list of episodes with separate arrays.

    Examples
    --------
    The first episode ends after two steps. The second is cut off after three, the last
    of which has no successor.

    >>> import numpy as np
    >>> from sk_stormc.datasets import transitions_from_arrays
    >>> log = transitions_from_arrays(
    ...     observations=np.array([[0.0], [1.0], [5.0], [6.0], [7.0]]),
    ...     actions=np.array([1, 1, 0, 1, 1]),
    ...     rewards=np.array([[0.0], [1.0], [0.0], [0.0], [0.0]]),
    ...     terminals=[0, 1, 0, 0, 0],
    ...     timeouts=[0, 0, 0, 0, 1],
    ... )
    >>> log.X.ravel(), log.next_X.ravel()
    (array([0., 1., 5., 6.]), array([1., 1., 6., 7.]))
    >>> log.terminal, log.episode
    (array([False,  True, False, False]), array([0, 0, 1, 1]))
    """
    check_bool("one_hot", one_hot)
    rewards = _one_each(finite_numbers("rewards", rewards))
    if rewards.ndim != 1 or not len(rewards):
        raise ValueError(f"rewards must be one for each row, got shape {rewards.shape}")
    n, seen = len(rewards), Observations(observation_space)
    terminal = _flags("terminals", terminals, n)
    cut = _flags("timeouts", np.zeros(n) if timeouts is None else timeouts, n)
    actions = stacked(_steps(actions, n))
    actions = _one_each(actions) if actions.dtype.kind in "iub" else actions
    if actions.shape[:1] != (n,):
        raise ValueError(
            f"actions must be one for each of the {n} rows, got shape {actions.shape}"
        )
    _check_actions(actions)
    left = _as_many("observations", seen.rows(observations), n)
    rows = np.arange(n)
    if next_observations is None:
        known = terminal | (~cut & (rows < n - 1))
        came = left[np.where(terminal, rows, np.minimum(rows + 1, n - 1))]
        if timeouts is None:
            warn_of_horizon(terminal, None, (left,), "pass these rows as timeouts")
    else:
        known = np.ones(n, dtype=bool)
        came = _as_many(
            "next_observations", seen.rows(next_observations, "next_observations"), n
        )
        if timeouts is None:
            # an episode goes on where a row is the successor of the row before, up to
            # rounding to float32
            apart = abs(came[:-1] - left[1:]) > 1e-6 * abs(left).max(axis=0)
            cut[:-1] = apart.any(axis=1)
    episode = np.append(0, np.cumsum(terminal | cut)[:-1])
    return _log(seen, one_hot, known, left, rewards, came, terminal, actions, episode)


def _log(seen, one_hot, known, *columns):
    """The Bunch of the transitions that are ``known``, with a gap in time after each
    episode."""
    terminal, episode, n = columns[3], columns[5], len(known)
    weights = shares(
        np.arange(n) - np.searchsorted(episode, episode), known, terminal, np.ones(n)
    )
    left, rewards, came, terminal, actions, episode, weights = (
        part[weights > 0] for part in (*columns, weights)
    )
    if not len(weights):
        raise ValueError(
            "observations must have a row that has a successor or is terminal, got "
            f"none in {n} rows: give next_observations"
        )
    log = Bunch(
        X=seen.checked(left, one_hot),
        y=rewards,
        next_X=seen.checked(came, one_hot),
        terminal=terminal,
        time=np.arange(len(episode)) + episode,
        action=actions,
        episode=episode,
    )
    if (1 - weights).sum() > WARNED_SHARE * terminal.sum():
        log.sample_weight = weights
        warn(
            f"{np.count_nonzero(~known)} steps have no successor, because episodes "
            "were cut off, and are dropped. Ends at the same steps then count too "
            "much: pass sample_weight=log.sample_weight to fit, or give "
            "next_observations here."
        )
    return log


def _rows_of_episode(episode, where, seen):
    """Which outcomes are known, states, rewards, successors, terminal flags and actions
    of the steps of an episode."""
    observations, actions, rewards, terminations, truncations, after = (
        _parts_of_episode(episode, where)
    )
    rewards = finite_numbers("rewards", rewards, where)
    if rewards.ndim != 1:
        raise ValueError(
            f"rewards must be one for each step, got shape {rewards.shape} in {where}"
        )
    n = len(rewards)
    actions = list(_steps(actions, n))
    if len(actions) != n:
        raise ValueError(
            f"actions must be as many as rewards, {n}, got {len(actions)} in {where}"
        )
    _check_actions(actions, where)
    ends = _ends("terminations", terminations, n, where)
    _ends("truncations", truncations, n, where)
    states = seen.rows(observations, "observations", where)
    if len(states) not in (n, n + 1):
        raise ValueError(
            f"observations must be {n + 1}, one more than rewards, or {n}, got "
            f"{len(states)} in {where}"
        )
    if after is not None:
        came = _as_many(
            "next_observations", seen.rows(after, "next_observations", where), n, where
        )
        return np.ones(n, dtype=bool), states[:n], rewards, came, ends, actions
    after = np.arange(1, n + 1)
    return (
        ends | (after < len(states)),
        states[:n],
        rewards,
        states[np.minimum(after, len(states) - 1)],
        ends,
        actions,
    )


def _parts_of_episode(episode, where):
    """The parts of an episode, in the order of PARTS. Missing parts are None."""
    if isinstance(episode, (tuple, list)) and not hasattr(episode, "_fields"):
        if len(episode) > 5:
            raise ValueError(
                f"episodes must have up to 5 parts, got {len(episode)} in {where}"
            )
        parts = [*episode, *[None] * (len(PARTS) - len(episode))]
        others = []
    else:
        part = (
            episode.get
            if isinstance(episode, Mapping)
            else lambda name: getattr(episode, name, None)
        )
        parts = [part(name) for name in PARTS]
        others = [name for name in OTHERS if part(name) is not None]
    if others and parts[3] is None:
        raise ValueError(
            "episodes must have terminations, whether a step ended the episode for "
            f"good, got {where} with {others[0]} in their place: rename it to "
            "terminations, unless it is also true for episodes that were cut off"
        )
    missing = [
        name for name, part in zip(PARTS[:3], parts, strict=False) if part is None
    ]
    if missing:
        raise ValueError(
            f"episodes must have {', '.join(PARTS[:3])}, got {where} without "
            f"{' and '.join(missing)}"
        )
    return parts


def _as_many(name, rows, n, where=None):
    """The rows, after a check that there are n of them."""
    if len(rows) != n:
        raise ValueError(
            f"{name} must be as many as rewards, {n}, got "
            f"{len(rows)}{f' in {where}' if where else ''}"
        )
    return rows


def _one_each(values):
    """A column of shape (n, 1) as an array of shape (n,)."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _steps(actions, n):
    """One action for each step, from actions that may have several parts."""
    try:
        if isinstance(actions, Mapping):
            return [{name: part[k] for name, part in actions.items()} for k in range(n)]
        if isinstance(actions, tuple):
            return list(zip(*actions, strict=True))
        return actions
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            "actions must have parts with one entry for each step, got "
            f"{short(actions)}"
        ) from error


def _check_actions(actions, where=None):
    """Raise a ValueError if an action, or a part of it, is missing or not finite."""
    together = stacked(actions)
    if together.dtype.kind in "iubUS" or (
        together.dtype.kind == "f" and np.isfinite(together).all()
    ):
        return
    for k, action in enumerate(actions):
        parts = action if isinstance(action, tuple) else [action]
        for part in action.values() if isinstance(action, Mapping) else parts:
            number = np.asarray(part)
            if part is None or (
                number.dtype.kind == "f" and not np.isfinite(number).all()
            ):
                raise ValueError(
                    f"actions must be finite, got {short(part)} in {place_of(k, where)}"
                )


def _flags(name, values, n, where=None):
    """n booleans, from booleans or from 0 and 1; for an episode also from one for its
    last step, or from None."""
    given = _one_each(
        as_flags(name, False if values is None and where else values, where)
    )
    if given.shape not in ([(), (n,)] if where else [(n,)]):
        expected = f"one or {n}" if where else f"{n}"
        raise ValueError(
            f"{name} must be {expected}, got shape "
            f"{given.shape}{f' in {where}' if where else ''}"
        )
    ends = np.zeros(n, dtype=bool)
    if given.shape:
        ends |= given
    elif n:
        ends[-1] = given
    return ends


def _ends(name, values, n, where):
    """Whether each of n steps ends the episode, which only the last one may."""
    ends = _flags(name, values, n, where)
    early = np.flatnonzero(ends[:-1])
    if len(early):
        raise ValueError(
            f"{name} must be False before the last step of an episode, got True in "
            f"step {early[0]} of {where}, "
            f"which has {n}: make the steps after it an episode of their own"
        )
    return ends
