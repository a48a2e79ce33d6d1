"""Tests of what the commands say that they read, and of the files of prices, logs,
cells and sheets that people have."""

import contextlib
import io
import re

import numpy as np
import pandas as pd
import pytest

from sk_stormc import CompositionalPortfolio, SNEEmbedding, whole_shares
from sk_stormc.__main__ import main
from sk_stormc.datasets import returns_from_prices
from sk_stormc.plotting import EmbeddingDisplay

RNG = np.random.default_rng(5)
DAYS = pd.bdate_range("2023-01-02", periods=200, name="Date")
NAMES = ["AAPL", "MSFT", "XOM"]
PRICES = pd.DataFrame(
    (50 * np.exp(0.01 * RNG.normal(size=(200, 3)).cumsum(axis=0))).round(2),
    DAYS,
    NAMES,
)
VOLUMES = pd.DataFrame(RNG.integers(1e6, 1e8, (200, 3)), DAYS, NAMES)
RETURNS = PRICES.pct_change().dropna()
POINTS = pd.DataFrame(RNG.normal(size=(30, 3)).round(3), columns=list("pqr"))
TWO = np.tile(["a", "b"], 15)
PLAIN = {"index": False}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*args):
    """The exit status of a command, its lines, and its error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(map(str, args)))
        except SystemExit as exit:
            code = exit.code
    assert "Traceback" not in err.getvalue()
    return code, out.getvalue().splitlines(), err.getvalue()


def check(command, *args):
    """The lines of --check, which must succeed."""
    code, lines, err = run(command, "--data", *args, "--check")
    assert code == 0, err
    return lines


def both_levels():
    """As yfinance downloads prices: two levels of names, and a row for the index."""
    parts = {"Close": PRICES, "High": PRICES * 1.01, "Volume": VOLUMES}
    return pd.concat(parts, axis=1, names=["Price", "Ticker"])


def marked(form):
    return [form.format(k) for k in range(30)]


GERMAN = {"sep": ";", "decimal": ",", **PLAIN}
UNITS = pd.concat([pd.DataFrame([["cm", "kg", "%"]], columns=list("pqr")), POINTS])
LONG = PRICES.rename_axis(columns="ticker").stack().rename("close").reset_index()
LOG = pd.DataFrame(
    {
        "obs": [f"[{a:.2f} {b:.2f}]" for a, b in RNG.normal(size=(300, 2))],
        "reward": 1.0,
        "episode": np.repeat(np.arange(30), 10),
        "terminated": np.tile([0] * 9 + [1], 30),
        "t": np.tile(np.arange(10), 30),
        "note": "x",
    }
)

# name: command, frame, how it is written, options, what the lines have
READ = {
    "prices with volumes, two levels": (
        "portfolio",
        both_levels(),
        {},
        ["--prices"],
        ["names in 3 rows", "3 assets: Close AAPL, Close MSFT, Close XOM; dates: Date",
         "Volume AAPL, Volume MSFT, Volume XOM (volumes)", "High AAPL", "2023-01-03 to"],
    ),
    "prices with volumes, flat": (
        "portfolio",
        pd.concat([PRICES.add_suffix(" Close"), VOLUMES.add_suffix(" Volume")], axis=1),
        {},
        ["--prices"],
        ["3 assets: AAPL Close, MSFT Close, XOM Close", "XOM Volume (volumes)"],
    ),
    "one share": (
        "portfolio",
        PRICES[["AAPL"]].set_axis(["Close"], axis=1).assign(Open=1.0, Volume=7),
        {},
        ["--prices"],
        ["1 assets: Close", "Volume (volumes)", "Open (not the adjusted or closing"],
    ),
    "adjusted prices": (
        "portfolio",
        PRICES[["AAPL"]].set_axis(["Close"], axis=1).assign(**{"Adj Close": PRICES.XOM}),
        {},
        ["--prices"],
        ["1 assets: Adj Close", "Close (not the adjusted or closing prices)"],
    ),
    "names that contain words of prices": (
        "portfolio",
        RETURNS.set_axis(["Low Volatility", "Open Text", "High Yield"], axis=1),
        {},
        [],
        ["3 assets: Low Volatility, Open Text, High Yield"],
    ),
    "returns and a rate": (
        "portfolio",
        RETURNS.assign(RF=np.linspace(1e-4, 2e-4, 199)),
        {},
        [],
        ["4 assets: AAPL, MSFT, XOM, RF"],
    ),
    "a benchmark": (
        "portfolio",
        RETURNS,
        {},
        ["--benchmark", "XOM"],
        ["2 assets: AAPL, MSFT; dates: Date; benchmark: XOM"],
    ),
    "a long table": (
        "portfolio",
        LONG.assign(exchange="NYSE"),
        PLAIN,
        ["--prices", "--long", "Date,ticker,close"],
        ["199 periods, 3 assets: AAPL, MSFT, XOM", "exchange (not in --long)",
         "values: close; names of the assets: ticker"],
    ),
    "percent signs": (
        "portfolio",
        RETURNS.map(lambda x: f"{100 * x:.2f}%"),
        {},
        [],
        ["unit: percent (by the signs), percent divided by 100"],
    ),
    "German thousands with decimals": (
        "map",
        POINTS.assign(s=marked("1.0{:02},50"), share=marked("{},5 %")),
        GERMAN,
        [],
        ["5 columns", "s ('1.000,50' is 1000.5)", "share ('0,5 %' is 0.5)"],
    ),
    "thousands and currencies": (
        "map",
        POINTS.assign(s=marked("1,0{:02}"), cost=marked("€ {}"), loss=marked("({}.5)")),
        PLAIN,
        [],
        ["6 columns", "s ('1,000' is 1000)", "cost ('€ 0' is 0)", "is -0.5"],
    ),
    "quoted decimal commas": (
        "portfolio",
        RETURNS.map(lambda x: f"{x:.6f}".replace(".", ",")),
        {},
        [],
        ["3 assets", "texts read as numbers: AAPL"],
    ),
    "a row of units": (
        "map",
        UNITS,
        PLAIN,
        [],
        ["30 points", "row 2 left out, as units: cm, kg, %"],
    ),
    "a row of sums": (
        "map",
        pd.concat([POINTS, POINTS.sum().to_frame().T]),
        PLAIN,
        [],
        ["31 points", "the last row has the sums of the others, --drop-last 1"],
    ),
    "a row of sums that is left out": (
        "map",
        pd.concat([POINTS, POINTS.sum().to_frame().T]),
        PLAIN,
        ["--drop-last", 1],
        ["30 points", "without the last 1 rows"],
    ),
    "turnover, and no identifiers": (
        "map",
        POINTS.assign(turnover=RNG.permutation(30) * 7919),
        PLAIN,
        [],
        ["left out: turnover (all values differ, --keep keeps them)"],
    ),
    "UTF-16": (
        "map",
        POINTS,
        {"sep": "\t", "encoding": "utf-16", **PLAIN},
        [],
        ["in the encoding UTF-16", "30 points, 3 columns"],
    ),
    "names in rows, and an index without a name": (
        "map",
        POINTS.assign(code=[f"cell {k}" for k in range(30)]),
        {},
        [],
        ["names of the rows: code", "left out: column 1 (all values differ"],
    ),
    "more than eight columns": (
        "map",
        pd.DataFrame(RNG.normal(size=(20, 12)), columns=[f"x{k}" for k in range(12)]),
        PLAIN,
        [],
        ["x0, x1, x2, x3, x4, x5, x6, x7, ... (12 in all)"],
    ),
    "a log with usual names, and vectors as texts": (
        "values",
        LOG,
        PLAIN,
        [],
        ["300 transitions, 30 episodes, state: obs[0], obs[1]; reward: reward",
         "terminal: terminated; time: t", "left out: note (named by no option)",
         "obs read as 2 numbers"],
    ),
    "a log with next states and done": (
        "values",
        LOG.assign(s=1.0, next_s=2.0).rename(columns={"terminated": "done"}).drop(
            columns=["obs", "note"]
        ),
        PLAIN,
        [],
        ["state: s; next state: next_s", "'done' counts as the end of an episode"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_is_read_is_said(case):
    command, frame, form, options, words = READ[case]
    frame.to_csv("a.csv", **form)
    lines = check(command, "a.csv", *options)
    block = lines[: lines.index("")]
    assert (
        len(block) <= 6
        and block[0].startswith(f"a.csv: {len(frame) - ('units' in case)} rows")
        or ("left out" in case or "two levels" in case)
    )
    for word in words:
        assert word in "\n".join(block)
    assert len(lines) - len(block) == 5  # an empty line, the names and three rows


REFUSED = {
    "prices": ("portfolio", PRICES, {}, [], "of prices, in AAPL, MSFT, XOM: --prices"),
    "prices with volumes": (
        "portfolio",
        pd.concat([PRICES, VOLUMES.add_suffix(" traded")], axis=1),
        {},
        [],
        "AAPL traded, MSFT traded, XOM traded may be volumes: --drop",
    ),
    "one price among returns": (
        "portfolio",
        RETURNS.assign(gold=PRICES["XOM"][1:]),
        {},
        [],
        "of prices, in gold",
    ),
    "the last days again": (
        "portfolio",
        pd.concat([RETURNS, RETURNS[-4:]]),
        {},
        [],
        "found 4 of them more than once, such as 2023-10-03, 2023-10-04, 2023-10-05",
    ),
    "a long table": ("portfolio", LONG, PLAIN, [], "--long Date,ticker,close"),
    "a long table with a row twice": (
        "portfolio",
        pd.concat([LONG, LONG[:1]]),
        PLAIN,
        ["--prices", "--long", "Date,ticker,close"],
        "found 'AAPL' twice on 2023-01-02",
    ),
    "a missing price": (
        "portfolio",
        PRICES.assign(AAPL=PRICES["AAPL"].mask(DAYS[7] == DAYS)),
        {},
        ["--prices"],
        "one is missing of 'AAPL' at 2023-01-11",
    ),
    "signs in some columns": (
        "portfolio",
        RETURNS.assign(AAPL=[f"{x:.2f}%" for x in RETURNS["AAPL"]]),
        {},
        [],
        "found percent signs in column 'AAPL', and none in 'MSFT'",
    ),
    "a unit of prices": (
        "portfolio",
        PRICES,
        {},
        ["--prices", "--unit", "percent"],
        "--unit says nothing about prices",
    ),
    "capital without prices": (
        "portfolio",
        RETURNS,
        {},
        ["--capital", 1000],
        "--capital needs --prices",
    ),
    "no such benchmark": (
        "portfolio",
        RETURNS,
        {},
        ["--benchmark", "SPY"],
        "--benchmark must name a column, got 'SPY', expected one of ['AAPL'",
    ),
    "one period": ("portfolio", RETURNS[:1], {}, [], "at least two periods, found 1"),
    "no rows": ("map", POINTS[:0], PLAIN, [], "expected rows and columns of numbers"),
    "thousands that may be fractions": (
        "map",
        POINTS.round(0).assign(s="1,234"),
        {"sep": "\t", **PLAIN},
        ["--sep", r"\t"],
        "found '1,234', which may be 1.234 or 1234; --decimal says",
    ),
    "states that nearly all differ": (
        "values",
        LOG.assign(obs=[f"s{k % 290}" for k in range(300)]),
        PLAIN,
        [],
        "found 290 different values of 300 in column 'obs', such as 's0'",
    ),
    "no states": (
        "values",
        LOG.drop(columns="obs"),
        PLAIN,
        [],
        "--state must name a column of --data, got none, expected some of ['reward'",
    ),
    "a sheet of a text": (
        "map",
        POINTS,
        PLAIN,
        ["--sheet", 2],
        "--sheet says nothing about .csv, but about .xlsx",
    ),
    "all rows dropped": ("map", POINTS, PLAIN, ["--drop-last", 30], "must leave some"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_with_one_line(case):
    command, frame, form, options, words = REFUSED[case]
    frame.to_csv("a.csv", **form)
    code, _, err = run(command, "--data", "a.csv", *options, "--check")
    assert code == 2 and words in err and err.count("\n") == 1


# --- from prices to orders
# ----------------------------------------------------------------------


def test_from_prices_to_orders():
    PRICES.to_csv("prices.csv")
    args = "--data", "prices.csv", "--prices", "--capital", 10_000, "--bounds", 0.2, 0.5
    code, lines, err = run("portfolio", *args, "--out", "orders.csv")
    assert code == 0, err
    model = CompositionalPortfolio(constraint=(0.2, 0.5), budget=1.0, random_state=0)
    weights = model.fit(RETURNS).weights_
    expected = whole_shares(weights, PRICES.iloc[-1], 10_000)
    table = pd.read_csv("orders.csv", index_col="asset")
    assert list(table) == ["weight", "price", "shares", "amount"]
    np.testing.assert_allclose(table["weight"], weights)
    assert list(table["shares"]) == list(expected.shares)
    np.testing.assert_allclose(table["amount"], expected.shares * PRICES.iloc[-1])
    assert f"cash {expected.cash:.2f} of 10,000.00" in lines
    assert run("portfolio", *args, "--out", "orders.csv")[0] == 0  # its own file
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


def test_the_weights_of_prices_are_those_of_their_returns():
    both_levels().to_csv("prices.csv")
    RETURNS.to_csv("returns.csv")
    found = []
    for args in (["prices.csv", "--prices"], ["returns.csv", "--unit", "fractions"]):
        code, _, err = run("portfolio", "--data", *args, "--out", "w.csv")
        assert code == 0, err
        found.append(pd.read_csv("w.csv")["weight"])
    np.testing.assert_allclose(*found, atol=1e-9)


@pytest.mark.parametrize("walk", [[], ["--walk-forward", 60]])
def test_a_benchmark_is_subtracted_and_no_asset(walk):
    RETURNS.to_csv("a.csv")
    args = "--data", "a.csv", "--benchmark", "XOM", "--unit", "fractions", *walk
    code, lines, err = run("portfolio", *args, "--risk-aversion", 30, "--out", "w.csv")
    assert code == 0, err
    if walk:
        return
    model = CompositionalPortfolio(
        constraint=(0.0, 1.0), budget=1.0, risk_aversion=30, benchmark=RETURNS["XOM"]
    )
    expected = model.fit(RETURNS[["AAPL", "MSFT"]]).weights_
    table = pd.read_csv("w.csv")
    assert list(table["asset"]) == ["AAPL", "MSFT"]
    np.testing.assert_allclose(table["weight"], expected, atol=1e-6)


# --- sheets, cells, arrays
# ----------------------------------------------------------------------


def test_sheets_are_chosen_and_named():
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter("a.xlsx") as writer:
        for name, frame in (("one", POINTS), ("two", UNITS)):
            frame.to_excel(writer, sheet_name=name, index=False, startrow=2)
    first = "\n".join(check("map", "a.xlsx"))
    assert "sheet 'one' of 2, --sheet reads another, ['two']" in first
    for sheet in ("two", 2):
        lines = "\n".join(check("map", "a.xlsx", "--sheet", sheet))
        assert "sheet 'two' of 2" in lines and "30 points" in lines and "cm" in lines
    code, _, err = run("map", "--data", "a.xlsx", "--sheet", "three", "--check")
    assert code == 2 and "a name or a number of ['one', 'two'], got 'three'" in err


def test_merged_names_of_a_sheet():
    pytest.importorskip("openpyxl")
    both_levels().to_excel("a.xlsx")
    lines = "\n".join(check("portfolio", "a.xlsx", "--prices"))
    assert "3 assets: Close AAPL, Close MSFT, Close XOM" in lines


@pytest.mark.filterwarnings("ignore:The 'future.infer_string'")
def test_cells_are_mapped_by_their_components_and_get_positions():
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    obs = pd.DataFrame(
        {"cell_type": pd.Categorical(TWO.astype(object)), "depth": rng.random(30)},
        pd.Index([f"ACGT-{k}" for k in range(30)], dtype=object),
    )
    genes = pd.DataFrame(index=pd.Index(["CD3", "CD8"], dtype=object))
    counts = rng.poisson(3.0, (30, 2)).astype(float)
    cells = anndata.AnnData(counts, obs=obs, var=genes)
    cells.write_h5ad("raw.h5ad")
    assert "whole numbers, as raw counts are" in "\n".join(check("map", "raw.h5ad"))
    cells.obsm["X_pca"] = rng.normal(size=(30, 4))
    cells.layers["log"] = np.log1p(counts)
    cells.write_h5ad("a.h5ad")
    lines = "\n".join(check("map", "a.h5ad"))
    assert "matrix obsm 'X_pca'" in lines and "--layer log" in lines
    assert "matrix layer 'log'" in "\n".join(check("map", "a.h5ad", "--layer", "log"))
    assert "matrix X" in "\n".join(check("map", "a.h5ad", "--layer", "X"))
    code, _, err = run("map", "--data", "a.h5ad", "--obsm", "X_umap", "--check")
    assert code == 2 and "--obsm must be one of ['X_pca'], got 'X_umap'" in err
    args = "--data", "a.h5ad", "--perplexity", 5, "--label", "cell_type,CD3,depth"
    code, lines, err = run("map", *args, "--out", "new.h5ad")
    assert code == 0, err
    new = anndata.read_h5ad("new.h5ad")
    model = SNEEmbedding(perplexity=5, random_state=0)
    expected = model.fit_transform(cells.obsm["X_pca"])
    np.testing.assert_allclose(new.obsm["X_tsne"], expected, rtol=1e-5)
    assert list(new.obs_names) == list(obs.index)
    assert run("map", *args, "--out", "new.h5ad")[0] == 0
    code, lines, err = run("map", *args, "--out", "a.png")
    assert code == 0 and lines[-1].endswith("a_cell_type.png, a_CD3.png, a_depth.png")
    pytest.importorskip("plotly")
    assert run("map", *args, "--out", "a.html")[0] == 0
    with open("a.html", encoding="utf-8") as file:
        assert len(re.findall('"label":"(cell_type|CD3|depth)"', file.read())) == 3


def test_nested_columns_and_lists():
    pytest.importorskip("pyarrow")
    vectors = list(RNG.normal(size=(30, 2)))
    POINTS.assign(d=[{"a": 1}] * 30, v=vectors).to_parquet("a.parquet")
    for mixed in ([], ["--mixed"]):
        if mixed:
            pytest.importorskip("skrub")
        lines = "\n".join(check("map", "a.parquet", *mixed))
        assert "left out: d (lists or records)" in lines and "v read as 2" in lines
        assert "5 columns" in lines


def test_check_writes_nothing_and_needs_no_out(tmp_path):
    POINTS.to_csv("a.csv", index=False)
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    before = sorted(tmp_path.iterdir())
    assert check("map", "a.csv", "--out", "mine.csv") == check("map", "a.csv")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "mine.csv").read_text() == "a,b\n1,2\n"
    code, _, err = run("map", "--data", "a.csv")
    assert code == 2 and "--out must name a file, got none" in err


def test_lines_above_the_names(tmp_path):
    text = POINTS.to_csv(index=False)
    (tmp_path / "a.csv").write_text(f"Report\nmade today\n\n{text}")
    code, _, err = run("map", "--data", "a.csv", "--check")
    assert code == 2 and "--skip-rows N leaves out N lines" in err
    assert "30 points, 3 columns" in check("map", "a.csv", "--skip-rows", 3)[1]


def test_a_monitor_log_is_told_what_it_lacks(tmp_path):
    (tmp_path / "monitor.csv").write_text('#{"env_id": "x", "t": 1}\nr,l,t\n1,2,3\n')
    code, _, err = run("values", "--data", "monitor.csv", "--check")
    assert code == 2 and "a log of Monitor" in err and "it lacks states" in err


def test_a_log_in_any_order_with_times():
    log = LOG.drop(columns=["obs", "note"]).assign(s=np.tile([0.0, 1.0], 150))
    log.to_csv("log.csv", index=False)
    log.sample(frac=1, random_state=0).to_csv("mixed.csv", index=False)
    ordered, mixed = (
        run("values", "--data", name)[1][4:] for name in ("log.csv", "mixed.csv")
    )
    assert ordered == mixed and len(ordered) > 3


def test_islands_say_what_their_rows_have_in_common():
    """Two groups that one column and one category tell apart."""
    points = pd.DataFrame(RNG.normal(size=(120, 3)), columns=list("pqr")).assign(
        size=np.repeat([0.0, 50.0], 60), kind=np.repeat(["u", "v"], 60)
    )
    points.drop(columns="kind").to_csv("a.csv", index=False)
    code, lines, err = run(
        "map", "--data", "a.csv", "--perplexity", 9, "--out", "m.csv"
    )
    assert code == 0, err
    own = [line for line in lines if line.startswith("island")]
    assert len(own) == 2 and all("60 points: size" in line for line in own)
    assert {re.search(r"size (\S+) \(others (\S+)\)", line).groups() for line in own} == {
        ("0", "50"), ("50", "0")
    }  # fmt: skip
    positions = pd.read_csv("m.csv").to_numpy()
    rows = EmbeddingDisplay(positions).islands(points)
    assert {row["column"] for row in rows[:2]} == {"size", "kind"}
    kind = next(row for row in rows if row["column"] == "kind")
    assert kind["here"] in ("100% u", "100% v") and kind["elsewhere"] == "0%"
    with pytest.raises(ValueError, match="a row for each of 120 points"):
        EmbeddingDisplay(positions).islands(points[1:])
    with pytest.raises(ValueError, match="two components"):
        EmbeddingDisplay(points[["p", "q", "r"]]).islands(points)


# --- odd tables by the thousand
# ----------------------------------------------------------------------


def odd_column(rng, n):
    """A column of one of many kinds."""
    kinds = [
        lambda: rng.normal(size=n),
        lambda: rng.integers(0, 5, n),
        lambda: rng.permutation(n),
        lambda: rng.choice(["a", "b", "c"], n),
        lambda: [f"id {k}" for k in range(n)],
        lambda: np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        lambda: [f"{x:.1f}%" for x in rng.normal(size=n)],
        lambda: [f"{x:,.2f}" for x in 1e4 * rng.random(n)],
        lambda: [f"$ {x:.2f}" for x in rng.random(n)],
        lambda: pd.bdate_range("2020-01-01", periods=n).strftime("%Y-%m-%d"),
        lambda: rng.choice([True, False], n),
        lambda: [f"[{a:.1f} {b:.1f}]" for a, b in rng.normal(size=(n, 2))],
        lambda: [None] * n,
        lambda: ["1.5"] * (n - 1) + ["x"],
        lambda: np.full(n, 7),
        lambda: 100 * np.exp(0.01 * rng.normal(size=n).cumsum()),
    ]
    return kinds[rng.integers(len(kinds))]()


def odd_table(rng):
    """A small table of odd columns, names and rows, and how it is written."""
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 7))
    names = [f"c{k}" for k in range(d)]
    if rng.random() < 0.1:
        names[int(rng.integers(d))] = str(rng.choice(["", "label", "Volume", "=1+1"]))
    frame = pd.DataFrame({k: odd_column(rng, n) for k in range(d)}).set_axis(
        names, axis=1
    )
    if rng.random() < 0.1:
        frame = pd.concat([frame, frame.iloc[-1:]])
    if rng.random() < 0.1:
        frame = pd.concat([pd.DataFrame([["cm"] * d], columns=names), frame])
    form = {"index": bool(rng.random() < 0.3), "sep": str(rng.choice([",", ";", "\t"]))}
    return frame, form | {"header": bool(rng.random() < 0.9)}


def account_for(seed):
    """Read an odd table by a command that the seed chooses: it ends with 0 and accounts
    for all columns, or with 2 and one line."""
    rng = np.random.default_rng(seed)
    frame, form = odd_table(rng)
    frame.to_csv("odd.csv", **form)
    command = str(rng.choice(["map", "portfolio", "values"]))
    options = ["--mixed"] if command == "map" and rng.random() < 0.5 else []
    if command == "values":
        options = ["--state", "c0", "--reward", "c1", "--episode", "c2"]
    code, lines, err = run(command, "--data", "odd.csv", *options, "--check")
    if code != 0:
        # warnings are lines of their own
        errors = [line for line in err.splitlines() if "arning" not in line]
        assert code == 2 and len(errors) == 1, (seed, err)
        assert errors[0].startswith("error: "), (seed, err)
        return code
    block = lines[: lines.index("")]
    assert len(block) <= 6, (seed, block)
    n_columns = int(re.search(r"rows x (\d+) columns", block[0])[1])
    used = re.split(r"[;:] (?:[a-z ]+: )?", block[1], maxsplit=1)[1]
    used = re.sub(r"; [a-z ]+: ", ", ", used)
    left_out = next((line for line in block if line.startswith("left out: ")), "")
    left_out = re.sub(r" \([^()]*\)", "", left_out.removeprefix("left out: "))
    named = [name for name in used.split(", ") if name]
    named += [name for name in re.split("[,;] ", left_out) if name]
    more = sum(int(k) - 8 - 1 for k in re.findall(r"\.\.\. \((\d+) in all\)", block[1]))
    assert len(named) + more == n_columns, (seed, block)
    return code


def test_odd_tables_are_accounted_for_or_refused(recwarn):
    pytest.importorskip("skrub")
    codes = [account_for(seed) for seed in range(24)]
    assert set(codes) == {0, 2}


@pytest.mark.slow
def test_three_thousand_odd_tables(recwarn):
    pytest.importorskip("skrub")
    codes = [account_for(seed) for seed in range(3000)]
    assert min(codes.count(0), codes.count(2)) > 300


# --- returns from prices, and whole shares
# ----------------------------------------------------------------------


def test_returns_are_those_of_pandas_in_every_container():
    pd.testing.assert_frame_equal(
        returns_from_prices(PRICES), RETURNS, check_freq=False
    )
    np.testing.assert_allclose(returns_from_prices(PRICES.to_numpy()), RETURNS)
    one = returns_from_prices(PRICES["XOM"])
    pd.testing.assert_series_equal(one, RETURNS["XOM"], check_freq=False)
    np.testing.assert_allclose(returns_from_prices(list(PRICES["XOM"])), RETURNS["XOM"])
    pl = pytest.importorskip("polars")
    found = returns_from_prices(pl.DataFrame(PRICES.to_dict("list")))
    assert isinstance(found, pl.DataFrame) and found.columns == NAMES
    np.testing.assert_allclose(found.to_numpy(), RETURNS)


def holes(rows, name="XOM"):
    prices = PRICES.copy()
    prices.loc[DAYS[rows], name] = np.nan
    return prices


def test_missing_prices():
    with pytest.raises(ValueError, match="one is missing of 'XOM' at 2023-01-11"):
        returns_from_prices(holes([7]))
    with pytest.raises(ValueError, match="before the asset begins, of 'XOM'"):
        returns_from_prices(holes([0, 1]))
    dropped = returns_from_prices(holes([7]), missing="drop")
    np.testing.assert_allclose(dropped, PRICES.drop(DAYS[7]).pct_change().dropna())
    filled = returns_from_prices(holes([7]), missing="ffill")
    np.testing.assert_allclose(filled, holes([7]).ffill().pct_change().dropna())
    for missing in ("drop", "ffill"):
        with pytest.warns(UserWarning, match=r"assets begin later .*\['XOM'\]"):
            late = returns_from_prices(holes([0, 1]), missing=missing)
        np.testing.assert_allclose(late, RETURNS[2:])


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        (PRICES.assign(XOM=0.0), "positive, got 0 of 'XOM' at 2023-01-02"),
        (PRICES[::-1], "ascending order"),
        (PRICES.iloc[[0, 0, 1]], "each date once, got twice: '2023-01-02"),
        (PRICES[:1], "at least two periods"),
        (-PRICES.to_numpy(), "of column 0 at row 0"),
    ],
)
def test_prices_that_give_no_returns(prices, words):
    with pytest.raises(ValueError, match=words):
        returns_from_prices(prices)


def test_possible_splits_are_named():
    split = PRICES.copy()
    split.loc[DAYS[50] :, "MSFT"] /= 4
    with pytest.warns(
        UserWarning, match="0.2.* times that before of 'MSFT' at 2023-03-13"
    ):
        returns_from_prices(split)


def test_whole_shares_are_the_best_of_all():
    """Against all numbers of shares that could be better."""
    rng = np.random.default_rng(0)
    for trial in range(60):
        n = int(rng.integers(1, 4))
        prices = rng.uniform(5, 60, n).round(2)
        weights = rng.dirichlet(np.ones(n)) if trial % 2 else rng.normal(size=n)
        capital = float(rng.integers(50, 300))
        weights *= min(1.0, 15 * prices.min() / capital / np.abs(weights).max())
        found = whole_shares(weights, prices, capital)
        ideal = capital * weights
        ends = [sorted((0, int(np.floor(x)), int(np.ceil(x)))) for x in ideal / prices]
        every = np.array(
            np.meshgrid(*[np.arange(e[0], e[-1] + 1) for e in ends])
        ).reshape(n, -1)
        cost = prices @ every
        distance = np.abs(prices[:, None] * every - ideal[:, None]).sum(axis=0)
        best = distance[cost <= capital + 1e-9].min()
        own = np.abs(prices * found.shares - ideal).sum()
        assert own <= best + 1e-6 and found.cash >= -1e-9
        assert found.cash == pytest.approx(capital - prices @ found.shares)


def test_whole_shares_by_label():
    weights = pd.Series({"a": 0.5, "b": 0.5})
    prices = pd.Series({"b": 3.0, "a": 7.0, "c": 1.0})
    found = whole_shares(weights, prices, 100.0)
    assert found.shares.to_dict() == {"a": 7, "b": 17} and found.cash == 0.0
    assert whole_shares(dict(weights), prices, 100.0).shares.to_dict() == {
        "a": 7,
        "b": 17,
    }
    assert whole_shares([0.5, 0.5], [7, 3], 100).shares.dtype == np.int64
    for args, words in (
        (([0.5], [1.0, 2.0], 10), "a price for each of 1 weights, got 2"),
        (([0.5], [0.0], 10), "prices must be positive, got 0"),
        (([0.5], [1.0], 0), "capital must be"),
        (([np.nan], [1.0], 10), "weights must be finite"),
        ((weights, prices[["a"]], 10), "has nothing for 'b'"),
    ):
        with pytest.raises(ValueError, match=words):
            whole_shares(*args)
