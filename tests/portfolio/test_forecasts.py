"""Forecasts of the means, the least risk at a mean return, limits of the gross weight,
and squared weights."""

import pickle

import numpy as np
import pandas as pd
import pytest
from definitions import INF, least, make_returns, risk, utility
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

from sk_stormc import CompositionalPortfolio, walk_forward
from sk_stormc.datasets import returns_from_moments
from sk_stormc.plotting import FrontierDisplay

R = make_returns(60, 5, seed=7)
EXPECTED = np.array([0.001, 0.004, 0.0, 0.003, 0.002])
SHIFTED = R - R.mean(axis=0) + EXPECTED
ASSETS = list("ABCDE")
DAYS = pd.bdate_range("2020-01-01", periods=60)
TABLE = pd.DataFrame(R, columns=ASSETS, index=DAYS)
LONG_SHORT = {"constraint": (-0.5, 0.8), "budget": 1.0}
SIDES = {"low": -0.5, "high": 0.8, "budget": 1.0}
LEAST_RISK = {"risk_aversion": INF, "constraint": "long_only"}


def aversion_of(measure):
    """A risk aversion at which mean return and risk are both relevant."""
    return 5.0 if measure in ("variance", "semivariance", "entropic") else 0.3


def fit(X=R, **params):
    return CompositionalPortfolio(
        **{"constraint": "long_only", "random_state": 0} | params
    ).fit(X)


def assert_least(portfolio, returns, measure, aversion, **limits):
    """The portfolio has the least objective, which its gap confirms."""
    kinds = {name: limits[name] for name in ("l2", "against") if name in limits}
    value = utility(portfolio.weights_, returns, measure, aversion, **kinds)
    best = least(returns, measure, aversion, **limits)
    # SLSQP is less accurate for squares beside hinges
    rounding = 1e-5 if "l2" in limits else 1e-7
    assert value <= best + 1e-5 * abs(best)
    assert portfolio.loss_curve_[-1] == pytest.approx(value, rel=1e-4)
    assert portfolio.loss_curve_[-1] - best <= portfolio.dual_gap_ + rounding * abs(
        best
    )


# expected_returns


@pytest.mark.parametrize(
    "objective", [{"objective": "ratio"}, {"max_risk": 0.012}, {"solver": "moments"}]
)
def test_expected_returns_of_other_objectives(objective):
    portfolio, expected = (
        fit(expected_returns=EXPECTED, **objective),
        fit(SHIFTED, **objective),
    )
    np.testing.assert_allclose(portfolio.weights_, expected.weights_, atol=1e-8)


def test_the_means_have_the_weights_of_the_periods():
    weights = np.linspace(0.0, 2.0, 60)
    portfolio = CompositionalPortfolio(
        constraint="long_only", risk_aversion=3.0, half_life=20
    )
    portfolio.set_params(expected_returns=EXPECTED).fit(R, sample_weight=weights)
    p = weights * 0.5 ** (np.arange(60)[::-1] / 20)
    shifted = R - p @ R / p.sum() + EXPECTED
    assert portfolio.loss_curve_[-1] == pytest.approx(
        utility(portfolio.weights_, shifted, "variance", 3.0, p=p)
    )
    assert portfolio.loss_curve_[-1] == pytest.approx(
        least(shifted, "variance", 3.0, 0.0, INF, 1.0, p=p)
    )


