"""Returns from a user's file."""

import re
from dataclasses import dataclass

import numpy as np

from sk_stormc.portfolio.returns import looks_like_prices
from sk_stormc.reproduce.dates import direction_of_dates
from sk_stormc.reproduce.files import describe, read_array, read_arrays, read_as, read_frame
from sk_stormc.reproduce.text_table import Numbers, read_cells

__all__ = ["Returns", "add_data_arguments", "load_returns", "read_returns"]

_DATE = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])?")  # yyyymm or yyyymmdd
_MISSING_CODES = (-99.99, -999.0)  # of the French data library
MANY = 10  # returns of more periods are not all positive
_ALWAYS = ("", "date", "index", "unnamed: 0")  # names of a column before the returns; "": pandas' unnamed index
_IN_ORDER = (
    *("t", "time", "timestamp", "datetime", "year", "month", "week", "day", "period", "dt", "asof", "as of"),
    *("datum", "zeit", "jahr", "monat", "tag", "fecha", "data", "jour", "mois"),
)  # if its numbers rise or fall throughout: T and DAY are shares, too
UNITS = {"fractions": 1.0, "percent": 1e2, "basis-points": 1e4}
_GUESSES = ((0.2, "fractions"), (20.0, "percent"), (np.inf, "basis-points"))  # by the assets' median deviation
EXPECTED = "expected a column of numbers for each asset, perhaps names above and dates before them"
_SUMMARIES = (  # first words of rows that are no periods
    *("average", "avg", "mean", "median", "total", "sum", "std", "stdev", "stddev", "standard", "volatility"),
    *("variance", "min", "minimum", "max", "maximum", "count", "annualized", "annualised", "cumulative", "sharpe"),
    *("durchschnitt", "mittel", "mittelwert", "summe", "gesamt", "moyenne", "somme", "media", "promedio", "suma"),
)


@dataclass
class Returns:
    """What a file says: its numbers, the names of the assets, the column of dates, and what was done to the numbers."""

    values: np.ndarray  # of shape (n_periods, n_assets), float64
    names: list
    dates: list | None = None
    notes: tuple = ()
    unit: str | None = None  # of the file's numbers, which have become fractions; None: they are as they were
    guessed: bool = True  # the unit
    unordered: bool = False  # whether the dates neither ascend nor descend

    def line(self):
        """What was read, on one line."""
        n, d = self.values.shape
        span = "no dates" if self.dates is None else f"{self.dates[0]} to {self.dates[-1]}"
        unit = (self.unit or _guess(self.values)).replace("-", " ") if self.guessed else "fractions"
        parts = [f"{n} periods", f"{d} assets", span, f"unit: {unit}{' (guessed)' * self.guessed}", *self.notes]
        return ", ".join(parts)


def add_data_arguments(parser, about="returns (periods x assets)", required=False, unit=None):
    """Add --data, --unit and --drop-missing to a command; ``unit`` is the default, None or "guess"."""
    kinds = ".csv, .tsv, .txt, .npz, .npy, or .parquet, .feather and .xlsx with pandas"
    parser.add_argument("--data", metavar="FILE", required=required, help=f"{about}: {kinds}")
    otherwise = "they stay as they are" if unit is None else "guessed from their size"
    said = f"unit of the returns of FILE, which then become fractions (default: {otherwise})"
    parser.add_argument("--unit", choices=list(UNITS), default=unit, help=said)
    parser.add_argument("--drop-missing", action="store_true", help="leave out periods of FILE with missing returns")


def read_returns(path, drop_missing=False):
    """Read a matrix of returns.

    A .npz file holds an array ``returns``, or ``returns_bp`` in basis points, or exactly one two-dimensional
    array, and a .npy file such an array. A .csv, .tsv or .txt file has one column of numbers for each asset, with or
    without a row of names above them and a column of dates before them. Columns are separated by commas, semicolons,
    tabs or blanks, the decimal sign is a point or a comma, and numbers may have percent signs. A .parquet, .feather or
    .xlsx file is read by pandas.
    """
    found = load_returns(path, drop_missing)
    return found.values, ", ".join(found.notes)


