"""A primal-dual interior-point method for a convex function, hinges and linear constraints, with few variables."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

__all__ = ["HingeState", "Hinges", "Program", "Side", "Solution", "duals", "interior_point", "sides_of"]

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


SHORTER = 0.95  # fraction of the step to the boundary
ITERATIONS = 100
EXACT = 1e-9  # tolerance of complementarity and residuals, relative to the size of the objective
STUCK = 1e-10  # step length below which the iterations stop
PATIENCE = 15  # iterations without a smaller error after which they stop, because only rounding errors are left
SMALL, SOON = 1e-8, 4  # once the error is below SMALL, SOON replaces PATIENCE


@dataclass
class Program:
    """Minimise smooth(x) + hinges(x) subject to low <= x <= high, lower <= A x <= upper and E x = e.

    Attributes
    ----------
    smooth : callable
        ``smooth(x)`` returns value, gradient and Hessian of a convex function. The value is infinite outside its
        domain.
    hinges : list of Hinges
    low, high : ndarray of shape (n_variables,)
        Bounds, infinite if there is none.
    A, lower, upper : ndarray of shape (m, n_variables), (m,) and (m,)
        Linear inequalities.
    E, e : ndarray of shape (k, n_variables) and (k,)
        Linear equations. The rows of E are independent.
    n_risk_rows : int
        Number of the first rows of A that define the risk, with the limit 0.
    """

    smooth: object
    hinges: list
    low: np.ndarray
    high: np.ndarray
    A: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    E: np.ndarray
    e: np.ndarray
    n_risk_rows: int = 0


@dataclass
class Solution:
    """The best iterate of the interior-point method.

    Attributes
    ----------
    x : ndarray of shape (n_variables,)
    slope : list of ndarray
        The derivative of each hinge term with respect to its a. One array for each `Hinges`.
    of_A, of_E : ndarray of shape (m,) and (k,)
        Multipliers of A x (positive at an upper limit) and of E x = e.
    at_limit, at_bound : ndarray of bool of shape (m,) and (n_variables,)
        Whether each row of A x, and each variable, is at one of its limits.
    at_kink : list of ndarray of bool
        Whether each hinge is at its kink, a = 0. One array for each `Hinges`.
    n_iter : int
    done : bool
        Whether residuals and complementarity have met the tolerance.
    """

    x: np.ndarray
    slope: list
    of_A: np.ndarray
    at_limit: np.ndarray
    at_bound: np.ndarray
    at_kink: list
    of_E: np.ndarray
    n_iter: int = 0
    done: bool = False


def interior_point(program, x, most=ITERATIONS, watch=None):
    """Minimise a `Program` from a point in the domain of its smooth part, which need not be feasible.

    This is Mehrotra's predictor-corrector method (1992). The slacks of the inequalities are separate variables, so no
    feasible start is needed. Each hinge is a pair of inequalities on an auxiliary variable, which is eliminated in
    closed form.
    """
    n, E = len(x), program.E
    f, g, H0 = program.smooth(x)
    sides = sides_of(program, x, 0.1 + np.abs(g).max())
    nu = np.zeros(len(E))
    hinges = [HingeState.begin(h, x) for h in program.hinges]
    total = sum(len(side.slack) for side in sides) + 2 * sum(len(h.z) for h in hinges)
    best, done, k, least = None, False, 0, 1e-8  # least: lower bound of the centring parameter sigma
    for k in range(1, most + 1):
        of_x = g + E.T @ nu
        for side in sides:
            of_x = of_x + side.transposed(side.dual, n)
        for h in hinges:
            of_x = of_x + h.hinge.transposed(h.up, n)
        off = E @ x - program.e
        gap = sum(float(side.slack @ side.dual) for side in sides) + sum(h.complementarity() for h in hinges)
        mu = gap / total if total else 0.0
        unit = 1.0 + abs(f)
        infeasible = max(
            [np.abs(off).max(initial=0.0)]
            + [np.abs(side.residual(x)).max(initial=0.0) for side in sides]
            + [h.infeasibility(x) for h in hinges]
        )
        size = 1.0 + np.abs(x).max(initial=0.0)
        error = max(
            gap / unit,
            np.abs(of_x).max() / (1.0 + np.abs(g).max()),
            float(np.abs(of_x) @ np.abs(x)) / unit,
            infeasible / size,
            max((h.dual_residual() for h in hinges), default=0.0),
        )
        if best is None or error < best[0]:
            since = k
            slopes, kinks = [h.up for h in hinges], [h.at_kink() for h in hinges]
            best = error, Solution(x, slopes, *duals(program, sides), kinks, nu)
        if error <= EXACT or k - since > (SOON if best[0] <= SMALL else PATIENCE):
            done = error <= EXACT
            break
        K = H0.copy()
        for side in sides:
            side.add(K)
        for h in hinges:
            h.add(K)
        solve = _factor(K, E)
        # predictor
        step = _direction(program, sides, hinges, solve, of_x, off, x, 0.0, None)
        a_p, a_d = _lengths(sides, hinges, step)
        after = sum(side.after(s, a_p, a_d) for side, s in zip(sides, step.sides, strict=True))
        after += sum(h.after(s, a_p, a_d) for h, s in zip(hinges, step.hinges, strict=True))
        sigma = min(1.0, max((after / gap) ** 3, least)) if gap > 0 else 0.0
        step = _direction(program, sides, hinges, solve, of_x, off, x, sigma * mu, step)
        a_p, a_d = _lengths(sides, hinges, step)
        a_p, a_d = min(1.0, SHORTER * a_p), min(1.0, SHORTER * a_d)
        # shorten a step that leaves the domain of the smooth part, or along which its gradient is far from linear
        curved = a_p
        while curved > STUCK:
            f_new, g_new, H_new = program.smooth(x + curved * step.x)
            if np.isfinite(f_new) and np.isfinite(g_new).all():
                linear = g + curved * (H0 @ step.x)
                miss = np.abs(g_new - linear).max()
                straight = miss <= 0.5 * max(np.abs(of_x).max(), np.abs(g_new).max() * 0.1, mu) or curved < 1e-4
                # without inequalities the value must decrease (Armijo's condition)
                lower = total or f_new <= f + 1e-4 * curved * min(float(of_x @ step.x), 0.0) + EXACT * 1e-4 * unit
                if straight and lower:
                    break
            curved *= 0.5
        else:
            break
        # centre more if the step was shortened because of the smooth part's curvature
        least = min(0.5, 10 * max(least, 1e-3)) if curved < 0.5 * a_p else 1e-8
        a_d = a_d if curved == a_p else min(a_d, curved)
        a_p = curved
        if max(a_p, a_d) < STUCK:
            break
        x = x + a_p * step.x
        f, g, H0 = f_new, g_new, H_new
        if watch is not None:
            watch(x)
        nu = nu + a_d * step.nu
        for side, s in zip(sides, step.sides, strict=True):
            side.slack, side.dual = side.slack + a_p * s[0], side.dual + a_d * s[1]
        for h, s in zip(hinges, step.hinges, strict=True):
            h.move(s, a_p, a_d)
    best[1].n_iter, best[1].done = k, done
    return best[1]


@dataclass
class _Step:
    x: np.ndarray
    nu: np.ndarray
    sides: list
    hinges: list


def _direction(program, sides, hinges, solve, of_x, off, x, target, before):
    """Newton's step towards the complementarity ``target``, with Mehrotra's correction from the step ``before``."""
    n = len(x)
    right = -of_x
    rs = []
    for i, side in enumerate(sides):
        cross = 0.0 if before is None else before.sides[i][0] * before.sides[i][1]
        comp = side.slack * side.dual - target + cross
        miss = side.residual(x)
        rs.append((comp, miss))
        right = right + side.transposed((comp - side.dual * miss) / side.slack, n)
    hs = []
    for i, h in enumerate(hinges):
        r, rest = h.right(x, target, None if before is None else before.hinges[i])
        hs.append(rest)
        right = right + h.hinge.transposed(r, n)
    dx, dnu = solve(right, -off)
    found = []
    for side, (comp, miss) in zip(sides, rs, strict=True):
        ds = -miss - side.along(dx)
        found.append((ds, -(comp + side.dual * ds) / side.slack))
    of_hinges = [h.step(dx, rest) for h, rest in zip(hinges, hs, strict=True)]
    return _Step(dx, dnu, found, of_hinges)


def _lengths(sides, hinges, step):
    """The longest primal and dual step lengths that keep all slacks and multipliers positive."""
    a_p = a_d = 1.0 / SHORTER
    for side, (ds, dz) in zip(sides, step.sides, strict=True):
        a_p, a_d = min(a_p, longest_step(side.slack, ds)), min(a_d, longest_step(side.dual, dz))
    for h, s in zip(hinges, step.hinges, strict=True):
        p, d = h.longest(s)
        a_p, a_d = min(a_p, p), min(a_d, d)
    return a_p, a_d


def _factor(K, E):
    """A function that solves [[K, E.T], [E, 0]] (dx, dnu) = (a, b). A ridge makes K positive definite if it is not."""
    # augmented Lagrangian: E.T @ E, added on both sides, leaves the solution unchanged and K better conditioned
    weight = float(np.mean(np.diag(K))) or 1.0
    K = K + np.finfo(float).eps * weight * np.eye(len(K))
    K = K + weight * E.T @ E
    scale = 1.0 / np.sqrt(np.maximum(np.diag(K), 1e-16 * np.diag(K).max()))
    scaled = K * scale[:, None] * scale
    ridge = 1e-14
    while True:
        try:
            factor = cho_factor(scaled + ridge * np.eye(len(K)), lower=True, check_finite=False)
            break
        except np.linalg.LinAlgError:
            ridge *= 100

    def apply(v):
        s = scale if v.ndim == 1 else scale[:, None]
        first = s * cho_solve(factor, s * v, check_finite=False)
        # one step of iterative refinement, because of the ridge and of rounding
        return first + s * cho_solve(factor, s * (v - K @ first), check_finite=False)

    if not len(E):
        return lambda a, b: (apply(a), np.zeros(0))
    KE = apply(E.T)
    values, vectors = np.linalg.eigh(E @ KE)
    kept = values > 1e-13 * values[-1]
    values, vectors = values[kept], vectors[:, kept]

    def solve(a, b):
        a = a + weight * E.T @ b
        first = apply(a)
        dnu = vectors @ ((E @ first - b) @ vectors / values)
        return first - KE @ dnu, dnu

    return solve
