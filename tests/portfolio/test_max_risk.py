"""max_risk: the most return within a risk, exact and never beyond the limit."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from test_ratio import risk

from sk_stormc import CompositionalPortfolio

MEASURES = ("variance", "semivariance", "cvar", "evar")


def returns(n=200, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.normal(size=(n, d)) * np.linspace(0.5, 2, d) + np.linspace(2e-4, 2e-3, d)


def fit(R, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return CompositionalPortfolio(**{"constraint": "long_only"} | params).fit(R)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_portfolio_within_the_limit_has_more_return(measure, seed):
    R = returns(seed=seed)
    least = risk(R @ fit(R, risk_measure=measure, risk_aversion=np.inf).weights_, measure)
    limit = 1.3 * least
    portfolio = fit(R, risk_measure=measure, max_risk=limit)
    w = portfolio.weights_
    assert w.sum() == pytest.approx(1) and (w >= 0).all()
    assert risk(R @ w, measure) == pytest.approx(limit, rel=1e-3)
    assert portfolio.score(R) == pytest.approx((R @ w).mean()) and portfolio.loss_curve_[-1] == -portfolio.score(R)
    assert abs(portfolio.dual_gap_) <= 1e-5 * (R @ w).mean()
    theirs = minimize(
        lambda w: -(R @ w).mean(),
        np.full(5, 0.2),
        bounds=[(0, 1)] * 5,
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1},
            {"type": "ineq", "fun": lambda w: limit - risk(R @ w, measure)},
        ],
    )
    assert (R @ w).mean() >= -theirs.fun - 1e-6


def test_the_standard_deviation_is_never_beyond_the_limit():
    for seed in range(5):
        R = returns(seed=seed)
        for limit in (0.0065, 0.008, 0.012, 0.5):
            w = fit(R, max_risk=limit).weights_
            assert (R @ w).std() <= limit * (1 + 1e-9)
    assert w.argmax() == R.mean(axis=0).argmax() and w.max() == pytest.approx(1)  # .5 does not bind


def test_without_bounds_it_is_on_the_frontier():
    R = returns()
    S, m, one = np.cov(R.T, bias=True), R.mean(axis=0), np.ones(5)
    w = fit(R, constraint=None, budget=1.0, max_risk=0.01).weights_
    assert (R @ w).std() == pytest.approx(0.01, rel=1e-6)
    slope = S @ w  # mean = a + b S w on the frontier
    coefficients = np.linalg.lstsq(np.c_[one, slope], m)[0]
    np.testing.assert_allclose(np.c_[one, slope] @ coefficients, m, atol=1e-8)


@pytest.mark.parametrize("measure", ["cvar", "evar"])
def test_return_and_risk_that_grow_alike_without_bounds(measure):
    """Small risk aversions have no minimum there."""
    R = returns(400, 3)
    portfolio = fit(R, risk_measure=measure, constraint=None, budget=1.0, max_risk=0.03)
    assert risk(R @ portfolio.weights_, measure) <= 0.03 * (1 + 1e-3)
    assert portfolio.dual_gap_ <= 1e-5 * portfolio.score(R)


@pytest.mark.parametrize("measure", ["variance", "semivariance", "cvar"])
def test_where_the_empty_portfolio_is_allowed(measure):
    """The search began at weights of 0, and ended far from the limit."""
    R = returns(400)
    given = [{"constraint": (-1.0, 1.0)}, {"constraint": (0.0, 1.0)}] + [{"constraint": None}] * (measure != "cvar")
    for params in given:
        portfolio = fit(R, risk_measure=measure, max_risk=0.01, **params)
        assert risk(R @ portfolio.weights_, measure) == pytest.approx(0.01, rel=1e-3)
        assert portfolio.stop_reason_ == "converged"
    if measure == "variance":  # the multiple of the tangency portfolio that has this deviation
        tangency = np.linalg.solve(np.cov(R.T, bias=True), R.mean(axis=0))
        np.testing.assert_allclose(portfolio.weights_, 0.01 * tangency / (R @ tangency).std(), rtol=1e-3)


def test_a_tracking_error_and_all_limits():
    R = returns()
    held, index = np.full(5, 0.2), R.mean(axis=1)
    limits = {"previous_weights": held, "max_turnover": 0.3, "transaction_cost": 1e-4}
    portfolio = fit(R, benchmark=index, max_risk=0.002, **limits)
    w = portfolio.weights_
    assert (R @ w - index).std() <= 0.002 * (1 + 1e-9) and np.abs(w - held).sum() <= 0.3 + 1e-9


def test_drawdowns_jump_and_are_mixed():
    R = returns(120, 4)
    portfolio = fit(R, risk_measure="cdar", max_risk=0.05)
    path = np.cumsum(R @ portfolio.weights_)
    depth = np.sort(np.maximum(np.maximum.accumulate(path), 0) - path)[::-1]
    assert depth[:6].mean() <= 0.05 * (1 + 1e-9) and portfolio.stop_reason_ == "converged"


def test_what_is_refused():
    R = returns()
    least = (R @ fit(R, risk_aversion=np.inf).weights_).std()
    with pytest.raises(ValueError, match=rf"max_risk must be at least {least:.6g}, the least risk .*got 0.001"):
        fit(R, max_risk=0.001)
    with pytest.raises(ValueError, match="max_risk needs a risk apart"):
        fit(R, max_risk=0.1, risk_measure="entropic")
    with pytest.raises(ValueError, match="max_risk must be None with objective='ratio'"):
        fit(R, max_risk=0.1, objective="ratio")
    with pytest.raises(AttributeError, match="max_risk needs all periods at once"):
        CompositionalPortfolio(max_risk=0.1).partial_fit  # noqa: B018
    for wrong in (0, -1.0, "much", np.nan):
        with pytest.raises(ValueError, match="max_risk must be"):
            fit(R, max_risk=wrong)
