"""The largest mean return per risk, and the most return within a risk. Every constraint
is in tests/pairs."""

import warnings

import numpy as np
import pytest
from definitions import make_returns, risk
from definitions import strict_fit as fit
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio, sharpe_ratio


def ratio(X, sample_weight=None, **params):
    return fit(X, sample_weight, objective="ratio", **params)


def test_without_bounds_it_is_the_tangency_portfolio():
    """A third of plain maximum Sharpe ratios warned at the optimum."""
    for seed in range(3):
        R = np.random.default_rng(seed).normal(5e-4, 0.01, (300, 8))
        tangency = np.linalg.solve(np.cov(R.T, bias=True), R.mean(axis=0))
        portfolio = ratio(R, constraint=None, budget=1.0)
        assert portfolio.score(R) == pytest.approx(
            (R @ tangency).mean() / (R @ tangency).std(), rel=1e-6
        )
        assert portfolio.score(R) == pytest.approx(sharpe_ratio(portfolio, R))
        assert portfolio.score(R) == pytest.approx(-portfolio.loss_curve_[-1])
        ratio(R, constraint=(-0.3, 0.3), budget=0.0)


@pytest.mark.parametrize(
    ("measure", "order"), [("variance", 2), ("semivariance", 2), ("downside", 1)]
)
def test_nearly_riskless_columns_and_near_copies(measure, order):
    """The ratio was .135, and the riskless column alone has four times as much."""
    rng = np.random.default_rng(1)
    R = np.c_[rng.normal(2e-6, 1e-5, (500, 1)), rng.normal(5e-4, 0.01, (500, 3))]
    for bounds in ({}, {"constraint": (0, 0.6)}):
        portfolio = ratio(R, risk_measure=measure, order=order, **bounds)
        alone = R[:, 0].mean() / risk(R[:, 0], measure, order=order)
        assert portfolio.stop_reason_ == "converged"
        assert -portfolio.loss_curve_[-1] >= alone * (1 - 1e-9)
        assert 0 <= portfolio.dual_gap_ + 1e-9 <= 1e-4 * -portfolio.loss_curve_[-1]
    R = rng.normal(5e-4, 0.01, (300, 2))
    R[:, 1] = R[:, 0] + 1e-7 * rng.normal(size=300)
    # .31 was claimed for .03
    y = R @ (portfolio := ratio(R, risk_measure=measure, order=order)).weights_
    assert -portfolio.loss_curve_[-1] == pytest.approx(
        y.mean() / risk(y, measure, order=order), rel=1e-4
    )


@pytest.mark.parametrize("measure", ["variance", "cvar", "downside"])
def test_the_gap_covers_an_asset_minus_its_near_copy(measure):
    """For all but CDaR, some portfolio was above the ratio plus its gap."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        r = rng.normal(1e-5, 0.01, 60)
        difference = 0.01 * 10.0 ** rng.uniform(-8, -5) * rng.normal(0.2, 1, 60)
        R = np.column_stack([r, r + difference])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            portfolio = CompositionalPortfolio(
                objective="ratio", risk_measure=measure, constraint=(-0.4, 0.6)
            ).fit(R)
        stated = portfolio.dual_gap_ - portfolio.loss_curve_[-1]
        # 0 is feasible, so only the quotient of the weights counts
        shares = np.r_[0.0, np.logspace(-2, 2, 25)] * difference.std() / r.std()
        for net in np.r_[-shares, shares]:
            for y in (net * r + difference, net * r - difference):
                if y.mean() > 0:
                    assert y.mean() / risk(y, measure) <= stated * (1 + 1e-9)


def test_cutting_planes_end_without_progress():
    """With old periods of hardly any weight, cuts changed nothing for 1,000
    iterations, which took minutes."""
    rng = np.random.default_rng(2)
    R = 0.0105 - 0.01 * rng.exponential(size=(1000, 4))
    portfolio = ratio(
        R,
        risk_measure="cdar",
        confidence=0.9,
        half_life=10,
        constraint=(-0.3, 0.6),
        previous_weights=rng.dirichlet(np.ones(4)),
        max_turnover=0.01,
        max_iter=80,
    )
    assert portfolio.stop_reason_ == "converged"


@pytest.mark.parametrize("measure", ["semivariance", "cvar", "evar"])
def test_a_ratio_without_a_maximum(measure):
    """Semivariance "converged" with a gap of 8e7."""
    R = make_returns()
    with pytest.raises(ValueError, match="is positive, but no feasible one"):
        ratio(R - 0.02, risk_measure=measure)
    with pytest.raises(ValueError, match="a portfolio has no risk"):
        ratio(np.c_[np.full(150, 2e-4), R], risk_measure=measure)


# the most return within a risk


def test_the_standard_deviation_is_never_beyond_the_limit():
    R = make_returns(80, seed=1)
    for limit in (0.9, 1.2):
        limit *= R.std(axis=0).min()
        assert (R @ fit(R, max_risk=limit).weights_).std() <= limit * (1 + 1e-9)
    # which does not bind
    assert fit(R, max_risk=0.5).weights_[R.mean(axis=0).argmax()] == pytest.approx(1)
    S, m = np.cov(R.T, bias=True), R.mean(axis=0)
    w = fit(
        R, constraint=None, budget=1.0, max_risk=0.01
    ).weights_  # on the frontier mean = a + b S w
    coefficients = np.linalg.lstsq(np.c_[np.ones(6), S @ w], m)[0]
    np.testing.assert_allclose(np.c_[np.ones(6), S @ w] @ coefficients, m, atol=1e-8)


@pytest.mark.parametrize("measure", ["cvar", "cdar", "variance"])
def test_a_limit_equal_to_the_least_risk(measure):
    """The mixture with the least risk moved by 1e-9 a step, for hours."""
    R = make_returns(40, 4)
    w = fit(R, risk_measure=measure, risk_aversion=np.inf).weights_
    smallest = risk(R @ w, measure)
    for above in (1e-15, 4e-14):
        limit = smallest * (1 + above)
        found = fit(R, risk_measure=measure, max_risk=limit).weights_
        assert risk(R @ found, measure) <= limit * (1 + 1e-9)


def test_limits_that_are_missed_are_named():
    """The advice was to raise max_iter."""
    R, row = make_returns(), [1.0, 1, 0, 0, 0, 0]
    limits = [row, row], [0.5, -np.inf], [np.inf, 0.5 - 2e-7]
    with pytest.warns(ConvergenceWarning, match="miss 'row 0 of linear_constraints'"):
        CompositionalPortfolio(constraint="long_only", linear_constraints=limits).fit(R)


@pytest.mark.parametrize("measure", ["variance", "cdar"])
def test_a_limit_of_the_risk_keeps_its_budget(measure):
    """No part of the search goes on beyond the budget."""
    R = make_returns(60, 4)
    portfolio = CompositionalPortfolio(
        constraint="long_only", risk_measure=measure, max_risk=0.02, max_iter=3
    )
    with pytest.warns(ConvergenceWarning, match="after 3 iterations"):
        portfolio.fit(R)
    assert portfolio.n_iter_ == 3
