"""compare_solvers and its results."""

import html
import math
import re
import warnings

import numpy as np
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

RETURNS = make_gaussian_returns(1200, 4, mean=0.2, random_state=0)
PROBLEM = PortfolioProblem(RETURNS)


def rows(comparison):
    return {row["solver"]: row for row in comparison.table}


@pytest.fixture(scope="module")
def compared():
    return compare_solvers(
        PROBLEM,
        ["storm-c", "sarah-c", "lbfgs"],
        n_seeds=3,
        random_state=0,
        gradient=True,
    )


def test_the_counts_are_those_of_the_results(compared):
    seeds = np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=3)
    for name in ("storm-c", "sarah-c", "lbfgs"):
        for run, seed in zip(compared.runs[name], seeds, strict=True):
            result = minimize(PROBLEM, name, random_state=seed)
            assert (
                run.seed == seed
                and run.n_iter == result.n_iter
                and run.stop_reason == result.stop_reason
            )
            assert run.n_evaluations == result.n_evaluations
            np.testing.assert_array_equal(run.ifo, result.ifo)
            np.testing.assert_array_equal(run.loss_curve, result.loss_curve)
            np.testing.assert_array_equal(
                run.record_iterations, result.record_iterations
            )


def test_the_table_has_medians_and_quartiles_of_the_runs(compared):
    row, runs = rows(compared)["storm-c"], compared.runs["storm-c"]
    passes = [run.ifo[-1] / 3600 for run in runs]
    assert [row[f"passes_{part}"] for part in ("q1", "median", "q3")] == list(
        np.quantile(passes, [0.25, 0.5, 0.75])
    )
    assert row["objective_median"] == np.median([run.loss_curve[-1] for run in runs])
    above = np.array([run.fun for run in compared.runs["sarah-c"]]) - compared.optimum
    assert (
        rows(compared)["sarah-c"]["gap_median"]
        == np.median(above / (compared.start - compared.optimum))
        > 0
    )
    assert row["ifo_median"] == np.median([run.ifo[-1] for run in runs])
    assert row["seconds_median"] == np.median([run.seconds[-1] for run in runs])
    assert (
        row["runs"] == 3
        and row["stop_reasons"] == {"converged": 3}
        and row["warnings"] == 0
    )
    for gap in compared.gaps:
        limit = compared.optimum + gap * (compared.start - compared.optimum)
        firsts = [int(np.argmax(run.loss_curve <= limit)) for run in runs]
        found = [run.ifo[k] / 3600 for run, k in zip(runs, firsts, strict=True)]
        assert (
            row[f"passes_to_{gap:g}_median"] == np.median(found)
            and row[f"reached_{gap:g}"] == 3
        )
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
        middle, *ends = (
            f"{row[f'{name}_{part}']:.{digits}g}" for part in ("median", "q1", "q3")
        )
        assert f"{middle} [{', '.join(ends)}]  " in text
    assert "Medians over 3 seeds" in text and " of 3)" not in text
    for table in text.split("\n\n")[:2]:
        header, line, *others = table.splitlines()
        assert {len(header), len(line)} == {max(map(len, others))}
    run = compared.runs["storm-c"][0]
    one = SolverComparison({"a": [run]}, (), compared.optimum, "")
    assert (
        "[" not in str(one) and "One seed" in str(one) and f"{run.fun:.8g}" in str(one)
    )
    never = type(run)(
        **{**vars(run), "loss_curve": np.full(run.ifo.shape, run.loss_curve[0])}
    )
    assert "(2 of 3)" in str(
        SolverComparison({"a": [run, never, run]}, (1e-3,), compared.optimum, "")
    )


def test_seconds_and_gradients_are_of_the_records(compared):
    for runs in compared.runs.values():
        for run in runs:
            assert (
                run.seconds[0] == 0
                and (np.diff(run.seconds) >= 0).all()
                and run.seconds[-1] > 0
            )
            assert run.seconds.shape == run.gradient_norm.shape == run.ifo.shape
    seen, run = [], compared.runs["sarah-c"][0]

    def norm(x):
        return np.linalg.norm(PROBLEM.gradient(x))

    result = minimize(
        PROBLEM,
        "sarah-c",
        random_state=run.seed,
        on_record=lambda r: seen.append(norm(r.x)),
    )
    np.testing.assert_array_equal(run.gradient_norm[: len(seen)], seen)
    assert run.gradient_norm[-1] == norm(result.x)


