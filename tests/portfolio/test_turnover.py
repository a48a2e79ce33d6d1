"""The cost of trades, and the portfolio of least risk."""

import numpy as np
import pandas as pd
import pytest
from helpers import slow_but
from scipy import optimize

from sk_stormc import CompositionalPortfolio
from sk_stormc.penalties import Box
from sk_stormc.portfolio.second_order.limits import Turnover
from sk_stormc.problems import PortfolioProblem

INF = np.inf
NAMES = list("abcdef")


def make_returns(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    return 0.6 * rng.normal(0.05, 1, (n, 1)) + rng.normal(0.05, 1, (n, d)) * rng.uniform(0.5, 2, d)


def fit(X, **params):
    return CompositionalPortfolio(**{"tol": 1e-9, "random_state": 0, **params}).fit(X)


def one_sided(z, x, step, previous, cost, alpha):
    """Derivatives of (z - x)^2 / (2 step) + cost |z - previous| + alpha |z| to the left and to the right."""
    smooth = (z - x) / step
    left = smooth + cost * np.where(z > previous, 1, -1) + alpha * np.where(z > 0, 1, -1)
    return left, smooth + cost * np.where(z < previous, -1, 1) + alpha * np.where(z < 0, -1, 1)


@pytest.mark.parametrize("budget", [None, 0.0, 0.8])
@pytest.mark.parametrize("alpha", slow_but([0.0, 0.3], 0.3))
@pytest.mark.parametrize("bounds", [(-INF, INF), (-0.5, 0.7), (0.0, INF)])
def test_no_exchange_makes_the_proximal_point_better(bounds, alpha, budget):
    rng = np.random.default_rng(0)
    kinks = 0
    for d in (1, 2, 7) * 40:
        previous = rng.normal(0, 0.5, d).round(1)
        cost = rng.uniform(0, 0.6, d) if d > 1 else 0.4
        x, step = rng.normal(0, 1.5, d), rng.uniform(0.2, 3, d) if d > 2 else 0.7
        penalty = Turnover(previous, cost, Box(*bounds, budget=budget, alpha=alpha))
        if budget is not None and not bounds[0] * d <= budget <= bounds[1] * d:
            continue
        z = penalty.prox(x, step)
        assert z.shape == x.shape and (z >= bounds[0]).all() and (z <= bounds[1]).all()
        left, right = one_sided(z, x, step, previous, cost, alpha)
        rise, fall = right[z < bounds[1]], left[z > bounds[0]]
        if budget is None:
            assert (rise >= -1e-10).all() and (fall <= 1e-10).all()
        else:
            assert abs(z.sum() - budget) <= 1e-10
            assert not (rise.size and fall.size) or rise.min() >= fall.max() - 1e-9
        kinks += int((z == previous).sum())
    assert kinks > 10  # exactly what is held


def test_the_parts_of_a_turnover():
    penalty = Turnover([0.5, -0.5], [0.1, 0.2], Box(-1, 1, alpha=0.3))
    x = np.array([1.0, 0.5])
    assert penalty.value(x) == pytest.approx(0.1 * 0.5 + 0.2 * 1.0 + 0.3 * 1.5)
    np.testing.assert_array_equal(penalty.project(np.array([3.0, 0.2])), [1.0, 0.2])
    assert penalty.prox(x.astype(np.float32), 0.1).dtype == np.float32
    assert "previous=array([ 0.5, -0.5])" in repr(penalty)
    with pytest.raises(ValueError, match=r"previous_weights must be of shape \(3,\), got \(2,\)"):
        penalty.check(3)


def by_quadratic_program(R, previous, cost, low=-INF, high=INF, budget=None, risk_aversion=1.0):
    """w = previous + bought - sold, by SLSQP."""
    m, S = R.mean(0), np.cov(R.T, bias=True)
    d = len(m)
    gain, a = (0.0, 1.0) if risk_aversion == INF else (1.0, risk_aversion)
    cost = np.broadcast_to(cost, d)

    def value(z):
        w = previous + z[:d] - z[d:]
        slope = 2 * a * S @ w - gain * m
        return a * w @ S @ w - gain * m @ w + cost @ (z[:d] + z[d:]), np.concatenate([slope + cost, cost - slope])

    both = np.hstack([np.eye(d), -np.eye(d)])
    rules = [] if budget is None else [{"type": "eq", "fun": lambda z: (both @ z).sum() + previous.sum() - budget}]
    for bound, sign in ((low, 1), (high, -1)):
        if np.isfinite(bound).all():
            rules.append({"type": "ineq", "fun": lambda z, b=bound, s=sign: s * (previous + both @ z - b)})
    run = optimize.minimize(
        value, np.zeros(2 * d), jac=True, method="SLSQP", bounds=[(0, None)] * 2 * d, constraints=rules,
        options={"ftol": 1e-14, "maxiter": 2000}
    )  # fmt: skip
    return previous + both @ run.x


HELD = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
CASES = {
    "no constraint": ({}, {}),
    "budget": ({"budget": 1.0}, {"budget": 1.0}),
    "long only": ({"constraint": "long_only"}, {"low": 0.0, "budget": 1.0}),
    "box": ({"constraint": (0.0, 0.25)}, {"low": 0.0, "high": 0.25}),
    "box and budget": ({"constraint": (-0.1, 0.35), "budget": 0.9}, {"low": -0.1, "high": 0.35, "budget": 0.9}),
}


@pytest.mark.parametrize("n", slow_but([300, 3000], 300))
@pytest.mark.parametrize("cost", [0.01, 0.1, np.array([0.0, 0.02, 0.5, 0.02, 0.1, 0.01])], ids=["1", "2", "each"])
@pytest.mark.parametrize("name", CASES)
def test_the_weights_are_those_of_a_quadratic_program(name, cost, n):
    params, program = CASES[name]
    R = make_returns(n)
    m, S = R.mean(0), np.cov(R.T, bias=True)
    w = fit(R, previous_weights=HELD, transaction_cost=cost, **params).weights_
    x = by_quadratic_program(R, HELD, cost, **program)
    values = [y @ S @ y - m @ y + (cost * np.abs(y - HELD)).sum() for y in (w, x)]
    assert -1e-6 <= (values[0] - values[1]) / abs(values[1]) <= 1e-6
    if "budget" in program:
        assert abs(w.sum() - program["budget"]) <= 1e-10
    np.testing.assert_array_equal(np.isclose(x, HELD, atol=1e-6), w == HELD)  # what is not traded is left exactly


def test_costs_that_forbid_trades_and_costs_of_nothing():
    R = make_returns()
    np.testing.assert_array_equal(fit(R, previous_weights=HELD, transaction_cost=1e3).weights_, HELD)
    free = fit(R, budget=1.0)
    np.testing.assert_array_equal(fit(R, budget=1.0, previous_weights=HELD).weights_, free.weights_)
    dear = fit(R, l1=0.05).weights_
    np.testing.assert_allclose(fit(R, transaction_cost=0.05).weights_, dear, atol=1e-9)  # from nothing, an l1 norm
    assert np.abs(dear).sum() < np.abs(fit(R).weights_).sum()


def test_the_loss_has_the_cost_and_the_score_has_not():
    R = make_returns()
    portfolio = fit(R, constraint="long_only", previous_weights=HELD, transaction_cost=0.05)
    cost = 0.05 * np.abs(portfolio.weights_ - HELD).sum()
    assert cost > 1e-3
    assert portfolio.loss_curve_[-1] + portfolio.score(R) == pytest.approx(cost)


def test_labels_of_what_is_held_and_of_costs():
    table = pd.DataFrame(make_returns(), columns=NAMES)
    costs = np.linspace(0, 0.1, 6)
    expected = fit(table, budget=1.0, previous_weights=HELD, transaction_cost=costs).weights_
    held, cost = pd.Series(HELD, NAMES)[::-1], pd.Series(costs, NAMES)[::-1]
    found = fit(table, budget=1.0, previous_weights=held, transaction_cost=cost).weights_
    np.testing.assert_array_equal(found, expected)
    turned = fit(table, budget=1.0, previous_weights=HELD[::-1], transaction_cost=costs).weights_
    assert np.abs(turned - expected).max() > 0.01
    with pytest.raises(ValueError, match="previous_weights must have the columns of X as its labels.*'g'"):
        fit(table, budget=1.0, previous_weights=held.rename({"f": "g"}))
    named = fit(table, constraint="long_only").named_weights()
    again = fit(table, constraint="long_only", previous_weights=named, transaction_cost=0.01)
    np.testing.assert_allclose(again.weights_, named, atol=1e-8)  # the best portfolio is kept


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"transaction_cost": -0.1}, "transaction_cost must be finite and >= 0, got"),
        ({"transaction_cost": np.nan}, "transaction_cost must be finite"),
        ({"transaction_cost": [0.1, 0.2]}, r"transaction_cost must be one number or of shape \(6,\), got \(2,\)"),
        ({"transaction_cost": "much"}, "transaction_cost must be numbers, got 'much'"),
        ({"previous_weights": [0.5, 0.5]}, r"previous_weights must be of shape \(6,\), got \(2,\)"),
        ({"previous_weights": 0.1}, "previous_weights must be finite, one for each asset"),
        ({"previous_weights": [np.nan] * 6}, "previous_weights must be finite, one for each asset"),
        ({"solver": "lbfgs", "transaction_cost": 0.1}, "cost of trades"),
    ],
)
def test_costs_out_of_range(params, message):
    with pytest.raises(ValueError, match=message):
        fit(make_returns(), **params)


