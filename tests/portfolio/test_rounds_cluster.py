"""Portfolios on a cluster of processes: the same bits for any number of workers, if a
worker is killed or joins in the middle, and little memory of the client."""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
from definitions import make_returns
from helpers import Callback

from sk_stormc import CompositionalPortfolio

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

R = make_returns(1500, 4, seed=3)
# a measure for each kind of rounds: sums, a sample, and rows
AVERSION = {"variance": 10.0, "semivariance": 20.0, "evar": 0.05, "cvar": 0.1}
WEIGHTS = np.random.default_rng(0).uniform(size=1500)


def fit(measure, *callbacks):
    """A fit of lazy partitions."""
    X = da.from_array(R, chunks=(200, 4)) + 0.0
    portfolio = CompositionalPortfolio(
        risk_measure=measure,
        risk_aversion=AVERSION[measure],
        constraint="long_only",
        tol=1e-6,
    )
    return portfolio.set_callbacks(*callbacks).fit(X, sample_weight=WEIGHTS)


def in_threads(measure):
    with dask.config.set(scheduler="threads"):
        return fit(measure)


def same_bits(a, b):
    np.testing.assert_array_equal(a.weights_, b.weights_)
    np.testing.assert_array_equal(a.loss_curve_, b.loss_curve_)
    assert a.dual_gap_ == b.dual_gap_


@pytest.mark.slow
@pytest.mark.parametrize("measure", AVERSION)
def test_the_same_bits_for_any_number_of_workers(client, measure):
    expected, workers = in_threads(measure), list(client.scheduler_info()["workers"])
    for restricted in (dask.annotate(workers=workers[:1]), nullcontext()):
        with restricted:
            same_bits(fit(measure), expected)


class Changes(Callback):
    """A callback that kills a worker after the first round, and adds one after the
    second."""

    max_subtasks = 0

    def __init__(self, client):
        self.client, self.done = client, []

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name == "pass" and len(self.done) < 2:
            (self.join if self.done else self.kill)()

    def kill(self):
        pids = self.client.run(os.getpid)
        address, pid = next(iter(pids.items()))
        os.kill(pid, signal.SIGKILL)
        self.done.append(address)

    def join(self):
        self.client.cluster.scale(3)
        self.client.wait_for_workers(3, timeout=60)
        self.done.append(3)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
@pytest.mark.parametrize("measure", ["semivariance", "evar", "cvar"])
def test_a_worker_that_is_killed_and_one_that_joins(measure):
    """What a killed worker kept of earlier passes is computed again."""
    two = {"threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(2, **two) as local,
        distributed.Client(local) as client,
    ):
        changes = Changes(client)
        same_bits(fit(measure, changes), in_threads(measure))
        assert len(changes.done) == 2


# 25 blocks of 100,000 x 50 returns, 1 GB, made on the workers in every pass
CLIENT = """
import resource
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from sk_stormc import CompositionalPortfolio

def returns(block_info=None):
    rng = np.random.default_rng(block_info[None]["chunk-location"][0])
    some = 0.01 * rng.standard_normal((1000, 50)) + np.linspace(0, 1e-3, 50)
    return (some * rng.uniform(0.5, 1.5, (100, 1, 1))).reshape(-1, 50)

def fit(X):
    portfolio = CompositionalPortfolio(
        risk_measure="cvar", risk_aversion=0.3, constraint="long_only"
    ).fit(X)
    print(portfolio.stop_reason_, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

if __name__ == "__main__":
    two = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**two) as cluster, Client(cluster):
        X = da.map_blocks(returns, chunks=((100_000,) * 25, 50), dtype=float)
        fit(X[:10_000])
        fit(X)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss differs")
def test_the_memory_of_the_client(tmp_path):
    """The client has sums and a table, and never all rows: its memory grows by a small
    part of theirs."""
    program = tmp_path / "client.py"
    program.write_text(CLIENT)
    output = subprocess.run(
        [sys.executable, program], check=True, capture_output=True, text=True
    ).stdout.split()
    assert output[::2] == ["converged"] * 2
    few_rows, all_rows = map(int, output[1::2])
    assert all_rows - few_rows < 300 * 1024
