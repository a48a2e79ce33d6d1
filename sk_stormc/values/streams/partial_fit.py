"""`partial_fit` of both estimators: the transitions of a chunk, and the values after
it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing

from sk_stormc.solvers import SOLVERS, CompositionalSolver, StopReason
from sk_stormc.streams.rows import stack
from sk_stormc.streams.source import WINDOW
from sk_stormc.utils.frames import is_table
from sk_stormc.utils.parameters import is_word, short
from sk_stormc.utils.warnings import warn
from sk_stormc.values.markov import refuse_rows
from sk_stormc.values.reading.actions import distinct_actions, numbers_of
from sk_stormc.values.reading.episodes import (
    WARNED_SHARE,
    check_episode,
    check_terminal,
    check_time,
    fading,
    remaining,
)
from sk_stormc.values.reading.log_warnings import warn_of_no_ends, warn_of_state_numbers
from sk_stormc.values.reading.transitions import LogColumns, LogReader, order_of_log
from sk_stormc.values.streams.transition_stream import TransitionStream
from sk_stormc.values.sums.action_blocks import expected_pairs, pairs
from sk_stormc.values.sums.least_squares import of_columns
from sk_stormc.values.sums.lstd import (
    ILL_CONDITIONED,
    LARGEST_STREAM,
    LSTD,
    Collected,
    attributes_of,
    forget,
)
from sk_stormc.values.sums.uncertainty import MAX_GROUPED_FEATURES, Groups


def read_chunk(estimator, before, X, y, action, log_columns):
    """The `Chunk` of more rows of a stream, the transformer, which the first rows fit,
    and the columns of rows that wait for their successors.

    The rows that have waited ``before`` are read again with the new ones.
    """
    reader = LogReader(estimator, "chunk", getattr(estimator, "features_", None))
    labels, time, waiting = log_columns.episode, log_columns.time, None
    if log_columns.next_X is not None or (labels is None and time is None):
        return reader(0, X, y, action, log_columns), reader.features, None
    checked = reader.checked(X, y, action, log_columns)
    n = len(checked[0])
    log_columns = LogColumns(
        terminal=check_terminal(log_columns.terminal, n),
        time=None if time is None else check_time(time, n),
        episode=None if labels is None else check_episode(labels, n),
    )
    columns = dict(enumerate(checked)) | {"X": X} | log_columns._asdict()
    if before is not None:
        order_of_log(log_columns, n)  # its errors name the numbers of the new rows
        columns = after_waiting(before, columns)
    if time is not None:
        check_times(columns["time"], increase=labels is None)
    *checked, X, next_X, terminal, time, labels, _, _ = columns.values()
    log_columns = LogColumns(next_X, terminal, time, labels)
    chunk = reader.read(0, X, log_columns, *checked)
    if len(chunk.waiting):
        waiting = some_of(columns, chunk.waiting)
    return chunk, reader.features, waiting


def check_times(time, increase):
    """Raise a ValueError for dates, and for times that do not increase if they must."""
    if time.dtype.kind != "i":
        raise ValueError(
            f"time must be whole numbers for partial_fit, got {time[0]}: number the "
            "steps"
        )
    refuse_rows(
        increase & (np.diff(time) <= 0),
        lambda k: (
            "time must increase from row to row and from call to call, got "
            f"{time[k]}, then {time[k + 1]}"
        ),
    )


def after_waiting(waiting, columns):
    """The columns of the rows that waited for successors, followed by new ones."""
    if (waiting["time"] is None) != (columns["time"] is None):
        raise ValueError(
            "time must be given in all calls of a stream, or in none of them, got "
            f"{'None' if columns['time'] is None else 'times'} now"
        )
    if columns["episode"] is not None:
        # an episode without a row in a chunk has ended
        on = np.isin(waiting["episode"], columns["episode"])
        waiting = some_of(waiting, np.flatnonzero(on))
    return {
        name: None if column is None else joined(waiting[name], column)
        for name, column in columns.items()
    }


def some_of(columns, rows):
    """Some rows of all columns that are not None."""
    return {
        name: column[rows]
        if isinstance(column, np.ndarray)
        else None
        if column is None
        else _safe_indexing(column, rows)
        for name, column in columns.items()
    }


def joined(rows, more):
    """The rows of a table, followed by more rows."""
    if is_table(rows) and type(rows) is type(more):
        package = sys.modules[type(rows).__module__.partition(".")[0]]
        return package.concat([rows, more])  # of pandas or polars
    parts = rows, more
    return stack([p if sparse.issparse(p) else np.asarray(p) for p in parts])


class Counts(NamedTuple):
    """Numbers of the rows of a stream so far."""

    lost: int = 0  # neither terminal nor with a successor
    waiting: int = 0  # for a successor
    ongoing: int = 0  # with a successor
    ended: int = 0  # terminal

    def plus(self, n, terminal, waiting):
        """The counts after a chunk of n rows and the transitions with these terminal
        flags."""
        ended = int(terminal.sum())
        lost = self.lost + self.waiting + n - len(terminal) - waiting
        return Counts(
            lost, waiting, self.ongoing + len(terminal) - ended, self.ended + ended
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


@dataclass(frozen=True)
class ValueStream:
    """What `partial_fit` of values continues from."""

    # the sums or the run of a solver, `Collected` or `StreamRun`
    run: Any = None
    held: dict | None = None  # parameters that must not change
    counts: Counts = Counts()
    waiting: dict | None = None  # columns of rows whose successors may come
    groups: Groups | None = None  # sums for groups of the episodes


def warn_of_lost(before, now):
    """Warn when the rows without a successor begin to matter."""
    if now.biased() and not before.biased():
        warn(
            f"{now.unknown():.1%} of the rows that are not terminal have no successor, "
            "because episodes were cut off, rows are missing or the next row has not "
            "come. Terminal rows then count too much. fit corrects this by weights, "
            "and partial_fit cannot: give next_X."
        )


def held_parameters(estimator, exact, labelled):
    """The parameters that must not change during a stream. Raises a ValueError if one
    has changed."""
    parameters, before = vars(estimator), estimator._stream
    names = "gamma", "half_life", "fit_intercept", "policy"
    names = *names, "trace_decay" if exact else "alpha"
    solver = "lstd" if exact else type(estimator._stepping_solver()).__name__
    held = {"solver": solver, "episode": "given" if labelled else "None"}
    held |= {name: parameters[name] for name in names if name in parameters}
    for name, was in (before.held if before else {}).items():
        now = held.get(name)
        if was is now or (
            not callable(now) and not callable(was) and np.array_equal(was, now)
        ):
            continue
        was, now = (v if isinstance(v, str) else short(v) for v in (was, now))
        raise ValueError(
            f"{name} must stay {was} while its stream goes on, got {now}: begin again "
            "with fit or a clone"
        )
    return held


def continue_stream(estimator, X, y, log_columns, action=None, actions=None):
    """Run `partial_fit` of either estimator on a copy, which is discarded if an
    exception is raised."""
    solver = estimator._make_solver()  # raises if a parameter of the solver is wrong
    stream = estimator._stream or ValueStream()
    labelled = log_columns.episode is not None
    names = log_columns.names(estimator._given)
    chunk, features, waiting = read_chunk(
        estimator, stream.waiting, X, y, action, log_columns
    )
    counts = stream.counts.plus(len(y), chunk.terminal, len(chunk.waiting))
    warn_of_lost(stream.counts, counts)
    if "terminal" not in names[0]:
        first = estimator._stream is None
        lost = stream.counts.lost == 0 < counts.lost
        warn_of_no_ends(log_columns, first if labelled else lost)
    d, gamma, half_life = chunk.Z.shape[1], estimator.gamma, estimator.half_life
    exact = (
        estimator.has_actions
        or estimator._solver_for(solver, 0 if estimator.trace_decay else d) is LSTD
    )
    if gamma == 1 and not exact:
        raise ValueError(
            "gamma must be < 1 for partial_fit, except with solver='lstd', got "
            f"{gamma!r}"
        )
    held = held_parameters(estimator, exact, labelled)
    if estimator.has_actions:
        values = {"actions_": labels_of(estimator, chunk.action, actions)}
        chunk = pairs_of(chunk, values["actions_"], estimator.policy)
    else:
        reason = "a stream does not group the transitions of a state"
        values = {"objective_": "projected", "objective_reason_": reason}
    if not hasattr(estimator, "coef_"):
        warn_of_state_numbers(estimator.features, chunk.states)
    left = remaining(half_life, len(chunk.y))
    faded = replace(chunk, weights=chunk.weights * fading(half_life, chunk.when))
    groups = stream.groups
    if labelled and not estimator.has_actions and d <= MAX_GROUPED_FEATURES:
        groups = groups or Groups.none(d, gamma, estimator.trace_decay)
        groups = groups.plus(faded, left)
    run, found = (
        solve_sums(estimator, stream.run, faded, d, left)
        if exact
        else run_solver(estimator, stream.run, chunk, d)
    )
    vars(estimator).update(
        values | found,
        features_=features,
        _stream=ValueStream(run, held, counts, waiting, groups),
        _given=names,
        _spread=None,
    )


def solve_sums(estimator, before, chunk, d, left):
    """The sums of a stream with more transitions, and the attributes of their solution.

    ``left`` is the discount factor of the weights of earlier transitions, and d the
    number of features of a state.
    """
    n_columns = chunk.Z.shape[1]
    if n_columns > LARGEST_STREAM:
        raise ValueError(
            f"X must have at most {LARGEST_STREAM} features for partial_fit with "
            "solver='lstd', which keeps four matrices of n_features x n_features "
            f"numbers ({32 * n_columns**2 / 1e9:.1f} GB here), got {n_columns}, the "
            "intercept included, for all actions together: set a stochastic solver, or "
            "features= with fewer columns"
        )
    condition = vars(estimator).get("condition_number_", 0.0)
    warned = before is not None and condition >= ILL_CONDITIONED
    sums = before or Collected.none(n_columns, estimator.gamma, estimator.trace_decay)
    if left != 1:
        sums = replace(sums, moments=sums.moments * left)
    sums = sums.plus(chunk)
    moments = sums.moments
    alpha = np.tile(estimator._alphas(d), n_columns // d)
    solution = moments.solution(alpha, ends=sums.gamma == 1)
    forget(estimator)
    found = attributes_of(solution, moments.n_rows, StopReason.EXHAUSTED, warned=warned)
    # otherwise no row counts so far
    if moments.weight or not hasattr(estimator, "coef_"):
        shape = (-1, d) if estimator.has_actions else d
        found |= of_columns(solution.x.reshape(shape), estimator.fit_intercept)
        known = moments.largest.reshape(shape)[..., : d - estimator.fit_intercept] > 0
        found["_known"] = known
    return sums, found


def run_solver(estimator, before, chunk, d):
    """The run of an iterative solver after more transitions, and its coefficients.

    With a half-life the stream discounts the weights, in chronological order.
    """
    some = chunk.weights > 0
    if estimator.half_life is not None:
        some = np.argsort(chunk.when, kind="stable")
    rows = tuple(part[some] for part in chunk.rows)
    w = np.zeros(d)
    if hasattr(estimator, "coef_"):
        w = np.append(estimator.coef_, estimator.intercept_)[:d]
    forget(estimator)
    estimator._stream = before
    result, window = None, max(WINDOW, 10 * d)

    def open_stream(batches):
        return TransitionStream(
            batches, window, estimator.gamma, estimator._alphas(d), estimator.half_life
        )

    if len(rows[2]):
        x0 = w if w.any() else None
        result = estimator._stream_on(rows, window, open_stream, x0)
    if result is not None:
        w = result.x
        if result.n_iter:
            warn_if_far(estimator._stream.stream, w)
    return estimator._stream, of_columns(w, estimator.fit_intercept)


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
    if is_word(estimator.policy, "greedy"):
        raise AttributeError(
            "policy='greedy' evaluates several policies on all transitions, so it "
            "needs them at once: partial_fit is for a given policy"
        )
    solver = estimator.solver
    if is_word(solver, *SOLVERS) or isinstance(solver, CompositionalSolver):
        raise AttributeError(
            f"{solver!r} needs all transitions at once; for partial_fit set "
            "solver='auto'"
        )
    return True


def pairs_of(chunk, labels, policy):
    """The transitions between pairs of a state and an action."""
    taken = numbers_of(
        chunk.action,
        labels,
        among="the actions of this stream",
        hint=": give all of them in the first call",
    )
    chances = np.zeros((len(taken), len(labels)))
    chances[chunk.following.ongoing()] = chunk.following.chances(policy, labels)
    return replace(
        chunk,
        Z=pairs(chunk.Z, taken, len(labels)),
        next_Z=expected_pairs(chunk.next_Z, chances),
    )


def labels_of(estimator, taken, actions):
    """The sorted labels of all actions: those of the first call, or of an earlier
    fit."""
    labels = None if actions is None else distinct_actions(actions)
    if hasattr(estimator, "actions_"):
        if labels is not None and not np.array_equal(labels, estimator.actions_):
            raise ValueError(
                f"actions must stay {estimator.actions_.tolist()} while the stream "
                f"goes on, got {labels.tolist()}"
            )
        return estimator.actions_
    return np.unique(taken) if labels is None else labels
