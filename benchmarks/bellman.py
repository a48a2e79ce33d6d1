"""Policy evaluation: what an iteration costs over the products it needs, and the time to a gap beside LSTD and L-BFGS.

    OMP_NUM_THREADS=1 python benchmarks/bellman.py

The bare products of an iteration of Algorithm 1 (successors, B_g = B_dg = 20, B_f = 1) are the values of all successors
at x_t and x_{t+1}, a batch's gathered at both, the batch's counts in the layout of P, and f's gradient pulled back
through two estimates of P. Solver and products alternate in one process; the table holds medians and their ratios.
"""

import time

import numpy as np
from scipy import sparse

from sk_stormc import STORMCompositional, minimize
from sk_stormc.datasets import make_bellman_problem

B, ROUNDS = 20, 5


def seconds(function, *args, **kwargs):
    """CPU seconds of a call, and what it returns."""
    began = time.process_time()
    value = function(*args, **kwargs)
    return time.process_time() - began, value


def products(problem, n_iterations):
    """The algebra of as many iterations, without a solver."""
    rng = np.random.default_rng(0)
    P, features, n = problem.transition_matrix, problem.features, problem.n_outer
    x, v = rng.normal(size=problem.n_variables), np.zeros(n)
    v[:1] = 1.0
    draws = problem.draw_inner(rng, (1, B))[0]
    layout = P.data.copy() if sparse.issparse(P) else P.ravel().copy()
    for _ in range(n_iterations):
        for _ in range(2):
            V = problem.gamma * (features @ x)
            V.take(problem.successors_of(draws)).sum(0)
            pulled = v @ sparse.csr_array((layout, P.indices, P.indptr), P.shape) if sparse.issparse(P) else v @ P
            pulled @ features
        layout += np.bincount(draws.ravel(), minlength=layout.size) / B


def iteration():
    """Time per iteration over the products."""
    print("One iteration of Algorithm 1, B = 20\n")
    print(f"{'model':42}{'solver us':>12}{'products us':>13}{'ratio':>8}")
    for name, params, n_iterations in (
        ("dense, n = 400, d = 100", {"n_states": 400, "n_features": 100}, 300),
        ("Garnet, n = 20,000, d = 100", {"n_states": 20_000, "n_features": 100, "kind": "garnet"}, 20),
    ):
        model = make_bellman_problem(random_state=1, **params)
        problem = model.problem(metric=None)
        size = (B, B, 1)
        solver = STORMCompositional(0.1, 0.1, 0.1, size, size, normalization="global", anchor=None, tol=0)
        ours, bare = [], []
        for _ in range(ROUNDS):
            short, long = (
                seconds(minimize, problem, solver, max_iter=k, record_every=10**12, random_state=0)[0]
                for k in (n_iterations // 10, n_iterations + n_iterations // 10)
            )
            ours.append((long - short) / n_iterations * 1e6)
            bare.append(seconds(products, problem, n_iterations)[0] / n_iterations * 1e6)
        print(f"{name:42}{np.median(ours):12.0f}{np.median(bare):13.0f}{np.median(ours) / np.median(bare):8.2f}")


def to_a_gap():
    """Time to a relative gap of 1e-3, the preconditioner included."""
    print("\nCPU milliseconds to (Phi - Phi*) / (Phi(0) - Phi*) <= 1e-3, from the model on; IFO over n\n")
    print(f"{'model':42}{'storm-c':>16}{'minibatches':>16}{'lbfgs':>16}{'least squares':>16}")
    for name, params in (
        ("dense, n = 400, d = 100", {"n_states": 400, "n_features": 100}),
        ("dense, n = 400, tabular, gamma .99", {"n_states": 400, "n_features": None, "gamma": 0.99}),
        ("Garnet, n = 2000, d = 100", {"n_states": 2000, "n_features": 100, "kind": "garnet"}),
        ("Garnet, n = 20,000, d = 100", {"n_states": 20_000, "n_features": 100, "kind": "garnet"}),
    ):
        model = make_bellman_problem(random_state=1, **params)
        exact = model.problem()
        optimum, start = exact.objective(exact.minimizer()), exact.objective(np.zeros(exact.n_variables))

        def run(solver, model=model, goal=optimum + 1e-3 * (start - optimum), **kwargs):
            def go():
                problem = model.problem()  # its metric is found anew
                return minimize(problem, solver, random_state=0, on_record=lambda r: r.fun <= goal, tol=0, **kwargs)

            used, result = seconds(go)
            reached = f"{result.ifo[-1] / model.n_states:.0f} n" if result.fun <= goal else "not reached"
            return f"{used * 1e3:.0f} ({reached})"

        cells = [run("storm-c"), run("storm-c", batch_size=(16, None, 16)), run("lbfgs")]
        cells.append(f"{seconds(lambda model=model: model.problem().minimizer())[0] * 1e3:.0f}")
        print(f"{name:42}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    iteration()
    to_a_gap()
