"""Tests of `reproduce all`: the rule of the verdicts, the store of finished parts, tuning, and the report itself."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from sk_stormc.__main__ import main
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem
from sk_stormc.reproduce import streaming
from sk_stormc.reproduce.progress import progress_line
from sk_stormc.reproduce.report import (
    claims as _report_claims,
)
from sk_stormc.reproduce.report import (
    run as report,
)
from sk_stormc.reproduce.report import (
    store as _report_store,
)
from sk_stormc.reproduce.report import (
    text as _report_text,
)
from sk_stormc.reproduce.report.claims import (
    CLAIMS,
    CONFIRMED,
    NOT_CONFIRMED,
    NOT_CONTRADICTED,
    THERE_ONLY,
    UNDECIDED,
    Results,
    verdict,
)
from sk_stormc.reproduce.report.grids import METHODS, STORM, VARIANTS
from sk_stormc.reproduce.report.notes import about
from sk_stormc.reproduce.report.plan import make_plan, thinned
from sk_stormc.reproduce.report.store import Piece, Store
from sk_stormc.reproduce.runner import run_methods
from sk_stormc.reproduce.tuning import largest_curvature, settings_of, tune

TINY = {
    "seeds": 2,
    "tuning_seeds": (1000, 1001),
    "rates": (0.5,),
    "portfolio": {"periods": 60, "assets": 3, "max_ifo": 3000},
    "streaming": {"max_ifo": 61_000},
    "bellman": {"states": 12, "features": 3, "published_ifo": 1500, "max_ifo": 1500},
    "sne": {
        "points": 60,
        "dimension": 2,
        "published_ifo": 900,
        "max_ifo": 4000,
        "factors": (1.0,),
        "seeds": 1,
    },
    "complexity": {"n_epsilons": 2, "seeds": 2},
    "theory": {"epsilon": 0.3, "seeds": 1},
}


def piece(gaps, scale=1.0, failed=False, start=1.0):
    curves = [{"seed": k, "ifo": [0, 9], "gap": [start, gap], "gradient": [1.0, 0.5], "seconds": 0.1, "failed": failed}
              for k, gap in enumerate(gaps)]
    return {"result": {"optimum": 0.0, "scale": scale, "setting": "x", "at_end": False, "curves": curves}, "seconds": 1}


def results(published, tuned, others=(0.5, 0.6), experiment="portfolio", cases=("a",), **changes):
    """STORM-C's final gaps in two parts, the same gaps for all other methods."""
    found = {}
    for part, gaps in (("published", published), ("tuned", tuned)):
        for case in cases:
            for method in METHODS:
                own = method == STORM
                found[f"{experiment}/{part}/{case}/{method}"] = piece(gaps if own else others, **changes)
    return Results(found)


def claim(text, source):
    (found,) = [c for c in CLAIMS if text in c.text and source in c.source]
    return found


AHEAD = claim("lower than SCGD and ASC-PG", "Finite-sum")


# --- verdicts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "published, tuned, expected",
    [
        ((0.1, 0.2), (0.3, 0.4), CONFIRMED),
        ((0.1, 0.2), (0.7, 0.8), THERE_ONLY),
        ((0.7, 0.8), (0.7, 0.8), NOT_CONFIRMED),
        ((0.7, 0.8), (0.1, 0.2), NOT_CONFIRMED),
        ((0.1, 0.2), (0.1, 0.55), THERE_ONLY),  # a seed of its own is behind one of theirs
    ],
)
def test_each_verdict_follows_from_numbers(published, tuned, expected):
    holds, tuned_holds, words = AHEAD.decide(results(published, tuned))
    assert verdict(holds, tuned_holds) == expected
    assert f"{np.median(published):.3g} against 0.55" in words


def test_one_data_set_is_enough_to_fail():
    both = results((0.1, 0.2), (0.1, 0.2), cases=("a", "b"))
    assert AHEAD.decide(both)[:2] == (True, True)
    both.pieces[f"portfolio/published/b/{STORM}"] = piece((0.1, 0.9))["result"]
    assert AHEAD.decide(both)[:2] == (False, True)


