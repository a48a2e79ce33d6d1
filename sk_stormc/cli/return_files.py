"""Readers of returns, and of forecasts of returns, in the user's files."""

import glob
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from sk_stormc.cli.array_files import (
    ARRAYS,
    read_matrix,
    refuse_columns,
)
from sk_stormc.cli.table_files import (
    DATE,
    DEFAULTS,
    FRAMES,
    INDEX,
    SEPARATORS,
    are_dates,
    check_column,
    existing,
    is_number,
    name_dates,
    numbers,
    read_table,
    readable,
    refuse_missing,
    without,
)
from sk_stormc.datasets.french import MISSING_CODES
from sk_stormc.portfolio.returns import looks_like_prices
from sk_stormc.utils.frames import direction_of
from sk_stormc.utils.validation import short

UNITS = {"fractions": 1.0, "percent": 1e2, "basis-points": 1e4}
# by the assets' median deviation
_GUESSES = ((0.2, "fractions"), (20.0, "percent"), (np.inf, "basis-points"))
# such as 5% and 0,5, which pandas does not read as numbers
_AMOUNT = re.compile(r"[-+]?\d*[.,]?\d*\s*%?")


@dataclass
class Returns:
    """Returns of shape (n_periods, n_assets), names of the assets, optional dates, and
    notes on the conversion. The returns of the file were divided by ``divisor``.

    The values of several files are a lazy frame of dask.
    """

    path: Any
    values: Any
    names: list
    dates: list | None = None
    notes: tuple = ()
    divisor: float = 1.0

    def line(self):
        """A summary of the data on one line."""
        n, d = self.values.shape
        dates = self.dates
        span = "no dates" if dates is None else f"{dates[0]} to {dates[-1]}"
        periods = f"{n} periods, " if isinstance(n, int) else ""
        return ", ".join([f"{self.path}: {periods}{d} assets", span, *self.notes])

    def direction(self):
        """The order of the dates, as `direction_of` has it, or None without dates."""
        if self.dates is None:
            return None
        from pandas import Index  # which has read the dates

        return direction_of(Index(self.dates))

    def frame(self):
        """The returns as a DataFrame by date, or as they are without dates."""
        if self.dates is None:
            return self.values
        from pandas import DataFrame

        return DataFrame(self.values, as_dates(self.dates), self.names)


def as_dates(texts):
    """An index of ascending dates, with the day first if it is so in the texts; or of
    the texts themselves if they are not read as such."""
    from pandas import Index, to_datetime

    dotted = bool(re.match(r"\d{1,2}\.", str(texts[0])))
    for day_first in (True,) if dotted else (False, True):
        with suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # texts that do not tell their form
            dates = to_datetime(Index(texts), dayfirst=day_first)
            if dates.is_monotonic_increasing:
                return dates
    return Index(texts)


def read_returns(path, drop_missing=False, unit=None, options=DEFAULTS):
    """Read returns from a file. They are converted to fractions if a unit is given or
    guessed.

    A .npz file contains an array ``returns``, or ``returns_bp`` in basis points, or
    exactly one two-dimensional array. A .npy file contains such an array. Other files
    have one column of numbers for each asset, and optionally a header row of names and
    a first column of dates. ``options`` say how they are read.
    """
    path = existing(path, (*ARRAYS, *SEPARATORS, *FRAMES))
    if path.kind in ARRAYS:
        refuse_columns(path, options)
        name, values, _ = read_matrix(path, ("returns", "returns_bp"))
        data = Returns(path, values, [str(k + 1) for k in range(values.shape[1])])
        if name == "returns_bp":
            if unit not in (None, "guess", "basis-points"):
                raise ValueError(
                    f"{path}: --unit must not be {unit!r}, since 'returns_bp' has "
                    "returns in basis points"
                )
            unit = "basis-points"
    else:
        data = _returns_of_table(path, options)
    _handle_missing(data, drop_missing)
    _convert(data, data.values, unit)
    return data


