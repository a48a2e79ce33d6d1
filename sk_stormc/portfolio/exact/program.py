"""The scaled objective of a portfolio as a program of the interior-point method, for each risk measure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from sk_stormc.portfolio.exact.feasible_set import AROUND, FeasibleSet
from sk_stormc.portfolio.exact.interior_point import Hinges, Program
from sk_stormc.portfolio.exact.linear_programs import Drawdowns
from sk_stormc.portfolio.risk.mean_risk import MEASURES

__all__ = ["FORMULATIONS", "Scaled", "in_dual_ball", "is_allowed", "largest_loss", "without_losses"]


@dataclass
class Scaled:
    """A portfolio's objective divided by ``unit_of_value``, as a function of the scaled weights v = w / size.

    It is -expected_return @ v plus risk_weight times the risk of Q v, plus the costs of the feasible set.
    """

    problem: object
    feasible: FeasibleSet
    Q: np.ndarray  # returns, divided by their median deviation, and centred if a shift changes the risk by a constant
    p: np.ndarray  # weights of the periods, of sum 1
    expected_return: np.ndarray
    risk_weight: float
    rate: float  # factor of the exponents of entropic risk
    size: float
    unit_of_value: float
    offset: float  # constant part of the objective, which the budget determines

    @classmethod
    def of(cls, problem, feasible):
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
        risk_weight, size = problem._risk_weight, feasible.size() or np.inf
        # if only the risk restricts the weights, they may be far below the bounds
        around_zero = not feasible.budget and ((feasible.low <= 0) & (feasible.high >= 0)).all()
        if around_zero and traits.power != 1 and problem._return_weight:
            reward = max(1.0, float((np.abs(mean) / np.maximum(deviation, unit)).max()))
            size = min(size, reward / (unit * risk_weight))
        size = size if np.isfinite(size) else 1.0
        unit_of_return = unit * size
        # a quadratic risk is proportional to the square of the weights
        rate = risk_weight if traits.power == 1 else risk_weight * unit_of_return
        return_weight = problem._return_weight - risk_weight * (traits.shift or 0.0)
        offset = 0.0
        if feasible.budget is not None:
            middle = float(np.median(mean[feasible.in_budget > 0]))
            offset, mean = -return_weight * middle * feasible.budget, mean - middle * feasible.in_budget
        expected_return = return_weight * mean / unit
        of_risk = 1.0 if problem.risk_measure == "entropic" else rate
        largest = float(np.abs(expected_return).max())
        norm = max(1.0, of_risk, largest, feasible.l1 / unit, float(feasible.cost.max()) / unit)
        unit_of_value = unit_of_return * norm
        return cls(problem, feasible, Q, p, expected_return / norm, of_risk / norm, rate, size, unit_of_value, offset)

    def program(self, start, formulation):
        """The `Program` for one of the formulations of a risk, and its starting point."""
        feasible, n = self.feasible, self.feasible.n
        v = start / self.size
        risk = formulation(self, v)
        k = int(risk.level is not None)
        low, high, A, lower, upper, E, e = feasible.constraints(self.size, k)
        m, kinks, slope = len(low), [], np.zeros(len(low))
        for some, cost, at in feasible.costs():  # |v - at| = 2 max(v - at, 0) - (v - at)
            cost, at = cost * self.size / self.unit_of_value, at / self.size
            kinks.append(Hinges(some, -at[some], 2 * cost[some], np.zeros(some.size)))
            slope[:n] -= cost
        x = feasible.lifted(v, self.size)
        if k:
            x, low[n] = np.insert(x, n, risk.level), risk.lowest
        n_rows = 0 if risk.rows is None else len(risk.rows)
        if n_rows:
            A = np.concatenate([np.pad(risk.rows, ((0, 0), (0, m - risk.rows.shape[1]))), A])
            lower, upper = np.r_[np.full(n_rows, -np.inf), lower], np.r_[np.zeros(n_rows), upper]

        def smooth(x):
            f, g, H = risk.smooth(x[: n + k])
            n_others = m - n - k
            if n_others:
                g, H = np.r_[g, np.zeros(n_others)], np.pad(H, (0, n_others))
            return f + slope @ x, g + slope, H

        return Program(smooth, risk.hinges + kinks, low, high, A, lower, upper, E, e, n_rows), x

    def _finite_bounds(self, x, program):
        """The bounds that the feasible set implies, and otherwise twice the largest weight around x."""
        n, far = self.feasible.n, AROUND * max(1.0, np.abs(x).max())  # 1 is a typical weight, if all are 0
        low, high = (bound / self.size for bound in self.feasible.implied_bounds())
        low, high = np.r_[low, np.minimum(program.low[n:], 0.0)], np.r_[high, program.high[n:]]  # a level may be 0
        return np.where(np.isfinite(low), low, x - far), np.where(np.isfinite(high), high, x + far)

    def restricted(self, some):
        """The same objective restricted to some assets. The other weights are 0."""
        feasible = self.feasible.restricted(some)
        return replace(self, Q=self.Q[:, some], expected_return=self.expected_return[some], feasible=feasible)

    def risk_bound(self, program, solution):
        """A linear lower bound of the program's objective: a constant, and the coefficients of each variable."""
        x = solution.x
        f, g, _ = program.smooth(x)
        constant, c = f - g @ x, g
        rows = program.n_risk_rows  # constraints that belong to the risk
        c = c + program.A[:rows].T @ solution.dual_A[:rows]
        for hinge, slope in zip(program.hinges, solution.slope, strict=True):
            of_hinge, linear = hinge.bound(slope, len(x))
            constant, c = constant + of_hinge, c + linear
        return constant, c

    def gap(self, program, solution, w, value):
        """An upper bound of value - minimum, from the multipliers of a solution."""
        constant, c = self.risk_bound(program, solution)
        dual_A = np.where(np.arange(len(solution.dual_A)) < program.n_risk_rows, 0.0, solution.dual_A)
        c = c + program.E.T @ solution.dual_E + program.A.T @ dual_A
        at = np.where(dual_A > 0, program.upper, np.where(dual_A < 0, program.lower, 0.0))
        constant -= solution.dual_E @ program.e + dual_A @ at
        low, high = self._finite_bounds(solution.x, program)
        bound = constant + np.minimum(c * low, c * high).sum()
        # constant term of |v - at| = 2 max(v - at, 0) - (v - at)
        of_costs = float(self.feasible.cost @ self.feasible.previous)
        return value - (bound * self.unit_of_value + of_costs + self.offset)


