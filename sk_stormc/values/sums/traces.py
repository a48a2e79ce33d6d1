"""Eligibility traces of LSTD(lambda), which credit the error of a transition to earlier
states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack
from sklearn.utils import gen_batches

from sk_stormc.utils.warnings import warn
from sk_stormc.values.markov import dense


@dataclass(frozen=True, eq=False)
class Traces:
    """The traces that later rows may continue: that of the last row, or of the last row
    of each open episode."""

    decay: float  # gamma lambda
    last: np.ndarray | tuple = ()  # the traces, each multiplied by its importance ratio
    expected: np.ndarray | None = None  # keys of the successors of these rows
    labels: tuple = ()  # labels of their episodes

    def over(self, chunk):
        """The traces of more rows."""
        return TracedRows(self, chunk)


class TracedRows:
    """An iterable over blocks of rows and their traces. After the iteration, ``after``
    is the `Traces` for later rows.

    Keys (``left`` of the states and ``after`` of the successors) determine whether a
    row continues the trace of another.
    """

    def __init__(self, before, chunk):
        self.before, self.Z, self.after = before, chunk.Z, None
        counted, terminal, labels = chunk.weights > 0, chunk.terminal, chunk.episode
        self.ratios = np.where(counted, chunk.ratios, 0.0)
        left, after = chunk.keys or (chunk.states, chunk.follows())
        labels = np.zeros(len(left)) if labels is None else labels
        starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
        self.follows = continues(left, after, terminal)
        self.follows[1:] &= counted[:-1]
        self.follows[starts] = False
        earlier = {label: k for k, label in enumerate(before.labels)}
        self.taken = {}  # the trace that each first row of an episode continues
        for start, label in zip(starts.tolist(), labels[starts].tolist(), strict=True):
            k = earlier.get(label)
            if k is not None and same(before.expected[[k]], left[[start]])[0]:
                self.taken[start] = before.last[k]
        ends = np.append(starts[1:], len(left)) - 1
        self.open = ends[~terminal[ends]]
        self._rest = after[self.open].copy(), tuple(labels[self.open].tolist())

    def __iter__(self):
        """The traces z_k = phi_k + decay rho_{k-1} z_{k-1}, without z_{k-1} at the
        start of an episode, block by block.

        With importance ratios rho this is Yu's recursion for off-policy transitions
        ("Convergence of least squares temporal difference methods under general
        conditions", 2010).
        """
        decay, ratios, last = self.before.decay, self.ratios, []
        factors = decay * self.follows * np.append(0.0, ratios[:-1])
        trace = np.zeros(self.Z.shape[1])
        for rows in gen_batches(len(factors), 256):
            traces = np.array(dense(self.Z[rows]), order="F")
            traces[0] += factors[rows.start] * trace
            for start, earlier in self.taken.items():
                if rows.start <= start < rows.stop:
                    traces[start - rows.start] += decay * earlier
            # the recursion is a bidiagonal system of equations
            band = np.ones((2, len(traces)))
            band[1, :-1] = -factors[rows][1:]
            traces, _ = lapack.dtbtrs(band, traces, uplo="L", overwrite_b=True)
            trace = traces[-1]
            here = self.open[(self.open >= rows.start) & (self.open < rows.stop)]
            last.append(ratios[here, None] * traces[here - rows.start])
            yield rows, traces
        self.after = Traces(decay, np.vstack(last), *self._rest)


def continues(left, after, terminal):
    """Whether each transition starts in the successor of the one before, so that the
    trace continues."""
    follows = np.zeros(len(left), dtype=bool)
    follows[1:] = same(after[:-1], left[1:]) & ~terminal[:-1]
    could, continued = np.count_nonzero(~terminal[:-1]), np.count_nonzero(follows[1:])
    if could >= 10 and continued < 0.3 * could:
        warn(
            f"trace_decay has little effect: of {could} rows that end no episode, "
            f"{continued} are followed by the row whose X is their next_X. Give the "
            "rows in the order in which they happened, or time= in place of next_X.",
        )
    return follows


def warn_if_disordered(chunk):
    """Warn as `continues`, which traces within episodes only ask of the rows of one
    after the other, if the rows of the episodes of a chunk are not in order."""
    if chunk.episode is not None:
        last = np.append(chunk.episode[1:] != chunk.episode[:-1], True)
        continues(chunk.states, chunk.follows(), chunk.terminal | last)


def same(after, left):
    """Whether rows are equal up to rounding to float32, or to six decimals.

    Integers (times) must be equal exactly.
    """
    if after.dtype.kind in "iu":
        return (after == left).all(axis=1)
    size = np.maximum(abs(after), abs(left))
    relative = np.finfo(np.float32).eps * size
    decimals = np.minimum(5.1e-7, 0.01 * size.max(axis=1, keepdims=True))
    return (abs(after - left) <= relative + decimals).all(axis=1)
