"""Tests of what an experiment shows: sk_stormc.plotting and the line of progress."""

import builtins
import io
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib import image

from sk_stormc.experiments import progress
from sk_stormc.experiments.progress import progress_line
from sk_stormc.plotting import plot_curves
from sk_stormc.solvers import SOLVERS

IFO = [0, 100, 1000]


def panels(*methods, ys=([8.0, 4.0, 2.0],)):
    return {"data": {method: [(IFO, *ys)] for method in methods}}


def line(figure, method, axes=0):
    return next(line for line in figure.axes[axes].get_lines() if line.get_label() == method)


def drawn(figure):
    """The picture as an array, through the same path as a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return image.imread(io.BytesIO(buffer.getvalue()))


def test_a_row_for_each_data_set_and_a_column_for_each_label():
    runs = [(IFO, [8, 4, 2], [3, 2, 1])]
    figure = plot_curves({"A": {"scgd": runs}, "B": {"scgd": runs, "mine": runs}}, ["gap", "gradient"])
    assert [ax.get_title() for ax in figure.axes] == ["gap", "gradient", "", ""]
    assert [ax.get_ylabel() for ax in figure.axes] == ["A", "", "B", ""]
    assert [ax.get_xlabel() for ax in figure.axes] == ["", "", "IFO", "IFO"]
    assert all(ax.get_yscale() == "log" for ax in figure.axes)
    np.testing.assert_allclose(line(figure, "mine", axes=3).get_ydata(), [3, 2, 1])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["scgd", "mine"]


def test_all_methods_differ_in_colour_and_line():
    names = [*SOLVERS, "other", "another"]
    lines = plot_curves(panels(*names), ["gap"]).axes[0].get_lines()
    assert len({(str(line._dash_pattern), line.get_linewidth()) for line in lines}) == len(names)
    assert len({(line.get_color(), line.get_linewidth()) for line in lines}) == len(names)


def test_a_solver_looks_the_same_in_every_picture():
    few, many = plot_curves(panels("storm-c"), ["gap"]), plot_curves(panels(*SOLVERS), ["gap"])
    assert line(few, "storm-c").get_color() == line(many, "storm-c").get_color()


def test_several_runs_give_their_median_and_a_band():
    runs = [(IFO, [8, 4, 2]), (IFO, [8, 5, 1]), (IFO[:2], [8, 1])]  # the last one ended early and holds 1
    ax = plot_curves({"data": {"storm-c": runs}}, ["gap"]).axes[0]
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), [8, 4, 1])
    (band,) = ax.collections
    points = {tuple(point) for point in np.round(band.get_paths()[0].vertices, 9)}
    # the quartiles: halfway between values on a logarithmic axis
    corners = {(100, 2), (100, np.sqrt(20)), (1000, 1), (1000, np.sqrt(2))}
    assert {tuple(point) for point in np.round(list(corners), 9)} <= points
    assert not plot_curves({"data": {"storm-c": runs[:1]}}, ["gap"]).axes[0].collections


@pytest.mark.filterwarnings("error")
def test_a_diverging_run_does_not_set_the_scale():
    calm, wild = [8.0, 4.0, 2.0], [8.0, 1e300, np.inf]
    figure = plot_curves({"data": {"lbfgs": [(IFO, calm)], "scgd": [(IFO, wild)]}}, ["gap"])
    low, high = figure.axes[0].get_ylim()
    assert low < 2 and 8 < high < 100
    assert line(figure, "scgd").get_ydata().max() > high  # it leaves at the top
    assert drawn(figure).std() > 0


@pytest.mark.parametrize("gap", [[8, 0, 0], [0, 0, 0]])
def test_a_gap_of_zero_is_below_the_picture(gap):
    figure = plot_curves(panels("storm-c", ys=(gap,)), ["gap"])
    assert figure.axes[0].get_lines()[0].get_ydata()[-1] < figure.axes[0].get_ylim()[0]
    assert drawn(figure).std() > 0


def test_the_start_is_at_the_left_edge():
    figure = plot_curves(panels("scgd"), ["gap"])
    ax = figure.axes[0]
    assert ax.get_xlim()[0] == 0
    assert list(ax.get_xticks()) == [0, 100, 300, 1000]


def test_a_run_of_one_record():
    figure = plot_curves({"data": {"scgd": [([0], [8.0])]}}, ["gap"])
    assert drawn(figure).std() > 0


def test_the_backend_and_pyplot_are_left_alone():
    backend = matplotlib.get_backend()
    plot_curves(panels("scgd"), ["gap"])
    assert matplotlib.get_backend() == backend
    assert not matplotlib._pylab_helpers.Gcf.figs


@pytest.mark.parametrize("empty", [{}, {"data": {}}])
def test_nothing_to_draw(empty):
    with pytest.raises(ValueError, match="panels must hold at least one row"):
        plot_curves(empty, ["gap"])


def test_a_run_that_does_not_fit_the_labels():
    with pytest.raises(ValueError, match="a run must be 3 arrays.*'scgd' has 2"):
        plot_curves(panels("scgd"), ["gap", "gradient"])


# --- the progress line --------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def without_rich(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_progress_in_a_log_has_a_line_for_each_text(capsys, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    with progress_line() as show:
        for text, fraction in (("a", 0.0), ("a", 0.2), ("b", 0.5)):
            show(text, fraction)
    assert capsys.readouterr().err == "  0 %  a\n 50 %  b\n"


def test_progress_on_a_terminal_without_rich(monkeypatch):
    without_rich(monkeypatch)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    with progress_line() as show:
        show("something long", 0.0)
        show("short", 0.25)
        show("short", 0.5)
    lines = terminal.getvalue().split("\r")
    assert [line.rstrip() for line in lines] == [
        "",
        "  0 %  something long",
        " 25 %  short",
        " 50 %  short",
        "",
        "",
    ]
    assert len(lines[2]) == len(lines[1])  # covers what was there


def test_progress_on_a_terminal_with_rich(monkeypatch):
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress_line() as show:
        show("data [of mine], storm-c", 0.5)
    assert "data [of mine], storm-c" in terminal.getvalue() and "50%" in terminal.getvalue()
