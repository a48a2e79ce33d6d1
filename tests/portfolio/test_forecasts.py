"""Forecasts of the means, the least risk at a mean return, limits of the gross weight,
and squared weights."""

import pickle

import numpy as np
import pandas as pd
import pytest
from definitions import INF, make_returns, utility
from sklearn.base import clone

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import returns_from_moments
from sk_stormc.plotting import FrontierDisplay

R = make_returns(60, 5, seed=7)
EXPECTED = np.array([0.001, 0.004, 0.0, 0.003, 0.002])
SHIFTED = R - R.mean(axis=0) + EXPECTED
ASSETS = list("ABCDE")
DAYS = pd.bdate_range("2020-01-01", periods=60)
TABLE = pd.DataFrame(R, columns=ASSETS, index=DAYS)


def fit(X=R, **params):
    return CompositionalPortfolio(
        **{"constraint": "long_only", "random_state": 0} | params
    ).fit(X)


# expected_returns


def test_forecasts_are_aligned_by_their_labels():
    forecasts = pd.Series(EXPECTED, index=ASSETS)
    expected = fit(TABLE, expected_returns=EXPECTED).weights_
    for given in (dict(forecasts), forecasts[::-1], forecasts.to_frame().T):
        portfolio = fit(TABLE, expected_returns=given)
        np.testing.assert_array_equal(portfolio.weights_, expected)
        again = clone(pickle.loads(pickle.dumps(portfolio))).fit(TABLE)
        np.testing.assert_array_equal(again.weights_, expected)


def test_a_benchmark_of_returns_keeps_its_mean_or_has_an_entry_of_its_name():
    market = pd.Series(R.mean(axis=1) + 5e-4, index=DAYS, name="market")
    for entry, mean in (
        ({}, market.mean()),
        ({"market": 0.0017}, 0.0017),
        ({"other": 1.0}, market.mean()),
    ):
        forecasts = dict(zip(ASSETS, EXPECTED, strict=True)) | entry
        portfolio = fit(
            TABLE, benchmark=market, expected_returns=forecasts, risk_aversion=3.0
        )
        against = market.to_numpy() - market.mean() + mean
        expected = fit(SHIFTED, benchmark=against, risk_aversion=3.0)
        np.testing.assert_allclose(portfolio.weights_, expected.weights_, atol=1e-6)


def test_named_solvers_use_forecasts_and_squares():
    params = {"expected_returns": EXPECTED, "l2": 0.003, "risk_aversion": 5.0}
    for measure in ("variance", "semivariance"):
        exact, iterative = (
            fit(solver=solver, risk_measure=measure, tol=1e-6, **params)
            for solver in ("auto", "storm-c")
        )
        best = exact.loss_curve_[-1]
        above = iterative.loss_curve_[-1] - best
        assert -1e-9 <= above <= min(iterative.dual_gap_ + 1e-12, 1e-4 * abs(best))
        np.testing.assert_allclose(iterative.weights_, exact.weights_, atol=1e-2)


# expected_returns of a stream


@pytest.mark.parametrize("measure", ["variance", "semivariance", "entropic"])
def test_a_stream_has_the_expected_means(measure):
    """Rows of the streams without an exact sum have been dropped in part."""
    returns = make_returns(3000 if measure == "variance" else 5000, 4, seed=2)
    expected = np.array([0.001, 0.0013, 0.0007, 0.001])
    params = {"risk_measure": measure, "risk_aversion": 5.0, "constraint": "long_only"}
    shifted = returns - returns.mean(axis=0) + expected
    exact = CompositionalPortfolio(**params).fit(shifted)
    stream = CompositionalPortfolio("moments", expected_returns=expected, **params)
    for chunk in np.array_split(returns + 4.0, 3):
        stream.partial_fit(chunk)
    value = utility(stream.weights_, shifted, measure, 5.0)
    assert value == pytest.approx(exact.loss_curve_[-1], rel=2e-3)
    assert stream.loss_curve_[-1] == pytest.approx(value, rel=5e-3)


def test_each_update_of_a_stream_uses_the_present_forecasts():
    stream = CompositionalPortfolio(
        "moments", constraint="long_only", risk_aversion=3.0, expected_returns=EXPECTED
    )
    stream.partial_fit(R[:30]).set_params(expected_returns=EXPECTED[::-1]).partial_fit(
        R[30:]
    )
    expected = fit(risk_aversion=3.0, expected_returns=EXPECTED[::-1])
    np.testing.assert_allclose(stream.weights_, expected.weights_, atol=1e-8)
    assert stream.dual_gap_ <= 1e-8


# min_return


def test_the_least_variance_at_a_mean_return_is_that_of_markowitz():
    mean, C = EXPECTED, np.cov(R.T, ddof=0)
    M = np.linalg.solve(C, np.column_stack([mean, np.ones(5)]))
    for least_return in (0.003, 0.02):  # on a budget alone
        expected = M @ np.linalg.solve(
            np.array([mean, np.ones(5)]) @ M, [least_return, 1.0]
        )
        params = {"risk_aversion": INF, "budget": 1.0, "min_return": least_return}
        for portfolio, returns in (
            (CompositionalPortfolio(**params), returns_from_moments(mean, C)),
            (CompositionalPortfolio(expected_returns=mean, **params), R),
            (CompositionalPortfolio("moments", expected_returns=mean, **params), R),
        ):
            np.testing.assert_allclose(
                portfolio.fit(returns).weights_,
                expected,
                atol=1e-6 * np.abs(expected).max(),
            )


