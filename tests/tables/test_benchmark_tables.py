"""The benchmarks run, and the pages show what they stored."""

import functools
import json
import math
import shutil
import types

import numpy as np
import pytest

from benchmarks import __main__ as cli
from benchmarks import _choices, _measure, _tables, gallery, methods
from benchmarks.__main__ import BENCHMARKS, main, module_of
from benchmarks.gallery_problems import GALLERY
from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import SOLVERS

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


def test_the_guides_tables_follow_the_results(tmp_path):
    for name in _choices.FROM:
        shutil.copy(_tables.RESULTS / f"{name}.json", tmp_path)
    assert _choices.tables(tmp_path) == _choices.tables()
    stored = _tables.load("maps", tmp_path)
    (ours,) = [row for row in stored["results"]["times_20000"] if row["method"] == "SNEEmbedding"]
    ours["seconds"] = [1234.0]
    (tmp_path / "maps.json").write_text(json.dumps(stored), encoding="utf-8")
    assert "20,000 points: 1234.0 s" in _choices.tables(tmp_path)["choices/others"]


def test_results_name_no_place_of_the_machine():
    for stem in STORED:
        text = (_tables.RESULTS / f"{stem}.json").read_text(encoding="utf-8")
        assert str(_tables.ROOT) not in text and "/home" not in text
        assert {"sk_stormc", "numpy", "date", "seconds"} <= set(json.loads(text)["run_with"])


# running and rendering


SLOW = ("maps", "large_maps", "bellman", "values", "streams", "mutants", "methods", "newer", "rates", "desk")
SLOW += ("desk_cases", "portfolio", "gallery", "paper")


@pytest.mark.parametrize("name", [pytest.param(b, marks=pytest.mark.slow) if b in SLOW else b for b in BENCHMARKS])
def test_quick(name, tmp_path, capsys):
    before = [page.read_bytes() for page in _tables.pages()]
    assert main([name, "--quick", "--results", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.json"]
    assert [page.read_bytes() for page in _tables.pages()] == before
    printed = capsys.readouterr().out
    for text in _tables.tables_of(module_of(name), _tables.load(name, tmp_path)).values():
        assert text in printed
        widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
        assert len(widths) == 1 and len(text.splitlines()) > 4


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
    where = ["rates", "--results", str(tmp_path)]
    assert main([*where, "--parts", "two"]) == 0
    with pytest.raises(KeyboardInterrupt):
        main([*where, "--parts", "one,three"])  # the parts before the interruption are kept
    stored = _tables.load("rates", tmp_path)
    assert list(stored["results"]) == list(stored["parts"]) == ["two", "one"]
    assert stored["results"]["two"] == [{"a": "two", "quick": False, "images": str(tmp_path)}]
    text = _tables.tables_of(tiny, stored)["rates/one"]
    assert "benchmarks rates --parts one`, version" in text and f"numpy {np.__version__}" in text
    with pytest.raises(SystemExit):
        main([*where, "--parts", "two,four"])
    assert "--parts must be among one, two, three, got four" in capsys.readouterr().err


def test_parts_of_a_benchmark_that_has_none(capsys):
    for name in (["newer"], []):
        with pytest.raises(SystemExit):
            main([*name, "--parts", "a"])
        assert "--parts must be among none here, got a" in capsys.readouterr().err


def test_the_list_names_all(capsys):
    assert main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)


def test_without_the_published_sets(tmp_path, capsys):
    assert main(["newer", "--data", str(tmp_path / "none"), "--results", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_results_stored_elsewhere_leave_the_pages_alone(tmp_path, monkeypatch):
    tiny = types.SimpleNamespace(
        NEEDS_DATA=False, run=lambda quick, data: {"results": {"a": int(quick)}}, tables=FAKE.tables
    )
    monkeypatch.setattr(cli, "module_of", lambda name: tiny)
    before = [page.read_bytes() for page in _tables.pages()]
    assert main(["rates", "--results", str(tmp_path)]) == 0
    assert [page.read_bytes() for page in _tables.pages()] == before
    assert _tables.load("rates", tmp_path)["results"] == {"a": 0}


def test_rendering_what_was_never_measured(tmp_path, capsys):
    assert main(["newer", "--render", "--results", str(tmp_path)]) == 1
    assert "newer.json" in capsys.readouterr().err


FAKE = types.SimpleNamespace(tables=lambda stored: {"one": f"| {stored['results']['a']} |"})


@pytest.fixture
def stored(tmp_path):
    _tables.store("fake", {"settings": {}, "results": {"a": np.float64(1.23456789), "b": [np.inf, 2]}}, 1.2, tmp_path)
    return _tables.load("fake", tmp_path)


def test_render(tmp_path, stored):
    assert stored["results"] == {"a": 1.23457, "b": [None, 2]}
    page = tmp_path / "page.md"
    page.write_text(
        "A\n<!-- table: fake/one -->\nold\n<!-- end -->\nB <!-- end -->\n<!-- table: x/y -->\nz\n<!-- end -->"
    )
    assert _tables.render(FAKE, stored, [page]) == [page]
    text = page.read_text()
    assert text.startswith("A\n<!-- table: fake/one -->\n| 1.23457 |\n\n(`python -m benchmarks fake`, version ")
    assert text.endswith(")\n<!-- end -->\nB <!-- end -->\n<!-- table: x/y -->\nz\n<!-- end -->")
    assert _tables.render(FAKE, stored, [page]) == []  # rendered again, nothing changes


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<!-- table: fake/two -->\n<!-- end -->", r"page.md: table must be one of \['fake/one'\], got 'fake/two'"),
        ("<!-- table: fake/one -->\n<!-- table: fake/one -->\n<!-- end -->", "followed by <!-- end -->"),
        ("<!-- table: fake/one -->\n", "followed by <!-- end -->"),
    ],
)
def test_pages_that_cannot_be_rendered(tmp_path, stored, text, error):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=error):
        _tables.render(FAKE, stored, [page])
    assert page.read_text() == text


