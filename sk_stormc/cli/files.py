"""Readers of tables of returns or of points in the user's files."""

import re
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sk_stormc.portfolio.returns import looks_like_prices
from sk_stormc.utils.frames import direction_of
from sk_stormc.utils.validation import short

ARRAYS, FRAMES = (".npz", ".npy"), (".parquet", ".feather", ".xlsx", ".xls")
SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": r"\s+"}
SEPARATED = "commas (.csv), tabs (.tsv) or blanks (.txt)"
MISSING_CODES = (-99.99, -999.0)  # codes of the French data library
INDEX = (
    "",
    "date",
    "index",
    "unnamed: 0",
    "timestamp",
    "time",
    "day",
    "month",
    "period",
)  # no names of assets
LABELS = ("label", "labels", "target")
ANY_TYPE = (
    "sk-stormc map --mixed reads tables with columns of any type and missing values"
)
UNITS = {"fractions": 1.0, "percent": 1e2, "basis-points": 1e4}
_GUESSES = (
    (0.2, "fractions"),
    (20.0, "percent"),
    (np.inf, "basis-points"),
)  # by the assets' median deviation
_AMOUNT = re.compile(
    r"[-+]?\d*[.,]?\d*\s*%?"
)  # such as 5% and 0,5, which pandas does not read as numbers
_DATE = re.compile(
    r"(19|20)\d\d(\d{2}|\d{4}|\D.*)?"
)  # yyyy, yyyymm, yyyymmdd, yyyy-mm-dd


@dataclass
class Returns:
    """Returns of shape (n_periods, n_assets), names of the assets, optional dates, and
    notes on the conversion."""

    path: Path
    values: np.ndarray
    names: list
    dates: list | None = None
    notes: tuple = ()

    def line(self):
        """A summary of the data on one line."""
        n, d = self.values.shape
        span = (
            "no dates" if self.dates is None else f"{self.dates[0]} to {self.dates[-1]}"
        )
        return ", ".join(
            [f"{self.path}: {n} periods", f"{d} assets", span, *self.notes]
        )

    def direction(self):
        """The order of the dates, as `direction_of` has it, or None without dates."""
        if self.dates is None:
            return None
        from pandas import Index  # which has read the dates

        return direction_of(Index(self.dates))


def read_returns(path, drop_missing=False, unit=None):
    """Read returns from a file. They are converted to fractions if a unit is given or
    guessed.

    A .npz file contains an array ``returns``, or ``returns_bp`` in basis points, or
    exactly one two-dimensional array. A .npy file contains such an array. Other files
    have one column of numbers for each asset, and optionally a header row of names and
    a first column of dates.
    """
    path = _existing(path, (*ARRAYS, *SEPARATORS, *FRAMES))
    if path.suffix.lower() in ARRAYS:
        name, values = _matrix(path, _arrays(path), ("returns", "returns_bp"))
        data = Returns(path, values, [str(k + 1) for k in range(values.shape[1])])
        if name == "returns_bp":
            if unit not in (None, "guess", "basis-points"):
                raise ValueError(
                    f"{path}: --unit must not be {unit!r}, since 'returns_bp' has "
                    "returns in basis points"
                )
            unit = "basis-points"
    else:
        data = _returns_of_table(path)
    _handle_missing(data, drop_missing)
    if unit not in UNITS:
        _refuse_prices(data)
        deviation = float(np.median(data.values.std(axis=0)))
        guess = next(name for limit, name in _GUESSES if deviation < limit)
        data.notes += (f"unit: {guess} (guessed)",)
        unit = "fractions" if unit is None else guess
    if unit != "fractions":
        data.values = data.values / UNITS[unit]
        data.notes += (f"{unit} divided by {UNITS[unit]:,.0f}",)
    return data


class Points(NamedTuple):
    """Points, as an array or a DataFrame, their labels or None, and the names of their
    columns."""

    X: Any
    labels: np.ndarray | None
    names: list


def read_points(path, mixed=False, names=None):
    """Read points: an array X and optionally y, or a table of columns of numbers and
    optionally a "label".

    Parameters
    ----------
    path : path-like
    mixed : bool
        Whether columns of a table may have any type and missing values. X is then a
        DataFrame.
    names : list, default=None
        The columns to read. None means all, except the labels and a first column that
        numbers the rows.
    """
    path = _existing(path, (*SEPARATORS,) if mixed else (*ARRAYS, *SEPARATORS))
    if path.suffix.lower() in ARRAYS:
        arrays = _arrays(path)
        X, labels = _matrix(path, arrays, ("X",))[1], arrays.get("y")
        found = [str(k + 1) for k in range(X.shape[1])]
        if labels is not None and labels.shape != (len(X),):
            raise ValueError(
                f"{path}: expected y of shape ({len(X)},), found {_describe(arrays)}"
            )
        if names not in (None, found):
            raise ValueError(
                f"{path}: expected the columns {short(names)}, found an array of "
                f"{len(found)} columns"
            )
    else:
        X, labels = _table_of_points(path, names)
        found = list(X.columns)
        X = X if mixed else _numbers(path, X, f"; {ANY_TYPE}")
    if not mixed:
        missing = ~np.isfinite(X)
        if missing.any():
            _refuse_missing(
                path,
                missing,
                found,
                "row",
                f"leave such rows out, or fill in their numbers; {ANY_TYPE}",
            )
    if names is None and len(X) < 10:
        raise ValueError(f"{path}: expected at least 10 points, found shape {X.shape}")
    return Points(X, labels, found)


