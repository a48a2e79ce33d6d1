"""Passes of "storm-c" with default parameters to a relative gap, on generated and on real returns."""

from pathlib import Path

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
FRENCH = [f"french25_{region}_OP" for region in ("Europe", "Japan", "North_America")]
SETS = ["generated", "generated, small", "gaussian_cov_4", *FRENCH]
SEEDS = range(3)


def load(name):
    """Returns as fractions."""
    if name.startswith("generated"):
        n = 500 if "small" in name else 2000
        return make_gaussian_returns(n, 40, mean=0.3, condition_number=20, random_state=0)
    if not DATA.is_dir():
        pytest.skip("the published return sets are not at ../shared/data")
    with np.load(DATA / f"{name}.npz") as file:
        return file["returns"] if "returns" in file else file["returns_bp"] / 1e4


def passes(problem, best, gaps, seed, **params):
    """Passes to each of the relative gaps; inf where one is not reached."""
    n = 2 * problem.n_inner + problem.n_outer
    result = minimize(problem, "storm-c", random_state=seed, record_every=n // 4, **params)
    relative = (result.loss_curve - best) / abs(best)
    assert relative.min() > -1e-6, "the reference is not the minimum"
    return [result.ifo[np.argmax(relative <= gap)] / n if (relative <= gap).any() else np.inf for gap in gaps]


def closed_form(R):
    x = np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0))
    return PortfolioProblem(R).objective(x)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("metric", [None, "variance"])
def test_passes(name, metric):
    R = load(name)
    problem, best = PortfolioProblem(R, metric=metric), closed_form(R)
    for seed in SEEDS:
        rough, fine = passes(problem, best, (1e-3, 1e-4), seed)
        assert rough <= 20
        assert fine <= 35


def test_entropic_risk_of_heavy_tails():
    """Batches are enlarged, because most small ones miss the few periods that determine the risk."""
    R = np.random.default_rng(0).standard_t(2.5, size=(3000, 2)) + 0.1
    problem = PortfolioProblem(R, 2.0, risk_measure="entropic", penalty=Simplex(), metric="variance")
    best = min(problem.objective(np.array([w, 1 - w])) for w in np.linspace(0, 1, 2001))
    for seed in SEEDS:
        result = minimize(problem, "storm-c", random_state=seed)
        assert result.fun - best < 1e-4 * abs(best)


@pytest.mark.parametrize("n", [300, 2000])
def test_passes_from_a_distant_start(n):
    R = make_gaussian_returns(n, 40, mean=4.0, condition_number=20, random_state=0)
    best = closed_form(R)
    for seed in SEEDS:
        rough, fine = passes(PortfolioProblem(R), best, (1e-3, 1e-4), seed, x0=np.ones(40), tol=1e-6)
        assert rough <= 20
        assert fine <= 35
