"""The tables of rounds: some rows in memory whose risk approximates that of all rows
near a portfolio; and the returns of a portfolio over all rows.

`solvers/corrected_sample.py` corrects a sample by the same formula, the gradient on all
rows minus that on the sample, and shares no more: it draws components and runs a solver
on them, where a table keeps the worst rows and has an exact minimum.

A table is a `MeanRisk` with the mean return of all rows. Its risk is that of all rows
("sums"), a lower bound of it ("rows"), or an approximation with the
same gradient at the portfolio ("sample").
"""

from dataclasses import replace

import numpy as np

from sk_stormc.portfolio.exact.quadratic import root_of
from sk_stormc.portfolio.mean_risk import RiskInBlocks
from sk_stormc.portfolio.quantiles import quantile
from sk_stormc.portfolio.rounds.rows import uniform
from sk_stormc.portfolio.sums import Sums

__all__ = [
    "AggregatedRows",
    "SampleTable",
    "MomentTable",
    "PortfolioReturns",
]

# Number of the worst rows of a round that stay, relative to the rows of a table. None
# would make EVaR swing, and sorted rows diverge.
WORST_FRACTION = 0.25
# Relative error of the number of worst or near rows. Exact numbers need more passes.
NUMBER_ERROR = 0.25
TAIL, REST, SINGLE = 0, 1, 2  # the sides of rows


# the returns of a portfolio


class PortfolioReturns:
    """A portfolio's return in each period.

    Attributes
    ----------
    kept : Blocks
        The returns and the weights of the periods, of shape (n_rows, 2).
    ends : tuple of two floats
        The smallest and the largest return in a period of positive weight.
    deviation : float
        The standard deviation.
    """

    def __init__(self, kept):
        (ends, powers) = kept.sum(ends_and_powers)
        low, high = np.transpose(ends)
        self.kept, self.ends = kept, (float(low.min()), float(high.max()))
        self.deviation = float(np.sqrt(max(powers[1] - powers[0] ** 2, 0.0)))

    def risk(self, measure, mean):
        """The `RiskInBlocks` of a measure, given the mean return."""
        return measure.in_blocks(
            lambda f: self.kept.sum(lambda start, kept: f(kept[:, 0], kept[:, 1])),
            mean,
            self.ends,
        )

    def counted(self, of=None):
        """Sums ``total(f)`` of ``f(of(y), 1)`` over the periods that count."""

        def total(f):
            def of_block(start, kept):
                y = kept[kept[:, 1] > 0, 0]
                return f(y if of is None else of(y), np.ones(len(y)))

            return self.kept.sum(of_block)

        return total


def ends_and_powers(start, kept):
    """The smallest and the largest return of positive weight in a block, and the
    weighted sums of the returns and of their squares."""
    y, p = kept.T
    some = y[p > 0]
    ends = some.min(initial=np.inf), some.max(initial=-np.inf)
    return [ends], np.array([p @ y, p @ y**2])


class ReturnsBySums:
    """The variance of a portfolio's returns, by the covariance of all assets."""

    def __init__(self, variance):
        self.variance = max(float(variance), 0.0)
        self.deviation = np.sqrt(self.variance)

    def risk(self, measure, mean):
        """The variance, as `RiskInBlocks` without a gradient."""
        return RiskInBlocks(self.variance, None)


# tables


def drawn(start, rows, p, count):
    """Rows with probabilities min(1, count p), with weights such that sums over them
    are unbiased."""
    probability = np.minimum(count * p, 1.0)
    some = uniform(start, len(rows)) < probability
    return [rows[some]], [p[some] / probability[some]], [start + np.flatnonzero(some)]


class Table:
    """Base class. ``below`` is whether the risk of a table is a lower bound, ``exact``
    whether it is that of all rows, from the first table on. With fewer than
    ``rows_per_asset`` an optimum of a table fits the noise of the sample.

    ``size`` is about the number of rows of a table, which are never more than ``most``.
    """

    below, exact = True, False
    rows_per_asset = 40

    def __init__(self, rows, task, size, most):
        self.rows, self.task, self.size, self.most = rows, task, size, most // 2
        sums = rows.first_sum(
            lambda start, rows, p: (p @ rows, *drawn(start, rows, p, size))
        )
        self.mean = sums[0]
        self.sample, self.weights, self.numbers = map(np.concatenate, sums[1:])

    def first(self):
        """The table of a sample."""
        return self.made_of(self.sample, self.weights)

    def next(self, point):
        """The table for the neighbourhood of a point, and the gradient of the risk
        there. It takes a pass."""
        raise NotImplementedError

    def returns_of(self, w):
        """The `PortfolioReturns` over all rows. It takes a pass."""
        return PortfolioReturns(self.rows.returns_of(w))

    def on_line(self, a, b):
        """The returns of a portfolio between two points, as a function of the part of
        the way."""
        both = a.returns.kept.beside(b.returns.kept)
        return lambda part: PortfolioReturns(
            both.map(lambda start, a, b: a + part * (b - a))
        )

    def has_room(self, point):
        """Whether the table can take the rows that the point asks for."""
        return True

    @property
    def is_large(self):
        """Whether all rows are too many for one table."""
        return len(self.rows) > self.most

    def made_of(self, rows, p):
        """The task of a table, whose rows are shifted so that their mean is that of all
        rows."""
        p = p / p.sum()
        rows = rows + (self.mean - p @ rows)
        return replace(self.task, returns=rows, p=p)


