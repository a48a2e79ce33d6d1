"""A portfolio's objective in units of its own, as a program of the interior-point method."""

from dataclasses import dataclass

import numpy as np

from sk_stormc.portfolio.inequalities import Hinges
from sk_stormc.portfolio.interior_point import Program
from sk_stormc.portfolio.limits import Limits
from sk_stormc.portfolio.tail_risk import AROUND

__all__ = ["Scaled"]


@dataclass
class Scaled:
    """A portfolio's objective over ``unit_of_value``, in v = w / size and returns over their typical deviation.

    Attributes
    ----------
    Q : ndarray of shape (n_periods, n_assets)
        The centred returns over their unit.
    p : ndarray of shape (n_periods,)
        Weights of the periods, of sum 1.
    drift : ndarray of shape (n_assets,)
        What a unit of v earns.
    price : float
        Of the risk of Q v.
    """

    problem: object
    limits: Limits
    Q: np.ndarray
    p: np.ndarray
    drift: np.ndarray
    price: float
    rate: float  # of the exponents of entropic risk
    size: float
    unit_of_value: float
    offset: float  # of the objective, which all feasible weights have

    @classmethod
    def of(cls, problem, limits):
        """The objective of a problem."""
        R = np.asarray(problem.returns, float)
        p = np.full(len(R), 1 / len(R)) if problem.weights is None else np.asarray(problem.weights, float)
        mean = p @ R
        Q = R - mean
        deviation = np.sqrt(p @ Q**2)
        varying = deviation > 1e-13 * np.abs(R).max(axis=0)
        Q[:, ~varying] = 0.0
        unit = float(np.median(deviation[varying])) if varying.any() else float(np.abs(mean).max()) or 1.0
        Q /= unit
        measure, price = problem.risk_measure, problem._price
        size = limits.size() or np.inf
        # where the risk alone sets the size of the weights, it may be far below the bounds
        around_zero = not limits.budget and ((limits.low <= 0) & (limits.high >= 0)).all()
        if around_zero and measure in ("variance", "semivariance", "entropic"):
            reward = max(1.0, float((np.abs(mean) / np.maximum(deviation, unit)).max()))
            size = min(size, reward / (unit * price))
        size = size if np.isfinite(size) else 1.0
        of_return = unit * size
        # a risk that is quadratic in the weights counts by its size
        ratio = price * of_return if measure in ("variance", "semivariance", "entropic") else price
        earned = 1.0 if measure == "entropic" else problem._gain + price * (measure in ("cvar", "evar"))
        offset = 0.0
        if limits.budget is not None:
            middle = float(np.median(mean))
            offset, mean = -earned * middle * limits.budget, mean - middle
        drift = earned * mean / unit
        rate, ratio = ratio, 1.0 if measure == "entropic" else ratio
        norm = max(1.0, ratio, float(np.abs(drift).max()), limits.l1 / unit, float(limits.cost.max()) / unit)
        return cls(problem, limits, Q, p, drift / norm, ratio / norm, rate, size, of_return * norm, offset)

    def program(self, start, measure):
        """The `Program` of one of the measures below, and where it begins."""
        limits, n = self.limits, self.limits.n
        v = start / self.size
        smooth, hinges, level, least, rows = measure(self, v)
        kinks = []
        of_l1 = limits.l1 * self.size / self.unit_of_value
        of_trade = limits.cost * self.size / self.unit_of_value
        slope = np.zeros(n)
        for cost, at in ((np.full(n, of_l1), np.zeros(n)), (of_trade, limits.previous / self.size)):
            if cost.any():  # |v - at| = 2 max(v - at, 0) - (v - at)
                there = np.flatnonzero(cost)
                kinks.append(Hinges(there, -at[there], 2 * cost[there], np.zeros(there.size)))
                slope = slope - cost
        low, high = limits.low / self.size, limits.high / self.size
        fixed = np.flatnonzero(low == high)
        E = [np.eye(n)[fixed]] if fixed.size else []
        e = [low[fixed]] if fixed.size else []
        low, high = np.where(low == high, -np.inf, low), np.where(limits.low == limits.high, np.inf, high)
        if limits.budget is not None:
            E.append(np.ones((1, n)))
            e.append([limits.budget / self.size])
        E, e = np.concatenate([*E, np.zeros((0, n))]), np.concatenate([*e, np.zeros(0)])
        x, m = v, n
        if level is not None:
            x, m, slope = np.append(v, level), n + 1, np.append(slope, 0.0)
            low, high, E = np.append(low, least), np.append(high, np.inf), np.pad(E, ((0, 0), (0, 1)))

        def whole(x):
            f, g, H = smooth(x)
            return f + slope @ x, g + slope, H

        A = np.zeros((0, m)) if rows is None else rows
        return Program(whole, hinges + kinks, low, high, A, np.full(len(A), -np.inf), np.zeros(len(A)), E, e), x

    def _within(self, x, program):
        """Finite bounds: those that follow from bounds and budget, else twice the largest weight around x."""
        n, far = self.limits.n, AROUND * np.abs(x).max()
        low, high = self.limits.low / self.size, self.limits.high / self.size
        if self.limits.budget is not None:
            total = self.limits.budget / self.size
            least = total - high.sum() + high if np.isfinite(high).all() else low
            most = total - low.sum() + low if np.isfinite(low).all() else high
            low, high = np.maximum(low, least), np.minimum(high, most)
        low, high = np.where(np.isfinite(low), low, x[:n] - far), np.where(np.isfinite(high), high, x[:n] + far)
        for k in range(n, len(x)):  # a level, which EVaR bounds by 0
            low = np.append(low, 0.0 if np.isfinite(program.low[k]) else x[k] - far)
            high = np.append(high, x[k] + far)
        return low, high

    def gap(self, program, found, w, value):
        """An upper bound of value - minimum, from the multipliers that were found."""
        x = found.x
        f, g, _ = program.smooth(x)
        bound, c = f - g @ x, g + program.E.T @ found.of_E
        c = c + program.A.T @ found.of_A  # whose limits are 0
        bound -= found.of_E @ program.e
        for hinge, slope in zip(program.hinges, found.slope, strict=True):
            over = np.maximum(slope - hinge.cost, 0)
            slope = np.where((over > 0) & (hinge.quadratic == 0), hinge.cost, slope)
            over = np.where(hinge.quadratic > 0, over, 0)
            bound += slope @ hinge.shift - (over**2 / np.maximum(4 * hinge.quadratic, 1e-300)).sum()
            c = c + hinge.transposed(slope, len(x))
        low, high = self._within(x, program)
        bound += np.minimum(c * low, c * high).sum()
        constant = float(self.limits.cost @ self.limits.previous)  # of |v - at| = 2 max(v - at, 0) - (v - at)
        return value - (bound * self.unit_of_value + constant + self.offset)
