"""Conversion of observations of Gymnasium's spaces to rows of numbers, and the log of transitions."""

import numpy as np
from sklearn.utils import Bunch

from sk_stormc.utils.validation import short

__all__ = ["check_range", "empty_rows", "indicators", "leaves_of", "log_of", "pull", "rows_of"]


def leaves_of(space, path=(), whose="env"):
    """The plain spaces within a space, as a list of (path of keys, space, number of entries)."""
    from gymnasium import spaces

    if isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return [(path, space, int(np.prod(space.shape)))]
    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return [leaf for key, part in parts for leaf in leaves_of(part, (*path, key), whose)]
    where = "".join(f"[{key!r}]" for key in path)
    raise ValueError(
        f"{whose} must have observations of Box, Discrete, MultiDiscrete or MultiBinary, or a Tuple or Dict of them, "
        f"got {short(space)}{where and f' at {where}'}"
    )


def empty_rows(n, leaves):
    """An empty array for n observations. It is float32 if all spaces are float32 Boxes."""
    single = all(type(space).__name__ == "Box" and space.dtype == np.float32 for _, space, _ in leaves)
    return np.empty((n, sum(size for _, _, size in leaves)), np.float32 if single else np.float64)


def pull(observation, leaves, row):
    """Write an observation's numbers into a row."""
    begin = 0
    for path, _, size in leaves:
        value = observation
        for key in path:
            value = value[key]
        row[begin : begin + size] = value if size == 1 and np.isscalar(value) else np.ravel(value)
        begin += size


def _values(space):
    """The first value and the number of values of each column of a discrete space, or None for other spaces."""
    if hasattr(space, "nvec"):
        return list(zip(np.ravel(space.start).tolist(), np.ravel(space.nvec).tolist(), strict=True))
    return [(int(space.start), int(space.n))] if hasattr(space, "start") else None


def rows_of(batch, leaves, n):
    """The rows of n observations in Gymnasium's batched form, which has one array for each plain space.

    Returns
    -------
    ndarray of shape (n, n_numbers)
    """
    rows, begin = empty_rows(n, leaves), 0
    for path, _, size in leaves:
        value = batch
        for key in path:
            value = value[key]
        rows[:, begin : begin + size] = np.reshape(value, (n, size))
        begin += size
    return rows


def check_range(numbers, leaves, what="env must give observations of its own space"):
    """Raise a ValueError if a discrete observation is not in its space."""
    begin = 0
    for _, space, size in leaves:
        for j, (start, n) in enumerate(_values(space) or ()):
            column = numbers[:, begin + j]
            wrong = ~((column >= start) & (column < start + n))
            if wrong.any():
                raise ValueError(f"{what}, {space}; got {column[wrong][0]:g}")
        begin += size


def indicators(numbers, leaves):
    """Replace discrete columns by one indicator for each value. Other columns stay unchanged."""
    parts, begin = [], 0
    for _, space, size in leaves:
        block = numbers[:, begin : begin + size]
        values = _values(space)
        if values is None:
            parts.append(block)
        else:
            parts += [block[:, [j]] == start + np.arange(n) for j, (start, n) in enumerate(values)]
        begin += size
    return parts[0].astype(numbers.dtype, copy=False) if len(parts) == 1 else np.hstack(parts, dtype=numbers.dtype)


def log_of(left, rewards, came, terminal, episode, actions, leaves, one_hot):
    """The Bunch of `collect_transitions`, from rows in the order of their episodes."""
    check_range(left, leaves)
    check_range(came, leaves)
    wrong = ~np.isfinite(rewards)
    if wrong.any():
        raise ValueError(f"env must give finite rewards, got {rewards[wrong][0]} in row {np.argmax(wrong)}")
    return Bunch(
        X=indicators(left, leaves) if one_hot else left,
        y=rewards,
        next_X=indicators(came, leaves) if one_hot else came,
        terminal=terminal,
        time=np.cumsum(np.append(0, np.where(np.diff(episode) != 0, 2, 1))),
        action=actions,
        episode=episode,
    )
