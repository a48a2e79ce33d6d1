"""An objective of one's own over 10,000,000 rows of a file and of a cluster: seconds of
a pass, rounds, and L-BFGS.

Logistic regression that is robust in a Kullback-Leibler ball, of 20 float32 features
and a label, by `DifferentiableLogMeanExp`. The rows are read from the file by one
process, and by the two workers of a dask cluster on the same machine. A pass computes
the objective and its gradient, and `numpy` is the time in which numpy reads the file
and computes the margins. Each way has a process of its own, whose peak of resident
memory is read. Times are CPU times, of all processes of the cluster together.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._sne_fits import peak
from benchmarks._tables import ROOT, table
from sk_stormc import minimize
from sk_stormc.problems import DifferentiableLogMeanExp

DURATION = "10 minutes"
NEEDS_DATA = False
PACKAGES = ("jax", "dask")
N_ROWS, D, BLOCK, TEMPERATURE = 10_000_000, 20, 500_000, 0.5
PARTS = ("file", "cluster")
# dask lets its workers return memory to the system at once, with which JAX is three
# times as slow
ENVIRONMENT = {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}


def write(path, n):
    """The file: features of different sizes, and labels with heavy noise."""
    rng = np.random.default_rng(0)
    sizes, truth = np.linspace(0.3, 2.0, D), rng.normal(size=D)
    with path.open("wb") as file:
        for i in range(0, n, BLOCK):
            m = min(BLOCK, n - i)
            features = rng.standard_normal((m, D)) * sizes
            y = np.where(features @ truth + 2 * rng.standard_t(3, m) > 0, 1.0, -1.0)
            file.write(np.column_stack([features, y]).astype(np.float32).tobytes())


def mapped(path):
    """The rows as a memory map."""
    return np.memmap(path, np.float32, "r").reshape(-1, D + 1)


def read(path, start, end):
    """Some rows of the file, without a memory map, which would count as memory."""
    width = D + 1
    some = np.fromfile(
        path, np.float32, (end - start) * width, offset=4 * start * width
    )
    return some.reshape(-1, width)


def in_partitions(path):
    """The rows as a dask array, whose partitions the workers read from the file."""
    import dask
    import dask.array as da

    n = len(mapped(path))
    parts = []
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        part = dask.delayed(read)(path, start, end)
        parts.append(da.from_delayed(part, (end - start, D + 1), np.float32))
    return da.concatenate(parts)


def problem_of(rows):
    """The problem. Every row has the features and the label."""
    import jax.numpy as jnp

    def exponent(x, row):
        return jnp.logaddexp(0, -row[D] * (row[:D] @ x)) / TEMPERATURE

    return DifferentiableLogMeanExp(
        exponent, rows, x0=np.zeros(D), scale=TEMPERATURE, device_bytes=0
    )


def cpu_seconds():
    """The CPU time so far of this process and of the workers that it has started."""
    import psutil  # a dependency of dask.distributed

    this = psutil.Process()
    times = [one.cpu_times() for one in (this, *this.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def seconds(function, *args):
    """The CPU time of a call, and its value."""
    began = cpu_seconds()
    value = function(*args)
    return cpu_seconds() - began, value


def by_numpy(path):
    """Read the file and compute the margins."""
    n = len(mapped(path))
    for i in range(0, n, BLOCK):
        part = read(path, i, min(i + BLOCK, n))
        part[:, D] * (part[:, :D] @ np.ones(D, np.float32))


def measured(rows, path, solvers):
    """Times of numpy and of a pass, by turns, and fits."""
    problem = problem_of(rows)
    x = np.full(D, 0.1)
    problem.gradient(x)  # compiles
    times = [
        (seconds(by_numpy, path)[0], seconds(problem.gradient, x)[0]) for _ in range(3)
    ]
    numpy, a_pass = np.median(times, axis=0)
    result = {"numpy": numpy, "pass": a_pass, "rows": problem.n_inner}
    for solver in solvers:
        took, fit = seconds(lambda s: minimize(problem, s, random_state=0), solver)
        result[solver] = {
            "seconds": took,
            "iterations": fit.n_iter,
            "passes": fit.ifo[-1] / (2 * problem.n_inner + 1),
            "objective": fit.fun,
            "reason": fit.stop_reason,
        }
        if solver == "corrected-sample":
            result["peak"] = 1024 * peak()
    return result


def measured_way(path, way):
    """`measured`, in a process of its own."""
    if way == "file":
        return measured(mapped(path), path, ("corrected-sample", "lbfgs"))
    import dask
    from dask.distributed import Client, LocalCluster

    dask.config.set({"distributed.nanny.pre-spawn-environ": ENVIRONMENT})
    with (
        LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        return measured(in_partitions(path), path, ("corrected-sample",))


def run_part(part, quick, images):
    """Measure one way."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.bin"
        write(path, 20_000 if quick else N_ROWS)
        call = [sys.executable, "-m", "benchmarks.autodiff_rows", str(path), part]
        output = subprocess.run(
            call, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
    return json.loads(output.splitlines()[-1])


COLUMNS = {
    "rows": "{way}",
    "numpy reads the file, CPU s": "{numpy:.1f}",
    "a pass, CPU s": "{pass:.1f}",
    "corrected-sample, rounds": "{corrected-sample[iterations]}",
    "CPU s of the fit": "{corrected-sample[seconds]:.0f}",
    "peak memory": "{peak:.0f} MB",
    "lbfgs, passes": "{passes}",
    "CPU s": "{of lbfgs}",
}


def tables(stored):
    """A row for the file and one for the cluster."""
    names = {"file": "of a file, one process", "cluster": "of a cluster, two workers"}
    rows = []
    for way, row in stored["results"].items():
        fit = row.get("lbfgs")  # of the file only: the passes are the same
        rows.append(
            {
                "way": names[way],
                "passes": f"{fit['passes']:.0f}" if fit else "",
                "of lbfgs": f"{fit['seconds']:.0f}" if fit else "",
                **row,
            }
        )
    return {"rounds": table(rows, COLUMNS)}


if __name__ == "__main__":
    print(json.dumps(measured_way(*sys.argv[1:])))
