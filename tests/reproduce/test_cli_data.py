"""Files of returns as programs and people write them."""

import signal
import sys

import numpy as np
import pandas as pd
import pytest

from sk_stormc import minimize
from sk_stormc.__main__ import main
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.reproduce import runner
from sk_stormc.reproduce.points_file import read_points
from sk_stormc.reproduce.returns_file import load_returns, read_returns

RETURNS = make_gaussian_returns(30, 3, mean=0.05, random_state=0).round(4) / 100
DAYS = [str(day.date()) for day in pd.date_range("2020-01-31", periods=30)]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, header, rows, separator=",", encoding="utf-8", index=None, form="{:.6f}"):
    lines = [separator.join(header)] if header else []
    for i, row in enumerate(rows):
        cells = [form.format(v) for v in row]
        lines.append(separator.join([str(index[i]), *cells] if index is not None else cells))
    with open(name, "w", encoding=encoding, newline="") as file:
        file.write("\n".join(lines) + "\n")
    return name


def check(name, values=RETURNS, names=None, dates=None):
    found = load_returns(name)
    np.testing.assert_allclose(found.values, values, atol=1e-9)
    assert names is None or found.names == names
    assert (found.dates is None) == (dates is None)
    assert dates is None or [found.dates[0], found.dates[-1]] == [str(dates[0]), str(dates[-1])]
    return found


TICKERS = ["600519", "300750", "1398"]


@pytest.mark.parametrize("tickers", [TICKERS, ["000001", "000002", "000063"]])
@pytest.mark.parametrize("index", [None, DAYS, range(30), range(1990, 2020)])
def test_numeric_tickers_are_names(tickers, index):
    for first in ["", "Date", "t"] if index is not None else [None]:
        header = tickers if first is None else [first, *tickers]
        check(write("a.csv", header, RETURNS, index=index), names=tickers, dates=index)
    if index is not None:  # as R writes it, without a name above the index
        check(write("a.csv", tickers, RETURNS, index=index), names=tickers, dates=index)


def test_numbers_that_are_returns_are_no_names():
    check(write("a.csv", None, RETURNS))
    whole = np.random.default_rng(0).integers(-200, 200, (30, 3))
    whole[0] = [100, 200, 300]
    check(write("a.csv", None, whole, form="{:d}"), whole)


@pytest.mark.parametrize("name", ["Year", "t", "time", "timestamp", "Datum", "Index", "month", "Period"])
@pytest.mark.parametrize("index", [range(1990, 2020), range(0, 300, 10), [1577836800 + 86400 * i for i in range(30)]])
def test_columns_that_count_are_no_assets(name, index):
    check(write("a.csv", [name, "A", "B", "C"], RETURNS, index=index), names=["A", "B", "C"], dates=index)


def test_shares_with_the_names_of_dates_are_assets():
    for name in ("T", "DAY", "Time"):
        check(write("a.csv", [name, "A", "B"], RETURNS), names=[name, "A", "B"])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", ", ", " "])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_separators_and_encodings(separator, encoding):
    names = ["Date", "A", "B", "C"]
    for suffix in ("csv", "txt", "tsv"):
        check(write(f"a.{suffix}", names, RETURNS, separator, encoding, DAYS), names=names[1:], dates=DAYS)


def test_names_in_a_western_code_page():
    check(write("a.csv", ["Datum", "Zürich", "München", "Öl"], RETURNS, ";", "cp1252", DAYS), dates=DAYS)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas(separator):
    for index in (None, DAYS, [f"{i + 1:02d}.02.2020" for i in range(30)]):
        lines = [separator.join([*([] if index is None else ["Datum"]), "A", "B", "C"])]
        for i, row in enumerate(RETURNS):
            cells = [f"{v:.6f}".replace(".", ",") for v in row]
            lines.append(separator.join(cells if index is None else [index[i], *cells]))
        with open("a.csv", "w") as file:
            file.write("\n".join(lines))
        assert "decimal commas" in check("a.csv", dates=index).notes
    with open("b.csv", "w") as file:
        file.write('A,B\n"0,5","-1,25"\n"1.234,5","0"\n')
    np.testing.assert_array_equal(load_returns("b.csv").values, [[0.5, -1.25], [1234.5, 0]])
    with open("c.csv", "w") as file:
        file.write("A;B\n0,5;0.25\n")
    with pytest.raises(ValueError, match="found '0,5' in column 'A'"):
        read_returns("c.csv")


def test_percent_signs_are_fractions():
    check(write("a.csv", ["Date", "A", "B", "C"], 100 * RETURNS, index=DAYS, form="{:.4f}%"), dates=DAYS)
    check(write("a.csv", None, 100 * RETURNS, form="{:.4f} %"))
    assert read_returns("a.csv")[1] == "percent divided by 100"
    with open("b.csv", "w") as file:
        file.write("A,B\n5%,1\n0.05,1\n")
    with pytest.raises(ValueError, match="percent signs at all numbers of column 'A', or at none"):
        read_returns("b.csv")


