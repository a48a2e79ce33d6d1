"""compare_solvers and its results."""

import html
import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from sk_stormc import (
    ActionValueEstimator,
    AutomaticSTORM,
    BellmanValueEstimator,
    CompositionalPortfolio,
    SNEEmbedding,
    compare_solvers,
    minimize,
)
from sk_stormc.compare import SolverComparison
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.problems import PortfolioProblem, StreamingProblem
from sk_stormc.solvers import LBFGS

RETURNS = make_gaussian_returns(400, 4, mean=0.2, random_state=0)
PASS = 3 * len(RETURNS)
PROBLEM = PortfolioProblem(RETURNS)
SOLVERS = ["storm-c", "sarah-c", "lbfgs"]


def rows(comparison):
    return {row["solver"]: row for row in comparison.table}


@pytest.fixture(scope="module")
def compared():
    own = {"n_seeds": 3, "random_state": 0, "gradient": True}
    return compare_solvers(PROBLEM, SOLVERS, **own)


def never_nearer(run):
    """The run, as if it had stayed at the objective of its start."""
    return replace(run, loss_curve=np.full(run.ifo.shape, run.loss_curve[0]))


def test_the_counts_are_those_of_the_results(compared):
    seeds = np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=3)
    for name in SOLVERS:
        for run, seed in zip(compared.runs[name], seeds, strict=True):
            result = minimize(PROBLEM, name, random_state=seed)
            assert (run.seed, run.n_iter) == (seed, result.n_iter)
            assert run.stop_reason == result.stop_reason
            assert run.n_evaluations == result.n_evaluations
            for part in ("ifo", "loss_curve", "record_iterations"):
                found, expected = getattr(run, part), getattr(result, part)
                np.testing.assert_array_equal(found, expected)


def test_the_table_has_medians_and_quartiles_of_the_runs(compared):
    row, runs = rows(compared)["storm-c"], compared.runs["storm-c"]
    start, optimum = compared.start, compared.optimum
    passes = np.quantile([run.ifo[-1] / PASS for run in runs], [0.25, 0.5, 0.75])
    assert [row[f"passes_{part}"] for part in ("q1", "median", "q3")] == list(passes)
    assert row["objective_median"] == np.median([run.loss_curve[-1] for run in runs])
    above = np.array([run.fun for run in compared.runs["sarah-c"]]) - optimum
    gap = np.median(above / (start - optimum))
    assert rows(compared)["sarah-c"]["gap_median"] == gap > 0
    assert row["ifo_median"] == np.median([run.ifo[-1] for run in runs])
    assert row["seconds_median"] == np.median([run.seconds[-1] for run in runs])
    assert row["stop_reasons"] == {"converged": 3}
    assert row["runs"] == 3 and row["warnings"] == 0
    for gap in compared.gaps:
        limit = optimum + gap * (start - optimum)
        firsts = [int(np.argmax(run.loss_curve <= limit)) for run in runs]
        found = [run.ifo[k] / PASS for run, k in zip(runs, firsts, strict=True)]
        assert row[f"passes_to_{gap:g}_median"] == np.median(found)
        assert row[f"reached_{gap:g}"] == 3
        seconds = [run.seconds[k] for run, k in zip(runs, firsts, strict=True)]
        assert row[f"seconds_to_{gap:g}_median"] == np.median(seconds)


def test_the_text_has_the_numbers_of_the_table(compared):
    row, text = rows(compared)["storm-c"], str(compared)
    for name, digits in (
        ("objective", 8),
        ("passes", 3),
        ("passes_to_0.01", 3),
        ("seconds_to_0.01", 2),
    ):
        parts = [row[f"{name}_{part}"] for part in ("median", "q1", "q3")]
        middle, low, high = (f"{part:.{digits}g}" for part in parts)
        assert f"{middle} [{low}, {high}]  " in text
    assert "Medians over 3 seeds" in text and " of 3)" not in text
    for table in text.split("\n\n")[:2]:
        header, line, *others = table.splitlines()
        assert {len(header), len(line)} == {max(map(len, others))}
    run = compared.runs["storm-c"][0]
    one = str(SolverComparison({"a": [run]}, (), compared.optimum, ""))
    assert "[" not in one and "One seed" in one and f"{run.fun:.8g}" in one
    runs = {"a": [run, never_nearer(run), run]}
    assert "(2 of 3)" in str(SolverComparison(runs, (1e-3,), compared.optimum, ""))