def test_final_gradients_and_points(compared):
    row, runs = rows(compared)["sarah-c"], compared.runs["sarah-c"]
    assert row["gradient_median"] == np.median([run.gradient_norm[-1] for run in runs])
    for run in runs:
        assert PROBLEM.objective(run.x) == run.fun
    assert (
        "gradient_median" not in compare_solvers(PROBLEM, ["lbfgs"], n_seeds=1).table[0]
    )


def test_given_seeds():
    seeds = np.array([7, 3])
    found = compare_solvers(PROBLEM, ["sarah-c"], n_seeds=seeds, max_ifo=20_000)
    for seed, run in zip((7, 3), found.runs["sarah-c"], strict=True):
        result = minimize(PROBLEM, "sarah-c", random_state=seed, max_ifo=20_000)
        assert run.seed == seed
        np.testing.assert_array_equal(run.x, result.x)


def test_another_scale(compared):
    other = SolverComparison(compared.runs, (1e-3,), compared.optimum, "")
    other.scale = 0.5
    for run in compared.runs["sarah-c"]:
        gaps = other.gap_curve(run)
        np.testing.assert_array_equal(
            gaps, np.maximum(run.loss_curve - compared.optimum, 0)
        )
    ends = [other.gap_curve(run)[-1] for run in compared.runs["sarah-c"]]
    row = rows(other)["sarah-c"]
    assert row["gap_median"] == pytest.approx(np.median(ends) / other.scale)
    firsts = [
        int(np.argmax(other.gap_curve(run) <= 1e-3 * other.scale))
        for run in compared.runs["sarah-c"]
    ]
    passes = [
        run.ifo[k] / 3600
        for k, run in zip(firsts, compared.runs["sarah-c"], strict=True)
    ]
    assert row["passes_to_0.001_median"] == np.median(passes)
    assert f"Relative gaps are divided by {other.scale:.6g}" in str(other)
    assert "Relative gaps are 1 at the start" in str(compared)


def test_streams_are_measured_on_their_expectation():
    def stream(seed):
        rng = np.random.default_rng(seed)
        return StreamingProblem(
            (RETURNS[rng.integers(1200, size=256)] for _ in range(1000)),
            PortfolioProblem,
        )

    arguments = {
        "n_seeds": [0, 1],
        "max_ifo": 30_000,
        "x0": np.ones(4),
        "gradient": True,
    }
    found = compare_solvers(
        stream, ["storm-c", "scgd"], expectation=PROBLEM, **arguments
    )
    assert found.optimum == pytest.approx(
        minimize(PROBLEM, "lbfgs", tol=1e-12).fun, abs=1e-12
    )
    for run in found.runs["storm-c"]:
        result = minimize(
            stream(run.seed),
            "storm-c",
            np.ones(4),
            random_state=run.seed,
            max_ifo=30_000,
        )
        np.testing.assert_array_equal(run.x, result.x)
        np.testing.assert_array_equal(run.ifo, result.ifo)
        assert run.loss_curve[0] == PROBLEM.objective(
            np.ones(4)
        ) and run.fun == PROBLEM.objective(run.x)
        assert (
            run.gradient_norm[-1] == np.linalg.norm(PROBLEM.gradient(run.x))
            and run.pass_ifo == 3600
        )
    first, second = found.runs["storm-c"]
    assert not np.array_equal(first.x, second.x)


def test_another_problem_measures_the_runs():
    other = PortfolioProblem(make_gaussian_returns(300, 4, mean=0.2, random_state=1))
    found = compare_solvers(
        PROBLEM, ["lbfgs"], n_seeds=1, expectation=other, gradient=True
    )
    (run,) = found.runs["lbfgs"]
    np.testing.assert_array_equal(run.x, minimize(PROBLEM, "lbfgs").x)
    assert run.fun == other.objective(run.x) > found.optimum
    assert run.gradient_norm[-1] == np.linalg.norm(other.gradient(run.x))


