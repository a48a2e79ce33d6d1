"""The benchmarks run, and texts and pages show what they stored."""

import functools

import pytest

from benchmarks import _choices, _tables
from benchmarks.__main__ import BENCHMARKS, main, module_of
from sk_stormc import __version__

STORED = sorted(path.stem for path in _tables.RESULTS.glob("*.json"))


@functools.cache
def tables():
    of_benchmarks = (
        _tables.tables_of(module_of(stem), _tables.load(stem)) for stem in STORED
    )
    return {
        name: text
        for texts in (*of_benchmarks, _choices.tables())
        for name, text in texts.items()
    }


@pytest.mark.parametrize(
    "page", _tables.pages(), ids=lambda page: str(page.relative_to(_tables.ROOT))
)
def test_a_page_shows_what_is_stored(page):
    known = tables()
    for name, text in _tables.included(page):
        assert text == known[name], (
            f"{page.name}: run `python -m benchmarks {name.split('/')[0]} --render`"
        )


def test_each_benchmark_is_stored_with_a_text_of_its_tables(tmp_path):
    assert sorted(BENCHMARKS) == STORED
    for name in STORED:
        of_name = {
            key: text for key, text in tables().items() if key.split("/")[0] == name
        }
        _tables.write_text(name, of_name, tmp_path)
        text = (tmp_path / f"{name}.txt").read_text(encoding="utf-8")
        assert text == (_tables.RESULTS / f"{name}.txt").read_text(encoding="utf-8"), (
            f"run `python -m benchmarks {name} --render`"
        )


def test_a_table_is_on_one_page():
    shown = [name for page in _tables.pages() for name, _ in _tables.included(page)]
    assert sorted(set(shown)) == sorted(shown)


@pytest.mark.skipif(
    "dev" in __version__,
    reason="a version in development keeps older tables until they are remade",
)
def test_a_release_shows_its_own_tables():
    assert _tables.made_by_others(__version__) == {}


SLOW = (
    "maps",
    "large_maps",
    "values",
    "streams",
    "methods",
    "newer",
    "desk",
    "desk_cases",
    "pairs",
    "portfolio",
    "rows",
    "gallery",
)
SLOW += (
    "policies",
    "paper",
    "integer",
    "integer_cases",
    "value_cases",
    "autodiff",
    "autodiff_rows",
    "rows",
    "map_limits",
    "map_updates",
    "map_sheet",
    "map_cases",
)
OF_MAPS = "digits_500,augmented_digits_20000,counts_500,swiss_roll_1000,times_20000,ablations,dimensions,transform"


@pytest.mark.parametrize(
    "name",
    [pytest.param(b, marks=pytest.mark.slow) if b in SLOW else b for b in BENCHMARKS],
)
def test_quick(name, tmp_path, capsys):
    before = [page.read_bytes() for page in _tables.pages()]
    # the others are of the same functions
    parts = ["--parts", OF_MAPS] if name == "maps" else []
    assert main([name, "--quick", "--results", str(tmp_path), *parts]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.json"]
    assert [page.read_bytes() for page in _tables.pages()] == before
    printed = capsys.readouterr().out
    for text in _tables.tables_of(
        module_of(name), _tables.load(name, tmp_path)
    ).values():
        assert text in printed
        widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
        assert len(widths) == 1 and (parts or len(text.splitlines()) > 4)
