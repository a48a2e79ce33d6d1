"""The paper's experiments at its own constants: gaps on the eight published return
sets, and the order of complexity.

Returns are in percent, runs start at ones, and gaps are Phi - Phi*. For the smaller
budget the median of Algorithm 1 is taken over three blocks of seeds. The complexity is
that of `sk_stormc reproduce complexity`, for three sets of seeds.
"""

from functools import partial

import numpy as np

from benchmarks._measure import DATA, GAUSSIAN, generated, least_variance, published
from benchmarks._tables import table
from sk_stormc import compare_solvers
from sk_stormc.problems import PortfolioProblem
from sk_stormc.reproduce.complexity import (
    EPSILONS,
    SEEDS,
    proposition_ifo,
    run_complexity,
)
from sk_stormc.reproduce.portfolio import METHODS as PUBLISHED
from sk_stormc.solvers import get_solver

DURATION = "9 minutes"
NEEDS_DATA = True
PARTS = ("gaussian", "daily", "complexity")
SOLVERS = ("scgd", "asc-pg", "vrsc-pg", "sarah-c", "storm-c-paper")
BUDGETS = (360_000, 3_000_000)  # IFO
STEP = 0.05  # half of the published one
REPETITIONS = 3


def gaps(problem, solver, budget, seeds, **parameters):
    """Phi - Phi* of one run for each seed."""
    least, x0 = least_variance(problem), np.ones(problem.returns.shape[1])
    labelled = (
        solver,
        get_solver(solver).set_params(**{**PUBLISHED[solver], **parameters, "tol": 0}),
    )
    limits = {"max_ifo": budget, "record_every": budget}
    runs = compare_solvers(
        problem, [labelled], n_seeds=seeds, optimum=least, x0=x0, **limits
    ).runs
    return [run.fun - least for run in runs[solver]]


def on_gaussian(R, budgets, n_seeds):
    """All methods on one set: for each budget, the medians over the seeds."""
    problem, seeds = PortfolioProblem(R), range(n_seeds)
    return [
        {s: float(np.median(gaps(problem, s, budget, seeds))) for s in SOLVERS}
        for budget in budgets
    ]


def on_daily(R, budgets, n_seeds):
    """Algorithm 1 on one set of daily returns: medians over blocks of seeds, and with
    half the step."""
    problem, few = PortfolioProblem(100 * R), range(min(n_seeds, 3))
    blocks = [
        range(start, start + n_seeds)
        for start in range(0, REPETITIONS * n_seeds, n_seeds)
    ]
    small, large = budgets
    return {
        "least": least_variance(problem),
        "curvature": float(
            2 * np.linalg.eigvalsh(np.cov(problem.returns.T, bias=True))[-1]
        ),
        "small": [
            np.median(gaps(problem, "storm-c-paper", small, block)) for block in blocks
        ],
        "large": np.median(gaps(problem, "storm-c-paper", large, blocks[0])),
        "half the step": np.median(
            gaps(problem, "storm-c-paper", large, few, learning_rate=STEP)
        ),
    }


def complexity(quick):
    """Slopes and IFO of all methods, for each repetition, and what Proposition 3.2 asks
    for."""
    epsilons, seeds = (EPSILONS[:3], 2) if quick else (EPSILONS, SEEDS)
    rows = []
    for repetition in range(1 if quick else REPETITIONS):
        for measured in run_complexity(
            epsilons=epsilons, n_seeds=seeds, first_seed=repetition
        ):
            slope = measured.slope
            rows.append({
                "method": measured.name, "order": measured.order,
                "repetition": repetition,
                "slope": [slope.value, slope.low, slope.high], "ifo": measured.ifo,
            })  # fmt: skip
    return {"epsilons": epsilons, "rows": rows, "asked": proposition_ifo(epsilons)}


def run_part(name, quick, images):
    """Measure one part."""
    if name == "complexity":
        return complexity(quick)
    sets, budgets = (
        (generated(), (6000, 12_000)) if quick else (published(DATA), BUDGETS)
    )
    measure, n_seeds = (on_gaussian, 3) if name == "gaussian" else (on_daily, 7)
    sets = {
        key: R
        for key, R in sets.items()
        if quick or (key in GAUSSIAN) == (name == "gaussian")
    }
    found = {
        key: measure(R, budgets, 1 if quick else n_seeds) for key, R in sets.items()
    }
    return {"budgets": budgets, "sets": found}


def gaussian_table(found):
    """For each set and budget the gap of each method."""
    rows = [
        {"set": name, "budget": budget, **row}
        for name, by_budget in found["sets"].items()
        for budget, row in zip(found["budgets"], by_budget, strict=True)
    ]
    return table(
        rows,
        {
            "set": "{set}",
            "IFO": "{budget:,}",
            **{solver: f"{{{solver}:.3g}}" for solver in SOLVERS},
        },
    )


def daily_table(found):
    """For each region the gaps of Algorithm 1."""
    rows = [{"region": name, "low": min(row["small"]), "high": max(row["small"]), **row}
            for name, row in found["sets"].items()]  # fmt: skip
    small, large = (f"gap at {budget:,} IFO" for budget in found["budgets"])
    return table(rows, {
        "region": "{region}",
        "curvature": "{curvature:.0f}",
        "least objective": "{least:.4f}",
        small: "{small[0]:.1e} ({low:.1e} to {high:.1e})",
        large: "{large:.1e}",
        f"{large}, half the step": "{half the step:.1e}",
    })  # fmt: skip


def complexity_table(found):
    """For each method its slopes with their intervals, and its IFO at every other
    eps."""
    repetitions = max(row["repetition"] for row in found["rows"]) + 1
    rows = [dict(row) for row in found["rows"] if row["repetition"] == 0]
    for row in rows:
        same = (
            other["slope"]
            for other in found["rows"]
            if other["method"] == row["method"]
        )
        row["slopes"] = ["{:.2f} [{:.2f}, {:.2f}]".format(*slope) for slope in same]
    rows.append(
        {
            "method": "Proposition 3.2 asks for",
            "order": 3,
            "slopes": [""] * repetitions,
            "ifo": found["asked"],
        }
    )

    def ifo(row, k):
        return (
            f"{row['ifo'][k]:.2g}"
            if k < len(row["ifo"]) and row["ifo"][k] is not None
            else "-"
        )

    return table(rows, {
        "method": "{method}",
        "order": "{order}",
        **{f"slope, seeds {r + 1}": f"{{slopes[{r}]}}" for r in range(repetitions)},
        **{f"eps {found['epsilons'][k]:.3g}": partial(ifo, k=k) for k in range(0,
        len(found["epsilons"]), 2)},
    })  # fmt: skip


TABLES = {
    "gaussian": gaussian_table,
    "daily": daily_table,
    "complexity": complexity_table,
}


def tables(stored):
    """The gaps at the published constants, and the slopes."""
    return {
        part: make(stored["results"][part])
        for part, make in TABLES.items()
        if part in stored["results"]
    }
