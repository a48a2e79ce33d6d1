"""Tests of `reproduce all`: the rule of the verdicts, tuning, and the report itself."""

import numpy as np
import pytest

from sk_stormc.__main__ import main
from sk_stormc.compare import ComparedRun, SolverComparison
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem
from sk_stormc.reproduce import report, streaming
from sk_stormc.reproduce.claims import CLAIMS, NAMES, RULE, STORM, Results, verdict
from sk_stormc.reproduce.complexity import Measured, fit_slope
from sk_stormc.reproduce.tuning import Setting, largest_curvature, settings_of, tune

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
SETTING = Setting("1, plain", {})


def runs(gaps, stop_reason="max_ifo"):
    """A run from a gap of 1 to each of the gaps."""
    common = {
        "ifo": np.array([0, 9]),
        "seconds": np.array([0.0, 0.1]),
        "gradient_norm": np.array([1.0, 0.5]),
        "stop_reason": stop_reason,
        "objective_label": "objective",
        "n_iter": 9,
        "pass_ifo": 3,
        "n_evaluations": {},
        "warnings": (),
    } | dict.fromkeys(("record_iterations", "x"))
    curves = [np.array([1.0, gap]) for gap in gaps]
    return [ComparedRun("any", k, curve, **common) for k, curve in enumerate(curves)]


def results(published, tuned, others=(0.5, 0.6), experiment="portfolio", cases=("a",)):
    """STORM-C's final gaps in two parts, the same gaps for all other methods."""
    measured = Results()
    for part, gaps in (("published", published), ("tuned", tuned)):
        found = {name: runs(gaps if name == STORM else others) for name in NAMES}
        for case in cases:
            compared = SolverComparison(dict(found), (), 0.0, "")
            measured.compared[experiment, part][case] = compared
            measured.tuned[case, STORM] = SETTING, []
    return measured


def claim(text, source):
    (found,) = [c for c in CLAIMS if text in c.text and source in c.source]
    return found


def decided(claim, results):
    return verdict(*claim.decide(results)[:2], claim.theory)


AHEAD = claim("lower than SCGD and ASC-PG", "Finite-sum")


# --- verdicts
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "published, tuned, expected",
    [
        ((0.1, 0.2), (0.3, 0.4), "confirmed"),
        ((0.1, 0.2), (0.7, 0.8), "confirmed at those constants only"),
        ((0.7, 0.8), (0.7, 0.8), "not confirmed"),
        ((0.7, 0.8), (0.1, 0.2), "not confirmed"),
        # one seed is behind one of theirs
        ((0.1, 0.2), (0.1, 0.55), "confirmed at those constants only"),
    ],
)
def test_each_verdict_follows_from_numbers(published, tuned, expected):
    measured = results(published, tuned)
    assert decided(AHEAD, measured) == expected
    assert f"{np.median(published):.3g} against 0.55" in AHEAD.decide(measured)[2]


def test_equal_ends_and_overflows():
    """Ends at the minimum are equal, and so are those where nothing was gained. One
    data set is enough to fail."""
    near = (0.0, 0.0), (0.0, 1e-6)
    for ours, others, expected in (
        (near, (2e-6, 1e-5), (False, False)),
        (near, (2e-4, 3e-4), (True, True)),
        (((0.93, 0.95), (0.8, 0.85)), (1.0, 1.0), (False, True)),
    ):
        assert AHEAD.decide(results(*ours, others=others))[:2] == expected
    measured = results((0.1, 0.2), (0.1, 0.2), cases=("a", "b"))
    lost = runs((0.0, 0.0), "non_finite")
    measured.compared["portfolio", "tuned"]["b"].runs[STORM] = lost
    assert AHEAD.decide(measured)[:2] == (True, False)
    assert "overflow against 0.55" in AHEAD.decide(measured)[2]