# --- the least risk -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", slow_but([300, 3000], 300))
@pytest.mark.parametrize("params, program", CASES.values(), ids=CASES)
@pytest.mark.parametrize("cost", [0.0, 0.05])
def test_the_least_variance(params, program, cost, n):
    R = make_returns(n)
    if not cost and "budget" not in program:
        return
    w = fit(R, risk_aversion=INF, previous_weights=HELD, transaction_cost=cost, **params).weights_
    S = np.cov(R.T, bias=True)
    x = by_quadratic_program(R, HELD, cost, risk_aversion=INF, **program)
    values = [y @ S @ y + cost * np.abs(y - HELD).sum() for y in (w, x)]
    assert -1e-6 <= values[0] / values[1] - 1 <= 1e-6


def test_the_least_variance_with_a_budget_in_closed_form():
    R = make_returns()
    inverse = np.linalg.inv(np.cov(R.T))
    expected = inverse.sum(0) / inverse.sum()
    for shift in (0.0, 3.0, -1.0):  # the mean does not count
        portfolio = fit(R + shift, risk_aversion=INF, budget=1.0)
        np.testing.assert_allclose(portfolio.weights_, expected, atol=1e-6)
        assert portfolio.score(R + shift) == pytest.approx(-np.var(R @ expected))
    near = fit(R, risk_aversion=1e7, budget=1.0).weights_
    np.testing.assert_allclose(near, expected, atol=1e-5)


