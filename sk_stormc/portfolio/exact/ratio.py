"""The portfolio of the largest ratio of mean return to risk, by the transformation of
Charnes and Cooper (1962).

The ratio does not change if all weights are multiplied by a number k > 0. It is
therefore equivalent to minimise the risk of v = k w subject to a mean return of 1 after
costs. The constraints on w become constraints on v and the additional variable k: w <=
high becomes v <= high k. Transaction costs and the turnover constraint apply to |v -
previous k|.
"""

from dataclasses import replace

import numpy as np
from scipy.linalg import svdvals

from sk_stormc.core.penalties import Box
from sk_stormc.portfolio.convex_program import (
    ACCURACY,
    INFINITE_WEIGHT,
    PROGRAM_TOLERANCE,
    RELATIVE_ROUNDING,
    risk_bound,
    transposed,
)
from sk_stormc.portfolio.exact.feasible_set import (
    FARTHEST_WEIGHT,
    SEARCH_RADIUS,
    FeasibleSet,
    bounds_around,
    minimise_around,
)
from sk_stormc.portfolio.exact.linear_programs import minimise_linear, presolve
from sk_stormc.portfolio.exact.program import Optimum, Scaled

__all__ = ["Ratio", "no_maximum", "ratio_at"]

# by how much the quotients of risk and deviation differ between portfolios
SAFETY = 4.0


def ratio_at(task, weights):
    """The ratio of given weights on the returns of a task, with the root of the
    variance or semivariance."""
    risk = task.with_aversion(np.inf).value(weights)
    return float(float(task.mean @ weights) / risk ** (1 / task.measure.power))


def net_return(w, mean, feasible):
    """The mean return after costs."""
    return float(
        mean @ w - sum(cost @ np.abs(w - at) for _, cost, at in feasible.costs())
    )


class Cone(FeasibleSet):
    """The constraints on w as constraints on (v, rest, k), with a mean return after
    costs of 1.

    The rest consists of |v - centre k| for each limit of a norm, and one variable |v -
    at k| for each cost or l1 norm. These are relaxed to upper bounds of the absolute
    values, which leaves the optimum unchanged.
    """

    @classmethod
    def of(cls, feasible, mean):
        """The cone of a feasible set, with an interior point."""
        n, (parts, centre) = feasible.n, feasible.presolved
        if centre is None:
            parts, centre = presolve(*parts, feasible.size() or 1.0)
        low = np.where(parts[0][:n] == 0, 0.0, -np.inf)
        high = np.where(parts[1][:n] == 0, 0.0, np.inf)
        cone = cls(Box(low, high), np.zeros(n), np.zeros(n))
        cone.inside = _between(feasible, mean, centre[:n])
        cone.given = parts
        cone.mean = mean
        cone.of_weights = feasible
        cone.n_variables = (
            len(parts[0]) + sum(len(some) for some, _, _ in feasible.costs()) + 1
        )
        return cone

    def size(self):
        """The largest entry of v at the interior point."""
        return float(np.abs(self.inside).max()) / net_return(
            self.inside, self.mean, self.of_weights
        )

    def lifted(self, v, size):
        """The interior point (v, rest, k), in units of ``size``."""
        w = self.inside
        rest = [np.abs(w - centre) for centre, _ in self.of_weights.norms]
        rest += [np.abs(w[some] - at[some]) for some, _, at in self.of_weights.costs()]
        return np.r_[w, *rest, 1.0] / (net_return(w, self.mean, self.of_weights) * size)

    def constraints(self, size):
        """The parts of a `Program` in (v, rest, k) / size."""
        low, high, A, lower, upper, E, e = self.given
        n, m, costs = self.n, len(low), self.of_weights.costs()
        paid = np.concatenate([np.zeros(0), *(cost[some] for some, cost, _ in costs)])
        one, of_costs, at_cost = np.eye(m), np.eye(len(paid)), 0
        rows = []  # of (v, distances, trades, k); their products are not negative

        def add(of_z, of_k, of_trades=0.0):
            of_trades = np.broadcast_to(of_trades, (len(of_z), len(paid)))
            rows.append(np.column_stack([of_z, of_trades, of_k]))

        for of_z, bound, sign in (
            (one, low, 1.0),
            (one, high, -1.0),
            (A, lower, 1.0),
            (A, upper, -1.0),
        ):
            # bounds of 0 stay bounds
            some = np.isfinite(bound) & ((bound != 0) | (of_z is A))
            add(sign * of_z[some], -sign * bound[some])
        for some, _, at in costs:
            place = of_costs[at_cost : at_cost + len(some)]
            for sign in (1.0, -1.0):
                add(-sign * one[some], sign * at[some], place)
            at_cost += len(some)
        E = np.column_stack([E, np.zeros((len(E), len(paid))), -e])
        of_return = np.r_[self.mean, np.zeros(m - n), -paid, 0.0] * size
        A, e = np.concatenate(rows), np.r_[np.zeros(len(E)), 1.0]
        E = np.vstack([E, of_return])
        positive = np.zeros(len(paid) + 1)
        low = np.r_[np.where(low == 0, 0.0, -np.inf), positive]
        high = np.r_[np.where(high == 0, 0.0, np.inf), positive + np.inf]
        return low, high, A, np.zeros(len(A)), np.full(len(A), np.inf), E, e


