"""Policy evaluation: fits and streams on logs of Gymnasium's environments, beside numpy's LSTD.

A cell of the logs' table is one fit, by rows in the order in which they happened. RMSE is to the exact value of the
states that the log leaves, or to rollouts from states of another log.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks import _bellman_control, _bellman_fits
from benchmarks._bellman_logs import ENVIRONMENTS
from benchmarks._measure import timed
from benchmarks._tables import table
from sk_stormc import minimize
from sk_stormc.datasets import make_bellman_problem

DURATION = "10 minutes"
NEEDS_DATA = False
PACKAGES = ("gymnasium", "scikit-learn")
GAP = 1e-3
MODELS = {
    "dense, n = 400, d = 100": {"n_states": 400, "n_features": 100},
    "dense, n = 400, tabular, gamma .99": {"n_states": 400, "n_features": None, "gamma": 0.99},
    "Garnet, n = 2000, d = 100": {"n_states": 2000, "n_features": 100, "kind": "garnet"},
    "Garnet, n = 20,000, d = 100": {"n_states": 20_000, "n_features": 100, "kind": "garnet"},
}
SMALL = {"dense, n = 40, d = 10": {"n_states": 40, "n_features": 10}}


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


OTHERS = {"gap": gap, "control": _bellman_control.measure}
PARTS = (*OTHERS, *ENVIRONMENTS)


def run_part(name, quick, images):
    """Measure one part."""
    if name in ENVIRONMENTS:
        return _bellman_fits.measure(name, quick)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # runs are cut short on purpose
        return OTHERS[name](quick)


def table_of_gap(rows):
    """Milliseconds to a gap and, in brackets, IFO over n."""

    def text(row, way):
        ifo = row[way]["ifo"]
        return f"{row[way]['ms']:,.0f} (" + ("not reached)" if ifo is None else f"{ifo / row['n']:.0f} n)")

    columns = {
        "CPU ms to a relative gap of 1e-3 (IFO)": "{model}", "storm-c": lambda row: text(row, "storm-c"),
        "minibatches": lambda row: text(row, "minibatches"), "L-BFGS, same metric": lambda row: text(row, "lbfgs"),
        "least squares": "{least squares:,.0f}",
    }  # fmt: skip
    return table(rows, columns)


def tables(stored):
    """What was measured: a table for each part that is no environment, and two of all environments."""
    results = stored["results"]
    makers = {"gap": table_of_gap, "control": _bellman_control.table}
    found = {name: make(results[name]) for name, make in makers.items() if name in results}
    logs = {part: results[part] for part in ENVIRONMENTS if part in results}
    if logs:
        found |= {"verdict": _bellman_fits.verdict(logs), "logs": _bellman_fits.all_cells(logs)}
    return found
