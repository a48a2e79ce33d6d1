"""Tests of the commands on files as people have them: other separators and types,
identifiers, labels, and results beside them."""

import re
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import image

from sk_stormc import CompositionalPortfolio, SNEEmbedding
from sk_stormc.__main__ import main

RNG = np.random.default_rng(3)
POINTS = pd.DataFrame(RNG.normal(size=(24, 3)).round(4), columns=["p", "q", "r"])
DAYS = pd.bdate_range("2023-01-02", periods=24).strftime("%Y-%m-%d")
RETURNS = pd.DataFrame(
    (0.01 * RNG.normal(size=(24, 3))).round(6),
    index=pd.Index(DAYS, name="Date"),
    columns=["oil", "gas", "gold"],
)
TWO = np.tile(["a", "b"], 12)
NUMBERS = np.arange(24) * 37 % 101 + 5000  # all different, in no order
BARCODES = [f"ACGT{k:03}-1" for k in RNG.permutation(24)]
TEXT = {"index": False}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_fit(monkeypatch):
    """A fit fails the test."""
    for estimator in (SNEEmbedding, CompositionalPortfolio):
        monkeypatch.setattr(estimator, "fit", lambda *args: pytest.fail("fitted"))


def run(capsys, *args):
    """The exit status, what a command prints, and its error."""
    try:
        code = main(list(map(str, args)))
    except SystemExit as exit:
        code = exit.code
    out, err = capsys.readouterr()
    assert "Traceback" not in err and err.count("error:") == (code != 0)
    return code, out, err


def map_of(capsys, *args):
    """What the map command prints, and its table of positions."""
    code, out, err = run(
        capsys, "map", *args, "--perplexity", 4, "--out", "positions.csv"
    )
    assert code == 0, err
    return out, pd.read_csv("positions.csv")


def weights_of(capsys, *args):
    """What the portfolio command prints, and its weights."""
    options = "--unit", "fractions", "--risk-aversion", 30, "--out", "weights.csv"
    code, out, err = run(capsys, "portfolio", *args, *options)
    assert code == 0, err
    return out, pd.read_csv("weights.csv", index_col="asset")["weight"]


def expected_weights(returns=RETURNS, **params):
    params = {"risk_aversion": 30, "constraint": (0.0, 1.0), "budget": 1.0} | params
    return CompositionalPortfolio(random_state=0, **params).fit(returns).weights_


def expected_map(points=POINTS):
    return SNEEmbedding(perplexity=4, random_state=0).fit_transform(points.to_numpy())


# --- files of many kinds
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
def test_the_same_numbers_from_every_kind_of_file(capsys, name):
    pytest.importorskip(NEEDED.get(name, "pandas"))
    WRITERS[name](POINTS, name, index=False)
    out, table = map_of(capsys, "--data", name)
    assert f"{name}: 24 rows x 3 columns" in out
    assert "24 points, 3 columns, no labels: p, q, r" in out
    np.testing.assert_allclose(table[["x", "y"]], expected_map(), rtol=1e-4, atol=1e-4)
    WRITERS[name](RETURNS, name, index=True)
    out, weights = weights_of(capsys, "--data", name)
    assert "3 assets: oil" in out and f"{DAYS[0]} to {DAYS[-1]}" in out
    assert list(weights.index) == ["oil", "gas", "gold"]
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)


