"""Portfolios in which every parameter meets every other: the values of the parameters,
data and containers in words, the arguments that they stand for, and what these mean.

The meaning is taken from the docstring of `CompositionalPortfolio`, and calls nothing
of the package, so that its answers can be judged.
"""

import warnings
from dataclasses import dataclass, field

import numpy as np

from sk_stormc.datasets import returns_from_moments

INF = np.inf
SQUARED = "variance", "semivariance"  # measures in the square of the unit of returns
KINDS = [
    "plain", "heavy tails", "copies", "near copies", "cash", "zeros", "1e-6", "1e4",
    "two periods", "one asset", "more assets than periods", "regime",
]  # fmt: skip
FURTHER_KINDS = [
    "levered copy", "mixture", "mixed units", "losses", "stale prices", "total loss",
    "cash and heavy tails", "only copies", "moments", "singular moments",
]  # fmt: skip
FACTORS = {
    "measure": [
        "variance", "semivariance", "entropic", "cvar", "evar", "semideviation",
        "downside", "cdar", "gini",
    ],
    "order": [1.0, 2.0, 3.0],
    "confidence": [0.5, 0.9, 0.99],
    "goal": [
        "low aversion", "high aversion", "least risk", "least mean return",
        "tight limit", "loose limit", "ratio",
    ],
    "bounds": ["none", "long_only", "caps", "short", "mixed", "far", "some fixed"],
    "budget": ["none", "one", "zero"],
    "groups": ["none", "limits", "equation", "rows"],
    "l1": ["none", "small", "large"],
    "l2": ["none", "small", "large"],
    "costs": ["none", "number", "array"],
    "turnover": ["none", "zero", "small", "large"],
    "gross": ["none", "tight", "wide"],
    "benchmark": ["none", "returns", "column", "weights"],
    "forecasts": ["none", "near", "far"],
    "sample_weight": ["none", "random", "zeros", "integers"],
    "half_life": ["none", "2", "quarter"],
    "tol": ["none", "1e-3", "1e-5", "1e-7", "1e-9"],
    "container": [
        "array", "frame", "polars", "memory map", "dask array", "dask frame",
    ],
    "data": KINDS,
}  # fmt: skip
# what has no place together, and the error that says so
ERRORS = [
    *(
        ({"measure": "entropic", "goal": goal}, text)
        for goal, text in {
            "least risk": "risk_aversion",
            "least mean return": "risk_aversion",
            "tight limit": "max_risk needs a risk apart from the mean return",
            "loose limit": "max_risk needs a risk apart from the mean return",
            "ratio": "objective='ratio' needs a risk apart from the mean return",
        }.items()
    ),
    *(
        ({"goal": "ratio", "l2": size}, "l2 must be 0 with objective='ratio'")
        for size in ("small", "large")
    ),
    *(
        ({"bounds": "long_only", "l1": size}, "l1 must be 0 with .*long_only")
        for size in ("small", "large")
    ),
    ({"bounds": "long_only", "budget": "zero"}, "budget must be a finite number > 0"),
    *(
        (
            {"measure": "cdar", "container": container},
            "needs all periods in their order",
        )
        for container in ("dask array", "dask frame")
    ),
]
FORBIDDEN = [rule for rule, _ in ERRORS]
# how often an option is left out of a random case
LEFT_OUT = 0.65


def drawn(seed):
    """A random case in words."""
    rng = np.random.default_rng([seed, 7])
    factors = FACTORS | {"data": KINDS + FURTHER_KINDS}
    while True:
        case = {}
        for name, values in factors.items():
            first = values[0] if values[0] in ("none", "array") else None
            out = first is not None and name != "bounds" and rng.random() < LEFT_OUT
            case[name] = first if out else values[rng.integers(len(values))]
        if not any(rule.items() <= case.items() for rule in FORBIDDEN):
            return case


