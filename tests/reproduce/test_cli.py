"""Tests of the command line and of the experiments behind it."""

import re

import numpy as np
import pytest
from helpers import few_of
from matplotlib import image

from sk_stormc import __version__, minimize
from sk_stormc.__main__ import main
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem
from sk_stormc.reproduce import EXPERIMENTS, portfolio, runner
from sk_stormc.reproduce.portfolio import METHODS, minimum, published_sets, run_portfolio
from sk_stormc.reproduce.returns_file import read_returns
from sk_stormc.solvers import SOLVERS

RETURNS = make_gaussian_returns(60, 3, mean=0.5, random_state=0).round(3)
COLUMNS = ["data set", "method", "IFO", "Phi - Phi*", "|grad Phi|", "passes to 1e-3", "seconds"]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def reproduce(*args):
    return main(["reproduce", "portfolio", *map(str, args)])


def table(out):
    """The rows of the printed table, as dictionaries."""
    lines = out.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("---"))
    rows = [re.split(r"\s{2,}", line) for line in lines[rule - 1 : lines.index("", rule)] if line[0] != "-"]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def fails(capsys, *args):
    """The one line on stderr of a call that must end with code 2."""
    try:
        code = main(list(map(str, args)))
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    last = err.splitlines()[-1]
    assert code == 2 and out == ""
    assert last.startswith("error: ") and err.count("error") == 1 and "Traceback" not in err and "usage" not in err
    return last


def save_csv(path, header=True, dates=None, rows=RETURNS):
    lines = [
        ",".join(([str(dates[i])] if dates is not None else []) + [repr(float(v)) for v in row])
        for i, row in enumerate(rows)
    ]
    if header:
        names = ["Date"] if dates is not None else []
        lines.insert(0, ",".join([*names, "A", "B", "C"]))
    path.write_text("\n".join(lines) + "\n")
    return path


# --- the command --------------------------------------------------------------------------------------


def test_the_table_and_the_picture(capsys, tmp_path):
    assert reproduce("--ifo", 24_000, "--seeds", 1) == 0
    out, err = capsys.readouterr()
    rows = table(out)
    assert list(rows[0]) == COLUMNS
    expected = [(name, method) for name in ("condition number 4", "condition number 20") for method in METHODS]
    assert [(row["data set"], row["method"]) for row in rows] == expected
    assert all(0 < int(row["IFO"]) <= 24_000 for row in rows)
    assert "One seed" in out and "Picture written to portfolio.png" in out
    assert "condition number 20, lbfgs, seed 1 of 1" in err
    picture = image.imread(tmp_path / "portfolio.png")
    assert min(picture.shape[:2]) > 500 and picture.std() > 0.1


@pytest.mark.slow
def test_the_numbers_are_those_of_minimize(capsys):
    assert reproduce("--ifo", 30_000, "--seeds", 1, "--methods", "storm-c-paper,sarah-c") == 0
    rows = table(capsys.readouterr().out)
    R = published_sets()["condition number 20"]
    problem = PortfolioProblem(R)
    m, S = R.mean(0), np.cov(R.T, bias=True)
    for row, name in zip(rows[2:], ("storm-c-paper", "sarah-c"), strict=True):
        result = minimize(problem, name, np.ones(200), random_state=0, max_ifo=30_000, **METHODS[name])
        x = result.x
        gap = -m @ x + x @ S @ x + m @ np.linalg.solve(S, m) / 4
        assert int(row["IFO"]) == result.ifo[-1]
        assert float(row["Phi - Phi*"]) == pytest.approx(gap, rel=1e-3)
        assert float(row["|grad Phi|"]) == pytest.approx(np.linalg.norm(2 * S @ x - m), rel=1e-3)


def test_medians_over_seeds_and_passes_to_the_target(capsys):
    np.savez("mine.npz", returns=make_gaussian_returns(3000, 4, mean=1.0, random_state=1))
    assert reproduce("--data", "mine.npz", "--ifo", 300_000, "--seeds", 3, "--methods", "storm-c,scgd") == 0
    out = capsys.readouterr().out
    automatic, scgd = table(out)
    assert "Medians over 3 seeds" in out
    problem = PortfolioProblem(np.load("mine.npz")["returns"])
    best, passes, ifo = minimum(problem), [], []
    for seed in range(3):
        result = minimize(problem, "storm-c", np.ones(4), random_state=seed, max_ifo=300_000, tol=1e-6)
        near = np.argmax(result.loss_curve - best <= 1e-3 * abs(best))
        passes.append(result.ifo[near] / 9000)
        ifo.append(result.ifo[-1])
    assert float(automatic["passes to 1e-3"]) == pytest.approx(np.median(passes), abs=0.051)
    assert int(automatic["IFO"]) == np.median(ifo)
    assert scgd["passes to 1e-3"] == "-"


