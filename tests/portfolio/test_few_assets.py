"""Newton's method begins with the assets that are held, and takes in those that the bound of the gap asks for."""

import warnings

import numpy as np
import pytest

from sk_stormc import CompositionalPortfolio
from sk_stormc.core.penalties import Box, Simplex
from sk_stormc.portfolio.risk.mean_risk import PortfolioProblem
from sk_stormc.portfolio.second_order import limits, newton

MEASURES = ("variance", "semivariance", "entropic", "cvar", "evar", "semideviation", "downside")


def returns(n, d, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_t(3, (n, d)) * rng.uniform(0.5, 1.5, d) + 0.6 * rng.standard_t(3, (n, 1)) + 0.05


@pytest.mark.parametrize("constraint", ["long only", "bounds"])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_start_with_the_wrong_asset_ends_where_all_assets_lead(measure, constraint):
    R = returns(120, 30, 3)
    penalty = Simplex() if constraint == "long only" else Box(0.0, 0.2, budget=1.0)
    problem = PortfolioProblem(R, 1.0, risk_measure=measure, penalty=penalty)
    worst = np.where(np.argsort(np.argsort(-R.std(axis=0))) < 5, 0.2, 0.0)  # the five that vary most
    few = newton.solve_portfolio(problem, penalty, worst)
    every = newton.solve_portfolio(problem, penalty, np.full(30, 1 / 30))
    size = problem.value_at(np.full(30, 1 / 30)) - every.value
    assert abs(few.value - every.value) <= 1e-6 * size
    assert -1e-9 * size <= few.gap <= 1e-6 * size


def test_the_nearest_feasible_point_of_equal_weights_is_found_once(monkeypatch):
    calls, run = [], limits.interior_point
    monkeypatch.setattr(limits, "interior_point", lambda *args, **kwargs: calls.append(0) or run(*args, **kwargs))
    R, held = returns(60, 5, 7), np.array([0.9, 0.1, 0.0, 0.0, 0.0])
    CompositionalPortfolio(
        risk_measure="downside", constraint="long_only", previous_weights=held, max_turnover=0.2
    ).fit(R)
    assert len(calls) == 1


@pytest.mark.parametrize("measure", ["cvar", "evar"])
@pytest.mark.parametrize("half_life", [None, 300])
def test_a_stream_of_a_tail_risk_is_at_the_optimum_while_its_rows_are_there(measure, half_life):
    rng = np.random.default_rng(3)
    R = 0.01 * rng.standard_t(4, (600, 6)) @ (np.eye(6) + 0.3 * rng.normal(size=(6, 6))) + 0.0006
    params = {"risk_measure": measure, "constraint": "long_only", "half_life": half_life}
    stream, fit = CompositionalPortfolio(random_state=0, **params), CompositionalPortfolio("newton", **params).fit(R)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for chunk in np.split(R, 3):
            stream.partial_fit(chunk)
    np.testing.assert_allclose(stream.weights_, fit.weights_, atol=1e-6)
