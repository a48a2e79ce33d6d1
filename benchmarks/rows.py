"""Portfolios of 1,000,000 x 50 returns in a file, in memory and on a cluster, and maps
on a cluster: time, passes, proved gap and memory.

Returns are three factors and noise, both of Student's t with four degrees of freedom.
Each fit of a file or in memory has a process of its own, whose peak of resident memory
is read. `numpy` is the CPU time in which numpy reads the file and sums all products.
Except for the variance, skfolio's programs have a row for each period, so that it fits
fewer of them. The part "scenarios" has other numbers of assets, and the same programs
by Clarabel and HiGHS through cvxpy. A fit of another library ends after forty seconds.
Wall times of a cluster of processes on one computer depend on what else it does. The
CPU time of the workers does so less.
"""

import importlib
import json
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks._measure import timed
from benchmarks._sne_fits import peak
from benchmarks._tables import ROOT, table
from sk_stormc import CompositionalPortfolio, SNEEmbedding

DURATION = "15 minutes"
NEEDS_DATA = False
PACKAGES = ("skfolio", "dask", "cvxpy", "clarabel")
N_ROWS, N_ASSETS, BLOCK = 1_000_000, 50, 40_000
N_FEW, N_MANY = 20_000, 200_000
LARGE, N_TASKS = 250_000, 1_000  # rows of a partition of 100 MB; tiny partitions
N_SAMPLE, N_POINTS = 5_000, 16_000
SCENARIOS = (10_000, 400), (50_000, 400), (1_000, 503), (60_000, 20)
OTHERS = ("clarabel", "highs", "skfolio")
LONGEST = 40  # CPU seconds of another library's fit
AVERSIONS = {
    "variance": 5.0,
    "semivariance": 20.0,
    "entropic": 10.0,
    "cvar": 0.3,
    "evar": 0.1,
    "semideviation": 0.3,
}
SKFOLIO = {
    "variance": "VARIANCE",
    "semivariance": "SEMI_VARIANCE",
    "cvar": "CVAR",
    "evar": "EVAR",
    "semideviation": "SEMI_DEVIATION",
}


# The returns, and fits of them in processes of their own


def write(path, n, d):
    """The file of returns."""
    rng = np.random.default_rng(3)
    loadings, spread = rng.normal(0.6, 0.4, (3, d)), rng.uniform(0.5, 1.5, d)
    mean = 0.0003 + 0.00025 * rng.normal(size=d)
    X = np.lib.format.open_memmap(path, "w+", float, (n, d))
    for i in range(0, n, BLOCK):
        m = min(BLOCK, n - i)
        noise = 0.01 * rng.standard_t(4, (m, d)) * spread
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


def ours(measure):
    """This library's estimator."""
    return CompositionalPortfolio(
        risk_measure=measure, risk_aversion=AVERSIONS[measure], constraint="long_only"
    )


def theirs(measure):
    """skfolio's."""
    from skfolio import RiskMeasure
    from skfolio.optimization import MeanRisk, ObjectiveFunction

    return MeanRisk(
        objective_function=ObjectiveFunction.MAXIMIZE_UTILITY,
        risk_measure=RiskMeasure[SKFOLIO[measure]],
        risk_aversion=AVERSIONS[measure],
    )


def by_cvxpy(X, measure, solver):
    """The same portfolio by a solver of cvxpy, whose objective is returned."""
    import cvxpy as cp

    n, d = X.shape
    w, level, t = cp.Variable(d), cp.Variable(), cp.Variable()
    mean, rows = X.mean(axis=0), []
    losses = (mean - X) @ w
    if measure == "variance":
        risk = cp.sum_squares(losses) / n
    elif measure == "semideviation":
        risk = cp.norm(cp.pos(losses)) / n**0.5
    elif measure == "cvar":
        risk = level + cp.sum(cp.pos(losses - level)) / (0.05 * n) - mean @ w
    else:  # evar
        u = cp.Variable(n)
        rows = [cp.sum(u) <= t, cp.ExpCone(losses - level, t * np.ones(n), u)]
        risk = level - t * np.log(0.05 * n) - mean @ w
    program = cp.Problem(
        cp.Minimize(AVERSIONS[measure] * risk - mean @ w),
        [w >= 0, cp.sum(w) == 1, *rows],
    )
    return float(program.solve(solver=solver.upper()))


