"""Linear programs of the exact methods: presolve, and minima of linear functions."""

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.optimize import linprog

from sk_stormc.portfolio.convex_program import CONSTRAINT_TOLERANCE, PROGRAM_TOLERANCE

__all__ = ["linear_program", "minimise_linear", "one_sided", "presolve"]


def one_sided(A, lower, upper):
    """lower <= A x <= upper as rows @ x <= rhs: the rows, rhs, and the index in A and
    the sign of each row."""
    up = np.flatnonzero(np.isfinite(upper))
    down = np.flatnonzero(np.isfinite(lower))
    rows = sparse.csr_array(A)
    rows = sparse.vstack([rows[up], -rows[down]], format="csr")
    rhs = np.r_[upper[up], -lower[down]]
    return rows, rhs, np.r_[up, down], np.repeat([1.0, -1.0], [len(up), len(down)])


def linear_program(cost, blocks, rhs, E, e, low, high, options=None):
    """Minimise cost @ x subject to blocks @ x <= rhs, E x = e and bounds, with HiGHS.

    The last variables, beyond those that E and the bounds are about, are not negative.
    """
    unit = float(np.abs(cost).max()) or 1.0  # the tolerances of HiGHS are absolute
    more = len(cost) - len(low)  # variables
    equations = sparse.csr_array(np.pad(E, ((0, 0), (0, len(cost) - E.shape[1]))))
    program = linprog(
        cost / unit,
        sparse.block_array(blocks, format="csr"),
        np.concatenate(rhs),
        equations if len(E) else None,
        e if len(E) else None,
        bounds=np.c_[np.r_[low, np.zeros(more)], np.r_[high, np.full(more, np.inf)]],
        method="highs",
        options=options,
    )
    if program.x is not None:
        for side in (program.ineqlin, program.eqlin, program.lower, program.upper):
            side.marginals *= unit
    return program


def presolve(low, high, A, lower, upper, E, e, size):
    """The feasible set, with equations for the inequalities that no point satisfies
    strictly, and an interior point.

    A linear program maximises the smallest slack. If the maximum is 0, the inequalities
    with a nonzero multiplier are tight on the whole set. Interior-point methods require
    a set without such inequalities.
    """
    m = len(low)
    centre = np.linalg.lstsq(E, e)[0] if len(E) else np.zeros(m)
    one = sparse.eye_array(m, format="csr")
    rows_of_all = sparse.vstack([one, sparse.csr_array(A)], format="csr")
    # the variables and the smallest slack, which is maximised
    cost = np.r_[np.zeros(m), -1.0]
    bounds = np.full(m + 1, -np.inf), np.r_[np.full(m, np.inf), 1.0]
    lower, upper, e = np.r_[low, lower] / size, np.r_[high, upper] / size, e / size
    for _ in range(20):  # until no further inequality is tight
        rows, rhs, index, sign = one_sided(rows_of_all, lower, upper)
        if not len(rhs):
            break
        norm = sparse.csr_array(np.sqrt(rows.power(2).sum(axis=1))[:, None])
        program = linear_program(cost, [[rows, norm]], [rhs], E, e, *bounds)
        if program.status != 0:
            break
        centre = program.x[:-1] * size
        if program.x[-1] > CONSTRAINT_TOLERANCE:
            break
        tight = np.abs(program.ineqlin.marginals) > PROGRAM_TOLERANCE
        gone = index[tight]
        E = np.concatenate([E, rows_of_all[gone].toarray()])
        e = np.r_[e, (sign * rhs)[tight]]
        lower[gone], upper[gone] = -np.inf, np.inf
        E, e = independent(E, e)
    E, e = independent(E, e)
    low, lower = np.split(lower * size, [m])
    high, upper = np.split(upper * size, [m])
    return (low, high, A, lower, upper, E, e * size), centre


