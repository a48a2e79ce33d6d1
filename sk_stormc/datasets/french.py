"""Daily portfolio returns of the Kenneth R. French data library."""

from __future__ import annotations

import io
import logging
import os
import re
import shutil
import zipfile
import zlib
from http.client import HTTPException
from typing import Literal, NamedTuple, TypeAlias, get_args
from urllib.request import urlopen

import numpy as np
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch

from sk_stormc.utils.atomic import atomically
from sk_stormc.utils.parameters import check_bool, is_word, short

logger = logging.getLogger(__name__)

BASE_URL = "https://mba.tuck.dartmouth.edu/pages/faculty/ken.french/ftp/"

Region: TypeAlias = Literal[
    "Europe", "Japan", "Asia_Pacific_ex_Japan", "North_America", "Developed", "Global",
    "Developed_ex_US",
    "Global_ex_US", "US",
]  # fmt: skip

# for each sort its name, the file of a region and that of the US; the library spells
# both "daily" and "Daily"
_SORTS = {
    "OP": (
        "operating profitability",
        "{}_25_Portfolios_ME_OP_Daily_CSV.zip",
        "25_Portfolios_ME_OP_5x5_daily_CSV.zip",
    ),
    "BE-ME": (
        "book-to-market",
        "{}_25_Portfolios_ME_BE-ME_daily_CSV.zip",
        "25_Portfolios_5x5_Daily_CSV.zip",
    ),
    "INV": (
        "investment",
        "{}_25_Portfolios_ME_INV_Daily_CSV.zip",
        "25_Portfolios_ME_INV_5x5_daily_CSV.zip",
    ),
}

_VALUE_WEIGHTED = re.compile(r"value.weight.*return", re.IGNORECASE)
_ROW = re.compile(r"\s*(\d{4}|\d{6}|\d{8})\s*,(.*)")
_COLUMNS = re.compile(r"\s*,(.*)")
MISSING_CODES = (-99.99, -999.0)

_DESCR = """\
25 portfolios formed on size and {sort} (5 x 5), {region}
---------------------------------------------------------

Daily value-weighted returns, {start} to {end}, as fractions (0.01 is one percent).
Missing values, -99.99 and -999 in the file, are NaN.

Source: Kenneth R. French data library, {url}

The header of the file:

{header}
"""


def _download(url, path):
    """Download the zip file at `url` to `path` atomically."""
    data_home = os.path.dirname(path)
    logger.info("Downloading %s to %s", url, data_home)
    try:
        content = io.BytesIO()
        with urlopen(url, timeout=60) as response:
            shutil.copyfileobj(response, content)
        if not zipfile.is_zipfile(content):
            raise OSError("the answer is not a complete zip file")
        with atomically(path) as file:
            file.write(content.getvalue())
    except (OSError, HTTPException) as error:
        raise OSError(
            f"Could not download {url} ({error}). Try again later, or download the "
            f"file by other means and place it, as it is, in {data_home}."
        ) from error


def _read_zip(path):
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(archive.namelist()[0]).decode("latin-1")
    except (zipfile.BadZipFile, zlib.error, EOFError, IndexError) as error:
        raise OSError(
            f"{path} is not a zip file with a CSV file in it ({error}). Delete it and "
            "fetch again."
        ) from error


