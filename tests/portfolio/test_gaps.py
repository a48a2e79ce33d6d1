"""dual_gap_ of fits that end early: valid, and near the true gap, with each measure."""

import warnings

import numpy as np
import pytest
from helpers import few_of
from scipy.optimize import linprog

from sk_stormc import CompositionalPortfolio
from sk_stormc.penalties import Box, Simplex
from sk_stormc.portfolio.second_order.limits import KEPT, Turnover, linear_minimum

MEASURES = ("variance", "semivariance", "entropic", "cvar", "evar", "semideviation", "downside")


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("params", few_of([{"constraint": "long_only"}, {"constraint": (-0.4, 0.4), "l1": 1e-5}], 1))
def test_a_fit_that_ends_early_knows_how_far_it_is(measure, params):
    rng = np.random.default_rng(7)
    R = 0.01 * rng.normal(size=(1200, 10)) @ (np.eye(10) + 0.5 * rng.normal(size=(10, 10))) + rng.normal(0, 4e-4, 10)
    aversion = 20.0 if measure in MEASURES[:3] else 0.05
    given = {"risk_measure": measure, "risk_aversion": aversion, "random_state": 0, **params}
    best = CompositionalPortfolio("newton", **given).fit(R)
    for solver in ("storm-c", "sarah-c"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            early = CompositionalPortfolio(solver, max_iter=4, **given).fit(R)
        true = early.loss_curve_[-1] - best.loss_curve_[-1]
        assert true > 0 and true - 1e-12 <= early.dual_gap_ <= 10 * true + 1e-8


def test_a_point_that_misses_a_constraint_by_a_billionth_is_put_on_it():
    params = {"constraint": "long_only", "linear_constraints": ([1.0, 2.0, 0.0], 0.5, 0.5)}
    penalty = CompositionalPortfolio(**params)._penalty(3)
    held = penalty.project(np.full(3, 1 / 3))
    beside = held + 5e-10 * np.array([1.0, 0.0, -1.0])
    assert 0 < penalty.missed(beside) <= KEPT and (penalty.project(beside) == penalty.nearly(beside)).all()
    assert penalty.missed(penalty.project(beside, kept=0.0)) < 1e-14


@pytest.mark.slow
def test_the_bound_of_a_riskless_portfolio():
    """Its return does not vary, so that it is no measure of how far weights may go."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        portfolio = CompositionalPortfolio(risk_measure="entropic", risk_aversion=0.01, random_state=0)
        portfolio.fit(np.full((2000, 1), 0.0003))
    assert not portfolio.dual_gap_ < 0  # the objective has no minimum


@pytest.mark.parametrize("seed", range(4))
def test_the_gap_of_an_exact_minimum_is_not_negative(seed):
    R = 0.01 * np.random.default_rng(seed).normal(size=(1000, 1)) + 0.0005
    costs = {"constraint": (-1.0, 1.0), "previous_weights": np.array([0.5]), "transaction_cost": 1e-4}
    portfolio = CompositionalPortfolio(risk_measure="entropic", risk_aversion=3.0, random_state=0, **costs).fit(R)
    assert 0 <= portfolio.dual_gap_ < 1e-9 and portfolio.stop_reason_ == "converged"


@pytest.mark.parametrize("solver", ["auto", "storm-c"])
@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1.0, 1e4])
def test_a_column_of_cash_beside_returns_of_any_scale(solver, scale):
    """A gap of 0 was stated where the objective was far above its minimum."""
    rng = np.random.default_rng(0)
    R = rng.normal(0.03, 1, (250, 12)) * scale
    R[:, -1] = 0.0
    given = {"risk_aversion": 0.5 / scale, "constraint": "long_only", "random_state": 0}
    portfolio = CompositionalPortfolio(solver, **given).fit(R)

    def objective(w):
        return -(R @ w).mean() + 0.5 / scale * (R @ w).var()

    best = CompositionalPortfolio("newton", **given).fit(R).weights_
    true = objective(portfolio.weights_) - objective(best)
    assert true <= 1e-3 * abs(objective(best)) and portfolio.stop_reason_ == "converged"
    assert portfolio.dual_gap_ >= true - 1e-12 * scale


def test_the_minimum_of_a_linear_function_is_exact_for_every_set():
    """By scipy's linear programs; it was found by a long proximal step."""
    rng = np.random.default_rng(0)
    for k in range(60):
        n = int(rng.integers(1, 9))
        low, high, c = -rng.random(n), rng.random(n) + 0.1, rng.normal(size=n)
        budget = [None, float(low.sum() + rng.random() * (high - low).sum())][k % 2]
        cost, previous = rng.random(n) * (k % 3 == 0), 0.3 * rng.normal(size=n)
        penalty = Turnover(previous, cost, Box(low, high, budget=budget, alpha=float(k % 5 == 0)))
        if k % 7 == 0:
            penalty, low, high, budget, cost = Simplex(2.0), np.zeros(n), np.full(n, 2.0), 2.0, np.zeros(n)
        alpha = 0.0 if k % 7 == 0 else float(k % 5 == 0)
        # variables: s, |s - previous|, |s|
        one, none = np.eye(n), np.zeros((n, n))
        A = np.block([[one, -one, none], [-one, -one, none], [one, none, -one], [-one, none, -one]])
        b = np.r_[previous, -previous, np.zeros(2 * n)]
        bounds = [*zip(low, high, strict=True), *[(0, None)] * (2 * n)]
        total = {} if budget is None else {"A_eq": np.r_[np.ones(n), np.zeros(2 * n)][None], "b_eq": [budget]}
        best = linprog(np.r_[c, cost, np.full(n, alpha)], A, b, **total, bounds=bounds).fun
        w = penalty.project(np.zeros(n))
        assert linear_minimum(penalty, c, w) == pytest.approx(best, abs=1e-9)
