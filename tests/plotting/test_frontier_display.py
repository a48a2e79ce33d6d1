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
from sk_stormc.datasets import make_gaussian_returns
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
    return (
        np.sqrt(np.mean(np.minimum(r - r.mean(), 0) ** 2))
        if measure == "semivariance"
        else r.std()
    )


@pytest.mark.parametrize(
    "measure, aversions",
    [
        ("variance", None),
        ("semivariance", np.geomspace(0.5, 200, 9)),
        ("cvar", np.geomspace(0.01, 1, 9)),
    ],
)
def test_the_frontier_of_a_ratio_is_that_of_its_constraints(measure, aversions):
    portfolio = long_only(objective="ratio", risk_measure=measure).fit(X)
    display = shown(portfolio, risk_aversions=aversions)
    utility = shown(long_only(risk_measure=measure), risk_aversions=aversions)
    np.testing.assert_allclose(display.weights_, utility.weights_, atol=1e-6)
    assert len(display.line_.get_xdata()) == (25 if aversions is None else 9)
    assert np.ptp(display.risk) > 0.3 * display.risk.max()
    risk, mean = display.chosen
    r = X @ portfolio.weights_
    np.testing.assert_allclose([risk, mean], [risk_of(r, measure), r.mean()], rtol=1e-9)
    assert mean / risk >= (display.mean / display.risk).max() - 1e-6
    # the frontier is concave, and the line between its points is below it
    order = np.argsort(display.risk)
    assert (
        0
        <= mean - np.interp(risk, display.risk[order], display.mean[order]) + 1e-9
        < 0.1 * mean
    )


@pytest.mark.parametrize("measure, limit", [("variance", 0.008), ("cvar", 0.018)])
def test_the_bound_of_the_risk_is_a_line_on_the_frontier(measure, limit):
    portfolio = long_only(max_risk=limit, risk_measure=measure)
    display = shown(portfolio.fit(X), risk_aversions=np.geomspace(0.03, 300, 9))
    assert display.max_risk == limit and list(display.max_risk_.get_xdata()) == [
        limit,
        limit,
    ]
    assert display.risk.min() < limit < display.risk.max()
    assert display.chosen[0] == pytest.approx(limit, rel=1e-6)
    assert "maximum risk" in [text.get_text() for text in display.legend_.get_texts()]
    assert shown(long_only(), risk_aversions=[1.0]).max_risk_ is None
    # the estimator is unchanged
    assert portfolio.max_risk == limit and portfolio.objective == "utility"


@pytest.mark.parametrize("measure, label", [
    ("variance", "tracking "
                 "error"), ("semivariance", "semideviation .* of the excess return"),
    ("cvar", "cvar of the loss against the benchmark"),
])  # fmt: skip
def test_with_a_benchmark_the_axes_are_those_of_the_excess_return(measure, label):
    portfolio = long_only(benchmark=INDEX, risk_measure=measure).fit(X)
    display = shown(portfolio, risk_aversions=[0.1, 3.0, 100.0])
    for w, risk, mean in [
        *zip(display.weights_, display.risk, display.mean, strict=True),
        *zip(np.eye(4), display.asset_risk, display.asset_mean, strict=True),
        (portfolio.weights_, *display.chosen),
    ]:
        r = X @ w - INDEX
        np.testing.assert_allclose(
            [risk, mean], [risk_of(r, measure), r.mean()], rtol=1e-9
        )
    assert (np.diff(display.risk) < 1e-9).all() and (np.diff(display.mean) < 1e-9).all()
    assert (
        re.match(label, display.ax_.get_xlabel())
        and display.ax_.get_ylabel() == "mean excess return per period"
    )


def test_a_bound_of_the_tracking_error_and_a_benchmark_among_the_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        np.column_stack([X, INDEX]), columns=["a", "b", "c", "d", "index"]
    )
    portfolio = long_only(benchmark="index", max_risk=0.004).fit(frame)
    display = shown(portfolio, frame, risk_aversions=[0.1, 1000.0])
    r = X @ portfolio.weights_[:4] - INDEX
    np.testing.assert_allclose(display.chosen, [r.std(), r.mean()], rtol=1e-9)
    assert (
        display.chosen[0] == pytest.approx(0.004, rel=1e-6)
        and display.max_risk == 0.004
    )
    np.testing.assert_allclose(
        [display.asset_risk[4], display.asset_mean[4]], 0, atol=1e-15
    )


def test_the_half_life_weighs_the_periods_of_the_figure():
    portfolio = long_only(half_life=30).fit(X)
    display = shown(portfolio)
    weights = 0.5 ** (np.arange(300)[::-1] / 30)
    r = X @ portfolio.weights_
    mean = np.average(r, weights=weights)
    np.testing.assert_allclose(
        display.chosen,
        [np.sqrt(np.average((r - mean) ** 2, weights=weights)), mean],
        rtol=1e-9,
    )
    assert (np.diff(display.risk) < 1e-9).all() and (np.diff(display.mean) < 1e-9).all()


