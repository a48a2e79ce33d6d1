"""`BellmanValueEstimator.partial_fit`: the transitions of a chunk, their weights, and a warning."""

import math

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.utils.validation import row_weights
from sk_stormc.utils.warnings import warn
from sk_stormc.values.episodes import check_episode, in_order
from sk_stormc.values.forgetting import fading, remaining
from sk_stormc.values.guards import warn_of_state_numbers
from sk_stormc.values.lstd import UNGROUPED, check_stays, forget, stream_moments
from sk_stormc.values.objectives import value_stream, window_of
from sk_stormc.values.transitions import (
    check_ratios,
    check_terminal,
    check_time,
    checked_data,
    successors,
    transform,
    transform_next,
)
from sk_stormc.values.uncertainty import LARGEST, Groups
from sk_stormc.values.waiting import Waiting, follow

__all__ = ["go_on", "transitions", "warn_if_unsettled"]

SETTLED = 0.4  # allowed distance from the solution of the transitions, relative to the sampling error
ROUNDING = 1e-4  # allowed distance from this solution, relative to the values


def transitions(estimator, features, X, states, y, given):
    """Rows, keys for `Collected.plus`, rows that wait for their successors, and the order in time, of a chunk."""
    n, waiting = len(y), None
    ratios = check_ratios(given.importance_ratio, n)
    weights = row_weights(given.sample_weight, n, all_zero=True) * ratios
    labels = None if given.episode is None else check_episode(given.episode, n)
    Z = transform(features, X, states, None, estimator.fit_intercept)
    if given.next_X is None and (given.time is not None or labels is not None):
        ends = np.zeros(n, dtype=bool) if given.terminal is None else check_terminal(given.terminal, n)
        time = None if given.time is None else check_time(given.time, n, distinct=labels is None)
        came = Waiting(Z, y.astype(float), weights, ratios, time, labels)
        rows, keys, waiting, when = follow(estimator.__dict__.get("_pending"), came, ends)
    else:
        source, follows, at, kept, terminal = successors(
            estimator, X, states, given.next_X, given.terminal, given.time
        )
        _, clock = in_order(given.episode, None, terminal, n)
        order = np.flatnonzero(kept)
        if clock is not None:
            order = order[np.argsort(clock[order])]
        Z, at, terminal = Z[order], at[order], terminal[order]
        next_Z = transform_next(features, source, follows, at, terminal, Z, estimator.fit_intercept)
        rows = Z, next_Z, y[order].astype(float), weights[order]
        left, after = states[order], follows[at]
        if labels is not None:
            labels = labels[order]
            left = after = np.zeros((len(order), 1), dtype=int)  # equal keys: the next row of an episode continues it
        keys, when = (left, after, terminal, ratios[order], labels), order
    return rows, keys, waiting, when


def faded(estimator, rows, keys, when):
    """Rows and keys with discounted weights. Rows of weight 0 are dropped, unless traces need them."""
    rows = *rows[:3], rows[3] * fading(estimator.half_life, when)
    known = rows[3] > 0
    if not known.all() and not estimator.trace_decay:
        rows, keys = (tuple(part if part is None else part[known] for part in parts) for parts in (rows, keys))
    return rows, keys


def go_on(estimator, X, y, given):
    """`BellmanValueEstimator.partial_fit`, on a copy that is discarded if anything is raised."""
    estimator._make_solver()  # raises if a parameter of the solver is wrong
    labelled = given.episode is not None
    named = given.told(vars(estimator).get("_given"))
    fitted = hasattr(estimator, "coef_")
    states, y = checked_data(estimator, X, y, reset=not fitted)
    if not fitted:
        warn_of_state_numbers(estimator.features, states)
    features = estimator.features_ if fitted else estimator.features and clone(estimator.features).fit(X, y)
    rows, keys, waiting, when = transitions(estimator, features, X, states, y, given)
    d = rows[0].shape[1]
    exact = estimator._solver_for(0 if estimator.trace_decay else d) == "lstd"
    if estimator.gamma == 1 and not exact:
        raise ValueError(f"gamma must be < 1 for partial_fit, except with solver='lstd', got {estimator.gamma!r}")
    held = check_stays(estimator, exact, labelled)
    came, left = rows, remaining(estimator.half_life, len(when))
    rows, keys = faded(estimator, rows, keys, when)
    groups = vars(estimator).get("_groups")
    if labelled and d <= LARGEST:
        groups = groups or Groups.none(d, estimator.gamma, estimator.trace_decay)
        groups = groups.plus(*rows, keys, left)
    if exact:
        vars(estimator).update(stream_moments(estimator, rows, keys, left))
    else:
        if estimator.half_life is not None:  # the stream discounts the weights itself, in the order of time
            rows = tuple(part[np.argsort(when, kind="stable")] for part in came)
        forget(estimator)
        x = np.append(estimator.coef_, estimator.intercept_)[:d] if fitted else np.zeros(d)
        x = values_on(estimator, rows, x) if len(rows[2]) else x
        estimator.coef_, estimator.intercept_ = (x[:-1], float(x[-1])) if estimator.fit_intercept else (x, 0.0)
        estimator.objective_, estimator.objective_reason_ = "projected", UNGROUPED
    estimator.features_, estimator._pending, estimator._given = features, waiting, named
    estimator._held, estimator._groups, estimator._spread = held, groups, None
    vars(estimator).pop("n_states_", None)  # from an earlier fit


def values_on(estimator, rows, x):
    """The coefficients after these rows. x are those before."""
    window = window_of(rows[0].shape[1])

    def open_stream(batches):
        return value_stream(
            batches, window, estimator.gamma, estimator.alpha, estimator.fit_intercept, estimator.half_life
        )

    result = estimator._stream_on(rows, window, open_stream, x if x.any() else None, settles=True)
    if result is None:
        return x
    if result.n_iter:
        warn_if_unsettled(estimator._stream[0], result.x)
    return result.x


def warn_if_unsettled(stream, x):
    """Warn if values are farther from the solution of their transitions than sampling noise explains."""
    newton = stream.newton
    with np.errstate(over="ignore", invalid="ignore"):
        way = newton.spread(newton.apply(newton.gradient(x)))
        noise, spread = stream.noise(x), newton.spread(x)
        near = SETTLED * newton.sampling_error(noise) + ROUNDING * spread
    if way <= near:
        return
    size = f"{way:.3g}" if math.isfinite(way) else "far"
    warn(
        f"the values are {size} (root mean square) from the projected solution of the transitions so far, and their "
        f"own size is {spread:.3g}. Use more transitions, solver='storm-c' with its automatic learning rate, or "
        "solver='lstd', which computes that solution exactly.",
        ConvergenceWarning,
    )