@pytest.mark.filterwarnings("ignore:The 'future.infer_string'")  # anndata, pandas 3
def test_cells_of_anndata(capsys):
    anndata = pytest.importorskip("anndata")
    # texts of objects, which all versions of anndata write
    names, genes = pd.Index(BARCODES, dtype=object), pd.Index(list("pqr"), dtype=object)
    cells = pd.DataFrame({"cell_type": pd.Categorical(TWO.astype(object))}, names)
    anndata.AnnData(
        POINTS.to_numpy(), obs=cells, var=pd.DataFrame(index=genes)
    ).write_h5ad("a.h5ad")
    out, table = map_of(capsys, "--data", "a.h5ad")
    assert list(table["row"]) == BARCODES
    assert "24 points, 3 columns, no labels" in out
    assert "--label cell_type takes it" in out
    out, table = map_of(capsys, "--data", "a.h5ad", "--label", "cell_type")
    assert "--label" not in out and list(table["label"]) == list(TWO)
    np.testing.assert_allclose(table[["x", "y"]], expected_map(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("package", "name"),
    [("pyarrow", "a.parquet"), ("openpyxl", "a.xlsx"), ("anndata", "a.h5ad")],
)
def test_a_package_that_is_missing_is_named(capsys, monkeypatch, package, name):
    if name == "a.xlsx":
        pytest.importorskip("openpyxl")
        POINTS.to_excel(name)
    elif name == "a.parquet":
        POINTS.to_parquet(name)
        monkeypatch.setitem(sys.modules, "fastparquet", None)
    else:
        open(name, "wb").close()
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = run(capsys, "map", "--data", name, "--out", "a.png")
    assert code == 2
    assert f'files need {package}: pip install "sk_stormc[files]"' in err


def test_the_first_sheet_of_several_is_named(capsys):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter("a.xlsx") as writer:
        POINTS.to_excel(writer, sheet_name="mine", index=False)
        POINTS.to_excel(writer, sheet_name="other", index=False)
    assert "sheet 'mine' of 2" in map_of(capsys, "--data", "a.xlsx")[0]


def test_several_files_of_returns(capsys):
    pytest.importorskip("dask.dataframe")
    for k in range(3):
        part = RETURNS.iloc[8 * k : 8 * k + 8]
        part.reset_index().to_parquet(f"part-{k}.parquet")
    out, weights = weights_of(capsys, "--data", "part-*.parquet")
    assert "3 assets: oil, gas, gold" in out and "left out: Date (" in out
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)
    RETURNS.iloc[:8].replace(RETURNS.iloc[3, 1], -99.99).reset_index().to_parquet(
        "part-0.parquet"
    )
    code, _, err = run(capsys, "portfolio", "--data", "part-*.parquet")
    assert code == 2 and "'gas'" in err
    args = "portfolio", "--data", "part-*.parquet", "--drop-missing", "--drop", "gold"
    code, out, _ = run(capsys, *args)
    assert code == 0 and "2 assets" in out and "gold (--drop)" in out
    for pattern, found in (("no-*.parquet", "nothing"), ("weights*", "weights.csv")):
        code, _, err = run(capsys, "portfolio", "--data", pattern)
        assert code == 2 and f"got '{pattern}', which matches" in err and found in err
    code, _, err = run(
        capsys, "portfolio", "--data", "part-*.parquet", "--walk-forward", 9
    )
    assert code == 2 and "--walk-forward needs returns of one file, got" in err


def test_a_pattern_may_match_a_single_file(capsys):
    pytest.importorskip("dask.dataframe")
    RETURNS.reset_index().to_parquet("single.parquet")
    out, weights = weights_of(capsys, "--data", "sing*.parquet")
    assert "3 assets: oil, gas, gold" in out and "1 file\n" in out
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)


def test_several_files_whose_columns_are_numbered(capsys):
    pytest.importorskip("dask.dataframe")
    # dask reads an index of dates in a way that pandas 3.1 deprecates; a range is none
    numbered = RETURNS.set_axis(range(3), axis=1).reset_index(drop=True)
    numbered.to_parquet("numbered.parquet")
    code, _, err = run(capsys, "portfolio", "--data", "number*.parquet")
    assert code == 2 and "number*.parquet: expected columns named by texts" in err


def test_several_files_with_different_columns(capsys):
    pytest.importorskip("dask.dataframe")
    RETURNS.to_parquet("other-0.parquet", index=False)
    RETURNS.drop(columns="gas").to_parquet("other-1.parquet", index=False)
    code, _, err = run(capsys, "portfolio", "--data", "other-*.parquet")
    assert code == 2 and "other-1.parquet: expected the columns of other-0" in err
    assert "found no column 'gas'" in err


