"""`walk_forward` against loops that are written out: accounts, parameters of a date,
and statistics."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_selection import VarianceThreshold
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from walks import (
    NAMES,
    Failing,
    Forecaster,
    Recent,
    Short,
    Trader,
    make_frame,
    make_returns,
    quiet,
)

from sk_stormc import CompositionalPortfolio, sharpe_ratio, walk_forward


@pytest.fixture(autouse=True)
def nothing_seen():
    Forecaster.seen.clear()
    Trader.seen.clear()


def by_hand(estimator, R, window, first, every, cost):
    """Day by day: fit, trade, pay from the first day's return, and let the weights
    drift."""
    n, d = R.shape
    held, gross, net, daily, before, after, turnover = (
        np.zeros(d),
        [],
        [],
        [],
        [],
        [],
        [],
    )
    for t in range(first, n):
        paid = 0.0
        if (t - first) % every == 0:
            new = estimator.fit(R[(0 if window is None else t - window) : t]).weights_
            paid = cost * np.abs(new - held).sum()
            before.append(held)
            after.append(new)
            turnover.append(np.abs(new - held).sum())
            held = new
        daily.append(held)
        gross.append(held @ R[t])
        net.append(gross[-1] - paid)
        held = held * (1 + R[t]) / (1 + held @ R[t])
    return {
        "returns": net, "gross_returns": gross, "weights": daily,
        "weights_before": before, "weights_after": after,
        "turnover": turnover, "costs": cost * np.array(turnover),
    }  # fmt: skip


# the account


@pytest.mark.parametrize(
    "window, first, every", [(100, None, 21), (None, 150, 30), (60, 90, 7)]
)
@pytest.mark.parametrize(
    "estimator",
    [CompositionalPortfolio(constraint="long_only"), Recent()],
    ids=["long", "any"],
)
def test_the_account_is_that_of_a_loop(estimator, window, first, every):
    R = make_returns()
    result = quiet(
        estimator,
        R,
        window=window,
        first_window=first,
        refit_every=every,
        trading_cost=0.002,
    )
    start = first or window
    expected = by_hand(estimator, R, window, start, every, 0.002)
    for name, values in expected.items():
        np.testing.assert_allclose(
            getattr(result, name), values, rtol=1e-10, atol=1e-13, err_msg=name
        )
    np.testing.assert_array_equal(result.dates, np.arange(start, 320))
    np.testing.assert_array_equal(result.trade_dates, np.arange(start, 320, every))
    if isinstance(
        estimator, Recent
    ):  # there were short positions, cash and borrowed cash
        total = result.weights.sum(axis=1)
        assert result.weights.min() < -0.1 and total.min() < 0.5 and total.max() > 1.05


def test_all_rows_so_far_from_a_first_window_of_252():
    R = make_returns()
    result = quiet(CompositionalPortfolio(constraint="long_only"), R)
    assert result.dates[0] == 252
    again = quiet(
        CompositionalPortfolio(constraint="long_only"), R, window=1000, first_window=252
    )
    np.testing.assert_array_equal(result.weights, again.weights)
    with pytest.raises(
        ValueError,
        match="first_window must be smaller than the number of periods.*252, .*got 252",
    ):
        walk_forward(CompositionalPortfolio(), R[:252])
    with pytest.raises(ValueError, match="^window must be smaller.* 320, .*got 320"):
        walk_forward(CompositionalPortfolio(), R, window=320)


def test_the_first_purchase_is_paid_from_the_first_day():
    R = make_returns()
    result = quiet(Trader(), R, window=100, refit_every=500, trading_cost=0.01)
    assert result.turnover == pytest.approx([1.0]) and result.costs == pytest.approx(
        [0.01]
    )
    np.testing.assert_allclose(
        result.gross_returns - result.returns, [0.01, *[0.0] * 219], atol=1e-15
    )
    np.testing.assert_allclose(
        np.cumprod(1 + result.gross_returns),
        np.cumprod(1 + R[100:], axis=0).mean(axis=1),
    )


def test_costs_of_each_asset():
    frame, cost = (
        make_frame(),
        pd.Series({name: 0.001 * k for k, name in enumerate(reversed(NAMES))}),
    )
    result = quiet(Recent(), frame, window=100, trading_cost=cost)
    trades = (result.weights_after - result.weights_before).abs()
    np.testing.assert_allclose(result.costs, trades @ cost[NAMES], rtol=1e-12)
    for wrong in (-0.1, 1.0, [0.1, 0.2], "much", {"a": 0.1}, np.nan):
        with pytest.raises(ValueError, match="trading_cost"):
            walk_forward(Recent(), frame, window=100, trading_cost=wrong)


def test_when_everything_is_lost_nothing_is_held():
    R = make_returns(120, 2)
    R[53, 0] = 1.5  # of a short position of 1
    with pytest.warns(
        UserWarning,
        match="portfolio: everything was lost in row 53, and nothing was held after it",
    ):
        result = walk_forward(Short(), R, window=30, refit_every=10, unit="fractions")
    assert result.lost_in == 53 and np.prod(1 + result.returns[:24]) < 0
    assert (
        not result.weights[24:].any()
        and not result.returns[24:].any()
        and not result.weights_after[3:].any()
    )
    summary = result.summary()["portfolio"]
    assert summary["annual return"] == -1 and summary["largest drawdown"] > 1
    assert summary["share of time in cash"] == pytest.approx(66 / 90)


# weights before a fit


def test_present_weights_go_to_fits_with_costs_or_a_limit_of_the_turnover():
    frame = make_frame(200, 3)
    for given in (
        {"transaction_cost": 0.001},
        {"max_turnover": 0.5},
        {"transaction_cost": {"a": 0.1, "b": 0, "c": 0}},
    ):
        Trader.seen.clear()
        result = quiet(Trader(**given), frame, window=100, refit_every=20)
        first, *others = Trader.seen
        assert first == (None, None)  # the first purchase has no limit
        for (previous, limit), (_, before) in zip(
            others, list(result.weights_before.iterrows())[1:], strict=True
        ):
            assert previous == before.to_dict() and limit == given.get("max_turnover")
    Trader.seen.clear()
    quiet(Trader(), frame, window=100, refit_every=20)
    assert Trader.seen == [(None, None)] * 5  # nobody needs them


def test_a_failed_fit_is_no_first_purchase():
    class Late(Trader):
        def fit(self, X, y=None):
            super().fit(X)
            if len(self.seen) == 1:
                raise ValueError("too early")
            return self

    with pytest.warns(UserWarning, match="too early"):
        walk_forward(
            Late(max_turnover=0.5), make_frame(200, 3), window=100, refit_every=40
        )
    assert [limit for _, limit in Trader.seen] == [None, None, 0.5]


def test_the_estimator_s_own_present_weights_are_held_at_first():
    held = {"b": 0.5, "a": 0.25, "c": 0.0}
    result = quiet(
        Trader(held, max_turnover=0.1),
        make_frame(200, 3),
        window=100,
        refit_every=50,
        trading_cost=0.01,
    )
    assert Trader.seen[0] == ({"a": 0.25, "b": 0.5, "c": 0.0}, 0.1)
    assert result.weights_before.iloc[0].to_dict() == {"a": 0.25, "b": 0.5, "c": 0.0}
    assert result.costs.iloc[0] == pytest.approx(0.01 * (1 / 12 + 1 / 6 + 1 / 3))
    listed_later = make_frame(200, 3)
    listed_later.iloc[:60, 0] = np.nan
    with pytest.warns(UserWarning, match="1 of 2 fits, first for row .* and 'a'"):
        walk_forward(Trader([0.25, 0.5, 0.0]), listed_later, window=100, refit_every=80)
    assert Trader.seen[-2][0] == {"b": 0.5, "c": 0.0} and Trader.seen[-1][0].keys() == {
        "a",
        "b",
        "c",
    }
    with pytest.raises(ValueError, match="previous_weights"):
        walk_forward(Trader([0.5, 0.5]), make_frame(200, 3), window=100)


# no look-ahead


def test_the_future_does_not_change_the_past():
    frame, other = make_frame(260), make_frame(260, seed=1)
    changed = pd.DataFrame(
        np.concatenate([frame[:205], other[205:]]), frame.index, NAMES
    )
    estimators = {
        "costs": CompositionalPortfolio(constraint="long_only", transaction_cost=1e-4,
        benchmark=frame.mean(axis=1)),
        "search": GridSearchCV(
            CompositionalPortfolio(constraint="long_only"), {"risk_aversion": [1.0,
            100.0]}, cv=TimeSeriesSplit(2),
            scoring=sharpe_ratio,
        ),
    }  # fmt: skip
    results = [
        quiet(estimators, table, window=100, refit_every=35, trading_cost=0.001)
        for table in (frame, changed)
    ]
    for name in estimators:
        one, other = (found[name] for found in results)
        np.testing.assert_array_equal(one.returns[:105], other.returns[:105])
        np.testing.assert_array_equal(one.weights[:105], other.weights[:105])
        # no trade in the first changed row
        np.testing.assert_array_equal(one.weights[:106], other.weights[:106])
        assert (one.returns[105:] != other.returns[105:]).any() and (
            one.weights_after != other.weights_after
        ).any(axis=None)


def test_forecasts_of_a_date():
    frame = make_frame(200, 3)
    forecasts = pd.DataFrame(
        make_returns(200, 3, 5), index=frame.index, columns=["c", "a", "b"]
    )
    quiet(Forecaster(forecasts[::7]), frame, window=50, refit_every=30)
    for k, (_, forecast) in enumerate(Forecaster.seen):
        last = frame.index[49 + 30 * k]
        assert forecast.name == max(day for day in forecasts.index[::7] if day <= last)
    Forecaster.seen.clear()
    quiet(Forecaster(lambda window: window.mean()), frame, window=50, refit_every=30)
    for k, (shape, forecast) in enumerate(Forecaster.seen):
        assert shape == (50, 3)
        pd.testing.assert_series_equal(
            forecast, frame.iloc[30 * k : 30 * k + 50].mean()
        )
    Forecaster.seen.clear()
    array = frame.to_numpy()
    quiet(Forecaster(array), array, window=50, refit_every=30)
    np.testing.assert_array_equal(
        [forecast for _, forecast in Forecaster.seen], array[49:199:30]
    )


@pytest.mark.parametrize(
    "kind",
    [
        list,
        lambda v: pd.DataFrame([v], columns=list("abc")),
        lambda v: dict(zip("abc", v, strict=True)),
        lambda v: pd.Series(v, list("abc")),
    ],
)
def test_one_forecast_for_all_dates_is_warned_about(kind):
    with pytest.warns(
        UserWarning, match="expected_returns is one forecast for all dates"
    ):
        walk_forward(
            FixedForecast(kind([0.1, 0.2, 0.3])), make_frame(200, 3), window=50
        )
    quiet(FixedForecast(), make_frame(200, 3), window=50)


class FixedForecast(Trader):
    """A portfolio that has forecasts as one of its parameters."""

    def __init__(self, expected_returns=None):
        self.expected_returns = expected_returns

    previous_weights = max_turnover = None


def test_forecasts_that_cannot_be_aligned():
    frame = make_frame(200, 3)
    with pytest.raises(
        ValueError, match="expected_returns must have its rows in ascending order"
    ):
        walk_forward(Forecaster(frame[::-1]), frame, window=50)
    with pytest.raises(
        ValueError,
        match="expected_returns must have an index of the kind that the returns have",
    ):
        walk_forward(Forecaster(frame.reset_index(drop=True)), frame, window=50)
    with pytest.warns(
        UserWarning,
        match="portfolio: 1 of 5 fits have failed.*expected_returns has no row at or "
        "before",
    ):
        result = walk_forward(Forecaster(frame[60:]), frame, window=50, refit_every=30)
    assert (
        list(result.errors) == [frame.index[50]]
        and not result.weights_after.iloc[0].any()
    )


# several estimators, pipelines and searches


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_several_estimators(n_jobs):
    frame = make_frame(220, 3)
    estimators = {
        "a": CompositionalPortfolio(constraint="long_only"),
        "b": Recent(),
        "c": Failing(0.0, 0.01),
    }
    with pytest.warns(UserWarning, match="c: .* fits have failed"):
        results = walk_forward(estimators, frame, window=100, n_jobs=n_jobs)
    assert (
        list(results) == ["a", "b", "c"]
        and results["c"].errors
        and not results["b"].errors
    )
    assert list(results.summary()) == ["a", "b", "c", "1/N"]
    for name in "ab":
        alone = quiet(estimators[name], frame, window=100)
        np.testing.assert_array_equal(results[name].returns, alone.returns)
        pd.testing.assert_series_equal(
            results.summary()[name], alone.summary()["portfolio"], check_names=False
        )
    assert list(quiet([Recent(), Recent()], frame, window=100)) == [
        "portfolio 1",
        "portfolio 2",
    ]


def test_progress(capsys):
    quiet(
        CompositionalPortfolio(constraint="long_only"),
        make_frame(200),
        window=100,
        verbose=1,
    )
    lines = capsys.readouterr().out.splitlines()
    assert (
        len(lines) == 5
        and lines[0].startswith(
            "portfolio: fit 1 of 5, for row '2020-05-20 00:00:00', "
        )
        and lines[0].endswith(" s")
    )


def test_pipelines_and_searches():
    frame = make_frame()
    frame["b"] = 0.0  # which the pipelines leave out
    portfolio = CompositionalPortfolio(
        constraint="long_only", risk_aversion=np.inf, transaction_cost=1e-5
    )
    direct = quiet(portfolio, frame.drop(columns="b"), window=100, refit_every=110)
    pipeline = make_pipeline(VarianceThreshold(), portfolio).set_output(
        transform="pandas"
    )
    search = GridSearchCV(
        pipeline,
        {"compositionalportfolio__risk_aversion": [np.inf]},
        cv=TimeSeriesSplit(2),
    )
    for estimator in (
        pipeline,
        search,
        make_pipeline(VarianceThreshold(), search).set_output(transform="pandas"),
    ):
        result = quiet(estimator, frame, window=100, refit_every=110)
        assert (result.weights["b"] == 0).all()
        np.testing.assert_allclose(
            result.weights.drop(columns="b"), direct.weights, atol=1e-9
        )
    array = quiet(
        make_pipeline(VarianceThreshold(), portfolio.set_params(transaction_cost=0)),
        frame.to_numpy(),
        window=100,
        refit_every=110,
    )
    np.testing.assert_allclose(
        array.weights[0],
        quiet(search, frame, window=100, refit_every=110).weights.iloc[0],
        atol=1e-4,
    )
    assert not array.weights[:, 1].any()


def test_a_warm_start_outlasts_other_assets():
    frame = make_frame()
    frame.loc[frame.index[:130], "b"] = np.nan
    portfolio = CompositionalPortfolio(
        "storm-c", constraint="long_only", warm_start=True, random_state=0
    )
    with pytest.warns(UserWarning) as caught:
        result = walk_forward(portfolio, frame, window=100)
    assert not result.errors and "left_out" in str(caught[-1].message)


# benchmarks and statistics


def test_benchmarks():
    frame = make_frame()
    market, weights = frame.mean(axis=1), np.array([0.5, 0.5, 0, 0, 0, 0])
    portfolio = CompositionalPortfolio(constraint="long_only")
    for given, expected in (
        ("c", frame["c"]),
        (market, market),
        (pd.concat([market, pd.Series([0.0], [pd.Timestamp("2030-01-01")])]), market),
        (market.to_numpy(), market),
        (weights, frame @ weights),
    ):
        result = quiet(portfolio, frame, window=100, refit_every=60, benchmark=given)
        np.testing.assert_allclose(result.benchmark_returns, expected[100:], atol=1e-16)
        assert list(result.summary()) == ["portfolio", "1/N", "benchmark"]
        is_column = isinstance(given, str)  # it is no asset then
        assert (result.weights["c"] == 0).all() == is_column
        assert (result.equal_weights.weights["c"] == 0).all() == is_column
    frame.loc[frame.index[[50, 200]], "c"] = np.nan
    for given in ("c", np.full(6, 1 / 6)):
        with pytest.raises(
            ValueError,
            match="benchmark must have a return in each period that is "
            "held.*2020-10-07",
        ):
            walk_forward(portfolio, frame, window=100, refit_every=60, benchmark=given)
    with pytest.warns(UserWarning, match="'c'"):
        result = walk_forward(
            portfolio,
            frame,
            window=100,
            refit_every=60,
            benchmark=weights,
            missing="zero",
        )
    np.testing.assert_allclose(
        result.benchmark_returns, frame[["a", "b"]][100:].mean(axis=1), atol=1e-16
    )
    for wrong in ("z", market[:50], np.ones(7)):
        with pytest.raises(ValueError, match="benchmark"):
            walk_forward(portfolio, frame, window=100, refit_every=60, benchmark=wrong)


def test_the_benchmark_of_an_estimator():
    frame = make_frame()
    market = frame.mean(axis=1)
    series, array = (
        quiet(
            CompositionalPortfolio(constraint="long_only", benchmark=given),
            frame,
            window=100,
            refit_every=60,
        )
        for given in (market, market.to_numpy())
    )
    unlabelled = CompositionalPortfolio(
        constraint="long_only", benchmark=market.reset_index(drop=True)
    )
    plain = quiet(unlabelled, frame.to_numpy(), window=100, refit_every=60)
    np.testing.assert_allclose(plain.weights, array.weights, atol=1e-9)
    np.testing.assert_array_equal(series.weights, array.weights)
    np.testing.assert_array_equal(series.benchmark_returns, market[100:])
    by_hand = CompositionalPortfolio(constraint="long_only", benchmark=market).fit(
        frame[:100]
    )
    np.testing.assert_array_equal(array.weights.iloc[0], by_hand.weights_)
    named = quiet(
        CompositionalPortfolio(constraint="long_only", benchmark="c"),
        frame,
        window=100,
        refit_every=60,
    )
    assert (named.weights["c"] == 0).all()
    np.testing.assert_array_equal(named.benchmark_returns, frame["c"][100:])


def test_statistics_by_their_formulas():
    R = make_returns(400, 3)
    result = quiet(
        Recent(),
        R,
        window=100,
        trading_cost=0.001,
        periods_per_year=52,
        benchmark=R[:, 0],
    )
    r, T, P = result.returns, 300, 52
    wealth, peak, worst = 1.0, 1.0, 0.0
    for value in r:
        wealth *= 1 + value
        peak = max(peak, wealth)
        worst = max(worst, 1 - wealth / peak)
    m = sum(r) / T
    s = math.sqrt(sum((value - m) ** 2 for value in r) / (T - 1))
    below = math.sqrt(sum(min(value, 0) ** 2 for value in r) / T)
    annual = wealth ** (P / T) - 1
    b = R[100:, 0]
    beta = np.cov(r, b)[0, 1] / np.var(b, ddof=1)
    expected = {
        "annual return": annual,
        "annual deviation": math.sqrt(P) * s,
        "Sharpe ratio": math.sqrt(P) * m / s,
        "Sortino ratio": math.sqrt(P) * m / below,
        "largest drawdown": worst,
        "Calmar ratio": annual / worst,
        "CVaR": -np.sort(r)[:15].mean(),
        "beta": beta,
        "annual alpha": P * (m - beta * b.mean()),
        "annual turnover": sum(result.turnover) * P / T,
        "annual costs": sum(result.costs) * P / T,
        "share of time in cash": 0.0,
        "share of time in error": 0.0,
    }
    assert result.summary()["portfolio"] == pytest.approx(expected, rel=1e-10)
    benchmark = result.summary()["benchmark"]
    assert benchmark["annual return"] == pytest.approx(
        np.prod(1 + R[100:, 0]) ** (P / T) - 1
    )
    assert math.isnan(benchmark["annual turnover"])
    assert benchmark["beta"] == pytest.approx(1)
    assert benchmark["annual alpha"] == pytest.approx(0, abs=1e-15)
    cash = quiet(Recent(0.0), R, window=100).summary()["portfolio"]
    assert cash["annual return"] == cash["annual deviation"] == 0 and math.isnan(
        cash["Sharpe ratio"]
    )
    assert cash["share of time in cash"] == 1
    constant = quiet(Trader(), np.full((90, 1), 0.0001), window=60).summary()[
        "portfolio"
    ]
    assert constant["annual return"] == pytest.approx(1.0001**252 - 1) and math.isnan(
        constant["Sharpe ratio"]
    )


def test_skfolio_has_the_same_weights_returns_and_statistics():
    skfolio = pytest.importorskip("skfolio", exc_type=ImportError)
    from skfolio.model_selection import WalkForward, cross_val_predict
    from skfolio.optimization import MeanRisk

    frame = make_frame(300)
    splits = WalkForward(train_size=100, test_size=50)
    for measure, own in (("VARIANCE", "variance"), ("CVAR", "cvar")):
        theirs = MeanRisk(risk_measure=skfolio.RiskMeasure[measure])
        ours = CompositionalPortfolio(
            risk_measure=own, risk_aversion=np.inf, constraint="long_only"
        )
        results = quiet(
            {"theirs": theirs, "ours": ours}, frame, window=100, refit_every=50
        )
        held = cross_val_predict(theirs, frame, cv=splits).portfolios
        for result in results.values():
            np.testing.assert_allclose(
                result.weights_after, [one.weights for one in held], atol=1e-3
            )
        drifting = [
            skfolio.Portfolio(one.X, one.weights, weight_drift=True).returns
            for one in held
        ]
        np.testing.assert_allclose(
            results["theirs"].returns, np.concatenate(drifting), atol=1e-12
        )
    result = results["ours"]
    whole = skfolio.Portfolio(
        result.returns.to_frame(), [1.0], annualization_factor=252, compounded=True
    )
    summary = result.summary()["ours"]
    assert summary["annual deviation"] == pytest.approx(
        whole.annualized_standard_deviation
    )
    assert summary["Sharpe ratio"] == pytest.approx(whole.annualized_sharpe_ratio)
    assert summary["largest drawdown"] == pytest.approx(whole.max_drawdown)


def test_a_return_of_exactly_minus_one():
    """Nothing is left, and nothing is held afterwards."""
    R = np.random.default_rng(0).normal(0.001, 0.01, (60, 3))
    R[45] = -1.0
    result = walk_forward(
        CompositionalPortfolio(constraint="long_only"), R, window=30, refit_every=10
    )
    returns = np.asarray(result.returns)
    assert returns.min() == pytest.approx(-1)
    after = int(np.argmin(returns)) + 1
    assert len(returns) == after or not returns[after:].any()
