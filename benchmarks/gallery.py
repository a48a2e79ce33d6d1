"""Eight problems of the literature: the default rule, SARAH-C as it is and tuned, and
L-BFGS.

A run is judged by its shortfall (Phi_end - best) / (Phi_0 - best): the part of L-BFGS'
decrease of the objective that is missing at the end, where best is what a long run of
L-BFGS finds (`benchmarks.gallery_problems.reference`). All runs have the library's
budget of 100 passes and its tol.

SARAH-C is tuned by learning rate and batch size: the rate is a power of two times the
automatic one of the first tuning seed. The setting with the least median shortfall over
the tuning seeds is run with the reporting seeds. Shortfalls below `ALIKE` count as
equal, and of equal settings the one with the fewest passes is taken.
"""

import numpy as np

from benchmarks._measure import a_pass, once, timed
from benchmarks._tables import table
from benchmarks.gallery_problems import (
    GALLERY,
    bounded_deviation,
    reference,
    scaled_columns,
    shortfall,
    start,
)
from sk_stormc import minimize

DURATION = "12 minutes"
NEEDS_DATA = False
LIMIT = 100  # passes, as the solvers' own budget
FACTORS = tuple(2.0**k for k in range(-3, 6))  # times the automatic learning rate
BATCHES = (16, 64)
TUNING, REPORTING = (0, 1), (100, 101, 102, 103, 104)
ALIKE = 1e-6
QUICK = ("maml", "policy evaluation")
METHODS = {
    "storm-c": "storm-c, default",
    "sarah-c": "sarah-c, default",
    "tuned": "sarah-c, tuned",
    "lbfgs": "L-BFGS, default",
}


def badly_scaled_with_preconditioner():
    """The badly scaled problem with the inverse squares of its columns as
    preconditioner."""
    A, b = scaled_columns()
    return bounded_deviation(A, b, preconditioner=1 / np.mean(A**2, axis=0))


def measure(problem, solver, seed, limit, **params):
    """One run."""
    n = a_pass(problem)
    # the shorter budget of a quick run is given; the solvers' own is not, since they
    # warn where theirs ends a run
    budget = {} if limit == LIMIT else {"max_ifo": limit * n}
    _, result, warned = timed(
        minimize, problem, solver, random_state=seed, **budget, **params
    )
    return shortfall(problem, result.fun), result.ifo[-1] / n, warned


def summary(runs):
    """Of several runs: shortfall and passes, each median and worst, and how many warned
    of how many."""
    missing, passes, warned = (np.array(values) for values in zip(*runs, strict=True))
    return {
        "shortfall": [np.median(missing), missing.max()],
        "passes": [np.median(passes), passes.max()],
        "warned": [int(warned.sum()), len(runs)],
    }


def automatic_rate(problem, batch, seed):
    """The learning rate that SARAH-C takes by itself."""
    result = minimize(
        problem, "sarah-c", random_state=seed, batch_size=batch, max_iter=1
    )
    return result.state.state.rule.learning_rate


def tune(problem, limit, factors, batches, seeds):
    """The best setting of SARAH-C: its parameters, a short text, and whether its rate
    is at an end of the grid."""
    found = []
    for batch in batches:
        automatic = automatic_rate(problem, batch, seeds[0])
        for factor in factors:
            params = {"learning_rate": factor * automatic, "batch_size": batch}
            runs = [
                measure(problem, "sarah-c", seed, limit, **params) for seed in seeds
            ]
            missing, passes = np.median([run[:2] for run in runs], axis=0)
            edge = factor in (factors[0], factors[-1])
            found.append(
                ((max(missing, ALIKE), passes), params, f"{factor:g}, B={batch}", edge)
            )
    return min(found, key=lambda entry: entry[0])[1:]


def compare(problem, limit, factors, batches, tuning, reporting):
    """All methods on one problem: a `summary` for each, and the setting that tuning
    chose."""
    params, text, edge = tune(problem, limit, factors, batches, tuning)
    ways = {
        "storm-c": ("storm-c", {}),
        "sarah-c": ("sarah-c", {}),
        "tuned": ("sarah-c", params),
    }
    found = {}
    for way, (solver, chosen) in ways.items():
        found[way] = summary(
            [measure(problem, solver, seed, limit, **chosen) for seed in reporting]
        )
    return {
        **found,
        "lbfgs": summary([measure(problem, "lbfgs", 0, limit)]),
        "setting": [text, edge],
    }


def run(quick, data):
    """Measure: for each problem what `compare` returns, and its sizes and reference."""
    settings = {
        "limit": LIMIT,
        "factors": FACTORS,
        "batches": BATCHES,
        "tuning": TUNING,
        "reporting": REPORTING,
    }
    makers = {
        **GALLERY,
        "badly scaled, with a preconditioner": badly_scaled_with_preconditioner,
    }
    if quick:
        settings = {
            "limit": 5,
            "factors": (0.5, 1.0, 2.0),
            "batches": (64,),
            "tuning": (0,),
            "reporting": (100, 101),
        }
        makers = {name: GALLERY[name] for name in QUICK}
    results = {}
    for name, maker in makers.items():
        problem = maker()
        results[name] = {
            "best": reference(problem),
            "start": start(problem),
            **compare(problem, **settings),
        }
        print(f"{name}: done", flush=True)
    return {"settings": {**settings, "alike": ALIKE}, "results": results}


def fraction(value):
    """A shortfall as a cell has it."""
    if abs(value) < 1e-9:
        return "<1e-9"
    if abs(value) >= 1e-3:
        return f"{100 * value:.{0 if abs(value) >= 0.1 else 1}f} %"
    return f"{value:.1e}".replace("e-0", "e-")


def shortfall_cell(entry):
    """Median / worst, and in brackets how many runs warned, where any did."""
    text, (warned, runs) = once(*map(fraction, entry["shortfall"])), entry["warned"]
    if not warned:
        return text
    return (
        f"{text} (warned)" if warned == runs else f"{text} ({warned} of {runs} warned)"
    )


def passes_cell(entry):
    """Median / worst."""
    return once(*(f"{value:.0f}" for value in entry["passes"]))


def tables(stored):
    """Shortfalls with warnings, and passes with the chosen settings."""
    rows = [{"name": name, **row} for name, row in stored["results"].items()]

    def by_method(cell):
        return {
            label: lambda row, method=method: cell(row[method])
            for method, label in METHODS.items()
        }

    # a * marks a rate at an end of the grid
    setting = {
        "tuned: times the automatic rate, batch": lambda row: (
            row["setting"][0] + " *" * row["setting"][1]
        )
    }
    return {
        "shortfalls": table(rows, {"shortfall": "{name}", **by_method(shortfall_cell)}),
        "passes": table(
            rows, {"passes": "{name}", **by_method(passes_cell), **setting}
        ),
    }
