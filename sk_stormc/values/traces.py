"""Eligibility traces of LSTD(lambda): what of earlier states of an episode a transition's error is held against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sk_stormc.utils.validation import check_number
from sk_stormc.utils.warnings import warn

__all__ = ["Traces", "check_trace_decay", "goes_on", "keys_in_order", "keys_of_times", "trace_blocks"]

BLOCK = 256  # rows whose traces are one matrix product
SINGLE = np.finfo(np.float32).eps  # states that were rounded so are still the same
DECIMALS = 5.1e-7  # those rounded to six decimals too, unless all that they have is of this size
FEW = 0.3  # of the rows that could go on: so few are worth a warning
LEAST = 10  # rows, before there is one


@dataclass(frozen=True, eq=False)
class Traces:
    """Where the traces of a stream are.

    Attributes
    ----------
    decay : float
        gamma lambda.
    last : ndarray of shape (n_features,)
        The trace of the last row, times its ratio.
    expected : ndarray of shape (n_keys,) or None
        Where the last row led; None where nothing goes on.
    """

    decay: float
    last: np.ndarray
    expected: np.ndarray | None = None

    def over(self, Z, counted, keys):
        """The traces of more rows.

        Parameters
        ----------
        Z : ndarray or sparse matrix of shape (n, n_features)
        counted : ndarray of shape (n,), bool
            No trace goes on behind a row that does not count.
        keys : tuple (left, after, terminal, ratios)
            For `goes_on`, and importance ratios.

        Returns
        -------
        TracedRows
        """
        follows, expected = goes_on(*keys[:3], self.expected)
        follows[1:] &= counted[:-1]
        return TracedRows(self, Z, follows, np.where(counted, keys[3], 0.0), expected)


class TracedRows:
    """Rows and their traces, block by block; when all were gone through, ``after`` is the `Traces` of what comes next.

    Parameters
    ----------
    before : Traces
    Z, follows, ratios
        As for `trace_blocks`.
    expected : ndarray or None
    """

    def __init__(self, before, Z, follows, ratios, expected):
        self._before, self._rows, self._expected, self.after = before, (Z, follows, ratios), expected, None

    def __iter__(self):
        decay, last = self._before.decay, self._before.last
        Z, follows, ratios = self._rows
        for rows, traces in trace_blocks(Z, follows, decay, last, ratios):
            yield rows, traces
            last = ratios[rows][-1] * traces[-1]
        self.after = Traces(decay, last, self._expected)


def check_trace_decay(estimator):
    """lambda in [0, 1], and 0 where nothing would come of it."""
    decay = estimator.trace_decay
    check_number("trace_decay", decay, low=0, high=1)
    if decay and not (isinstance(estimator.solver, str) and estimator.solver == "lstd"):
        raise ValueError(f"trace_decay must be 0 unless solver='lstd', got {decay} with solver={estimator.solver!r}")
    if decay and estimator.objective == "bellman":
        raise ValueError(f"trace_decay must be 0 with objective='bellman', got {decay}")


def goes_on(left, after, terminal, expected):
    """Whether each transition begins where the one before it ended, so that its trace goes on.

    Parameters
    ----------
    left, after : ndarrays of shape (n, n_keys)
        What identifies the state that is left and its successor: their numbers, or times.
    terminal : ndarray of shape (n,), bool
    expected : ndarray of shape (n_keys,) or None
        The successor of the row before these; None where there is none.

    Returns
    -------
    follows : ndarray of shape (n,), bool
    expected : ndarray of shape (n_keys,) or None
        For the rows after these.
    """
    follows = np.zeros(len(left), dtype=bool)
    if not len(left):
        return follows, expected
    follows[1:] = same(after[:-1], left[1:]) & ~terminal[:-1]
    follows[0] = expected is not None and same(expected[None], left[:1])[0]
    could = np.count_nonzero(~terminal[:-1])
    if could >= LEAST and np.count_nonzero(follows[1:]) < FEW * could:
        warn(
            f"trace_decay has little to act on: of {could} rows that end no episode, {np.count_nonzero(follows[1:])} "
            "are followed by the row whose X is their next_X. Give the rows in the order in which they happened, or "
            "time= in place of next_X.",
        )
    return follows, None if terminal[-1] else after[-1].copy()


def same(after, left):
    """Whether rows are the same but for rounding; integers (times) must be equal."""
    if after.dtype.kind in "iu":
        return (after == left).all(axis=1)
    size = np.maximum(abs(after), abs(left))
    decimals = np.minimum(DECIMALS, 0.01 * size.max(axis=1, keepdims=True))
    return (abs(after - left) <= SINGLE * size + decimals).all(axis=1)


def keys_in_order(left, after, terminal, ratios, time, kept):
    """The order of transitions in time, and the keys for `Collected.plus` in this order.

    Parameters
    ----------
    left, after : ndarrays of shape (n, n_features)
    terminal : ndarray of shape (n,), bool
    ratios : ndarray of shape (n,)
    time : array-like of shape (n_rows,) or None
        None: the transitions are in order.
    kept : ndarray of shape (n_rows,), bool
        Which rows the transitions are.

    Returns
    -------
    order : ndarray of shape (n,)
    keys : tuple
    """
    if time is None:
        ends = terminal | np.append(np.diff(np.flatnonzero(kept)) > 1, False)  # or before a row that is not kept
        return np.arange(len(left)), (left, after, ends, ratios)
    time = np.asarray(time)[kept, None]
    order = np.argsort(time.ravel())
    return order, (time[order], time[order] + 1, terminal[order], ratios[order])


def keys_of_times(pending, terminal, time, ratios):
    """The keys for `Collected.plus` of the transitions that `follow` makes of the same rows."""
    if pending is not None:
        time, terminal = np.append(pending[2], time), np.append(False, terminal)
        ratios = np.append(pending[4], ratios)
    kept = terminal | np.append(np.diff(time) == 1, False)
    return time[kept, None], time[kept, None] + 1, terminal[kept], ratios[kept]


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
    trace : ndarray of shape (n_features,)
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
        if ratios is not None:
            block, last = ratios[rows], ratios[rows][-1]
            logs = np.log(np.where(block > 0, block, 1.0))
            product = np.append(0.0, np.cumsum(logs[:-1]))  # the logarithm of that of the ratios before
            weights *= np.exp(np.where(together, product[:, None] - product, 0.0))
            first *= np.exp(np.where(episode == 0, product, 0.0))
        traces = weights @ Z[rows] + np.outer(first, trace)
        trace = last * traces[-1]
        yield rows, traces