def load_returns(path, drop_missing=False, unit=None):
    """As `read_returns`, with names and dates.

    The numbers become fractions if the unit is "fractions", "percent" or "basis-points", or "guess". None leaves them
    as they are.
    """
    texts, frames = (".csv", ".tsv", ".txt"), (".parquet", ".feather", ".xlsx", ".xls")
    readers = {".npz": _read_npz, ".npy": _read_npy, **dict.fromkeys(texts, _read_text)}
    path, found = read_as(path, readers | dict.fromkeys(frames, _read_frame))
    missing = ~np.isfinite(found.values) | np.isin(found.values, _MISSING_CODES)
    if missing.any() and drop_missing:
        whole = ~missing.any(axis=1)
        if not whole.any():
            raise ValueError(f"{path}: expected finite returns, but in each period one is missing")
        found.values = found.values[whole]
        found.dates = found.dates and [date for date, keep in zip(found.dates, whole, strict=True) if keep]
        found.notes = (*found.notes, f"{(~whole).sum()} periods with missing values dropped")
    elif missing.any():
        column = int(np.argmax(missing.any(axis=0)))
        raise ValueError(
            f"{path}: expected finite returns, column {found.names[column]!r} has {missing[:, column].sum()} missing "
            f"or infinite of {len(missing)} (the first is period {np.argmax(missing[:, column]) + 1}); --drop-missing "
            "leaves such periods out"
        )
    converted = [note for note in found.notes if "divided by" in note]
    found.guessed = unit not in UNITS
    if converted and unit not in (None, "guess", "fractions"):
        raise ValueError(f"{path}: --unit must not be {unit!r} where numbers have a unit already: {converted[0]}")
    if found.guessed:
        _refuse_prices(path, found.values)
    if unit is not None:
        found.unit = unit if unit in UNITS else "fractions" if converted else _guess(found.values)
        found.values = found.values / UNITS[found.unit]
        found.notes += (f"{found.unit} divided by {UNITS[found.unit]:,.0f}",) * (found.unit != "fractions")
    return found


def _guess(values):
    """The unit of returns of this size."""
    deviation = float(np.median(values.std(axis=0)))
    return next(unit for limit, unit in _GUESSES if deviation < limit)


def _refuse_prices(path, values):
    """Raise a ValueError for prices, or logarithms of them, whose unit is not said."""
    positive = len(values) > MANY and (values > 0).all()
    if positive or looks_like_prices(values):
        found = f"none of {values.size:,} numbers is negative" if positive else "numbers hardly change between periods"
        raise ValueError(
            f"{path}: expected returns, but {found}, as in a file of prices. "
            "Returns are p[1:] / p[:-1] - 1 of prices p, by pandas: read_csv(FILE, index_col=0).pct_change().dropna()"
            ".to_csv('returns.csv'). If these are returns, say so by --unit"
        )


def _read_npz(path):
    arrays = read_arrays(path)
    keys = [key for key in ("returns", "returns_bp") if key in arrays]
    keys = keys or [name for name, array in arrays.items() if array.ndim == 2]
    if len(keys) != 1 and "returns" not in keys:
        raise ValueError(
            f"{path}: expected an array 'returns' or one two-dimensional array, found {describe(arrays)}"
        )
    found = _of_array(path, repr(keys[0]), arrays[keys[0]])
    if keys[0] == "returns_bp":
        found.values, found.notes = found.values / 1e4, ("returns_bp divided by 10,000",)
    return found


def _read_npy(path):
    return _of_array(path, "the file", read_array(path))


def _of_array(path, what, array):
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iuf":
        raise ValueError(
            f"{path}: expected {what} to hold real numbers, of shape (n_periods, n_assets), found "
            f"{array.dtype} of shape {array.shape}"
        )
    return Returns(array.astype(float), _numbered(array.shape[1]))


def _read_frame(path):
    frame = read_frame(path)
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    rows = [[str(cell) for cell in row] for row in frame.astype(object).where(frame.notna(), "").to_numpy().tolist()]
    return _of_rows(path, [str(name) for name in frame.columns], *_periods(list(enumerate(rows, 1))))


def _read_text(path):
    lines = read_cells(path)
    if not lines:
        raise ValueError(f"{path}: {EXPECTED}; found no line")
    body, notes = _periods(lines[1:])
    first = lines[0][1]
    if not _is_header(first, [row for _, row in body]):
        first, body = _numbered(len(first)), lines[:1] + body
    if body and all(len(row) == len(first) + 1 for _, row in body):  # names of the returns only
        first = ["", *first]
    return _of_rows(path, first, body, notes)


def _periods(lines):
    """The lines without averages, sums and the like, and notes that say which are left out."""
    kept, dropped = [], []
    for number, row in lines:
        word = re.match(r"[^\W\d_]+", row[0])
        (dropped if len(row) > 1 and word and word[0].lower() in _SUMMARIES else kept).append((number, row))
    return kept, [f"line {number} ({row[0]}) left out" for number, row in dropped]


