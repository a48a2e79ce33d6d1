"""The scaled objective of a portfolio, as a program of the interior-point method."""

from dataclasses import dataclass, replace

import numpy as np

from sk_stormc.portfolio.inequalities import Hinges
from sk_stormc.portfolio.interior_point import Program
from sk_stormc.portfolio.limits import Limits
from sk_stormc.portfolio.linear_bound import AROUND
from sk_stormc.portfolio.risk_measures import MEASURES

__all__ = ["Scaled"]


@dataclass
class Scaled:
    """A portfolio's objective divided by ``unit_of_value``, as a function of the scaled weights v = w / size.

    The returns are divided by their median standard deviation.

    Attributes
    ----------
    Q : ndarray of shape (n_periods, n_assets)
        The scaled returns. They are centred if a shift of all returns changes the risk by a constant.
    p : ndarray of shape (n_periods,)
        Weights of the periods, of sum 1.
    drift : ndarray of shape (n_assets,)
        Coefficients of the linear term, -drift @ v.
    price : float
        Weight of the risk of Q v.
    """

    problem: object
    limits: Limits
    Q: np.ndarray
    p: np.ndarray
    drift: np.ndarray
    price: float
    rate: float  # factor of the exponents of entropic risk
    size: float
    unit_of_value: float
    offset: float  # constant part of the objective, which the budget determines

    @classmethod
    def of(cls, problem, limits):
        """The scaled objective of a problem."""
        R = np.asarray(problem.returns, float)
        p = np.full(len(R), 1 / len(R)) if problem.weights is None else np.asarray(problem.weights, float)
        mean = p @ R
        traits = MEASURES[problem.risk_measure]
        Q = R - mean
        deviation = np.sqrt(p @ Q**2)
        varying = deviation > 1e-13 * np.abs(R).max(axis=0)
        Q[:, ~varying] = 0.0
        unit = float(np.median(deviation[varying])) if varying.any() else float(np.abs(mean).max()) or 1.0
        Q = (R if traits.shift is None else Q) / unit
        measure, price = problem.risk_measure, problem._price
        size = limits.size() or np.inf
        # if only the risk limits the weights, they may be far below the bounds
        around_zero = not limits.budget and ((limits.low <= 0) & (limits.high >= 0)).all()
        if around_zero and traits.power != 1 and problem._gain:
            reward = max(1.0, float((np.abs(mean) / np.maximum(deviation, unit)).max()))
            size = min(size, reward / (unit * price))
        size = size if np.isfinite(size) else 1.0
        of_return = unit * size
        # a quadratic risk scales with the square of the weights
        ratio = price if traits.power == 1 else price * of_return
        earned = problem._gain - price * (traits.shift or 0.0)
        offset = 0.0
        if limits.budget is not None:
            middle = float(np.median(mean[limits.counted > 0]))
            offset, mean = -earned * middle * limits.budget, mean - middle * limits.counted
        drift = earned * mean / unit
        rate, ratio = ratio, 1.0 if measure == "entropic" else ratio
        norm = max(1.0, ratio, float(np.abs(drift).max()), limits.l1 / unit, float(limits.cost.max()) / unit)
        return cls(problem, limits, Q, p, drift / norm, ratio / norm, rate, size, of_return * norm, offset)

    def program(self, start, measure):
        """The `Program` for one of the functions of `measures`, and its starting point."""
        limits, n = self.limits, self.limits.n
        v = start / self.size
        smooth, hinges, level, least, rows = measure(self, v)
        k = int(level is not None)
        low, high, A, lower, upper, E, e = limits.constraints(self.size, k)
        m, kinks, slope = len(low), [], np.zeros(len(low))
        for there, cost, at in limits.costs():  # |v - at| = 2 max(v - at, 0) - (v - at)
            cost, at = cost * self.size / self.unit_of_value, at / self.size
            kinks.append(Hinges(there, -at[there], 2 * cost[there], np.zeros(there.size)))
            slope[:n] -= cost
        x = limits.lifted(v, self.size)
        if k:
            x, low[n] = np.insert(x, n, level), least
        if rows is not None:
            A = np.concatenate([np.pad(rows, ((0, 0), (0, m - rows.shape[1]))), A])
            lower, upper = np.r_[np.full(len(rows), -np.inf), lower], np.r_[np.zeros(len(rows)), upper]

        def whole(x):
            f, g, H = smooth(x[: n + k])
            rest = m - n - k
            g, H = (np.r_[g, np.zeros(rest)], np.pad(H, (0, rest))) if rest else (g, H)
            return f + slope @ x, g + slope, H

        return Program(whole, hinges + kinks, low, high, A, lower, upper, E, e, 0 if rows is None else len(rows)), x

    def _within(self, x, program):
        """Finite bounds: those that bounds and budget imply, and otherwise twice the largest weight around x."""
        n, far = self.limits.n, AROUND * max(1.0, np.abs(x).max())  # 1 is a typical weight, for weights that are all 0
        low, high = (bound / self.size for bound in self.limits.implied())
        low, high = np.r_[low, np.minimum(program.low[n:], 0.0)], np.r_[high, program.high[n:]]  # a level may be 0
        return np.where(np.isfinite(low), low, x - far), np.where(np.isfinite(high), high, x + far)

    def among(self, there):
        """The same objective restricted to some assets. The others have the weight 0."""
        return replace(self, Q=self.Q[:, there], drift=self.drift[there], limits=self.limits.among(there))

    def gap(self, program, found, w, value):
        """An upper bound of value - minimum, from the multipliers of a solution."""
        bound, parts = self.bound(program, found)
        bound += parts.sum()
        # constant term of |v - at| = 2 max(v - at, 0) - (v - at)
        constant = float(self.limits.cost @ self.limits.previous)
        return value - (bound * self.unit_of_value + constant + self.offset)

    def risk_bound(self, program, found):
        """A linear lower bound of the program's objective: a constant, and the coefficients of each variable."""
        x = found.x
        f, g, _ = program.smooth(x)
        constant, c = f - g @ x, g
        rows = program.n_risk_rows  # constraints that belong to the risk
        c = c + program.A[:rows].T @ found.of_A[:rows]
        for hinge, slope in zip(program.hinges, found.slope, strict=True):
            of_hinge, linear = hinge.bound(slope, len(x))
            constant, c = constant + of_hinge, c + linear
        return constant, c

    def bound(self, program, found):
        """A lower bound of the minimum in the program's unit: a constant, and the contribution of each variable."""
        constant, c = self.risk_bound(program, found)
        of_A = np.where(np.arange(len(found.of_A)) < program.n_risk_rows, 0.0, found.of_A)
        c = c + program.E.T @ found.of_E + program.A.T @ of_A
        at = np.where(of_A > 0, program.upper, np.where(of_A < 0, program.lower, 0.0))
        constant -= found.of_E @ program.e + of_A @ at
        low, high = self._within(found.x, program)
        return constant, np.minimum(c * low, c * high)
