"""Transitions of recorded episodes: lists of arrays, or data sets of Minari."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from sk_stormc.utils.validation import as_numbers, check_bool, short
from sk_stormc.values.acting import stacked
from sk_stormc.values.spaces import check_range, indicators, leaves_of, rows_of

__all__ = ["transitions_from_episodes"]

OTHERS = {"done", "dones", "terminal", "terminals", "terminated", "is_terminal"}
PARTS = ("observations", "actions", "rewards", "terminations", "truncations")


def transitions_from_episodes(episodes: Iterable[Any], *, observation_space: Any = None, one_hot: bool = True) -> Bunch:
    """Convert recorded episodes to transitions, for `BellmanValueEstimator.fit` and `ActionValueEstimator.fit`.

    Parameters
    ----------
    episodes : iterable
        The episodes. Each is an object with the attributes, or a mapping with the keys, observations, actions, rewards,
        terminations and truncations, or a tuple of these in this order. The last two may be missing. The episodes of a
        data set of Minari have this form, so it can be passed itself.

        - observations: a sequence of T + 1 observations, the last of which follows the last step. If there are only T,
          the last step is dropped unless it is terminal. Observations of several parts are a mapping or a tuple of such
          sequences, or a list of mappings.
        - actions, rewards: sequences of length T.
        - terminations: whether each of the T steps is terminal, or one bool for the last step. Without them no step is
          terminal.
        - truncations: the same for episodes that were cut off. They have no effect, because a truncated episode would
          have continued.
    observation_space : gymnasium.Space, default=None
        The space of the observations. None means that of the data set, if it has one. Discrete and MultiDiscrete parts
        become indicators.
    one_hot : bool, default=True
        Whether Discrete and MultiDiscrete parts become indicators. False keeps them as numbers.

    Returns
    -------
    log : sklearn.utils.Bunch
        X, y, next_X, terminal, time, action and episode, as `collect_transitions` returns them. ``episode`` counts the
        episodes from 0.

    Raises
    ------
    ValueError
        If an episode lacks a part, has parts that do not fit, or has ``dones`` or the like in place of terminations, if
        numbers are not finite, or if an episode ends or is cut before its last step. The episode and the step are
        named, both counted from 0.

    See Also
    --------
    collect_transitions : Log the transitions of a policy in an environment.

    Examples
    --------
    >>> from sk_stormc.datasets import transitions_from_episodes
    >>> episodes = [
    ...     {"observations": [[0.0], [1.0], [2.0]], "actions": [1, 1], "rewards": [0.0, 1.0], "terminations": True},
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
        raise ValueError(f"episodes must be a sequence of episodes, got {short(episodes)}")
    space = getattr(episodes, "observation_space", None) if observation_space is None else observation_space
    leaves = None if space is None else leaves_of(space, whose="observation_space")
    columns: list[tuple] = []
    lengths: list[int] = []
    for number, episode in enumerate(episodes):
        rows = _rows_of_episode(episode, f"episode {number}", leaves)
        if columns and rows[0].shape[1] != columns[0][0].shape[1]:
            raise ValueError(
                f"observations must have the same columns in all episodes, got {rows[0].shape[1]} in episode {number} "
                f"and {columns[0][0].shape[1]} in the first one"
            )
        columns.append(rows)
        lengths.append(len(rows[1]))
    if not sum(lengths):
        raise ValueError("episodes must have a step that has a successor or ends its episode, got none")
    *parts, actions = zip(*columns, strict=True)
    left, rewards, came, terminal = (np.concatenate(part) for part in parts)
    if leaves is not None:
        for numbers in (left, came):
            check_range(numbers, leaves, "observations must be of their space")
        if one_hot:
            left, came = indicators(left, leaves), indicators(came, leaves)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    return Bunch(
        X=left,
        y=rewards,
        next_X=came,
        terminal=terminal,
        time=np.arange(len(episode)) + episode,  # a gap after each episode
        action=stacked([action for part in actions for action in part]),
        episode=episode,
    )


def _rows_of_episode(episode, where, leaves):
    """States, rewards, successors, terminal flags and actions of the usable steps of an episode."""
    observations, actions, rewards, terminations, truncations = _parts(episode, where)
    rewards = _numbers("rewards", rewards, where)
    n = len(rewards)
    if rewards.ndim != 1:
        raise ValueError(f"rewards must be one for each step, got shape {rewards.shape} in {where}")
    actions = list(_steps(actions, n))
    if len(actions) != n:
        raise ValueError(f"actions must be as many as rewards, {n}, got {len(actions)} in {where}")
    for step, action in enumerate(actions):
        _check_action(action, f"step {step} of {where}")
    ends = _ends("terminations", terminations, n, where)
    _ends("truncations", truncations, n, where)
    seen = _observed(observations, where, leaves, n)
    if len(seen) not in (n, n + 1):
        raise ValueError(f"observations must be {n + 1}, one more than rewards, or {n}, got {len(seen)} in {where}")
    kept = n - (len(seen) == n and n > 0 and not ends[-1])
    left, came = seen[:kept], seen[np.minimum(np.arange(1, kept + 1), len(seen) - 1)]
    return left, rewards[:kept], came, ends[:kept], actions[:kept]


def _parts(episode, where):
    """The five parts of an episode. Missing parts are None."""
    if isinstance(episode, Mapping):
        found = [episode.get(name) for name in PARTS]
        others = sorted(map(str, OTHERS.intersection(episode))) if found[3] is None else []
        if others:
            raise ValueError(
                f"episodes must have terminations, whether a step ended the episode for good, got {where} with "
                f"{others[0]} in their place: rename it to terminations, unless it is also true for episodes that were "
                "cut off"
            )
    elif isinstance(episode, (tuple, list)):
        if len(episode) > len(PARTS):
            raise ValueError(f"episodes must have up to {len(PARTS)} parts, got {len(episode)} in {where}")
        found = [*episode, *[None] * (len(PARTS) - len(episode))]
    else:
        found = [getattr(episode, name, None) for name in PARTS]
    missing = [name for name, part in zip(PARTS[:3], found, strict=False) if part is None]
    if missing:
        raise ValueError(f"episodes must have {', '.join(PARTS[:3])}, got {where} without {' and '.join(missing)}")
    return found


def _numbers(name, values, where):
    """The checked finite numbers. An error names the step of the first that is not finite."""
    try:
        found = as_numbers(name, values)
    except ValueError as error:
        raise ValueError(f"{error} in {where}") from error
    wrong = ~np.isfinite(found)
    if wrong.any():
        at = np.argwhere(wrong)[0]
        raise ValueError(f"{name} must be finite, got {found[tuple(at)]} in step {at[0]} of {where}")
    return found


def _steps(actions, n):
    """One action for each step, from actions that may have several parts."""
    if isinstance(actions, Mapping):
        return [{name: part[k] for name, part in actions.items()} for k in range(n)]
    if isinstance(actions, tuple):
        return list(zip(*actions, strict=True))
    return actions


def _check_action(action, where):
    parts = action.values() if isinstance(action, Mapping) else action if isinstance(action, tuple) else [action]
    for part in parts:
        number = np.asarray(part)
        if part is None or (number.dtype.kind == "f" and not np.isfinite(number).all()):
            raise ValueError(f"actions must be finite, got {short(part)} in {where}")


def _ends(name, values, n, where):
    """Whether each of n steps ends the episode."""
    given = np.asarray(False if values is None else values)
    if given.dtype.kind in "iuf" and np.isin(given, (0, 1)).all():
        given = given.astype(bool)
    if given.dtype != bool or given.shape not in ((), (n,)):
        raise ValueError(
            f"{name} must be booleans, one or {n} of them, got {given.dtype} of shape {given.shape} in {where}"
        )
    ends = np.zeros(n, dtype=bool)
    if given.shape:
        ends |= given
    elif n:
        ends[-1] = given
    early = np.flatnonzero(ends[:-1])
    if len(early):
        raise ValueError(
            f"{name} must be False before the last step of an episode, got True in step {early[0]} of {where}, "
            f"which has {n}: make the steps after it an episode of their own"
        )
    return ends


def _observed(observations, where, leaves, n):
    """Observations as rows of numbers."""
    if isinstance(observations, list) and observations and isinstance(observations[0], Mapping):
        observations = {name: [seen[name] for seen in observations] for name in observations[0]}
    if leaves is not None:
        first = observations
        for key in leaves[0][0]:
            first = first[key]
        return _numbers("observations", rows_of(observations, leaves, len(first)), where)
    if isinstance(observations, (Mapping, tuple)):
        parts = observations.values() if isinstance(observations, Mapping) else observations
        return np.hstack([_observed(part, where, None, n) for part in parts])
    found = _numbers("observations", observations, where)
    return found.reshape(len(found), -1) if found.ndim else found.reshape(1, 1)
