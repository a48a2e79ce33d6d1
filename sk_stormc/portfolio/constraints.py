"""Constraints and transaction costs of a portfolio as a penalty, and the check that
they are feasible."""

from collections.abc import Mapping, Set
from functools import cache

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from sk_stormc.core.penalties import L1, Box, Simplex, as_penalty
from sk_stormc.portfolio.exact.feasible_set import FeasibleSet
from sk_stormc.portfolio.exact.linear_programs import linear_program, one_sided
from sk_stormc.portfolio.exact.linearly_constrained import LinearlyConstrained
from sk_stormc.portfolio.exact.tolerances import CONSTRAINT_TOLERANCE, PROGRAM_TOLERANCE
from sk_stormc.portfolio.exact.trading_costs import TradingCosts
from sk_stormc.portfolio.labels import aligned
from sk_stormc.portfolio.linear_constraints import Linear, linear_of
from sk_stormc.portfolio.returns import column_of, without
from sk_stormc.portfolio.risk import MEASURES
from sk_stormc.utils.validation import as_numbers, check_number, is_real, is_word, short
from sk_stormc.utils.warnings import warn

__all__ = [
    "check_objective",
    "held_now",
    "penalty_of",
    "refuse_linear_constraints",
    "warn_of_no_constraint",
]


def penalty_of(portfolio, n_assets, columns):
    """The penalty with all constraints and costs of a `CompositionalPortfolio`, or
    None."""
    penalty = _with_proximal_operator(portfolio, n_assets, columns)
    penalty = _linearly_constrained(portfolio, penalty, n_assets, columns)
    check_size(portfolio, penalty)
    return penalty


def _with_proximal_operator(portfolio, n_assets, columns):
    """The penalty with bounds, budget, l1 norm and transaction costs, or None."""
    constraint, budget = portfolio.constraint, portfolio.budget
    l1, l2 = portfolio.l1, portfolio.l2
    check_number("l1", l1, low=0)
    check_number("budget", budget, words=(None,))
    long_only = is_word(constraint, "long_only")
    if long_only:
        if l1:
            raise ValueError(
                "l1 must be 0 with constraint='long_only', where |w|_1 is constant; "
                f"got {l1!r}"
            )
        check_number("budget", budget, low=0, inclusive=False, words=(None,))
        budget = 1.0 if budget is None else budget
    turnover = _turnover(
        portfolio.previous_weights, portfolio.transaction_cost, n_assets, columns
    )
    turnover = (np.zeros(n_assets), 0.0) if turnover is None and l2 else turnover
    if long_only and turnover is None:
        return Simplex(budget)
    if constraint is None and budget is None and turnover is None:
        return L1(l1) if l1 else None
    low, high = (0.0, np.inf) if long_only else _bounds(constraint, n_assets, columns)
    box = Box(low, high, budget=budget, alpha=l1)
    box.check(n_assets)
    return box if turnover is None else TradingCosts(*turnover, box, l2)


def _bounds(constraint, n_assets, columns):
    """The lower and the upper bound, each a number or an array in the order of the
    columns."""
    if constraint is None:
        return -np.inf, np.inf
    no_pair = isinstance(constraint, (str, Mapping, Set)) or not hasattr(
        constraint, "__len__"
    )
    by_asset = not no_pair and _pairs_by_asset(constraint, n_assets)
    if no_pair or by_asset or len(constraint) != 2:
        given = short(constraint) + ", which may be a pair for each asset" * by_asset
        raise ValueError(
            f"constraint must be None, 'long_only' or (low, high), got {given}. Each "
            "of low and high is one number for "
            "all assets, or an array, a dict or a Series with a number for each asset"
        )
    return tuple(
        aligned(f"the {side} bound of constraint", bound, columns, n_assets)
        for side, bound in zip(("lower", "upper"), constraint, strict=True)
    )


def _pairs_by_asset(constraint, n_assets):
    """Whether the bounds may be meant as a pair (low, high) for each asset, as in
    SciPy.

    Two arrays or labelled values are not such pairs. Two lists for two assets may be,
    unless their entries would then be equal.
    """
    kinds = (tuple, list)
    if not isinstance(constraint, kinds):
        kinds = (*kinds, np.ndarray)
    if len(constraint) != n_assets or not all(
        isinstance(pair, kinds) and len(pair) == 2 for pair in constraint
    ):
        return False
    low, high = as_numbers("constraint", [list(pair) for pair in constraint]).T
    return n_assets != 2 or bool((low <= high).all() and (low < high).any())


