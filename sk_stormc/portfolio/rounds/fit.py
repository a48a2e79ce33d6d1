"""Rounds: an exact fit of a table in memory, and passes over all rows, in turn.

The objective over all rows at the portfolio of a table is an upper bound of the
minimum. A table whose risk is a lower bound gives a lower bound of it, and so does the
gradient of the risk.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar

from sk_stormc.engine.stopping import Gap
from sk_stormc.portfolio.convex_program import ACCURACY
from sk_stormc.portfolio.exact.objectives import BelowLeastRisk
from sk_stormc.portfolio.exact.program import (
    MAX_PRODUCTS,
    MAX_RETURNS,
    Optimum,
)
from sk_stormc.portfolio.risk.semideviation import Semideviation
from sk_stormc.portfolio.rounds import tables
from sk_stormc.portfolio.rounds.goals import MeanWithinRisk, RatioOfMean, UtilityOfMean
from sk_stormc.portfolio.rounds.points import Point, PortfolioReturns

__all__ = ["Rounds", "refuse_ordered", "score_in_blocks"]

TABLES = {
    "sums": tables.Moments,
    "sample": tables.CorrectedSample,
    "rows": tables.AggregatedRows,
}
# A table has this fraction of the rows. With fewer rows there are more rounds, and with
# more an exact fit of a table takes longer than the passes.
TABLE_FRACTION = 0.05
# With fewer rows for an asset, an optimum of a table fits the noise of the sample.
ROWS_PER_ASSET = 40
MIN_TABLE_ROWS = 500
MAX_TABLE_ROWS = 25_000  # an exact fit of these takes some seconds
MAX_ROUNDS, MAX_CUTS = 50, 1000  # usual are 3 to 6 rounds, and 40 to 150 cutting planes
# If the gap has hardly fallen in this fraction of them, all rows become one table, if
# they are few enough. Otherwise the rounds end, with a warning.
STALLED_FRACTION = 0.2
# Factor of tol for aggregated rows, which are usually exact one round after the gap is
# below tol. Without it, these fits would be less accurate than those in memory.
AGGREGATED_TOL = 0.01
# Tolerance of the least risk, which only has to be bounded away from 0.
LEAST_RISK_TOL = 0.1


def refuse_ordered(measure):
    """Raise a ValueError for a risk that depends on the order of all periods, which a
    dask collection divides."""
    if measure.ordered:
        raise ValueError(
            f"risk_measure={measure.name!r} needs all periods in their order, in "
            "memory or in a memmap, got a dask collection: use X.compute()"
        )


def score_in_blocks(portfolio, task, weights):
    """`score` for returns in blocks."""
    w, rows, measure = np.asarray(weights, float), task.returns, task.measure
    if rows.in_dask:
        refuse_ordered(measure)
    mean = float(rows.mean @ w)
    if portfolio.max_risk is not None:
        return mean
    risk = PortfolioReturns(rows.returns_of(w)).risk(measure, mean).value
    if portfolio.objective == "ratio":
        return mean / risk ** (1 / measure.power)
    earned = mean * task.return_weight if measure.power else 0.0
    return earned - task.linear_weight * risk


class Rounds:
    """An objective over rows in blocks, for `ExactMethod`.

    Parameters
    ----------
    task : MeanRisk
        Its returns are `Rows`.
    goal : "utility", "ratio" or float
        A number is the maximum risk.
    tol : float
        Relative gap that ends the rounds.
    """

    def __init__(self, task, goal, tol):
        measure = task.measure
        if measure.name == "semivariance" and goal != "utility":
            measure = Semideviation(2.0)  # the root, which is homogeneous
        self.task = task = replace(task, measure=measure)
        self.rows, self.penalty, self.tol = task.returns, task.penalty, tol
        self.most = MAX_CUTS if measure.ordered else MAX_ROUNDS
        kind = tables.CuttingPlanes if measure.ordered else TABLES[measure.rounds]
        n, d = self.rows.shape
        most = int(min(MAX_RETURNS / d, MAX_PRODUCTS / d**2))
        least = max(MIN_TABLE_ROWS, ROWS_PER_ASSET * d)
        size = min(max(TABLE_FRACTION * n, least), MAX_TABLE_ROWS, most / 2)
        self.table = kind(self.rows, task, int(size), most)
        if kind is tables.AggregatedRows and goal in ("utility", "ratio"):
            self.tol *= AGGREGATED_TOL
        self.checked = False  # whether some portfolio is known to meet the maximum risk
        mean = self.table.mean
        if goal == "utility":
            self.goal = UtilityOfMean(task, mean)
        elif goal == "ratio":
            self.goal = RatioOfMean(task, mean, self._bound_risk)
        else:
            self.goal = MeanWithinRisk(task, mean, goal)
        self.first = self.table.first()
        self.start = self.goal.start(self.first)
        self.gap, self.gaps, self.points = np.inf, [], []

    # the interface of objectives

    def value_at(self, w):
        """The objective over all rows."""
        return self.at(w).value

    def allows(self, w):
        """True: the objective is infinite for a risk beyond the limit."""
        return True

    def last_feasible(self, w):
        """The weights, which are feasible."""
        return w

    def gap_at(self, w):
        """The gap when the rounds ended."""
        return self.gap

    def spread(self, w):
        """The scale of the gap: the improvement on the initial weights, or the risk if
        it is larger."""
        point, first = self.at(w), self.at(self.start)
        if isinstance(self.goal, RatioOfMean):
            return abs(point.value)
        risk = point.returns.deviation
        if self.penalty.has_benchmark:  # which may be the best portfolio, without risk
            risk = max(risk, 0.01 * self._benchmark_risk)
        if self.task.measure.power == 2 and not isinstance(self.goal, MeanWithinRisk):
            risk = self.task.risk_weight * risk**2
        better = first.value - point.value
        return max(better, risk) if np.isfinite(better) else risk

    @cached_property
    def _benchmark_risk(self):
        """The deviation of the benchmark's returns, which costs a pass."""
        return self.at(self.penalty.empty).returns.deviation

    def minimise(self, callback):
        """Find the weights. ``callback`` is called with the best weights so far after
        each round."""
        goal, rows, table = self.goal, self.table, self.first
        point = best = self.at(self.start)
        lower, unit = -np.inf, 0.0
        for k in range(self.most):
            if k:
                if not rows.has_room(point):
                    point = self._between(best, point)
                table, slope = rows.next(point)
                if not rows.below:
                    lower = max(lower, goal.lower(point, slope))
                    if self._is_small(best, lower):
                        break
                if len(self.gaps) > STALLED_FRACTION * self.most:
                    if rows.is_large:
                        break
                    self.table = rows = tables.AllRows(rows)
                    table, self.gaps = rows.table, []
            # from the last point a small improvement would count as rounding
            fit = goal.minimised(table, self.start)
            if fit.reason and not self.checked:
                point = best = self._of_least_risk()
                continue
            if rows.below and (k or isinstance(rows, tables.Moments)):
                lower = max(lower, fit.lower)
            w = np.asarray(fit.weights, float)
            unit, point = max(unit, fit.unit), self.at(rows.proposed(w, best))
            goal.learn(point)
            if point.value > best.value and not rows.below:
                point = self._between(best, point)
            best = min(best, point, key=lambda point: point.value)
            self.points = [self.at(self.start), best, point]
            callback(best.w, fit.n_iter * len(table.p))
            if self._is_small(best, lower):
                break
        # two bounds that contradict each other are both returned
        lower = lower if self.gap == np.inf else best.value - self.gap
        return Optimum(best.w, best.value, lower, k, unit)

    def _is_small(self, best, lower):
        """Whether the gap is small enough, or the bounds contradict each other. It is
        stored, and so are the last ones among which it has hardly fallen."""
        gap = Gap(best.value, lower, self.spread(best.w), max(self.tol, ACCURACY))
        self.gap = gap.size
        if not (self.gaps and self.gap > 0.9 * self.gaps[0]):
            self.gaps = []
        self.gaps.append(self.gap)
        return gap.is_small or gap.contradiction > 0

    def _of_least_risk(self):
        """The point of least risk. Raises an error if its risk is above the limit."""
        self.checked = True
        w = self._least_risk(0.0).weights
        point = self.at(w)
        if point.value == np.inf:
            raise BelowLeastRisk(
                self.goal.max_risk, point.risk ** (1 / self.task.measure.power), w
            )
        return point

    def _bound_risk(self):
        """A lower bound of the risk of all portfolios."""
        least = self._least_risk(LEAST_RISK_TOL)
        return least.lower

    def _least_risk(self, tol):
        """The portfolio of least risk, an `Optimum`."""
        task = self.task.with_aversion(np.inf, self.penalty.without_costs())
        return Rounds(task, "utility", tol).minimise(lambda w, n_evaluated: None)

    # points

    def at(self, w):
        """The `Point` of weights. That of the initial weights, the best and the last
        one are stored."""
        w = np.asarray(w, float)
        for point in self.points:
            if np.array_equal(point.w, w):
                return point
        point = self._point(w, self.table.returns_of(w))
        self.points.append(point)
        return point

    def _point(self, w, returns):
        risk = self._risk(w, returns)
        return Point(w, returns, self.goal.value(w, risk.value), *risk)

    def _risk(self, w, returns):
        return returns.risk(self.task.measure, float(self.table.mean @ w))

    def _between(self, a, b):
        """The best point on the line between two."""
        both, way = a.returns.kept.beside(b.returns.kept), b.w - a.w

        def returns_at(s):
            return PortfolioReturns(both.map(lambda start, a, b: a + s * (b - a)))

        def merit(s):
            w = a.w + s * way
            return self.goal.merit(w, self._risk(w, returns_at(s)).value)

        s = minimize_scalar(
            merit, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-2}
        ).x
        return self._point(a.w + s * way, returns_at(s))
