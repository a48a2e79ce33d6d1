"""The second-order method of the portfolios, ``solver="newton"``: for few assets whose returns are in memory.

A risk is written as a smooth function, or by hinges, of the centred returns, and the mean return as a linear term. So a
shift of all returns changes the linear term alone. Returns and weights are measured in units of their own, so that the
program is about numbers of size one whatever the unit of the returns.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from sk_stormc.core.penalties import L1, Box, Simplex
from sk_stormc.portfolio.interior_point import Hinges, Program, interior_point
from sk_stormc.portfolio.tail_risk import AROUND
from sk_stormc.portfolio.turnover import Turnover

__all__ = ["Limits", "NewtonFit", "can_solve", "solve_portfolio"]

LARGEST = 500  # assets, beyond which Hessians are dear
MEMORY = 2**26  # entries of the returns, half a gigabyte
COLDEST = 1e-7  # the smallest temperature of EVaR, in deviations of the portfolio's return


@dataclass
class NewtonFit:
    """What the method found.

    Attributes
    ----------
    weights : ndarray of shape (n_assets,)
    value : float
        The objective there.
    gap : float
        The objective is above its minimum by this much at most. Where bounds and budget leave weights free, this holds
        among weights up to three times the largest.
    n_iter : int
    """

    weights: np.ndarray
    value: float
    gap: float
    n_iter: int


def can_solve(returns, penalty):
    """Whether the assets are few, the returns in memory, and the penalty one of this library."""
    known = penalty is None or isinstance(penalty, (L1, Box, Simplex, Turnover))
    return known and type(returns) is np.ndarray and returns.shape[1] <= LARGEST and returns.size <= MEMORY


def solve_portfolio(problem, penalty, start):
    """Minimise a portfolio's objective.

    Parameters
    ----------
    problem : PortfolioProblem
        Of any risk measure.
    penalty : object of `sk_stormc.penalties`, Turnover or None
        On the weights.
    start : ndarray of shape (n_assets,)
        Feasible weights. They are returned where nothing better is found.

    Returns
    -------
    NewtonFit
    """
    limits = Limits.of(penalty, problem.returns.shape[1])
    forced = limits.forced()
    if forced is not None:
        return NewtonFit(forced.astype(start.dtype), problem.value_at(forced), 0.0, 0)
    scaled, measure, found = Scaled.of(problem, limits), MEASURES[problem.risk_measure], None
    if problem.risk_measure == "evar":
        program, x = scaled.program(start, _largest_loss)
        found = interior_point(program, x)
        if _is_allowed(found.of_A, scaled.p, problem.allowed):
            measure = _largest_loss
        else:
            found = None
    if found is None:
        program, x = scaled.program(start, measure)
        found = interior_point(program, x)
    w = found.x[: limits.n] * scaled.size
    n_iter = found.n_iter
    held = limits.held(found, scaled.size, len(program.hinges))
    if np.isfinite(held).any():
        # the method stays inside: what is at a bound or a kink is put there, and the other weights follow
        w = np.where(np.isfinite(held), held, w)
        if np.isnan(held).any():
            inner = replace(scaled, limits=limits.with_held(held))
            again = interior_point(*inner.program(w, measure))
            w, n_iter = np.where(np.isfinite(held), held, again.x[: limits.n] * scaled.size), n_iter + again.n_iter
    # the start is kept where nothing is better but for rounding: what it has at 0 stays there
    inside = found.x[: limits.n] * scaled.size
    candidates = [start, *(v if penalty is None else penalty.project(v) for v in (w, inside))]
    values = [problem.value_at(candidate) for candidate in candidates]
    least = min((value for value in values if np.isfinite(value)), default=np.nan)
    best = next((k for k in range(3) if values[k] <= least + 1e-9 * scaled.unit_of_value), 0)
    w, value = np.asarray(candidates[best], float), values[best]
    return NewtonFit(w, value, scaled.gap(program, found, w, value), n_iter)


@dataclass
class Limits:
    """Bounds, budget, l1 norm and cost of trades of a penalty, for n weights."""

    n: int
    low: np.ndarray
    high: np.ndarray
    budget: float | None
    l1: float
    previous: np.ndarray
    cost: np.ndarray

    @classmethod
    def of(cls, penalty, n):
        """Those of a penalty or of None."""
        previous, cost = np.zeros(n), np.zeros(n)
        if isinstance(penalty, Turnover):
            previous, cost, penalty = penalty.previous, np.broadcast_to(penalty.cost, n), penalty.box
        if isinstance(penalty, Simplex):
            return cls(n, np.zeros(n), np.full(n, np.inf), penalty.total, 0.0, previous, cost)
        if isinstance(penalty, Box):
            low, high = (np.broadcast_to(bound, n).astype(float) for bound in (penalty.low, penalty.high))
            return cls(n, low, high, penalty.budget, penalty.alpha, previous, cost)
        l1 = 0.0 if penalty is None else penalty.alpha
        return cls(n, np.full(n, -np.inf), np.full(n, np.inf), None, l1, previous, cost)

    def forced(self):
        """The only weights that are allowed, where there is no choice; else None."""
        if self.n == 1 and self.budget is not None:
            return np.array([self.budget])
        if (self.low == self.high).all():
            return self.low.copy()
        for bound in (self.low, self.high) if self.budget is not None else ():
            total = bound.sum()
            if np.isfinite(total) and abs(total - self.budget) <= 1e-12 * max(1.0, np.abs(bound).sum()):
                return bound.copy()
        return None

    def size(self):
        """A typical weight, as bounds and budget say; None where they do not."""
        finite = np.concatenate([bound[np.isfinite(bound)] for bound in (self.low, self.high)])
        largest = np.abs(finite).max(initial=0.0)
        if self.budget:
            bounded = largest and np.isfinite(self.low + self.high).all()
            return min(abs(self.budget), largest) if bounded else abs(self.budget)
        return largest or None

    def held(self, found, size, n_hinges):
        """The weights that a solution has at a bound, at 0 or at what is held now; NaN for the others."""
        w, held = found.x[: self.n] * size, np.full(self.n, np.nan)
        at = found.at_bound[: self.n]
        held[at] = np.where(np.abs(w - self.low) <= np.abs(self.high - w), self.low, self.high)[at]
        kinks = [(np.zeros(self.n), np.arange(self.n))] * bool(self.l1)
        kinks += [(self.previous, np.flatnonzero(self.cost))] * bool(self.cost.any())
        for (kink, there), at in zip(kinks, found.at_kink[n_hinges - len(kinks) :], strict=True):
            held[there[at]] = kink[there[at]]
        return held

    def with_held(self, held):
        """The same limits, with some weights fixed."""
        there = np.isfinite(held)
        return replace(self, low=np.where(there, held, self.low), high=np.where(there, held, self.high))


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


# the measures: value, gradient and Hessian of what is smooth, hinges, where the level begins, and its least value


def _linear(c):
    H = np.zeros((len(c), len(c)))
    return lambda x: (float(c @ x), c, H)


def _variance(scaled, v):
    H = 2 * scaled.price * (scaled.Q.T * scaled.p) @ scaled.Q

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
        H = rate * ((scaled.Q.T * q) @ scaled.Q - np.outer(G, G))
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
        H[:n, :n] = (Q.T * q) @ Q - np.outer(G, G)
        H[:n, n] = H[n, :n] = (q * (e - middle)) @ Q
        H[n, n] = q @ (e - middle) ** 2
        return float(value), g, scaled.price / t * H

    deviation = float(np.sqrt(p @ (Q @ v) ** 2)) or 1.0
    return smooth, [], deviation, COLDEST, None


def _largest_loss(scaled, v):
    """What EVaR is where its temperature is 0: the level is the largest loss."""
    losses = -(scaled.Q @ v)
    rows = np.column_stack([-scaled.Q, -np.ones(len(losses))])
    level = float(losses.max() + 0.1 * np.ptp(losses))
    return _linear(np.append(-scaled.drift, scaled.price)), [], level, -np.inf, rows


def _is_allowed(q, p, allowed):
    """Whether a reweighting of the periods is one of those over which EVaR is the largest mean loss."""
    total = q.sum()
    if not total > 0:
        return False
    q = np.maximum(q / total, 0)
    return float(xlogy(q, q / np.maximum(p, 1e-300)).sum()) <= allowed


MEASURES = {
    "variance": _variance,
    "semivariance": _semivariance,
    "entropic": _entropic,
    "cvar": _cvar,
    "evar": _evar,
}
