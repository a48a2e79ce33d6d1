"""What rounds optimise: the utility, the ratio, or the mean return within a maximum
risk.

Each goal has the objective of a portfolio, its optimum for a table in memory, and a
lower bound of the objective over all portfolios that follows from a linear lower bound
of the risk.
"""

from dataclasses import replace

import numpy as np

from sk_stormc.portfolio.exact.feasible_set import minimise_around
from sk_stormc.portfolio.exact.objectives import BelowLeastRisk, Utility, WithinRisk
from sk_stormc.portfolio.exact.program import Optimum, solve_portfolio
from sk_stormc.portfolio.exact.ratio import Ratio, no_maximum

__all__ = ["MeanWithinRisk", "RatioOfMean", "UtilityOfMean"]

# Error of the minima of HiGHS, relative to the largest coefficient and to the weights.
# Without this allowance, lower bounds are above the minimum by up to 2e-5 of it.
LINEAR_PROGRAM_ERROR = 1e-6
# A larger relative error of a table's risk is that of a table of another neighbourhood,
# and a limit that is lowered by it would exclude the optimum.
MAX_MARGIN_ERROR = 1e-3
DINKELBACH_STEPS = 20  # 3 to 5 are usual


def counted(objective):
    """The optimum of an objective for a table, with the number of its iterations."""
    iterations = []
    return replace(objective.minimise(iterations.append), n_iter=len(iterations))


class UtilityOfMean:
    """Minus the utility."""

    def __init__(self, task, mean):
        self.task, self.feasible, self.mean = task, task.penalty, mean
        # entropic risk contains the mean
        self.return_weight = task.return_weight if task.measure.power else 0.0

    def costs(self, w):
        """The value of the penalty."""
        return self.feasible.value(w)

    def value(self, w, risk):
        """The objective of weights whose risk is known."""
        return (
            self.task.linear_weight * risk
            - self.return_weight * float(self.mean @ w)
            + self.costs(w)
        )

    def merit(self, w, risk):
        """The function that a search on a line minimises."""
        return self.value(w, risk)

    def start(self, table):
        """The initial weights."""
        return np.asarray(Utility(table).start, float)

    def minimised(self, table, start):
        """The `Optimum` of a table, a `MeanRisk` in memory, with a bound of its gap to
        all portfolios on the table."""
        return solve_portfolio(table, start)

    def learn(self, point):
        """Compare the risk of the last optimum on its table with its risk over all
        rows."""

    def lower(self, point, slope):
        """The lower bound that follows from risk(v) >= risk + slope @ (v - w)."""
        c = self.task.linear_weight * slope - self.return_weight * self.mean
        w = point.w
        at_point = self.value(w, point.risk) - self.costs(w) - c @ w
        return at_point + self._minimum(c, w)[1]

    def _minimum(self, c, w, weight=1.0):
        """The minimiser and the minimum of c @ s + weight * costs(s). Missing bounds
        are replaced around w, and around equal weights if w is 0."""
        around = w if w.any() else np.ones(len(w))
        s, value = minimise_around(self.feasible, c, around, weight)
        if len(self.feasible.A) or self.feasible.norms:
            size = np.abs(s).max() + np.abs(w).max()
            value -= LINEAR_PROGRAM_ERROR * np.abs(c).max() * size
        return s, (value if np.isfinite(value) else -np.inf)


