"""What one iteration of Algorithm 1 costs over the algebra it cannot do without.

The algebra is three gathers of a batch (g, dg, f) and four products: the mean row of
the g and of the dg batch and, on the f batch, the returns at x_t and x_{t+1} together
and both gradients together; once with the operator @ and once with the method dot,
which numpy runs faster on small arrays. It and the solver (Algorithm 1, B = 100,
problem built outside the clock) alternate in one process; the table holds medians and
their ratios. The loop's own share is what an iteration costs on a problem that computes
nothing.
"""

import operator
from functools import partial

import numpy as np

from benchmarks._measure import timed
from benchmarks._tables import table
from sk_stormc import STORMCompositional
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import CompositionalProblem, PortfolioProblem

DURATION = "30 seconds"
NEEDS_DATA = False
B, ITERATIONS, ROUNDS = 100, 1000, 15
SIZES = (25, 200, 2000)  # assets


class Nothing(CompositionalProblem):
    """A problem of no cost: what is left is the loop, the oracle and the arithmetic of
    the steps."""

    jacobian_kind = "constant"

    def __init__(self, n_periods, n_assets):
        self.n_inner = self.n_outer = n_periods
        self.n_variables = n_assets
        self.u, self.J, self.F = np.ones(1), np.ones((1, n_assets)), np.ones(n_assets)

    def inner_batch(self, draws):
        return self.J

    def outer_batch(self, draws):
        return self.F

    def inner(self, x, batch):
        return self.u

    def jacobian(self, x, batch):
        return batch

    def outer_gradient(self, x, u, batch):
        return batch, u

    def outer(self, x, u):
        return 0.0


def algebra(R, draws, ones, product):
    """Three gathers and four products for each row of draws."""
    columns = np.zeros((R.shape[1], 2))
    weights = np.zeros((2, B))
    for i, j, k in draws:
        product(ones, R.take(i, 0, mode="clip"))
        product(ones, R.take(j, 0, mode="clip"))
        rows = R.take(k, 0, mode="clip")
        product(rows, columns)
        product(weights, rows)


def measure(n_assets, iterations=ITERATIONS, rounds=ROUNDS, n_periods=2500):
    """Microseconds an iteration of the solver, its loop and the algebra, and ratios of
    the first to the last."""
    R = make_gaussian_returns(n_periods, n_assets, random_state=0)
    # one record at the start and one at the end: records are not part of an iteration
    solver = STORMCompositional(
        learning_rate=0.1,
        precision=0.1,
        momentum=0.01,
        batch_size=B,
        init_batch_size=B,
        normalization="global",
        max_iter=iterations,
        tol=0,
    )
    draws = np.random.default_rng(0).integers(n_periods, size=(iterations, 3, B))
    run_it, ones = (
        partial(solver.solve, random_state=0, record_every=10**9),
        np.full(B, 1 / B),
    )
    jobs = [
        partial(run_it, PortfolioProblem(R)),
        partial(run_it, Nothing(n_periods, n_assets)),
        partial(algebra, R, draws, ones, operator.matmul),
        partial(algebra, R, draws, ones, np.ndarray.dot),
    ]
    times = np.array([[timed(job)[0] for job in jobs] for _ in range(rounds)])[2:]
    microseconds = np.median(times, axis=0) / iterations * 1e6
    to_at, to_dot = np.median(times[:, :1] / times[:, 2:], axis=0)
    return {
        **dict(zip(("solver", "loop", "@", "dot"), microseconds, strict=True)),
        "to @": to_at,
        "to dot": to_dot,
    }


def run(quick, data):
    """Measure: by the number of assets, what `measure` returns."""
    sizes, effort = ((5, 10), {"iterations": 20, "rounds": 4}) if quick else (SIZES, {})
    results = {n_assets: measure(n_assets, **effort) for n_assets in sizes}
    return {
        "settings": {"B": B, "iterations": ITERATIONS, "rounds": ROUNDS, **effort},
        "results": results,
    }


COLUMNS = {
    "N": "{n_assets}",
    "solver, us": "{solver:.1f}",
    "loop alone, us": "{loop:.1f}",
    "algebra by `@`, us": "{@:.1f}",
    "algebra by `dot`, us": "{dot:.1f}",
    "ratio to `@`": "{to @:.2f}",
    "ratio to `dot`": "{to dot:.2f}",
}


def tables(stored):
    """Microseconds an iteration, and their ratios."""
    rows = [
        {"n_assets": n_assets, **row} for n_assets, row in stored["results"].items()
    ]
    return {"ratios": table(rows, COLUMNS)}
