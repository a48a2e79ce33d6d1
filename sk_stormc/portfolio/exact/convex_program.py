"""A convex program with few variables, hinges and linear constraints, and its solution,
for `interior_point`."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Hinges", "Limit", "Program", "Solution", "product", "transposed"]


@dataclass
class Limit:
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
    limit: Limit | None = None

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
