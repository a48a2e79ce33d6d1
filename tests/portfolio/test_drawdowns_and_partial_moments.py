"""Semideviation and downside risk of any order, and conditional drawdown at risk: exact, with every constraint."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers import few_of, slow_but
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

from sk_stormc import CompositionalPortfolio, minimize
from sk_stormc.plotting import FrontierDisplay
from sk_stormc.problems import PortfolioProblem, check_problem

KINDS = [("semideviation", 1), ("semideviation", 2), ("downside", 1), ("downside", 3), ("cdar", None)]
IDS = [f"{measure} {order or ''}".strip() for measure, order in KINDS]
HELD = np.array([0.3, 0.1, 0.2, 0.1, 0.2, 0.1])
A = np.array([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
CASES = {
    "long only": {"constraint": "long_only"},
    "bounds and budget": {"constraint": (-0.2, 0.5), "budget": 1.0},
    "bounds and l1": {"constraint": (-0.5, 0.5), "l1": 3e-4, "risk_aversion": 0.02},
    "cost of trades": {"constraint": "long_only", "previous_weights": HELD, "transaction_cost": 2e-4},
    "linear constraints": {"constraint": "long_only", "linear_constraints": (A, 0.3, 0.45)},
    "turnover": {"constraint": "long_only", "previous_weights": HELD, "max_turnover": 0.3},
    "benchmark": {"constraint": "long_only", "benchmark": "index"},
}


def returns(n=150, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.standard_t(4, size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + 0.001


def fit(X, **params):
    return CompositionalPortfolio(**{"constraint": "long_only", "random_state": 0} | params).fit(X)


def risk(y, measure, order=2.0, confidence=0.95, p=None):
    """By its definition."""
    p = np.full(len(y), 1 / len(y)) if p is None else p / p.sum()
    if measure in ("semideviation", "downside"):
        return (p @ np.maximum((p @ y if measure == "semideviation" else 0.0) - y, 0) ** order) ** (1 / order)
    depth, total, top = [], 0.0, 0.0
    for one in y:
        total += one
        top = max(top, total)
        depth.append(top - total)
    worst = np.argsort(depth)[::-1]
    taken = np.diff(np.minimum(np.cumsum(p[worst]), 1 - confidence), prepend=0.0)
    return taken @ np.array(depth)[worst] / (1 - confidence)


def objective(w, R, measure, order, params, against):
    y = R @ w - against
    value = -y.mean() + params.get("risk_aversion", 2.0) * risk(y, measure, order or 2)
    value += params.get("l1", 0.0) * np.abs(w).sum()
    return value + params.get("transaction_cost", 0.0) * np.abs(w - HELD).sum()


def by_cone_program(R, measure, order, params, against):
    cp = pytest.importorskip("cvxpy")
    pytest.importorskip("clarabel")
    n, d = R.shape
    w = cp.Variable(d)
    y = 100 * (R @ w - against)
    low, high = (0.0, 1.0) if params["constraint"] == "long_only" else params["constraint"]
    limits = [w >= low, w <= high]
    if params["constraint"] == "long_only" or "budget" in params:
        limits.append(cp.sum(w) == 1)
    if "linear_constraints" in params:
        limits += [A @ w >= 0.3, A @ w <= 0.45]
    if "max_turnover" in params:
        limits.append(cp.norm1(w - HELD) <= 0.3)
    if measure == "cdar":
        depth, level = cp.Variable(n), cp.Variable()
        limits += [depth >= 0, depth >= cp.hstack([0, depth[:-1]]) - y]
        of_risk = level + cp.sum(cp.pos(depth - level)) / n / 0.05
    else:
        centre = cp.sum(y) / n if measure == "semideviation" else 0.0
        of_risk = cp.pnorm(cp.pos(centre - y), order) / n ** (1 / order)
    costs = params.get("l1", 0.0) * cp.norm1(w) + params.get("transaction_cost", 0.0) * cp.norm1(w - HELD)
    total = -cp.sum(y) / n + params.get("risk_aversion", 2.0) * of_risk + 100 * costs
    cp.Problem(cp.Minimize(total), limits).solve(solver="CLARABEL")
    return w.value


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("measure", "order"), few_of(KINDS, 1, 4), ids=IDS)
def test_the_optimum_with_every_constraint(measure, order, case):
    table, params = pd.DataFrame(returns(), columns=list("abcdef")), CASES[case]
    R, against = table.to_numpy(), np.zeros(len(table))
    if case == "benchmark":
        against = R @ np.full(6, 1 / 6) + 0.001 * np.random.default_rng(1).normal(size=len(R))
        table["index"] = against
    more = {} if order is None else {"order": order}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        portfolio = fit(table, **{"risk_measure": measure, "risk_aversion": 2.0} | params | more)
    w = portfolio.weights_[:6]
    found = objective(w, R, measure, order, params, against)
    assert portfolio.loss_curve_[-1] == pytest.approx(found, rel=1e-9) and portfolio.stop_reason_ == "converged"
    size = (R @ w - against).std()
    assert -1e-12 <= portfolio.dual_gap_ <= 1e-5 * size
    if case != "bounds and l1":
        assert w.sum() == pytest.approx(1)
    if case == "linear constraints":
        assert 0.3 - 1e-9 <= w[:2].sum() <= 0.45 + 1e-9
    if case == "turnover":
        assert np.abs(w - HELD).sum() <= 0.3 + 1e-9
    theirs = objective(by_cone_program(R, measure, order, params, against), R, measure, order, params, against)
    assert -1e-7 * size <= found - theirs + 1e-7 * size <= portfolio.dual_gap_ + 2e-7 * size


def test_drawdowns_by_a_linear_program_of_this_file():
    """HiGHS on the formula of Chekhlov, Uryasev and Zabarankin, with the highest sum so far as a variable."""
    R = returns(80, 4, seed=1)
    n, d = R.shape
    total, one = np.cumsum(R, axis=0), np.eye(n)
    # variables: w, the highest sum so far, the level, what exceeds it
    later = np.hstack([np.zeros((n - 1, d)), one[:-1] - one[1:], np.zeros((n - 1, 1 + n))])
    above = np.hstack([total, -one, np.zeros((n, 1 + n))])
    excess = np.hstack([-total, one, -np.ones((n, 1)), -one])
    cost = np.r_[-R.mean(axis=0), np.zeros(n), 3.0, np.full(n, 3.0 / n / 0.1)]
    least = np.r_[np.zeros(d), np.zeros(n), -np.inf, np.zeros(n)]
    best = linprog(
        cost,
        np.concatenate([later, above, excess]),
        np.zeros(3 * n - 1),
        np.r_[np.ones(d), np.zeros(2 * n + 1)][None],
        [1.0],
        bounds=np.column_stack([least, np.full(len(cost), np.inf)]),
    )
    portfolio = fit(R, risk_measure="cdar", risk_aversion=3.0, confidence=0.9)
    assert portfolio.loss_curve_[-1] == pytest.approx(best.fun, rel=1e-9) and abs(portfolio.dual_gap_) < 1e-12


def test_the_ends_of_the_confidence_are_the_mean_and_the_largest_drawdown():
    R, w = returns(60, 3), np.array([0.2, 0.3, 0.5])
    total = np.cumsum(R @ w)
    depth = np.maximum(np.maximum.accumulate(total), 0) - total
    for confidence, expected in ((1e-9, depth.mean()), (0.99, depth.max())):
        problem = PortfolioProblem(R, np.inf, risk_measure="cdar", confidence=confidence)
        assert problem.value_at(w) == pytest.approx(expected)
        portfolio = fit(R, risk_measure="cdar", risk_aversion=np.inf, confidence=confidence)
        assert -portfolio.score(R) == pytest.approx(portfolio.loss_curve_[-1]) and portfolio.score(R) >= -expected


@pytest.mark.parametrize(("measure", "order"), few_of(KINDS, 2, 4), ids=IDS)
def test_weights_units_and_gaps(measure, order):
    """The bound is below every portfolio's objective, also where a run ends early; units and recent periods."""
    R, more = returns(seed=2), {} if order is None else {"order": order}
    params = {"risk_measure": measure, "risk_aversion": 2.0, **more}
    rng = np.random.default_rng(0)
    best, plain = fit(R, **params), CompositionalPortfolio(risk_measure=measure, **more)
    np.testing.assert_allclose(fit(1e4 * R, **params).weights_, best.weights_, atol=2e-4)
    if measure != "cdar":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            early = fit(R, **params, max_iter=5)
        true = objective(early.weights_, R, measure, order, {}, 0.0) - best.loss_curve_[-1]
        assert early.dual_gap_ >= true - 1e-12 and early.loss_curve_[-1] == pytest.approx(true + best.loss_curve_[-1])
    half = fit(R, **params, half_life=30)
    p, w = 0.5 ** (np.arange(len(R))[::-1] / 30), half.weights_
    value = {tuple(v): -(p @ (R @ v)) / p.sum() + 2 * risk(R @ v, measure, order or 2, p=p) for v in (w, best.weights_)}
    assert half.loss_curve_[-1] == pytest.approx(value[tuple(w)]) and value[tuple(w)] <= value[tuple(best.weights_)]
    for other in rng.dirichlet(np.ones(6), 50):
        assert objective(other, R, measure, order, {}, 0.0) >= best.loss_curve_[-1] - best.dual_gap_ - 1e-12
    # an estimator as any other
    copy = pickle.loads(pickle.dumps(best))
    assert copy.score(R) == best.score(R) == pytest.approx(-best.loss_curve_[-1])
    assert clone(plain).get_params()["order"] == plain.order
    if (measure, order) != ("downside", 1):
        return  # what follows is the same for all
    display = FrontierDisplay.from_estimator(best, R, risk_aversions=[0.1, 10.0])
    assert display.risk_aversions_.size == 2
    search = GridSearchCV(best, {"risk_aversion": [0.5, 5.0]}, cv=TimeSeriesSplit(2)).fit(R)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("measure", slow_but(["semideviation", "downside"], "downside"))
