"""Tests of the commands for files of users: the map, portfolio and compare commands,
usage, and files of results."""

import contextlib
import io
import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import image
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc import CompositionalPortfolio, SNEEmbedding, __version__, whole_shares
from sk_stormc.__main__ import main
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.plotting import EmbeddingDisplay
from sk_stormc.preprocessing import TableScaler

RNG = np.random.default_rng(3)
POINTS = pd.DataFrame(RNG.normal(size=(24, 3)).round(4), columns=list("pqr"))
LABELS = np.tile(["a", "b"], 12)
DATES = pd.bdate_range("2023-01-02", periods=61, name="Date")
PRICES = pd.DataFrame(
    (50 * np.exp(0.01 * RNG.normal(size=(61, 3)).cumsum(axis=0))).round(2),
    DATES,
    ["oil", "gas", "gold"],
)
RETURNS = PRICES.pct_change().dropna()
DAYS = list(DATES[1:].strftime("%Y-%m-%d"))


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # maps of few iterations
    monkeypatch.setattr("sk_stormc.embedding.estimator.horizon", lambda *size: 15)
    RETURNS.to_csv("returns.csv")
    PRICES.to_csv("prices.csv")
    POINTS.assign(label=LABELS).to_csv("points.csv", index=False)


@pytest.fixture
def no_fit(monkeypatch):
    """A fit fails the test."""
    for estimator in (SNEEmbedding, CompositionalPortfolio):
        monkeypatch.setattr(estimator, "fit", lambda *args: pytest.fail("fitted"))