def returns_of(kind, rng):
    """Returns of a kind, of shape (n_periods, n_assets)."""
    n, d = int(rng.integers(20, 130)), int(rng.choice([2, 3, 5, 8, 12]))
    if kind == "two periods":
        n, d = 2, int(rng.choice([1, 3, 5]))
    elif kind == "one asset":
        d = 1
    elif kind == "more assets than periods":
        d = int(rng.integers(8, 20))
        n = int(rng.integers(3, d))
    market, own = rng.normal(size=(n, 2)), rng.normal(size=(n, d))
    if kind in ("heavy tails", "cash and heavy tails"):
        market, own = rng.standard_t(3, (n, 2)), rng.standard_t(2.2, (n, d))
    loads = 0.3 + 0.5 * rng.normal(size=(2, d))
    R = (0.7 * market @ loads + own) * 0.01 * rng.lognormal(0, 0.5, d)
    R += rng.normal(3e-4, 4e-4, d)
    if kind in ("copies", "near copies"):
        k = max(1, d // 3)
        noise = 10.0 ** rng.integers(-10, -4) * (kind == "near copies")
        R[:, :k] = R[:, -k:] + noise * rng.normal(size=(n, k))
    elif kind in ("cash", "cash and heavy tails"):
        R[:, 0] = 1e-4 if kind == "cash" else 0.0
    elif kind == "zeros":
        R[:, -1] = 0.0
    elif kind in ("1e-6", "1e4"):
        R *= float(kind)
    elif kind == "regime":
        R[n // 2 :] = 4 * R[n // 2 :] - 0.002
    elif kind == "levered copy":
        R[:, 0] = 3 * R[:, -1]
    elif kind == "mixture":
        R[:, -1] = R[:, :-1].mean(axis=1) if d > 1 else R[:, -1]
    elif kind == "mixed units":
        R *= 10.0 ** rng.uniform(-4, 1, d)
    elif kind == "losses":
        R -= 0.003
    elif kind == "stale prices":
        R *= rng.random((n, d)) < 0.15
    elif kind == "total loss":
        R[rng.integers(n), rng.integers(d)] = -1.0
        R[rng.integers(n), rng.integers(d)] = 12.0
    elif kind == "only copies":
        R = np.repeat(R[:, :1], d, axis=1)
    elif kind in ("moments", "singular moments"):
        k = d if kind == "moments" else int(rng.integers(1, d + 1))
        B = 0.01 * rng.normal(size=(d, k))
        small = 10.0 ** rng.uniform(-14, -8) * rng.random(d) * (kind == "moments")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            R = np.asarray(
                returns_from_moments(
                    rng.normal(4e-4, 5e-4, d), B @ B.T + np.diag(small)
                )
            )
    return R


def weights_between(low, high, total, rng):
    """Random weights between bounds with a sum, or without one."""
    d = len(low)
    reach = 2.0 / d if total is None else 2.0 * (1 + abs(total)) / d
    low, high = (
        np.maximum(low, np.minimum(high, 0) - reach),
        np.minimum(high, np.maximum(low, 0) + reach),
    )
    w = rng.uniform(low, high)
    if total is None:
        return w
    below, above = -10.0 - np.abs(high).max(), 10.0 + np.abs(low).max()
    for _ in range(200):
        middle = (below + above) / 2
        if np.clip(w + middle, low, high).sum() < total:
            below = middle
        else:
            above = middle
    w = np.clip(w + above, low, high)
    inner = np.flatnonzero((w > low) & (w < high))
    if inner.size:  # the last bit of the sum
        w[inner[0]] += total - w.sum()
    return w


@dataclass
class Case:
    """The arguments of a fit, and the problem that they define."""

    words: dict
    R: np.ndarray  # returns, of shape (n_periods, n_assets)
    params: dict = field(default_factory=dict)  # of the estimator; arrays, no labels
    sample_weight: np.ndarray | None = None
    # what they mean
    measure: str = "variance"
    order: float = 2.0
    confidence: float = 0.95
    goal: str = "utility"  # or "least risk", "limit", "ratio"
    aversion: float = 1.0
    Y: np.ndarray = None  # returns with the forecast means
    against: np.ndarray = None  # the benchmark's returns
    p: np.ndarray = None  # weights of the periods, of sum 1
    low: np.ndarray = None
    high: np.ndarray = None
    budget: float | None = None
    A: np.ndarray = None  # linear rows, with limits
    lower: np.ndarray = None
    upper: np.ndarray = None
    held: np.ndarray = None
    cost: np.ndarray = None
    turnover: float | None = None
    gross: float | None = None
    l1: float = 0.0
    l2: float = 0.0
    min_return: float | None = None
    max_risk: float | None = None
    start: np.ndarray = None  # meets all limits but perhaps that of the risk
    unit: float = 1.0  # the typical size of the returns

    def excess(self, w):
        """The portfolio's returns in excess of the benchmark's."""
        return self.Y @ w - self.against

    def mean(self, w):
        """The mean excess return."""
        return float(self.p @ self.excess(w))

    def charge(self, w):
        """The l1 norm, the costs and the squares."""
        trades = self.cost @ np.abs(w - self.held)
        return float(self.l1 * np.abs(w).sum() + trades + self.l2 * w @ w)

    def risk(self, w):
        """The risk, as a deviation for limits and ratios."""
        risk = risk_of(
            self.excess(w), self.p, self.measure, self.order, self.confidence
        )
        root = self.measure in SQUARED and self.goal in ("limit", "ratio")
        return float(np.sqrt(risk) if root else risk)

    def value(self, w):
        """What the estimator minimises."""
        w = np.asarray(w, float)
        if self.measure == "entropic":
            return certain(self.excess(w), self.p, self.aversion) + self.charge(w)
        if self.goal == "ratio":
            lost, risk = self.charge(w) - self.mean(w), self.risk(w)
            return lost / risk if risk > 0 else INF if lost >= 0 else -INF
        if self.goal == "limit":
            return self.charge(w) - self.mean(w)
        risk = self.risk(w)
        earned = 0.0 if self.goal == "least risk" else self.mean(w)
        weight = 1.0 if self.goal == "least risk" else self.aversion
        return weight * risk - earned + self.charge(w)

    def misses(self, w):
        """By how much each limit is missed, relative to the size of the weights."""
        size = 1 + np.abs(w).max()
        found = {
            "low": (self.low - w).max() / size,
            "high": (w - self.high).max() / size,
        }
        if self.budget is not None:
            found["budget"] = abs(w.sum() - self.budget) / size
        if len(self.A):
            of_rows = self.A @ w
            rows = np.maximum(of_rows - self.upper, self.lower - of_rows)
            found["rows"] = (
                rows / np.maximum(np.abs(self.A).max(axis=1), 1)
            ).max() / size
        if self.gross is not None:
            found["gross"] = (np.abs(w).sum() - self.gross) / size
        if self.turnover is not None:
            found["turnover"] = (np.abs(w - self.held).sum() - self.turnover) / size
        if self.min_return is not None:
            short = self.min_return - self.mean(w)
            found["min_return"] = short / (np.abs(self.Y).mean() * size or 1.0)
        if self.max_risk is not None:
            found["max_risk"] = (self.risk(w) - self.max_risk) / self.max_risk
        return {name: float(miss) for name, miss in found.items()}

    def scale(self, w):
        """The typical size of the objective near w: differences below 1e-6 of the
        returns are rounding."""
        own = abs(self.value(w))
        if self.goal == "ratio":
            return own
        square = self.measure in SQUARED and self.goal == "least risk"
        least = 1e-6 * (self.unit**2 if square else self.unit)
        if self.goal == "limit":
            return max(own, least)
        far = abs(self.value(self.start) - self.value(w))
        risk = own if self.measure == "entropic" else abs(self.risk(w))
        if self.goal != "least risk" and self.measure != "entropic":
            risk *= self.aversion
        return max(risk, far, least)

    def best_is_empty(self, value):
        """Whether no weights at all meet the limits and are as good as a value."""
        none = np.zeros(self.R.shape[1])
        if self.goal == "ratio" or max(self.misses(none).values()) > 1e-12:
            return False
        return self.value(none) <= value + 1e-6 * self.scale(none)


def certain(y, p, aversion):
    """(1 / aversion) log mean exp(-aversion y)."""
    z = -aversion * y
    return float((np.log(p @ np.exp(z - z.max())) + z.max()) / aversion)


def worst(losses, p, part):
    """The mean of the worst part of the losses."""
    order = np.argsort(-losses)
    taken = np.diff(np.minimum(np.cumsum(p[order]), part), prepend=0.0)
    return taken @ losses[order] / part


def risk_of(y, p, measure, order, confidence):
    """The risk of returns y by its definition."""
    if measure == "cdar":
        total = np.append(0.0, np.cumsum(y))
        return worst((np.maximum.accumulate(total) - total)[1:], p, 1 - confidence)
    y, p = y[p > 0], p[p > 0]
    off = y - p @ y
    if measure == "variance":
        return p @ off**2
    if measure == "semivariance":
        return p @ np.minimum(off, 0) ** 2
    if measure in ("semideviation", "downside"):
        losses = np.maximum(-(off if measure == "semideviation" else y), 0)
        size = losses.max() or 1.0
        return size * (p @ (losses / size) ** order) ** (1 / order)
    if measure == "cvar":
        return worst(-y, p, 1 - confidence)
    if measure == "gini":
        return p @ np.abs(y[:, None] - y) @ p
    # evar: the least over z of z log(mean exp(-y / z) / (1 - confidence)), which is
    # max(-y) as z vanishes
    top, size = -y.min(), y.std() or 1.0
    logs, best, width = 0.0, top, 16.0
    while width > 1e-9:
        grid = logs + np.linspace(-width, width, 81)
        z = size * np.exp(grid)[:, None]
        values = z[:, 0] * (np.log(np.exp((-y - top) / z) @ p) - np.log(1 - confidence))
        k = int(np.argmin(values))
        logs, best, width = grid[k], min(best, top + values[k]), width / 10
    return best


def case_of(words, seed):
    """The `Case` of some words, whose numbers are drawn from a seed. All limits but the
    tight one of the risk are around a random portfolio, and leave it."""
    rng = np.random.default_rng(seed)
    R = returns_of(words["data"], rng)
    n, d = R.shape
    unit = float(np.abs(R - R.mean(axis=0)).mean() or np.abs(R).mean() or 1.0)
    case = Case(words, R, unit=unit, measure=words["measure"])
    params = case.params
    case.order, case.confidence = words["order"], words["confidence"]
    for name in ("order", "confidence"):
        params[name] = words[name]
    params["risk_measure"] = words["measure"]
    _add_periods(case, rng)
    _add_bounds(case, rng)
    _add_benchmark(case, rng)
    case.start = weights_between(case.low, case.high, case.budget, rng)
    _add_goal(case)
    _add_limits(case, rng)
    if words["tol"] != "none":
        params["tol"] = float(words["tol"])
    return case


def _add_periods(case, rng):
    """Weights of the periods and forecasts."""
    (n, d), words, params = case.R.shape, case.words, case.params
    p = np.ones(n)
    if words["sample_weight"] != "none":
        if words["sample_weight"] == "integers":
            given = rng.integers(1, 4, n).astype(float)
        else:
            given = rng.uniform(0.1, 1, n)
        if words["sample_weight"] == "zeros":
            given[rng.random(n) < 0.2] = 0.0
            given[-1] = 1.0
        case.sample_weight, p = given, p * given
    if words["half_life"] != "none":
        life = 2.0 if words["half_life"] == "2" else n / 4 + 0.1
        params["half_life"] = life
        p = p * 0.5 ** (np.arange(n)[::-1] / life)
    case.p = p / p.sum()
    case.Y = case.R
    if words["forecasts"] != "none":
        size = case.unit * (0.05 if words["forecasts"] == "near" else 1.0)
        means = case.p @ case.R + size * rng.normal(size=d)
        params["expected_returns"] = means
        case.Y = case.R - case.p @ case.R + means


def _add_bounds(case, rng):
    """Bounds and the budget."""
    d, words, params = case.R.shape[1], case.words, case.params
    low, high = np.full(d, -INF), np.full(d, INF)
    kind, total = (
        words["bounds"],
        {"none": None, "one": 1.0, "zero": 0.0}[words["budget"]],
    )
    if total is not None:
        params["budget"] = total
    if kind == "long_only":
        low = np.zeros(d)
        params["constraint"] = "long_only"
        total = 1.0 if total is None else total
    elif kind != "none":
        if kind == "caps":
            low, high = np.zeros(d), np.full(d, max(1.3 / d, 0.3))
        elif kind == "short":
            low, high = np.full(d, -0.3), np.full(d, 1.0)
        elif kind == "far":
            low, high = np.full(d, -1e6), np.full(d, 1e6)
        elif kind == "mixed":
            low = np.where(rng.random(d) < 0.5, -INF, -0.1 * rng.random(d))
            high = np.where(rng.random(d) < 0.5, INF, 0.2 + rng.random(d))
            high[-1] = INF
        else:
            low, high = np.full(d, -0.5), np.full(d, 1.0)
            if d > 1:
                low[0] = high[0] = 0.1
        params["constraint"] = low.copy(), high.copy()
    case.low, case.high, case.budget = low, high, total


def _add_benchmark(case, rng):
    """The returns of the benchmark. A column of X has no weight then."""
    (n, d), kind = case.R.shape, case.words["benchmark"]
    case.against = np.zeros(n)
    if kind == "returns":
        mixed = case.R @ rng.dirichlet(np.ones(d))
        case.against = mixed + 0.1 * case.unit * rng.normal(size=n)
        case.params["benchmark"] = case.against
    elif kind == "weights":
        weights = rng.dirichlet(np.ones(d))
        case.against = case.Y @ weights
        case.params["benchmark"] = weights
    elif kind == "column":
        case.against = case.Y[:, -1].copy()
        case.params["benchmark"] = d - 1
        case.low, case.high = case.low.copy(), case.high.copy()
        case.low[-1] = case.high[-1] = 0.0


def _add_goal(case):
    """What is minimised."""
    goal, params, w = case.words["goal"], case.params, case.start
    squared = case.measure in (*SQUARED, "entropic")
    if goal == "ratio":
        case.goal, params["objective"] = "ratio", "ratio"
    elif goal.endswith("limit"):
        case.goal = "limit"
        factor = 0.9 if goal.startswith("tight") else 3.0
        risk = case.risk(w)
        case.max_risk = factor * (risk if risk > 1e-9 * case.unit else case.unit)
        params["max_risk"] = case.max_risk
    elif goal.endswith("aversion"):
        case.aversion = (0.1 if goal.startswith("low") else 5.0) * (
            1 / case.unit if squared else 1.0
        )
        params["risk_aversion"] = case.aversion
    else:
        case.goal, params["risk_aversion"] = "least risk", INF
        if goal == "least mean return":
            case.min_return = params["min_return"] = case.mean(w)


def _add_limits(case, rng):
    """Groups, trades, gross weight, and charges."""
    d, words, params, w = case.R.shape[1], case.words, case.params, case.start
    case.A, case.lower, case.upper = np.zeros((0, d)), np.zeros(0), np.zeros(0)
    if words["groups"] in ("limits", "equation"):
        names = rng.integers(0, 3, d)
        names[0] = 0
        params["groups"] = np.array([f"g{name}" for name in names])
        case.A = np.array([(names == name) * 1.0 for name in np.unique(names)])
        room = rng.choice([0.02, 0.2, 1.0], len(case.A))
        total = case.A @ w
        case.lower, case.upper = np.full(len(total), -INF), total + room
        texts = [
            f"g{name} <= {limit!r}"
            for name, limit in zip(np.unique(names), case.upper.tolist(), strict=True)
        ]
        if words["groups"] == "equation":
            case.lower[0] = case.upper[0] = total[0]
            texts[0] = f"g0 == {float(total[0])!r}"
        params["linear_constraints"] = texts
    elif words["groups"] == "rows":
        case.A = rng.normal(size=(2, d))
        room = rng.choice([0.02, 0.2, 1.0], (2, 2))
        case.lower, case.upper = case.A @ w - room[0], case.A @ w + room[1]
        case.lower[1] = -INF
        params["linear_constraints"] = case.A, case.lower, case.upper
    # charges are in the unit of the objective
    square = case.measure in SQUARED and case.goal == "least risk"
    unit = case.unit**2 if square else case.unit
    case.held, case.cost = np.zeros(d), np.zeros(d)
    if words["turnover"] != "none" or words["costs"] == "array":
        off = 0.2 * rng.normal(size=d) / d
        if words["benchmark"] == "column":  # whose weight is 0, before and after
            off[-1] = 0.0
        case.held = w.copy() if words["turnover"] == "zero" else w + off
        params["previous_weights"] = case.held
    if words["turnover"] != "none":
        room = {"zero": 0.0, "small": 0.05, "large": 2.0 * d}[words["turnover"]]
        case.turnover = float(np.abs(w - case.held).sum()) + room
        params["max_turnover"] = case.turnover
    if words["costs"] != "none":
        each = unit * float(rng.choice([0.001, 0.02, 0.3]))
        each = each * rng.random(d) if words["costs"] == "array" else each
        params["transaction_cost"], case.cost = each, np.broadcast_to(each, d) + 0.0
    if words["gross"] != "none":
        size = float(np.abs(w).sum())
        case.gross = (1.02 * size or 0.1) if words["gross"] == "tight" else 2 * size + 1
        params["max_gross"] = case.gross
    if words["l1"] != "none":
        case.l1 = params["l1"] = unit * (0.003 if words["l1"] == "small" else 0.05)
    if words["l2"] != "none":
        case.l2 = params["l2"] = unit * (1e-4 if words["l2"] == "small" else 0.1)


# Containers


def arguments(case, folder):
    """The parameters of the estimator and the arguments of ``fit`` of a case: X in its
    container, with labels where that has names."""
    import pandas as pd

    R, container, params = case.R, case.words["container"], dict(case.params)
    weights = case.sample_weight
    names = [f"asset {j}" for j in range(R.shape[1])]
    if container in ("frame", "polars", "dask frame"):
        turned = names[::-1]

        def labelled(values):
            series = pd.Series(values, names)[turned]  # in another order
            return series if container == "frame" else series.to_dict()

        for name in ("expected_returns", "previous_weights", "transaction_cost"):
            if np.ndim(params.get(name)) == 1:
                params[name] = labelled(params[name])
        if case.words["benchmark"] == "column":
            params["benchmark"] = names[-1]
        elif case.words["benchmark"] == "weights":
            params["benchmark"] = labelled(params["benchmark"])
        if isinstance(params.get("constraint"), tuple):
            params["constraint"] = tuple(map(labelled, params["constraint"]))
        if "groups" in params:
            params["groups"] = labelled(params["groups"])
    if container == "array":
        X = R
    elif container == "memory map":
        X = np.memmap(f"{folder}/returns", R.dtype, "w+", shape=R.shape)
        X[:] = R
    elif container == "polars":
        import polars as pl

        X = pl.DataFrame(R, schema=names)
    elif container == "dask array":
        import dask.array as da

        X = da.from_array(np.ascontiguousarray(R), chunks=(max(1, len(R) // 3), -1))
    else:
        X = pd.DataFrame(R, columns=names)
        if container == "dask frame":
            import dask.dataframe as dd

            X = dd.from_pandas(X, npartitions=2)
    return params, X, weights