COLDEST = 1e-7  # lower bound of the level of "evar" and of roots, in standard deviations of the portfolio's return


class Risk(NamedTuple):
    """A risk minus the expected return, in the form of the interior-point method."""

    smooth: Callable  # value, gradient and Hessian of the smooth part
    hinges: list = []
    level: float | None = None  # the initial value of a level variable, if there is one, and its lower bound
    lowest: float | None = None
    rows: np.ndarray | None = None  # linear constraints rows @ (v, level) <= 0 that belong to the risk


def _linear(c):
    H = np.zeros((len(c), len(c)))
    return lambda x: (float(c @ x), c, H)


def _gram(Q, weight):
    """sum_i weight_i q_i q_i^T, as a product A.T @ A, which numpy computes with half the work."""
    scaled = np.sqrt(weight)[:, None] * Q
    return scaled.T @ scaled


def _variance(scaled, v):
    H = 2 * scaled.risk_weight * _gram(scaled.Q, scaled.p)

    def smooth(v):
        Hv = H @ v
        return float(0.5 * v @ Hv - scaled.expected_return @ v), Hv - scaled.expected_return, H

    return Risk(smooth)


def _semivariance(scaled, v):
    zero = np.zeros(len(scaled.p))
    return Risk(_linear(-scaled.expected_return), [Hinges(-scaled.Q, zero, zero, scaled.risk_weight * scaled.p)])


def _tilted(p, e):
    """The weights p exp(e), divided by their sum, and the logarithm of this sum."""
    top = e.max()
    q = p * np.exp(e - top)
    total = q.sum()
    q /= total
    return q, np.log(total) + top


def _entropic(scaled, v):
    rate = scaled.rate

    def smooth(v):
        q, log_mean = _tilted(scaled.p, -rate * (scaled.Q @ v))
        G = q @ scaled.Q
        H = rate * (_gram(scaled.Q, q) - np.outer(G, G))
        value = scaled.risk_weight * log_mean / rate - scaled.expected_return @ v
        return float(value), -scaled.risk_weight * G - scaled.expected_return, scaled.risk_weight * H

    return Risk(smooth)


def _cvar(scaled, v):
    n, tail = len(scaled.p), 1 - scaled.problem.confidence
    rows = np.column_stack([-scaled.Q, -np.ones(n)])
    level = float(np.quantile(-(scaled.Q @ v), scaled.problem.confidence))
    hinges = [Hinges(rows, np.zeros(n), scaled.risk_weight * scaled.p / tail, np.zeros(n))]
    return Risk(_linear(np.append(-scaled.expected_return, scaled.risk_weight)), hinges, level, -np.inf)


