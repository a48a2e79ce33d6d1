"""Tests of the experiments of the command line: portfolio, streaming, bellman and
sne."""

import re
import signal
import tempfile

import numpy as np
import pytest
from matplotlib import image
from sklearn.datasets import load_iris

from sk_stormc import minimize
from sk_stormc.__main__ import main
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.compare import solvers
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.problems import PortfolioProblem, SNEProblem
from sk_stormc.reproduce import bellman, sne, streaming
from sk_stormc.reproduce.claims import published_verdicts
from sk_stormc.reproduce.experiment import run
from sk_stormc.reproduce.portfolio import METHODS, PUBLISHED, cases, minimum

RETURNS = make_gaussian_returns(60, 3, mean=0.5, random_state=0).round(3)
COLUMNS = ["data set", "method", "IFO", "Phi - Phi*", "|grad Phi|"]
COLUMNS += ["passes to 1e-3", "seconds"]
IRIS, KINDS = load_iris(return_X_y=True)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def reproduce(*args):
    return main(["reproduce", *map(str, args)])


def table(out):
    """The rows of the printed table, as dictionaries."""
    lines = out.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("---"))
    lines = lines[rule - 1 : rule] + lines[rule + 1 : lines.index("", rule)]
    header, *rows = (re.split(r"\s{2,}", line) for line in lines)
    return [dict(zip(header, row, strict=True)) for row in rows]


# --- the command
# --------------------------------------------------------------------------------------


def check_verdicts(out, rows):
    """The verdicts on the claims below the table are those of its numbers."""
    gaps = {(row["data set"], row["method"]): float(row["Phi - Phi*"]) for row in rows}
    verdicts = re.findall(r"^(.*confirmed[^:]*): .* lower than (.*)\. cond", out, re.M)
    assert len(verdicts) == 2
    for word, others in verdicts:
        methods = others.lower().split(" and ")
        lower = all(
            gaps[name, "storm-c-paper"] < gaps[name, method]
            for name in ("condition number 4", "condition number 20")
            for method in methods
        )
        assert (word == "confirmed at the published constants") == lower
        assert lower or word == "not confirmed"
    for words in ("IFO: calls of an oracle", "passes to 1e-3: IFO to", "Cite: Yuan"):
        assert f"\n{words}" in out


def test_verdicts_need_the_data_and_the_methods_of_the_paper(capsys):
    np.save("mine.npy", RETURNS)
    few = ["--ifo", 10_000, "--seeds", 1, "--methods"]
    for args in (["storm-c-paper,scgd"], ["lbfgs", "--data", "mine.npy"]):
        assert reproduce("portfolio", *few, *args) == 0
        out = capsys.readouterr().out
        assert "confirmed" not in out and "Cite: Yuan" in out


def test_a_claim_that_fails_is_not_confirmed():
    """With the runs of two methods exchanged."""
    returns = {"a": make_gaussian_returns(2000, 6, mean=4.0, random_state=0)}
    found = run(cases(PUBLISHED, returns), 30_000, [0])
    assert published_verdicts("portfolio", found)[0].startswith("confirmed at the")
    runs = found["a"].runs
    runs["scgd"], runs["storm-c-paper"] = runs["storm-c-paper"], runs["scgd"]
    assert published_verdicts("portfolio", found)[0].startswith("not confirmed: ")


def test_the_table_and_the_picture(capsys, tmp_path):
    assert reproduce("portfolio", "--ifo", 12_000, "--seeds", 1) == 0
    out, err = capsys.readouterr()
    rows, names = table(out), ("condition number 4", "condition number 20")
    assert list(rows[0]) == COLUMNS
    expected = [(name, method) for name in names for method in METHODS]
    assert [(row["data set"], row["method"]) for row in rows] == expected
    assert all(0 < int(row["IFO"]) <= 12_000 for row in rows)
    assert "One seed" in out
    assert "condition number 20, lbfgs, seed 1 of 1" in err
    check_verdicts(out, rows)
    written = re.search(r"Picture written to (portfolio\.png)", out)[1]
    # where the command was run
    assert list(tmp_path.glob("**/*.png")) == [tmp_path / "portfolio.png"]
    picture = image.imread(written)
    assert min(picture.shape[:2]) > 500 and picture.std() > 0.1


