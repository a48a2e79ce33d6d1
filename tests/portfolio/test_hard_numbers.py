"""Exact portfolios in tiny and huge units, with far or no bounds, faded periods, cash,
and weights at their limits."""

import warnings

import definitions
import numpy as np
import pytest
from definitions import make_returns, risk
from definitions import strict_fit as fit

from sk_stormc import CompositionalPortfolio

MEASURES = [measure for measure in definitions.MEASURES if measure != "entropic"]


def heavy(n_periods, n_assets, seed=0):
    """Returns with common factors and heavy tails."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_t(4, (n_periods, 3)) @ rng.normal(0.6, 0.4, (3, n_assets))
    factors *= 0.006
    own = 0.01 * rng.standard_t(4, (n_periods, n_assets))
    own *= rng.uniform(0.5, 1.5, n_assets)
    return 0.0003 + 0.00025 * rng.normal(size=n_assets) + factors + own


@pytest.mark.parametrize("costs", [False, True])
def test_the_least_risk_is_the_same_in_every_unit(costs, measure="semivariance"):
    R, weights = heavy(150, 6), []
    for unit in (1.0, 1e-10, 1e4):
        given = {"risk_measure": measure, "risk_aversion": np.inf}
        if costs:
            given["previous_weights"] = np.full(6, 1 / 6)
            given["transaction_cost"] = 1e-6 * unit**2
        weights.append(fit(R * unit, **given).weights_)
        np.testing.assert_allclose(weights[-1], weights[0], atol=1e-5)


def test_the_bound_of_the_gap_holds_for_large_weights_without_bounds():
    """It was 4e-7 for a gap of 1e-4: weights beyond twice the largest were not
    considered."""
    rng = np.random.default_rng(4)
    R = heavy(250, 4, 2)
    R = np.column_stack([R, R[:, 0] + 1e-5 * rng.normal(size=250)])
    params = {
        "risk_measure": "semivariance",
        "risk_aversion": 5.0,
        "constraint": None,
        "tol": 1e-1,
    }
    check_gaps(R, (3, 6, 9, 12), params)


def check_gaps(R, budgets, params):
    """The gap of fits that end early covers the best portfolio."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = CompositionalPortfolio(**params | {"tol": 1e-9}).fit(R).loss_curve_[-1]
        for max_iter in budgets:
            portfolio = CompositionalPortfolio(max_iter=max_iter, **params).fit(R)
            gap = portfolio.loss_curve_[-1] - best
            assert portfolio.dual_gap_ >= gap - 1e-12 * abs(best)


def test_the_bound_of_the_gap_holds_for_all_quantiles_of_the_losses():
    """Those of CVaR, which is minimised over them, are as large as the weights."""
    bounds = {"constraint": (-1000, 1000), "budget": 1.0}
    params = {"risk_measure": "cvar", "confidence": 0.05, "risk_aversion": 2.0}
    check_gaps(make_returns(60, 4, 10), (1, 2), params | bounds)


@pytest.mark.parametrize("measure", ["variance", "downside", "cvar", "cdar"])
def test_a_limit_of_the_risk_beside_cash(measure):
    """With cash that earns 1e-5, the mean return less that of cash is nearly
    proportional to a small limit."""
    R = np.column_stack([heavy(120, 4, 3), np.full(120, 1e-5)])
    for limit in (0.0, 1e-9, 1e-4):
        portfolio = fit(R, risk_measure=measure, max_risk=limit)
        assert risk(R @ portfolio.weights_, measure) <= limit + 1e-12
        assert R.mean(axis=0) @ portfolio.weights_ >= 1e-5 - 1e-12
        assert portfolio.dual_gap_ <= 2e-9 + 1e-4 * limit


@pytest.mark.parametrize(("n", "d"), [(90, 60), (150, 30)])
def test_cdar_of_many_assets_takes_few_iterations(n, d):
    """Cuts of the whole risk, one an iteration, were hundreds to a thousand."""
    portfolio = fit(
        heavy(n, d, 3),
        risk_measure="cdar",
        confidence=0.9,
        risk_aversion=0.3,
        constraint=(0, 0.5),
        budget=1.0,
        linear_constraints=(np.eye(d)[:3].sum(0)[None], None, 0.4),
    )
    assert portfolio.dual_gap_ <= 1e-9 and portfolio.n_iter_ <= 40


def test_a_ratio_without_drawdowns_has_no_maximum():
    R = np.random.default_rng(0).normal(0.0, 0.01, (60, 60))
    with pytest.raises(ValueError, match="no maximum: a portfolio has no risk"):
        fit(
            R,
            risk_measure="cdar",
            objective="ratio",
            constraint=(-1.0, 1.0),
            budget=1.0,
        )


@pytest.mark.parametrize(
    ("measure", "objective"),
    [
        *[(measure, {"objective": "ratio"}) for measure in MEASURES],
        ("semivariance", {"max_risk": 0.006}),
        ("cvar", {"max_risk": 0.02}),
    ],
)
def test_weights_at_limits_are_exactly_there(measure, objective):
    R, held = heavy(400, 20, 1), np.full(20, 0.05)
    objective = objective | {
        "risk_measure": measure,
        "constraint": (0, 0.1),
        "budget": 1.0,
    }
    free = fit(R, **objective).weights_
    near = fit(R, previous_weights=held, max_turnover=0.3, **objective).weights_
    assert (free == 0).sum() + (free == 0.1).sum() >= 12
    assert (near == 0.05).sum() >= 8
    for w in (free, near):
        assert abs(w.sum() - 1) <= 1e-15 * 20
        for value in (0.0, 0.05, 0.1):
            assert not ((w != value) & (np.abs(w - value) < 1e-7)).any()
