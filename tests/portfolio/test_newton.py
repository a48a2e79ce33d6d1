"""Newton's method for portfolios of few assets, and the fits that go on by it: no wrong answer in any unit."""

import functools
import warnings

import numpy as np
import pytest
from helpers import slow_but
from scipy.optimize import linprog, minimize

from sk_stormc import CompositionalPortfolio, STORMCompositional
from sk_stormc.portfolio.constraints import make_penalty
from sk_stormc.portfolio.second_order.interior_point import Hinges, Program, interior_point
from sk_stormc.portfolio.second_order.newton import solve_portfolio
from sk_stormc.problems import PortfolioProblem

MEASURES = ("variance", "semivariance", "entropic", "cvar", "evar")


def returns(n=300, d=8, seed=0):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + 0.0005 * rng.normal(size=d)


def value(w, R, measure, risk_aversion=1.0):
    """The objective by its definition."""
    y = R @ w
    if measure == "variance":
        return -y.mean() + risk_aversion * y.var()
    if measure == "semivariance":
        return -y.mean() + risk_aversion * np.mean(np.minimum(y - y.mean(), 0) ** 2)
    if measure == "entropic":
        top = (-risk_aversion * y).max()
        return (np.log(np.mean(np.exp(-risk_aversion * y - top))) + top) / risk_aversion
    if measure == "cvar":
        worst = np.sort(-y)[::-1]
        k = 0.05 * len(y)
        part = np.clip(k - np.arange(len(y)), 0, 1)
        return -y.mean() + risk_aversion * (part @ worst) / k
    middle, unit = -3.0, max(y.std(), 1e-300)
    for width in (11.0, 0.2, 4e-3):  # a finer grid about the best of the last
        grid = middle + np.linspace(-width, width, 151)
        t = unit * np.exp(grid)
        e = -y / t[:, None]
        top = e.max(axis=1)
        risks = t * (np.log(np.exp(e - top[:, None]).mean(axis=1)) + top + np.log(20))
        middle = grid[np.argmin(risks)]
    return -y.mean() + risk_aversion * risks.min()


def quiet(**params):
    """An estimator whose warnings are errors."""
    portfolio = CompositionalPortfolio(random_state=0, **params)

    def fit(R):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return portfolio.fit(R)

    return fit


