"""Problems of risk measures: the contract, risks by their definitions, gradients, and
lower bounds."""

import numpy as np
import pytest
from definitions import INF, least, make_returns, risk, utility
from scipy.optimize import approx_fprime

from sk_stormc import minimize
from sk_stormc.penalties import Box, Simplex
from sk_stormc.problems import PortfolioProblem, check_problem

KINDS = [("cvar", {"confidence": 0.9}), ("evar", {"confidence": 0.9}), ("semideviation",
    {"order": 1}),
         ("semideviation", {"order": 2}), ("downside", {"order": 1}), ("downside",
         {"order": 3})]  # fmt: skip


@pytest.mark.parametrize(("measure", "more"), KINDS)
def test_the_contract_and_the_smoothing(measure, more):
    R, rng = 100 * make_returns(80, 4), np.random.default_rng(0)
    weight, penalty = rng.integers(1, 3, 80), Box(0, 0.5, budget=1.0, alpha=0.01)
    options = {
        "risk_measure": measure,
        "penalty": penalty,
        "metric": "variance",
        "width": 0.1,
        **more,
    }
    problem = PortfolioProblem(R, sample_weight=weight, **options)
    check_problem(
        problem, repeated=PortfolioProblem(np.repeat(R, weight, axis=0), **options)
    )
    x = problem.initial_point(rng)
    exact = problem.value_at(problem.weights_of(x))
    above = problem.objective(x) - exact
    assert -1e-9 <= above <= 2 * problem.width / (1 - 0.9)
    narrow = problem.with_width(problem.width / 100)
    assert -1e-9 <= narrow.objective(narrow.start_at(x[:4])) - exact <= max(above, 1e-9)


@pytest.mark.parametrize("n", [1, 2, 37, 500])
@pytest.mark.parametrize("confidence", [0.01, 0.9, 0.99])
def test_risks_by_their_definitions(n, confidence):
    R, rng = 100 * make_returns(n, 3), np.random.default_rng(n)
    w = rng.normal(size=3)
    for p in (None, rng.uniform(0.1, 2, n)):
        for measure in ("cvar", "evar", "cdar"):
            problem = PortfolioProblem(
                R, INF, risk_measure=measure, confidence=confidence, sample_weight=p
            )
            expected = (
                risk(R @ w, measure, confidence, p=p)
                if n > 1 or measure == "cdar"
                else -(R @ w)[0]
            )
            assert problem.value_at(w) == pytest.approx(expected, rel=2e-5)
    assert PortfolioProblem(np.ones((5, 1)), INF, risk_measure="evar").value_at(
        np.ones(1)
    ) == pytest.approx(-1.0)


@pytest.mark.parametrize("risk_aversion", [0.7, INF])
@pytest.mark.parametrize("measure", ["variance", "semivariance", "entropic"])
def test_gradients(measure, risk_aversion):
    if (measure, risk_aversion) == ("entropic", INF):
        return
    R, x = 100 * make_returns(50), np.random.default_rng(0).normal(size=6)
    problem = PortfolioProblem(R, risk_aversion, risk_measure=measure)
    assert problem.objective(x) == pytest.approx(utility(x, R, measure, risk_aversion))
    np.testing.assert_allclose(
        problem.gradient(x), approx_fprime(x, problem.objective, 1e-6), atol=1e-3
    )


@pytest.mark.parametrize(("measure", "more"), KINDS)
@pytest.mark.parametrize("mean", [0.0, 0.05, -0.05])
def test_lower_bounds_of_the_minimum(measure, more, mean):
    """A reweighting of the losses gives a bound at any weights, and at the best a tight
    one."""
    R, given = make_returns(100) + mean, {"risk_measure": measure, **more}
    best = least(R, measure, 1.0, low=0.0, budget=1.0, **more)
    problem = PortfolioProblem(R, penalty=Simplex(), width=1e-5, **given)
    for w in np.random.default_rng(0).dirichlet(np.ones(6), 20):
        value, bound = problem.bounds(problem.start_at(w))
        assert bound <= best + 1e-7 and value == pytest.approx(
            utility(w, R, measure, **more)
        )
        losses = -R @ w
        q = problem.reweighting(losses)
        assert q @ losses == pytest.approx(risk(-losses, measure, **more), abs=2e-5)
        if measure in ("cvar", "evar"):
            assert (q >= 0).all() and q.sum() == pytest.approx(1.0)


def test_a_path_has_no_batches():
    problem = PortfolioProblem(make_returns(), risk_measure="cdar")
    with pytest.raises(ValueError, match="has no batches.*linear program"):
        minimize(problem, "lbfgs")
