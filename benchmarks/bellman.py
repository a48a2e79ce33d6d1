"""Policy evaluation: fits and streams on logs of Gymnasium's environments, beside numpy's LSTD; what iterations cost.

A cell of the logs' table is one fit, by rows in the order in which they happened. RMSE is to the exact value of the
states that the log leaves, or to rollouts from states of another log. CPU times of `iteration` are medians of rounds in
which the solver and the bare products of an iteration of Algorithm 1 (successors, B_g = B_dg = 20, B_f = 1) alternate:
the values of all successors at x_t and x_{t+1}, a batch's gathered at both, the batch's counts in the layout of P, and
f's gradient pulled back through two estimates of P.
"""

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from benchmarks import _bellman_control, _bellman_fits
from benchmarks._bellman_logs import ENVIRONMENTS
from benchmarks._measure import timed
from benchmarks._tables import markdown
from sk_stormc import STORMCompositional, minimize
from sk_stormc.datasets import make_bellman_problem
from sk_stormc.reproduce.bellman import MAX_IFO, run_bellman
from sk_stormc.reproduce.runner import group_runs

DURATION = "10 minutes"
NEEDS_DATA = False
PACKAGES = ("gymnasium", "scikit-learn")
B, ROUNDS, GAP = 20, 5, 1e-3
MODELS = {
    "dense, n = 400, d = 100": {"n_states": 400, "n_features": 100},
    "dense, n = 400, tabular, gamma .99": {"n_states": 400, "n_features": None, "gamma": 0.99},
    "Garnet, n = 2000, d = 100": {"n_states": 2000, "n_features": 100, "kind": "garnet"},
    "Garnet, n = 20,000, d = 100": {"n_states": 20_000, "n_features": 100, "kind": "garnet"},
}
SMALL = {"dense, n = 40, d = 10": {"n_states": 40, "n_features": 10}}


def products(problem, n_iterations):
    """The algebra of as many iterations, without a solver."""
    rng = np.random.default_rng(0)
    P, features, n = problem.transition_matrix, problem.features, problem.n_outer
    x, v = rng.normal(size=problem.n_variables), np.zeros(n)
    v[:1] = 1.0
    draws = problem.source.draw_inner(rng, (1, B))[0]
    layout = P.data.copy() if sparse.issparse(P) else P.ravel().copy()
    for _ in range(n_iterations):
        for _ in range(2):
            V = problem.gamma * (features @ x)
            V.take(problem.successors_of(draws)).sum(0)
            pulled = v @ sparse.csr_array((layout, P.indices, P.indptr), P.shape) if sparse.issparse(P) else v @ P
            pulled @ features
        layout += np.bincount(draws.ravel(), minlength=layout.size) / B


