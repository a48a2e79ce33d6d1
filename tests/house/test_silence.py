"""No wrong answer in silence: defaults that converge or say that they do not, and errors that name the parameter."""

import os
import re
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers import few_of, slow_but
from scipy.optimize import minimize as scipy_minimize
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding, minimize
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.penalties import Box, Simplex
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import SCGD, SOLVERS, SARAHCompositional

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def heavy_tails(n=3000, d=5, seed=0):
    """Daily returns in percent with rare large losses that come together."""
    rng = np.random.default_rng(seed)
    market = rng.standard_t(3, size=(n, 1))
    return 0.8 * market * rng.uniform(0.6, 1.4, d) + 0.6 * rng.standard_t(4, size=(n, d)) + 0.05


def japan():
    path = DATA / "french25_Japan_OP.npz"
    if not path.exists():
        pytest.skip("the published return sets are not at ../shared/data")
    with np.load(path) as file:
        return file["returns_bp"] / 100.0


def said(work):
    """What a piece of work returns, and the ConvergenceWarnings that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = work()
    return found, [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]


# entropic risk in any unit


def entropic_optimum(R, lam):
    """The least entropic risk on the simplex, by SLSQP from several starts."""
    d = R.shape[1]

    def risk(w):
        e = -lam * (R @ w)
        top = logsumexp(e)
        return (top - np.log(len(R))) / lam, -np.exp(e - top) @ R

    starts = [np.full(d, 1 / d), *np.eye(d)]
    sums = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(d)}
    options = {"ftol": 1e-14, "maxiter": 1000}
    found = [
        scipy_minimize(risk, w, jac=True, bounds=[(0, 1)] * d, constraints=sums, method="SLSQP", options=options)
        for w in starts
    ]
    return min(result.fun for result in found)


UNITS = [(1, float, 1), (100, float, 1), (1, np.float32, 5), (100, np.float32, 1), (1e-4, float, 1e4), (1, float, 50)]


@pytest.mark.parametrize(("unit", "dtype", "lam"), few_of(UNITS, 1, 2, 5))
def test_entropic_risk_in_any_unit(unit, dtype, lam):
    """Exponents of 300 and more were clipped: the objective rose, or a worse point was called converged."""
    R = (unit * heavy_tails()).astype(dtype)
    best = entropic_optimum(R.astype(float), lam)
    settings = {"risk_measure": "entropic", "risk_aversion": lam, "constraint": "long_only"}
    portfolio, warned = said(lambda: CompositionalPortfolio(**settings, random_state=0).fit(R))
    assert portfolio.weights_.dtype == dtype
    part = 1e-2 if warned else 1e-3  # where the worst day is nearly all of the risk, batches grow on the way
    assert portfolio.loss_curve_[-1] - best <= part * (portfolio.loss_curve_[0] - best)
    assert (portfolio.stop_reason_ == "converged") != bool(warned)
    assert lam * unit >= 50 or not warned


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ["long_only", (0.0, 0.2)])
def test_entropic_risk_of_real_returns_in_basis_points(constraint):
    """At risk_aversion 1 exponents are near 1000: the objective rose from its start."""
    R = 100 * japan()
    for seed in range(2):
        portfolio, warned = said(
            lambda seed=seed: CompositionalPortfolio(
                risk_measure="entropic", constraint=constraint, budget=1.0, random_state=seed
            ).fit(R)
        )
        assert (portfolio.stop_reason_ == "converged") != bool(warned)
        high = 0.2 if constraint != "long_only" else 1.0
        problem = PortfolioProblem(R, risk_measure="entropic", penalty=Box(0, high, budget=1.0))
        w, F = portfolio.weights_, problem.gradient(portfolio.weights_)
        # the objective is convex: no feasible point is lower than the linear function's minimum
        left = F @ (w - problem.penalty.project(w - 1e6 * F))
        assert left <= 1e-2 * (portfolio.loss_curve_[0] - portfolio.loss_curve_[-1])


@pytest.mark.parametrize("solver", ["storm-c", "sarah-c", "scgd", "civr"])
def test_a_stream_whose_exponents_leave_the_number_range(solver):
    """Beyond 700 exp overflows; the unit of u is found from the rows as they come."""
    rng = np.random.default_rng(0)
    R = np.c_[rng.normal(-900.0, 1.0, 6000), rng.normal(-899.0, 1.0, 6000), rng.normal(-900.0, 0.5, 6000)]
    method = SOLVERS[solver]()
    if method.needed_to_stream():
        method.set_params(checkpoint_batch_size=64)
    portfolio = CompositionalPortfolio(method, risk_measure="entropic", constraint="long_only", random_state=0)
    for chunk in np.array_split(R, 12):
        portfolio.partial_fit(chunk)
    assert portfolio.stop_reason_ == "exhausted"
    problem = PortfolioProblem(R, risk_measure="entropic")
    assert problem.objective(portfolio.weights_) < problem.objective(np.full(3, 1 / 3))


# budgets


def test_windows_of_days_converge():
    """Bounds and a budget on 250 to 1000 days: a quarter of these ended unconverged without a word."""
    R, rng = japan(), np.random.default_rng(5)
    for _ in range(5):
        n = int(rng.integers(250, 1001))
        first = int(rng.integers(0, len(R) - n))
        window = R[first : first + n]
        fit = CompositionalPortfolio(constraint=(-0.5, 0.5), budget=1.0, random_state=0).fit
        portfolio, warned = said(lambda fit=fit, window=window: fit(window))
        assert portfolio.stop_reason_ == "converged" and not warned
        finer = CompositionalPortfolio(constraint=(-0.5, 0.5), budget=1.0, tol=1e-8, max_iter=20_000, random_state=0)
        assert np.abs(finer.fit(window).weights_ - portfolio.weights_).max() < 0.02


@pytest.mark.parametrize("solver", ["sarah-c", "scgd", "storm-c"])
def test_a_budget_that_ends_first_is_said(solver):
    R = make_gaussian_returns(2000, 30, mean=0.3, condition_number=50, random_state=0)
    fit = CompositionalPortfolio(solver, max_iter=30, random_state=0).fit
    portfolio, warned = said(lambda: fit(R))
    assert portfolio.stop_reason_ == "max_iter"
    assert any("has not converged" in message and "max_iter" in message for message in warned)
    _, warned = said(lambda: CompositionalPortfolio(solver, max_iter=30, tol=0, random_state=0).fit(R))
    assert not any("has not converged" in message for message in warned)


def test_minimize_says_it_of_its_own_budget_only():
    problem = PortfolioProblem(make_gaussian_returns(1500, 5, random_state=0))
    result, warned = said(lambda: minimize(problem, "scgd", random_state=0))
    assert result.stop_reason == "max_ifo" and any("max_iter or max_ifo" in message for message in warned)
    assert 1e-4 < result.residual < 10
    _, warned = said(lambda: minimize(problem, "scgd", random_state=0, max_ifo=10_000))
    assert not any("has not converged" in message for message in warned)


@pytest.mark.slow
def test_the_safety_net_of_full_batches_is_10_000_iterations():
    R = make_gaussian_returns(100, 3, random_state=0)
    result, warned = said(lambda: minimize(PortfolioProblem(R), random_state=0, learning_rate=1e-9))
    assert (result.stop_reason, result.n_iter) == ("max_iter", 10_000) and "has not converged" in warned[0]
    R = make_gaussian_returns(20, 30, random_state=0)  # known to have no minimum
    result, warned = said(lambda: minimize(PortfolioProblem(R), random_state=0))
    assert (result.stop_reason, result.n_iter) == ("max_iter", 100) and "unbounded" in warned[0]


# what is returned


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("lam", [1.0, 3.0])
def test_never_worse_than_a_known_point_in_silence(solver, lam):
    problem = PortfolioProblem(heavy_tails(), lam, risk_measure="entropic", penalty=Box(0.0, 0.5, budget=1.0))
    if solver == "lbfgs":
        problem.penalty = Box(0.0, 0.5)
    for seed in range(2):
        result, warned = said(lambda seed=seed: minimize(problem, solver, random_state=seed))
        curve = result.loss_curve
        if result.fun > curve.min() + 1e-3 * (curve[0] - curve.min()) + 1e-12:
            assert warned
        if solver in ("storm-c", "sketchy-storm"):
            assert result.fun <= curve.min() + 1e-9 * abs(curve.min())


class Lying(SCGD):
    """Estimates say from the second pass on that the run is at its end."""

    def step(self, oracle, s):
        super().step(oracle, s)
        if s.t > 300:
            s.residual *= 1e-9


def test_a_stop_by_estimates_is_confirmed():
    problem = PortfolioProblem(make_gaussian_returns(1500, 5, mean=0.5, random_state=0))
    result, warned = said(lambda: minimize(problem, Lying(), random_state=0))
    assert result.stop_reason == "max_ifo" and warned
    assert result.residual > 1e-4  # what the full gradient said
    # each question is a full gradient, charged, asked again after twice the passes: two to the budget of 100 passes
    plain, _ = said(lambda: minimize(problem, SCGD(), random_state=0))
    asked = plain.n_iter - result.n_iter
    assert 0 < asked * 32 <= 8 * 3 * 1500
    easy, warned = said(lambda: minimize(problem, Lying(tol=1e3), random_state=0))
    assert easy.stop_reason == "converged" and not warned


def test_near_copies_of_an_asset_are_told():
    """Gradients are small along a near-copy minus the asset, however far the minimum is."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(500, 8)) * rng.uniform(0.5, 2, 8) + 0.1
    R = np.hstack([A, A[:, :3] + 1e-3 * rng.normal(size=(500, 3))])
    portfolio, warned = said(lambda: CompositionalPortfolio("storm-c", max_iter=1000, random_state=0).fit(R))
    problem = PortfolioProblem(R)
    best = problem.objective(np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0)))
    gap = (problem.objective(portfolio.weights_) - best) / abs(best)
    assert (gap > 1e-3) == bool(warned)
    assert "nearly combinations" in warned[0] and "solver='auto'" in warned[0]
    # what it can still fall by, as the warning has it
    left = problem.objective(portfolio.weights_) - best
    assert float(re.search(r"by up to ([-+\d.e]+), ", warned[0])[1]) == pytest.approx(left, rel=0.3)
    assert portfolio.dual_gap_ >= left * (1 - 1e-6)
    mended, silent = said(lambda: CompositionalPortfolio(random_state=0).fit(R))
    assert not silent and problem.objective(mended.weights_) - best < 1e-9 * abs(best)
    assert not said(lambda: CompositionalPortfolio(random_state=0).fit(A))[1]
    assert not said(lambda: CompositionalPortfolio(constraint=(-1, 1), random_state=0).fit(R))[1]


