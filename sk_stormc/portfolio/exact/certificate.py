"""Lower bounds of the minimum of a `Program`, from the multipliers of a solution.

For any multipliers that are dual feasible, the Lagrangian's minimum over the bounds of
the variables is a lower bound. A variable without bounds must have a reduced cost of 0,
which multipliers have only up to the tolerance of the method.
"""

from dataclasses import replace

import numpy as np

from sk_stormc.portfolio.exact.convex_program import product
from sk_stormc.portfolio.exact.tolerances import RELATIVE_ROUNDING

__all__ = ["lower_bound", "risk_bound"]


def risk_bound(solution):
    """A linear lower bound of the program's objective: a constant, and the coefficients
    of each variable."""
    x, program = solution.x, solution.program
    f, g, _ = program.smooth(x)
    constant, c = f - g @ x, g
    rows = program.n_risk_rows  # constraints that belong to the risk
    c = c + program.A[:rows].T @ solution.dual_A[:rows]
    for hinge, slope in zip(program.hinges, solution.slope, strict=True):
        of_hinge, linear = hinge.bound(slope, len(x))
        constant, c = constant + of_hinge, c + linear
    return constant, c


def lower_bound(solution, low, high):
    """A lower bound of the minimum over low <= x <= high and the program's other
    constraints.

    It is -inf if nothing bounds a variable and the multipliers cannot be corrected such
    that its reduced cost is 0.
    """
    size = max(1.0, float(np.abs(solution.x).max()))
    # the product of a bound farther away with rounding errors would matter
    at = np.where(_reduced_costs(solution)[1] > 0, low, high)
    remote = (np.abs(at) > 1e3 * size) & ~solution.active_bounds
    _, gradient, _ = solution.program.smooth(solution.x)
    slope = max(1.0, float(np.abs(gradient).max()))
    rounding = RELATIVE_ROUNDING * size * slope  # of a reduced cost
    bound = _bound(solution, low, high, rounding)
    if not remote.any():
        return bound
    corrected = _corrected(solution, remote, 0.1 * rounding)
    return max(bound, _bound(corrected, low, high, rounding))


def _reduced_costs(solution):
    """The constant of the Lagrangian and its coefficients of each variable."""
    program, (constant, c) = solution.program, risk_bound(solution)
    dual_A = solution.dual_A.copy()
    dual_A[: program.n_risk_rows] = 0.0
    c = c + program.E.T @ solution.dual_E + program.A.T @ dual_A
    at = np.where(dual_A > 0, program.upper, np.where(dual_A < 0, program.lower, 0.0))
    return constant - solution.dual_E @ program.e - dual_A @ at, c


def _bound(solution, low, high, rounding):
    """The minimum of the Lagrangian. Reduced costs that are rounding are 0 for
    variables without bounds."""
    constant, c = _reduced_costs(solution)
    at = np.where(c > 0, low, high)
    c = np.where(np.isinf(at) & (np.abs(c) <= rounding), 0.0, c)
    bound = float(constant + (c[c != 0] @ at[c != 0]))
    return bound if np.isfinite(bound) else -np.inf


def _corrected(solution, some, enough):
    """The solution with multipliers changed until the reduced costs of some variables
    are 0, by Newton's method.

    Multipliers change by their derivatives with respect to x, or by multiples of their
    distances to 0 and to the cost.
    """
    program, some = solution.program, np.flatnonzero(some)
    E, n = program.E[:, some], len(some)
    no_rows = np.zeros(len(E))
    for _ in range(6):  # Newton iterations converge quadratically
        _, c = _reduced_costs(solution)
        if np.abs(c[some]).max() <= enough:
            break
        K, x = program.smooth(solution.x)[2].copy(), solution.x
        weight_of_A = np.abs(solution.dual_A)
        K += program.A.T @ (weight_of_A[:, None] * program.A)
        weights = [
            _sensitivity(hinge, slope, x)
            for hinge, slope in zip(program.hinges, solution.slope, strict=True)
        ]
        for hinge, (of_z, of_t, of_tt) in zip(program.hinges, weights, strict=True):
            hinge.add_curvature(K, of_z, of_t, of_tt)
        matrix = np.block([[K[np.ix_(some, some)], E.T], [E, np.diag(no_rows)]])
        step, *_ = np.linalg.lstsq(matrix, np.r_[-c[some], no_rows])
        dx = np.zeros(len(x))
        dx[some] = step[:n]
        levels = [h.level for h in program.hinges if h.level is not None]
        if (x[levels] + dx[levels] <= 0).any():
            break
        slopes = []
        for hinge, slope, (of_z, of_t, _) in zip(
            program.hinges, solution.slope, weights, strict=True
        ):
            change = of_z * product(hinge.rows, dx) + of_t * hinge.of_level(dx, 0.0)
            slopes.append(np.maximum(slope + change, 0.0))
        moved = solution.dual_A + weight_of_A * (program.A @ dx)
        dual_A = np.where(solution.dual_A * moved >= 0, moved, 0.0)  # of the same sign
        solution = replace(
            solution,
            x=x + dx,
            slope=slopes,
            dual_A=dual_A,
            dual_E=solution.dual_E + step[n:],
        )
    return solution


def _sensitivity(hinge, slope, x):
    """The derivatives of a hinge's slopes in their arguments and in the level, and the
    second one in the level."""
    if not hinge.curved.any():
        most = np.maximum(hinge.cost, 1e-300)
        return np.clip(slope * (1 - slope / most), 0.0, None), 0.0, np.zeros(0)
    above = hinge.at(x)
    _, of_zz, of_zt, _, of_tt = hinge.derivatives(
        np.maximum(above, 0.0), hinge.of_level(x, 1.0)
    )
    return tuple(np.where(above > 0, part, 0.0) for part in (of_zz, of_zt, of_tt))
