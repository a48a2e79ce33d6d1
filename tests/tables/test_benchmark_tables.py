"""The benchmarks run, and the pages show what they stored."""

import functools
import types

import numpy as np
import pytest

from benchmarks import __main__ as cli
from benchmarks import _choices, _measure, _tables
from benchmarks.__main__ import BENCHMARKS, main, module_of
from sk_stormc import __version__, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem

STORED = sorted(path.stem for path in _tables.RESULTS.glob("*.json"))


# the pages


@functools.cache
def tables():
    of_benchmarks = (_tables.tables_of(module_of(stem), _tables.load(stem)) for stem in STORED)
    return {name: text for texts in (*of_benchmarks, _choices.tables()) for name, text in texts.items()}


@pytest.mark.parametrize("page", _tables.pages(), ids=lambda page: str(page.relative_to(_tables.ROOT)))
def test_a_page_shows_what_is_stored(page):
    known = tables()
    for name, text in _tables.included(page):
        assert text == known[name], f"{page.name}: run `python -m benchmarks {name.split('/')[0]} --render`"


def test_each_benchmark_is_stored_and_each_table_is_on_a_page():
    assert sorted(BENCHMARKS) == STORED
    shown = {name for page in _tables.pages() for name, _ in _tables.included(page)}
    assert shown == set(tables())


@pytest.mark.skipif("dev" in __version__, reason="a version in development keeps older tables until they are remade")
def test_a_release_shows_its_own_tables():
    assert _tables.made_by_others(__version__) == {}


# running and measuring


SLOW = ("maps", "large_maps", "values", "streams", "methods", "newer", "desk", "desk_cases", "portfolio", "gallery")
SLOW += ("paper",)
OF_MAPS = "digits_500,augmented_digits_20000,counts_500,swiss_roll_1000,times_20000,ablations,dimensions,transform"


@pytest.mark.parametrize("name", [pytest.param(b, marks=pytest.mark.slow) if b in SLOW else b for b in BENCHMARKS])
def test_quick(name, tmp_path, capsys):
    before = [page.read_bytes() for page in _tables.pages()]
    parts = ["--parts", OF_MAPS] if name == "maps" else []  # the others are of the same functions
    assert main([name, "--quick", "--results", str(tmp_path), *parts]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.json"]
    assert [page.read_bytes() for page in _tables.pages()] == before
    printed = capsys.readouterr().out
    for text in _tables.tables_of(module_of(name), _tables.load(name, tmp_path)).values():
        assert text in printed
        widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
        assert len(widths) == 1 and (parts or len(text.splitlines()) > 4)


def test_parts_are_stored_one_by_one(tmp_path, monkeypatch, capsys):
    def run_part(name, quick, images):
        if name == "three":
            raise KeyboardInterrupt
        return [{"a": name, "quick": quick, "images": str(images)}]

    tiny = types.SimpleNamespace(
        NEEDS_DATA=False, PACKAGES=("numpy",), PARTS=dict.fromkeys(("one", "two", "three")), run_part=run_part,
        tables=lambda stored: {part: f"| {rows[0]['a']} |" for part, rows in stored["results"].items()}
    )  # fmt: skip
    monkeypatch.setattr(cli, "module_of", lambda name: tiny)
    where = ["newer", "--results", str(tmp_path)]
    assert main([*where, "--parts", "two"]) == 0
    with pytest.raises(KeyboardInterrupt):
        main([*where, "--parts", "one,three"])  # the parts before the interruption are kept
    stored = _tables.load("newer", tmp_path)
    assert list(stored["results"]) == list(stored["parts"]) == ["two", "one"]
    assert stored["results"]["two"] == [{"a": "two", "quick": False, "images": str(tmp_path)}]
    text = _tables.tables_of(tiny, stored)["newer/one"]
    assert "benchmarks newer --parts one`, version" in text and f"numpy {np.__version__}" in text
    with pytest.raises(SystemExit):
        main([*where, "--parts", "two,four"])
    assert "--parts must be among one, two, three, got four" in capsys.readouterr().err


def test_the_minimum_with_a_penalty_is_one():
    R = make_gaussian_returns(1500, 4, mean=0.2, condition_number=10, random_state=0)
    problem = PortfolioProblem(R, penalty=Simplex())
    best = _measure.least_penalised_variance(problem)
    assert minimize(problem, "storm-c", random_state=0, tol=1e-10).fun == pytest.approx(best, rel=1e-9)
    found = _measure.passes_to_gaps(problem, "storm-c", best, abs(best), 0)
    assert np.isfinite(found).all() and (found[1] >= found[0]).all()
