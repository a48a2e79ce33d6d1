"""What the sketch of "sketchy-storm" adds to "storm-c": passes and component
evaluations; and CPU time beside L-BFGS.

Passes are counted twice: IFO, by which a minibatch drawn once counts once, and
component evaluations, both over 2 n_inner + n_outer. Gaps are relative to |Phi*|, for
Bellman problems to the first gap.
"""

import numpy as np

from benchmarks import _measure
from benchmarks._measure import (
    by_gap,
    cell,
    least_by_lbfgs,
    least_variance,
    spread,
    timed,
)
from benchmarks._tables import table
from sk_stormc import minimize
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.problems import PortfolioProblem

DURATION = "1 minute"
NEEDS_DATA = True
RULE = ("storm-c", "sketchy-storm")
TIMED = ("storm-c", "lbfgs")


def compare(problem, best, seeds, scale=None):
    """`median_and_worst` of the rule without and with the sketch."""
    return {
        solver: _measure.median_and_worst(problem, solver, best, scale, seeds)
        for solver in RULE
    }


def unseen(quick):
    """Returns that no choice was made on: Gaussian ones, and assets with five common
    factors."""
    for n, d in ((1100, 6),) if quick else ((3000, 20), (10_000, 40)):
        R = make_gaussian_returns(n, d, mean=0.1, condition_number=1000, random_state=0)
        yield f"Gaussian, condition number 1000, {n:,} x {d}", R
    for n, d in ((1100, 8),) if quick else ((5000, 50), (20_000, 100)):
        rng = np.random.default_rng(3)
        R = rng.normal(size=(n, 5)) * np.geomspace(3, 0.3, 5) @ rng.normal(size=(5, d))
        R += rng.normal(size=(n, d)) * rng.uniform(0.1, 1, d) + rng.normal(
            0.02, 0.05, d
        )
        yield f"five common factors, {n:,} x {d}", R


def others(sets, quick):
    """Problems the sketch was not made for: (group, problem, minimum, scale); a group's
    rows are one of the table."""
    daily = [R for name, R in sets.items() if quick or name in _measure.REGIONS]
    for R in daily:
        problem = PortfolioProblem(R)
        yield "variance, no preconditioner", problem, least_variance(problem), None
        problem = PortfolioProblem(
            R, risk_measure="entropic", preconditioner="variance"
        )
        yield "entropic risk (J varies)", problem, least_by_lbfgs(problem), None
        problem = PortfolioProblem(R[-500:], preconditioner="variance")
        yield (
            "variance, the last 500 periods (full batches)",
            problem,
            least_variance(problem),
            None,
        )
    R = (
        make_gaussian_returns(
            1100 if quick else 2000, 40, mean=0.3, condition_number=20, random_state=0
        )
        - 0.2
    )
    problem = PortfolioProblem(R, risk_measure="entropic", preconditioner="variance")
    yield (
        "entropic risk, generated, 40 assets (a flat curvature)",
        problem,
        least_by_lbfgs(problem),
        None,
    )
    for kind, n in (("dense", 400), ("garnet", 2000)):
        n, d = (60, 5) if quick else (n, 100)
        model = make_bellman_problem(
            n_states=n, n_features=d, kind=kind, random_state=0
        )
        for about, preconditioner in (
            ("default preconditioner", "auto"),
            ("no preconditioner", None),
        ):
            problem = model.problem(preconditioner=preconditioner)
            best = problem.objective(problem.minimizer())
            scale = problem.objective(np.zeros(problem.n_variables)) - best
            yield f"Bellman, {kind}, {about}", problem, best, scale


def milliseconds(problem, solver, seeds):
    """CPU time of a default fit, the least over the seeds."""
    return 1e3 * min(
        timed(minimize, problem, solver, random_state=seed)[0] for seed in seeds
    )


def run(quick, data):
    """Measure everything: the CPU time by set, passes on other returns and problems."""
    sets, seeds = _measure.returns_and_seeds(quick, data)
    results = {"cpu": {}, "generated": {}, "others": {}}
    for name, R in sets.items():
        problem = PortfolioProblem(R, preconditioner="variance")
        results["cpu"][name] = {
            solver: milliseconds(problem, solver, seeds) for solver in TIMED
        }
    for name, R in unseen(quick):
        problem = PortfolioProblem(R, preconditioner="variance")
        results["generated"][name] = compare(problem, least_variance(problem), seeds)
    for group, problem, best, scale in others(sets, quick):
        results["others"].setdefault(group, []).append(
            compare(problem, best, seeds, scale)
        )
    return {"settings": _measure.settings(seeds), "results": results}


def tables(stored):
    """Other returns; other problems."""
    results = stored["results"]
    generated = [{"name": name, **row} for name, row in results["generated"].items()]
    groups = [
        {"name": group, "rows": rows} for group, rows in results["others"].items()
    ]
    of_one = by_gap(RULE, lambda row, solver, k: cell(row[solver][k]))
    of_group = by_gap(
        RULE, lambda row, solver, k: spread([each[solver][k] for each in row["rows"]])
    )
    return {
        "generated": table(generated, {"generated returns": "{name}", **of_one}),
        "others": table(groups, {"": "{name}", **of_group}),
    }
