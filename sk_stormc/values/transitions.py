"""Validation of logged transitions, and their successors."""


import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array, check_X_y, validate_data

from sk_stormc.utils.validation import as_numbers, check_numeric, naming
from sk_stormc.utils.warnings import warn
from sk_stormc.values.guards import warn_of_ranges, warn_of_scales

__all__ = [
    "check_next",
    "check_ratios",
    "check_terminal",
    "check_time",
    "checked_data",
    "successors",
    "successors_to_score",
    "transform",
    "transform_next",
]


def check_terminal(terminal, n):
    """The checked terminal flags, n booleans."""
    given = np.asarray(terminal)
    if given.shape != (n,):
        raise ValueError(f"terminal must be of shape ({n},), got {given.shape}")
    if given.dtype == object and all(isinstance(v, (bool, np.bool_)) for v in given):
        given = given.astype(bool)
    if given.dtype != bool:
        raise ValueError(f"terminal must be boolean, got {given.dtype} values such as {given[0]!r}")
    return given


def check_ratios(importance_ratio, n):
    """The n checked importance ratios. None means ones."""
    if importance_ratio is None:
        return np.ones(n)
    ratios = as_numbers("importance_ratio", importance_ratio)
    if ratios.shape != (n,):
        raise ValueError(f"importance_ratio must be of shape ({n},), got {ratios.shape}")
    wrong = ~(np.isfinite(ratios) & (ratios >= 0))
    if wrong.any():
        k = np.argmax(wrong)
        raise ValueError(f"importance_ratio must be finite and >= 0, got {ratios[k]} in row {k}")
    return ratios


def check_time(time, n, distinct=True):
    """The n checked times: integers, which must be distinct if ``distinct``."""
    given = np.asarray(time)
    if given.shape != (n,):
        raise ValueError(f"time must be of shape ({n},), got {given.shape}")
    if not np.issubdtype(given.dtype, np.integer):
        raise ValueError(f"time must be integers, got {given.dtype} values such as {given[0]!r}")
    values, counts = np.unique(given, return_counts=True) if distinct else (given, np.ones(1))
    if counts.max() > 1:
        raise ValueError(
            f"time must have distinct values, got {values[np.argmax(counts)]} {counts.max()} times. If it begins again "
            "in each episode, give episode=, or continue it from the episode before, with a gap between them."
        )
    return given


def checked_data(estimator, X, y, reset=True):
    """The checked states and rewards as numbers. Dates are refused."""
    check_numeric("X", X)
    check_numeric("y", y)
    with naming("X"):
        states = validate_data(estimator, X, reset=reset, dtype=np.float64)
    with naming("y"):
        y = _finite("y", y)
        _, y = check_X_y(states, y, dtype=None, ensure_all_finite=False, y_numeric=True, estimator=estimator)
    return states, y


def _finite(name, values):
    """Return the values unchanged, or raise a ValueError that names the first row that is not finite."""
    numbers = np.asarray(values)
    wrong = ~np.isfinite(numbers) if numbers.dtype.kind == "f" and numbers.ndim else np.zeros(1, dtype=bool)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise ValueError(f"{name} must be finite, got {numbers[at]} in row {at[0]}")
    return values


