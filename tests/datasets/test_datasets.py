"""Returns of the Kenneth R. French data library, without a network, and Gaussian
returns."""

import io
import sys
import urllib.error
import zipfile

import numpy as np
import pytest

from sk_stormc.datasets import fetch_french_portfolios, french, make_gaussian_returns
from sk_stormc.datasets.french import parse_french_csv

NAMES = [f"ME{i} OP{j}" for i in range(1, 6) for j in range(1, 6)]
NAMES[0], NAMES[4] = "SMALL LoOP", "SMALL HiOP"
ISO = ["1990-07-02", "1990-07-03", "1990-07-05"]
DATES = [date.replace("-", "") for date in ISO]
EQUAL, VALUE = (
    f"  Average {kind} Weighted Returns -- Daily" for kind in ("Equal", "Value")
)
ZIP = "Europe_25_Portfolios_ME_OP_Daily_CSV.zip"
HEADER = """\
This file was created using the 202405 Bloomberg database. It contains
value- and equal-weighted returns for the intersections of 5 ME portfolios
and 5 OP portfolios in Europe.

Missing data are indicated by -99.99.
"""


def table_text(values, dates=DATES, names=NAMES, title=VALUE):
    """A table in the layout of the US files, with two digits."""
    rows = [
        f"{date}," + ",".join(f"{v:8.2f}" for v in row)
        for date, row in zip(dates, values, strict=True)
    ]
    return "\n".join([title, "," + ",".join(names), *rows]) + "\n"


def percents(seed=0):
    return np.random.RandomState(seed).randint(-900, 900, size=(3, 25)) / 100


VW, EW = percents(), percents(seed=1)
FILE = "\n\n".join([HEADER, table_text(VW), table_text(EW, title=EQUAL), "Copyright\n"])


def zip_bytes(text=FILE, member="Europe_25_Portfolios_ME_OP_Daily.csv"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, text)
    return buffer.getvalue()


@pytest.fixture
def no_network(monkeypatch):
    def refuse(url, timeout=None):
        raise AssertionError(f"tried to open {url}")

    monkeypatch.setattr(french, "urlopen", refuse)


# parse_french_csv


def test_parse_reads_every_table():
    header, tables = parse_french_csv(FILE)
    assert header.startswith("This file was created") and "Missing data" in header
    assert [table.title for table in tables] == [VALUE.strip(), EQUAL.strip()]
    for table, expected in zip(tables, (VW, EW), strict=True):
        assert table.names == NAMES and table.dates.dtype == "datetime64[D]"
        assert table.dates.astype(str).tolist() == ISO
        np.testing.assert_array_equal(table.values, expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"\n": "\r\n"},
        {"\n,": "\n\n,", "\n199": "\n\n199"},  # blank lines around the names
        {"\n\n": "\n"},  # no blank line at all
        # the international files: a blank before the first comma, and spaces
        {"\n,": "\n ,", "0702,": "0702   ,", ",  ": "  ,"},
    ],
)
def test_parse_does_not_depend_on_blanks_and_line_ends(changes):
    text = FILE
    for old, new in changes.items():
        text = text.replace(old, new)
    for found, table in zip(
        parse_french_csv(text)[1], parse_french_csv(FILE)[1], strict=True
    ):
        assert found.title == table.title and found.names == table.names
        np.testing.assert_array_equal(found.dates, table.dates)
        np.testing.assert_array_equal(found.values, table.values)


def test_parse_missing_codes_untitled_tables_and_other_text():
    text = (
        "  Some\n,A, B \n20000103, -99.99, -999\n20000104, -99.98, "
        "-99.00\n\n,A\n20000103, 2\n\nEnd\n2024, 7\n,A,B\n"
    )
    first, second = parse_french_csv(text)[1]
    np.testing.assert_array_equal(first.values, [[np.nan, np.nan], [-99.98, -99.0]])
    assert first.title == "Some" and first.names == ["A", "B"]
    assert second.title == "" and second.values.tolist() == [[2.0]]


