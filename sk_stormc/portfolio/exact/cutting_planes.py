"""Kelley's cutting-plane method (1960) for the mean of the largest of many losses, each
of which is the maximum of linear functions of the weights.

Periods are divided into parts, and each part has cuts of its own. Cuts of the whole
mean, one an iteration, would have to be many times more (Birge & Louveaux, "A multicut
algorithm for two-stage stochastic linear programs", 1988).
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sk_stormc.engine.stopping import Gap
from sk_stormc.portfolio.exact.convex_program import Solution
from sk_stormc.portfolio.exact.interior_point import interior_point
from sk_stormc.portfolio.exact.linear_programs import linear_program, one_sided
from sk_stormc.portfolio.exact.program import INFINITE_WEIGHT, Formulation
from sk_stormc.portfolio.exact.tolerances import PROGRAM_TOLERANCE

__all__ = ["Cuts", "cuts_of_parts", "minimise_by_cuts"]

# gap that ends the method, relative to the terms of the objective, which may cancel.
# Linear programs reach it in the end; a larger one costs digits of the weights
VERTEX_GAP = 1e-11
# tolerances of HiGHS; with its own, 1e-7, the gap does not fall below 1e-8
OPTIONS = dict.fromkeys(
    ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), 1e-10
)


class Cuts(NamedTuple):
    """Lower bounds of the risk: for any level s, it is at least s plus the sum over
    some parts of max(slope @ v - share s, 0)."""

    level: float  # for which they are equal at the weights of the cuts
    part: np.ndarray  # number of each part
    slope: np.ndarray  # of shape (n_cuts, n_assets)
    share: np.ndarray


def of_cuts(scaled, v, cuts, n_parts):
    """The risk of the largest cuts of each part, in units of the first risk. Levels are
    s and the parts, at v those of the last cuts."""
    unit = float(np.abs(cuts[0].slope.sum(axis=0)).max()) or 1.0
    part, slope, share = (
        np.concatenate([getattr(cut, name) for cut in cuts])
        for name in ("part", "slope", "share")
    )
    rows = np.column_stack(
        [slope / unit, -share, -(part[:, None] == np.arange(n_parts)).astype(float)]
    )
    last = cuts[-1]
    level = np.zeros(1 + n_parts)
    level[0] = last.level / unit
    excess = last.slope @ v / unit - last.share * level[0]
    level[1 + last.part] = np.maximum(excess, 0.0)
    of_level = np.full(1 + n_parts, scaled.risk_weight * unit)
    linear = np.append(-scaled.expected_return, of_level)
    reach = len(scaled.Q) / unit
    return Formulation(linear, level=level, lowest=0.0, reach=reach, rows=rows)


def cuts_of_parts(cuts_at, n_parts):
    """The function of v whose value is the risk of the cuts ``cuts_at`` of all its
    arguments so far."""
    cuts = []

    def formulation_at(v):
        cuts.append(cuts_at(v))
        return partial(of_cuts, cuts=tuple(cuts), n_parts=n_parts)

    return formulation_at


def minimise_by_cuts(
    scaled, formulation_at, n_levels, start, callback=None, max_iter=1000
):
    """The minimiser of a `Scaled` objective whose risk, which is not negative, is at
    least that of ``formulation_at(u)`` at all v.

    For v = u they are equal. The minimum with this risk, a linear program, bounds that
    of the objective from below. Every second time u is halfway between its minimiser
    and the best weights.
    """
    n, x, least, distance = scaled.feasible.n, None, np.inf, 10.0
    levels, smallest, since = slice(n, n + n_levels), np.inf, 0
    for k in range(1, max_iter + 1):
        v = start / scaled.size if x is None else x[:n]
        program, first = scaled.program(v * scaled.size, formulation_at(v))
        x = first if x is None else x
        x[levels] = first[levels]
        value = _value(program, x)
        if value < least:
            least, best = value, x
        if callback is not None:
            callback(x)
        terms = _terms(program, best, n)
        while True:
            if scaled.feasible.l2:  # a quadratic program
                solution, kept_near = interior_point(program, x), False
            else:
                solution, kept_near = _solve(program, start / scaled.size, distance)
            if solution is None:
                return None
            gap = Gap(least, _value(program, solution.x), terms, VERTEX_GAP)
            if not (gap.is_small and kept_near and distance < INFINITE_WEIGHT):
                break
            distance *= 10
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
    of_A, rhs_of_A, index, sign = one_sided(program.A, program.lower, program.upper)
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
    solution = Solution(
        program,
        lp.x[:n],
        slope=[np.maximum(part, 0.0) for part in parts[1:]],
        dual_A=np.bincount(index, sign * np.maximum(parts[0], 0.0), len(program.A)),
        dual_E=-lp.eqlin.marginals,
        active_rows=np.zeros(len(program.A), dtype=bool),
        active_bounds=None,  # and at_kink: of the best weights
        at_kink=None,
    )
    return solution, pushed.any()