def test_a_table_without_columns(capsys):
    pd.DataFrame().to_parquet("nothing.parquet")
    for args in (("portfolio",), ("map", "--out", "nothing.png")):
        code, _, err = run(capsys, *args, "--data", "nothing.parquet")
        assert code == 2 and "nothing.parquet: expected a table with columns" in err


# --- texts
# ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form", "note"),
    [
        ("a.csv", {"sep": ";", "decimal": ","}, "read with --sep ';' --decimal ,"),
        ("a.csv", {"sep": ";"}, "read with --sep ';'"),
        ("a.csv", {"sep": "|"}, "read with --sep '|'"),
        ("a.csv", {"sep": "\t", "decimal": ","}, r"read with --sep '\t' --decimal ,"),
        ("a.txt", {"sep": ";", "decimal": ","}, "read with --sep ';' --decimal ,"),
        ("a.tsv", {"sep": "\t", "decimal": ","}, "read with --decimal ,"),
        ("a.csv.gz", {"sep": ";", "decimal": ","}, "read with --sep ';' --decimal ,"),
    ],
)
def test_semicolons_and_decimal_commas_are_recognised(capsys, name, form, note):
    RETURNS.to_csv(name, **form)
    out, weights = weights_of(capsys, "--data", name)
    assert note in out and f"{DAYS[0]} to {DAYS[-1]}" in out
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)
    POINTS.to_csv(name, index=False, **form)
    out, table = map_of(capsys, "--data", name)
    assert note in out
    np.testing.assert_allclose(table[["x", "y"]], expected_map(), rtol=1e-4, atol=1e-4)


def test_names_in_the_encoding_of_windows(capsys):
    german = RETURNS.rename(columns={"oil": "Öl"})
    german.to_csv("a.csv", sep=";", decimal=",", encoding="cp1252")
    out, weights = weights_of(capsys, "--data", "a.csv")
    assert "encoding cp1252" in out and list(weights.index) == ["Öl", "gas", "gold"]
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)


def test_separators_and_decimal_marks_by_options(capsys):
    RETURNS.to_csv("a.csv", sep="|", decimal=",")
    _, weights = weights_of(capsys, "--data", "a.csv", "--sep", "|", "--decimal", ",")
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)
    RETURNS.to_csv("b.csv", sep="\t")
    _, weights = weights_of(capsys, "--data", "b.csv", "--sep", r"\t")
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)


