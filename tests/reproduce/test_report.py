"""Tests of `reproduce all`: the rule of the verdicts, tuning, and the report itself."""

from pathlib import Path

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
    fields = {
        "ifo": np.array([0, 9]),
        "seconds": np.array([0.0, 0.1]),
        "gradient_norm": np.array([1.0, 0.5]),
    }
    fields |= {
        "record_iterations": None,
        "pass_ifo": 3,
        "n_evaluations": {},
        "n_iter": 9,
        "warnings": (),
        "x": None,
    }
    return [
        ComparedRun(
            "any",
            k,
            np.array([1.0, gap]),
            stop_reason=stop_reason,
            objective_label="objective",
            **fields,
        )
        for k, gap in enumerate(gaps)
    ]


def results(published, tuned, others=(0.5, 0.6), experiment="portfolio", cases=("a",)):
    """STORM-C's final gaps in two parts, the same gaps for all other methods."""
    measured = Results()
    for part, gaps in (("published", published), ("tuned", tuned)):
        for case in cases:
            compared = {
                method: runs(gaps if method == STORM else others) for method in NAMES
            }
            measured.compared[experiment, part][case] = SolverComparison(
                compared, (), 0.0, ""
            )
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
        (
            (0.1, 0.2),
            (0.1, 0.55),
            "confirmed at those constants only",
        ),
    ],
)
def test_each_verdict_follows_from_numbers(published, tuned, expected):
    measured = results(published, tuned)
    assert decided(AHEAD, measured) == expected
    assert f"{np.median(published):.3g} against 0.55" in AHEAD.decide(measured)[2]


def test_equal_ends_and_overflows():
    """Ends at the minimum are equal, and so are those where nothing was gained. One
    data set is enough to fail."""
    assert AHEAD.decide(results((0.0, 0.0), (0.0, 1e-6), others=(2e-6, 1e-5)))[:2] == (
        False,
        False,
    )
    assert AHEAD.decide(results((0.0, 0.0), (0.0, 1e-6), others=(2e-4, 3e-4)))[:2] == (
        True,
        True,
    )
    assert AHEAD.decide(results((0.93, 0.95), (0.8, 0.85), others=(1.0, 1.0)))[:2] == (
        False,
        True,
    )
    measured = results((0.1, 0.2), (0.1, 0.2), cases=("a", "b"))
    measured.compared["portfolio", "tuned"]["b"].runs[STORM] = runs(
        (0.0, 0.0), "non_finite"
    )
    assert AHEAD.decide(measured)[:2] == (True, False)
    assert "overflow against 0.55" in AHEAD.decide(measured)[2]


def test_bellman_is_compared_with_a_hundred_components_of_f_too():
    """The number of components that the published scripts charge a checkpoint for."""
    reduced = claim("lower than VRSC-PG and SARAH-C", "Bellman")
    measured = results((0.1, 0.2), (0.1, 0.2), experiment="bellman")
    assert decided(reduced, measured) == "confirmed"
    measured.compared["bellman", "published"]["a"].runs["vrsc-pg (f 100)"] = runs(
        (0.05, 0.06)
    )
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
    np.testing.assert_allclose(
        measured.ends("sne", measured.compared["sne", "published"]["a"], STORM),
        [2 / 7] * 2,
    )
    assert claim("SCGD and ASC-PG", "SNE").decide(measured)[:2] == (False, True)


def test_tuning_is_simpler_where_more_of_the_grid_is_nearly_as_good_as_its_best():
    simpler = claim("simpler to tune", "All experiments")

    def decide(ours, theirs):
        measured = results((0.1,), (0.1,), cases=("a", "b"))
        for case in "ab":
            for method, grid in ((STORM, ours), ("sarah-c", theirs)):
                measured.tuned[case, method] = SETTING, grid
        return simpler.decide(measured)

    holds, tuned, words = decide([0.3, 0.5, 0.6, 0.7], [0.01, 0.015, 0.3, np.inf])
    assert (
        holds
        and tuned is None
        and words == "A: 3 of 4 against 2 of 4; b: 3 of 4 against 2 of 4."
    )
    assert not decide([0.3, 0.5, 0.7, 0.7], [0.01, 0.015, 0.3, np.inf])[0]  # as many
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
    measured = Measured(
        STORM, "3", eps, ifo, np.array([ifo] * 3), fit_slope(eps, ifo, [ifo] * 3)
    )
    assert (
        decided(claim("at most as eps^-3", "Corollary"), Results(complexity=[measured]))
        == expected
    )


