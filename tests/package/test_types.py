"""Type checkers see parameters, choices, fitted attributes and results of the public
names."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from sk_stormc.portfolio.risk import MEASURES
from sk_stormc.solvers import SOLVERS
from sk_stormc.utils.types import RiskMeasure, SolverName

ROOT = Path(__file__).resolve().parents[2]
GOOD = {  # an expression and what a type checker says of it
    "CompositionalPortfolio(risk_aversion=0.5, "
    "risk_measure='cvar').fit(X).weights_": "ndarray",
    "CompositionalPortfolio().fit(X).predict(X)": "ndarray",
    "CompositionalPortfolio().partial_fit(X).weights_": "ndarray",
    "CompositionalPortfolio('sarah-c').resume(X).score(X)": "float",
    "SNEEmbedding(perplexity=5).fit(X).embedding_": "ndarray",
    "SNEEmbedding(kernel='gaussian').fit(X).kl_divergence_": "float",
    "SNEEmbedding().fit_transform(X)": "ndarray",
    "SNEEmbedding().fit(X).transform(X)": "ndarray",
    "SNEEmbedding().fit(X).transform(X, return_distance=True)": "tuple",
    "BellmanValueEstimator(gamma=0.9).fit(X, X[:, 0]).coef_": "ndarray",
    "BellmanValueEstimator().fit(X, X[:, 0]).predict(X)": "ndarray",
    "BellmanValueEstimator().fit(X, X[:, 0]).predict(X, return_std=True)": "tuple",
    "ActionValueEstimator().fit(X, X[:, 0]).predict(X)": "ndarray",
    "minimize(PortfolioProblem(X), 'lbfgs').x": "ndarray",
    "compare_solvers(PortfolioProblem(X), ['storm-c', SCGD()])": "SolverComparison",
    "walk_forward(CompositionalPortfolio(), X, window=20)": "WalkForwardResult",
    "walk_forward({'a': CompositionalPortfolio()}, X, "
    "window=20)": "WalkForwardComparison",
    "EmbeddingDisplay.from_estimator(SNEEmbedding().fit(X)).figure_": "Figure",
}
WRONG = (
    "SNEEmbedding(perplexity='x')",
    "SNEEmbedding(kernel='gauss')",
    "CompositionalPortfolio(risk_aversion='much')",
    "CompositionalPortfolio(risk_measure='var')",
    "BellmanValueEstimator(gamma='high')",
    "minimize(PortfolioProblem(X), 'storm')",
    "walk_forward(CompositionalPortfolio(), X, unit='percents')",
)
HEAD = """\
import numpy as np
from sk_stormc import (
    SCGD, ActionValueEstimator, BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding, compare_solvers, minimize,
    walk_forward
)
from sk_stormc.plotting import EmbeddingDisplay
from sk_stormc.problems import PortfolioProblem

X = np.zeros((30, 3))
CompositionalPortfolio().fit(X).named_weights()
"""


def user_script(folder):
    """Write a script with lines that are right, and then lines that are wrong; the
    number of its last right line."""
    lines = [*HEAD.splitlines(), *(f"reveal_type({code})" for code in GOOD), *WRONG]
    (folder / "script.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines) - len(WRONG)


def check(revealed, errors, last_right, output):
    """Compare the types and the lines of errors that a type checker reported."""
    assert [re.match(r"[\w.]*?(\w+)(?:\[|$)", text)[1] for text in revealed] == list(
        GOOD.values()
    ), output
    assert errors == list(range(last_right + 1, last_right + 1 + len(WRONG))), output


@pytest.mark.slow
def test_a_user_s_script_under_strict_mypy(tmp_path):
    pytest.importorskip("mypy")
    last_right = user_script(tmp_path)
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\n[mypy-sklearn.*,scipy.*,joblib.*,threadpoolctl.*]\nignore_missing_imports = True\n"
        "[mypy-sk_stormc.*]\nfollow_imports = silent\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "script.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("script.py:")]
    revealed = [line.split('"')[1] for line in lines if "Revealed type" in line]
    check(
        revealed,
        [int(line.split(":")[1]) for line in lines if "error:" in line],
        last_right,
        done.stdout,
    )


@pytest.mark.slow
def test_a_user_s_script_under_strict_pyright(tmp_path):
    pytest.importorskip("pyright")
    last_right = user_script(tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]})
    )
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "script.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        # it fetches itself when it is first called
        pytest.skip(f"pyright does not run here: {done.stderr[-200:]}")
    found = json.loads(done.stdout)["generalDiagnostics"]
    revealed = [
        entry["message"].split('"')[-2]
        for entry in found
        if entry["severity"] == "information"
    ]
    lines = {
        entry["range"]["start"]["line"] + 1
        for entry in found
        if entry["severity"] == "error"
    }
    check(revealed, sorted(lines), last_right, done.stdout)


@pytest.mark.slow
def test_the_package_is_checked():
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_type_checkers_know_all_solvers_and_risk_measures():
    assert set(get_args(SolverName)) == set(SOLVERS)
    assert set(get_args(RiskMeasure)) == set(MEASURES)
