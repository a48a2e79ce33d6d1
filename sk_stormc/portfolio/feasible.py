"""Feasibility of linear constraints, a turnover limit and a benchmark, and the methods that support them."""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from sk_stormc.portfolio.limits import Limited, Limits
from sk_stormc.portfolio.linear import Linear
from sk_stormc.utils.validation import check_number

__all__ = ["check_feasible", "limited", "refuse_limits"]

MISSED = 1e-6  # violation that HiGHS may leave in a feasible constraint, relative to the constraint's size


def limited(penalty, linear, previous, max_turnover, active):
    """Add further limits to a penalty. Without any, return the penalty itself."""
    check_number("max_turnover", max_turnover, low=0, words=(None,))
    if linear is None and max_turnover is None and not active:
        return penalty
    linear = Linear(np.zeros((0, len(previous))), np.zeros(0), np.zeros(0), []) if linear is None else linear
    found = Limited(penalty, linear, previous, max_turnover, active)
    check_feasible(found)
    return found


def refuse_limits(penalty, what, instead):
    """Raise a ValueError if the penalty has further limits, which the method ``what`` does not support."""
    if isinstance(penalty, Limited):
        raise ValueError(
            f"{what} cannot be used with {' and '.join(penalty.parameters())}, for which there is no proximal "
            f"operator: {instead}"
        )


def check_feasible(limited):
    """Raise a ValueError if no portfolio meets all constraints, which a linear program finds out.

    Bounds and budget are hard constraints. Violations of the others are minimised. Constraints with a nonzero
    multiplier in the solution contradict each other.
    """
    n, linear, trades = limited.n_assets, limited.linear, limited.max_turnover is not None
    limits, m = Limits.of(limited.penalty, n), len(linear.A)
    # variables: w, the violation of each row, and with a turnover limit |w - previous| and the violation of the limit
    size = np.abs(linear.A).max(axis=1, initial=0.0)
    size = np.where(size > 0, size, 1.0)
    rows, missed = sparse.csr_array(linear.A / size[:, None]), sparse.eye_array(m, format="csr")
    up, down = np.flatnonzero(np.isfinite(linear.upper)), np.flatnonzero(np.isfinite(linear.lower))
    of, one = np.r_[up, down], sparse.eye_array(n)
    blocks = [[rows[up], -missed[up]], [-rows[down], -missed[down]]]
    limit = [(linear.upper / size)[up], -(linear.lower / size)[down]]
    if trades:
        blocks = [[*block, None, None] for block in blocks]
        blocks += [[one, None, -one, None], [-one, None, -one, None]]
        blocks += [[None, None, sparse.csr_array(np.ones((1, n))), sparse.csr_array([[-1.0]])]]
        limit += [limited.previous, -limited.previous, [limited.max_turnover]]
    limit, others = np.concatenate(limit), m + (n + 1) * trades
    cost = np.r_[np.zeros(n), np.ones(m), np.zeros(n * trades), np.ones(1 * trades)]
    budget = {}
    if limits.budget is not None:
        budget = {"A_eq": sparse.csr_array(np.r_[np.ones(n), np.zeros(others)][None]), "b_eq": [limits.budget]}
    bounds = np.column_stack([np.r_[limits.low, np.zeros(others)], np.r_[limits.high, np.full(others, np.inf)]])
    found = linprog(cost, sparse.block_array(blocks), limit, **budget, bounds=bounds, method="highs")
    if found.status != 0 or found.fun <= MISSED * (1.0 + np.abs(limit).max(initial=0.0)):
        return
    price = np.abs(found.ineqlin.marginals) > MISSED
    names = [linear.names[k] for k in of[price[: len(of)]]] + [f"max_turnover={limited.max_turnover}"] * bool(
        trades and price[-1]
    )
    missing = np.r_[found.x[n : n + m] * size, found.x[-1:] if trades else []]
    worst = int(np.argmax(missing))
    raise ValueError(
        f"{' and '.join(limited.parameters())} must leave a portfolio, but with the bounds and the budget no weights "
        f"meet {' and '.join(map(repr, dict.fromkeys(names)))}: "
        f"{[*linear.names, 'max_turnover'][worst]!r} is missed by {missing[worst]:.3g} at least"
    )
