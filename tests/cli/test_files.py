"""Tests of tables in users' files, and of the command that prints the weights of a
portfolio."""

import csv
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.lib import format as npy

from sk_stormc import CompositionalPortfolio
from sk_stormc.__main__ import main
from sk_stormc.cli.point_files import read_points
from sk_stormc.cli.return_files import read_returns
from sk_stormc.datasets import make_gaussian_returns

RETURNS = make_gaussian_returns(60, 3, mean=0.05, random_state=0).round(4)  # in percent
DAYS = [
    str(day) for day in np.arange("2020-01-27", "2020-03-27", dtype="datetime64[D]")
]
GERMAN = [f"{day[8:]}.{day[5:7]}.{day[:4]}" for day in DAYS]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(
    name, rows=RETURNS, header="oil,gas,gold", index=None, separator=",", footer=()
):
    lines = [separator.join(map(repr, map(float, row))) for row in rows]
    if index is not None:
        lines = [
            f"{label}{separator}{line}"
            for label, line in zip(index, lines, strict=True)
        ]
    lines = [
        *([] if header is None else [header.replace(",", separator)]),
        *lines,
        *footer,
    ]
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return name


def command(capsys, *args):
    """The weights that the command finds, what it prints, and its error."""
    code = main(["portfolio", "--data", *args, "--out", "weights.csv"])
    out, err = capsys.readouterr()
    if code:
        assert code == 2 and err.count("error: ") == 1 and "Traceback" not in err
        return None, out, err
    with open("weights.csv", encoding="utf-8") as file:
        return (
            {row["asset"]: float(row["weight"]) for row in csv.DictReader(file)},
            out,
            err,
        )


def expected_weights(values, **params):
    params = {"constraint": (0.0, 1.0), "budget": 1.0, "random_state": 0, **params}
    return CompositionalPortfolio(**params).fit(values).weights_


# --- tables
# ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "header"),
    [
        *[
            (index, header)
            for index in (None, DAYS)
            for header in ("oil,gas,gold", None)
        ],
        (DAYS, "600519,1398,17"),
        (GERMAN, "oil,gas,gold"),
        (range(60), "oil,gas,gold"),
        (range(1960, 2020), None),
    ],
)
def test_text_with_and_without_names_and_dates(index, header):
    named = f"Date,{header}" if header and index is not None else header
    found = read_returns(write("a.csv", index=index, header=named))
    np.testing.assert_array_equal(found.values, RETURNS)
    assert header is None or found.names == header.split(",")
    assert (found.dates is None) == (index is None)
    span = "no dates" if index is None else f"{index[0]} to {index[-1]}"
    lines = found.reading.lines()
    columns = 3 + (index is not None)
    assert lines[0] == f"a.csv: 60 rows x {columns} columns"
    assert lines[1].startswith(f"60 periods, 3 assets: {', '.join(found.names)}")
    assert lines[-1].startswith(f"{span}, unit: percent (guessed)")


def test_first_rows_that_look_like_headers():
    rows = RETURNS.copy()
    rows[0] = 0.25  # pandas would name such columns 0.25, 0.25.1 and 0.25.2
    np.testing.assert_array_equal(
        read_returns(write("a.csv", rows, header=None)).values, rows
    )
    for first, index in (("2019-12-31,,0.1,0.2", DAYS), (",0.1,0.2", None)):
        missing = write("b.csv", header=first, index=index)
        with pytest.raises(ValueError, match="has 1 missing"):
            read_returns(missing)
        np.testing.assert_array_equal(
            read_returns(missing, drop_missing=True).values, RETURNS
        )
    with pytest.raises(
        ValueError,
        match="such as 'a600519', or numbers, such as 600519.0, found 600519, 1398, 17",
    ):
        read_returns(write("c.csv", header="600519,1398,17"))
    for name in (None, "id"):  # an index is no feature
        pd.DataFrame(RETURNS, columns=[600519, 1398, 17]).rename_axis(name).to_csv(
            "d.csv"
        )
        np.testing.assert_array_equal(read_points("d.csv").X, RETURNS)


@pytest.mark.parametrize("suffix, separator", [("tsv", "\t"), ("txt", " ")])
def test_other_separators(suffix, separator):
    found = read_returns(
        write(
            f"a.{suffix}", index=DAYS, header="Date,oil,gas,gold", separator=separator
        )
    )
    np.testing.assert_array_equal(found.values, RETURNS)
    assert found.names == ["oil", "gas", "gold"] and found.dates == DAYS