@pytest.mark.parametrize("name", STORED)
def test_stored_results_are_rendered_into_an_empty_page(tmp_path, name):
    module, result = module_of(name), _tables.load(name)
    shutil.copy(_tables.RESULTS / f"{name}.json", tmp_path)
    page = tmp_path / "page.md"
    names = list(_tables.tables_of(module, result))
    page.write_text("".join(f"<!-- table: {table} -->\n<!-- end -->\n" for table in names))
    _tables.render(module, _tables.load(name, tmp_path), [page])
    assert [table for table, _ in _tables.included(page)] == names


# measuring


def test_the_minimum_with_a_penalty_is_one():
    R = make_gaussian_returns(1500, 4, mean=0.2, condition_number=10, random_state=0)
    problem = PortfolioProblem(R, penalty=Simplex())
    best = _measure.least_penalised_variance(problem)
    assert minimize(problem, "storm-c", random_state=0, tol=1e-10).fun == pytest.approx(best, rel=1e-9)
    found = _measure.passes_to_gaps(problem, "storm-c", best, abs(best), 0)
    assert np.isfinite(found).all() and (found[1] >= found[0]).all()


def test_passes_to_gaps():
    problem = PortfolioProblem(make_gaussian_returns(1500, 4, mean=0.2, condition_number=50, random_state=0))
    best = _measure.least_variance(problem)
    assert _measure.least_by_lbfgs(problem) == pytest.approx(best, rel=1e-9)
    found = _measure.passes_to_gaps(problem, "sarah-c", best, abs(best), 0)
    assert (found[0] < found[1]).all()  # the second gap takes longer
    few = _measure.passes_to_gaps(problem, "sarah-c", best, abs(best), 0, limit=float(found[:, 0].mean()))
    np.testing.assert_array_equal(few, [found[0], [math.inf, math.inf]])


def test_published_sets():
    if not _measure.DATA.is_dir():
        pytest.skip("the published return sets are not at ../shared/data")
    sets = _measure.published(_measure.DATA)
    assert [R.shape for R in sets.values()] == [(7240, 25)] * 6 + [(2000, 200)] * 2
    assert 0.005 < sets["Europe"].std() < 0.02  # daily, as fractions


