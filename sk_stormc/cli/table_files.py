"""Tables in users' files, which pandas reads, and the options of a command that say
how."""

import gzip
import re
import warnings
from argparse import Namespace
from itertools import islice

import numpy as np

from sk_stormc.cli.column_texts import (
    NESTED,
    is_nested,
    is_number,
    is_text,
    numbers_of_texts,
    vectors_of,
)
from sk_stormc.cli.data_files import (
    FRAMES,
    SEPARATORS,
    SHEETS,
    Reading,
    readable,
)
from sk_stormc.cli.header_rows import DATE, SEPARATED, names_of_columns
from sk_stormc.utils.frames import direction_of
from sk_stormc.utils.validation import short

FIRST_LINES = 20  # from which names, separator and decimal mark are recognised
MOST_COLUMNS = 100_000  # of texts
MOST_BYTES = 2**24  # of a line
SAMPLE = 1000  # texts of a column that are tried as dates
MISSING = ["-", "--"]  # beside what pandas takes as missing


# options of commands that say how a table is read
DEFAULTS = Namespace(
    sep=None,
    decimal=None,
    index=None,
    label=None,
    drop=(),
    keep=False,
    sheet=None,
    skip_rows=0,
    drop_last=0,
    obsm=None,
    layer=None,
    prices=False,
    long=None,
    benchmark=None,
)


