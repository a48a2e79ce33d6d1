"""Tables in users' files, which pandas and anndata read, and the options of a
command that say how."""

import gzip
import io
import os
import re
import sys
import warnings
from argparse import Namespace
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from sk_stormc.utils.atomic import descriptor, is_stream
from sk_stormc.utils.frames import direction_of
from sk_stormc.utils.machine import machine_memory
from sk_stormc.utils.validation import short

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": r"\s+"}
SHEETS = (".xlsx", ".xls")
FRAMES = (".parquet", ".feather", *SHEETS)
CELLS = ".h5ad"
SEPARATED = (
    "commas (.csv), tabs (.tsv) or blanks (.txt), or as --sep ';' --decimal , says"
)
PACKAGES = {
    ".parquet": "pyarrow",
    ".feather": "pyarrow",
    ".xlsx": "openpyxl",
    ".xls": "xlrd",
    CELLS: "anndata",
}
# no names of assets
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
)
FIRST_LINES = 20  # from which the separator and the decimal mark are recognised
DATE = r"(19|20)\d\d(\d{2}|\d{4}|\D.*)?"  # yyyy, yyyymm, yyyymmdd, yyyy-mm-dd
MOST_COLUMNS = 100_000  # of texts
MOST_BYTES = 2**24  # of a line
SAMPLE = 1000  # texts of a column that are tried as dates


# options of commands that say how a table is read
DEFAULTS = Namespace(
    sep=None, decimal=None, index=None, label=None, drop=(), keep=False
)


@dataclass(frozen=True)
class DataFile:
    """A file of the user: its name, as messages have it, its kind, its path, and the
    bytes of a stream, which can be read only once."""

    name: str
    kind: str
    path: Path
    content: bytes | None = None

    def __str__(self):
        return self.name

    def source(self):
        """What a reader of another package opens."""
        return self.path if self.content is None else io.BytesIO(self.content)

    def size(self):
        """The bytes of the content, for a compressed text modulo 4 GB."""
        if self.content is not None:
            return len(self.content)
        if self.compression is None:
            return self.path.stat().st_size
        with open(self.path, "rb") as file:
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")

    def check_fits(self, needed):
        """Raise a MemoryError if so many bytes cannot be kept in memory."""
        there = machine_memory()
        if needed > there:
            raise MemoryError(
                f"it needs {needed / 2**30:.1f} GB of {there / 2**30:.1f} GB"
            )

    @property
    def compression(self):
        """The compression of a text."""
        return "gzip" if self.path.suffix.lower() == ".gz" else None


def kind_of(path):
    """The suffix of a file in lower case, without the .gz of a compressed text."""
    *_, last = suffixes = [suffix.lower() for suffix in path.suffixes] or [""]
    if last == ".gz" and suffixes[-2:][0] in SEPARATORS:
        return suffixes[-2]
    return last


def existing(name, kinds):
    """A file, which must exist and be of one of these kinds.

    A stream, such as a named pipe or - for stdin, has a .csv table if it has no suffix.
    """
    path, name = Path("/dev/stdin" if str(name) == "-" else name), str(name)
    stream = is_stream(path)
    kind = kind_of(path) or ".csv" * stream
    if path.is_dir():
        raise IsADirectoryError(f"{name} is a directory: expected a file")
    if kind not in kinds:
        raise ValueError(
            f"{name}: expected a file named {', '.join(kinds[:-1])} or {kinds[-1]}, "
            f"or {', '.join(f'{kind}.gz' for kind in SEPARATORS)}"
        )
    if descriptor(path) == 0:
        return DataFile(name, kind, path, sys.stdin.buffer.read())
    if not path.exists():
        raise FileNotFoundError(
            f"No such file: {name}. A path begins where the command is run, or with /"
        )
    if stream:
        return DataFile(name, kind, path, path.read_bytes())
    return DataFile(name, kind, path)


