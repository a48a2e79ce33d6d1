"""Displays of runs, maps and frontiers."""

import io

import numpy as np
import pytest
from matplotlib import image
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio, SNEEmbedding, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.plotting import (
    ConvergenceDisplay,
    EmbeddingDisplay,
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
    ax = plot_curves(
        {"data": {"scgd": [([0, 400, 900], [high, (low * high) ** 0.5, low])]}}, ["gap"]
    ).axes[0]
    for axis in (ax.xaxis, ax.yaxis):
        ends = axis.get_view_interval()
        ticks = [
            tick for tick in axis.get_majorticklocs() if ends[0] <= tick <= ends[1]
        ]
        assert 3 <= len(ticks) <= 9 and len(
            set(axis.get_major_formatter().format_ticks(ticks))
        ) == len(ticks)


# --- ConvergenceDisplay
# --------------------------------------------------------------------------------

PROBLEM = PortfolioProblem(make_gaussian_returns(1200, 4, mean=0.2, random_state=0))


@pytest.fixture(scope="module")
def results():
    return {
        "storm-c": [
            minimize(PROBLEM, "storm-c", random_state=seed) for seed in range(3)
        ],
        "lbfgs": minimize(PROBLEM, "lbfgs"),
    }


def new_axes():
    return Figure().add_subplot()


@pytest.mark.parametrize("solver", ["auto", "storm-c"])
def test_an_estimator_tells_the_size_of_a_pass(solver):
    fitted = CompositionalPortfolio(solver, constraint="long_only", random_state=0).fit(
        RETURNS
    )
    for given, size in ((None, 3 * len(RETURNS)), (100, 100)):
        display = ConvergenceDisplay.from_estimator(
            fitted, x="passes", pass_ifo=given, ax=new_axes()
        )
        assert display.lines_[0].get_xdata()[-1] == fitted.ifo_[-1] / size
    fitted.partial_fit(RETURNS)
    with pytest.raises(ValueError, match="x='passes' needs pass_ifo"):
        ConvergenceDisplay.from_estimator(fitted, x="passes", ax=new_axes())


def test_from_results_takes_gaps_passes_and_iterations(results):
    display = ConvergenceDisplay.from_results(
        results, x="passes", y="gap", pass_ifo=3600, ax=new_axes()
    )
    best = min(run.loss_curve.min() for run in [*results["storm-c"], results["lbfgs"]])
    lbfgs = display.lines_[1]
    np.testing.assert_allclose(lbfgs.get_xdata(), results["lbfgs"].ifo / 3600)
    np.testing.assert_allclose(
        lbfgs.get_ydata()[0], results["lbfgs"].loss_curve[0] - best
    )
    assert (
        display.ax_.get_yscale() == "log"
        and "best objective seen" in display.ax_.get_ylabel()
    )
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "storm-c",
        "lbfgs",
    ]
    assert len(display.bands_) == 1 and display.figure_ is display.ax_.figure
    steps = ConvergenceDisplay.from_results(
        results["lbfgs"], x="iterations", x_scale="linear", ax=new_axes()
    )
    np.testing.assert_array_equal(
        steps.lines_[0].get_xdata(), results["lbfgs"].record_iterations
    )
    with pytest.warns(UserWarning, match="optimum=.* is above an objective"):
        ConvergenceDisplay.from_results(
            results, y="gap", optimum=best + 0.1, ax=new_axes()
        )


def test_from_estimator():
    returns = PROBLEM.returns
    fits = [
        CompositionalPortfolio("storm-c", random_state=seed).fit(returns)
        for seed in range(2)
    ]
    display = ConvergenceDisplay.from_estimator(fits, linewidth=7, ax=new_axes())
    assert (
        display.lines_[0].get_label() == "storm-c"
        and display.lines_[0].get_linewidth() == 7
    )
    named = ConvergenceDisplay.from_estimator({"mine": fits[0]}, y="gap", ax=new_axes())
    np.testing.assert_array_equal(named.lines_[0].get_xdata(), fits[0].ifo_)
    embedding = SNEEmbedding(perplexity=5, random_state=0, tol=0).fit(
        np.random.RandomState(0).randn(40, 3)
    )
    shown = ConvergenceDisplay.from_estimator(embedding, x="iterations", ax=new_axes())
    np.testing.assert_array_equal(
        shown.lines_[0].get_xdata(), embedding.record_iterations_
    )
    assert shown.ax_.get_ylabel() == "KL divergence"


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda r: ConvergenceDisplay.from_results(r, x="passes"),
            "x='passes' needs pass_ifo",
        ),
        (
            lambda r: ConvergenceDisplay.from_results(r, x="seconds"),
            "has no seconds.*compare_solvers records them",
        ),
        (
            lambda r: ConvergenceDisplay.from_results(r, y="gradient"),
            "no exact gradients.*gradient=True",
        ),
        (
            lambda r: ConvergenceDisplay.from_results({"a": []}),
            "results must hold at least one run",
        ),
        (
            lambda r: plot_curves(panels("scgd"), ["gap", "gradient"]),
            "a run must be 3 arrays.*'scgd' has 2",
        ),
        (
            lambda r: ConvergenceDisplay.from_results(r, colour="red"),
            "properties of matplotlib's Line2D, got colour",
        ),
        (
            lambda r: ConvergenceDisplay.from_estimator(CompositionalPortfolio()),
            "must be a fitted estimator",
        ),
        (
            lambda r: ConvergenceDisplay({"a": [([0, 1], [1])]}).plot(),
            "x and y of 'a' must be vectors of one length",
        ),
        *(
            (
                lambda r, x=x: ConvergenceDisplay({"a": [(x, [3, 2, 1])]}).plot(),
                "x of 'a' must be finite numbers >= 0 that do not decrease",
            )
            for x in ([0, 5, 3], [-1, 0, 1], [0, np.nan, 1], [0, 1, np.inf])
        ),
    ],
)
def test_errors_of_the_convergence_display(results, call, message):
    with pytest.raises(ValueError, match=message):
        call(results)