def fitted(path, measure, how):
    """A fit of a "file", in "memory", or by another library."""
    X = np.load(path, mmap_mode="r" if how == "file" else None)
    if how in OTHERS:
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
        fit = theirs(measure).fit if how == "skfolio" else partial(by_cvxpy, X)
        args = [X] if how == "skfolio" else [measure, how]
        try:
            importlib.import_module("skfolio" if how == "skfolio" else "cvxpy")
            seconds, value, _ = timed(fit, *args)
        except Exception as error:  # theirs, and the table says "failed"
            return {"seconds": None, "error": repr(error)}
        found = {"measure": measure, "seconds": seconds, "peak": 1024 * peak()}
        return found if how == "skfolio" else found | {"objective": value}
    portfolio = ours(measure)
    seconds, _, warned = timed(portfolio.fit, X)
    assert not warned
    found = {"measure": measure, "seconds": seconds, "peak": 1024 * peak()}
    return found | {
        "rounds": portfolio.n_iter_,
        "objective": portfolio.loss_curve_[-1],
        "gap": portfolio.dual_gap_,
    }


def apart(*args):
    """`fitted`, in a process of its own."""
    call = [sys.executable, "-m", "benchmarks.rows", *map(str, args)]
    run = subprocess.run(call, cwd=ROOT, capture_output=True, text=True)
    if run.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"seconds": LONGEST}
    run.check_returncode()
    output = run.stdout.splitlines()[-1]
    print(*args[1:], output, flush=True)
    return json.loads(output)


@contextmanager
def returns(n, d=N_ASSETS):
    """The path of a file of n periods of d assets."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "returns.npy"
        write(path, n, d)
        yield path


# Parts


def file(quick):
    """Fits of the file."""
    with returns(20_000 if quick else N_ROWS) as path:
        numpy = sums(path)
        return [
            apart(path, measure, "file") | {"numpy": numpy} for measure in AVERSIONS
        ]


def memory(quick):
    """Fits of an array, and skfolio's."""
    found = []
    for n in [2_000] if quick else [N_FEW, N_MANY]:
        with returns(n) as path:
            for measure in AVERSIONS:
                row = apart(path, measure, "memory") | {"n": n}
                if measure in SKFOLIO and (n != N_MANY or measure == "variance"):
                    row["skfolio"] = apart(path, measure, "skfolio")["seconds"]
                found.append(row)
    return found


def scenarios(quick):
    """Fits of arrays, and those of other libraries."""
    found, measures = [], ("cvar", "variance", "semideviation", "evar")
    for n, d in [(300, 4)] if quick else SCENARIOS:
        with returns(n, d) as path:
            for measure in measures[:1] if quick else measures:
                row = apart(path, measure, "memory") | {"n": n, "d": d}
                for other in OTHERS:
                    # the other programs are not linear
                    if other != "highs" or measure == "cvar":
                        row[other] = apart(path, measure, other)["seconds"]
                found.append(row)
    return found


def lazily(path, n, size=BLOCK):
    """The file as a dask array, whose partitions the workers read."""
    import dask
    import dask.array as da

    def load(start):
        return np.array(np.load(path, mmap_mode="r")[start : start + size])

    return da.concatenate([
        da.from_delayed(
            dask.delayed(load)(start), (min(size, n - start), N_ASSETS), float
        )
        for start in range(0, n, size)
    ])  # fmt: skip


@contextmanager
def workers(n_workers):
    """A cluster of processes. Yields a function that returns the CPU seconds of the
    workers so far."""
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers, threads_per_worker=1, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        yield lambda: sum(client.run(time.process_time).values())