def read_table(path, options, texts=()):
    """The DataFrame of a file that pandas reads, with its index as the first column and
    columns that are named by texts; and notes on how it was read.

    Columns whose names, in lower case, are among ``texts`` are not read as numbers.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ValueError(
            f"{path}: names, dates and {', '.join(FRAMES)} need pandas (python -m pip "
            'install "sk_stormc[files]"); without it a .npz or .npy file is expected, '
            "or a .csv file of numbers alone"
        ) from error
    kind, notes = path.kind, ()
    if kind in SEPARATORS:
        with readable(path, kind):
            form, notes = _form(path, kind, options)
        read = partial(
            pd.read_csv, na_values=["-", "--"], compression=path.compression, **form
        )
        frame = _named(path, kind, read, form["decimal"], texts)
    elif kind in SHEETS:
        with readable(path, kind), pd.ExcelFile(path.source()) as book:
            sheets = list(book.sheet_names)
        notes = (f"sheet {sheets[0]!r} of {len(sheets)}",) * (len(sheets) > 1)
        frame = _named(path, kind, pd.read_excel, ".", texts)
    else:
        with readable(path, kind):
            read = pd.read_parquet if kind == ".parquet" else pd.read_feather
            frame = read(path.source())
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    if frame.columns.empty:
        raise ValueError(f"{path}: expected a table with columns, found none")
    frame.columns = frame.columns.map(str)
    return frame, notes


def _named(path, kind, read, decimal, texts):
    """A frame with the names of its first row, or numbers as names if it is data."""
    from pandas.errors import EmptyDataError

    with readable(path, kind):
        row = read(path.source(), header=None, nrows=1, dtype=str).iloc[0]
        extra = 0
        with suppress(EmptyDataError):  # of a file without numbers
            below = read(path.source(), header=None, skiprows=1, nrows=1)
            extra = below.shape[1] - len(row)
        named = [name for name in row.dropna() if name.lower() in texts]
        frame = read(path.source(), dtype=dict.fromkeys(named, str))
    if not _is_data(path, row, decimal, frame):
        _check_names(path, row, extra)
        return frame
    with readable(path, kind):
        return read(path.source(), header=None).rename(columns=lambda k: str(k + 1))


@contextmanager
def readable(path, kind):
    """Whatever the packages that read a file raise becomes a ValueError with the path,
    which names the package if it is missing."""
    try:
        yield
    except MemoryError as error:
        raise ValueError(
            f"{path}: expected a table that fits in memory ({error or 'none is left'})"
        ) from error
    except Exception as error:
        reason = f"pandas cannot read it ({' '.join(str(error).split())})"
        if isinstance(error, ImportError) and kind in PACKAGES:
            reason = (
                f'{kind} files need {PACKAGES[kind]}: pip install "sk_stormc[files]"'
            )
        raise ValueError(f"{path}: {reason}") from error


def _form(path, kind, options):
    """The separator, the decimal mark and the encoding of a text, from the options or
    from its first lines, and a note if these are not the usual ones."""
    from pandas import Series

    head = _first_lines(path, options.sep or SEPARATORS[kind])
    encoding = "utf-8-sig"
    try:
        text = b"".join(head).decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        text = b"".join(head).decode(encoding, errors="replace")
    lines = Series([line for line in text.splitlines() if line.strip()], dtype=object)
    usual = sep = SEPARATORS[kind]
    for mark in ";|\t" if kind == ".csv" else ";":  # as often in each line
        counts = lines.str.count(re.escape(mark))
        sep = mark if len(lines) and counts.min() == counts.max() > 0 else sep
    # -0,5 and 1,05 are numbers, and not two columns
    one_comma = lines.str.fullmatch(r"[+-]?\d+,\d+(e-?\d+)?").all()
    sep = ";" if one_comma and lines.str.contains(r"^-0,|,0\d").any() else sep
    sep = options.sep or sep
    cells = lines.str.split(sep).explode().str.strip('" ')
    # 1,234 may be a thousand
    commas = sep != "," and cells.str.fullmatch(r"[+-]?\d*,(\d{1,2}|\d{4,})").any()
    commas = commas and not cells.str.fullmatch(r"[+-]?\d*\.\d+").any()
    # 1.234 beside 567 may be one too, and is refused with a decimal comma
    dotted = cells[cells.str.fullmatch(r"[+-]?\d+\.[\d.]+", na=False)]
    thousands = dotted.str.fullmatch(r"[+-]?[1-9]\d{0,2}(\.\d{3})+").all()
    whole = cells.str.fullmatch(r"[+-]?\d{1,3}").any()
    commas = commas or (sep == ";" and len(dotted) and thousands and whole)
    decimal = options.decimal or ("," if commas else ".")
    # eight bytes for each number, which pandas keeps twice while it reads
    cells_per_byte = len(cells) / max(sum(map(len, head)), 1)
    path.check_fits(16 * cells_per_byte * path.size())
    found = [f"--sep {sep!r}"] * (options.sep is None and sep != usual)
    found += ["--decimal ,"] * (options.decimal is None and decimal == ",")
    notes = (f"read with {' '.join(found)}",) * bool(found)
    notes += ("in the encoding cp1252 of Windows",) * (encoding == "cp1252")
    return {"sep": sep, "decimal": decimal, "encoding": encoding}, notes


def _first_lines(path, separator):
    """The first lines of a text, as bytes. Those of a very wide table are refused,
    since pandas would read them for minutes."""
    opened = gzip.open if path.compression else open
    source = path.source()
    with source if path.content is not None else opened(source, "rb") as file:
        head = [file.readline(MOST_BYTES)]
        columns = len(re.findall(separator.encode(), head[0]))
        if columns > MOST_COLUMNS or len(head[0]) == MOST_BYTES:
            raise ValueError(
                f"a text may have {MOST_COLUMNS:,} columns, and its header has more. A "
                "table has a row for each point or period; a .npy file may be wider"
            )
        return head + list(islice(file, FIRST_LINES - 1))


def _check_names(path, row, extra):
    """Raise a ValueError if there are ``extra`` columns without names, other than one
    of names of rows, or if two names are equal."""
    if extra > 1 or (extra == 1 and (len(row) == 1 or str(row[0]).lower() in INDEX)):
        raise ValueError(
            f"{path}: expected names of all columns, in columns separated by "
            f"{SEPARATED}, found {len(row)} names above {len(row) + extra} columns"
        )
    twice = row[row.duplicated() & row.notna()].tolist()
    if twice:
        raise ValueError(
            f"{path}: expected names that differ, found {twice[0]!r} twice"
        )


def _is_data(path, row, decimal, below):
    """Whether a first row, as text, has a number or a date, and then numbers, of which
    some may be missing.

    The names of the columns below it do not tell, because pandas renames equal ones.
    """
    from pandas import isna, to_numeric

    row = row.str.replace(decimal, ".", regex=False)
    first, others = row.iloc[0], row.iloc[1:].dropna()
    if len(row) == 1 and not is_number(first):
        return False
    if to_numeric(others, errors="coerce").isna().any() or len(row) > 1 > len(others):
        return False
    if isna(first):
        # names that are numbers, beside an index without a name, have no decimal point
        return bool(others.str.contains(".", regex=False).any())
    if row.is_unique and row.str.fullmatch(r"\d+", na=False).all():
        # data, or names that are numbers?
        dates = row.str.fullmatch(DATE)
        fractions = (below.select_dtypes("number") % 1 > 0).any(axis=None)
        counts = len(row) > 1 and (np.diff(row.astype(float)) == 1).all()
        if counts or (fractions and (dates.all() or not dates.iloc[0])):
            raise ValueError(
                f"{path}: expected names in the first row, such as 'a{first}', or "
                f"numbers, such as {first}.0, found {', '.join(row[:3])}, which may "
                "be either"
            )
    return any(map(str.isdigit, first))


def without(path, frame, names):
    """A frame without the columns that --drop names."""
    for name in names:
        check_column(path, frame, name, "--drop")
    return frame.drop(columns=list(names))


def check_column(path, frame, name, option):
    """Raise a ValueError if an option names a column that the frame does not have."""
    if name not in frame.columns:
        raise ValueError(
            f"{path}: {option} must name a column, got {name!r}, expected one of "
            f"{short(list(frame.columns))}"
        )


def numbers(path, frame, remedy="".format):
    """The values of a frame, which must all be numbers or booleans.

    ``remedy`` is a function of the name of a column, which says what to do with it.
    """
    for name, column in frame.items():
        if column.size and column.dtype.kind not in "iufb":
            texts = (cell for cell in column if not is_number(cell))
            wrong = next(texts, column.iloc[0])
            advice = remedy(name)
            if re.fullmatch(r"[+-]?\d*[.,]\d+", str(wrong)):
                advice = "; --decimal says which decimal mark the file has"
            elif re.search(r"[;,|\t]", f"{wrong}{name}"):
                advice = f"; columns are separated by {SEPARATED}"
            raise ValueError(
                f"{path}: expected numbers such as 0.5, found {wrong!r} in column "
                f"{name!r}{advice}"
            )
    if not frame.size:
        raise ValueError(
            f"{path}: expected a column of numbers for each asset, separated by "
            f"{SEPARATED}, found none"
        )
    return frame.to_numpy(float, na_value=np.nan)


def refuse_missing(path, missing, names, row, remedy, dates=None):
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


def is_number(cell):
    """Whether a cell is a number, or a text of one."""
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def are_dates(labels):
    """Whether texts or numbers are dates, of which a few may be missing."""
    from pandas import Index

    texts = Index(labels).dropna()[:SAMPLE].astype(str)
    if not len(texts):
        return False
    if texts.str.fullmatch(r"[+-]?\d*\.?\d*").all():
        return bool(texts.str.fullmatch(DATE).all())
    return direction_of(texts) is not None


def name_dates(names):
    """Whether all names of columns are dates, such as 2024-01-31 and Jan 2024."""
    from pandas import Index, to_datetime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # texts that do not tell their form
        read = to_datetime(Index(names), format="mixed", errors="coerce", utc=True)
    return are_dates(names) and bool(read.notna().all())


def identifiers(frame):
    """The columns of whole numbers or of texts all of which differ, as row numbers and
    names do. Dates, and texts of numbers, are no identifiers."""
    from pandas import to_numeric

    def identifies(column):
        text = column.dtype.kind == "O" and not are_dates(column)
        if text:
            text = to_numeric(column, errors="coerce").isna().any()
        return (text or column.dtype.kind in "iu") and column.is_unique

    return [name for name, column in frame.items() if identifies(column)]
