"""Columns of texts that hold numbers, such as '1.234,56' and '12,3 %', and vectors,
such as '[0.1 -0.2]'."""

import re

import numpy as np

SAMPLE = 1000  # texts that are tried before all are converted
_CURRENCY = r"(?:[€$£¥₹]|EUR|USD|GBP|CHF|JPY)"
_DIGITS = (
    r"[+-]?(?=[\d.,])(?:\d+|\d{{1,3}}(?:{0}\d{{3}})+)?(?:{1}\d+)?(?:[eE][+-]?\d+)?"
)
_FORMS = {".": _DIGITS.format(",", r"\."), ",": _DIGITS.format(r"\.", ",")}
_VECTOR = r"\s*[\[(][^\[\]()]*[\])]\s*"
NESTED = "lists or records"  # the reason to leave a column out


def is_text(column):
    """Whether all known cells of a column are texts, of which there is one at least."""
    if column.dtype.kind in "iufbcmM" or str(column.dtype) == "category":
        return False
    known = column.dropna()
    return bool(len(known)) and all(isinstance(cell, str) for cell in known)


def numbers_of_texts(column, decimal=None, usual=None):
    """The numbers of a column of texts, and whether they have percent signs, or None if
    some text is no number.

    Blanks, apostrophes, currencies and the mark that is not decimal are left out. Which
    mark is decimal follows from the texts if ``decimal`` is None. Texts such as '1,234'
    alone, which do not tell, are read by the ``usual`` mark, or raise a ValueError.
    """
    texts = column.dropna()
    for some in (texts[:SAMPLE], texts):
        bare = some.map(_bare)
        marks = _FORMS if decimal is None else [decimal]
        fits = [mark for mark in marks if bare.str.fullmatch(_FORMS[mark]).all()]
        # codes such as 007 and phone numbers are no numbers
        if not fits or bare.str.match(r"[+-]?0\d").any():
            return None
    mark = fits[0]
    if len(fits) == 2 and bare.str.contains("[.,]").any():
        if usual is None:
            first = bare[bare.str.contains("[.,]")].iloc[0]
            raise ValueError(
                f"{first!r}, which may be {first.replace(',', '.')} or "
                f"{re.sub('[.,]', '', first)}; --decimal says which decimal mark the "
                "file has"
            )
        mark = usual
    bare = bare.str.replace("." if mark == "," else ",", "", regex=False)
    values = bare.str.replace(mark, ".", regex=False).astype(float)
    percent = bool(texts.str.strip().str.endswith("%").any())
    return values.reindex(column.index), percent


def _bare(text):
    """A text without signs of currencies and percent, and blanks between digits."""
    text = re.sub(r"^\((.*)\)$", r"-\1", text.strip().replace("\u2212", "-"))
    text = re.sub(rf"^([+-]?)\s*{_CURRENCY}\s*", r"\1", text)
    text = re.sub(rf"\s*(?:{_CURRENCY}|%)$", "", text)
    return re.sub(r"(?<=\d)[\s'\u2019](?=\d{3})", "", text)


def is_amount(cell):
    """Whether a text is a number, perhaps with marks, such as 1.05% and € 5."""
    if not isinstance(cell, str) or not any(map(str.isdigit, cell)):
        return False
    forms = _FORMS.values()
    return is_number(cell) or any(re.fullmatch(form, _bare(cell)) for form in forms)


def vectors_of(column):
    """The numbers of a column whose cells are lists, arrays or texts of these, all of
    one length, in two dimensions; or None."""
    cells = list(column)
    if all(isinstance(cell, str) for cell in cells):
        if not all(re.fullmatch(_VECTOR, cell) for cell in cells[:SAMPLE]):
            return None
        cells = [re.sub(r"[\[\](),;]", " ", cell).split() for cell in cells]
        if min(map(len, cells), default=0) < 2:  # (5) is -5
            return None
    elif not all(isinstance(cell, (list, tuple, np.ndarray)) for cell in cells):
        return None
    try:
        values = np.array(cells, dtype=float)
    except (ValueError, TypeError):  # also for lists of different lengths
        return None
    return values if values.ndim == 2 and values.size else None


def is_nested(column):
    """Whether cells of a column are lists, records or other objects with parts."""
    if column.dtype.kind != "O":
        return False
    return any(
        isinstance(cell, (list, tuple, dict, set, np.ndarray)) for cell in column
    )


def is_number(cell):
    """Whether a cell is a number, or a text of one."""
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True
