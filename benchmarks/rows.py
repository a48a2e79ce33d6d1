"""Portfolios of a file of 1,000,000 x 50 returns by rounds: CPU time, rounds, proved
gap and memory.

Returns are three factors and noise, both of Student's t with four degrees of freedom.
Each fit has a process of its own, whose peak of resident memory is read. `numpy` is the
CPU time in which numpy reads the file and sums all products.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._measure import timed
from benchmarks._sne_fits import peak
from benchmarks._tables import ROOT, table
from sk_stormc import CompositionalPortfolio

DURATION = "5 minutes"
NEEDS_DATA = False
N_ROWS, N_ASSETS, BLOCK = 1_000_000, 50, 40_000
AVERSIONS = {
    "variance": 5.0,
    "semivariance": 20.0,
    "entropic": 10.0,
    "cvar": 0.3,
    "evar": 0.1,
    "semideviation": 0.3,
}


def write(path, n):
    """The file of returns."""
    rng = np.random.default_rng(3)
    loadings, spread = (
        rng.normal(0.6, 0.4, (3, N_ASSETS)),
        rng.uniform(0.5, 1.5, N_ASSETS),
    )
    mean = 0.0003 + 0.00025 * rng.normal(size=N_ASSETS)
    X = np.lib.format.open_memmap(path, "w+", float, (n, N_ASSETS))
    for i in range(0, n, BLOCK):
        m = min(BLOCK, n - i)
        noise = 0.01 * rng.standard_t(4, (m, N_ASSETS)) * spread
        X[i : i + m] = mean + 0.006 * rng.standard_t(4, (m, 3)) @ loadings + noise
    X.flush()


def sums(path):
    """The time of reading the file and summing products of its rows."""
    X = np.load(path, mmap_mode="r")

    def one_pass():
        for i in range(0, len(X), BLOCK):
            rows = np.array(X[i : i + BLOCK])
            rows.T @ rows

    return timed(one_pass)[0]


def fitted(path, measure):
    """A fit, in a process of its own."""
    X = np.load(path, mmap_mode="r")
    portfolio = CompositionalPortfolio(
        risk_measure=measure, risk_aversion=AVERSIONS[measure], constraint="long_only"
    )
    seconds, _, warned = timed(portfolio.fit, X)
    assert not warned
    return {
        "measure": measure,
        "seconds": seconds,
        "rounds": portfolio.n_iter_,
        "objective": portfolio.loss_curve_[-1],
        "gap": portfolio.dual_gap_,
        "peak": 1024 * peak(),
    }


def run(quick, data):
    """Measure all fits of the file."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "returns.npy"
        write(path, 20_000 if quick else N_ROWS)
        numpy = sums(path)
        for measure in AVERSIONS:
            call = [sys.executable, "-m", "benchmarks.rows", str(path), measure]
            output = subprocess.run(
                call, cwd=ROOT, check=True, capture_output=True, text=True
            ).stdout
            rows.append(json.loads(output))
            print(rows[-1], flush=True)
    return {"numpy": numpy, "results": rows}


COLUMNS = {
    "": "{measure}",
    "CPU seconds": "{seconds:.2f}",
    "in numpy's passes": "{passes:.1f}",
    "rounds": "{rounds}",
    "objective": "{objective:.6g}",
    "proved gap": "{gap:.1e}",
    "peak memory": "{peak:.0f} MB",
}


def tables(stored):
    """The table of all fits."""
    rows = [
        {"passes": row["seconds"] / stored["numpy"], **row} for row in stored["results"]
    ]
    return {"file": table(rows, COLUMNS)}


if __name__ == "__main__":
    print(json.dumps(fitted(*sys.argv[1:])))