def test_ends_at_the_minimum_are_equal_and_an_overflow_is_behind():
    assert AHEAD.decide(results((0.0, 0.0), (0.0, 1e-6), others=(2e-6, 1e-5)))[:2] == (False, False)
    assert AHEAD.decide(results((0.0, 0.0), (0.0, 1e-6), others=(2e-4, 3e-4)))[:2] == (True, True)
    found = results((0.1, 0.2), (0.1, 0.2))
    found.pieces[f"portfolio/tuned/a/{STORM}"] = piece((0.0, 0.0), failed=True)["result"]
    assert AHEAD.decide(found)[:2] == (True, False)
    assert "overflow against 0.55" in AHEAD.decide(found)[2]


def test_where_nothing_was_gained_nobody_is_ahead():
    assert AHEAD.decide(results((0.93, 0.95), (0.93, 0.95), others=(1.0, 1.0)))[:2] == (False, False)
    assert AHEAD.decide(results((0.8, 0.85), (0.8, 0.85), others=(1.0, 1.0)))[:2] == (True, True)


def test_bellman_is_compared_with_a_hundred_components_of_f_too():
    """The number of components that the published scripts charge a checkpoint for."""
    reduced = claim("lower than VRSC-PG and SARAH-C", "Bellman")
    found = results((0.1, 0.2), (0.1, 0.2), experiment="bellman")
    assert verdict(*reduced.decide(found)[:2]) == CONFIRMED
    found.pieces["bellman/published/a/vrsc-pg (f 100)"] = piece((0.05, 0.06))["result"]
    holds, tuned, words = reduced.decide(found)
    assert verdict(holds, tuned) == NOT_CONFIRMED and "0.15 against 0.055 (VRSC-PG (f 100))" in words


@pytest.mark.parametrize(
    "ends, expected",
    [((0.3, 0.4), CONFIRMED), ((0.5, 0.65), CONFIRMED), ((0.6, 0.65), NOT_CONFIRMED), ((0.1, np.inf), NOT_CONFIRMED)],
)
def test_on_streams_as_good_is_all_that_is_claimed(ends, expected):
    (stream,) = [c for c in CLAIMS if "Streaming" in c.source]
    assert "at least as good as SCGD, ASC-PG, VRSC-PG and SARAH-C" in stream.text
    assert verdict(*stream.decide(results(ends, ends, experiment="streaming"))[:2]) == expected


def test_what_the_paper_does_not_claim_has_no_verdict():
    assert not [c.text for c in CLAIMS if "near the minimum" in c.text or "order of STORM-C" in c.text]


def test_tuning_is_simpler_where_more_of_the_grid_is_nearly_as_good_as_its_best():
    simpler = claim("simpler to tune", "All experiments")

    def decide(ours, theirs):
        found = results((0.1,), (0.1,), cases=("a", "b"))
        for case in "ab":
            for method, grid in ((STORM, ours), ("sarah-c", theirs)):
                found.pieces[f"portfolio/tuned/{case}/{method}"]["grid"] = grid
        return simpler.decide(found)

    holds, tuned, words = decide([0.3, 0.5, 0.6, 0.7], [0.01, 0.015, 0.3, np.inf])
    assert holds and tuned is None and words == "A: 3 of 4 against 2 of 4; b: 3 of 4 against 2 of 4."
    assert not decide([0.3, 0.5, 0.7, 0.7], [0.01, 0.015, 0.3, np.inf])[0]  # as many
    assert not decide([0.3, 0.5, 0.7, 0.7], [1e-5, 1e-9, 2e-4, 1.0])[0]  # ends at the minimum are equal
    assert not decide([np.inf] * 4, [0.1] * 4)[0]


