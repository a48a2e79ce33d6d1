"""A primal-dual interior-point method for a convex function, hinges and linear
constraints, with few variables.

Inequalities and hinges have a common interface: each has slacks and multipliers, and
contributes to the Newton step. The multiplier of a `RiskLimit` is one more unknown, as
its terms, like the objective, have curvature that the step depends on.
"""

from functools import partial

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from sk_stormc.portfolio.convex_program import (
    PROGRAM_TOLERANCE,
    Solution,
    product,
    transposed,
)

__all__ = ["interior_point"]

# part of the longest step that is taken: slacks and multipliers must stay positive
FRACTION_TO_BOUNDARY = 0.95
STUCK_STEP = 1e-10  # step length below which the iterations stop
# keeps the multipliers and shares of hinges without cost, by which others are divided,
# positive
SMALLEST_MULTIPLIER = 1e-300


class Side:
    """Inequalities sign * (rows @ x) + slack = bound with slack > 0: the lower or upper
    bounds of x or of A x."""

    def __init__(self, of, rows, sign, bound, x, slope):
        self.of = of
        self.rows = rows
        self.sign = sign
        self.bound = bound
        room = bound - sign * product(rows, x)
        slack = np.maximum(room, np.maximum(1e-2 * np.abs(bound), 1e-2))
        self.primal = [slack]
        # distant bounds must not matter at first
        self.dual = [slope / np.maximum(slack, 1.0)]
        self.share = np.ones(slack.size)  # of the sum of products on the central path

    def transposed(self, v, n):
        """The gradient of v @ (sign * rows @ x)."""
        return transposed(self.rows, self.sign * v, n)

    def residual(self, x):
        """The residual of the equations that define the slacks."""
        return self.sign * product(self.rows, x) + self.primal[0] - self.bound

    def gradient(self, x):
        """The derivative in x of the Lagrangian's term."""
        return self.transposed(self.dual[0], len(x))

    def add(self, K, x):
        """Add the inequalities' term to the Newton matrix."""
        weight = self.dual[0] / self.primal[0]
        if self.rows.ndim == 1:
            K[np.diag_indices(len(K))] += np.bincount(self.rows, weight, len(K))
        elif sparse.issparse(self.rows):
            K += (self.rows.T @ sparse.diags_array(weight) @ self.rows).toarray()
        else:
            K += self.rows.T @ (weight[:, None] * self.rows)

    def right(self, x, target, cross):
        """The term of the right-hand side of the Newton system, and the quantities that
        `step` needs."""
        (slack,), (dual,) = self.primal, self.dual
        comp, miss = slack * dual - target + cross[0], self.residual(x)
        return self.transposed((comp - dual * miss) / slack, len(x)), (comp, miss)

    def response(self, x, limit):
        """As `right`, for a change of the limit's multiplier by 1."""
        zero = np.zeros(len(self.share))
        return np.zeros(len(x)), (zero, zero)

    def straight(self, x, length, dx, step):
        """Whether the terms stay nearly linear for a step of this length."""
        return True

    def step(self, dx, rest):
        """The steps of slacks and of multipliers that correspond to the step of x."""
        (slack,), (dual,), (comp, miss) = self.primal, self.dual, rest
        ds = -miss - self.sign * product(self.rows, dx)
        return [ds], [-(comp + dual * ds) / slack]


def sides_of(program, x, slope):
    """The inequalities of a program, without those whose bound is infinite."""
    sides, A = [], program.A
    # products with a small or a filled matrix are faster if it is dense
    if A.size > 2**16 and np.count_nonzero(A) < 0.1 * A.size:
        A = sparse.csr_array(A)
    for name, sign in (("low", -1.0), ("high", 1.0), ("lower", -1.0), ("upper", 1.0)):
        bound = getattr(program, name)
        some = np.flatnonzero(np.isfinite(bound))
        if some.size:
            rows = some if name in ("low", "high") else A[some]
            sides.append(Side(some, rows, sign, sign * bound[some], x, slope))
    return sides


