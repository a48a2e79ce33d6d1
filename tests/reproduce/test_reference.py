"""The published constants on the published and real returns: the numbers of the paper's portfolio experiment.

The data (../shared/data beside the checkout) are not part of the project; without them the tests are skipped.
"""

from pathlib import Path

import numpy as np
import pytest
from helpers import slow_but

from sk_stormc import minimize
from sk_stormc.problems import PortfolioProblem
from sk_stormc.reproduce.portfolio import METHODS

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the published return sets are not at ../shared/data"
)

# absolute gaps at 360,000 and 3,000,000 IFO
BASELINES = {
    "gaussian_cov_4": {"scgd": (355.1, 325.5), "asc-pg": (355.1, None), "vrsc-pg": (297.5, 170.6),
                       "sarah-c": (297.6, 174.0)},
    "gaussian_cov_20": {"scgd": (622, 606.6), "asc-pg": (624, None), "vrsc-pg": (None, 333.1),
                        "sarah-c": (581, 340)},
}  # fmt: skip
STORM = {"gaussian_cov_4": ((60, 82), (2, 3.6)), "gaussian_cov_20": ((190, 255), (2.6, 3.8))}
FRENCH = {"Global_ex_US": (2.1e-4, 1.2e-4), "Europe": (1.5e-2, 1.2e-2), "Japan": (5.4e-2, 5.4e-2)}
IFO = (360_000, 3_000_000)


def load(name):
    with np.load(DATA / f"{name}.npz") as file:
        return (
            file["returns"] if "returns" in file else file["returns_bp"] / 100
        )  # percent, as the paper's code


def gaps(R, solver, ifo, seeds, **params):
    problem = PortfolioProblem(R)
    best = problem.objective(np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0)))
    x0 = np.ones(R.shape[1])
    return [
        minimize(problem, solver, x0, random_state=s, max_ifo=ifo, tol=0, **params).fun - best
        for s in range(seeds)
    ]


@pytest.mark.parametrize("name", slow_but(BASELINES, "gaussian_cov_4"))
@pytest.mark.parametrize("solver", slow_but(["scgd", "asc-pg", "vrsc-pg", "sarah-c"], "scgd", "sarah-c"))
def test_baselines(name, solver):
    params = {k: v for k, v in METHODS[solver].items() if k != "tol"}
    for ifo, expected in zip(IFO, BASELINES[name][solver], strict=True):
        if expected is not None:
            assert gaps(load(name), solver, ifo, 1, **params)[0] == pytest.approx(expected, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORM)
def test_storm_on_the_gaussian_sets(name):
    for ifo, (low, high) in zip(IFO, STORM[name], strict=True):
        assert low <= np.median(gaps(load(name), "storm-c-paper", ifo, 3)) <= high


@pytest.mark.slow
@pytest.mark.parametrize("region", FRENCH)
def test_storm_on_the_french_sets(region):
    R = load(f"french25_{region}_OP")
    for ifo, expected in zip(IFO, FRENCH[region], strict=True):
        assert expected / 2 <= np.median(gaps(R, "storm-c-paper", ifo, 7)) <= 2 * expected
