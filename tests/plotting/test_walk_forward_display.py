"""The display of walks: wealth, drawdowns and weights."""

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import date2num
from matplotlib.figure import Figure

from sk_stormc import CompositionalPortfolio, walk_forward
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.plotting import FrontierDisplay, TearsheetDisplay, WalkForwardDisplay

DAYS = pd.bdate_range("2021-01-04", periods=200)
RETURNS = pd.DataFrame(
    0.0003 + 0.01 * make_gaussian_returns(200, 10, mean=0.05, random_state=0),
    DAYS,
    [f"a{k}" for k in range(10)],
)


@pytest.fixture(scope="module")
def results():
    equal = CompositionalPortfolio(constraint=(0.1, 0.1), budget=1.0)
    short = CompositionalPortfolio(
        risk_aversion=20.0, constraint=(-0.2, 0.4), budget=1.0
    )
    return walk_forward(
        {"equal": equal, "short": short},
        RETURNS,
        window=100,
        refit_every=50,
        benchmark=RETURNS["a3"],
    )


def new_axes(n):
    return Figure(figsize=(8, 8)).subplots(n)


def extent(area):
    """The least and the largest ordinate of an area."""
    ordinates = np.concatenate([path.vertices[:, 1] for path in area.get_paths()])
    return ordinates.min(), ordinates.max()


def test_wealth_and_drawdowns_are_those_of_the_net_returns(results):
    display = WalkForwardDisplay.from_results(results, axes=new_axes(4))
    assert (
        list(display.wealth_lines_)
        == list(display.drawdown_lines_)
        == ["equal", "short", "1/N", "benchmark"]
    )
    for name, returns in (
        ("short", results["short"].returns),
        ("1/N", results["short"].equal_weights.returns),
        ("benchmark", RETURNS["a3"][100:]),
    ):
        wealth = (1 + returns).cumprod()
        line, below = display.wealth_lines_[name], display.drawdown_lines_[name]
        np.testing.assert_array_equal(date2num(line.get_xdata()), date2num(DAYS[100:]))
        np.testing.assert_allclose(line.get_ydata(), wealth)
        np.testing.assert_allclose(
            below.get_ydata(), wealth / wealth.cummax().clip(lower=1) - 1, atol=1e-12
        )
    assert display.axes_[0].get_yscale() == "log"


def test_weights_are_areas_above_and_below_zero(results):
    display = WalkForwardDisplay.from_results(results, axes=new_axes(4))
    assert list(display.areas_) == ["equal", "short"]
    equal, short = display.areas_["equal"], display.areas_["short"]
    # seven assets, and the other three
    assert len(equal) == 8 and list(equal)[-1] == "others"
    assert extent(equal["others"]) == pytest.approx((0.7, 1.0), abs=0.02)
    assert {name: area.get_facecolor().tolist() for name, area in equal.items()} == {
        name: area.get_facecolor().tolist() for name, area in short.items()
    }
    size = np.mean([results[name].weights.abs().mean() for name in results], axis=0)
    assert set(list(equal)[:7]) == set(RETURNS.columns[np.argsort(-size)[:7]])
    drawn = [extent(area) for area in display.axes_[3].collections]
    weights = results["short"].weights
    assert min(low for low, _ in drawn) == pytest.approx(
        weights.clip(upper=0).sum(axis=1).min()
    )
    assert max(high for _, high in drawn) == pytest.approx(
        weights.clip(lower=0).sum(axis=1).max()
    )


