"""The scaled objective of a portfolio as a program of the interior-point method, for each risk measure."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from sk_stormc.portfolio.risk.mean_risk import MEASURES
from sk_stormc.portfolio.second_order.interior_point import Hinges, Program
from sk_stormc.portfolio.second_order.limits import AROUND, Limits
from sk_stormc.portfolio.second_order.linear_programs import Drawdowns

__all__ = ["FORMULATIONS", "Scaled", "is_allowed", "largest_loss", "nothing_lost", "shrunk"]


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


COLDEST = 1e-7  # lower bound of the level of "evar" and of roots, in standard deviations of the portfolio's return


# Each measure returns the smooth part (a function for value, gradient and Hessian), the hinges, the start and the lower
# bound of the level (None without a level), and the rows of linear constraints that it adds (or None).


def _linear(c):
    H = np.zeros((len(c), len(c)))
    return lambda x: (float(c @ x), c, H)


def _gram(Q, weight):
    """sum_i weight_i q_i q_i^T, as a product A.T @ A, which numpy computes with half the work."""
    scaled = np.sqrt(weight)[:, None] * Q
    return scaled.T @ scaled


def _variance(scaled, v):
    H = 2 * scaled.price * _gram(scaled.Q, scaled.p)

    def smooth(v):
        Hv = H @ v
        return float(0.5 * v @ Hv - scaled.drift @ v), Hv - scaled.drift, H

    return smooth, [], None, None, None


def _semivariance(scaled, v):
    n = len(scaled.p)
    return (
        _linear(-scaled.drift),
        [Hinges(-scaled.Q, np.zeros(n), np.zeros(n), scaled.price * scaled.p)],
        None,
        None,
        None,
    )


def _entropic(scaled, v):
    rate = scaled.rate

    def smooth(v):
        e = -rate * (scaled.Q @ v)
        top = e.max()
        q = scaled.p * np.exp(e - top)
        total = q.sum()
        q /= total
        G = q @ scaled.Q
        H = rate * (_gram(scaled.Q, q) - np.outer(G, G))
        value = scaled.price * (np.log(total) + top) / rate - scaled.drift @ v
        return float(value), -scaled.price * G - scaled.drift, scaled.price * H

    return smooth, [], None, None, None


def _cvar(scaled, v):
    n, tail = len(scaled.p), 1 - scaled.problem.confidence
    rows = np.column_stack([-scaled.Q, -np.ones(n)])
    level = float(np.quantile(-(scaled.Q @ v), scaled.problem.confidence))
    hinges = [Hinges(rows, np.zeros(n), scaled.price * scaled.p / tail, np.zeros(n))]
    return _linear(np.append(-scaled.drift, scaled.price)), hinges, level, -np.inf, None


def _evar(scaled, v):
    Q, p, allowed = scaled.Q, scaled.p, scaled.problem.allowed
    n = Q.shape[1]

    def smooth(x):
        v, t = x[:-1], x[-1]
        if t <= 0:
            return np.inf, np.zeros(n + 1), np.zeros((n + 1, n + 1))
        e = -(Q @ v) / t
        top = e.max()
        q = p * np.exp(e - top)
        total = q.sum()
        q /= total
        log_mean, G, middle = np.log(total) + top, q @ Q, q @ e
        value = -scaled.drift @ v + scaled.price * t * (log_mean + allowed)
        g = np.append(-scaled.drift - scaled.price * G, scaled.price * (log_mean + allowed - middle))
        H = np.empty((n + 1, n + 1))
        H[:n, :n] = _gram(Q, q) - np.outer(G, G)
        H[:n, n] = H[n, :n] = (q * (e - middle)) @ Q
        H[n, n] = q @ (e - middle) ** 2
        return float(value), g, scaled.price / t * H

    deviation = float(np.sqrt(p @ (Q @ v) ** 2)) or 1.0
    return smooth, [], deviation, COLDEST, None


def _partial_moment(scaled, v):
    """The order-th root of a mean of powers. For order 1 there is neither a root nor a level."""
    Q, p, order, price = scaled.Q, scaled.p, scaled.problem.order, scaled.price
    n = Q.shape[1]
    if order == 1:
        zero = np.zeros(len(p))
        return _linear(-scaled.drift), [Hinges(-Q, zero, price * p, zero)], None, None, None

    def smooth(x):
        s = x[-1]
        if s <= 0:
            return np.inf, np.zeros(n + 1), np.zeros((n + 1, n + 1))
        b = np.maximum(-(Q @ x[:-1]) / s, 0)
        t = p * b ** (order - 1)
        total = t @ b
        value = -scaled.drift @ x[:-1] + price * s * (order - 1 + total) / order
        g = np.append(-scaled.drift - price * (t @ Q), price * (order - 1) / order * (1 - total))
        bent = p * (b > 0) * b ** (order - 2)
        H = np.empty((n + 1, n + 1))
        H[:n, :n] = _gram(Q, bent)
        H[:n, n] = H[n, :n] = t @ Q
        H[n, n] = total
        return float(value), g, price * (order - 1) / s * H

    level = float((p @ np.maximum(-(Q @ v), 0) ** order) ** (1 / order))
    return smooth, [], level or 1.0, COLDEST, None


def nothing_lost(scaled, v):
    """A replacement for the root of a mean of powers if the best portfolio has no losses: a sum of hinges.

    The root has no gradient there. Its subgradients are slopes whose dual norm is at most the price, so the slope of a
    period is at most the cost of its hinge here.
    """
    p, order, zero = scaled.p, scaled.problem.order, np.zeros(len(scaled.p))
    cost = scaled.price * p * p.min() ** (1 / order - 1)
    return _linear(-scaled.drift), [Hinges(-scaled.Q, zero, cost, zero)], None, None, None


def shrunk(slope, scaled):
    """A slope of `nothing_lost`, scaled down until it is a subgradient of the root of a mean of powers."""
    order, zeta = scaled.problem.order, slope / (scaled.p * scaled.price)
    top = float(zeta.max())
    norm = top * (scaled.p @ (zeta / top) ** (order / (order - 1))) ** (1 - 1 / order) if top > 0 else 0.0
    return slope / max(1.0, norm)


def _cdar(scaled, v):
    path = Drawdowns(scaled.Q, scaled.p, scaled.price, 1 - scaled.problem.confidence)
    return _linear(-scaled.drift), [path], None, None, None


def largest_loss(scaled, v):
    """EVaR at temperature 0, which is the largest loss. The level is the largest loss."""
    losses = -(scaled.Q @ v)
    rows = np.column_stack([-scaled.Q, -np.ones(len(losses))])
    level = float(losses.max() + 0.1 * np.ptp(losses))
    return _linear(np.append(-scaled.drift, scaled.price)), [], level, -np.inf, rows


def is_allowed(q, p, allowed):
    """Whether q is one of the reweightings over which EVaR is the largest mean loss: its divergence is small enough."""
    total = q.sum()
    if not total > 0:
        return False
    q = np.maximum(q / total, 0)
    return float(xlogy(q, q / np.maximum(p, 1e-300)).sum()) <= allowed


FORMULATIONS = {
    "variance": _variance,
    "semivariance": _semivariance,
    "entropic": _entropic,
    "cvar": _cvar,
    "evar": _evar,
    "semideviation": _partial_moment,
    "downside": _partial_moment,
    "cdar": _cdar,
}
