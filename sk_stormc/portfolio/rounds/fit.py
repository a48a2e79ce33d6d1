"""Rounds: an exact fit of a table in memory, and passes over all rows, in turn.

The objective over all rows at the portfolio of a table is an upper bound of the
minimum. A table whose risk is a lower bound gives a lower bound of it, and so does the
gradient of the risk.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from sk_stormc.engine.stopping import Gap
from sk_stormc.portfolio.convex_program import ACCURACY, PROGRAM_TOLERANCE
from sk_stormc.portfolio.exact.objectives import BelowLeastRisk, Utility, last_within
from sk_stormc.portfolio.exact.program import (
    MAX_PRODUCTS,
    MAX_RETURNS,
    Optimum,
    solve_portfolio,
)
from sk_stormc.portfolio.rounds import tables
from sk_stormc.portfolio.rounds.tables import PortfolioReturns

__all__ = ["Rounds", "refuse_ordered", "score_in_blocks"]

TABLES = {
    "sums": tables.MomentTable,
    "sample": tables.SampleTable,
    "rows": tables.AggregatedRows,
}
# A table has this fraction of the rows. With fewer rows there are more rounds, and with
# more an exact fit of a table takes longer than the passes.
TABLE_FRACTION = 0.05
MIN_TABLE_ROWS = 500
MAX_TABLE_ROWS = 25_000  # an exact fit of these takes some seconds
MAX_ROUNDS = 50  # usual are 3 to 6
# If the gap has hardly fallen in this fraction of them, all rows become one table, if
# they are few enough. Otherwise the rounds end, with a warning.
STALLED_FRACTION = 0.2
# Factor of tol for aggregated rows, which are usually exact one round after the gap is
# below tol. Without it, these fits would be less accurate than those in memory.
AGGREGATED_TOL = 0.01


@dataclass(eq=False)
class Point:
    """A portfolio of the rounds."""

    w: np.ndarray
    returns: Any  # `PortfolioReturns` or `ReturnsBySums`
    value: float  # of the objective
    risk: float
    slope: Any
    kink: float | None


def refuse_ordered(measure):
    """Raise a ValueError for a risk that depends on the order of all periods, which a
    dask collection divides."""
    if measure.ordered:
        raise ValueError(
            f"risk_measure={measure.name!r} needs all periods in their order, in "
            "memory, got a dask collection: use X.compute()"
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
    """A goal over rows in blocks, for `ExactMethod`.

    Parameters
    ----------
    task : MeanRisk
        Its returns are `Rows`.
    goal : callable
        The goal of a task in memory. Its `value`, its costs and its bounds are also
        those over all rows, as the tables have the same mean return.
    tol : float
        Relative gap that ends the rounds.
    """

    def __init__(self, task, goal, tol):
        self.task, self.goal_of, self.tol = task, goal, tol
        measure, self.rows = task.measure, task.returns
        kind = TABLES[measure.rounds]
        n, d = self.rows.shape
        most = int(min(MAX_RETURNS / d, MAX_PRODUCTS / d**2))
        least = max(MIN_TABLE_ROWS, kind.rows_per_asset * d)
        size = min(max(TABLE_FRACTION * n, least), MAX_TABLE_ROWS, most / 2)
        self.table = kind(self.rows, task, int(size), most)
        if not self.table.exact and n <= size:
            self.table = tables.AllRows(self.table)
        if kind is tables.AggregatedRows:
            self.tol *= AGGREGATED_TOL
        self.gap, self.gaps, self.points, self.figures = np.inf, [], [], {}
        self.first = self.table.first()
        self.goal = goal(self.first)
        try:
            start = self.goal.start
        except BelowLeastRisk as error:
            start = error.weights
        self.start = np.asarray(start, float)

    # the interface of objectives

    def value_at(self, w):
        """The objective over all rows."""
        return self.figures_at(w)[0]

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
        """The scale of the gap."""
        return self.goal.spread(w, self.figures_at)

    def figures_at(self, w):
        """The objective and the deviation of weights, which cost one pass."""
        key = np.asarray(w, float).tobytes()
        if key not in self.figures:
            point = self.at(w)
            self.figures[key] = point.value, point.returns.deviation
        return self.figures[key]

    def minimise(self, callback):
        """Find the weights. ``callback`` is called with the best weights so far after
        each round."""
        rows, table = self.table, self.first
        point = best = self.at(self.start)
        lower, unit = -np.inf, 0.0
        for k in range(MAX_ROUNDS):
            if k:
                if not rows.has_room(point):
                    point = self._between(best, point)
                table, slope = rows.next(point)
                if not rows.below:
                    lower = max(lower, self.goal.lower(point, slope))
                    if self._is_small(best, lower):
                        break
                if len(self.gaps) > STALLED_FRACTION * MAX_ROUNDS:
                    if rows.is_large:
                        break
                    self.table = rows = tables.AllRows(rows)
                    table, self.gaps = rows.table, []
            fit = self._optimum(table, best)
            if rows.exact or (rows.below and k):
                lower = max(lower, fit.lower)
            w = np.asarray(fit.weights, float)
            unit, point = max(unit, fit.unit), self.at(w)
            if self.goal.excess(point.risk) > 0:
                point = self._within(point)
            if point.value > best.value and not rows.below:
                point = self._between(best, point)
            best = min(best, point, key=lambda point: point.value)
            self.points = [self.at(self.start), best, point]
            callback(best.w, fit.n_iter * len(table.p))
            if self._is_small(best, lower) or rows.exact:
                break
        # two bounds that contradict each other are both returned
        lower = lower if self.gap == np.inf else best.value - self.gap
        return Optimum(best.w, best.value, lower, k, unit)

    def _optimum(self, table, best):
        """The optimum of a table."""
        # near the optimum of a sample, a small improvement would count as rounding
        goal = self.goal_of(table, best.w if self.table.below else None)
        iterations = []
        try:
            found = goal.minimise(iterations.append)
            self.goal = goal
        except ValueError:
            # the table alone has no optimum, but its points of the curve F exist
            aversion = self.goal.aversion_at(best.value)
            point = table.with_aversion(aversion, table.penalty)
            found = replace(solve_portfolio(point, self.start), lower=-np.inf, unit=0.0)
        return replace(found, n_iter=len(iterations))

    def _is_small(self, best, lower):
        """Whether the gap is small enough, or the bounds contradict each other. It is
        stored, and so are the last ones among which it has hardly fallen."""
        gap = Gap(best.value, lower, self.spread(best.w), max(self.tol, ACCURACY))
        self.gap = gap.size
        if not (self.gaps and self.gap > 0.9 * self.gaps[0]):
            self.gaps = []
        self.gaps.append(self.gap)
        return gap.is_small or gap.contradiction > 0

    def _within(self, point):
        """The mixture, with the maximum risk, of the initial weights and a point beyond
        it."""
        if self.goal.excess(self.at(self.start).risk) > 0:
            self.start = self._least_risk()
        return self._on_way(
            self.at(self.start),
            point,
            lambda at: last_within(lambda part: self.goal.excess(at(part).risk)),
        )

    def _least_risk(self):
        """The weights of the least risk. Raises an error if it is above the maximum."""
        task = self.task.with_aversion(np.inf, self.task.penalty.without_costs())
        least = Rounds(task, Utility, 0.0).minimise(lambda w, n_evaluated: None)
        if self.goal.excess(least.value) > PROGRAM_TOLERANCE * least.unit:
            risk = least.value ** (1 / task.measure.power)
            raise BelowLeastRisk(self.goal.max_risk, risk, least.weights)
        return least.weights

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
        risk = returns.risk(self.task.measure, float(self.table.mean @ w))
        value = self.goal.value(w, risk.value)
        if self.goal.excess(risk.value) > 0:
            value = np.inf
        return Point(w, returns, value, *risk)

    def _between(self, a, b):
        """The best point on the line between two."""

        def best_part(at):
            return minimize_scalar(
                lambda part: at(part).value,
                bounds=(0.0, 1.0),
                method="bounded",
                options={"xatol": 1e-2},
            ).x

        return self._on_way(a, b, best_part)

    def _on_way(self, a, b, part_of):
        """A point on the line between two, from their returns."""
        returns_at = self.table.on_line(a, b)

        def at(part):
            return self._point(a.w + part * (b.w - a.w), returns_at(part))

        return at(part_of(at))
