"""A stream of returns by moments: which rows are still there, when they become sums, and when weights are renewed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from sk_stormc.portfolio.limits import Limits
from sk_stormc.portfolio.newton import LARGEST, NewtonFit, solve_portfolio
from sk_stormc.portfolio.problem import PortfolioProblem
from sk_stormc.portfolio.quadratic import solve_quadratic
from sk_stormc.portfolio.sums import Sums

__all__ = ["MomentStream"]

OPENING, BLOCK = 4096, 1024  # rows that are kept at least at first; and that become sums at a time later
ENOUGH, MEMORY = 20, 2**21  # rows that count for each asset when the first rows become sums, and numbers kept at most
FIRST, GROWTH = 64, 1.5  # row at which weights are renewed first, and how many times as many until the next
FREE = 5  # rows for each asset before weights move that nothing limits, where moments do not say all
THIN = 5  # rows that count for each asset, below which sums of them are not to be trusted
FINE = 128  # part of the rows so far by which weights may be behind at the end of a chunk
TURNS = 20  # of a renewal, at most
NEAR, ROUGH = 1e-6, 1e-2  # change of the weights, relative and squared, that ends them: of rows kept, and in a block
HALVED = 10  # times that a turn may be made shorter


@dataclass(frozen=True, eq=False)
class MomentStream:
    """All that is known of a stream, which `plus` brings on by more rows. Nothing in it is written into.

    How rows are divided into chunks makes no difference: when rows become sums and when weights are renewed depends on
    the numbers of the rows in the stream alone.

    Attributes
    ----------
    moments : object of `sk_stormc.portfolio.moments`
        Of the rows that are gone.
    penalty : object of `sk_stormc.penalties`, Turnover or None
    weights : ndarray of shape (n_assets,)
        As they were renewed last at one of the fixed rows. Rows become sums around them.
    start : ndarray of shape (n_assets,)
        Where the stream began.
    half_life : float
        Rows after which the weight of a row is half of what it was; infinite where nothing fades.
    each : bool
        Whether weights are brought up to the last row at the end of each chunk, and not to a fixed row before.
    origin : ndarray of shape (n_assets,) or None
        The first row, which is subtracted from all.
    rows, p : ndarray
        Those that are still there, and their weights.
    opening : int
        Rows that are kept before the first become sums.
    n : int
        Rows so far.
    counted : int
        Those with a weight above 0 among the rows that are gone.
    thin : bool
        Whether few rows made up the risk when the first became sums.
    renewed : int
        Row of the last renewal.
    fit : NewtonFit or None
        What was found last.
    at : int
        Row of ``fit``.
    gained : float
        How far the objective of equal weights is above that of ``fit``, or the risk of these weights if that is more.
    shift : float
        How far ``fit`` is from the weights around which rows became sums: mean square, over the moments' ``size``.
    records : tuple
        Of (row, objective) at the renewals.
    around : Sums or None
        Of the weights around which rows have become sums.
    least : int
        What `enough` gives, from the first row on.
    """

    moments: object
    penalty: object
    weights: np.ndarray
    start: np.ndarray
    half_life: float = math.inf
    each: bool = False
    origin: np.ndarray | None = None
    rows: np.ndarray | None = field(default=None, repr=False)
    p: np.ndarray | None = field(default=None, repr=False)
    opening: int = OPENING
    n: int = 0
    counted: int = 0
    thin: bool = False
    renewed: int = 0
    fit: NewtonFit | None = None
    at: int = 0
    gained: float = 0.0
    shift: float = 0.0
    records: tuple = ()
    around: Sums | None = None
    least: int = 0

    def plus(self, rows, p=None, end=None):
        """The stream with these rows, and weights that know of them.

        Parameters
        ----------
        rows : ndarray of shape (n_rows, n_assets)
        p : ndarray of shape (n_rows,), default=None
            Weights of the rows.
        end : int, default=None
            Row at which the chunk ends that they are from; None means at the last of them.
        """
        end, stream = self.n + len(rows) if end is None else end, self
        last = end if self.each else self._milestone(end)
        if not len(rows):
            return self
        if stream.origin is None:
            empty = {"rows": np.zeros((0, rows.shape[1])), "p": np.zeros(0)}
            stream = replace(stream, origin=rows[0].astype(float), least=self._least(), **empty)
        at = 0
        while at < len(rows):
            stop = min(stream._room(), len(rows) - at)  # rows
            new = np.ascontiguousarray(rows[at : at + stop] - stream.origin)  # a data frame's are laid by column
            known = np.ones(stop) if p is None else p[at : at + stop].astype(float)
            before = stream.n
            stream = replace(
                stream,
                rows=np.concatenate([stream.rows, new]) if len(stream.rows) else new,
                p=np.concatenate([stream.p, known]),
                n=before + stop,
            )
            stream = stream._renewed_within(before)
            if before < last <= stream.n:
                stream = stream._reported(last)
            if stream._room() == 0:
                few = not stream._gone() and stream.counting(stream.weights) < ENOUGH * rows.shape[1]
                more = few and 2 * stream.rows.size <= MEMORY
                stream = replace(stream, opening=2 * stream.opening) if more else stream._put_away()
            at += stop
        return stream

    # when

    def _gone(self):
        """Rows that have become sums."""
        return self.n - len(self.rows)

    def _room(self):
        """Rows until those that are there become sums."""
        return (BLOCK if self._gone() or self.moments.exact else self.opening) - len(self.rows)

    def _memory(self, n):
        """How many of n rows count."""
        return min(n, self.half_life / math.log(2))

    def _milestone(self, n):
        """The last of certain rows that is not behind row n: they are nearer to each other than ``FINE`` allows."""
        step = 2 ** max(0, math.floor(math.log2(max(self._memory(n), 1) / FINE)))
        return n // step * step

    def _renewed_within(self, before):
        """Renewed at the fixed rows among the last ones."""
        stream = self
        while True:
            known = stream._memory(stream.renewed)
            due = FIRST if not stream.renewed else stream.renewed + max(1, math.ceil((GROWTH - 1) * known))
            if stream._gone():  # once for a block
                due = max(due, stream.n if not stream._room() else stream.n + 1)
            if not before < due <= stream.n:
                return stream
            stream = stream._renewed(due)

    # what

    def _known(self, stop, w):
        """The moments of all rows up to a number, those that are still there around w."""
        (rows, p), moments = self._there(stop), self.moments
        if self.half_life < math.inf:
            moments = moments.times(0.5 ** ((stop - self._gone()) / self.half_life))
        return moments.plus(rows, p, w) if len(rows) else moments

    def _there(self, stop):
        """The rows that are still there up to a number, and their weights."""
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
        """The weights that are best for all rows up to a number; None while there are too few."""
        counted = self.counted + np.count_nonzero(self.p[: stop - self._gone()])
        if counted < self.enough():
            return None
        if self._is_whole():
            return self._exact(stop)
        near = ROUGH if self._gone() else NEAR
        w, value = self.weights, math.inf
        if not self._gone() and not self.moments.exact:  # few rows may have led far away
            w = min((self.start, w), key=lambda w: self._value_of(stop, w))
        before, endless = w, self.enough() > 2 and not self.moments.exact and not self._gone()
        for _ in range(TURNS):
            known = self._known(stop, w)
            now, halved = self._value(known, w), 0
            far = endless and w is not before and self._count(known, stop, w) < len(w)
            while (far or not now <= value + 1e-12 * abs(value)) and halved < HALVED:  # the last turn went too far
                w, halved = 0.5 * (w + before), halved + 1
                known = self._known(stop, w)
                now = self._value(known, w)
                far = endless and self._count(known, stop, w) < len(w)  # to a portfolio that hardly ever loses
            before, value = w, now
            fit = known.minimised(self._solver(w), w)
            w, way = fit.weights, fit.weights - before
            if known.exact or way @ known.matrix() @ way <= near * (w @ known.matrix() @ w):
                break
        else:
            fit, w = replace(fit, weights=before, gap=math.inf), before
        return replace(fit, value=self._value(known, w))

    def _is_whole(self):
        """Whether the rows are all there, for a tail risk of limited weights: turns of parabolas may not settle."""
        few = len(self.weights) <= LARGEST and self.enough() == 2
        return few and self.moments.measure is not None and not self._gone()

    def _exact(self, stop):
        """The best weights for all rows up to a number, by Newton's method."""
        moments, (rows, p) = self.moments, self._there(stop)
        confidence = 1 - moments.tail if moments.measure == "cvar" else -math.expm1(-moments.allowed)
        options = {"confidence": confidence, "sample_weight": p, "penalty": self.penalty}
        aversion = moments.price if moments.gain else math.inf
        problem = PortfolioProblem(rows + self.origin, aversion, risk_measure=moments.measure, **options)
        start = self.weights if self.penalty is None else self.penalty.project(self.weights)
        return solve_portfolio(problem, self.penalty, start)

    def _solver(self, w):
        """A function that solves one quadratic program after another, each from the weights of the one before."""

        def solve(drift, matrix):
            nonlocal w
            start = w if self.penalty is None else self.penalty.project(w)
            fit = solve_quadratic(drift + self.moments.earned * self.origin, matrix, self.penalty, start)
            w = fit.weights
            return fit

        return solve

    def _value_of(self, stop, w):
        value = self._value(self._known(stop, w), w)
        return value if math.isfinite(value) else math.inf

    def _value(self, known, w):
        value = known.value(w) - known.earned * float(self.origin @ w)
        return value if self.penalty is None else value + self.penalty.value(w)

    def enough(self):
        """Rows of which there is a minimum: two, or more than assets where weights may go on without end."""
        return self.least or self._least()

    def _least(self):
        n = len(self.weights)
        limits = Limits.of(self.penalty, n)
        below, above = np.isfinite(limits.low).all(), np.isfinite(limits.high).all()
        compact = (below and above) or (limits.budget is not None and (below or above))
        return 2 if compact else n + 2 if self.moments.exact else FREE * n

    def counting(self, w):
        """How many of the rows that are there say something of the objective: a mean over some may hang on few."""
        if self.moments.exact or not w.any():
            return math.inf if self.moments.exact else 0.0
        return self._count(self._known(self.n, w), self.n, w)

    def _count(self, known, stop, w):
        there = slice(stop - self._gone())
        weights = known.counts(self.rows[there], w) * self.p[there]
        return float(weights.sum() ** 2 / max(weights @ weights, 1e-300))

    def _shift(self, known, w):
        if self.around is None or known.exact:
            return 0.0
        way, matrix = w - self.around.mean, known.matrix()
        if not w.any():
            return math.inf
        square = np.vdot(matrix, self.around.scatter) / self.around.weight + way @ matrix @ way
        return float(square / known.size(w))

    def _renewed(self, stop):
        fit = self._settled(stop)
        if fit is None:
            return replace(self, renewed=stop)
        return replace(self, weights=fit.weights, renewed=stop, records=(*self.records, (stop, fit.value)))

    def _reported(self, stop):
        fit = self._settled(stop)
        if fit is None:
            return self
        equal, w = np.full(len(fit.weights), 1 / len(fit.weights)), fit.weights
        equal = equal if self.penalty is None else self.penalty.project(equal)
        known = self._known(stop, w)
        risk = known.price * float(w @ known.matrix() @ w)
        gained = max(self._value(known, equal) - fit.value, risk)
        return replace(self, fit=fit, at=stop, gained=gained, shift=self._shift(known, w))

    def _put_away(self):
        """With all rows as sums."""
        known = self._known(self.n, self.weights)
        counted = self.counted + np.count_nonzero(self.p)
        thin = self.thin or (not self._gone() and self.counting(self.weights) < THIN * len(self.weights))
        around = Sums.of(self.weights[None], np.full(1, float(len(self.rows))))
        if self.around is not None:
            around = self.around.times(0.5 ** (len(self.rows) / self.half_life)).plus(around)
        return replace(self, moments=known, counted=counted, thin=thin, around=around, rows=self.rows[:0], p=self.p[:0])
