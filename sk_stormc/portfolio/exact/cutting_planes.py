"""Kelley's cutting-plane method (1960) for the mean of the largest of many losses, each
of which is the maximum of linear functions of the weights."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from sk_stormc.engine.stopping import Gap
from sk_stormc.portfolio.convex_program import (
    INFINITE_WEIGHT,
    PROGRAM_TOLERANCE,
    Solution,
)
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.exact.linear_programs import linear_program, one_sided

__all__ = ["minimise_by_cuts"]

# gap that ends the method, relative to the terms of the objective, which may cancel.
# Linear programs reach it in the end; a larger one costs digits of the weights
VERTEX_GAP = 1e-11
# tolerances of HiGHS; with its own, 1e-7, the gap does not fall below 1e-8
OPTIONS = dict.fromkeys(
    ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), 1e-10
)


def minimise_by_cuts(
    scaled, start, formulation_at, n_levels, callback=None, max_iter=1000
):
    """The minimiser of a `Scaled` objective whose risk, which is not negative, is at
    least that of ``formulation_at(u)`` at all v.

    For v = u they are equal. The minimum with this risk, a linear program, bounds that
    of the objective from below. Every second time u is halfway between its minimiser
    and the best weights. With a limit of the risk, that of ``start`` must be within it.
    """
    n, x, distance = scaled.feasible.n, None, 10.0
    least, lower, smallest = np.inf, -np.inf, np.inf
    # quadratic programs are solved to this accuracy, linear ones exactly
    rounding = PROGRAM_TOLERANCE if scaled.feasible.l2 else 0.0
    levels, since = slice(n, n + n_levels), 0
    for k in range(1, max_iter + 1):
        v = start / scaled.size if x is None else x[:n]
        program, first = scaled.program(v * scaled.size, formulation_at(v))
        x = first if x is None else x
        x[levels] = first[levels]
        if k == 1:
            at_start = x
        within = _within(program.limit, at_start, x)
        value = _value(program, within)
        if value < least:
            least, best = value, within
        if callback is not None:
            callback(x)
        terms = _terms(program, best, n)
        if Gap(least, lower, terms, VERTEX_GAP, rounding).is_small:
            break  # the risk at x is that of the last cuts
        while True:
            if scaled.feasible.l2:  # a quadratic program
                solution, kept_near = interior_point(program, x), False
            else:
                solution, kept_near = _solve(program, start / scaled.size, distance)
            if solution is None:
                return None
            at = _value(program, solution.x)
            gap = Gap(least, at, terms, VERTEX_GAP, rounding)
            if not (gap.is_small and kept_near and distance < INFINITE_WEIGHT):
                break
            distance *= 10
        lower = lower if kept_near else gap.lower
        if gap.size < 0.9 * smallest:
            smallest, since = gap.size, k
        solution.done = not kept_near and gap.size <= PROGRAM_TOLERANCE * terms
        # without progress, new cuts are violated by less than the tolerance of HiGHS
        if gap.is_small or k - since >= (3 if solution.done else 30):
            break
        x = solution.x.copy() if k % 2 else (solution.x + best) / 2
    to_low, to_high = np.abs(best - program.low), np.abs(best - program.high)
    return replace(
        solution,
        x=best,
        n_iter=k,
        active_bounds=np.minimum(to_low, to_high) <= PROGRAM_TOLERANCE,
        at_kink=[np.abs(h.at(best)) <= PROGRAM_TOLERANCE for h in program.hinges],
        at_vertex=True,
    )


def _within(limit, inside, x):
    """The last point on the segment from a point within the limit to x at which the
    limit certainly holds, as the risk is convex."""
    if limit is None:
        return x
    bound, (first, last) = limit.bound, (limit.smooth(at)[0] for at in (inside, x))
    if last <= bound:
        return x
    part = max(bound - first, 0.0) / (last - first) if last > first else 0.0
    return inside + part * (x - inside)


def _terms(program, x, n):
    """The sum of the absolute terms of the objective. Those of a risk may cancel."""
    cost = program.smooth(x)[1]
    of_risk = np.abs(program.A[: program.n_risk_rows, :n]) @ np.abs(x[:n])
    return np.abs(cost) @ np.abs(x) + cost[n] * of_risk.max()


def _value(program, x):
    """The objective of a program without curved hinges."""
    return program.smooth(x)[0] + sum(
        float(kink.cost @ np.maximum(kink.at(x), 0.0)) for kink in program.hinges
    )


def _solve(program, centre, distance):
    """Minimise a `Program` whose smooth part is linear and whose hinges are not curved,
    with HiGHS.

    The weights stay within a distance from the centre. Return the solution, and whether
    farther ones are better. The variables are x, and one for each hinge.
    """
    n, m, kinks = len(program.low), len(centre), program.hinges
    low, high = program.low.copy(), program.high.copy()
    low[:m], high[:m] = (
        np.maximum(low[:m], centre - distance),
        np.minimum(high[:m], centre + distance),
    )
    A, lower, upper = program.A, program.lower, program.upper
    if program.limit is not None:
        of_limit = program.limit.smooth(np.zeros(n))[1]
        A = np.concatenate([A, of_limit[None]])
        lower, upper = np.r_[lower, -np.inf], np.r_[upper, program.limit.bound]
    of_A, rhs_of_A, index, sign = one_sided(A, lower, upper)
    kinked = np.concatenate([np.zeros(0, int), *(kink.rows for kink in kinks)])
    blocks, rhs = [[of_A]], [rhs_of_A]
    if kinked.size:
        blocks = [
            [of_A, None],
            [sparse.eye_array(n, format="csr")[kinked], -sparse.eye_array(len(kinked))],
        ]
        rhs += [-kink.shift for kink in kinks]
    cost = np.concatenate(
        [program.smooth(np.zeros(n))[1], *(kink.cost for kink in kinks)]
    )
    lp = linear_program(cost, blocks, rhs, program.E, program.e, low, high, OPTIONS)
    if lp.x is None:
        return None, False
    pushed = (lp.lower.marginals[:m] > PROGRAM_TOLERANCE) & (low[:m] > program.low[:m])
    pushed |= (-lp.upper.marginals[:m] > PROGRAM_TOLERANCE) & (
        high[:m] < program.high[:m]
    )
    parts = np.split(-lp.ineqlin.marginals, np.cumsum([len(of) for of in rhs])[:-1])
    dual_A = np.bincount(index, sign * np.maximum(parts[0], 0.0), len(A))
    multiplier = float(dual_A[len(program.A) :].sum())
    solution = Solution(
        program.lagrangian(multiplier),
        lp.x[:n],
        slope=[np.maximum(part, 0.0) for part in parts[1:]],
        dual_A=dual_A[: len(program.A)],
        dual_E=-lp.eqlin.marginals,
        active_rows=np.zeros(len(program.A), dtype=bool),
        active_bounds=None,  # and at_kink: of the best weights
        at_kink=None,
        multiplier=multiplier,
        limited=program,
    )
    return solution, pushed.any()