def test_the_legend_has_the_numbers_of_a_year(results):
    r = results["short"].returns
    for periods, given in ((252, None), (52, 52)):
        display = WalkForwardDisplay.from_results(
            results["short"], periods_per_year=given, axes=new_axes(3)
        )
        annual, deviation = (
            (1 + r).prod() ** (periods / 100) - 1,
            periods**0.5 * r.std(),
        )
        label = f"short: {annual:.1%} a year, deviation {deviation:.1%}"
        assert display.wealth_lines_["short"].get_label() == label
        assert len(display.axes_[0].get_legend().get_texts()) == 3


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
def test_dates_of_any_kind_and_a_lost_wealth_are_drawn():
    days = DAYS[:3]
    for dates, drawn in (
        (None, [0, 1, 2]),
        (days, days),
        (days.date, days),
        (days.tz_localize("Europe/Berlin"), days),  # local times
        (pd.period_range("2020-01", periods=3, freq="M"), None),
        (["x", "y", "z"], [0, 1, 2]),
        ([1, 2, 5], [1, 2, 5]),
    ):
        display = WalkForwardDisplay(
            {"a": [0.1, -1.5, 0.0]}, {"a": np.eye(3)}, dates=dates
        ).plot(new_axes(3), linewidth=3)
        assert display.axes_[0].get_yscale() == "linear"
        line = display.wealth_lines_["a"]
        assert line.get_linewidth() == 3
        if drawn is not None:
            np.testing.assert_array_equal(line.get_xdata(), np.asarray(drawn))
    plain = WalkForwardDisplay({"a": [0.1, 0.0, 0.0]}).plot(legend=False)
    assert len(plain.axes_) == 2 and plain.axes_[0].get_legend() is None


@pytest.mark.parametrize(
    ("display", "given", "words"),
    [
        (WalkForwardDisplay, {"returns": {"a": [np.nan]}}, "returns must be finite"),
        (WalkForwardDisplay, {"returns": {"a": [0.1], "b": []}}, "of one length.*'b'"),
        (WalkForwardDisplay, {"weights": {"a": [[1.0]]}}, "weights must be .* 2 rows"),
        (WalkForwardDisplay, {"dates": [1]}, "dates must be 2"),
        (TearsheetDisplay, {"turnover": [np.inf]}, "turnover must be finite"),
        (TearsheetDisplay, {"turnover": [1], "costs": [1, 2]}, "those of 1 trades"),
        (TearsheetDisplay, {"trade_dates": [1]}, "trade_dates must be 0 dates"),
        (TearsheetDisplay, {"statistics": {"one": 1.0}}, "statistics must be a dict"),
        (TearsheetDisplay, {"statistics": {"a": {"beta": "x"}}}, "numbers, got 'x'"),
    ],
)
def test_values_that_cannot_be_drawn(display, given, words):
    figure = Figure()
    where = figure
    if display is WalkForwardDisplay:
        where = new_axes(2 + len(given.get("weights", {})))
    with pytest.raises(ValueError, match=words):
        display(**{"returns": {"a": [0.1, 0.2]}} | given).plot(where)
    assert not figure.axes


@pytest.mark.parametrize("measure, scale", [("variance", 12**0.5), ("cvar", 1.0)])
def test_a_frontier_of_a_year(measure, scale):
    """Deviations grow with the root of the time, mean returns with the time, and other
    risks stay as they are."""
    table = RETURNS.iloc[:, :3]
    portfolio = CompositionalPortfolio(risk_measure=measure, constraint="long_only")
    portfolio.fit(table)
    one, year = (
        FrontierDisplay.from_estimator(
            portfolio,
            table,
            risk_aversions=[1.0, 10.0],
            periods_per_year=periods,
            ax=Figure().add_subplot(),
        )
        for periods in (None, 12)
    )
    np.testing.assert_allclose(year.risk, scale * one.risk)
    np.testing.assert_allclose(year.asset_risk, scale * one.asset_risk)
    np.testing.assert_allclose(year.mean, 12 * one.mean)
    np.testing.assert_allclose(year.chosen, np.array([scale, 12]) * one.chosen)
    assert (
        year.ax_.get_ylabel() == "mean return per year"
        and one.ax_.get_ylabel() == "mean return per period"
    )
    assert year.ax_.get_xlabel().endswith("per year" if scale > 1 else "per period")


def walk_of(n, periods=50, **kwargs):
    returns = 0.01 * np.random.default_rng(0).normal(size=(periods, n))
    returns = {f"p{k}": column for k, column in enumerate(returns.T)}
    return WalkForwardDisplay(returns, **kwargs)