def _table_of_points(path, names):
    """The columns of a table with these names, or None for all but row numbers, and the
    labels or None."""
    frame = _table(path, LABELS)
    named = [name for name in frame.columns if name.lower() in LABELS]
    labels = _labels(frame[named[0]]) if named else None
    frame = frame.drop(columns=named[:1])
    if names is not None:
        lacking = [name for name in names if name not in frame.columns]
        if lacking:
            raise ValueError(
                f"{path}: expected the columns {short(names)}, found no column "
                f"{lacking[0]!r}"
            )
        return frame[names], labels
    if frame.shape[1] > 1 and len(frame) and frame.dtypes.iloc[0].kind in "iuf":
        first = frame.iloc[:, 0]
        if (np.diff(first) == 1).all() and first.iloc[0] in (0, 1):  # row numbers
            frame = frame.iloc[:, 1:]
    return frame, labels


def _labels(texts):
    """Labels of points as numbers, if all are numbers, and none is a code such as
    01."""
    from pandas import to_numeric

    with suppress(ValueError):
        if not texts.str.fullmatch(r"\s*[+-]?0\d.*", na=False).any():
            return to_numeric(texts).to_numpy()
    return texts.to_numpy()


def _existing(path, suffixes):
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise ValueError(
            f"{path}: expected a file named {', '.join(suffixes[:-1])} or "
            f"{suffixes[-1]}"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"No such file: {path}. A path begins where the command is run, or with /"
        )
    return path