def test_arrays():
    np.save("a.npy", RETURNS)
    np.savez("b.npz", dates=np.arange(60), anything=RETURNS.astype("f4"))
    np.savez("c.npz", returns_bp=100 * RETURNS, returns=RETURNS, more=RETURNS + 1)
    np.savez("d.npz", returns_bp=100 * RETURNS, more=RETURNS)
    for name in ("a.npy", "c.npz"):
        np.testing.assert_array_equal(read_returns(name).values, RETURNS)
    np.testing.assert_array_equal(read_returns("b.npz").values, RETURNS.astype("f4"))
    basis_points = read_returns("d.npz")
    np.testing.assert_allclose(basis_points.values, RETURNS / 100)
    assert basis_points.reading.lines() == [
        "d.npz: 60 rows x 3 columns",
        "60 periods, 3 assets: 1, 2, 3",
        "no dates, unit: basis-points, basis-points divided by 10,000",
    ]
    with pytest.raises(
        ValueError,
        match="d.npz: --unit must be basis-points, since those are 'returns_bp'",
    ):
        read_returns("d.npz", unit="percent")


def test_frames():
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        RETURNS, columns=list("ABC"), index=pd.DatetimeIndex(DAYS, name="when")
    )
    frame.to_parquet("a.parquet")
    frame.reset_index(drop=True).to_feather("b.feather")
    for name, dates in (("a.parquet", DAYS), ("b.feather", None)):
        found = read_returns(name)
        np.testing.assert_array_equal(found.values, RETURNS)
        assert found.names == ["A", "B", "C"] and found.dates == dates


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    np.testing.assert_array_equal(
        read_returns(write("a.csv", header=None)).values, RETURNS
    )
    for name in (write("b.csv"), write("c.parquet")):
        with pytest.raises(
            ValueError,
            match=f"{name}: names, dates and .parquet.* need pandas .*pip install "
            r'"sk_stormc\[files\]"',
        ):
            read_returns(name)


@pytest.mark.parametrize(
    "name, content, message",
    [
        (
            "a.doc",
            "1,2",
            "expected a file named .npz, .npy, .csv, .tsv, .txt, .*or .xls",
        ),
        ("a.csv", "", "expected a table, found no lines"),
        ("a.csv", "A,B\n", "expected rows and columns of numbers|expected numbers"),
        (
            "a.csv",
            "A,B\n1,2\n3,four\n",
            "expected numbers .*found 'four' in column 'B'",
        ),
        (
            "a.csv",
            "A\n0,5\n1,5\n",
            "as --sep ';' --decimal , says, found 1 names above 2",
        ),
        (
            "a.csv",
            "Date,A,B\n2020-01-01,1,\n2020-01-02,2,1\n",
            r"column 'B' has 1 missing .* of 2 \(.*period 1, 20",
        ),
        ("a.csv", "A,B\n1,2\n-inf,1\n", "column 'A' has 1 missing or infinite"),
        (
            "a.csv",
            "Date,A\n2020-01-01,1,2\n2020-01-02,2,1\n",
            "names of all columns, .*found 2 names above 3 columns",
        ),
        (
            "a.csv",
            "A,B,A\n1,2,3\n3,2,1\n",
            "expected names that differ, found 'A' twice",
        ),
        (
            "a.csv",
            "0,1,2\n1,2,3\n3,2,1\n",
            "such as 'a0', or numbers, such as 0.0, found 0, 1, 2, which may be either",
        ),
        ("a.csv", "A,B\n1,2\n1,-99.99\n", "column 'B' has 1 missing"),
        (
            "a.csv",
            "Date,A\n2020-01-01,1\n2020-01-02,2\n2020-01-03,1\nMean,1\n",
            "a date such as .*found 'Mean'",
        ),
        ("a.parquet", "no", "pandas cannot read it"),
        ("a.npz", "A,B\n1,2\n", "expected numpy arrays"),
        (
            "a.npz",
            {"a": RETURNS, "b": RETURNS},
            r"an array 'returns' or one two-dim.*found a \(60, 3\), b \(60, 3\)",
        ),
        (
            "a.npz",
            {"returns": np.arange(3)},
            "expected 'returns' to hold real numbers in two dimensions",
        ),
        ("a.npz", {"returns": np.array([[None]])}, "expected numpy arrays"),
    ],
)
def test_what_cannot_be_read(name, content, message):
    if isinstance(content, dict):
        np.savez(name, **content)
    else:
        Path(name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=f"{name}: .*({message})"):
        read_returns(name)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_header_that_claims_more_than_fits_in_memory(suffix, tmp_path):
    with open("returns.npy", "wb") as file:
        npy.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (6 * 10**12, 3)}
        )
        file.write(bytes(240))
    with zipfile.ZipFile("returns.npz", "w") as archive:
        archive.write("returns.npy")
    with pytest.raises(
        ValueError, match=f"returns{suffix}: expected numpy arrays that fit in memory"
    ):
        read_returns(f"returns{suffix}")