def test_three_decimals_beside_semicolons(capsys):
    frame = POINTS.assign(p=np.arange(24) // 2, q=1.234 + np.arange(24) // 5)
    frame[["p", "q"]].to_csv("a.csv", sep=";", index=False)
    out, _ = map_of(capsys, "--data", "a.csv", "--decimal", ".")
    assert "24 points, 2 columns" in out
    frame.to_csv("a.csv", sep=";", index=False)  # with others
    assert "24 points, 3 columns" in map_of(capsys, "--data", "a.csv")[0]


def test_one_column_of_decimal_commas_without_a_name(capsys):
    RETURNS[["oil"]].to_csv("a.csv", decimal=",", sep=";", index=False, header=False)
    assert "24 periods, 1 assets" in weights_of(capsys, "--data", "a.csv")[0]
    whole = pd.DataFrame({"p": np.arange(24) // 3, "q": np.arange(24) // 2 + 7})
    whole.to_csv("b.csv", index=False, header=False)
    assert "24 points, 2 columns" in map_of(capsys, "--data", "b.csv")[0]


def test_one_column_whose_name_has_a_digit(capsys):
    RETURNS[["oil"]].rename(columns={"oil": "A2"}).to_csv("a.csv", index=False)
    out, weights = weights_of(capsys, "--data", "a.csv")
    assert "24 periods, 1 assets" in out and list(weights.index) == ["A2"]
    POINTS[["p"]].rename(columns={"p": "x1"}).to_csv("b.csv", index=False)
    assert "24 points, 1 columns" in map_of(capsys, "--data", "b.csv")[0]


def frame_of(columns):
    return pd.DataFrame(columns)


REFUSED = {
    "dates along the columns": (
        "portfolio",
        RETURNS.T.rename_axis("asset"),
        {},
        [],
        "dates along the columns, such as '2023-01-02': transpose the table",
    ),
    "years along the columns": (
        "portfolio",
        RETURNS.iloc[:8].T.set_axis(range(1990, 1998), axis=1),
        {},
        [],
        "dates along the columns, such as '1990'",
    ),
    "German thousands": (
        "map",
        POINTS.assign(p=np.arange(24), q=["1.234"] * 24)[["p", "q"]],
        {"sep": ";", **TEXT},
        [],
        "numbers such as 1.234 beside semicolons, which may be thousands; --decimal",
    ),
    "one column of decimal commas": (
        "map",
        frame_of({"p": ["0,5", "1,25"] * 12}),
        {"quoting": 3, "sep": ";", **TEXT},
        ["--sep", ","],
        "--sep ';' --decimal , says, found 1 names above 2 columns",
    ),
    "one name that is a number": (
        "portfolio",
        RETURNS[["oil"]].rename(columns={"oil": "600519"}),
        TEXT,
        [],
        "such as 'a600519', or numbers, such as 600519.0, found 600519",
    ),
    "a wrong decimal mark": (
        "portfolio",
        RETURNS,
        {},
        ["--decimal", ","],
        "; --decimal says which decimal mark the file has",
    ),
    "another text in returns": (
        "portfolio",
        RETURNS.assign(place=TWO),
        {},
        [],
        "found 'a' in column 'place'; --drop place leaves it out",
    ),
    "texts that are no dates": (
        "portfolio",
        RETURNS.set_axis(BARCODES),
        {"index_label": "Date"},
        ["--index", "Date"],
        "--index must name a column of dates, found 'ACGT",
    ),
    "no such index": (
        "portfolio",
        RETURNS,
        {},
        ["--index", "day"],
        "--index must name a column, got 'day', expected one of ['Date', 'oil'",
    ),
    "no such column": (
        "map",
        POINTS,
        TEXT,
        ["--drop", "p,zz"],
        "--drop must name a column, got 'zz', expected one of ['p', 'q', 'r']",
    ),
    "no such label": (
        "map",
        POINTS,
        TEXT,
        ["--label", "kind"],
        "--label must name a column, got 'kind', expected one of ['p', 'q', 'r']",
    ),
    "labels that are texts": (
        "map",
        POINTS.assign(species=TWO),
        TEXT,
        [],
        "found 'a' in column 'species'; --label species takes it as labels",
    ),
    "identifiers to keep": (
        "map",
        POINTS.assign(barcode=BARCODES),
        TEXT,
        ["--keep"],
        "in column 'barcode'; --drop barcode leaves it out",
    ),
    "dates among points": (
        "map",
        POINTS.assign(since=DAYS),
        TEXT,
        [],
        "found '2023-01-02' in column 'since'; --drop since leaves it out",
    ),
    "a missing number": (
        "map",
        POINTS.mask(POINTS.isin([POINTS.loc[4, "q"]])),
        TEXT,
        [],
        "column 'q' has 1 missing or infinite of 24 (the first is row 5)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_before_a_fit(capsys, no_fit, case):
    command, frame, form, options, message = REFUSED[case]
    frame.to_csv("a.csv", **form)
    out = ["--out", "result.csv"]
    code, _, err = run(capsys, command, "--data", "a.csv", *options, *out)
    assert code == 2 and message in err


@pytest.mark.parametrize("option", ["--index", "--label", "--drop"])
def test_options_that_need_a_table(capsys, no_fit, option):
    np.save("a.npy", POINTS.to_numpy())
    code, _, err = run(capsys, "map", "--data", "a.npy", option, "p", "--out", "a.png")
    assert code == 2 and f"{option} says nothing about .npy" in err


# --- columns
# ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "identifiers", [NUMBERS, np.arange(24), 7 - np.arange(24), BARCODES]
)
def test_identifiers_are_left_out_and_named(capsys, identifiers):
    POINTS.assign(code=identifiers).to_csv("a.csv", index=False)
    out, table = map_of(capsys, "--data", "a.csv")
    assert "24 points, 3 columns" in out
    assert re.search("left out: code .all values differ, --keep|rows: code", out)
    np.testing.assert_allclose(table[["x", "y"]], expected_map(), rtol=1e-4, atol=1e-4)


def test_identifiers_that_are_kept_or_name_the_rows(capsys):
    POINTS.assign(code=NUMBERS).to_csv("a.csv", index=False)
    out, _ = map_of(capsys, "--data", "a.csv", "--keep")
    assert "24 points, 4 columns" in out and "left out" not in out
    out, table = map_of(capsys, "--data", "a.csv", "--index", "code")
    assert "24 points, 3 columns" in out and "left out" not in out
    assert list(table["row"]) == list(NUMBERS)


@pytest.mark.parametrize(
    "columns",
    [
        {"flag": np.tile([True, False], 12)},
        {"count": np.arange(24) // 2},
        {"size": np.arange(24) / 4},
    ],
)
def test_other_numbers_are_features(capsys, columns):
    POINTS.assign(**columns).to_csv("a.csv", index=False)
    out, table = map_of(capsys, "--data", "a.csv")
    assert "24 points, 4 columns" in out and "left out" not in out
    expected = expected_map(POINTS.assign(**columns).astype(float))
    np.testing.assert_allclose(table[["x", "y"]], expected, rtol=1e-3, atol=1e-3)


def test_a_table_of_whole_numbers_keeps_its_columns(capsys):
    whole = pd.DataFrame({"a": NUMBERS, "b": NUMBERS[::-1] ** 2})
    whole.to_csv("a.csv", index=False)
    assert "24 points, 2 columns" in map_of(capsys, "--data", "a.csv")[0]


def test_identifiers_and_dates_of_a_mixed_table(capsys):
    pytest.importorskip("skrub")
    table = POINTS.assign(code=NUMBERS, name=BARCODES, since=DAYS, colour=TWO)
    table.to_csv("a.csv", index=False)
    out, _ = map_of(capsys, "--data", "a.csv", "--mixed")
    assert "24 points, 5 columns" in out and "left out: code (all values" in out
    assert "names of the rows: name" in out


@pytest.mark.parametrize("name", ["cell_type", "class", "species", "Target"])
def test_labels_are_offered_and_not_taken_in_silence(capsys, name):
    POINTS.assign(**{name: np.tile([0, 1], 12)}).to_csv("a.csv", index=False)
    out, table = map_of(capsys, "--data", "a.csv")
    assert "24 points, 4 columns, no labels" in out
    assert f"column {name!r} is not taken as labels: --label {name} takes it" in out
    assert list(table) == ["x", "y"]
    out, table = map_of(capsys, "--data", "a.csv", "--label", name)
    assert (
        "24 points, 3 columns: p, q, r; labels: " in out and "is not taken" not in out
    )
    assert list(table["label"]) == [0, 1] * 12


def test_columns_that_are_dropped(capsys):
    POINTS.assign(species=TWO, cluster=0).to_csv("a.csv", index=False)
    out, table = map_of(capsys, "--data", "a.csv", "--drop", "species,cluster")
    assert "24 points, 3 columns, no labels" in out and "is not taken" not in out
    np.testing.assert_allclose(table, expected_map(), rtol=1e-4, atol=1e-4)


def test_texts_that_are_no_dates_are_no_dates(capsys):
    RETURNS.set_axis(BARCODES).to_csv("a.csv", index_label="Date")
    out, weights = weights_of(capsys, "--data", "a.csv")
    assert "left out: Date (it has no dates)" in out
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)


def test_dates_of_any_column(capsys):
    RETURNS.reset_index().iloc[::-1, [1, 2, 0, 3]].to_csv("a.csv", index=False)
    out, weights = weights_of(capsys, "--data", "a.csv", "--index", "Date")
    assert f"{DAYS[0]} to {DAYS[-1]}, rows reversed" in out
    np.testing.assert_allclose(weights, expected_weights(), atol=1e-6)
    out, weights = weights_of(capsys, "--data", "a.csv", "--drop", "Date,gas")
    assert (
        "2 assets: oil, gold" in out
        and "no dates" in out
        and list(weights.index) == ["oil", "gold"]
    )


# --- options of maps and portfolios
# ----------------------------------------------------------------------


def test_seeds_and_sizes_of_maps(capsys):
    POINTS.to_csv("a.csv", index=False)
    args = "map", "--data", "a.csv", "--perplexity", 4, "--out", "a.PNG"
    assert run(capsys, *args, "--size", 4, 3)[0] == 0
    assert image.imread("a.PNG").shape[:2] == (450, 600)
    _, table = map_of(capsys, "--data", "a.csv", "--seed", 5)
    expected = SNEEmbedding(perplexity=4, random_state=5).fit_transform(POINTS)
    np.testing.assert_allclose(table, expected, rtol=1e-4, atol=1e-4)


def test_limits_and_forecasts_of_portfolios(capsys):
    RETURNS.to_csv("a.csv")
    means = {"gold": 0.01, "oil": 0.02, "gas": -0.01, "coal": 1.0}
    pd.Series(means, name="mu").rename_axis("asset").to_csv("mu.csv")
    forecasts = [means[name] for name in RETURNS]
    for name, frame in (("mu.csv", None), ("row.csv", pd.DataFrame([means]))):
        if frame is not None:
            frame.to_csv(name, index=False)
        _, weights = weights_of(capsys, "--data", "a.csv", "--expected-returns", name)
        expected = expected_weights(expected_returns=forecasts)
        np.testing.assert_allclose(weights, expected, atol=1e-6)
    code, _, err = run(
        capsys, "portfolio", "--data", "a.csv", "--expected-returns", "a.csv"
    )
    assert code == 2 and "one number for each asset without --walk-forward" in err
    pd.DataFrame([means]).drop(columns="gas").to_csv("less.csv", index=False)
    code, _, err = run(
        capsys, "portfolio", "--data", "a.csv", "--expected-returns", "less.csv"
    )
    assert code == 2 and "less.csv: expected a number for each asset of a.csv" in err
    assert "found none for 'gas'" in err


def test_integer_limits_of_portfolios(capsys):
    pytest.importorskip("pyscipopt")
    RETURNS.to_csv("a.csv")
    least = "--risk-measure", "cvar", "--max-assets", 2, "--min-held", 0.3
    _, weights = weights_of(capsys, "--data", "a.csv", *least)
    held = weights[weights > 1e-9]
    assert len(held) <= 2 and held.min() >= 0.3 - 1e-6
    assert weights.sum() == pytest.approx(1)


def test_a_walk_forward_as_text_table_and_picture(capsys):
    RETURNS.to_csv("a.csv")
    walk = "portfolio", "--data", "a.csv", "--walk-forward", 12, "--refit-every", 4
    code, out, err = run(capsys, *walk, "--out", "walk.png", "--unit", "fractions")
    assert code == 0 and "3 fits on 12 periods, each held for 4" in out
    assert f"from {DAYS[12]} to {DAYS[-1]}" in out
    assert "annual return" in out and "1/N" in out
    assert err.count("fit ") == 3 and "fit 3 of 3" in err
    assert image.imread("walk.png").std() > 0.05
    assert run(capsys, *walk, "--out", "walk.csv", "--unit", "fractions")[0] == 0
    table = pd.read_csv("walk.csv")
    assert list(table) == ["period", "portfolio", "1/N"]
    assert list(table["period"]) == list(DAYS[12:])
    first = expected_weights(RETURNS[:12], risk_aversion=1.0)
    assert table["portfolio"][0] == pytest.approx(RETURNS.iloc[12] @ first)


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d %b %Y"])
def test_dates_of_a_walk_forward_are_those_of_the_file(capsys, form):
    months = pd.date_range("2021-01-01", periods=24, freq="MS").strftime(form)
    RETURNS.set_axis(months).to_csv("a.csv", index_label="Date")
    walk = "--walk-forward", 12, "--refit-every", 6, "--unit", "fractions"
    code, out, err = run(
        capsys, "portfolio", "--data", "a.csv", *walk, "--out", "walk.csv"
    )
    assert code == 0 and f"from {months[12]} to {months[-1]}" in out, err
    assert list(pd.read_csv("walk.csv")["period"]) == list(months[12:])
    code, _, err = run(capsys, "portfolio", "--data", "a.csv", *walk, "--out", "a.png")
    assert code == 0 and "warning" not in err


def test_forecasts_by_date_of_a_walk_forward(capsys):
    RETURNS.to_csv("a.csv")
    forecasts = RETURNS * 0.0
    forecasts.loc[DAYS[:16], "gas"] = 0.05
    forecasts.loc[DAYS[16:], "oil"] = 0.05
    forecasts.to_csv("mu.csv")
    code, _, err = run(
        capsys, "portfolio", "--data", "a.csv", "--unit", "fractions",
        "--walk-forward", 12, "--refit-every", 6, "--expected-returns", "mu.csv",
        "--out", "walk.csv",
    )  # fmt: skip
    assert code == 0, err
    earned = pd.read_csv("walk.csv")["portfolio"]
    np.testing.assert_allclose(earned[:6], RETURNS["gas"][12:18], atol=1e-6)
    np.testing.assert_allclose(earned[6:], RETURNS["oil"][18:], atol=1e-6)


def test_a_picture_without_a_walk(capsys, no_fit):
    RETURNS.to_csv("a.csv")
    code, _, err = run(capsys, "portfolio", "--data", "a.csv", "--out", "a.png")
    assert code == 2 and "--out must be a .csv file without --walk-forward" in err


# --- files of results
# ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.png", "a.pdf", "a.svg", "a.csv", "a.html"])
def test_only_results_of_a_command_are_replaced(capsys, tmp_path, name):
    if name == "a.html":
        pytest.importorskip("plotly")
    np.savez("a.npz", X=POINTS[:12].to_numpy())
    command = "map", "--data", "a.npz", "--perplexity", 2, "--size", 2, 2, "--out", name
    mine = b"a,b\n1,2\n"
    (tmp_path / name).write_bytes(mine)
    code, _, err = run(capsys, *command)
    assert code == 2 and f"no sk-stormc command wrote, got {name}; --force" in err
    assert (tmp_path / name).read_bytes() == mine
    assert run(capsys, *command, "--force")[0] == 0
    assert run(capsys, *command)[0] == 0  # its own


def test_results_are_not_replaced_before_a_fit(capsys, no_fit, tmp_path):
    RETURNS.to_csv("a.csv")
    for name in ("compare.csv", "portfolio.png"):
        (tmp_path / name).write_text("mine")
    for args in (
        ["portfolio", "--data", "a.csv", "--out", "compare.csv"],
        ["compare", "--data", "a.csv", "--out", "."],
        ["reproduce", "portfolio"],
    ):
        code, _, err = run(capsys, *args)
        assert code == 2 and "must not replace a file that no" in err
    code, _, err = run(
        capsys, "portfolio", "--data", "a.csv", "--expected-returns", "weights.csv",
        "--out", "weights.csv",
    )  # fmt: skip
    assert code == 2


def test_a_warning_is_a_line(capsys, monkeypatch):
    def shown(message, category, filename, lineno, file=None, line=None):
        """What Python does, and pytest does not."""
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))

    RETURNS.to_csv("a.csv")
    pd.DataFrame([dict.fromkeys(RETURNS, 0.001)]).to_csv("mu.csv", index=False)
    monkeypatch.setattr(warnings, "showwarning", shown)
    warnings.simplefilter("always")
    code, _, err = run(
        capsys, "portfolio", "--data", "a.csv", "--walk-forward", 12, "--refit-every",
        4, "--expected-returns", "mu.csv", "--unit", "fractions",
    )  # fmt: skip
    assert code == 0
    warned = [line for line in err.splitlines() if "fit " not in line]
    assert len(warned) == 1 and warned[0].startswith("warning: expected_returns is one")
