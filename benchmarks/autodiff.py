"""Derivatives by JAX beside derivatives by hand: iterations, gradients over all rows,
four objectives, and rounds.

An iteration of Algorithm 1 on the mean loss of a linear regression and its deviation
above the mean, of 5,000 rows, by `FiniteSumComposition` with NumPy and by
`DifferentiableComposition`. Both take turns in one process, once with JAX as it is and
once with its setting jax_cpu_enable_async_dispatch off. The table has medians of CPU
times, and of the ratios of each turn.

The four objectives are run twice, and the second CPU time is kept, so that no
compilation is in it. L-BFGS is SciPy's, on one compiled function for Phi and its
gradient, with the rows on the device. Gradients over all rows are compared with this
function, by turns.
"""

import json
import subprocess
import sys
import time
from functools import partial

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from benchmarks._measure import timed
from benchmarks._tables import table
from sk_stormc import STORMCompositional, minimize
from sk_stormc.problems import (
    DifferentiableComposition,
    DifferentiableLogMeanExp,
    FiniteSumComposition,
)

DURATION = "1 minute"
NEEDS_DATA = False
PACKAGES = ("jax",)
# (variables, batch)
ROWS, SIZES, ROUNDS = (5000, ((20, 16), (20, 256), (200, 512), (1000, 1000)), 5)
PASSES = {"neighbourhood components": 10}  # other runs end by themselves


def pair(d):
    """The same problem by hand and by JAX."""
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    A = rng.normal(size=(ROWS, d)) / np.sqrt(d)
    b = A @ rng.normal(size=d) + rng.normal(size=ROWS)

    def inner(x, j):
        return ((A[j] @ x - b[j]) ** 2).mean(keepdims=True)

    def slopes(x, j):
        rows = A[j]
        return rows, rows @ x - b[j]

    def inner_jacobian(x, j):
        rows, off = slopes(x, j)
        return (2 / len(off) * (off @ rows))[None]

    def outer_gradient(x, u, i):
        rows, off = slopes(x, i)
        above = 2 * np.maximum(off**2 - u, 0)
        return 2 / len(off) * (((1 + above) * off) @ rows), -above.mean(keepdims=True)

    def outer(x, u):
        losses = (A @ x - b) ** 2
        return np.mean(losses + np.maximum(losses - u, 0) ** 2)

    def loss(x, row):
        a, target = row
        return (a @ x - target) ** 2

    def outer_of_row(x, u, row):
        return loss(x, row) + jnp.maximum(loss(x, row) - u, 0) ** 2

    by_hand = FiniteSumComposition(
        inner, inner_jacobian, outer_gradient, outer, ROWS, ROWS, d
    )
    return by_hand, DifferentiableComposition(
        loss, outer_of_row, (A, b), (A, b), x0=np.zeros(d)
    )


