"""Weights of draws: a row of weight k equals k rows."""

from functools import partial

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Box
from sk_stormc.problems import PortfolioProblem, StreamingProblem, check_problem

RISKS = {
    "variance": {},
    "variance alone": {"risk_aversion": np.inf},
    "semivariance": {"risk_measure": "semivariance", "risk_aversion": 0.5},
    "semivariance alone": {"risk_measure": "semivariance", "risk_aversion": np.inf},
    "entropic": {"risk_measure": "entropic"},
    "cvar": {"risk_measure": "cvar", "confidence": 0.7},
    "cvar alone": {"risk_measure": "cvar", "confidence": 0.7, "risk_aversion": np.inf},
    "evar": {"risk_measure": "evar", "confidence": 0.7},
    "evar alone": {"risk_measure": "evar", "confidence": 0.7, "risk_aversion": np.inf},
}


@pytest.mark.parametrize("risk", ["variance alone", "entropic", "evar"])
def test_weighted_streams_end_near_the_minimum_of_the_repeated_rows(risk):
    X = make_gaussian_returns(6000, 4, mean=0.3, random_state=0)
    counts = np.random.default_rng(3).integers(1, 4, size=len(X))
    counts[X[:, 0] > np.median(X[:, 0])] += 4  # so that the first asset looks better than without weights
    problem = partial(PortfolioProblem, metric="variance", penalty=Box(0, 1, budget=1.0), **RISKS[risk])
    chunks = [(X[i : i + 500], counts[i : i + 500].astype(float)) for i in range(0, len(X), 500)]
    found = minimize(StreamingProblem(chunks, problem, weighted=True), random_state=0)
    assert found.stop_reason == "exhausted"
    whole = problem(np.repeat(X, counts, axis=0))
    best = minimize(whole, random_state=0, tol=1e-6)
    start = whole.start_at(np.full(4, 0.25))
    assert whole.objective(found.x) - best.fun < 0.1 * (whole.objective(start) - best.fun)


@pytest.mark.parametrize("risk", ["semivariance", "entropic", "cvar"])
def test_equal_weights_are_no_weights(risk):
    X = make_gaussian_returns(1500, 3, mean=0.3, random_state=0)
    problem = partial(PortfolioProblem, metric="variance", penalty=Box(0, 1, budget=1.0), **RISKS[risk])
    plain = minimize(StreamingProblem([X], problem), random_state=0)
    weighted = minimize(StreamingProblem([(X, np.full(1500, 2.0))], problem, weighted=True), random_state=0)
    assert plain.stop_reason == weighted.stop_reason == "exhausted"
    np.testing.assert_allclose(weighted.x, plain.x, rtol=1e-6, atol=1e-9)


def test_check_problem_compares_weights():
    returns = make_gaussian_returns(60, 3, random_state=0)
    check_problem(PortfolioProblem(returns, risk_measure="cvar"))

    class Deaf(PortfolioProblem):
        def inner_batch(self, draws, weights=None):
            return super().inner_batch(draws)

    with pytest.raises(ValueError, match=r"Deaf.inner: a batch with weights and their weighted mean differ"):
        check_problem(Deaf(returns))