def test_a_grid_that_ends_too_early_decides_nothing():
    found = results((0.1, 0.2), (0.7, 0.8))
    found.pieces[f"portfolio/tuned/a/{STORM}"]["at_end"] = True
    assert verdict(*AHEAD.decide(found)[:2]) == UNDECIDED
    found.pieces[f"portfolio/tuned/a/{STORM}"] = piece((0.1, 0.2))["result"] | {"at_end": True}
    assert verdict(*AHEAD.decide(found)[:2]) == CONFIRMED  # a wider grid could only make it better


def test_what_holds_only_when_tuned_is_said(monkeypatch):
    monkeypatch.setattr(_report_text, "CLAIMS", (AHEAD,))
    text = _report_text._claims(results((0.7, 0.8), (0.1, 0.2)))
    assert "| **not confirmed**, holds when tuned | Published - a: 0.75 against 0.55" in text
    assert "holds when tuned |" not in _report_text._claims(results((0.7, 0.8), (0.7, 0.8)))


@pytest.mark.parametrize("order, expected", [(2.9, NOT_CONTRADICTED), (3.6, NOT_CONFIRMED)])
def test_orders(order, expected):
    eps = 0.4 * 10 ** (-np.arange(5) / 4)
    ifo = (eps**-order * np.exp(0.01 * np.cos(np.arange(5)))).tolist()
    rows = {STORM: {"epsilons": eps.tolist(), "ifo": ifo, "resampled": [ifo] * 3}}
    corollary = claim("at most as eps^-3", "Corollary")
    found = Results({f"complexity/{STORM}": {"result": rows, "seconds": 1}})
    assert verdict(*corollary.decide(found)[:2], corollary.theory) == expected


def test_theory():
    counts = {"theory/Lemma 3.1": {"result": {"counts": [(7, 7), (9, 9)]}, "seconds": 1}}
    lemma = claim("calls", "Lemma 3.1")
    assert lemma.decide(Results(counts))[0]
    counts["theory/Lemma 3.1"]["result"]["counts"][1] = (9, 10)
    assert not lemma.decide(Results(counts))[0] and "1 of 2" in lemma.decide(Results(counts))[2]

    good = {"condition": 0.05, "printed_condition": 0.05, "equipartition": 1.0, "ifo": 100, "closing_formula": 100.0}
    found = {"epsilon": 0.3, "paper": dict(good), "corrected": dict(good)}
    run = {"epsilon": 0.3, "means": [0.2, 0.3], "iterations": 9, "start": 1.0}
    theory = Results(
        {
            "theory/Proposition 3.2": {"result": found, "seconds": 1},
            "theory/Theorem 1": {"result": run, "seconds": 1},
        }
    )
    meets, closing = claim("parameters meet", "Proposition"), claim("closing formula", "Proposition")
    theorem = claim("at most eps", "Theorem")
    assert all(c.decide(theory)[0] for c in (meets, closing, theorem))
    found["paper"]["condition"], found["corrected"]["closing_formula"], run["means"] = 3.0, 1.0, [0.5, 0.6]
    assert not any(c.decide(theory)[0] for c in (meets, closing, theorem))


# --- finished parts -----------------------------------------------------------------------------------


def pieces(log, fail_at=None):
    def make(name):
        def run(show):
            if name == fail_at:
                raise KeyboardInterrupt
            log.append(name)
            show(0.5)
            return {"value": len(log), "list": [1.5, float("inf")]}

        return Piece(f"part/{name}", 1.0, run)

    return [make(name) for name in "abc"]


def test_interrupted_it_goes_on_without_repeating(tmp_path):
    log = []
    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path, {"n": 1}).run(pieces(log, fail_at="c"))
    assert log == ["a", "b"]
    calls = []
    found = Store(tmp_path, {"n": 1}).run(pieces(log), lambda *args: calls.append(args))
    assert log == ["a", "b", "c"]
    assert found["part/a"]["result"] == {"value": 1, "list": [1.5, float("inf")]}
    assert calls[0][0] == "part, c" and calls[0][1] == pytest.approx(2 / 3) and calls[0][2] > 0
    assert not list(tmp_path.rglob("*.part"))


