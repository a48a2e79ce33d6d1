"""The exact minimum of a linear function plus costs over a set of portfolios, which bounds the gap of an objective."""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from sk_stormc.core.penalties import as_penalty
from sk_stormc.portfolio.limits import Limited, Limits
from sk_stormc.portfolio.turnover import Turnover

__all__ = ["AROUND", "bounds_around", "linear_minimum", "lowest"]

AROUND = 2.0  # radius around w that replaces missing bounds, relative to the largest weight


def bounds_around(limits, w, radius):
    """Finite bounds that contain w: those that bounds and budget imply, and otherwise a radius around w."""
    low, high = limits.implied()
    low, high = np.where(np.isfinite(low), low, w - radius), np.where(np.isfinite(high), high, w + radius)
    return np.minimum(low, w), np.maximum(high, w)


def linear_minimum(penalty, c, w):
    """The minimum of c @ s + R(s). Weights without a bound are limited to twice the largest weight around w.

    NaN for a penalty that is not of this package.
    """
    if not isinstance(penalty, (Turnover, Limited)) and as_penalty(penalty).as_box() is None:
        return np.nan
    limits = Limits.of(penalty, len(w))
    return lowest(limits, c, *bounds_around(limits, w, AROUND * np.abs(w).max()))[1]


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