def check_next(estimator, next_X, states, terminal):
    """The checked successors as finite numbers. Rows of terminal transitions are ignored."""
    check_numeric("next_X", next_X)
    try:
        follows = validate_data(estimator, next_X, reset=False, dtype=np.float64, ensure_all_finite=False)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"next_X must have the columns of X: {error}") from error
    if follows.shape != states.shape:
        raise ValueError(f"next_X must be of shape {states.shape}, as X is, got {follows.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(follows.sum()):  # then all are finite, and no copy is needed
            return follows
    follows = np.where(terminal[:, None], states, follows)
    wrong = ~np.isfinite(follows).all(axis=1)
    if wrong.any():
        raise ValueError(f"next_X must be finite where not terminal, got NaN or infinity in row {np.argmax(wrong)}")
    return follows


def successors(estimator, X, states, next_X, terminal, time):
    """Find the successor of each row."""
    n = len(states)
    rows, everything = np.arange(n), np.ones(n, dtype=bool)
    if next_X is None and terminal is None and time is None:
        warn(
            "fit was given neither next_X nor terminal nor time nor episode: each row is taken as an episode of one "
            "step, whose value is the expected reward.",
            UserWarning,
        )
        return X, states, rows, everything, everything.copy()
    terminal = np.zeros(n, dtype=bool) if terminal is None else check_terminal(terminal, n)
    if next_X is not None:
        if time is not None:
            raise ValueError("time must be None if next_X is given, which has the successors")
        follows = check_next(estimator, next_X, states, terminal)
        warn_of_ranges(states, follows, terminal)
        warn_of_scales(states, follows, terminal)
        return next_X, follows, rows, everything, terminal
    if time is None:
        if not terminal.all():
            warn(
                f"fit was given neither next_X nor time: {np.count_nonzero(~terminal)} rows that are not terminal have "
                "no successor and are dropped.",
                UserWarning,
            )
        return X, states, rows, terminal.copy(), terminal
    time = check_time(time, n)
    order = np.argsort(time)
    rows = np.zeros(n, dtype=np.intp)
    rows[order[:-1]] = order[1:]
    consecutive = np.zeros(n, dtype=bool)
    consecutive[order[:-1]] = time[order[1:]] == time[order[:-1]] + 1
    return X, states, rows, consecutive | terminal, terminal


def successors_to_score(estimator, X, states, next_X, terminal, time):
    """As `successors`, for transitions to be scored. Without next_X and time, all of them must be terminal."""
    n = len(states)
    if next_X is not None or time is not None:
        return successors(estimator, X, states, next_X, terminal, time)
    terminal = np.ones(n, dtype=bool) if terminal is None else check_terminal(terminal, n)
    if not terminal.all():
        missing = np.count_nonzero(~terminal)
        raise ValueError(
            f"next_X must be given for transitions that are not terminal, or time; got neither for {missing}"
        )
    return X, states, np.arange(n), terminal, terminal


def transform(features, X, states, rows, intercept):
    """Features of some rows of X, with a column of ones if ``intercept``. ``states`` are the numbers of X."""
    if features is None:
        Z = states if rows is None else states[rows]
    else:
        Z = features.transform(X if rows is None else _safe_indexing(X, rows))
        Z = check_array(Z, accept_sparse="csr", dtype=np.float64, input_name="features of X")
        Z = sparse.csr_array(Z) if sparse.issparse(Z) else Z
    if not intercept:
        return Z
    n, d = Z.shape
    if sparse.issparse(Z):
        return sparse.csr_array(sparse.hstack([Z, np.ones((n, 1))]))
    whole = np.empty((n, d + 1))
    whole[:, :d], whole[:, d] = Z, 1.0
    return whole


def transform_next(features, source, follows, rows, terminal, Z, intercept):
    """Features of the successors of transitions with features Z. They are 0 after terminal transitions."""
    n, d = Z.shape
    going = np.flatnonzero(~terminal)
    if not len(going):
        return sparse.csr_array((n, d)) if sparse.issparse(Z) else np.zeros((n, d))
    if features is None and not sparse.issparse(Z):  # a single copy of all rows
        at = None if follows.shape[0] == n and (rows == np.arange(n)).all() else rows
        result = transform(None, source, follows, at, intercept)
        result = result.copy() if result is follows else result
        result[terminal] = 0.0
        return result
    known = transform(features, source, follows, rows[going], intercept)
    if len(going) == n:
        return known
    if not sparse.issparse(known):
        result = np.zeros((n, d))
        result[going] = known
        return result
    at = sparse.csr_array((np.ones(len(going)), (going, np.arange(len(going)))), shape=(n, len(going)))
    return at @ known