@pytest.mark.parametrize("unit", [1e-6, 1e4])
def test_a_mean_return_is_kept_in_every_unit_up_to_the_largest(unit):
    X = unit * (R + 1.0)  # as of gross returns
    mean = X.mean(axis=0)
    for least_return in (mean.mean(), mean.max()):
        w = fit(X, min_return=float(least_return), risk_aversion=INF).weights_
        assert mean @ w >= least_return - 4e-16 * np.abs(mean).max()
        assert (w >= 0).all() and w.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(w, np.eye(5)[mean.argmax()], atol=1e-6)
    largest = f"min_return must be at most {mean.max():.6g}, the largest mean return"
    with pytest.raises(ValueError, match=largest):
        fit(X, min_return=float(mean.max() + 1e-3 * unit), risk_aversion=INF)


def test_a_mean_return_without_a_budget_sets_the_size():
    mean, C = R.mean(axis=0), np.cov(R.T, ddof=0)
    w = np.linalg.solve(C, mean)
    portfolio = CompositionalPortfolio(risk_aversion=INF, min_return=0.01).fit(R)
    np.testing.assert_allclose(portfolio.weights_, 0.01 * w / (mean @ w), rtol=1e-5)


def test_moments_of_a_file_have_the_least_mean_return(tmp_path):
    """It was ignored."""
    file = np.memmap(tmp_path / "returns", dtype=float, mode="w+", shape=R.shape)
    file[:] = R
    least_return = float(0.9 * R.mean(axis=0).max() + 0.1 * R.mean())
    params = {"solver": "moments", "min_return": least_return, "risk_aversion": INF}
    portfolio = fit(file, **params)
    assert R.mean(axis=0) @ portfolio.weights_ == pytest.approx(least_return, rel=1e-6)
    np.testing.assert_allclose(portfolio.weights_, fit(**params).weights_, atol=1e-8)


# max_gross


def test_a_gross_weight_alone_bounds_the_weights():
    for gross in (1e-3, 2e4):
        portfolio = CompositionalPortfolio(
            risk_measure="cvar", risk_aversion=0.01, max_gross=gross
        ).fit(SHIFTED)
        assert np.abs(portfolio.weights_).sum() == pytest.approx(gross, rel=1e-8)
        assert np.abs(portfolio.weights_).sum() <= gross * (1 + 1e-9)


# l2


def test_squared_weights_act_like_noise_of_the_variance():
    mean, C = R.mean(axis=0), np.cov(R.T, ddof=0)
    expected = np.linalg.solve(2 * 3.0 * C + 2 * 0.01 * np.eye(5), mean)
    for solver in ("newton", "moments"):
        portfolio = CompositionalPortfolio(solver, risk_aversion=3.0, l2=0.01).fit(R)
        np.testing.assert_allclose(portfolio.weights_, expected, rtol=1e-6)
        assert abs(portfolio.dual_gap_) <= 1e-7 * abs(portfolio.loss_curve_[-1])
    held = np.full(5, 0.2)
    params = {
        "transaction_cost": 2e-4,
        "previous_weights": held,
        "constraint": "long_only",
        "risk_aversion": 3.0,
    }
    noisy = fit(returns_from_moments(mean, C + 0.01 / 3.0 * np.eye(5)), **params)
    np.testing.assert_allclose(
        fit(l2=0.01, **params).weights_, noisy.weights_, atol=1e-7
    )
    stream = CompositionalPortfolio(l2=0.01, **params).partial_fit(R)
    np.testing.assert_allclose(stream.weights_, noisy.weights_, atol=1e-7)


# frontiers, and columns with levels


def test_a_frontier_has_the_expected_means():
    portfolio = fit(
        TABLE, expected_returns=EXPECTED, min_return=0.002, risk_aversion=INF
    )
    display = FrontierDisplay.from_estimator(
        portfolio, TABLE, risk_aversions=[1.0, 10.0]
    )
    np.testing.assert_allclose(display.asset_mean, EXPECTED, atol=1e-15)
    np.testing.assert_allclose(display.mean, display.weights_ @ EXPECTED, atol=1e-15)
    assert display.chosen[1] >= 0.002 - 1e-15


def test_a_level_of_columns_that_is_constant_is_no_part_of_names():
    named = {
        "groups": dict.fromkeys("AB", "tech"),
        "linear_constraints": ["tech <= 0.5", "C >= 0.1"],
    }
    named |= {"constraint": (0.0, dict.fromkeys(ASSETS, 0.6)), "budget": 1.0}
    for levels in ([["Close"], ASSETS], [ASSETS, ["Close"]]):
        table = TABLE.set_axis(pd.MultiIndex.from_product(levels), axis=1)
        portfolio = fit(table, **named, expected_returns=table.mean())
        assert list(portfolio.named_weights().index) == ASSETS
        np.testing.assert_array_equal(
            portfolio.weights_,
            fit(TABLE, **named, expected_returns=TABLE.mean()).weights_,
        )
        tracking = fit(table, benchmark="C", risk_aversion=INF)
        np.testing.assert_array_equal(
            tracking.weights_, fit(TABLE, benchmark="C", risk_aversion=INF).weights_
        )
    with pytest.raises(
        ValueError,
        match=r"benchmark must be the label of a column.*got \('Open', 'C'\)",
    ):
        fit(table, benchmark=("Open", "C"))


def test_levels_of_columns_that_all_vary_stay_labels():
    both = TABLE.set_axis(pd.MultiIndex.from_arrays([list("xxyyy"), ASSETS]), axis=1)
    assert list(fit(both).named_weights().index) == list(both.columns)