def _turnover(previous, cost, n_assets, columns):
    """The validated previous weights and costs, or None if trades cost nothing."""
    if previous is None and is_real(cost) and cost == 0:
        return None
    previous = held_now(previous, n_assets, columns)
    cost = aligned("transaction_cost", cost, columns, n_assets)
    return (previous, cost) if TradingCosts(previous, cost).cost.any() else None


def held_now(previous, n_assets, columns):
    """Return ``previous_weights`` as an array of shape (n_assets,). None means
    zeros."""
    if previous is None:
        return np.zeros(n_assets)
    held = TradingCosts(aligned("previous_weights", previous, columns, n_assets), 0.0)
    held.check(n_assets)
    return held.previous


def check_objective(portfolio):
    """Raise a ValueError for parameters that define different objectives, and for a
    solver that does not have the risk measure."""
    measure, solver = MEASURES[portfolio.risk_measure], portfolio.solver
    if measure.problem is None and not is_word(solver, "auto", "newton", "scip"):
        *others, last = (repr(name) for name in MEASURES if MEASURES[name].problem)
        raise ValueError(
            f"solver={solver!r} has risk_measure {', '.join(others)} and {last}; take "
            f"'auto' or 'newton' for {measure.name!r}"
        )
    max_risk, min_return = portfolio.max_risk, portfolio.min_return
    other = None if max_risk is None else f"max_risk={max_risk!r}"
    if portfolio.objective == "ratio":
        other = "objective='ratio'"
        if max_risk is not None:
            raise ValueError(f"max_risk must be None with {other}, got {max_risk!r}")
        if portfolio.l2:
            raise ValueError(f"l2 must be 0 with {other}, got {portfolio.l2!r}")
    if other is not None and not measure.power:
        raise ValueError(
            f"{other if max_risk is None else 'max_risk'} needs a risk apart from the "
            f"mean return, got risk_measure={portfolio.risk_measure!r}"
        )
    if min_return is None:
        return
    if other is not None:
        raise ValueError(f"min_return must be None with {other}, got {min_return!r}")
    if is_real(portfolio.risk_aversion) and portfolio.risk_aversion != np.inf:
        raise ValueError(
            "min_return needs risk_aversion=numpy.inf, for the least risk of a "
            "portfolio with at least this mean return, got "
            f"risk_aversion={portfolio.risk_aversion!r}"
        )


# Python's own filter for repeated warnings is reset by every use of
# warnings.catch_warnings
@cache
def warn_of_no_constraint():
    """Warn, once in a process, that only risk_aversion limits the weights."""
    warn(
        "CompositionalPortfolio has no constraint: only risk_aversion, in the inverse "
        "unit of the returns, limits the sum and the size of its weights. Set "
        "constraint='long_only', or bounds and budget=1.0, for an ordinary portfolio. "
        "This warning is raised once."
    )


def check_size(portfolio, penalty):
    """Raise a ValueError if the objective needs a constraint on the size of the
    portfolio and there is none.

    Without it the portfolio of minimum risk is the empty one. If risk and return are
    both proportional to the weights, the optimum is the empty portfolio or does not
    exist, and all multiples of a portfolio have the same ratio.
    """
    ratio = portfolio.objective == "ratio"
    utility = not ratio and portfolio.max_risk is None
    aversion = portfolio.risk_aversion
    least = utility and is_real(aversion) and aversion == np.inf
    if not (least or ratio or MEASURES[portfolio.risk_measure].power == 1):
        return
    bounded = False  # whether a term is not proportional to the weights
    if isinstance(penalty, LinearlyConstrained):
        infeasible = penalty.violation(np.zeros(penalty.n_assets)) > 0
        if penalty.has_benchmark or infeasible or (penalty.min_return or 0) > 0:
            return
        bounded, penalty = bool(penalty.norms()), penalty.penalty
    if isinstance(penalty, TradingCosts):
        if np.any(penalty.cost):  # its costs are proportional to another distance
            return
        bounded, penalty = True, penalty.box
    box = as_penalty(penalty).as_box()
    low, high = np.asarray(box.low), np.asarray(box.high)
    if least:  # whether the empty portfolio is feasible
        sizeless = (low <= 0).all() and (high >= 0).all()
    else:
        endless = [(np.isinf(bound) | (bound == 0)).all() for bound in (low, high)]
        sizeless = all(endless) and not bounded
    if box.budget or not sizeless:
        return
    if ratio:
        asked = "objective='ratio'"
        best = "all multiples of a portfolio have the same ratio"
    elif least:
        asked, best = "risk_aversion=inf", "the best portfolio is the empty portfolio"
    else:
        asked = f"risk_measure={portfolio.risk_measure!r}"
        best = (
            "the best portfolio is the empty portfolio or there is none, as return and "
            "risk grow alike"
        )
    raise ValueError(
        f"{asked} needs a constraint or a budget that sets the size of the portfolio, "
        f"such as constraint='long_only' or budget=1.0: without one {best}"
    )