def multipliers(program, sides):
    """Multipliers of A x, and masks of the rows and variables that attain a bound
    (slack below multiplier)."""
    dual_A, active_rows = np.zeros(len(program.A)), np.zeros(len(program.A), dtype=bool)
    active_bounds = np.zeros(len(program.low), dtype=bool)
    for side in sides:
        if side.rows.ndim == 1:  # bounds
            active_bounds[side.of] |= side.primal[0] < side.dual[0]
        else:
            dual_A[side.of] += side.sign * side.dual[0]
            active_rows[side.of] |= side.primal[0] < side.dual[0]
    return dual_A, active_rows, active_bounds


class HingeState:
    """Hinges as inequalities z >= a and z >= 0 with costs on z, which is eliminated
    from the Newton step.

    The slacks are s = z - a and z. Their multipliers are ``up`` and ``down``. The
    methods are those of `Side`.

    The central path is weighted: the products of slacks and multipliers are
    proportional to the costs, because with equal products the slacks of hinges with a
    small cost, such as old periods, would be huge.
    """

    limit = None  # the state of the limit that the hinges belong to
    # the last x, with which slacks and multipliers change, and what belongs to it
    _x = _derivatives_at_x = _weights_at_x = None

    def __init__(self, hinge, x):
        a = hinge.at(x)
        room = max(float(np.abs(a).mean()), 0.1)
        self.hinge, z = hinge, np.maximum(a, 0) + room
        self.primal = [z - a, z]
        half = 0.5 * self._derivatives(x)[0] + SMALLEST_MULTIPLIER
        self.dual = [half, half]
        cost = hinge.cost + hinge.curved
        self.share = cost / (cost.mean() or 1.0) + SMALLEST_MULTIPLIER

    @property
    def factor(self):
        """The multiplier of the limit that the hinges belong to, or 1."""
        return 1.0 if self.limit is None else self.limit.multiplier

    def derivatives(self, x):
        """The derivatives of the hinges, without the factor."""
        if self._x is not x:
            t = self.hinge.of_level(x, 1.0)
            self._derivatives_at_x = self.hinge.derivatives(self.primal[1], t)
            self._x, self._weights_at_x = x, None
        return self._derivatives_at_x

    def _derivatives(self, x):
        if self.limit is None:
            return self.derivatives(x)
        return [self.factor * part for part in self.derivatives(x)]

    def value(self, x):
        """The sum of the terms at the values z, without the factor."""
        hinge, z, p = self.hinge, self.primal[1], self.hinge.order
        t = hinge.of_level(x, 1.0)
        return float(hinge.cost @ z + hinge.curved @ (t * (z / t) ** p))

    def straight(self, x, length, dx, step):
        """Whether the level stays positive, and the derivatives in z stay nearly
        linear, for a step of this length."""
        if self.hinge.level is None:
            return True
        t, dt, z = x[self.hinge.level], length * dx[self.hinge.level], self.primal[1]
        dz = step[0][1]
        if t + dt <= 0:
            return False
        of_z, of_zz, of_zt, _, _ = self.derivatives(x)
        after = self.hinge.derivatives(z + length * dz, t + dt)[0]
        return (
            np.abs(after - of_z - length * of_zz * dz - of_zt * dt).max()
            <= 0.5 * after.max()
        )

    def gradient(self, x):
        """The derivative in x of the Lagrangian's terms."""
        of_x = transposed(self.hinge.rows, self.dual[0], len(x))
        if self.hinge.level is not None:
            of_x[self.hinge.level] += self._derivatives(x)[3].sum()
        return of_x

    def dual_residual(self, x):
        """The largest error of up + down, relative to the costs."""
        error = np.abs(self._derivatives(x)[0] - self.dual[0] - self.dual[1]).max(
            initial=0.0
        )
        cost = self.factor * (self.hinge.cost + self.hinge.order * self.hinge.curved)
        return float(error / cost.max(initial=SMALLEST_MULTIPLIER))

    def residual(self, x):
        """The residual of the equations that define the slacks."""
        s, z = self.primal
        return z - self.hinge.at(x) - s

    def _weights(self, x):
        (s, z), (up, down) = self.primal, self.dual
        _, of_zz, of_zt, _, of_tt = self._derivatives(x)
        if self._weights_at_x is not None:
            return self._weights_at_x
        d1, d2 = up / s, down / z + of_zz
        # of_tt - of_zt^2 / (d1 + d2), because of_zz of_tt = of_zt^2
        self._weights_at_x = (
            d1,
            d1 + d2,
            d1 * d2 / (d1 + d2),
            of_zt,
            of_tt * (d1 + down / z) / (d1 + d2),
        )
        return self._weights_at_x

    def add(self, K, x):
        """Add the hinges' terms to the Newton matrix."""
        d1, d12, weight, of_zt, of_tt = self._weights(x)
        self.hinge.add_curvature(K, weight, d1 * of_zt / d12, of_tt)

    def right(self, x, target, cross):
        """The terms of the right-hand side of the Newton system, and the quantities
        that `step` needs."""
        (s, z), (up, down) = self.primal, self.dual
        d1, d12, _, of_zt, _ = self._weights(x)
        comp_s = s * up - target * self.share + cross[0]
        comp_z = z * down - target * self.share + cross[1]
        # s = z - a must hold after the step: ds = dz - da + miss
        miss = self.residual(x)
        of_z = self._derivatives(x)[0] - up - down
        # up: s dup + up ds = -comp_s ; down: z ddown + down dz = -comp_z ; of_zz dz +
        # of_zt dt - dup - ddown = -of_z dup = -(comp_s + up (dz - da + miss)) / s
        const_up = -(comp_s + up * miss) / s
        const_down = -comp_z / z
        # d12 dz = -of_z + const_up + const_down + d1 da - of_zt dt
        c = -of_z + const_up + const_down
        # dup = const_up - d1 dz + d1 da
        of_x = -transposed(self.hinge.rows, const_up - d1 * c / d12, len(x))
        if self.hinge.level is not None:
            of_x[self.hinge.level] -= of_zt @ (c / d12)
        return of_x, (d1, d12, of_zt, c, const_up, const_down, miss)

    def response(self, x, limit):
        """As `right`, for a change of the limit's multiplier by 1."""
        d1, d12, _, of_zt, _ = self._weights(x)
        zero, of_x = np.zeros(len(d1)), np.zeros(len(x))
        if self.limit is not limit:
            return of_x, (d1, d12, of_zt, zero, zero, zero, zero)
        of_z, _, _, of_t, _ = self.derivatives(x)
        of_x -= transposed(self.hinge.rows, d1 * of_z / d12, len(x))
        if self.hinge.level is not None:
            of_x[self.hinge.level] += of_zt @ (of_z / d12) - of_t.sum()
        return of_x, (d1, d12, of_zt, -of_z, zero, zero, zero)

    def slope(self, x, dx, step):
        """The change of the terms for a step, without the factor."""
        of_z, _, _, of_t, _ = self.derivatives(x)
        return of_z @ step[0][1] + of_t.sum() * self.hinge.of_level(dx, 0.0)

    def step(self, dx, rest):
        """The steps of slacks and of multipliers that correspond to the step of x."""
        d1, d12, of_zt, c, const_up, const_down, miss = rest
        da, dt = product(self.hinge.rows, dx), self.hinge.of_level(dx, 0.0)
        dz = (c + d1 * da - of_zt * dt) / d12
        dup = const_up - d1 * dz + d1 * da
        ddown = const_down - self.dual[1] / self.primal[1] * dz
        return [dz - da + miss, dz], [dup, ddown]