class RatioOfMean(UtilityOfMean):
    """Minus the ratio of mean return to risk.

    ``bound_risk`` computes a lower bound of the risk of all portfolios by rounds of
    their own, if the gradients of the risk give none.
    """

    floor, largest = 0.0, 0.0  # the risk that counts as 0, and the largest ratio so far
    least = -np.inf  # a lower bound of the risk of all portfolios

    def __init__(self, task, mean, bound_risk):
        super().__init__(task, mean)
        self.bound_risk = bound_risk

    def value(self, w, risk):
        """The objective of weights whose risk is known."""
        risk = max(risk, 0.0) ** (1 / self.task.measure.power)
        net = float(self.mean @ w) - self.costs(w)
        if risk <= self.floor:
            if net > 0:
                raise no_maximum("a portfolio has no risk")
            return np.inf
        self.largest = max(self.largest, net / risk)
        return -net / risk

    def start(self, table):
        """The initial weights."""
        ratio = Ratio(table)
        self.floor = ratio.floor
        return np.asarray(ratio.start, float)

    def minimised(self, table, start):
        """The optimum of a table."""
        try:
            return counted(Ratio(table))
        except ValueError:
            # a portfolio has no risk on the table: a step of Dinkelbach's method has a
            # minimum
            step = table.with_aversion(self.largest, self.feasible)
            return replace(solve_portfolio(step, start), lower=-np.inf, unit=0.0)

    def lower(self, point, slope):
        """The bound of net return / slope @ v, by Dinkelbach's iterations.

        Portfolios v of a larger ratio than 1 / nu have a net return of at least nu
        times their risk. If slope @ v - nu * net return >= -short for all v, then
        their ratio is at most (1 + short / risk(v)) / nu.
        """
        nu, bound = -1 / point.value, -np.inf
        if not nu > 0:
            return bound
        least = self._lower_risk(point.w, slope)
        for _ in range(DINKELBACH_STEPS):
            s, minimum = self._minimum(slope - nu * self.mean, point.w, nu)
            short = max(-minimum, 0.0)
            if least > 0:
                bound = max(bound, -(1 + short / least) / nu)
            earned = float(self.mean @ s) - self.costs(s)
            if not 0 < slope @ s < nu * earned:
                break
            nu = float(slope @ s) / earned
        return bound

    def _lower_risk(self, w, slope):
        """A lower bound of the risk of all portfolios. As the risk is homogeneous,
        risk(v) >= slope @ v."""
        self.least = max(self.least, self._minimum(slope, w, 0.0)[1])
        if not self.least > 0 and self.bound_risk is not None:
            self.least, self.bound_risk = self.bound_risk(), None
        return self.least


class MeanWithinRisk(UtilityOfMean):
    """Minus the mean return after costs, subject to risk(w) <= max_risk.

    The limit of a table is lowered by twice the error of the table's risk at the last
    optimum, so that its optimum is within the limit over all rows.
    """

    def __init__(self, task, mean, max_risk):
        super().__init__(task, mean)
        self.max_risk, self.limit = max_risk, max_risk**task.measure.power
        self.aversion, self.margin, self._model = 0.0, 0.0, None

    def value(self, w, risk):
        """The objective of weights whose risk is known; infinity beyond the limit."""
        return self.costs(w) - float(self.mean @ w) if risk <= self.limit else np.inf

    def merit(self, w, risk):
        """The objective with an exact penalty for a risk beyond the limit."""
        beyond = max(risk - self.limit, 0.0)
        return self.costs(w) - float(self.mean @ w) + 2 * self.aversion * beyond

    def minimised(self, table, start):
        """The optimum of a table, or its portfolio of least risk, with a reason, if
        that is beyond the limit."""
        lowered, power = self.max_risk * (1 - self.margin), self.task.measure.power
        try:
            objective = WithinRisk(table, lowered)
        except BelowLeastRisk as error:
            self._model = None
            return Optimum(error.weights, 0.0, -np.inf, 0, reason=str(error))
        best = counted(objective)
        self.aversion = objective.aversion
        self._model = objective.risk_at(best.weights) ** power
        margin = self.aversion * (self.limit - lowered**power)
        return replace(best, lower=best.lower - margin)

    def learn(self, point):
        """Set the margin to twice the relative error of the table's risk, once that is
        small."""
        error = abs(point.risk / self._model - 1) if self._model else np.inf
        self.margin = 2 * error if error <= MAX_MARGIN_ERROR else 0.0

    def lower(self, point, slope):
        """The bound by the Lagrangian, with the risk aversion of the last table."""
        c = self.aversion * slope - self.mean
        return (
            self.aversion * (point.risk - slope @ point.w - self.limit)
            + self._minimum(c, point.w)[1]
        )
