"""Random cases in which every parameter meets every other, with oracles: right, warned,
wrong in silence, and how long.

A case of the part "portfolio" has a value of each of the factors of
`_portfolio_cases`: measure, goal, limits, charges, periods, forecasts, tolerance,
container and kind of returns. Its answer is compared with Clarabel's. One case in four
is fitted once more with permuted assets, in another unit, with doubled periods or in
another container. An answer is wrong if its objective is above Clarabel's by more than
1.5 times the tolerance, at least 1e-4, of its scale: the risk in the objective, or the
distance from a random portfolio if that is larger, and the objective itself for ratios
and limits of the risk. A refusal is right if Clarabel finds no optimum.
"""

import importlib.util
import signal
import tempfile
import time
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._portfolio_cases import (
    FACTORS,
    SQUARED,
    arguments,
    case_of,
    drawn,
)
from benchmarks._portfolio_oracle import solve
from benchmarks._tables import table
from sk_stormc import CompositionalPortfolio

DURATION = "an hour"
NEEDS_DATA = False
PACKAGES = ("cvxpy", "clarabel")
PARTS = ("portfolio",)
CASES_DRAWN = 3000  # by default; --seeds changes it
LIMIT = 30  # CPU seconds after which a fit counts as one that does not end
MISSED = 1e-7  # by how much limits may be missed, relative to the size of the weights
BOUND = 1e-9  # the same of the lower bound of the objective
NO_CONSTRAINT = "limits the weights"  # a warning that is documented


class NoEndError(Exception):
    """A fit took longer than the limit."""


@contextmanager
def ending(seconds):
    """Raise a NoEndError in code that takes more CPU seconds."""

    def stop(*_):
        raise NoEndError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fitted(params, X, sample_weight):
    """The portfolio or None, CPU seconds, warnings, and the error as (kind, text)."""
    error = portfolio = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.process_time()
        try:
            with ending(LIMIT):
                portfolio = CompositionalPortfolio(random_state=0, **params).fit(
                    X, sample_weight=sample_weight
                )
        except NoEndError:
            error = "no end", f"after {LIMIT} CPU s"
        except Exception as raised:  # what is no ValueError of ours is counted
            where = traceback.extract_tb(raised.__traceback__)[-1]
            ours = isinstance(raised, ValueError) and "sk_stormc" in where.filename
            error = (
                "refused" if ours else "foreign",
                f"{type(raised).__name__}: {raised} ({where.filename.split('/')[-1]})",
            )
        seconds = time.process_time() - began
    texts = [
        f"{warning.category.__name__}: {warning.message}"
        for warning in caught
        if NO_CONSTRAINT not in str(warning.message)
        or issubclass(warning.category, ConvergenceWarning)
    ]
    return portfolio, seconds, texts, error


def judged(case, answer, found):
    """What is wrong with a fit, beside Clarabel's `Answer`."""
    portfolio, seconds, texts, error = found
    row = {"seconds": seconds, "warnings": texts, "error": error and error[1]}
    if error is not None:
        wrongly = (
            answer.status == "optimal" and max(case.misses(answer.w).values()) < 1e-6
        )
        kind = error[0]
        if wrongly and "empty portfolio" in error[1]:
            wrongly = not case.best_is_empty(answer.value)
        if wrongly and "multiples of a portfolio have the same ratio" in error[1]:
            sizes = (case.misses(factor * answer.w) for factor in (0.1, 10.0))
            wrongly = any(max(missed.values()) > 0 for missed in sizes)
        if kind == "refused" and wrongly:
            kind = "refused wrongly"
        return row | {"outcome": kind}
    w = np.asarray(portfolio.weights_, float)
    value, scale = case.value(w), case.scale(w)
    stated = float(portfolio.loss_curve_[-1])
    gap = float(portfolio.dual_gap_)
    misses = case.misses(w)
    row |= {
        "weights": w, "value": value, "scale": scale, "gap": gap,
        "missed": max(misses, key=misses.get), "by": max(misses.values()),
        "own": abs(stated - value) / scale,
        "stop": portfolio.stop_reason_,
    }  # fmt: skip
    tol = max(1e-4, float(case.params.get("tol", 1e-4)))
    if answer.status != "optimal":
        proved = gap <= 1.5 * tol * scale
        outcome = "unknown" if answer.status == "failed" or proved else "silent"
        if row["by"] > MISSED or answer.status == "unbounded":
            outcome = "silent"
        return row | {"outcome": "warned" if texts else outcome}
    above = value - answer.value - answer.error
    row |= {
        "above": above / scale,
        "untrue": bool(stated - gap > answer.value + answer.error + BOUND * scale),
        "slow": bool(seconds > 0.1 + 5 * answer.seconds),
    }
    if above > 1.5 * tol * scale or row["by"] > MISSED:
        return row | {"outcome": "warned" if texts else "silent"}
    return row | {"outcome": "right"}