class LimitState:
    """The inequality of a `RiskLimit` with a slack, and its multiplier, which is a
    factor of its hinges.

    The methods are those of `Side`. `joined` adds the step of the multiplier.
    """

    def __init__(self, limit, hinges, x):
        self.limit, self.hinges, self.share = limit, hinges, np.ones(1)
        for hinge in hinges:
            hinge.limit = self
        self._x, self._terms = None, None
        self.primal, self.dual = [np.zeros(1)], [np.ones(1)]
        room = -float(self.residual(x)[0])
        self.primal = [np.full(1, max(room, 0.1 * abs(limit.bound) + 1e-2))]

    @property
    def multiplier(self):
        return float(self.dual[0][0])

    def _at(self, x):
        """The value, the gradient and the Hessian of the smooth part."""
        if self._x is not x:
            self._x, self._terms = x, self.limit.smooth(x)
        return self._terms

    def residual(self, x):
        """The residual of the equation that defines the slack."""
        total = self._at(x)[0] + sum(hinge.value(x) for hinge in self.hinges)
        return total + self.primal[0] - self.limit.bound

    def gradient(self, x):
        """The derivative in x of the Lagrangian's smooth term."""
        return self.multiplier * self._at(x)[1]

    def add(self, K, x):
        """Add the curvature of the smooth part to the Newton matrix."""
        K += self.multiplier * self._at(x)[2]

    def straight(self, x, length, dx, step):
        """Whether the smooth part is finite after a step of this length."""
        return bool(np.isfinite(self.limit.smooth(x + length * dx)[0]))

    def right(self, x, target, cross):
        """As for `Side`, for the present multiplier."""
        return np.zeros(len(x)), target - self.primal[0] * self.dual[0] - cross[0]

    def response(self, x, limit):
        """As `right`, for a change of the multiplier by 1."""
        return -self._at(x)[1], None

    def step(self, dx, rest):
        """The steps of the slack and the multiplier, of 0 or of 1."""
        if rest is None:
            return [-self.primal[0] / self.dual[0]], [np.ones(1)]
        return [rest / self.dual[0]], [np.zeros(1)]

    def _miss(self, x, dx, steps):
        """The change of the inequality's left side for a step."""
        own = [step for part, step in steps if part in self.hinges]
        change = self._at(x)[1] @ dx
        for hinge, step in zip(self.hinges, own, strict=True):
            change += hinge.slope(x, dx, step)
        return change

    def joined(self, x, parts, direction, response):
        """Newton's step as one for the present multiplier plus a multiple of the
        response to its change, such that the inequality holds to first order."""
        (dx, dnu, steps), (rx, rnu, more) = direction, response
        k = parts.index(self)
        missing = self.residual(x) + self._miss(x, dx, zip(parts, steps, strict=True))
        gained = self._miss(x, rx, zip(parts, more, strict=True)) + more[k][0][0]
        change = float(((missing + steps[k][0][0]) / -gained)[0])
        steps = [
            (moved(dp, rp, change), moved(dd, rd, change))
            for (dp, dd), (rp, rd) in zip(steps, more, strict=True)
        ]
        return dx + change * rx, dnu + change * rnu, steps


