"""
An objective of your own on a cluster
=====================================

A loss written with ``jax.numpy`` is minimised over rows that stay on the workers. This
example fits a logistic regression that is robust in a Kullback-Leibler ball: it
minimises T log mean exp(loss / T), which gives rows with large losses more weight. The
cluster consists of two processes on this computer. The example needs ``pip install
"sk_stormc[autodiff,dask]"``.
"""

# %%
# Rows in files
# -------------
# Each partition is a file that a worker reads. The last column has the labels.
import tempfile
import time
from pathlib import Path

import dask
import dask.array as da
import jax.numpy as jnp
import numpy as np
from dask.distributed import Client, LocalCluster
from matplotlib import pyplot as plt

from sk_stormc import minimize
from sk_stormc.problems import DifferentiableLogMeanExp

n_rows, n_features, n_files = 200_000, 20, 4
folder = tempfile.TemporaryDirectory()
paths = [Path(folder.name) / f"part_{k}.npy" for k in range(n_files)]
shape = n_rows // n_files, n_features + 1


def write_files():
    """Features of different sizes, and labels with heavy noise."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=n_features)
    for path in paths:
        rows = rng.normal(size=shape) * np.linspace(0.3, 2.0, n_features + 1)
        noise = 2 * rng.standard_t(3, len(rows))
        rows[:, -1] = np.where(rows[:, :-1] @ truth + noise > 0, 1, -1)
        np.save(path, rows)


# %%
# The objective
# -------------
# ``exponent`` is the loss of a single row, divided by the temperature T. JAX
# differentiates it on the workers, and only sums over partitions travel. A small
# temperature would overflow without `DifferentiableLogMeanExp`.
temperature = 0.5


def exponent(x, row):
    return jnp.logaddexp(0, -row[-1] * (row[:-1] @ x)) / temperature


# %%
# Rounds
# ------
# "corrected-sample" draws a sample of the rows, which travels to this process. Each
# round then takes one pass over all rows. L-BFGS takes a pass for every evaluation.
# Other methods draw many small batches, and raise an error for dask collections. The
# program is within ``if __name__ == "__main__"``, because the workers import this file.
if __name__ == "__main__":
    write_files()
    rows = da.concatenate(
        [da.from_delayed(dask.delayed(np.load)(path), shape, float) for path in paths]
    )
    # otherwise workers return memory to the system at once, which slows JAX down
    dask.config.set({"distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": 1}})
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        problem = DifferentiableLogMeanExp(
            exponent, rows, x0=np.zeros(n_features), scale=temperature
        )
        began = time.perf_counter()
        problem.gradient(np.ones(n_features))
        print(f"a pass over {n_rows} rows: {time.perf_counter() - began:.2f} s")
        results = {
            solver: minimize(problem, solver, random_state=0)
            for solver in ("corrected-sample", "lbfgs")
        }
    for solver, result in results.items():
        print(f"{solver}: {result.n_iter} iterations, {result.stop_reason}")

# %%
# Passes
# ------
# The plot shows the gap to the lowest objective. A sample of a tenth of the rows counts
# as a tenth of a pass. The guide has the times for a file of 10,000,000 rows in
# `its page on clusters <../../guide/clusters.html#objectives-of-your-own>`_.
if __name__ == "__main__":
    lowest = min(result.fun for result in results.values())
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for solver, result in results.items():
        gap = np.maximum(result.loss_curve - lowest, 1e-16)
        ax.semilogy(
            result.ifo / (2 * n_rows + 1), gap, "o-", markersize=4, label=solver
        )
    ax.set(xlabel="passes over the rows", ylabel="gap to the lowest objective")
    ax.legend(frameon=False)
    ax.grid(alpha=0.3)
    folder.cleanup()
    plt.show()
