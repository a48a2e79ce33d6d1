"""Small portfolios that took seconds, or ended wrong: the default solver finds them in few iterations, and says so."""

import warnings

import numpy as np
import pytest
from helpers import slow_but
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio


def normal(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + 0.0005


def copied(n, d, noise=0.0):
    """The last half of the assets are copies of the first, but for noise."""
    R, k = normal(n, d), d // 2
    R[:, -k:] = R[:, :k] + noise * np.random.default_rng(1).normal(size=(n, k))
    return R


def near_collinear():
    rng = np.random.default_rng(0)
    return 0.01 * rng.normal(size=(100, 20)) @ rng.normal(size=(20, 300)) + 1e-7 * rng.normal(size=(100, 300))


SKEWED = 0.0005 - 0.01 * (np.random.default_rng(0).exponential(size=(250, 25)) - 1)
LONG, COSTS = {"constraint": "long_only"}, {"previous_weights": np.array([0.5]), "transaction_cost": 1e-4}
CASES = {
    "entropic, one asset and a budget of 0": (normal(8, 1), "entropic", {"budget": 0.0}),
    "entropic, cost of trades": (normal(1000, 1), "entropic", {"risk_aversion": 3.0, **COSTS}),
    "cvar, near copies": (copied(20, 2, 1e-7), "cvar", LONG),
    "cvar, copies": (copied(1025, 10), "cvar", LONG),
    "cvar, a budget alone": (normal(1000, 5), "cvar", {"budget": 1.0, "risk_aversion": 30.0}),
    "evar, a copy": (copied(500, 5), "evar", LONG),
    "evar, skewed": (SKEWED, "evar", {"confidence": 0.99, **LONG}),
    "evar, l1 and bounds": (normal(25, 300), "evar", {"constraint": (-0.3, 0.6), "l1": 5e-4}),
    "variance, l1 and a budget": (near_collinear(), "variance", {"risk_aversion": np.inf, "l1": 1e-4, "budget": 1.0}),
}


@pytest.mark.parametrize("case", slow_but(CASES, *(c for c in CASES if c != "evar, l1 and bounds")))
def test_found_in_few_iterations(case):
    R, risk_measure, params = CASES[case]
    portfolio = CompositionalPortfolio(risk_measure=risk_measure, random_state=0, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        portfolio.fit(R)
        exact = CompositionalPortfolio("newton", risk_measure=risk_measure, **params).fit(R)
    assert portfolio.stop_reason_ == "converged" and portfolio.n_iter_ <= 150
    d = R.shape[1]
    penalty = portfolio._penalty(d)
    problem = portfolio._problem(R, None, penalty)
    equal = np.full(d, 1 / d) if penalty is None else penalty.project(np.full(d, 1 / d))
    own, best, far = (problem.value_at(w) for w in (portfolio.weights_, exact.weights_, equal))
    spread = max(far - best, 1e-6 * abs(best))
    assert abs(own - best) <= 1e-4 * spread
    assert own - best - 1e-9 * spread <= portfolio.dual_gap_ <= 1e-3 * spread + 1e-12


@pytest.mark.parametrize("measure", ["cvar", "evar", "semideviation"])
@pytest.mark.parametrize("solver", ["auto", "storm-c"])
def test_costs_alone_on_few_periods_end_in_a_warning(measure, solver):
    """It ended in scipy's "f(a) and f(b) must have different signs", or at weights of 400."""
    R = np.random.default_rng(8).normal(0, 0.01, (8, 36))
    held = np.full(36, 1 / 36)
    portfolio = CompositionalPortfolio(
        solver, risk_measure=measure, confidence=0.99, transaction_cost=1e-3, previous_weights=held, random_state=0
    )
    with pytest.warns(ConvergenceWarning):
        portfolio.fit(R)
    assert np.isfinite(portfolio.weights_).all() and portfolio.stop_reason_ != "converged"


@pytest.mark.parametrize("aversion", [1e5, 1e6])
def test_entropic_risk_with_wide_bounds_and_a_large_exponent(aversion):
    """Equal weights were returned, with a warning."""
    R = np.random.default_rng(3).normal(4e-4, 0.01, (300, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        portfolio = CompositionalPortfolio(
            risk_measure="entropic", risk_aversion=aversion, constraint=(-100, 100), budget=1.0
        ).fit(R)
    best = linprog(  # in the limit it is the largest loss
        np.r_[np.zeros(6), 1.0],
        np.column_stack([-R, -np.ones(300)]),
        np.zeros(300),
        np.r_[np.ones(6), 0.0][None],
        [1.0],
        bounds=[(-100, 100)] * 6 + [(None, None)],
    ).fun
    assert best - np.log(300) / aversion - 1e-12 <= portfolio.loss_curve_[-1] <= best + 1e-9


def test_what_sets_no_size_is_refused_in_its_own_words():
    R = np.random.default_rng(0).normal(4e-4, 0.01, (100, 4))
    with pytest.raises(ValueError, match=r"risk_aversion=inf needs a constraint .* the empty portfolio"):
        CompositionalPortfolio(risk_aversion=np.inf, constraint=(-0.5, 0.5)).fit(R)
    with pytest.raises(ValueError, match=r"objective='ratio' needs a constraint .* the same ratio"):
        CompositionalPortfolio(objective="ratio").fit(R)
    CompositionalPortfolio(risk_aversion=np.inf, constraint=(0.1, 0.5)).fit(R)