def read_table(path, options, texts=()):
    """The DataFrame of a file that pandas reads, with its index as the first column and
    columns that are named by texts; and its `Reading`, in which no column is used yet.

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
    _refuse_options(path, options)
    decimal, notes = options.decimal, []
    if path.kind in SEPARATORS:
        frame, notes, decimal = _text(path, options, texts)
    elif path.kind in SHEETS:
        frame, notes = _sheet(path, options, texts)
    else:
        with readable(path, path.kind):
            read = pd.read_parquet if path.kind == ".parquet" else pd.read_feather
            frame = read(path.source())
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    if frame.columns.empty:
        raise ValueError(f"{path}: expected a table with columns, found none")
    frame.columns = [_joined(name) for name in frame.columns]
    if options.drop_last:
        if options.drop_last >= len(frame):
            raise ValueError(
                f"{path}: --drop-last must leave some of {len(frame)} rows, got "
                f"{options.drop_last}"
            )
        notes.append(f"without the last {options.drop_last} rows")
        frame = frame.iloc[: -options.drop_last]
    reading = Reading(path, len(frame), list(frame.columns), notes, head=frame.head(3))
    empty = [name for name, column in frame.items() if column.isna().all()]
    if 0 < len(empty) < frame.shape[1]:
        # a column of a returns file that is named may be an asset without numbers
        empty = [name for name in empty if re.fullmatch(r"column \d+", name)]
        reading.leave_out(empty, "no name and no values")
        frame = frame.drop(columns=empty)
    frame = _converted(path, frame, reading, decimal, texts)
    reading.columns = list(frame.columns) + [
        name for names in reading.left_out.values() for name in names
    ]
    return frame, reading


def _refuse_options(path, options):
    """Raise a ValueError for an option that says nothing about this kind of file."""
    if options.sheet is not None and path.kind not in SHEETS:
        raise ValueError(f"{path}: --sheet needs one of {', '.join(SHEETS)}")
    if options.skip_rows and path.kind not in (*SEPARATORS, *SHEETS):
        raise ValueError(f"{path}: --skip-rows needs a text or a sheet")


def _joined(name):
    """A name of a column as a text; names of several levels are joined."""
    return " ".join(map(str, name)).strip() if isinstance(name, tuple) else str(name)


def _converted(path, frame, reading, decimal, texts):
    """A frame whose texts of numbers are numbers, and whose vectors are columns."""
    from pandas import DataFrame

    columns, read = {}, []
    for name, column in frame.items():
        values = vectors_of(column) if column.dtype.kind == "O" else None
        if values is not None:
            width = values.shape[1]
            names = [f"{name}[{k}]" for k in range(width)]
            columns |= dict(zip(names, values.T, strict=True))
            reading.form.append(f"{name} read as {width} numbers")
            continue
        if is_nested(column):
            reading.leave_out([name], NESTED)
            continue
        columns[name] = column
        if name.lower() in texts or not is_text(column):
            continue
        try:
            usual = _point_of(path, frame)
            found = numbers_of_texts(column, decimal, usual)
        except ValueError as error:
            raise ValueError(f"{path}: found {error}, in column {name!r}") from error
        if found is None:
            continue
        columns[name], percent = found
        reading.percents += [name] * percent
        if column.str.contains(r"[^\d.eE+-]").any():
            k = column.first_valid_index()
            read.append(f"{name} ({column[k]!r} is {columns[name][k]:g})")
    if read:
        more = f" and {len(read) - 3} more" if len(read) > 3 else ""
        reading.form.append(f"texts read as numbers: {', '.join(read[:3])}{more}")
    return DataFrame(columns, index=frame.index)


def _point_of(path, frame):
    """A decimal point if other columns of a text have one, else None."""
    fractions = frame.select_dtypes("float").mod(1).gt(0).any(axis=None)
    return "." if fractions or path.kind not in SEPARATORS else None


def _text(path, options, texts):
    """The frame of a text, notes on how it was read, and its decimal mark."""
    from pandas import read_csv
    from pandas.errors import ParserWarning

    with readable(path, path.kind):
        form, widths, notes = _form(path, options)
    form |= {"na_values": MISSING, "compression": path.compression}
    form |= {"skiprows": options.skip_rows, "index_col": False}
    if len(form["sep"]) > 1 and form["sep"] != r"\s+":
        form["engine"] = "python"
    else:
        form["low_memory"] = False  # a type for all rows of a column
    width = max(widths, default=0)
    if not width:
        raise ValueError(f"{path}: expected a table, found no lines")
    with readable(path, path.kind):
        head = read_csv(
            path.source(),
            header=None,
            names=range(width),
            nrows=FIRST_LINES,
            dtype=str,
            **form,
        )
    names, n_rows = names_of_columns(path, head, form["decimal"], notes, widths[0])
    types = {name: str for name in names if name.lower() in texts}
    first = {"header": None if n_rows == 0 else n_rows - 1, "names": names}
    with readable(path, path.kind), warnings.catch_warnings():
        # cells beyond the names would be lost
        warnings.simplefilter("error", ParserWarning)
        try:
            frame = read_csv(path.source(), dtype=types, **first, **form)
        except UnicodeDecodeError:
            form["encoding"] = "cp1252"
            notes.append("in the encoding cp1252 of Windows")
            frame = read_csv(path.source(), dtype=types, **first, **form)
    known = form["decimal"] if options.decimal or form["decimal"] == "," else None
    return frame, notes, known


def _sheet(path, options, texts):
    """The frame of a sheet, and notes on how it was read."""
    from pandas import ExcelFile

    with readable(path, path.kind), ExcelFile(path.source()) as book:
        sheets = list(book.sheet_names)
        chosen = options.sheet if options.sheet is not None else sheets[0]
        if chosen not in sheets:
            number = int(chosen) if chosen.isdecimal() else 0
            chosen = sheets[number - 1] if 0 < number <= len(sheets) else None
        if chosen is not None:
            whole = book.parse(chosen, header=None, skiprows=options.skip_rows)
    if chosen is None:
        raise ValueError(
            f"{path}: --sheet must be a name or a number of {short(sheets)}, got "
            f"{options.sheet!r}"
        )
    others = [sheet for sheet in sheets if sheet != chosen]
    notes = [f"sheet {chosen!r} of {len(sheets)}"] * bool(others)
    notes += [f"--sheet reads another, {short(others)}"] * bool(
        others and options.sheet is None
    )
    whole = whole.dropna(how="all").reset_index(drop=True)
    if not whole.size:
        raise ValueError(f"{path}: expected a table, found an empty sheet {chosen!r}")
    head = whole.head(FIRST_LINES)
    head = head.astype(object).where(head.isna(), head.astype(str))
    names, n_rows = names_of_columns(path, head, ".", notes, whole.shape[1])
    frame = whole.iloc[n_rows:].reset_index(drop=True).infer_objects()
    frame.columns = names
    for name in names:
        if name.lower() in texts:
            known = frame[name].notna()
            frame[name] = frame[name].astype(str).where(known)
    return frame, notes


def _form(path, options):
    """The separator, the decimal mark and the encoding of a text, from the options or
    from its first lines; the numbers of cells of these; and a note if the marks are not
    the usual ones."""
    from pandas import Series

    head = _first_lines(path, options)
    joined, encoding = b"".join(head), "utf-8-sig"
    if joined[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    try:
        text = joined[: len(joined) // 2 * 2 if encoding == "utf-16" else None]
        text = text.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        text = joined.decode(encoding, errors="replace")
    lines = [line for line in text.splitlines()[options.skip_rows :] if line.strip()]
    # separators in quotes separate nothing
    lines = Series(lines, dtype=object).str.replace('"[^"]*"', _hidden, regex=True)
    usual = sep = SEPARATORS[path.kind]
    marks = ";|\t" if path.kind == ".csv" else ";"
    if encoding == "utf-16":  # Excel's "Unicode text" has tabs
        marks += "\t"
    for mark in marks:  # as often in each line
        counts = lines.str.count(re.escape(mark))
        sep = mark if len(lines) and counts.min() == counts.max() > 0 else sep
    # -0,5 and 1,05 are numbers, and not two columns
    one_comma = lines.str.fullmatch(r"[+-]?\d+,\d+(e-?\d+)?").all()
    sep = ";" if one_comma and lines.str.contains(r"^-0,|,0\d").any() else sep
    sep = options.sep or sep
    cells = lines.str.strip().str.split(sep).explode().str.strip(' "')
    decimal = options.decimal or _decimal(cells, sep)
    # eight bytes for each number, which pandas keeps twice while it reads
    cells_per_byte = len(cells) / max(len(joined), 1)
    path.check_fits(16 * cells_per_byte * path.size())
    found = [f"--sep {sep!r}"] * (options.sep is None and sep != usual)
    found += ["--decimal ,"] * (options.decimal is None and decimal == ",")
    notes = [f"read with {' '.join(found)}"] * bool(found)
    names = {"cp1252": "cp1252 of Windows", "utf-16": "UTF-16"}
    notes += [f"in the encoding {names.get(encoding)}"] * (encoding in names)
    widths = lines.str.strip(" ").str.split(sep).str.len() if len(lines) else []
    form = {"sep": sep, "decimal": decimal, "encoding": encoding}
    return form, list(widths), notes


def _hidden(match):
    """A quoted cell of as many characters, of which none separates, but a number stays
    one."""
    quoted = match[0]
    return quoted if re.fullmatch(r'"[\d.+-]*"', quoted) else "q" * len(quoted)


def _decimal(cells, sep):
    """The decimal mark of the cells of a text."""
    # 1,234 may be a thousand
    commas = sep != "," and cells.str.fullmatch(r"[+-]?\d*,(\d{1,2}|\d{4,})").any()
    commas = commas and not cells.str.fullmatch(r"[+-]?\d*\.\d+").any()
    if sep == ";" and not commas:
        dotted = cells[cells.str.fullmatch(r"[+-]?\d+\.[\d.]+", na=False)]
        thousands = dotted.str.fullmatch(r"[+-]?[1-9]\d{0,2}(\.\d{3})+").all()
        if len(dotted) and thousands and cells.str.fullmatch(r"[+-]?\d{1,3}").any():
            raise ValueError(
                f"it has numbers such as {dotted.iloc[0]} beside semicolons, which may "
                "be thousands; --decimal says which decimal mark the file has"
            )
    return "," if commas else "."


def _first_lines(path, options):
    """The first lines of a text, as bytes. Those of a very wide table are refused,
    since pandas would read them for minutes."""
    opened = gzip.open if path.compression else open
    source = path.source()
    separator = (options.sep or SEPARATORS[path.kind]).encode()
    with source if path.content is not None else opened(source, "rb") as file:
        head = [file.readline(MOST_BYTES)]
        columns = len(re.findall(separator, head[0]))
        if columns > MOST_COLUMNS or len(head[0]) == MOST_BYTES:
            raise ValueError(
                f"a text may have {MOST_COLUMNS:,} columns, and its header has more. A "
                "table has a row for each point or period; a .npy file may be wider"
            )
        return head + list(islice(file, FIRST_LINES + options.skip_rows - 1))


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
            f"{path}: expected rows and columns of numbers, separated by {SEPARATED}, "
            "found none"
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


def total_row(values):
    """Whether the last row has the sums or the means of the others, in two columns at
    least; as a word, or None."""
    values = np.asarray(values, dtype=float)
    if len(values) < 4 or values.shape[1] < 2:
        return None
    others, last = values[:-1], values[-1]
    size = 1e-6 * np.abs(others).sum(axis=0)
    sums = np.nansum(others, axis=0)
    for word, total, close in (
        ("sums", sums, size),
        ("means", sums / len(others), size / len(others)),
    ):
        # zeros everywhere would be both
        if (np.abs(last - total) <= close).all() and (size > 0).sum() > 1:
            return word
    return None
