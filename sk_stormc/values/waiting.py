"""Rows of a stream with time or episodes in place of next_X, and the rows that wait for their successors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sk_stormc.streams.problem import stack
from sk_stormc.values.episodes import clock_of, numbers_of_labels
from sk_stormc.values.markov import scale_rows

__all__ = ["Waiting", "follow"]


@dataclass(frozen=True, eq=False)
class Waiting:
    """Rows that wait for their successors: the last row of a stream or of each open episode, unless it is terminal.

    Attributes
    ----------
    Z : ndarray or sparse matrix of shape (n, n_features)
    y, weights, ratios : ndarrays of shape (n,)
    time, labels : ndarrays of shape (n,) or None
    """

    Z: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    ratios: np.ndarray
    time: np.ndarray | None
    labels: np.ndarray | None

    def __getitem__(self, rows):
        parts = (self.Z, self.y, self.weights, self.ratios, self.time, self.labels)
        return Waiting(*(None if part is None else part[rows] for part in parts))

    def __len__(self):
        return len(self.y)

    def before(self, other):
        """These rows followed by others."""
        if self.labels is not None:
            self = self[np.isin(self.labels, other.labels)]  # an episode without a row in a chunk has ended
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Waiting(*(None if old is None else stack([old, new]) for old, new in pairs))


def follow(waiting, came, terminal):
    """The transitions between successive rows, and the rows whose successors have not come yet."""
    if waiting is not None:
        came = waiting.before(came)
        terminal = np.append(np.zeros(len(came) - len(terminal), dtype=bool), terminal)
    time, labels, order = came.time, came.labels, np.arange(len(came))
    if labels is None:
        wrong = np.diff(time) <= 0
        if wrong.any():
            k = np.argmax(wrong)
            raise ValueError(
                f"time must increase from row to row and from call to call, got {time[k]}, then {time[k + 1]}"
            )
        clock, last = time, order == len(order) - 1
    else:
        numbers = numbers_of_labels(labels)
        clock = clock_of(numbers, time, terminal, labels)
        order = np.argsort(clock)
        last = np.append(np.diff(numbers[order]) != 0, True)
    at = np.flatnonzero(terminal[order] | np.append(np.diff(clock[order]) == 1, False))
    kept = order[at]
    next_Z = scale_rows(~terminal[kept], came.Z[order[np.minimum(at + 1, len(order) - 1)]])
    left = np.zeros((len(kept), 1), dtype=int) if time is None else time[kept, None]
    keys = left, left if time is None else left + 1, terminal[kept], came.ratios[kept]
    rows = came[kept]
    waits = order[last & ~terminal[order]]
    return (rows.Z, next_Z, rows.y, rows.weights), (*keys, rows.labels), came[waits] if len(waits) else None, kept
