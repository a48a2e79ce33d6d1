"""Tests of sk_stormc.datasets; none needs the network."""

import io
import os
import sys
import urllib.error
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sk_stormc.datasets import fetch_french_portfolios, make_gaussian_returns
from sk_stormc.datasets import french as _french
from sk_stormc.datasets.french import parse_french_csv

NAMES = [f"ME{i} OP{j}" for i in range(1, 6) for j in range(1, 6)]
NAMES[0], NAMES[4], NAMES[20], NAMES[24] = "SMALL LoOP", "SMALL HiOP", "BIG LoOP", "BIG HiOP"
DATES = ["19900702", "19900703", "19900705"]
ZIP = "Europe_25_Portfolios_ME_OP_Daily_CSV.zip"
HEADER = """\
This file was created using the 202405 Bloomberg database. It contains
value- and equal-weighted returns for the intersections of 5 ME portfolios
and 5 OP portfolios in Europe.

Missing data are indicated by -99.99.
"""


def table_text(values, dates=DATES, names=NAMES, title="  Average Value Weighted Returns -- Daily"):
    """A table in the US files' layout, numbers to two digits."""
    rows = [f"{date}," + ",".join(f"{v:8.2f}" for v in row) for date, row in zip(dates, values, strict=True)]
    return "\n".join([title, "," + ",".join(names), *rows]) + "\n"


def percents(n_rows=3, n_columns=25, seed=0):
    return np.random.RandomState(seed).randint(-900, 900, size=(n_rows, n_columns)) / 100


def file_text(value_weighted, equal_weighted):
    equal = table_text(equal_weighted, title="   Average Equal Weighted Returns -- Daily")
    tail = "Copyright 2024 Eugene F. Fama and Kenneth R. French\n"
    return "\n\n".join([HEADER, table_text(value_weighted), equal, tail])


def zip_bytes(text, member="Europe_25_Portfolios_ME_OP_Daily.csv"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, text)
    return buffer.getvalue()


@pytest.fixture
def no_network(monkeypatch):
    def refuse(url, timeout=None):
        raise AssertionError(f"tried to open {url}")

    monkeypatch.setattr(_french, "urlopen", refuse)


# --- parse_french_csv ---------------------------------------------------------------------------------


def test_parse_reads_every_table_with_its_title_dates_names_and_values():
    vw, ew = percents(seed=0), percents(seed=1)
    header, tables = parse_french_csv(file_text(vw, ew))
    assert header.startswith("This file was created") and "Missing data" in header
    assert [table.title for table in tables] == [
        "Average Value Weighted Returns -- Daily",
        "Average Equal Weighted Returns -- Daily",
    ]
    for table, expected in zip(tables, (vw, ew), strict=True):
        assert table.names == NAMES
        assert table.dates.dtype == "datetime64[D]"
        assert table.dates.astype(str).tolist() == ["1990-07-02", "1990-07-03", "1990-07-05"]
        np.testing.assert_array_equal(table.values, expected)


@pytest.mark.parametrize("seed", range(5))
def test_parse_round_trip_of_random_tables(seed):
    rng = np.random.RandomState(seed)
    n_rows, n_columns = rng.randint(1, 40, size=2)
    expected = percents(n_rows, n_columns, seed=seed)
    days = np.datetime64("1999-12-20") + np.arange(n_rows)
    text = table_text(
        expected,
        dates=[str(day).replace("-", "") for day in days],
        names=[f"P{j}" for j in range(n_columns)],
    )
    (table,) = parse_french_csv(text)[1]
    np.testing.assert_array_equal(table.values, expected)
    np.testing.assert_array_equal(table.dates, days)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n,", "\n\n,"),  # a blank line between a title and the names
        lambda text: text.replace("\n199", "\n\n199", 1),  # and between the names and the first row
        lambda text: text.replace("\n\n", "\n"),  # no blank line at all
        lambda text: text.replace("\n\n", "\n  \n\n\n"),
        lambda text: text.rstrip(),
        # The international files: a blank before the first comma, spaces before every one.
        lambda text: text.replace("\n,", "\n ,").replace("0702,", "0702   ,").replace(",  ", "  ,"),
        lambda text: text.replace("Eugene F. Fama and ", ""),
    ],
    ids=["crlf", "title-gap", "row-gap", "no-blank", "more-blank", "no-last-newline", "spaces", "copyright"],
)
def test_parse_does_not_depend_on_blanks_and_line_ends(change):
    text = file_text(percents(seed=0), percents(seed=1))
    assert change(text) != text
    for table, expected in zip(parse_french_csv(change(text))[1], parse_french_csv(text)[1], strict=True):
        assert table.title == expected.title
        assert table.names == expected.names
        np.testing.assert_array_equal(table.dates, expected.dates)
        np.testing.assert_array_equal(table.values, expected.values)


