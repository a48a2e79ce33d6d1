"""Eligibility traces of LSTD(lambda): what of earlier states of an episode a transition's error is held against."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from sk_stormc.utils.validation import check_number, is_word
from sk_stormc.utils.warnings import warn

__all__ = ["Traces", "check_trace_decay", "goes_on", "keys_in_order", "trace_blocks"]

BLOCK = 64  # rows whose traces are one matrix product
SINGLE = np.finfo(np.float32).eps  # states that were rounded so are still the same
DECIMALS = 5.1e-7  # those rounded to six decimals too, unless all that they have is of this size
FEW = 0.3  # of the rows that could go on: so few are worth a warning
LEAST = 10  # rows, before there is one


@dataclass(frozen=True, eq=False)
class Traces:
    """The traces that rows to come may take on: that of the last row, or of the last row of each open episode.

    Attributes
    ----------
    decay : float
        gamma lambda.
    last : ndarray of shape (n, n_features)
        Each times its ratio.
    expected : ndarray of shape (n, n_keys) or None
        Where these rows led.
    labels : ndarray of shape (n,) or None
        Of their episodes, where these are known.
    """

    decay: float
    last: np.ndarray
    expected: np.ndarray | None = None
    labels: np.ndarray | None = None

    def over(self, Z, counted, keys):
        """The traces of more rows.

        Parameters
        ----------
        Z : ndarray or sparse matrix of shape (n, n_features)
        counted : ndarray of shape (n,), bool
            No trace goes on behind a row that does not count.
        keys : tuple (left, after, terminal, ratios, labels)
            For `goes_on`, importance ratios, and labels of episodes, each of which stands together, or None.

        Returns
        -------
        TracedRows
        """
        return TracedRows(self, Z, counted, *keys)


class TracedRows:
    """Rows and their traces, block by block; when all were gone through, ``after`` is the `Traces` of what comes next.

    Parameters
    ----------
    before : Traces
    Z, counted, left, after, terminal, ratios, labels
        As for `Traces.over`.
    """

    def __init__(self, before, Z, counted, left, after, terminal, ratios, labels):
        self.before, self.Z, self.ratios, self.after = before, Z, np.where(counted, ratios, 0.0), None
        starts = np.zeros(1, dtype=int)
        if labels is not None:
            starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
        self.follows = goes_on(left, after, terminal)
        self.follows[1:] &= counted[:-1]
        self.follows[starts] = False
        known = {None: 0} if before.labels is None else {label: k for k, label in enumerate(before.labels.tolist())}
        names = [None] if labels is None else labels[starts].tolist()
        self.taken = {}  # by a first row of an episode, the trace that it takes on
        for start, name in zip(starts.tolist(), names, strict=True):
            k = known.get(name, len(before.last))
            if k < len(before.last) and same(before.expected[[k]], left[[start]])[0]:
                self.taken[start] = before.last[k]
        ends = np.append(starts[1:], len(left)) - 1
        self.open = ends[~terminal[ends]]
        self._rest = after[self.open].copy(), None if labels is None else labels[self.open].copy()

    def __iter__(self):
        decay, last = self.before.decay, []
        cuts = [0, *(start for start in self.taken if start), len(self.follows)]
        for begin, end in itertools.pairwise(cuts):
            part, trace, follows = slice(begin, end), self.taken.get(begin), self.follows[begin:end].copy()
            follows[0] = trace is not None
            for rows, traces in trace_blocks(self.Z[part], follows, decay, trace, self.ratios[part]):
                first, stop = begin + rows.start, begin + rows.start + len(traces)
                here = self.open[(self.open >= first) & (self.open < stop)]
                last.append(self.ratios[here, None] * traces[here - first])
                yield slice(first, stop), traces
        self.after = Traces(decay, np.vstack(last), *self._rest)


def check_trace_decay(estimator):
    """lambda in [0, 1], and 0 where nothing would come of it."""
    decay = estimator.trace_decay
    check_number("trace_decay", decay, low=0, high=1)
    if decay and not is_word(estimator.solver, "lstd"):
        raise ValueError(f"trace_decay must be 0 unless solver='lstd', got {decay} with solver={estimator.solver!r}")
    if decay and estimator.objective == "bellman":
        raise ValueError(f"trace_decay must be 0 with objective='bellman', got {decay}")


def goes_on(left, after, terminal):
    """Whether each transition begins where the one before it ended, so that its trace goes on.

    Parameters
    ----------
    left, after : ndarrays of shape (n, n_keys)
        What identifies the state that is left and its successor: their numbers, or times.
    terminal : ndarray of shape (n,), bool

    Returns
    -------
    ndarray of shape (n,), bool
        The first one is False.
    """
    follows = np.zeros(len(left), dtype=bool)
    follows[1:] = same(after[:-1], left[1:]) & ~terminal[:-1]
    could = np.count_nonzero(~terminal[:-1])
    if could >= LEAST and np.count_nonzero(follows[1:]) < FEW * could:
        warn(
            f"trace_decay has little to act on: of {could} rows that end no episode, {np.count_nonzero(follows[1:])} "
            "are followed by the row whose X is their next_X. Give the rows in the order in which they happened, or "
            "time= in place of next_X.",
        )
    return follows


def same(after, left):
    """Whether rows are the same but for rounding; integers (times) must be equal."""
    if after.dtype.kind in "iu":
        return (after == left).all(axis=1)
    size = np.maximum(abs(after), abs(left))
    decimals = np.minimum(DECIMALS, 0.01 * size.max(axis=1, keepdims=True))
    return (abs(after - left) <= SINGLE * size + decimals).all(axis=1)


def keys_in_order(left, after, terminal, ratios, clock, kept):
    """The order of transitions in time, and the keys for `Collected.plus` in this order.

    Parameters
    ----------
    left, after : ndarrays of shape (n, n_features)
    terminal : ndarray of shape (n,), bool
    ratios : ndarray of shape (n,)
    clock : array-like of shape (n_rows,) or None
        Times. None: the transitions are in order.
    kept : ndarray of shape (n_rows,), bool
        Which rows the transitions are.

    Returns
    -------
    order : ndarray of shape (n,)
    keys : tuple
    """
    if clock is None:
        ends = terminal | np.append(np.diff(np.flatnonzero(kept)) > 1, False)  # or before a row that is not kept
        return np.arange(len(left)), (left, after, ends, ratios, None)
    clock = np.asarray(clock)[kept, None]
    order = np.argsort(clock.ravel())
    goes_on(left[order], after[order], terminal[order] | np.append(np.diff(clock[order, 0]) > 1, False))  # or it warns
    return order, (clock[order], clock[order] + 1, terminal[order], ratios[order], None)


def trace_blocks(Z, follows, decay, trace, ratios=None):
    """The traces z_k = phi_k + decay rho_{k-1} z_{k-1}, without z_{k-1} at the start of an episode, block by block.

    The ratios rho make this Yu's recursion for transitions of another policy ("Convergence of least squares temporal
    difference methods under general conditions", 2010).

    Parameters
    ----------
    Z : ndarray or sparse matrix of shape (n, n_features)
    follows : ndarray of shape (n,), bool
        From `goes_on`.
    decay : float
        gamma lambda.
    trace : ndarray of shape (n_features,) or None
        That of the row before these, times its ratio.
    ratios : ndarray of shape (n,), default=None
        Positive where the next row goes on. None is 1.

    Yields
    ------
    rows : slice
    traces : ndarray of shape (n_rows, n_features)
    """
    for start in range(0, Z.shape[0], BLOCK):
        rows = slice(start, start + BLOCK)
        episode = np.cumsum(~follows[rows])  # 0: that of the row before the block
        number = np.arange(len(episode))
        lag = number[:, None] - number
        together = (lag >= 0) & (episode[:, None] == episode)
        weights = np.where(together, decay ** np.maximum(lag, 0.0), 0.0)
        first = np.where(episode == 0, decay ** (number + 1.0), 0.0)
        last = 1.0
        if ratios is not None and (ratios[rows] != 1).any():
            block, last = ratios[rows], ratios[rows][-1]
            logs = np.log(np.where(block > 0, block, 1.0))
            product = np.append(0.0, np.cumsum(logs[:-1]))  # the logarithm of that of the ratios before
            weights *= np.exp(np.where(together, product[:, None] - product, 0.0))
            first *= np.exp(np.where(episode == 0, product, 0.0))
        traces = weights @ Z[rows]
        if trace is not None:
            traces += np.outer(first, trace)
        trace = last * traces[-1]
        yield rows, traces