def test_a_gap_that_is_not_reached_is_infinite_and_a_dash():
    found = compare_solvers(
        PROBLEM,
        ["scgd", "lbfgs"],
        n_seeds=2,
        max_ifo=12_000,
        gaps=(1e-2, 1e-9),
        random_state=0,
    )
    row = rows(found)["scgd"]
    assert all(run.ifo[-1] <= 12_000 for runs in found.runs.values() for run in runs)
    assert row["reached_1e-09"] == 0 and row["passes_to_1e-09_median"] == math.inf
    second = str(found).split("\n\n")[1].splitlines()
    assert second[0].split("  ")[0] == "solver" and second[2].rstrip().endswith("-")


def test_quartiles_where_some_runs_did_not_reach_the_gap(compared):
    short = compared.runs["storm-c"][0]
    never = type(short)(
        **{**vars(short), "loss_curve": np.full(short.ifo.shape, short.loss_curve[0])}
    )
    for runs, median in (([short, short, short, never], True), ([short, never], False)):
        row = SolverComparison({"a": runs}, (1e-3,), compared.optimum, "").table[0]
        assert (
            np.isfinite(row["passes_to_0.001_median"]) == median
            and row["reached_0.001"] == len(runs) - 1
        )
    # from the optimum on
    row = SolverComparison({"a": [never]}, (1e-3,), never.fun, "").table[0]
    assert (
        row["gap_median"] == row["passes_to_0.001_median"] == 0
        and row["reached_0.001"] == 1
    )


def test_the_optimum(compared):
    exact = minimize(PROBLEM, "lbfgs", tol=1e-12).fun
    assert compared.optimum == pytest.approx(exact, abs=1e-14)
    far = compare_solvers(PROBLEM, ["scgd"], n_seeds=1, max_ifo=40_000, random_state=0)
    above = far.runs["scgd"][0].loss_curve.min() - far.optimum
    assert far.optimum_from.startswith(
        "that of L-BFGS with tol=1e-12; the best of the runs, by 'scgd'"
    )
    assert far.optimum_from.endswith(f"is {above:.1e} above it")
    same = compare_solvers(PROBLEM, [LBFGS(tol=1e-12)], n_seeds=1)
    assert same.optimum_from.startswith(
        "that of L-BFGS with tol=1e-12 and the best of the runs"
    )
    short = compare_solvers(
        PROBLEM, ["storm-c"], n_seeds=1, max_ifo=7000, random_state=0
    )
    assert re.fullmatch(
        r"the best of the runs, by 'storm-c'; L-BFGS ended \d\.\de.\d\d above it",
        short.optimum_from,
    )
    given = compare_solvers(
        PROBLEM, ["storm-c"], n_seeds=1, optimum=exact - 1, random_state=0
    )
    assert given.optimum == exact - 1 and given.optimum_from == "what was given"
    assert rows(given)["storm-c"]["reached_0.01"] == 0
    (line,) = given.plot(ax=Figure().add_subplot()).lines_
    assert line.get_ydata()[0] == pytest.approx(given.start - given.optimum)
    assert given.runs["storm-c"][0].gradient_norm is None
    with pytest.warns(
        UserWarning, match="optimum=.* is above an objective that 'storm-c' has seen"
    ):
        compare_solvers(
            PROBLEM, ["storm-c"], n_seeds=1, optimum=exact + 0.01, random_state=0
        )


def test_without_lbfgs_the_best_run_is_the_optimum():
    portfolio = CompositionalPortfolio(constraint="long_only")
    found = compare_solvers(
        portfolio, ["storm-c", "sarah-c"], RETURNS, n_seeds=2, random_state=0
    )
    best = min(run.loss_curve.min() for runs in found.runs.values() for run in runs)
    assert (
        found.optimum == best and "L-BFGS cannot take the problem" in found.optimum_from
    )
    with pytest.raises(ValueError, match="solver 'lbfgs': .*Simplex"):
        compare_solvers(portfolio, ["storm-c", "lbfgs"], RETURNS, n_seeds=1)