def _of_rows(path, header, body, notes=()):
    if not body:
        raise ValueError(f"{path}: {EXPECTED}; found no row of numbers")
    for number, row in body:
        if len(row) != len(header):
            raise ValueError(f"{path}, line {number}: expected {len(header)} columns, found {len(row)}")
    numbers = Numbers(cell for _, row in body for cell in row[len(row) > 1 :])
    skip = int(len(header) > 1 and _is_index(header[0], [row[0] for _, row in body], numbers))
    names, values = header[skip:], np.empty((len(body), len(header) - skip))
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise ValueError(f"{path}: expected a name of its own for each column, found {twice[0]!r} twice")
    signs = np.zeros(values.shape, bool)
    for i, (number, row) in enumerate(body):
        for j, cell in enumerate(row[skip:]):
            value = numbers.value(cell)
            if value is None:
                raise ValueError(f"{path}, line {number}: {EXPECTED}; found {cell!r} in column {names[j]!r}")
            values[i, j], signs[i, j] = value, cell.endswith("%")
    bare = ~signs & np.isfinite(values) & (values != 0)
    mixed = signs.any(axis=0) & bare.any(axis=0)
    if mixed.any():
        wrong = names[np.argmax(mixed)]
        raise ValueError(f"{path}: expected percent signs at all numbers of column {wrong!r}, or at none")
    if signs.any() and bare.any():
        with_signs, without = (names[np.argmax(found.any(axis=0))] for found in (signs, bare))
        raise ValueError(
            f"{path}: expected percent signs in all columns or in none, found them in {with_signs!r} and not in "
            f"{without!r}"
        )
    notes = [*notes, *["decimal commas"] * numbers.comma, *["percent divided by 100"] * bool(signs.any())]
    found = Returns(values, names, notes=tuple(notes))
    if skip:
        found.dates = [row[0] for _, row in body]
        _order(path, found, body, numbers)
    return found


def _order(path, found, body, numbers):
    """Put the periods in the order of their dates, if these descend."""
    with_digits = [any(c.isdigit() for c in date) for date in found.dates]
    if 2 * sum(with_digits) > len(body) and not all(with_digits):
        number, row = body[with_digits.index(False)]
        like = found.dates[with_digits.index(True)]
        raise ValueError(f"{path}, line {number}: expected a date such as {like!r}, found {row[0]!r}")
    counts = [numbers.value(date) for date in found.dates]
    if None in counts:
        direction = direction_of_dates(found.dates)
    else:
        steps = np.diff(counts)
        direction = "ascending" if (steps >= 0).all() else "descending" if (steps <= 0).all() else "neither"
    found.unordered = direction == "neither"
    if direction == "descending":
        found.values, found.dates = found.values[::-1], found.dates[::-1]
        found.notes += ("rows reversed, since their dates descend",)


def _numbered(n_columns):
    return [str(i + 1) for i in range(n_columns)]


def _is_header(first, body):
    """Whether the first line has names: text, or numbers such as tickers that are not like those below."""
    numbers = Numbers(cell for row in body for cell in row)
    text = [numbers.value(cell) is None or not cell for cell in first]
    if any(text[1:]) or (text[0] and len(first) == 1):
        return True
    if not body or len(first) not in (len(body[0]), len(body[0]) - 1):
        return False
    if text[0]:  # a name above the first column, or the first of its dates
        below = [row[0] for row in body]
        return first[0].lower() in (*_ALWAYS, *_IN_ORDER) or not any(numbers.value(cell) is None for cell in below)
    tickers = first if len(first) < len(body[0]) else first[_is_index("", [row[0] for row in body], numbers, True) :]
    rest = [cell for row in body for cell in row[len(row) - len(tickers) :]]
    if not tickers or not all(cell.isdecimal() for cell in tickers) or len(set(tickers)) < len(tickers):
        return False
    if any(len(cell) > 1 and cell[0] == "0" for cell in tickers):  # 000001
        return True
    largest = max((abs(v) for v in map(numbers.value, rest) if v is not None and np.isfinite(v)), default=0.0)
    return not all(cell.isdecimal() for cell in rest) and min(map(int, tickers)) > 10 * largest


def _is_index(name, cells, numbers, unnamed=False):
    """Whether the first column is not of returns: by its name, its dates, or as it counts."""
    name = name.strip().lower()
    if name in _ALWAYS and not unnamed:
        return True
    values = [numbers.value(cell) for cell in cells]
    text = [value is None and not numbers.is_like_one(cell) for value, cell in zip(values, cells, strict=True)]
    if all(is_text or _DATE.fullmatch(cell) for is_text, cell in zip(text, cells, strict=True)):
        return True
    if any(value is None for value in values):
        return False
    steps = np.diff(values)
    counts = len(values) > 2 and bool((steps == 1).all())
    return counts or (name in _IN_ORDER and len(values) > 1 and bool((steps > 0).all() or (steps < 0).all()))
