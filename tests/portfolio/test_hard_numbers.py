"""Exact portfolios in tiny and huge units, with far or no bounds, faded periods, cash,
and weights at their limits."""

import warnings

import numpy as np
import pytest
from definitions import risk
from scipy.optimize import linprog

from sk_stormc import CompositionalPortfolio

MEASURES = (
    "variance",
    "semivariance",
    "semideviation",
    "downside",
    "cvar",
    "evar",
    "cdar",
)


def heavy(n_periods, n_assets, seed=0):
    """Returns with common factors and heavy tails."""
    rng = np.random.default_rng(seed)
    factors = (
        0.006 * rng.standard_t(4, (n_periods, 3)) @ rng.normal(0.6, 0.4, (3, n_assets))
    )
    own = (
        0.01
        * rng.standard_t(4, (n_periods, n_assets))
        * rng.uniform(0.5, 1.5, n_assets)
    )
    return 0.0003 + 0.00025 * rng.normal(size=n_assets) + factors + own


def fit(R, **params):
    """A fit that does not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return CompositionalPortfolio(**{"constraint": "long_only"} | params).fit(R)


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("measure", ["variance", "semivariance"])
def test_the_least_risk_is_the_same_in_every_unit(measure, costs):
    R = heavy(300, 8)
    weights = []
    for unit in (1.0, 1e-7, 1e-10, 1e4):
        more = (
            {"previous_weights": np.full(8, 1 / 8), "transaction_cost": 1e-6 * unit**2}
            if costs
            else {}
        )
        weights.append(
            fit(R * unit, risk_measure=measure, risk_aversion=np.inf, **more).weights_
        )
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = CompositionalPortfolio(**params | {"tol": 1e-9}).fit(R).loss_curve_[-1]
        for max_iter in (3, 6, 9, 12):
            portfolio = CompositionalPortfolio(max_iter=max_iter, **params).fit(R)
            gap = portfolio.loss_curve_[-1] - best
            assert portfolio.dual_gap_ >= gap - 1e-12 * abs(best)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_limit_of_the_risk_beside_cash(measure):
    """With cash that earns 1e-5, the mean return less that of cash is nearly
    proportional to a small limit."""
    R = np.column_stack([heavy(250, 6, 3), np.full(250, 1e-5)])
    for limit in (0.0, 1e-9, 1e-6, 1e-4):
        portfolio = fit(R, risk_measure=measure, max_risk=limit)
        assert risk(R @ portfolio.weights_, measure) <= limit + 1e-12
        assert R.mean(axis=0) @ portfolio.weights_ >= 1e-5 - 1e-12
        assert portfolio.dual_gap_ <= 2e-9 + 1e-4 * limit


def drawdown_program(R, aversion, confidence, groups):
    """The least objective of CDaR by a linear program with a row a period. The first
    three assets have a limit."""
    n, d = R.shape
    # variables: w, D_1 .. D_n, s, excesses
    step = np.eye(n) - np.eye(n, k=-1)
    A = np.block(
        [
            [-R, -step, np.zeros((n, n + 1))],
            [np.zeros((n, d)), np.eye(n), -np.ones((n, 1)), -np.eye(n)],
        ]
    )
    first = np.r_[1.0, 1.0, 1.0, np.zeros(d + 2 * n - 2)]
    cost = np.r_[
        -R.mean(axis=0),
        np.zeros(n),
        aversion,
        np.full(n, aversion / n / (1 - confidence)),
    ]
    return linprog(
        cost,
        np.r_[A, first[None]],
        np.r_[np.zeros(2 * n), groups],
        np.r_[np.ones(d), np.zeros(2 * n + 1)][None],
        [1.0],
        [(0, 0.5)] * d + [(0, None)] * n + [(None, None)] + [(0, None)] * n,
    ).fun


@pytest.mark.parametrize(("n", "d"), [(90, 60), (300, 40)])
def test_cdar_of_many_assets_takes_few_iterations(n, d):
    """Cuts of the whole risk, one an iteration, were hundreds to a thousand."""
    R = heavy(n, d, 3)
    portfolio = fit(
        R,
        risk_measure="cdar",
        confidence=0.9,
        risk_aversion=0.3,
        constraint=(0, 0.5),
        budget=1.0,
        linear_constraints=(np.eye(d)[:3].sum(0)[None], None, 0.4),
    )
    assert portfolio.loss_curve_[-1] == pytest.approx(
        drawdown_program(R, 0.3, 0.9, 0.4), abs=1e-9
    )
    assert portfolio.n_iter_ <= 40


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


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("objective", [{"objective": "ratio"}, {"max_risk": 0.02}])
def test_weights_at_limits_are_exactly_there(measure, objective):
    R, held = heavy(400, 20, 1), np.full(20, 0.05)
    if "max_risk" in objective:
        limits = {
            "variance": 0.009,
            "semivariance": 0.006,
            "cvar": 0.02,
            "evar": 0.025,
            "cdar": 0.15,
        }
        objective = {"max_risk": limits.get(measure, 0.006)}
    free = fit(
        R, risk_measure=measure, constraint=(0, 0.1), budget=1.0, **objective
    ).weights_
    traded = {"previous_weights": held, "max_turnover": 0.3}
    near = fit(
        R, risk_measure=measure, constraint=(0, 0.1), budget=1.0, **traded, **objective
    ).weights_
    assert (free == 0).sum() + (free == 0.1).sum() >= 12
    assert (near == 0.05).sum() >= 8
    for w in (free, near):
        assert abs(w.sum() - 1) <= 1e-15 * 20
        for value in (0.0, 0.05, 0.1):
            assert not ((w != value) & (np.abs(w - value) < 1e-7)).any()