@contextmanager
def passes():
    """Yields a list that gets the seconds and the bytes of the result of each pass."""
    from sk_stormc.utils.dask_blocks import DaskBlocks

    found, original = [], DaskBlocks.sum

    def measured(self, function):
        began = time.perf_counter()
        result = original(self, function)
        found.append((time.perf_counter() - began, len(pickle.dumps(result))))
        return result

    with mock.patch.object(DaskBlocks, "sum", measured):
        yield found


def fitted_there(X, measure, n_workers, cpu):
    """A fit on a cluster."""
    before, began = cpu(), time.perf_counter()
    with passes() as made:
        portfolio = ours(measure).fit(X)
    found = {
        "measure": measure,
        "workers": n_workers,
        "rounds": portfolio.n_iter_,
        "passes": len(made),
        "wall": time.perf_counter() - began,
        "of passes": sum(seconds for seconds, _ in made),
        "cpu": cpu() - before,
        "bytes": sum(size for _, size in made),
    }
    print(found, flush=True)
    return found


def cluster(quick):
    """Fits on one and two workers."""
    n, found = 20_000 if quick else N_ROWS, []
    with returns(n) as path:
        X = lazily(str(path), n)
        for n_workers in (1, 2):
            with workers(n_workers) as cpu:
                ours("cvar").fit(X[:BLOCK])  # the workers import the package
                for measure in AVERSIONS:
                    found.append(fitted_there(X, measure, n_workers, cpu))
    return found


