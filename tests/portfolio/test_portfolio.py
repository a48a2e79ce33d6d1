"""Tests of CompositionalPortfolio as its user sees it: the weights, the data it takes, scikit-learn's tools."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import few_of, slow_but
from joblib import Parallel, delayed
from scipy import optimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import sk_stormc
import sk_stormc.problems
import sk_stormc.solvers
from sk_stormc import (
    LBFGS,
    SCGD,
    AutomaticSTORM,
    CompositionalPortfolio,
    SARAHCompositional,
    STORMCompositional,
    penalties,
    sharpe_ratio,
)
from sk_stormc.solvers import SOLVERS

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

SMALL, LARGE = 400, 3000  # full batches, and minibatches
MEASURES = ("variance", "semivariance", "entropic")
TIGHT = {"tol": 1e-9, "random_state": 0}


def make_returns(n=SMALL, d=8, seed=0):
    """A market factor and each asset's own noise; up to two orders of magnitude between the assets."""
    rng = np.random.default_rng(seed)
    load, own, mean = rng.uniform(0.5, 1.5, d), rng.uniform(0.3, 1, d), rng.normal(0.05, 0.15, d)
    unit = 10 ** rng.uniform(-1, 1, d)
    return (load * rng.normal(size=(n, 1)) + own * rng.normal(size=(n, d)) + mean) * unit


def moments(R, sample_weight=None):
    """Mean and covariance, population form."""
    weight = np.full(len(R), 1.0) if sample_weight is None else np.asarray(sample_weight, float)
    weight = weight / weight.sum()
    m = weight @ R
    return m, (R - m).T @ ((R - m) * weight[:, None])


def objective(x, R, *, risk_measure="variance", risk_aversion=1.0, l1=0.0, sample_weight=None):
    """The objective, written down again."""
    x, R = np.asarray(x, float), np.asarray(R, float)
    weight = np.full(len(R), 1.0) if sample_weight is None else np.asarray(sample_weight, float)
    weight = weight / weight.sum()
    y = R @ x
    if risk_measure == "entropic":
        value = logsumexp(-risk_aversion * y, b=weight) / risk_aversion
    else:
        d = y - weight @ y
        if risk_measure == "semivariance":
            d = np.minimum(d, 0)
        value = weight @ (risk_aversion * d**2 - y)
    return value + l1 * np.abs(x).sum()


