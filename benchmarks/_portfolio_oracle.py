"""Portfolios by Clarabel: a formulation of each case of `_portfolio_cases`."""

import time
import warnings
from dataclasses import dataclass

import numpy as np

from benchmarks._portfolio_cases import SQUARED

__all__ = ["Answer", "solve"]

ACCURATE = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


@dataclass
class Answer:
    """What Clarabel found."""

    status: str  # "optimal", "infeasible", "unbounded" or "failed"
    w: np.ndarray | None = None
    value: float = np.nan  # of the case at w
    # by how much the value may be below the least one, since w misses limits
    error: float = np.nan
    seconds: float = 0.0  # of Clarabel alone


def solve(case):
    """The `Answer` to a `Case`, which has failed without cvxpy.

    A ratio is solved for w times a factor k > 0, so that the mean return is 1 and the
    risk is least.
    """
    try:
        import cvxpy as cp
    except ImportError:
        return Answer("failed")
    (_, d), size = case.Y.shape, case.unit
    ratio = case.goal == "ratio"
    w, k = cp.Variable(d), cp.Variable(nonneg=True) if ratio else 1.0
    kept = np.ones(len(case.p), bool) if case.measure == "cdar" else case.p > 0
    Y, b, p = case.Y[kept] / size, case.against[kept] / size, case.p[kept]
    mean = (p @ Y) @ w - k * float(p @ b)
    off = (Y - p @ Y) @ w - k * (b - p @ b)
    limits = limits_of(case, cp, w, k, mean)
    squared = case.measure in SQUARED
    charge = charge_of(case, cp, w, k)
    risk, extra = risk_of(case, cp, off, mean, p)
    if case.measure == "entropic":
        a = case.aversion * size
        aim = cp.log_sum_exp(np.log(p) - a * (off + mean)) / a + charge
    elif ratio:
        extra.append(mean - charge >= 1)
        aim = risk if not squared else cp.norm2(root_of(case, cp, off, p))
    elif case.goal == "limit":
        risk = risk if not squared else cp.norm2(root_of(case, cp, off, p))
        limits.append(risk <= case.max_risk / size)
        aim = charge - mean
    elif case.goal == "least risk":
        aim = risk + (charge / size if squared else charge)
    else:
        aim = (case.aversion * (size if squared else 1.0)) * risk - mean + charge
    problem = cp.Problem(cp.Minimize(aim), limits + extra)
    seconds = 0.0
    for settings in (ACCURATE, {}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.process_time()
            try:
                problem.solve(solver="CLARABEL", **settings)
            except (cp.error.SolverError, ArithmeticError, ValueError):
                continue
        taken = time.process_time() - began
        seconds = getattr(problem.solver_stats, "solve_time", None) or taken
        status = problem.status
        if status in ("infeasible", "unbounded"):
            return Answer(status, seconds=seconds)
        if status == "optimal" and w.value is not None:
            break
    if w.value is None or problem.status not in ("optimal", "optimal_inaccurate"):
        return Answer("failed", seconds=seconds)
    found = np.asarray(w.value, float)
    if ratio:
        if not k.value > 1e-12:
            return Answer("failed", seconds=seconds)
        found = found / float(k.value)
    value = case.value(found)
    rounding = 1e-10 * case.unit * np.abs(found).max()
    if ratio and case.risk(found) <= rounding:  # a mean return without a risk
        return Answer("unbounded", seconds=seconds)
    missed = sum(
        float(np.sum(np.abs(limit.dual_value) * limit.violation()))
        for limit in limits
        if limit.dual_value is not None
    )
    unit = size
    if ratio:
        unit = abs(value) / max(problem.value, 1e-300)
    elif squared and case.goal == "least risk":
        unit = size**2
    # the solver's accuracy relative to its numbers, and the limits' prices
    error = (missed + 1e-9 * abs(problem.value)) * unit
    return Answer("optimal", found, value, float(error), seconds)


def limits_of(case, cp, w, k, mean):
    """The limits of the weights."""
    found = []
    fixed = case.low == case.high
    for sign, bound in ((1, case.low), (-1, case.high)):
        there = np.isfinite(bound) & ~fixed
        if there.any():
            found.append(sign * w[there] >= sign * k * bound[there])
    if fixed.any():
        found.append(w[fixed] == k * case.low[fixed])
    if case.budget is not None:
        found.append(cp.sum(w) == k * case.budget)
    for a, lower, upper in zip(case.A, case.lower, case.upper, strict=True):
        if lower == upper:
            found.append(a @ w == k * lower)
            continue
        if lower > -np.inf:
            found.append(a @ w >= k * lower)
        if upper < np.inf:
            found.append(a @ w <= k * upper)
    if case.gross is not None:
        found.append(cp.norm1(w) <= k * case.gross)
    if case.turnover is not None:
        found.append(cp.norm1(w - k * case.held) <= k * case.turnover)
    if case.min_return is not None:
        found.append(mean >= case.min_return / case.unit)
    return found


def charge_of(case, cp, w, k):
    """The l1 norm, the costs and the squares, in the unit of the returns."""
    charge = cp.Constant(0.0)
    if case.l1:
        charge = charge + case.l1 / case.unit * cp.norm1(w)
    if case.cost.any():
        trades = cp.multiply(case.cost / case.unit, cp.abs(w - k * case.held))
        charge = charge + cp.sum(trades)
    if case.l2:
        charge = charge + case.l2 / case.unit * cp.sum_squares(w)
    return charge


def root_of(case, cp, off, p):
    """The deviations whose squares a variance adds."""
    return cp.multiply(np.sqrt(p), off if case.measure == "variance" else cp.pos(-off))


def risk_of(case, cp, off, mean, p):
    """The risk, and the constraints of its variables."""
    measure, part = case.measure, 1 - case.confidence
    if measure in SQUARED:
        return cp.sum_squares(root_of(case, cp, off, p)), []
    if measure in ("semideviation", "downside"):
        losses = cp.pos(-off if measure == "semideviation" else -off - mean)
        if case.order == 1:
            return p @ losses, []
        scaled = cp.multiply(p ** (1 / case.order), losses)
        return cp.pnorm(scaled, case.order), []
    if measure == "cvar":
        level = cp.Variable()
        return level + p @ cp.pos(-off - mean - level) / part, []
    if measure == "gini":
        i, j = np.triu_indices(len(p), 1)
        return 2 * (p[i] * p[j]) @ cp.abs(off[i] - off[j]), []
    if measure == "cdar":
        depth, level = cp.Variable(len(p), nonneg=True), cp.Variable()
        falls = [depth[0] >= -off[0] - mean]
        if len(p) > 1:
            falls.append(depth[1:] >= depth[:-1] - off[1:] - mean)
        return level + p @ cp.pos(depth - level) / part, falls
    if measure == "evar":
        z, level, share = cp.Variable(nonneg=True), cp.Variable(), cp.Variable(len(p))
        cone = cp.ExpCone(-off - mean - level, z * np.ones(len(p)), share)
        return level - z * np.log(part), [cone, p @ share <= z]
    return None, []