# starts, records, states


@pytest.mark.parametrize("n", [500, 3000])
def test_a_warm_start_at_the_optimum_is_cheap(n):
    R = make_gaussian_returns(n, 20, mean=0.3, condition_number=50, random_state=0)
    portfolio = CompositionalPortfolio("storm-c", warm_start=True, random_state=0).fit(R)
    cold, weights = portfolio.ifo_[-1], portfolio.weights_
    portfolio.fit(R)
    assert portfolio.ifo_[-1] < cold and portfolio.stop_reason_ == "converged"
    assert np.abs(portfolio.weights_ - weights).max() < 1e-2 * np.abs(weights).max()
    portfolio.set_params(risk_aversion=2.0).fit(R)  # another problem: tol is of this start
    assert np.abs(2 * portfolio.weights_ - weights).max() < 1e-2 * np.abs(weights).max()


def test_writing_into_a_record_changes_nothing():
    problem = PortfolioProblem(make_gaussian_returns(1500, 5, random_state=0))

    def spoil(record):
        record.x[:] = 7.0

    spoiled = minimize(problem, random_state=0, on_record=spoil)
    assert (spoiled.x == minimize(problem, random_state=0).x).all()


RETURNS = make_gaussian_returns(60, 3, random_state=0)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: minimize(RETURNS), ["problem", "ndarray", "PortfolioProblem"]),
        (lambda: minimize(PortfolioProblem(RETURNS, penalty="l1")), ["penalty", "'l1'", "L1"]),
        (lambda: minimize(PortfolioProblem(RETURNS, penalty=Simplex)), ["penalty", "Simplex"]),
        (lambda: minimize(PortfolioProblem(RETURNS), on_record=3), ["on_record", "3"]),
        (lambda: minimize(PortfolioProblem(RETURNS), verbose=2), ["verbose", "2"]),
        (lambda: minimize(PortfolioProblem(RETURNS, metric=[1.0, 0.0, 1.0])), ["metric", "0.0"]),
        (lambda: minimize(PortfolioProblem(RETURNS, metric=-np.eye(3))), ["metric"]),
        (lambda: CompositionalPortfolio(warm_start="yes").fit(RETURNS), ["warm_start", "'yes'"]),
        (lambda: CompositionalPortfolio(verbose="loud").fit(RETURNS), ["verbose", "'loud'"]),
    ],
)
def test_errors_name_the_parameter(work, words):
    with pytest.raises(ValueError) as error:
        work()
    for word in words:
        assert word in str(error.value)


