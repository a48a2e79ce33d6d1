"""Reading a user's .npz or .csv file: what the readers of returns and of points share."""

import csv
import zipfile
from pathlib import Path

import numpy as np

__all__ = ["describe", "read_as", "read_arrays", "read_lines"]


def read_as(path, readers):
    """What the reader for the file's suffix makes of it.

    Parameters
    ----------
    path : str or path-like
    readers : dict of callable
        By suffix, ".npz" and ".csv".

    Returns
    -------
    path : Path
    found : object

    Raises
    ------
    ValueError
        For another suffix.
    """
    path = Path(path)
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: expected a file named .npz or .csv")
    return path, readers[path.suffix.lower()](path)


def read_arrays(path):
    """The arrays of a .npz file, by name; a ValueError where it is none."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: expected a .npz file of numpy arrays ({error})") from error


def describe(arrays):
    """Names and shapes, for an error."""
    return ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"


def read_lines(path):
    """(line number, stripped cells) of a .csv file's lines that are not empty; a ValueError where it is no text."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            return [(reader.line_num, [c.strip() for c in row]) for row in reader if any(c.strip() for c in row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: expected comma-separated text ({error})") from error
