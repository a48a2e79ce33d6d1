"""Policy evaluation on known models: times to a gap, beside least squares."""

from functools import partial

import numpy as np

from benchmarks._measure import timed
from benchmarks._tables import table
from sk_stormc import minimize
from sk_stormc.datasets import make_bellman_problem

DURATION = "9 minutes"
NEEDS_DATA = False
PARTS = ("gap",)
GAP = 1e-3
MODELS = {
    "dense, n = 400, d = 100": {"n_states": 400, "n_features": 100},
    "dense, n = 400, tabular, gamma .99": {
        "n_states": 400,
        "n_features": None,
        "gamma": 0.99,
    },
    "Garnet, n = 2000, d = 100": {
        "n_states": 2000,
        "n_features": 100,
        "kind": "garnet",
    },
    "Garnet, n = 20,000, d = 100": {
        "n_states": 20_000,
        "n_features": 100,
        "kind": "garnet",
    },
}
SMALL = {"dense, n = 40, d = 10": {"n_states": 40, "n_features": 10}}
WAYS = {  # solver and parameters
    "storm-c": ("storm-c", {}),
    "minibatches": ("storm-c", {"batch_size": (16, None, 16)}),
    "lbfgs": ("lbfgs", {}),
}


def gap(quick):
    """CPU milliseconds and IFO to a gap of `GAP` of the first, the preconditioner
    included."""
    rows = []
    for name, params in (SMALL if quick else MODELS).items():
        model = make_bellman_problem(random_state=1, **params)
        exact = model.problem()
        optimum, start = (
            exact.objective(exact.minimizer()),
            exact.objective(np.zeros(exact.n_variables)),
        )
        goal, row = (
            optimum + GAP * (start - optimum),
            {"model": name, "n": model.n_states},
        )
        for way, (solver, changes) in WAYS.items():
            used, result, _ = timed(run_to, goal, model, solver, **changes)
            row[way] = {
                "ms": used * 1e3,
                "ifo": result.ifo[-1] if result.fun <= goal else None,
            }
        row["least squares"] = (
            timed(lambda model=model: model.problem().minimizer())[0] * 1e3
        )
        rows.append(row)
    return rows


def run_to(goal, model, solver, **params):
    """A run that ends at the goal."""
    problem = model.problem()
    return minimize(
        problem,
        solver,
        random_state=0,
        on_record=lambda record: record.fun <= goal,
        tol=0,
        **params,
    )


def run_part(name, quick, images):
    """Measure the only part."""
    return gap(quick)


def to_gap(way, row):
    """Milliseconds to a gap and, in brackets, IFO over n."""
    ifo = row[way]["ifo"]
    return f"{row[way]['ms']:,.0f} (" + (
        "not reached)" if ifo is None else f"{ifo / row['n']:.0f} n)"
    )


COLUMNS = {
    "CPU ms to a relative gap of 1e-3 (IFO)": "{model}",
    "storm-c": partial(to_gap, "storm-c"),
    "minibatches": partial(to_gap, "minibatches"),
    "L-BFGS, same preconditioner": partial(to_gap, "lbfgs"),
    "least squares": "{least squares:,.0f}",
}


def tables(stored):
    """Times to a gap."""
    return {"gap": table(stored["results"]["gap"], COLUMNS)}
