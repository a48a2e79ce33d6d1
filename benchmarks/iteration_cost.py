"""What one iteration of Algorithm 1 costs over the algebra it cannot do without.

    python benchmarks/iteration_cost.py

The algebra is three gathers of a batch (g, dg, f) and four products: the mean row of the g and of the dg batch
and, on the f batch, the returns at x_t and x_{t+1} together and both gradients together; once with the operator @
and once with the method dot, which numpy runs faster on small arrays. It and the solver (anchor=None, B = 100,
problem built outside the clock) alternate in one process; the table holds medians and their ratios. The loop's own
share is what an iteration costs on a problem that computes nothing.
"""

import operator
import time

import numpy as np

from sk_stormc import STORMCompositional
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import CompositionalProblem, PortfolioProblem

B, ITERATIONS, ROUNDS = 100, 1000, 15


class Nothing(CompositionalProblem):
    """A problem of no cost: what is left is the loop, the oracle and the arithmetic of the steps."""

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


def seconds(work):
    """CPU seconds of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measure(n_assets, n_periods=2500):
    """Microseconds an iteration of the jobs, and the ratios of the solver's to the two of the algebra."""
    R = make_gaussian_returns(n_periods, n_assets, random_state=0)
    # one record at the start and one at the end: records are not part of an iteration
    solver = STORMCompositional(0.1, 0.1, 0.01, B, B, "global", None, max_iter=ITERATIONS, tol=0)
    problems = PortfolioProblem(R), Nothing(n_periods, n_assets)
    draws = np.random.default_rng(0).integers(n_periods, size=(ITERATIONS, 3, B))
    ones = np.full(B, 1 / B)
    jobs = [
        lambda: solver.solve(problems[0], random_state=0, record_every=10**9),
        lambda: algebra(R, draws, ones, operator.matmul),
        lambda: algebra(R, draws, ones, np.ndarray.dot),
        lambda: solver.solve(problems[1], random_state=0, record_every=10**9),
    ]
    times = np.array([[seconds(job) for job in jobs] for _ in range(ROUNDS)])[2:]
    return np.median(times, axis=0) / ITERATIONS * 1e6, np.median(times[:, :1] / times[:, 1:3], axis=0)


if __name__ == "__main__":
    print(f"us an iteration, numpy {np.__version__}")
    print(
        f"{'N':>6}{'solver':>10}{'loop':>8}{'algebra @':>12}{'ratio':>8}{'target':>8}{'algebra dot':>14}{'ratio':>8}"
    )
    for n_assets, target in ((25, 3.5), (200, 2.2), (2000, 1.6)):
        (solver, at, dot, loop), (ratio, strict) = measure(n_assets)
        print(
            f"{n_assets:>6}{solver:>10.1f}{loop:>8.1f}{at:>12.1f}{ratio:>8.2f}{target:>8}{dot:>14.1f}{strict:>8.2f}"
        )
