"""The order of the dates in a file, however they are written."""

import re

__all__ = ["direction_of_dates"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_IGNORED = ("mon", "tue", "wed", "thu", "fri", "sat", "sun", "utc", "gmt")
_CENTURY = 70  # a year of two digits belongs to the 20th century from here on


def direction_of_dates(cells):
    """How dates run: "ascending", "descending" or "neither"; None if they are not understood.

    Dates of numbers such as 02/01/2020 may have the day or the month first. They ascend if one reading does.
    """
    numbers = [_numbers(cell) for cell in cells]
    if not all(numbers):
        return None
    readings = [numbers]
    if not all(len(each) == 1 or each[0] > 31 for each in numbers):  # the year is not the first
        if min(map(len, numbers)) < 2:
            return None
        readings = [[_year_first(each, turned) for each in numbers] for turned in (False, True)]
        readings = [keys for keys in readings if all(key[1] <= 12 for key in keys)]
    pairs = [list(zip(keys[:-1], keys[1:], strict=True)) for keys in readings]
    if any(all(a <= b for a, b in each) for each in pairs):
        return "ascending"
    if any(all(a >= b for a, b in each) for each in pairs):
        return "descending"
    return "neither" if pairs else None


def _year_first(numbers, turned):
    """The numbers of a date (month, year, ...), (month, day, year, ...) or, if turned, (day, month, year, ...)."""
    *first, year = numbers[:3]
    year += 0 if year > 99 else 1900 if year >= _CENTURY else 2000
    return year, *(first[::-1] if turned else first), *numbers[3:]


def _numbers(cell):
    """The numbers of a date in the order in which they are written, or None for what is not understood."""
    found = []
    for word in re.findall(r"[^\W\d_]+|\d+", cell):
        short = word[:3].lower()
        if word.isdigit():
            found.append(int(word))
        elif short in _MONTHS:
            found.append(_MONTHS.index(short) + 1)
        elif short in ("am", "pm") or (len(word) > 2 and short not in _IGNORED):
            return None
    return tuple(found)
