"""One pass over returns that do not fit in memory: accuracy, resident memory and time.

    python benchmarks/streams.py [--rows 5000000] [--assets 100] [--folder /tmp]

Writes float32 returns to a file (2 GB by default) and fits them, each way in a process of its own whose peak of
resident memory is read. Gaps are relative to the closed form of the same rows, whose moments are summed in float64.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CHUNK = 10_000


def write(path, n, d):
    """Gaussian returns with covariances of condition number 20 and means of .05 standard deviations."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = (Q * np.sqrt(np.linspace(1 / 20, 1, d))) @ Q.T
    mean = rng.uniform(0.0, 0.1, d)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for i in range(0, n, CHUNK):
        X[i : i + CHUNK] = mean + rng.standard_normal((min(CHUNK, n - i), d)) @ root


def closed_form(X):
    """The minimiser of the variance problem, and its objective as a function of the weights."""
    n, d = X.shape
    total, second = np.zeros(d), np.zeros((d, d))
    for i in range(0, n, CHUNK):
        rows = X[i : i + CHUNK].astype(float)
        total += rows.sum(0)
        second += rows.T @ rows
    mean = total / n
    covariance = second / n - np.outer(mean, mean)
    return np.linalg.solve(2 * covariance, mean), lambda x: x @ covariance @ x - mean @ x


def peak_memory():
    """Peak of this process's resident memory in MB, file pages included. (getrusage's is the parent's where larger.)"""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def fit(path, way):
    """Fit in this process; weights, IFO, seconds and the peak of resident memory in MB."""
    from sk_stormc import CompositionalPortfolio

    X = np.load(path, mmap_mode="r")
    before = peak_memory()
    began = time.perf_counter()
    portfolio = CompositionalPortfolio(random_state=0)
    if way == "fit":
        portfolio.fit(X)
    else:
        chunk = int(way)
        for i in range(0, len(X), chunk):
            portfolio.partial_fit(X[i : i + chunk])
    seconds = time.perf_counter() - began
    peak = peak_memory()
    passes = float(portfolio.ifo_[-1] / (3 * len(X)))
    print(json.dumps([portfolio.weights_.tolist(), passes, portfolio.stop_reason_, seconds, peak, before]))


def main():
    """Write the file, fit it in every way, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--assets", type=int, default=100)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--ways", nargs="+", default=["10000", "fit"], help="chunk sizes of partial_fit, or fit")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return fit(*args.child)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "returns.npy"
        write(path, args.rows, args.assets)
        best, objective = closed_form(np.load(path, mmap_mode="r"))
        size = path.stat().st_size / 2**20
        print(f"{args.rows} x {args.assets} float32, {size:.0f} MB; closed form {objective(best):.6g}\n")
        print(f"{'':24}{'passes':>8}{'relative gap':>14}{'peak RSS':>10}{'of it imports':>15}{'seconds':>9}")
        for way in args.ways:
            command = [sys.executable, __file__, "--child", str(path), way]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            weights, passes, reason, seconds, peak, before = json.loads(done.stdout)
            gap = (objective(np.array(weights)) - objective(best)) / abs(objective(best))
            name = "fit(memmap)" if way == "fit" else f"partial_fit by {way}"
            print(f"{name:24}{passes:8.2f}{gap:14.1e}{peak:7.0f} MB{before:12.0f} MB{seconds:9.1f}  {reason}")


if __name__ == "__main__":
    main()