def test_a_diverging_method_is_named(capsys):
    np.savez("mine.npz", returns=1e4 * RETURNS)
    assert reproduce("--data", "mine.npz", "--ifo", 200_000, "--seeds", 2, "--methods", "scgd,lbfgs") == 0
    out = capsys.readouterr().out
    assert "mine, scgd: overflowed from 2 of 2 seeds" in out and "mine, lbfgs: overflowed" not in out
    assert np.isfinite(float(table(out)[0]["Phi - Phi*"]))


@pytest.mark.parametrize(
    "name, written", few_of([("a.png", "a.png"), ("b", "b.png"), ("c.pdf", "c.pdf"), ("d.svg", "d.svg")], 0, 1)
)
def test_out(capsys, tmp_path, name, written):
    assert reproduce("--ifo", 300, "--seeds", 1, "--methods", "lbfgs", "--out", tmp_path / name) == 0
    assert f"Picture written to {tmp_path / written}" in capsys.readouterr().out
    assert (tmp_path / written).stat().st_size > 1000
    assert [path.name for path in tmp_path.iterdir()] == [written]


@pytest.mark.slow
def test_published_constants_are_named_as_such_on_other_data(capsys):
    np.savez("mine.npz", returns=RETURNS)
    assert reproduce("--data", "mine.npz", "--ifo", 360, "--seeds", 1, "--methods", "scgd") == 0
    assert "published step sizes were tuned for the paper's Gaussian data" in capsys.readouterr().out
    assert reproduce("--ifo", 6000, "--seeds", 1, "--methods", "scgd") == 0
    assert "were tuned for" not in capsys.readouterr().out


def test_basis_points_are_mentioned(capsys):
    np.savez("mine.npz", returns_bp=(1e4 * RETURNS).astype(int), dates=np.arange(60))
    assert reproduce("--data", "mine.npz", "--ifo", 360, "--seeds", 1, "--methods", "lbfgs") == 0
    out = capsys.readouterr().out
    assert "mine.npz: 60 periods, 3 assets, no dates, unit: percent (guessed), returns_bp divided by 10,000" in out