def maps(quick):
    """Rows that are placed in a map, a second and worker."""
    import dask.array as da
    from sklearn.datasets import make_blobs

    n_sample, n = (300, 1_000) if quick else (N_SAMPLE, N_POINTS)
    rows, _ = make_blobs(n, N_ASSETS, centers=20, random_state=0)
    embedding, found = SNEEmbedding(random_state=0).fit(rows[:n_sample]), []
    for n_workers in (1, 2):
        with workers(n_workers) as cpu:
            X = da.from_array(rows, chunks=(n // 8, N_ASSETS))
            embedding.transform(X[: n // 8]).compute()  # the workers import the package
            before, began = cpu(), time.perf_counter()
            embedding.transform(X).compute()
            wall = time.perf_counter() - began
            found.append(
                {"n": n, "workers": n_workers, "wall": wall, "cpu": cpu() - before}
            )
            print(found[-1], flush=True)
    return found


def passes_of_fit(X, measure):
    """The numbers of passes over X, and over the returns of a portfolio."""
    from sk_stormc.portfolio.rounds.rows import Rows
    from sk_stormc.utils.blocks import LocalBlocks

    calls = []

    def counted(place, name):
        method = getattr(place, name)

        def count(self, *args):
            calls.append(place)
            return method(self, *args)

        return mock.patch.object(place, name, count)

    with (
        counted(LocalBlocks, "sum"),
        counted(Rows, "sum"),
        counted(Rows, "returns_of"),
    ):
        ours(measure).fit(X)
    over_X = calls.count(Rows)  # of dask, with the first sum of a portfolio's returns
    return {"over X": over_X, "others": calls.count(LocalBlocks) - over_X}


def cost_of_passes(path, n):
    """CPU seconds of a worker for a million rows, in partitions of 100 MB, and of the
    client and the scheduler for a partition, for passes over X and others."""
    import dask.array as da

    from sk_stormc.utils.blocks import blocks_of

    def returns(start, rows):
        return np.column_stack([rows @ np.full(N_ASSETS, 1 / N_ASSETS), rows[:, 0]])

    def squares(start, kept):
        return np.array([kept[:, 1] @ kept[:, 0] ** 2])

    found = {}
    with workers(1) as cpu:
        for X, cost, of_workers in (
            (lazily(str(path), n, min(n, LARGE)), "row", True),
            (da.ones((N_TASKS, N_ASSETS), chunks=(1, N_ASSETS)), "task", False),
        ):
            blocks = blocks_of(X)
            blocks.map(returns).sum(squares)  # the workers import the package
            kept, unit = blocks.map(returns), n / 1e6 if of_workers else N_TASKS
            for kind in ("over X", "others"):  # the first pass computes the map
                before = cpu() if of_workers else time.process_time()
                kept.sum(squares)
                after = cpu() if of_workers else time.process_time()
                found[f"{cost}, {kind}"] = (after - before) / unit
    print(found, flush=True)
    return found


def model(quick):
    """Passes of all fits, and what a pass costs."""
    n = 20_000 if quick else N_ROWS
    with returns(n) as path:
        costs = cost_of_passes(path, n)
        X = np.load(path, mmap_mode="r")
        return [
            {"measure": measure} | passes_of_fit(X, measure) | costs
            for measure in AVERSIONS
        ]


def seconds_of_billion(row):
    """The seconds of the passes over 1e9 rows in 4,000 partitions on 100 workers, if
    the workers and the scheduler wait for each other."""
    return sum(
        row[kind] * (1e3 / 100 * row[f"row, {kind}"] + 4000 * row[f"task, {kind}"])
        for kind in ("over X", "others")
    )


PARTS = {
    part.__name__: part for part in (file, memory, scenarios, cluster, maps, model)
}


def run_part(name, quick, images):
    """Measure one part."""
    return PARTS[name](quick)


def seconds_of(other, row):
    """The seconds of another library, that it took too long or failed, or nothing."""
    seconds = row.get(other, "")
    if seconds == LONGEST:
        return f"> {LONGEST}"
    return "failed" if seconds is None else f"{seconds:.2f}" if seconds else ""


COLUMNS = {
    "file": {
        "": "{measure}",
        "CPU seconds": "{seconds:.2f}",
        "time / one pass of numpy": lambda row: f"{row['seconds'] / row['numpy']:.1f}",
        "rounds": "{rounds}",
        "objective": "{objective:.6g}",
        "proved gap": "{gap:.1e}",
        "peak memory": "{peak:.0f} MB",
    },
    "memory": {
        "periods": "{n:,}",
        "": "{measure}",
        "CPU seconds": "{seconds:.2f}",
        "skfolio": partial(seconds_of, "skfolio"),
        "proved gap": "{gap:.1e}",
        "peak memory": "{peak:.0f} MB",
    },
    "scenarios": {
        "periods x assets": "{n:,} x {d}",
        "": "{measure}",
        "CPU seconds": "{seconds:.2f}",
        "proved gap": "{gap:.1e}",
        "Clarabel": partial(seconds_of, "clarabel"),
        "HiGHS": partial(seconds_of, "highs"),
        "skfolio": partial(seconds_of, "skfolio"),
    },
    "cluster": {
        "": "{measure}",
        "workers": "{workers}",
        "rounds": "{rounds}",
        "passes": "{passes}",
        "wall seconds": "{wall:.1f}",
        "of a pass": lambda row: f"{row['of passes'] / row['passes']:.2f}",
        "CPU seconds of the workers": "{cpu:.1f}",
        "to the client, a round": lambda row: (
            f"{row['bytes'] / row['rounds'] / 1e6:.1f} MB"
        ),
    },
    "maps": {
        "rows": "{n:,}",
        "workers": "{workers}",
        "wall seconds": "{wall:.1f}",
        "rows a second and worker": lambda row: (
            f"{row['n'] / row['wall'] / row['workers']:,.0f}"
        ),
        "rows a CPU second": lambda row: f"{row['n'] / row['cpu']:,.0f}",
    },
    "model": {
        "": "{measure}",
        "passes over X": "{over X}",
        "other passes": "{others}",
        "calculated minutes": lambda row: f"{seconds_of_billion(row) / 60:.1f}",
    },
}


def tables(stored):
    """A table for each part that was measured."""
    return {
        part: table(rows, COLUMNS[part]) for part, rows in stored["results"].items()
    }


if __name__ == "__main__":  # a process of its own, of `apart`
    print(json.dumps(fitted(*sys.argv[1:])))
