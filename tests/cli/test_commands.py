"""Tests of the commands for files of users: map and compare, usage, and files of
results."""

import csv
import re
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib import image
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc import SNEEmbedding, __version__
from sk_stormc.__main__ import main
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.preprocessing import TableScaler

RETURNS = make_gaussian_returns(60, 3, mean=0.5, random_state=0).round(3)
IRIS, KINDS = load_iris(return_X_y=True)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "script, name",
    [("/usr/bin/sk-stormc", "sk-stormc"), ("__main__.py", "python -m sk_stormc")],
)
def test_usage_and_version(monkeypatch, capsys, script, name):
    monkeypatch.setattr(sys, "argv", [script])
    for option, begin in (
        ("--help", f"usage: {name} [-h]"),
        ("--version", f"sk_stormc {__version__}"),
    ):
        with pytest.raises(SystemExit, match="^0$"):
            main([option])
        assert capsys.readouterr().out.startswith(begin)


# --- files of results
# ----------------------------------------------------------------------


def spellings(tmp_path, name):
    """The paths of a file."""
    (tmp_path / "folder").mkdir(exist_ok=True)
    (tmp_path / "symbolic.csv").symlink_to(name)
    (tmp_path / "hard.csv").hardlink_to(tmp_path / name)
    return [
        name,
        f"./{name}",
        f"folder/../{name}",
        str(tmp_path / name),
        "symbolic.csv",
        "hard.csv",
    ]


def test_the_data_are_not_overwritten(capsys, tmp_path):
    np.savetxt("mine.csv", RETURNS, delimiter=",")
    content = (tmp_path / "mine.csv").read_bytes()
    paths = spellings(tmp_path, "mine.csv")
    for command in ("portfolio", "map"):
        for data, out in [("mine.csv", path) for path in paths] + [
            (path, "mine.csv") for path in paths
        ]:
            assert main([command, "--data", data, "--out", out]) == 2
            out, err = capsys.readouterr()
            assert not out and err.startswith(
                "error: --out must not overwrite the file of --data"
            )
    (tmp_path / "mine.csv").rename(tmp_path / "compare.csv")
    assert main(["compare", "--data", "compare.csv", "--out", "."]) == 2
    (tmp_path / "b.png").symlink_to("compare.csv")
    assert (
        main(["reproduce", "portfolio", "--data", "compare.csv", "--out", "b.png"]) == 2
    )
    assert capsys.readouterr().err.count("error: --out must not overwrite") == 2
    assert (tmp_path / "compare.csv").read_bytes() == content


def test_what_cannot_be_written_ends_a_map_before_its_fit(
    capsys, monkeypatch, tmp_path
):
    monkeypatch.setattr(SNEEmbedding, "fit", lambda *args: pytest.fail("fitted"))
    points, many = np.tile(IRIS, (4, 1)), np.arange(600).astype(str)
    for y, message in (
        (many, "classes, got 600"),
        (np.full(600, 1j), "names of classes, got complex128"),
    ):
        np.savez("iris.npz", X=points, y=y)
        assert main(["map", "--data", "iris.npz", "--out", "map.png"]) == 2
        err = capsys.readouterr().err
        assert err.startswith("error: iris.npz: ") and message in err and ".csv" in err
    (tmp_path / "folder.png").mkdir()
    for out in ("folder.png", "nowhere/a.png", "a.gif"):
        with pytest.raises(SystemExit, match="^2$"):
            main(["map", "--data", "iris.npz", "--out", out])
        assert f"existing directory, got '{out}'" in capsys.readouterr().err
    (tmp_path / "mine.png").touch()
    # as for a file of another user
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != "mine.png")
    with pytest.raises(SystemExit, match="^2$"):
        main(["map", "--data", "iris.npz", "--out", "mine.png"])
    assert (
        "expected a file that can be written, got 'mine.png'" in capsys.readouterr().err
    )


# --- maps
# ----------------------------------------------------------------------


