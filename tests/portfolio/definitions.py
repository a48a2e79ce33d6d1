"""Risks by their definitions, and least objectives by scipy, for the tests of
portfolios."""

import warnings

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp

INF = np.inf
SMOOTH = ("variance", "semivariance", "entropic", "evar", "semideviation", "downside")
MEASURES = (
    "variance",
    "semivariance",
    "entropic",
    "cvar",
    "evar",
    "semideviation",
    "downside",
    "cdar",
)


def make_returns(n=150, d=6, seed=0):
    """Heavy-tailed correlated returns, as fractions."""
    rng = np.random.default_rng(seed)
    return 0.01 * rng.standard_t(4, size=(n, d)) @ (
        np.eye(d) + 0.3 * rng.normal(size=(d, d))
    ) + rng.uniform(0, 2e-3, d)


def shares(n, p=None):
    """Weights of n periods, of sum 1."""
    return np.full(n, 1 / n) if p is None else np.asarray(p, float) / np.sum(p)


def worst(losses, p, tail):
    """The mean of the worst losses, by sorting; a period may count in part."""
    order = np.argsort(-losses)
    return (
        np.diff(np.minimum(np.cumsum(p[order]), tail), prepend=0.0)
        @ losses[order]
        / tail
    )


def risk(y, measure, confidence=0.95, order=2, p=None):
    """The risk of returns y. Variance and semivariance are roots here: they are in the
    unit of the returns."""
    p = shares(len(y), p)
    if measure == "variance":
        return np.sqrt(p @ (y - p @ y) ** 2)
    if measure in ("semivariance", "semideviation", "downside"):
        order = 2 if measure == "semivariance" else order
        return (
            p @ np.maximum((0.0 if measure == "downside" else p @ y) - y, 0) ** order
        ) ** (1 / order)
    if measure == "cvar":
        return worst(-y, p, 1 - confidence)
    if measure == "cdar":
        depth = [0.0]
        for one in y:
            depth.append(max(depth[-1] - one, 0.0))
        return worst(np.array(depth[1:]), p, 1 - confidence)
    middle, unit = -3.0, max(y.std(), 1e-300)
    for width in (11.0, 0.2, 4e-3):  # a finer grid around the best of the last
        t = unit * np.exp(middle + np.linspace(-width, width, 151))
        values = t * (logsumexp(-y / t[:, None], b=p, axis=1) - np.log(1 - confidence))
        middle = np.log(t[np.argmin(values)] / unit)
    return values.min()


def utility(
    w,
    R,
    measure,
    risk_aversion=1.0,
    l1=0.0,
    l2=0.0,
    held=0.0,
    cost=0.0,
    against=0.0,
    p=None,
    **more,
):
    """The objective of weights."""
    y, q = R @ w - against, shares(len(R), p)
    costs = l1 * np.abs(w).sum() + l2 * w @ w + np.sum(cost * np.abs(w - held))
    if measure == "entropic":
        return logsumexp(-risk_aversion * y, b=q) / risk_aversion + costs
    power = 2 if measure in ("variance", "semivariance") else 1
    gain, a = (0.0, 1.0) if risk_aversion == INF else (1.0, risk_aversion)
    return -gain * q @ y + a * risk(y, measure, p=p, **more) ** power + costs


def slope_of_risk(y, measure, a, p, order):
    """a times a smooth risk of returns y with weights p, and its derivative in y."""
    if measure == "variance":
        return a * p @ (y - p @ y) ** 2, 2 * a * p * (y - p @ y)
    d = np.maximum((0.0 if measure == "downside" else p @ y) - y, 0)
    if measure == "semivariance":
        value, slope = a * p @ d**2, 2 * a * p * d
    else:
        root = max((p @ d**order) ** (1 / order), 1e-12)
        value, slope = a * root, a * p * (d / root) ** (order - 1)
    return value, (0.0 if measure == "downside" else p * slope.sum()) - slope


