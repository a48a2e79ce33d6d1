"""The largest mean return per risk: exact, with every constraint that is in proportion to the weights."""

import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import slow_but
from scipy.optimize import minimize

from sk_stormc import CompositionalPortfolio, sharpe_ratio

MEASURES = ("variance", "semivariance", "cvar", "evar")


def returns(n=150, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + rng.uniform(0, 0.002, d)


def fit(X, **params):
    return CompositionalPortfolio(**{"objective": "ratio", "constraint": "long_only"} | params).fit(X)


def risk(y, measure):
    """By its definition."""
    if measure == "variance":
        return y.std()
    if measure == "semivariance":
        return np.sqrt(np.mean(np.minimum(y - y.mean(), 0) ** 2))
    if measure == "cvar":
        part = np.clip(0.05 * len(y) - np.arange(len(y)), 0, 1)
        return (part @ np.sort(-y)[::-1]) / (0.05 * len(y))
    t = np.exp(np.linspace(-4, 3, 801))[:, None] * y.std()
    e = -y / t
    top = e.max(axis=1)
    return (t[:, 0] * (np.log(np.exp(e - top[:, None]).mean(axis=1)) + top + np.log(20))).min()


def test_without_bounds_it_is_the_tangency_portfolio():
    R = returns()
    tangency = np.linalg.solve(np.cov(R.T, bias=True), R.mean(axis=0))
    tangency /= tangency.sum()
    portfolio = fit(R, constraint=None, budget=1.0)
    np.testing.assert_allclose(portfolio.weights_, tangency, rtol=1e-4)
    assert portfolio.score(R) == pytest.approx(sharpe_ratio(portfolio, R))
    assert portfolio.score(R) == pytest.approx(-portfolio.loss_curve_[-1])


@pytest.mark.parametrize("measure", MEASURES)
def test_no_portfolio_has_a_larger_ratio(measure):
    R = returns(seed=1)
    limits = {"constraint": (0.0, 0.5), "budget": 1.0, "linear_constraints": ([1, 1, 0, 0, 0], 0.1, 0.4)}
    portfolio = fit(R, risk_measure=measure, **limits)
    w = portfolio.weights_
    found = (R @ w).mean() / risk(R @ w, measure)
    assert w.sum() == pytest.approx(1) and (w >= 0).all() and (w <= 0.5).all()
    assert 0.1 - 1e-8 <= w[:2].sum() <= 0.4 + 1e-8
    assert found == pytest.approx(-portfolio.loss_curve_[-1], rel=1e-4) and portfolio.stop_reason_ == "converged"
    assert 0 <= portfolio.dual_gap_ <= 1e-5 * found
    theirs = minimize(
        lambda w: -(R @ w).mean() / risk(R @ w, measure),
        w,
        bounds=[(0, 0.5)] * 5,
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1},
            {"type": "ineq", "fun": lambda w: [w[:2].sum() - 0.1, 0.4 - w[:2].sum()]},
        ],
        options={"ftol": 1e-12, "maxiter": 100},
    )
    assert found >= -theirs.fun - 1e-5 * found
    for other in np.random.default_rng(0).dirichlet(np.ones(5), 300):
        if other.max() <= 0.5 and 0.1 <= other[:2].sum() <= 0.4:
            assert (R @ other).mean() / risk(R @ other, measure) <= found + 1e-6


def test_the_information_ratio():
    R = returns(seed=2)
    b = R @ np.array([0.4, 0.3, 0.1, 0.1, 0.1]) + 0.001 * np.random.default_rng(0).normal(size=len(R))
    by_benchmark, shifted = fit(R, benchmark=b), fit(R - b[:, None])
    np.testing.assert_allclose(by_benchmark.weights_, shifted.weights_, atol=1e-5)
    table = pd.DataFrame(R, columns=list("abcde")).assign(index=b)
    by_column = fit(table, benchmark="index")
    np.testing.assert_allclose(by_column.weights_, np.append(by_benchmark.weights_, 0), atol=1e-5)
    assert by_column.score(table) == pytest.approx(shifted.score(R - b[:, None]), rel=1e-4)


def test_weights_of_periods_and_units():
    R = returns(seed=3)
    weight = np.random.default_rng(0).integers(0, 3, len(R))
    np.testing.assert_allclose(
        fit(R, risk_measure="cvar").weights_, fit(1e4 * R, risk_measure="cvar").weights_, atol=1e-5
    )
    for measure in MEASURES:
        weighted = CompositionalPortfolio(objective="ratio", risk_measure=measure, constraint="long_only")
        weighted.fit(R, sample_weight=weight)
        repeated = fit(np.repeat(R, weight, axis=0), risk_measure=measure)
        np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-5)


