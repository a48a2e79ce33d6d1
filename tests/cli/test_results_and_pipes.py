"""Tests of what the commands write when the disk is full, of pipes and consoles, and
of files that do not fit."""

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from sk_stormc import SNEEmbedding, minimize
from sk_stormc.__main__ import main
from sk_stormc.callbacks import Checkpoint
from sk_stormc.cli.return_files import read_returns
from sk_stormc.plotting import EmbeddingDisplay
from sk_stormc.problems import PortfolioProblem
from sk_stormc.reproduce import report
from sk_stormc.utils.atomic import atomically

RNG = np.random.default_rng(0)
RETURNS = pd.DataFrame((0.01 * RNG.normal(size=(60, 3))).round(5), columns=list("abc"))
POINTS = RNG.normal(size=(24, 3))
LOG = pd.DataFrame(
    {"s": np.tile([0.5, 1.0], 30), "r": 1.0, "e": np.repeat(np.arange(20), 3)}
)
posix = pytest.mark.skipif(os.name != "posix", reason="limits, pipes and links")


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # maps of few iterations
    monkeypatch.setattr("sk_stormc.embedding.estimator.horizon", lambda *size: 5)
    RETURNS.to_csv("returns.csv", index=False)
    np.save("points.npy", POINTS)
    LOG.to_csv("log.csv", index=False)


# --- results are written as a whole
# ----------------------------------------------------------------------


def command(*args):
    return lambda: main(list(map(str, args)))


MAP = "map", "--data", "points.npy", "--perplexity", 4, "--out"
PORTFOLIO = "portfolio", "--data", "returns.csv", "--unit", "fractions"
WALK = *PORTFOLIO, "--walk-forward", 20, "--out"
STATES = "--state", "s", "--reward", "r", "--episode", "e"
PAPER = "reproduce", "portfolio", "--data", "returns.csv", "--methods", "lbfgs"
COMPARE = "compare", "--data", "returns.csv", "--solvers", "lbfgs", "--seeds", 1
DISPLAY = EmbeddingDisplay(POINTS[:, :2])


