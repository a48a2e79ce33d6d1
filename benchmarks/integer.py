"""Portfolios of at most so many assets, by this library and by skfolio with SCIP:
seconds and gaps.

500 returns of a factor model, bounds of 0 and .4, weights of 0 or at least .02. Both
have the same time limit and stop at a gap of 1e-4. Gaps are relative to the best
objective found. The gap of this library is `dual_gap_`, and that of skfolio the
distance of its objective from the same lower bound.
"""

import copy
import importlib.util

import numpy as np

from benchmarks._measure import timed
from benchmarks._tables import table
from sk_stormc import CompositionalPortfolio

DURATION = "10 minutes"
NEEDS_DATA = False
PACKAGES = ("pyscipopt", "skfolio")
SIZES = (20, 5), (50, 8), (100, 10)
MEASURES = {"variance": 1000.0, "semivariance": 1000.0, "cvar": 1.0}
PERIODS, SECONDS = 500, 40.0
LEAST, MOST = 0.02, 0.4


def returns(n, d):
    """Returns of a model with four factors, as fractions."""
    rng = np.random.default_rng(0)
    factors, loadings = rng.normal(size=(n, 4)), rng.normal(0.5, 0.5, (4, d))
    noise = rng.normal(size=(n, d)) * rng.uniform(0.6, 1.5, d)
    return 0.0004 + 0.01 * (0.6 * factors @ loadings + noise)


def ours(R, measure, most, seconds):
    """A fit of this library."""
    limits = {
        "constraint": (0.0, MOST),
        "budget": 1.0,
        "max_assets": most,
        "min_held": LEAST,
        "time_limit": seconds,
    }
    return CompositionalPortfolio(
        risk_measure=measure, risk_aversion=MEASURES[measure], **limits
    ).fit(R)


def skfolio(R, measure, most, seconds):
    """A fit of skfolio. Its variance and semivariance divide by one period less."""
    from skfolio import RiskMeasure
    from skfolio.optimization import MeanRisk, ObjectiveFunction

    kind = {"semivariance": "SEMI_VARIANCE"}.get(measure, measure.upper())
    aversion = MEASURES[measure] * (1.0 if measure == "cvar" else (len(R) - 1) / len(R))
    return MeanRisk(
        objective_function=ObjectiveFunction.MAXIMIZE_UTILITY,
        risk_measure=RiskMeasure[kind], risk_aversion=aversion,
        max_weights=MOST, cardinality=most, threshold_long=LEAST, solver="SCIP",
        solver_params={"scip_params": {"limits/time": seconds, "limits/gap": 1e-4}},
    ).fit(R)  # fmt: skip


def measure_case(measure, d, most, n, seconds, with_skfolio):
    """Seconds and gaps of both."""
    R = returns(n, d)
    took, portfolio, _ = timed(lambda: ours(R, measure, most, seconds))
    value = float(portfolio.loss_curve_[-1])
    bound, found = (
        value - portfolio.dual_gap_,
        {"measure": measure, "d": d, "most": most, "seconds": took},
    )
    found |= {
        "reason": portfolio.stop_reason_,
        "value": value,
        "first": (portfolio.loss_curve_[0] - bound),
    }
    their, their_seconds = np.inf, None
    if with_skfolio:
        their_seconds, model, _ = timed(lambda: skfolio(R, measure, most, seconds))
        w = np.asarray(model.weights_)
        other = copy.copy(portfolio)
        other.weights_ = w / w.sum()
        their = -other.score(R)
    size = abs(min(value, their))
    return found | {
        "gap": (value - bound) / size, "first": found["first"] / size,
        "skfolio": their_seconds,
        "skfolio_gap": (their - bound) / size if with_skfolio else None,
    }  # fmt: skip


def run(quick, data):
    """Measure all sizes and risk measures."""
    there = importlib.util.find_spec("skfolio") is not None
    if not (there or quick):
        raise ImportError(
            "skfolio is what this library is compared with: pip install "
            "'sk_stormc[benchmarks]'"
        )
    n, seconds = (60, 1.0) if quick else (PERIODS, SECONDS)
    results = [
        measure_case(measure, d, most, n, seconds, there and not quick)
        for measure in MEASURES
        for d, most in (((8, 3),) if quick else SIZES)
    ]
    return {"settings": {"periods": n, "time_limit": seconds}, "results": results}


COLUMNS = {
    "risk": "{measure}", "assets": "{d}", "limit of assets": "{most}",
    "seconds": "{seconds:.1f}", "gap": "{gap:.1e}",
    "gap of the first portfolio": "{first:.1e}", "skfolio, seconds": "{theirs}",
    "skfolio, gap": "{their_gap}",
}  # fmt: skip


def tables(stored):
    """Seconds and gaps by risk measure and number of assets."""
    rows = []
    for row in stored["results"]:
        there = row["skfolio"] is not None
        theirs = {"theirs": f"{row['skfolio']:.1f}" if there else "", "their_gap": ""}
        theirs["their_gap"] = f"{row['skfolio_gap']:.1e}" if there else ""
        rows.append(row | theirs)
    return {"gaps": table(rows, COLUMNS)}
