"""Random portfolios with integer limits, beside the best of all choices of assets:
equal or not, and limits kept.

A case is drawn from its seed: 8 to 12 assets, of which 2 to 4 may be held, a risk
measure, a goal (utility, ratio or largest risk), a unit of the returns, and further
limits and costs. For each choice of assets, and of their signs where short positions
are allowed, the exact method fits the weights without integer limits: the bounds of the
other assets are 0. An answer is equal if its objective is within 1e-6 of its risk above
the best of these.
"""

import itertools
import warnings
from collections import Counter

import numpy as np

from benchmarks._tables import table
from sk_stormc import CompositionalPortfolio

DURATION = "40 minutes"
NEEDS_DATA = False
PACKAGES = ("pyscipopt",)
FIRST, CASES = 80_000, 200
MEASURES = (
    ("variance", 2), ("semivariance", 2), ("semideviation", 1), ("semideviation", 2),
    ("downside", 1), ("downside", 2),
    ("cvar", 2), ("cdar", 2),
)  # fmt: skip
GOALS = "utility", "ratio", "max_risk"
FURTHER = "costs", "turnover", "sectors", "benchmark", "sample_weight", "half_life"
EQUAL, KEPT = 1e-6, 1e-7
MOST = 130  # choices of assets and signs that are enumerated


def draw(seed):
    """The returns, the estimator's parameters, the weights of periods, and the further
    limits of a case."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([40, 60, 100])), int(rng.choice([8, 8, 9, 10, 12]))
    most = int(rng.choice([2, 3, 4] if d < 10 else [2, 3] if d < 12 else [2]))
    unit = float(rng.choice([1e-9, 1e-4, 1.0, 1.0, 100.0, 1e4]))
    factors, loadings = rng.normal(size=(n, 3)), rng.normal(0.5, 0.5, (3, d))
    R = (
        0.01
        * (
            rng.normal(0.05, 0.03, d)
            + 0.6 * factors @ loadings
            + rng.standard_t(5, size=(n, d)) * 0.8
        )
        * unit
    )
    (measure, order), goal = (
        MEASURES[seed % len(MEASURES)],
        str(rng.choice(GOALS, p=[0.6, 0.25, 0.15])),
    )
    scale = 0.01 * unit
    aversion = float(rng.choice([0.3, 1.0, 3.0, 10.0]))
    if measure in ("variance", "semivariance"):
        aversion /= scale
    kind = str(
        rng.choice(
            ["long_only", "bounded", "short", "unbounded"], p=[0.3, 0.3, 0.3, 0.1]
        )
    )
    if goal != "utility" and kind == "unbounded":  # there is often no best portfolio
        kind = "short"
    bounds = {
        "long_only": "long_only",
        "bounded": (0.0, 0.6),
        "short": (-0.5, 0.8),
        "unbounded": None,
    }[kind]
    params = {
        "risk_measure": measure, "order": order, "risk_aversion": aversion,
        "constraint": bounds, "budget": 1.0,
        "confidence": float(rng.choice([0.8, 0.95])), "max_assets": most,
    }  # fmt: skip
    held = str(rng.choice(["none", "number", "array"]))
    if held != "none":
        params["min_held"] = 0.1 if held == "number" else rng.choice([0.05, 0.2], d)
    if kind == "short" and rng.random() < 0.5:
        params["l1"] = 0.05 * scale
    further = [name for name in FURTHER if rng.random() < 0.25]
    weights, few = None, rng.dirichlet(np.ones(most)) * 0.5 + 0.5 / most
    previous = np.zeros(d)
    previous[rng.choice(d, most, replace=False)] = few
    if "costs" in further:
        params |= {
            "previous_weights": previous,
            "transaction_cost": rng.choice([0.0, 0.05], d) * scale,
        }
    if "turnover" in further:
        params |= {
            "previous_weights": previous,
            "max_turnover": float(rng.choice([0.6, 1.2])),
        }
    if "sectors" in further:
        sector = rng.integers(0, 2, d)
        params["linear_constraints"] = (
            np.eye(2)[:, sector],
            np.array([0.2, -np.inf]),
            np.array([np.inf, 0.8]),
        )
    if "benchmark" in further:
        params["benchmark"] = R @ rng.dirichlet(np.ones(d)) + 0.1 * scale * rng.normal(
            size=n
        )
    if "sample_weight" in further:
        weights = rng.choice([0.0, 1.0, 2.0], n)
    if "half_life" in further:
        params["half_life"] = 60.0
    while params["max_assets"] > 2 and sum(1 for _ in choices(d, params)) > MOST:
        params["max_assets"] -= 1
    if goal == "ratio":
        params["objective"] = "ratio"
    if goal == "max_risk":
        params["max_risk"] = (
            float(rng.choice([0.8, 1.2, 2.0])) * scale * (5 if measure == "cdar" else 1)
        )
    return R, params, weights, [goal, kind, *further]


def fitted(R, params, weights):
    """The estimator and its objective, or the error of a refused fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            portfolio = CompositionalPortfolio(**params).fit(R, sample_weight=weights)
        except (ValueError, UserWarning) as error:
            return None, error
    return portfolio, float(portfolio.loss_curve_[-1])


