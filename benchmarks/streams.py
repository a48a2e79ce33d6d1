"""One pass over returns that do not fit in memory: accuracy, memory and CPU time.

Gaps are relative to the closed form of the same rows, whose moments are summed in
float64. For `memory` a file of float32 returns (1 GB) is written and fitted, each way
in a process of its own, whose peak of resident memory is read.

`correlated` has returns z A + mean, z normal, A = I + .1 N(0, 1): their covariance has
a condition number of about 1e5. `regimes` has thirty chunks that are distributed
differently. Gaps are those to the optimum of the same rows, over the gap of equal
weights. The sampling error is half of how much the optimum of other rows of the same
kind, as many, is above the optimum on these rows. `speed` has the bytes of a stream
over the CPU time, beside the time of the sum of all products alone.
"""

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks._measure import timed
from benchmarks._sne_fits import peak
from benchmarks._tables import ROOT, table
from sk_stormc import AutomaticSTORM, CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns

DURATION = "2 minutes"
NEEDS_DATA = False
BLOCK, B = 10_000, 32


def write(path, n, d):
    """Gaussian returns with covariances of condition number 20 and means of .05
    standard deviations."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = (Q * np.sqrt(np.linspace(1 / 20, 1, d))) @ Q.T
    mean = rng.uniform(0.0, 0.1, d)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for i in range(0, n, BLOCK):
        X[i : i + BLOCK] = mean + rng.standard_normal((min(BLOCK, n - i), d)) @ root


def closed_form(X):
    """The gap of weights, relative to the least objective, as a function."""
    n, d = X.shape
    total, second = np.zeros(d), np.zeros((d, d))
    for i in range(0, n, BLOCK):
        rows = X[i : i + BLOCK].astype(float)
        total += rows.sum(0)
        second += rows.T @ rows
    mean = total / n
    covariance = second / n - np.outer(mean, mean)
    least = -mean @ np.linalg.solve(covariance, mean) / 4
    return lambda x: (x @ covariance @ x - mean @ x - least) / abs(least)


def fit(path, chunk):
    """Fit in this process, in chunks of so many rows or, for 0, whole: what is stored
    of it, and the weights."""
    X, before, portfolio = (
        np.load(path, mmap_mode="r"),
        peak(),
        CompositionalPortfolio(random_state=0),
    )
    if chunk:
        seconds, _, _ = timed(
            streamed, portfolio, (X[i : i + chunk] for i in range(0, len(X), chunk))
        )
    else:
        seconds, _, _ = timed(portfolio.fit, X)
    return {
        # MB
        "chunk": chunk, "seconds": seconds, "peak": 1024 * peak(),
        "imports": 1024 * before,
        "passes": float(portfolio.ifo_[-1] / (3 * len(X))),
        "stop_reason": portfolio.stop_reason_,
        "weights": portfolio.weights_.tolist(),
    }  # fmt: skip


def memory(quick):
    """`fit` of a file in chunks and whole, in processes of their own; with the relative
    gap in place of the weights."""
    rows, (n, d), chunks = (
        [],
        (2000, 5) if quick else (2_500_000, 100),
        (500,) if quick else (10_000, 0),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "returns.npy"
        write(path, n, d)
        gap = closed_form(np.load(path, mmap_mode="r"))
        for chunk in chunks:
            command = [
                sys.executable,
                "-m",
                "benchmarks.streams",
                str(path),
                str(chunk),
            ]
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, cwd=ROOT
            )
            row = json.loads(done.stdout)
            rows.append(
                {
                    "rows": n,
                    "assets": d,
                    "gap": gap(np.array(row.pop("weights"))),
                    **row,
                }
            )
    return rows


def streamed(portfolio, chunks):
    """The portfolio after these chunks, and whether it has warned of the last."""
    for chunk in chunks:
        _, _, warned = timed(portfolio.partial_fit, chunk)
    return portfolio, warned


def gaps(X, others, kwargs, ways):
    """Gaps of streams of X as shares of that of equal weights, and the sampling
    error."""
    exact = CompositionalPortfolio("newton", **kwargs)
    task = exact._task(X, None)
    least = task.value(exact.fit(X).weights_)
    spread = task.value(np.full(X.shape[1], 1 / X.shape[1])) - least
    row = {"error": np.nan}
    if others is not None:
        row["error"] = (task.value(exact.fit(others).weights_) - least) / (2 * spread)
    for name, make in ways.items():
        portfolio, warned = streamed(
            make(**kwargs), np.split(X, range(BLOCK, len(X), BLOCK))
        )
        row[name] = (task.value(portfolio.weights_) - least) / spread
        row[f"{name} warned"] = warned
    return row


BY_MOMENTS = {"moments": partial(CompositionalPortfolio, random_state=0)}
WAYS = {
    "steps": partial(
        CompositionalPortfolio, AutomaticSTORM(batch_size=B), random_state=0
    ),
    **BY_MOMENTS,
}
KINDS = [("variance", None), ("variance", "long_only"), ("semivariance", None),
    ("semivariance", "long_only"),
         ("entropic", None), ("entropic", "long_only")]  # fmt: skip


def correlated(quick):
    """Streams of correlated assets, on seeds that no choice was made on."""
    rng, most = np.random.default_rng(2026), 4 if quick else 100
    A, mean = (
        np.eye(most) + 0.1 * rng.standard_normal((most, most)),
        rng.normal(0.02, 0.03, most),
    )
    rows, n, d = [], *((1000, 4) if quick else (30_000, 100))
    X, others = (rng.standard_normal((n, d)) @ A + mean for _ in range(2))
    for risk_measure, constraint in KINDS:
        kwargs = {"risk_measure": risk_measure, "constraint": constraint}
        rows.append({"rows": n, "assets": d, **kwargs, **gaps(X, others, kwargs, WAYS)})
    return rows


def regimes(quick):
    """Thirty chunks, each of another distribution."""
    n, d = (300, 4) if quick else (10_000, 20)
    X = np.concatenate(
        [
            make_gaussian_returns(n, d, mean=0.1, random_state=i)
            for i in range(3 if quick else 30)
        ]
    )
    ways = {**BY_MOMENTS, "moments, each": partial(CompositionalPortfolio, "moments")}
    rows = []
    for risk_measure, constraint in KINDS[1::2]:
        kwargs = {"risk_measure": risk_measure, "constraint": constraint}
        rows.append(
            {"rows": len(X), "assets": d, **kwargs, **gaps(X, None, kwargs, ways)}
        )
    return rows


def products(X):
    """The sum of all products, whose time is that of the least that moments need."""
    for i in range(0, len(X), 1024):
        X[i : i + 1024].T @ X[i : i + 1024]


def speed(quick):
    """Bytes a second of a stream in memory, chunks of 10,000."""
    n, d = (2000, 5) if quick else (250_000, 100)
    X, rows = np.random.default_rng(0).standard_normal((n, d)) + 0.05, []
    alone = X.nbytes / timed(products, X)[0] / 1e9
    for risk_measure, constraint in KINDS:
        row = {
            "risk_measure": risk_measure,
            "constraint": constraint,
            "products": alone,
        }
        for name, make in WAYS.items():
            portfolio = make(risk_measure=risk_measure, constraint=constraint)
            row[name] = (
                X.nbytes
                / timed(streamed, portfolio, np.split(X, range(BLOCK, n, BLOCK)))[0]
                / 1e9
            )
        rows.append(row)
    return rows


PARTS = {part.__name__: part for part in (memory, correlated, regimes, speed)}


def run_part(name, quick, images):
    """Measure one part."""
    return PARTS[name](quick)


def warned(key):
    """A cell: a gap, and whether its stream warned; nothing where there is none."""
    return lambda row: (
        f"{row[key]:.1e}{', warned' if row[f'{key} warned'] else ''}"
        if key in row
        else ""
    )


SIZE = {"rows x assets": "{rows:,} x {assets}", "risk": "{risk_measure}"}
CONSTRAINT = {"constraint": lambda row: row["constraint"] or "none"}
COLUMNS = {
    "memory": {
        "": lambda row: "`partial_fit`, chunks of "
                        f"{row['chunk']:,}" if row["chunk"] else "`fit(memmap)`",
        "passes": "{passes:.3g}", "relative gap to the closed form": "{gap:.1e}",
        "peak memory": "{peak:.0f} MB",
        "imports alone": "{imports:.0f} MB", "CPU seconds": "{seconds:.1f}",
    },
    "correlated": {
        **SIZE, **CONSTRAINT, "stochastic solver": warned("steps"),
        "running sums": warned("moments"),
        "sampling error": "{error:.1e}",
    },
    "regimes": {**SIZE, '"auto"': warned("moments"),
    '"moments"': warned("moments, each")},
    "speed": {
        "risk": "{risk_measure}", **CONSTRAINT, "stochastic solver": "{steps:.2f}",
        "running sums": "{moments:.2f}",
        "sums of products alone": "{products:.2f}",
    },
}  # fmt: skip


def tables(stored):
    """A table for each part that was measured."""
    results = stored["results"]
    return {
        part: table(results[part], columns)
        for part, columns in COLUMNS.items()
        if part in results
    }


if __name__ == "__main__":  # a process of its own, of `apart`
    print(json.dumps(fit(sys.argv[1], int(sys.argv[2]))))
