"""The display of walks: wealth, drawdowns and weights."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from sklearn.base import clone

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
    portfolio = CompositionalPortfolio(budget=1.0, risk_aversion=20.0)
    equal, short = (
        clone(portfolio).set_params(constraint=bounds)
        for bounds in ((0.1, 0.1), (-0.2, 0.4))
    )
    plan = {"window": 100, "refit_every": 50, "benchmark": RETURNS["a3"]}
    return walk_forward({"equal": equal, "short": short}, RETURNS, **plan)


def new_axes(n):
    return Figure(figsize=(8, 8)).subplots(n)


def extent(area):
    """The least and the largest ordinate of an area."""
    ordinates = np.concatenate([path.vertices[:, 1] for path in area.get_paths()])
    return ordinates.min(), ordinates.max()


def test_wealth_and_drawdowns_are_those_of_the_net_returns(results):
    display = WalkForwardDisplay.from_results(results, axes=new_axes(4))
    names = ["equal", "short", "1/N", "benchmark"]
    assert list(display.wealth_lines_) == list(display.drawdown_lines_) == names
    for name, returns in (
        ("short", results["short"].returns),
        ("1/N", results["short"].equal_weights.returns),
        ("benchmark", RETURNS["a3"][100:]),
    ):
        wealth = (1 + returns).cumprod()
        line, below = display.wealth_lines_[name], display.drawdown_lines_[name]
        np.testing.assert_array_equal(date2num(line.get_xdata()), date2num(DAYS[100:]))
        np.testing.assert_allclose(line.get_ydata(), wealth)
        drawdown = wealth / wealth.cummax().clip(lower=1) - 1
        np.testing.assert_allclose(below.get_ydata(), drawdown, atol=1e-12)
    assert display.axes_[0].get_yscale() == "log"


def test_weights_are_areas_above_and_below_zero(results):
    display = WalkForwardDisplay.from_results(results, axes=new_axes(4))
    assert list(display.areas_) == ["equal", "short"]
    equal, short = display.areas_["equal"], display.areas_["short"]
    # seven assets, and the other three
    assert len(equal) == 8 and list(equal)[-1] == "others"
    assert extent(equal["others"]) == pytest.approx((0.7, 1.0), abs=0.02)
    looks = [
        {name: area.get_facecolor().tolist() for name, area in areas.items()}
        for areas in (equal, short)
    ]
    assert looks[0] == looks[1]
    size = np.mean([results[name].weights.abs().mean() for name in results], axis=0)
    assert set(list(equal)[:7]) == set(RETURNS.columns[np.argsort(-size)[:7]])
    low, high = np.array([extent(area) for area in display.axes_[3].collections]).T
    weights = results["short"].weights
    assert low.min() == pytest.approx(weights.clip(upper=0).sum(axis=1).min())
    assert high.max() == pytest.approx(weights.clip(lower=0).sum(axis=1).max())


def test_the_legend_has_the_numbers_of_a_year(results):
    short = results["short"]
    for periods, given in ((252, None), (52, 52)):
        display = WalkForwardDisplay.from_results(short, periods_per_year=given)
        annual = (1 + short.returns).prod() ** (periods / 100) - 1
        deviation = np.sqrt(periods) * short.returns.std()
        expected = f"short: {annual:.1%} a year, deviation {deviation:.1%}"
        assert display.wealth_lines_["short"].get_label() == expected
        assert len(display.axes_[0].get_legend().get_texts()) == 3


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
@pytest.mark.parametrize(
    "dates",
    [
        None,
        DAYS[:3],
        DAYS[:3].date,
        pd.period_range("2020-01", periods=3, freq="M"),
        ["x", "y", "z"],
        [1, 2, 5],
    ],
)
def test_dates_of_any_kind_and_a_lost_wealth_are_drawn(dates):
    lost = WalkForwardDisplay({"a": [0.1, -1.5, 0.0]}, {"a": np.eye(3)}, dates=dates)
    lost.plot(new_axes(3), linewidth=3)
    assert lost.axes_[0].get_yscale() == "linear"
    assert lost.wealth_lines_["a"].get_linewidth() == 3
    lost.figure_.draw_without_rendering()


def test_without_weights_and_legend():
    plain = WalkForwardDisplay({"a": [0.1, 0.0, 0.0]}).plot(legend=False)
    assert len(plain.axes_) == 2 and plain.axes_[0].get_legend() is None


TWO = {"a": [0.1, 0.2]}


@pytest.mark.parametrize(
    "returns, given, words",
    [
        ({"a": [0.1, np.nan]}, {}, "returns must be finite vectors"),
        (TWO | {"b": [0.1]}, {}, "returns must be .* of one length.*'b'"),
        (TWO, {"weights": {"a": [[1.0]]}}, "must be finite arrays with 2 rows"),
        (
            TWO,
            {"weights": {"a": np.eye(2)}, "asset_names": ["x"]},
            "asset_names must be 2 names",
        ),
        (TWO, {"dates": [1]}, "dates must be 2"),
    ],
)
def test_values_that_cannot_be_drawn(returns, given, words):
    with pytest.raises(ValueError, match=words):
        WalkForwardDisplay(returns, **given).plot()


def test_the_number_of_axes():
    with pytest.raises(ValueError, match="axes must be 2 axes"):
        WalkForwardDisplay(TWO).plot(new_axes(3))


@pytest.mark.parametrize(
    "measure, scale", [("variance", 12**0.5), ("semideviation", 12**0.5), ("cvar", 1.0)]
)
def test_a_frontier_of_a_year(measure, scale):
    """Deviations grow with the root of the time, mean returns with the time, and other
    risks stay as they are."""
    portfolio = CompositionalPortfolio(risk_measure=measure, constraint="long_only")
    portfolio, given = portfolio.fit(RETURNS), {"risk_aversions": [1.0, 10.0]}
    one, year = (
        FrontierDisplay.from_estimator(
            portfolio, RETURNS, periods_per_year=periods, **given
        )
        for periods in (None, 12)
    )
    np.testing.assert_allclose(year.risk, scale * one.risk)
    np.testing.assert_allclose(year.asset_risk, scale * one.asset_risk)
    np.testing.assert_allclose(year.mean, 12 * one.mean)
    np.testing.assert_allclose(year.chosen, np.array([scale, 12]) * one.chosen)
    assert year.ax_.get_ylabel() == "mean return per year"
    assert one.ax_.get_ylabel() == "mean return per period"
    assert year.ax_.get_xlabel().endswith("per year" if scale > 1 else "per period")


@pytest.mark.filterwarnings("error::UserWarning")
def test_dates_with_a_time_zone_are_local_times_without_a_warning():
    days = DAYS[:3].tz_localize("Europe/Berlin")
    display = WalkForwardDisplay({"a": [0.1, 0.0, -0.1]}, dates=days).plot(new_axes(2))
    np.testing.assert_array_equal(
        display.wealth_lines_["a"].get_xdata(), DAYS[:3].to_numpy()
    )


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
    display.plot(new_axes(3)).figure_.draw_without_rendering()
    (text,) = display.axes_[0].get_legend().get_texts()
    assert text.get_text().startswith("$5 and $10") and not text.get_parse_math()
    assert len(text.get_text()) < 75
    with pytest.raises(ValueError, match="label must not be given"):
        walk_of(2).plot(new_axes(2), label="x")


def test_results_draw_and_show_themselves(results):
    frame, short = results.to_frame(), results["short"].returns
    assert list(frame) == ["equal", "short", "1/N", "benchmark"]
    own = {"check_names": False, "check_freq": False}
    pd.testing.assert_series_equal(frame["short"], short, **own)
    display = WalkForwardDisplay(frame).plot(new_axes(2))
    again = results.plot(axes=new_axes(2), weights=False)
    for name, line in again.wealth_lines_.items():
        expected = display.wealth_lines_[name].get_ydata()
        np.testing.assert_array_equal(line.get_ydata(), expected)
    for one in (results, results["equal"]):
        assert "<td" in one._repr_html_() and "Sharpe ratio" in one._repr_html_()
    assert list(results["equal"].plot(axes=new_axes(3)).areas_) == ["equal"]


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
def test_a_tearsheet(results):
    sheet, r = results["short"].tearsheet(Figure()), results["short"].returns
    sheet.figure_.draw_without_rendering()
    monthly = (1 + r).groupby([r.index.year, r.index.month]).prod() - 1
    assert sheet.years_.tolist() == sorted(set(r.index.year))
    for (year, month), value in monthly.items():
        found = sheet.monthly_returns_[year - sheet.years_[0], month - 1]
        assert found == pytest.approx(value)
    assert np.isfinite(sheet.monthly_returns_).sum() == len(monthly)
    recent = r.rolling(100)  # shorter than half a year of 126
    deviation, sharpe = recent.std(), recent.mean() / recent.std()
    for found, expected in (
        (sheet.rolling_deviation_, deviation),
        (sheet.rolling_sharpe_, sharpe),
    ):
        np.testing.assert_allclose(found, np.sqrt(252) * expected, rtol=1e-9)
    wealth, drawdown = (sheet.axes_[key].get_lines() for key in ("wealth", "drawdown"))
    assert [line.get_label() for line in wealth] == ["short", "1/N", "benchmark"]
    np.testing.assert_allclose(wealth[0].get_ydata(), (1 + r).cumprod())
    colors = [[line.get_color() for line in lines] for lines in (wealth, drawdown)]
    assert colors[0] == colors[1]


def test_tearsheets_of_one_period_and_of_what_is_no_result(results):
    one = TearsheetDisplay({"one": [0.01]})
    one.plot(Figure()).figure_.draw_without_rendering()
    with pytest.raises(ValueError, match="result must be that of a portfolio in"):
        TearsheetDisplay.from_result(results)
    for given, message in (
        ({"turnover": [0.1, np.inf]}, r"turnover must be finite numbers, got \[0.1"),
        ({"costs": [0.1]}, "costs must be those of 0 trades, as turnover, got 1"),
        ({"turnover": [0.1], "costs": [0.1, 0.2]}, "costs must be those of 1 trades"),
        ({"turnover": [1], "trade_dates": [1, 2]}, "trade_dates must be 1 dates"),
        ({"statistics": {"one": 1.0}}, "statistics must be a dict with a dict of"),
        ({"statistics": {"one": {"beta": "x"}}}, "statistics must be numbers, got 'x'"),
    ):
        figure = Figure()
        with pytest.raises(ValueError, match=message):
            TearsheetDisplay({"one": [0.01, 0.02]}, **given).plot(figure)
        assert not figure.axes
