"""What was measured stands in tables that benchmarks write, or is printed: times, passes, ratios, numbers in cells."""

import re

import pytest

from benchmarks import _tables

CODE = re.compile(r"```.*?```", re.DOTALL)
NUMBER = r"(?<![\w.^-])\d*\.?\d[\d,]*(?:\.\d+)?"
TIME = re.compile(r"\b\d[\d.,]* ?(?:s|ms|seconds|minutes|milliseconds|CPU seconds|hours)(?: of CPU time)?(?![\w-])")
RATIO = re.compile(NUMBER + r" (?:times (?:as|the|that|those|their|closer|farther|faster|slower|more|less)\b|passes)")
MEASURED_CELL = re.compile(r"[<>~-]? ?\d*\.\d+(?:e-?\d+)?|\d+e-?\d+")
SETTINGS = {  # what somebody chose, and did not measure, or what follows from a formula
    ("counting.md", "100 passes"),
    ("gallery.md", "100 passes"),
    ("gallery.md", "32 times the"),
    ("gallery.md", "0.3 times the"),
    ("sne.md", ".7 times as"),
    ("solvers.md", "100 passes"),
    ("solving.md", "100 passes"),
    ("portfolio.md", "100 passes"),
    ("gallery.md", "16 times their"),
}
HISTORY = "design.md"  # its numbers say why something was decided, and with which version
PAGES = [page for page in _tables.pages() if page.name != HISTORY]


def words(text):
    """A page without its tables of benchmarks and its code."""
    return CODE.sub("", _tables.TABLE.sub("", text))


def typed(text):
    """The times, passes and ratios in a text that are neither in a table of a benchmark nor in code."""
    text = " ".join(words(text).split())
    return TIME.findall(text) + RATIO.findall(text)


def typed_cells(text):
    """The cells of hand-made tables that are nothing but a measured number."""
    rows = [line for line in words(text).splitlines() if line.startswith("|")]
    return [cell.strip() for row in rows for cell in row.split("|") if MEASURED_CELL.fullmatch(cell.strip())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(_tables.ROOT)))
def test_nothing_measured_is_typed(page):
    text = page.read_text(encoding="utf-8")
    assert [found for found in typed(text) if (page.name, found) not in SETTINGS] == []
    assert typed_cells(text) == []


def test_typed_numbers_are_found():
    table = "<!-- table: a/b -->\n| 5.6 | 5.6 s |\n<!-- end -->\n"
    said = "It took 0.3 s and 20 ms, or 11 to\n27 passes: 1.5 times as long.\n```python\n4 seconds\n```\nIn 7 steps"
    assert typed(table + said) == ["0.3 s", "20 ms", "27 passes", "1.5 times as"]
    assert typed_cells(table + "| Japan | 3.2e-2 | 71.3 | -0.0010 | `x = 0.5` | 3 |\n") == ["3.2e-2", "71.3", "-0.0010"]