class MomentTable(Table):
    """A table of 2 n rows with the mean and the covariance of all rows."""

    exact = True

    def __init__(self, rows, task, size, most):
        sums = rows.first_sum(lambda start, rows, p: Sums.of(rows, p))
        self.task, self.mean, self.covariance = task, sums.mean, sums.covariance()

    def returns_of(self, w):
        """What the sums say of a portfolio, without a pass."""
        return ReturnsBySums(w @ self.covariance @ w)

    def on_line(self, a, b):
        """What the sums say of a portfolio between two points."""
        return lambda part: self.returns_of(a.w + part * (b.w - a.w))

    def first(self):
        """The table, which is exact."""
        root = np.sqrt(len(self.mean)) * root_of(self.covariance)
        return self.made_of(np.concatenate([root, -root]), np.ones(2 * len(root)))


class SampleTable(Table):
    """A sample with a linear term, for a smooth risk: the gradient at the point is that
    over all rows.

    The worst rows of each round stay for good, with their own weights. The sample fills
    the rest.
    """

    below = False

    def __init__(self, rows, task, size, most):
        super().__init__(rows, task, size, most)
        self.single = self.sample[:0], self.weights[:0], self.numbers[:0]

    def next(self, point):
        """The table and the gradient."""
        slope, worst = point.slope, -np.inf
        if len(self.single[2]) < self.size:
            n = WORST_FRACTION * self.size
            low, high = point.returns.ends
            total = point.returns.counted()
            worst = quantile(total, n, low, high, slack=NUMBER_ERROR * n)

        def of_block(start, rows, p, kept):
            y = kept[:, 0]
            some = (y < worst) & (p > 0)
            return (
                slope(y, p) @ rows,
                [rows[some]],
                [p[some]],
                [start + np.flatnonzero(some)],
            )

        sums = self.rows.sum(of_block, point.returns.kept)
        self._add(*map(np.concatenate, sums[1:]))
        rows, p, numbers = self.single
        rest = ~np.isin(self.numbers, numbers)
        of_rest = self.weights[rest]
        if len(of_rest):
            of_rest = of_rest * (max(1.0 - p.sum(), 0.0) / of_rest.sum())
        table = self.made_of(
            np.concatenate([rows, self.sample[rest]]), np.concatenate([p, of_rest])
        )
        y = table.returns @ point.w
        table.linear = sums[0] - table.measure.subgradient(y, table.p) @ table.returns
        return table, sums[0]

    def _add(self, *rows):
        new = ~np.isin(rows[2], self.single[2])
        self.single = tuple(
            np.concatenate([old, add[new]])
            for old, add in zip(self.single, rows, strict=True)
        )


class AggregatedRows(Table):
    """Rows near the kink of a piecewise linear risk, and the weighted mean of the
    others on each side of it.

    By Jensen's inequality the risk of a table is a lower bound of that of all rows.
    Rows that have changed sides stay single, so that the rounds end.
    """

    sides = None
    rows_per_asset = 10

    def has_room(self, point):
        """Whether the rows that have changed sides can stay single. Otherwise a larger
        table begins anew."""
        if self.sides is None:
            return True
        kink = point.kink
        self.sides = point.returns.kept.beside(self.sides).map(
            lambda start, kept, sides: sided(kept, sides, kink)
        )
        n_single = self.sides.sum(lambda start, sides: int((sides == SINGLE).sum()))
        if n_single <= 2 * self.size:
            return True
        self.sides, self.size = None, min(2 * self.size, self.most)
        return False

    def next(self, point):
        """The table and None for the gradient."""
        kink, size = point.kink, self.size
        if self.sides is None:
            low, high = point.returns.ends
            total = point.returns.counted(lambda y: np.abs(y - kink))
            furthest = max(high - kink, kink - low)
            near = quantile(total, size, 0.0, furthest, slack=NUMBER_ERROR * size)

            def first_sides(start, kept):
                y, distance = kept[:, 0], np.abs(kept[:, 0] - kink)
                some = uniform(start, len(y)) < size / len(self.rows)
                single = (distance < near) | ((distance == near) & some)
                sides = np.where(single, SINGLE, np.where(y < kink, TAIL, REST))
                return sides.astype(np.int8)

            self.sides = point.returns.kept.map(first_sides)

        def of_block(start, rows, p, sides):
            some = (sides == SINGLE) & (p > 0)
            tail, rest = p * (sides == TAIL), p * (sides == REST)
            return (
                [rows[some]],
                [p[some]],
                np.array([tail @ rows, rest @ rows]),
                np.array([tail.sum(), rest.sum()]),
            )

        single, p, sums, mass = self.rows.sum(of_block, self.sides)
        some = mass > 0
        rows = np.concatenate([*single, sums[some] / mass[some, None]])
        return self.made_of(rows, np.concatenate([*p, mass[some]])), None


def sided(kept, sides, kink):
    """The sides of rows, after those that have changed sides have become single."""
    y = kept[:, 0]
    crossed = ((sides == TAIL) & (y > kink)) | ((sides == REST) & (y < kink))
    return np.where(crossed, SINGLE, sides).astype(np.int8)


class AllRows(Table):
    """All rows in one table, if they are few enough."""

    exact = True

    def __init__(self, other):
        some = other.rows.sum(lambda start, rows, p: ([rows[p > 0]], [p[p > 0]]))
        self.rows, self.task, self.mean = other.rows, other.task, other.mean
        self.table = other.made_of(*map(np.concatenate, some))

    def first(self):
        """The table."""
        return self.table
