"""Type checkers see the parameters and the fitted attributes of the public names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """\
import numpy as np
from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding, compare_solvers, minimize
from sk_stormc.problems import PortfolioProblem

X = np.zeros((30, 3))
reveal_type(CompositionalPortfolio(risk_aversion=0.5).fit(X).weights_)
reveal_type(SNEEmbedding(perplexity=5).fit(X).embedding_)
reveal_type(SNEEmbedding().fit(X).kl_divergence_)
reveal_type(BellmanValueEstimator(gamma=0.9).fit(X, X[:, 0]).coef_)
reveal_type(minimize(PortfolioProblem(X)).x)
reveal_type(compare_solvers(PortfolioProblem(X), ["storm-c"]))
SNEEmbedding(perplexity="x")
CompositionalPortfolio(risk_aversion="much")
BellmanValueEstimator(gamma="high")
"""


@pytest.mark.slow
def test_a_user_s_script_is_checked(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\n[mypy-sklearn.*,scipy.*,joblib.*,threadpoolctl.*]\nignore_missing_imports = True\n"
        "[mypy-sk_stormc.*]\nfollow_imports = silent\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "script.py"],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    lines = [line for line in found.stdout.splitlines() if line.startswith("script.py:")]
    revealed = [line.split('"')[1] for line in lines if "Revealed type" in line]
    kinds = ["ndarray", "ndarray", "float", "ndarray", "ndarray", "SolverComparison"]
    assert [re.split(r"[.\[]", text.removeprefix("numpy."))[0] for text in revealed[:5]] == kinds[:5], found.stdout
    assert revealed[5].endswith(kinds[5])
    errors = [line for line in lines if "error:" in line]
    assert [int(line.split(":")[1]) for line in errors] == [12, 13, 14], found.stdout


@pytest.mark.slow
def test_the_package_is_checked():
    pytest.importorskip("mypy")
    found = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental"], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