def test_warnings_are_collected_and_shown():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare_solvers(
            CompositionalPortfolio(max_iter=5),
            ["sarah-c"],
            RETURNS,
            n_seeds=2,
            random_state=0,
        )
    assert rows(found)["sarah-c"]["warnings"] == 2
    (message, *_), text = found.warnings["sarah-c"], str(found)
    assert (
        "has not converged" in message and sum(found.warnings["sarah-c"].values()) == 2
    )
    assert (
        "sarah-c, 2 x: SARAHCompositional has not converged" in text
        and repr(found) == text
    )
    page = found._repr_html_()
    assert page.count("<table>") == 2 and page.count("<tr>") == 2 * (
        1 + len(found.runs)
    )
    for cell in text.splitlines()[2].split("  "):
        assert html.escape(cell.strip()) in page


def test_labels_instances_and_parameters():
    solvers = [
        "lbfgs",
        AutomaticSTORM(tol=1e-3),
        ("tight", AutomaticSTORM(tol=1e-9)),
        ("named", "scgd"),
    ]
    steps = []
    found = compare_solvers(
        PROBLEM,
        solvers,
        n_seeds=1,
        max_ifo=40_000,
        random_state=0,
        progress=lambda *step: steps.append(step),
    )
    assert steps[3:] == [("named, seed 1 of 1", 0.75), ("the optimum", 1.0)]
    assert list(found.runs) == ["lbfgs", "AutomaticSTORM(tol=0.001)", "tight", "named"]
    assert found.runs["tight"][0].fun <= found.runs["AutomaticSTORM(tol=0.001)"][0].fun
    assert solvers[1].max_ifo is None  # the user's own is left alone
    loose = compare_solvers(
        PROBLEM, ["storm-c"], n_seeds=1, tol=0.1, random_state=0, x0=np.ones(4)
    )
    assert loose.start == PROBLEM.objective(np.ones(4))


def test_bellman_with_lstd():
    log = make_bellman_problem(15, None, gamma=0.8, random_state=0).transitions(
        600, random_state=0
    )
    data = {"next_X": log.next_X, "terminal": log.terminal}
    value = BellmanValueEstimator(gamma=0.8)
    found = compare_solvers(
        value,
        ["storm-c", "lstd"],
        log.X,
        log.y,
        n_seeds=1,
        random_state=0,
        gradient=True,
        **data,
    )
    assert (
        found.runs["lstd"][0].gradient_norm is None
        and 0 < found.runs["lstd"][0].seconds[1] < 60
    )
    assert found.runs["lstd"][0].seconds[0] == found.runs["lstd"][0].ifo[0] == 0
    fitted = value.set_params(
        random_state=found.runs["storm-c"][0].seed, solver="storm-c"
    ).fit(log.X, log.y, **data)
    np.testing.assert_array_equal(
        found.runs["storm-c"][0].loss_curve, fitted.loss_curve_
    )
    assert found.runs["storm-c"][0].record_iterations[-1] == fitted.n_iter_
    assert found.runs["lstd"][0].record_iterations is None
    assert (
        found.runs["storm-c"][0].gradient_norm[-1]
        < 1e-3 * found.runs["storm-c"][0].gradient_norm[0]
    )
    with pytest.raises(ValueError, match="lstd"):
        compare_solvers(PROBLEM, ["lstd"])


def test_passes_of_exact_methods():
    """Newton's method takes two passes for each iteration, moments one in all, and
    values one for each policy."""
    portfolio = CompositionalPortfolio(risk_measure="cvar", constraint="long_only")
    found = compare_solvers(portfolio, ["newton", "auto"], RETURNS[:200], n_seeds=1)
    for run in (found.runs["newton"][0], found.runs["auto"][0]):
        assert run.pass_ifo == 600 and run.n_iter > 3
        assert rows(found)[run.label]["passes_median"] == 2 * run.n_iter
        # at an earlier record
        assert rows(found)[run.label]["passes_to_0.01_median"] < 2 * run.n_iter
    found = compare_solvers(
        CompositionalPortfolio(), ["moments", "lbfgs"], RETURNS[:200], n_seeds=1
    )
    assert rows(found)["moments"]["passes_median"] == 1
    assert [runs[0].pass_ifo for runs in found.runs.values()] == [600, 600]
    rng = np.random.default_rng(0)
    states, action = rng.normal(size=(300, 2)), rng.integers(0, 2, 300)
    data = {"action": action, "next_X": states + 0.3 * action[:, None]}
    values = ActionValueEstimator(gamma=0.5, alpha=1e-2)
    found = compare_solvers(
        values, ["lstd"], states, -(states**2).sum(axis=1), n_seeds=1, **data
    )
    (run,) = found.runs["lstd"]
    assert (
        rows(found)["lstd"]["passes_median"] == run.n_iter > 1 and run.pass_ifo == 601
    )