def independent(E, e):
    """The equations E x = e without linearly dependent rows."""
    if not len(E):
        return E, e
    R, order = qr(E.T, mode="r", pivoting=True)
    pivots, largest = np.abs(np.diag(R)), np.abs(R).max(initial=0.0)
    rank = int((pivots > PROGRAM_TOLERANCE * largest).sum())
    kept = np.sort(order[:rank])
    return E[kept], e[kept]


def minimise_linear(feasible, c, low, high, weight=1.0):
    """Minimise c @ s + weight * costs(s) over the feasible s between finite bounds.
    Return s and a lower bound of the minimum."""
    if len(feasible.A) or feasible.norms:
        return _by_linear_program(feasible, c, low, high, weight)
    s = _by_sorting(feasible, c, low, high, weight)
    costs = sum(cost @ np.abs(s - at) for _, cost, at in feasible.costs())
    return s, float(c @ s + weight * costs)


def _by_sorting(feasible, c, low, high, weight):
    """Split each coordinate at its bounds and kinks, and use the pieces in the order of
    their slopes."""
    kinks = [np.clip(at, low, high) for _, _, at in feasible.costs()]
    points = np.sort(np.array([low, *kinks, high]), axis=0)
    length, middle = np.diff(points, axis=0), (points[1:] + points[:-1]) / 2
    slope = np.broadcast_to(c, length.shape)
    for _, cost, at in feasible.costs():
        slope = slope + weight * cost * np.sign(middle - at)
    if feasible.budget is None:
        return low + np.where(slope < 0, length, 0.0).sum(axis=0)
    there = feasible.in_budget > 0
    order = np.argsort(slope, axis=None, kind="stable")
    order = order[np.broadcast_to(there, length.shape).ravel()[order]]
    length, taken = length.ravel()[order], np.zeros(length.size)
    before = np.r_[0.0, np.cumsum(length)[:-1]]  # the pieces that are used earlier
    left = feasible.budget - low[there].sum() - before
    taken[order] = np.clip(left, 0.0, length)
    return low + taken.reshape(slope.shape).sum(axis=0)


def _by_linear_program(feasible, c, low, high, weight):
    """Solve the linear program with HiGHS, with an additional variable |s - at| for
    each cost.

    The lower bound is the Lagrangian's minimum over the bounds of the variables: the
    multipliers of HiGHS are dual feasible only up to its tolerance.
    """
    z_low, z_high, A, lower, upper, E, e = feasible.presolved[0]
    terms, n, m = feasible.costs(), feasible.n, len(z_low)
    one = sparse.eye_array(m, format="csr")
    rows, rhs, _, _ = one_sided(A, lower, upper)
    blocks, rhs = [[rows, *[None] * len(terms)]], [rhs]
    for k, (some, _, at) in enumerate(terms):
        distances = [None] * len(terms)
        distances[k] = -sparse.eye_array(len(some))
        for sign in (1.0, -1.0):
            blocks.append([sign * one[some], *distances])
            rhs.append(sign * at[some])
    of_terms = [weight * cost[some] for some, cost, _ in terms]
    cost = np.r_[c, np.zeros(m - n), *of_terms]
    z_low, z_high = np.r_[low, z_low[n:]], np.r_[high, z_high[n:]]
    program = linear_program(cost, blocks, rhs, E, e, z_low, z_high)
    if program.x is None:
        return np.full(n, np.nan), np.nan
    y, nu = np.minimum(program.ineqlin.marginals, 0.0), program.eqlin.marginals
    left = cost - sparse.block_array(blocks, format="csr").T @ y
    left[:m] -= E.T @ nu
    highest = [high, *(np.full(n, limit) for _, limit in feasible.norms)]
    highest += [np.maximum(at - low, high - at)[some] for some, _, at in terms]
    at = np.where(left > 0, np.pad(low, (0, len(left) - n)), np.concatenate(highest))
    used = left != 0
    return program.x[:n], float(
        y @ np.concatenate(rhs) + nu @ e + at[used] @ left[used]
    )
