"""Small portfolios that took seconds, or ended wrong: the default solver finds them in few iterations, and says so."""

import warnings

import numpy as np
import pytest
from helpers import slow_but

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