def _arrays(path):
    """The arrays of a .npz file, or the array of a .npy file under the name "array"."""
    try:
        loaded = np.load(path)
        if isinstance(loaded, np.ndarray):
            return {"array": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (
        ValueError,
        EOFError,
        MemoryError,
        OverflowError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise ValueError(
            f"{path}: expected numpy arrays that fit in memory ({error})"
        ) from error


def _matrix(path, arrays, preferred):
    """Name and values of the first array with a preferred name, or of the only
    two-dimensional array."""
    names = [name for name in preferred if name in arrays][:1]
    names = names or [name for name, array in arrays.items() if array.ndim == 2]
    if len(names) != 1:
        raise ValueError(
            f"{path}: expected an array {preferred[0]!r} or one two-dimensional "
            f"array, found {_describe(arrays)}"
        )
    array = arrays[names[0]]
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iuf":
        raise ValueError(
            f"{path}: expected {names[0]!r} to hold real numbers in two dimensions, "
            f"found {array.dtype} of shape "
            f"{array.shape}"
        )
    return names[0], array.astype(float)


def _describe(arrays):
    return (
        ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        or "nothing"
    )


def _table(path, texts=()):
    """A DataFrame from a text file, or from another file that pandas reads, with its
    index as the first column.

    Columns whose names, in lower case, are among ``texts`` are not read as numbers.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ValueError(
            f"{path}: names, dates and {', '.join(FRAMES)} need pandas (python -m pip "
            "install pandas); without it a "
            ".npz or .npy file is expected, or a .csv file of numbers alone"
        ) from error
    suffix = path.suffix.lower()
    readers = {
        ".parquet": pd.read_parquet,
        ".feather": pd.read_feather,
        ".xlsx": pd.read_excel,
        ".xls": pd.read_excel,
    }
    read = readers.get(
        suffix, partial(pd.read_csv, sep=SEPARATORS.get(suffix), na_values=["-", "--"])
    )
    try:
        row = (
            read(path, header=None, nrows=1, dtype=str).iloc[0]
            if suffix in SEPARATORS
            else None
        )
        dtype = (
            {name: str for name in row.dropna() if name.lower() in texts}
            if texts
            else None
        )
        frame = read(path) if dtype is None else read(path, dtype=dtype)
    except Exception as error:  # from one of the many packages that pandas calls
        raise ValueError(
            f"{path}: pandas cannot read it ({' '.join(str(error).split())})"
        ) from error
    if row is not None and _is_data(path, row, frame, pd):
        frame = read(path, header=None).rename(columns=lambda k: str(k + 1))
    elif row is not None:
        _check_names(path, row, frame)
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    frame.columns = frame.columns.map(str)
    return frame


def _check_names(path, row, frame):
    """Raise a ValueError if there are more columns than names, or if two names are
    equal."""
    extra = 0 if type(frame.index).__name__ == "RangeIndex" else frame.index.nlevels
    if extra > 1 or (extra and str(frame.columns[0]).lower() in INDEX):
        raise ValueError(
            f"{path}: expected names of all columns, in columns separated by "
            f"{SEPARATED}, found {frame.shape[1]} names "
            f"above {frame.shape[1] + extra} columns"
        )
    twice = row[row.duplicated() & row.notna()].tolist()
    if twice:
        raise ValueError(
            f"{path}: expected names that differ, found {twice[0]!r} twice"
        )


def _is_data(path, row, below, pd):
    """Whether a first row, as text, has a number or a date, and then numbers, of which
    some may be missing.

    The names of the columns below it do not tell, because pandas renames equal ones.
    """
    first, others = row.iloc[0], row.iloc[1:].dropna()
    if pd.to_numeric(others, errors="coerce").isna().any() or (
        others.empty and len(row) > 1
    ):
        return False
    if pd.isna(
        first
    ):  # names that are numbers, beside an index without a name, have no decimal point
        return bool(others.str.contains(".", regex=False).any())
    if (
        len(row) > 1 and row.is_unique and row.str.fullmatch(r"\d+", na=False).all()
    ):  # data, or names that are numbers?
        dates = [bool(_DATE.fullmatch(cell)) for cell in row]
        fractions = (below.select_dtypes("number") % 1 > 0).any(axis=None)
        if (fractions and (all(dates) or not dates[0])) or (
            np.diff(row.astype(float)) == 1
        ).all():
            raise ValueError(
                f"{path}: expected names in the first row, such as 'a{first}', or "
                f"numbers, such as {first}.0, found "
                f"{', '.join(row[:3])}, which may be either"
            )
    return bool(re.search(r"\d", first))


def _returns_of_table(path):
    """Returns of a table, whose first column contains dates if its name or its values
    indicate this."""
    if find_spec("pandas") is None:
        with suppress(ValueError):
            values = np.loadtxt(path, delimiter=",", ndmin=2)
            return Returns(path, values, [str(k + 1) for k in range(values.shape[1])])
    frame = _table(path)
    first, name = frame.iloc[:, 0], frame.columns[0]
    is_text = not any(
        _is_number(cell) or _AMOUNT.fullmatch(str(cell)) for cell in first
    )
    counts = (
        not is_text
        and first.dtype.kind == "i"
        and len(first) > 2
        and (np.diff(first) == 1).all()
    )
    if frame.shape[1] == 1 or not (
        is_text
        or counts
        or name.lower() in INDEX
        or all(_DATE.fullmatch(str(cell)) for cell in first)
    ):
        return Returns(path, _numbers(path, frame), list(frame.columns))
    dates = [str(date).removesuffix(" 00:00:00") for date in first]
    data = Returns(
        path, _numbers(path, frame.iloc[:, 1:]), list(frame.columns[1:]), dates
    )
    without = [date for date in dates if not any(map(str.isdigit, date))]
    if 0 < len(without) < len(dates) / 2:  # probably a row of averages or sums
        raise ValueError(
            f"{path}: expected a date such as {dates[0]!r} in each row, found "
            f"{without[0]!r}"
        )
    if data.direction() == "descending":
        data.values, data.dates = data.values[::-1], dates[::-1]
        data.notes = ("rows reversed, since their dates descend",)
    return data


def _is_number(cell):
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _numbers(path, frame, remedy=""):
    """The values of a frame, which must all be numbers."""
    for name, column in frame.items():
        if column.size and column.dtype.kind not in "iuf":
            wrong = next(
                (cell for cell in column if not _is_number(cell)), column.dtype
            )
            raise ValueError(
                f"{path}: expected numbers such as 0.5, in columns separated by "
                f"{SEPARATED}, found {wrong!r} in column "
                f"{name!r}{remedy}"
            )
    if not frame.size:
        raise ValueError(
            f"{path}: expected a column of numbers for each asset, separated by "
            f"{SEPARATED}, found none"
        )
    return frame.to_numpy(float)


def _handle_missing(data, drop):
    missing = ~np.isfinite(data.values) | np.isin(data.values, MISSING_CODES)
    if not missing.any():
        return
    complete = ~missing.any(axis=1)
    if not drop:
        _refuse_missing(
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
    data.dates = data.dates and [
        date for date, keep in zip(data.dates, complete, strict=True) if keep
    ]
    data.notes += (f"{(~complete).sum()} periods with missing values dropped",)


def _refuse_missing(path, missing, names, row, remedy, dates=None):
    """Raise a ValueError that names the first column with missing numbers, its first
    such row, and a remedy."""
    j = int(np.argmax(missing.any(axis=0)))
    first = int(np.argmax(missing[:, j]))
    date = "" if dates is None else f", {dates[first]}"
    raise ValueError(
        f"{path}: expected finite numbers, column {names[j]!r} has "
        f"{missing[:, j].sum()} missing or infinite of "
        f"{len(missing)} (the first is {row} {first + 1}{date}); {remedy}"
    )


def _refuse_prices(data):
    """Raise a ValueError for prices, or logarithms of prices, if the unit is not
    given."""
    if looks_like_prices(data.values):
        raise ValueError(
            f"{data.path}: expected returns, but numbers hardly change between "
            "periods, as in a file of prices. "
            "Returns are p[1:] / p[:-1] - 1 of prices p, by pandas: read_csv(FILE, "
            "index_col=0).pct_change().dropna()"
            ".to_csv('returns.csv'). If these are returns, say so by --unit"
        )
