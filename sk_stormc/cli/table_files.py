"""Tables in users' files, which pandas and anndata read, and the options of a
command that say how."""

import csv
import re
import warnings
from argparse import Namespace
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from sk_stormc.utils.frames import direction_of
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
SAMPLE = 1000  # texts of a column that are tried as dates


# options of commands that say how a table is read
DEFAULTS = Namespace(
    sep=None, decimal=None, index=None, label=None, drop=(), keep=False
)


def kind_of(path):
    """The suffix of a file in lower case, without the .gz of a compressed text."""
    *_, last = suffixes = [suffix.lower() for suffix in path.suffixes] or [""]
    if last == ".gz" and suffixes[-2:][0] in SEPARATORS:
        return suffixes[-2]
    return last


def existing(path, kinds):
    """The path of a file, which must exist and be of one of these kinds."""
    path = Path(path)
    if kind_of(path) not in kinds:
        raise ValueError(
            f"{path}: expected a file named {', '.join(kinds[:-1])} or {kinds[-1]}, "
            f"or {', '.join(f'{kind}.gz' for kind in SEPARATORS)}"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"No such file: {path}. A path begins where the command is run, or with /"
        )
    return path


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
    kind, notes = kind_of(path), ()
    if kind in SEPARATORS:
        with readable(path, kind):
            form, notes = _form(path, kind, options)
        read = partial(pd.read_csv, na_values=["-", "--"], **form)
        frame = _named(path, kind, read, form["decimal"], texts)
    elif kind in SHEETS:
        with readable(path, kind), pd.ExcelFile(path) as book:
            sheets = list(book.sheet_names)
        notes = (f"sheet {sheets[0]!r} of {len(sheets)}",) * (len(sheets) > 1)
        frame = _named(path, kind, pd.read_excel, ".", texts)
    else:
        with readable(path, kind):
            frame = (pd.read_parquet if kind == ".parquet" else pd.read_feather)(path)
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
        row = read(path, header=None, nrows=1, dtype=str).iloc[0]
        extra = 0
        with suppress(EmptyDataError):  # of a file without numbers
            below = read(path, header=None, skiprows=1, nrows=1)
            extra = below.shape[1] - len(row)
        named = [name for name in row.dropna() if name.lower() in texts]
        frame = read(path, dtype=dict.fromkeys(named, str))
    if not _is_data(path, row, decimal, frame):
        _check_names(path, row, extra)
        return frame
    with readable(path, kind):
        return read(path, header=None).rename(columns=lambda k: str(k + 1))


@contextmanager
def readable(path, kind):
    """Whatever the packages that read a file raise becomes a ValueError with the path,
    which names the package if it is missing."""
    try:
        yield
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
    from pandas import read_csv

    lines = read_csv(
        path,
        sep="\x01",
        header=None,
        names=["line"],
        nrows=FIRST_LINES,
        dtype=str,
        quoting=csv.QUOTE_NONE,
        encoding_errors="replace",
    )["line"]
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
    encoding = "cp1252" if lines.str.contains("\ufffd").any() else "utf-8"
    found = [f"--sep {sep!r}"] * (options.sep is None and sep != usual)
    found += ["--decimal ,"] * (options.decimal is None and decimal == ",")
    notes = (f"read with {' '.join(found)}",) * bool(found)
    notes += ("in the encoding cp1252 of Windows",) * (encoding != "utf-8")
    return {"sep": sep, "decimal": decimal, "encoding": encoding}, notes


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
