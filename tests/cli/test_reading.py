"""Tests of the files of users: what is read from them, what is said about it, and what
is refused with one line before any fit."""

import contextlib
import io
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.lib import format as npy

from sk_stormc import CompositionalPortfolio, SNEEmbedding
from sk_stormc.__main__ import _make_parser, main
from sk_stormc.cli.point_files import read_points
from sk_stormc.cli.return_files import read_forecasts, read_returns

RNG = np.random.default_rng(5)
NAMES = ["AAPL", "MSFT", "XOM"]
DATES = pd.bdate_range("2023-01-02", periods=200, name="Date")
DAYS = list(DATES[1:].strftime("%Y-%m-%d"))
PRICES = pd.DataFrame(
    (50 * np.exp(0.01 * RNG.normal(size=(200, 3)).cumsum(axis=0))).round(2),
    DATES,
    NAMES,
)
VOLUMES = pd.DataFrame(RNG.integers(1e6, 1e8, (200, 3)), DATES, NAMES)
RETURNS = PRICES.pct_change().dropna().round(6)
EXACT = PRICES.pct_change().dropna()
POINTS = pd.DataFrame(RNG.normal(size=(30, 3)).round(4), columns=list("pqr"))
TWO = np.tile(["a", "b"], 15)
NUMBERS = np.arange(30) * 37 % 101 + 5000  # all different, in no order
BARCODES = [f"ACGT{k:03}-1" for k in RNG.permutation(30)]
PLAIN = {"index": False}
BARE = {"index": False, "header": False}
GERMAN = {"sep": ";", "decimal": ","}
UNITS = pd.concat([pd.DataFrame([["cm", "kg", "%"]], columns=list("pqr")), POINTS])
SUMS = pd.concat([POINTS, POINTS.sum().to_frame().T])
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


@pytest.fixture(autouse=True)
def no_fit_in_tmp_path(tmp_path, monkeypatch):
    """Files are read in a folder of their own, and nothing is fitted."""
    monkeypatch.chdir(tmp_path)
    for estimator in (SNEEmbedding, CompositionalPortfolio):
        monkeypatch.setattr(estimator, "fit", lambda *args: pytest.fail("fitted"))


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


def check(command, name, *options):
    """The lines of --check, which must succeed."""
    code, lines, err = run(command, "--data", name, *options, "--check")
    assert code == 0, err
    return lines


def read(command, name, *options):
    """What a command reads from a file."""
    given = [command, "--data", name, *options, "--check"]
    args = _make_parser().parse_args(list(map(str, given)))
    if command == "map":
        return read_points(args.data, args.mixed, None, args)
    return read_returns(args.data, args.drop_missing, args.unit, args)


def write(content, name="a.csv", form=None):
    """Write a frame, a text, or arrays by their names."""
    if isinstance(content, pd.DataFrame):
        content.to_csv(name, **(form or {}))
    elif isinstance(content, dict):
        np.savez(name, **content)
    else:
        Path(name).write_text(content, encoding="utf-8")
    return name


def both_levels():
    """As yfinance downloads prices: two levels of names, and a row for the index."""
    parts = {"Close": PRICES, "High": PRICES * 1.01, "Volume": VOLUMES}
    return pd.concat(parts, axis=1, names=["Price", "Ticker"])


def marked(form):
    return [form.format(k) for k in range(30)]


# --- the same numbers from every kind of file, in every form
# ----------------------------------------------------------------------

WRITERS = {
    "a.csv": lambda frame, name, **o: frame.to_csv(name, **o),
    "a.csv.gz": lambda frame, name, **o: frame.to_csv(name, **o),
    "a.tsv": lambda frame, name, **o: frame.to_csv(name, sep="\t", **o),
    "a.TXT": lambda frame, name, **o: frame.to_csv(name, sep=" ", **o),
    "a.parquet": lambda frame, name, index: frame.to_parquet(name),
    "a.feather": lambda frame, name, index: (
        frame.reset_index() if index else frame
    ).to_feather(name),
    "a.xlsx": lambda frame, name, **o: frame.to_excel(name, **o),
}
NEEDED = {"a.parquet": "pyarrow", "a.feather": "pyarrow", "a.xlsx": "openpyxl"}


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_numbers_from_every_kind_of_file(name):
    pytest.importorskip(NEEDED.get(name, "pandas"))
    WRITERS[name](POINTS, name, index=False)
    points = read("map", name)
    np.testing.assert_array_equal(points.X, POINTS)
    assert points.reading.lines() == [
        f"{name}: 30 rows x 3 columns", "30 points, 3 columns, no labels: p, q, r"
    ]  # fmt: skip
    WRITERS[name](RETURNS, name, index=True)
    returns = read("portfolio", name, "--unit", "fractions")
    np.testing.assert_array_equal(returns.values, RETURNS)
    assert returns.names == NAMES and returns.dates == DAYS
    lines = returns.reading.lines()
    assert lines[1] == "199 periods, 3 assets: AAPL, MSFT, XOM; dates: Date"
    assert lines[2] == f"{DAYS[0]} to {DAYS[-1]}, unit: fractions"