def _convert(data, some, unit):
    """Convert returns to fractions, if the unit is given, or guessed from ``some`` of
    them."""
    if unit not in UNITS:
        _refuse_prices(data.path, some)
        deviation = float(np.median(some.std(axis=0)))
        guess = next(name for limit, name in _GUESSES if deviation < limit)
        data.notes += (f"unit: {guess} (guessed)",)
        unit = "fractions" if unit is None else guess
    if unit != "fractions":
        data.divisor = UNITS[unit]
        data.values = data.values / data.divisor
        data.notes += (f"{unit} divided by {data.divisor:,.0f}",)


def read_parquet_files(pattern, drop_missing=False, unit=None, options=DEFAULTS):
    """Read returns of several .parquet files, or of a folder of them, as a lazy frame
    of dask with the rows in the order of the names of the files.

    Columns of other types than numbers are left out.
    """
    folder = Path(pattern)
    paths = folder.glob("*.parquet") if folder.is_dir() else glob.glob(str(pattern))
    paths = sorted(map(str, paths))
    if not paths or any(not path.endswith(".parquet") for path in paths):
        raise ValueError(
            f"--data must be one file, or match .parquet files, got {str(pattern)!r}, "
            f"which matches {short(paths) if paths else 'nothing'}"
        )
    try:
        from dask.dataframe import read_parquet
        from pyarrow.parquet import read_schema  # type: ignore[import-untyped]
    except ImportError as error:
        raise ValueError(
            f'{pattern}: several files need dask: pip install "sk_stormc[dask]"'
        ) from error
    with readable(pattern, ".parquet"):
        frame = read_parquet(paths)
    numbered = [name for name in frame.columns if not isinstance(name, str)]
    if numbered:
        raise ValueError(
            f"{pattern}: expected columns named by texts, found {numbered[0]!r}, which "
            "dask cannot read"
        )
    kept = [
        name
        for name, dtype in without(pattern, frame, options.drop).dtypes.items()
        if dtype.kind in "iufb" and name.lower() not in INDEX
    ]
    for path in paths:
        with readable(path, ".parquet"):
            lacking = set(kept).difference(read_schema(path).names)
        if lacking:
            raise ValueError(
                f"{path}: expected the columns of {paths[0]}, found no column "
                f"{min(lacking)!r}"
            )
    dropped = [name for name in frame.columns if name not in kept]
    values = frame[kept]
    # isin of dask cannot be computed in an array of a single partition
    values = values.replace(list(MISSING_CODES), np.nan)
    values = values.dropna() if drop_missing else values
    notes = (f"{len(paths)} files",)
    notes += (f"left out: {', '.join(dropped)}",) * bool(dropped)
    data = Returns(pattern, values, kept, notes=notes)
    first = data.values.partitions[0].compute().dropna().to_numpy(float)
    if not first.size:
        raise ValueError(
            f"{paths[0]}: expected columns of numbers, and periods without missing ones"
        )
    _convert(data, first, unit)
    return data


def read_forecasts(path, data, options=DEFAULTS):
    """Read the ``expected_returns`` of the assets of ``data``, in the unit of its file.

    The file has a row for each asset, with its name and a number; or a column for each
    asset, and either one row, or a first column of dates. Forecasts by date are a
    DataFrame.
    """
    path = existing(path, (*SEPARATORS, *FRAMES))
    frame, _ = read_table(path, options)
    first = frame.iloc[:, 0]
    if frame.shape[1] == 2 and set(map(str, first)) & set(data.names):
        frame = frame.set_index(frame.columns[0]).T
        frame.columns = frame.columns.map(str)
    dates = first if are_dates(first) else None
    lacking = [name for name in data.names if name not in frame.columns]
    if lacking:
        raise ValueError(
            f"{path}: expected a number for each asset of {data.path}, found none for "
            f"{lacking[0]!r}"
        )
    values = numbers(path, frame[data.names]) / data.divisor
    if dates is not None:
        from pandas import DataFrame

        return DataFrame(values, as_dates(list(map(str, dates))), data.names)
    if len(values) != 1:
        raise ValueError(
            f"{path}: expected one row of numbers, or a first column of dates, found "
            f"{len(values)} rows without dates"
        )
    return values[0]