def test_the_interior_point_method_on_linear_and_quadratic_programs():
    rng = np.random.default_rng(0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, m = 12, 6
        c, A = rng.normal(size=n), rng.normal(size=(m, n))
        upper = rng.random(m)
        ones, none = np.ones((1, n)), np.full(m, -np.inf)

        def linear(x, c=c):
            return float(c @ x), c, np.zeros((len(c), len(c)))

        low, high = np.full(n, -1.0), np.full(n, 1.0)
        found = interior_point(Program(linear, [], low, high, A, none, upper, ones, np.array([0.5])), np.zeros(n))
        best = linprog(c, A, upper, ones, [0.5], bounds=(-1, 1))
        assert found.done and c @ found.x == pytest.approx(best.fun, abs=1e-7)
        assert (A @ found.x <= upper + 1e-7).all() and abs(found.x.sum() - 0.5) < 1e-9
        # hinges: the same as inequalities on variables of their own
        H = rng.normal(size=(30, n))
        hinges = Hinges(H, rng.normal(size=30), rng.random(30), rng.random(30))
        square = Program(linear, [hinges], low, high, A, none, upper, ones, np.array([0.5]))
        x = interior_point(square, np.zeros(n)).x

        def whole(x, c=c, h=hinges):
            a = np.maximum(h.at(x), 0)
            return c @ x + h.cost @ a + h.quadratic @ a**2

        constraints = [
            {"type": "ineq", "fun": lambda x, A=A, upper=upper: upper - A @ x},
            {"type": "eq", "fun": lambda x: x.sum() - 0.5},
        ]
        theirs = minimize(whole, x, constraints=constraints, bounds=[(-1, 1)] * n, options={"maxiter": 500})
        assert whole(x) <= theirs.fun + 1e-6 and (A @ x <= upper + 1e-7).all()


@functools.cache
def of_plain_returns(measure):
    return quiet(solver="newton", risk_measure=measure, constraint="long_only", risk_aversion=30.0)(returns()).weights_


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("unit", slow_but([1e-5, 1.0, 1e5], 1e-5))
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_the_answer_depends_on_neither_unit_nor_shift(measure, unit, shift):
    R = returns()
    scale = unit if measure in ("variance", "semivariance", "entropic") else 1.0
    plain = of_plain_returns(measure)
    other = quiet(solver="newton", risk_measure=measure, constraint="long_only", risk_aversion=30.0 / scale)
    np.testing.assert_allclose(other(unit * (R + shift)).weights_, plain, atol=2e-5)


CASES = {
    "long only": {"constraint": "long_only"},
    "bounds and budget": {"constraint": (-0.2, 0.5), "budget": 1.0},
    "bounds and l1": {"constraint": (-0.5, 0.5), "l1": 2e-4},
    "cost of trades": {
        "constraint": (0.0, 0.6), "budget": 1.0, "previous_weights": np.full(8, 1 / 8), "transaction_cost": 1e-4,
    },
}  # fmt: skip


@pytest.mark.parametrize("measure", slow_but(MEASURES, "entropic", "cvar"))
@pytest.mark.parametrize("case", CASES)
def test_the_gap_is_valid_and_near_the_true_one(measure, case):
    R, params = returns(seed=3), CASES[case]
    portfolio = quiet(solver="newton", risk_measure=measure, risk_aversion=10.0, **params)(R)
    assert portfolio.stop_reason_ == "converged"
    w = portfolio.weights_

    def whole(w):
        costs = params.get("l1", 0.0) * np.abs(w).sum()
        if "transaction_cost" in params:
            costs += params["transaction_cost"] * np.abs(w - params["previous_weights"]).sum()
        return value(w, R, measure, 10.0) + costs

    assert whole(w) == pytest.approx(portfolio.loss_curve_[-1], rel=1e-6)
    size = whole(np.full(8, 1 / 8)) - whole(w)
    assert -1e-9 * abs(size) <= portfolio.dual_gap_ <= 1e-6 * abs(size) + 1e-15
    rng, penalty = (
        np.random.default_rng(0),
        make_penalty(params["constraint"], params.get("budget"), 0, None, 0, 8, None),
    )
    for k in range(60 if measure == "evar" else 200):  # no feasible neighbour is better; EVaR is dear
        other = w + 10.0 ** rng.uniform(-6, -1) * rng.normal(size=8)
        assert whole(penalty.project(other)) >= whole(w) - 1e-7 * abs(size), k


def ugly():
    """Returns as ugly as real ones are, by name."""
    R = returns()
    cash, twice, near, constant = R.copy(), R.copy(), R.copy(), R.copy()
    cash[:, -1] = 0.0
    twice[:, -1] = twice[:, 0]
    near[:, -1] = near[:, 0] + 1e-7 * np.random.default_rng(1).normal(size=len(R))
    constant[:, 0] = 0.0003
    return {"cash": cash, "twice": twice, "near copies": near, "constant": constant, "gross": R + 1, "shifted": R + 100,
            "tiny": 1e-5 * R, "few periods": R[:5], "one asset": R[:, :1]}  # fmt: skip


@pytest.mark.parametrize("measure", slow_but(MEASURES, "variance", "evar"))
@pytest.mark.parametrize("kind", ugly())
def test_the_default_is_as_good_as_newton_on_ugly_returns(measure, kind):
    """These ended wrong in silence: all of CVaR in cash at 10 % of it, equal weights on shifted returns."""
    R = ugly()[kind]
    params = {"risk_measure": measure, "constraint": "long_only", "risk_aversion": 3.0}
    default, newton = quiet(**params)(R), quiet(solver="newton", **params)(R)
    equal = np.full(R.shape[1], 1 / R.shape[1])
    values = [value(w, R - R.mean(), measure, 3.0) for w in (default.weights_, newton.weights_, equal)]
    y = R @ newton.weights_
    size = max(values[2] - values[1], y.var() if measure in ("variance", "semivariance") else y.std(), 1e-12)
    assert abs(values[0] - values[1]) <= 2e-4 * size
    assert default.stop_reason_ == newton.stop_reason_ == "converged"
    assert default.dual_gap_ >= -1e-9 * size and abs(default.weights_.sum() - 1) < 1e-9


def test_all_in_cash_where_risk_has_no_reward():
    R = 0.01 * np.random.default_rng(0).normal(size=(300, 10))
    R[:, -1] = 0.0
    for scale in (1.0, 1e-3):
        portfolio = quiet(risk_measure="cvar", constraint="long_only", risk_aversion=10.0)(scale * R)
        assert portfolio.weights_[-1] == pytest.approx(1.0, abs=1e-6) and portfolio.dual_gap_ >= 0


@pytest.mark.parametrize("measure", MEASURES)
def test_forced_answers(measure):
    R = returns()
    bounds = quiet(solver="newton", risk_measure=measure, constraint=(0.125, 0.125))(R)
    np.testing.assert_array_equal(bounds.weights_, np.full(8, 0.125))
    budget = quiet(solver="newton", risk_measure=measure, constraint=(0.125, 1.0), budget=1.0)(R)
    np.testing.assert_allclose(budget.weights_, np.full(8, 0.125), rtol=1e-12)
    if measure not in ("cvar", "evar"):
        assert quiet(solver="newton", risk_measure=measure, budget=0.0)(R[:8, :1]).weights_ == 0


@pytest.mark.parametrize("measure", MEASURES)
def test_forced_answers_of_many_periods_are_not_looked_for(measure):
    """One asset and a budget took 2,000 iterations on 2,500 periods of changing volatility."""
    rng = np.random.default_rng(1)
    R = 0.01 * rng.normal(size=(2500, 1)) * rng.lognormal(0, 1, (2500, 1))
    portfolio = quiet(risk_measure=measure, constraint=(-1.0, 1.0), budget=0.5)(R)
    assert portfolio.weights_ == 0.5 and portfolio.n_iter_ <= 1 and portfolio.stop_reason_ == "converged"


def test_a_budget_of_the_users_is_kept_and_said():
    R = ugly()["near copies"]
    with pytest.warns(UserWarning, match="has not converged"):
        portfolio = CompositionalPortfolio(risk_measure="evar", constraint="long_only", max_iter=3).fit(R)
    assert portfolio.n_iter_ == 3
    slow = CompositionalPortfolio(STORMCompositional(learning_rate=1e-4, max_iter=5), constraint="long_only")
    with pytest.warns(UserWarning, match="has not converged"):
        assert slow.fit(R).n_iter_ == 5


def test_newton_says_what_it_cannot_take(tmp_path):
    with pytest.raises(ValueError, match="solver must be one of .*newton"):
        CompositionalPortfolio("newtown").fit(returns())
    with pytest.raises(ValueError, match="at most 4096 assets .* shape \\(3, 4097\\)"):
        CompositionalPortfolio("newton", constraint="long_only").fit(np.random.default_rng(0).normal(size=(3, 4097)))
    held = np.memmap(tmp_path / "returns", dtype=float, mode="w+", shape=(50, 3))
    held[:] = returns(50, 3)
    with pytest.raises(ValueError, match="in memory"):
        CompositionalPortfolio("newton", constraint="long_only").fit(held)


def test_oracle_calls_of_newton_are_counted():
    R = returns()
    portfolio = CompositionalPortfolio("newton", constraint="long_only").fit(R)
    assert portfolio.ifo_.tolist() == [6 * len(R) * min(k, portfolio.n_iter_) for k in range(len(portfolio.ifo_))]
    assert len(portfolio.ifo_) >= portfolio.n_iter_ + 1
    assert portfolio.n_evaluations_["outer"] == 2 * len(R) * portfolio.n_iter_


def test_float32_returns_and_weights_of_periods():
    R = returns(200)
    weight = np.random.default_rng(0).integers(0, 4, 200)
    for measure in MEASURES:
        params = {"risk_measure": measure, "constraint": "long_only", "risk_aversion": 10.0}
        weighted = CompositionalPortfolio("newton", **params).fit(R, sample_weight=weight)
        repeated = CompositionalPortfolio("newton", **params).fit(np.repeat(R, weight, axis=0))
        np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-6)
        single = CompositionalPortfolio("newton", **params).fit(R.astype(np.float32))
        assert single.weights_.dtype == np.float32
        double = CompositionalPortfolio("newton", **params).fit(R)
        np.testing.assert_allclose(single.weights_, double.weights_, atol=1e-3)


