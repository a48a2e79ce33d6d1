"""Tables in users' files, which pandas reads."""

import csv
import gzip
import re
import warnings

import numpy as np

from sk_stormc.cli.column_texts import (
    NESTED,
    is_nested,
    is_number,
    is_text,
    numbers_of_texts,
    vectors_of,
)
from sk_stormc.cli.data_files import FRAMES, SEPARATORS, SHEETS, Reading, readable
from sk_stormc.cli.header_rows import DATE, SEPARATED, names_of_columns
from sk_stormc.utils.frames import direction_of
from sk_stormc.utils.parameters import short

FIRST_LINES = 20  # from which names, separator and decimal mark are recognised
MOST_COLUMNS = 100_000  # of texts
MOST_BYTES = 2**24  # of a line
SAMPLE = 1000  # texts of a column that are tried as dates
MISSING = ["-", "--"]  # beside what pandas takes as missing


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
    reading, decimal = Reading(path), options.decimal
    if path.kind in SEPARATORS:
        frame, decimal = _text(path, options, texts, reading)
    elif path.kind in SHEETS:
        frame = _sheet(path, options, texts, reading)
    else:
        with readable(path, path.kind):
            read = pd.read_parquet if path.kind == ".parquet" else pd.read_feather
            frame = read(path.source())
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    if frame.columns.empty:
        raise ValueError(f"{path}: expected a table with columns, found none")
    frame.columns = [
        " ".join(map(str, name)).strip() if isinstance(name, tuple) else str(name)
        for name in frame.columns
    ]
    if options.drop_last:
        if options.drop_last >= len(frame):
            raise ValueError(
                f"{path}: --drop-last must leave some of {len(frame)} rows, got "
                f"{options.drop_last}"
            )
        reading.form.append(f"without the last {options.drop_last} rows")
        frame = frame.iloc[: -options.drop_last]
    reading.rows, reading.head = len(frame), frame.head(3)
    empty = [name for name, column in frame.items() if column.isna().all()]
    if 0 < len(empty) < frame.shape[1]:
        # a column of a returns file that is named may be an asset without numbers
        empty = [name for name in empty if re.fullmatch(r"column \d+", name)]
        reading.leave_out(empty, "no name and no values")
        frame = frame.drop(columns=empty)
    frame = _converted(frame, reading, decimal, texts)
    left_out = [name for names in reading.left_out.values() for name in names]
    reading.columns = [*frame.columns, *left_out]
    return frame, reading


def _converted(frame, reading, decimal, texts):
    """A frame whose texts of numbers are numbers, and whose vectors are columns."""
    from pandas import DataFrame

    path, columns, read, usual = reading.file, {}, [], "."
    if path.kind in SEPARATORS:
        fractions = frame.select_dtypes("float").mod(1).gt(0).any(axis=None)
        usual = "." if fractions else None
    for name, column in frame.items():
        if is_nested(column) or is_text(column):
            values = vectors_of(column)
            if values is not None:
                names = [f"{name}[{k}]" for k in range(values.shape[1])]
                columns |= dict(zip(names, values.T, strict=True))
                reading.form.append(f"{name} read as {len(names)} numbers")
                continue
        if is_nested(column):
            reading.leave_out([name], NESTED)
            continue
        columns[name] = column
        if name.lower() in texts or not is_text(column):
            continue
        try:
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


def _text(path, options, texts, reading):
    """The frame of a text, and its decimal mark if that is known."""
    from pandas import read_csv
    from pandas.errors import ParserWarning

    with readable(path, path.kind):
        form, widths = _form(path, options, reading)
    if not widths:
        raise ValueError(f"{path}: expected a table, found no lines")
    form |= {"na_values": MISSING, "compression": path.compression}
    form |= {"skiprows": options.skip_rows, "index_col": False}
    if len(form["sep"]) > 1 and form["sep"] != r"\s+":
        form["engine"] = "python"
    else:
        form["low_memory"] = False  # a type for all rows of a column
    first = {"header": None, "names": range(max(widths)), "nrows": FIRST_LINES}
    with readable(path, path.kind):
        head = read_csv(path.source(), dtype=str, **first, **form)
    names, n_rows = names_of_columns(head, form["decimal"], widths[0], reading)
    types = {name: str for name in names if name.lower() in texts}
    form |= {"header": n_rows - 1 if n_rows else None, "names": names, "dtype": types}
    with readable(path, path.kind), warnings.catch_warnings():
        # cells beyond the names would be lost
        warnings.simplefilter("error", ParserWarning)
        try:
            frame = read_csv(path.source(), **form)
        except UnicodeDecodeError:
            form["encoding"] = "cp1252"
            reading.form.append("in the encoding cp1252 of Windows")
            frame = read_csv(path.source(), **form)
    return frame, options.decimal or ("," if form["decimal"] == "," else None)