def quadratic_program(R, *, low=-np.inf, high=np.inf, budget=None, l1=0.0):
    """Minimiser of -<m, x> + <x, S x> + l1 |x|_1 between bounds, by SLSQP; x = p - q with p, q >= 0."""
    m, S = moments(R)
    d = m.size
    deviation = np.sqrt(np.diag(S))
    unit = 1 / np.where(deviation > 1e-12, deviation, 1)
    m, S = m * unit, S * np.outer(unit, unit)
    low, high = np.broadcast_to(low, d) / unit, np.broadcast_to(high, d) / unit
    cost, signed = l1 * np.tile(unit, 2), np.concatenate([unit, -unit])

    def value(z):
        x = z[:d] - z[d:]
        slope = 2 * S @ x - m
        return x @ S @ x - m @ x + cost @ z, np.concatenate([slope, -slope]) + cost

    lower = np.concatenate([np.maximum(low, 0), np.maximum(-high, 0)])
    upper = np.concatenate([np.maximum(high, 0), np.maximum(-low, 0)])
    equality = {"type": "eq", "fun": lambda z: signed @ z - budget, "jac": lambda z: signed}
    result = optimize.minimize(
        value,
        lower,
        jac=True,
        method="SLSQP",
        bounds=optimize.Bounds(lower, upper),
        constraints=[] if budget is None else [equality],
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return signed[:d] * (result.x[:d] - result.x[d:])


def smooth_minimum(R, **kwargs):
    """Least value of a smooth objective: scipy on this file's own formula, in the assets' own scales."""
    unit = 1 / R.std(0)
    run = optimize.minimize(
        lambda z: objective(z * unit, R, **kwargs), np.zeros(R.shape[1]), method="BFGS", options={"gtol": 1e-7}
    )
    return run.fun


def fit(R, solver="storm-c", sample_weight=None, **params):
    return CompositionalPortfolio(solver, **{**TIGHT, **params}).fit(R, sample_weight=sample_weight)


def same_bits(a, b):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


# --- the weights, against closed forms and other programs ----------------------------------------------


@pytest.mark.parametrize("solver", ["storm-c", "lbfgs", "sarah-c", "vrsc-pg"])
@pytest.mark.parametrize("risk_aversion", [0.5, 20.0])
def test_unconstrained_weights_solve_the_normal_equations(solver, risk_aversion):
    R = make_returns(LARGE)
    m, S = moments(R)
    weights = np.linalg.solve(S, m) / (2 * risk_aversion)
    found = fit(R, solver, risk_aversion=risk_aversion).weights_
    deviation = np.sqrt(np.diag(S))
    assert np.linalg.norm((found - weights) * deviation) <= 1e-4 * np.linalg.norm(weights * deviation)


def test_sample_weight_enters_the_normal_equations():
    R = make_returns(LARGE)
    sample_weight = np.random.default_rng(1).lognormal(0, 1, LARGE)
    m, S = moments(R, sample_weight)
    weights = np.linalg.solve(S, m) / 2
    np.testing.assert_allclose(fit(R, sample_weight=sample_weight).weights_, weights, rtol=1e-5)


BOUNDS = np.linspace(-0.3, -0.1, 8), np.linspace(0.1, 0.3, 8)
CONSTRAINED = {
    "long_only": ({"constraint": "long_only"}, {"low": 0, "budget": 1.0}),
    "long_only, sum 2.5": ({"constraint": "long_only", "budget": 2.5}, {"low": 0, "budget": 2.5}),
    "box": ({"constraint": (-0.1, 0.2)}, {"low": -0.1, "high": 0.2}),
    "box of arrays": ({"constraint": BOUNDS}, {"low": BOUNDS[0], "high": BOUNDS[1]}),
    "low only": ({"constraint": (0, np.inf)}, {"low": 0}),
    "box and budget": (
        {"constraint": (-0.1, 0.2), "budget": 0.5},
        {"low": -0.1, "high": 0.2, "budget": 0.5},
    ),
    "budget": ({"budget": 1.0}, {"budget": 1.0}),
    "budget 0": ({"budget": 0}, {"budget": 0.0}),
    "infinite bounds and budget": ({"constraint": (-np.inf, np.inf), "budget": -2.0}, {"budget": -2.0}),
    "l1": ({"l1": 0.1}, {"l1": 0.1}),
    "l1 and box": ({"l1": 0.1, "constraint": (-0.1, 0.3)}, {"l1": 0.1, "low": -0.1, "high": 0.3}),
    "l1, box and budget": (
        {"l1": 0.1, "constraint": (-0.1, 0.3), "budget": 0.2},
        {"l1": 0.1, "low": -0.1, "high": 0.3, "budget": 0.2},
    ),
}


@pytest.mark.parametrize("n", [SMALL, LARGE])
@pytest.mark.parametrize(
    "solver", ["storm-c", "lbfgs", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sarah-c", "vrsc-pg"))]
)
@pytest.mark.parametrize("name", CONSTRAINED)
def test_constrained_weights_are_those_of_a_quadratic_program(name, solver, n):
    params, program = CONSTRAINED[name]
    if solver == "lbfgs" and "budget" in program:
        with pytest.raises(ValueError, match="storm-c"):
            fit(make_returns(n), solver, **params)
        return
    R = make_returns(n)
    x, l1 = quadratic_program(R, **program), program.get("l1", 0.0)
    # plain proximal gradient steps, which full batches leave the other methods, are slow on these data
    budget = {"max_iter": 3000} if solver in ("sarah-c", "vrsc-pg") and n == SMALL else {}
    weights = fit(R, solver, **params, **budget).weights_
    least = objective(x, R, l1=l1)
    gap = (objective(weights, R, l1=l1) - least) / abs(least)
    assert -1e-7 <= gap <= 1e-4

    low, high = program.get("low", -np.inf), program.get("high", np.inf)
    assert (weights >= low).all()
    assert (weights <= high).all()
    if "budget" in program:
        assert abs(weights.sum() - program["budget"]) <= 1e-10

    unit = 1 / R.std(0)
    at_bound = np.isclose(x, low, rtol=0, atol=1e-6 * unit) | np.isclose(x, high, rtol=0, atol=1e-6 * unit)
    at_zero = np.isclose(x, 0, rtol=0, atol=1e-6 * unit) if l1 else np.zeros(8, bool)
    slack = 1e-9 * unit if solver == "lbfgs" else 0.0  # scipy stops within rounding of a bound
    at_end = (weights <= low + slack) | (weights >= high - slack)
    at_end |= (np.abs(weights) <= slack) & bool(l1)
    np.testing.assert_array_equal(at_end, at_bound | at_zero)


def test_the_constrained_cases_have_something_to_be_exact_about():
    for name in ("long_only", "box", "box and budget", "l1", "l1 and box"):
        x = quadratic_program(make_returns(LARGE), **CONSTRAINED[name][1])
        assert 2 <= len(np.unique(np.round(x, 6))) < 8, name


@pytest.mark.parametrize("n", slow_but([SMALL, LARGE], LARGE))
@pytest.mark.parametrize("risk_measure", ["semivariance", "entropic"])
def test_other_risk_measures_reach_the_minimum(risk_measure, n):
    R = make_returns(n) / 3
    least = smooth_minimum(R, risk_measure=risk_measure, risk_aversion=2.0)
    params = {"risk_measure": risk_measure, "risk_aversion": 2.0}
    by_lbfgs = fit(R, "lbfgs", tol=1e-10, **params)
    by_storm = fit(R, **params)
    for portfolio in (by_lbfgs, by_storm):
        assert portfolio.stop_reason_ == "converged"
        assert abs(objective(portfolio.weights_, R, **params) - least) <= 1e-6 * abs(least)
    np.testing.assert_allclose(by_storm.weights_ / by_lbfgs.weights_, 1, atol=1e-4)


@pytest.mark.parametrize("risk_measure", slow_but(["semivariance", "entropic"], "semivariance"))
@pytest.mark.parametrize("constraint, budget", [("long_only", 1.0), ((-0.1, 0.2), None), ((-0.1, 0.2), 0.5)])
def test_other_risk_measures_under_constraints(risk_measure, constraint, budget):
    R = make_returns(LARGE)
    portfolio = fit(
        R, risk_measure=risk_measure, constraint=constraint, budget=None if constraint == "long_only" else budget
    )
    low, high = (0, 1) if constraint == "long_only" else constraint
    sums = [] if budget is None else [{"type": "eq", "fun": lambda x: x.sum() - budget}]
    with warnings.catch_warnings():  # SLSQP of scipy 1.13 steps beyond the bounds by rounding, and says so
        warnings.filterwarnings("ignore", "Values in x were outside bounds", RuntimeWarning)
        reference = optimize.minimize(
            lambda x: objective(x, R, risk_measure=risk_measure),
            np.full(8, (budget or 0) / 8),
            method="SLSQP",
            bounds=[(low, high)] * 8,
            constraints=sums,
            options={"ftol": 1e-13},
        )
    gap = objective(portfolio.weights_, R, risk_measure=risk_measure) - reference.fun
    assert -1e-6 <= gap / abs(reference.fun) <= 1e-4
    assert portfolio.weights_.min() >= low
    assert portfolio.weights_.max() <= high
    assert budget is None or abs(portfolio.weights_.sum() - budget) <= 1e-10


@pytest.mark.parametrize("risk_measure", slow_but(MEASURES, "semivariance"))
def test_weights_do_not_depend_on_the_unit(risk_measure):
    R = make_returns(LARGE)
    of_one = fit(R, risk_measure=risk_measure)
    for unit in (1e-12, 1e12):  # powers of 2 would hide a wrong constant
        scaled = fit(unit * R, risk_measure=risk_measure, risk_aversion=1 / unit)
        np.testing.assert_allclose(scaled.weights_, of_one.weights_, rtol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_constant_asset_takes_part(solver):
    R = make_returns(SMALL, 3)
    R = np.c_[R / R.std(0), np.full(SMALL, 0.05)]
    portfolio = fit(R, solver, constraint=(-1.0, 0.75))
    x = quadratic_program(R, low=-1.0, high=0.75)
    gap = (objective(portfolio.weights_, R) - objective(x, R)) / abs(objective(x, R))
    exact = solver in ("storm-c", "lbfgs")
    assert -1e-7 <= gap <= (1e-4 if exact else 1.0)
    assert not exact or portfolio.weights_[3] == pytest.approx(x[3], abs=1e-12)


@pytest.mark.parametrize("n", slow_but([SMALL, LARGE], SMALL))
@pytest.mark.parametrize("name", ["long_only", "budget", "box", "box and budget"])
def test_cash_among_assets_of_very_different_units(name, n):
    params, program = CONSTRAINED[name]
    R = np.c_[make_returns(n, 3) * [1, 10, 0.1], np.full(n, 0.05)]
    portfolio = CompositionalPortfolio(random_state=0, **params).fit(R)
    least = objective(quadratic_program(R, **program), R)
    assert objective(portfolio.weights_, R) - least <= 1e-3 * abs(least)


def test_cash_between_bounds_at_a_high_risk_aversion():
    # nothing curves the objective along cash: its weight belongs at its bound, however large the risk aversion
    R = np.c_[make_returns(SMALL, 4) / make_returns(SMALL, 4).std(0), np.full(SMALL, 0.05)]
    portfolio = CompositionalPortfolio(constraint=(-0.5, 0.5), risk_aversion=80.0, random_state=0).fit(R)
    assert portfolio.stop_reason_ == "converged"
    assert portfolio.weights_[4] == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("name", slow_but(["long_only", "budget", "box and budget"], "long_only", "box and budget"))
def test_converged_is_true_whatever_the_units_of_the_assets(name):
    params, program = CONSTRAINED[name]
    for seed in range(6):
        R = make_returns(300, 6, seed) * 10 ** np.random.default_rng(seed).uniform(-2, 2, 6)
        # tol is relative to the first step, which a budget makes long in mixed units
        portfolio = CompositionalPortfolio(tol=1e-6, random_state=0, **params).fit(R)
        least = min(objective(fit(R, tol=1e-13, **params).weights_, R), objective(quadratic_program(R, **program), R))
        assert portfolio.stop_reason_ == "converged"
        assert objective(portfolio.weights_, R) - least <= 1e-3 * abs(least), seed


@pytest.mark.parametrize("solver", slow_but(["storm-c", "sarah-c", "scgd"], "storm-c", "sarah-c"))
def test_long_only_weights_are_not_even_slightly_negative(solver):
    for seed in range(8):
        for total in (1.0, 2.5):
            portfolio = CompositionalPortfolio(
                solver, constraint="long_only", budget=total, max_iter=100, random_state=seed
            ).fit(make_returns(300, 8, seed))
            weights = portfolio.weights_
            assert (weights >= 0).all(), seed
            assert (weights[weights != 0] > 1e-15).all(), seed


def test_bounds_of_lbfgs_hold_exactly():
    for seed in range(12):
        weights = fit(make_returns(300, 8, seed), "lbfgs", constraint=(-0.1, 0.3)).weights_
        assert (weights >= -0.1).all(), seed
        assert (weights <= 0.3).all(), seed


def test_a_constant_asset_carries_the_long_only_portfolio_of_a_careful_investor():
    R = np.c_[make_returns(LARGE, 3), np.full(LARGE, 0.05)]
    weights = fit(R, constraint="long_only", risk_aversion=1e6).weights_
    assert weights[3] > 0.999


@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_two_identical_assets_share_what_one_would_hold(n):
    R = make_returns(n, 4)
    alone = fit(R).weights_
    twins = fit(np.c_[R, R[:, 1]]).weights_
    np.testing.assert_allclose(np.append(twins[[0, 1, 2, 3]] + [0, twins[4], 0, 0], []), alone, rtol=1e-5)


@pytest.mark.parametrize("l1", slow_but([1e3, 1e200], 1e3))
def test_an_l1_norm_so_large_that_all_weights_are_zero(l1):
    for n in (SMALL, LARGE):
        portfolio = fit(make_returns(n), l1=l1)
        assert not portfolio.weights_.any()
        assert portfolio.stop_reason_ == "converged"


@pytest.mark.parametrize(
    "params", few_of([{"constraint": "long_only"}, {"budget": 1.0}, {"constraint": (0, 0.5), "budget": 1}], 0, 2)
)
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_assets_that_are_all_the_same_constant(n, params):
    portfolio = fit(np.full((n, 4), 0.3), **params)
    assert portfolio.weights_.min() >= 0
    assert abs(portfolio.weights_.sum() - 1) <= 1e-10
    assert abs(portfolio.loss_curve_[-1] + 0.3) <= 1e-12


@pytest.mark.parametrize("constraint", [None, "long_only", (-1, 0.01), (0.02, 1)])
def test_one_asset(constraint):
    R = make_returns(SMALL, 1)
    m, S = moments(R)
    best = m / (2 * S[0])
    expected = 1.0 if constraint == "long_only" else best if constraint is None else np.clip(best, *constraint)
    np.testing.assert_allclose(fit(R, constraint=constraint).weights_, np.ravel(expected), rtol=1e-6)


def test_more_assets_than_periods_is_no_problem_between_bounds():
    R = make_returns(20, 50)
    R /= R.std(0)
    weights = fit(R, constraint="long_only").weights_
    x = quadratic_program(R, low=0, budget=1.0)
    assert objective(weights, R) - objective(x, R) <= 1e-4 * abs(objective(x, R))
    assert abs(weights.sum() - 1) <= 1e-10


# --- the data ------------------------------------------------------------------------------------------


def test_data_frames_of_pandas_and_polars():
    R = make_returns(SMALL, 4)
    names = ["bonds", "gold", "oil", "shares"]
    plain = fit(R)
    for table in (pd.DataFrame(R, columns=names), pl.DataFrame(R, schema=names)):
        portfolio = fit(table)
        same_bits(portfolio.weights_, plain.weights_)
        assert portfolio.n_features_in_ == 4
        assert list(portfolio.feature_names_in_) == names
        np.testing.assert_allclose(portfolio.predict(table), R @ plain.weights_, rtol=1e-10)
        assert portfolio.score(table) == pytest.approx(plain.score(R), rel=1e-12)
        for method in (portfolio.predict, portfolio.score):
            with pytest.raises(ValueError, match="feature names"):
                method(table[names[::-1]])
    assert not hasattr(plain, "feature_names_in_")


def test_a_refit_without_names_forgets_the_names():
    R = make_returns(SMALL, 2)
    portfolio = fit(pd.DataFrame(R, columns=["a", "b"]))
    assert not hasattr(portfolio.fit(R), "feature_names_in_")


@pytest.mark.parametrize("solver", slow_but(SOLVERS, "storm-c", "lbfgs", "scgd"))
@pytest.mark.parametrize("params", [{}, {"constraint": (-0.1, 0.2), "l1": 0.01}, {"constraint": "long_only"}])
def test_float32_returns_give_float32_weights(solver, params):
    if solver == "lbfgs" and params.get("constraint") == "long_only":
        return
    converging = solver in ("storm-c", "lbfgs")
    for n in (SMALL, LARGE):
        R = make_returns(n)
        budget = {} if converging else {"max_iter": 60}
        single = fit(R.astype(np.float32), solver, tol=1e-4, **budget, **params)
        assert single.weights_.dtype == np.float32
        assert single.predict(R.astype(np.float32)).dtype == np.float32
        double = fit(R, solver, tol=1e-4, **budget, **params)
        assert double.weights_.dtype == np.float64
        difference = abs(single.loss_curve_[-1] - double.loss_curve_[-1])
        assert difference <= (1e-3 if converging else 0.2) * abs(double.loss_curve_[-1])


@pytest.mark.parametrize(
    "change",
    [np.asfortranarray, lambda R: np.repeat(R, 2, 1)[:, ::2], lambda R: R[::-1].copy()[::-1], np.ndarray.tolist],
)
def test_any_memory_layout(change):
    R = make_returns(LARGE, 3)
    same_bits(fit(change(R)).weights_, fit(R).weights_)


def test_read_only_returns_and_integers():
    R = np.round(make_returns(SMALL, 3) * 100).astype(np.int16)
    R.flags.writeable = False
    before = R.copy()
    portfolio = fit(R)
    same_bits(portfolio.weights_, fit(R.astype(float)).weights_)
    assert portfolio.weights_.dtype == np.float64
    np.testing.assert_array_equal(R, before)


def test_fit_leaves_the_returns_and_the_weights_of_the_periods_alone():
    R, weight = make_returns(LARGE, 3), np.random.default_rng(0).integers(0, 3, LARGE).astype(float)
    before = R.copy(), weight.copy()
    for params in ({}, {"risk_measure": "semivariance"}, {"risk_measure": "entropic", "constraint": "long_only"}):
        fit(R, sample_weight=weight, **params)
    np.testing.assert_array_equal(R, before[0])
    np.testing.assert_array_equal(weight, before[1])


# --- predict, score ------------------------------------------------------------------------------------


def test_predict_is_the_return_of_each_period():
    R, new = make_returns(SMALL), make_returns(30, seed=1)
    portfolio = fit(R)
    np.testing.assert_allclose(portfolio.predict(new), [sum(r * portfolio.weights_) for r in new])
    assert portfolio.predict(new[:1]).shape == (1,)
    with pytest.raises(ValueError, match="8 features"):
        portfolio.predict(new[:, :7])
    with pytest.raises(NotFittedError):
        CompositionalPortfolio().predict(new)
    with pytest.raises(NotFittedError):
        CompositionalPortfolio().score(new)


@pytest.mark.parametrize("params", [{}, {"constraint": (-0.1, 0.2)}, {"l1": 0.1}])
@pytest.mark.parametrize("risk_measure", MEASURES)
def test_score_is_the_utility_without_the_penalty(risk_measure, params):
    R, new = make_returns(SMALL) / 4, make_returns(30, seed=1) / 4
    weight = np.random.default_rng(0).uniform(0, 3, 30)
    portfolio = fit(R, risk_measure=risk_measure, risk_aversion=1.5, **params)
    same = {"risk_measure": risk_measure, "risk_aversion": 1.5}
    x = portfolio.weights_
    assert portfolio.score(new) == pytest.approx(-objective(x, new, **same), rel=1e-9)
    assert portfolio.score(new, sample_weight=weight) == pytest.approx(
        -objective(x, new, sample_weight=weight, **same), rel=1e-9
    )
    assert portfolio.score(new) != pytest.approx(portfolio.score(new, sample_weight=weight), rel=1e-3)
    assert isinstance(portfolio.score(new), float)


def test_sharpe_ratio():
    R, new = make_returns(SMALL), make_returns(30, seed=1)
    portfolio = fit(R)
    y = new @ portfolio.weights_
    assert sharpe_ratio(portfolio, new) == pytest.approx(y.mean() / y.std())
    assert isinstance(sharpe_ratio(portfolio, new), float)
    scores = cross_val_score(portfolio, R, scoring=sharpe_ratio, cv=TimeSeriesSplit(3))
    assert np.isfinite(scores).all()
    halved = fit(R, risk_aversion=2.0)  # half the position, the same ratio
    assert sharpe_ratio(halved, new) == pytest.approx(sharpe_ratio(portfolio, new), rel=1e-4)
    nothing = fit(R, l1=1e6)
    assert sharpe_ratio(nothing, new) == 0.0


# --- sample_weight -------------------------------------------------------------------------------------

# "storm-c-paper" has a batch size of its own (100), and so draws other batches from other data
SWEEPING = [name for name in SOLVERS if name != "storm-c-paper"]


@pytest.mark.parametrize("risk_measure", MEASURES)
@pytest.mark.parametrize("solver", slow_but(SWEEPING, "storm-c", "lbfgs", "sarah-c", "asc-pg"))
def test_weighting_a_period_k_times_is_repeating_it(solver, risk_measure):
    R = make_returns(200) + 0.1
    k = np.random.default_rng(0).integers(0, 4, 200)
    params = {"risk_measure": risk_measure, "constraint": (-2, 2), "l1": 1e-3, "max_iter": 30}
    weighted = fit(R, solver, sample_weight=k, **params)
    repeated = fit(np.repeat(R, k, axis=0), solver, **params)
    # to rounding, which a combination of anchors and a line search may enlarge
    tolerance = 1e-7 * np.abs(repeated.weights_).max()
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, rtol=0, atol=tolerance)
    assert weighted.n_iter_ == repeated.n_iter_
    assert weighted.score(R, sample_weight=k) == pytest.approx(repeated.score(np.repeat(R, k, axis=0)), rel=1e-8)
    unweighted = fit(R, solver, **params)
    assert np.abs(unweighted.weights_ - weighted.weights_).max() > 1e-3


@pytest.mark.parametrize("solver", slow_but(SOLVERS, "storm-c", "lbfgs", "sarah-c", "scgd"))
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_a_period_of_weight_zero_is_not_there(solver, n):
    R = make_returns(n)
    weight = np.random.default_rng(0).integers(0, 3, n)
    params = {"max_iter": 200}
    with_zeros = fit(R, solver, sample_weight=weight, **params)
    without = fit(R[weight > 0], solver, sample_weight=weight[weight > 0], **params)
    same_bits(with_zeros.weights_, without.weights_)
    np.testing.assert_array_equal(with_zeros.ifo_, without.ifo_)


def test_the_unit_of_the_weights_does_not_matter():
    for n in (SMALL, LARGE):
        R = make_returns(n)
        weight = np.random.default_rng(0).uniform(0.5, 2, n)
        of_one = fit(R, sample_weight=weight)
        for unit in (2.0**-1000, 2.0**1000):
            same_bits(fit(R, sample_weight=unit * weight).weights_, of_one.weights_)
        equal = fit(R, sample_weight=np.full(n, 1e-300))
        np.testing.assert_allclose(equal.weights_, fit(R).weights_, rtol=1e-5)


def test_the_largest_weights_that_there_are():
    R = make_returns(SMALL)
    largest = fit(R, sample_weight=np.full(SMALL, np.finfo(float).max))
    np.testing.assert_allclose(largest.weights_, fit(R).weights_, rtol=1e-5)


def test_a_few_heavy_periods():
    R = make_returns(LARGE)
    weight = np.ones(LARGE)
    weight[::300] = 1e3
    m, S = moments(R, weight)
    best = np.linalg.solve(S, m) / 2
    found = fit(R, sample_weight=weight)
    assert found.loss_curve_[-1] - objective(best, R, sample_weight=weight) <= 1e-4 * abs(found.loss_curve_[-1])


# --- warm_start ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", slow_but(SOLVERS, "storm-c", "lbfgs", "sarah-c", "scgd"))
def test_warm_start_goes_on_from_the_weights(solver):
    R = make_returns(LARGE)
    R /= R.std(0)  # "storm-c-paper" has no scales of its own
    params = {"max_iter": 4 if solver == "lbfgs" else 20, "constraint": (-1, 1)}
    portfolio = fit(R, solver, warm_start=True, **params)
    weights, first = portfolio.weights_, portfolio.loss_curve_
    cold = fit(R, solver, **params)
    same_bits(cold.weights_, weights)  # nothing to start from yet
    portfolio.fit(R)
    assert portfolio.loss_curve_[0] == pytest.approx(first[-1], rel=1e-12)
    assert portfolio.loss_curve_[0] < cold.loss_curve_[0]
    assert portfolio.loss_curve_[-1] < first[-1]
    portfolio.set_params(warm_start=False).fit(R)
    same_bits(portfolio.weights_, weights)


def test_warm_start_on_other_returns_of_the_same_assets():
    R = make_returns(LARGE)
    later = R + 0.05 * make_returns(LARGE, seed=5)
    portfolio = fit(R, constraint="long_only", warm_start=True).fit(later)
    cold = fit(later, constraint="long_only")
    assert portfolio.loss_curve_[0] < cold.loss_curve_[0]
    np.testing.assert_allclose(portfolio.weights_, cold.weights_, atol=1e-6)


def test_warm_start_between_new_bounds_starts_inside_them():
    R = make_returns(SMALL)
    portfolio = fit(R, warm_start=True)
    portfolio.set_params(constraint=(-0.1, 0.2)).fit(R)
    assert portfolio.loss_curve_[0] == pytest.approx(objective(np.clip(fit(R).weights_, -0.1, 0.2), R), rel=1e-6)
    np.testing.assert_allclose(portfolio.weights_, quadratic_program(R, low=-0.1, high=0.2), atol=1e-4)


def test_warm_start_with_another_number_of_assets():
    R = pd.DataFrame(make_returns(SMALL, 4), columns=list("abcd"))
    portfolio = fit(R, warm_start=True)
    kept = pickle.dumps(portfolio)
    with pytest.raises(ValueError, match=r"warm_start.*\b4\b.*\b3\b"):
        portfolio.fit(R[["a", "b", "c"]])
    assert pickle.dumps(portfolio) == kept
    portfolio.set_params(warm_start=False).fit(R[["a", "b", "c"]])
    assert portfolio.n_features_in_ == 3


# --- parameters ----------------------------------------------------------------------------------------


def test_init_stores_and_does_nothing_else():
    solver = AutomaticSTORM()
    params = {
        "solver": solver,
        "risk_measure": "nonsense",
        "risk_aversion": -1,
        "confidence": "high",
        "order": "last",
        "constraint": 17,
        "budget": "much",
        "l1": object(),
        "previous_weights": 0.5,
        "transaction_cost": "high",
        "max_turnover": "low",
        "objective": "gain",
        "max_risk": "little",
        "half_life": "long",
        "linear_constraints": "none",
        "groups": object(),
        "benchmark": object(),
        "max_iter": 0,
        "tol": -1,
        "warm_start": "no",
        "verbose": "loudly",
        "random_state": "seed",
    }
    portfolio = CompositionalPortfolio(**params)
    assert all(getattr(portfolio, name) is value for name, value in params.items())
    assert set(vars(portfolio)) == set(params)
    assert set(inspect.signature(CompositionalPortfolio).parameters) == set(params)


@pytest.mark.parametrize("given", ["storm-c", AutomaticSTORM()], ids=["name", "instance"])
def test_parameters_of_the_solver(given):
    portfolio = CompositionalPortfolio(given)
    own = clone(given, safe=False)
    portfolio.set_params(solver__learning_rate=0.125, solver__batch_size=(8, None, 4))
    assert isinstance(portfolio.solver, AutomaticSTORM)
    assert portfolio.get_params()["solver__learning_rate"] == 0.125
    assert portfolio.solver.batch_size == (8, None, 4)
    copy = clone(portfolio)
    assert copy.solver is not portfolio.solver
    assert copy.get_params(deep=True).keys() == portfolio.get_params(deep=True).keys()
    assert copy.solver.learning_rate == 0.125
    copy.set_params(solver__learning_rate="auto")
    assert portfolio.solver.learning_rate == 0.125
    assert CompositionalPortfolio("storm-c").get_params()["solver"] == "storm-c"
    assert type(own) is type(given)


def test_the_solver_is_set_before_its_parameters_whatever_the_order():
    first = CompositionalPortfolio().set_params(solver__epoch_length=3, solver="sarah-c")
    second = CompositionalPortfolio().set_params(solver="sarah-c", solver__epoch_length=3)
    third = CompositionalPortfolio(SCGD()).set_params(solver__epoch_length=3, solver=SARAHCompositional(tol=0))
    for portfolio in (first, second, third):
        assert isinstance(portfolio.solver, SARAHCompositional)
        assert portfolio.solver.epoch_length == 3
    assert third.solver.tol == 0


def test_set_params_returns_self_and_sets_the_plain_ones_too():
    portfolio = CompositionalPortfolio()
    assert portfolio.set_params() is portfolio
    assert portfolio.set_params(solver__tol=0.5, risk_aversion=3.0) is portfolio
    assert (portfolio.risk_aversion, portfolio.solver.tol) == (3.0, 0.5)


@pytest.mark.parametrize("given", ["storm-c", AutomaticSTORM(), LBFGS(), "lbfgs"])
def test_an_unknown_parameter(given):
    for name in ("solver__beta", "learning_rate", "solver__learning_rate__scale"):
        if "lbfgs" in str(given).lower() or name != "solver__learning_rate__scale":
            with pytest.raises(ValueError, match=name.split("__")[1] if "__" in name else name):
                CompositionalPortfolio(clone(given, safe=False)).set_params(**{name: 1.0})


@pytest.mark.parametrize("solver", [solver() for solver in SOLVERS.values()], ids=list(SOLVERS))
def test_fit_leaves_the_solver_it_was_given_alone(solver):
    before = pickle.dumps(solver)
    portfolio = CompositionalPortfolio(solver, max_iter=2, tol=1e-7, random_state=0).fit(make_returns(50, 3))
    assert portfolio.solver is solver
    assert pickle.dumps(solver) == before
    assert portfolio.solver_ is not solver
    assert type(portfolio.solver_) is type(solver)
    assert (portfolio.solver_.max_iter, portfolio.solver_.tol) == (2, 1e-7)
    assert portfolio.n_iter_ == 2
    assert portfolio.stop_reason_ == "max_iter"


def test_max_iter_and_tol_of_none_are_the_solvers_own():
    R = make_returns(LARGE, 3)
    portfolio = CompositionalPortfolio(AutomaticSTORM(max_iter=7, tol=0), random_state=0).fit(R)
    assert portfolio.n_iter_ == 7
    portfolio = CompositionalPortfolio(SCGD(max_ifo=5000), random_state=0).fit(R)
    assert portfolio.stop_reason_ == "max_ifo"
    assert portfolio.ifo_[-1] <= 5000
    early, late = (fit(R, tol=tol) for tol in (1e-1, 1e-8))
    assert early.stop_reason_ == late.stop_reason_ == "converged"
    assert early.n_iter_ < late.n_iter_


# --- scikit-learn's tools ------------------------------------------------------------------------------


@pytest.mark.parametrize("given", slow_but(["storm-c", "sarah-c", STORMCompositional()], "storm-c"), ids=str)
def test_grid_search_over_the_solver_and_the_problem(given):
    R = make_returns(1500, 4)
    grid = {
        "solver__learning_rate": [0.01, 0.1],
        "solver__batch_size": [8, None],
        "risk_aversion": [0.5, 50.0],
    }
    search = GridSearchCV(
        CompositionalPortfolio(given, constraint=(-0.5, 0.5), max_iter=40, random_state=0),
        grid,
        scoring=sharpe_ratio,
        cv=TimeSeriesSplit(2),
        error_score="raise",
    ).fit(R)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) == 8  # every parameter reaches the run
    best = search.best_estimator_
    assert {f"solver__{name}": getattr(best.solver_, name) for name in ("learning_rate", "batch_size")} == {
        name: value for name, value in search.best_params_.items() if name != "risk_aversion"
    }
    by_hand = clone(search.estimator).set_params(**search.best_params_).fit(R)
    same_bits(best.weights_, by_hand.weights_)


def test_grid_search_over_solvers():
    search = GridSearchCV(
        CompositionalPortfolio(constraint="long_only", max_iter=5, random_state=0),
        [{"solver": ["scgd", "storm-c"]}, {"solver": ["sarah-c"], "solver__epoch_length": [2, 5]}],
        cv=2,
        error_score="raise",
    ).fit(make_returns(300, 4))
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_pipeline():
    R = make_returns(SMALL, 4)
    percent = FunctionTransformer(lambda R: 100 * R)
    pipeline = Pipeline([("percent", percent), ("portfolio", CompositionalPortfolio(random_state=0))])
    pipeline.set_params(portfolio__solver__batch_size=16, portfolio__risk_aversion=0.01)
    pipeline.fit(R)
    np.testing.assert_allclose(pipeline.predict(R), 100 * R @ pipeline[-1].weights_)
    assert pipeline.score(R) == pipeline[-1].score(100 * R)
    assert pipeline[-1].solver_.batch_size == 16
    weight = np.random.default_rng(0).uniform(0.5, 2, SMALL)
    weighted = pipeline.fit(R, portfolio__sample_weight=weight)[-1].weights_
    same_bits(weighted, clone(pipeline[-1]).fit(100 * R, sample_weight=weight).weights_)


@pytest.mark.parametrize("solver", slow_but(SOLVERS, "storm-c", "lbfgs", "sarah-c", "scgd"))
def test_pickle(solver):
    R = make_returns(20_000, 4).astype(np.float64)
    portfolio = CompositionalPortfolio(solver, constraint=(-1, 1), max_iter=20, random_state=0)
    portfolio.fit(pd.DataFrame(R, columns=list("abcd")), sample_weight=np.arange(20_000.0))
    data = pickle.dumps(portfolio)
    assert len(data) < R.nbytes / 4
    back = pickle.loads(data)
    assert back.get_params().keys() == portfolio.get_params().keys()
    frame = pd.DataFrame(make_returns(10, 4), columns=list("abcd"))
    same_bits(back.predict(frame), portfolio.predict(frame))
    same_bits(back.loss_curve_, portfolio.loss_curve_)
    assert (back.n_iter_, back.stop_reason_, back.n_evaluations_) == (
        portfolio.n_iter_,
        portfolio.stop_reason_,
        portfolio.n_evaluations_,
    )
    again = back.fit(R, sample_weight=np.arange(20_000.0))
    same_bits(again.weights_, portfolio.weights_)


def weights_of(solver, params, R):
    return CompositionalPortfolio(solver, **params).fit(R).weights_


@pytest.mark.slow
@pytest.mark.parametrize("risk_measure", MEASURES)
def test_the_same_seed_gives_the_same_bits_at_any_n_jobs(risk_measure):
    R = make_returns(LARGE, 4)
    params = {"random_state": 3, "risk_measure": risk_measure, "max_iter": 200, "constraint": (-1, 1)}
    stochastic = [name for name in SOLVERS if name != "lbfgs"]
    here = [weights_of(solver, params, R) for solver in stochastic]
    there = Parallel(n_jobs=2)(delayed(weights_of)(solver, params, R) for solver in stochastic)
    for solver, a, b in zip(stochastic, here, there, strict=True):
        same_bits(a, b)
        assert (a != weights_of(solver, {**params, "random_state": 4}, R)).any()


def test_random_state_as_scikit_learn_has_it():
    R = make_returns(LARGE, 4)

    def run(random_state):
        return CompositionalPortfolio("storm-c", random_state=random_state, max_iter=50).fit(R).weights_

    same_bits(run(0), run(np.random.RandomState(0)))
    same_bits(run(0), run(np.int64(0)))
    state = np.random.RandomState(0)
    assert (run(state) != run(state)).any()
    np.random.seed(7)
    first = run(None)
    second = run(None)
    assert (first != second).any()
    np.random.seed(7)
    same_bits(run(None), first)


def test_a_fit_does_not_touch_the_global_generators():
    np.random.seed(7)
    before = np.random.get_state()[1].copy()
    fit(make_returns(LARGE, 3))
    np.testing.assert_array_equal(np.random.get_state()[1], before)


# --- what a run leaves behind --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("risk_measure", MEASURES)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_curves(solver, risk_measure, n):
    R = make_returns(n)
    R /= R.std(0)
    params = {"risk_measure": risk_measure, "risk_aversion": 0.7, "l1": 0.02}
    portfolio = CompositionalPortfolio(solver, constraint=(-1, 1), random_state=0, **params).fit(R)
    ifo, loss = portfolio.ifo_, portfolio.loss_curve_
    assert ifo.shape == loss.shape == (len(ifo),)
    assert ifo[0] == 0
    assert (np.diff(ifo[:-1]) > 0).all()
    assert ifo[-2] <= ifo[-1]  # the returned point may be another one than the last iterate
    assert len(ifo) > 2
    assert loss[0] == pytest.approx(0, abs=1e-12)  # from the empty portfolio
    assert loss[-1] == pytest.approx(objective(portfolio.weights_, R, **params), rel=1e-9)
    assert loss[-1] < -0.01
    assert portfolio.n_iter_ >= 1
    assert set(portfolio.n_evaluations_) == {"inner", "jacobian", "outer"}
    # what is drawn is evaluated, once or at two points
    assert ifo[-1] <= sum(portfolio.n_evaluations_.values())
    a_pass = 2 * n + (1 if risk_measure == "entropic" else n)
    assert ifo[-1] <= 101 * a_pass
    by_run = ifo[:-1] if solver == "storm-c" else ifo  # which may hand over to another method before the last record
    assert np.diff(by_run).max() <= 3 * a_pass  # the first with the probe of the step size


def test_counts_of_algorithm_1():
    # Lemma 3.1: S_g + S_dg + S_f + T (B_g + B_dg + B_f); the recursion evaluates a batch at two points
    solver = STORMCompositional(0.01, 0.1, 0.1, (10, 20, 30), (100, 200, 300), tol=0, max_iter=50)
    portfolio = CompositionalPortfolio(solver, random_state=0).fit(make_returns(LARGE))
    assert portfolio.ifo_[-1] == 600 + 50 * 60
    assert portfolio.n_evaluations_ == {
        "inner": 100 + 50 * 2 * 10,
        "jacobian": 200 + 50 * 2 * 20,
        "outer": 300 + 50 * 2 * 30,
    }
    assert portfolio.n_iter_ == 50


def test_counts_of_the_published_constants():
    portfolio = CompositionalPortfolio("storm-c-paper", random_state=0, max_iter=50).fit(make_returns(LARGE))
    assert portfolio.ifo_[-1] == 300 + 50 * 300
    assert portfolio.n_evaluations_ == dict.fromkeys(("inner", "jacobian", "outer"), 100 + 50 * 200)


def test_counts_of_full_batches():
    n = SMALL
    portfolio = CompositionalPortfolio(SARAHCompositional(0.05, max_iter=9, tol=0)).fit(make_returns(n))
    # a constant Jacobian once; u and F at x_0 and after each step
    assert portfolio.n_evaluations_ == {"inner": 10 * n, "jacobian": n, "outer": 10 * n}
    assert portfolio.ifo_[-1] == 21 * n


def test_counts_of_lbfgs():
    portfolio = CompositionalPortfolio("lbfgs").fit(make_returns(SMALL))
    calls = portfolio.n_evaluations_["inner"] // SMALL
    assert portfolio.n_evaluations_ == dict.fromkeys(("inner", "jacobian", "outer"), calls * SMALL)
    assert portfolio.ifo_[-1] == 3 * SMALL * calls
    assert calls > portfolio.n_iter_


# --- documentation -------------------------------------------------------------------------------------

PUBLIC = {
    name: getattr(module, name)
    for module in (sk_stormc, sk_stormc.problems, sk_stormc.solvers, penalties)
    for name in module.__all__
    if callable(getattr(module, name))
}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_documented(name):
    docscrape = pytest.importorskip("numpydoc.docscrape")
    thing = PUBLIC[name]
    document = (docscrape.ClassDoc if inspect.isclass(thing) else docscrape.FunctionDoc)(thing)
    assert "".join(document["Summary"]).strip()
    own_init = inspect.isclass(thing) and thing.__init__ in (object.__init__, dict.__init__)
    signature = {} if own_init else inspect.signature(thing).parameters
    # a dataclass of results documents its attributes
    section = "Attributes" if hasattr(thing, "__dataclass_fields__") else "Parameters"
    documented = [word.strip().lstrip("*") for item in document[section] for word in item.name.split(",")]
    missing = [word for word in signature if word not in ("args", *documented)]
    if inspect.isabstract(thing):
        return
    assert missing == []
    if section == "Parameters":
        assert documented == list(signature)  # and none that does not exist, in their order