FORMS = [  # the name, how it is written, options, what is said
    ("a.csv", GERMAN, [], "read with --sep ';' --decimal ,"),
    ("a.csv", {"sep": ";"}, [], "read with --sep ';'"),
    ("a.csv", {"sep": "|"}, [], "read with --sep '|'"),
    ("a.csv", {"sep": "\t", "decimal": ","}, [], r"read with --sep '\t' --decimal ,"),
    ("a.txt", GERMAN, [], "read with --sep ';' --decimal ,"),
    ("a.tsv", {"sep": "\t", "decimal": ","}, [], "read with --decimal ,"),
    ("a.csv.gz", GERMAN, [], "read with --sep ';' --decimal ,"),
    ("a.csv", {"sep": "|", "decimal": ","}, ["--sep", "|", "--decimal", ","], "a.csv:"),
    ("a.csv", {"sep": "\t"}, ["--sep", r"\t"], "a.csv:"),
    ("a.csv", {"sep": ";", "quoting": 2}, [], "read with --sep ';'"),
    ("a.csv", {"sep": "\t", "encoding": "utf-16"}, [], "in the encoding UTF-16"),
    ("a.csv", {"encoding": "utf-8-sig"}, [], "a.csv:"),
]


@pytest.mark.parametrize(("name", "form", "options", "words"), FORMS)
def test_the_same_numbers_from_every_form_of_text(name, form, options, words):
    RETURNS.to_csv(name, **form)
    returns = read("portfolio", name, *options, "--unit", "fractions")
    np.testing.assert_array_equal(returns.values, RETURNS)
    assert returns.dates == DAYS and words in returns.reading.lines()[0]
    POINTS.to_csv(name, index=False, **form)
    points = read("map", name, *options)
    np.testing.assert_array_equal(points.X, POINTS)
    assert words in points.reading.lines()[0]


def test_tables_with_and_without_names_and_dates():
    """The labels of the rows, and the names of the columns or none."""
    german = [f"{day[8:]}.{day[5:7]}.{day[:4]}" for day in DAYS[:60]]
    rows = 100 * RETURNS[:60]
    cases = [
        (None, NAMES), (None, None), (DAYS[:60], NAMES), (DAYS[:60], None),
        (DAYS[:60], ["600519", "1398", "17"]), (german, NAMES), (range(60), NAMES),
        (range(1960, 2020), None),
    ]  # fmt: skip
    for index, names in cases:
        frame = rows.set_axis(names or range(3), axis=1)
        frame.index = pd.Index(range(60) if index is None else index, name="Date")
        form = {"index": index is not None, "header": names is not None}
        found = read("portfolio", write(frame, form=form))
        np.testing.assert_allclose(found.values, rows / 100)
        assert names is None or found.names == names
        assert (found.dates is None) == (index is None)
        span = "no dates" if index is None else f"{index[0]} to {index[-1]}"
        assert found.reading.lines()[-1].startswith(f"{span}, unit: percent (guessed)")


