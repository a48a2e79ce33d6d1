"""Fits by iterative solvers: against scipy, with gaps that are true, warm starts, and
the risk measures that they have."""

import pickle
import warnings

import numpy as np
import pytest
from definitions import make_returns, utility
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import CompositionalPortfolio

SMALL, LARGE = 400, 3000  # full batches, and minibatches
LONG = {"constraint": "long_only"}


def mixed_returns(n=SMALL, d=8, seed=0):
    """A market factor and each asset's own noise; up to two orders of magnitude between
    the assets."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(0.5, 1.5, d)
    own = rng.uniform(0.3, 1, d)
    mean = rng.normal(0.05, 0.15, d)
    return (
        load * rng.normal(size=(n, 1)) + own * rng.normal(size=(n, d)) + mean
    ) * 10 ** rng.uniform(-1, 1, d)


def fit(R, solver="storm-c", sample_weight=None, **params):
    params = {"tol": 1e-9, "random_state": 0} | params
    return CompositionalPortfolio(solver, **params).fit(R, sample_weight=sample_weight)


def quiet(R, solver="storm-c", **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(R, solver, **params)


def same_bits(a, b):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("solver", "weighted"), [("storm-c", True), ("lbfgs", True), ("sarah-c", False)]
)
def test_unconstrained_weights_solve_the_normal_equations(solver, weighted):
    R, p = mixed_returns(LARGE), np.ones(LARGE) / LARGE
    sample_weight = None
    if weighted:
        sample_weight = np.random.default_rng(1).lognormal(0, 1, LARGE)
        p = sample_weight / sample_weight.sum()
    S = (R - p @ R).T @ ((R - p @ R) * p[:, None])
    expected, deviation = np.linalg.solve(S, p @ R), np.sqrt(np.diag(S))
    found = fit(R, solver, sample_weight, risk_aversion=0.5).weights_
    off = np.linalg.norm((found - expected) * deviation)
    assert off <= 1e-4 * np.linalg.norm(expected * deviation)


HELD = np.array([0.3, 0.2, 0.1, 0.1, 0.1, -0.1, -0.2, 0.0])
CASES = {
    "low only, sum 2.5": {"constraint": (0.0, np.inf), "budget": 2.5},
    "box of arrays": {
        "constraint": (np.linspace(-0.3, -0.1, 8), np.linspace(0.1, 0.3, 8))
    },
    "low only": {"constraint": (0, np.inf)},
    "budget 0": {"budget": 0},
    "l1": {"l1": 0.1},
    "l1, box and budget": {"l1": 0.1, "constraint": (-0.1, 0.3), "budget": 0.2},
    "l1 and cost of trades": {
        "l1": 0.02,
        "budget": 1.0,
        "previous_weights": HELD,
        "transaction_cost": 0.05,
    },
}


@pytest.mark.parametrize(
    ("solver", "case"),
    [*[("storm-c", case) for case in CASES], ("lbfgs", "box of arrays")],
)
def test_the_optimum_under_constraints(solver, case):
    R, params = mixed_returns(LARGE), CASES[case]
    w, best = fit(R, solver, **params).weights_, fit(R, "newton", **params)
    costs = {
        "l1": params.get("l1", 0.0),
        "held": HELD,
        "cost": params.get("transaction_cost", 0.0),
    }
    value = best.loss_curve_[-1]
    above = utility(w, R, "variance", **costs) - value
    assert -1e-7 * abs(value) <= above <= 1e-4 * abs(value)
    low, high = params.get("constraint", (-np.inf, np.inf))
    assert (w >= low).all() and (w <= high).all()
    assert "budget" not in params or abs(w.sum() - params["budget"]) <= 1e-10
    kinks = [low, high, *[0.0] * ("l1" in params)]
    kinks += [HELD] * ("transaction_cost" in params)
    slack = 1e-9 if solver == "lbfgs" else 0.0  # scipy stops within rounding of a bound
    for kink in kinks:  # what the optimum has at a bound or a kink is there exactly
        at = np.abs(w - kink) * R.std(0) <= slack
        np.testing.assert_array_equal(
            at, np.abs(best.weights_ - kink) * R.std(0) <= 1e-6
        )


@pytest.mark.parametrize("measure", ["semivariance", "entropic"])
@pytest.mark.parametrize(
    ("solver", "params"),
    [
        ("lbfgs", {}),
        ("storm-c", {}),
        ("storm-c", {"constraint": (-0.1, 0.2), "budget": 0.5}),
    ],
)
def test_other_smooth_measures(measure, solver, params):
    R = mixed_returns(LARGE) / 3
    given = {"risk_measure": measure, "risk_aversion": 2.0, **params}
    best, portfolio = fit(R, "newton", **given).loss_curve_[-1], fit(R, solver, **given)
    value = utility(portfolio.weights_, R, measure, 2.0)
    assert portfolio.stop_reason_ == "converged"
    assert value == pytest.approx(best, rel=1e-5)
    assert portfolio.score(R) == pytest.approx(-value, rel=1e-9)


def test_cash_among_assets_of_very_different_units(n=SMALL):
    """Nothing curves the objective along cash: between bounds it is at one, however
    large the risk aversion."""
    R = np.c_[mixed_returns(n, 3) * [1, 10, 0.1], np.full(n, 0.05)]
    careful = {"constraint": (-0.5, 0.5), "risk_aversion": 80.0}
    for params in (LONG, {"budget": 1.0}, {"constraint": (-0.1, 0.2)}, careful):
        portfolio, best = fit(R, tol=1e-6, **params), fit(R, "newton", **params)
        assert portfolio.loss_curve_[-1] - best.loss_curve_[-1] <= 1e-3 * abs(
            best.loss_curve_[-1]
        )
        assert portfolio.stop_reason_ == "converged"
    assert portfolio.weights_[3] == pytest.approx(0.5, abs=1e-9)
    constant = fit(np.full((n, 4), 0.3), **LONG)
    assert abs(constant.weights_.sum() - 1) <= 1e-10
    assert constant.loss_curve_[-1] == pytest.approx(-0.3, rel=1e-12)


@pytest.mark.parametrize("solver", ["storm-c", "scgd", "lbfgs"])
def test_float32_returns_give_float32_weights(solver):
    exact = solver in ("storm-c", "lbfgs")
    R, params = mixed_returns(), {"constraint": (-0.1, 0.2), "tol": 1e-4}
    single, double = (
        quiet(r, solver, max_iter=60, **params) for r in (R.astype(np.float32), R)
    )
    predicted = single.predict(R.astype(np.float32))
    assert single.weights_.dtype == predicted.dtype == np.float32
    assert single.loss_curve_[-1] == pytest.approx(
        double.loss_curve_[-1], rel=1e-3 if exact else 0.2
    )


@pytest.mark.parametrize(
    ("solver", "measure"),
    [("storm-c", "semivariance"), ("lbfgs", "entropic"), ("asc-pg", "variance")],
)
def test_weighting_a_period_k_times_is_repeating_it(solver, measure):
    R, k = mixed_returns(200) + 0.1, np.random.default_rng(0).integers(0, 4, 200)
    params = {
        "risk_measure": measure,
        "constraint": (-2, 2),
        "l1": 1e-3,
        "max_iter": 15,
        "tol": 0,
    }
    weighted = quiet(R, solver, sample_weight=k, **params)
    repeated = quiet(np.repeat(R, k, axis=0), solver, **params)
    # to rounding, which a combination of anchors and a line search may enlarge
    tolerance = 1e-7 * np.abs(repeated.weights_).max()
    np.testing.assert_allclose(
        weighted.weights_, repeated.weights_, rtol=0, atol=tolerance
    )
    assert weighted.n_iter_ == repeated.n_iter_
    without = quiet(R[k > 0], solver, sample_weight=k[k > 0], **params)
    same_bits(weighted.weights_, without.weights_)
    np.testing.assert_array_equal(weighted.ifo_, without.ifo_)


def test_the_unit_of_sample_weights_does_not_matter():
    R, weight = mixed_returns(), np.random.default_rng(0).uniform(0.5, 2, SMALL)
    of_one = fit(R, sample_weight=weight)
    for unit in (2.0**-1000, 2.0**1000):
        same_bits(fit(R, sample_weight=unit * weight).weights_, of_one.weights_)
    for equal in (1e-300, np.finfo(float).max):
        found = fit(R, sample_weight=np.full(SMALL, equal)).weights_
        np.testing.assert_allclose(found, fit(R).weights_, rtol=1e-5)


# warm starts


@pytest.mark.parametrize("solver", ["storm-c", "scgd", "lbfgs"])
def test_a_warm_start_continues_from_the_weights(solver):
    R = mixed_returns(LARGE)
    params = {"max_iter": 4 if solver == "lbfgs" else 20, "constraint": (-1, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        portfolio = fit(R, solver, warm_start=True, **params)
        cold = fit(R, solver, **params)
        weights, first = portfolio.weights_, portfolio.loss_curve_
        same_bits(cold.weights_, weights)  # nothing to start from yet
        portfolio.fit(R)
    assert portfolio.loss_curve_[0] == pytest.approx(first[-1], rel=1e-12)
    assert portfolio.loss_curve_[0] < cold.loss_curve_[0]
    assert portfolio.loss_curve_[-1] < first[-1]


@pytest.mark.parametrize("solver", ["newton", "moments"])
def test_a_warm_start_does_not_change_exact_fits(solver):
    R = mixed_returns()
    warm, cold = (
        CompositionalPortfolio(solver, constraint="long_only", warm_start=warm)
        for warm in (True, False)
    )
    warm.fit(-R).fit(R)
    cold.fit(R)
    for name in ("weights_", "loss_curve_", "ifo_", "dual_gap_"):
        np.testing.assert_array_equal(getattr(warm, name), getattr(cold, name))


def test_tol_of_a_warm_start_is_relative_to_the_first_start():
    R = mixed_returns(LARGE)
    portfolio = fit(R, tol=1e-3, warm_start=True, **LONG)
    later = R + 0.01 * mixed_returns(LARGE, seed=5)
    cold = fit(later, tol=1e-3, **LONG)
    assert portfolio.fit(later).n_iter_ < cold.n_iter_ / 2
    assert portfolio.loss_curve_[0] < cold.loss_curve_[0]
    portfolio.set_params(constraint=(-0.1, 0.2), tol=1e-9).fit(R)
    np.testing.assert_allclose(
        portfolio.weights_, fit(R, constraint=(-0.1, 0.2)).weights_, atol=1e-5
    )
    kept = pickle.dumps(portfolio)
    with pytest.raises(ValueError, match=r"warm_start.*\b8\b.*\b3\b"):
        portfolio.fit(R[:, :3])
    assert pickle.dumps(portfolio) == kept


# gaps


@pytest.mark.parametrize("measure", ["variance", "semivariance", "entropic"])
def test_the_gap_of_a_fit_that_ends_early(measure):
    R = make_returns(1200, 10, 7)
    given = {"risk_measure": measure, "risk_aversion": 20.0, "l1": 1e-5}
    given |= {"constraint": (-0.4, 0.4), "budget": 1.0}
    best = fit(R, "newton", **given).loss_curve_[-1]
    for solver in ("storm-c", "sarah-c"):
        early = quiet(R, solver, max_iter=4, **given)
        true = early.loss_curve_[-1] - best
        assert true > 0 and true - 1e-12 <= early.dual_gap_ <= 10 * true + 1e-8


def test_the_gap_takes_all_feasible_weights_into_account():
    """Weights of many assets are small at the start, and the best portfolio holds a
    single one."""
    R = make_returns(60, 40)
    R[:, 7] += 0.05
    for params in (LONG, {"constraint": (-1.0, 1.0), "budget": 1.0}):
        given = {"risk_measure": "semivariance", "risk_aversion": 0.1, **params}
        early, best = quiet(R, max_iter=1, **given), fit(R, "newton", **given)
        true = early.loss_curve_[-1] - best.loss_curve_[-1]
        assert early.dual_gap_ >= true - 1e-12
