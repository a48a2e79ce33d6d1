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

from sk_stormc.portfolio.exact.certificate import risk_bound
from sk_stormc.portfolio.exact.feasible_set import (
    FARTHEST_WEIGHT,
    SEARCH_RADIUS,
    FeasibleSet,
    bounds_around,
)
from sk_stormc.portfolio.exact.linear_programs import minimise_linear, presolve
from sk_stormc.portfolio.exact.program import (
    INFINITE_WEIGHT,
    Optimum,
    Scaled,
    last_feasible,
)
from sk_stormc.portfolio.exact.tolerances import (
    ACCURACY,
    PROGRAM_TOLERANCE,
    RELATIVE_ROUNDING,
)

__all__ = ["Ratio", "no_maximum", "ratio_at"]


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
        n, none, zero = feasible.n, np.zeros((0, feasible.n)), np.zeros(feasible.n)
        parts, centre = feasible.presolved
        if centre is None:
            parts, centre = presolve(*parts, feasible.size() or 1.0)
        inside = _between(feasible, mean, centre[:n])
        low = np.where(parts[0][:n] == 0, 0.0, -np.inf)
        high = np.where(parts[1][:n] == 0, 0.0, np.inf)
        cone = cls(
            n,
            low,
            high,
            None,
            0.0,
            zero,
            zero,
            zero,
            none,
            zero[:0],
            zero[:0],
            [],
            False,
        )
        cone.inside = inside
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

    def constraints(self, size, n_levels):
        """The parts of a `Program` in (v, levels, rest, k) / size."""
        low, high, A, lower, upper, E, e = self.given
        n, m, costs = self.n, len(low), self.of_weights.costs()
        count = sum(len(some) for some, _, _ in costs)
        one, rows, lowest, highest = np.eye(m), [], [], []

        def add(of_z, of_k, lower, upper, of_costs=None):
            """Add rows with coefficients of z = (v, trades), of k and of the variables
            of costs."""
            of_costs = np.zeros((len(of_z), count)) if of_costs is None else of_costs
            rows.append(np.column_stack([of_z, of_costs, of_k]))
            lowest.append(np.full(len(of_z), lower))
            highest.append(np.full(len(of_z), upper))

        for of_z, bound, sign in (
            (one, low, 1.0),
            (one, high, -1.0),
            (A, lower, 1.0),
            (A, upper, -1.0),
        ):
            # bounds of 0 stay bounds
            some = np.isfinite(bound) & ((bound != 0) | (of_z is A))
            add(sign * of_z[some], -sign * bound[some], 0.0, np.inf)
        paid, at_cost = np.zeros(count), 0
        for some, cost, at in costs:
            place = np.eye(count)[at_cost : at_cost + len(some)]
            for sign in (1.0, -1.0):
                add(sign * one[some], -sign * at[some], -np.inf, 0.0, -place)
            paid[at_cost : at_cost + len(some)] = cost[some]
            at_cost += len(some)
        of_return = np.r_[self.mean, np.zeros(m - n), -paid, 0.0][None] * size
        A = np.insert(np.concatenate(rows), [n] * n_levels, 0.0, axis=1)
        E = np.concatenate(
            [np.column_stack([E, np.zeros((len(E), count)), -e]), of_return]
        )
        E, e = (
            np.insert(E, [n] * n_levels, 0.0, axis=1),
            np.r_[np.zeros(len(E) - 1), 1.0],
        )
        positive, free = np.zeros(count + 1), np.full(n_levels, np.inf)
        low, high = np.where(low == 0, 0.0, -np.inf), np.where(high == 0, 0.0, np.inf)
        low = np.insert(np.r_[low, positive], n, -free)
        high = np.insert(np.r_[high, positive + np.inf], n, free)
        return low, high, A, np.concatenate(lowest), np.concatenate(highest), E, e


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
    """The problem of maximising the ratio. Its objective is minus the ratio."""

    def __init__(self, task):
        self.task, self.risk = task, task.with_aversion(np.inf)
        # risk that counts as 0
        self.floor = PROGRAM_TOLERANCE * float(task.returns.std(axis=0).max())
        self.feasible = FeasibleSet.of(task.penalty, task.returns.shape[1])
        self.power = task.measure.power
        self.cone = Cone.of(self.feasible, task.mean)
        self.start = self.last_feasible(self.cone.inside)

    def value_at(self, weights):
        """Minus the ratio of mean return after costs to risk; infinity for a portfolio
        without risk."""
        risk = max(self.risk.value(weights), 0.0) ** (1 / self.power)
        return -self._net_return(weights) / risk if risk > self.floor else np.inf

    def _net_return(self, weights):
        return net_return(weights, self.task.mean, self.feasible)

    def last_feasible(self, weights):
        """The last feasible portfolio on the segment from the interior point to the
        weights."""
        return last_feasible(
            self.task.penalty, np.asarray(weights, float), self.cone.inside
        )

    def allows(self, weights):
        """Whether the mean return is positive."""
        return self._net_return(weights) > 0

    def spread(self, weights):
        """The scale of the gap: the ratio."""
        return abs(self.value_at(weights))

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
        return Optimum(w, value, best + value, 0, abs(value))

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
        if self._net_return(w) > 0 and self.value_at(w) == np.inf:
            raise no_maximum("a portfolio has no risk")
        if np.isinf(feasible.implied_bounds()).any() and np.abs(
            w
        ).max() > INFINITE_WEIGHT * (feasible.size() or 1.0):
            raise no_maximum("ever larger weights are better")
        return w

    def _bounded(self, w):
        """The weights or a better vertex, an upper bound of the ratio, and whether a
        vertex was better.

        The multipliers give coefficients c with c @ w <= risk(w). The ratio is
        therefore at most the largest quotient of mean return to c @ w, which
        Dinkelbach's iterations compute by linear programs.
        """
        if self.solution is None:
            return w, np.inf, False
        scaled, mean, ratio = self.scaled, self.task.mean, -self.value_at(w)
        constant, c = risk_bound(self.solution)
        c, x, n = c * scaled.unit_of_value / scaled.size, self.solution.x, len(w)
        n_levels = len(x) - self.cone.n_variables
        # multipliers are exact only up to the tolerance, by which a level may be better
        # at other weights
        rounding = (
            (1 + SEARCH_RADIUS)
            * float(np.abs(c[n : n + n_levels]) @ np.abs(x[n : n + n_levels]))
            / x[-1]
        )
        rounding += (
            PROGRAM_TOLERANCE
            * scaled.unit_of_value
            / (scaled.size * x[-1])
            * (self.power == 1)
        )
        c = c[:n]
        self.squared = -constant  # relative to that of the initialization
        if (
            self.power == 2
        ):  # a norm: risk(w)^2 >= constant + c @ w holds for all multiples of w
            c = c / (2 * np.sqrt(max(-constant * scaled.unit_of_value, 1e-300)))
        if not 0 < ratio < np.inf:
            raise no_maximum("a portfolio has no risk")
        low, high = bounds_around(self.feasible, w, SEARCH_RADIUS * np.abs(w).max())
        nu, best, left = 1 / ratio, w, 0.0
        for _ in range(20):  # usually three are enough
            s, left = minimise_linear(self.feasible, c - nu * mean, low, high, nu)
            left -= rounding
            if not np.isfinite(s).all():
                return w, np.inf, False
            s = self.last_feasible(s)
            earned, value = self._net_return(s), self.value_at(s)
            if earned > 0 and value == np.inf:
                raise no_maximum("a portfolio has no risk")
            best = s if earned > 0 and value < self.value_at(best) else best
            if (
                left >= -PROGRAM_TOLERANCE * float(c @ w)
                or not 0 < float(c @ s) < nu * earned
            ):
                break
            nu = float(c @ s) / earned
        better = self.value_at(best) < -ratio * (1 + ACCURACY)
        if earned > 0 and float(c @ s) <= 0:
            return best, np.inf, better
        return best, (1 + max(-left, 0.0) * ratio / self._net_return(w)) / nu, better


def no_maximum(why):
    return ValueError(
        f"objective='ratio' has no maximum: {why}. Add bounds, or drop assets that "
        "are riskless"
    )
