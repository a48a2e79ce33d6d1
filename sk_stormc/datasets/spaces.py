"""Observations of Gymnasium's spaces as rows of numbers, and the log of transitions."""

import math
from collections.abc import Mapping

import numpy as np
from sklearn.utils import Bunch

from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import short


class SpaceColumns:
    """The numbers of an observation, one column each. ``whose`` names the space in
    error messages."""

    def __init__(self, space, whose="env"):
        from gymnasium.spaces.utils import flatten_space

        self.plain = _plain(space, whose)
        # one Box, bounded where a column is discrete
        self.bounds = flatten_space(self.plain)
        self.discrete = np.isfinite(self.bounds.low)
        own = (
            "env must give observations of its own space"
            if whose == "env"
            else "observations must be of their space"
        )
        self.wrong = f"{own}, {space}; got "

    def empty(self, n):
        """An empty array for n observations. It is float32 if all parts of the space
        are float32."""
        return np.empty((n, *self.bounds.shape), self.bounds.dtype)

    def row(self, observation):
        """The numbers of an observation."""
        from gymnasium.spaces.utils import flatten

        try:
            row = flatten(self.plain, observation)
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(self.wrong + short(observation)) from error
        if row.shape != self.bounds.shape:
            raise ValueError(self.wrong + short(observation))
        return row

    def rows(self, batch):
        """The rows of several observations: a list, or the batched form of Gymnasium
        with an array for each part."""
        from gymnasium.spaces import Box
        from gymnasium.vector.utils import batch_space, iterate

        if isinstance(self.plain, Box):
            try:
                return np.array(batch, self.bounds.dtype).reshape(
                    len(batch), *self.bounds.shape
                )
            except (TypeError, ValueError) as error:
                raise ValueError(self.wrong + short(batch)) from error
        try:
            each = (
                batch
                if isinstance(batch, list)
                else list(iterate(batch_space(self.plain), batch))
            )
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(self.wrong + short(batch)) from error
        return np.array([self.row(one) for one in each], self.bounds.dtype).reshape(
            len(each), -1
        )

    def checked(self, rows, one_hot):
        """The rows, with discrete columns validated, and with ``one_hot`` encoded as
        one indicator for each value."""
        at = np.flatnonzero(self.discrete)
        if not len(at):
            return rows
        low, high, numbers = self.bounds.low, self.bounds.high, rows[:, at]
        wrong = ~(
            (numbers >= low[at]) & (numbers <= high[at]) & (numbers == np.rint(numbers))
        )
        if wrong.any():
            raise ValueError(f"{self.wrong}{numbers[wrong][0]:g}")
        if not one_hot:
            return rows
        parts = [
            rows[:, [j]] == np.arange(low[j], high[j] + 1)
            if self.discrete[j]
            else rows[:, [j]]
            for j in range(rows.shape[1])
        ]
        return np.hstack(parts, dtype=rows.dtype)


class Observations:
    """The form of all observations of a log, from the space if there is one, otherwise
    from the first ones."""

    def __init__(self, space):
        self.columns = (
            None if space is None else SpaceColumns(space, "observation_space")
        )
        self.first = None

    def rows(self, observations, name="observations", where=None):
        """Observations as rows of finite numbers."""
        if self.columns is not None:
            return finite_numbers(name, self.columns.rows(observations), where)
        parts = parts_of(name, observations, where)
        widths = {key: part.shape[1] for key, part in parts.items()}
        self.first = self.first or widths
        if widths != self.first:
            own, first = (
                sum(w.values()) if w.keys() == {()} else short(w)
                for w in (widths, self.first)
            )
            raise ValueError(
                f"{name} must have the same columns in all episodes, got {own} in "
                f"{where or name} and {first} in the first one"
            )
        return np.hstack([parts[key] for key in self.first])

    def checked(self, rows, one_hot):
        """The rows, with indicators if there is a space and ``one_hot`` is true."""
        return rows if self.columns is None else self.columns.checked(rows, one_hot)