def test_missing_values():
    rows = RETURNS.copy()
    rows[[0, 7], [0, 1]] = np.nan
    name = write("a.csv", rows, "Date,oil,gas,gold", index=DAYS)
    with pytest.raises(
        ValueError,
        match=r"column 'oil' has 1 missing .* of 60 .*first is period "
        r"1.*--drop-missing",
    ):
        read_returns(name)
    found = read_returns(name, drop_missing=True)
    np.testing.assert_array_equal(found.values, np.delete(RETURNS, [0, 7], axis=0))
    assert (
        found.dates[0] == DAYS[1]
        and "2 periods with missing values dropped" in found.reading.facts
    )
    rows[:, 0] = np.nan
    with pytest.raises(ValueError, match="in each period one is missing"):
        read_returns(write("b.csv", rows), drop_missing=True)


def test_points():
    X, letters = RETURNS[:12], np.array(list("abcabcabcabc"))
    np.savez("a.npz", X=X, y=letters)
    np.savez("b.npz", anything=X)
    table = pd.DataFrame(X, columns=list("pqr")).assign(Label=letters)
    table.to_csv("c.csv", index=False)
    for name in ("a.npz", "c.csv"):
        points = read_points(name)
        np.testing.assert_array_equal(points.X, X)
        np.testing.assert_array_equal(points.label, letters)
    assert read_points("b.npz").label is None
    for arrays, message in (
        ({"p": X, "q": X}, "one two-dimensional"),
        ({"X": X, "y": [1]}, "expected y of shape"),
    ):
        np.savez("d.npz", **arrays)
        with pytest.raises(ValueError, match=message):
            read_points("d.npz")
    for text, message in (
        ("p,q\n1,x\n", "expected numbers"),
        ("p,q\n1,2\n", "at least 10 points"),
    ):
        Path("e.csv").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=f"e.csv: .*{message}"):
            read_points("e.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.npz", "a.npy"])
def test_missing_numbers_of_points(name):
    X = RETURNS[:12].copy()
    X[[7, 3], [1, 2]] = np.nan, np.inf
    if name == "a.csv":
        pd.DataFrame(X, columns=list("pqr")).to_csv(name, index=False)
    else:
        (np.save if name == "a.npy" else np.savez)(name, X)
    column = "'q'" if name == "a.csv" else "'2'"
    with pytest.raises(
        ValueError,
        match=rf"column {column} has 1 missing .* of 12 \(the first is row 8\); leave "
        rf"such",
    ):
        read_points(name)


@pytest.mark.parametrize("header", ["label", "Labels"])
@pytest.mark.parametrize(
    ("texts", "labels", "kind"),
    [
        (["01", "1", "1"], "01 1 1", "O"),
        (["007", "010", "", "x"], "007 010 nan x", "O"),
        (["0", "10", "-2"], "0 10 -2", "i"),
        (["0.5", "0", "1e3"], "0.5 0.0 1000.0", "f"),
        (["a", "b", "0"], "a b 0", "O"),
    ],
)
def test_labels_of_points_that_begin_with_a_zero(header, texts, labels, kind):
    lines = [
        f"{p},{label},{q}" for (p, q, _), label in zip(RETURNS, texts * 4, strict=False)
    ]
    Path("a.csv").write_text("\n".join([f"p,{header},q", *lines]), encoding="utf-8")
    points = read_points("a.csv")
    found = points.label
    np.testing.assert_array_equal(points.X, RETURNS[: len(lines), :2])
    assert list(map(str, found)) == 4 * labels.split() and found.dtype.kind == kind