def _returns_of_table(path, options):
    """Returns of a table, and the dates of its first column or of --index."""
    if find_spec("pandas") is None:
        with suppress(ValueError):
            values = np.loadtxt(path.source(), delimiter=",", ndmin=2)
            return Returns(path, values, [str(k + 1) for k in range(values.shape[1])])
    frame, notes = read_table(path, options)
    frame = without(path, frame, options.drop)
    if options.index is not None:
        check_column(path, frame, options.index, "--index")
        frame.insert(0, options.index, frame.pop(options.index))
    first = frame.iloc[:, 0]
    dates, is_index = _dates(path, first, options.index is not None)
    others = frame.iloc[:, 1:] if is_index and frame.shape[1] > 1 else frame
    names = list(others.columns)
    # numbers such as 2030 are dates if there is a column of names beside them
    dated = len(names) > 1 and (is_index or not "".join(names).isdecimal())
    if dates is None and dated and name_dates(names):
        raise ValueError(
            f"{path}: expected a row for each period and a column for each asset, "
            f"found dates along the columns, such as {names[0]!r}: transpose "
            "the table, by pandas: read_csv(FILE, index_col=0).T.to_csv('returns.csv')"
        )
    if is_index and dates is None and others is not frame:
        notes += (f"column {frame.columns[0]!r} left out, since it has no dates",)
    offer = "; --drop {0} leaves it out, and --index {0} takes it as dates".format
    data = Returns(path, numbers(path, others, offer), names, dates, notes)
    if data.direction() == "descending":
        data.values, data.dates = data.values[::-1], dates[::-1]
        data.notes += ("rows reversed, since their dates descend",)
    return data


def _dates(path, first, required):
    """The dates of the rows or None, and whether the first column is no asset."""
    is_text = not any(is_number(cell) or _AMOUNT.fullmatch(str(cell)) for cell in first)
    counts = first.dtype.kind == "i" and len(first) > 2 and (np.diff(first) == 1).all()
    all_dates = all(re.fullmatch(DATE, str(cell)) for cell in first)
    if not (is_text or counts or all_dates or first.name.lower() in INDEX or required):
        return None, False
    dates = [str(date).removesuffix(" 00:00:00") for date in first]
    bare = [date for date in dates if not any(map(str.isdigit, date))]
    if 0 < len(bare) < len(dates) / 2:  # probably a row of averages or sums
        example = next(date for date in dates if date not in bare)
        raise ValueError(
            f"{path}: expected a date such as {example!r} in each row, found "
            f"{bare[0]!r}"
        )
    if is_text and not are_dates(first):
        if required:
            raise ValueError(
                f"{path}: --index must name a column of dates, found {dates[0]!r} in "
                f"column {first.name!r}"
            )
        return None, first.is_unique
    return dates, True


def _handle_missing(data, drop):
    missing = ~np.isfinite(data.values) | np.isin(data.values, MISSING_CODES)
    complete = ~missing.any(axis=1)
    if complete.all():
        return
    if not drop:
        refuse_missing(
            data.path,
            missing,
            data.names,
            "period",
            "--drop-missing leaves such periods out",
            data.dates,
        )
    if not complete.any():
        raise ValueError(
            f"{data.path}: expected finite returns, but in each period one is missing"
        )
    data.values = data.values[complete]
    data.dates = data.dates and list(compress(data.dates, complete))
    data.notes += (f"{(~complete).sum()} periods with missing values dropped",)


def _refuse_prices(path, values):
    """Raise a ValueError for prices, or logarithms of prices, if the unit is not
    given."""
    if looks_like_prices(values):
        raise ValueError(
            f"{path}: expected returns, but numbers hardly change between periods, as "
            "in a file of prices. Returns are p[1:] / p[:-1] - 1 of prices p, by "
            "pandas: read_csv(FILE, index_col=0).pct_change().dropna()"
            ".to_csv('returns.csv'). If these are returns, say so by --unit"
        )
