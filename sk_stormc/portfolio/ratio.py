"""The portfolio of the largest ratio of mean return to risk, by the transformation of Charnes and Cooper (1962).

The ratio does not change if all weights are multiplied by a number k > 0. So one minimises the risk of v = k w subject
to a fixed mean return. The constraints on w become constraints on v and the additional variable k: w <= high becomes
v <= high k. This is a minimum-risk portfolio with linear constraints, in which k is an asset whose return is 0, or
minus that of the benchmark. Transaction costs and the turnover limit are those of |v - previous k|.
"""

from dataclasses import replace

import numpy as np

from sk_stormc.core.penalties import Box
from sk_stormc.engine.results import changed
from sk_stormc.portfolio.feasible import check_feasible
from sk_stormc.portfolio.handover import in_memory, solved
from sk_stormc.portfolio.limits import Limited, Limits
from sk_stormc.portfolio.linear import Linear
from sk_stormc.portfolio.problem import PortfolioProblem
from sk_stormc.portfolio.risk_measures import MEASURES

__all__ = ["by_ratio", "ratio_at"]

TINY = 1e-9  # risk below which a portfolio counts as riskless, relative to the largest standard deviation of an asset


def of_risk(problem, returns, penalty=None):
    """The minimum-risk problem of these returns."""
    options = {"risk_measure": problem.risk_measure, "sample_weight": problem.weights, "penalty": penalty}
    return PortfolioProblem(returns, np.inf, **options, **problem.parameters())


def ratio_of(mean, risk, risk_measure):
    """Mean over risk. The risk of the variance and the semivariance is their square root."""
    return mean / risk ** (1 / MEASURES[risk_measure].power)


def ratio_at(problem, weights):
    """The ratio of given weights, on the returns of a problem."""
    risk = of_risk(problem, problem.returns).value_at(weights)
    return float(ratio_of(float(problem._mean @ weights), risk, problem.risk_measure))


def check_ratio(risk_measure):
    """Raise a ValueError for entropic risk, which contains the mean return."""
    if risk_measure == "entropic":
        raise ValueError("objective='ratio' needs a risk apart from the mean return, got risk_measure='entropic'")


def lifted(limits, n, reward):
    """The constraints on w as linear constraints on (v, k, |v - previous k|, |v|), with a mean return after costs of 1.

    The variables |v - previous k| exist only with transaction costs or a turnover limit, and |v| only with an l1 norm.
    They are relaxed to upper bounds of these absolute values, which leaves the optimum unchanged.

    Parameters
    ----------
    limits : Limits
    n : int
        Number of assets, without the benchmark.
    reward : ndarray of shape (n + 1,)
        Mean returns of v and k.

    Returns
    -------
    Limited
    """
    traded, normed = bool(limits.cost.any() or limits.max_turnover is not None), bool(limits.l1)
    m, one, previous = n + 1 + n * (traded + normed), np.eye(n), limits.previous[:n]
    of_trades, of_norm = (slice(n + 1 + n * k, n + 1 + n * (k + 1)) for k in (0, traded))
    rows, limit = [], []

    def add(of_v, of_k, low=-np.inf, high=0.0, **parts):
        block = np.zeros((len(of_v), m))
        block[:, :n], block[:, n] = of_v, of_k
        for place, part in parts.values():
            block[:, place] = part
        rows.append(block)
        limit.extend([[low, high]] * len(block))

    costs = {"trades": (of_trades, -limits.cost[:n])} if traded else {}
    costs |= {"norm": (of_norm, -limits.l1)} if normed else {}
    add(reward[None, :n], reward[n], 1.0, 1.0, **costs)
    for bound, sign in ((limits.low[:n], -1.0), (limits.high[:n], 1.0)):
        there = np.flatnonzero(np.isfinite(bound) & (bound != 0))
        add(sign * one[there], -sign * bound[there])
    if limits.budget is not None:
        add(np.ones((1, n)), -limits.budget, 0.0)
    for row, least, most in zip(limits.A[:, :n], limits.lower, limits.upper, strict=True):
        if least == most:
            add(row[None], -most, 0.0)
            continue
        for bound, sign in ((least, -1.0), (most, 1.0)):
            if np.isfinite(bound):
                add(sign * row[None], -sign * bound)
    for sign in (-1.0, 1.0):
        if traded:
            add(sign * one, -sign * previous, trades=(of_trades, -one))
        if normed:
            add(sign * one, 0.0, norm=(of_norm, -one))
    if limits.max_turnover is not None:
        add(np.zeros((1, n)), -limits.max_turnover, trades=(of_trades, 1.0))
    A, (lower, upper) = np.concatenate(rows), np.array(limit).T
    low = np.append(np.where(limits.low[:n] == 0, 0.0, -np.inf), np.zeros(m - n))
    high = np.append(np.where(limits.high[:n] == 0, 0.0, np.inf), np.full(m - n, np.inf))
    return Limited(Box(low, high), Linear(A, lower, upper, [""] * len(A)), np.zeros(m), None, False)


def by_ratio(problem, penalty, tol, solver="newton"):
    """Fit with ``objective="ratio"``. Return the result, whose objective is minus the ratio, and the gap.

    Parameters
    ----------
    problem : PortfolioProblem
        Its last asset is the benchmark, if there is one.
    penalty : object of `sk_stormc.penalties` or Limited
    tol : float
    solver : str or CompositionalSolver

    Returns
    -------
    result : SolverResult
    gap : float

    Raises
    ------
    ValueError
        If no feasible portfolio has a positive mean return, or some portfolio has no risk.
    """
    in_memory(problem, penalty, solver, "objective='ratio'")
    returns, risk_measure, mean = problem.returns, problem.risk_measure, problem._mean
    active = isinstance(penalty, Limited) and penalty.active
    n = returns.shape[1] - active
    limits = Limits.of(penalty, returns.shape[1])
    check_ratio(risk_measure)
    reward = np.append(mean[:n], -mean[n] if active else 0.0)
    unit = float(np.abs(reward).max()) or 1.0
    program = lifted(replace(limits, cost=limits.cost / unit, l1=limits.l1 / unit), n, reward / unit)
    scale = np.zeros((len(returns), program.n_assets))
    scale[:, :n] = returns[:, :n]
    if active:
        scale[:, n] = -returns[:, n]
    try:
        check_feasible(program)
    except ValueError:
        raise ValueError(
            "objective='ratio' needs a portfolio whose mean return, less its costs, is positive, but no feasible one "
            "has it"
        ) from None
    result, gap = solved(of_risk(problem, scale, program), program, tol)
    v, risk = np.asarray(result.x, float), result.fun
    v = v[: n + 1]
    floor = TINY * float(scale.std(axis=0).max())
    least = floor ** MEASURES[risk_measure].power
    if risk <= least or v[-1] <= TINY:
        found = "a portfolio has no risk" if risk <= least else "ever larger weights are better"
        raise ValueError(f"objective='ratio' has no maximum: {found}. Add bounds, or drop assets that are riskless")
    w = v[:n] / v[-1]
    w = np.append(w, -1.0) if active else w
    w = penalty.nearly(w) if isinstance(penalty, Limited) else penalty.project(w)
    best = ratio_of(unit, max(risk - gap, least), risk_measure)
    found = ratio_of(unit, risk, risk_measure)
    first = ratio_of(unit, max(result.loss_curve[0], least), risk_measure)
    w = problem.start_at(w)
    return changed(result, x=w, fun=-found, loss_curve=np.array([-first, -found])), best - found
