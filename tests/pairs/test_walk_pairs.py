"""Every option of `walk_forward` meets every other, against a loop over the periods that
is written out."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import covering_array
from sklearn.base import BaseEstimator
from sklearn.feature_selection import VarianceThreshold
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline

from sk_stormc import CompositionalPortfolio, walk_forward
from sk_stormc.datasets import returns_from_prices

N, NAMES, MARKET = 66, list("abcde"), 1  # the place of the benchmark's column
DAYS = pd.bdate_range("2022-11-01", periods=N)
CAPS = np.array([0.7, 0.5, 0.4, 0.6, 0.3])
HELD = np.array([0.3, 0.0, 0.2, 0.0, 0.1])
COSTS = np.array([0.001, 0.002, 0.0, 0.004, 0.001])
WINDOWS = {"moving": (30, None), "expanding": (None, 40), "begins later": (20, 45)}
FACTORS = {
    "estimator": ["rule", "fails", "portfolio", "pipeline", "search"],
    "window": list(WINDOWS),
    "refit_every": [1, 10, 1000],
    "trading_cost": ["none", "number", "array"],
    "benchmark": ["none", "column", "returns", "weights", "own column", "own returns"],
    "container": ["array", "frame", "dates", "prices", "polars", "dask"],
    "unit": ["fractions", "percent", "log"],
    "forecasts": ["none", "rows", "function"],
    "limits": ["none", "turnover", "costs", "held"],
    "missing": ["none", "listed later", "while held"],
    "crash": [False, True],
    "several": ["one", "dict", "list"],
}
FORBIDDEN = [
    {"estimator": "fails", "refit_every": 1000},  # all of one
    # to be quick
    *({"estimator": name, "refit_every": 1} for name in ("portfolio", "search")),
    {"estimator": "pipeline", "refit_every": 1},
    # the folds of a search have other rows than the array
    {"estimator": "search", "benchmark": "own returns"},
    {"container": "prices", "unit": "percent"},
    {"container": "prices", "unit": "log"},
    {"container": "prices", "missing": "listed later"},
    {"container": "prices", "missing": "while held"},
    # what has no labels cannot follow the columns that a step leaves out
    {"estimator": "pipeline", "container": "array"},
]
CASES = covering_array(FACTORS, FORBIDDEN, trials=3)


class Rule(BaseEstimator):
    """Weights that show each parameter, may be negative and have any sum. It may fail
    where the first asset has gained."""

    def __init__(
        self,
        fails=False,
        expected_returns=None,
        previous_weights=None,
        transaction_cost=0.0,
        max_turnover=None,
        benchmark=None,
    ):
        self.fails = fails
        self.expected_returns = expected_returns
        self.previous_weights = previous_weights
        self.transaction_cost = transaction_cost
        self.max_turnover = max_turnover
        self.benchmark = benchmark

    def fit(self, X, y=None):
        R = np.asarray(X, dtype=float)
        labels = list(getattr(X, "columns", range(R.shape[1])))

        def numbers(given):
            if hasattr(given, "keys"):
                given = [given[label] for label in labels]
            return np.zeros(len(labels)) if given is None else np.asarray(given, float)

        if self.fails and R[-1, 0] > 0.2 * R[:, 0].std():
            raise np.linalg.LinAlgError("the first has gained")
        size = np.abs(R).mean()
        w = R[-1] / size / 3 + numbers(self.expected_returns) / size
        if self.benchmark is not None and np.ndim(self.benchmark):
            w = w * (1 + self.benchmark[-1] / size)
        elif self.benchmark is not None:
            w[labels.index(self.benchmark)] = 0.0
        if self.previous_weights is not None:
            w = 0.5 * w + 0.5 * numbers(self.previous_weights)
        trades = w - numbers(self.previous_weights)
        if self.max_turnover is not None:
            trades *= min(1.0, self.max_turnover / np.abs(trades).sum())
        self.weights_ = numbers(self.previous_weights) + trades
        return self


def returns_of(case):
    """The returns as fractions, with what is missing."""
    rng = np.random.default_rng(3)
    R = 0.004 * rng.standard_t(5, (N, 1)) + 0.01 * rng.standard_t(5, (N, 5))
    R[:, 4] = 0.0
    if case["crash"]:
        R[57, :4] = -0.6
    if case["missing"] == "listed later":
        R[:33, 3] = np.nan
    elif case["missing"] == "while held":
        R[50, 2] = np.nan
    return R


def in_unit(values, case):
    """Fractions as the estimator sees them."""
    return 100 * values if case["unit"] == "percent" else values


class Arguments:
    """What is given for a case, with labels or as arrays."""

    def __init__(self, case):
        rng, self.case, self.R = np.random.default_rng(4), case, returns_of(case)
        self.labelled = case["container"] != "array"
        self.dated = case["container"] in ("dates", "prices")
        self.market = in_unit(self.R[:, :2].mean(axis=1) + 0.001, case)
        self.forecasts = in_unit(0.002 * rng.normal(size=(N, 5)), case)
        self.label = NAMES[MARKET] if self.labelled else MARKET

    def by_label(self, values):
        """Numbers of the assets by their labels, or by the numbers of the columns."""
        labels = NAMES if self.labelled else range(5)
        return dict(reversed(list(zip(labels, values, strict=True))))

    def returns(self):
        kind, unit = self.case["container"], self.case["unit"]
        values = np.log1p(self.R) if unit == "log" else in_unit(self.R, self.case)
        if kind == "array":
            return values
        frame = pd.DataFrame(values, DAYS if self.dated else None, NAMES)
        if kind == "prices":
            before = DAYS[:1] - pd.Timedelta(days=1)
            prices = pd.concat([pd.DataFrame(0.0, before, NAMES), frame]) + 1
            return returns_from_prices(20 * prices.cumprod())
        if kind == "polars":
            pl = pytest.importorskip("polars")
            return pl.DataFrame(values, schema=NAMES)
        if kind == "dask":
            return pytest.importorskip("dask.dataframe").from_pandas(frame, 2)
        return frame

    def params(self, places=None, start=None, rows=None, held=None):
        """Parameters of the estimator: those that are given, or, for a fit before the
        row ``start``, those that it should see."""
        case, given = self.case, {}
        at_date = places is not None
        places = np.arange(5) if places is None else places
        if case["forecasts"] == "rows":
            given["expected_returns"] = self.forecasts
            if self.labelled:
                labels = DAYS if self.dated else None
                table = pd.DataFrame(self.forecasts, labels, NAMES)
                given["expected_returns"] = table[NAMES[::-1]][::3]
            if at_date:
                latest = 3 * ((start - 1) // 3) if self.labelled else start - 1
                given["expected_returns"] = self.forecasts[latest, places]
        elif case["forecasts"] == "function":
            given["expected_returns"] = lambda X: X.mean(axis=0) / 2
            if at_date:
                given["expected_returns"] = rows.mean(axis=0) / 2
        if case["benchmark"] == "own column":
            given["benchmark"] = self.label
            if at_date:
                given["benchmark"] = int(np.searchsorted(places, MARKET))
        elif case["benchmark"] == "own returns":
            given["benchmark"] = self.market
            if at_date:
                given["benchmark"] = self.market[start - len(rows) : start]
        if case["limits"] in ("costs", "held"):
            costs = COSTS / 50 * in_unit(1.0, case)
            given["transaction_cost"] = costs[places]
            if not at_date:
                given["transaction_cost"] = self.by_label(costs)
        if case["limits"] in ("turnover", "held"):
            given["max_turnover"] = None if at_date and held is None else 0.9
        if case["limits"] != "none" and at_date and held is not None:
            given["previous_weights"] = held[places]
        elif case["limits"] == "held" and not at_date:
            given["previous_weights"] = self.by_label(HELD)
        return given

    def estimator(self, at_date=False, caps=None, **params):
        kind = self.case["estimator"]
        if kind in ("rule", "fails"):
            return Rule(kind == "fails", **params)
        caps = self.by_label(CAPS) if caps is None else caps
        portfolio = CompositionalPortfolio(
            constraint=(0.0, caps), budget=1.0, tol=1e-8, risk_aversion=20.0, **params
        )
        if kind == "pipeline" and not at_date:
            selected = VarianceThreshold().set_output(transform="pandas")
            return make_pipeline(selected, portfolio)
        if kind == "search":
            grid = {"risk_aversion": [1.0, 40.0]}
            return GridSearchCV(portfolio, grid, cv=ShuffleSplit(1, random_state=0))
        return portfolio

    def weights(self, begin, start, held):
        """The weights from a row on, by a fit of arrays that have nothing else. None
        if it fails."""
        rows = in_unit(self.R[begin:start], self.case)
        kept = ~np.isnan(rows).any(axis=0)
        if self.case["benchmark"] == "column":
            kept[MARKET] = False
        if self.case["estimator"] == "pipeline":
            kept[4] = False
        places, weights = np.flatnonzero(kept), np.zeros(5)
        rows = rows[:, places]
        params = self.params(places, start, rows, held)
        estimator = self.estimator(True, CAPS[places], **params)
        try:
            fitted = estimator.fit(rows)
        except np.linalg.LinAlgError:
            return None
        weights[places] = getattr(fitted, "best_estimator_", fitted).weights_
        return weights

    def equal(self, begin, start, held):
        kept = ~np.isnan(self.R[begin:start]).any(axis=0)
        if "column" in self.case["benchmark"]:
            kept[MARKET] = False
        return kept / kept.sum()


def by_hand(given, choose, held=None):
    """Day by day: fit, trade, pay from the first day's return, and let the weights
    drift."""
    case, R, nothing = given.case, np.nan_to_num(given.R), np.zeros(5)
    window, first = WINDOWS[case["window"]]
    first, lost = first or window, None
    cost = {"none": nothing, "number": np.full(5, 0.002), "array": COSTS}
    cost = cost[case["trading_cost"]]
    names = "returns", "gross_returns", "weights", "in_error", "weights_before"
    names += "weights_after", "turnover", "costs"
    found, error = {name: [] for name in names}, False
    for t in range(first, N):
        paid = 0.0
        if (t - first) % case["refit_every"] == 0:
            before = nothing if held is None else held
            after = nothing
            if lost is None:
                after = choose(0 if window is None else t - window, t, held)
            error = after is None
            held = held if error else after
            after = before if error else after
            paid = cost @ np.abs(after - before)
            found["weights_before"].append(before)
            found["weights_after"].append(after)
            found["turnover"].append(np.abs(after - before).sum())
            found["costs"].append(paid)
        weights = nothing if held is None else held
        found["weights"].append(weights)
        found["in_error"].append(error)
        found["gross_returns"].append(weights @ R[t])
        found["returns"].append(weights @ R[t] - paid)
        if held is not None and 1 + held @ R[t] <= 0:
            lost, held = t if lost is None else lost, nothing
        elif held is not None:
            held = held * (1 + R[t]) / (1 + held @ R[t])
    return {name: np.array(values) for name, values in found.items()}, lost


def statistics(result, benchmark, n_years):
    """Those of the docstring of `summary`, by their formulas."""
    r, T, P = np.asarray(result.returns), len(result.returns), len(result.returns)
    P = P / n_years
    wealth, peak, worst = 1.0, 1.0, 0.0
    for value in r:
        wealth *= 1 + value
        peak = max(peak, wealth)
        worst = max(worst, 1 - wealth / peak)
    m = sum(r) / T
    s = math.sqrt(sum((value - m) ** 2 for value in r) / (T - 1))
    below = math.sqrt(sum(min(value, 0) ** 2 for value in r) / T)
    annual, losses, tail = max(wealth, 0.0) ** (P / T) - 1, np.sort(-r)[::-1], T / 20
    whole = int(tail)
    of_tail = losses[:whole].sum() + (tail - whole) * losses[whole]
    found = {
        "annual return": annual,
        "annual deviation": math.sqrt(P) * s,
        "Sharpe ratio": math.sqrt(P) * m / s,
        "Sortino ratio": math.sqrt(P) * m / below,
        "largest drawdown": worst,
        "Calmar ratio": annual / worst,
        "CVaR": of_tail / tail,
        "annual turnover": sum(result.turnover) / n_years,
        "annual costs": sum(result.costs) / n_years,
        "share of time in cash": np.mean(~np.asarray(result.weights).any(axis=1)),
        "share of time in error": np.mean(result.in_error),
    }
    if benchmark is not None:
        b = np.asarray(benchmark)
        found["beta"] = np.cov(r, b)[0, 1] / np.var(b, ddof=1)
        found["annual alpha"] = P * (m - found["beta"] * b.mean())
    return found


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=" ".join(map(str, (k, *list(case.values())[:3]))))
        for k, case in enumerate(CASES)
    ],
)
def test_the_account_is_that_of_a_loop(case):
    given = Arguments(case)
    window, first = WINDOWS[case["window"]]
    costs = {"none": 0.0, "number": 0.002, "array": COSTS}
    if given.labelled:
        costs["array"] = given.by_label(COSTS)
    weights = np.array([0.5, 0.5, 0, 0, 0])
    benchmark = {"column": given.label, "returns": given.market, "weights": weights}
    portfolio, several = given.estimator(**given.params()), case["several"]
    portfolios = {"dict": {"own": portfolio, "b": Rule()}, "list": [Rule(), portfolio]}
    unit = case["unit"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = walk_forward(
            portfolios.get(several, portfolio),
            given.returns(),
            window=window,
            first_window=first,
            refit_every=case["refit_every"],
            trading_cost=costs[case["trading_cost"]],
            benchmark=benchmark.get(case["benchmark"]),
            unit=None if unit == "fractions" else unit,
            missing="zero" if case["missing"] == "while held" else "raise",
            periods_per_year=12,
        )
    name = {"dict": "own", "list": "portfolio 2"}.get(several, "portfolio")
    result = found if several == "one" else found[name]
    held = HELD if case["limits"] == "held" else None
    expected, lost = by_hand(given, given.weights, held)
    equal, _ = by_hand(given, given.equal)
    for values, account in ((expected, result), (equal, result.equal_weights)):
        for key, value in values.items():
            np.testing.assert_allclose(
                np.asarray(getattr(account, key), float), value, atol=2e-7, err_msg=key
            )
    # labels
    first = first or window
    rows = DAYS if given.dated else pd.RangeIndex(N)
    starts = range(first, N, case["refit_every"])
    assert list(result.dates) == list(rows[first:])
    assert list(result.trade_dates) == list(rows[list(starts)])
    if given.labelled:
        assert list(result.weights) == NAMES
        assert list(result.returns.index) == list(rows[first:])
        assert list(result.turnover.index) == list(result.trade_dates)
    # what went wrong is said
    assert result.lost_in == (None if lost is None else rows[lost])
    in_error = expected["in_error"][:: case["refit_every"]]
    failed = [rows[t] for t, wrong in zip(starts, in_error, strict=True) if wrong]
    assert list(result.errors) == failed and not result.warnings
    gap = {"listed later": 3, "while held": 2}.get(case["missing"])
    out = [
        rows[t] for t in starts if gap and missing_before(given.R[:, gap], window, t)
    ]
    label = NAMES if given.labelled else range(5)
    assert result.left_out == {row: [label[gap]] for row in out}
    own = [str(one.message) for one in caught if str(one.message).startswith(name)]
    for words, wrong in (
        ("fits have failed", bool(failed)),
        ("everything was lost", lost is not None),
        ("were taken as 0", bool(result.missing)),
    ):
        assert any(words in text for text in own) == wrong, words
    assert len(own) == bool(failed) + (lost is not None) + bool(result.missing)
    # the summary
    market = {"column": given.R[:, 1], "weights": given.R[:, :2].mean(axis=1)}
    market["own column"] = market["column"]
    market["returns"] = market["own returns"] = given.market / in_unit(1.0, case)
    market = market.get(case["benchmark"])
    if market is None:
        assert result.benchmark_returns is None
    else:
        market = market[first:]
        np.testing.assert_allclose(result.benchmark_returns, market, atol=1e-12)
    summary = found.summary()
    for key, account in ((name, result), ("1/N", result.equal_weights)):
        values = statistics(account, market, (N - first) / 12)
        assert dict(summary[key]) == pytest.approx(values, rel=1e-9, abs=1e-12), key


def missing_before(returns, window, t):
    """Whether a return is missing in the window before a row."""
    return np.isnan(returns[0 if window is None else t - window : t]).any()
