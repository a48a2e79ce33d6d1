"""Convex programs of few variables: the terms of a risk, programs for
`interior_point`, their solutions, and the lower bounds that multipliers prove.

For any multipliers that are dual feasible, the Lagrangian's minimum over the bounds of
the variables is a lower bound. A variable without bounds must have a reduced cost of 0,
which multipliers have only up to the tolerance of the method.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

__all__ = [
    "ACCURACY",
    "CONSTRAINT_TOLERANCE",
    "INFINITE_WEIGHT",
    "PROGRAM_TOLERANCE",
    "RELATIVE_ROUNDING",
    "Formulation",
    "Hinges",
    "RiskLimit",
    "Program",
    "Solution",
    "gram",
    "lower_bound",
    "product",
    "risk_bound",
    "tilted",
    "transposed",
]

# Tolerances, each relative to the size of what it is about:
# rounding error of a sum of products, relative to the size of its terms; without it,
# weights that meet a limit exactly would count as beyond it
RELATIVE_ROUNDING = 1e-12
# tolerance to which a program is solved: complementarity, residuals and multipliers of
# a program in units of order one. A multiplier, a gap or a violation below it is 0. The
# interior-point method stalls at a smaller one.
PROGRAM_TOLERANCE = 1e-9
# tolerance of HiGHS and SCIP for constraints on weights of order one. A weight is at a
# limit if it is nearer.
CONSTRAINT_TOLERANCE = 1e-7
# smallest relative error of an objective that searches beyond a single program reach
ACCURACY = 1e-7
INFINITE_WEIGHT = 1e8  # weights, relative to a typical one, that count as infinite


# the terms of a risk


@dataclass
class Hinges:
    """The function sum_k cost_k z_k + curved_k z_k^p / t^(p - 1) with z = max(rows @ x
    + shift, 0), convex in (x, t).

    The costs are not negative. If there is no level t, it is 1.
    """

    # coefficients of the first variables, or for each hinge the index of its variable
    rows: np.ndarray
    shift: np.ndarray
    cost: np.ndarray
    curved: np.ndarray
    order: float = 2.0  # the power p
    level: int | None = None  # the index of the variable t

    def times(self, factor):
        """The function times a number."""
        return replace(self, cost=factor * self.cost, curved=factor * self.curved)

    def at(self, x):
        """The arguments a of the hinges at x."""
        return product(self.rows, x) + self.shift

    def of_level(self, x, otherwise):
        """The entry of x for the level, or another number if there is no level."""
        return otherwise if self.level is None else x[self.level]

    def derivatives(self, z, t):
        """The derivatives of each term: in z, twice in z, in z and t, in t, and twice
        in t."""
        p, b = self.order, z / t
        bent = self.curved * b ** (p - 2)
        of_z = self.cost + p * bent * b
        bent = (p - 1) * bent
        return of_z, p * bent / t, -p * bent * b / t, -bent * b**2, p * bent * b**2 / t

    def bound(self, slope, n):
        """A linear lower bound of the hinges from slopes >= 0: its constant, and its
        coefficients of shape (n,)."""
        over = np.maximum(slope - self.cost, 0)
        slope = np.where((over > 0) & (self.curved == 0), self.cost, slope)
        p, most = self.order, np.maximum(self.curved, 1e-300)
        # max over z of over z - curved z^p / t^(p - 1) is proportional to t
        conjugate = (p - 1) * (
            np.where(self.curved > 0, over / (p * most), 0) ** (p / (p - 1)) * most
        ).sum()
        linear, constant = transposed(self.rows, slope, n), float(slope @ self.shift)
        if self.level is None:
            return constant - conjugate, linear
        linear[self.level] -= conjugate
        return constant, linear

    def add_curvature(self, H, of_a, of_t, of_tt):
        """Add second derivatives in the arguments a, in a and the level, and in the
        level, to those in x."""
        self._add_square(H, of_a)
        if self.level is not None:
            mixed = transposed(self.rows, of_t, len(H))
            H[self.level] += mixed
            H[:, self.level] += mixed
            H[self.level, self.level] += of_tt.sum()

    def _add_square(self, H, weight):
        """Add rows.T @ diag(weight) @ rows to H."""
        if self.rows.ndim == 1:
            H[np.diag_indices(len(H))] += np.bincount(self.rows, weight, len(H))
        else:
            scaled, m = np.sqrt(weight)[:, None] * self.rows, self.rows.shape[1]
            H[:m, :m] += scaled.T @ scaled


class Formulation(NamedTuple):
    """A risk minus the expected return, as a function of x = (v, level): the terms of a
    `Program`.

    The function is linear @ x + x @ quadratic @ x / 2, or a smooth function that is not
    quadratic, plus the hinges.
    """

    linear: np.ndarray | None = None
    quadratic: np.ndarray | None = None
    curved: Callable | None = None  # value, gradient and Hessian
    hinges: list = []
    # the initial value of a level variable, or of several ones, if there are any, and
    # its lower bound
    level: float | np.ndarray | None = None
    lowest: float | None = None
    # an optimal level is, in absolute value, at most this times the risk of the returns
    # Q v, and at most this times the largest of their absolute values
    reach: float = np.inf
    rows: np.ndarray | None = (
        None  # linear constraints rows @ x <= 0 that belong to the risk
    )


def product(rows, x):
    """rows @ x, for coefficients of the first variables, or for the indices of single
    variables."""
    return x[rows] if rows.ndim == 1 else rows @ x[: rows.shape[1]]


def transposed(rows, v, n):
    """rows.T @ v, of shape (n,)."""
    if rows.ndim == 1:
        return np.bincount(rows, v, n)
    out = np.zeros(n)
    out[: rows.shape[1]] = v @ rows
    return out


def gram(Q, weight):
    """sum_i weight_i q_i q_i^T, as a product A.T @ A, which numpy computes with half
    the work."""
    root = np.sqrt(weight)[:, None] * Q
    return root.T @ root


def tilted(p, e):
    """The weights p exp(e), divided by their sum, and the logarithm of this sum."""
    top = e.max()
    q = p * np.exp(e - top)
    total = q.sum()
    q /= total
    return q, np.log(total) + top


# programs and solutions


@dataclass
class RiskLimit:
    """The constraint smooth(x) + hinges(x) <= bound, for the first hinges of a
    program, which are then no part of its objective."""

    smooth: Callable
    n_hinges: int
    bound: float


@dataclass
class Program:
    """Minimise smooth(x) + hinges(x) subject to low <= x <= high, lower <= A x <= upper
    and E x = e."""

    # value, gradient and Hessian of a convex function; the value is infinite outside
    # its domain
    smooth: Callable
    hinges: list
    low: np.ndarray
    high: np.ndarray
    A: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    E: np.ndarray  # its rows are linearly independent
    e: np.ndarray
    # number of the first rows of A that define the risk, with the right-hand side 0
    n_risk_rows: int = 0
    formulation: Callable | None = None  # of the risk
    reach: float = np.inf  # of its level, as in `Formulation`
    limit: RiskLimit | None = None

    def lagrangian(self, multiplier):
        """The program without its limit, whose terms are added to the objective with
        this multiplier."""
        if self.limit is None:
            return self
        k, (of_limit, net) = self.limit.n_hinges, (self.limit.smooth, self.smooth)

        def smooth(x):
            both = zip(net(x), of_limit(x), strict=True)
            return tuple(a + multiplier * b for a, b in both)

        hinges = [hinge.times(multiplier) for hinge in self.hinges[:k]]
        hinges += self.hinges[k:]
        return replace(self, smooth=smooth, hinges=hinges, limit=None)


@dataclass
class Solution:
    """The best iterate of the interior-point method."""

    program: Program
    x: np.ndarray
    slope: list  # for each `Hinges`, the derivative of its terms with respect to a
    dual_A: np.ndarray  # multipliers of A x, positive at an upper bound
    # masks of the rows of A, and of the variables, that attain one of their bounds
    active_rows: np.ndarray
    active_bounds: np.ndarray
    at_kink: list  # for each `Hinges`, a mask of the terms with a = 0
    dual_E: np.ndarray  # multipliers of E x = e
    n_iter: int = 0
    done: bool = False  # whether residuals and complementarity are below the tolerance
    # whether it is a vertex of a linear program, where weights at bounds are exactly
    # there
    at_vertex: bool = False
    multiplier: float = 0.0  # of the limit
    limited: Program | None = None  # the program with the limit

    def raised(self, factor):
        """The solution with the limit's multiplier times a number. The bound that
        follows from it may be tighter, as the others then have room."""
        m = factor * self.multiplier
        return replace(self, program=self.limited.lagrangian(m), multiplier=m)


# lower bounds


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