@pytest.mark.parametrize(
    "given",
    [dict, lambda s: s[::-1], lambda s: s.to_frame().T],
    ids=["dict", "Series", "frame"],
)
def test_forecasts_are_aligned_by_their_labels(given):
    forecasts = given(pd.Series(EXPECTED, index=ASSETS))
    expected = fit(TABLE, expected_returns=EXPECTED)
    np.testing.assert_array_equal(
        fit(TABLE, expected_returns=forecasts).weights_, expected.weights_
    )
    copy = clone(pickle.loads(pickle.dumps(fit(TABLE, expected_returns=forecasts))))
    np.testing.assert_array_equal(copy.fit(TABLE).weights_, expected.weights_)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            [0.1, 0.2],
            r"expected_returns must have one number for each of the 5 assets, .* "
            r"shape \(2,\)",
        ),
        (0.1, r"expected_returns must have one number for each of the 5 assets"),
        (
            [0.1, 0.2, 0.3, np.nan, 0.1],
            "expected_returns must be finite, got nan for column 'D' of X",
        ),
        (
            {"A": 0.1, "B": 0.2},
            "expected_returns must have the columns of X .* has nothing for 'C', 'D', "
            "'E'",
        ),
        (["a"] * 5, "expected_returns"),
    ],
)
def test_forecasts_that_do_not_fit_the_assets(given, message):
    for run in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(
                CompositionalPortfolio(constraint="long_only", expected_returns=given),
                run,
            )(TABLE)


def test_forecasts_of_returns_in_a_file(tmp_path):
    file = np.memmap(tmp_path / "returns", dtype=float, mode="w+", shape=R.shape)
    file[:] = R
    for params in (
        {},
        {"risk_measure": "cvar"},
        {"risk_aversion": np.inf, "min_return": float(np.mean(EXPECTED))},
    ):
        params |= {"expected_returns": EXPECTED}
        np.testing.assert_allclose(
            fit(file, **params).weights_, fit(R, **params).weights_, atol=1e-3
        )
    with pytest.raises(
        ValueError,
        match="expected_returns needs returns that are an array in memory, got "
        "MappedRows",
    ):
        fit(file, expected_returns=EXPECTED, solver="storm-c")


@pytest.mark.parametrize(
    "benchmark", ["C", dict.fromkeys(ASSETS, 0.2)], ids=["column", "weights"]
)
def test_a_benchmark_of_assets_has_their_forecasts(benchmark):
    portfolio = fit(
        TABLE, benchmark=benchmark, expected_returns=EXPECTED, risk_aversion=3.0
    )
    expected = fit(
        TABLE - R.mean(axis=0) + EXPECTED, benchmark=benchmark, risk_aversion=3.0
    )
    np.testing.assert_allclose(portfolio.weights_, expected.weights_, atol=1e-8)
    assert portfolio.loss_curve_[-1] == pytest.approx(
        expected.loss_curve_[-1], rel=1e-9
    )


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
        assert_least(
            portfolio, SHIFTED, "variance", 3.0, low=0.0, budget=1.0, against=against
        )


@pytest.mark.parametrize("measure", ["variance", "semivariance"])
def test_named_solvers_use_forecasts_and_squares(measure):
    params = {
        "risk_measure": measure,
        "risk_aversion": aversion_of(measure),
        "expected_returns": EXPECTED,
        "l2": 0.003,
    }
    exact, iterative = fit(**params), fit(solver="storm-c", tol=1e-6, **params)
    assert iterative.loss_curve_[-1] == pytest.approx(exact.loss_curve_[-1], rel=1e-4)
    assert (
        iterative.loss_curve_[-1] - exact.loss_curve_[-1] <= iterative.dual_gap_ + 1e-12
    )
    np.testing.assert_allclose(iterative.weights_, exact.weights_, atol=1e-2)


# expected_returns of a stream


@pytest.mark.parametrize(
    ("measure", "n"),
    [
        ("variance", 3000),
        ("semivariance", 6000),
        ("entropic", 6000),
    ],
)
def test_a_stream_has_the_expected_means(measure, n):
    """The rows of the longer streams have been dropped in part."""
    returns, expected = (
        make_returns(n, 4, seed=2),
        np.array([0.001, 0.0013, 0.0007, 0.001]),
    )
    params = {
        "risk_measure": measure,
        "risk_aversion": aversion_of(measure),
        "constraint": "long_only",
    }
    shifted = returns - returns.mean(axis=0) + expected
    exact = CompositionalPortfolio(**params).fit(shifted)
    for offset, parts in ((0.0, 2), (4.0, 3)):
        stream = CompositionalPortfolio("moments", expected_returns=expected, **params)
        for chunk in np.array_split(returns + offset, parts):
            stream.partial_fit(chunk)
        value = utility(stream.weights_, shifted, measure, aversion_of(measure))
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