def test_seconds_and_gradients_are_of_the_records(compared):
    for run in (run for runs in compared.runs.values() for run in runs):
        assert run.seconds[0] == 0 < run.seconds[-1]
        assert (np.diff(run.seconds) >= 0).all()
        assert run.seconds.shape == run.gradient_norm.shape == run.ifo.shape
    seen, run = [], compared.runs["sarah-c"][0]

    def norm(x):
        return np.linalg.norm(PROBLEM.gradient(x))

    own = {"random_state": run.seed, "on_record": lambda r: seen.append(norm(r.x))}
    result = minimize(PROBLEM, "sarah-c", **own)
    np.testing.assert_array_equal(run.gradient_norm[: len(seen)], seen)
    assert run.gradient_norm[-1] == norm(result.x)


def test_final_gradients_and_points(compared):
    row, runs = rows(compared)["sarah-c"], compared.runs["sarah-c"]
    assert row["gradient_median"] == np.median([run.gradient_norm[-1] for run in runs])
    for run in runs:
        assert PROBLEM.objective(run.x) == run.fun
    (row,) = compare_solvers(PROBLEM, ["lbfgs"], n_seeds=1).table
    assert "gradient_median" not in row


def test_given_seeds():
    seeds = np.array([7, 3])
    found = compare_solvers(PROBLEM, ["sarah-c"], n_seeds=seeds, max_ifo=6000)
    for seed, run in zip((7, 3), found.runs["sarah-c"], strict=True):
        result = minimize(PROBLEM, "sarah-c", random_state=seed, max_ifo=6000)
        assert run.seed == seed
        np.testing.assert_array_equal(run.x, result.x)


def test_another_scale(compared):
    other, runs = (
        SolverComparison(compared.runs, (1e-3,), compared.optimum, ""),
        compared.runs["sarah-c"],
    )
    other.scale = 0.5
    gaps = [np.maximum(run.loss_curve - compared.optimum, 0) for run in runs]
    for run, gap in zip(runs, gaps, strict=True):
        np.testing.assert_array_equal(other.gap_curve(run), gap)
    row = rows(other)["sarah-c"]
    assert row["gap_median"] == pytest.approx(2 * np.median([gap[-1] for gap in gaps]))
    firsts = [int(np.argmax(gap <= 1e-3 * 0.5)) for gap in gaps]
    passes = [run.ifo[k] / PASS for run, k in zip(runs, firsts, strict=True)]
    assert row["passes_to_0.001_median"] == np.median(passes)
    assert "Relative gaps are divided by 0.5" in str(other)
    assert "Relative gaps are 1 at the start" in str(compared)


def test_streams_are_measured_on_their_expectation():
    def stream(seed):
        rng = np.random.default_rng(seed)
        batches = (RETURNS[rng.integers(len(RETURNS), size=256)] for _ in range(1000))
        return StreamingProblem(batches, PortfolioProblem)

    x0, own = np.ones(4), {"max_ifo": 15_000}
    found = compare_solvers(
        stream, ["storm-c", "scgd"], expectation=PROBLEM, n_seeds=[0, 1], x0=x0,
        gradient=True, **own,
    )  # fmt: skip
    exact = minimize(PROBLEM, "lbfgs", tol=1e-12).fun
    assert found.optimum == pytest.approx(exact, abs=1e-12)
    for run in found.runs["storm-c"]:
        seed = run.seed
        result = minimize(stream(seed), "storm-c", x0, random_state=seed, **own)
        np.testing.assert_array_equal(run.x, result.x)
        np.testing.assert_array_equal(run.ifo, result.ifo)
        assert run.loss_curve[0] == PROBLEM.objective(x0)
        assert run.fun == PROBLEM.objective(run.x) and run.pass_ifo == PASS
        assert run.gradient_norm[-1] == np.linalg.norm(PROBLEM.gradient(run.x))
    first, second = found.runs["storm-c"]
    assert not np.array_equal(first.x, second.x)


