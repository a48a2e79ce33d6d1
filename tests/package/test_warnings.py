"""A run that has not converged, or has no minimum to converge to, warns; one that has
converged does not."""

import re
import warnings

import numpy as np
import pytest
from helpers import slow_but
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import Simplex
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import SOLVERS

STOCHASTIC = [name for name in SOLVERS if name not in ("lbfgs", "corrected-sample")]


def returns(n=50, d=5, seed=0, mean=0.1):
    return np.random.default_rng(seed).normal(mean, 1.0, (n, d))


def heavy_tails(n=1100, d=5):
    """Daily returns in percent with rare large losses of all assets together."""
    rng = np.random.default_rng(0)
    market = rng.standard_t(3, size=(n, 1))
    return (
        0.8 * market * rng.uniform(0.6, 1.4, d)
        + 0.6 * rng.standard_t(4, size=(n, d))
        + 0.05
    )


def constant_asset(n, value):
    return np.c_[returns(n, 4), np.full(n, value)]


def warned(call, *args, **kwargs):
    """The result of a call, and the texts of its ConvergenceWarnings; it gives no
    others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*args, **kwargs)
    assert {w.category for w in caught} <= {ConvergenceWarning}
    assert all(w.filename == __file__ or "sk_stormc" in w.filename for w in caught)
    return result, [str(w.message) for w in caught]


def fit(solver, R, **params):
    return warned(CompositionalPortfolio(solver, random_state=0, **params).fit, R)


# objectives without a minimum

UNBOUNDED = {
    "fewer periods than assets": returns(20, 30),
    "fewer periods than assets, daily": returns(20, 30, mean=0.05) / 100,
    "as many periods as assets": returns(30, 30),
    "a constant asset": constant_asset(300, 0.02),
    "a constant asset that loses": constant_asset(1500, -0.02),
    "nothing but cash": np.full((100, 3), 0.01),
}


@pytest.mark.parametrize("solver", slow_but(SOLVERS, "storm-c"))
@pytest.mark.parametrize("case", UNBOUNDED)
def test_unbounded_objective(solver, case):
    R = UNBOUNDED[case]
    portfolio, (message,) = fit(solver, R)
    assert (
        "unbounded" in message
        and "constraint" in message
        and type(portfolio.solver_).__name__ in message
    )
    assert (
        np.isfinite(portfolio.weights_).all()
        and portfolio.loss_curve_[-1] < portfolio.loss_curve_[0]
    )
    if (
        solver in ("storm-c", "sketchy-storm") and len(R) <= 1024
    ):  # full batches, whose budget is in iterations
        assert (portfolio.stop_reason_, portfolio.n_iter_) == ("max_iter", 100)
    else:
        assert portfolio.stop_reason_ in ("max_ifo", "no_decrease")
        assert portfolio.ifo_[-1] <= 110 * 3 * len(R)


@pytest.mark.parametrize("solver", slow_but(SOLVERS, "storm-c"))
def test_unbounded_with_a_budget_or_entropic_risk(solver):
    if solver not in ("lbfgs", "corrected-sample"):  # which take no budget
        assert "unbounded" in fit(solver, returns(20, 30), budget=1.0)[1][0]
    # some portfolio wins in every period
    _, (message,) = fit(solver, np.abs(returns(60, 3)), risk_measure="entropic")
    assert "unbounded" in message


MARKET = np.random.default_rng(1).normal(size=(1500, 1))
BOUNDED = {
    "small": returns(300, 5),
    "fractions": returns(1500, 5) / 100,
    "hardly more periods than assets": returns(62, 60),
    "two identical assets": np.c_[returns(300, 4), returns(300, 4)[:, 1]],
    "two nearly identical assets": np.c_[MARKET, MARKET + 1e-4 * returns(1500, 1)],
    "an asset of nothing": np.c_[returns(300, 4), np.zeros(300)],
    "nothing": np.zeros((100, 3)),
    "no mean return": returns(300, 4) - returns(300, 4).mean(0),
    "very different units": returns(1500, 5) * 10.0 ** np.arange(-4, 6, 2),
    "nearly cash": np.c_[
        returns(1500, 4), 0.01 + 1e-4 * returns(1500, 1, seed=1, mean=0)
    ],
}


def only_budgets_are_told(portfolio, messages):
    """A budget that ended before tol was met is told once, unless it is the default and
    the last point is above the start; so are a last point above a recorded one, and a
    last step that could not lower the objective."""
    messages = [
        message
        for message in messages
        if "nearly combinations of others" not in message
    ]
    ended = portfolio.solver_.tol > 0 and portfolio.stop_reason_ in (
        "max_iter",
        "max_ifo",
        "no_decrease",
    )
    short = sum(
        "has not converged: its budget ended" in message or "no step lowers" in message
        for message in messages
    )
    above = sum("returns its last point" in message for message in messages)
    if (portfolio.solver_.max_iter, portfolio.solver_.max_ifo) == (None, None):
        ended &= not any("above the start's" in message for message in messages)
    lower = portfolio.loss_curve_[-1] > portfolio.loss_curve_.min()
    return len(messages) == short + above and short == ended and above <= lower


@pytest.mark.parametrize("solver", slow_but(SOLVERS, "storm-c"))
@pytest.mark.parametrize("case", BOUNDED)
def test_bounded_objective(solver, case):
    for params in ({}, {"max_iter": 10, "tol": 0.0}):
        assert only_budgets_are_told(*fit(solver, BOUNDED[case], **params))


# steps that are too long or too short


# the normalised steps of "storm-c-paper" cannot overflow


@pytest.mark.parametrize("solver", slow_but(STOCHASTIC, "storm-c"))
def test_learning_rate_too_large_within_constraints(solver):
    for params in (
        {"constraint": "long_only"},
        {"constraint": (0, 0.5), "budget": 1.0},
        {"risk_measure": "entropic"},
    ):
        for rate, n in ((1.0, 300), (1e3, 1500), (1e300, 300)):
            portfolio, messages = fit(
                SOLVERS[solver](learning_rate=rate, max_iter=150), returns(n), **params
            )
            weights = portfolio.weights_
            assert (
                np.isfinite(weights).all() and np.isfinite(portfolio.loss_curve_).all()
            )
            assert messages or portfolio.loss_curve_[-1] <= portfolio.loss_curve_[0]
            assert not any("unbounded" in message for message in messages)
            if "constraint" in params:
                assert (
                    abs(weights.sum() - 1) <= 1e-10
                    and weights.min() >= 0
                    and weights.max() <= 1
                )


def test_learning_rate_far_too_small_has_not_converged():
    problem = PortfolioProblem(heavy_tails(), penalty=Simplex())
    result, messages = warned(
        minimize, problem, "sarah-c", random_state=0, learning_rate=1e-40
    )
    assert result.stop_reason != "converged" and messages
    best = minimize(problem, random_state=0, tol=1e-10).x
    assert minimize(problem, "sarah-c", best, random_state=0).stop_reason == "converged"


def test_objective_that_is_not_finite_at_the_start():
    problem, x0 = PortfolioProblem(returns(300)), np.full(5, 1e200)
    result, (message,) = warned(minimize, problem, x0=x0)
    assert "not finite" in message and (
        result.stop_reason,
        result.n_iter,
        len(result.ifo),
    ) == ("non_finite", 0, 1)
    np.testing.assert_array_equal(result.x, x0)


# budgets and ends


@pytest.mark.parametrize("solver", ["storm-c", "scgd"])
def test_budget_that_ends_before_tol_is_met(solver):
    R = make_gaussian_returns(2000, 30, mean=0.3, condition_number=50, random_state=0)
    portfolio, (message, *_) = fit(solver, R, max_iter=30)
    assert (
        portfolio.stop_reason_ == "max_iter"
        and "has not converged" in message
        and "max_iter" in message
    )
    assert not any(
        "has not converged" in message
        for message in fit(solver, R, max_iter=30, tol=0)[1]
    )
    result, messages = warned(
        minimize, PortfolioProblem(R), solver, max_ifo=10_000, random_state=0
    )
    assert result.stop_reason == "max_ifo" and not any(
        "has not converged" in message for message in messages
    )


def test_converged_run_is_not_charged_again():
    problem = PortfolioProblem(returns(400, 4, mean=0.3))
    done = minimize(problem, "asc-pg", random_state=0)
    again = minimize(problem, "asc-pg", state=done.state)
    assert done.stop_reason == again.stop_reason == "converged"
    assert (again.ifo == done.ifo).all() and (again.x == done.x).all()


def test_nearly_identical_assets():
    """Gradients are small along an asset minus its near-copy, however far the minimum
    is."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(500, 8)) * rng.uniform(0.5, 2, 8) + 0.1
    R = np.hstack([A, A[:, :3] + 1e-3 * rng.normal(size=(500, 3))])
    problem = PortfolioProblem(R)
    best = problem.objective(np.linalg.solve(2 * np.cov(R.T, bias=True), R.mean(0)))
    portfolio, (message, *_) = fit("storm-c", R, max_iter=1000)
    left = problem.objective(portfolio.weights_) - best
    assert (
        left > 1e-3 * abs(best)
        and "nearly combinations" in message
        and "solver='auto'" in message
    )
    assert float(re.search(r"by up to ([-+\d.e]+), ", message)[1]) == pytest.approx(
        left, rel=0.3
    )
    assert portfolio.dual_gap_ >= left * (1 - 1e-6)
    exact, messages = fit("auto", R)
    assert not messages and problem.objective(exact.weights_) - best < 1e-9 * abs(best)
    assert not fit("auto", A)[1] and not fit("auto", R, constraint=(-1, 1))[1]