def _between(feasible, mean, centre):
    """Feasible weights, far from the boundary, with at least half of the largest mean
    return after costs."""
    far = FARTHEST_WEIGHT * (feasible.size() or 1.0)
    most, value = minimise_linear(
        feasible, -mean, *bounds_around(feasible, centre, far)
    )
    if not -value > RELATIVE_ROUNDING * float(np.abs(mean).max()) * float(
        np.abs(most).max(initial=0.0)
    ):
        raise ValueError(
            "objective='ratio' needs a portfolio whose mean return, less its costs, "
            "is positive, but no feasible one "
            "has it"
        )
    least, best = (net_return(w, mean, feasible) for w in (centre, most))
    part = 0.0 if least >= 0.5 * best else (0.5 * best - least) / (best - least)
    return centre + part * (most - centre)


class Ratio:
    """The goal of maximising the ratio, whose objective is minus the ratio.

    With F as in `objectives`, the largest ratio is the root of F.
    """

    max_risk = np.inf

    def __init__(self, task, start=None):
        self.task, self.risk = task, task.with_aversion(np.inf)
        # risk that counts as 0, for absolute weights of sum 1
        self.floor = PROGRAM_TOLERANCE * float(task.returns.std(axis=0).max())
        self.feasible = task.penalty
        self.power = task.measure.power
        self.cone = Cone.of(self.feasible, task.mean)
        inside = self.last_feasible(self.cone.inside)
        self.start = inside if start is None else start

    def value(self, w, risk):
        """Minus the ratio of mean return after costs to a known risk; infinity for a
        portfolio without risk and return."""
        risk, earned = max(risk, 0.0) ** (1 / self.power), self._net_return(w)
        if risk > self.floor * np.abs(w).sum():
            return -earned / risk
        if earned > 0:
            raise no_maximum("a portfolio has no risk")
        return np.inf

    def excess(self, risk):
        """By how much a risk is above its maximum."""
        return -self.max_risk

    def lower(self, point, slope):
        """The lower bound of the objective that follows from risk(s) >= slope @ s for
        all s."""
        bounds = [bound for _, bound in self._bounds(point.w, point.risk, slope)]
        return -min(bounds, default=np.inf)

    def aversion_at(self, value):
        """The risk aversion of a point of F that is near an objective."""
        return max(-value, 0.0)

    def value_at(self, weights):
        """The exact objective."""
        return self.value(weights, self.risk.value(weights))

    def _net_return(self, weights):
        return net_return(weights, self.task.mean, self.feasible)

    def last_feasible(self, weights):
        """The last feasible portfolio on the segment from the interior point to the
        weights."""
        return self.feasible.last_feasible(np.asarray(weights, float), self.cone.inside)

    def allows(self, weights):
        """Whether the mean return is positive."""
        return self._net_return(weights) > 0

    def spread(self, w, at=None):
        """The scale of the gap: the ratio."""
        return abs(at(w)[0] if at else self.value_at(w))

    def gap_at(self, weights):
        """Infinity: there is no bound for the weights of a fit that ended early."""
        return np.inf

    def minimise(self, callback):
        """Find the largest ratio."""
        w = self.start
        for _ in range(4):  # usually one is enough
            w = min(w, self._solve(callback), key=self.value_at)
            w, best, better = self._bounded(w)
            value = self.value_at(w)
            if not better:
                break
            # a vertex is better, and v has another scale there: solve again from a
            # point near it
            self.cone.inside = w + 1e-3 * (self.cone.inside - w)
        # a squared risk, relative to that of the initialization, that is rounding
        if self.power == 2 and self.solution is not None and self.squared <= 1e-11:
            raise no_maximum("a portfolio has no risk")
        return Optimum(w, value, -best, 0, abs(value))

    def _solve(self, callback):
        """The weights that the interior-point method finds. Its multipliers are
        stored."""
        n, feasible = self.feasible.n, self.feasible
        start = self.cone.inside * self.cone.size() / np.abs(self.cone.inside).max()
        scaled, risk = Scaled.of(self.risk, self.cone), self.risk.value(start)
        # so that the objective is of size one
        times = scaled.unit_of_value / risk if risk > 0 else 1.0
        self.scaled = replace(
            scaled,
            risk_weight=scaled.risk_weight * times,
            expected_return=scaled.expected_return * times,
            unit_of_value=scaled.unit_of_value / times,
        )

        def report(x):
            callback(x[:n] / max(x[-1], 1e-300))

        self.solution = self.task.measure.solve(self.scaled, start, report)
        if self.solution is None:
            return self.start
        x = self.solution.x
        w = self.last_feasible(x[:n] / max(x[-1], 1e-300))
        if np.isinf(feasible.implied_bounds()).any() and np.abs(
            w
        ).max() > INFINITE_WEIGHT * (feasible.size() or 1.0):
            raise no_maximum("ever larger weights are better")
        return w

    def _bounded(self, w):
        """The weights or a better vertex, an upper bound of the ratio, and whether a
        vertex was better.

        The multipliers give coefficients c with c @ s <= risk(s) for all s.
        """
        value = self.value_at(w)
        if self.solution is None:
            return w, np.inf, False
        if not value < 0:
            raise no_maximum("a portfolio has no risk")
        c, rounding = self._risk_bound()
        risk, best, most = -self._net_return(w) / value, w, np.inf
        for s, bound in self._bounds(w, risk, c, rounding):
            most, s = min(most, bound), self.last_feasible(s)
            if self.allows(s):
                best = min(best, s, key=self.value_at)
        return best, most, self.value_at(best) < value * (1 + ACCURACY)

    def _bounds(self, w, risk, c, rounding=0.0):
        """Upper bounds of the ratio from coefficients c with c @ s <= risk(s), and the
        portfolios s that the bounds come from.

        Dinkelbach's iterations find the largest quotient of the net return to c @ s. If
        c @ s >= nu * net return - short for all s, the ratio is at most (1 + short /
        risk(s)) / nu.
        """
        mean, feasible = self.task.mean, self.feasible
        if not self.allows(w):
            return
        nu = risk / self._net_return(w)
        low, high = bounds_around(feasible, w, SEARCH_RADIUS * np.abs(w).max())
        rounding = np.sum(rounding * np.maximum(-low, high))
        # the chord of F from 1 / nu to 2 / nu. It proves nothing if w = 0 is feasible
        least = 2 * minimise_around(feasible, c - nu / 2 * mean, w, nu / 2)[1]
        if not least > 0:
            # the portfolios of the least deviation have about the least risk
            least = risk / self._above_least_deviation(w) / SAFETY
        for _ in range(20):  # usually three are enough
            s, left = minimise_around(feasible, c - nu * mean, w, nu)
            if not np.isfinite(s).all():
                return
            yield s, (1 + (rounding - min(left, 0.0)) / least) / nu
            earned = self._net_return(s)
            if left >= 0 or not 0 < float(c @ s) < nu * earned:
                return
            nu = float(c @ s) / earned

    def _risk_bound(self):
        """Coefficients c with c @ s <= risk(s) for all s, and their rounding errors."""
        solution, scaled, n = self.solution, self.scaled, self.feasible.n
        program, x = solution.program, solution.x
        constant, c = risk_bound(solution)
        # the coefficient of a level should be 0, or not negative for a level >= 0. What
        # it misses counts at most ``reach`` times the risk of the scaled returns
        levels = slice(n, len(x) - self.cone.n_variables + n)
        wrong = np.where(program.low[levels] >= 0, np.minimum(c[levels], 0), c[levels])
        off = float(np.abs(wrong).sum()) / scaled.risk_weight
        off *= program.reach if off else 1.0
        c = (c[:n] - off * scaled.expected_return) / (1 + off)
        _, g, H = program.smooth(x)
        terms = np.abs(g) + np.abs(H) @ np.abs(x)
        rows = program.A[: program.n_risk_rows]
        terms += np.abs(rows).T @ np.abs(solution.dual_A[: len(rows)])
        for hinge, slope in zip(program.hinges, solution.slope, strict=True):
            terms += transposed(np.abs(hinge.rows), slope, len(x))
        unit = scaled.unit_of_value / scaled.size
        if self.power == 2:
            # risk(s)^2 >= constant + c @ s holds for all multiples of s
            self.squared = -constant  # relative to that of the initialization
            unit /= 2 * np.sqrt(max(-constant * scaled.unit_of_value, 1e-300))
        return unit * c, 4 * np.finfo(float).eps * unit * terms[:n]

    def _above_least_deviation(self, w):
        """The deviation of a portfolio, relative to the least one of a combination of
        assets of its size, such as an asset minus its near-copy."""
        scaled = Scaled.of(self.risk, self.cone)
        Q = np.sqrt(scaled.p)[:, None] * (scaled.Q - scaled.p @ scaled.Q)
        deviation = np.linalg.norm(Q, axis=0)
        some = deviation > PROGRAM_TOLERANCE * deviation.max()  # others have no risk
        values = svdvals(Q[:, some] / deviation[some])
        least = values[values > RELATIVE_ROUNDING * values[0]][-1]  # but of copies
        least = float(least * np.linalg.norm(deviation * w))
        return max(1.0, float(np.linalg.norm(Q @ w)) / least)


def no_maximum(why):
    return ValueError(
        f"objective='ratio' has no maximum: {why}. Add bounds, or drop assets that "
        "are riskless"
    )