def test_steps_on_a_stream_refuse_forecasts():
    stream = CompositionalPortfolio(
        "storm-c", constraint="long_only", expected_returns=EXPECTED
    )
    with pytest.raises(
        ValueError,
        match="partial_fit of solver='storm-c' cannot be used with expected_returns",
    ):
        stream.partial_fit(R)


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


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e4])
def test_a_mean_return_is_kept_in_every_unit_up_to_the_largest(unit):
    for offset in (0.0, 1.0):  # as of gross returns
        X = unit * (R + offset)
        mean = X.mean(axis=0)
        for least_return in (mean.mean(), mean.max()):
            portfolio = fit(X, min_return=float(least_return), risk_aversion=INF)
            assert (
                mean @ portfolio.weights_ >= least_return - 4e-16 * np.abs(mean).max()
            )
            assert (
                portfolio.weights_ >= 0
            ).all() and portfolio.weights_.sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(
            portfolio.weights_, np.eye(5)[mean.argmax()], atol=1e-6
        )
        largest = (
            f"min_return must be at most {mean.max():.6g}, the largest mean return"
        )
        with pytest.raises(ValueError, match=largest):
            fit(X, min_return=float(mean.max() + 1e-3 * unit), risk_aversion=INF)


def test_a_mean_return_without_a_budget_sets_the_size():
    mean, C = R.mean(axis=0), np.cov(R.T, ddof=0)
    w = np.linalg.solve(C, mean)
    portfolio = CompositionalPortfolio(risk_aversion=INF, min_return=0.01).fit(R)
    np.testing.assert_allclose(portfolio.weights_, 0.01 * w / (mean @ w), rtol=1e-5)
    with pytest.raises(
        ValueError, match="risk_aversion=inf needs a constraint or a budget"
    ):
        CompositionalPortfolio(risk_aversion=INF, min_return=-0.01).fit(R)


def test_moments_of_a_file_have_the_least_mean_return(tmp_path):
    """It was ignored."""
    file = np.memmap(tmp_path / "returns", dtype=float, mode="w+", shape=R.shape)
    file[:] = R
    least_return = float(0.9 * R.mean(axis=0).max() + 0.1 * R.mean())
    params = {"solver": "moments", "min_return": least_return, **LEAST_RISK}
    portfolio = fit(file, **params)
    assert R.mean(axis=0) @ portfolio.weights_ == pytest.approx(least_return, rel=1e-6)
    np.testing.assert_allclose(portfolio.weights_, fit(**params).weights_, atol=1e-8)


def test_the_mean_return_is_before_costs_and_in_excess_of_a_benchmark():
    held, cost = np.full(5, 0.2), 0.001
    params = {
        **LEAST_RISK,
        "risk_measure": "cvar",
        "previous_weights": held,
        "transaction_cost": cost,
    }
    mean, least_return = R.mean(axis=0), R.mean(axis=0).mean() + 1e-4
    portfolio = fit(min_return=least_return, **params)
    assert mean @ portfolio.weights_ >= least_return - 1e-15
    rows = mean[None], np.array([least_return]), np.array([INF])
    best = least(R, "cvar", INF, 0.0, INF, 1.0, held=held, cost=cost, rows=rows)
    assert portfolio.loss_curve_[-1] == pytest.approx(best, rel=1e-6)
    market = R.mean(axis=1)
    excess = fit(benchmark=market, min_return=5e-4, **LEAST_RISK)
    assert (excess.predict(R) - market).mean() >= 5e-4 - 1e-15
    rows = mean[None], np.array([5e-4 + market.mean()]), np.array([INF])
    assert_least(
        excess, R, "variance", INF, low=0.0, budget=1.0, against=market, rows=rows
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"risk_aversion": 2.0},
            r"min_return needs risk_aversion=numpy.inf, .* got risk_aversion=2.0",
        ),
        (
            {"objective": "ratio"},
            "min_return must be None with objective='ratio', got 0.001",
        ),
        ({"max_risk": 0.01}, "min_return must be None with max_risk=0.01, got 0.001"),
        (
            {"risk_measure": "entropic"},
            "risk_aversion must be finite with risk_measure='entropic'",
        ),
        ({"solver": "storm-c"}, "solver='storm-c' cannot be used with min_return"),
    ],
)
def test_a_mean_return_that_other_parameters_exclude(params, message):
    with pytest.raises(ValueError, match=message):
        fit(**{"risk_aversion": INF, "min_return": 0.001} | params)