def test_another_problem_measures_the_runs():
    other = PortfolioProblem(make_gaussian_returns(300, 4, mean=0.2, random_state=1))
    own = {"expectation": other, "gradient": True}
    found = compare_solvers(PROBLEM, ["lbfgs"], n_seeds=1, **own)
    (run,) = found.runs["lbfgs"]
    np.testing.assert_array_equal(run.x, minimize(PROBLEM, "lbfgs").x)
    assert run.fun == other.objective(run.x) > found.optimum
    assert run.gradient_norm[-1] == np.linalg.norm(other.gradient(run.x))


def test_a_gap_that_is_not_reached_is_infinite_and_a_dash():
    own = {"n_seeds": 2, "max_ifo": 5000, "gaps": (1e-2, 1e-9), "random_state": 0}
    found = compare_solvers(PROBLEM, ["scgd", "lbfgs"], **own)
    row = rows(found)["scgd"]
    assert all(run.ifo[-1] <= 5000 for runs in found.runs.values() for run in runs)
    assert row["reached_1e-09"] == 0 and row["passes_to_1e-09_median"] == math.inf
    second = str(found).split("\n\n")[1].splitlines()
    assert second[0].split("  ")[0] == "solver" and second[2].rstrip().endswith("-")


def test_quartiles_where_some_runs_did_not_reach_the_gap(compared):
    short = compared.runs["storm-c"][0]
    never = never_nearer(short)
    for runs, finite in (([short, short, short, never], True), ([short, never], False)):
        (row,) = SolverComparison({"a": runs}, (1e-3,), compared.optimum, "").table
        assert np.isfinite(row["passes_to_0.001_median"]) == finite
        assert row["reached_0.001"] == len(runs) - 1
    # from the optimum on
    (row,) = SolverComparison({"a": [never]}, (1e-3,), never.fun, "").table
    assert row["gap_median"] == row["passes_to_0.001_median"] == 0
    assert row["reached_0.001"] == 1


def test_the_optimum(compared):
    exact = minimize(PROBLEM, "lbfgs", tol=1e-12).fun
    assert compared.optimum == pytest.approx(exact, abs=1e-14)

    def compare(solver, **arguments):
        own = {"n_seeds": 1, "random_state": 0}
        return compare_solvers(PROBLEM, [solver], **own, **arguments)

    far, method = compare("scgd", max_ifo=10_000), "that of L-BFGS with tol=1e-12"
    above = far.runs["scgd"][0].loss_curve.min() - far.optimum
    words = f"{method}; the best of the runs, by 'scgd'"
    assert far.optimum_from.startswith(words)
    assert far.optimum_from.endswith(f"is {above:.1e} above it")
    same = compare(LBFGS(tol=1e-12))
    assert same.optimum_from.startswith(f"{method} and the best of the runs")
    short = compare("storm-c", max_ifo=2400)
    words = r"the best of the runs, by 'storm-c'; L-BFGS ended \d\.\de.\d\d above it"
    assert re.fullmatch(words, short.optimum_from)
    given = compare("storm-c", optimum=exact - 1)
    assert given.optimum == exact - 1 and given.optimum_from == "what was given"
    assert rows(given)["storm-c"]["reached_0.01"] == 0
    (line,) = given.plot(ax=Figure().add_subplot()).lines_
    assert line.get_ydata()[0] == pytest.approx(given.start - given.optimum)
    assert given.runs["storm-c"][0].gradient_norm is None
    words = "optimum=.* is above an objective that 'storm-c' has seen"
    with pytest.warns(UserWarning, match=words):
        compare("storm-c", optimum=exact + 0.01)