def test_a_state_of_another_problem_is_refused():
    of = {
        measure: PortfolioProblem(RETURNS, risk_measure=measure) for measure in ("variance", "semivariance", "entropic")
    }
    state = minimize(of["variance"], random_state=0, max_iter=3).state
    for measure in ("semivariance", "entropic"):
        with pytest.raises(ValueError, match="state must come from a run on .*" + measure):
            minimize(of[measure], state=state)
    with pytest.raises(ValueError, match="state must come from a run on"):
        minimize(PortfolioProblem(RETURNS[:50]), state=state)


def test_what_is_no_state_or_no_solver_is_told():
    problem = PortfolioProblem(RETURNS)
    result = minimize(problem, random_state=0, max_iter=3)
    with pytest.raises(ValueError, match="state must come from a run of .* got one of SolverResult: give its state"):
        minimize(problem, state=result)
    with pytest.raises(ValueError, match=r"got the class: give an instance, SCGD\(\)"):
        minimize(problem, SCGD)


def test_a_run_that_overflowed_has_nothing_to_go_on_from():
    problem = PortfolioProblem(RETURNS)
    broken, _ = said(lambda: minimize(problem, SCGD(learning_rate=1e30), random_state=0))
    again, warned = said(lambda: minimize(problem, SCGD(learning_rate=1e30), state=broken.state))
    assert broken.stop_reason == again.stop_reason == "non_finite" and warned
    assert again.n_iter == broken.n_iter and (again.x == broken.x).all()