def test_a_stream_has_no_least_mean_return():
    with pytest.raises(AttributeError, match="min_return needs all periods at once"):
        CompositionalPortfolio(min_return=0.001, **LEAST_RISK).partial_fit(R)


# max_gross


def test_a_gross_weight_alone_bounds_the_weights():
    for gross in (1e-3, 2e4):
        portfolio = CompositionalPortfolio(
            risk_measure="cvar", risk_aversion=0.01, max_gross=gross
        ).fit(SHIFTED)
        assert np.abs(portfolio.weights_).sum() == pytest.approx(gross, rel=1e-8)
        assert np.abs(portfolio.weights_).sum() <= gross * (1 + 1e-9)
    with pytest.raises(
        ValueError, match="risk_aversion=inf needs a constraint or a budget"
    ):
        CompositionalPortfolio(risk_aversion=INF, max_gross=1.0).fit(R)


def test_gross_weight_and_turnover_together():
    held = np.array([0.5, 0.5, 0.0, 0.0, 0.0])
    limits = {"max_gross": 1.2, "max_turnover": 0.6, **SIDES}
    for measure in ("variance", "cvar", "cdar"):
        aversion = aversion_of(measure)
        params = {
            "max_gross": 1.2,
            "max_turnover": 0.6,
            "previous_weights": held,
            **LONG_SHORT,
        }
        portfolio = fit(SHIFTED, risk_measure=measure, risk_aversion=aversion, **params)
        w = portfolio.weights_
        assert np.abs(w).sum() <= 1.2 * (1 + 1e-9) and np.abs(w - held).sum() <= 0.6 * (
            1 + 2e-9
        )
        assert_least(portfolio, SHIFTED, measure, aversion, held=held, **limits)


@pytest.mark.parametrize("measure", ["variance", "downside", "cdar"])
def test_ratio_and_bounded_risk_within_a_gross_weight(measure):
    params = {
        "risk_measure": measure,
        "max_gross": 1.3,
        "expected_returns": EXPECTED,
        **LONG_SHORT,
    }
    sharpest = fit(objective="ratio", **params)
    level = risk(SHIFTED @ sharpest.weights_, measure)
    within = fit(max_risk=level * (1 + 1e-9), **params)
    for portfolio in (sharpest, within):
        assert np.abs(portfolio.weights_).sum() <= 1.3 * (1 + 1e-9)
    # the largest mean return at the risk of the largest ratio is that of the largest
    # ratio
    assert EXPECTED @ within.weights_ == pytest.approx(
        EXPECTED @ sharpest.weights_, rel=1e-5
    )
    assert within.dual_gap_ <= 1e-5 * EXPECTED.max()
    # minus the mean plus the ratio times the risk is at least 0
    best = (
        least(SHIFTED, measure, -sharpest.loss_curve_[-1], max_gross=1.3, **SIDES)
        if measure != "variance"
        else 0.0
    )
    assert best == pytest.approx(0.0, abs=1e-6)


def test_a_gross_weight_that_no_portfolio_has():
    with pytest.raises(
        ValueError,
        match=r"max_gross must leave a portfolio.*'max_gross=0.5'.* missed by 0.5 at "
        r"least",
    ):
        fit(max_gross=0.5)
    with pytest.raises(ValueError, match="'max_turnover=0.1' and 'max_gross=1'"):
        fit(
            constraint=(-1.0, 2.0),
            budget=1.0,
            max_gross=1.0,
            max_turnover=0.1,
            previous_weights=[1.5, -0.5, 0, 0, 0],
        )
    with pytest.raises(
        ValueError, match="solver='storm-c' cannot be used with max_gross"
    ):
        fit(solver="storm-c", max_gross=1.5)