def test_embeddings_with_their_two_stages():
    X = np.random.RandomState(0).randn(60, 5)
    found = compare_solvers(
        SNEEmbedding(perplexity=10),
        ["storm-c"],
        X,
        n_seeds=1,
        random_state=0,
        gradient=True,
    )
    (run,) = found.runs["storm-c"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = SNEEmbedding(perplexity=10, random_state=run.seed).fit(X)
    np.testing.assert_array_equal(run.ifo, fitted.ifo_)
    np.testing.assert_array_equal(run.loss_curve, fitted.loss_curve_)
    np.testing.assert_array_equal(run.record_iterations, fitted.record_iterations_)
    assert run.objective_label == "KL divergence" and (np.diff(run.seconds) >= 0).all()
    assert np.isfinite(run.gradient_norm).all()
    assert (
        found.optimum == run.loss_curve.min()
        and found.optimum_from == "the best of the runs, by 'storm-c'"
    )


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((PROBLEM, {"scgd"}), {}, "solvers must be a list"),
        ((PROBLEM, ["scgd", "scgd"]), {}, "labels that differ, got 'scgd' twice"),
        (
            (PROBLEM, ["scgd"], RETURNS),
            {},
            "X and y must be None for a problem, got array",
        ),
        (
            (CompositionalPortfolio(), ["scgd"]),
            {},
            "X must be given for CompositionalPortfolio",
        ),
        (
            (PortfolioProblem, ["scgd"]),
            {},
            r"got the class: give an instance, PortfolioProblem\(...\)",
        ),
        ((PROBLEM, ["scgd"]), {"nonsense": 1}, "nonsense"),
        (
            (StreamingProblem([RETURNS], PortfolioProblem), ["storm-c"]),
            {},
            "must not be a stream",
        ),
        (
            (lambda seed: PROBLEM, ["scgd"]),
            {},
            "expectation must be given for a function",
        ),
        (
            (PROBLEM, ["scgd"]),
            {"expectation": RETURNS},
            "expectation must be a CompositionalProblem, got array",
        ),
        (
            (CompositionalPortfolio(), ["scgd"], RETURNS),
            {"expectation": PROBLEM},
            "expectation must be None for Comp",
        ),
        (
            (PROBLEM, ["scgd"]),
            {"n_seeds": []},
            "n_seeds must be an integer >= 1 or a sequence of at least one seed",
        ),
        (
            (PROBLEM, ["scgd"]),
            {"n_seeds": [0, -1]},
            "n_seeds must be an integer >= 0, got -1",
        ),
        ((PROBLEM, ["scgd"]), {"gaps": (0, 0.1)}, "gaps must be a finite number > 0"),
    ],
)
def test_errors(args, kwargs, message):
    with pytest.raises(ValueError, match=message):
        compare_solvers(*args, **kwargs)


def test_to_frame(compared):
    pd = pytest.importorskip("pandas")
    frame = compared.to_frame()
    assert isinstance(frame, pd.DataFrame) and list(frame.index) == [
        "storm-c",
        "sarah-c",
        "lbfgs",
    ]
    assert (
        frame.loc["lbfgs", "objective_median"]
        == rows(compared)["lbfgs"]["objective_median"]
    )
    assert frame.loc["lbfgs", "stop_reasons"] == "converged"


def test_plot(compared):
    display = compared.plot(x="seconds", y="gradient", ax=Figure().add_subplot())
    assert [line.get_label() for line in display.lines_] == [
        "storm-c",
        "sarah-c",
        "lbfgs",
    ]
    assert len(display.bands_) == 3 and np.isfinite(display.lines_[0].get_ydata()).all()