def test_a_broken_file_is_computed_again(tmp_path):
    log = []
    store = Store(tmp_path, {"n": 1})
    store.run(pieces(log))
    store.path("part/b").write_text('{"name": "part/b", "resu')
    store.path("part/c").write_text(json.dumps({"name": "part/other", "result": {}, "seconds": 1}))
    store.run(pieces(log))
    assert log == ["a", "b", "c", "b", "c"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    _report_store._write(path, {"old": 1})
    monkeypatch.setattr("os.replace", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _report_store._write(path, {"new": 1})
    assert json.loads(path.read_text()) == {"old": 1} and [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_other_settings_start_anew_and_are_named(tmp_path):
    log = []
    first = {"version": "1", "sizes": {"seeds": 3, "rates": (1, 2)}}
    Store(tmp_path, first).run(pieces(log))
    other = {"version": "2", "sizes": {"seeds": 4, "rates": (1, 2)}}
    store = Store(tmp_path, other)
    assert store.changes == ["sizes.seeds", "version"]
    store.run(pieces(log))
    assert log == ["a", "b", "c"] * 2
    again = Store(tmp_path, first)  # nothing was lost
    assert again.changes == [] and again.find("part/a") is not None


# --- tuning -------------------------------------------------------------------------------------------


def test_tuning_uses_its_own_seeds_and_takes_the_best():
    seen = []

    def value_of(params, seed):
        seen.append(seed)
        lucky = params["learning_rate"] == 4 and seed == 1000  # once
        return np.nan if params["learning_rate"] > 4 else 0.0 if lucky else abs(params["learning_rate"] - 2) + 1

    rates, published = (1.0, 2.0, 4.0, 8.0), {"learning_rate": 9}
    grid = settings_of({"plain": {"beta": 0.9}}, rates, lambda rate: rate, published=published)
    assert [s.at_end for s in grid] == [False, True, False, False, True]
    best = tune(grid, value_of, (1000, 1001, 1002))
    assert best.params == {"learning_rate": 2.0, "beta": 0.9} and not best.at_end
    assert set(seen) == {1000, 1001, 1002} and len(seen) == 5 + 3 * 2


def test_a_grid_is_widened_while_its_best_stands_at_an_end():
    grid = settings_of({"plain": {}}, (1.0, 2.0, 4.0), lambda rate: rate)
    found = tune(grid, lambda params, seed: abs(np.log2(params["learning_rate"]) - 5), (0, 1))
    assert found.params == {"learning_rate": 32.0} and not found.at_end
    assert tune(grid, lambda params, seed: params["learning_rate"], (0,)).at_end  # there is no best one


def test_decreasing_rates_and_curvature():
    (setting,) = settings_of({"decreasing": {"exponent": -0.5}}, (2.0,), lambda rate: rate / 4)
    assert setting.params["learning_rate"](3) == pytest.approx(0.25) and "exponent" not in setting.params
    R = make_gaussian_returns(300, 4, random_state=0)
    expected = 2 * np.linalg.eigvalsh(np.cov(R.T, bias=True))[-1]
    assert largest_curvature(PortfolioProblem(R), np.zeros(4)) == pytest.approx(expected, rel=1e-6)


def test_every_method_has_as_many_variants():
    for variants in VARIANTS.values():
        assert set(variants) == set(METHODS) and {len(v) for v in variants.values()} == {3}
    assert set(report.QUICK) == set(report.FULL) == set(TINY)


def test_thinned_curves_keep_their_ends():
    assert thinned(5).tolist() == [0, 1, 2, 3, 4]
    kept = thinned(4000)
    assert kept[0] == 0 and kept[-1] == 3999 and len(kept) < 160 and (np.diff(kept) > 0).all()


# --- streams ------------------------------------------------------------------------------------------


def test_a_stream_s_gap_is_that_of_its_expectation():
    mean, S = streaming.make_market(34.0, n_assets=4)
    case = streaming.stream_case("market", (mean, S))
    x = np.array([0.1, -0.2, 0.3, 0.4])
    assert case.problem.objective(x) == pytest.approx(-mean @ x + x @ S @ x)
    assert case.optimum == pytest.approx(-mean @ np.linalg.solve(S, mean) / 4)
    (run,) = run_methods([case], {"storm-c-paper": {"tol": 0}}, max_ifo=9000, n_seeds=1, first_seed=3)
    assert run.seed == 3 and run.ifo[-1] == 9000
    assert run.gap[0] == pytest.approx(case.problem.objective(np.ones(4)) - case.optimum)
    (again,) = run_methods([case], {"storm-c-paper": {"tol": 0}}, max_ifo=9000, n_seeds=1, first_seed=3)
    np.testing.assert_array_equal(run.gap, again.gap)


def test_returns_as_a_stream(monkeypatch):
    R = make_gaussian_returns(50, 3, mean=0.1, random_state=0)
    R[7, 1] = np.nan
    fetched = []

    def fetch(region, sort, data_home):
        fetched.append((region, sort))
        return type("Bunch", (), {"returns": R / 100})

    monkeypatch.setattr(streaming, "fetch_french_portfolios", fetch)
    sets = streaming.french_sets()
    assert fetched == [(region, "OP") for region in streaming.REGIONS]
    np.testing.assert_allclose(sets["Japan"], np.delete(R, 7, axis=0))
    case = streaming.stream_case("Japan", sets["Japan"])
    assert case.problem.n_inner == 49
    (run,) = run_methods([case], {"scgd": {"learning_rate": 0.01, "batch_size": 50, "tol": 0}}, max_ifo=9000, n_seeds=1)
    assert run.gap[-1] < run.gap[0]


def test_the_command_for_streams(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "streaming", "--ifo", "30000", "--seeds", "1", "--methods", "storm-c,storm-c-paper"]) == 0
    out = capsys.readouterr().out
    assert "curvature 80  storm-c-paper" in out and "passes" not in out
    assert (tmp_path / "streaming.png").stat().st_size > 1000


# --- the report ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    said, calls = [], []
    path, verdicts = report.make_report(
        out, TINY, quick=True, progress=lambda *args: calls.append(args), say=said.append
    )
    return path, verdicts, said, calls


@pytest.mark.slow
def test_the_report_names_every_claim_and_its_pictures_are_there(small):
    path, verdicts, said, calls = small
    text = path.read_text(encoding="utf-8")
    assert len(verdicts) == len(CLAIMS) and set(verdicts.values()) <= {
        CONFIRMED, THERE_ONLY, NOT_CONFIRMED, NOT_CONTRADICTED, UNDECIDED
    }  # fmt: skip
    for one in CLAIMS:
        (row,) = [
            line for line in text.splitlines()
            if line.startswith(f"| {one.source} | {one.text.replace('|', chr(92) + '|')} |")
        ]  # fmt: skip
        assert f"**{verdicts[f'{one.source}: {one.text}']}**" in row
    assert "quick report" in text and _report_claims.RULE.strip() in text
    pictures = [line[line.rindex("(") + 1 : -1] for line in text.splitlines() if line.startswith("![")]
    assert len(pictures) == 10
    assert all((path.parent / name).stat().st_size > 1000 for name in pictures)
    cells = [line.replace(r"\|", "").count("|") for line in text.splitlines() if line.startswith("|")]
    assert min(cells) >= 4  # no row is cut short
    assert said == [] and [c[1] for c in calls] == sorted(c[1] for c in calls) and calls[-1][2] < calls[0][2]


@pytest.mark.slow
def test_a_second_run_repeats_nothing(small):
    path, verdicts, _, _ = small
    before = {file: file.stat().st_mtime_ns for file in path.parent.glob("pieces/*/*--*.json")}
    assert len(before) > 50
    said = []
    _, again = report.make_report(path.parent, TINY, quick=True, say=said.append)
    assert again == verdicts
    assert {file: file.stat().st_mtime_ns for file in path.parent.glob("pieces/*/*--*.json")} == before
    assert said[0].endswith("already: going on.")


def test_changed_sizes_are_said(tmp_path, monkeypatch):
    Store(tmp_path / "pieces", report._settings(TINY, None))
    monkeypatch.setattr(report, "make_plan", lambda sizes, sources: [])
    monkeypatch.setattr(report, "write_report", lambda *args, **kwargs: "")
    monkeypatch.setattr(report, "draw", lambda *args: {})
    monkeypatch.setattr(report, "CLAIMS", ())
    said = []
    report.make_report(tmp_path, {**TINY, "seeds": 3}, say=said.append)
    assert "other settings (sizes.seeds): starting anew" in said[0]


def test_downloaded_returns_are_a_setting_and_are_described(tmp_path, monkeypatch):
    seen = {}
    sets = {"Japan": make_gaussian_returns(50, 3, random_state=0)}
    monkeypatch.setattr(streaming, "french_sets", lambda: sets)
    monkeypatch.setattr(report, "make_plan", lambda sizes, sources: seen.update(sources=sources) or [])
    monkeypatch.setattr(report, "write_report", lambda *args, **kwargs: seen.update(kwargs) or "")
    monkeypatch.setattr(report, "draw", lambda *args: {})
    monkeypatch.setattr(report, "CLAIMS", ())
    report.make_report(tmp_path, TINY, french=True)
    assert seen["sources"] is sets and seen["days"] == {"Japan": 50}
    assert "Japan 50 days" in about("streaming", TINY, seen["days"])
    sets["Japan"] = sets["Japan"][:49]  # renewed
    said = []
    report.make_report(tmp_path, TINY, french=True, say=said.append)
    assert "other settings (french.Japan)" in said[0]


def test_ctrl_c_is_not_taken_for_the_end_of_a_run(tmp_path):
    """A run that is interrupted returns what it has, which must not be kept as a finished part."""
    case = streaming.stream_case("market", streaming.make_market(34.0))

    def interrupt(text, fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_methods([case], {"storm-c": {}}, max_ifo=10_000, n_seeds=1, progress=interrupt)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_killed_the_command_goes_on(tmp_path):
    command = [sys.executable, "-m", "sk_stormc", "reproduce", "all", "--quick", "--out", str(tmp_path / "r")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finished = tmp_path / "r" / "pieces"
    try:
        while len(list(finished.glob("*/*--*.json"))) < 4 and process.poll() is None:  # a busy machine takes long
            time.sleep(0.1)
    finally:
        process.kill()
        process.communicate()
    kept = list(finished.glob("*/*--*.json"))
    assert len(kept) >= 4 and all(json.loads(file.read_text())["result"] for file in kept)
    store = Store(finished, report._settings(report.QUICK, None))
    plan = make_plan(report.QUICK, streaming.markets())
    assert store.changes == [] and sum(store.find(p.name) is not None for p in plan) == len(kept)


def test_the_command_line(capsys, tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", "all", "--out", str(tmp_path / "a" / "b")])
    assert "--out: expected a directory" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["reproduce", "all", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert report.DURATIONS[False] in text and report.DURATIONS[True] in text

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "make_report", stop)
    assert main(["reproduce", "all", "--quick", "--out", str(tmp_path)]) == 130
    out, err = capsys.readouterr()
    assert "the same command goes on" in out and err == "interrupted\n"


def test_the_time_left_is_shown(capsys):
    with progress_line() as show:
        show("first", 0.25, 400.0)
        show("second", 0.5)
    assert capsys.readouterr().err == " 25 %  7 min left  first\n 50 %  second\n"