def parts_of(name, observations, where, path=()):
    """The parts of observations without a space, by their keys, each as rows of
    numbers."""
    if (
        isinstance(observations, list)
        and observations
        and isinstance(observations[0], Mapping)
    ):
        keys = observations[0].keys()
        wrong = next(
            (
                seen
                for seen in observations
                if not isinstance(seen, Mapping) or seen.keys() != keys
            ),
            None,
        )
        if wrong is not None:
            where = where or name
            raise ValueError(
                f"{name} must have the keys {list(keys)} in each step of {where}, got "
                f"{short(wrong)}"
            )
        observations = {key: [seen[key] for seen in observations] for key in keys}
    if isinstance(observations, (Mapping, tuple)):
        items = (
            observations.items()
            if isinstance(observations, Mapping)
            else enumerate(observations)
        )
        parts = {}
        for key, part in items:
            parts |= parts_of(name, part, where, (*path, key))
        if len({len(part) for part in parts.values()}) != 1:
            raise ValueError(
                f"{name} must have parts of one length, got {short(observations)} in "
                f"{where or name}"
            )
        return parts
    rows = finite_numbers(name, observations, where)
    return {
        path: rows.reshape(len(rows), math.prod(rows.shape[1:]))
        if rows.ndim
        else rows.reshape(1, 1)
    }


def finite_numbers(name, values, where=None):
    """The checked finite numbers. An error message names the step of an episode, or the
    row of flat arrays."""
    try:
        numbers = as_numbers(name, values)
    except ValueError as error:
        raise ValueError(f"{error} in {where}" if where else str(error)) from error
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        at = np.argwhere(wrong)[0]
        raise ValueError(
            f"{name} must be finite, got {numbers[tuple(at)]} in "
            f"{place_of(at[0] if len(at) else 0, where)}"
        )
    return numbers


def place_of(k, where):
    """The name of a step of an episode, or of a row of flat arrays."""
    return f"step {k} of {where}" if where else f"row {k}"


def _plain(space, whose, where=""):
    """The space with a Box of floats in place of each part. For a discrete part it has
    the bounds of the part."""
    from gymnasium import spaces

    if isinstance(space, spaces.Tuple):
        return spaces.Tuple(
            [
                _plain(part, whose, f"{where}[{k}]")
                for k, part in enumerate(space.spaces)
            ]
        )
    if isinstance(space, spaces.Dict):
        return spaces.Dict(
            [
                (key, _plain(part, whose, f"{where}[{key!r}]"))
                for key, part in space.spaces.items()
            ]
        )
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        first = np.asarray(space.start, dtype=float)
        number = space.nvec if isinstance(space, spaces.MultiDiscrete) else space.n
        return spaces.Box(first, first + number - 1, dtype=np.float64)
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        single = space.dtype == np.float32
        return spaces.Box(
            -np.inf, np.inf, space.shape, np.float32 if single else np.float64
        )
    raise ValueError(
        f"{whose} must have observations of Box, Discrete, MultiDiscrete or "
        "MultiBinary, or a Tuple or Dict of them, "
        f"got {short(space)}{where and f' at {where}'}"
    )


def log_of(left, rewards, came, terminal, episode, actions, columns, one_hot):
    """The Bunch of `collect_transitions`, from rows in the order of their episodes."""
    for name, numbers in (
        ("rewards", rewards[:, None]),
        ("observations", left),
        ("observations", came),
    ):
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            k = np.argmax(wrong.any(axis=1))
            raise ValueError(
                f"env must give finite {name}, got {numbers[wrong][0]} in row {k}"
            )
    return Bunch(
        X=columns.checked(left, one_hot),
        y=rewards,
        next_X=columns.checked(came, one_hot),
        terminal=terminal,
        time=np.cumsum(np.append(0, np.where(np.diff(episode) != 0, 2, 1))),
        action=actions,
        episode=episode,
    )