def test_a_stream_within_a_gross_weight():
    params = {"max_gross": 1.2, "risk_aversion": 3.0, **LONG_SHORT}
    stream = (
        CompositionalPortfolio(expected_returns=EXPECTED, **params)
        .partial_fit(R[:20])
        .partial_fit(R[20:])
    )
    np.testing.assert_allclose(
        stream.weights_, fit(SHIFTED, **params).weights_, atol=1e-6
    )


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


def test_squared_weights_give_a_tail_risk_a_size():
    """Without bounds the mean of normal returns over CVaR decides between nothing and
    infinity."""
    portfolio = CompositionalPortfolio(
        risk_measure="cvar", risk_aversion=0.01, l2=0.01
    ).fit(SHIFTED)
    w = portfolio.weights_
    best = least(SHIFTED, "cvar", 0.01, low=-5.0, high=5.0, l2=0.01)
    assert 0.01 < np.abs(w).max() < 1 and portfolio.loss_curve_[-1] == pytest.approx(
        best, rel=1e-6
    )


def test_squared_weights_with_a_bounded_risk():
    portfolio = fit(max_risk=0.011, expected_returns=EXPECTED, l2=1e-3)
    w = portfolio.weights_
    assert (SHIFTED @ w).std() <= 0.011 * (1 + 1e-9)
    assert portfolio.loss_curve_[-1] == pytest.approx(1e-3 * w @ w - EXPECTED @ w)
    least_risk = fit(SHIFTED, risk_aversion=INF).weights_
    for other in (least_risk, fit(SHIFTED, max_risk=0.011).weights_):
        assert (
            1e-3 * other @ other - EXPECTED @ other
            >= portfolio.loss_curve_[-1] - portfolio.dual_gap_ - 1e-12
        )


@pytest.mark.parametrize("params", [{"objective": "ratio"}])
def test_squared_weights_that_are_not_supported(params):
    ((name, value),) = params.items()
    with pytest.raises(
        ValueError, match=f"l2 must be 0 with {name}={value!r}, got 0.1"
    ):
        fit(l2=0.1, **params)
    with pytest.raises(ValueError, match="l2"):
        fit(solver="lbfgs", constraint=(0, 1), l2=0.1)


# searches, walks, frontiers, and columns with levels


def test_a_search_over_limits():
    grid = [
        {"min_return": [None, -0.01], "expected_returns": [EXPECTED]},
        {"l2": [1e-4], "max_gross": [1.0]},
    ]
    search = GridSearchCV(
        CompositionalPortfolio(**LEAST_RISK),
        grid,
        cv=TimeSeriesSplit(2),
        error_score="raise",
    )
    assert search.fit(TABLE).n_splits_ == 2 and len(search.cv_results_["params"]) == 3


def test_a_walk_with_forecasts_of_each_window():
    portfolio = CompositionalPortfolio(
        constraint="long_only", expected_returns=lambda X: X.iloc[-1]
    )
    result = walk_forward(portfolio, TABLE, window=30, refit_every=15)
    assert not result.errors
    np.testing.assert_allclose(
        result.weights.iloc[0],
        fit(TABLE[:30], expected_returns=TABLE.iloc[29].to_numpy()).weights_,
        atol=1e-9,
    )


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
        assert (
            walk_forward(
                portfolio.set_params(expected_returns=None), table, window=40
            ).errors
            == {}
        )
    with pytest.raises(
        ValueError,
        match=r"benchmark must be the label of a column.*got \('Open', 'C'\)",
    ):
        fit(table, benchmark=("Open", "C"))


def test_levels_of_columns_that_all_vary_stay_labels():
    both = TABLE.set_axis(pd.MultiIndex.from_arrays([list("xxyyy"), ASSETS]), axis=1)
    assert list(fit(both).named_weights().index) == list(both.columns)