def test_a_warning_of_several_fits_is_given_once_with_their_number():
    prices = np.cumprod(1 + X, axis=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shown(long_only(), prices, risk_aversions=[1.0, 10.0, 100.0])
    (one,) = caught
    expected = (
        "3 of the 3 portfolios of the frontier gave this warning: X looks like prices"
    )
    assert str(one.message).startswith(expected)


def test_warnings_of_some_fits_only():
    # has a minimum only if the aversion is large
    free = CompositionalPortfolio(risk_measure="cvar", budget=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shown(
            free,
            0.01 * RNG.normal(size=(200, 3)) + [0.0, 0.003, 0.006],
            risk_aversions=[0.01, 0.02, 10.0],
        )
    (one,) = caught
    assert str(one.message).startswith(
        "2 of the 3 portfolios of the frontier have not converged"
    )


@pytest.mark.parametrize(
    "portfolio, message",
    [
        (
            long_only(objective="ratio", risk_measure="entropic"),
            "needs a risk apart from the mean return",
        ),
        (
            long_only(max_risk=0.1, risk_measure="entropic"),
            "needs a risk apart from the mean return",
        ),
        (
            long_only(max_risk=0.1, objective="ratio"),
            "max_risk must be None with objective='ratio'",
        ),
        (long_only(max_risk=-0.1), "max_risk must be"),
        (long_only(objective="sharpe"), "objective must be"),
        (CompositionalPortfolio, "estimator must be a CompositionalPortfolio"),
    ],
)
def test_errors(portfolio, message):
    with pytest.raises(ValueError, match=message):
        shown(portfolio)


def test_invalid_returns_are_named():
    with pytest.raises(ValueError, match=r"got NaN in column \[2\]"):
        shown(long_only(), np.where(np.arange(4) == 2, np.nan, X))


@pytest.mark.parametrize("max_risk", [np.nan, "0.1"])
def test_the_bound_of_a_display_is_a_number(max_risk):
    with pytest.raises(ValueError, match="max_risk must be a finite number"):
        FrontierDisplay([1.0, 2.0], [0.1, 0.2], max_risk=max_risk).plot(
            Figure().add_subplot()
        )


def test_a_portfolio_of_other_assets_is_not_marked():
    table = pd.DataFrame(
        make_gaussian_returns(100, 3, random_state=0), columns=[*"abc"]
    )
    portfolio = CompositionalPortfolio(constraint="long_only").fit(table)
    for columns, is_marked in (("abc", True), ("cba", False)):
        display = FrontierDisplay.from_estimator(
            portfolio, table[list(columns)], risk_aversions=[1.0]
        )
        assert (display.chosen is not None) == is_marked


def test_the_chosen_portfolio_may_be_an_array():
    assets = {"asset_risk": [1.0, 2.0], "asset_mean": [0.0, 1.0]}
    display = FrontierDisplay([1.0, 9.0], [0.0, 5.0], **assets, chosen=np.array([4, 3]))
    display.plot()
    assert display.chosen_.get_xydata().tolist() == [[4, 3]]
    assert display.ax_.get_xlim() == (0, 5)


def test_means_are_those_after_costs():
    cost, previous = np.array([0.0, 1e-3, 2e-4, 0.0]), [0.1, 0.2, 0.3, 0.4]
    portfolio = long_only(
        budget=1.0, transaction_cost=cost, previous_weights=previous
    ).fit(X)
    display = shown(portfolio)
    weights = display.weights_
    costs = np.abs(weights - previous) @ cost
    np.testing.assert_allclose(display.mean, weights @ X.mean(axis=0) - costs)
    assert display.ax_.get_ylabel() == "mean return per period, after costs"
    assert display.chosen[1] == pytest.approx(
        X.mean(axis=0) @ portfolio.weights_
        - np.abs(portfolio.weights_ - previous) @ cost
    )
    # a larger mean has a larger risk
    assert (np.diff(display.mean) <= 1e-12).all()


def test_two_measures_on_the_same_axes():
    display = shown(long_only().fit(X))
    ax = display.ax_
    FrontierDisplay.from_estimator(long_only(risk_measure="cvar").fit(X), X, ax=ax)
    assert ax.get_xlabel() == (
        "standard deviation of the return per period; cvar of the loss per period"
    )
    assert ax.get_ylabel() == "mean return per period"


def test_an_unbounded_frontier_shows_the_assets_on_given_axes():
    display = shown(CompositionalPortfolio(budget=1.0).fit(X))
    deviations = X.std(axis=0)
    assert display.risk.max() > 2 * display.ax_.get_xlim()[1]
    assert display.ax_.get_xlim()[1] > deviations.max()


def test_dark_styles():
    with rc_context({"text.color": "white", "axes.facecolor": "black"}):
        display = shown(long_only().fit(X), pd.DataFrame(X, columns=list("abcd")))
    dark = [
        display.scatter_.get_facecolor()[0, :3],
        to_rgb(display.labels_[0].get_color()),
    ]
    assert np.min(dark) > 0.5
