"""The second-order method in any unit, and on ugly returns. Every risk measure with every
constraint is in tests/pairs."""

import numpy as np
import pytest
from definitions import MEASURES, make_returns, risk, utility
from definitions import strict_fit as fit
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio

SQUARED = ("variance", "semivariance", "entropic")


@pytest.mark.parametrize("measure", MEASURES)
def test_weights_depend_on_neither_unit_nor_shift(measure):
    R, unit = make_returns(), 1e-5 if measure in SQUARED else 1.0
    plain = fit(R, risk_measure=measure, risk_aversion=30.0).weights_
    shift = 0.0 if measure in ("downside", "cdar") else 100.0  # not about the mean
    found = fit(1e-5 * (R + shift), risk_measure=measure, risk_aversion=30.0 / unit)
    np.testing.assert_allclose(found.weights_, plain, atol=2e-5)
    single = fit(R.astype(np.float32), risk_measure=measure, risk_aversion=30.0)
    assert single.weights_.dtype == np.float32
    np.testing.assert_allclose(single.weights_, plain, atol=2e-3)


def near_copies():
    R = make_returns(300, 8)
    R[:, -1] = R[:, 0] + 1e-7 * np.random.default_rng(1).normal(size=len(R))
    return R


@pytest.mark.parametrize("measure", MEASURES)
def test_forced_answers_are_exact(measure):
    """One asset and a budget took 2,000 iterations on 2,500 periods; a last bit
    depended on the processor."""
    R = make_returns()
    np.testing.assert_array_equal(
        fit(R, risk_measure=measure, constraint=(0.125, 0.125)).weights_,
        np.full(6, 0.125),
    )
    budget = fit(R, risk_measure=measure, constraint=(1 / 6, 1.0), budget=1.0)
    np.testing.assert_allclose(budget.weights_, np.full(6, 1 / 6), rtol=1e-12)
    one = fit(R[:, :1], risk_measure=measure, constraint=(-1.0, 1.0), budget=0.5)
    assert one.weights_ == 0.5 and one.n_iter_ <= 1 and one.stop_reason_ == "converged"
    both = fit(
        R[:, :2], risk_measure=measure, linear_constraints=([1.0, 0.0], 0.3, 0.3)
    )
    np.testing.assert_allclose(both.weights_, [0.3, 0.7], rtol=1e-15)


SKEWED = 0.0005 - 0.01 * (np.random.default_rng(0).exponential(size=(250, 25)) - 1)
HARD = {
    "one asset and a budget of 0": (
        make_returns(8, 1),
        "entropic",
        {"constraint": None, "budget": 0.0},
    ),
    "near copies": (near_copies()[:20, [0, 7]], "cvar", {}),
    "a budget alone": (
        make_returns(1000, 5),
        "cvar",
        {"constraint": None, "budget": 1.0, "risk_aversion": 30.0},
    ),
    "skewed": (SKEWED, "evar", {"confidence": 0.99}),
    "more assets than periods": (
        make_returns(25, 100),
        "evar",
        {"constraint": (-0.3, 0.6), "l1": 5e-4},
    ),
}


@pytest.mark.parametrize("case", HARD)
def test_few_iterations(case):
    R, measure, params = HARD[case]
    portfolio = fit(R, risk_measure=measure, **params)
    assert portfolio.stop_reason_ == "converged" and portfolio.n_iter_ <= 150
    assert abs(portfolio.dual_gap_) <= 1e-4 * max((R @ portfolio.weights_).std(), 1e-9)


@pytest.mark.parametrize("measure", ["entropic", "semideviation", "downside"])
def test_near_copies_within_a_turnover(measure):
    """The Newton system is nearly singular. Without iterative refinement there are 40
    iterations and more."""
    held = {"max_turnover": 0.1, "previous_weights": np.full(7, 1 / 7)}
    for seed in (0, 6):
        rng = np.random.default_rng(seed)
        R = 0.001 + 0.01 * rng.standard_t(4, size=(200, 6))
        portfolio = fit(
            np.column_stack([R, R[:, 0] + 1e-7 * rng.normal(size=200)]),
            risk_measure=measure,
            **held,
        )
        assert portfolio.stop_reason_ == "converged" and portfolio.n_iter_ <= 20


