"""Tests of `reproduce sne`: the experiment, its file reader and its pictures."""

import numpy as np
import pytest
from matplotlib import image
from sklearn.datasets import load_iris

from sk_stormc.__main__ import main
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.plotting import plot_embeddings
from sk_stormc.problems import SNEProblem
from sk_stormc.reproduce.points_file import read_points
from sk_stormc.reproduce.sne import LABELS, METHODS, RANK_ONE, run_sne, starts

X, Y = load_iris(return_X_y=True)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_table_and_the_pictures(capsys, tmp_path):
    np.savez("iris.npz", X=X, y=Y)
    assert main(["reproduce", "sne", "--data", "iris.npz", "--ifo", "40000", "--seeds", "1", "--out", "a.png"]) == 0
    out, _ = capsys.readouterr()
    lines = out.splitlines()
    rows = [line for line in lines if line.startswith((*METHODS, RANK_ONE))][: len(METHODS) + 1]
    assert [row.split("  ")[0] for row in rows] == [*METHODS, RANK_ONE]
    assert "iris.npz: points of shape (150, 4)" in out and "stays on a line" in out
    assert "Pictures written to a.png and a_embedding.png" in out
    for name in ("a.png", "a_embedding.png"):
        picture = image.imread(tmp_path / name)
        assert min(picture.shape[:2]) > 300 and picture.std() > 0.05


@pytest.mark.slow
def test_runs_at_equal_ifo():
    runs = run_sne(X, n_components=2, max_ifo=60_000, n_seeds=2)
    assert [run.method for run in runs if run.seed == 0] == [*METHODS, RANK_ONE]
    final = {run.method: run.kl[-1] for run in runs}
    assert all(0.8 * 60_000 < run.ifo[-1] <= 60_000 for run in runs if run.method != "lbfgs")
    assert max(final[m] for m in ("scgd", "asc-pg", "vrsc-pg", "sarah-c", "storm-c")) < final["lbfgs"] + 0.05
    assert final["storm-c-paper"] > final["storm-c"] + 0.03  # one step for all points takes long
    line = next(run for run in runs if run.method == RANK_ONE).embedding
    assert np.linalg.svd(line - line.mean(axis=0), compute_uv=False)[1] < 1e-3


def test_the_progress_line_moves_within_a_run():
    seen = []
    X = load_iris().data
    run_sne(X, ["storm-c"], n_components=2, max_ifo=50_000, n_seeds=1, progress=lambda *shown: seen.append(shown[1]))
    assert len(set(seen)) >= 5 and seen == sorted(seen) and seen[0] == 0 and seen[-1] == pytest.approx(1, abs=0.05)


def test_the_pictures_show_the_gradient_beside_the_divergence():
    """The paper's other column: |grad Phi| of all data at each record, not an estimate."""
    (run,) = run_sne(X, ["storm-c"], n_components=2, max_ifo=50_000, n_seeds=1)
    P = perplexity_affinities(X, 30)
    problem = SNEProblem(P, 2)
    ends = [np.linalg.norm(problem.gradient(x.ravel())) for x in (starts(X, 2)[0], run.embedding)]
    assert len(run.gradient_norm) == len(run.ifo) > 10
    np.testing.assert_allclose(run.gradient_norm[[0, -1]], ends, rtol=1e-3)
    assert "exact gradient" in LABELS[1] and run.gradient_norm[-1] < 0.1 * run.gradient_norm[0]


def test_a_budget_too_small(capsys):
    assert main(["reproduce", "sne", "--ifo", "5000"]) == 2
    assert "--ifo must pay for at least ten iterations" in capsys.readouterr().err


def test_read_points(tmp_path):
    np.savez("a.npz", X=X, y=Y)
    np.savez("b.npz", anything=X)
    names = np.array(list("abc"))[Y]
    rows = [",".join([*map(repr, map(float, row)), name]) for row, name in zip(X, names, strict=True)]
    (tmp_path / "c.csv").write_text("\n".join(["p,q,r,s,Label", *rows]))
    for name in ("a.npz", "c.csv"):
        points, labels = read_points(name)
        np.testing.assert_allclose(points, X)
        np.testing.assert_array_equal(labels, Y)
    points, labels = read_points("b.npz")
    np.testing.assert_array_equal(points, X)
    assert labels is None


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.doc", "1,2", "named .npz, .npy, .csv, .tsv or .txt"),
        ("a.csv", "p,q\n1,2\n3", "as many numbers"),
        ("a.csv", "p,q\n1,2\n3,x", "expected numbers"),
        ("a.csv", "p,q\n1,2\n3,4", "at least 10 points"),
        ("a.csv", "p,q\n" + "1,nan\n" * 20, "all numbers finite"),
        ("a.npz", "no zip", "expected a .npz file"),
    ],
)
def test_bad_files(tmp_path, name, content, match):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name}.*{match}"):
        read_points(name)


def test_bad_arrays():
    np.savez("a.npz", p=X, q=X)
    with pytest.raises(ValueError, match="one two-dimensional array"):
        read_points("a.npz")
    np.savez("a.npz", X=X, y=Y[:3])
    with pytest.raises(ValueError, match="expected y of shape"):
        read_points("a.npz")


@pytest.mark.slow
def test_plot_embeddings():
    figure = plot_embeddings({"one": X[:, :2], "two": X[:, 2:], "three": X, "four": X, "five": X}, Y)
    assert [ax.get_title() for ax in figure.axes] == ["one", "two", "three", "four", "five"]
    drawn = figure.axes[1].collections[0].get_offsets()  # in another order, so that no class covers another
    np.testing.assert_array_equal(np.unique(drawn, axis=0), np.unique(X[:, 2:], axis=0))
    assert len(drawn) == len(X)
    assert len(plot_embeddings({"plain": X}).axes) == 1
    with pytest.raises(ValueError, match="at least one embedding"):
        plot_embeddings({})
