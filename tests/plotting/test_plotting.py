"""Displays of runs, maps and frontiers."""

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib import image
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio, SNEEmbedding, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.plotting import (
    ConvergenceDisplay,
    FrontierDisplay,
    plot_curves,
)
from sk_stormc.problems import PortfolioProblem

IFO = [0, 100, 1000]


def panels(*methods, ys=([8.0, 4.0, 2.0],)):
    return {"data": {method: [(IFO, *ys)] for method in methods}}


def line(figure, method, axes=0):
    return next(
        line for line in figure.axes[axes].get_lines() if line.get_label() == method
    )


def drawn(figure):
    """The picture as an array, through the same path as a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return image.imread(io.BytesIO(buffer.getvalue()))


def test_a_row_for_each_data_set_and_a_column_for_each_label():
    runs = [(IFO, [8, 4, 2], [3, 2, 1])]
    figure = plot_curves(
        {"A": {"scgd": runs}, "B": {"scgd": runs, "mine": runs}}, ["gap", "gradient"]
    )
    assert [ax.get_title() for ax in figure.axes] == ["gap", "gradient", "", ""]
    assert [ax.get_ylabel() for ax in figure.axes] == ["A", "", "B", ""]
    assert [ax.get_xlabel() for ax in figure.axes] == ["", "", "IFO", "IFO"]
    assert all(ax.get_yscale() == "log" for ax in figure.axes)
    np.testing.assert_allclose(line(figure, "mine", axes=3).get_ydata(), [3, 2, 1])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["scgd", "mine"]


def test_several_runs_give_their_median_and_a_band():
    # the last one ended early and holds 1
    runs = [(IFO, [8, 4, 2]), (IFO, [8, 5, 1]), (IFO[:2], [8, 1])]
    ax = plot_curves({"data": {"storm-c": runs}}, ["gap"]).axes[0]
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), [8, 4, 1])
    (band,) = ax.collections
    points = {tuple(point) for point in np.round(band.get_paths()[0].vertices, 9)}
    # the quartiles: halfway between values on a logarithmic axis
    corners = {(100, 2), (100, np.sqrt(20)), (1000, 1), (1000, np.sqrt(2))}
    assert {tuple(point) for point in np.round(list(corners), 9)} <= points
    assert not plot_curves({"data": {"storm-c": runs[:1]}}, ["gap"]).axes[0].collections


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
def test_a_diverging_run_does_not_set_the_scale():
    calm, wild = [8.0, 4.0, 2.0], [8.0, 1e300, np.inf]
    figure = plot_curves(
        {"data": {"lbfgs": [(IFO, calm)], "scgd": [(IFO, wild)]}}, ["gap"]
    )
    low, high = figure.axes[0].get_ylim()
    assert low < 2 and 8 < high < 100
    assert line(figure, "scgd").get_ydata().max() > high  # it leaves at the top
    assert drawn(figure).std() > 0


def test_a_gap_of_zero_is_below_the_picture():
    figure = plot_curves(panels("storm-c", ys=([8, 0, 0],)), ["gap"])
    assert figure.axes[0].get_lines()[0].get_ydata()[-1] < figure.axes[0].get_ylim()[0]
    assert drawn(figure).std() > 0


# --- ticks
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize("low, high", [(3.0, 28.0), (1e-200, 1e200), (5e-7, 6e-7)])
def test_axes_have_ticks_with_different_labels(low, high):
    run = [0, 400, 900], [high, (low * high) ** 0.5, low]
    ax = plot_curves({"data": {"scgd": [run]}}, ["gap"]).axes[0]
    for axis in (ax.xaxis, ax.yaxis):
        first, last = axis.get_view_interval()
        ticks = [tick for tick in axis.get_majorticklocs() if first <= tick <= last]
        labels = set(axis.get_major_formatter().format_ticks(ticks))
        assert 3 <= len(ticks) <= 9 and len(labels) == len(ticks)


# --- ConvergenceDisplay
# --------------------------------------------------------------------------------

PROBLEM = PortfolioProblem(make_gaussian_returns(400, 4, mean=0.2, random_state=0))


@pytest.fixture(scope="module")
def results():
    runs = [minimize(PROBLEM, "storm-c", random_state=seed) for seed in range(2)]
    return {"storm-c": runs, "lbfgs": minimize(PROBLEM, "lbfgs")}


def new_axes():
    return Figure().add_subplot()


@pytest.mark.parametrize("solver", ["auto", "storm-c"])
def test_an_estimator_tells_the_size_of_a_pass(solver):
    portfolio = CompositionalPortfolio(solver, constraint="long_only", random_state=0)
    fitted, given = portfolio.fit(RETURNS), {"x": "passes"}
    for passed, size in (({}, 3 * len(RETURNS)), ({"pass_ifo": 100}, 100)):
        display = ConvergenceDisplay.from_estimator(fitted, **given, **passed)
        assert display.lines_[0].get_xdata()[-1] == fitted.ifo_[-1] / size
    fitted.partial_fit(RETURNS)
    with pytest.raises(ValueError, match="x='passes' needs pass_ifo"):
        ConvergenceDisplay.from_estimator(fitted, **given)


def test_from_results_takes_gaps_passes_and_iterations(results):
    exact = results["lbfgs"]
    display = ConvergenceDisplay.from_results(
        results, x="passes", y="gap", pass_ifo=3600, ax=new_axes()
    )
    best = min(run.loss_curve.min() for run in [*results["storm-c"], exact])
    line = display.lines_[1]
    np.testing.assert_allclose(line.get_xdata(), exact.ifo / 3600)
    np.testing.assert_allclose(line.get_ydata()[0], exact.loss_curve[0] - best)
    assert display.ax_.get_yscale() == "log"
    assert "best objective seen" in display.ax_.get_ylabel()
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts == ["storm-c", "lbfgs"]
    assert len(display.bands_) == 1 and display.figure_ is display.ax_.figure
    steps = ConvergenceDisplay.from_results(exact, x="iterations", x_scale="linear")
    found = steps.lines_[0].get_xdata()
    np.testing.assert_array_equal(found, exact.record_iterations)
    with pytest.warns(UserWarning, match="optimum=.* is above an objective"):
        ConvergenceDisplay.from_results(results, y="gap", optimum=best + 0.1)


def test_from_estimator():
    portfolio = CompositionalPortfolio("storm-c")
    fits = [
        clone(portfolio).set_params(random_state=seed).fit(PROBLEM.returns)
        for seed in range(2)
    ]
    line = ConvergenceDisplay.from_estimator(fits, linewidth=7).lines_[0]
    assert line.get_label() == "storm-c" and line.get_linewidth() == 7
    named = ConvergenceDisplay.from_estimator({"mine": fits[0]}, y="gap")
    np.testing.assert_array_equal(named.lines_[0].get_xdata(), fits[0].ifo_)
    embedding = SNEEmbedding(perplexity=5, max_iter=20, random_state=0)
    embedding.fit(np.random.RandomState(0).randn(40, 3))
    shown = ConvergenceDisplay.from_estimator(embedding, x="iterations")
    found = shown.lines_[0].get_xdata()
    np.testing.assert_array_equal(found, embedding.record_iterations_)
    assert shown.ax_.get_ylabel() == "KL divergence"


of_results, NOT_RISING = (
    ConvergenceDisplay.from_results,
    "x of 'a' must be finite .* not dec",
)


def curve(x, y=(3, 2, 1)):
    return lambda r: ConvergenceDisplay({"a": [(x, y)]}).plot()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda r: of_results(r, x="passes"), "x='passes' needs pass_ifo"),
        (lambda r: of_results(r, x="seconds"), "no seconds.*compare_solvers records"),
        (lambda r: of_results(r, y="gradient"), "no exact gradients.*gradient=True"),
        (lambda r: of_results({"a": []}), "results must hold at least one run"),
        (lambda r: of_results(r, colour="red"), "matplotlib's Line2D, got colour"),
        (
            lambda r: plot_curves(panels("scgd"), ["gap", "gradient"]),
            "a run must be 3 arrays.*'scgd' has 2",
        ),
        (
            lambda r: ConvergenceDisplay.from_estimator(CompositionalPortfolio()),
            "must be a fitted estimator",
        ),
        (curve([0, 1], [1]), "x and y of 'a' must be vectors of one length"),
        (curve([0, 5, 3]), NOT_RISING),
        (curve([-1, 0, 1]), NOT_RISING),
        (curve([0, np.nan, 1]), NOT_RISING),
    ],
)
def test_errors_of_the_convergence_display(results, call, message):
    with pytest.raises(ValueError, match=message):
        call(results)


# --- FrontierDisplay
# -----------------------------------------------------------------------------------

RETURNS = make_gaussian_returns(
    300, 5, mean=np.linspace(0.02, 0.2, 5), random_state=0
) * np.linspace(0.5, 1.5, 5)


@pytest.mark.parametrize("measure", ["variance", "semivariance"])
def test_the_frontier_is_that_of_single_fits(measure):
    portfolio = CompositionalPortfolio(constraint="long_only", risk_measure=measure)
    display = FrontierDisplay.from_estimator(
        portfolio, RETURNS, risk_aversions=[3.0, 0.03, 0.3], ax=new_axes()
    )
    np.testing.assert_array_equal(display.risk_aversions_, [0.03, 0.3, 3.0])
    for k, value in enumerate(display.risk_aversions_):
        alone = clone(portfolio).set_params(risk_aversion=value).fit(RETURNS)
        np.testing.assert_allclose(display.weights_[k], alone.weights_, atol=2e-3)
        r = RETURNS @ display.weights_[k]
        high = np.inf if measure == "variance" else 0
        risk = np.sqrt(np.mean(np.minimum(r - r.mean(), high) ** 2))
        found = display.risk[k], display.mean[k]
        np.testing.assert_allclose(found, [risk, r.mean()])
    assert not hasattr(portfolio, "weights_") and display.chosen_ is None


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
def test_the_assets_are_named_points_and_the_fitted_portfolio_is_marked():
    frame = pd.DataFrame(RETURNS, columns=["gold", "bonds", "oil", "banks", "mines"])
    portfolio = CompositionalPortfolio(constraint="long_only").fit(frame)
    ax = Figure(figsize=(9, 7)).add_subplot()
    display = FrontierDisplay.from_estimator(portfolio, frame, ax=ax)
    found, deviations = display.scatter_.get_offsets().T, RETURNS.std(axis=0)
    np.testing.assert_allclose(found, [deviations, RETURNS.mean(axis=0)])
    assert {label.get_text() for label in display.labels_} == set(frame.columns)
    r = RETURNS @ portfolio.weights_
    np.testing.assert_allclose(display.chosen, [r.std(), r.mean()])
    assert len(display.risk) == 25
    assert (np.diff(display.risk) < 1e-6).all() and (np.diff(display.mean) < 1e-6).all()


def test_the_default_values_follow_the_unit_of_the_returns():
    portfolio = CompositionalPortfolio(constraint="long_only")
    small, large = (
        FrontierDisplay.from_estimator(portfolio, unit * RETURNS[:150], ax=new_axes())
        for unit in (1e-4, 100.0)
    )
    np.testing.assert_allclose(small.weights_, large.weights_, atol=2e-3)


def test_fits_that_do_not_converge_are_said_once():
    portfolio = CompositionalPortfolio(constraint="long_only", max_iter=2)
    words = "2 of the 2 portfolios of the frontier have not converged"
    with pytest.warns(ConvergenceWarning, match=words) as caught:
        FrontierDisplay.from_estimator(portfolio, RETURNS, risk_aversions=[0.1, 1.0])
    assert len(caught) == 1


def test_runs_that_become_infinite_are_above_the_others():
    x, good = np.arange(5.0), np.array([1, 0.5, 0.2, 0.1, 0.05])
    bad = np.array([1, 2, np.nan, np.inf, np.nan])
    display = ConvergenceDisplay({"a": [(x, good)], "b": [(x, bad)] * 3}, y_scale="log")
    a, b = display.plot().lines_
    top = display.ax_.get_ylim()[1]
    assert (b.get_ydata()[2:] > top).all() and (a.get_ydata() < top).all()


def test_many_labels_have_different_looks_and_are_written_as_they_are():
    x = np.arange(3.0)
    curves = {f"${k}$ " + 40 * "x": [(x, x[::-1] + k + 1)] for k in range(20)}
    display = ConvergenceDisplay(curves, y_label=r"$\foo$").plot()
    looks = {(line.get_color(), line.get_marker()) for line in display.lines_}
    assert len(looks) == 20
    text = display.legend_.get_texts()[3].get_text()
    assert text.startswith("$3$ x") and len(text) < 30
    display.figure_.draw_without_rendering()


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
def test_one_record():
    display = ConvergenceDisplay({"a": [([0.0], [1.0])]})
    display.plot().figure_.draw_without_rendering()