def test_a_portfolio_without_risk(measure):
    """The root bends without end where nothing is lost; with fewer periods than assets that is the best portfolio."""
    R = np.random.default_rng(0).normal(size=(8, 20))
    params = {"constraint": (-0.3, 0.3), "budget": 1.0, "risk_aversion": 20.0, "risk_measure": measure}
    for order in (2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            portfolio = fit(R, **params, order=order)
        w = portfolio.weights_
        assert risk(R @ w, measure, order) < 1e-6 and 0 <= portfolio.dual_gap_ + 1e-9 < 1e-5
    least = linprog(  # without risk the best is a linear program
        -R.mean(axis=0),
        R.mean(axis=0) - R if measure == "semideviation" else -R,
        np.zeros(8),
        np.ones((1, 20)),
        [1.0],
        bounds=(-0.3, 0.3),
    )
    assert portfolio.loss_curve_[-1] == pytest.approx(least.fun, abs=1e-5)


@pytest.mark.parametrize(("measure", "order"), KINDS, ids=IDS)
def test_the_largest_ratio(measure, order):
    R, more = returns(seed=3), {} if order is None else {"order": order}
    portfolio = fit(R, risk_measure=measure, objective="ratio", **more)
    y = R @ portfolio.weights_
    found = y.mean() / risk(y, measure, order or 2)
    assert found == pytest.approx(portfolio.score(R)) and 0 <= portfolio.dual_gap_ + 1e-9 <= 1e-5 * found
    for other in np.random.default_rng(0).dirichlet(np.ones(6), 200):
        y = R @ other
        assert y.mean() / risk(y, measure, order or 2) <= found + 1e-9


def test_the_omega_ratio_over_a_rate():
    R, rate = returns(seed=4), 2e-4
    portfolio = fit(R, risk_measure="downside", order=1, objective="ratio", benchmark=np.full(len(R), rate))
    y = R @ portfolio.weights_ - rate
    omega = np.maximum(y, 0).mean() / np.maximum(-y, 0).mean()
    assert -portfolio.loss_curve_[-1] == pytest.approx(omega - 1)


@pytest.mark.parametrize(("measure", "order"), few_of(KINDS[:4], 1, 2), ids=IDS[:4])
def test_problems_by_the_paper_s_methods(measure, order):
    R = 100 * returns(400, 4, seed=5)
    from sk_stormc.penalties import Simplex

    options = {"risk_measure": measure, "order": order, "penalty": Simplex(), "metric": "variance"}
    problem = PortfolioProblem(R, **options)
    check_problem(problem)
    weight = np.random.default_rng(0).integers(1, 3, len(R))
    repeated = PortfolioProblem(np.repeat(R, weight, axis=0), **options, width=0.1)
    check_problem(PortfolioProblem(R, **options, sample_weight=weight, width=0.1), repeated=repeated)
    result = minimize(problem, random_state=0, max_iter=300)
    best = fit(R, risk_measure=measure, order=order)
    w, value = problem.weights_of(result.x), best.loss_curve_[-1]
    assert value - 1e-9 <= problem.value_at(w) <= value + 0.02 * abs(value)
    assert problem.bounds(result.x)[1] <= value + 1e-9


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"order": 1.5}, "order must be 1 or from 2 to 10, got 1.5"),
        ({"order": 0.5}, "order must be"),
        ({"order": "2"}, "order must be"),
        ({"risk_measure": "cdar", "solver": "lbfgs"}, "cdar.*all earlier periods.*newton"),
        ({"risk_measure": "cdar", "solver": "sarah-c"}, "cdar.*newton"),
        ({"risk_measure": "cdar", "confidence": 1.0}, "confidence must be below 1"),
        ({"risk_measure": "semideviation", "constraint": None}, "sets the size"),
        ({"risk_measure": "cdar", "constraint": None}, "sets the size"),
    ],
)
def test_what_cannot_be_is_said(params, words):
    with pytest.raises(ValueError, match=words):
        fit(returns(), **params)


@pytest.mark.parametrize("solver", ["storm-c", "newton"])  # of the second no other solver must be advised
@pytest.mark.parametrize("measure", ["semideviation", "downside", "cdar"])
def test_streams_are_refused_with_the_reason(measure, solver):
    with pytest.raises(AttributeError, match=f"{measure}.*needs all periods at once.*'evar'"):
        CompositionalPortfolio(solver, risk_measure=measure, constraint="long_only").partial_fit(returns())


def test_a_path_has_no_batches():
    problem = PortfolioProblem(returns(), risk_measure="cdar")
    with pytest.raises(ValueError, match="has no batches.*linear program"):
        minimize(problem, "lbfgs")