def test_bellman_is_compared_with_a_hundred_components_of_f_too():
    """The number of components that the published scripts charge a checkpoint for."""
    reduced = claim("lower than VRSC-PG and SARAH-C", "Bellman")
    measured = results((0.1, 0.2), (0.1, 0.2), experiment="bellman")
    assert decided(reduced, measured) == "confirmed"
    published = measured.compared["bellman", "published"]["a"].runs
    published["vrsc-pg (f 100)"] = runs((0.05, 0.06))
    assert decided(reduced, measured) == "not confirmed"
    assert "0.15 against 0.055 (VRSC-PG (f 100))" in reduced.decide(measured)[2]


@pytest.mark.parametrize(
    "ends, holds",
    [((0.3, 0.4), 1), ((0.5, 0.65), 1), ((0.6, 0.65), 0), ((0.1, np.inf), 0)],
)
def test_on_streams_as_good_is_all_that_is_claimed(ends, holds):
    stream = claim("at least as good as SCGD, ASC-PG, VRSC-PG and SARAH-C", "Streaming")
    expected = "confirmed" if holds else "not confirmed"
    assert decided(stream, results(ends, ends, experiment="streaming")) == expected


def test_ends_of_sne_are_relative_to_the_lowest_divergence_of_all():
    measured = results((0.5, 0.5), (0.3, 0.3), others=(0.4, 0.4), experiment="sne")
    ends = measured.ends("sne", measured.compared["sne", "published"]["a"], STORM)
    np.testing.assert_allclose(ends, [2 / 7] * 2)
    assert claim("SCGD and ASC-PG", "SNE").decide(measured)[:2] == (False, True)


def test_tuning_is_simpler_where_more_of_the_grid_is_nearly_as_good_as_its_best():
    simpler = claim("simpler to tune", "All experiments")

    def decide(ours, theirs):
        measured = results((0.1,), (0.1,), cases=("a", "b"))
        for case in "ab":
            measured.tuned[case, STORM] = SETTING, ours
            measured.tuned[case, "sarah-c"] = SETTING, theirs
        return simpler.decide(measured)

    theirs, words = [0.01, 0.015, 0.3, np.inf], "3 of 4 against 2 of 4"
    found = decide([0.3, 0.5, 0.6, 0.7], theirs)
    assert found[0] and found[1:] == (None, f"A: {words}; b: {words}.")
    assert not decide([0.3, 0.5, 0.7, 0.7], theirs)[0]  # as many
    # ends at the minimum are equal
    assert not decide([0.3, 0.5, 0.7, 0.7], [1e-5, 1e-9, 2e-4, 1.0])[0]
    assert not decide([np.inf] * 4, [0.1] * 4)[0]


def test_a_grid_that_ends_too_early_decides_nothing():
    measured = results((0.1, 0.2), (0.7, 0.8))
    measured.tuned["a", STORM] = Setting("1, plain", {}, extend=SETTING), []
    assert decided(AHEAD, measured) == "undecided"
    measured.compared["portfolio", "tuned"]["a"].runs[STORM] = runs((0.1, 0.2))
    # a wider grid could only make it better
    assert decided(AHEAD, measured) == "confirmed"


@pytest.mark.parametrize(
    "order, expected", [(2.9, "not contradicted"), (3.6, "not confirmed")]
)
def test_orders(order, expected):
    eps = 0.4 * 10 ** (-np.arange(5) / 4)
    ifo = eps**-order * np.exp(0.01 * np.cos(np.arange(5)))
    slope = fit_slope(eps, ifo, [ifo] * 3)
    found = Results(complexity=[Measured(STORM, "3", eps, ifo, [ifo] * 3, slope)])
    assert decided(claim("at most as eps^-3", "Corollary"), found) == expected


