"""Passes to relative gaps of 1e-3 and 1e-4 on the eight published return sets.

Constraints and the l1 norm are tried with returns in percent, the other objectives with
fractions. Gaps are (Phi - Phi*) / |Phi*|; steps are in the assets' own scales; all
solvers have their automatic parameters. L-BFGS takes no simplex and no budget. On the
Gaussian sets some portfolios gain in every period, so that entropic risk has no
minimum: it is tried on the daily returns only.
"""

import numpy as np

from benchmarks import _measure
from benchmarks._measure import (
    GAP_NAMES,
    GAUSSIAN,
    by_gap,
    cell,
    least_by_lbfgs,
    least_variance,
    summary,
)
from benchmarks._tables import table
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import PortfolioProblem

DURATION = "1 minute"
NEEDS_DATA = True
SOLVERS = ("storm-c", "sketchy-storm", "sarah-c", "lbfgs")
PERIODS = 500
OBJECTIVES = {
    "variance": "variance",
    "semivariance": "semivariance",
    "entropic": "entropic risk",
    "long only": "variance, long only",
    "box and budget": "variance, weights in (-.1, .3) that sum to 1",
    "l1": "variance, l1 norm at .3 of the largest mean return",
    "few periods": f"variance, the last {PERIODS} periods (full batches)",
}


def problems(name, R):
    """A set's problems: (objective, problem, minimum)."""
    percent = R if name in GAUSSIAN else 100 * R
    for objective, returns in (("variance", R), ("few periods", R[-PERIODS:])):
        problem = PortfolioProblem(returns, preconditioner="variance")
        yield objective, problem, least_variance(problem)
    for objective in (
        ("semivariance",) if name in GAUSSIAN else ("semivariance", "entropic")
    ):
        problem = PortfolioProblem(R, risk_measure=objective, preconditioner="variance")
        yield objective, problem, least_by_lbfgs(problem)
    l1 = L1(0.3 * np.abs(percent.mean(0)).max())
    for objective, penalty in (
        ("long only", Simplex()),
        ("box and budget", Box(-0.1, 0.3, budget=1.0)),
        ("l1", l1),
    ):
        problem = PortfolioProblem(percent, penalty=penalty, preconditioner="variance")
        yield objective, problem, _measure.least_penalised_variance(problem)


def run(quick, data):
    """Measure: for each objective, set and solver, what `median_and_worst` returns."""
    sets, seeds = _measure.returns_and_seeds(quick, data)
    results = {objective: {} for objective in OBJECTIVES}
    for name, R in sets.items():
        for objective, problem, best in problems(name, R):
            solvers = [
                s
                for s in SOLVERS
                if s != "lbfgs" or objective not in ("long only", "box and budget")
            ]
            found = {
                solver: _measure.median_and_worst(problem, solver, best, seeds=seeds)
                for solver in solvers
            }
            results[objective][name] = found
        print(f"{name}: done", flush=True)
    return {"settings": _measure.settings(seeds), "results": results}


def tables(stored):
    """By set with the variance, IFO median / worst; and over the sets for all
    objectives."""
    results = stored["results"]
    sets = [{"name": name, **row} for name, row in results["variance"].items()]
    of_sets = by_gap(
        SOLVERS, lambda row, solver, k: cell(row[solver][k], evaluations=False)
    )
    objectives = []
    for objective, rows in results.items():
        for k, gap in enumerate(GAP_NAMES):
            found = {
                solver: [row[solver][k] for row in rows.values() if solver in row]
                for solver in SOLVERS
            }
            objectives.append({"objective": OBJECTIVES[objective], "gap": gap, **found})
    of_objectives = {
        solver: lambda row, solver=solver: summary(row[solver]) for solver in SOLVERS
    }
    return {
        "variance": table(sets, {"returns": "{name}", **of_sets}),
        "objectives": table(
            objectives, {"objective": "{objective}", "gap": "{gap}", **of_objectives}
        ),
    }