def test_parse_missing_codes_become_nan_and_near_values_do_not():
    text = ",A,B,C,D\n20000103, -99.99, -999, -99.98, 1.00\n20000104, -999.00, -99.990, -99.00, -0.99\n"
    (table,) = parse_french_csv(text)[1]
    nan = np.nan
    np.testing.assert_array_equal(table.values, [[nan, nan, -99.98, 1.0], [nan, nan, -99.0, -0.99]])


def test_parse_untitled_table_after_a_titled_one():
    text = "  Some Returns\n,A\n20000103, 1.00\n\n,A\n20000103, 2.00\n"
    assert [table.title for table in parse_french_csv(text)[1]] == ["Some Returns", ""]


def test_parse_ignores_what_is_not_in_a_table():
    (table,) = parse_french_csv(",A , B \n20000103, 1, 2\n\nThe end.\n2024, 7, 8\n,A,B\n")[1]
    assert table.names == ["A", "B"]
    np.testing.assert_array_equal(table.values, [[1.0, 2.0]])


def test_parse_monthly_and_annual_dates():
    text = (
        "  Returns -- Monthly\n,A\n192607, 1.00\n192608, 2.00\n\n"
        "  Number of Firms in Portfolios -- Annual\n,A\n  1927, 32\n"
    )
    monthly, annual = parse_french_csv(text)[1]
    assert monthly.dates.dtype == "datetime64[M]"
    assert monthly.dates.astype(str).tolist() == ["1926-07", "1926-08"]
    assert annual.dates.dtype == "datetime64[Y]"
    assert annual.dates.astype(str).tolist() == ["1927"]
    np.testing.assert_array_equal(annual.values, [[32.0]])


@pytest.mark.parametrize(
    "row, message",
    [
        ("20000104, 1.0", "number of columns changed"),
        ("20000104, 1.0, 2.0, 3.0", "number of columns changed"),
        ("20000104, 1.0, x", "could not convert string ' x'"),
        ("20001304, 1.0, 2.0", "2000-13-04"),
    ],
)
def test_parse_refuses_a_broken_row(row, message):
    with pytest.raises(ValueError, match=message):
        parse_french_csv(f",A,B\n20000103, 1.0, 2.0\n{row}\n")


def test_parse_refuses_rows_that_do_not_match_the_names():
    with pytest.raises(ValueError, match="2 numbers a row for 3 columns"):
        parse_french_csv(",A,B,C\n20000103, 1.0, 2.0\n")


# --- fetch_french_portfolios --------------------------------------------------------------------------


def test_fetch_reads_the_value_weighted_table_of_a_file_placed_by_hand(tmp_path, no_network):
    vw = percents()
    vw[0, 3], vw[2, 24] = -99.99, -999
    (tmp_path / ZIP).write_bytes(zip_bytes(file_text(vw, percents(seed=1))))
    data = fetch_french_portfolios("Europe", "OP", data_home=tmp_path)
    assert set(data) == {"returns", "dates", "names", "description", "DESCR"}
    missing = np.zeros((3, 25), dtype=bool)
    missing[0, 3] = missing[2, 24] = True
    np.testing.assert_array_equal(np.isnan(data.returns), missing)
    np.testing.assert_allclose(data.returns[~missing], vw[~missing] / 100, rtol=1e-15)
    assert data.returns.dtype == np.float64
    assert data.dates.dtype == "datetime64[D]"
    assert data.dates.astype(str).tolist() == ["1990-07-02", "1990-07-03", "1990-07-05"]
    assert data.names == NAMES
    assert data["DESCR"] == data["description"]
    for part in ("Europe", "operating profitability", "fractions", "-99.99", ZIP, "202405", "1990-07-05"):
        assert part in data.description


def test_fetch_takes_the_value_weighted_table_wherever_it_stands(tmp_path, no_network):
    vw = percents()
    texts = [
        table_text(percents(seed=1), title="  Average Equal Weighted Returns -- Daily"),
        table_text(percents(seed=2), dates=["199007", "199008", "199009"]),  # value-weighted, but monthly
        table_text(vw),
    ]
    (tmp_path / ZIP).write_bytes(zip_bytes("\n\n".join(texts)))
    np.testing.assert_allclose(fetch_french_portfolios(data_home=tmp_path).returns, vw / 100, rtol=1e-15)


def test_fetch_takes_the_first_table_of_a_file_without_titles(tmp_path, no_network):
    vw, ew = percents(), percents(seed=1)
    text = HEADER + "\n" + table_text(vw, title="") + "\n" + table_text(ew, title="")
    (tmp_path / ZIP).write_bytes(zip_bytes(text))
    np.testing.assert_allclose(fetch_french_portfolios(data_home=tmp_path).returns, vw / 100, rtol=1e-15)


