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
from sk_stormc.cli.column_texts import is_number
from sk_stormc.cli.data_files import (
    FRAMES,
    SEPARATORS,
    Reading,
    existing,
    readable,
)
from sk_stormc.cli.header_rows import DATE, INDEX
from sk_stormc.cli.price_files import (
    closing_prices,
    convert_prices,
    refuse_prices,
)
from sk_stormc.cli.table_files import (
    DEFAULTS,
    are_dates,
    check_column,
    name_dates,
    numbers,
    read_table,
    refuse_missing,
    total_row,
    without,
)
from sk_stormc.datasets.french import MISSING_CODES
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
    what was read. The returns of the file were divided by ``divisor``.

    The values of several files are a lazy frame of dask. ``benchmark`` has the returns
    of the benchmark, and ``last_prices`` the prices at the end, if there are any.
    """

    path: Any
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
    path = existing(path, (*ARRAYS, *SEPARATORS, *FRAMES))
    if path.kind in ARRAYS:
        refuse_columns(path, options)
        name, values, _ = read_matrix(path, ("returns", "returns_bp"))
        names = [str(k + 1) for k in range(values.shape[1])]
        data = Returns(path, values, names, Reading(path, len(values), names))
        if name == "returns_bp":
            if unit not in (None, "guess", "basis-points"):
                raise ValueError(
                    f"{path}: --unit must not be {unit!r}, since 'returns_bp' has "
                    "returns in basis points"
                )
            unit = "basis-points"
    else:
        data = _returns_of_table(path, options)
    unit = _unit_of_signs(data, unit)
    if options.prices:
        if unit not in (None, "guess"):
            raise ValueError(f"{path}: --unit says nothing about prices, got {unit!r}")
        index = None if data.dates is None else as_dates(data.dates)
        convert_prices(data, index, drop_missing)
    else:
        _handle_missing(data, drop_missing)
        _convert(data, data.values, unit)
    if len(data.values) < 2:
        raise ValueError(
            f"{path}: expected at least two periods, found {len(data.values)}"
        )
    if (word := total_row(data.values)) is not None:
        data.reading.notes.append(
            f"the last row has the {word} of the others: --drop-last 1 leaves it out"
        )
    if options.benchmark is not None:
        _take_benchmark(data, options.benchmark)
    data.describe()
    return data


def _unit_of_signs(data, unit):
    """The unit, which percent signs determine."""
    signed = [name for name in data.reading.percents if name in data.names]
    if not signed:
        return unit
    without_sign = [name for name in data.names if name not in signed]
    if without_sign:
        raise ValueError(
            f"{data.path}: expected one unit, found percent signs in column "
            f"{signed[0]!r}, and none in {without_sign[0]!r}"
        )
    if unit not in (None, "guess", "percent"):
        raise ValueError(
            f"{data.path}: --unit must be percent, since the numbers have percent "
            f"signs, got {unit!r}"
        )
    return "percent"


def _take_benchmark(data, name):
    """Take the column of the benchmark from the assets."""
    if name not in data.names:
        raise ValueError(
            f"{data.path}: --benchmark must name a column, got {name!r}, expected one "
            f"of {short(data.names)}"
        )
    if len(data.names) == 1:
        raise ValueError(f"{data.path}: --benchmark must leave an asset, got {name!r}")
    j = data.names.index(name)
    data.benchmark = data.values[:, j]
    data.values = np.delete(data.values, j, axis=1)
    if data.last_prices is not None:
        data.last_prices = np.delete(data.last_prices, j)
    data.names = data.names[:j] + data.names[j + 1 :]
    data.reading.used["benchmark"] = [name]


def _convert(data, some, unit):
    """Convert returns to fractions, if the unit is given, or guessed from ``some`` of
    them."""
    facts = data.reading.facts
    if unit not in UNITS:
        refuse_prices(data.path, some, data.names)
        deviation = float(np.median(some.std(axis=0)))
        guess = next(name for limit, name in _GUESSES if deviation < limit)
        facts.append(f"unit: {guess} (guessed)")
        unit = "fractions" if unit is None else guess
    elif data.reading.percents:
        facts.append("unit: percent (by the signs)")
    else:
        facts.append(f"unit: {unit}")
    if unit != "fractions":
        data.divisor = UNITS[unit]
        data.values = data.values / data.divisor
        facts.append(f"{unit} divided by {data.divisor:,.0f}")


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
    reading = Reading(pattern, "unknown", list(frame.columns), [f"{len(paths)} files"])
    reading.leave_out([k for k in dropped if k in options.drop], "--drop")
    others = [name for name in dropped if name not in options.drop]
    reading.leave_out(others, "no numbers, or an index")
    data = Returns(pattern, values, kept, reading)
    first = data.values.partitions[0].compute().dropna().to_numpy(float)
    if not first.size:
        raise ValueError(
            f"{paths[0]}: expected columns of numbers, and periods without missing ones"
        )
    _convert(data, first, unit)
    data.describe()
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
            names = [str(k + 1) for k in range(values.shape[1])]
            return Returns(path, values, names, Reading(path, len(values), names))
    frame, reading = read_table(path, options)
    if options.long is not None:
        frame = _wide(path, frame, options.long, reading)
    frame = without(path, frame, options.drop)
    reading.leave_out(list(options.drop), "--drop")
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
    if others is not frame:
        if dates is None:
            reading.leave_out([first.name], "it has no dates")
        else:
            reading.used["dates"] = [first.name]
    if options.benchmark not in others.columns and options.benchmark is not None:
        check_column(path, others, options.benchmark, "--benchmark")
    _refuse_dates_twice(path, dates, frame)
    kept = closing_prices(others, reading, options)
    values = numbers(path, kept, lambda name: _offer(path, frame, name))
    data = Returns(path, values, list(kept.columns), reading, dates)
    if data.direction() == "descending":
        data.values, data.dates = data.values[::-1], dates[::-1]
        reading.facts.append("rows reversed, since their dates descend")
    return data


def _offer(path, frame, name):
    """What to do with a column of returns that has other values than numbers."""
    dates = [other for other in frame.columns if are_dates(frame[other].astype(str))]
    if dates and name not in dates and not frame[dates[0]].is_unique:
        others = [k for k in frame.columns if k not in (dates[0], name)]
        value = others[-1] if others else "VALUE"
        return f"; a long table is read by --long {dates[0]},{name},{value}"
    offer = f"; --drop {name} leaves it out"
    if name in dates:
        offer += f", and --index {name} takes it as dates"
    return offer


def _wide(path, frame, names, reading):
    """A table with a row for each date and a column for each asset, from one with a row
    for each date and asset."""
    if len(names) != 3:
        raise ValueError(
            f"--long must be three names, DATE,ASSET,VALUE, got {','.join(names)!r}"
        )
    for name in names:
        check_column(path, frame, name, "--long")
    date, asset, value = names
    unused = [name for name in frame.columns if name not in names]
    reading.leave_out(unused, "not in --long")
    twice = frame.duplicated([date, asset])
    if twice.any():
        row = frame[twice].iloc[0]
        raise ValueError(
            f"{path}: expected a row for each date and asset, found {row[asset]!r} "
            f"twice on {row[date]}"
        )
    wide = frame.pivot(index=date, columns=asset, values=value).reset_index()
    wide.columns = [str(name) for name in wide.columns]
    reading.used["values"] = [value]
    reading.used["names of the assets"] = [asset]
    # texts of dates are in the order of the alphabet
    order = as_dates(list(frame[date].drop_duplicates().astype(str)))
    if order.is_monotonic_increasing:
        texts = frame[date].drop_duplicates()
        wide = wide.set_index(date).loc[list(texts)].reset_index()
    return wide


def _refuse_dates_twice(path, dates, frame):
    """Raise a ValueError if dates occur twice, with up to three of them."""
    if dates is None:
        return
    seen, twice = set(), []
    for date in dates:
        if date in seen and date not in twice:
            twice.append(date)
        seen.add(date)
    if twice:
        texts = [name for name in frame.columns[1:] if frame[name].dtype.kind == "O"]
        long = (
            f". A long table is read by --long {frame.columns[0]},{texts[0]},"
            f"{next((k for k in frame.columns[1:] if k != texts[0]), 'VALUE')}"
            if texts
            else ""
        )
        raise ValueError(
            f"{path}: expected each date once, found {len(twice)} of them more than "
            f"once, such as {', '.join(twice[:3])}{long}"
        )


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
    dropped = (~complete).sum()
    data.reading.facts.append(f"{dropped} periods with missing values dropped")