def test_medians_over_seeds_and_passes_to_the_target(capsys):
    returns = make_gaussian_returns(1000, 4, mean=1.0, random_state=1)
    np.savez("mine.npz", returns=returns)
    args = "--data", "mine.npz", "--methods", "storm-c,scgd", "--ifo", 100_000
    assert reproduce("portfolio", *args, "--seeds", 3) == 0
    out = capsys.readouterr().out
    automatic, scgd = table(out)
    assert "Medians over 3 seeds" in out
    assert "step sizes were tuned for the paper's Gaussian data" in out
    problem, own = PortfolioProblem(returns), {"max_ifo": 100_000, "tol": 1e-6}
    best, passes, ifo = minimum(problem), [], []
    for seed in range(3):
        result = minimize(problem, "storm-c", np.ones(4), random_state=seed, **own)
        near = np.argmax(result.loss_curve - best <= 1e-3 * abs(best))
        passes.append(result.ifo[near] / 3000)
        ifo.append(result.ifo[-1])
    found = float(automatic["passes to 1e-3"])
    assert found == pytest.approx(np.median(passes), abs=0.051)
    assert int(automatic["IFO"]) == np.median(ifo)
    assert scgd["passes to 1e-3"] == "-"


def test_a_diverging_method_is_named(capsys):
    np.savez("mine.npz", returns=1e4 * RETURNS)
    args = "--data", "mine.npz", "--methods", "scgd,lbfgs", "--ifo", 200_000
    assert reproduce("portfolio", *args, "--seeds", 2, "--out", "b") == 0
    out = capsys.readouterr().out
    assert "Picture written to b.png" in out
    assert "mine, scgd: overflowed from 2 of 2 seeds" in out
    assert "mine, lbfgs: overflowed" not in out
    assert np.isfinite(float(table(out)[0]["Phi - Phi*"]))


@pytest.mark.parametrize(
    "args, message",
    [
        ("portfolio --methods storm-c,nonsense", "some of .*storm-c-paper.*; got 'non"),
        ("portfolio --ifo 0", "--ifo: expected an integer >= 1, got '0'"),
        ("portfolio --out nowhere/a.png", "existing directory, got 'nowhere/a.png'"),
        ("portfolio --out a.bmp", "expected a .png, .pdf, .svg file"),
        ("portfolio --data missing.csv", "No such file.*missing.csv"),
        ("portfolio --data few.npz", r"\(5 periods, 8 assets\) is unbounded below"),
        ("portfolio --ifo 3 --methods storm-c", "first batch of storm-c.*got 3"),
        ("sne --ifo 5000", "--ifo must pay for at least ten iterations"),
        ("nonsense", r"'nonsense' \(choose from"),
        (
            "all --out nowhere/b",
            "expected a directory, or a new one in an existing one",
        ),
        ("", "EXPERIMENT"),
    ],
)
def test_errors_are_one_line(capsys, args, message):
    np.savez("few.npz", returns=np.random.RandomState(0).randn(5, 8))
    try:
        code = reproduce(*args.split())
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    last = err.splitlines()[-1]
    assert code == 2 and out == "" and last.startswith("error: ")
    assert err.count("error") == 1 and "Traceback" not in err and "usage" not in err
    assert re.search(message, last)


def test_control_c_ends_with_one_line(monkeypatch, capsys):
    def stop(record):
        signal.raise_signal(signal.SIGINT)

    def interrupted(*args, **kwargs):
        return minimize(*args, on_record=stop, **kwargs)

    monkeypatch.setattr(solvers, "minimize", interrupted)
    np.savez("mine.npz", returns=RETURNS)
    assert reproduce("portfolio", "--data", "mine.npz") == 130
    out, err = capsys.readouterr()
    assert (
        out == "" and err.splitlines()[-1] == "interrupted" and "Traceback" not in err
    )


# --- the runs
# --------------------------------------------------------------------------------------


def test_minimum_is_the_closed_form():
    m, S = RETURNS.mean(0), np.cov(RETURNS.T, bias=True)
    for scale in (1.0, np.array([1.0, 1e-5, 1e4])):  # units of the assets do not matter
        for risk_aversion in (1.0, 3.0):
            found = minimum(PortfolioProblem(RETURNS * scale, risk_aversion))
            expected = -m @ np.linalg.solve(S, m) / (4 * risk_aversion)
            assert found == pytest.approx(expected, rel=1e-9)
    # a repeated and an empty asset
    more = np.column_stack([RETURNS, RETURNS[:, 0], np.zeros(len(RETURNS))])
    expected = minimum(PortfolioProblem(RETURNS))
    assert minimum(PortfolioProblem(more)) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="unbounded below"):
        minimum(PortfolioProblem(np.column_stack([RETURNS, np.full(60, 0.01)])))


# --- streams
# --------------------------------------------------------------------------------------


def test_the_gap_of_a_stream_is_that_of_its_expectation():
    mean, S = streaming.make_market(34.0, n_assets=4)
    (case,) = streaming.cases({"storm-c-paper": {"tol": 0}}, {"market": (mean, S)})
    x = np.array([0.1, -0.2, 0.3, 0.4])
    assert case.expectation.objective(x) == pytest.approx(-mean @ x + x @ S @ x)
    assert case.optimum == pytest.approx(-mean @ np.linalg.solve(S, mean) / 4)
    found, again = (run([case], 9000, [3])["market"] for _ in range(2))
    (one,), (other,) = (some.runs["storm-c-paper"] for some in (found, again))
    assert one.seed == 3 and one.ifo[-1] == 9000
    gap = case.expectation.objective(np.ones(4)) - case.optimum
    assert found.gap_curve(one)[0] == pytest.approx(gap)
    assert one.fun == case.expectation.objective(one.x)
    np.testing.assert_array_equal(one.loss_curve, other.loss_curve)


