"""The estimator knows every risk measure in a process that has imported nothing else."""

import subprocess
import sys

import pytest

FIT = """
import sys
import numpy as np
from sk_stormc import CompositionalPortfolio
X = np.random.default_rng(0).standard_normal((60, 3))
print(CompositionalPortfolio(risk_measure=sys.argv[1], constraint="long_only").fit(X).weights_.sum().round(6))
"""


@pytest.mark.parametrize("measure", ["variance", "semivariance", "entropic", "cvar", "evar"])
def test_a_fresh_process_knows_the_measure(measure):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FIT, measure], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1.0\n"), done.stderr
