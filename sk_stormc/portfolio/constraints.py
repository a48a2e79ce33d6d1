"""Constraints and transaction costs of a portfolio as a penalty."""

from collections.abc import Mapping, Set

import numpy as np

from sk_stormc.core.penalties import L1, Box, Simplex, as_penalty
from sk_stormc.portfolio.labels import aligned
from sk_stormc.portfolio.limits import Limited
from sk_stormc.portfolio.risk_measures import is_proportional
from sk_stormc.portfolio.turnover import Turnover
from sk_stormc.utils.validation import as_numbers, check_number, is_real, is_word, short

__all__ = ["check_size", "held_now", "make_penalty"]


def make_penalty(constraint, budget, l1, previous_weights, transaction_cost, n_assets, columns):
    """The penalty for these parameters of `CompositionalPortfolio`, or None; columns are the labels of the assets."""
    check_number("l1", l1, low=0)
    check_number("budget", budget, words=(None,))
    long_only = is_word(constraint, "long_only")
    if long_only:
        if l1:
            raise ValueError(f"l1 must be 0 with constraint='long_only', where |w|_1 is constant; got {l1!r}")
        check_number("budget", budget, low=0, inclusive=False, words=(None,))
        budget = 1.0 if budget is None else budget
    turnover = _turnover(previous_weights, transaction_cost, n_assets, columns)
    if long_only and turnover is None:
        return Simplex(budget)
    if constraint is None and budget is None and turnover is None:
        return L1(l1) if l1 else None
    low, high = (0.0, np.inf) if long_only else _bounds(constraint, n_assets, columns)
    box = Box(low, high, budget=budget, alpha=l1)
    box.check(n_assets)
    return box if turnover is None else Turnover(*turnover, box)


def _bounds(constraint, n_assets, columns):
    """The two bounds, each a number or an array in the order of the columns."""
    if constraint is None:
        return -np.inf, np.inf
    no_pair = isinstance(constraint, (str, Mapping, Set)) or not hasattr(constraint, "__len__")
    by_asset = not no_pair and _pairs_by_asset(constraint, n_assets)
    if no_pair or by_asset or len(constraint) != 2:
        found = short(constraint) + ", which may be a pair for each asset" * by_asset
        raise ValueError(
            f"constraint must be None, 'long_only' or (low, high), got {found}. Each of low and high is one number for "
            "all assets, or an array, a dict or a Series with a number for each asset"
        )
    low, high = constraint
    return (
        aligned("the lower bound of constraint", low, columns, n_assets),
        aligned("the upper bound of constraint", high, columns, n_assets),
    )


def _pairs_by_asset(constraint, n_assets):
    """Whether bounds may be meant as a pair (low, high) for each asset, as SciPy takes them.

    Two arrays or labelled values are not. Two lists for two assets may be, unless their entries would then be equal.
    """
    kinds = (tuple, list) if isinstance(constraint, (tuple, list)) else (tuple, list, np.ndarray)
    if len(constraint) != n_assets or not all(isinstance(pair, kinds) and len(pair) == 2 for pair in constraint):
        return False
    low, high = as_numbers("constraint", [list(pair) for pair in constraint]).T
    return n_assets != 2 or bool((low <= high).all() and (low < high).any())


def _turnover(previous, cost, n_assets, columns):
    """Checked previous weights and costs, or None if trades cost nothing."""
    previous = held_now(previous, n_assets, columns)
    cost = aligned("transaction_cost", cost, columns, n_assets)
    Turnover(previous, cost).check(n_assets)
    return (previous, cost) if np.any(cost) else None


def held_now(previous, n_assets, columns):
    """``previous_weights`` as an array of shape (n_assets,). None means zeros."""
    previous = aligned("previous_weights", previous, columns, n_assets)
    previous = as_numbers("previous_weights", np.zeros(n_assets) if previous is None else previous)
    Turnover(previous, 0.0).check(n_assets)
    return previous


def check_size(risk_measure, risk_aversion, penalty):
    """Raise a ValueError if the objective needs a constraint that sets the size of the portfolio, and there is none."""
    if isinstance(penalty, Limited):
        zero = np.zeros(penalty.n_assets)
        if penalty.active or penalty.max_turnover is not None or penalty.missed(zero) > 0:
            return
        penalty = penalty.penalty
    least = is_real(risk_aversion) and risk_aversion == np.inf
    if not (least or is_proportional(risk_measure)):
        return
    box = as_penalty(penalty).as_box()
    if box is None:
        return
    bounds = np.concatenate([np.ravel(box.low), np.ravel(box.high)])
    if not box.budget and (np.isinf(bounds) | (bounds == 0)).all():
        asked = "risk_aversion=inf" if least else f"risk_measure={risk_measure!r}"
        best = "is the empty portfolio" + ("" if least else " or there is none, as return and risk grow alike")
        raise ValueError(
            f"{asked} needs a constraint or a budget that sets the size of the portfolio, such as "
            f"constraint='long_only' or budget=1.0: without one the best portfolio {best}"
        )