def test_fetch_as_frame(tmp_path, no_network):
    pd = pytest.importorskip("pandas")
    (tmp_path / ZIP).write_bytes(zip_bytes(file_text(percents(), percents(seed=1))))
    array = fetch_french_portfolios(data_home=tmp_path)
    frame = fetch_french_portfolios(data_home=tmp_path, as_frame=True).returns
    assert isinstance(frame.index, pd.DatetimeIndex)
    assert frame.index[0] == pd.Timestamp(1990, 7, 2)
    assert frame.columns.tolist() == NAMES
    np.testing.assert_array_equal(frame.to_numpy(), array.returns)


def test_fetch_as_frame_without_pandas_fails_before_any_work(tmp_path, no_network, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="as_frame=True requires pandas"):
        fetch_french_portfolios(data_home=tmp_path, as_frame=True)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"region": "Mars"}, "region='Mars' is unknown.*Europe.*Developed.*US"),
        ({"sort": "op"}, "sort='op' is unknown.*OP.*BE-ME.*INV"),
    ],
)
def test_fetch_unknown_region_or_sort_fails_before_any_work(kwargs, message, tmp_path, no_network):
    home = tmp_path / "home"
    with pytest.raises(ValueError, match=message):
        fetch_french_portfolios(**kwargs, data_home=home)
    assert not home.exists()


@pytest.mark.parametrize(
    "region, sort, name",
    [
        ("Europe", "OP", "Europe_25_Portfolios_ME_OP_Daily_CSV.zip"),
        ("Japan", "BE-ME", "Japan_25_Portfolios_ME_BE-ME_daily_CSV.zip"),
        ("North_America", "INV", "North_America_25_Portfolios_ME_INV_Daily_CSV.zip"),
        ("Asia_Pacific_ex_Japan", "OP", "Asia_Pacific_ex_Japan_25_Portfolios_ME_OP_Daily_CSV.zip"),
        ("Developed", "OP", "Developed_25_Portfolios_ME_OP_Daily_CSV.zip"),
        ("Global", "OP", "Developed_25_Portfolios_ME_OP_Daily_CSV.zip"),
        ("Developed_ex_US", "INV", "Developed_ex_US_25_Portfolios_ME_INV_Daily_CSV.zip"),
        ("Global_ex_US", "INV", "Developed_ex_US_25_Portfolios_ME_INV_Daily_CSV.zip"),
        ("US", "OP", "25_Portfolios_ME_OP_5x5_daily_CSV.zip"),
        ("US", "BE-ME", "25_Portfolios_5x5_Daily_CSV.zip"),
        ("US", "INV", "25_Portfolios_ME_INV_5x5_daily_CSV.zip"),
    ],
)
def test_fetch_downloads_once_and_keeps_the_file_as_it_came(region, sort, name, tmp_path, monkeypatch):
    vw = percents()
    content = zip_bytes(file_text(vw, percents(seed=1)))
    opened, renamed = [], []

    def urlopen(url, timeout):
        assert timeout > 0
        opened.append(url)
        return io.BytesIO(content)

    def replace(source, target, rename=os.replace):
        renamed.append((tmp_path in Path(source).parents, Path(target)))
        rename(source, target)

    monkeypatch.setattr(_french, "urlopen", urlopen)
    monkeypatch.setattr(os, "replace", replace)
    for _ in range(2):
        data = fetch_french_portfolios(region, sort, data_home=tmp_path)
        np.testing.assert_allclose(data.returns, vw / 100, rtol=1e-15)
    assert opened == ["https://mba.tuck.dartmouth.edu/pages/faculty/ken.french/ftp/" + name]
    assert renamed == [(True, tmp_path / name)]  # from within data_home, hence atomic
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == content


def test_fetch_without_download(tmp_path, no_network):
    with pytest.raises(OSError, match="Data not found and `download_if_missing` is False"):
        fetch_french_portfolios(data_home=tmp_path, download_if_missing=False)


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
        (io.BytesIO(b"<html><body>503 Service Unavailable</body></html>"), "not a complete zip file"),
        (io.BytesIO(zip_bytes(HEADER)[:-30]), "not a complete zip file"),
    ],
    ids=["refused", "lost", "html", "cut"],
)
def test_fetch_failed_download_names_url_and_folder_and_leaves_nothing(answer, reason, tmp_path, monkeypatch):
    def urlopen(url, timeout):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(_french, "urlopen", urlopen)
    with pytest.raises(OSError, match=reason) as caught:
        fetch_french_portfolios(data_home=tmp_path)
    assert _french.BASE_URL + ZIP in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def damaged_zip():
    content = bytearray(zip_bytes(HEADER, member="a.csv"))
    content[30 + len("a.csv")] = 0xFF  # the first byte after the local header: no such type of block
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [b"<html>not found</html>", b"", zip_bytes(HEADER)[:-30], damaged_zip()],
    ids=["html", "empty", "cut", "damaged"],
)
def test_fetch_names_an_unreadable_file(content, tmp_path, no_network):
    (tmp_path / ZIP).write_bytes(content)
    with pytest.raises(OSError, match="is not a zip file with a CSV file in it.*Delete it") as caught:
        fetch_french_portfolios(data_home=tmp_path)
    assert str(tmp_path / ZIP) in str(caught.value)


