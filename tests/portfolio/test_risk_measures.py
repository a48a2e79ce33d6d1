"""The estimator knows every risk measure in a process that has imported nothing else."""

import subprocess
import sys

import pytest

FIT = """
import numpy as np
from sk_stormc import CompositionalPortfolio
from sk_stormc.portfolio.risk.mean_risk import ByRiskMeasure
known = sorted(ByRiskMeasure.classes)  # before any fit, which could import what was missing
X = np.random.default_rng(0).standard_normal((60, 3))
for measure in ["variance", *known]:
    fitted = CompositionalPortfolio(risk_measure=measure, constraint="long_only", tol=0.1).fit(X)
    assert abs(fitted.weights_.sum() - 1) < 1e-6, measure
print(*known)
"""


@pytest.mark.slow
def test_a_fresh_process_knows_all_measures():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FIT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"entropic", "cvar", "evar"} <= set(done.stdout.split())