def test_first_rows_that_look_like_names():
    rows = RETURNS.copy()
    rows.iloc[0] = 0.25  # pandas would name such columns 0.25, 0.25.1 and 0.25.2
    found = read("portfolio", write(rows, form=BARE)).values
    np.testing.assert_array_equal(found, rows)
    for first, form in (("2022-12-30,,0.1,0.2", {"header": False}), (",0.1,0.2", BARE)):
        missing = write(f"{first}\n{RETURNS.to_csv(**form)}")
        code, _, err = run("portfolio", "--data", missing, "--check")
        assert code == 2 and "has 1 missing" in err
        found = read("portfolio", missing, "--drop-missing").values
        np.testing.assert_array_equal(found, RETURNS)
    for name in (None, "id"):  # an index is no feature
        frame = POINTS.set_axis([600519, 1398, 17], axis=1).rename_axis(name)
        np.testing.assert_array_equal(read("map", write(frame)).X, POINTS)
    whole = pd.DataFrame({"p": np.arange(24) // 3, "q": np.arange(24) // 2 + 7})
    np.testing.assert_array_equal(read("map", write(whole, form=BARE)).X, whole)


# --- what is read, and what is said about it
# ----------------------------------------------------------------------

# name: command, frame, how it is written, options, what the lines have, and the numbers
READ = {
    "prices with volumes, two levels": (
        "portfolio", both_levels(), {}, ["--prices"],
        ["names in 3 rows", "3 assets: Close AAPL, Close MSFT, Close XOM; dates: Date",
         "Volume AAPL, Volume MSFT, Volume XOM (volumes)", "High AAPL", "2023-01-03 to"],
        EXACT,
    ),
    "adjusted prices": (
        "portfolio",
        PRICES[["AAPL"]].set_axis(["Close"], axis=1).assign(**{"Adj Close": PRICES.XOM}),
        {}, ["--prices"],
        ["1 assets: Adj Close", "Close (not the adjusted or closing prices)"],
        EXACT[["XOM"]],
    ),
    "a missing price that is dropped": (
        "portfolio", PRICES.assign(XOM=PRICES["XOM"].mask(DATES[7] == DATES)), {},
        ["--prices", "--drop-missing"], ["1 periods with missing values dropped"],
        PRICES.drop(DATES[7]).pct_change().dropna(),
    ),
    "names that contain words of prices": (
        "portfolio",
        RETURNS.set_axis(["Low Volatility", "Open Text", "High Yield"], axis=1),
        {}, [], ["3 assets: Low Volatility, Open Text, High Yield"], RETURNS,
    ),
    "a benchmark": (
        "portfolio", RETURNS, {}, ["--benchmark", "XOM"],
        ["2 assets: AAPL, MSFT; dates: Date; benchmark: XOM"], RETURNS[NAMES[:2]],
    ),
    "a long table": (
        "portfolio", LONG.assign(exchange="NYSE"), PLAIN,
        ["--prices", "--long", "Date,ticker,close"],
        ["199 periods, 3 assets: AAPL, MSFT, XOM", "exchange (not in --long)",
         "values: close; names of the assets: ticker"], EXACT,
    ),
    "percent signs": (
        "portfolio", RETURNS.map(lambda x: f"{100 * x:.4f}%"), {}, [],
        ["unit: percent (by the signs), percent divided by 100"], RETURNS,
    ),
    "basis points": (
        "portfolio", 1e4 * RETURNS, {}, [],
        ["unit: basis-points (guessed), basis-points divided by 10,000"], RETURNS,
    ),
    "quoted decimal commas": (
        "portfolio", RETURNS.map(lambda x: f"{x:.6f}".replace(".", ",")), {}, [],
        ["3 assets", "texts read as numbers: AAPL"], RETURNS,
    ),
    "the latest first": (
        "portfolio", RETURNS[::-1], {}, [],
        [f"{DAYS[0]} to {DAYS[-1]}", "rows reversed, since their dates descend"], RETURNS,
    ),
    "dates in any column": (
        "portfolio", RETURNS.reset_index()[["AAPL", "Date", "MSFT"]], PLAIN,
        ["--index", "Date"], ["2 assets: AAPL, MSFT; dates: Date"], RETURNS[NAMES[:2]],
    ),
    "columns of returns that are dropped": (
        "portfolio", RETURNS, {}, ["--drop", "Date,MSFT"],
        ["2 assets: AAPL, XOM", "no dates", "left out: Date, MSFT (--drop)"],
        RETURNS[["AAPL", "XOM"]],
    ),
    "texts that are no dates": (
        "portfolio", RETURNS[:30].set_axis(BARCODES), {"index_label": "Date"}, [],
        ["left out: Date (it has no dates)"], RETURNS[:30],
    ),
    "Windows": (
        "portfolio", RETURNS.rename(columns={"XOM": "Öl"}),
        {**GERMAN, "encoding": "cp1252"}, [], ["AAPL, MSFT, Öl", "cp1252"], RETURNS,
    ),
    "one column of decimal commas": (
        "portfolio", RETURNS[["XOM"]], {**GERMAN, **BARE}, [], ["1 assets: 1"],
        RETURNS[["XOM"]],
    ),
    "German thousands with decimals": (
        "map", POINTS.assign(s=marked("1.0{:02},50"), share=marked("{},5 %")),
        {**GERMAN, **PLAIN}, [],
        ["s ('1.000,50' is 1000.5)", "share ('0,5 %' is 0.5)"],
        POINTS.assign(s=1000.5 + np.arange(30), share=0.5 + np.arange(30)),
    ),
    "thousands and currencies": (
        "map",
        POINTS.assign(s=marked("1,0{:02}"), cost=marked("€ {}"), loss=marked("({}.5)")),
        PLAIN, [], ["s ('1,000' is 1000)", "cost ('€ 0' is 0)", "is -0.5"],
        POINTS.assign(
            s=1000 + np.arange(30), cost=np.arange(30), loss=-0.5 - np.arange(30)
        ),
    ),
    "three decimals beside semicolons": (
        "map", pd.DataFrame({"p": np.arange(30) // 2, "q": 1.234 + np.arange(30) // 5}),
        {"sep": ";", **PLAIN}, ["--decimal", "."], ["30 points, 2 columns"], None,
    ),
    "a row of units": (
        "map", UNITS, PLAIN, [], ["row 2 left out, as units: cm, kg, %"], POINTS,
    ),
    "a row of sums that is left out": (
        "map", SUMS, PLAIN, ["--drop-last", 1], ["without the last 1 rows"], POINTS,
    ),
    "names in rows, and an index without a name": (
        "map", POINTS.assign(code=[f"cell {k}" for k in range(30)]), {}, [],
        ["names of the rows: code", "left out: column 1 (all values differ"], POINTS,
    ),
    "numbers that all differ": (
        "map", POINTS.assign(turnover=NUMBERS), PLAIN, [],
        ["left out: turnover (all values differ, --keep keeps them)"], POINTS,
    ),
    "numbers that name the rows": (
        "map", POINTS.assign(code=NUMBERS), PLAIN, ["--index", "code"],
        ["names of the rows: code"], POINTS,
    ),
    "a table of whole numbers": (
        "map", pd.DataFrame({"a": NUMBERS, "b": NUMBERS[::-1] ** 2}), PLAIN, [],
        ["30 points, 2 columns"], pd.DataFrame({"a": NUMBERS, "b": NUMBERS[::-1] ** 2}),
    ),
    "other numbers are features": (
        "map", POINTS.assign(flag=TWO == "a", n=NUMBERS // 9, size=NUMBERS / 4), PLAIN,
        [], ["6 columns"], POINTS.assign(flag=TWO == "a", n=NUMBERS // 9, size=NUMBERS / 4),
    ),
    "columns of points that are dropped": (
        "map", POINTS.assign(species=TWO, cluster=0), PLAIN, ["--drop", "species,cluster"],
        ["no labels: p, q, r", "--mixed reads tables with columns of any type"], POINTS,
    ),
    "a log with usual names, and vectors as texts": (
        "values", LOG, PLAIN, [],
        ["300 transitions, 30 episodes, state: obs[0], obs[1]; reward: reward",
         "terminal: terminated; time: t", "left out: note (named by no option)",
         "obs read as 2 numbers"], None,
    ),
    "a log with next states and done": (
        "values",
        LOG.assign(s=1.0, next_s=2.0).rename(columns={"terminated": "done"}).drop(
            columns=["obs", "note"]
        ),
        PLAIN, [],
        ["state: s; next state: next_s", "'done' counts as the end of an episode"], None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_is_read_is_said(case):
    command, frame, form, options, words, numbers = READ[case]
    write(frame, form=form)
    lines = check(command, "a.csv", *options)
    block = lines[: lines.index("")]
    assert len(block) <= 6 and block[0].startswith("a.csv: ")
    for word in words:
        assert word in "\n".join([*block, ""])
    assert len(lines) - len(block) == 5  # an empty line, the names and three rows
    if numbers is not None:
        found = read(command, "a.csv", *options)
        found = found.X if command == "map" else found.values
        np.testing.assert_allclose(found, numbers.astype(float), rtol=1e-9, atol=1e-12)


def test_labels_are_offered_and_not_taken_in_silence():
    for name in ("cell_type", "Target"):
        write(POINTS.assign(**{name: np.tile([0, 1], 15)}), form=PLAIN)
        lines = "\n".join(check("map", "a.csv"))
        assert f"30 points, 4 columns, no labels: p, q, r, {name}\n" in lines
        assert f"column {name!r} is not taken as labels: --label {name} takes" in lines
        lines = "\n".join(check("map", "a.csv", "--label", name))
        assert f"30 points, 3 columns: p, q, r; labels: {name}\n" in lines
        assert list(read("map", "a.csv", "--label", name).label) == [0, 1] * 15


@pytest.mark.parametrize(
    ("header", "texts", "labels", "kind"),
    [
        ("label", ["01", "1", "1"], "01 1 1", "O"),
        ("Labels", ["007", "010", "", "x"], "007 010 nan x", "O"),
        ("label", ["0", "10", "-2"], "0 10 -2", "i"),
        ("Labels", ["0.5", "0", "1e3"], "0.5 0.0 1000.0", "f"),
    ],
)
def test_labels_of_points_that_begin_with_a_zero(header, texts, labels, kind):
    frame = POINTS[: 4 * len(texts)][["p", "q"]]
    frame.insert(1, header, texts * 4)
    points = read_points(write(frame, form=PLAIN))
    np.testing.assert_array_equal(points.X, frame[["p", "q"]])
    found = points.label
    assert list(map(str, found)) == 4 * labels.split() and found.dtype.kind == kind


def test_dates_that_descend_in_other_forms():
    named = DATES[1:61].strftime("%d %b %Y").tolist()
    for dates in (named, list(range(1960, 2020))):
        frame = RETURNS[:60].set_axis(pd.Index(dates, name="Date"))[::-1]
        found = read("portfolio", write(frame))
        np.testing.assert_array_equal(found.values, RETURNS[:60])
        assert "rows reversed, since their dates descend" in found.reading.facts
        assert found.dates[0] == str(dates[0])
    spanish = [name.replace("Jan", "enero").replace("Mar", "marzo") for name in named]
    for index in (spanish, [*named[30:], *named[:30]]):
        write(RETURNS[:60].set_axis(pd.Index(index, name="Date")))
        assert len(read("portfolio", "a.csv").reading.facts) == 2  # dates and unit
        cdar = "--risk-measure", "cdar"
        code, _, err = run("portfolio", "--data", "a.csv", *cdar)
        assert code == 2 and "expected dates such as 2020-01-31 in ascending" in err


def test_forecasts_of_the_assets():
    write(RETURNS)
    data = read("portfolio", "a.csv")
    means = {"XOM": 0.01, "AAPL": 0.02, "MSFT": -0.01, "coal": 1.0}
    expected = [means[name] for name in NAMES]
    column = pd.Series(means, name="mu").rename_axis("asset").to_frame()
    for frame, form in ((column, {}), (pd.DataFrame([means]), PLAIN)):
        np.testing.assert_array_equal(
            read_forecasts(write(frame, "mu.csv", form), data), expected
        )
    by_date = read_forecasts(write(RETURNS, "mu.csv"), data)
    pd.testing.assert_frame_equal(by_date, RETURNS, check_freq=False, check_names=False)
    write(pd.DataFrame([means]).drop(columns="MSFT"), "mu.csv", PLAIN)
    for name, words in (
        ("a.csv", "one number for each asset without --walk-forward"),
        ("mu.csv", "mu.csv: expected a number for each asset of a.csv, found none for"),
    ):
        code, _, err = run("portfolio", "--data", "a.csv", "--expected-returns", name)
        assert code == 2 and words in err


# --- arrays, sheets, cells, several files
# ----------------------------------------------------------------------


def test_arrays():
    values, letters = RETURNS.to_numpy(), np.array(list("abc") * 10)
    np.save("a.npy", values)
    np.savez("b.npz", dates=np.arange(199), anything=values.astype("f4"))
    np.savez("c.npz", returns_bp=1e4 * values, returns=values, more=values + 1)
    np.savez("d.npz", returns_bp=1e4 * values, more=values)
    np.savez("e.npz", X=POINTS, y=letters)
    for name in ("a.npy", "c.npz"):
        np.testing.assert_array_equal(read_returns(name).values, values)
    np.testing.assert_array_equal(read_returns("b.npz").values, values.astype("f4"))
    basis_points = read_returns("d.npz")
    np.testing.assert_allclose(basis_points.values, values)
    assert basis_points.reading.lines() == [
        "d.npz: 199 rows x 3 columns",
        "199 periods, 3 assets: 1, 2, 3",
        "no dates, unit: basis-points, basis-points divided by 10,000",
    ]
    with pytest.raises(ValueError, match="--unit must be basis-points, since those"):
        read_returns("d.npz", unit="percent")
    points = read_points("e.npz")
    np.testing.assert_array_equal(points.X, POINTS)
    np.testing.assert_array_equal(points.label, letters)
    assert read_points("a.npy").label is None


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
    both_levels().to_excel("b.xlsx")  # merged cells
    lines = "\n".join(check("portfolio", "b.xlsx", "--prices"))
    assert "3 assets: Close AAPL, Close MSFT, Close XOM" in lines


@pytest.mark.filterwarnings("ignore:The 'future.infer_string'")  # anndata, pandas 3
def test_the_matrix_of_cells():
    anndata = pytest.importorskip("anndata")
    # texts of objects, which all versions of anndata write
    obs = pd.DataFrame(
        {"cell_type": pd.Categorical(TWO.astype(object))},
        pd.Index(BARCODES, dtype=object),
    )
    genes = pd.DataFrame(index=pd.Index(["CD3", "CD8"], dtype=object))
    counts = RNG.poisson(3.0, (30, 2)).astype(float)
    cells = anndata.AnnData(counts, obs=obs, var=genes)
    cells.write_h5ad("raw.h5ad")
    lines = "\n".join(check("map", "raw.h5ad"))
    assert "whole numbers, as raw counts are" in lines and "matrix X" in lines
    assert "no labels" in lines and "--label cell_type takes it" in lines
    cells.obsm["X_pca"] = RNG.normal(size=(30, 4))
    cells.layers["log"] = np.log1p(counts)
    cells.write_h5ad("a.h5ad")
    for options, words, values in (
        ([], "matrix obsm 'X_pca'", cells.obsm["X_pca"]),
        (["--layer", "log"], "matrix layer 'log'", cells.layers["log"]),
        (["--layer", "X"], "matrix X", counts),
    ):
        points = read("map", "a.h5ad", *options, "--label", "cell_type,CD3")
        np.testing.assert_allclose(points.X, values)
        assert list(points.labels) == ["cell_type", "CD3"]
        np.testing.assert_array_equal(points.labels["CD3"], counts[:, 0])
        assert list(points.label) == list(TWO) and list(points.rows) == BARCODES
        assert words in points.reading.lines()[0]
    assert "--layer log" in "\n".join(check("map", "a.h5ad"))
    code, _, err = run("map", "--data", "a.h5ad", "--obsm", "X_umap", "--check")
    assert code == 2 and "--obsm must be one of ['X_pca'], got 'X_umap'" in err


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


def test_columns_of_a_mixed_table():
    pytest.importorskip("skrub")
    table = POINTS.assign(code=NUMBERS, name=BARCODES, since=DAYS[:30], colour=TWO)
    table.loc[3, "p"] = np.nan
    write(table, form=PLAIN)
    lines = "\n".join(check("map", "a.csv", "--mixed"))
    assert "30 points, 5 columns" in lines and "left out: code (all values" in lines
    assert "names of the rows: name" in lines
    write(SUMS.assign(colour=[*TWO, "a"]), form=PLAIN)
    assert "the sums of the others" in "\n".join(check("map", "a.csv", "--mixed"))


def test_several_files_of_returns():
    pytest.importorskip("dask.dataframe")
    for k in range(3):
        part = RETURNS.iloc[66 * k : 66 * k + 66].reset_index()
        part.to_parquet(f"part-{k}.parquet")
    lines = check("portfolio", "part-*.parquet", "--unit", "fractions")
    assert "3 files" in lines[0] and "3 assets: AAPL, MSFT, XOM" in lines[1]
    assert lines[2] == "left out: Date (no numbers, or an index)"
    assert "1 file\n" in "\n".join(check("portfolio", "part-1*.parquet"))
    lines = check("portfolio", "part-*.parquet", "--drop", "XOM")
    assert "2 assets" in lines[1] and "XOM (--drop)" in lines[2]
    others = {  # dask reads an index of dates in a way that pandas 3.1 deprecates
        "numbered.parquet": RETURNS.set_axis(range(3), axis=1).reset_index(drop=True),
        "other-0.parquet": RETURNS,
        "other-1.parquet": RETURNS.drop(columns="MSFT"),
        "prices-0.parquet": PRICES.reset_index(),
    }
    for name, frame in others.items():
        frame.to_parquet(name, index=False if "other" in name else None)
    for pattern, options, words in (
        ("no-*.parquet", [], "got 'no-*.parquet', which matches nothing"),
        ("part-*", ["--walk-forward", 9], "--walk-forward needs returns of one file"),
        ("part-*", ["--index", "Date"], "--index says nothing about several files"),
        ("part-*", ["--drop-last", 1], "--drop-last says nothing about several files"),
        ("part-*", ["--prices"], "--prices says nothing about several files"),
        ("number*.parquet", [], "number*.parquet: expected columns named by texts"),
        ("other-*.parquet", [], "found no column 'MSFT'"),
        ("prices-*.parquet", [], "of prices, in AAPL, MSFT, XOM"),
    ):
        code, _, err = run("portfolio", "--data", pattern, *options, "--check")
        assert code == 2 and words in err


# --- what is refused with one line
# ----------------------------------------------------------------------

REFUSED = {
    "prices": ("portfolio", PRICES, {}, [], "of prices, in AAPL, MSFT, XOM: --prices"),
    "prices with volumes": (
        "portfolio", pd.concat([PRICES, VOLUMES.add_suffix(" traded")], axis=1), {}, [],
        "AAPL traded, MSFT traded, XOM traded may be volumes: --drop",
    ),
    "one price among returns": (
        "portfolio", RETURNS.assign(gold=PRICES["XOM"][1:]), {}, [], "of prices, in gold",
    ),
    "the last days again": (
        "portfolio", pd.concat([RETURNS, RETURNS[-4:]]), {}, [],
        "found 4 of them more than once, such as 2023-10-03, 2023-10-04, 2023-10-05",
    ),
    "a long table": (
        "portfolio", LONG.assign(volume=7), PLAIN, [], "--long Date,ticker,close"
    ),
    "a long table with a row twice": (
        "portfolio", pd.concat([LONG, LONG[:1]]), PLAIN,
        ["--prices", "--long", "Date,ticker,close"], "found 'AAPL' twice on 2023-01-02",
    ),
    "a missing price": (
        "portfolio", PRICES.assign(AAPL=PRICES["AAPL"].mask(DATES[7] == DATES)), {},
        ["--prices"], "column 'AAPL' has 1 missing or infinite of 200 (the first is "
        "period 8, 2023-01-11); --drop-missing",
    ),
    "a price of 0": ("portfolio", PRICES * 0, {}, ["--prices"], "prices must be positive"),
    "signs in some columns": (
        "portfolio", RETURNS.assign(AAPL=[f"{x:.2f}%" for x in RETURNS["AAPL"]]), {}, [],
        "found percent signs in column 'AAPL', and none in 'MSFT'",
    ),
    "a unit of prices": (
        "portfolio", PRICES, {}, ["--prices", "--unit", "percent"],
        "--unit says nothing about prices",
    ),
    "a unit against the signs": (
        "portfolio", RETURNS.map("{:.4f}%".format), {}, ["--unit", "fractions"],
        "--unit must be percent, since the numbers have percent signs, got 'fractions'",
    ),
    "capital without prices": (
        "portfolio", RETURNS, {}, ["--capital", 1000], "--capital needs --prices",
    ),
    "no such benchmark": (
        "portfolio", RETURNS, {}, ["--benchmark", "SPY"],
        "--benchmark must name a column, got 'SPY', expected one of ['AAPL'",
    ),
    "one period": ("portfolio", RETURNS[:1], {}, [], "at least two periods, found 1"),
    "each period misses one": (
        "portfolio", RETURNS.assign(XOM=np.nan), {}, ["--drop-missing"],
        "in each period one is missing",
    ),
    "a missing return": (
        "portfolio", RETURNS.mask(RETURNS.iloc[2, 1] == RETURNS), {}, [],
        "column 'MSFT' has 1 missing or infinite of 199 (the first is period 3, 2023-01-05",
    ),
    "a row of means below the dates": (
        "portfolio", RETURNS.to_csv() + "Mean,0,0,0\n", {}, [],
        "a date such as '2023-01-03' in each row, found 'Mean'; --drop-last N",
    ),
    "names that are not different": (
        "portfolio", "A,B,A\n1,2,3\n3,2,1\n", {}, [],
        "expected names that differ, found 'A' twice",
    ),
    "names that are numbers": (
        "portfolio", "0,1,2\n1,2,3\n3,2,1\n", {}, [],
        "such as 'a0', or numbers, such as 0.0, found 0, 1, 2, which may be either",
    ),
    "decimal commas without quotes": (
        "portfolio", "A\n0,5\n1,5\n", {}, [],
        "as --sep ';' --decimal , says, found 1 names above 2",
    ),
    "a column without a name": (
        "portfolio", "Date,A\n2020-01-01,1,2\n2020-01-02,2,1\n", {}, [],
        "found 2 names above 3 columns",
    ),
    "a text": (
        "portfolio", "A,B\n1,2\n3,four\n", {}, [], "found 'four' in column 'B'; --drop B",
    ),
    "dates along the columns": (
        "portfolio", RETURNS[:24].T.rename_axis("asset"), {}, [],
        "dates along the columns, such as '2023-01-03': transpose the table",
    ),
    "an index of no dates": (
        "portfolio", RETURNS[:30].set_axis(BARCODES), {"index_label": "Date"},
        ["--index", "Date"], "--index must name a column of dates, found 'ACGT",
    ),
    "German thousands": (
        "map", pd.DataFrame({"p": np.arange(24), "q": "1.234"}), {"sep": ";", **PLAIN},
        [], "numbers such as 1.234 beside semicolons, which may be thousands; --decimal",
    ),
    "thousands that may be fractions": (
        "map", POINTS.round(0).assign(s="1,234"), {"sep": "\t", **PLAIN},
        ["--sep", r"\t"], "found '1,234', which may be 1.234 or 1234; --decimal says",
    ),
    "one column of decimal commas": (
        "map", pd.DataFrame({"p": ["0,5", "1,25"] * 12}),
        {"quoting": 3, "sep": ";", **PLAIN}, ["--sep", ","],
        "--sep ';' --decimal , says, found 1 names above 2 columns",
    ),
    "lines above the names": (
        "map", f"Report\nmade today\n\n{POINTS.to_csv(index=False)}", {}, [],
        "--skip-rows N leaves out N lines",
    ),
    "no such column": (
        "map", POINTS, PLAIN, ["--drop", "p,zz"],
        "--drop must name a column, got 'zz', expected one of ['p', 'q', 'r']",
    ),
    "labels that are texts": (
        "map", POINTS.assign(species=TWO), PLAIN, [],
        "found 'a' in column 'species'; --label species takes it as labels",
    ),
    "a missing number": (
        "map", POINTS.mask(POINTS.loc[4, "q"] == POINTS), PLAIN, [],
        "column 'q' has 1 missing or infinite of 30 (the first is row 5); leave such",
    ),
    "no rows": ("map", POINTS[:0], PLAIN, [], "expected rows and columns of numbers"),
    "few rows": ("map", POINTS[:5], PLAIN, [], "at least 10 points, found shape (5, 3)"),
    "a sheet of a text": (
        "map", POINTS, PLAIN, ["--sheet", 2], "--sheet says nothing about .csv, but about",
    ),
    "states that nearly all differ": (
        "values", LOG.assign(obs=[f"s{k % 290}" for k in range(300)]), PLAIN, [],
        "found 290 different values of 300 in column 'obs', such as 's0'",
    ),
    "no states": (
        "values", LOG.drop(columns="obs"), PLAIN, [],
        "--state must name a column of --data, got none, expected some of ['reward'",
    ),
    "an episode without a label": (
        "values", LOG.assign(episode=LOG["episode"].where(LOG.index != 7)), PLAIN, [],
        "a column of labels, found 'nan' in row 8 of column 'episode'",
    ),
    "a step without a time": (
        "values", LOG.assign(t=LOG["t"].where(LOG.index != 7)), PLAIN, [],
        "whole numbers or dates, found 'nan' in row 8 of column 't'",
    ),
    "ends that are neither 0 nor 1": (
        "values", LOG.assign(terminated=2 * LOG["terminated"]), PLAIN, [],
        "--terminal must name a column of 0 and 1, found '2' in row 10",
    ),
    "a log of Monitor": (
        "values", '#{"env_id": "x", "t": 1}\nr,l,t\n1,2,3\n', {}, [],
        "a log of Monitor, whose rows are episodes with their return r, length l and "
        "time t: it lacks states",
    ),
    "no lines": ("map", "", {}, [], "expected a table, found no lines"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_with_one_line(case):
    command, content, form, options, words = REFUSED[case]
    write(content, form=form)
    code, lines, err = run(command, "--data", "a.csv", *options, "--check")
    assert code == 2 and not lines and words in err and err.count("\n") == 1
    assert err.startswith(("error: a.csv: ", "error: --", "error: limit"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.doc", "1,2", "a file named .npz, .npy, .csv, .tsv, .txt, .*or .xls"),
        ("a.parquet", "no", "pandas cannot read it"),
        ("a.npz", "A,B\n1,2\n", "expected numpy arrays"),
        (
            "a.npz",
            {"a": RETURNS, "b": RETURNS},
            r"an array 'returns' or .*a \(199, 3\),",
        ),
        ("a.npz", {"returns": np.arange(3)}, "'returns' to hold real numbers in two"),
        ("a.npz", {"returns": np.array([[None]])}, "expected numpy arrays"),
        ("a.npz", {"X": POINTS, "y": [1], "returns": [1]}, "expected y of shape"),
    ],
)
def test_other_files_that_cannot_be_read(name, content, words):
    write(content, name)
    reader = read_points if "y of" in words else read_returns
    with pytest.raises(ValueError, match=f"{name}: .*({words})"):
        reader(name)


def test_options_say_something_about_the_file():
    np.save("a.npy", POINTS)
    POINTS.to_parquet("a.parquet")
    for option in ("--index", "--label", "--drop", "--sheet", "--sep", "--obsm"):
        code, _, err = run("map", "--data", "a.npy", option, "p", "--check")
        assert code == 2 and f"{option} says nothing about .npy, but about" in err
    for option in ("--skip-rows", "--drop-last"):
        code, _, err = run("portfolio", "--data", "a.npy", option, 1, "--check")
        assert code == 2 and f"{option} says nothing about .npy" in err
    code, _, err = run("map", "--data", "a.parquet", "--sep", ";", "--check")
    assert code == 2 and "--sep says nothing about .parquet, but about .csv" in err


def test_lines_that_are_skipped():
    write(f"Report\nmade today\n\n{POINTS.to_csv(index=False)}")
    assert "30 points, 3 columns" in check("map", "a.csv", "--skip-rows", 3)[1]


def test_check_writes_nothing_and_needs_no_out(tmp_path):
    write(POINTS, form=PLAIN)
    write("a,b\n1,2\n", "mine.csv")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert check("map", "a.csv", "--out", "mine.csv") == check("map", "a.csv")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    code, _, err = run("map", "--data", "a.csv")
    assert code == 2 and "--out must name a file, got none" in err


# --- packages that are missing, and files that are too large
# ----------------------------------------------------------------------


def test_without_pandas(monkeypatch):
    content = RETURNS.to_csv(**BARE)
    monkeypatch.setitem(sys.modules, "pandas", None)
    np.testing.assert_array_equal(read_returns(write(content)).values, RETURNS)
    named, need = f"a,b,c\n{content}", r'need pandas .*pip install "sk_stormc\[files\]"'
    for name in (write(named), write(named, "a.parquet")):
        with pytest.raises(ValueError, match=f"{name}: names, dates and .*{need}"):
            read_returns(name)


@pytest.mark.parametrize(
    ("package", "name"),
    [("pyarrow", "a.parquet"), ("openpyxl", "a.xlsx"), ("anndata", "a.h5ad")],
)
def test_a_package_that_is_missing_is_named(monkeypatch, package, name):
    if name == "a.h5ad":
        write("", name)
    else:
        pytest.importorskip(package)
        WRITERS[name](POINTS, name, index=False)
        monkeypatch.setitem(sys.modules, "fastparquet", None)
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = run("map", "--data", name, "--check")
    assert code == 2
    assert f'files need {package}: pip install "sk_stormc[files]"' in err


def test_a_header_that_claims_more_than_fits_in_memory():
    header = {"descr": "<f8", "fortran_order": False, "shape": (6 * 10**12, 3)}
    with open("returns.npy", "wb") as file:
        npy.write_array_header_1_0(file, header)
        file.write(bytes(240))
    with zipfile.ZipFile("returns.npz", "w") as archive:
        archive.write("returns.npy")
    for name in ("returns.npy", "returns.npz"):
        words = f"{name}: expected numpy arrays that fit in memory"
        with pytest.raises(ValueError, match=words):
            read_returns(name)


def test_a_table_without_columns():
    pd.DataFrame().to_parquet("a.parquet")
    for command in ("portfolio", "map"):
        code, _, err = run(command, "--data", "a.parquet", "--check")
        assert code == 2 and "a.parquet: expected a table with columns" in err


def test_names_of_columns_have_no_blank_names_of_pandas():
    write(POINTS.rename(columns={"q": ""}), form=PLAIN)
    assert re.search(": p, column 2, r$", read("map", "a.csv").reading.lines()[1])