def test_a_map_of_points_as_a_picture_and_as_a_table(capsys):
    labels = np.array(["a", "b", "c"])[KINDS]
    np.savez("iris.npz", X=IRIS, y=labels)
    for out in ("map.png", "map.csv"):
        assert (
            main(["map", "--data", "iris.npz", "--out", out, "--perplexity", "10"]) == 0
        )
    assert "150 points, 4 columns" in capsys.readouterr().out
    assert image.imread("map.png").std() > 0.05
    expected = SNEEmbedding(perplexity=10, random_state=0).fit_transform(IRIS)
    table = np.genfromtxt(
        "map.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    np.testing.assert_array_equal(np.stack([table["x"], table["y"]], axis=1), expected)
    assert list(table["label"]) == list(labels)
    np.savez("dated.npz", X=IRIS[:30], y=np.full(30, np.datetime64("2020-05-29", "ns")))
    assert (
        main(["map", "--data", "dated.npz", "--out", "map.csv", "--perplexity", "5"])
        == 0
    )
    table = np.genfromtxt(
        "map.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    assert set(table["label"]) == {"2020-05-29T00:00:00.000000000"}


def test_a_map_of_standardized_columns(capsys):
    np.save("iris.npy", IRIS[::3])
    assert (
        main(
            [
                "map",
                "--data",
                "iris.npy",
                "--out",
                "iris.csv",
                "--perplexity",
                "10",
                "--standardize",
            ]
        )
        == 0
    )
    points = np.loadtxt("iris.csv", delimiter=",", skiprows=1)
    expected = SNEEmbedding(perplexity=10, random_state=0).fit_transform(
        StandardScaler().fit_transform(IRIS[::3])
    )
    np.testing.assert_allclose(points, expected, atol=0.1 * np.ptp(expected))
    for args, message in (
        (["--out", "map.bmp"], "expected a .png, .pdf, .svg, .html, .csv, .h5ad file"),
    ):
        with pytest.raises(SystemExit, match="^2$"):
            main(["map", "--data", "iris.npy", *args])
        assert message in capsys.readouterr().err


MIXED = "id,size,colour,since,weight,label\n" + "".join(
    f"{k},{k % 7},{('red', 'blue')[k % 2]},2024-01-{1 + k % 28:02},{'' if k % 9 == 0 else k % 5},{'uv'[k % 2]}\n"
    for k in range(40)
)


@pytest.fixture
def mixed_tables(tmp_path):
    """A table with columns of several types, and a file of new rows with the same
    columns in another order."""
    pytest.importorskip("skrub")
    (tmp_path / "mixed.csv").write_text(MIXED)
    (tmp_path / "new.csv").write_text(
        "since,weight,size,colour\n2024-01-05,3,2,red\n2024-01-06,,1,blue\n"
    )


def test_a_map_of_a_mixed_table(capsys, mixed_tables):
    args = ["map", "--data", "mixed.csv", "--perplexity", "5", "--out"]
    assert main([*args, "map.csv"]) == 2
    err = capsys.readouterr().err
    assert "found 'red' in column 'colour'; --label colour takes it as labels" in err
    assert main([*args, "map.csv", "--mixed", "--new", "new.csv"]) == 0
    out = capsys.readouterr().out
    assert (
        "40 points, 4 columns: size, colour, since, weight; labels: label" in out
        and "new.csv: 2 new points" in out
    )
    frame = pd.read_csv("mixed.csv").drop(columns=["id", "label"])
    model = make_pipeline(
        TableScaler(), SNEEmbedding(perplexity=5, random_state=0)
    ).fit(frame)
    table = pd.read_csv("map.csv", keep_default_na=False)
    assert (
        list(table) == ["x", "y", "label", "new"]
        and table["new"].tolist() == [0] * 40 + [1] * 2
    )
    assert table["label"].tolist() == ["u", "v"] * 20 + ["", ""]
    np.testing.assert_allclose(table[["x", "y"]][:40], model[-1].embedding_)
    np.testing.assert_allclose(
        table[["x", "y"]][40:], model.transform(pd.read_csv("new.csv")[list(frame)])
    )


def test_a_page_of_a_map_with_new_points(capsys, mixed_tables, tmp_path):
    pytest.importorskip("plotly")
    args = [
        "map",
        "--data",
        "mixed.csv",
        "--mixed",
        "--new",
        "new.csv",
        "--perplexity",
        "5",
        "--out",
    ]
    assert main([*args, "map.html"]) == 0 and main([*args, "map.png"]) == 0
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "colour: %{customdata" in page and "2024-01-06" in page
    assert image.imread("map.png").std() > 0.05


def test_new_points_that_do_not_fit(capsys, mixed_tables, tmp_path):
    args = [
        "map",
        "--data",
        "mixed.csv",
        "--mixed",
        "--out",
        "new.csv",
        "--new",
        "new.csv",
    ]
    assert (
        main(args) == 2
        and "--out must not overwrite the file of --new" in capsys.readouterr().err
    )
    (tmp_path / "less.csv").write_text("size,colour,weight\n1,red,2\n")
    assert (
        main(
            [
                "map",
                "--data",
                "mixed.csv",
                "--mixed",
                "--out",
                "a.png",
                "--new",
                "less.csv",
            ]
        )
        == 2
    )
    assert (
        "less.csv: expected the columns ['size', 'colour', 'since', 'weight'], found no"
        in capsys.readouterr().err
    )
    np.save("iris.npy", IRIS)
    np.save("two.npy", IRIS[:, :2])
    assert (
        main(["map", "--data", "iris.npy", "--out", "a.png", "--new", "two.npy"]) == 2
    )
    assert (
        "two.npy: expected the columns ['1', '2', '3', '4'], found an array of 2"
        in capsys.readouterr().err
    )


def test_optional_packages_are_named_before_the_fit(capsys, mixed_tables, monkeypatch):
    monkeypatch.setattr(SNEEmbedding, "fit", lambda *args: pytest.fail("fitted"))
    for package, args in (
        ("skrub", ["--out", "a.png"]),
        ("plotly", ["--out", "a.html"]),
    ):
        with monkeypatch.context() as hidden:
            hidden.setitem(sys.modules, package, None)
            hidden.setitem(sys.modules, f"{package}.graph_objects", None)
            assert main(["map", "--data", "mixed.csv", "--mixed", *args]) == 2
        assert f"{package}: pip install" in capsys.readouterr().err


# --- comparisons
# ----------------------------------------------------------------------


def test_a_comparison_of_solvers(capsys, tmp_path):
    np.savetxt(
        "returns.csv",
        make_gaussian_returns(300, 4, mean=0.2, random_state=0),
        delimiter=",",
    )
    args = [
        "compare",
        "--data",
        "returns.csv",
        "--solvers",
        "storm-c,lbfgs",
        "--seeds",
        "2",
        "--out",
        "here",
    ]
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "300 periods, 4 assets: 1, 2, 3, 4\nno dates, unit: " in out and re.search(
        r"^storm-c .*converged", out, re.MULTILINE
    )
    with open("here/compare.csv", newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["solver"] for row in table] == ["storm-c", "lbfgs"] and float(
        table[0]["passes_median"]
    ) > 0
    for name in ("compare_passes.png", "compare_seconds.png"):
        assert image.imread(tmp_path / "here" / name).std() > 0.02
