"""Arguments of commands, the files of their results, and a line of progress."""

import argparse
import csv
import math
import os
import sys
from contextlib import contextmanager
from pathlib import Path

from sk_stormc.cli.files import UNITS

PICTURES = (".png", ".pdf", ".svg")


def names(text):
    """An argument type: names that are separated by commas."""
    return list(dict.fromkeys(name.strip() for name in text.split(",")))


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


def add_data_arguments(
    parser, about="returns (periods x assets)", required=False, unit=None
):
    """Add --data, --unit and --drop-missing to a command; ``unit`` is the default, None
    or "guess"."""
    kinds = ".csv, .tsv, .txt, .npz, .npy, or .parquet, .feather and .xlsx with pandas"
    parser.add_argument(
        "--data", metavar="FILE", required=required, help=f"{about}: {kinds}"
    )
    otherwise = "they stay as they are" if unit is None else "guessed from their size"
    meaning = (
        "unit of the returns of FILE, which then become fractions (default: "
        f"{otherwise})"
    )
    parser.add_argument("--unit", choices=list(UNITS), default=unit, help=meaning)
    parser.add_argument(
        "--drop-missing",
        action="store_true",
        help="leave out periods of FILE with missing returns",
    )


def add_points_argument(parser, about, required=False):
    """Add --data of points to a command."""
    kinds = ".npz (X, perhaps y), .npy, or .csv, .tsv, .txt (perhaps a column 'label')"
    parser.add_argument(
        "--data", metavar="FILE", required=required, help=f"{about}: {kinds}"
    )


def result_file(*suffixes):
    """An argument type: a file with one of the suffixes, by default the first, in an
    existing directory."""

    def check(text):
        path = Path(text)
        path = path if path.suffix or not path.name else path.with_suffix(suffixes[0])
        # checked before the run, which can take hours
        if path.suffix not in suffixes or not path.parent.is_dir() or path.is_dir():
            raise argparse.ArgumentTypeError(
                f"expected a {', '.join(suffixes)} file in an existing directory, got "
                f"{text!r}"
            )
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise argparse.ArgumentTypeError(
                f"expected a file that can be written, got {text!r}"
            )
        return path

    return check


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
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


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
