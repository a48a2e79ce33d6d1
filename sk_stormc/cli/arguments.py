"""Arguments of commands, the files of their results, and a line of progress."""

import argparse
import csv
import io
import math
import os
import re
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sk_stormc.cli.data_files import DEFAULTS
from sk_stormc.cli.return_files import UNITS
from sk_stormc.utils.atomic import atomically, is_stream

PICTURES = (".png", ".pdf", ".svg")
SIGNATURE = "sk-stormc"  # in pictures and pages that a command has written
# the first lines of the tables that commands write
HEADERS = re.compile(
    r"x,y(,label.*)?(,new)?(,row)?|asset,weight(,price.*)?|period,portfolio,1/N"
    r"|value,low,high,episodes.*|solver,runs,.*"
)
KINDS = ".csv, .tsv, .txt (also .gz), .parquet, .feather, .xlsx, .npz, .npy"


def names(text):
    """An argument type: names that are separated by commas."""
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


def whole_number(text):
    """An argument type: an integer of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected an integer >= 0, got {text!r}")
    return int(text)


def positive_integer(text):
    """An argument type: an integer of at least 1."""
    if not (text.replace("_", "").isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text!r}")
    return int(text)


def positive_number(text):
    """An argument type: a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number > 0, got {text!r}")
    return value


def add_option(parser, name, metavar, help, type=None, default=None, **others):
    """Add an option with a value. Its help ends with the default, if there is one."""
    if default not in (None, ()) and "(default" not in help:
        help = f"{help} (default: %(default)s)"
    parser.add_argument(
        name, metavar=metavar, help=help, type=type, default=default, **others
    )


def add_flag(parser, name, help):
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=help)


def add_data_arguments(
    parser, about="returns (periods x assets)", required=False, unit=None
):
    """Add --data, --unit and --drop-missing to a command; ``unit`` is the default, None
    or "guess"."""
    add_option(parser, "--data", "FILE", f"{about}: {KINDS}", required=required)
    add_reading_arguments(parser, "of the dates (default: the first, if it has dates)")
    otherwise = "they stay as they are" if unit is None else "guessed from their size"
    meaning = (
        "unit of the returns of FILE, which then become fractions (default: "
        f"{otherwise})"
    )
    add_option(parser, "--unit", None, meaning, default=unit, choices=list(UNITS))
    add_flag(parser, "--drop-missing", "leave out periods of FILE with missing returns")
    add_flag(parser, "--prices", "FILE has prices, of which returns are made")
    long = "FILE is a long table with these columns; values are returns, or prices"
    add_option(parser, "--long", "DATE,ASSET,VALUE", long, names)


def add_points_argument(parser, about, required=False):
    """Add --data of points to a command, and how they are read."""
    kinds = f"{about}: {KINDS} (X, perhaps y), .h5ad"
    add_option(parser, "--data", "FILE", kinds, required=required)
    add_reading_arguments(parser, "of the names of the rows, which is no feature")
    label = "labels of the points, by which they are coloured (default: 'label')"
    add_option(parser, "--label", "A,B,...", label, names)
    matrix = "the matrix of an .h5ad file (default: X_pca if it is there, else X)"
    add_option(parser, "--obsm", "KEY", matrix)
    add_option(parser, "--layer", "KEY", "a layer of an .h5ad file, or X")
    kept = "keep columns of identifiers: whole numbers or texts, all different"
    add_flag(parser, "--keep", kept)


def add_reading_arguments(parser, index=None):
    """Add the options that say how a table is read. ``index`` is what --index means;
    without it there are only those of texts."""
    parser.set_defaults(**vars(DEFAULTS))
    add = partial(add_option, parser)
    add("--sep", "C", "separator of columns in texts", separator)
    add("--decimal", "C", "decimal mark in texts, such as ,")
    add("--sheet", "NAME", "a sheet of .xlsx, by its name or number")
    add("--skip-rows", "N", "lines to leave out above the names", whole_number, 0)
    last = "rows to leave out at the end, such as totals"
    add("--drop-last", "N", last, whole_number, 0)
    if index is not None:
        add("--index", "COLUMN", f"the column {index}")
        add("--drop", "A,B,...", "columns to leave out", names, ())