def _linearly_constrained(portfolio, penalty, n_assets, columns):
    """The penalty with linear constraints, limits of norms, a least mean return and a
    benchmark, if there are any: they have no proximal operator."""
    linear = linear_of(
        portfolio.linear_constraints, portfolio.groups, columns, n_assets
    )
    previous = held_now(portfolio.previous_weights, n_assets, columns)
    place = column_of(portfolio.benchmark, columns, n_assets)
    if place is not None:
        penalty, previous[place] = without(penalty, place, n_assets), 0.0
    check_number("max_turnover", portfolio.max_turnover, low=0, words=(None,))
    limits = {
        name: getattr(portfolio, name)
        for name in ("max_turnover", "max_gross", "min_return")
    }
    constraints = linear, portfolio.benchmark, *limits.values()
    if all(part is None for part in constraints):
        return penalty
    if linear is None:
        linear = Linear(np.zeros((0, n_assets)), np.zeros(0), np.zeros(0), [])
    penalty = LinearlyConstrained(
        penalty, linear, previous, portfolio.benchmark is not None, **limits
    )
    check_feasible(penalty)
    return penalty


def refuse_linear_constraints(penalty, what, instead):
    """Raise a ValueError if the penalty has constraints that the method ``what`` does
    not support."""
    if isinstance(penalty, LinearlyConstrained):
        raise ValueError(
            f"{what} cannot be used with {' and '.join(penalty.parameters())}, for "
            f"which there is no proximal operator: {instead}"
        )


def check_feasible(penalty):
    """Raise a ValueError if no portfolio meets all constraints, by a linear program.

    Bounds and budget are hard constraints. The violations of the other constraints are
    minimised. Constraints with a nonzero multiplier in the solution contradict each
    other.
    """
    n, linear, norms = penalty.n_assets, penalty.linear, penalty.norms()
    feasible, k = FeasibleSet.of(penalty.penalty, n), len(norms)
    limits = [limit for _, limit in norms.values()]
    names = [*linear.names, *(f"{name}={norms[name][1]:g}" for name in norms)]
    size = np.abs(linear.A).max(axis=1, initial=0.0)
    size = np.r_[np.where(size > 0, size, 1.0), np.ones(k)]
    # variables: w, |w - centre| for each norm, and the violation of each constraint
    A = block_diag(linear.A, *np.ones((k, 1, n))) / size[:, None]
    lower = np.r_[linear.lower, np.full(k, -np.inf)] / size
    rows, rhs, index, _ = one_sided(A, lower, np.r_[linear.upper, limits] / size)
    violations = sparse.eye_array(len(names), format="csr")[index]
    blocks, rhs = [[rows, -violations]], [rhs]
    for j, (centre, _) in enumerate(norms.values()):
        one, distance = np.eye(n), np.eye(n, k * n, n * j)
        blocks += [[np.hstack([sign * one, -distance]), None] for sign in (1, -1)]
        rhs += [centre, -centre]
    cost = np.r_[np.zeros(n + k * n), np.ones(len(names))]
    E, e = np.ones((int(feasible.budget is not None), n)), [feasible.budget]
    program = linear_program(cost, blocks, rhs, E, e, feasible.low, feasible.high)
    # HiGHS may miss several feasible constraints by its tolerance
    largest = 1.0 + np.abs(np.concatenate(rhs)).max(initial=0.0)
    if program.status != 0 or program.fun <= 10 * CONSTRAINT_TOLERANCE * largest:
        return
    tight = np.abs(program.ineqlin.marginals[: len(index)]) > PROGRAM_TOLERANCE
    contradicting = dict.fromkeys(repr(names[row]) for row in sorted(index[tight]))
    missing = program.x[-len(names) :] * size
    worst = int(np.argmax(missing))
    raise ValueError(
        f"{' and '.join(penalty.parameters())} must leave a portfolio, but with the "
        f"bounds and the budget no weights meet {' and '.join(contradicting)}: "
        f"{names[worst]!r} is missed by {missing[worst]:.3g} at least"
    )
