"""Tables of numbers in text files as programs and people write them: separators, decimal commas, percent, encodings."""

import csv
import io
import re

import numpy as np

__all__ = ["NO_NUMBER", "Numbers", "read_cells"]

NO_NUMBER = ("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "--", ".")
SEPARATORS = "\t;|,"
LOOKED_AT = 50  # lines that tell the separator
_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][-+]?\d+)?\s*%?")  # 0,5 and 1.234,5
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(\.\d{3})+\s*%?")  # 1.234 beside decimal commas; 31.01.2020 is a date
_POINT = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d*)\.\d*([eE][-+]?\d+)?\s*%?")  # 0.5 and 1,234.5


def read_cells(path):
    """(line number, stripped cells) of a text file's lines that are not empty.

    The text is UTF-8, UTF-16 or, where it is neither, of Windows' Western code page. Cells are separated by tabs,
    semicolons, bars, commas or, where there is none of these, blanks.
    """
    text = _decode(path)
    lines = [line for line in text.splitlines() if line.strip()][:LOOKED_AT]
    everywhere = [s for s in SEPARATORS if lines and all(s in line for line in lines)]
    separator = next(iter(everywhere or [s for s in SEPARATORS if s in (lines or [""])[0]]), None)
    words = {len(line.split()) for line in lines}
    try:
        if separator is None and len(words) == 1 and words != {1}:
            rows = [(i + 1, line.split()) for i, line in enumerate(text.splitlines())]
        else:
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator or ",", skipinitialspace=True)
            rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ValueError(f"{path}: expected comma-separated text ({error})") from error
    rows = [(number, [cell.strip() for cell in row]) for number, row in rows]
    return [(number, row) for number, row in rows if any(row)]


def _decode(path):
    data = path.read_bytes()
    encodings = ["utf-8-sig", "cp1252"]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = ["utf-16"]
    elif data[1:2] == b"\0" or data[:1] == b"\0":  # without a byte order mark
        encodings = ["utf-16-le" if data[1:2] == b"\0" else "utf-16-be"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not any(ord(c) < 32 and c not in "\t\n\r\f" for c in text):
            return text
    raise ValueError(f"{path}: expected comma-separated text, in UTF-8 or UTF-16")


class Numbers:
    """How a file writes its numbers; ``comma`` says whether the decimal sign of these cells is a comma."""

    def __init__(self, cells):
        comma = point = False
        for cell in cells:
            comma = comma or _COMMA.fullmatch(cell) is not None
            point = point or _POINT.fullmatch(cell) is not None
        self.comma = comma and not point

    def is_like_one(self, cell):
        """Whether the cell would be a number with the other decimal sign."""
        return _COMMA.fullmatch(cell) is not None or _POINT.fullmatch(cell) is not None

    def value(self, cell):
        """The cell's number, NaN where it is missing, None where it is something else; percent as a fraction."""
        text = cell.strip()
        if text.lower() in NO_NUMBER:
            return np.nan
        percent = text.endswith("%")
        text = text[:-1].rstrip() if percent else text
        if self.comma:
            if _COMMA.fullmatch(text) or (text.count(".") > 1 and _THOUSANDS.fullmatch(text)):
                text = text.replace(".", "").replace(",", ".")
        elif "," in text and _POINT.fullmatch(text):
            text = text.replace(",", "")
        try:
            number = float(text.replace("\N{MINUS SIGN}", "-"))
        except ValueError:
            return None
        return number / 100 if percent else number