def _evar(scaled, v):
    Q, p, m, risk_weight = scaled.Q, scaled.p, scaled.expected_return, scaled.risk_weight
    n, allowed = Q.shape[1], scaled.problem.allowed

    def smooth(x):
        v, t = x[:-1], x[-1]
        if t <= 0:
            return np.inf, np.zeros(n + 1), np.zeros((n + 1, n + 1))
        e = -(Q @ v) / t
        q, log_mean = _tilted(p, e)
        G, middle = q @ Q, q @ e
        value = -m @ v + risk_weight * t * (log_mean + allowed)
        g = np.append(-m - risk_weight * G, risk_weight * (log_mean + allowed - middle))
        H = np.empty((n + 1, n + 1))
        H[:n, :n] = _gram(Q, q) - np.outer(G, G)
        H[:n, n] = H[n, :n] = (q * (e - middle)) @ Q
        H[n, n] = q @ (e - middle) ** 2
        return float(value), g, risk_weight / t * H

    deviation = float(np.sqrt(p @ (Q @ v) ** 2)) or 1.0
    return Risk(smooth, [], deviation, COLDEST)


def _partial_moment(scaled, v):
    """The order-th root of a mean of powers. For order 1 there is neither a root nor a level."""
    Q, p, order, risk_weight = scaled.Q, scaled.p, scaled.problem.order, scaled.risk_weight
    n = Q.shape[1]
    if order == 1:
        zero = np.zeros(len(p))
        return Risk(_linear(-scaled.expected_return), [Hinges(-Q, zero, risk_weight * p, zero)])

    def smooth(x):
        s = x[-1]
        if s <= 0:
            return np.inf, np.zeros(n + 1), np.zeros((n + 1, n + 1))
        b = np.maximum(-(Q @ x[:-1]) / s, 0)
        t = p * b ** (order - 1)
        total = t @ b
        value = -scaled.expected_return @ x[:-1] + risk_weight * s * (order - 1 + total) / order
        g = np.append(-scaled.expected_return - risk_weight * (t @ Q), risk_weight * (order - 1) / order * (1 - total))
        bent = p * (b > 0) * b ** (order - 2)
        H = np.empty((n + 1, n + 1))
        H[:n, :n] = _gram(Q, bent)
        H[:n, n] = H[n, :n] = t @ Q
        H[n, n] = total
        return float(value), g, risk_weight * (order - 1) / s * H

    level = float((p @ np.maximum(-(Q @ v), 0) ** order) ** (1 / order))
    return Risk(smooth, [], level or 1.0, COLDEST)


def without_losses(scaled, v):
    """A sum of hinges that replaces the root of a mean of powers if the optimal portfolio has no losses.

    The root is not differentiable there. Its subgradients are slopes whose dual norm is at most the risk weight, so the
    slope of a period is at most the cost of its hinge here.
    """
    p, order, zero = scaled.p, scaled.problem.order, np.zeros(len(scaled.p))
    cost = scaled.risk_weight * p * p.min() ** (1 / order - 1)
    return Risk(_linear(-scaled.expected_return), [Hinges(-scaled.Q, zero, cost, zero)])


def in_dual_ball(slope, scaled):
    """A slope of `without_losses`, scaled down until it is a subgradient of the root of a mean of powers."""
    order, zeta = scaled.problem.order, slope / (scaled.p * scaled.risk_weight)
    top = float(zeta.max())
    norm = top * (scaled.p @ (zeta / top) ** (order / (order - 1))) ** (1 - 1 / order) if top > 0 else 0.0
    return slope / max(1.0, norm)


def _cdar(scaled, v):
    path = Drawdowns(scaled.Q, scaled.p, scaled.risk_weight, 1 - scaled.problem.confidence)
    return Risk(_linear(-scaled.expected_return), [path])


def largest_loss(scaled, v):
    """EVaR at temperature 0: the largest loss, which is the level."""
    losses = -(scaled.Q @ v)
    rows = np.column_stack([-scaled.Q, -np.ones(len(losses))])
    level = float(losses.max() + 0.1 * np.ptp(losses))
    return Risk(_linear(np.append(-scaled.expected_return, scaled.risk_weight)), [], level, -np.inf, rows)


def is_allowed(q, p, allowed):
    """Whether q is a reweighting in the dual representation of EVaR, which bounds its divergence."""
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