def test_theory():
    lemma = claim("calls", "Lemma 3.1")
    assert lemma.decide(Results(theory={"counts": [(7, 7), (9, 9)]}))[0]
    assert lemma.decide(Results(theory={"counts": [(7, 7), (9, 10)]}))[::2] == (
        False,
        "1 of 2 runs with random batch sizes used exactly that many.",
    )
    good = {
        "condition": 0.05,
        "printed_condition": 0.05,
        "equipartition": 1.0,
        "ifo": 100,
        "closing_formula": 100.0,
    }
    theory = {
        "epsilon": 0.3,
        "paper": dict(good),
        "corrected": dict(good),
        "mean": 0.25,
        "iterations": 9,
        "start": 1.0,
    }
    measured = Results(theory=theory)
    claims = [
        claim("parameters meet", "Prop"),
        claim("closing formula", "Prop"),
        claim("at most eps", "Theorem"),
    ]
    assert all(c.decide(measured)[0] for c in claims)
    (
        theory["paper"]["condition"],
        theory["corrected"]["closing_formula"],
        theory["mean"],
    ) = 3.0, 1.0, 0.55
    assert not any(c.decide(measured)[0] for c in claims)


# --- tuning
# --------------------------------------------------------------------------------------


def rate_of(rate, variant):
    return {"learning_rate": rate, **variant}


def test_tuning_uses_its_own_seeds_and_takes_the_best():
    seen = []

    def value_of(params, seed):
        seen.append(seed)
        lucky = params["learning_rate"] == 4 and seed == 1000  # once
        return (
            np.nan
            if params["learning_rate"] > 4
            else 0.0
            if lucky
            else abs(params["learning_rate"] - 2) + 1
        )

    grid = settings_of({"plain": {"beta": 0.9}}, (1.0, 2.0, 4.0, 8.0), rate_of)
    assert [s.at_end for s in grid] == [True, False, False, True]
    best, first = tune(grid, value_of, (1000, 1001, 1002))
    assert best.params == {"learning_rate": 2.0, "beta": 0.9} and not best.at_end
    assert first == [2.0, 1.0, 0.0, np.inf]
    assert set(seen) == {1000, 1001, 1002} and len(seen) == 4 + 3 * 2


def test_a_grid_is_widened_while_its_best_stands_at_an_end():
    # the second variant is never better: the further rates are those of the first
    grid = settings_of(
        {"first": {"beta": 1}, "second": {"beta": 2}}, (1.0, 2.0, 4.0), rate_of
    )
    best, _ = tune(
        grid,
        lambda p, seed: abs(np.log2(p["learning_rate"]) - 6) + 10 * (p["beta"] == 2),
        (0, 1),
    )
    assert best.params == {"learning_rate": 64.0, "beta": 1} and not best.at_end
    assert tune(grid, lambda params, seed: params["learning_rate"], (0,))[
        0
    ].at_end  # there is no best one


def test_curvature():
    R = make_gaussian_returns(300, 4, random_state=0)
    expected = 2 * np.linalg.eigvalsh(np.cov(R.T, bias=True))[-1]
    assert largest_curvature(PortfolioProblem(R), np.zeros(4)) == pytest.approx(
        expected, rel=1e-6
    )


# --- the report
# --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_report_names_every_claim_and_its_pictures_are_there(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(report, "QUICK", TINY)
    monkeypatch.setattr(
        streaming,
        "french_sets",
        lambda: {"Japan": make_gaussian_returns(50, 3, random_state=0)},
    )
    assert (
        main(["reproduce", "all", "--quick", "--french", "--out", str(tmp_path / "r")])
        == 0
    )
    out = capsys.readouterr().out
    path = Path(tmp_path / "r" / "report.md")
    text = path.read_text(encoding="utf-8")
    for one in CLAIMS:
        escaped = one.text.replace("|", "\\|")
        (row,) = [
            line
            for line in text.splitlines()
            if line.startswith(f"| {one.source} | {escaped} |")
        ]
        (line,) = [
            line
            for line in out.splitlines()
            if line.endswith(f"  {one.source}: {one.text}")
        ]
        assert f"**{line.split('  ')[0]}**" in row
    assert (
        "quick report" in text
        and RULE.strip() in text
        and "| Japan | STORM-C |" in text
    )
    pictures = [
        line[line.rindex("(") + 1 : -1]
        for line in text.splitlines()
        if line.startswith("![")
    ]
    assert len(pictures) == 9
    assert all((path.parent / name).stat().st_size > 1000 for name in pictures)
    cells = [
        line.replace(r"\|", "").count("|")
        for line in text.splitlines()
        if line.startswith("|")
    ]
    assert min(cells) >= 4  # no row is cut short