# --- EmbeddingDisplay
# ----------------------------------------------------------------------------------

POINTS = np.random.default_rng(0).normal(size=(200, 6))


def axes_of(d):
    return Figure().add_subplot(projection="3d" if d == 3 else None)


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
@pytest.mark.parametrize(
    "d, panels, kind", [(1, 1, "classes"), (3, 1, "numbers"), (4, 6, "none")]
)
def test_dimensions(d, panels, kind):
    y = {"none": None, "classes": np.arange(200) % 3, "numbers": POINTS[:, 0]}[kind]
    display = EmbeddingDisplay(POINTS[:, :d], y=y).plot(axes_of(d))
    assert len(display.axes_) == panels == len(display.scatter_)
    assert (display.legend_ is not None) == (kind == "classes")
    assert (display.colorbar_ is not None) == (kind == "numbers")
    assert drawn(display.figure_).std() > 0.05


def test_each_point_has_the_colour_of_its_class():
    y = np.array(["b", "a"])[np.arange(200) % 2]
    display = EmbeddingDisplay(POINTS[:, :2], y=y).plot(new_axes())
    (points,) = display.scatter_
    by_place = {
        tuple(p): tuple(c)
        for p, c in zip(points.get_offsets().data, points.get_facecolors(), strict=True)
    }
    colours = np.array([by_place[tuple(p)] for p in POINTS[:, :2]])
    assert (colours[y == "a"] == colours[1]).all() and (
        colours[y == "b"] == colours[0]
    ).all()
    assert (colours[0] != colours[1]).any()
    assert [text.get_text() for text in display.legend_.get_texts()] == ["a", "b"]


def test_many_classes_differ_in_colour_or_shape_and_too_many_are_refused():
    names = np.array([f"class {k}" for k in range(40)])
    display = EmbeddingDisplay(POINTS[:, :2], y=names[np.arange(200) % 40]).plot(
        new_axes()
    )
    looks = {(h.get_color(), h.get_marker()) for h in display.legend_.legend_handles}
    assert len(looks) == 40
    with pytest.raises(ValueError, match="y must have at most 160 classes, got 200"):
        EmbeddingDisplay(POINTS[:, :2], y=[f"{k}" for k in range(200)]).plot(new_axes())


def test_numbers_have_a_colour_bar_and_nan_is_grey():
    y = POINTS[:, 0].copy()
    y[:5] = np.nan
    display = EmbeddingDisplay(POINTS[:, :2], y=y, y_label="size").plot(new_axes())
    grey, coloured = display.scatter_
    assert len(grey.get_offsets()) == 5 and len(coloured.get_offsets()) == 195
    assert (
        coloured.get_clim() == (np.nanmin(y), np.nanmax(y))
        and display.colorbar_.ax.get_ylabel() == "size"
    )


# --- FrontierDisplay
# -----------------------------------------------------------------------------------

RETURNS = make_gaussian_returns(
    600, 5, mean=np.linspace(0.02, 0.2, 5), random_state=0
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
        below = (
            np.minimum(r - r.mean(), 0) if measure == "semivariance" else r - r.mean()
        )
        np.testing.assert_allclose(
            [display.risk[k], display.mean[k]], [np.sqrt(np.mean(below**2)), r.mean()]
        )
    assert not hasattr(portfolio, "weights_") and display.chosen_ is None


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
def test_the_assets_are_named_points_and_the_fitted_portfolio_is_marked():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(RETURNS, columns=["gold", "bonds", "oil", "banks", "mines"])
    portfolio = CompositionalPortfolio(constraint="long_only", random_state=0).fit(
        frame
    )
    display = FrontierDisplay.from_estimator(
        portfolio, frame, ax=Figure(figsize=(9, 7)).add_subplot()
    )
    np.testing.assert_allclose(
        display.scatter_.get_offsets().T, [RETURNS.std(axis=0), RETURNS.mean(axis=0)]
    )
    assert {label.get_text() for label in display.labels_} == set(frame.columns)
    r = RETURNS @ portfolio.weights_
    np.testing.assert_allclose(display.chosen, [r.std(), r.mean()])
    assert (
        len(display.risk) == 25
        and (np.diff(display.risk) < 1e-6).all()
        and (np.diff(display.mean) < 1e-6).all()
    )


def test_the_default_values_follow_the_unit_of_the_returns():
    portfolio = CompositionalPortfolio(constraint="long_only")
    small, large = (
        FrontierDisplay.from_estimator(portfolio, unit * RETURNS, ax=new_axes())
        for unit in (1e-4, 100.0)
    )
    np.testing.assert_allclose(small.weights_, large.weights_, atol=2e-3)


def test_fits_that_do_not_converge_are_said_once():
    portfolio = CompositionalPortfolio(
        constraint="long_only", max_iter=2, random_state=0
    )
    with pytest.warns(ConvergenceWarning) as caught:
        FrontierDisplay.from_estimator(
            portfolio, RETURNS, risk_aversions=[0.1, 1.0], ax=new_axes()
        )
    assert len(
        caught
    ) == 1 and "2 of the 2 portfolios of the frontier have not converged" in str(
        caught[0].message
    )


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
    texts = display.legend_.get_texts()
    assert texts[3].get_text().startswith("$3$ x") and len(texts[3].get_text()) < 30
    display.figure_.savefig(io.BytesIO())


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
def test_one_record():
    figure = ConvergenceDisplay({"a": [([0.0], [1.0])]}).plot().figure_
    figure.savefig(io.BytesIO())