def test_theory():
    lemma = claim("calls", "Lemma 3.1")
    assert lemma.decide(Results(theory={"counts": [(7, 7), (9, 9)]}))[0]
    holds, _, words = lemma.decide(Results(theory={"counts": [(7, 7), (9, 10)]}))
    assert not holds
    assert words == "1 of 2 runs with random batch sizes used exactly that many."
    good = {"condition": 0.05, "printed_condition": 0.05, "equipartition": 1.0}
    good |= {"ifo": 100, "closing_formula": 100.0}
    theory = {"epsilon": 0.3, "paper": dict(good), "corrected": dict(good)}
    theory |= {"mean": 0.25, "iterations": 9, "start": 1.0}
    measured = Results(theory=theory)
    parts = (
        ("parameters meet", "Prop"),
        ("closing formula", "Prop"),
        ("at most eps", "Theorem"),
    )
    claims = [claim(*part) for part in parts]
    assert all(one.decide(measured)[0] for one in claims)
    theory["paper"]["condition"], theory["mean"] = 3.0, 0.55
    theory["corrected"]["closing_formula"] = 1.0
    assert not any(one.decide(measured)[0] for one in claims)


# --- tuning
# --------------------------------------------------------------------------------------


def rate_of(rate, variant):
    return {"learning_rate": rate, **variant}


def test_tuning_uses_its_own_seeds_and_takes_the_best():
    seen = []

    def value_of(params, seed):
        seen.append(seed)
        rate = params["learning_rate"]
        if rate > 4:
            return np.nan
        return 0.0 if rate == 4 and seed == 1000 else abs(rate - 2) + 1  # lucky once

    grid = settings_of({"plain": {"beta": 0.9}}, (1.0, 2.0, 4.0, 8.0), rate_of)
    assert [s.at_end for s in grid] == [True, False, False, True]
    best, first = tune(grid, value_of, (1000, 1001, 1002))
    assert best.params == {"learning_rate": 2.0, "beta": 0.9} and not best.at_end
    assert first == [2.0, 1.0, 0.0, np.inf]
    assert set(seen) == {1000, 1001, 1002} and len(seen) == 4 + 3 * 2


def test_a_grid_is_widened_while_its_best_stands_at_an_end():
    # the second variant is never better: the further rates are those of the first
    variants = {"first": {"beta": 1}, "second": {"beta": 2}}
    grid = settings_of(variants, (1.0, 2.0, 4.0), rate_of)

    def value_of(params, seed):
        return abs(np.log2(params["learning_rate"]) - 6) + 10 * (params["beta"] == 2)

    best, _ = tune(grid, value_of, (0, 1))
    assert best.params == {"learning_rate": 64.0, "beta": 1} and not best.at_end
    # there is no best one
    assert tune(grid, lambda params, seed: params["learning_rate"], (0,))[0].at_end


def test_curvature():
    R = make_gaussian_returns(300, 4, random_state=0)
    expected = 2 * np.linalg.eigvalsh(np.cov(R.T, bias=True))[-1]
    found = largest_curvature(PortfolioProblem(R), np.zeros(4))
    assert found == pytest.approx(expected, rel=1e-6)


# --- the report
# --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_report_names_every_claim_and_its_pictures_are_there(
    tmp_path, monkeypatch, capsys
):
    market = {"Japan": make_gaussian_returns(50, 3, random_state=0)}
    monkeypatch.setattr(report, "QUICK", TINY)
    monkeypatch.setattr(streaming, "french_sets", lambda: market)
    folder = tmp_path / "r"
    assert main(["reproduce", "all", "--quick", "--french", "--out", str(folder)]) == 0
    out = capsys.readouterr().out.splitlines()
    text = (folder / "report.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    for one in CLAIMS:
        start = f"| {one.source} | {one.text} |".replace(
            one.text, one.text.replace("|", "\\|")
        )
        (row,) = [line for line in lines if line.startswith(start)]
        (line,) = [line for line in out if line.endswith(f"  {one.source}: {one.text}")]
        assert f"**{line.split('  ')[0]}**" in row
    for words in ("quick report", RULE.strip(), "| Japan | STORM-C |"):
        assert words in text
    pictures = [line.split("(")[-1][:-1] for line in lines if line.startswith("![")]
    assert len(pictures) == 9
    assert all((folder / name).stat().st_size > 1000 for name in pictures)
    rows = [line.replace(r"\|", "") for line in lines if line.startswith("|")]
    assert min(row.count("|") for row in rows) >= 4  # no row is cut short