# --- weights
# ----------------------------------------------------------------------


def test_weights_are_printed_and_written(capsys):
    args = [write("returns.csv"), "--unit", "percent", "--risk-aversion", "30"]
    weights, out, _ = command(capsys, *args, "--limit", "oil + gas <= 0.2")
    assert (
        "percent divided by 100" in out
        and "gold" in out
        and "Weights written to weights.csv" in out
    )
    expected = expected_weights(
        RETURNS / 100, risk_aversion=30.0, linear_constraints=([1, 1, 0], None, 0.2)
    )
    np.testing.assert_allclose(list(weights.values()), expected, atol=1e-9)
    assert list(weights) == ["oil", "gas", "gold"] and weights["gold"] >= 0.8 - 1e-8
    weights = command(
        capsys, *args, "--risk-measure", "cvar", "--bounds", "-0.5", "0.7"
    )[0]
    assert max(weights.values()) <= 0.7 and sum(weights.values()) == pytest.approx(1)
    assert (
        "largest ratio, converged" in command(capsys, *args, "--objective", "ratio")[1]
    )
    out = command(capsys, *args, "--max-risk", "0.02")[1]
    assert "risk of at most 0.02, converged" in out and "deviation 0.02" in out


@pytest.mark.parametrize(
    ("unit", "factor"), [("fractions", 0.01), ("percent", 1.0), ("basis-points", 100.0)]
)
def test_a_unit_that_is_guessed_is_treated_as_one_that_is_given(unit, factor, capsys):
    values = (RETURNS * factor).round(8)
    name = write("mine.csv", values)
    expected = expected_weights(
        values / {"fractions": 1, "percent": 1e2, "basis-points": 1e4}[unit],
        risk_aversion=30.0,
    )
    for given in ([], ["--unit", unit]):
        weights, out, _ = command(capsys, name, *given, "--risk-aversion", "30")
        np.testing.assert_array_equal(list(weights.values()), expected)
        assert ("guessed" in out) == (not given) and ("divided by" in out) == (
            unit != "fractions"
        )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere.csv"], "No such file: nowhere.csv. A path"),
        (["returns.csv", "--limit", "coal <= 1"], "'coal'"),
        (["returns.csv", "--risk-aversion", "-1"], "risk_aversion"),
    ],
)
def test_errors_are_one_line(args, words, capsys):
    write("returns.csv")
    assert words in command(capsys, *args)[2]


NAMED = pd.to_datetime(DAYS).strftime("%d %b %Y").tolist()


@pytest.mark.parametrize("dates", [DAYS, GERMAN, NAMED, list(range(1960, 2020))])
def test_periods_with_the_latest_first_are_reversed(dates, capsys):
    args = ["--risk-measure", "cdar", "--risk-aversion", "0.2"]
    up = command(
        capsys, write("up.csv", header="Date,oil,gas,gold", index=dates), *args
    )
    down = command(
        capsys,
        write("down.csv", RETURNS[::-1], "Date,oil,gas,gold", dates[::-1]),
        *args,
    )
    assert (
        up[0] == down[0] and "rows reversed" in down[1] and "rows reversed" not in up[1]
    )
    assert f"{dates[0]} to {dates[-1]}" in down[1]
    np.testing.assert_array_equal(read_returns("down.csv").values, RETURNS)
    for index in (
        [
            day.replace("Jan", "enero")
            .replace("Feb", "febrero")
            .replace("Mar", "marzo")
            for day in NAMED
        ],
        [*NAMED[30:], *NAMED[:30]],
    ):
        name = write("mixed.csv", header="Date,oil,gas,gold", index=index)
        assert (
            "expected dates such as 2020-01-31 in ascending order"
            in command(capsys, name, *args)[2]
        )
        assert command(capsys, name)[0] is not None


WALK = np.cumsum(np.random.default_rng(1).normal(0.0, 0.01, (250, 3)), axis=0)


def test_prices_are_refused(capsys):
    name = write("mine.csv", 40 * np.exp(WALK))
    err = command(capsys, name)[2]
    assert (
        "mine.csv: expected returns, but" in err
        and "file of prices" in err
        and "--prices converts them" in err
    )
    assert main(["reproduce", "portfolio", "--data", name]) == 2
    assert "--unit" in capsys.readouterr().err