def test_the_least_semivariance():
    R = make_returns(3000)

    def risk(w):
        y = R @ w
        return np.mean(np.minimum(y - y.mean(), 0) ** 2)

    budget = {"type": "eq", "fun": lambda w: w.sum() - 1}
    best = optimize.minimize(
        risk, np.full(6, 1 / 6), method="SLSQP", bounds=[(0, 1)] * 6, constraints=[budget], options={"ftol": 1e-14}
    )
    portfolio = fit(R, risk_measure="semivariance", risk_aversion=INF, constraint="long_only")
    assert portfolio.loss_curve_[-1] == pytest.approx(best.fun, rel=1e-6)
    assert portfolio.loss_curve_[-1] == pytest.approx(risk(portfolio.weights_), rel=1e-12)


def test_streams_of_the_least_risk_with_costs():
    R = make_returns(4000)
    portfolio = CompositionalPortfolio(
        risk_aversion=INF, budget=1.0, previous_weights=HELD, transaction_cost=0.02, random_state=0
    )
    for i in range(0, 4000, 500):
        portfolio.partial_fit(R[i : i + 500])
    S = np.cov(R.T, bias=True)
    x = by_quadratic_program(R, HELD, 0.02, risk_aversion=INF, budget=1.0)
    values = [y @ S @ y + 0.02 * np.abs(y - HELD).sum() for y in (portfolio.weights_, x, HELD)]
    assert abs(portfolio.weights_.sum() - 1) <= 1e-10
    assert values[1] - 1e-12 <= values[0] <= values[1] + 0.1 * (values[2] - values[1])


def test_the_gradient_of_the_least_risk():
    R = make_returns(50)
    for risk_measure in ("variance", "semivariance"):
        problem = PortfolioProblem(R, INF, risk_measure=risk_measure)
        x = np.random.default_rng(0).normal(size=6)
        numeric = optimize.approx_fprime(x, problem.objective, 1e-6)
        np.testing.assert_allclose(problem.gradient(x), numeric, atol=1e-4)
        assert problem.unbounded_below() is False


def test_the_least_risk_of_nothing_is_refused():
    R = make_returns()
    for params in ({}, {"l1": 0.1}, {"constraint": (0, INF)}, {"budget": 0}, {"constraint": (-INF, INF)}):
        with pytest.raises(ValueError, match="risk_aversion=inf needs a constraint or a budget"):
            fit(R, risk_aversion=INF, **params)
    with pytest.raises(ValueError, match="risk_aversion must be finite with risk_measure='entropic'"):
        fit(R, risk_aversion=INF, risk_measure="entropic", budget=1.0)
    for wrong in (-INF, np.nan, 0, "inf"):
        with pytest.raises(ValueError, match="risk_aversion must be a finite number > 0"):
            fit(R, risk_aversion=wrong, budget=1.0)