def test_the_start_is_returned_where_nothing_is_better():
    R = returns(50, 3)
    problem = PortfolioProblem(R, penalty=make_penalty("long_only", None, 0.0, None, 0.0, 3, None))
    best = solve_portfolio(problem, problem.penalty, np.full(3, 1 / 3)).weights
    again = solve_portfolio(problem, problem.penalty, best)
    assert again.value <= problem.value_at(best) + 1e-15


def test_no_minimum_is_no_convergence():
    """A riskless asset without bounds: the empty portfolio was returned with a gap of 0."""
    R = returns()
    R[:, 0] = 0.0003
    with pytest.warns(UserWarning, match="has not converged"):
        portfolio = CompositionalPortfolio("newton", risk_measure="entropic", risk_aversion=10.0).fit(R)
    assert portfolio.stop_reason_ != "converged" and portfolio.dual_gap_ > 0


def test_near_copies_without_bounds():
    R = ugly()["near copies"]
    centred = (R - R.mean(axis=0)) / np.sqrt(len(R))
    triangle = np.linalg.qr(centred, mode="r")
    best = np.linalg.solve(triangle, np.linalg.solve(triangle.T, R.mean(axis=0))) / 20
    assert np.abs(best).max() > 1e4
    portfolio = quiet(risk_aversion=10.0)(R)
    values = [-(R @ w).mean() + 10.0 * (R @ w).var() for w in (portfolio.weights_, best)]
    assert values[0] <= values[1] + 1e-6 * abs(values[1])
