"""Entropic risk of rare large losses: which solvers reach the minimum where a few periods make up the whole risk.

European daily returns, long only. Gaps are those of the last iterate to the least objective found, over the decrease
from equal weights.
"""

import numpy as np

from benchmarks._measure import SEEDS, a_pass, generated, published, timed
from benchmarks._tables import markdown
from sk_stormc import CompositionalPortfolio, minimize
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem

DURATION = "5 minutes"
NEEDS_DATA = True
SOLVERS = ("storm-c", "sarah-c")
CASES = (("percent", 1), ("percent", 2), ("percent", 5), ("basis points", 1))  # the unit, lambda
UNITS = {"percent": 100, "basis points": 10_000}  # of returns that are fractions


def run(quick, data):
    """Measure each case: for each solver, gaps and passes of each seed."""
    R, seeds = (0.01 * next(iter(generated().values())), SEEDS[:1]) if quick else (published(data)["Europe"], SEEDS[:3])
    rows = []
    for unit, risk_aversion in CASES[:1] if quick else CASES:
        returns, kwargs = UNITS[unit] * R, {"risk_measure": "entropic", "risk_aversion": risk_aversion}
        problem = PortfolioProblem(returns, penalty=Simplex(), metric="variance", **kwargs)
        exact = CompositionalPortfolio("newton", constraint="long_only", **kwargs).fit(returns).weights_
        least = problem.objective(exact)
        start = np.full(returns.shape[1], 1 / returns.shape[1])
        decrease = problem.objective(start) - least
        row = {"unit": unit, "risk_aversion": risk_aversion, "largest exponent": -risk_aversion * returns.min()}
        for solver in SOLVERS:
            runs = [timed(minimize, problem, solver, start, random_state=seed)[1] for seed in seeds]
            row[solver] = {
                "gaps": [(run.fun - least) / decrease for run in runs],
                "passes": [run.ifo[-1] / a_pass(problem) for run in runs],
            }
        rows.append(row)
    return {"settings": {"seeds": seeds}, "results": rows}


def span(values, show):
    """The least and the largest, once where they agree."""
    return " to ".join(dict.fromkeys([show(min(values)), show(max(values))]))


def gap(value):
    """A gap, or that it is rounding."""
    return f"{value:.0e}" if value > 1e-9 else "< 1e-9"


def tables(stored):
    """One row for each case."""
    header = ["unit", "lambda", "largest exponent", *(f"{s}, {what}" for s in SOLVERS for what in ("gap", "passes"))]
    return {"entropic": markdown(header, [
        [
            row["unit"], str(row["risk_aversion"]), f"{row['largest exponent']:.0f}",
            *(text for s in SOLVERS for text in (span(row[s]["gaps"], gap), span(row[s]["passes"], "{:.0f}".format))),
        ]
        for row in stored["results"]
    ])}  # fmt: skip
