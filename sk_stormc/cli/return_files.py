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

from sk_stormc.cli.array_files import read_matrix
from sk_stormc.cli.column_texts import is_amount, is_number
from sk_stormc.cli.data_files import (
    ARRAYS,
    DEFAULTS,
    SEVERAL,
    TABLES,
    Reading,
    check_options,
    existing,
    readable,
)
from sk_stormc.cli.header_rows import DATE, INDEX
from sk_stormc.cli.price_files import (
    CLOSING,
    closing_prices,
    refuse_prices,
    refuse_volumes,
)
from sk_stormc.cli.table_files import (
    are_dates,
    name_dates,
    note_total_row,
    numbers,
    read_table,
    refuse_missing,
)
from sk_stormc.datasets.french import MISSING_CODES
from sk_stormc.datasets.prices import returns_from_prices
from sk_stormc.utils.frames import direction_of
from sk_stormc.utils.parameters import short

UNITS = {"fractions": 1.0, "percent": 1e2, "basis-points": 1e4}
# by the assets' median deviation
_GUESSES = ((0.2, "fractions"), (20.0, "percent"), (np.inf, "basis-points"))


@dataclass
class ReturnsFromFile:
    """Returns of shape (n_periods, n_assets), names of the assets, what was read, and
    optional dates. The returns of the file were divided by ``divisor``.

    The values of several files are a lazy frame of dask. ``benchmark`` has the returns
    of the benchmark, and ``last_prices`` the prices at the end, if there are any.
    """

    values: Any
    names: list
    reading: Reading
    dates: list | None = None
    divisor: float = 1.0
    benchmark: Any = None
    last_prices: Any = None

    def describe(self):
        """Complete what was read by the number of periods and the dates."""
        n, d = self.values.shape
        periods = f"{n} periods, " if isinstance(n, int) else ""
        self.reading.what = f"{periods}{d} assets"
        self.reading.used = {"assets": self.names} | self.reading.used
        dates = self.dates
        span = "no dates" if dates is None else f"{dates[0]} to {dates[-1]}"
        self.reading.facts.insert(0, span)
        return self

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
    a first column of dates. ``options`` say how they are read, and whether the numbers
    are prices.
    """
    path = existing(path, (*ARRAYS, *TABLES), options)
    if path.kind in ARRAYS:
        name, values, _ = read_matrix(path, ("returns", "returns_bp"))
        data = _without_names(path, values)
        if name == "returns_bp":
            unit = _known_unit(path, unit, "basis-points", "those are 'returns_bp'")
    else:
        data = _returns_of_table(path, options)
    if signed := [name for name in data.reading.percents if name in data.names]:
        bare = [name for name in data.names if name not in signed]
        if bare:
            raise ValueError(
                f"{path}: expected one unit, found percent signs in column "
                f"{signed[0]!r}, and none in {bare[0]!r}"
            )
        unit = _known_unit(path, unit, "percent", "the numbers have percent signs")
    if options.prices and unit not in (None, "guess"):
        raise ValueError(f"{path}: --unit says nothing about prices, got {unit!r}")
    missing = ~np.isfinite(data.values)
    if not options.prices:
        missing |= np.isin(data.values, MISSING_CODES)
    complete = ~missing.any(axis=1)
    if unit not in UNITS and not options.prices:
        refuse_prices(path, data.values[complete], data.names)
    if not (complete.all() or drop_missing):
        remedy = "--drop-missing leaves such periods out"
        refuse_missing(path, missing, data.names, "period", remedy, data.dates)
    if not complete.any():
        raise ValueError(
            f"{path}: expected finite numbers, but in each period one is missing"
        )
    if options.prices:
        _convert_prices(data, complete)
    else:
        data.values = data.values[complete]
        _convert(data, data.values, unit)
    if data.dates is not None:
        # the first price has no return
        data.dates = list(compress(data.dates, complete))[int(options.prices) :]
    if not complete.all():
        dropped = (~complete).sum()
        data.reading.facts.append(f"{dropped} periods with missing values dropped")
    if len(data.values) < 2:
        raise ValueError(
            f"{path}: expected at least two periods, found {len(data.values)}"
        )
    note_total_row(data.reading, data.values)
    if options.benchmark is not None:
        _take_benchmark(data, options.benchmark)
    return data.describe()


def _without_names(path, values):
    """Returns of assets that are numbered."""
    names = [str(k + 1) for k in range(values.shape[1])]
    return ReturnsFromFile(values, names, Reading(path, len(values), names))


def _known_unit(path, unit, known, reason):
    """The unit that a file has for a reason, to which --unit must not object."""
    if unit not in (None, "guess", known):
        raise ValueError(
            f"{path}: --unit must be {known}, since {reason}, got {unit!r}"
        )
    return known


def _take_benchmark(data, name):
    """Take the column of the benchmark from the assets."""
    if name not in data.names or len(data.names) == 1:
        raise ValueError(
            f"{data.reading.file}: --benchmark must name a column, and leave an asset, "
            f"got {name!r}, expected one of {short(data.names)}"
        )
    j = data.names.index(name)
    data.benchmark = data.values[:, j]
    data.values = np.delete(data.values, j, axis=1)
    if data.last_prices is not None:
        data.last_prices = np.delete(data.last_prices, j)
    data.names = data.names[:j] + data.names[j + 1 :]
    data.reading.used["benchmark"] = [name]


def _convert_prices(data, complete):
    """Convert prices to returns, and keep the last prices."""
    from pandas import DataFrame

    path, prices = data.reading.file, data.values[complete]
    refuse_volumes(path, prices, data.names)
    index = None if data.dates is None else as_dates(data.dates)
    try:
        found = returns_from_prices(DataFrame(data.values, index, data.names), "drop")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    data.last_prices, data.values = prices[-1], found.to_numpy()
    data.reading.facts.append("returns of prices")


def _convert(data, some, unit):
    """Convert returns to fractions, if the unit is given, or guessed from ``some`` of
    them."""
    facts = data.reading.facts
    if unit not in UNITS:
        deviation = float(np.median(some.std(axis=0)))
        guess = next(name for limit, name in _GUESSES if deviation < limit)
        facts.append(f"unit: {guess} (guessed)")
        unit = "fractions" if unit is None else guess
    else:
        facts.append(f"unit: {unit}{' (by the signs)' * bool(data.reading.percents)}")
    if unit != "fractions":
        data.divisor = UNITS[unit]
        data.values = data.values / data.divisor
        facts.append(f"{unit} divided by {data.divisor:,.0f}")


def read_parquet_files(pattern, drop_missing=False, unit=None, options=DEFAULTS):
    """Read returns of several .parquet files, or of a folder of them, as a lazy frame
    of dask with the rows in the order of the names of the files.

    Columns of other types than numbers are left out.
    """
    check_options(pattern, SEVERAL, options)
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
    form = [f"{len(paths)} file{'s' * (len(paths) > 1)}"]
    reading = Reading(pattern, "unknown", list(frame.columns), form)
    frame = reading.drop(options.drop, frame)
    kept = [
        name
        for name, dtype in frame.dtypes.items()
        if dtype.kind in "iufb" and name.lower() not in INDEX
    ]
    others = [name for name in frame.columns if name not in kept]
    reading.leave_out(others, "no numbers, or an index")
    for path in paths:
        with readable(path, ".parquet"):
            lacking = set(kept).difference(read_schema(path).names)
        if lacking:
            raise ValueError(
                f"{path}: expected the columns of {paths[0]}, found no column "
                f"{min(lacking)!r}"
            )
    # isin of dask cannot be computed in an array of a single partition
    values = frame[kept].replace(list(MISSING_CODES), np.nan)
    values = values.dropna() if drop_missing else values
    first = values.partitions[0].compute().dropna().to_numpy(float)
    if not first.size:
        raise ValueError(
            f"{paths[0]}: expected columns of numbers, and periods without missing ones"
        )
    if unit not in UNITS:
        refuse_prices(pattern, first, kept)
    data = ReturnsFromFile(values, kept, reading)
    _convert(data, first, unit)
    return data.describe()


def read_forecasts(path, data, options=DEFAULTS):
    """Read the ``expected_returns`` of the assets of ``data``, in the unit of its file.

    The file has a row for each asset, with its name and a number; or a column for each
    asset, and either one row, or a first column of dates. Forecasts by date are a
    DataFrame.
    """
    path = existing(path, TABLES)
    frame, _ = read_table(path, options)
    first = frame.iloc[:, 0]
    if frame.shape[1] == 2 and set(map(str, first)) & set(data.names):
        frame = frame.set_index(frame.columns[0]).T
        frame.columns = frame.columns.map(str)
    dates = first if are_dates(first) else None
    lacking = [name for name in data.names if name not in frame.columns]
    if lacking:
        raise ValueError(
            f"{path}: expected a number for each asset of {data.reading.file}, found "
            f"none for {lacking[0]!r}"
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
            return _without_names(
                path, np.loadtxt(path.source(), delimiter=",", ndmin=2)
            )
    frame, reading = read_table(path, options)
    if options.long is not None:
        frame = _wide(frame, options.long, reading)
    frame = reading.drop(options.drop, frame)
    if options.index is not None:
        reading.check([options.index], "--index", frame)
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
    if others is not frame and dates is None:
        reading.leave_out([first.name], "it has no dates")
    elif others is not frame:
        reading.used["dates"] = [first.name]
    if options.benchmark is not None:
        reading.check([options.benchmark], "--benchmark", others)
    if dates is not None:
        _refuse_dates_twice(path, dates, frame)
    kept = closing_prices(others, reading, options)
    values = numbers(path, kept, lambda name: _offer(frame, name))
    data = ReturnsFromFile(values, list(kept.columns), reading, dates)
    if data.direction() == "descending":
        data.values, data.dates = data.values[::-1], dates[::-1]
        reading.facts.append("rows reversed, since their dates descend")
    return data


def _dates(path, first, required):
    """The dates of the rows or None, and whether the first column is no asset."""
    is_text = not any(is_number(cell) or is_amount(cell) for cell in first)
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
            f"{bare[0]!r}; --drop-last N leaves out N rows at the end"
        )
    if is_text and not are_dates(first):
        if required:
            raise ValueError(
                f"{path}: --index must name a column of dates, found {dates[0]!r} in "
                f"column {first.name!r}"
            )
        return None, first.is_unique
    return dates, True


def _refuse_dates_twice(path, dates, frame):
    """Raise a ValueError if dates occur twice, with up to three of them."""
    from pandas import Index

    index = Index(dates)
    twice = index[index.duplicated()].unique()
    if not len(twice):
        return
    date, *others = frame.columns
    texts = [name for name in others if frame[name].dtype.kind == "O"]
    long = f". {_long(frame, date, texts[0])}" if texts else ""
    raise ValueError(
        f"{path}: expected each date once, found {len(twice)} of them more than once, "
        f"such as {', '.join(twice[:3])}{long}"
    )


def _offer(frame, name):
    """What to do with a column of returns that has other values than numbers."""
    dates = [other for other in frame.columns if are_dates(frame[other].astype(str))]
    if dates and name not in dates and not frame[dates[0]].is_unique:
        return f"; {_long(frame, dates[0], name)}"
    offer = f"; --drop {name} leaves it out"
    if name in dates:
        offer += f", and --index {name} takes it as dates"
    return offer


def _long(frame, date, asset):
    """How a long table is read."""
    values = [name for name in frame.columns if name not in (date, asset)]
    prices = [name for name in values if name.lower() in CLOSING]
    value = ["VALUE", *values, *prices][-1]
    return f"A long table is read by --long {date},{asset},{value}"


def _wide(frame, names, reading):
    """A table with a row for each date and a column for each asset, from one with a row
    for each date and asset."""
    if len(names) != 3:
        raise ValueError(
            f"--long must be three names, DATE,ASSET,VALUE, got {','.join(names)!r}"
        )
    reading.check(names, "--long", frame)
    date, asset, value = names
    unused = [name for name in frame.columns if name not in names]
    reading.leave_out(unused, "not in --long")
    twice = frame.duplicated([date, asset])
    if twice.any():
        row = frame[twice].iloc[0]
        raise ValueError(
            f"{reading.file}: expected a row for each date and asset, found "
            f"{row[asset]!r} twice on {row[date]}"
        )
    wide = frame.pivot(index=date, columns=asset, values=value)
    wide.columns = wide.columns.map(str)
    reading.used |= {"values": [value], "names of the assets": [asset]}
    # texts of dates are in the order of the alphabet
    texts = frame[date].drop_duplicates()
    if as_dates(list(texts.astype(str))).is_monotonic_increasing:
        wide = wide.loc[texts]
    return wide.reset_index()
