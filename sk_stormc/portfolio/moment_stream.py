"""A stream of returns summarised by moments: which rows are stored, and when moments
and weights are updated.

A row is a period. It is stored unchanged at first, and later added to the moments (sums
of products) and dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from sk_stormc.portfolio.exact.feasible_set import FeasibleSet
from sk_stormc.portfolio.exact.program import Optimum, solve_portfolio
from sk_stormc.portfolio.exact.quadratic import solve_quadratic
from sk_stormc.portfolio.mean_risk import MeanRisk
from sk_stormc.portfolio.sums import BLOCK_ROWS, Sums

__all__ = ["MomentStream"]

# effective rows per asset below which moments that only approximate the risk, and
# unbounded weights that they determine, are unreliable
RELIABLE_ROWS = 5


@dataclass(frozen=True, eq=False)
class MomentStream:
    """The immutable state of a stream. `plus` returns a new state with more rows.

    The result does not depend on the division of rows into chunks: when rows are added
    to the moments, and when weights are updated, depends only on the index of the row
    in the stream.
    """

    moments: object  # of the rows that were dropped
    penalty: object
    # of the last scheduled update; rows are added to the moments around them
    weights: np.ndarray
    start: np.ndarray
    half_life: float = math.inf
    # whether the weights reported at the end of a chunk use its rows after the last
    # scheduled one
    each: bool = False
    origin: np.ndarray | None = None  # the first row, which is subtracted from all rows
    expected: np.ndarray | None = (
        None  # means of the assets in place of those of the rows
    )
    # the rows that are still stored
    rows: np.ndarray | None = field(default=None, repr=False)
    p: np.ndarray | None = field(default=None, repr=False)  # their weights
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
    around: Sums | None = (
        None  # sums of the weights around which rows were added to the moments
    )
    least: int = 0  # the value of `enough`, once there is a row

    def plus(self, rows, p=None, end=None):
        """The stream after rows of weights p, with updated weights. The chunk ends at
        row ``end``, or with the rows."""
        end, stream = self.n + len(rows) if end is None else end, self
        last = end if self.each else self._milestone(end)
        if not len(rows):
            return self
        if stream.origin is None:
            empty = {"rows": np.zeros((0, rows.shape[1])), "p": np.zeros(0)}
            stream = replace(
                stream, origin=rows[0].astype(float), least=self._least(), **empty
            )
        at = 0
        while at < len(rows):
            stop = min(stream._room(), len(rows) - at)  # rows
            # a data frame's rows are not contiguous
            new = np.ascontiguousarray(rows[at : at + stop] - stream.origin)
            new_p = np.ones(stop) if p is None else p[at : at + stop].astype(float)
            before = stream.n
            stream = replace(
                stream,
                rows=np.concatenate([stream.rows, new]) if len(stream.rows) else new,
                p=np.concatenate([stream.p, new_p]),
                n=before + stop,
            )
            stream = stream._renewed_within(before)
            if before < last <= stream.n:
                stream = stream._reported(last)
            if stream._room() == 0:
                # twenty effective rows per asset are kept before the first are added
                # to the moments, if they fit in 16 MB
                few = not stream._gone() and (
                    stream.counting(stream.weights) < 20 * rows.shape[1]
                )
                if few and 2 * stream.rows.size <= 2**21:
                    stream = replace(stream, opening=2 * stream.opening)
                else:
                    stream = stream._put_away()
            at += stop
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
            stream = stream._renewed(due)

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
            p = None
        if p is not None and not p.all():
            rows, p = rows[p > 0], p[p > 0]
        return rows, p

    def _settled(self, stop):
        """The optimal weights for all rows up to row ``stop``, or None if there are too
        few rows."""
        counted = self.counted + np.count_nonzero(self.p[: stop - self._gone()])
        if counted < self.enough():
            return None
        if self._is_whole():
            return self._exact(stop)
        # the relative squared change of the weights that ends the iterations; moments
        # are rough
        near = 1e-2 if self._gone() else 1e-6
        w, value = self.weights, math.inf
        if (
            not self._gone() and not self.moments.exact
        ):  # an earlier update on few rows may be far from the optimum
            w = min((self.start, w), key=lambda w: self._value_of(stop, w))
        before = w
        endless = self.enough() > 2 and not self.moments.exact and not self._gone()
        for _ in range(20):
            moments = self._known(stop, w)
            now, halved = self._value(moments, w), 0
            far = endless and w is not before and self._count(moments, stop, w) < len(w)
            # backtracking
            while (far or not now <= value + 1e-12 * abs(value)) and halved < 10:
                w, halved = 0.5 * (w + before), halved + 1
                moments = self._known(stop, w)
                now = self._value(moments, w)
                # a portfolio with hardly any loss in the data
                far = endless and self._count(moments, stop, w) < len(w)
            before, value = w, now
            fit = moments.minimised(self._solver(moments, w), w)
            w, way = fit.weights, fit.weights - before
            if moments.exact or way @ moments.matrix() @ way <= near * (
                w @ moments.matrix() @ w
            ):
                break
        else:
            fit, w = replace(fit, weights=before, gap=math.inf), before
        return replace(fit, value=self._value(moments, w))

    def _is_whole(self):
        """Whether a tail risk is minimised exactly, as its quadratic approximations may
        not converge."""
        # with more assets it would take seconds at each update
        few = len(self.weights) <= 500 and self.enough() == 2
        return few and self.moments.measure is not None and not self._gone()

    def _exact(self, stop):
        """The optimal weights for all rows up to row ``stop``, by Newton's method."""
        moments, (rows, p) = self.moments, self._there(stop)
        aversion = moments.risk_weight if moments.return_weight else math.inf
        added = (
            self.origin
            if self.expected is None
            else self.expected - np.average(rows, axis=0, weights=p)
        )
        task = MeanRisk.of(rows + added, moments.measure, aversion, p, self.penalty)
        start = (
            self.weights if self.penalty is None else self.penalty.project(self.weights)
        )
        return solve_portfolio(task, start)

    def _added(self, moments):
        """What is added to each row, so that the rows have the means of the returns, or
        the expected ones."""
        return self.origin if self.expected is None else self.expected - moments.mean

    def _solver(self, moments, w):
        """A function that solves a quadratic program. Each call starts from the
        solution of the last call."""

        def solve(expected_return, matrix):
            nonlocal w
            start = w if self.penalty is None else self.penalty.project(w)
            mean = expected_return + moments.earned * self._added(moments)
            fit = solve_quadratic(mean, matrix, self.penalty, start)
            w = fit.weights
            return fit

        return solve

    def _value_of(self, stop, w):
        value = self._value(self._known(stop, w), w)
        return value if math.isfinite(value) else math.inf

    def _value(self, moments, w):
        value = moments.value(w) - moments.earned * float(self._added(moments) @ w)
        return value if self.penalty is None else value + self.penalty.value(w)

    def enough(self):
        """The number of rows from which the objective has a minimum: two, or more than
        assets for unbounded weights."""
        return self.least or self._least()

    def _least(self):
        n = len(self.weights)
        feasible = FeasibleSet.of(self.penalty, n)
        below, above = np.isfinite(feasible.low).all(), np.isfinite(feasible.high).all()
        compact = (below and above) or (
            feasible.budget is not None and (below or above)
        )
        return 2 if compact else n + 2 if self.moments.exact else RELIABLE_ROWS * n

    def counting(self, w):
        """The effective number of stored rows that determine the risk, which is small
        for some measures."""
        if self.moments.exact or not w.any():
            return math.inf if self.moments.exact else 0.0
        return self._count(self._known(self.n, w), self.n, w)

    def _count(self, moments, stop, w):
        there = slice(stop - self._gone())
        weights = moments.counts(self.rows[there], w) * self.p[there]
        return float(weights.sum() ** 2 / max(weights @ weights, 1e-300))

    def _shift(self, moments, w):
        if self.around is None or moments.exact:
            return 0.0
        way, matrix = w - self.around.mean, moments.matrix()
        if not w.any():
            return math.inf
        square = (
            np.vdot(matrix, self.around.scatter) / self.around.weight
            + way @ matrix @ way
        )
        return float(square / moments.size(w))

    def _renewed(self, stop):
        fit = self._settled(stop)
        if fit is None:
            return replace(self, renewed=stop)
        return replace(
            self,
            weights=fit.weights,
            renewed=stop,
            records=(*self.records, (stop, fit.value)),
        )

    def _reported(self, stop):
        fit = self._settled(stop)
        if fit is None:
            return self
        equal, w = np.full(len(fit.weights), 1 / len(fit.weights)), fit.weights
        equal = equal if self.penalty is None else self.penalty.project(equal)
        moments = self._known(stop, w)
        risk = moments.risk_weight * float(w @ moments.matrix() @ w)
        gained = max(self._value(moments, equal) - fit.value, risk)
        return replace(
            self, fit=fit, at=stop, gained=gained, shift=self._shift(moments, w)
        )

    def _put_away(self):
        """The stream with all stored rows added to the moments."""
        moments = self._known(self.n, self.weights)
        counted = self.counted + np.count_nonzero(self.p)
        least = RELIABLE_ROWS * len(self.weights)
        thin = self.thin or (not self._gone() and self.counting(self.weights) < least)
        around = Sums.of(self.weights[None], np.full(1, float(len(self.rows))))
        if self.around is not None:
            around = self.around.times(0.5 ** (len(self.rows) / self.half_life)).plus(
                around
            )
        rows, p = self.rows[:0], self.p[:0]
        return replace(
            self,
            moments=moments,
            counted=counted,
            thin=thin,
            around=around,
            rows=rows,
            p=p,
        )