def run(*args, code=0):
    """What a command prints, or its error if it must end with another code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            found = main(list(map(str, args)))
        except SystemExit as exit:
            found = exit.code
    error = err.getvalue()
    assert found == code and error.count("error: ") == (code != 0), error
    return error if code else out.getvalue()


MAP = "map", "--perplexity", 4, "--data"
PORTFOLIO = "portfolio", "--unit", "fractions", "--data", "returns.csv"


def map_of(*args):
    """The table of positions of a map."""
    run(*MAP, *args, "--out", "positions.csv")
    return pd.read_csv("positions.csv", keep_default_na=False)


def weights_of(*args):
    """The weights of a portfolio."""
    run(*PORTFOLIO, "--risk-aversion", 30, *args, "--out", "weights.csv")
    return pd.read_csv("weights.csv", index_col="asset")["weight"]


def expected_map(points=POINTS, seed=0):
    embedding = SNEEmbedding(perplexity=4, random_state=seed)
    return embedding.fit_transform(np.asarray(points, dtype=float))


def expected_weights(returns=RETURNS, **params):
    params = {"risk_aversion": 30, "constraint": (0.0, 1.0), "budget": 1.0} | params
    return CompositionalPortfolio(random_state=0, **params).fit(returns).weights_


@pytest.mark.parametrize(
    "script, name",
    [("/usr/bin/sk-stormc", "sk-stormc"), ("__main__.py", "python -m sk_stormc")],
)
def test_usage_and_version(monkeypatch, script, name):
    monkeypatch.setattr(sys, "argv", [script])
    assert run("--help").startswith(f"usage: {name} [-h]")
    assert run("--version").startswith(f"sk_stormc {__version__}")


# --- maps
# ----------------------------------------------------------------------


def test_a_map_as_a_table_and_as_a_picture():
    table = map_of("points.csv")
    assert list(table) == ["x", "y", "label"] and list(table["label"]) == list(LABELS)
    np.testing.assert_allclose(table[["x", "y"]], expected_map(), rtol=1e-4, atol=1e-4)
    run(*MAP, "points.csv", "--out", "a.PNG", "--size", 4, 3)
    picture = image.imread("a.PNG")
    assert picture.shape[:2] == (450, 600) and picture.std() > 0.05
    dated = np.full(24, np.datetime64("2020-05-29", "ns"))
    np.savez("dated.npz", X=POINTS * [1, 9, 80], y=dated)
    table = map_of("dated.npz", "--seed", 5, "--standardize")
    assert set(table["label"]) == {"2020-05-29T00:00:00.000000000"}
    expected = expected_map(StandardScaler().fit_transform(POINTS), seed=5)
    np.testing.assert_allclose(table[["x", "y"]], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:The 'future.infer_string'")
def test_a_map_of_cells_in_several_colours():
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame(
        {"cell_type": pd.Categorical(LABELS.astype(object)), "depth": np.arange(24)},
        pd.Index([f"ACGT-{k}" for k in range(24)], dtype=object),
    )
    genes = pd.DataFrame(index=pd.Index(["CD3", "CD8", "CD19"], dtype=object))
    anndata.AnnData(POINTS.to_numpy(), obs=obs, var=genes).write_h5ad("a.h5ad")
    args = *MAP, "a.h5ad", "--label", "cell_type,CD3,depth"
    for _ in range(2):  # the second time it is the command's own file
        run(*args, "--out", "new.h5ad")
    new = anndata.read_h5ad("new.h5ad")
    np.testing.assert_allclose(new.obsm["X_tsne"], expected_map(), rtol=1e-4)
    assert list(new.obs_names) == list(obs.index)
    last = run(*args, "--out", "a.png").splitlines()[-1]
    assert last.endswith("a_cell_type.png, a_CD3.png, a_depth.png")
    table = map_of("a.h5ad", "--label", "cell_type,CD3")
    assert list(table) == ["x", "y", "label", "CD3", "row"]
    assert list(table["row"]) == list(obs.index)
    pytest.importorskip("plotly")
    run(*args, "--out", "a.html")
    with open("a.html", encoding="utf-8") as file:
        assert len(re.findall('"label":"(cell_type|CD3|depth)"', file.read())) == 3


MIXED = pd.DataFrame(
    {
        "id": np.arange(40),
        "size": np.arange(40) % 7,
        "colour": np.tile(["red", "blue"], 20),
        "since": [f"2024-01-{1 + k % 28:02}" for k in range(40)],
        "weight": np.where(np.arange(40) % 9 == 0, np.nan, np.arange(40) % 5),
        "constant": 1,
        "label": np.tile(["u", "v"], 20),
    }
)
NEW = pd.DataFrame(
    {"since": ["2024-01-05", "2024-01-06"], "weight": [3, None], "size": [2, 1],
     "constant": 1, "colour": ["red", "blue"]}
)  # fmt: skip


def test_a_map_of_a_mixed_table_with_new_rows(tmp_path):
    """The new rows have the same columns in another order."""
    pytest.importorskip("skrub")
    MIXED.to_csv("mixed.csv", index=False)
    NEW.to_csv("new.csv", index=False)
    mixed = *MAP, "mixed.csv", "--mixed"
    args = *mixed, "--new", "new.csv", "--out"
    out = run(*args, "map.csv")
    assert "40 points, 5 columns: size, colour, since, weight; labels: label" in out
    assert "constant (one value)" in out and "new.csv: 2 new points" in out
    frame = pd.read_csv("mixed.csv").drop(columns=["id", "label"])
    model = make_pipeline(TableScaler(), SNEEmbedding(perplexity=4, random_state=0))
    table = pd.read_csv("map.csv", keep_default_na=False)
    assert list(table) == ["x", "y", "label", "new"]
    assert table["new"].tolist() == [0] * 40 + [1] * 2
    assert table["label"].tolist() == ["u", "v"] * 20 + ["", ""]
    np.testing.assert_allclose(table[["x", "y"]][:40], model.fit(frame)[-1].embedding_)
    new = model.transform(pd.read_csv("new.csv")[list(frame)])
    np.testing.assert_allclose(table[["x", "y"]][40:], new)
    NEW.drop(columns="since").to_csv("less.csv", index=False)
    err = run(*mixed, "--new", "less.csv", "--out", "a.png", code=2)
    assert "less.csv: expected the columns ['size', 'colour', 'since', 'weight'" in err
    assert "overwrite the file of --new" in run(*args, "new.csv", code=2)
    np.save("a.npy", POINTS)
    np.save("two.npy", POINTS[["p", "q"]])
    err = run(*MAP, "a.npy", "--new", "two.npy", "--out", "a.png", code=2)
    assert "two.npy: expected the columns ['1', '2', '3'], found an array of 2" in err
    pytest.importorskip("plotly")
    run(*args, "map.html")
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "colour: %{customdata" in page and "2024-01-06" in page
    assert "constant:" not in page or "constant: %{customdata" in page


def test_islands_say_what_their_rows_have_in_common(monkeypatch):
    """Two groups that one column and one category tell apart."""
    monkeypatch.setattr("sk_stormc.embedding.estimator.horizon", lambda *size: 60)
    points = pd.DataFrame(RNG.normal(size=(120, 3)), columns=list("pqr"))
    points = points.assign(
        size=np.repeat([0, 50.0], 60), kind=np.repeat(["u", "v"], 60)
    )
    points.drop(columns="kind").to_csv("a.csv", index=False)
    out = run("map", "--data", "a.csv", "--perplexity", 9, "--out", "m.csv")
    own = [line for line in out.splitlines() if line.startswith("island")]
    assert len(own) == 2 and all("60 points: size" in line for line in own)
    found = {re.search(r"size (\S+) \(others (\S+)\)", line).groups() for line in own}
    assert found == {("0", "50"), ("50", "0")}
    positions = pd.read_csv("m.csv").to_numpy()
    rows = EmbeddingDisplay(positions).islands(points)
    assert {row["column"] for row in rows[:2]} == {"size", "kind"}
    kind = next(row for row in rows if row["column"] == "kind")
    assert kind["here"] in ("100% u", "100% v") and kind["elsewhere"] == "0%"
    for display, table, words in (
        (positions, points[1:], "a row for each of 120 points"),
        (points[["p", "q", "r"]], points, "two components"),
    ):
        with pytest.raises(ValueError, match=words):
            EmbeddingDisplay(display).islands(table)


# --- portfolios
# ----------------------------------------------------------------------


def test_weights_are_printed_and_written():
    limit = "--limit", "oil + gas <= 0.2"
    out = run(*PORTFOLIO, "--risk-aversion", 30, *limit, "--out", "w.csv")
    table = pd.read_csv("w.csv", index_col="asset")["weight"]
    expected = expected_weights(linear_constraints=([1, 1, 0], None, 0.2))
    np.testing.assert_allclose(table, expected)
    assert list(table.index) == list(RETURNS) and table["gold"] >= 0.8 - 1e-8
    assert f"gold   {table['gold']:.4f}" in out and "Weights written to w.csv" in out
    assert "risk measure variance, risk aversion 30, converged" in out
    weights = weights_of("--risk-measure", "cvar", "--bounds", "-0.5", "0.7")
    expected = expected_weights(risk_measure="cvar", constraint=(-0.5, 0.7))
    np.testing.assert_allclose(weights, expected, atol=1e-9)
    assert "largest ratio, converged" in run(*PORTFOLIO, "--objective", "ratio")
    assert "risk_aversion" in run(*PORTFOLIO, "--risk-aversion", "-1", code=2)
    out = run(*PORTFOLIO, "--max-risk", "0.006")
    assert "risk of at most 0.006, converged" in out and "deviation 0.006" in out


@pytest.mark.parametrize("factor", [1, 1e2, 1e4])
def test_a_unit_that_is_guessed_is_treated_as_one_that_is_given(factor):
    (factor * RETURNS).to_csv("returns.csv")
    unit = {1: "fractions", 1e2: "percent", 1e4: "basis-points"}[factor]
    for given in ([], ["--unit", unit]):
        args = "--data", "returns.csv", "--risk-aversion", 30, "--out", "w.csv"
        out = run("portfolio", *args, *given)
        weights = pd.read_csv("w.csv")["weight"]
        np.testing.assert_allclose(weights, expected_weights(), atol=1e-7)
        assert ("guessed" in out) == (not given) and ("divided" in out) == (factor > 1)


def test_from_prices_to_orders():
    for name in ("prices.parquet", "prices.feather", "prices.xlsx", "prices.npy"):
        if name.endswith("npy"):
            np.save(name, PRICES)
        else:
            pytest.importorskip("openpyxl" if name.endswith("xlsx") else "pyarrow")
            kind = "excel" if name.endswith("xlsx") else name[7:]
            write = getattr(PRICES.reset_index(), f"to_{kind}")
            write(name, **({"index": False} if name.endswith("xlsx") else {}))
    long = PRICES.melt(ignore_index=False, var_name="ticker", value_name="close")
    long.to_csv("long.csv")
    weights = expected_weights(risk_aversion=1, constraint=(0.2, 0.5))
    expected = whole_shares(weights, PRICES.iloc[-1], 10_000)
    # the second time prices.csv gives the command's own file
    names = "prices.csv", "prices.csv", "prices.parquet", "prices.feather"
    for name in (*names, "prices.xlsx", "prices.npy", "long.csv"):
        args = ["--data", name, "--prices", "--capital", 10_000, "--bounds", 0.2, 0.5]
        args += ["--long", "Date,ticker,close"] * (name == "long.csv")
        lines = run("portfolio", *args, "--out", "orders.csv").splitlines()
        table = pd.read_csv("orders.csv", index_col="asset").loc[:, "weight":]
        assert list(table) == ["weight", "price", "shares", "amount"]
        table = table if name.endswith("npy") else table.loc[PRICES.columns]
        np.testing.assert_allclose(table["weight"], weights, atol=1e-9)
        assert list(table["shares"]) == list(expected.shares), name
        np.testing.assert_allclose(table["amount"], expected.shares * PRICES.iloc[-1])
        assert f"cash {expected.cash:.2f} of 10,000.00" in lines
    earned = RETURNS.to_numpy() @ weights
    wealth = np.cumprod([1, *(1 + earned)])
    fall = 1 - (wealth / np.maximum.accumulate(wealth)).min()
    grown = weights * (1 + RETURNS.to_numpy()) / (1 + earned)[:, None]
    turnover = 126 * np.abs(grown - weights).sum(axis=1).mean()
    assert (
        f"a year of 252 periods, in sample: mean {252 * earned.mean():.2%}, deviation "
        f"{earned.std() * 252**0.5:.2%}, Sharpe "
        f"{earned.mean() / earned.std() * 252**0.5:.2f}, drawdown {fall:.2%}, "
        f"turnover {turnover:.2%}"
    ) in lines


def test_limits_forecasts_and_a_benchmark():
    means = {"gold": 0.01, "oil": 0.02, "gas": -0.01}
    pd.Series(means, name="mu").rename_axis("asset").to_csv("mu.csv")
    weights = weights_of("--expected-returns", "mu.csv")
    expected = expected_weights(expected_returns=[means[name] for name in RETURNS])
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    weights = weights_of("--benchmark", "gold")
    assert list(weights.index) == ["oil", "gas"]
    expected = expected_weights(RETURNS[["oil", "gas"]], benchmark=RETURNS["gold"])
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    pytest.importorskip("pyscipopt")
    least = "--risk-measure", "cvar", "--max-assets", 2, "--min-held", 0.3
    held = weights_of(*least)
    held = held[held > 1e-9]
    assert len(held) <= 2 and held.min() >= 0.3 - 1e-6
    assert held.sum() == pytest.approx(1)


def test_weights_of_several_files():
    pytest.importorskip("dask.dataframe")
    for k in range(3):
        RETURNS[20 * k : 20 * k + 20].reset_index().to_parquet(f"part-{k}.parquet")
    files = "portfolio", "--data", "part-*"
    own = "--unit", "fractions", "--risk-aversion", 30
    run(*files, *own, "--out", "w.csv")
    weights = pd.read_csv("w.csv")["weight"]
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)
    RETURNS[:20].mask(RETURNS.iloc[3, 1] == RETURNS).to_parquet("part-0.parquet")
    assert "'gas'" in run(*files, code=2)
    run(*files, "--drop-missing")


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%m/%d/%Y", "%d %b %Y"])
def test_a_walk_forward_as_a_text_and_a_table(form):
    """The dates are those of the file."""
    months = list(pd.date_range("2021-01-01", periods=24, freq="MS").strftime(form))
    returns = RETURNS[:24].set_axis(pd.Index(months, name="Date"))
    returns.to_csv("returns.csv")
    walk = "--walk-forward", 12, "--refit-every", 4, "--benchmark", "gold"
    out = run(*PORTFOLIO, *walk, "--out", "walk.csv")
    assert "3 fits on 12 periods, each held for 4" in out
    assert f"from {months[12]} to {months[-1]}" in out
    assert "annual return" in out and "1/N" in out
    table = pd.read_csv("walk.csv")
    assert list(table) == ["period", "portfolio", "1/N"]
    assert list(table["period"]) == months[12:]
    assets, own = returns[["oil", "gas"]], {"benchmark": returns["gold"][:12]}
    first = expected_weights(assets[:12], risk_aversion=1, **own)
    assert table["portfolio"][0] == pytest.approx(assets.iloc[12] @ first)


def test_a_walk_forward_with_forecasts_by_date_and_a_picture():
    forecasts = 0.0 * RETURNS[:24]
    forecasts.loc[DAYS[:16], "gas"] = 0.05
    forecasts.loc[DAYS[16:24], "oil"] = 0.05
    forecasts.to_csv("mu.csv")
    RETURNS[:24].to_csv("returns.csv")
    walk = "--walk-forward", 12, "--refit-every", 6, "--expected-returns", "mu.csv"
    run(*PORTFOLIO, *walk, "--out", "walk.csv")
    earned = pd.read_csv("walk.csv")["portfolio"]
    np.testing.assert_allclose(earned[:6], RETURNS["gas"][12:18], atol=1e-6)
    np.testing.assert_allclose(earned[6:], RETURNS["oil"][18:24], atol=1e-6)
    run(*PORTFOLIO, *walk, "--out", "walk.png")
    assert image.imread("walk.png").std() > 0.05


def test_errors_are_one_line(no_fit):
    for args, words in (
        (["--data", "nowhere.csv"], "No such file: nowhere.csv. A path"),
        (["--limit", "coal <= 1"], "'coal'"),
        (["--out", "a.png"], "--out must be a .csv file without --walk-forward"),
    ):
        assert words in run(*PORTFOLIO, *args, code=2)
    err = run("reproduce", "portfolio", "--data", "prices.csv", code=2)
    assert "prices.csv: expected returns, but" in err and "--unit" in err


def test_a_warning_is_a_line(monkeypatch, capsys):
    def shown(message, category, filename, lineno, file=None, line=None):
        """What Python does, and pytest does not."""
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))

    pd.DataFrame([dict.fromkeys(RETURNS, 0.001)]).to_csv("mu.csv", index=False)
    monkeypatch.setattr(warnings, "showwarning", shown)
    warnings.simplefilter("always")
    walk = "--walk-forward", 40, "--expected-returns", "mu.csv"
    assert main(list(map(str, (*PORTFOLIO, *walk)))) == 0
    err = capsys.readouterr().err
    assert err.count("fit ") == 1  # the line of progress
    warned = [line for line in err.splitlines() if "fit " not in line]
    assert len(warned) == 1 and warned[0].startswith("warning: expected_returns is one")


# --- comparisons
# ----------------------------------------------------------------------


def test_a_comparison_of_solvers(tmp_path):
    returns = make_gaussian_returns(200, 4, mean=0.2, random_state=0)
    np.savetxt("returns.csv", returns, delimiter=",")
    args = "--data", "returns.csv", "--solvers", "scgd,lbfgs", "--seeds", 1
    out = run("compare", *args, "--out", "here")
    assert "200 periods, 4 assets: 1, 2, 3, 4\nno dates, unit: " in out
    assert re.search(r"^lbfgs .*converged", out, re.MULTILINE)
    table = pd.read_csv("here/compare.csv")
    assert table["solver"].tolist() == ["scgd", "lbfgs"]
    assert table["passes_median"][1] > 0
    for name in ("compare_passes.png", "compare_seconds.png"):
        assert image.imread(tmp_path / "here" / name).std() > 0.02


# --- files of results
# ----------------------------------------------------------------------


def test_the_data_are_not_overwritten(tmp_path, no_fit):
    content = (tmp_path / "returns.csv").read_bytes()
    (tmp_path / "folder").mkdir()
    (tmp_path / "symbolic.csv").symlink_to("returns.csv")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "returns.csv")
    words = "error: --out must not overwrite the file of --data"
    for path in (
        "folder/../returns.csv",
        "symbolic.csv",
        "hard.csv",
        tmp_path / "returns.csv",
    ):
        for data, out in (("returns.csv", path), (path, "returns.csv")):
            for command in ("portfolio", "map"):
                assert words in run(command, "--data", data, "--out", out, code=2)
    (tmp_path / "returns.csv").rename(tmp_path / "compare.csv")
    (tmp_path / "b.png").symlink_to("compare.csv")
    for command, out in ((["compare"], "."), (["reproduce", "portfolio"], "b.png")):
        assert words in run(*command, "--data", "compare.csv", "--out", out, code=2)
    assert (tmp_path / "compare.csv").read_bytes() == content


@pytest.mark.parametrize("name", ["a.png", "a.pdf", "a.svg", "a.csv", "a.html"])
def test_only_results_of_a_command_are_replaced(tmp_path, name, monkeypatch):
    if name == "a.html":
        pytest.importorskip("plotly")
    np.save("a.npy", POINTS[:12])
    command = "map", "--data", "a.npy", "--perplexity", 2, "--size", 2, 2, "--out", name
    run(*command)
    run(*command)  # its own
    (tmp_path / name).write_bytes(b"a,b\n1,2\n")
    err = run(*command, code=2)
    assert f"no sk-stormc command wrote, got {name}; --force" in err
    assert (tmp_path / name).read_bytes() == b"a,b\n1,2\n"
    run(*command, "--force")


def test_results_are_not_replaced_before_a_fit(no_fit, tmp_path):
    for name in ("compare.csv", "portfolio.png"):
        (tmp_path / name).write_text("mine")
    for args in (
        [*PORTFOLIO, "--out", "compare.csv"],
        ["compare", "--data", "returns.csv", "--out", "."],
        ["reproduce", "portfolio"],
    ):
        assert "must not replace a file that no" in run(*args, code=2)
    forecasts = "--expected-returns", "prices.csv", "--out", "prices.csv"
    assert "the file of --expected-returns" in run(*PORTFOLIO, *forecasts, code=2)


def test_what_cannot_be_written_ends_a_map_before_its_fit(
    no_fit, monkeypatch, tmp_path
):
    points = np.tile(POINTS, (25, 1))
    for y, message in (
        (np.arange(600).astype(str), "classes, got 600"),
        (np.full(600, 1j), "names of classes, got complex128"),
    ):
        np.savez("a.npz", X=points, y=y)
        err = run("map", "--data", "a.npz", "--out", "map.png", code=2)
        assert err.startswith("error: a.npz: ") and message in err and ".csv" in err
    (tmp_path / "folder.png").mkdir()
    for out in ("folder.png", "nowhere/a.png", "a.gif"):
        err = run(*MAP, "points.csv", "--out", out, code=2)
        assert (
            "expected a .png, .pdf, .svg, .html, .csv, .h5ad file in an existing" in err
        )
        assert f"directory, got '{out}'" in err
    (tmp_path / "mine.png").touch()
    # as for a file of another user
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != "mine.png")
    err = run(*MAP, "points.csv", "--out", "mine.png", code=2)
    assert "expected a file that can be written, got 'mine.png'" in err


def test_optional_packages_are_named_before_the_fit(no_fit, monkeypatch):
    pytest.importorskip("skrub")
    MIXED.to_csv("mixed.csv", index=False)
    for package, out in (("skrub", "a.png"), ("plotly", "a.html")):
        with monkeypatch.context() as hidden:
            hidden.setitem(sys.modules, package, None)
            hidden.setitem(sys.modules, f"{package}.graph_objects", None)
            err = run("map", "--data", "mixed.csv", "--mixed", "--out", out, code=2)
        assert f"{package}: pip install" in err