def measure_case(seed, relate=True):
    """One random case, by words and outcome."""
    words = drawn(seed)
    case = case_of(words, seed)
    answer = solve(case)
    row = {"seed": seed, **words, "shape": list(case.R.shape)}
    row |= {
        "oracle": answer.status, "oracle seconds": answer.seconds,
        "oracle value": answer.value, "oracle error": answer.error,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        args = arguments(case, folder)
        row |= judged(case, answer, fitted(*args))
        if row.get("slow"):  # once more, as another process may have taken the cache
            row["seconds"] = min(row["seconds"], fitted(*args)[1])
            row["slow"] = row["seconds"] > 0.1 + 5 * answer.seconds
        if relate and seed % 4 == 0 and row["outcome"] in ("right", "unknown"):
            row |= related(case, row, np.random.default_rng([seed, 9]), folder)
    row.pop("weights", None)
    return row


def related(case, row, rng, folder):
    """A second fit, whose objective must be that of the first within both gaps."""
    names = ["permuted", "unit", "container"]
    ordered = case.measure == "cdar"
    if not (
        ordered or "half_life" in case.params or 2 * len(case.R) == case.R.shape[1]
    ):
        names.append("doubled")
    name, factor = names[rng.integers(len(names))], 1.0
    if name == "container":
        others = ["array", "polars", "memory map"] + ["dask array"] * (not ordered)
        others = [other for other in others if other != case.words["container"]]
        other = replace(case, words=case.words | {"container": str(rng.choice(others))})
    else:
        make = {"permuted": permuted, "unit": in_unit, "doubled": doubled}[name]
        other, factor = make(
            replace(case, words=case.words | {"container": "array"}), rng
        )
    portfolio, _, texts, error = fitted(*arguments(other, folder))
    if error is not None or texts:
        return {
            "relation": name,
            "relation holds": error is None,
            "second": error or texts,
        }
    first, second = row["value"], float(portfolio.loss_curve_[-1]) / factor
    room = row["gap"] + float(portfolio.dual_gap_) / factor + BOUND * row["scale"]
    holds = bool(abs(first - second) <= room)
    return {
        "relation": name,
        "relation holds": holds,
        "second": (first - second) / room,
    }


def changed(case, **functions):
    """A case whose parameters are changed by functions."""
    params = dict(case.params)
    for name, function in functions.items():
        if name in params:
            params[name] = function(params[name])
    return replace(case, params=params)


def permuted(case, rng):
    """The case with its assets in another order."""
    order = rng.permutation(case.R.shape[1])

    def each(values):
        return values if np.ndim(values) == 0 else np.asarray(values)[order]

    def rows(given):
        return given if isinstance(given, list) else (given[0][:, order], *given[1:])

    def benchmark(given):
        if np.ndim(given) == 0:
            return int(np.flatnonzero(order == given)[0])
        return each(given) if case.words["benchmark"] == "weights" else given

    def constraint(given):
        return given if isinstance(given, str) else tuple(map(each, given))

    of_assets = "expected_returns", "previous_weights", "transaction_cost", "groups"
    other = changed(
        case, **dict.fromkeys(of_assets, each), constraint=constraint,
        linear_constraints=rows, benchmark=benchmark,
    )  # fmt: skip
    return replace(other, R=case.R[:, order]), 1.0


def in_unit(case, rng):
    """The case in another unit of the returns."""
    k = 10.0 ** rng.uniform(-4, 4)
    squared = case.measure in (*SQUARED, "entropic")
    square = case.measure in SQUARED and case.goal == "least risk"
    of_charges = k**2 if square else k

    def times(factor):
        return lambda given: given * factor

    other = changed(
        case,
        expected_returns=times(k), max_risk=times(k), min_return=times(k),
        risk_aversion=times(1 / k if squared else 1.0),
        benchmark=times(k if case.words["benchmark"] == "returns" else 1),
        **dict.fromkeys(("transaction_cost", "l1", "l2"), times(of_charges)),
    )  # fmt: skip
    return replace(other, R=case.R * k), 1.0 if case.goal == "ratio" else of_charges


def doubled(case, rng):
    """The case with two copies of each period."""
    returns = case.words["benchmark"] == "returns"
    other = changed(case, benchmark=lambda b: np.repeat(b, 2) if returns else b)
    weights = case.sample_weight
    return replace(
        other,
        R=np.repeat(case.R, 2, axis=0),
        sample_weight=None if weights is None else np.repeat(weights, 2),
    ), 1.0


FAULTS = {
    "silent": lambda row: row["outcome"] == "silent",
    "missed": lambda row: row.get("by", 0.0) > MISSED,
    "untrue": lambda row: row.get("untrue", False),
    "foreign": lambda row: row["outcome"] in ("foreign", "no end"),
    "refused wrongly": lambda row: row["outcome"] == "refused wrongly",
    "alarms": lambda row: row["outcome"] == "right" and bool(row["warnings"]),
    "relations": lambda row: not row.get("relation holds", True),
    "slow": lambda row: row.get("slow", False),
}


def counts(name, rows):
    """How many of some cases are right, refused and so on."""
    of = [row["outcome"] for row in rows]
    seconds = [row["seconds"] for row in rows]
    theirs = [row["oracle seconds"] for row in rows]
    return {
        "name": name,
        "cases": len(rows),
        **{kind: of.count(kind) for kind in ("right", "refused", "warned", "unknown")},
        **{fault: sum(map(test, rows)) for fault, test in FAULTS.items()},
        "median": float(np.median(seconds)),
        "largest": max(seconds),
        "clarabel": float(np.median(theirs)),
    }


def summary(rows):
    """The counts by measure, goal, container and kind, and the seeds of faults."""
    groups = [("all", rows)]
    for factor in ("measure", "goal", "container"):
        for value in FACTORS[factor]:
            groups.append((value, [row for row in rows if row[factor] == value]))
    return {
        "seeds": len(rows),
        "counts": [counts(name, some) for name, some in groups if some],
        "faults": {
            fault: [row["seed"] for row in rows if test(row)]
            for fault, test in FAULTS.items()
        },
    }


def run_part(part, quick, images, seeds=CASES_DRAWN):
    """Measure the cases of the seeds from 0."""
    if importlib.util.find_spec("cvxpy") is None and not quick:
        raise ImportError(
            "Clarabel, by cvxpy, is the oracle: pip install 'sk_stormc[benchmarks]'"
        )
    rows = []
    for seed in range(8 if quick else seeds):
        row = measure_case(seed)
        rows.append(row)
        for fault, test in FAULTS.items():
            if test(row):
                print(f"seed {seed}: {fault}", flush=True)
    return summary(rows)


COLUMNS = {
    "measure, goal or container": "{name}", "cases": "{cases}", "right": "{right}",
    "refused": "{refused}", "warned": "{warned}", "no reference": "{unknown}",
    "wrong without a warning": "{silent}", "limits missed": "{missed}",
    "bounds untrue": "{untrue}", "other errors": "{foreign}",
    "refused wrongly": "{refused wrongly}", "right, with a warning": "{alarms}",
    "relations broken": "{relations}",
    "slower than 0.1 s + 5 times Clarabel": "{slow}",
    "seconds, median": "{median:.3f}", "seconds, largest": "{largest:.2f}",
    "Clarabel, seconds, median": "{clarabel:.3f}",
}  # fmt: skip


def tables(stored):
    """The counts of each part."""
    return {
        part: table(of_part["counts"], COLUMNS)
        for part, of_part in stored["results"].items()
    }