def separator(text):
    """An argument type: a separator of columns, with \\t for a tab."""
    return text.replace("\\t", "\t")


def add_check_argument(parser):
    """Add --check to a command."""
    meaning = "print what is read from --data, and end; --out is ignored"
    add_flag(parser, "--check", meaning)


def add_force_argument(parser):
    """Add --force to a command with --out."""
    meaning = "replace a file of --out that no sk-stormc command wrote"
    add_flag(parser, "--force", meaning)


def result_file(*suffixes):
    """An argument type: a file with one of the suffixes, by default the first, in an
    existing directory; or a stream, such as a named pipe or - for stdout."""

    def check(text):
        path = Path("/dev/stdout" if text == "-" else text)
        stream = is_stream(path)
        if path.name and not (path.suffix or stream or path.is_dir()):
            path = path.with_suffix(suffixes[0])
        # checked before the run, which can take hours
        if (
            kind_of_result(path) not in suffixes
            or not (stream or path.parent.is_dir())
            or path.is_dir()
        ):
            found = f"{text!r}{', a directory' * path.is_dir()}"
            raise argparse.ArgumentTypeError(
                f"expected a {', '.join(suffixes)} file in an existing directory, got "
                f"{found}"
            )
        # a file is replaced by another one in its directory
        needed = [] if stream else [path.parent, *[path] * path.exists()]
        if not all(os.access(place, os.W_OK) for place in needed):
            raise argparse.ArgumentTypeError(
                f"expected a file that can be written, got {text!r}"
            )
        return path

    return check


def kind_of_result(path):
    """The suffix of a file of a result in lower case. A stream without one gets a
    table."""
    return path.suffix.lower() or ".csv" * is_stream(path)


def keep_data(data, out, option="--data"):
    """Raise a ValueError if the file of a result is that of the data, however their
    paths are spelt."""
    both_exist = (
        None not in (data, out) and os.path.exists(data) and os.path.exists(out)
    )
    if both_exist and os.path.samefile(data, out):
        raise ValueError(
            f"--out must not overwrite the file of {option}, {data}, got {out}"
        )


def check_replaceable(path, force):
    """Raise a ValueError if a file of a result exists and has data that no command
    wrote, unless --force is given."""
    if force or is_stream(path) or not path.is_file() or not path.stat().st_size:
        return
    if path.suffix.lower() == ".csv":
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            ours = HEADERS.fullmatch(file.readline().strip())
    else:
        ours = SIGNATURE.encode() in path.read_bytes()
    if not ours:
        raise ValueError(
            f"--out must not replace a file that no sk-stormc command wrote, got "
            f"{path}; --force replaces it"
        )


def save_figure(figure, path, dpi=150):
    """Save a figure with the signature by which `check_replaceable` knows it."""
    kind = kind_of_result(path).removeprefix(".")
    entry = "Software" if kind == "png" else "Creator"
    with atomically(path) as file:
        figure.savefig(file, format=kind, dpi=dpi, metadata={entry: SIGNATURE})


def directory(text):
    """An argument type: an existing directory, or a new one in an existing
    directory."""
    path = Path(text)
    if not text or not (path.is_dir() or (not path.exists() and path.parent.is_dir())):
        raise argparse.ArgumentTypeError(
            f"expected a directory, or a new one in an existing one, got {text!r}"
        )
    return path


def write_csv(path, header, rows):
    """Write a table to a .csv file."""
    with atomically(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        csv.writer(text).writerows([header, *rows])
        text.detach()


@contextmanager
def progress_line():
    """A progress line on stderr for the duration of the block, rewritten in place on a
    terminal."""
    stream, width = sys.stderr, 0
    terminal = stream.isatty()

    def show(text, fraction):
        nonlocal width
        line = f"{100 * fraction:3.0f} %  {text}"
        stream.write(f"\r{line:<{width}}" if terminal else f"{line}\n")
        stream.flush()
        width = len(line)

    try:
        yield show
    finally:
        if terminal:
            stream.write(f"\r{'':<{width}}\r")
            stream.flush()
