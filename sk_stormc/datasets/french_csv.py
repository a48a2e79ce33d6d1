"""Parser of the CSV files of the Kenneth R. French data library."""

import re
from typing import NamedTuple

import numpy as np

_ROW = re.compile(r"\s*(\d{4}|\d{6}|\d{8})\s*,(.*)")
_COLUMNS = re.compile(r"\s*,(.*)")
_MISSING = (-99.99, -999.0)


class FrenchTable(NamedTuple):
    """One table of a file of the library."""

    title: str  # the line above the table, such as "Average Value Weighted Returns -- Daily"
    dates: np.ndarray  # datetime64, of unit D, M or Y as the file gives days, months or years
    names: list
    values: np.ndarray  # in the file's own unit (percent for returns), NaN where missing


def parse_french_csv(text):
    """The header and the tables, perhaps none, of a CSV file of the Kenneth R. French data library.

    The file has free text, then tables, each a title line, a line of column names that begins with a comma, and rows
    that begin with a date.
    """
    lines = text.splitlines()
    header, title, sections = [], "", []
    rows = None  # rows of the current table; None between tables
    for line in lines:
        if rows is not None and (match := _ROW.match(line)):
            rows.append(match.groups())
        elif match := _COLUMNS.match(line):
            rows = []
            sections.append((title, [name.strip() for name in match[1].split(",")], rows))
            title = ""
        else:
            if not sections:
                header.append(line)
            if line.strip():
                title, rows = line.strip(), None
    tables = [_make_table(*section) for section in sections if section[2]]
    return "\n".join(header).strip(), tables


def _make_table(title, names, rows):
    dates, numbers = zip(*rows, strict=True)
    values = np.loadtxt(numbers, delimiter=",", ndmin=2)
    if values.shape[1] != len(names):
        raise ValueError(f"{values.shape[1]} numbers a row for {len(names)} columns, table {title!r}.")
    values[np.isin(values, _MISSING)] = np.nan
    unit = {4: "Y", 6: "M", 8: "D"}[len(dates[0])]
    iso = ["-".join(filter(None, (date[:4], date[4:6], date[6:]))) for date in dates]
    return FrenchTable(title, np.array(iso, dtype=f"datetime64[{unit}]"), names, values)