def test_a_converged_run_is_not_charged_again():
    problem = PortfolioProblem(np.random.default_rng(0).normal(0.3, 1.0, size=(400, 4)))
    done = minimize(problem, "asc-pg", random_state=0)
    again = minimize(problem, "asc-pg", state=done.state)
    assert done.stop_reason == again.stop_reason == "converged"
    assert (again.ifo == done.ifo).all() and (again.x == done.x).all()


def test_lbfgs_is_resumed_in_the_same_units():
    problem = PortfolioProblem(100 * heavy_tails(), 0.05, risk_measure="entropic")
    whole = minimize(problem, "lbfgs")
    part, _ = said(lambda: minimize(problem, "lbfgs", max_ifo=int(0.6 * whole.ifo[-1])))
    assert (minimize(problem, "lbfgs", state=part.state).x == whole.x).all()


def test_a_learning_rate_far_too_small_is_not_taken_for_rest():
    """Steps that rounding swallows leave x where it is, which was called converged."""
    problem = PortfolioProblem(heavy_tails(), penalty=Simplex())
    for solver in ("sarah-c", "vrsc-pg", "storm-c"):
        result, warned = said(lambda solver=solver: minimize(problem, solver, random_state=0, learning_rate=1e-40))
        assert result.stop_reason != "converged" and warned
    best = minimize(problem, random_state=0, tol=1e-10).x
    assert minimize(problem, "sarah-c", best, random_state=0).stop_reason == "converged"


def test_the_early_stage_of_an_embedding_warns_of_nothing():
    points = np.random.default_rng(0).normal(size=(150, 4))
    _, warned = said(lambda: SNEEmbedding(kernel="student-t", perplexity=10, random_state=0).fit(points))
    assert not warned


# Ctrl-C


def interrupt(record):
    if record.iteration:
        os.kill(os.getpid(), signal.SIGINT)


class Interrupted(SARAHCompositional):
    """Ctrl-C in the 40th iteration of a fit."""

    at = 40

    def step(self, oracle, s):
        super().step(oracle, s)
        if s.t == self.at:
            os.kill(os.getpid(), signal.SIGINT)


