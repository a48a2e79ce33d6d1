"""Seconds and milliseconds on the pages are measured: they stand in tables that benchmarks write, or are printed."""

import re

import pytest

from benchmarks import _tables

CODE = re.compile(r"```.*?```", re.DOTALL)
TIME = re.compile(r"\b\d[\d.,]* ?(?:s|ms|seconds|milliseconds|CPU seconds|hours)(?: of CPU time)?(?![\w-])")
SETTINGS = {("mutants.md", "15 seconds of CPU time")}  # what somebody chose, and did not measure
HISTORY = "design.md"  # its numbers say why something was decided, and with which version


def typed(text):
    """The times in a text that are neither in a table of a benchmark nor in code."""
    return TIME.findall(CODE.sub("", _tables.TABLE.sub("", text)))


@pytest.mark.parametrize("page", [page for page in _tables.pages() if page.name != HISTORY], ids=lambda page: page.name)
def test_no_time_is_typed(page):
    found = typed(page.read_text(encoding="utf-8"))
    assert [time for time in found if (page.name, " ".join(time.split())) not in SETTINGS] == []


def test_times_are_found():
    table = "<!-- table: a/b -->\n5.6 s\n<!-- end -->\n"
    assert typed(f"{table}It took 0.3 s and 20 ms.\n```python\n4 seconds\n```\nIn 7 steps") == ["0.3 s", "20 ms"]