@pytest.mark.parametrize("measure", ["semideviation", "downside"])
def test_a_portfolio_without_losses(measure):
    """The root bends without end where nothing is lost; with fewer periods than assets
    that is the best portfolio."""
    R = np.random.default_rng(0).normal(size=(8, 20))
    best = linprog(  # without risk the best is a linear program
        -R.mean(axis=0),
        R.mean(axis=0) - R if measure == "semideviation" else -R,
        np.zeros(8),
        np.ones((1, 20)),
        [1.0],
        bounds=(-0.3, 0.3),
    ).fun
    for order in (2, 3):
        params = {"constraint": (-0.3, 0.3), "budget": 1.0, "risk_aversion": 20.0}
        portfolio = fit(R, risk_measure=measure, order=order, **params)
        assert risk(R @ portfolio.weights_, measure, order=order) < 1e-6
        assert portfolio.loss_curve_[-1] == pytest.approx(best, abs=1e-5)
        assert 0 <= portfolio.dual_gap_ + 1e-9 < 1e-5


@pytest.mark.parametrize("aversion", [1e5, 1e6])
def test_entropic_risk_with_a_large_exponent(aversion):
    """Equal weights were returned, with a warning."""
    R = np.random.default_rng(3).normal(4e-4, 0.01, (300, 6))
    w = fit(
        R,
        risk_measure="entropic",
        risk_aversion=aversion,
        constraint=(-100, 100),
        budget=1.0,
    ).weights_
    best = linprog(  # the least of the largest loss
        np.r_[np.zeros(6), 1.0],
        np.column_stack([-R, -np.ones(300)]),
        np.zeros(300),
        np.r_[np.ones(6), 0.0][None],
        [1.0],
        [(-100, 100)] * 6 + [(None, None)],
    ).fun
    value = utility(w, R, "entropic", aversion)
    assert best - np.log(300) / aversion - 1e-12 <= value <= best + 1e-9


def test_near_copies_without_bounds():
    R = near_copies()
    triangle = np.linalg.qr((R - R.mean(axis=0)) / np.sqrt(len(R)), mode="r")
    best = np.linalg.solve(triangle, np.linalg.solve(triangle.T, R.mean(axis=0))) / 20
    assert np.abs(best).max() > 1e3
    values = [
        utility(w, R, "variance", 10.0)
        for w in (fit(R, constraint=None, risk_aversion=10.0).weights_, best)
    ]
    assert values[0] <= values[1] + 1e-6 * abs(values[1])


def test_no_minimum_is_no_convergence():
    """The empty portfolio was returned with a gap of 0, or scipy raised an error."""
    R, few = make_returns(), make_returns(8, 36)
    combination = "has no minimum, since some combination of assets"
    tail = {"risk_measure": "cvar", "confidence": 0.99, "transaction_cost": 1e-4}
    above = {"risk_measure": "semideviation", "transaction_cost": 1e-4}
    for X, params, words in (
        (R[:6], {}, combination),
        (np.c_[R, np.full(150, 0.01)], {}, combination),
        (np.c_[R, np.full(150, 3e-4)], {"risk_measure": "entropic"}, "has no minimum"),
        (few, tail, "converged"),
        (few, above, "converged"),
    ):
        with pytest.warns(ConvergenceWarning, match=words):
            portfolio = CompositionalPortfolio("newton", **params).fit(X)
        assert portfolio.stop_reason_ != "converged" and portfolio.dual_gap_ > 0
        assert np.isfinite(portfolio.weights_).all()


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["utility", "ratio"])
def test_more_than_five_hundred_assets(objective):
    """The S&P 500 has 503 columns, and ratios refused more than 500."""
    portfolio = fit(
        0.01 * np.random.default_rng(1).normal(size=(510, 503)) + 1e-3,
        objective=objective,
    )
    assert portfolio.stop_reason_ == "converged"
    assert portfolio.weights_.sum() == pytest.approx(1)
