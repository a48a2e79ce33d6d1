"""The rows of a stream that are still needed, and the position of each kind of batch in
the stream."""

import math
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy import sparse


@dataclass
class Position:
    """The position of one kind of batch in the stream."""

    # distance from the rows of g in batches, so that the kinds never use the same rows
    # in an iteration
    offset: int
    at: int = 0
    largest: int = 0  # size of the largest batch so far

    def take(self, shape):
        """Numbers of the next rows."""
        start, self.largest = self.start(shape[-1]), max(self.largest, shape[-1])
        self.at = start + math.prod(shape)
        return np.arange(start, self.at).reshape(shape)

    def start(self, batch_size):
        """Number of the first row of the present batch."""
        return self.at + self.offset * max(0, batch_size - self.largest)


@dataclass
class WeightedPosition(Position):
    """A position, and the weight of the rows up to there."""

    total: float = 0.0
    n: int = 0  # rows


class KeptRows:
    """The rows that are still needed, by their numbers in the stream. Copies of a
    problem share them."""

    def __init__(self, batches):
        self._source, self._fed = iter(batches), ()
        # batches that have been read; they are joined when their rows are needed
        self._parts = []
        # numbers of the first kept row and of the row after the last
        self.start = self.stop = 0
        self.keep = 0  # rows before this one may be dropped
        self.used = 0  # number of rows that f has used
        self.wanted = 0  # number of rows that were requested last and were missing
        self.problem = None  # of all kept rows
        self._unchecked = []  # the batch that has been read but not checked, if any

    def fork(self):
        """A copy that reads, adds and drops rows without effect on this object."""
        rows = object.__new__(KeptRows)
        vars(rows).update(vars(self))  # none of these is modified in place
        return rows

    def __getstate__(self):
        self._parts, self.start = self._kept(), max(self.start, self.keep)
        self.problem = None
        # the state does not contain later batches
        return vars(self) | {"_source": iter(())}

    def feed(self, batch):
        """Append a batch."""
        self._fed = (*self._fed, tuple(map(_rows_of, batch)))

    def has(self, stop):
        """Whether the rows before number ``stop`` are available. Batches are read until
        they are."""
        while self.stop < stop:
            if not self._unchecked:
                # there is no call between reading and the assignment, so that Ctrl-C
                # cannot lose a batch
                self._unchecked = [*islice(self._source, 1)]
            fed = not self._unchecked
            if fed and not self._fed:
                self.wanted = stop
                return False
            batch = self._fed[0] if fed else self._unchecked[0]
            if not fed:
                parts = batch if isinstance(batch, tuple) else (batch,)
                batch = tuple(map(_rows_of, parts))
            self._take(batch, fed)
        return True

    def _take(self, batch, fed):
        """Append a batch and clear its source in one statement, so that an interrupt
        neither loses nor repeats it."""
        others, before = self._fed[fed:], (self._parts or [batch])[0]
        lengths = {part.shape[0] for part in batch}
        same = [part.shape[1:] for part in batch] == [part.shape[1:] for part in before]
        if len(lengths) > 1 or not same:
            self._unchecked, self._fed = [], others
            raise ValueError(
                "batches must differ in their number of rows only, got shapes "
                f"{[part.shape for part in batch]} after "
                f"{[part.shape for part in before]}"
            )
        parts, end = [*self._parts, batch], self.stop + lengths.pop()
        self._parts, self.stop, self.problem, self._unchecked, self._fed = (
            parts,
            end,
            None,
            [],
            others,
        )

    def between(self, start, stop):
        """Rows as a tuple of arrays."""
        self.join()
        return tuple(
            part[start - self.start : stop - self.start] for part in self._parts[0]
        )

    def join(self):
        """Join the kept batches to one array, without the dropped rows. Return where it
        starts and stops."""
        if len(self._parts) > 1:
            self._parts, self.start = self._kept(), max(self.start, self.keep)
        return self.start, self.stop

    def _kept(self):
        """The kept batches as one, without the dropped rows."""
        old = max(0, self.keep - self.start)
        return [tuple(stack(column)[old:] for column in zip(*self._parts, strict=True))]


def _rows_of(part):
    """A copy of the rows, because the caller may reuse the array."""
    rows = part.tocsr(copy=True) if sparse.issparse(part) else np.array(part)
    if not rows.ndim:
        raise ValueError(f"batches must be arrays with rows, got {part!r}")
    return rows


def stack(parts):
    """Rows of several arrays or sparse matrices, one below the other."""
    return (
        sparse.vstack(parts, format="csr")
        if sparse.issparse(parts[0])
        else np.concatenate(parts)
    )
