"""Inequalities and hinges of the interior-point method: slacks, multipliers, and their parts of a Newton step."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

__all__ = ["HingeState", "Hinges", "Side", "duals", "sides_of"]

LARGE, SPARSE = 2**16, 0.1  # size above which a matrix with a smaller fraction of nonzeros is kept as a sparse one


@dataclass
class Hinges:
    """The function sum_k cost_k max(a_k, 0) + quadratic_k max(a_k, 0)^2 with a = rows @ x + shift.

    Attributes
    ----------
    rows : ndarray of shape (n_hinges, m), or ndarray of int of shape (n_hinges,)
        Coefficients of the first m variables. Integers mean that each hinge depends on the one variable of this index.
    shift, cost, quadratic : ndarray of shape (n_hinges,)
        Shifts, linear costs >= 0 and quadratic costs >= 0.
    """

    rows: np.ndarray
    shift: np.ndarray
    cost: np.ndarray
    quadratic: np.ndarray

    def at(self, x):
        """The arguments a of the hinges at x."""
        return self.along(x) + self.shift

    def along(self, dx):
        """The change of a along dx."""
        return dx[self.rows] if self.rows.ndim == 1 else self.rows @ dx[: self.rows.shape[1]]

    def transposed(self, v, n):
        """rows.T @ v, of shape (n,)."""
        if self.rows.ndim == 1:
            return np.bincount(self.rows, v, n)
        return np.pad(v @ self.rows, (0, n - self.rows.shape[1]))

    def bound(self, slope, n):
        """A linear lower bound of the hinges from slopes >= 0: its constant, and its coefficients of shape (n,)."""
        over = np.maximum(slope - self.cost, 0)
        slope = np.where((over > 0) & (self.quadratic == 0), self.cost, slope)
        over = np.where(self.quadratic > 0, over, 0)
        constant = slope @ self.shift - (over**2 / np.maximum(4 * self.quadratic, 1e-300)).sum()
        return constant, self.transposed(slope, n)

    def add_square(self, H, weight):
        """Add rows.T @ diag(weight) @ rows to H."""
        if self.rows.ndim == 1:
            H[np.diag_indices(len(H))] += np.bincount(self.rows, weight, len(H))
        else:
            scaled, m = np.sqrt(weight)[:, None] * self.rows, self.rows.shape[1]
            H[:m, :m] += scaled.T @ scaled


class Side:
    """Inequalities sign * (rows @ x) + slack = bound with slack > 0: the lower or upper limits of x or of A x."""

    def __init__(self, rows, sign, bound, x, price, which):
        self.rows, self.sign, self.bound, self.which = rows, sign, bound, which
        room = bound - sign * self._product(x)
        self.slack = np.maximum(room, np.maximum(1e-2 * np.abs(bound), 1e-2))
        self.dual = price / np.maximum(self.slack, 1.0)  # far bounds must not matter at first

    def _product(self, x):
        return x[self.rows] if self.rows.ndim == 1 else self.rows @ x

    def along(self, dx):
        return self.sign * self._product(dx)

    def residual(self, x):
        return self.along(x) + self.slack - self.bound

    def transposed(self, v, n):
        v = self.sign * v
        return np.bincount(self.rows, v, n) if self.rows.ndim == 1 else v @ self.rows

    def add(self, K):
        weight = self.dual / self.slack
        if self.rows.ndim == 1:
            K[np.diag_indices(len(K))] += np.bincount(self.rows, weight, len(K))
        elif sparse.issparse(self.rows):
            K += (self.rows.T @ sparse.diags_array(weight) @ self.rows).toarray()
        else:
            K += self.rows.T @ (weight[:, None] * self.rows)

    def after(self, s, a_p, a_d):
        return float((self.slack + a_p * s[0]) @ (self.dual + a_d * s[1]))


def sides_of(program, x, price):
    """The inequalities of a program, without those whose limit is infinite."""
    found, A = [], program.A
    if A.size > LARGE and np.count_nonzero(A) < SPARSE * A.size:
        A = sparse.csr_array(A)
    for name, limit, sign in (("low", program.low, -1.0), ("high", program.high, 1.0)):
        there = np.flatnonzero(np.isfinite(limit))
        if there.size:
            found.append(Side(there, sign, sign * limit[there], x, price, (name, there)))
    for name, limit, sign in (("lower", program.lower, -1.0), ("upper", program.upper, 1.0)):
        there = np.flatnonzero(np.isfinite(limit))
        if there.size:
            found.append(Side(A[there], sign, sign * limit[there], x, price, (name, there)))
    return found


def duals(program, sides):
    """Multipliers of A x, and masks of the rows and variables that are at a limit (slack below multiplier)."""
    of_A, at_limit = np.zeros(len(program.A)), np.zeros(len(program.A), dtype=bool)
    at_bound = np.zeros(len(program.low), dtype=bool)
    for side in sides:
        name, there = side.which
        if name in ("lower", "upper"):
            of_A[there] += side.sign * side.dual
            at_limit[there] |= side.slack < side.dual
        else:
            at_bound[there] |= side.slack < side.dual
    return of_A, at_limit, at_bound


@dataclass
class HingeState:
    """Hinges as inequalities z >= a and z >= 0 with costs on z.

    The slacks are s = z - a and z. Their multipliers are ``up`` and ``down``.
    """

    hinge: Hinges
    z: np.ndarray
    s: np.ndarray
    up: np.ndarray
    down: np.ndarray

    @classmethod
    def begin(cls, hinge, x):
        a = hinge.at(x)
        room = max(float(np.abs(a).mean()), 0.1)
        z = np.maximum(a, 0) + room
        price = hinge.cost + 2 * hinge.quadratic * z
        return cls(hinge, z, z - a, 0.5 * price + 1e-300, 0.5 * price + 1e-300)

    def price(self):
        return self.hinge.cost + 2 * self.hinge.quadratic * self.z

    def complementarity(self):
        return float(self.s @ self.up + self.z @ self.down)

    def infeasibility(self, x):
        return float(np.abs(self.z - self.hinge.at(x) - self.s).max(initial=0.0))

    def dual_residual(self):
        p = self.price()
        return float(np.abs(p - self.up - self.down).max(initial=0.0) / max(p.max(initial=0.0), 1e-300))

    def at_kink(self):
        return self.z + self.s < np.minimum(self.up, self.down)

    def _weights(self):
        d1, d2 = self.up / self.s, self.down / self.z + 2 * self.hinge.quadratic
        return d1, d2

    def add(self, K):
        d1, d2 = self._weights()
        self.hinge.add_square(K, d1 * d2 / (d1 + d2))

    def right(self, x, target, before):
        """The right-hand side after z is eliminated, in units of a, and the terms that `step` needs."""
        d1, d2 = self._weights()
        cross_s = 0.0 if before is None else before[1] * before[2]
        cross_z = 0.0 if before is None else before[0] * before[3]
        comp_s = self.s * self.up - target + cross_s
        comp_z = self.z * self.down - target + cross_z
        miss = self.z - self.hinge.at(x) - self.s  # s = z - a must hold after the step: ds = dz - da + miss
        of_z = self.price() - self.up - self.down
        # up: s dup + up ds = -comp_s ; down: z ddown + down dz = -comp_z ; 2 q dz - dup - ddown = -of_z
        # dup = -(comp_s + up (dz - da + miss)) / s
        const_up = -(comp_s + self.up * miss) / self.s
        const_down = -comp_z / self.z
        # (d1 + d2) dz = -of_z + const_up + const_down + d1 da
        c = -of_z + const_up + const_down
        # dup = const_up - d1 dz + d1 da
        r = const_up - d1 * c / (d1 + d2)
        return -r, (d1, d2, c, const_up, const_down, miss)

    def step(self, dx, rest):
        d1, d2, c, const_up, const_down, miss = rest
        da = self.hinge.along(dx)
        dz = (c + d1 * da) / (d1 + d2)
        dup = const_up - d1 * dz + d1 * da
        ddown = const_down - self.down / self.z * dz
        return dz, dz - da + miss, dup, ddown

    def longest(self, step):
        dz, ds, dup, ddown = step
        return (
            min(longest_step(self.z, dz), longest_step(self.s, ds)),
            min(longest_step(self.up, dup), longest_step(self.down, ddown)),
        )

    def after(self, step, a_p, a_d):
        dz, ds, dup, ddown = step
        return float((self.s + a_p * ds) @ (self.up + a_d * dup) + (self.z + a_p * dz) @ (self.down + a_d * ddown))

    def move(self, step, a_p, a_d):
        dz, ds, dup, ddown = step
        self.z, self.s = self.z + a_p * dz, self.s + a_p * ds
        self.up, self.down = self.up + a_d * dup, self.down + a_d * ddown


def longest_step(value, change):
    falling = change < 0
    with np.errstate(over="ignore"):  # the ratio overflows for a tiny change
        return float((-value[falling] / change[falling]).min()) if falling.any() else np.inf
