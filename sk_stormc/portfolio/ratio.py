"""The portfolio of the largest mean return per risk, by the transformation of Charnes and Cooper.

Mean return over risk does not change where all weights are multiplied by a number k > 0. So the largest ratio is found
at the least risk of v = k w with a given mean return, where the constraints on w are those on v with k as one more
variable: w <= high is v <= high k. That is a portfolio of least risk with linear constraints, in which k is an asset
whose return is 0, or minus that of the benchmark.
"""

import numpy as np

from sk_stormc.core.penalties import Box
from sk_stormc.engine.results import changed
from sk_stormc.portfolio.feasible import check_feasible
from sk_stormc.portfolio.handover import by_newton, in_memory
from sk_stormc.portfolio.limits import Limited, Limits
from sk_stormc.portfolio.linear import Linear
from sk_stormc.portfolio.problem import PortfolioProblem
from sk_stormc.portfolio.risk_measures import MEASURES

__all__ = ["by_ratio", "ratio_at"]

TINY = 1e-9  # of the deviation of an asset: a risk that is less is none


def of_risk(problem, returns, penalty=None):
    """The problem of the least risk, of these returns and nothing else."""
    options = {"risk_measure": problem.risk_measure, "sample_weight": problem.weights, "penalty": penalty}
    return PortfolioProblem(returns, np.inf, **options, **problem.parameters())


def ratio_of(mean, risk, risk_measure):
    """Mean over risk, which is a deviation for the two variances."""
    return mean / risk ** (1 / MEASURES[risk_measure].power)


def ratio_at(problem, weights):
    """The ratio of some weights, on the returns of a problem."""
    risk = of_risk(problem, problem.returns).value_at(weights)
    return float(ratio_of(float(problem._mean @ weights), risk, problem.risk_measure))


def check_ratio(risk_measure, limits):
    """Raise a ValueError where a ratio has no meaning: costs and trades are not in proportion to the weights."""
    if risk_measure == "entropic":
        raise ValueError("objective='ratio' needs a risk apart from the mean return, got risk_measure='entropic'")
    asked = {"l1": limits.l1, "transaction_cost": limits.cost.any(), "max_turnover": limits.max_turnover is not None}
    wrong = [name for name, there in asked.items() if there]
    if wrong:
        raise ValueError(f"objective='ratio' cannot be used with {' and '.join(wrong)}: take objective='utility'")


def by_ratio(problem, penalty, tol, solver="newton"):
    """The fit with ``objective="ratio"``: the result of a run, whose objective is minus the ratio, and the gap.

    Parameters
    ----------
    problem : PortfolioProblem
        Whose last asset is the benchmark, where there is one.
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
        Where no portfolio has a positive mean return, or one has no risk.
    """
    in_memory(problem, penalty, solver, "objective='ratio'")
    returns, risk_measure, mean = problem.returns, problem.risk_measure, problem._mean
    active = isinstance(penalty, Limited) and penalty.active
    n = returns.shape[1] - active
    limits = Limits.of(penalty, returns.shape[1])
    check_ratio(risk_measure, limits)
    scale = np.column_stack([returns[:, :n], -returns[:, n] if active else np.zeros(len(returns))])
    reward = np.append(mean[:n], -mean[n] if active else 0.0)
    unit = float(np.abs(reward).max()) or 1.0
    low, high, one = limits.low[:n], limits.high[:n], np.eye(n)
    rows = [reward[None] / unit]
    limit = [[1.0, 1.0]]
    for bound, sign in ((low, -1.0), (high, 1.0)):
        there = np.flatnonzero(np.isfinite(bound) & (bound != 0))
        rows.append(np.column_stack([sign * one[there], -sign * bound[there]]))
        limit += [[-np.inf, 0.0]] * there.size
    if limits.budget is not None:
        rows.append(np.append(np.ones(n), -limits.budget)[None])
        limit.append([0.0, 0.0])
    for row, least, most in zip(limits.A[:, :n], limits.lower, limits.upper, strict=True):
        if least == most:
            rows.append(np.append(row, -most)[None])
            limit.append([0.0, 0.0])
            continue
        for bound, sign in ((least, -1.0), (most, 1.0)):
            if np.isfinite(bound):
                rows.append(sign * np.append(row, -bound)[None])
                limit.append([-np.inf, 0.0])
    A, (lower, upper) = np.concatenate(rows), np.array(limit).T
    box = Box(np.append(np.where(low == 0, 0.0, -np.inf), 0.0), np.append(np.where(high == 0, 0.0, np.inf), np.inf))
    lifted = Limited(box, Linear(A, lower, upper, [""] * len(A)), np.zeros(n + 1), None, False)
    try:
        check_feasible(lifted)
    except ValueError:
        raise ValueError(
            "objective='ratio' needs a portfolio whose mean return is positive, but none that is allowed has one"
        ) from None
    result, gap = by_newton(of_risk(problem, scale, lifted), lifted, tol)
    v, risk = np.asarray(result.x, float), result.fun
    v = v[: n + 1]
    floor = TINY * float(scale.std(axis=0).max())
    least = floor ** MEASURES[risk_measure].power
    if risk <= least or v[-1] <= TINY:
        found = "a portfolio has no risk" if risk <= least else "weights without end are better"
        raise ValueError(f"objective='ratio' has no maximum: {found}. Add bounds, or drop assets that are riskless")
    w = v[:n] / v[-1]
    w = np.append(w, -1.0) if active else w
    w = penalty.nearly(w) if isinstance(penalty, Limited) else penalty.project(w)
    best = ratio_of(unit, max(risk - gap, least), risk_measure)
    found = ratio_of(unit, risk, risk_measure)
    first = ratio_of(unit, max(result.loss_curve[0], least), risk_measure)
    w = problem.start_at(w)
    return changed(result, x=w, fun=-found, loss_curve=np.array([-first, -found])), best - found