def test_twenty_portfolios_have_different_looks():
    lines = walk_of(20).plot(new_axes(2)).wealth_lines_.values()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 20


def test_a_data_frame_has_its_dates_and_all_panels_the_same():
    returns = pd.DataFrame(walk_of(2).returns, pd.bdate_range("2020-01-01", periods=50))
    display = WalkForwardDisplay(returns, {"p0": np.ones((50, 3)) / 3})
    axes = [Figure().add_subplot() for _ in range(3)]
    display.plot(axes)
    limits = tuple(date2num(returns.index[[0, -1]].to_numpy()))
    assert [ax.get_xlim() for ax in axes] == [limits] * 3
    assert list(display.wealth_lines_) == ["p0", "p1"]


@pytest.mark.filterwarnings("error::UserWarning")
def test_one_period_and_names_as_they_are():
    name = "$5 and $10 " + 30 * "long "
    display = WalkForwardDisplay({name: [0.01]}, {name: [[0.5, 0.5]]})
    display.plot(new_axes(3)).figure_.savefig(io.BytesIO())
    (text,) = display.axes_[0].get_legend().get_texts()
    assert text.get_text().startswith("$5 and $10") and not text.get_parse_math()
    assert len(text.get_text()) < 75
    with pytest.raises(ValueError, match="label must not be given"):
        walk_of(2).plot(new_axes(2), label="x")
    with pytest.raises(ValueError, match="axes must be 2 axes"):
        walk_of(2).plot(new_axes(3))
    with pytest.raises(ValueError, match="asset_names must be 2 names"):
        walk_of(1, 1, weights={"p0": [[1, 0]]}, asset_names="x").plot(new_axes(3))


def test_results_draw_and_show_themselves(results):
    frame = results.to_frame()
    assert list(frame) == ["equal", "short", "1/N", "benchmark"]
    pd.testing.assert_series_equal(
        frame["short"], results["short"].returns, check_names=False, check_freq=False
    )
    display = WalkForwardDisplay(frame).plot(new_axes(2))
    again = results.plot(axes=new_axes(2), weights=False)
    for name, line in again.wealth_lines_.items():
        np.testing.assert_array_equal(
            line.get_ydata(), display.wealth_lines_[name].get_ydata()
        )
    for one in (results, results["equal"]):
        assert "<td" in one._repr_html_() and "Sharpe ratio" in one._repr_html_()
    assert list(results["equal"].plot(axes=new_axes(3)).areas_) == ["equal"]


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
def test_a_tearsheet(results):
    result = results["short"]
    sheet = result.tearsheet(Figure())
    sheet.figure_.savefig(io.BytesIO(), dpi=20)
    r = result.returns
    monthly = (1 + r).groupby([r.index.year, r.index.month]).prod() - 1
    assert sheet.years_.tolist() == sorted(set(r.index.year))
    for (year, month), value in monthly.items():
        row = year - sheet.years_[0]
        assert sheet.monthly_returns_[row, month - 1] == pytest.approx(value)
    assert np.isfinite(sheet.monthly_returns_).sum() == len(monthly)
    recent = r.rolling(100)  # shorter than half a year of 126
    np.testing.assert_allclose(
        sheet.rolling_deviation_, np.sqrt(252) * recent.std(), rtol=1e-9
    )
    np.testing.assert_allclose(
        sheet.rolling_sharpe_, np.sqrt(252) * recent.mean() / recent.std(), rtol=1e-9
    )
    wealth, drawdown = (sheet.axes_[key].get_lines() for key in ("wealth", "drawdown"))
    assert [line.get_label() for line in wealth] == ["short", "1/N", "benchmark"]
    np.testing.assert_allclose(wealth[0].get_ydata(), (1 + r).cumprod())
    assert [line.get_color() for line in wealth] == [
        line.get_color() for line in drawdown
    ]
    # arrays without dates, one period, no trades
    TearsheetDisplay({"one": [0.01]}).plot(Figure())
    with pytest.raises(ValueError, match="result must be that of a portfolio in"):
        TearsheetDisplay.from_result(results)