@pytest.mark.parametrize(
    "text, message",
    [
        (",A,B\n20000103, 1.0, 2.0\n20000104, 1.0\n", "number of columns changed"),
        (",A,B\n20000103, 1.0, x\n", "could not convert string ' x'"),
        (",A,B\n20001304, 1.0, 2.0\n", "2000-13-04"),
        (",A,B,C\n20000103, 1.0, 2.0\n", "2 numbers a row for 3 columns"),
    ],
)
def test_parse_refuses_a_broken_row(text, message):
    with pytest.raises(ValueError, match=message):
        parse_french_csv(text)


# fetch_french_portfolios


def test_fetch_reads_the_value_weighted_table(tmp_path, no_network):
    values = VW.copy()
    values[0, 3], values[2, 24] = -99.99, -999
    text = "\n\n".join([HEADER, table_text(values), table_text(EW, title=EQUAL)])
    (tmp_path / ZIP).write_bytes(zip_bytes(text))
    data = fetch_french_portfolios("Europe", "OP", data_home=tmp_path)
    expected = np.where(np.isin(values, [-99.99, -999]), np.nan, values / 100)
    np.testing.assert_allclose(data.returns, expected, rtol=1e-15)
    assert data.dates.astype(str).tolist() == ISO and data.names == NAMES
    assert data["DESCR"] == data["description"]
    words = "Europe", "operating profitability", "fractions", "-99.99", "202405"
    for part in (*words, ZIP, "1990-07-05"):
        assert part in data.description


@pytest.mark.parametrize(
    "tables",
    [
        [
            table_text(EW, title=EQUAL),
            table_text(EW, dates=["199007", "199008", "199009"]),
            table_text(VW),
        ],
        [HEADER, table_text(VW, title=""), table_text(EW, title="")],
    ],
    ids=["after an equal-weighted and a monthly one", "without titles"],
)
def test_fetch_chooses_the_table(tables, tmp_path, no_network):
    (tmp_path / ZIP).write_bytes(zip_bytes("\n\n".join(tables)))
    found = fetch_french_portfolios(data_home=tmp_path).returns
    np.testing.assert_allclose(found, VW / 100, rtol=1e-15)


def test_fetch_as_frame(tmp_path, no_network, monkeypatch):
    pd = pytest.importorskip("pandas")
    (tmp_path / ZIP).write_bytes(zip_bytes())
    frame = fetch_french_portfolios(data_home=tmp_path, as_frame=True).returns
    assert frame.index[0] == pd.Timestamp(1990, 7, 2)
    assert frame.columns.tolist() == NAMES
    expected = fetch_french_portfolios(data_home=tmp_path).returns
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="as_frame=True requires pandas"):
        fetch_french_portfolios(data_home=tmp_path, as_frame=True)


@pytest.mark.parametrize(
    "region, sort, name",
    [
        ("Europe", "OP", ZIP),
        ("Japan", "BE-ME", "Japan_25_Portfolios_ME_BE-ME_daily_CSV.zip"),
        ("Global_ex_US", "INV", "Developed_ex_US_25_Portfolios_ME_INV_Daily_CSV.zip"),
        ("US", "OP", "25_Portfolios_ME_OP_5x5_daily_CSV.zip"),
        ("US", "BE-ME", "25_Portfolios_5x5_Daily_CSV.zip"),
    ],
)
def test_fetch_downloads_once_and_keeps_the_file(
    region, sort, name, tmp_path, monkeypatch
):
    opened, folder = [], "https://mba.tuck.dartmouth.edu/pages/faculty/ken.french/ftp/"

    def urlopen(url, timeout):
        assert timeout > 0
        opened.append(url)
        return io.BytesIO(zip_bytes())

    monkeypatch.setattr(french, "urlopen", urlopen)
    for _ in range(2):
        data = fetch_french_portfolios(region, sort, data_home=tmp_path)
        np.testing.assert_allclose(data.returns, VW / 100, rtol=1e-15)
    assert opened == [folder + name]
    assert [path.name for path in tmp_path.iterdir()] == [name]


