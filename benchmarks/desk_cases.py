"""Random portfolios with the faults of real data, beside Clarabel: right, warned, wrong
in silence, and how long.

A case is drawn from its seed: 3 to 2,500 periods, 1 to 60 assets (one case in forty has
503 or 1,000), one of fifteen kinds of returns, a unit between 1e-9 and 1e4, a risk
measure, a risk aversion and constraints. Of those with bounds, four fifths have linear
constraints, a limit on turnover, a benchmark or all three, and every third is the
largest ratio. Some have a half-life, forecasts, a least mean return, a limit of the
gross weight, or squares of weights. Clarabel is given the problem as a cone program (by
cvxpy) whose returns are centred and of size one, since it fails on many of these as
they are, and its time is that of its solver alone. An answer is right if its objective
is within 1e-4 of the spread above the best that was found, the spread being from equal
weights to the best. A refusal that no portfolio has a positive mean return, or that one
has no risk, counts as right. The seeds are those of the benchmark only.
"""

import importlib.util
import warnings

import numpy as np

from benchmarks._measure import timed
from benchmarks._tables import table
from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.portfolio.constraints import feasible_set_of
from sk_stormc.portfolio.exact.ratio import ratio_at
from sk_stormc.portfolio.mean_risk import MeanRisk
from sk_stormc.portfolio.risk import MEASURES as RISKS

DURATION = "half an hour"
NEEDS_DATA = False
PACKAGES = ("skfolio", "clarabel")
FIRST, CASES = 80_000, 3000
KINDS = (
    "normal", "cash", "two copies", "near copies", "shifted", "gross", "tiny unit",
    "large unit", "heavy tails",
    "skewed", "regimes", "constant asset", "changing volatility", "cash of minutes",
    "nearly cash",
)  # fmt: skip
FURTHER = "none", "sectors", "trades", "benchmark", "all"
LIMITS = ("linear_constraints", "max_turnover", "benchmark", "max_gross", "min_return")
OTHERS = ("half_life", "expected_returns", "l2")
UNITS = 10.0 ** np.array([-9, -6, -3, 2, 4])  # of every third case
MEASURES = tuple(RISKS)
PROPORTIONAL = MEASURES[3:]  # to the size of the portfolio
RIGHT = 1e-4
FEASIBLE = 1e-8  # by how much further constraints may be missed, relative to their size
# by which a point may miss further constraints that is compared with the bound of the
# gap
ROUNDING = 1e-14
SMALL = 1e-6  # of the objective's typical size: a smaller spread is rounding