def fetch_french_portfolios(
    region: Region = "Europe",
    sort: Literal["OP", "BE-ME", "INV"] = "OP",
    *,
    data_home: str | os.PathLike | None = None,
    download_if_missing: bool = True,
    as_frame: bool = False,
) -> Bunch:
    """Load daily returns of 25 portfolios of the data library of Kenneth French.

    The value-weighted portfolios are the intersections of five size classes and five
    classes of another characteristic. The zip file is downloaded once and kept
    unchanged in `data_home`. Without network access, download it by other means and
    place it there under its own name, such as
    ``Europe_25_Portfolios_ME_OP_Daily_CSV.zip``.

    Parameters
    ----------
    region : {"Europe", "Japan", "Asia_Pacific_ex_Japan", "North_America", \
            "Developed", "Global", "Developed_ex_US", "Global_ex_US", "US"}, \
            default="Europe"
        The region in which the firms are listed. "Global" and "Global_ex_US" are the
        library's older names of "Developed" and "Developed_ex_US" and give the same
        data.
    sort : {"OP", "BE-ME", "INV"}, default="OP"
        The characteristic in addition to size: operating profitability, book-to-market
        or investment.
    data_home : str or path-like, default=None
        The folder of the zip file. None means the folder of
        :func:`sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=True
        If False and the file is not in `data_home`, raise an OSError instead of
        downloading it.
    as_frame : bool, default=False
        If True, `returns` is a pandas DataFrame.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the following attributes.

        returns : ndarray of shape (n_days, 25) or DataFrame
            The returns as fractions (0.01 is one percent), NaN where missing. The
            DataFrame has `dates` as its DatetimeIndex and `names` as its columns.
        dates : ndarray of shape (n_days,)
            The trading days, datetime64[D].
        names : list of str of length 25
            The names of the portfolios.
        description, DESCR : str
            A description of the data and their source, including the header of the
            file. Both names hold the same text.

    Raises
    ------
    ValueError
        If `region` or `sort` is unknown, or the file has no daily table of 25
        portfolios.
    OSError
        If the file is missing and `download_if_missing` is False, the download fails,
        or the file is not a valid zip file.
    ImportError
        If `as_frame` is True and pandas is not installed.

    Notes
    -----
    The library revises past returns at its monthly updates, so files fetched at
    different times may differ. Delete the zip file to fetch the current one.

    References
    ----------
    Kenneth R. French, data library,
    https://mba.tuck.dartmouth.edu/pages/faculty/ken.french/data_library.html

    Examples
    --------
    >>> from sk_stormc.datasets import fetch_french_portfolios
    >>> europe = fetch_french_portfolios("Europe", "OP")  # doctest: +SKIP
    >>> europe.returns.shape[1]  # doctest: +SKIP
    25
    """
    regions = get_args(Region)
    for name, value, choices in (("region", region, regions), ("sort", sort, _SORTS)):
        if not is_word(value, *choices):
            raise ValueError(
                f"{name}={value!r} is unknown; expected one of {list(choices)}."
            )
    check_bool("download_if_missing", download_if_missing)
    check_bool("as_frame", as_frame)
    if data_home is not None and not isinstance(data_home, (str, os.PathLike)):
        raise ValueError(
            f"data_home must be the path of a folder or None, got {short(data_home)}"
        )
    if as_frame:
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "fetch_french_portfolios with as_frame=True requires pandas."
            ) from error

    # "Global" is the library's earlier name for "Developed"
    region = region.replace("Global", "Developed")
    sort, file_of_region, file_of_us = _SORTS[sort]
    filename = file_of_us if region == "US" else file_of_region.format(region)
    path = os.path.join(get_data_home(data_home), filename)
    if not os.path.exists(path):
        if not download_if_missing:
            raise OSError(f"Data not found and `download_if_missing` is False: {path}")
        _download(BASE_URL + filename, path)

    try:
        header, tables = parse_french_csv(_read_zip(path))
    except ValueError as error:
        raise ValueError(f"{path} is not in the library's format: {error}") from error
    daily = [
        table
        for table in tables
        if table.dates.dtype == "datetime64[D]" and len(table.names) == 25
    ]
    if not daily:
        raise ValueError(f"{path} has no daily table of 25 portfolios.")
    weighted = (table for table in daily if _VALUE_WEIGHTED.search(table.title))
    table = next(weighted, daily[0])

    returns = table.values / 100
    if as_frame:
        dates = pd.DatetimeIndex(table.dates, name="date")
        returns = pd.DataFrame(returns, dates, table.names)
    descr = _DESCR.format(
        sort=sort,
        region=region.replace("_", " "),
        start=table.dates[0],
        end=table.dates[-1],
        url=BASE_URL + filename,
        header=header,
    )
    return Bunch(
        returns=returns,
        dates=table.dates,
        names=table.names,
        description=descr,
        DESCR=descr,
    )


class FrenchTable(NamedTuple):
    """One table of a file of the library."""

    # the line above the table, such as "Average Value Weighted Returns -- Daily"
    title: str
    dates: np.ndarray  # datetime64, with the unit D, M or Y of the file
    names: list
    # in the file's own unit (percent for returns), NaN where missing
    values: np.ndarray


def parse_french_csv(text):
    """The header and the tables, if any, of a CSV file of the Kenneth R. French data
    library.

    The file contains free text, followed by tables. Each table has a title line, a line
    of column names that begins with a comma, and rows that begin with a date.
    """
    lines = text.splitlines()
    header, title, sections = [], "", []
    rows = None  # rows of the current table; None between tables
    for line in lines:
        if rows is not None and (match := _ROW.match(line)):
            rows.append(match.groups())
        elif match := _COLUMNS.match(line):
            rows = []
            sections.append(
                (title, [name.strip() for name in match[1].split(",")], rows)
            )
            title = ""
        else:
            if not sections:
                header.append(line)
            if line.strip():
                title, rows = line.strip(), None
    tables = [_make_table(*section) for section in sections if section[2]]
    return "\n".join(header).strip(), tables


def _make_table(title, names, rows):
    dates, numbers = zip(*rows, strict=True)
    values = np.loadtxt(numbers, delimiter=",", ndmin=2)
    if values.shape[1] != len(names):
        raise ValueError(
            f"{values.shape[1]} numbers a row for {len(names)} columns, table "
            f"{title!r}."
        )
    values[np.isin(values, MISSING_CODES)] = np.nan
    unit = {4: "Y", 6: "M", 8: "D"}[len(dates[0])]
    iso = ["-".join(filter(None, (date[:4], date[4:6], date[6:]))) for date in dates]
    return FrenchTable(title, np.array(iso, dtype=f"datetime64[{unit}]"), names, values)
