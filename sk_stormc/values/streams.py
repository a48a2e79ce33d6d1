"""`partial_fit` of both estimators: the transitions of a chunk, and the values after
it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.solvers import StopReason
from sk_stormc.streams.problem import WINDOW, stack
from sk_stormc.utils.validation import is_word, row_weights, short
from sk_stormc.utils.warnings import warn
from sk_stormc.values.episodes import (
    WARNED_SHARE,
    check_episode,
    check_terminal,
    check_time,
    fading,
    order_of,
    remaining,
)
from sk_stormc.values.log_warnings import warn_of_no_ends, warn_of_state_numbers
from sk_stormc.values.lspi import of_actions, of_columns
from sk_stormc.values.lstd import ILL_CONDITIONED, Collected, attributes_of, forget
from sk_stormc.values.markov import refuse_rows, scale_rows
from sk_stormc.values.policies import check_actions, chosen, numbers_of
from sk_stormc.values.states import checked_data
from sk_stormc.values.transition_stream import TransitionStream
from sk_stormc.values.transitions import (
    check_ratios,
    fitted_features,
    order_of_log,
    successors,
    successors_in,
    transform,
)
from sk_stormc.values.uncertainty import MAX_GROUPED_FEATURES, Groups

# features for which the moments, four square matrices, still fit in 512 MB
LARGEST_STREAM = 4000


# Chunks


@dataclass(frozen=True, eq=False)
class Waiting:
    """Rows without a successor so far: the last row of a stream or of each open
    episode, unless it is terminal."""

    Z: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    ratios: np.ndarray
    time: np.ndarray | None
    labels: np.ndarray | None

    def __getitem__(self, rows):
        return Waiting(
            *(None if part is None else part[rows] for part in vars(self).values())
        )

    def __len__(self):
        return len(self.y)

    def before(self, other):
        """These rows followed by other rows."""
        if self.labels is not None:
            # an episode without a row in a chunk has ended
            self = self[np.isin(self.labels, other.labels)]
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Waiting(
            *(None if old is None else stack([old, new]) for old, new in pairs)
        )


def follow(waiting, rows, terminal):
    """The transitions between successive rows, and the rows whose successors have not
    arrived yet."""
    if waiting is not None:
        rows = waiting.before(rows)
        terminal = np.append(np.zeros(len(rows) - len(terminal), dtype=bool), terminal)
    time, labels, n = rows.time, rows.labels, len(rows)
    if labels is None:
        refuse_rows(
            np.diff(time) <= 0,
            lambda k: (
                "time must increase from row to row and from call to call, got "
                f"{time[k]}, then {time[k + 1]}"
            ),
        )
    found = order_of(labels, time, terminal, n)
    at, known = successors_in(found, terminal)
    order = np.argsort(found.clock)
    kept = order[known[order]]
    next_Z = scale_rows(1.0 - terminal[kept], rows.Z[at[kept]])
    numbers = np.zeros(n) if labels is None else found.numbers[order]
    waits = order[np.append(np.diff(numbers) != 0, True) & ~terminal[order]]
    rest, rows = rows[waits] if len(waits) else None, rows[kept]
    left = np.zeros((len(kept), 1), dtype=int) if time is None else rows.time[:, None]
    after = left if time is None else left + 1
    keys = left, after, terminal[kept], rows.ratios, rows.labels
    return (rows.Z, next_Z, rows.y, rows.weights), keys, rest, kept


def opened(estimator, X, y):
    """The checked states and rewards of a chunk, and the transformer, which the first
    chunk fits."""
    fitted = hasattr(estimator, "coef_")
    states, y = checked_data(estimator, X, y, reset=not fitted)
    if fitted:
        return states, y.astype(float), estimator.features_
    return states, y.astype(float), fitted_features(estimator, X, y)


def read_chunk(estimator, features, X, states, y, log_columns):
    """Rows, keys for `Collected.plus`, rows without a successor so far, and the order
    in time, of a chunk."""
    n, labels, time = len(y), log_columns.episode, log_columns.time
    ratios = check_ratios(log_columns.importance_ratio, n)
    weights = row_weights(log_columns.sample_weight, n, all_zero=True) * ratios
    labels = None if labels is None else check_episode(labels, n)
    Z = transform(features, X, states, estimator.fit_intercept)
    if log_columns.next_X is None and (time is not None or labels is not None):
        ends = check_terminal(log_columns.terminal, n)
        time = None if time is None else check_time(time, n)
        if time is not None and time.dtype.kind != "i":
            raise ValueError(
                f"time must be whole numbers for partial_fit, got {time[0]}: number "
                "the steps"
            )
        rows = Waiting(Z, y, weights, ratios, time, labels)
        return follow(estimator._pending, rows, ends)
    rows = order_of_log(log_columns._replace(time=None), n)
    following = successors(estimator, X, states, log_columns, rows)
    order = np.arange(n) if rows is None else np.argsort(rows.clock)
    Z, following = Z[order], following.of(order)
    next_Z = following.features(features, Z, estimator.fit_intercept)
    left, after = states[order], following.states[following.at]
    if labels is not None:
        labels = labels[order]
        # equal keys: the next row of an episode continues it
        left = after = np.zeros((n, 1), dtype=int)
    keys = left, after, following.terminal, ratios[order], labels
    return (Z, next_Z, y[order], weights[order]), keys, None, order


class Counts(NamedTuple):
    """Numbers of the rows of a stream so far."""

    lost: int = 0  # neither terminal nor with a successor
    waiting: int = 0  # for a successor
    ongoing: int = 0  # with a successor
    ended: int = 0  # terminal

    def plus(self, n, terminal, waiting):
        """The counts after a chunk of n rows and the transitions with these terminal
        flags."""
        left, ended = len(waiting or ()), int(terminal.sum())
        lost = self.lost + self.waiting + n - len(terminal) - left
        return Counts(
            lost, left, self.ongoing + len(terminal) - ended, self.ended + ended
        )

    def unknown(self):
        """The fraction of rows that are not terminal whose successors are not known."""
        return (self.lost + self.waiting) / max(
            self.lost + self.waiting + self.ongoing, 1
        )

    def biased(self):
        """Whether ends count too much beside these rows, for good or by more than the
        error of the number of ends."""
        if not self.ended:
            return self.lost > self.ongoing == 0
        many = self.lost > WARNED_SHARE * (self.lost + self.ongoing)
        return many or self.unknown() > 1 / math.sqrt(self.ended)


def warn_of_lost(before, now):
    """Warn when the rows without a successor begin to matter."""
    if now.biased() and not before.biased():
        warn(
            f"{now.unknown():.1%} of the rows that are not terminal have no successor, "
            "because episodes were cut off, rows are missing or the next row has not "
            "come. Terminal rows then count too much. fit corrects this by weights, "
            "and partial_fit cannot: give next_X."
        )


# common functions of both estimators


def check_constant(estimator, held):
    """Return the parameters that must not change during a stream. Raise a ValueError if
    one has changed."""
    if estimator._stream is None and estimator._pending is None:
        return held
    for name, before in estimator._held.items():
        now = held[name]
        if before is now or (
            not callable(now) and not callable(before) and np.array_equal(before, now)
        ):
            continue
        before, now = (
            value if isinstance(value, str) else short(value) for value in (before, now)
        )
        raise ValueError(
            f"{name} must stay {before} while its stream goes on, got {now}: begin "
            "again with fit or a clone"
        )
    return held


def add_to_moments(estimator, rows, alpha, trace_decay=0.0, keys=None, left=1.0):
    """The moments of a stream with more rows, their solution, and the attributes of
    this."""
    d = rows[0].shape[1]
    if d > LARGEST_STREAM:
        raise ValueError(
            f"X must have at most {LARGEST_STREAM} features for partial_fit with "
            "solver='lstd', which keeps four matrices of n_features x n_features "
            f"numbers ({32 * d**2 / 1e9:.1f} GB here), got {d}, the intercept "
            "included, for all actions together: set a stochastic solver, or features= "
            "with fewer columns"
        )
    collected = estimator._stream
    warned = (
        collected is not None
        and vars(estimator).get("condition_number_", 0.0) >= ILL_CONDITIONED
    )
    collected = collected or Collected.none(d, estimator.gamma, trace_decay)
    if left != 1:
        collected = replace(collected, moments=collected.moments * left)
    collected = collected.plus(*rows, keys)
    moments, solution = collected.moments, collected.solution(alpha)
    exact = attributes_of(solution, moments.n_rows, StopReason.EXHAUSTED, warned=warned)
    return moments, solution.x, exact | {"_stream": collected}


# Values of states


def continue_stream(estimator, X, y, log_columns):
    """Run `BellmanValueEstimator.partial_fit` on a copy, which is discarded if an
    exception is raised."""
    estimator._make_solver()  # raises if a parameter of the solver is wrong
    labelled, fitted = log_columns.episode is not None, hasattr(estimator, "coef_")
    names = log_columns.names(estimator._given)
    states, y, features = opened(estimator, X, y)
    if not fitted:
        warn_of_state_numbers(estimator.features, states)
    rows, keys, waiting, order = read_chunk(
        estimator, features, X, states, y, log_columns
    )
    earlier = estimator._counts or Counts()
    counts = earlier.plus(len(y), keys[2], waiting)
    warn_of_lost(earlier, counts)
    if "terminal" not in names[0]:
        first = estimator._counts is None
        warn_of_no_ends(
            log_columns, first if labelled else earlier.lost == 0 < counts.lost
        )
    d, gamma, half_life = rows[0].shape[1], estimator.gamma, estimator.half_life
    exact = estimator._solver_for(0 if estimator.trace_decay else d) == "lstd"
    if gamma == 1 and not exact:
        raise ValueError(
            "gamma must be < 1 for partial_fit, except with solver='lstd', got "
            f"{gamma!r}"
        )
    check_kind(estimator, exact)
    names_held = (
        "gamma",
        "half_life",
        "fit_intercept",
        "trace_decay" if exact else "alpha",
    )
    held = {name: getattr(estimator, name) for name in names_held}
    held = check_constant(
        estimator, held | {"episode": "given" if labelled else "None"}
    )
    left = remaining(half_life, len(order))
    faded = *rows[:3], rows[3] * fading(half_life, order)
    groups = estimator._groups
    if labelled and d <= MAX_GROUPED_FEATURES:
        groups = groups or Groups.none(d, gamma, estimator.trace_decay)
        groups = groups.plus(*faded, keys, left)
    w = np.append(estimator.coef_, estimator.intercept_)[:d] if fitted else np.zeros(d)
    if exact:
        alpha, decay = estimator._alphas(d), estimator.trace_decay
        moments, x, exact = add_to_moments(estimator, faded, alpha, decay, keys, left)
        # otherwise the only row has no successor so far
        w = x if moments.weight or not fitted else w
        forget(estimator)
        vars(estimator).update(exact)
    else:
        # with a half-life the stream discounts the weights, in chronological order
        some = rows[3] > 0 if half_life is None else np.argsort(order, kind="stable")
        rows = tuple(part[some] for part in rows)
        forget(estimator)
        w = run_on_stream(estimator, rows, w) if len(rows[2]) else w
    vars(estimator).update(
        of_columns(w, estimator.fit_intercept),
        objective_="projected",
        objective_reason_="a stream does not group the transitions of a state",
        features_=features,
        _pending=waiting,
        _given=names,
        _held=held,
        _groups=groups,
        _spread=None,
        _counts=counts,
    )


def check_kind(estimator, exact):
    """Raise a ValueError if a stream of an iterative solver is continued with "lstd",
    or the reverse."""
    stream = estimator._stream
    if stream is not None and isinstance(stream, Collected) != exact:
        before = repr(estimator.solver_) if exact else "'lstd'"
        raise ValueError(
            f"solver must stay {before} while its stream goes on, got "
            f"{estimator.solver!r}: begin again with fit or a clone"
        )


def run_on_stream(estimator, rows, w):
    """The coefficients of an iterative solver after these rows. w are the coefficients
    before them."""
    d = len(w)
    window = max(WINDOW, 10 * d)

    def open_stream(batches):
        return TransitionStream(
            batches, window, estimator.gamma, estimator._alphas(d), estimator.half_life
        )

    result = estimator._stream_on(
        rows, window, open_stream, w if w.any() else None, settles=True
    )
    if result is None:
        return w
    if result.n_iter:
        warn_if_far(estimator._stream.stream, result.x)
    return result.x


def warn_if_far(stream, x):
    """Warn if values differ from the solution of their transitions by more than
    sampling noise explains."""
    newton = stream.newton
    with np.errstate(over="ignore", invalid="ignore"):
        distance = newton.spread(newton.apply(newton.gradient(x)))
        noise, spread = stream.noise(x), newton.spread(x)
        allowed = 0.4 * newton.sampling_error(noise) + 1e-4 * spread
    if distance <= allowed:
        return
    size = f"{distance:.3g}" if math.isfinite(distance) else "far"
    warn(
        f"the values are {size} (root mean square) from the projected solution of the "
        f"transitions so far, and their own size is {spread:.3g}. Use more "
        "transitions, solver='storm-c' with its automatic learning rate, or "
        "solver='lstd', which computes that solution exactly.",
        ConvergenceWarning,
    )


# Values of actions


def streams_actions(estimator):
    """Whether an `ActionValueEstimator` supports `partial_fit`; otherwise raise an
    AttributeError (see `only_if`)."""
    if is_word(vars(estimator)["policy"], "greedy"):
        raise AttributeError(
            "policy='greedy' evaluates several policies on all transitions, so it "
            "needs them at once: partial_fit is for a given policy"
        )
    if not is_word(estimator.solver, "auto", "lstd"):
        raise AttributeError(
            f"{estimator.solver!r} needs all transitions at once; for partial_fit set "
            "solver='auto'"
        )
    return True


def continue_action_stream(estimator, X, y, action, log_columns, actions):
    """Run `ActionValueEstimator.partial_fit` on a copy, which is discarded if an
    exception is raised."""
    policy, intercept = vars(estimator)["policy"], estimator.fit_intercept
    held = check_constant(
        estimator,
        {"gamma": estimator.gamma, "fit_intercept": intercept, "policy": policy},
    )
    names = log_columns.names(estimator._given)
    states, y, features = opened(estimator, X, y)
    taken = check_actions(action, len(y))
    labels = labels_of(estimator, taken, actions)
    taken = numbers_of(
        taken,
        labels,
        among="the actions of this stream",
        hint=": give all of them in the first call",
    )
    Z = transform(features, X, states, intercept)
    following = successors(estimator, X, states, log_columns, None)
    weights = row_weights(log_columns.sample_weight, len(y), all_zero=True)
    next_Z = following.features(features, Z, intercept)
    m, d = len(labels), Z.shape[1]
    chances = np.zeros((len(y), m))
    chances[following.ongoing()] = following.chances(policy, labels)
    rows = of_actions(Z, chosen(taken, m)), of_actions(next_Z, chances), y, weights
    moments, x, exact = add_to_moments(
        estimator, rows, np.tile(estimator._alphas(d), m)
    )
    known = moments.largest.reshape(m, d)[:, : d - intercept] > 0
    fitted = of_columns(x.reshape(m, d), intercept) | {"_known": known}
    if not moments.weight and hasattr(estimator, "coef_"):
        fitted = {}  # no row counts so far
    forget(estimator)
    vars(estimator).update(
        exact,
        **fitted,
        features_=features,
        actions_=labels,
        _spread=None,
        _held=held,
        _given=names,
    )


def labels_of(estimator, taken, actions):
    """The sorted labels of all actions: those of the first call, or of an earlier
    fit."""
    labels = (
        None if actions is None else np.unique(check_actions(actions, len(actions)))
    )
    if hasattr(estimator, "actions_"):
        if labels is not None and not np.array_equal(labels, estimator.actions_):
            raise ValueError(
                f"actions must stay {estimator.actions_.tolist()} while the stream "
                f"goes on, got {labels.tolist()}"
            )
        return estimator.actions_
    return np.unique(taken) if labels is None else labels