def test_returns_as_a_stream(monkeypatch):
    R = make_gaussian_returns(50, 3, mean=0.1, random_state=0)
    R[7, 1] = np.nan
    fetched = []

    def fetch(region, sort):
        fetched.append((region, sort))
        return type("Bunch", (), {"returns": R / 100})

    monkeypatch.setattr(streaming, "fetch_french_portfolios", fetch)
    sets = streaming.french_sets()
    assert fetched == [(region, "OP") for region in streaming.REGIONS]
    np.testing.assert_allclose(sets["Japan"], np.delete(R, 7, axis=0))
    assert next(streaming.cases({"storm-c": {}}, sets)).expectation.n_inner == 49


def test_the_command_for_streams(capsys, tmp_path):
    args = "--methods", "storm-c,storm-c-paper", "--seeds", 1, "--out", "a"
    assert reproduce("streaming", "--ifo", 10_000, *args) == 0
    out = capsys.readouterr().out
    assert "curvature 80  storm-c-paper" in out and "passes" not in out
    assert (tmp_path / "a.png").stat().st_size > 1000


# --- Bellman
# --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_for_bellman(capsys, tmp_path):
    args = "--methods", "storm-c-paper,vrsc-pg", "--seeds", 1, "--out", "b.png"
    assert reproduce("bellman", "--ifo", 3000, *args) == 0
    out, _ = capsys.readouterr()
    assert "n Phi: 47.8389 at the minimum (least squares), 100.0195 at w_0." in out
    assert "checkpoint f 1    storm-c-paper" in out
    assert "checkpoint f 100  vrsc-pg" in out
    assert "momentum .02      storm-c-paper" in out
    assert image.imread(tmp_path / "b.png").std() > 0.05


def test_bellman_cases():
    model = make_bellman_problem(20, 5, random_state=0)
    results = run(bellman.cases(bellman.METHODS, model), 10_000, [0])

    def cases_of(method):
        return {case for case in results if method in results[case].runs}

    assert cases_of("vrsc-pg") == {"checkpoint f 1", "checkpoint f 100"}
    assert cases_of("storm-c-paper") == {"checkpoint f 1", "momentum .02"}
    first = results["checkpoint f 1"]
    for method in ("storm-c", "lbfgs"):
        gaps = first.gap_curve(first.runs[method][0])
        assert gaps[-1] < 1e-6 * gaps[0] and gaps[0] == pytest.approx(first.scale)
    # a hundred components of f at a checkpoint are charged, so that the budget pays for
    # fewer iterations
    dear = results["checkpoint f 100"].runs["vrsc-pg"][0]
    assert dear.n_iter < first.runs["vrsc-pg"][0].n_iter
    for found in results.values():
        assert all(one.ifo[-1] <= 10_000 for (one,) in found.runs.values())


# --- SNE
# --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_for_sne(capsys, tmp_path):
    np.savez("iris.npz", X=IRIS, y=KINDS)
    args = "--data", "iris.npz", "--seeds", 1, "--out", "a.png"
    assert reproduce("sne", "--ifo", 8000, *args) == 0
    out, _ = capsys.readouterr()
    names = (*sne.METHODS, sne.RANK_ONE)
    rows = [line for line in out.splitlines() if line.startswith(names)][: len(names)]
    assert [row.split("  ")[0] for row in rows] == list(names)
    assert "iris.npz: 150 rows x 4 columns" in out and "stays on a line" in out
    assert "Pictures written to a.png and a_embedding.png" in out
    for name in ("a.png", "a_embedding.png"):
        picture = image.imread(tmp_path / name)
        assert min(picture.shape[:2]) > 300 and picture.std() > 0.05


def test_a_run_of_sne_has_the_exact_divergence_and_gradient():
    cases = sne.cases({"storm-c": {"tol": 0}}, IRIS, 2, 50_000)
    (found,) = run(cases, 50_000, [0]).values()
    (one,), problem = found.runs["storm-c"], SNEProblem(perplexity_affinities(IRIS, 30))
    ends = sne.starts(IRIS, 2)[0].ravel(), one.x
    assert len(one.gradient_norm) == len(one.ifo) > 10
    gaps = found.gap_curve(one)[[0, -1]] / found.scale
    expected = [problem.divergence(x) for x in ends]
    np.testing.assert_allclose(gaps, expected, rtol=1e-4)
    expected = [np.linalg.norm(problem.gradient(x)) for x in ends]
    np.testing.assert_allclose(one.gradient_norm[[0, -1]], expected, rtol=1e-3)
