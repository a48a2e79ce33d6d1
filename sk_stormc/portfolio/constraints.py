"""The feasible set of a portfolio and its integer limits from the parameters, which are
checked here."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from sk_stormc.core.penalties import Box
from sk_stormc.portfolio.convex_program import CONSTRAINT_TOLERANCE, PROGRAM_TOLERANCE
from sk_stormc.portfolio.exact.feasible_set import FeasibleSet
from sk_stormc.portfolio.exact.linear_programs import linear_program, one_sided
from sk_stormc.portfolio.labels import aligned, aligned_numbers
from sk_stormc.portfolio.linear_constraints import linear_of
from sk_stormc.portfolio.returns import column_of
from sk_stormc.portfolio.risk import MEASURES
from sk_stormc.utils.arrays import as_numbers
from sk_stormc.utils.parameters import check_int, check_number, is_real, is_word, short
from sk_stormc.utils.warnings import warn

__all__ = [
    "IntegerLimits",
    "check_objective",
    "feasible_set_of",
    "held_now",
    "refuse_linear_constraints",
    "warn_of_no_constraint",
]


def feasible_set_of(portfolio, columns):
    """The `FeasibleSet` of a `CompositionalPortfolio`, without its least mean return,
    which needs the returns."""
    n_assets, box = len(columns), _box(portfolio, columns)
    previous = held_now(portfolio.previous_weights, columns)
    cost = _cost(portfolio.transaction_cost, columns)
    linear = linear_of(portfolio.linear_constraints, portfolio.groups, columns)
    place = column_of(portfolio.benchmark, columns)
    if place is not None:  # the weight of the benchmark's column is 0
        others, previous = np.arange(n_assets) != place, previous.copy()
        previous[place] = 0.0
        bounds = (np.where(others, bound, 0.0) for bound in (box.low, box.high))
        box = Box(*bounds, box.budget, box.alpha)
        box.check(n_assets)
    check_number("max_turnover", portfolio.max_turnover, low=0, words=(None,))
    feasible = FeasibleSet(
        box,
        previous,
        cost,
        float(portfolio.l2),
        linear,
        portfolio.max_turnover,
        portfolio.max_gross,
        portfolio.benchmark is not None,
        portfolio.min_return,
    )
    if feasible.is_empty():
        _name_contradiction(feasible)
    check_size(portfolio, feasible)
    return feasible


def _box(portfolio, columns):
    """The bounds, the budget and the l1 norm."""
    constraint, budget, l1 = portfolio.constraint, portfolio.budget, portfolio.l1
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
    low, high = (0.0, np.inf) if long_only else _bounds(constraint, columns)
    box = Box(low, high, budget=budget, alpha=l1)
    box.check(len(columns))
    return box


def _bounds(constraint, columns):
    """The lower and the upper bound, each a number or an array in the order of the
    columns."""
    if constraint is None:
        return -np.inf, np.inf
    is_one = not hasattr(constraint, "__len__") or getattr(constraint, "shape", 0) == ()
    no_pair = is_one or isinstance(constraint, (str, Mapping, Set))
    by_asset = not no_pair and _pairs_by_asset(constraint, len(columns))
    if no_pair or by_asset or len(constraint) != 2:
        given = short(constraint) + ", which may be a pair for each asset" * by_asset
        raise ValueError(
            f"constraint must be None, 'long_only' or (low, high), got {given}. Each "
            "of low and high is one number for "
            "all assets, or an array, a dict or a Series with a number for each asset"
        )
    return tuple(
        aligned(f"the {side} bound of constraint", bound, columns)
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


def held_now(previous, columns):
    """Return ``previous_weights`` as an array of shape (n_assets,). None means
    zeros."""
    n_assets = len(columns)
    if previous is None:
        return np.zeros(n_assets)
    held = aligned_numbers("previous_weights", previous, columns)
    if held.ndim != 1 or not np.isfinite(held).all():
        raise ValueError(
            "previous_weights must be finite, one for each asset, got "
            f"{short(previous)}"
        )
    if len(held) != n_assets:
        raise ValueError(
            f"previous_weights must be of shape ({n_assets},), got {held.shape}"
        )
    return held


def _cost(given, columns):
    """The cost of a unit of each asset."""
    cost, n_assets = aligned_numbers("transaction_cost", given, columns), len(columns)
    if cost.shape not in ((), (n_assets,)):
        raise ValueError(
            f"transaction_cost must be one number or of shape ({n_assets},), got "
            f"{cost.shape}"
        )
    if not (np.isfinite(cost) & (cost >= 0)).all():
        raise ValueError(
            f"transaction_cost must be finite and >= 0, got {short(given)}"
        )
    return np.broadcast_to(cost, n_assets)


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


# integer limits


@dataclass
class IntegerLimits:
    """At most ``max_assets`` weights that are not 0, and absolute values of at least
    ``min_held`` for these."""

    max_assets: int | None
    min_held: np.ndarray  # of shape (n_assets,)
    names: list

    @classmethod
    def of(cls, portfolio, columns):
        """The integer limits of a `CompositionalPortfolio`, or None if it has none."""
        most, least = portfolio.max_assets, portfolio.min_held
        n_assets = len(columns)
        check_int("max_assets", most, low=1, words=(None,))
        if least is not None:
            given = least
            least = aligned_numbers("min_held", least, columns)
            if (
                least.shape not in ((), (n_assets,))
                or not (np.isfinite(least) & (least >= 0)).all()
            ):
                raise ValueError(
                    "min_held must be a number >= 0, or one for each of the "
                    f"{n_assets} assets, got {short(given)}"
                )
        if most is None and least is None and portfolio.solver != "scip":
            return None
        names = [f"max_assets={most}"] * (most is not None) + ["min_held"] * (
            least is not None
        )
        return cls(
            most,
            np.broadcast_to(0.0 if least is None else least, n_assets).astype(float),
            names,
        )

    def allow(self, w):
        """Whether the weights meet the limits."""
        size = np.abs(w[: self.min_held.size])
        few = self.max_assets is None or np.count_nonzero(size) <= self.max_assets
        return few and bool(
            ((size == 0) | (size >= self.min_held * (1 - PROGRAM_TOLERANCE))).all()
        )

    def only(self, feasible, w):
        """The set whose bounds allow the assets that are held in w only, with their
        signs; None if it is empty."""
        m, least = feasible.n_assets, self.min_held
        low, high, w = feasible.low[:m], feasible.high[:m], w[:m]
        held = w != 0
        low = np.where((w > 0) & (least > 0), np.maximum(low, least), low)
        high = np.where((w < 0) & (least > 0), np.minimum(high, -least), high)
        if (low > high).any() or ((low > 0) | (high < 0))[~held].any():
            return None
        restricted = feasible.with_bounds(
            np.where(held, low, 0.0), np.where(held, high, 0.0)
        )
        return None if restricted.is_empty() else restricted


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


def check_size(portfolio, feasible):
    """Raise a ValueError if the objective needs a constraint on the size of the
    portfolio and there is none.

    Without it the portfolio of minimum risk is the empty one. If risk and return are
    both proportional to the weights, the optimum is the empty portfolio or does not
    exist, and all multiples of a portfolio have the same ratio. A maximum risk is
    itself such a constraint.
    """
    ratio, aversion = portfolio.objective == "ratio", portfolio.risk_aversion
    least = not ratio and is_real(aversion) and aversion == np.inf
    alike = ratio or MEASURES[portfolio.risk_measure].power == 1
    if portfolio.max_risk is not None or not (least or alike):
        return
    box = feasible.box
    # costs of trades are proportional to another distance
    sized = (
        box.budget
        or feasible.has_benchmark
        or feasible.violation(np.zeros(feasible.n))
        or (feasible.min_return or 0) > 0
        or feasible.cost.any()
    )
    if least:
        sized = sized or (box.low > 0).any() or (box.high < 0).any()
    else:
        sized = sized or feasible.limits or feasible.l2
        sized = sized or not all(
            (np.isinf(bound) | (bound == 0)).all() for bound in (box.low, box.high)
        )
    if sized:
        return
    if ratio:
        asked = "objective='ratio'"
        best = "all multiples of a portfolio have the same ratio"
    elif least:
        asked, best = "risk_aversion=inf", "the best portfolio is the empty portfolio"
        if not MEASURES[portfolio.risk_measure].nonnegative:
            best += ", or a large one whose risk is negative"
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


def refuse_linear_constraints(feasible, what, instead):
    """Raise a ValueError if the set has constraints that the method ``what`` does not
    support."""
    if feasible.parameters():
        raise ValueError(
            f"{what} cannot be used with {' and '.join(feasible.parameters())}, for "
            f"which there is no proximal operator: {instead}"
        )


def _name_contradiction(feasible):
    """Raise a ValueError that names constraints which contradict each other, by a
    linear program.

    Bounds and budget are hard constraints. The violations of the other constraints are
    minimised. Constraints with a nonzero multiplier in the solution contradict each
    other.
    """
    n, linear, norms = feasible.n_assets, feasible.linear, feasible.limits
    box, k = feasible.box, len(norms)
    low, high = (np.broadcast_to(bound, n) for bound in (box.low, box.high))
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
    E, e = np.ones((int(box.budget is not None), n)), [box.budget]
    program = linear_program(cost, blocks, rhs, E, e, low, high)
    # HiGHS may miss several feasible constraints by its tolerance
    largest = 1.0 + np.abs(np.concatenate(rhs)).max(initial=0.0)
    if program.status != 0 or program.fun <= 10 * CONSTRAINT_TOLERANCE * largest:
        return
    tight = np.abs(program.ineqlin.marginals[: len(index)]) > PROGRAM_TOLERANCE
    contradicting = dict.fromkeys(repr(names[row]) for row in sorted(index[tight]))
    missing = program.x[-len(names) :] * size
    worst = int(np.argmax(missing))
    raise ValueError(
        f"{' and '.join(feasible.parameters())} must leave a portfolio, but with the "
        f"bounds and the budget no weights meet {' and '.join(contradicting)}: "
        f"{names[worst]!r} is missed by {missing[worst]:.3g} at least"
    )
