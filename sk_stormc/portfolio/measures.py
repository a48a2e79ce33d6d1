"""The risk measures in the form of the second-order method: a smooth part, hinges, and a level variable."""

import numpy as np
from scipy.special import xlogy

from sk_stormc.portfolio.inequalities import Hinges
from sk_stormc.portfolio.linear_program import Drawdowns

__all__ = ["MEASURES", "is_allowed", "largest_loss", "nothing_lost", "shrunk"]

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


MEASURES = {
    "variance": _variance,
    "semivariance": _semivariance,
    "entropic": _entropic,
    "cvar": _cvar,
    "evar": _evar,
    "semideviation": _partial_moment,
    "downside": _partial_moment,
    "cdar": _cdar,
}