def report_of_the_paper(pictures=True):
    """The last steps of the full report, which takes minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "CLAIMS", [])
        for name in ("_measure", "theory", "count"):
            patch.setattr(report, name, lambda *args, **kwargs: {})
        patch.setattr(report.complexity, "run_complexity", lambda *args, **kw: {})
        patch.setattr(report.complexity, "draw_slopes", lambda measured: Figure((1, 1)))
        if not pictures:
            patch.setattr(report, "save_figure", lambda *args, **kwargs: None)
        patch.setattr(report, "report_text", lambda *args, **kwargs: "claim\n" * 2000)
        try:
            report.make_report(Path("."), True, False, lambda *args: None)
        except OSError as error:
            return print(error, file=sys.stderr) or 2
    return 0


def written(function):
    """A function of the library, as a command with an exit status."""

    def run():
        try:
            function()
        except OSError as error:
            return print(error, file=sys.stderr) or 2
        return 0

    return run


def checkpoint():
    problem, saved = PortfolioProblem(RETURNS.to_numpy()), Checkpoint("run.npz")
    minimize(problem, "storm-c", callbacks=[saved], max_ifo=5000, random_state=0)


WRITERS = {
    "map.png": command(*MAP, "map.png"),
    "map.csv": command(*MAP, "map.csv"),
    "map.html": command(*MAP, "map.html"),
    "weights.csv": command(*PORTFOLIO, "--out", "weights.csv"),
    "walk.csv": command(*WALK, "walk.csv"),
    "walk.png": command(*WALK, "walk.png"),
    "values.csv": command(
        "values", "--data", "log.csv", *STATES, "--out", "values.csv"
    ),
    "compare.csv": command(*COMPARE, "--out", "."),
    "paper.png": command(*PAPER, "--seeds", 1, "--out", "paper.png"),
    "report.md": lambda: report_of_the_paper(pictures=False),
    "complexity.png": report_of_the_paper,
    "page.html": written(lambda: DISPLAY.to_html("page.html")),
    "run.npz": written(checkpoint),
}


@posix
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_earlier_result(name, capsys, tmp_path):
    import resource

    if name.endswith(".html"):
        pytest.importorskip("plotly")
    assert WRITERS[name]() == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    capsys.readouterr()
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(20, len(before[name]) // 2), most))
    try:
        assert WRITERS[name]() == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    err = capsys.readouterr().err.splitlines()[-1]
    first = "compare.csv" if name.startswith("compare") else name
    assert "File too large" in err and first in err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@posix
def test_links_and_permissions_stay_as_they_are(tmp_path):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "weights.csv"
    os.umask(umask := os.umask(0o22))
    with atomically(target) as file:
        file.write(b"asset,weight\n")
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask
    target.chmod(0o640)
    os.symlink(target, "weights.csv")
    assert main([*map(str, PORTFOLIO), "--out", "weights.csv"]) == 0
    assert os.path.islink("weights.csv") and len(pd.read_csv(target)) == 3
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["weights.csv"]


# --- pipes and consoles
# ----------------------------------------------------------------------


@posix
@pytest.mark.parametrize("out", ["-", "/dev/stdout"])
def test_a_pipe_holds_the_result_alone(out, capfd, monkeypatch, tmp_path):
    with open("returns.csv", "rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        args = "portfolio", "--data", "-", "--out", out, "--unit", "fractions"
        assert main(list(args)) == 0
    out, err = capfd.readouterr()
    table = pd.read_csv(io.StringIO(out))
    assert list(table) == ["asset", "weight"]
    assert table["weight"].sum() == pytest.approx(1) and "3 assets" in err
    assert sorted(os.listdir()) == ["log.csv", "points.npy", "returns.csv"]


@posix
def test_named_pipes(capsys, tmp_path):
    for name in ("in", "out"):
        os.mkfifo(name)
    content, found = Path("returns.csv").read_bytes(), []
    feed = threading.Thread(target=Path("in").write_bytes, args=(content,))
    drain = threading.Thread(target=lambda: found.append(Path("out").read_bytes()))
    for thread in (feed, drain):
        thread.start()
    args = "portfolio", "--data", "in", "--out", "out", "--unit", "fractions"
    assert main(list(args)) == 0
    for thread in (feed, drain):
        thread.join(30)
    assert found[0].startswith(b"asset,weight\r\na,")
    assert Path("out").is_fifo()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_names_that_the_console_cannot_print(encoding, monkeypatch):
    greek = RETURNS.rename(columns={"a": "Αθήνα"})
    greek.to_csv("greek.csv", index=False)
    console = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", console)
    args = "portfolio", "--data", "greek.csv", "--unit", "fractions", "--out", "w.csv"
    assert main(list(args)) == 0
    console.flush()
    assert b"?????" in console.buffer.getvalue()
    assert list(pd.read_csv("w.csv", encoding="utf-8")["asset"]) == ["Αθήνα", "b", "c"]


def test_results_are_written_before_they_are_printed(monkeypatch):
    args = [*map(str, PORTFOLIO), "--out", "w.csv"]

    def closed(*args, **kwargs):
        if Path("w.csv").exists():
            raise BrokenPipeError

    monkeypatch.setattr("builtins.print", closed)
    with pytest.raises(BrokenPipeError):
        main(args)
    assert len(pd.read_csv("w.csv")) == 3


def test_without_docstrings(monkeypatch, capsys):
    """As with python -OO."""
    for name, module in list(sys.modules.items()):
        if name.startswith("sk_stormc."):
            monkeypatch.setattr(module, "__doc__", None)
    for args in ("--help", "map --help", "reproduce all --help"):
        with pytest.raises(SystemExit, match="^0$"):
            main(args.split())
        assert "usage: " in capsys.readouterr().out


# --- files that are none, or too large
# ----------------------------------------------------------------------


def test_directories_and_names_with_marks(capsys):
    os.mkdir("folder")
    assert main([*map(str, MAP[:2]), "folder", "--out", "a.png"]) == 2
    assert capsys.readouterr().err == (
        "error: folder is a directory: expected a file\n"
    )
    with pytest.raises(SystemExit):
        main([*map(str, PORTFOLIO), "--out", "folder"])
    if os.name == "posix":
        for name in ("b?.csv", "b*.csv"):
            RETURNS.to_csv(name, index=False)
            assert main(["portfolio", "--data", name]) == 0
            assert f"{name}: 60 rows x 3 columns" in capsys.readouterr().out


@posix
def test_a_table_that_does_not_fit_in_memory(capsys, monkeypatch):
    with gzip.open("big.csv.gz", "wb") as file:
        file.write(b"a,b\n" + b"0,1\n" * 200_000)
    monkeypatch.setattr("sk_stormc.cli.data_files.machine_memory", lambda: 5e6)
    monkeypatch.setattr(pd, "read_csv", lambda *args, **kw: pytest.fail("read"))
    assert main(["portfolio", "--data", "big.csv.gz"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: big.csv.gz: expected a table that fits in memory")
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["read_csv", "DataFrame.to_numpy"])
def test_memory_that_ends_while_a_table_is_read(capsys, monkeypatch, name):
    def full(*args, **kwargs):
        raise MemoryError("Unable to allocate 9 GiB")

    owner = pd.DataFrame if "." in name else pd
    monkeypatch.setattr(owner, name.rpartition(".")[2], full)
    assert main(["portfolio", "--data", "returns.csv"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: returns.csv: expected") and err.count("\n") == 1
    assert "fit" in err and "9 GiB" in err


def test_very_wide_texts_are_refused_by_their_header(capsys, monkeypatch):
    monkeypatch.setattr(pd, "read_csv", lambda *args, **kw: pytest.fail("read"))
    header = ",".join(f"c{k}" for k in range(200_000))
    Path("wide.csv").write_text(f"{header}\n{'1,' * 199_999}1\n")
    assert main(["map", "--data", "wide.csv", "--out", "a.png"]) == 2
    assert "wide.csv: " in (err := capsys.readouterr().err) and "100,000" in err


def test_only_one_array_of_an_archive_is_read(monkeypatch):
    np.savez("a.npz", returns=RETURNS, other=np.zeros((500, 500)))
    read, load = [], np.lib.npyio.NpzFile.__getitem__
    monkeypatch.setattr(
        np.lib.npyio.NpzFile,
        "__getitem__",
        lambda archive, name: read.append(name) or load(archive, name),
    )
    np.testing.assert_array_equal(read_returns("a.npz").values, RETURNS)
    assert read == ["returns"]


def test_objects_are_not_read(capsys, monkeypatch):
    monkeypatch.setattr(SNEEmbedding, "fit", lambda *args: pytest.fail("fitted"))
    np.save("a.npy", np.array([{"a": 1}] * 30).reshape(10, 3))
    assert main(["map", "--data", "a.npy", "--out", "a.png"]) == 2
    assert "a.npy: expected numpy arrays" in capsys.readouterr().err