def _sheet(path, options, texts, reading):
    """The frame of a sheet."""
    from pandas import ExcelFile, read_excel

    with readable(path, path.kind), ExcelFile(path.source()) as book:
        sheets = list(book.sheet_names)
        numbered = {str(k + 1): name for k, name in enumerate(sheets)}
        numbered |= {name: name for name in sheets}
        chosen = numbered.get("1" if options.sheet is None else options.sheet)
        if chosen is not None:
            form = {"header": None, "skiprows": options.skip_rows}
            whole = read_excel(book, sheet_name=chosen, **form)
    if chosen is None:
        raise ValueError(
            f"{path}: --sheet must be a name or a number of {short(sheets)}, got "
            f"{options.sheet!r}"
        )
    others = [sheet for sheet in sheets if sheet != chosen]
    if others:
        reading.form.append(f"sheet {chosen!r} of {len(sheets)}")
    if others and options.sheet is None:
        reading.form.append(f"--sheet reads another, {short(others)}")
    whole = whole.dropna(how="all").reset_index(drop=True)
    if not whole.size:
        raise ValueError(f"{path}: expected a table, found an empty sheet {chosen!r}")
    head = whole.head(FIRST_LINES)
    head = head.astype(object).where(head.isna(), head.astype(str))
    names, n_rows = names_of_columns(head, ".", whole.shape[1], reading)
    frame = whole.iloc[n_rows:].reset_index(drop=True).infer_objects()
    frame.columns = names
    for name in names:
        if name.lower() in texts:
            known = frame[name].notna()
            frame[name] = frame[name].astype(str).where(known)
    return frame


def _form(path, options, reading):
    """The separator, the decimal mark and the encoding of a text, from the options or
    from its first lines; and the numbers of cells of these."""
    lines, encoding, n_bytes = _first_lines(path, options)
    sep = usual = SEPARATORS[path.kind]
    marks = ";|\t" if path.kind == ".csv" else ";"
    if encoding == "utf-16":  # Excel's "Unicode text" has tabs
        marks += "\t"
    for mark in marks:  # as many cells in each line
        widths = {len(row) for row in _split(lines, mark)}
        sep = mark if len(widths) == 1 and max(widths) > 1 else sep
    # -0,5 and 1,05 are numbers, and not two columns
    numbers = all(re.fullmatch(r"[+-]?\d+,\d+(e-?\d+)?", line) for line in lines)
    if numbers and any(re.search(r"^-0,|,0\d", line) for line in lines):
        sep = ";"
    sep = options.sep or sep
    rows = _split(lines, sep)
    cells = [cell.strip(' "') for row in rows for cell in row]
    decimal = options.decimal or _decimal(cells, sep)
    # eight bytes for each number, which pandas keeps twice while it reads
    path.check_fits(16 * len(cells) / max(n_bytes, 1))
    found = [f"--sep {sep!r}"] * (options.sep is None and sep != usual)
    found += ["--decimal ,"] * (options.decimal is None and decimal == ",")
    reading.form += [f"read with {' '.join(found)}"] * bool(found)
    names = {"cp1252": "cp1252 of Windows", "utf-16": "UTF-16"}
    reading.form += [f"in the encoding {names.get(encoding)}"] * (encoding in names)
    form = {"sep": sep, "decimal": decimal, "encoding": encoding}
    return form, list(map(len, rows))


def _split(lines, sep):
    """The cells of lines, in which separators in quotes separate nothing."""
    if len(sep) == 1:
        return [row for row in csv.reader(lines, delimiter=sep) if row]
    return [re.split(sep, line.strip()) for line in lines]


def _decimal(cells, sep):
    """The decimal mark of the cells of a text."""

    def alike(pattern):
        return [cell for cell in cells if re.fullmatch(pattern, cell)]

    # 1,234 may be a thousand
    commas = sep != "," and alike(r"[+-]?\d*,(\d{1,2}|\d{4,})")
    if commas and not alike(r"[+-]?\d*\.\d+"):
        return ","
    dotted = alike(r"[+-]?\d+\.[\d.]+")
    thousands = alike(r"[+-]?[1-9]\d{0,2}(\.\d{3})+")
    if sep == ";" and dotted and dotted == thousands and alike(r"[+-]?\d{1,3}"):
        raise ValueError(
            f"it has numbers such as {dotted[0]} beside semicolons, which may be "
            "thousands; --decimal says which decimal mark the file has"
        )
    return "."


def _first_lines(path, options):
    """The first lines of a text that are not blank, its encoding, and the number of
    their bytes. Those of a very wide table are refused, since pandas would read them
    for minutes."""
    opened = gzip.open if path.compression else open
    source = path.source()
    with source if path.content is not None else opened(source, "rb") as file:
        wanted = range(FIRST_LINES + options.skip_rows)
        head = [file.readline(MOST_BYTES) for _ in wanted]
    separator = (options.sep or SEPARATORS[path.kind]).encode()
    columns = len(re.findall(separator, head[0]))
    if columns > MOST_COLUMNS or len(head[0]) == MOST_BYTES:
        raise ValueError(
            f"a text may have {MOST_COLUMNS:,} columns, and its header has more. A "
            "table has a row for each point or period; a .npy file may be wider"
        )
    joined, encoding = b"".join(head), "utf-8-sig"
    if joined[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
        joined = joined[: len(joined) // 2 * 2]
    try:
        text = joined.decode(encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"
        text = joined.decode(encoding, errors="replace")
    lines = [line for line in text.splitlines()[options.skip_rows :] if line.strip()]
    return lines, encoding, len(joined)


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


def note_total_row(reading, values):
    """Note a last row of sums or means of the others, in two columns at least."""
    values = values[:, np.isfinite(values).all(axis=0)]
    if len(values) < 4 or values.shape[1] < 2:
        return
    others, last = values[:-1], values[-1]
    size = 1e-6 * np.abs(others).sum(axis=0)
    for word, n in (("sums", 1), ("means", len(others))):
        close = np.abs(last - others.sum(axis=0) / n) <= size / n
        # zeros everywhere would be both
        if close.all() and (size > 0).sum() > 1:
            reading.notes.append(
                f"the last row has the {word} of the others, --drop-last 1 leaves it "
                "out"
            )
            return
