"""Measured numbers on the pages come from the benchmarks' tables: times, passes, ratios, numbers in cells."""

import re

from benchmarks import _tables

CODE = re.compile(r"```.*?```", re.DOTALL)
NUMBER = r"(?<![\w.^-])\d*\.?\d[\d,]*(?:\.\d+)?"
TIME = re.compile(r"\b\d[\d.,]* ?(?:s|ms|seconds|minutes|milliseconds|CPU seconds|hours)(?: of CPU time)?(?![\w-])")
RATIO = re.compile(NUMBER + r" (?:times (?:as|the|that|those|their|closer|farther|faster|slower|more|less)\b|passes)")
MEASURED_CELL = re.compile(r"[<>~-]? ?\d*\.\d+(?:e-?\d+)?|\d+e-?\d+")
ALLOWED = {
    # settings and consequences of formulas, which nobody measured
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


def typed(text):
    """The times, passes, ratios and cells with measured numbers that are neither in a benchmark's table nor in code."""
    text = CODE.sub("", _tables.TABLE.sub("", text))
    cells = [cell.strip() for row in text.splitlines() if row.startswith("|") for cell in row.split("|")]
    sentences = " ".join(text.split())
    return TIME.findall(sentences) + RATIO.findall(sentences) + list(filter(MEASURED_CELL.fullmatch, cells))


def test_nothing_measured_is_typed():
    pages = [page for page in _tables.pages() if page.name != "design.md"]  # whose numbers are reasons of decisions
    assert len(pages) > 10
    found = {(page.name, number) for page in pages for number in typed(page.read_text(encoding="utf-8"))}
    assert found - ALLOWED == set()
