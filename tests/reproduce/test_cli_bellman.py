"""Tests of `reproduce bellman`."""

import numpy as np
import pytest
from matplotlib import image

from sk_stormc.__main__ import main
from sk_stormc.datasets import make_bellman_problem
from sk_stormc.reproduce.bellman import METHODS, draw, run_bellman


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_table_and_the_picture(capsys, tmp_path):
    assert main(["reproduce", "bellman", "--ifo", "3000", "--seeds", "1", "--out", "b.png"]) == 0
    out, _ = capsys.readouterr()
    assert "n Phi: 47.8389 at the minimum (least squares), 100.0195 at w_0." in out
    for row in ("checkpoint f 1    storm-c-paper", "checkpoint f 100  vrsc-pg", "momentum .02      storm-c-paper"):
        assert row in out
    assert image.imread(tmp_path / "b.png").std() > 0.05


@pytest.mark.slow
def test_cases():
    model = make_bellman_problem(40, 10, random_state=0)
    runs = run_bellman(model, max_ifo=20_000, n_seeds=2)
    last = {(r.case, r.method): r.gap[-1] / r.gap[0] for r in runs if r.seed == 0}
    assert set(last) == {("checkpoint f 1", name) for name in METHODS} | {
        ("checkpoint f 100", "vrsc-pg"),
        ("checkpoint f 100", "sarah-c"),
        ("momentum .02", "storm-c-paper"),
    }
    assert last["checkpoint f 1", "storm-c"] < 1e-6 and last["checkpoint f 1", "lbfgs"] < 1e-6
    # more is sampled than with one component of f, and charged
    ifo = {(r.case, r.method): r.ifo for r in runs}
    assert np.diff(ifo["checkpoint f 100", "vrsc-pg"]).max() >= 99
    assert all(r.ifo[-1] <= 20_000 or r.method == "lbfgs" for r in runs)


def test_one_method():
    runs = run_bellman(make_bellman_problem(20, 5, random_state=0), ["sarah-c"], max_ifo=5000, n_seeds=1)
    assert [r.case for r in runs] == ["checkpoint f 1", "checkpoint f 100"]
    with pytest.raises(ValueError, match="methods"):
        run_bellman(methods=["adam"])


@pytest.mark.slow
def test_the_picture_can_be_read():
    """Curves that lie on one another hid each other, rows were "checkpoint f 1", axes had one or two ticks."""
    runs = run_bellman(make_bellman_problem(40, 10, random_state=0), max_ifo=9000, n_seeds=1)
    figure = draw(runs)
    figure.canvas.draw()
    rows = [ax.get_ylabel().replace("\n", " ") for ax in figure.axes[::2]]
    assert rows[0] == "published constants, checkpoints with 1 component of f"
    assert "automatic steps, in a metric" in rows
    for ax in figure.axes:
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        assert sum(left <= x <= right for x in ax.get_xticks()) >= 4
        assert sum(low <= y <= high for y in ax.get_yticks()) >= 3
        lines = ax.get_lines()
        assert len({line.get_marker() for line in lines}) == len(lines)
        assert len({line.get_markevery() for line in lines}) == len(lines)
    legend = {text.get_text() for text in figure.legends[0].get_texts()}
    assert len(figure.legends) == 1 and {name.split(" ")[0] for name in legend} == set(METHODS)
    assert "asc-pg (on the curve of scgd)" in legend
    assert sum("on the curve" in name for name in legend) < 3
