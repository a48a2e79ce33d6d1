"""CPU times of skfolio and of this library on the same portfolios, long only, to a gap
of 1e-4 or less.

Returns are Student t with three degrees of freedom, with a market in them, in percent:
in fractions skfolio's solver fails on some of them. Both have their default settings,
and skfolio its default solver. The risk aversion is 1 for the tail risks, and .05 for
the others. Gaps are those of the objective, evaluated by this library, above the
smaller of the two. Times are medians of three fits, or one fit where that takes more
than two seconds. skfolio has no entropic risk.
"""

import importlib.util
import statistics
from functools import partial

import numpy as np

from benchmarks._measure import timed
from benchmarks._tables import table
from sk_stormc import CompositionalPortfolio

DURATION = "1 minute"
NEEDS_DATA = False
PACKAGES = ("skfolio",)
SIZES = (250, 25), (2500, 100), (10_000, 200)
RISKS = {
    "variance": ("VARIANCE", 0.05),
    "semivariance": ("SEMI_VARIANCE", 0.05),
    "cvar": ("CVAR", 1.0),
    "evar": ("EVAR", 1.0),
    "entropic": (None, 0.05),
}


def heavy_tailed(n, d):
    """Daily returns in percent."""
    rng = np.random.default_rng(0)
    market, own = rng.standard_t(3, (n, 1)), rng.standard_t(3, (n, d))
    return 0.6 * market + own * rng.uniform(0.5, 1.5, d) + 0.05


def ours(risk, aversion):
    """This library's estimator."""
    return CompositionalPortfolio(
        risk_measure=risk,
        risk_aversion=aversion,
        constraint="long_only",
        random_state=0,
    )


def theirs(risk, aversion):
    """skfolio's."""
    from skfolio import RiskMeasure
    from skfolio.optimization import MeanRisk, ObjectiveFunction

    return MeanRisk(
        objective_function=ObjectiveFunction.MAXIMIZE_UTILITY,
        risk_measure=RiskMeasure[risk],
        risk_aversion=aversion,
    )


def fitted(estimator, R):
    """Weights, the seconds of a fit, and whether it warned."""
    seconds = []
    while len(seconds) < 3 and (not seconds or seconds[0] < 2):
        used, _, warned = timed(estimator.fit, R)
        seconds.append(used)
    return {
        "weights": estimator.weights_,
        "seconds": statistics.median(seconds),
        "warned": warned,
    }


def run(quick, data):
    """Measure: for each size and risk the seconds and the gap of both."""
    results, installed = [], importlib.util.find_spec("skfolio") is not None
    if not (installed or quick):
        raise ImportError(
            "skfolio is what this library is compared with: pip install "
            "'sk_stormc[benchmarks]'"
        )
    for n, d in ((200, 5), (400, 10)) if quick else SIZES:
        R = heavy_tailed(n, d)
        for risk, (name, aversion) in RISKS.items():
            judge = ours(risk, aversion)
            found = {"sk_stormc": fitted(judge, R)}
            if name is not None and installed:
                found["skfolio"] = fitted(theirs(name, aversion), R)
            for of_library in found.values():
                judge.weights_ = of_library.pop("weights")
                of_library["value"] = -judge.score(R)
            best = min(of_library["value"] for of_library in found.values())
            for of_library in found.values():
                of_library["gap"] = (of_library.pop("value") - best) / abs(best)
            results.append({"periods": n, "assets": d, "risk": risk, **found})
            print(f"{n} x {d}, {risk}: done", flush=True)
    return {"settings": {"sizes": [list(size) for size in SIZES]}, "results": results}


def seconds(library, row):
    """Seconds to two digits; nothing where there is no fit."""
    if library not in row:
        return ""
    value = row[library]["seconds"]
    return (
        f"{value:.0f}"
        if value >= 10
        else f"{value:.1f}"
        if value >= 1
        else f"{value:.2g}"
    )


def gap(library, row):
    """A gap to one digit, with a note where the fit warned."""
    if library not in row:
        return ""
    value = row[library]["gap"]
    text = f"{value:.0e}".replace("e-0", "e-") if value > 1e-9 else "< 1e-9"
    return f"{text} (warned)" if row[library]["warned"] else text


COLUMNS = {
    "periods x assets": "{periods} x {assets}",
    "risk": "{risk}",
    "sk_stormc, CPU s": partial(seconds, "sk_stormc"),
    "skfolio, CPU s": partial(seconds, "skfolio"),
    "sk_stormc, gap": partial(gap, "sk_stormc"),
    "skfolio, gap": partial(gap, "skfolio"),
}


def tables(stored):
    """One row a size and risk."""
    return {"times": table(stored["results"], COLUMNS)}