def iterations(quick):
    """By the size: microseconds of CPU time by hand and by JAX, and their ratio."""
    results = {}
    for d, B in SIZES[:1] if quick else SIZES:
        n = 10 if quick else max(5, min(1000, 10**7 // (d * B)))
        solver = STORMCompositional(
            learning_rate=1e-3,
            momentum=0.1,
            batch_size=B,
            init_batch_size=B,
            max_iter=n,
            tol=0,
        )
        jobs = [
            partial(solver.solve, p, random_state=0, record_every=10**9)
            for p in pair(d)
        ]
        times = (
            np.array(
                [
                    [timed(job)[0] for job in jobs]
                    for _ in range(2 if quick else ROUNDS + 1)
                ]
            )[1:]
            / n
            * 1e6
        )
        by_hand, by_jax = np.median(times, axis=0)
        results[f"{d} x {B}"] = {
            "by hand": by_hand,
            "by JAX": by_jax,
            "ratio": np.median(times[:, 1] / times[:, 0]),
        }
    return results


def in_a_process(asynchronous, quick):
    """`iterations` in a new process, since JAX reads the setting when it is first
    used."""
    code = (
        "import jax; jax.config.update('jax_cpu_enable_async_dispatch', "
        f"{asynchronous})\n"
        "import json; from benchmarks import _tables, autodiff\n"
        f"print(json.dumps(_tables.plain(autodiff.iterations({quick}))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def objectives(quick):
    """By the objective and the way: Phi at the end, and CPU seconds."""
    from benchmarks.autodiff_problems import GALLERY, on_all_data

    results = {}
    for name, make in GALLERY.items():
        parts = make(n=60) if quick else make()
        problem, phi = DifferentiableComposition(**parts), on_all_data(**parts)
        passes = PASSES.get(name, 100)
        limit = passes * (2 * problem.n_inner + problem.n_outer) if not quick else 200
        most = {"maxiter": 3 if quick else passes}
        ways = {
            "storm-c": partial(minimize, problem, random_state=0, max_ifo=limit),
            "L-BFGS": partial(
                scipy_minimize,
                phi,
                parts["x0"].ravel(),
                jac=True,
                method="L-BFGS-B",
                options=most,
            ),
        }
        sizes = [
            problem.n_inner,
            problem.n_outer,
            problem.n_variables,
            problem.jacobian_kind,
        ]
        results[name] = {"sizes": sizes}
        for way, run_it in ways.items():
            for _ in range(2):  # in the first, JAX compiles
                seconds, result, _ = timed(run_it)
            results[name][way] = [result.fun, seconds]
    return results


def gradients(quick):
    """By the problem: microseconds of a gradient over all rows by a jitted function,
    and the ratio to it.

    They are CPU times, or wall times on another device.
    """
    from benchmarks.autodiff_problems import FULL, logistic_of, on_all_data

    results, clock = {}, time.process_time if device() == "cpu" else time.perf_counter
    for name, make in (
        {"linear, 200 x 3": lambda: logistic_of(200, 3)}.items()
        if quick
        else FULL.items()
    ):
        parts = make()
        problem, by_hand = DifferentiableComposition(**parts), on_all_data(**parts)
        ways = partial(by_hand, parts["x0"]), partial(problem.gradient, parts["x0"])
        times = []
        for _ in range(3 if quick else 61):  # in the first, JAX compiles
            times.append([])
            for way in ways:
                began = clock()
                way()
                times[-1].append(clock() - began)
        times = np.array(times[1:]) * 1e6
        results[name] = {
            "by hand": np.median(times[:, 0]),
            "ratio": np.median(times[:, 1] / times[:, 0]),
        }
    return results


def rounds(quick):
    """By the objective and the solver: to a gap of 1e-6, times that all rows are read,
    and evaluations in passes."""
    from benchmarks.autodiff_problems import logistic, logistic_of

    n = 2000 if quick else 200_000
    parts, results = logistic_of(n, 20), {}

    def with_ridge(x, row):
        return logistic(x, row) + 5e-4 * x @ x

    robust = DifferentiableLogMeanExp(with_ridge, parts["inner_data"], x0=np.zeros(20))
    for name, problem in {
        "KL-robust": robust,
        "mean and semideviation": DifferentiableComposition(**parts),
    }.items():
        best = minimize(problem, "lbfgs", tol=1e-9).fun
        goal = best + 1e-6 * (problem.objective(problem.initial_point(None)) - best)
        a_pass = 2 * problem.n_inner + problem.n_outer
        results[name] = {}
        for solver in ("corrected-sample", "lbfgs", "storm-c"):
            result = minimize(
                problem, solver, random_state=0, tol=0, max_iter=10**6,
                record_every=a_pass // 4,
                on_record=lambda record, goal=goal: record.fun <= goal,
            )  # fmt: skip
            reads = {
                "corrected-sample": result.n_iter + 1,
                "lbfgs": result.ifo[-1] // a_pass,
                "storm-c": None,
            }[solver]
            results[name][solver] = [reads, sum(result.n_evaluations.values()) / a_pass]
    return results


def run(quick, data):
    """Measure: iterations in both settings of JAX, the four objectives, gradients over
    all rows, and rounds."""
    settings = {"asynchronous": True, "synchronous": False}
    results = {
        name: in_a_process(asynchronous, quick)
        for name, asynchronous in settings.items()
    }
    results |= {
        "objectives": objectives(quick),
        "gradients": gradients(quick),
        "rounds": rounds(quick),
    }
    return {
        "settings": {"rows": ROWS, "rounds": ROUNDS, "device": device()},
        "results": results,
    }


def device():
    """The kind of the default device, such as "cpu"."""
    import jax

    return jax.devices()[0].device_kind


ITERATIONS = {
    "variables x batch": "{size}",
    "by hand, us": "{asynchronous[by hand]:.0f}",
    "by JAX": "{asynchronous[by JAX]:.0f}",
    "by JAX, synchronous": "{synchronous[by JAX]:.0f}",
    "ratio": "{asynchronous[ratio]:.1f}",
    "ratio, synchronous": "{synchronous[ratio]:.1f}",
}
OBJECTIVES = {
    "objective": "{name}",
    "n_inner": "{sizes[0]}",
    "n_outer": "{sizes[1]}",
    "variables": "{sizes[2]}",
    "Jacobian": "{sizes[3]}",
    "storm-c, Phi": "{storm-c[0]:.3g}",
    "storm-c, s": "{storm-c[1]:.3g}",
    "L-BFGS, Phi": "{L-BFGS[0]:.3g}",
    "L-BFGS, s": "{L-BFGS[1]:.3g}",
}

GRADIENTS = {
    "problem": "{name}",
    "by hand, us": "{by hand:.0f}",
    "ratio": "{ratio:.2f}",
}
READS = {
    "objective": "{name}",
    "corrected-sample, reads of all rows": "{corrected-sample[0]}",
    "passes": "{corrected-sample[1]:.0f}",
    "lbfgs, reads": "{lbfgs[0]}",
    "lbfgs, passes": "{lbfgs[1]:.0f}",
    "storm-c, passes": "{storm-c[1]:.0f}",
}


def tables(stored):
    """Microseconds an iteration and their ratios; the four objectives."""
    results = stored["results"]
    settings = ("asynchronous", "synchronous")
    sizes = [
        {"size": size, **{s: results[s][size] for s in settings}}
        for size in results["asynchronous"]
    ]
    objectives = [{"name": name, **row} for name, row in results["objectives"].items()]
    gradients, rounds = (
        [{"name": name, **row} for name, row in results[part].items()]
        for part in ("gradients", "rounds")
    )
    return {
        "iterations": table(sizes, ITERATIONS),
        "objectives": table(objectives, OBJECTIVES),
        "gradients": table(gradients, GRADIENTS),
        "rounds": table(rounds, READS),
    }