def test_fetch_names_an_empty_archive(tmp_path, no_network):
    zipfile.ZipFile(tmp_path / ZIP, "w").close()
    with pytest.raises(OSError, match=ZIP):
        fetch_french_portfolios(data_home=tmp_path)


@pytest.mark.parametrize(
    "text, reason",
    [
        (HEADER, "no daily table of 25 portfolios"),
        (HEADER + ",A,B\n20000103,1.0,2.0\n", "no daily table of 25 portfolios"),
        (HEADER + ",A,B\n20000103,1.0\n", "not in the library's format"),
    ],
)
def test_fetch_names_a_file_without_the_table(text, reason, tmp_path, no_network):
    (tmp_path / ZIP).write_bytes(zip_bytes(text))
    with pytest.raises(ValueError, match=reason) as caught:
        fetch_french_portfolios(data_home=tmp_path)
    assert str(tmp_path / ZIP) in str(caught.value)


# --- make_gaussian_returns ----------------------------------------------------------------------------


@pytest.mark.parametrize("condition_number", [20.0, 1.0, 0.25])
def test_gaussian_returns_moments(condition_number):
    n, d = 100_000, 6
    mean = np.arange(d, dtype=float)
    returns = make_gaussian_returns(n, d, mean=mean, condition_number=condition_number, random_state=0)
    # The standard error of a mean is at most sqrt(kappa / n), that of an eigenvalue lambda about
    # lambda sqrt(2 / n); five of them, with a little more for the spread of the d - 1 equal ones.
    np.testing.assert_allclose(returns.mean(axis=0), mean, atol=5 * np.sqrt(max(condition_number, 1) / n))
    eigenvalues = np.linalg.eigvalsh(np.cov(returns, rowvar=False))
    expected = np.sort(np.append(np.ones(d - 1), condition_number))
    np.testing.assert_allclose(eigenvalues, expected, rtol=5 * np.sqrt(2 / n) + 2 * np.sqrt(d / n))


def test_gaussian_returns_direction_depends_on_the_seed_and_is_not_an_axis():
    directions = []
    for seed in range(2):
        returns = make_gaussian_returns(20_000, 4, condition_number=50.0, random_state=seed)
        directions.append(np.linalg.eigh(np.cov(returns, rowvar=False))[1][:, -1])
    assert abs(directions[0] @ directions[1]) < 0.99
    assert max(np.abs(direction).max() for direction in directions) < 0.99


def test_gaussian_returns_defaults_and_seed():
    returns = make_gaussian_returns(random_state=3)
    assert returns.shape == (2000, 200) and returns.dtype == np.float64
    assert abs(returns.mean() - 4.0) < 0.05
    np.testing.assert_array_equal(returns, make_gaussian_returns(random_state=3))
    np.testing.assert_array_equal(returns, make_gaussian_returns(random_state=np.random.RandomState(3)))
    assert not np.array_equal(returns, make_gaussian_returns(random_state=4))


def test_gaussian_returns_smallest_shape():
    assert make_gaussian_returns(1, 1, random_state=0).shape == (1, 1)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"n_periods": 0}, "n_periods must be an integer >= 1, got 0"),
        ({"n_periods": 2.5}, "n_periods must be an integer >= 1, got 2.5"),
        ({"n_assets": -1}, "n_assets must be an integer >= 1, got -1"),
        ({"condition_number": 0.0}, "condition_number must be a finite number > 0, got 0.0"),
        ({"condition_number": np.inf}, "condition_number must be a finite number > 0, got inf"),
        ({"condition_number": np.nan}, "condition_number must be a finite number > 0, got nan"),
        ({"condition_number": "20"}, "condition_number must be a finite number > 0, got '20'"),
        ({"n_assets": 3, "mean": [1.0, 2.0]}, r"mean must be a scalar or of shape \(3,\), got shape \(2,\)"),
        ({"n_assets": 3, "mean": np.ones((1, 3))}, r"mean must be .* got shape \(1, 3\)"),
        ({"mean": np.nan}, "mean must be finite, got nan"),
    ],
)
def test_gaussian_returns_errors_name_parameter_and_value(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_gaussian_returns(**kwargs)