def test_without_lbfgs_the_best_run_is_the_optimum():
    portfolio, own = CompositionalPortfolio(constraint="long_only"), {"n_seeds": 2}
    found = compare_solvers(portfolio, ["storm-c", "sarah-c"], RETURNS, **own)
    best = min(run.loss_curve.min() for runs in found.runs.values() for run in runs)
    assert found.optimum == best
    assert "L-BFGS cannot take the problem" in found.optimum_from
    with pytest.raises(ValueError, match="solver 'lbfgs': .*Simplex"):
        compare_solvers(portfolio, ["storm-c", "lbfgs"], RETURNS, n_seeds=1)


def test_warnings_are_collected_and_shown():
    portfolio, own = CompositionalPortfolio(max_iter=5), {"n_seeds": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare_solvers(portfolio, ["sarah-c"], RETURNS, **own)
    assert rows(found)["sarah-c"]["warnings"] == 2
    (message, *_), text = found.warnings["sarah-c"], str(found)
    assert "has not converged" in message
    assert sum(found.warnings["sarah-c"].values()) == 2
    assert "sarah-c, 2 x: SARAHCompositional has not converged" in text
    page = found._repr_html_()
    assert repr(found) == text and page.count("<table>") == 2
    assert page.count("<tr>") == 2 * (1 + len(found.runs))
    for cell in text.splitlines()[2].split("  "):
        assert html.escape(cell.strip()) in page


def test_labels_instances_and_parameters():
    own, steps = AutomaticSTORM(tol=1e-3), []
    solvers = ["lbfgs", own, ("tight", AutomaticSTORM(tol=1e-9)), ("named", "scgd")]
    found = compare_solvers(
        PROBLEM, solvers, n_seeds=1, max_ifo=20_000, random_state=0,
        progress=lambda *step: steps.append(step),
    )  # fmt: skip
    assert steps[3:] == [("named, seed 1 of 1", 0.75), ("the optimum", 1.0)]
    assert list(found.runs) == ["lbfgs", "AutomaticSTORM(tol=0.001)", "tight", "named"]
    assert found.runs["tight"][0].fun <= found.runs["AutomaticSTORM(tol=0.001)"][0].fun
    assert own.max_ifo is None  # the user's own is left alone
    x0 = np.ones(4)
    loose = compare_solvers(PROBLEM, ["storm-c"], n_seeds=1, tol=0.1, x0=x0)
    assert loose.start == PROBLEM.objective(x0)


def test_bellman_with_lstd():
    model = make_bellman_problem(15, None, gamma=0.8, random_state=0)
    log = model.transitions(600, random_state=0)
    data = {"next_X": log.next_X, "terminal": log.terminal}
    value, own = BellmanValueEstimator(gamma=0.8), {"random_state": 0, "gradient": True}
    found = compare_solvers(
        value, ["storm-c", "lstd"], log.X, log.y, n_seeds=1, **own, **data
    )
    (exact,), (run,) = found.runs["lstd"], found.runs["storm-c"]
    assert exact.gradient_norm is None and 0 < exact.seconds[1] < 60
    assert exact.seconds[0] == exact.ifo[0] == 0 and exact.record_iterations is None
    value.set_params(random_state=run.seed, solver="storm-c")
    fitted = value.fit(log.X, log.y, **data)
    np.testing.assert_array_equal(run.loss_curve, fitted.loss_curve_)
    assert run.record_iterations[-1] == fitted.n_iter_
    assert run.gradient_norm[-1] < 1e-3 * run.gradient_norm[0]
    with pytest.raises(ValueError, match="lstd"):
        compare_solvers(PROBLEM, ["lstd"])


def test_passes_of_exact_methods():
    """Newton's method takes two passes for each iteration, moments one in all, and
    values one for each policy."""
    X, own = RETURNS[:200], {"n_seeds": 1}
    portfolio = CompositionalPortfolio(risk_measure="cvar", constraint="long_only")
    found = compare_solvers(portfolio, ["newton", "auto"], X, **own)
    for run in (found.runs["newton"][0], found.runs["auto"][0]):
        assert run.pass_ifo == 600 and run.n_iter > 3
        assert rows(found)[run.label]["passes_median"] == 2 * run.n_iter
        # at an earlier record
        assert rows(found)[run.label]["passes_to_0.01_median"] < 2 * run.n_iter
    found = compare_solvers(CompositionalPortfolio(), ["moments", "lbfgs"], X, **own)
    assert rows(found)["moments"]["passes_median"] == 1
    assert [runs[0].pass_ifo for runs in found.runs.values()] == [600, 600]
    rng = np.random.default_rng(0)
    states, action = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    data = {"action": action, "next_X": states + 0.3 * action[:, None]}
    values, rewards = (
        ActionValueEstimator(gamma=0.5, alpha=1e-2),
        -(states**2).sum(axis=1),
    )
    found = compare_solvers(values, ["lstd"], states, rewards, **own, **data)
    (run,) = found.runs["lstd"]
    assert rows(found)["lstd"]["passes_median"] == run.n_iter > 1
    assert run.pass_ifo == 601


@pytest.mark.filterwarnings("ignore:the map")
def test_embeddings_with_their_two_stages():
    X = np.random.RandomState(0).randn(60, 5)
    embedding = SNEEmbedding(perplexity=10, max_iter=30)
    found = compare_solvers(embedding, ["storm-c"], X, n_seeds=1, gradient=True)
    (run,) = found.runs["storm-c"]
    fitted = embedding.set_params(random_state=run.seed).fit(X)
    for part in ("ifo", "loss_curve", "record_iterations"):
        np.testing.assert_array_equal(getattr(run, part), getattr(fitted, f"{part}_"))
    assert run.objective_label == "KL divergence" and (np.diff(run.seconds) >= 0).all()
    assert np.isfinite(run.gradient_norm).all()
    assert found.optimum == run.loss_curve.min()
    assert found.optimum_from == "the best of the runs, by 'storm-c'"


PORTFOLIO, SCGD = CompositionalPortfolio(), ["scgd"]


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((PROBLEM, {"scgd"}), {}, "solvers must be a list"),
        ((PROBLEM, ["scgd", "scgd"]), {}, "labels that differ, got 'scgd' twice"),
        ((PROBLEM, SCGD, RETURNS), {}, "X and y must be None for a problem, got array"),
        ((PORTFOLIO, SCGD), {}, "X must be given for CompositionalPortfolio"),
        ((PortfolioProblem, SCGD), {}, r"class: give an instance, PortfolioProblem\("),
        ((PROBLEM, SCGD), {"nonsense": 1}, "nonsense"),
        (
            (StreamingProblem([RETURNS], PortfolioProblem), ["storm-c"]),
            {},
            "must not be a stream",
        ),
        ((lambda seed: PROBLEM, SCGD), {}, "expectation must be given for a function"),
        (
            (PROBLEM, SCGD),
            {"expectation": RETURNS},
            "expectation must be a CompositionalProblem, got array",
        ),
        (
            (PORTFOLIO, SCGD, RETURNS),
            {"expectation": PROBLEM},
            "expectation must be None for Comp",
        ),
        ((PROBLEM, SCGD), {"n_seeds": []}, "or a sequence of at least one seed"),
        ((PROBLEM, SCGD), {"n_seeds": [0, -1]}, "n_seeds must be .* >= 0, got -1"),
        ((PROBLEM, SCGD), {"gaps": (0, 0.1)}, "gaps must be a finite number > 0"),
    ],
)
def test_errors(args, kwargs, message):
    with pytest.raises(ValueError, match=message):
        compare_solvers(*args, **kwargs)


def test_to_frame_and_plot(compared):
    frame = compared.to_frame()
    assert isinstance(frame, pd.DataFrame) and list(frame.index) == SOLVERS
    expected = rows(compared)["lbfgs"]["objective_median"]
    assert frame.loc["lbfgs", "objective_median"] == expected
    assert frame.loc["lbfgs", "stop_reasons"] == "converged"
    display = compared.plot(x="seconds", y="gradient", ax=Figure().add_subplot())
    assert [line.get_label() for line in display.lines_] == SOLVERS
    assert len(display.bands_) == 3 and np.isfinite(display.lines_[0].get_ydata()).all()