COSTS = {
    "cost": {"constraint": "long_only", "transaction_cost": 2e-4},
    "l1": {"constraint": (-0.3, 0.5), "budget": 1.0, "l1": 1e-4},
    "trades": {"constraint": "long_only", "max_turnover": 0.3},
    "all": {
        "constraint": (-0.1, 0.6), "budget": 1.0, "l1": 1e-4, "max_turnover": 0.3, "benchmark": np.full(150, 1e-4),
        "transaction_cost": [1e-4, 0, 2e-4, 0, 0], "linear_constraints": ([1, 1, 0, 0, 0], 0.68, 0.7),
    },
}  # fmt: skip


@pytest.mark.parametrize("measure", slow_but(["cvar", "semideviation", "downside", "cdar"], "cvar", "downside"))
@pytest.mark.parametrize("case", COSTS)
def test_costs_and_limits_on_trades(case, measure):
    """By Dinkelbach: at the largest ratio of the mean return less costs to the risk, the best utility is 0."""
    R, params = returns(seed=4), {"previous_weights": [0.5, 0.3, 0.2, 0, 0], "risk_measure": measure} | COSTS[case]
    portfolio = fit(R, **params)
    found = -portfolio.loss_curve_[-1]
    utility = CompositionalPortfolio("newton", risk_aversion=found, **params).fit(R)
    assert found > 0 and portfolio.stop_reason_ == "converged" and 0 <= portfolio.dual_gap_ + 1e-9 <= 1e-5 * found
    assert utility.loss_curve_[-1] == pytest.approx(0, abs=1e-8)
    np.testing.assert_allclose(portfolio.weights_, utility.weights_, atol=1e-4)
    if "max_turnover" in params:
        assert np.abs(portfolio.weights_ - params["previous_weights"]).sum() <= 0.3 + 1e-8


def test_the_sharpe_ratio_with_costs():
    R, w = returns(seed=5), np.full(5, 0.2)
    portfolio = fit(R, previous_weights=w, transaction_cost=3e-4)
    best = portfolio.weights_

    def net(w):
        return ((R @ w).mean() - 3e-4 * np.abs(w - 0.2).sum()) / (R @ w).std()

    assert net(best) == pytest.approx(-portfolio.loss_curve_[-1], rel=1e-6) and net(best) < portfolio.score(R)
    assert net(best) >= max(net(other) for other in np.random.default_rng(0).dirichlet(np.ones(5), 500))
    near = best + 1e-3 * np.random.default_rng(0).normal(size=(300, 5))
    near = np.maximum(near, 0) / np.maximum(near, 0).sum(axis=1, keepdims=True)
    assert net(best) >= max(net(other) for other in near) - 1e-7


@pytest.mark.slow
def test_as_many_assets_as_newton_takes():
    R = 0.01 * np.random.default_rng(0).normal(size=(700, 500)) + 0.001
    portfolio = fit(R)
    assert portfolio.stop_reason_ == "converged" and portfolio.weights_.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"risk_measure": "entropic"}, "risk_measure='entropic'"),
        ({"constraint": (0.0, 1.0), "budget": 1.0, "l1": 0.1}, "less its costs, is positive"),
        ({"transaction_cost": 0.1}, "less its costs, is positive"),
        ({"constraint": None}, "sets the size"),
        ({"solver": "lbfgs"}, "lbfgs.*newton"),
        ({"solver": "moments"}, "moments.*newton"),
        ({"objective": "gain"}, "objective must be one of"),
    ],
)
def test_what_cannot_be_is_said(params, words):
    with pytest.raises(ValueError, match=words):
        fit(returns(), **params)


def test_a_ratio_without_a_maximum():
    R = returns()
    with pytest.raises(ValueError, match="is positive, but no feasible one"):
        fit(R - 0.01)
    R[:, 0] = 0.0003
    with pytest.raises(ValueError, match="no risk"):
        fit(R)


def test_streams_have_no_ratio():
    portfolio = CompositionalPortfolio(objective="ratio", constraint="long_only")
    assert not hasattr(portfolio, "partial_fit")
    with pytest.raises(AttributeError, match="for partial_fit set objective='utility'"):
        portfolio.partial_fit(returns())


def true_ratio(R, w, measure):
    """By definition, with a confidence of .95 and order 2."""
    y = R @ w
    if measure in ("semideviation", "downside"):
        about = y.mean() if measure == "semideviation" else 0.0
        return y.mean() / np.sqrt(np.mean(np.minimum(y - about, 0) ** 2))
    return y.mean() / risk(y, measure)