def products(primal, dual):
    """The sum of products of slacks and multipliers, which is 0 at the optimum."""
    return float(sum(p @ d for p, d in zip(primal, dual, strict=True)))


def moved(values, changes, length):
    """The values after a step of this length."""
    return [
        value + length * change for value, change in zip(values, changes, strict=True)
    ]


def longest_step(values, changes):
    """The longest step that keeps all values positive."""
    with np.errstate(all="ignore"):  # the ratio overflows for a tiny change
        ratios = [
            np.where(change < 0, value / change, -np.inf)
            for value, change in zip(values, changes, strict=True)
        ]
    return -max(float(ratio.max(initial=-np.inf)) for ratio in ratios)


def interior_point(program, x, most=100, callback=None):
    """Minimise a `Program` from a point in the domain of its smooth part. The point
    need not be feasible.

    This is Mehrotra's predictor-corrector method (1992). The slacks of the inequalities
    are separate variables, so no feasible point is needed. Each hinge is a pair of
    inequalities on an auxiliary variable, which is eliminated in closed form.
    """
    E = program.E
    f, g, H0 = program.smooth(x)
    sides = sides_of(program, x, 0.1 + np.abs(g).max())
    nu = np.zeros(len(E))
    hinges = [HingeState(h, x) for h in program.hinges]
    parts, limit = [*sides, *hinges], None
    if program.limit is not None:
        limit = LimitState(program.limit, hinges[: program.limit.n_hinges], x)
        parts.append(limit)
    # multipliers are then a curved function of x
    curved_dual = limit or any(h.hinge.level is not None for h in hinges)
    total = sum(len(part.primal) * float(part.share.sum()) for part in parts)
    best, done, k, smallest = None, False, 0, np.inf
    least = 1e-8  # lower bound of the centring parameter sigma
    for k in range(1, most + 1):
        of_x = g + E.T @ nu
        for part in parts:
            of_x = of_x + part.gradient(x)
        off = E @ x - program.e
        gap = sum(products(part.primal, part.dual) for part in parts)
        mu = gap / total if total else 0.0
        unit = 1.0 + abs(f)
        infeasible = max(
            [
                np.abs(off).max(initial=0.0),
                *(np.abs(part.residual(x)).max(initial=0.0) for part in parts),
            ]
        )
        size = 1.0 + np.abs(x).max(initial=0.0)
        error = max(
            gap / unit,
            np.abs(of_x).max() / (1.0 + np.abs(g).max()),
            float(np.abs(of_x) @ np.abs(x)) / unit,
            infeasible / size,
            *(h.dual_residual(x) for h in hinges),
        )
        if gap < smallest:
            smallest, since = gap, k
        if best is None or error < best[0]:
            since = k
            slopes = [h.dual[0] for h in hinges]
            kinks = [sum(h.primal) < np.minimum(*h.dual) for h in hinges]
            of_sides = multipliers(program, sides)
            at = limit.multiplier if limit else 0.0
            of_limit = program.lagrangian(at)
            best = error, Solution(of_limit, x, slopes, *of_sides, kinks, nu)
            best[1].multiplier, best[1].limited = at, program
        done = error <= PROGRAM_TOLERANCE
        if done or k - since > 15:  # without progress only rounding errors are left
            break
        K = H0.copy()
        for part in parts:
            part.add(K, x)
        solve = _factor(K, E)
        if solve is None:
            break
        # predictor, and corrector with the predicted products of the steps
        border = limit and (limit, _response(parts, solve, off, x, limit))
        direction = partial(_direction, parts, solve, of_x, off, x, border)
        dx, _, steps = direction(0.0, [(0.0, 0.0)] * len(parts))
        a_p, a_d = _lengths(parts, steps)
        after = sum(
            products(moved(part.primal, dp, a_p), moved(part.dual, dd, a_d))
            for part, (dp, dd) in zip(parts, steps, strict=True)
        )
        sigma = min(1.0, max((after / gap) ** 3, least)) if gap > 0 else 0.0
        crossed = [[p * d for p, d in zip(*step, strict=True)] for step in steps]
        dx, dnu, steps = direction(sigma * mu, crossed)
        a_p, a_d = _lengths(parts, steps)
        a_p = min(1.0, FRACTION_TO_BOUNDARY * a_p)
        a_d = min(1.0, FRACTION_TO_BOUNDARY * a_d)
        if curved_dual:
            a_p = a_d = min(a_p, a_d)
        # shorten a step that leaves the domain of the smooth part, or along which its
        # gradient is far from linear
        curved = a_p
        while curved > STUCK_STEP:
            f_new, g_new, H_new = program.smooth(x + curved * dx)
            finite = np.isfinite(f_new) and np.isfinite(g_new).all()
            if finite and all(
                part.straight(x, curved, dx, step)
                for part, step in zip(parts, steps, strict=True)
            ):
                miss = np.abs(g_new - g - curved * (H0 @ dx)).max()
                allowed = max(np.abs(of_x).max(), 0.1 * np.abs(g_new).max(), mu)
                straight = miss <= 0.5 * allowed or curved < 1e-4
                # without inequalities the value must decrease (Armijo's condition)
                slope = min(float(of_x @ dx), 0.0)
                rise = 1e-4 * (curved * slope + PROGRAM_TOLERANCE * unit)
                if straight and (total or f_new <= f + rise):
                    break
            curved *= 0.5
        else:
            break
        # centre more if the step was shortened because of the smooth part's curvature
        least = min(0.5, 10 * max(least, 1e-3)) if curved < 0.5 * a_p else 1e-8
        a_d = a_d if curved == a_p else min(a_d, curved)
        a_p = curved
        if max(a_p, a_d) < STUCK_STEP:
            break
        x = x + a_p * dx
        f, g, H0 = f_new, g_new, H_new
        if callback is not None:
            callback(x)
        nu = nu + a_d * dnu
        for part, (dp, dd) in zip(parts, steps, strict=True):
            part.primal = moved(part.primal, dp, a_p)
            part.dual = moved(part.dual, dd, a_d)
    best[1].n_iter, best[1].done = k, done
    return best[1]


