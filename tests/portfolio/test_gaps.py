"""dual_gap_ of fits that end early: valid, and near the true gap, with each measure."""

import warnings

import numpy as np
import pytest
from helpers import few_of

from sk_stormc import CompositionalPortfolio
from sk_stormc.portfolio.limits import KEPT

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
