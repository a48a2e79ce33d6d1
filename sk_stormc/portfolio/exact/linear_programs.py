"""Linear programs of the exact methods: presolve, and minima of linear functions."""

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.optimize import linprog

from sk_stormc.portfolio.exact.tolerances import CONSTRAINT_TOLERANCE, PROGRAM_TOLERANCE

__all__ = ["linear_program", "minimise_linear", "one_sided", "presolve"]


def one_sided(A, lower, upper):
    """lower <= A x <= upper as rows @ x <= rhs: the rows, rhs, and the index in A and
    the sign of each row."""
    up, down = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))
    rows = sparse.csr_array(A)
    index, sign = np.r_[up, down], np.r_[np.ones(len(up)), -np.ones(len(down))]
    return (
        sparse.vstack([rows[up], -rows[down]], format="csr"),
        np.r_[upper[up], -lower[down]],
        index,
        sign,
    )


def linear_program(cost, blocks, rhs, E, e, low, high, options=None):
    """Minimise cost @ x subject to blocks @ x <= rhs, E x = e and bounds, with HiGHS.

    The last variables, beyond those that E and the bounds are about, are not negative.
    """
    m, unit = (
        len(cost),
        float(np.abs(cost).max()) or 1.0,
    )  # the tolerances of HiGHS are absolute
    program = linprog(
        cost / unit,
        sparse.block_array(blocks, format="csr"),
        np.concatenate(rhs),
        sparse.csr_array(np.pad(E, ((0, 0), (0, m - E.shape[1])))) if len(E) else None,
        e if len(E) else None,
        bounds=np.c_[
            np.pad(low, (0, m - len(low))),
            np.pad(high, (0, m - len(high)), constant_values=np.inf),
        ],
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
    m, centre = len(low), np.linalg.lstsq(E, e)[0] if len(E) else np.zeros(len(low))
    endless = np.full(m, np.inf)
    rows_of_all = sparse.vstack(
        [sparse.eye_array(m, format="csr"), sparse.csr_array(A)], format="csr"
    )
    lower, upper, e = np.r_[low, lower] / size, np.r_[high, upper] / size, e / size
    for _ in range(20):  # until no further inequality is tight
        rows, rhs, index, sign = one_sided(rows_of_all, lower, upper)
        if not len(rhs):
            break
        norm = np.sqrt(rows.power(2).sum(axis=1))
        cost, bounds = (
            np.r_[np.zeros(m), -1.0],
            (np.r_[-endless, -np.inf], np.r_[endless, 1.0]),
        )
        program = linear_program(
            cost, [[rows, sparse.csr_array(norm[:, None])]], [rhs], E, e, *bounds
        )
        if program.status != 0:
            break
        centre = program.x[:-1] * size
        if program.x[-1] > CONSTRAINT_TOLERANCE:
            break
        tight = np.abs(program.ineqlin.marginals) > PROGRAM_TOLERANCE
        gone = index[tight]
        E, e = (
            np.concatenate([E, rows_of_all[gone].toarray()]),
            np.r_[e, (sign * rhs)[tight]],
        )
        lower[gone], upper[gone] = -np.inf, np.inf
        E, e = independent(E, e)
    E, e = independent(E, e)
    lower, upper = lower * size, upper * size
    return (lower[:m], upper[:m], A, lower[m:], upper[m:], E, e * size), centre


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
    """Minimise c @ s + weight * costs(s) over the feasible s between finite bounds."""
    if len(feasible.A) or feasible.norms:
        s = _by_linear_program(feasible, c, low, high, weight)
    else:
        s = _by_sorting(feasible, c, low, high, weight)
    return s, float(
        c @ s + weight * sum(cost @ np.abs(s - at) for _, cost, at in feasible.costs())
    )


def _by_sorting(feasible, c, low, high, weight):
    """Split each coordinate at its bounds and kinks, and use the pieces in the order of
    their slopes."""
    kinks = [np.clip(at, low, high) for _, _, at in feasible.costs()]
    points = np.sort(np.array([low, *kinks, high]), axis=0)
    length, middle = np.diff(points, axis=0), (points[1:] + points[:-1]) / 2
    slope = c + weight * sum(
        cost * np.sign(middle - at) for _, cost, at in feasible.costs()
    )
    slope = np.broadcast_to(slope, length.shape)
    if feasible.budget is None:
        return low + np.where(slope < 0, length, 0.0).sum(axis=0)
    order = np.argsort(slope, axis=None, kind="stable")
    order = order[
        (np.broadcast_to(feasible.in_budget, length.shape) > 0).ravel()[order]
    ]
    length, taken = length.ravel()[order], np.zeros(length.size)
    left = feasible.budget - low[feasible.in_budget > 0].sum()
    taken[order] = np.clip(left - np.r_[0.0, np.cumsum(length)[:-1]], 0.0, length)
    return low + taken.reshape(slope.shape).sum(axis=0)


def _by_linear_program(feasible, c, low, high, weight):
    """Solve the linear program with HiGHS, with an additional variable |s - at| for
    each cost."""
    z_low, z_high, A, lower, upper, E, e = feasible.presolved[0]
    terms, n, m = feasible.costs(), feasible.n, len(z_low)
    one = sparse.eye_array(m, format="csr")
    rows, rhs, _, _ = one_sided(A, lower, upper)
    blocks, rhs = [[rows, *[None] * len(terms)]], [rhs]
    for k, (some, _, at) in enumerate(terms):
        distance = -sparse.eye_array(len(some))
        for sign in (1.0, -1.0):
            blocks.append(
                [
                    sign * one[some],
                    *[distance if j == k else None for j in range(len(terms))],
                ]
            )
            rhs.append(sign * at[some])
    cost = np.r_[c, np.zeros(m - n), *(weight * cost[some] for some, cost, _ in terms)]
    program = linear_program(
        cost, blocks, rhs, E, e, np.r_[low, z_low[n:]], np.r_[high, z_high[n:]]
    )
    return program.x[:n] if program.x is not None else np.full(n, np.nan)
