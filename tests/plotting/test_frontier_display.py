"""FrontierDisplay of estimators with a ratio, a bound of the risk, a benchmark or a
half-life, and its warnings."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import rc_context
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from sk_stormc import CompositionalPortfolio
from sk_stormc.plotting import FrontierDisplay

RNG = np.random.default_rng(11)
X = 0.01 * RNG.standard_t(5, (300, 4)) * [0.6, 1, 1.5, 2] + [
    0.0002,
    0.0008,
    0.0010,
    0.0016,
]
INDEX = X.mean(axis=1) + 0.002 * RNG.normal(size=300)


def shown(portfolio, returns=X, **kwargs):
    return FrontierDisplay.from_estimator(
        portfolio, returns, ax=Figure().add_subplot(), **kwargs
    )


def long_only(**kwargs):
    return CompositionalPortfolio(constraint="long_only", **kwargs)


def risk_of(r, measure):
    """The risk of returns, by its definition."""
    if measure == "cvar":  # of 300 periods, at the confidence 0.95
        return -np.sort(r)[:15].mean()
    high = 0 if measure == "semivariance" else np.inf
    return np.sqrt(np.mean(np.minimum(r - r.mean(), high) ** 2))


@pytest.mark.parametrize(
    "measure, aversions",
    [
        ("variance", np.geomspace(0.5, 200, 4)),
        ("semivariance", np.geomspace(0.5, 200, 4)),
        ("cvar", np.geomspace(0.01, 1, 4)),
    ],
)
def test_the_frontier_of_a_ratio_is_that_of_its_constraints(measure, aversions):
    portfolio = long_only(objective="ratio", risk_measure=measure).fit(X)
    display = shown(portfolio, risk_aversions=aversions)
    utility = shown(long_only(risk_measure=measure), risk_aversions=aversions)
    np.testing.assert_allclose(display.weights_, utility.weights_, atol=1e-6)
    assert len(display.line_.get_xdata()) == 4
    assert np.ptp(display.risk) > 0.3 * display.risk.max()
    (risk, mean), r = display.chosen, X @ portfolio.weights_
    np.testing.assert_allclose([risk, mean], [risk_of(r, measure), r.mean()], rtol=1e-9)
    assert mean / risk >= (display.mean / display.risk).max() - 1e-6
    # the frontier is concave, and the line between its points is below it
    order = np.argsort(display.risk)
    line = np.interp(risk, display.risk[order], display.mean[order])
    assert -1e-9 <= mean - line < 0.2 * mean


@pytest.mark.parametrize("measure, limit", [("variance", 0.008), ("cvar", 0.018)])
def test_the_bound_of_the_risk_is_a_line_on_the_frontier(measure, limit):
    portfolio = long_only(max_risk=limit, risk_measure=measure)
    display = shown(portfolio.fit(X), risk_aversions=[0.03, 3.0, 300.0])
    assert display.max_risk == limit
    assert list(display.max_risk_.get_xdata()) == [limit, limit]
    assert display.risk.min() < limit < display.risk.max()
    assert display.chosen[0] == pytest.approx(limit, rel=1e-6)
    assert "maximum risk" in [text.get_text() for text in display.legend_.get_texts()]
    assert shown(long_only(), risk_aversions=[1.0]).max_risk_ is None
    # the estimator is unchanged
    assert portfolio.max_risk == limit and portfolio.objective == "utility"


@pytest.mark.parametrize(
    "measure, label",
    [
        ("variance", "tracking error"),
        ("semivariance", "semideviation .* of the excess return"),
        ("cvar", "cvar of the loss against the benchmark"),
    ],
)
def test_with_a_benchmark_the_axes_are_those_of_the_excess_return(measure, label):
    portfolio = long_only(benchmark=INDEX, risk_measure=measure).fit(X)
    display = shown(portfolio, risk_aversions=[0.1, 3.0, 100.0])
    for w, *found in [
        *zip(display.weights_, display.risk, display.mean, strict=True),
        *zip(np.eye(4), display.asset_risk, display.asset_mean, strict=True),
        (portfolio.weights_, *display.chosen),
    ]:
        r = X @ w - INDEX
        np.testing.assert_allclose(found, [risk_of(r, measure), r.mean()], rtol=1e-9)
    assert (np.diff(display.risk) < 1e-9).all() and (np.diff(display.mean) < 1e-9).all()
    assert re.match(label, display.ax_.get_xlabel())
    assert display.ax_.get_ylabel() == "mean excess return per period"


def test_a_bound_of_the_tracking_error_and_a_benchmark_among_the_columns():
    names = ["a", "b", "c", "d", "index"]
    frame = pd.DataFrame(np.column_stack([X, INDEX]), columns=names)
    portfolio = long_only(benchmark="index", max_risk=0.004).fit(frame)
    display = shown(portfolio, frame, risk_aversions=[0.1, 1000.0])
    r = X @ portfolio.weights_[:4] - INDEX
    np.testing.assert_allclose(display.chosen, [r.std(), r.mean()], rtol=1e-9)
    assert display.chosen[0] == pytest.approx(0.004, rel=1e-6)
    assert display.max_risk == 0.004
    of_index = [display.asset_risk[4], display.asset_mean[4]]
    np.testing.assert_allclose(of_index, 0, atol=1e-15)


def test_the_half_life_weighs_the_periods_of_the_figure():
    portfolio = long_only(half_life=30).fit(X)
    display = shown(portfolio, risk_aversions=[0.1, 3.0, 100.0])
    r, weights = X @ portfolio.weights_, 0.5 ** (np.arange(300)[::-1] / 30)
    mean = np.average(r, weights=weights)
    deviation = np.sqrt(np.average((r - mean) ** 2, weights=weights))
    np.testing.assert_allclose(display.chosen, [deviation, mean], rtol=1e-9)
    assert (np.diff(display.risk) < 1e-9).all() and (np.diff(display.mean) < 1e-9).all()


@pytest.mark.parametrize(
    "portfolio, returns, aversions, words",
    [
        (
            long_only(),
            np.cumprod(1 + X, axis=0),
            [1.0, 10.0, 100.0],
            "3 of the 3 portfolios of the frontier gave this warning: X looks like pr",
        ),
        (  # it has a minimum only if the aversion is large
            CompositionalPortfolio(risk_measure="cvar", budget=1.0),
            0.01 * RNG.normal(size=(200, 3)) + [0.0, 0.003, 0.006],
            [0.01, 0.02, 10.0],
            "2 of the 3 portfolios of the frontier have not converged",
        ),
    ],
)
def test_a_warning_of_several_fits_is_given_once_with_their_number(
    portfolio, returns, aversions, words
):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shown(portfolio, returns, risk_aversions=aversions)
    (one,) = caught
    assert str(one.message).startswith(words)


APART = "needs a risk apart from the mean return"


@pytest.mark.parametrize(
    "portfolio, message",
    [
        (long_only(objective="ratio", risk_measure="entropic"), APART),
        (long_only(max_risk=0.1, risk_measure="entropic"), APART),
        (long_only(max_risk=0.1, objective="ratio"), "None with objective='ratio'"),
        (long_only(max_risk=-0.1), "max_risk must be"),
        (long_only(objective="sharpe"), "objective must be"),
        (CompositionalPortfolio, "estimator must be a CompositionalPortfolio"),
    ],
)
def test_errors(portfolio, message):
    with pytest.raises(ValueError, match=message):
        shown(portfolio)
    with pytest.raises(ValueError, match=r"got NaN in column \[2\]"):
        shown(long_only(), np.where(np.arange(4) == 2, np.nan, X))
    for bound in (np.nan, "0.1"):
        display = FrontierDisplay([1.0, 2.0], [0.1, 0.2], max_risk=bound)
        with pytest.raises(ValueError, match="max_risk must be a finite number"):
            display.plot()


def test_a_portfolio_of_other_assets_is_not_marked():
    table = pd.DataFrame(X, columns=[*"abcd"])
    portfolio = long_only().fit(table)
    for columns, is_marked in (("abcd", True), ("dcba", False)):
        display = shown(portfolio, table[list(columns)], risk_aversions=[1.0])
        assert (display.chosen is not None) == is_marked


def test_the_chosen_portfolio_may_be_an_array():
    assets = {"asset_risk": [1.0, 2.0], "asset_mean": [0.0, 1.0]}
    display = FrontierDisplay([1.0, 9.0], [0.0, 5.0], **assets, chosen=np.array([4, 3]))
    display.plot()
    assert display.chosen_.get_xydata().tolist() == [[4, 3]]
    assert display.ax_.get_xlim() == (0, 5)


def test_means_are_those_after_costs():
    cost, previous = np.array([0.0, 1e-3, 2e-4, 0.0]), [0.1, 0.2, 0.3, 0.4]
    own = {"transaction_cost": cost, "previous_weights": previous, "budget": 1.0}
    portfolio, mean = long_only(**own).fit(X), X.mean(axis=0)
    display = shown(portfolio, risk_aversions=[0.1, 3.0, 100.0])
    for w, found in (
        *zip(display.weights_, display.mean, strict=True),
        (portfolio.weights_, display.chosen[1]),
    ):
        assert found == pytest.approx(w @ mean - np.abs(w - previous) @ cost)
    assert display.ax_.get_ylabel() == "mean return per period, after costs"
    # a larger mean has a larger risk
    assert (np.diff(display.mean) <= 1e-12).all()


def test_two_measures_on_the_same_axes():
    portfolio, some = long_only(), {"risk_aversions": [1.0]}
    ax = shown(portfolio, **some).ax_
    portfolio.set_params(risk_measure="cvar")
    FrontierDisplay.from_estimator(portfolio, X, ax=ax, **some)
    first, second = "standard deviation of the return", "cvar of the loss"
    assert ax.get_xlabel() == f"{first} per period; {second} per period"
    assert ax.get_ylabel() == "mean return per period"


def test_an_unbounded_frontier_shows_the_assets_on_given_axes():
    display = shown(CompositionalPortfolio(budget=1.0).fit(X))
    deviations = X.std(axis=0)
    assert display.risk.max() > 2 * display.ax_.get_xlim()[1]
    assert display.ax_.get_xlim()[1] > deviations.max()


def test_dark_styles():
    frame = pd.DataFrame(X, columns=list("abcd"))
    with rc_context({"text.color": "white", "axes.facecolor": "black"}):
        display = shown(long_only(), frame, risk_aversions=[1.0])
    label = to_rgb(display.labels_[0].get_color())
    assert np.min([display.scatter_.get_facecolor()[0, :3], label]) > 0.5