def test_arrays_in_npy_files():
    np.save("a.npy", RETURNS)
    check("a.npy", names=["1", "2", "3"])
    for array in (RETURNS[0], RETURNS.astype(str), RETURNS[:0]):
        np.save("b.npy", array)
        with pytest.raises(ValueError, match="expected the file to hold real numbers, of shape"):
            read_returns("b.npy")
    np.save("c.npy", np.array([[None]]))
    with pytest.raises(ValueError, match="expected a .npy file of a numpy array"):
        read_returns("c.npy")


def test_what_pandas_reads(monkeypatch):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(RETURNS, columns=list("ABC"), index=pd.DatetimeIndex(DAYS, name="when"))
    frame.to_parquet("a.parquet")
    found = load_returns("a.parquet")
    np.testing.assert_array_equal(found.values, RETURNS)
    assert found.names == ["A", "B", "C"] and found.dates[0].startswith("2020-01-31")
    frame.reset_index(drop=True).to_feather("a.feather")
    check("a.feather", names=["A", "B", "C"])
    with open("b.parquet", "w") as file:
        file.write("no")
    with pytest.raises(ValueError, match="b.parquet: pandas cannot read it"):
        read_returns("b.parquet")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match="a.parquet: reading .parquet needs pandas.*a .csv, .npz or .npy file"):
        read_returns("a.parquet")


@pytest.mark.parametrize("code", ["", "NA", "n/a", "nan", "-99.99", "-999", "--", "."])
def test_missing_values(code, capsys):
    with open("a.csv", "w") as file:
        lines = [",".join([DAYS[i], *(f"{v:.6f}" for v in RETURNS[i])]) for i in range(30)]
        lines[0], lines[7] = f"{DAYS[0]},{code},1,2", f"{DAYS[7]},1,{code},2"
        file.write("\n".join(["Date,A,B,C", *lines]))
    with pytest.raises(ValueError, match=r"column 'A' has 1 missing .* of 30 .*first is period 1.*--drop-missing"):
        read_returns("a.csv")
    found = load_returns("a.csv", drop_missing=True)
    np.testing.assert_allclose(found.values, np.delete(RETURNS, [0, 7], axis=0), atol=1e-9)
    assert found.dates[0] == DAYS[1] and found.notes == ("2 periods with missing values dropped",)
    args = ["reproduce", "portfolio", "--data", "a.csv", "--ifo", "300", "--seeds", "1", "--methods", "lbfgs"]
    assert main(args) == 2
    if code:
        return  # the command shows the same for all
    assert main([*args, "--drop-missing"]) == 0
    assert "a.csv: 28 periods, 3 assets, 2020-02-01 to 2020-02-29, unit: " in capsys.readouterr().out


def test_no_whole_period():
    with open("a.csv", "w") as file:
        file.write("A,B\n1,NA\nNA,1\n")
    with pytest.raises(ValueError, match="in each period one is missing"):
        read_returns("a.csv", drop_missing=True)


@pytest.mark.parametrize("factor, unit", [(0.01, "fractions"), (1, "percent"), (100, "basis points")])
def test_the_line_that_says_what_was_read(factor, unit):
    rng = np.random.default_rng(0)
    write("a.csv", ["Datum", "A", "B"], factor * rng.normal(size=(30, 2)), index=DAYS)
    assert load_returns("a.csv").line() == f"30 periods, 2 assets, 2020-01-31 to 2020-02-29, unit: {unit} (guessed)"
    write("b.csv", ["Datum", "A", "B"], 1000 + factor * rng.normal(size=(30, 2)), index=DAYS)
    with pytest.raises(ValueError, match=r"b.csv: expected returns, but none of 60 .* prices.*pct_change.*--unit"):
        load_returns("b.csv")
    assert load_returns("b.csv", unit="basis-points").line().endswith("unit: fractions, basis-points divided by 10,000")


def test_control_c_ends_with_one_line(monkeypatch, capsys):
    def stop(record):
        signal.raise_signal(signal.SIGINT)

    def interrupted(*args, on_record, **kwargs):
        return minimize(*args, on_record=stop, **kwargs)

    monkeypatch.setattr(runner, "minimize", interrupted)
    write("a.csv", ["A", "B", "C"], RETURNS)
    assert main(["reproduce", "portfolio", "--data", "a.csv"]) == 130
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines()[-1] == "interrupted" and "Traceback" not in err


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_points(separator):
    X = np.random.default_rng(0).normal(size=(12, 2)).round(3)
    lines = [separator.join(["p", "label", "q"])] + [separator.join([str(p), "ab"[int(p > 0)], str(q)]) for p, q in X]
    text = "\n".join(lines)
    with open("a.csv", "w", encoding="utf-16") as file:
        file.write(text if separator == "," else text.replace(".", ","))
    points, y = read_points("a.csv")
    np.testing.assert_array_equal(points, X)
    np.testing.assert_array_equal(y, X[:, 0] > 0)
    np.save("a.npy", X)
    np.testing.assert_array_equal(read_points("a.npy")[0], X)
    np.save("b.npy", X[0])
    with pytest.raises(ValueError, match="expected a two-dimensional array of numbers"):
        read_points("b.npy")