class InterruptedAtOnce(Interrupted):
    def init_state(self, oracle, x):
        os.kill(os.getpid(), signal.SIGINT)
        return super().init_state(oracle, x)


def test_minimize_returns_what_it_has():
    problem = PortfolioProblem(make_gaussian_returns(1500, 5, mean=0.5, random_state=0))
    result = minimize(problem, "sarah-c", random_state=0, on_record=interrupt)
    assert result.stop_reason == "interrupted" and result.fun < result.loss_curve[0]
    whole = minimize(problem, "sarah-c", random_state=0)
    resumed = minimize(problem, "sarah-c", state=result.state)
    assert (resumed.x == whole.x).all() and (resumed.ifo == whole.ifo).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def estimators():
    model = make_bellman_problem(n_states=20, n_features=None, gamma=0.8, kind="garnet", random_state=0)
    log = model.transitions(1500, random_state=0)
    points = np.random.default_rng(0).normal(size=(150, 4))
    yield CompositionalPortfolio(random_state=0), (make_gaussian_returns(1500, 5, random_state=0),), {}, "weights_"
    yield (
        BellmanValueEstimator(gamma=0.8, objective="projected", random_state=0),
        (log.X, log.y),
        {"next_X": log.next_X, "terminal": log.terminal},
        "coef_",
    )
    for kernel in ("gaussian", "student-t"):
        model = SNEEmbedding(perplexity=10, kernel=kernel, early_exaggeration=1, random_state=0)
        yield model, (points,), {}, "embedding_"


@pytest.mark.parametrize(("estimator", "args", "kwargs", "fitted"), list(estimators()))
def test_an_interrupted_fit_keeps_what_it_has(estimator, args, kwargs, fitted):
    estimator.set_params(solver=Interrupted(learning_rate=0.01))
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(*args, **kwargs)
    assert estimator.stop_reason_ == "interrupted" and estimator.n_iter_ == 41
    assert np.isfinite(getattr(estimator, fitted)).all()
    before = getattr(estimator, fitted)
    estimator.set_params(solver=InterruptedAtOnce(learning_rate=0.01))
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(*args, **kwargs)
    assert getattr(estimator, fitted) is before and estimator.n_iter_ == 41


def test_a_search_stops():
    search = GridSearchCV(CompositionalPortfolio(Interrupted(learning_rate=0.01)), {"risk_aversion": [1.0, 2.0]}, cv=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(make_gaussian_returns(3000, 5, random_state=0))


# verbose


@pytest.mark.parametrize("solver", slow_but(["storm-c", "scgd", "lbfgs"], "storm-c", "lbfgs"))
def test_a_line_a_record(solver, capsys):
    R = make_gaussian_returns(1500, 5, mean=0.5, random_state=0)
    portfolio, _ = said(lambda: CompositionalPortfolio(solver, verbose=1, random_state=0).fit(R))
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["iteration", "passes", "objective", "residual", "seconds"]
    assert {len(line) for line in [header, *lines]} == {len(header)}
    assert len(portfolio.ifo_) - 1 <= len(lines) <= len(portfolio.ifo_)
    first = lines[0].split()
    assert first[0] == "0" and float(first[1]) == 0 and float(first[2]) == pytest.approx(portfolio.loss_curve_[0])
    said(lambda: CompositionalPortfolio(solver, random_state=0).fit(R))
    assert capsys.readouterr().out == ""


def test_a_line_for_a_result_that_comes_at_once(capsys):
    log = make_bellman_problem(n_states=10, n_features=None, random_state=0).transitions(200, random_state=0)
    value = BellmanValueEstimator(verbose=1).fit(log.X, log.y, next_X=log.next_X)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("BellmanValueEstimator: lstd, n_iter=1, objective ") and line.endswith(", converged")
    assert f"{value.loss_curve_[-1]:.8g} ({value.loss_curve_[0]:.8g} at the start)" in line
    R = make_gaussian_returns(600, 5, random_state=0)
    for solver, name in (("auto", "moments"), ("scgd", "SCGD")):
        CompositionalPortfolio(solver, verbose=1, random_state=0).partial_fit(R)
        assert f": {name}, n_iter=" in capsys.readouterr().out
    CompositionalPortfolio(random_state=0).partial_fit(R)
    assert capsys.readouterr().out == ""