def least(
    R,
    measure,
    risk_aversion=1.0,
    low=-INF,
    high=INF,
    budget=None,
    l1=0.0,
    l2=0.0,
    held=0.0,
    cost=0.0,
    rows=None,
    max_turnover=None,
    max_gross=None,
    against=0.0,
    p=None,
    confidence=0.95,
    order=2,
):
    """The least objective under constraints: HiGHS for measures that are sums of
    hinges, SLSQP for the others and l2.

    The first variables are w, |w - held| and |w|. ``rows`` are constraints (A, lower,
    upper).
    """
    n, d = R.shape
    q, unit, none = shares(n, p), np.eye(d), np.zeros((d, d))
    gain, a = (0.0, 1.0) if risk_aversion == INF else (1.0, risk_aversion)
    held, against = np.broadcast_to(held, d), np.broadcast_to(against, n)
    A = [np.hstack([s * unit, -unit, none]) for s in (1, -1)] + [
        np.hstack([s * unit, none, -unit]) for s in (1, -1)
    ]
    limit = [held, -held, np.zeros(2 * d)]
    if rows is not None:
        for sign, bound in ((1, rows[2]), (-1, rows[1])):
            kept = np.isfinite(bound)
            A.append(np.hstack([sign * rows[0][kept], np.zeros((kept.sum(), 2 * d))]))
            limit.append(sign * np.asarray(bound)[kept])
    if max_turnover is not None:
        A.append(np.repeat([0.0, 1.0, 0.0], d)[None])
        limit.append([max_turnover])
    if max_gross is not None:
        A.append(np.repeat([0.0, 0.0, 1.0], d)[None])
        limit.append([max_gross])
    A, limit, total = (
        np.concatenate(A),
        np.concatenate(limit),
        np.repeat([1.0, 0.0, 0.0], d)[None],
    )
    costs = np.r_[np.zeros(d), np.broadcast_to(cost, d), np.full(d, l1)]
    bounds = [
        *np.column_stack([np.broadcast_to(low, d), np.broadcast_to(high, d)]),
        *[(0, None)] * 2 * d,
    ]
    if measure in ("cvar", "cdar") or (measure not in SMOOTH[:4] and order == 1):
        one, zero, column = np.eye(n), np.zeros((n, n)), np.ones((n, 1))
        if measure == "cdar":  # drawdowns, level, excess
            of_w, of_others = (
                [-R, 0 * R],
                [[np.eye(n, k=-1) - one, 0 * column, zero], [one, -column, -one]],
            )
            limits, of_risk = (
                [-against, 0 * against],
                np.r_[np.zeros(n), 1.0, q / (1 - confidence)],
            )
            kinds = [(0, None)] * n + [(None, None)] + [(0, None)] * n
        else:
            of_mean = (q @ R, q @ against) if measure == "semideviation" else (0.0, 0.0)
            level = np.full((n, 1), -1.0 if measure == "cvar" else 0.0)
            of_w, of_others, limits = (
                [of_mean[0] - R],
                [[level, -one]],
                [of_mean[1] - against],
            )
            of_risk = (
                np.r_[1.0, q / (1 - confidence)] if measure == "cvar" else np.r_[0.0, q]
            )
            kinds = [(None, None)] + [(0, None)] * n
        blocks = [
            np.hstack([left, np.zeros((n, 2 * d)), *right])
            for left, right in zip(of_w, of_others, strict=True)
        ]
        m = len(of_risk)
        cost = np.r_[costs - gain * np.r_[q @ R, np.zeros(2 * d)], a * of_risk]
        A, limit = (
            np.concatenate([np.pad(A, ((0, 0), (0, m))), *blocks]),
            np.concatenate([limit, *limits]),
        )
        total = None if budget is None else np.pad(total, ((0, 0), (0, m)))
        run = linprog(
            cost,
            A,
            limit,
            total,
            None if budget is None else [budget],
            bounds=bounds + kinds,
        )
        assert run.status == 0
        if l2:
            of_w = np.r_[np.full(d, l2), np.zeros(len(cost) - d)]
            rules = [
                {"type": "ineq", "fun": lambda z: limit - A @ z, "jac": lambda z: -A}
            ]
            if budget is not None:
                rules.append(
                    {
                        "type": "eq",
                        "fun": lambda z: total @ z - budget,
                        "jac": lambda z: total,
                    }
                )
            run = minimize(
                lambda z: (cost @ z + of_w @ z**2, cost + 2 * of_w * z),
                run.x,
                jac=True,
                method="SLSQP",
                bounds=bounds + kinds,
                constraints=rules,
                options={"ftol": 1e-14, "maxiter": 500},
            )
        return run.fun + gain * q @ against
    size = 100.0  # the unit of weights and returns in which SLSQP works

    def value(z):
        y = R @ z[:d] - against
        slope = np.append(costs, 0.0)
        if measure == "entropic":
            fun, of_y, gain_y = (
                logsumexp(-a * y, b=q) / a,
                -q * np.exp(-a * y - logsumexp(-a * y, b=q)),
                0.0,
            )
        elif measure == "evar":
            t = 0.01 * np.exp(z[-1])
            log_mean = logsumexp(-y / t, b=q)
            of_y, gain_y = -a * q * np.exp(-y / t - log_mean), gain
            fun = a * t * (log_mean - np.log(1 - confidence))
            slope[-1] = fun - of_y @ y
        else:
            (fun, of_y), gain_y = slope_of_risk(y, measure, a, q, order), gain
        slope[:d] += (of_y - gain_y * q) @ R + 2 * l2 * z[:d]
        return size * (
            fun - gain_y * q @ y + costs @ z[:-1] + l2 * z[:d] @ z[:d]
        ), size * slope

    A, total = np.pad(A, ((0, 0), (0, 1))), np.pad(total, ((0, 0), (0, 1)))
    rules = [{"type": "ineq", "fun": lambda z: limit - A @ z, "jac": lambda z: -A}]
    if budget is not None:
        rules.append(
            {"type": "eq", "fun": lambda z: total @ z - budget, "jac": lambda z: total}
        )
    start = np.clip(
        np.full(d, (budget or 0.0) / d) if max_turnover is None else held, low, high
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of SciPy 1.13, for roundings
        runs = [
            minimize(
                value,
                np.r_[start, np.abs(start - held), np.abs(start), t],
                jac=True,
                method="SLSQP",
                bounds=[*bounds, (-12, 6)],
                constraints=rules,
                options={"ftol": 1e-14, "maxiter": 1000},
            )
            for t in ((0.0, -2.0) if measure == "evar" else (0.0,))
        ]
    return min(run.fun for run in runs) / size
