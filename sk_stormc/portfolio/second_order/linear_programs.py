"""Linear programs of the second-order method: presolve, lower bounds of an objective, and drawdowns."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.optimize import linprog

from sk_stormc.portfolio.second_order.interior_point import Solution

__all__ = ["Drawdowns", "lowest", "solve_linear_program", "with_room"]

ROOM = 1e-7  # slack, in units of a typical weight, below which an inequality counts as tight
ROUNDS = 20


def with_room(low, high, A, lower, upper, E, e, size):
    """The same feasible set, with the inequalities that no point meets strictly as equations.

    A linear program maximises the smallest slack. If it is 0, the inequalities with a nonzero multiplier are tight in
    the whole set.
    """
    m, centre = len(low), np.linalg.lstsq(E, e)[0] if len(E) else np.zeros(len(low))
    low, high, lower, upper, e = (limit / size for limit in (low, high, lower, upper, e))
    for _ in range(ROUNDS):
        bounded = [(np.flatnonzero(np.isfinite(limit)), sign) for limit, sign in ((low, -1.0), (high, 1.0))]
        sides = [(np.flatnonzero(np.isfinite(limit)), sign) for limit, sign in ((lower, -1.0), (upper, 1.0))]
        one, rows_of = sparse.eye_array(m, format="csr"), sparse.csr_array(A)
        rows = [sign * one[there] for there, sign in bounded] + [sign * rows_of[there] for there, sign in sides]
        limits = [-low[bounded[0][0]], high[bounded[1][0]], -lower[sides[0][0]], upper[sides[1][0]]]
        rows, limit = sparse.vstack(rows, format="csr"), np.concatenate(limits)
        if not rows.shape[0]:
            break
        norm = np.sqrt(rows.power(2).sum(axis=1))
        found = linprog(
            np.r_[np.zeros(m), -1.0],
            sparse.hstack([rows, norm[:, None]], format="csr"),
            limit,
            sparse.csr_array(np.pad(E, ((0, 0), (0, 1)))) if len(E) else None,
            e if len(E) else None,
            bounds=[(None, None)] * m + [(None, 1.0)],
            method="highs",
        )
        if found.status != 0:
            break
        centre = found.x[:-1] * size
        if found.x[-1] > ROOM:
            break
        tight = np.abs(found.ineqlin.marginals) > 1e-9
        parts = np.split(tight, np.cumsum([len(part) for part in limits])[:-1])
        fixed, at = [], []
        for (there, _), limit_of, part in zip(bounded, (low, high), parts[:2], strict=True):
            fixed.append(there[part])
            at.append(limit_of[there[part]])
        fixed, at = np.concatenate(fixed), np.concatenate(at)
        equal = [there[part] for (there, _), part in zip(sides, parts[2:], strict=True)]
        E = np.concatenate([E, np.eye(m)[fixed], A[equal[0]], A[equal[1]]])
        e = np.concatenate([e, at, lower[equal[0]], upper[equal[1]]])
        low, high, lower, upper = low.copy(), high.copy(), lower.copy(), upper.copy()
        low[fixed], high[fixed] = -np.inf, np.inf
        gone = np.concatenate(equal)
        lower[gone], upper[gone] = -np.inf, np.inf
        E, e = independent(E, e)
    E, e = independent(E, e)
    return (low * size, high * size, A, lower * size, upper * size, E, e * size), centre


def independent(E, e):
    """The equations E x = e without linearly dependent rows."""
    if not len(E):
        return E, e
    R, order = qr(E.T, mode="r", pivoting=True)
    rank = int((np.abs(np.diag(R)) > 1e-9 * np.abs(R).max(initial=0.0)).sum())
    kept = np.sort(order[:rank])
    return E[kept], e[kept]


def lowest(limits, c, low, high, weight=1.0):
    """Minimise c @ s + weight * costs(s) over the feasible s between finite bounds."""
    if len(limits.A) or limits.max_turnover is not None:
        s = _by_linear_program(limits, c, low, high, weight)
    else:
        s = _by_sorting(limits, c, low, high, weight)
    return s, float(c @ s + weight * sum(cost @ np.abs(s - at) for _, cost, at in limits.costs()))


def _by_sorting(limits, c, low, high, weight):
    """Cut each coordinate at its bounds and kinks, and take the pieces in the order of their slopes."""
    kinks = [np.clip(at, low, high) for _, _, at in limits.costs()]
    points = np.sort(np.array([low, *kinks, high]), axis=0)
    length, middle = np.diff(points, axis=0), (points[1:] + points[:-1]) / 2
    slope = c + weight * sum(cost * np.sign(middle - at) for _, cost, at in limits.costs())
    slope = np.broadcast_to(slope, length.shape)
    if limits.budget is None:
        return low + np.where(slope < 0, length, 0.0).sum(axis=0)
    order = np.argsort(slope, axis=None, kind="stable")
    order = order[(np.broadcast_to(limits.counted, length.shape) > 0).ravel()[order]]
    length, taken = length.ravel()[order], np.zeros(length.size)
    left = limits.budget - low[limits.counted > 0].sum()
    taken[order] = np.clip(left - np.r_[0.0, np.cumsum(length)[:-1]], 0.0, length)
    return low + taken.reshape(slope.shape).sum(axis=0)


def _by_linear_program(limits, c, low, high, weight):
    """By HiGHS, with a further variable |s - at| for each cost."""
    z_low, z_high, A, lower, upper, E, e = limits.parts[0]
    terms, n, m = limits.costs(), limits.n, len(z_low)
    one, rows = sparse.eye_array(m, format="csr"), sparse.csr_array(A)
    up, down = np.isfinite(upper), np.isfinite(lower)
    blocks, limit = [[rows[up]], [-rows[down]]], [upper[up], -lower[down]]
    for k, (there, _, at) in enumerate(terms):
        far = -sparse.eye_array(len(there))
        for sign in (1.0, -1.0):
            blocks.append([sign * one[there], *[far if j == k else None for j in range(len(terms))]])
            limit.append(sign * at[there])
    count = sum(len(there) for there, _, _ in terms)
    blocks = [row + [None] * (1 + len(terms) - len(row)) for row, of in zip(blocks, limit, strict=True) if len(of)]
    bounds = np.c_[np.r_[low, z_low[n:], np.zeros(count)], np.r_[high, z_high[n:], np.full(count, np.inf)]]
    equations = {"A_eq": sparse.csr_array(np.pad(E, ((0, 0), (0, count)))), "b_eq": e} if len(E) else {}
    found = linprog(
        np.r_[c, np.zeros(m - n), *(weight * cost[there] for there, cost, _ in terms)],
        sparse.block_array(blocks, format="csr") if blocks else None,
        np.concatenate(limit) if blocks else None,
        **equations,
        bounds=bounds,
        method="highs",
    )
    return found.x[:n] if found.x is not None else np.full(n, np.nan)


NEAR = 1e-9  # distance from a bound, in units of the variables, below which a variable counts as at it


@dataclass
class Drawdowns:
    """A term of a `Program`: price times the mean of the deepest fraction ``tail`` of the drawdowns of the path Q v.

    The term is the maximum of slope @ (-Q v) over the dual feasible slopes, which `allowed` leaves unchanged.

    Attributes
    ----------
    Q : ndarray of shape (n_periods, n_assets)
    p : ndarray of shape (n_periods,)
        Weights of the periods, of sum 1.
    price, tail : float
    """

    Q: np.ndarray
    p: np.ndarray
    price: float
    tail: float

    def allowed(self, slope):
        """The slope, scaled down if rounding has made it dual infeasible. It then gives a lower bound of the term.

        With multipliers m_t >= 0 of D_t >= D_{t-1} - y_t, the dual weight of D_t is m_t - m_{t+1}. It is at most
        price p_t / tail, and the sum of the dual weights is at most the price.
        """
        slope = np.maximum(slope, 0.0)
        of_drawdown = np.maximum(slope - np.append(slope[1:], 0.0), 0.0)
        most = np.maximum(self.price * self.p / self.tail, 1e-300)
        return slope / max(1.0, of_drawdown.sum() / self.price, float((of_drawdown / most).max()))

    def bound(self, slope, n):
        """A linear lower bound of the term: its constant, and its coefficients of shape (n,)."""
        return 0.0, np.pad(-(self.allowed(slope) @ self.Q), (0, n - self.Q.shape[1]))


def solve_linear_program(program):
    """Minimise a `Program` whose smooth part is linear and whose hinges have no quadratic cost, by HiGHS.

    The variables are x, the drawdowns, their level s, the excesses over s, and one variable for each hinge.
    """
    path, *kinks = program.hinges
    n, (T, d) = len(program.low), path.Q.shape
    none, one = sparse.csr_array, sparse.eye_array
    step = one(T) - sparse.diags_array([np.ones(T - 1)], offsets=[-1], shape=(T, T))  # D_t - D_{t-1}
    level = np.ones((T, 1))
    wide = np.zeros((T, n - d))
    up, down = np.flatnonzero(np.isfinite(program.upper)), np.flatnonzero(np.isfinite(program.lower))
    blocks = [
        [none(np.hstack([-path.Q, wide])), -step, None, None, *[None] * len(kinks)],
        [None, one(T), none(-level), -one(T), *[None] * len(kinks)],
        [none(program.A[up]), *[None] * (3 + len(kinks))],
        [none(-program.A[down]), *[None] * (3 + len(kinks))],
    ]
    limit = [np.zeros(T), np.zeros(T), program.upper[up], -program.lower[down]]
    for k, kink in enumerate(kinks):
        m = len(kink.rows)
        rows = none((np.ones(m), (np.arange(m), kink.rows)), shape=(m, n))
        blocks.append([rows, None, None, None, *[-one(m) if j == k else None for j in range(len(kinks))]])
        limit.append(-kink.shift)
    _, slope, _ = program.smooth(np.zeros(n))
    cost = np.concatenate(
        [slope, np.zeros(T), [path.price], path.price * path.p / path.tail, *(kink.cost for kink in kinks)]
    )
    low = np.concatenate([program.low, np.zeros(2 * T + 1), *(np.zeros(len(kink.rows)) for kink in kinks)])
    high = np.append(program.high, np.full(len(low) - n, np.inf))
    equations = {}
    if len(program.E):
        rest = sparse.csr_array((len(program.E), len(low) - n))
        equations = {"A_eq": sparse.hstack([none(program.E), rest]), "b_eq": program.e}
    rows = sparse.block_array([row for row, of in zip(blocks, limit, strict=True) if len(of)], format="csr")
    found = linprog(cost, rows, np.concatenate(limit), **equations, bounds=np.column_stack([low, high]), method="highs")
    if found.x is None:
        return None
    x, parts = found.x[:n], np.split(-found.ineqlin.marginals, np.cumsum([len(of) for of in limit])[:-1])
    of_A = np.zeros(len(program.A))
    of_A[up] += parts[2]
    of_A[down] -= parts[3]
    at_bound = (np.abs(x - program.low) <= NEAR) | (np.abs(x - program.high) <= NEAR)
    kinked = [np.abs(kink.at(x)) <= NEAR for kink in kinks]
    of_E = -found.eqlin.marginals if len(program.E) else np.zeros(0)
    slopes = [parts[0], *(np.maximum(part, 0.0) for part in parts[4:])]
    none_at = np.zeros(len(program.A), dtype=bool)
    return Solution(x, slopes, of_A, none_at, at_bound, [np.zeros(T, bool), *kinked], of_E, int(found.nit), True)
