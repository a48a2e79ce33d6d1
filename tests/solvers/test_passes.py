"""Passes of "storm-c" with default parameters to a relative gap."""

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem

SEEDS = range(2)


# with a mean of 4, the start is far away
@pytest.mark.parametrize("n, mean, unit", [(300, 4.0, 1), (2000, 0.3, 1e4)])
def test_passes(n, mean, unit):
    R = unit * make_gaussian_returns(
        n, 40, mean=mean, condition_number=20, random_state=0
    )
    problem = PortfolioProblem(R, preconditioner="variance" if mean < 1 else None)
    best = problem.objective(np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0)))
    for seed in SEEDS:
        x0 = np.ones(40) / unit if mean > 1 else None
        result = minimize(
            problem, "storm-c", x0, random_state=seed, record_every=3 * n // 4, tol=1e-6
        )
        gaps = (result.loss_curve - best) / abs(best)
        assert gaps.min() > -1e-6
        for gap, passes in ((1e-3, 20), (1e-4, 35)):
            assert (
                result.ifo[np.argmax(gaps <= gap)] <= passes * 3 * n
                and (gaps <= gap).any()
            )


def test_entropic_risk_of_heavy_tails():
    """Batches are enlarged, because most small ones miss the few periods that determine
    the risk."""
    R = np.random.default_rng(0).standard_t(2.5, size=(3000, 2)) + 0.1
    problem = PortfolioProblem(
        R, 2.0, risk_measure="entropic", penalty=Simplex(), preconditioner="variance"
    )
    best = min(problem.objective(np.array([w, 1 - w])) for w in np.linspace(0, 1, 2001))
    for seed in SEEDS:
        result = minimize(problem, "storm-c", random_state=seed)
        assert result.fun - best < 1e-4 * abs(best)
