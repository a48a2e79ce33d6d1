"""What `partial_fit` needs besides a run: weights of rows, transitions of a chunk, and a warning."""

import math

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc._validation import as_numbers, check_weights
from sk_stormc._warnings import warn
from sk_stormc.estimators._traces import keys_of_times
from sk_stormc.estimators._transitions import check_terminal, check_time, follow, successors, transform, transform_next

__all__ = ["row_weights", "transitions", "warn_if_unsettled"]

SETTLED = 0.4  # of the sampling error: how far values may be from what their transitions say
ROUNDING = 1e-4  # of the values: nearer than this is near enough, whatever the sampling error


def row_weights(sample_weight, n):
    """Weights of the n rows of a chunk, ones if there are none: finite, >= 0, and all of them may be 0."""
    if sample_weight is None:
        return np.ones(n)
    weights = as_numbers("sample_weight", sample_weight)
    weights = np.full(n, weights) if weights.ndim == 0 else weights
    return weights if weights.shape == (n,) and not weights.any() else check_weights(weights, n, "in row")


def transitions(estimator, features, X, states, y, next_X, terminal, time, sample_weight):
    """The rows of a chunk as a stream has them, those of weight 0 left out.

    Returns
    -------
    rows : tuple
        Features, features of the successors (0 where an episode ended), rewards, weights.
    keys : tuple
        For `goes_on`.
    pending : tuple or None
        The last row, where its successor has not come yet.
    """
    weights, pending = row_weights(sample_weight, len(y)), None
    Z = transform(features, X, states, None, estimator.fit_intercept)
    if time is not None and next_X is None:
        ends = np.zeros(len(y), dtype=bool) if terminal is None else check_terminal(terminal, len(y))
        before = estimator.__dict__.get("_pending")
        time = check_time(time, len(y))
        rows, pending = follow(before, Z, y, ends, time, weights)
        keys = keys_of_times(before, ends, time)
    else:
        source, follows, at, kept, terminal = successors(estimator, X, states, next_X, terminal, time)
        Z = Z[kept]
        next_Z = transform_next(features, source, follows, at[kept], terminal[kept], Z, estimator.fit_intercept)
        rows = Z, next_Z, y[kept], weights[kept]
        keys = states[kept], follows[at[kept]], terminal[kept]
    known = rows[3] > 0
    if not known.all():
        rows, keys = (tuple(part[known] for part in parts) for parts in (rows, keys))
    return (*rows[:2], rows[2].astype(float), rows[3]), keys, pending


def warn_if_unsettled(stream, x):
    """Warn where values are farther from the solution of their transitions than sampling accounts for.

    Parameters
    ----------
    stream : TransitionStream
    x : ndarray of shape (n_features,)
    """
    moments = stream.moments
    with np.errstate(over="ignore", invalid="ignore"):
        way = moments.spread(moments.apply(moments.gradient(x)))
        noise, spread = stream.noise(x), moments.spread(x)
        near = SETTLED * moments.sampling_error(noise) + ROUNDING * spread
    if way <= near:
        return
    size = f"{way:.3g}" if math.isfinite(way) else "far"
    warn(
        f"the values are {size} (root mean square) from the projected solution of the transitions so far, and their "
        f"own size is {spread:.3g}. More transitions, solver='storm-c' with its automatic learning rate, or "
        "solver='lstd', which takes that solution itself.",
        ConvergenceWarning,
    )