def _response(parts, solve, off, x, limit):
    """The step of all unknowns that a change of the limit's multiplier by 1 asks
    for."""
    both = [part.response(x, limit) for part in parts]
    dx, dnu = solve(sum(of_x for of_x, _ in both), 0.0 * off)
    steps = [part.step(dx, rest) for part, (_, rest) in zip(parts, both, strict=True)]
    return dx, dnu, steps


def _direction(parts, solve, of_x, off, x, border, target, crossed):
    """Newton's step for the target complementarity, corrected by the products of the
    steps that were predicted."""
    right, rests = -of_x, []
    for part, cross in zip(parts, crossed, strict=True):
        of_part, rest = part.right(x, target, cross)
        right = right + of_part
        rests.append(rest)
    dx, dnu = solve(right, -off)
    steps = [part.step(dx, rest) for part, rest in zip(parts, rests, strict=True)]
    if border is None:
        return dx, dnu, steps
    limit, response = border
    return limit.joined(x, parts, (dx, dnu, steps), response)


def _lengths(parts, steps):
    """The longest primal and dual step lengths, of at most
    1 / FRACTION_TO_BOUNDARY, that keep slacks and multipliers positive."""
    a_p = a_d = 1.0 / FRACTION_TO_BOUNDARY
    for part, (dp, dd) in zip(parts, steps, strict=True):
        a_p = min(a_p, longest_step(part.primal, dp))
        a_d = min(a_d, longest_step(part.dual, dd))
    return a_p, a_d