def test_cells():
    assert _measure.cell([1.26, 3, 2.5]) == "1.3 / 3.0 (2.5)"
    assert _measure.cell([2.0, None, None]) == "2.0 / > 100 (> 100)"
    assert _measure.cell([1.26, 1.28, 2.5], evaluations=False) == "1.3"
    assert _measure.summary([[1.0, 2.0, 0], [2.0, None, 0]]) == "1.5 / > 100"
    assert _measure.summary([[1.0, 2.0, 0], [None, None, 0]]) == "> 100 on 1 of 2"
    assert _measure.spread([[1.0, 9, 4.0], [2.0, 9, 4.0]]) == "1.0 to 2.0 (4.0)"
    assert [methods.gap(g) for g in (1.23e-12, 0.5, 3.0, 0.0, None)] == [
        "1.2e-12",
        "5.0e-1",
        "3.0",
        "<1e-15",
        "overflow",
    ]


def test_the_comparison_discovers_and_tunes():
    R = make_gaussian_returns(200, 4, mean=0.3, random_state=0)
    problem = PortfolioProblem(R)
    hessian = 2 * np.cov(R.T, bias=True)
    assert methods.largest_eigenvalue(problem) == pytest.approx(np.linalg.eigvalsh(hessian)[-1])
    best = _measure.least_variance(problem)
    table = methods.compare(
        problem, best, abs(best), rates=(0.02, 0.4, 50.0), batches=(16,), tuning=(0, 3), reporting=(1, 2), passes=(2, 6)
    )
    assert list(table) == list(SOLVERS)
    assert all(median <= worst for row in table.values() for median, worst, _, _ in row)
    (_, early, _, _), (_, late, setting, _) = table["sarah-c"]
    assert late < 0.5 * early
    assert "50/L" not in setting  # the highest rate diverges


@pytest.mark.slow
def test_the_gallery_measures_and_tunes():
    case = GALLERY["maml"]()
    missing, passes, warned = gallery.measure(case, "lbfgs", 0, gallery.LIMIT)
    assert abs(missing) < 1e-6 and passes < 30 and not warned
    early, few, _ = gallery.measure(case, "lbfgs", 0, 3)
    assert 1e-3 < early < 1 and few <= 3
    scaled = GALLERY["badly scaled"]()
    assert gallery.measure(scaled, "lbfgs", 0, gallery.LIMIT)[2]  # its budget ended first, which it said
    rate = gallery.automatic_rate(case.problem, 64, 0)
    params, text, edge = gallery.tune(case, 5, (2.0**-9, 0.5, 2.0**9), (64,), (0,))
    assert params == {"learning_rate": 0.5 * rate, "batch_size": 64}  # the others crawl and diverge
    assert (text, edge) == ("0.5, B=64", False)


def test_the_gallerys_settings_alike_are_ranked_by_passes(monkeypatch):
    runs = {1.0: (1e-9, 30.0, False), 2.0: (1e-8, 20.0, False), 4.0: (1e-3, 10.0, False)}
    monkeypatch.setattr(gallery, "automatic_rate", lambda *args: 1.0)
    monkeypatch.setattr(gallery, "measure", lambda *args, learning_rate, **others: runs[learning_rate])
    assert gallery.tune(GALLERY["maml"](), 5, tuple(runs), (16,), (0, 1))[1] == "2, B=16"


def test_the_gallerys_cells():
    values = (0.2271, 0.0297, -0.012, 1.623e-07, 4e-13, -2e-12, 2.4)
    assert [gallery.fraction(v) for v in values] == ["23 %", "3.0 %", "-1.2 %", "1.6e-7", "<1e-9", "<1e-9", "240 %"]
    runs = [(0.5, 10.0, True), (0.2, 100.0, False), (0.1, 20.0, True)]
    entry = gallery.summary(runs)
    assert (entry["shortfall"], entry["passes"]) == ([0.2, 0.5], [20.0, 100.0])
    assert gallery.shortfall_cell(entry) == "20 % / 50 % (2 of 3 warned)"
    assert gallery.shortfall_cell(gallery.summary(runs[:1])) == "50 % (warned)"
    assert gallery.shortfall_cell(gallery.summary(runs[1:2])) == "20 %"