@pytest.mark.parametrize("measure", ["variance", "cvar", "evar", "semideviation", "downside"])
def test_a_limit_on_turnover_is_kept_and_the_claim_is_true(measure):
    """Trades were .306 for a limit of .1, and the claimed ratio was ten times the true one."""
    rng = np.random.default_rng(16)
    R, held = rng.normal(5e-4, 0.01, (250, 5)), np.full(5, 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        portfolio = fit(R, risk_measure=measure, previous_weights=held, max_turnover=0.1)
    w = portfolio.weights_
    assert np.abs(w - held).sum() <= 0.1 + 1e-9 and w.sum() == pytest.approx(1) and (w >= 0).all()
    claimed = -portfolio.loss_curve_[-1]
    assert claimed == pytest.approx(true_ratio(R, w, measure), rel=1e-4)
    for _ in range(200):  # no other trade is better
        way = rng.normal(size=5)
        way -= way.mean()
        other = held + 0.1 * way / np.abs(way).sum()
        assert true_ratio(R, other, measure) <= claimed * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("measure", ["variance", "cvar"])
def test_a_walk_with_all_limits_breaks_none(measure, seed):
    rng = np.random.default_rng(seed)
    R, held = 0.01 * rng.standard_t(4, size=(120, 8)) + 1e-3, rng.dirichlet(np.ones(8))
    limits = {"linear_constraints": (np.eye(8)[:2], held[:2] - 0.05, held[:2] + 0.05), "transaction_cost": 1e-4}
    portfolio = fit(R, risk_measure=measure, previous_weights=held, max_turnover=0.2, **limits)
    w = portfolio.weights_
    assert np.abs(w - held).sum() <= 0.2 + 2e-9 and (np.abs(w - held)[:2] <= 0.05 + 1e-9).all() and (w >= 0).all()
    costs = 1e-4 * np.abs(w - held).sum()
    claimed = true_ratio(R, w, measure) * (1 - costs / (R @ w).mean())
    assert -portfolio.loss_curve_[-1] == pytest.approx(claimed, rel=1e-3)
    assert 0 <= portfolio.dual_gap_ + 1e-9 <= 1e-4 * claimed


@pytest.mark.parametrize("measure", ["semideviation", "downside"])
def test_a_nearly_riskless_column_within_bounds(measure):
    """The ratio was .135, and the riskless column alone has four times as much."""
    rng = np.random.default_rng(1)
    R = np.c_[rng.normal(2e-6, 1e-5, (500, 1)), rng.normal(5e-4, 0.01, (500, 3))]
    portfolio = fit(R, risk_measure=measure, order=1, constraint=(0, 0.6))
    alone = fit(R[:, :1], risk_measure=measure, order=1, constraint=(0, 0.6))
    assert portfolio.loss_curve_[-1] < alone.loss_curve_[-1] and portfolio.stop_reason_ == "converged"
    assert 0 <= portfolio.dual_gap_ <= 1e-4 * -portfolio.loss_curve_[-1]


@pytest.mark.parametrize("measure", ["variance", "semivariance", "cvar", "evar", "semideviation", "downside"])
def test_a_constant_column_has_no_risk_with_every_measure(measure):
    """Semivariance "converged" with a gap of 8e7."""
    R = np.c_[np.full(200, 2e-4), returns(200, 3)]
    with pytest.raises(ValueError, match="a portfolio has no risk"):
        fit(R, risk_measure=measure)


@pytest.mark.parametrize("measure", ["variance", "semivariance", "semideviation"])
def test_nearly_constant_cash(measure):
    rng = np.random.default_rng(2)
    R = np.c_[2e-4 + 1e-6 * rng.normal(size=500), rng.normal(5e-4, 0.01, (500, 3))]
    alone = true_ratio(R, np.eye(4)[0], measure)
    portfolio = fit(R, risk_measure=measure)
    assert -portfolio.loss_curve_[-1] >= alone * (1 - 1e-9) and portfolio.stop_reason_ == "converged"


def test_no_false_alarms_with_short_positions_and_costs():
    """A third of plain maximum Sharpe ratios warned at the optimum."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(12):
            rng = np.random.default_rng(seed)
            R = rng.normal(5e-4, 0.01, (500, 10))
            portfolio = fit(R, constraint=None, budget=1.0)
            tangency = np.linalg.solve(np.cov(R.T, bias=True), R.mean(axis=0))
            assert -portfolio.loss_curve_[-1] == pytest.approx(true_ratio(R, tangency, "variance"), rel=1e-6)
            fit(R, previous_weights=np.full(10, 0.1), transaction_cost=1e-5)
            fit(R, constraint=(-0.3, 0.3), budget=0.0)
            CompositionalPortfolio(constraint=(0, 0.3), risk_aversion=5.0).fit(R - 0.002)  # the empty portfolio is best


def test_near_copies_under_a_budget():
    """[.5, .5] was claimed to have .31, and has .03."""
    rng = np.random.default_rng(2)
    R = rng.normal(5e-4, 0.01, (300, 2))
    R[:, 1] = R[:, 0] + 1e-7 * rng.normal(size=300)
    for params in ({"constraint": None, "budget": 1.0}, {}):
        portfolio = fit(R, **params)
        claimed = -portfolio.loss_curve_[-1]
        assert claimed == pytest.approx(true_ratio(R, portfolio.weights_, "variance"), rel=1e-4)
