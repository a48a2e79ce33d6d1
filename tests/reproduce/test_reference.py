"""The published constants on the published and real returns: the numbers of the paper's
portfolio experiment.

The data (../shared/data beside the checkout) are not part of the project; without them
the tests are skipped.
"""

from pathlib import Path

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.problems import PortfolioProblem
from sk_stormc.reproduce.portfolio import METHODS

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the published return sets are not at ../shared/data"
)

BASELINES = {  # absolute gaps at 360,000 IFO
    "gaussian_cov_4": {
        "scgd": 355.1,
        "asc-pg": 355.1,
        "vrsc-pg": 297.5,
        "sarah-c": 297.6,
    },
    "gaussian_cov_20": {"scgd": 622, "asc-pg": 624, "sarah-c": 581},
}


def gap(name, solver, ifo, **params):
    with np.load(DATA / f"{name}.npz") as file:
        # percent, as the paper's code
        R = file["returns"] if "returns" in file else file["returns_bp"] / 100
    problem = PortfolioProblem(R)
    best = problem.objective(np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0)))
    x0 = np.ones(R.shape[1])
    return (
        minimize(problem, solver, x0, random_state=0, max_ifo=ifo, tol=0, **params).fun
        - best
    )


@pytest.mark.parametrize("name", BASELINES)
def test_baselines(name):
    for solver, expected in BASELINES[name].items():
        params = {k: v for k, v in METHODS[solver].items() if k != "tol"}
        assert gap(name, solver, 360_000, **params) == pytest.approx(expected, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ifo", "low", "high"),
    [
        ("gaussian_cov_4", 360_000, 60, 82),
        ("gaussian_cov_4", 3_000_000, 2, 3.6),
        ("gaussian_cov_20", 360_000, 190, 255),
        ("gaussian_cov_20", 3_000_000, 2.6, 3.8),
        ("french25_Europe_OP", 3_000_000, 0.6e-2, 2.4e-2),
    ],
)
def test_storm(name, ifo, low, high):
    assert low <= gap(name, "storm-c-paper", ifo) <= high