class Breaking(io.BytesIO):
    """A response whose connection is lost after the first chunk."""

    def read(self, *args):
        if self.tell():
            raise TimeoutError("timed out")
        return super().read(100)


@pytest.mark.parametrize(
    "answer, reason",
    [
        (urllib.error.URLError("no route to host"), "no route to host"),
        (Breaking(zip_bytes(HEADER)), "timed out"),
        (io.BytesIO(b"<html>503 Service Unavailable"), "not a complete zip file"),
        (io.BytesIO(zip_bytes(HEADER)[:-30]), "not a complete zip file"),
    ],
)
def test_failed_download_leaves_nothing(answer, reason, tmp_path, monkeypatch):
    def urlopen(url, timeout):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(french, "urlopen", urlopen)
    with pytest.raises(OSError, match=reason) as caught:
        fetch_french_portfolios(data_home=tmp_path)
    assert french.BASE_URL + ZIP in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def damaged_zip():
    content = bytearray(zip_bytes(HEADER, member="a.csv"))
    # the first byte after the local header: no such type of block
    content[30 + len("a.csv")] = 0xFF
    return bytes(content)


@pytest.mark.parametrize("content", [b"<html>", b"", damaged_zip()])
def test_unreadable_file_is_named(content, tmp_path, no_network):
    (tmp_path / ZIP).write_bytes(content)
    words = "is not a zip file with a CSV file in it.*Delete it"
    with pytest.raises(OSError, match=words) as caught:
        fetch_french_portfolios(data_home=tmp_path)
    assert str(tmp_path / ZIP) in str(caught.value)


def test_fetch_refuses_before_any_work(tmp_path, no_network):
    own = {"data_home": tmp_path / "folder"}
    with pytest.raises(ValueError, match="'Mars' is unknown.*Europe.*Developed.*US"):
        fetch_french_portfolios("Mars", **own)
    with pytest.raises(ValueError, match="sort='op' is unknown.*OP.*BE-ME.*INV"):
        fetch_french_portfolios(sort="op", **own)
    assert not own["data_home"].exists()
    with pytest.raises(OSError, match="Data not found and `download_if_missing` is F"):
        fetch_french_portfolios(download_if_missing=False, **own)


# make_gaussian_returns


@pytest.mark.parametrize("condition_number", [20.0, 0.25])
def test_gaussian_returns_have_their_moments(condition_number):
    n, d = 100_000, 6
    mean, own = np.arange(d, dtype=float), {"condition_number": condition_number}
    returns = make_gaussian_returns(n, d, mean=mean, random_state=0, **own)
    # The standard error of a mean is at most sqrt(kappa / n), that of an eigenvalue
    # lambda about lambda sqrt(2 / n); five of them, with a little more for the spread
    # of the d - 1 equal ones.
    within = 5 * np.sqrt(max(condition_number, 1) / n)
    np.testing.assert_allclose(returns.mean(axis=0), mean, atol=within)
    eigenvalues = np.linalg.eigvalsh(np.cov(returns, rowvar=False))
    expected = np.sort(np.append(np.ones(d - 1), condition_number))
    within = 5 * np.sqrt(2 / n) + 2 * np.sqrt(d / n)
    np.testing.assert_allclose(eigenvalues, expected, rtol=within)


def test_gaussian_returns_depend_on_the_seed():
    returns = make_gaussian_returns(random_state=3)
    assert abs(returns - make_gaussian_returns(random_state=4)).max() > 1
    assert returns.shape == (2000, 200) and abs(returns.mean() - 4.0) < 0.05
    np.testing.assert_array_equal(
        returns, make_gaussian_returns(random_state=np.random.RandomState(3))
    )