def iteration(quick):
    """Microseconds of an iteration of Algorithm 1, and of its products."""
    cases = list(MODELS.items())
    jobs = [(*next(iter(SMALL.items())), 10)] if quick else [(*cases[0], 300), (*cases[-1], 20)]
    rows = []
    for name, params, n_iterations in jobs:
        problem = make_bellman_problem(random_state=1, **params).problem(metric=None)
        size = (B, B, 1)
        solver = STORMCompositional(0.1, 0.1, 0.1, size, size, normalization="global", tol=0)
        ours, bare = [], []
        for _ in range(2 if quick else ROUNDS):
            short, long = (
                timed(minimize, problem, solver, max_iter=k, record_every=10**12, random_state=0)[0]
                for k in (n_iterations // 10, n_iterations + n_iterations // 10)
            )
            ours.append((long - short) / n_iterations * 1e6)
            bare.append(timed(products, problem, n_iterations)[0] / n_iterations * 1e6)
        rows.append({"model": name, "solver": np.median(ours), "products": np.median(bare)})
    return rows


def gap(quick):
    """CPU milliseconds and IFO to a gap of `GAP` of the first, the metric included."""
    ways = {"storm-c": {}, "minibatches": {"batch_size": (16, None, 16)}, "lbfgs": {}}
    rows = []
    for name, params in (SMALL if quick else MODELS).items():
        model = make_bellman_problem(random_state=1, **params)
        exact = model.problem()
        optimum, start = exact.objective(exact.minimizer()), exact.objective(np.zeros(exact.n_variables))
        goal, row = optimum + GAP * (start - optimum), {"model": name, "n": model.n_states}
        for way, changes in ways.items():

            def run(way=way, changes=changes, model=model, goal=goal):
                solver = "lbfgs" if way == "lbfgs" else "storm-c"
                return minimize(
                    model.problem(), solver, random_state=0, on_record=lambda r: r.fun <= goal, tol=0, **changes
                )

            used, result, _ = timed(run)
            row[way] = {"ms": used * 1e3, "ifo": result.ifo[-1] if result.fun <= goal else None}
        row["least squares"] = timed(lambda model=model: model.problem().minimizer())[0] * 1e3
        rows.append(row)
    return rows


def published(quick):
    """`python -m sk_stormc reproduce bellman`: by case and method, gaps over the first one at the end of the budget."""
    model = make_bellman_problem(40, 10, random_state=1) if quick else None
    effort = {"max_ifo": 3000, "n_seeds": 1} if quick else {"max_ifo": MAX_IFO, "n_seeds": 3}
    return [
        {
            "case": case, "method": method, "gap": float(np.median([r.gap[-1] / r.gap[0] for r in runs])),
            "ifo": float(np.median([r.ifo[-1] for r in runs])),
        }
        for case, methods in group_runs(run_bellman(model, **effort)).items()
        for method, runs in methods.items()
    ]  # fmt: skip


OTHERS = {part.__name__: part for part in (iteration, gap, published)} | {"control": _bellman_control.measure}
PARTS = (*OTHERS, *ENVIRONMENTS)


def run_part(name, quick, images):
    """Measure one part."""
    if name in ENVIRONMENTS:
        return _bellman_fits.measure(name, quick)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # runs are cut short on purpose
        return OTHERS[name](quick)


def table_of_iteration(rows):
    """An iteration over its products."""
    header, lines = ["model", "solver, us", "products, us", "ratio"], []
    for row in rows:
        ours, bare = row["solver"], row["products"]
        lines.append([row["model"], f"{ours:.0f}", f"{bare:.0f}", f"{ours / bare:.2f}"])
    return markdown(header, lines)


def table_of_gap(rows):
    """Milliseconds to a gap and, in brackets, IFO over n."""

    def text(row, way):
        ifo = row[way]["ifo"]
        return f"{row[way]['ms']:,.0f} (" + ("not reached)" if ifo is None else f"{ifo / row['n']:.0f} n)")

    ways = ("storm-c", "minibatches", "lbfgs")
    header = ["CPU ms to a relative gap of 1e-3 (IFO)", *ways[:2], "L-BFGS, same metric", "least squares"]
    return markdown(
        header, [[row["model"], *(text(row, way) for way in ways), f"{row['least squares']:,.0f}"] for row in rows]
    )


def table_of_published(rows):
    """The gap at the end over the first."""
    header = ["case", "method", "IFO", "gap / gap at the start"]
    return markdown(header, [[r["case"], r["method"], f"{r['ifo']:,.0f}", f"{r['gap']:.3g}"] for r in rows])


def tables(stored):
    """What was measured: a table for each part that is no environment, and two of all environments."""
    results = stored["results"]
    makers = {"iteration": table_of_iteration, "gap": table_of_gap, "published": table_of_published}
    makers["control"] = _bellman_control.table
    found = {name: make(results[name]) for name, make in makers.items() if name in results}
    logs = {part: results[part] for part in ENVIRONMENTS if part in results}
    if logs:
        found |= {"verdict": _bellman_fits.verdict(logs), "logs": _bellman_fits.all_cells(logs)}
    return found