def choices(d, params):
    """Bounds of the weights for each choice of assets and signs."""
    bounds = params["constraint"]
    low, high = (0.0, np.inf) if bounds == "long_only" else bounds or (-np.inf, np.inf)
    least = np.broadcast_to(params.get("min_held", 0.0), d)
    for size in range(
        1 if least.any() else params["max_assets"], params["max_assets"] + 1
    ):
        for chosen in itertools.combinations(range(d), size):
            j = list(chosen)
            for signs in itertools.product(
                *([(1, -1) if low < 0 and least.any() else (1,)] * size)
            ):
                lows, highs = np.zeros(d), np.zeros(d)
                lows[j], highs[j] = low, high
                if least.any():
                    lows[j] = np.where(np.array(signs) > 0, least[j], low)
                    highs[j] = np.where(np.array(signs) > 0, high, -least[j])
                if (lows <= highs).all():
                    yield lows, highs


def enumerated(R, params, weights):
    """The objectives of the best portfolio of each choice of assets."""
    plain = {
        name: value
        for name, value in params.items()
        if name not in ("max_assets", "min_held")
    }
    fits = (
        fitted(R, plain | {"constraint": bounds}, weights)
        for bounds in choices(R.shape[1], params)
    )
    return [value for portfolio, value in fits if portfolio is not None]


def broken(w, R, params, weights):
    """The names of the limits that the weights miss."""
    size, bounds, names = np.abs(w), params["constraint"], []
    low, high = (0.0, np.inf) if bounds == "long_only" else bounds or (-np.inf, np.inf)
    names += ["bounds"] * bool((w < low).any() or (w > high).any())
    names += ["budget"] * bool(abs(w.sum() - params["budget"]) > KEPT)
    names += ["max_assets"] * bool(np.count_nonzero(w) > params["max_assets"])
    names += ["min_held"] * bool(
        ((w != 0) & (size < np.asarray(params.get("min_held", 0.0)) * (1 - KEPT))).any()
    )
    if "max_turnover" in params:
        names += ["max_turnover"] * bool(
            np.abs(w - params["previous_weights"]).sum() > params["max_turnover"] + KEPT
        )
    if "linear_constraints" in params:
        A, lower, upper = params["linear_constraints"]
        names += ["linear_constraints"] * bool(
            (A @ w < lower - KEPT).any() or (A @ w > upper + KEPT).any()
        )
    if "max_risk" in params:
        only = {
            "risk_aversion": np.inf,
            "max_risk": None,
            "max_assets": None,
            "min_held": None,
            "l1": 0.0,
        }
        fixed = (
            params
            | only
            | {
                "constraint": (w, w),
                "transaction_cost": 0.0,
                "budget": None,
                "max_turnover": None,
            }
        )
        risk = fitted(R, fixed, weights)[1] ** (
            0.5 if params["risk_measure"] in ("variance", "semivariance") else 1.0
        )
        names += ["max_risk"] * bool(risk > params["max_risk"] * (1 + KEPT))
    return names


def measure_case(seed, tol=1e-6):
    """What became of one case."""
    R, params, weights, further = draw(seed)
    portfolio, value = fitted(R, params | {"tol": tol, "time_limit": 100.0}, weights)
    found = {
        "seed": seed,
        "risk": f"{params['risk_measure']}, order {params['order']}",
        "further": further,
    }
    found |= {"d": R.shape[1], "refused": None, "broken": []}
    values = enumerated(R, params, weights)
    if portfolio is None:
        return found | {
            "refused": str(value),
            "equal": not values,
            "valid": True,
            "excess": None,
        }
    if not values:
        return found | {
            "equal": False,
            "valid": True,
            "excess": None,
            "broken": ["all"],
        }
    w, best = portfolio.weights_, min(values)
    y = R @ w - params.get("benchmark", 0.0)
    size = np.sqrt(np.cov(y, aweights=weights, bias=True))
    if (
        params["risk_measure"] in ("variance", "semivariance")
        and "max_risk" not in params
    ):
        size = params["risk_aversion"] * size**2
    size = abs(best) if "objective" in params else float(size)
    excess = (value - best) / size
    return found | {
        "equal": abs(excess) <= EQUAL, "excess": excess, "broken": broken(w, R, params,
        weights),
        "valid": bool(value - portfolio.dual_gap_ <= best + EQUAL * size),
        "stated": portfolio.dual_gap_ / size,
    }  # fmt: skip


def run(quick, data):
    """Measure all cases."""
    results = [
        measure_case(seed) for seed in range(FIRST, FIRST + (3 if quick else CASES))
    ]
    return {"settings": {"first": FIRST, "cases": len(results)}, "results": results}


def counts(name, rows):
    """How many of some cases are equal and so on."""
    return {
        "name": name,
        "cases": len(rows),
        "equal": sum(row["equal"] for row in rows),
        "refused": sum(row["refused"] is not None for row in rows),
        "broken": sum(bool(row["broken"]) for row in rows),
        "not valid": sum(not row["valid"] for row in rows),
    }


COLUMNS = {
    "risk, goal or limits": "{name}", "cases": "{cases}",
    "equal to the best of all": "{equal}",
    "of which rightly refused": "{refused}", "limit broken": "{broken}",
    "gap not valid": "{not valid}",
}  # fmt: skip


def tables(stored):
    """Counts by risk measure, goal and further limits."""
    results, rows = stored["results"], []
    names = Counter(name for row in results for name in (row["risk"], *row["further"]))
    for name in (*sorted(names), "all"):
        rows.append(
            counts(
                name,
                [
                    row
                    for row in results
                    if name in (row["risk"], *row["further"], "all")
                ],
            )
        )
    return {"counts": table(rows, COLUMNS)}