@pytest.mark.parametrize(
    "args, message",
    [
        (["--methods", "storm-c,nonsense"], "methods must be some of .*storm-c-paper.*; got 'nonsense'"),
        (["--methods", ""], "methods must be some of"),
        (["--ifo", "0"], "--ifo: expected an integer >= 1, got '0'"),
        (["--ifo", "1e6"], "--ifo: expected an integer >= 1, got '1e6'"),
        (["--seeds", "-1"], "--seeds: expected an integer >= 1, got '-1'"),
        (["--out", "nowhere/a.png"], "existing directory, got 'nowhere/a.png'"),
        (["--out", "a.bmp"], "expected a .png, .pdf, .svg file"),
        (["--out", "."], "expected a .png, .pdf, .svg file"),
        (["--data", "missing.csv"], "No such file.*missing.csv"),
        (["--data", "returns.doc"], "returns.doc: expected a file named .npz, .npy, .csv, .tsv, .txt, .*or .xls"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_errors_are_one_line(capsys, args, message):
    assert re.search(message, fails(capsys, "reproduce", "portfolio", *args))


def test_an_unknown_experiment_and_a_missing_command(capsys):
    assert "'nonsense' (choose from" in fails(capsys, "reproduce", "nonsense")
    assert "COMMAND" in fails(capsys)


def test_unbounded_below(capsys):
    np.savez("few.npz", returns=np.random.RandomState(0).randn(5, 8))
    message = fails(capsys, "reproduce", "portfolio", "--data", "few.npz")
    assert "(5 periods, 8 assets) is unbounded below" in message and "more periods than assets" in message


@pytest.mark.parametrize(
    "args, text", [(["--version"], f"sk_stormc {__version__}"), (["reproduce", "portfolio", "-h"], "--ifo N")]
)
def test_version_and_the_help_of_an_experiment(capsys, args, text):
    with pytest.raises(SystemExit, match="^0$"):
        main(args)
    assert text in capsys.readouterr().out


def test_every_experiment_has_what_the_command_line_asks_for():
    for experiment in EXPERIMENTS.values():
        assert set(experiment.METHODS) <= set(SOLVERS) and experiment.MAX_IFO >= 1
        assert callable(experiment.report) and callable(experiment.add_arguments)


def test_the_first_line_comes_before_the_first_run(monkeypatch, capsys):
    def stop(*args, **kwargs):
        raise ValueError(capsys.readouterr().err)

    monkeypatch.setattr(portfolio, "minimum", stop)
    assert reproduce("--methods", "lbfgs") == 2
    assert capsys.readouterr().err.startswith("error:   0 %  condition number 4, Phi*")


# --- the runs -----------------------------------------------------------------------------------------


def test_curves_begin_at_the_start_and_end_at_the_returned_point():
    problem = PortfolioProblem(make_gaussian_returns(2000, 3, mean=1.0, random_state=0))
    calls = []
    runs = run_portfolio(
        {"mine": problem.returns},
        ["storm-c-paper", "lbfgs"],
        max_ifo=20_000,
        n_seeds=2,
        progress=lambda text, fraction: calls.append((text, fraction)),
    )
    assert [(run.method, run.seed) for run in runs] == [(m, s) for m in ("storm-c-paper", "lbfgs") for s in (0, 1)]
    start = problem.objective(np.ones(3)) - minimum(problem)
    for run in runs:
        result = minimize(
            problem, run.method, np.ones(3), random_state=run.seed, max_ifo=20_000, **METHODS[run.method]
        )
        np.testing.assert_array_equal(run.ifo, result.ifo)
        np.testing.assert_allclose(run.gap, np.maximum(result.loss_curve - minimum(problem), 0), atol=1e-12)
        assert run.gap[0] == pytest.approx(start) and run.stop_reason == result.stop_reason
        assert run.gradient_norm[-1] == np.linalg.norm(problem.gradient(result.x))
    assert calls[0] == ("mine, Phi*", 0.0) and calls[-1][0] == "mine, lbfgs, seed 2 of 2"
    fractions = [fraction for _, fraction in calls]
    assert fractions == sorted(fractions) and 0.75 <= fractions[-1] <= 1


def test_rounding_makes_no_negative_gap():
    case = runner.Case("mine", PortfolioProblem(RETURNS), np.ones(3), 1e9, 1.0)
    (run,) = runner.run_methods([case], {"lbfgs": {}}, max_ifo=1800, n_seeds=1)
    assert (run.gap == 0).all() and run.passes == 0


def test_the_time_of_the_gradients_is_not_the_method_s(monkeypatch):
    clock = [0.0]

    class Slow(PortfolioProblem):
        def gradient(self, x):
            clock[0] += 1000.0
            return super().gradient(x)

        def objective(self, x):
            clock[0] += 1.0
            return super().objective(x)

    monkeypatch.setattr(runner.time, "perf_counter", lambda: clock[0])
    problem = Slow(RETURNS)
    case = runner.Case("mine", problem, np.ones(3), 0.0, 1.0)
    (run,) = runner.run_methods([case], {"scgd": METHODS["scgd"]}, max_ifo=1800, n_seeds=1)
    assert len(run.ifo) > 3
    assert len(run.ifo) <= run.seconds < 1000  # Phi is counted, the gradients are not


@pytest.mark.parametrize("name, value", [("max_ifo", 0), ("max_ifo", 1.5), ("n_seeds", 0)])
def test_run_portfolio_checks_its_numbers(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1"):
        run_portfolio({"mine": RETURNS}, ["lbfgs"], **{name: value})


def test_the_published_methods_and_sets_are_all_there():
    assert list(METHODS) == ["scgd", "asc-pg", "vrsc-pg", "sarah-c", "storm-c-paper", "storm-c", "lbfgs"]
    assert [R.shape for R in published_sets().values()] == [(2000, 200)] * 2


# --- Phi* ---------------------------------------------------------------------------------------------


def test_minimum_is_the_closed_form():
    m, S = RETURNS.mean(0), np.cov(RETURNS.T, bias=True)
    for scale in (1.0, np.array([1.0, 1e-5, 1e4])):  # units of the assets do not matter
        for risk_aversion in (1.0, 3.0):
            problem = PortfolioProblem(RETURNS * scale, risk_aversion)
            assert minimum(problem) == pytest.approx(-m @ np.linalg.solve(S, m) / (4 * risk_aversion), rel=1e-9)


def test_minimum_with_a_repeated_and_an_empty_asset():
    more = np.column_stack([RETURNS, RETURNS[:, 0], np.zeros(len(RETURNS))])
    assert minimum(PortfolioProblem(more)) == pytest.approx(minimum(PortfolioProblem(RETURNS)), rel=1e-9)


@pytest.mark.parametrize(
    "returns",
    [np.column_stack([RETURNS, np.full(60, 0.01)]), RETURNS[:2], RETURNS[:1]],
    ids=["cash", "two", "one"],
)
def test_minimum_where_there_is_none(returns):
    with pytest.raises(ValueError, match="unbounded below"):
        minimum(PortfolioProblem(returns))


# --- the user's files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["returns", "anything"])
def test_npz(name, tmp_path):
    np.savez("mine.npz", dates=np.arange(60), **{name: RETURNS.astype("f4")})
    returns, note = read_returns(tmp_path / "mine.npz")
    assert returns.dtype == float and note == ""
    np.testing.assert_array_equal(returns, RETURNS.astype("f4"))


def test_npz_prefers_returns_to_basis_points():
    np.savez("both.npz", returns_bp=RETURNS * 1e4, returns=RETURNS, more=RETURNS + 1)
    np.testing.assert_array_equal(read_returns("both.npz")[0], RETURNS)
    np.savez("bp.npz", returns_bp=np.array([[1, -50], [200, 3]], dtype=np.int16), more=RETURNS)
    returns, note = read_returns("bp.npz")
    np.testing.assert_allclose(returns, [[1e-4, -5e-3], [2e-2, 3e-4]])
    assert note == "returns_bp divided by 10,000"


@pytest.mark.parametrize(
    "arrays, message",
    [
        (
            {"a": RETURNS, "b": RETURNS},
            r"expected an array 'returns' or one two-dim.*found a \(60, 3\), b \(60, 3\)",
        ),
        ({"a": np.arange(3)}, r"expected an array 'returns'.*found a \(3,\)"),
        ({"returns": np.arange(3)}, r"expected 'returns' to hold real numbers, of shape"),
        ({"returns": np.array([["a", "b"]])}, "expected 'returns' to hold real numbers"),
        ({"returns": np.zeros((0, 3))}, "expected 'returns' to hold real numbers"),
        ({"returns": np.array([[None]])}, "expected a .npz file of numpy arrays"),
        (
            {"returns": np.array([[1, 2], [3, np.nan]])},
            r".*column '2' has 1 missing .* of 2 \(the first is period 2\)",
        ),
    ],
)
def test_npz_errors(arrays, message):
    np.savez("mine.npz", **arrays)
    with pytest.raises(ValueError, match="mine.npz: " + message):
        read_returns("mine.npz")


def test_npz_that_is_none(tmp_path):
    (tmp_path / "mine.npz").write_text("A,B\n1,2\n")
    with pytest.raises(ValueError, match="mine.npz: expected a .npz file of numpy arrays"):
        read_returns("mine.npz")


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("dates", [None, "1990-07-02", "02.07.1990", 19900702, 199007])
def test_csv(tmp_path, header, dates):
    path = save_csv(tmp_path / "mine.csv", header, None if dates is None else [dates] * 60)
    returns, note = read_returns(path)
    np.testing.assert_array_equal(returns, RETURNS)
    assert note == ""


def test_csv_as_pandas_and_spreadsheets_write_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(RETURNS, columns=["A", "B", "C"])
    frame.to_csv("index.csv", encoding="utf-8-sig")
    frame.set_index(pandas.date_range("2020-01-01", periods=60)).to_csv("dates.csv")
    for name in ("index.csv", "dates.csv"):
        np.testing.assert_array_equal(read_returns(name)[0], RETURNS)


def test_csv_of_one_asset(tmp_path):
    for text in ("A\n0.5\n-1\n", "0.5\n-1\n", "2020-01-01,0.5\n2020-01-02,-1\n", "day,A\nMon,0.5\nTue,-1\n\n"):
        (tmp_path / "one.csv").write_text(text)
        np.testing.assert_array_equal(read_returns("one.csv")[0], [[0.5], [-1]])


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "expected a column of numbers for each asset.*found no line"),
        ("A,B\n", ".*found no row of numbers"),
        ("A,B\n1,2\n3\n", "line 3: expected 2 columns, found 1"),
        ("A,B\n1,2\n3,four\n", "line 3: expected a column of numbers.*found 'four' in column 'B'"),
        (
            "Date,A,B\n2020-01-01,1,\n2020-01-02,2,1\n",
            r".*column 'B' has 1 missing .* of 2 \(the first is period 1\)",
        ),
        ("A,B\n1,2\n3,NaN\n", r".*column 'B' has 1 missing"),
        ("A,B\n1,2\n-inf,1\n", r".*column 'A' has 1 missing or infinite"),
        ("A,B\n1,2\n1,-99.99\n", r".*column 'B' has 1 missing"),
    ],
)
def test_csv_errors(tmp_path, text, message):
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(ValueError, match="mine.csv[:,] " + message):
        read_returns("mine.csv")


def test_csv_that_is_no_text(tmp_path):
    (tmp_path / "mine.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="mine.csv: expected comma-separated text"):
        read_returns("mine.csv")