def draw(seed):
    """The kind, the returns and the estimator's parameters of a case."""
    rng = np.random.default_rng(seed)
    n, d = (
        int(rng.choice([3, 8, 20, 60, 250, 500, 1000, 2500])),
        int(rng.choice([1, 2, 5, 10, 25, 60])),
    )
    if seed % 40 == 0:
        n, d = 1000, int(rng.choice([503, 1000]))
    kind, mixed = (
        KINDS[seed % len(KINDS)],
        np.eye(d) + 0.3 * rng.normal(size=(d, d)) / max(1.0, np.sqrt(d / 10)),
    )
    R = 0.01 * rng.normal(size=(n, d)) @ mixed + rng.normal(0.0004, 0.0005, d)
    if kind == "cash":
        R[:, -1] = 0.0
    elif kind in ("two copies", "near copies"):
        R[:, -1] = R[:, 0] + (kind == "near copies") * 1e-7 * rng.normal(size=n)
    elif kind in ("shifted", "gross"):
        R += 100 if kind == "shifted" else 1
    elif kind in ("tiny unit", "large unit"):
        R *= 1e-5 if kind == "tiny unit" else 1e5
    elif kind == "heavy tails":
        R = 0.01 * rng.standard_t(2.5, size=(n, d)) @ mixed
    elif kind == "skewed":
        R = -0.01 * (rng.exponential(size=(n, d)) - 1) @ mixed + 0.0005
    elif kind == "regimes":
        R[n // 2 :] *= 5
    elif kind == "constant asset":
        R[:, 0] = 0.0003
    elif kind == "changing volatility":
        R *= rng.lognormal(0, 1, (n, 1))
    elif kind == "cash of minutes":
        R *= 10.0 ** rng.uniform(-6, -1)
        R[:, -1] = 0.0
    elif kind == "nearly cash":
        R[:, -1] = 1e-4 + 10.0 ** rng.uniform(-8, -4) * rng.normal(size=n)
    measure, unit = str(rng.choice(MEASURES)), float(np.median(R.std(axis=0))) or 1.0
    aversion = float(rng.choice([0.1, 1, 3, 10, 100]))
    if measure not in PROPORTIONAL:
        aversion /= 10 * unit
    chosen = str(
        rng.choice(
            ["long only", "bounds", "bounds and budget", "l1", "cost", "budget", "free"]
        )
    )
    if (chosen in ("budget", "free")) and (n <= 2 * d or measure in PROPORTIONAL):
        chosen = (
            "bounds and budget"  # without more periods than assets there is no minimum
        )
    constraints = {
        "long only": {"constraint": "long_only"},
        "bounds": {"constraint": (-0.3, 0.6)},
        "bounds and budget": {
            "constraint": (-1.0, 1.0),
            "budget": 1.0 if d > 1 else 0.5,
        },
        "l1": {"constraint": (-0.5, 0.5), "l1": 0.05 * unit},
        "cost": {
            "constraint": "long_only",
            "previous_weights": np.full(d, 1 / d),
            "transaction_cost": 0.02 * unit,
        },
        "budget": {"budget": 1.0},
        "free": {},
    }[chosen]
    confidence = float(rng.choice([0.9, 0.95, 0.99]))
    shape = {"confidence": confidence, "order": int(rng.choice([1, 2, 3]))}
    params = {
        "risk_measure": measure,
        "risk_aversion": aversion,
        **shape,
        **constraints,
    }
    further = FURTHER[seed // len(KINDS) % len(FURTHER)]
    if chosen not in ("cost", "free", "budget"):
        params |= limits(further, params, R, rng)
    if seed % 3 == 0 and measure != "entropic" and chosen != "free":
        params["objective"] = "ratio"
    return kind, *varied(kind, R, params, np.random.default_rng([seed, 1]))


def varied(kind, R, params, rng):
    """Returns and parameters in another unit, or with weights of periods, forecasts and
    further limits."""
    n, d = R.shape
    unit = (
        float(rng.choice(UNITS))
        if rng.random() < 1 / 3 and kind not in ("tiny unit", "large unit")
        else 1.0
    )
    R, params = R * unit, dict(params)
    if params["risk_measure"] not in PROPORTIONAL:
        params["risk_aversion"] /= unit
    for name in ("l1", "transaction_cost", "benchmark"):
        if name in params:
            params[name] = params[name] * unit
    deviation, ratio = (
        float(np.median(R.std(axis=0))) or unit,
        params.get("objective") == "ratio",
    )
    bounded = params.get("constraint") is not None
    if rng.random() < 0.2 and n >= 20:
        params["half_life"] = float(rng.choice([3, 10, 100]))
    if rng.random() < 0.15:
        params["expected_returns"] = R.mean(axis=0) + 0.1 * deviation * rng.normal(
            size=d
        )
    if rng.random() < 0.15 and not ratio:
        scale = params["risk_aversion"] * deviation ** (
            1 if params["risk_measure"] in PROPORTIONAL else 2
        )
        params["l2"] = float(rng.choice([0.1, 1.0])) * scale
    held = params.get("previous_weights", np.full(d, 1 / d))
    if rng.random() < 0.2 and bounded and params["constraint"] != "long_only":
        params["max_gross"] = (
            float(np.abs(held).sum()) * float(rng.choice([1.05, 1.5])) + 0.5
        )
    fixed = "budget" in params or params.get("constraint") == "long_only"
    if (
        rng.random() < 0.15
        and fixed
        and not ratio
        and params["risk_measure"] != "entropic"
    ):
        params |= {"risk_aversion": np.inf}
        mean = (
            reference(params, R)[0].mean(axis=0) if "half_life" not in params else None
        )
        if (
            mean is not None
            and "benchmark" not in params
            and "linear_constraints" not in params
        ):
            start = feasible_set_of(CompositionalPortfolio(**params), range(d)).project(
                np.full(d, 1 / d)
            )
            params["min_return"] = float(mean @ start)
    return R, params


def reference(params, R):
    """The returns with forecasts as means, and the weights of the periods."""
    p = np.full(len(R), 1 / len(R))
    if "half_life" in params:
        p = 0.5 ** (np.arange(len(R))[::-1] / params["half_life"])
        p /= p.sum()
    if "expected_returns" in params:
        R = R - p @ R + params["expected_returns"]
    return R, p


def limits(further, params, R, rng):
    """Linear constraints, a limit on trades and a benchmark, put around a portfolio
    that they leave."""
    n, d = R.shape
    held = feasible_set_of(CompositionalPortfolio(**params), range(d)).project(
        rng.dirichlet(np.ones(d))
    )
    found = {}
    if further in ("sectors", "all"):
        sector = rng.integers(0, 3, d)
        A = np.concatenate([np.eye(3)[:, sector], rng.normal(size=(1, d))])
        room = rng.choice([0.0, 0.02, 0.2], len(A))  # 0: an equation
        lower, upper = A @ held - room, A @ held + room
        lower[rng.random(len(A)) < 0.3] = -np.inf
        found["linear_constraints"] = A, lower, upper
    if further in ("trades", "all"):
        found |= {
            "previous_weights": held,
            "max_turnover": float(rng.choice([0.01, 0.2, 0.6])),
        }
    if further in ("benchmark", "all") and n != d:  # else it might be of weights
        found["benchmark"] = R @ rng.dirichlet(np.ones(d)) + 0.1 * R.std() * rng.normal(
            size=n
        )
    return found


def ours(params, R):
    """A fit: weights, seconds, whether it warned, the gap that it states; for a refused
    one, no weights and why."""

    def fit():
        try:
            return CompositionalPortfolio(random_state=0, **params).fit(R)
        except ValueError as error:
            return error

    seconds, found, warned = timed(fit)
    if isinstance(found, ValueError):
        return None, seconds, str(found), np.nan
    return found.weights_, seconds, warned, float(found.dual_gap_)


def clarabel(params, R):
    """Clarabel's weights and seconds; None where it fails. A ratio by the
    transformation of Charnes and Cooper."""
    import cvxpy as cp

    (n, d), (R, p) = R.shape, reference(params, R)
    ratio, measure = params.get("objective") == "ratio", params["risk_measure"]
    mean, against = p @ R, params.get("benchmark", np.zeros(n))
    unit = float(np.median(np.sqrt(p @ (R - mean) ** 2))) or 1.0
    v, k = cp.Variable(d), cp.Variable() if ratio else 1.0
    Q, aversion = (R - mean) / unit, params["risk_aversion"]
    only_risk = not np.isfinite(aversion)
    aversion = 1.0 if only_risk else aversion
    y = Q @ v - k * (against - p @ against) / unit
    raw = (R / unit) @ v - k * against / unit
    constraints, constraint = [k >= 0] if ratio else [], params.get("constraint")
    if isinstance(constraint, str):
        constraints += [v >= 0, cp.sum(v) == k]
    elif constraint is not None:
        constraints += [v >= k * constraint[0], v <= k * constraint[1]]
    if "budget" in params:
        constraints.append(cp.sum(v) == k * params["budget"])
    if "linear_constraints" in params:
        A, lower, upper = params["linear_constraints"]
        constraints += [
            A[j] @ v >= k * lower[j] for j in range(len(A)) if lower[j] > -np.inf
        ]
        constraints += [A @ v <= k * upper]
    previous = params.get("previous_weights", np.zeros(d))
    if "max_turnover" in params:
        constraints.append(cp.norm1(v - k * previous) <= k * params["max_turnover"])
    if "max_gross" in params:
        constraints.append(cp.norm1(v) <= k * params["max_gross"])
    tail, order, roots = 1 - params["confidence"], params["order"], np.sqrt(p)
    if measure == "variance":
        risk = cp.sum_squares(cp.multiply(roots, y)) * unit
    elif measure == "semivariance":
        risk = cp.sum_squares(cp.multiply(roots, cp.neg(y))) * unit
    elif measure == "entropic":
        rate = aversion * unit
        risk = cp.log_sum_exp(-rate * y + np.log(p)) / rate / aversion
    elif measure == "cvar":
        level = cp.Variable()
        risk = level + p @ cp.pos(-raw - level) / tail
    elif measure in ("semideviation", "downside"):
        risk = cp.pnorm(
            cp.multiply(
                p ** (1 / order), cp.pos(-(y if measure == "semideviation" else raw))
            ),
            order,
        )
    elif measure == "cdar":
        depth, level = cp.Variable(n), cp.Variable()
        before = cp.hstack([0, depth[:-1]])
        constraints += [depth >= before - raw, depth >= 0]
        risk = level + p @ cp.pos(depth - level) / tail
    else:
        t, level, u = cp.Variable(), cp.Variable(), cp.Variable(n)
        constraints += [
            p @ u <= t,
            cp.constraints.ExpCone(-raw - level, t * np.ones(n), u),
        ]
        risk = level - t * np.log(tail)
    earned, costs = (mean / unit) @ v - k * (p @ against) / unit, 0.0
    if "l1" in params:
        costs += params["l1"] / unit * cp.norm1(v)
    if "transaction_cost" in params:
        costs += params["transaction_cost"] / unit * cp.norm1(v - k * previous)
    if "l2" in params:
        costs += params["l2"] / unit * cp.sum_squares(v)
    if "min_return" in params:
        constraints.append(earned >= params["min_return"] / unit)
    gain = 0.0 if only_risk else earned
    if ratio:
        largest = float(np.abs(mean).max()) / unit
        constraints.append((earned - costs) / largest >= 1)
    program = cp.Problem(
        cp.Minimize(risk if ratio else aversion * risk - gain + costs), constraints
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program.solve(solver="CLARABEL")
    except cp.SolverError:
        return None, None
    if v.value is None or (ratio and not k.value > 1e-12):
        return None, None
    return v.value / k.value if ratio else v.value, program.solver_stats.solve_time


def judge(params, R, weights):
    """The objective of equal weights (0 for a ratio) and of each of some others, by the
    exact formulas in float64."""
    R, p = reference(params, R)
    estimator, measure = (
        CompositionalPortfolio(**params | {"min_return": None}),
        params["risk_measure"],
    )
    penalty, ratio = (
        feasible_set_of(estimator, range(R.shape[1])),
        params.get("objective") == "ratio",
    )
    fixed = "budget" in params or params.get("constraint") == "long_only"
    shifts = fixed and measure not in ("downside", "cdar") and not ratio
    # a shift changes these objectives by a constant
    centre = float(np.median(R)) if shifts else 0.0
    if "benchmark" in params:
        R, weights = (
            np.column_stack([R, params["benchmark"]]),
            [np.append(w, -1.0) for w in weights],
        )
    task = MeanRisk.of(
        R - centre, RISKS[measure].of(estimator), params["risk_aversion"], p, penalty
    )
    # a point that misses a constraint by a billionth may be better than any that keeps
    # it
    equal = np.full(R.shape[1], 1 / R.shape[1])
    equal, *places = [penalty.project(w, ROUNDING) for w in [equal, *weights]]
    if ratio:
        return [0.0, *(-_ratio(task, w) for w in places)]
    return [task.value(w) for w in [equal, *places]]


def with_min_return(theirs, w, params, R):
    """The nearest point on the segment from their weights to w with the least mean
    return, which theirs miss by a tolerance."""
    mean = reference(params, R)[0].mean(axis=0)
    missing = params.get("min_return", -np.inf) - float(mean @ theirs)
    if missing <= 0:
        return theirs
    gain = float(mean @ w) - float(mean @ theirs)
    return theirs + min(missing / gain, 1.0) * (w - theirs) if gain > 0 else w


def _ratio(task, w):
    """Mean return after costs over risk."""
    if not task.with_aversion(np.inf).value(w):
        return np.inf
    return ratio_at(task, w) * (1 - task.penalty.value(w) / float(task.mean @ w))


def measure_case(seed, with_clarabel):
    """What became of one case."""
    kind, R, params = draw(seed)
    ratio = params.get("objective") == "ratio"
    further = [name for name in (*LIMITS, *OTHERS) if name in params]
    found = {
        "seed": seed,
        "kind": kind,
        "risk": params["risk_measure"],
        "n": R.shape[0],
        "d": R.shape[1],
    }
    w, seconds, warned, gap = ours(params, R)
    their, their_seconds = clarabel(params, R) if with_clarabel else (None, None)
    found |= {
        "further": further + ["ratio"] * ratio,
        "seconds": seconds,
        "clarabel": their_seconds,
    }
    if (
        w is None
    ):  # refused: no portfolio has a positive mean return, or one has no risk
        return found | {
            "refused": warned,
            "right": True,
            "warned": True,
            "valid": True,
            "clarabel_right": None,
        }
    found_it = their is not None and np.isfinite(their).all()
    others = [with_min_return(their, w, params, R)] if found_it else []
    equal, own, *others = judge(params, R, [w, *others])
    best = min([own, *others])
    size = max(
        equal - best, (FEASIBLE / RIGHT if further else SMALL) * abs(equal), 1e-300
    )
    # of rounding
    slack = max(
        (FEASIBLE if further else 1e-9) * max(size, abs(own)), 1e-12 * np.abs(R).max()
    )
    theirs = (
        bool(others and others[-1] - best <= RIGHT * size) if with_clarabel else None
    )
    return found | {
        "gap": (own - best) / size, "right": bool(own - best <= RIGHT * size),
        "warned": bool(warned),
        "clarabel_right": theirs, "stated": gap / size,
        "valid": bool(gap >= own - best - slack),
    }  # fmt: skip


def run(quick, data):
    """Measure all cases."""
    there = (
        importlib.util.find_spec("cvxpy") is not None
        and importlib.util.find_spec("clarabel") is not None
    )
    if not (there or quick):
        raise ImportError(
            "Clarabel is what this library is compared with: pip install "
            "'sk_stormc[benchmarks]'"
        )
    make_gaussian_returns(10, 2)  # loads what a first call loads
    results = [
        measure_case(seed, there and not quick)
        for seed in range(FIRST, FIRST + (13 if quick else CASES))
    ]
    return {"settings": {"first": FIRST, "cases": len(results)}, "results": results}


def counts(name, rows):
    """How many of some cases are right, warned and so on, and their times."""
    timed_too = [row for row in rows if row["clarabel"]]
    theirs = [row["clarabel"] for row in timed_too]
    return {
        "name": name,
        "cases": len(rows),
        "right": sum(row["right"] for row in rows),
        "warned": sum(row["warned"] for row in rows),
        "silent": sum(not (row["right"] or row["warned"]) for row in rows),
        "not valid": sum(not row["valid"] for row in rows),
        "median": np.median([row["seconds"] for row in rows]),
        "largest": max(row["seconds"] for row in rows),
        "slow": sum(row["seconds"] > 0.1 + 5 * row["clarabel"] for row in timed_too),
        "clarabel": f"{np.median(theirs):.3f}" if theirs else "",
        "clarabel not right": sum(not row["clarabel_right"] for row in rows)
        if theirs
        else "",
    }


COLUMNS = {
    "risk, or further constraint": "{name}", "cases": "{cases}", "right": "{right}",
    "warned or refused": "{warned}",
    "wrong without a warning": "{silent}", "gap not valid": "{not valid}",
    "seconds, median": "{median:.3f}",
    "seconds, largest": "{largest:.2f}",
    "slower than 0.1 s + 5 times Clarabel": "{slow}",
    "Clarabel, seconds, median": "{clarabel}",
    "Clarabel not right": "{clarabel not right}",
}  # fmt: skip


def tables(stored):
    """Counts by risk measure and by further constraints."""
    rows = []
    for name in (*MEASURES, *LIMITS, *OTHERS, "ratio", "all"):
        chosen = [
            row
            for row in stored["results"]
            if name in (row["risk"], "all", *row["further"])
        ]
        rows += [counts(name, chosen)] if chosen else []
    return {"counts": table(rows, COLUMNS)}