def _factor(K, E):
    """A function that solves [[K, E.T], [E, 0]] (dx, dnu) = (a, b), or None. A ridge
    makes K positive definite if it is not."""
    # augmented Lagrangian: E.T @ E, added on both sides, leaves the solution unchanged
    # and K better conditioned
    weight = float(np.mean(np.diag(K))) or 1.0
    K = K + np.finfo(float).eps * weight * np.eye(len(K))
    K = K + weight * E.T @ E
    scale = 1.0 / np.sqrt(np.maximum(np.diag(K), 1e-16 * np.diag(K).max()))
    scaled = K * scale[:, None] * scale
    for ridge in 10.0 ** np.arange(-14, 6, 2):
        factor, failed = lapack.dpotrf(scaled + ridge * np.eye(len(K)), lower=True)
        if not failed:
            break
    else:  # it is not finite
        return None

    def solved(b):
        return lapack.dpotrs(factor, b, lower=True)[0]

    def apply(v):
        s = scale if v.ndim == 1 else scale[:, None]
        first = s * solved(s * v)
        # one step of iterative refinement, because of the ridge and of rounding
        return first + s * solved(s * (v - K @ first))

    if not len(E):
        return lambda a, b: (apply(a), np.zeros(0))
    KE = apply(E.T)
    values, vectors = np.linalg.eigh(E @ KE)  # dependent equations have no value
    kept = values > 1e-13 * values[-1]
    values, vectors = values[kept], vectors[:, kept]

    def solve(a, b):
        a = a + weight * E.T @ b
        first = apply(a)
        dnu = vectors @ ((E @ first - b) @ vectors / values)
        return first - KE @ dnu, dnu

    return solve
