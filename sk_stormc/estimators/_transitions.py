"""Logged transitions as a user gives them, checked, and where each one leads."""

import warnings

import numpy as np
from sklearn.utils.validation import validate_data

from sk_stormc._validation import as_numbers, check_weights

__all__ = ["check_next", "check_terminal", "check_time", "successors", "transition_weights"]


def transition_weights(sample_weight, n):
    """Weights of n transitions, ones if there are none; one number is all of them."""
    if sample_weight is None:
        return np.ones(n)
    weights = as_numbers("sample_weight", sample_weight)
    return check_weights(np.full(n, weights) if weights.ndim == 0 else weights, n, "in row")


def check_terminal(terminal, n):
    """Whether episodes end, as n booleans."""
    given = np.asarray(terminal)
    if given.shape != (n,):
        raise ValueError(f"terminal must be of shape ({n},), got {given.shape}")
    if given.dtype == object and all(isinstance(v, (bool, np.bool_)) for v in given):
        given = given.astype(bool)
    if given.dtype != bool:
        raise ValueError(f"terminal must be boolean, got {given.dtype} values such as {given[0]!r}")
    return given


def check_time(time, n):
    """n distinct integers."""
    given = np.asarray(time)
    if given.shape != (n,):
        raise ValueError(f"time must be of shape ({n},), got {given.shape}")
    if not np.issubdtype(given.dtype, np.integer):
        raise ValueError(f"time must be integers, got {given.dtype} values such as {given[0]!r}")
    values, counts = np.unique(given, return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"time must have distinct values, got {values[np.argmax(counts)]} {counts.max()} times")
    return given


def check_next(estimator, next_X, states, terminal):
    """Successors as numbers; where the episode ends, the states themselves, so that what is there does not matter."""
    try:
        follows = validate_data(
            estimator, next_X, reset=False, dtype=np.float64, ensure_all_finite=False, copy=True
        )
    except ValueError as error:
        raise ValueError(f"next_X must have the columns of X: {error}") from error
    if follows.shape != states.shape:
        raise ValueError(f"next_X must be of shape {states.shape}, as X is, got {follows.shape}")
    follows[terminal] = states[terminal]
    wrong = ~np.isfinite(follows).all(axis=1)
    if wrong.any():
        raise ValueError(f"next_X must be finite where not terminal, got NaN or infinity in row {np.argmax(wrong)}")
    return follows


def successors(estimator, X, states, next_X, terminal, time):
    """Where the successors are.

    Returns
    -------
    source, follows : the data to be transformed, and their numbers
    rows : ndarray of shape (n,)
        The successor of each row is this row of them.
    kept : ndarray of shape (n,), bool
        Rows with a successor, or terminal.
    terminal : ndarray of shape (n,), bool
    """
    n = len(states)
    rows, everything = np.arange(n), np.ones(n, dtype=bool)
    if next_X is None and terminal is None and time is None:
        warnings.warn(
            "fit was given neither next_X nor terminal nor time: each row is taken as an episode of one step, whose "
            "value is the expected reward.",
            UserWarning,
            stacklevel=3,
        )
        return X, states, rows, everything, everything.copy()
    terminal = np.zeros(n, dtype=bool) if terminal is None else check_terminal(terminal, n)
    if next_X is not None:
        if time is not None:
            raise ValueError("time must be None where next_X is given, which says what follows")
        return next_X, check_next(estimator, next_X, states, terminal), rows, everything, terminal
    if time is None:
        if not terminal.all():
            warnings.warn(
                f"fit was given neither next_X nor time: {np.count_nonzero(~terminal)} rows that are not terminal have "
                "no successor and are dropped.",
                UserWarning,
                stacklevel=3,
            )
        return X, states, rows, terminal.copy(), terminal
    time = check_time(time, n)
    order = np.argsort(time)
    rows = np.zeros(n, dtype=np.intp)
    rows[order[:-1]] = order[1:]
    consecutive = np.zeros(n, dtype=bool)
    consecutive[order[:-1]] = time[order[1:]] == time[order[:-1]] + 1
    return X, states, rows, consecutive | terminal, terminal
