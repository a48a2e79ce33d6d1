"""Presolve: inequalities that are tight in the whole feasible set become equations, as interior-point methods need."""

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from scipy.optimize import linprog

__all__ = ["with_room"]

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
