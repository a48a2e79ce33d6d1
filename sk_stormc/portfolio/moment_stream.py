"""A stream of returns summarised by moments: which rows are stored, and when moments
and weights are updated.

A row is a period. It is stored unchanged at first, and later added to the moments (sums
of products) and dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.core.penalties import penalized, projected
from sk_stormc.portfolio.exact.program import Optimum, solve_portfolio
from sk_stormc.portfolio.exact.quadratic import solve_quadratic
from sk_stormc.portfolio.mean_risk import MeanRisk
from sk_stormc.portfolio.moments import Moments
from sk_stormc.portfolio.sums import BLOCK_ROWS, Sums

__all__ = ["MomentStream"]

# effective rows per asset below which moments that only approximate the risk, and
# unbounded weights that they determine, are unreliable
RELIABLE_ROWS = 5
# relative squared change of the weights that ends the iterations by moments that only
# approximate the risk
NEAR = 1e-2


@dataclass(frozen=True, eq=False)
class MomentStream:
    """The immutable state of a stream. `plus` returns a new state with more rows.

    The result does not depend on the division of rows into chunks: when rows are added
    to the moments, and when weights are updated, depends only on the index of the row
    in the stream.
    """

    task: MeanRisk  # the objective; its returns are not used
    moments: Moments  # of the rows that were dropped
    # of the last scheduled update; rows are added to the moments around them
    weights: np.ndarray
    rows: np.ndarray  # that are still stored
    p: np.ndarray  # their weights
    least: int  # number of rows from which the objective has a minimum
    half_life: float
    # whether the weights reported at the end of a chunk use its rows after the last
    # scheduled one
    each: bool
    origin: np.ndarray | None = None  # the first row, which is subtracted from all rows
    # means of the assets in place of those of the rows
    expected: np.ndarray | None = None
    # number of rows that are kept before the first are added to the moments
    opening: int = 4096
    n: int = 0  # number of rows so far
    counted: int = 0  # number of the dropped rows with a weight above 0
    # whether few rows determined the risk when the first were added to the moments
    thin: bool = False
    renewed: int = 0  # row of the last scheduled update
    fit: Optimum | None = None  # the last reported solution
    at: int = 0  # row of ``fit``
    # the objective of equal weights minus that of ``fit``, or the risk of ``fit`` if it
    # is larger
    gained: float = 0.0
    # mean squared distance between ``fit`` and the weights of ``around``, in units of
    # `size`
    shift: float = 0.0
    records: tuple = ()  # row and objective of each scheduled update
    # sums of the weights around which rows were added to the moments
    around: Sums | None = None

    @classmethod
    def of(cls, task, start, half_life, each):
        """The stream before its first row."""
        n, moments = len(start), task.measure.moments.none(task)
        feasible = task.penalty
        ends = np.isfinite(feasible.low).all(), np.isfinite(feasible.high).all()
        if all(ends) or (feasible.budget is not None and any(ends)):
            least = 2  # the weights are bounded
        else:
            least = n + 2 if moments.exact else RELIABLE_ROWS * n
        rows = np.zeros((0, n)), np.zeros(0)
        return cls(task, moments, start, *rows, least, half_life, each)

    def plus(self, rows, p, end):
        """The stream after rows of weights p, with updated weights. The chunk ends at
        row ``end``."""
        if not len(rows):
            return self
        last, stream, at = end if self.each else self._milestone(end), self, 0
        p = np.ones(len(rows)) if p is None else p.astype(float)
        if self.origin is None:
            stream = replace(self, origin=rows[0].astype(float))
        while at < len(rows):
            some = slice(at, at + stream._room())
            # a data frame's rows are not contiguous
            new = np.ascontiguousarray(rows[some] - stream.origin)
            before, at = stream.n, at + len(new)
            stream = replace(
                stream,
                rows=np.concatenate([stream.rows, new]),
                p=np.concatenate([stream.p, p[some]]),
                n=before + len(new),
            )
            stream = stream._renewed_within(before)
            if before < last <= stream.n:
                stream = stream._reported(last)
            if not stream._room():
                stream = stream._with_room()
        return stream

    # schedule

    def _gone(self):
        """The number of rows that were added to the moments and dropped."""
        return self.n - len(self.rows)

    def _room(self):
        """The number of rows that can be stored until the next are added to the
        moments."""
        later = self._gone() or self.moments.exact
        return (BLOCK_ROWS if later else self.opening) - len(self.rows)

    def _memory(self, n):
        """The effective number of n rows, given the half-life."""
        return min(n, self.half_life / math.log(2))

    def _milestone(self, n):
        """The last scheduled row up to row n. Weights lag behind by at most 1 / 128 of
        the rows."""
        step = 2 ** max(0, math.floor(math.log2(max(self._memory(n), 1) / 128)))
        return n // step * step

    def _renewed_within(self, before):
        """The stream after the scheduled updates of the weights at rows after
        ``before``."""
        stream = self
        while True:
            # at row 64, and when the rows have grown by a half
            memory, due = stream._memory(stream.renewed), 64
            if stream.renewed:
                due = stream.renewed + max(1, math.ceil(0.5 * memory))
            if stream._gone():  # at most one update for each block
                due = max(due, stream.n if not stream._room() else stream.n + 1)
            if not before < due <= stream.n:
                return stream
            fit, stream = stream._settled(due), replace(stream, renewed=due)
            if fit is not None:
                records = (*stream.records, (due, fit.value))
                stream = replace(stream, weights=fit.weights, records=records)

    # weights and objective

    def _known(self, stop, w):
        """The moments of all rows up to row ``stop``. The rows that are still stored
        are added around w."""
        (rows, p), moments = self._there(stop), self.moments
        if self.half_life < math.inf:
            moments = moments.times(0.5 ** ((stop - self._gone()) / self.half_life))
        return moments.plus(rows, p, w) if len(rows) else moments

    def _there(self, stop):
        """The stored rows up to row ``stop``, and their weights."""
        count = stop - self._gone()
        rows, p = self.rows[:count], self.p[:count]
        if self.half_life < math.inf:
            p = p * 0.5 ** (np.arange(count)[::-1] / self.half_life)
        elif (p == 1).all():
            return rows, None
        return rows[p > 0], p[p > 0]

    def _settled(self, stop):
        """The optimal weights for all rows up to row ``stop``, or None if there are too
        few rows."""
        counted = self.counted + np.count_nonzero(self.p[: stop - self._gone()])
        if counted < self.least:
            return None
        if self.moments.exact:
            moments = self._known(stop, self.weights)
            fit = self._minimised(moments, self.weights)
            return replace(fit, value=self._value(moments, fit.weights))
        return self._approximate(stop) if self._gone() else self._exact(stop)

    def _exact(self, stop):
        """The optimal weights for all rows up to row ``stop``, which are still stored,
        by Newton's method."""
        (rows, p), task, added = self._there(stop), self.task, self.origin
        if self.expected is not None:
            added = self.expected - np.average(rows, axis=0, weights=p)
        task = MeanRisk.of(
            rows + added, task.measure, task.risk_aversion, p, task.penalty
        )
        return solve_portfolio(task, self._feasible(self.weights))

    def _approximate(self, stop):
        """The optimal weights for all rows up to row ``stop``, by moments in which the
        stored rows are added around the weights of the iteration before."""
        w, value = self.weights, math.inf
        before = w
        for _ in range(20):
            moments = self._known(stop, w)
            now, halved = self._value(moments, w), 0
            while not now <= value + 1e-12 * abs(value) and halved < 10:
                w, halved = 0.5 * (w + before), halved + 1
                moments = self._known(stop, w)
                now = self._value(moments, w)
            before, value = w, now
            fit = self._minimised(moments, w)
            w, way = fit.weights, fit.weights - before
            if way @ moments.matrix() @ way <= NEAR * (w @ moments.matrix() @ w):
                return replace(fit, value=self._value(moments, w))
        return replace(fit, weights=before, value=value, lower=-math.inf)

    def _minimised(self, moments, w):
        """The minimiser of the objective by some moments, starting from w."""

        def solve(expected_return, matrix):
            mean = expected_return + moments.earned * self._added(moments)
            return solve_quadratic(mean, matrix, self.task.penalty, self._feasible(w))

        return moments.minimised(solve, w)

    def _feasible(self, w):
        """The weights, projected on the constraint."""
        return projected(self.task.penalty, w)

    def _added(self, moments):
        """What is added to each row, so that the rows have the means of the returns, or
        the expected ones."""
        return self.origin if self.expected is None else self.expected - moments.mean

    def _value(self, moments, w):
        value = moments.value(w) - moments.earned * float(self._added(moments) @ w)
        return penalized(value, self.task.penalty, w)

    def _reported(self, stop):
        fit = self._settled(stop)
        if fit is None:
            return self
        w, shift = fit.weights, 0.0
        equal = self._feasible(np.full(len(w), 1 / len(w)))
        moments = self._known(stop, w)
        matrix = moments.matrix()
        square = float(w @ matrix @ w)
        gained = max(
            self._value(moments, equal) - fit.value, moments.risk_weight * square
        )
        if self.around is not None and not moments.exact:
            way, spread = w - self.around.mean, self.around.covariance()
            change = float(np.vdot(matrix, spread) + way @ matrix @ way)
            shift = change / moments.size(w) if w.any() else math.inf
        return replace(self, fit=fit, at=stop, gained=gained, shift=shift)

    # the rows that are dropped

    def _counting(self):
        """The effective number of stored rows that determine the risk, which is small
        for some measures."""
        w = self.weights
        if self.moments.exact or not w.any():
            return math.inf if self.moments.exact else 0.0
        weights = self._known(self.n, w).counts(self.rows, w) * self.p
        return float(weights.sum() ** 2 / max(weights @ weights, 1e-300))

    def _with_room(self):
        """The stream with room for further rows.

        All stored rows are added to the moments. Before the first are, twenty effective
        rows per asset are stored, if they fit in 16 MB.
        """
        n_assets, thin, around = len(self.weights), self.thin, self.around
        if not self._gone():
            counting = self._counting()
            if counting < 20 * n_assets and 2 * self.rows.size <= 2**21:
                return replace(self, opening=2 * self.opening)
            thin = counting < RELIABLE_ROWS * n_assets
        new = Sums.of(self.weights[None], np.full(1, float(len(self.rows))))
        if around is not None:
            new = around.times(0.5 ** (len(self.rows) / self.half_life)).plus(new)
        return replace(
            self,
            moments=self._known(self.n, self.weights),
            counted=self.counted + np.count_nonzero(self.p),
            thin=thin,
            around=new,
            rows=self.rows[:0],
            p=self.p[:0],
        )
