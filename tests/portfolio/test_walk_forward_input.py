"""What `walk_forward` takes, and what it tells of units, missing returns and fits that
fail or warn."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning
from walks import NAMES, Failing, Recent, Short, Trader, make_frame, make_returns, quiet

from sk_stormc import CompositionalPortfolio, walk_forward

# missing returns


@pytest.mark.filterwarnings("ignore:.*missing returns:UserWarning")
def test_assets_with_gaps_in_a_window_have_the_weight_0():
    frame = make_frame()
    frame.loc[frame.index[:130], "b"] = np.nan
    frame.loc[frame.index[150], "e"] = np.nan
    portfolio = CompositionalPortfolio(
        constraint=(0, pd.Series(0.4, NAMES)),
        budget=1.0,
        risk_aversion=np.inf,
        max_turnover=1.5,
    )
    with pytest.warns(
        UserWarning,
        match="missing returns in a window have the weight 0.*8 of 11 "
        "fits.*'b'.*left_out",
    ):
        result = walk_forward(portfolio, frame, window=100, missing="zero")
    windows = {frame.index[t]: frame.iloc[t - 100 : t] for t in range(100, 320, 21)}
    gaps = {
        day: [name for name in NAMES if window[name].isna().any()]
        for day, window in windows.items()
    }
    assert result.left_out == {day: names for day, names in gaps.items() if names}
    for day in windows:
        weights = result.weights_after.loc[day]
        assert weights[gaps[day]].eq(0).all() and weights.sum() == pytest.approx(1)
        equal = result.equal_weights.weights_after.loc[day]
        assert (
            equal[gaps[day]].eq(0).all()
            and equal.drop(gaps[day]).eq(1 / (6 - len(gaps[day]))).all()
        )
    assert result.weights_after["b"].max() > 0 and result.weights_after["e"].max() > 0


def test_columns_of_an_array_keep_their_numbers_where_others_are_left_out():
    R = make_returns()
    R[:130, 0] = np.nan
    caps = {0: 1.0, 1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.5}
    portfolio = CompositionalPortfolio(
        constraint=(0, caps), budget=1.0, risk_aversion=1.0
    )
    with pytest.warns(UserWarning, match="first for row 100 and 0"):
        result = walk_forward(portfolio, R, window=100)
    assert (result.weights_after <= list(caps.values()) + 1e-9 * np.ones(6)).all()
    frame = pd.DataFrame(R, columns=NAMES)
    named = CompositionalPortfolio(
        constraint=(0, dict(zip(NAMES, caps.values(), strict=True))),
        budget=1.0,
        risk_aversion=1.0,
    )
    with pytest.warns(UserWarning, match="'a'"):
        np.testing.assert_allclose(
            result.weights, walk_forward(named, frame, window=100).weights, atol=1e-9
        )


@pytest.mark.filterwarnings("ignore:.*missing returns:UserWarning")
def test_a_missing_return_of_an_asset_that_is_held():
    frame = make_frame()
    frame.loc[frame.index[105], "a"] = np.nan
    with pytest.raises(
        ValueError, match="'a' for row '2020-05-27 00:00:00': missing='zero' takes 0"
    ):
        walk_forward(Failing(), frame, window=100)
    with pytest.warns(
        UserWarning,
        match="held were taken as 0, after 1 of 11 trades, first after row .*05-20.* "
        "in 'a'",
    ):
        result = walk_forward(Failing(), frame, window=100, missing="zero")
    assert result.missing == {frame.index[100]: ["a"]} and result.returns.iloc[5] == 0
    np.testing.assert_array_equal(result.returns.iloc[:5], frame["a"].iloc[100:105])
    with pytest.raises(ValueError, match="'a' for row"):
        walk_forward(Short(), frame, window=100)
    frame.loc[frame.index[105], ["a", "b"]] = [0.01, np.nan]
    with pytest.warns(UserWarning, match="'b'"):
        # 1/N takes 0, as the portfolio does not hold it
        result = walk_forward(Failing(), frame, window=100)
    assert not result.missing and np.isfinite(result.equal_weights.returns).all()


# fits that fail or warn


def test_a_fit_that_fails_keeps_the_old_weights():
    R = make_returns(200, 3)
    R[[49, 109], 0] = 0.5  # the last rows of the first and of the third window
    with pytest.warns(
        UserWarning,
        match="2 of 5 fits have failed.*first, for row 50, said: LinAlgError: singular",
    ):
        result = walk_forward(
            Failing(0.5, 0.5), R, window=50, refit_every=30, trading_cost=0.01
        )
    assert result.errors == dict.fromkeys([50, 110], "LinAlgError: singular")
    # cash before the first purchase
    assert not result.weights[:30].any() and not result.returns[:30].any()
    np.testing.assert_array_equal(result.turnover, [0, 1, 0, 0, 0])
    np.testing.assert_array_equal(result.weights_after[2], result.weights_before[2])
    np.testing.assert_array_equal(
        result.in_error, np.repeat([True, False, True, False, False], 30)
    )
    summary = result.summary()["portfolio"]
    assert (
        summary["share of time in cash"],
        summary["share of time in error"],
    ) == pytest.approx((0.2, 0.4))
    assert "2 failed fits" in repr(result)


def test_a_walk_without_any_fit_is_an_error():
    with pytest.raises(
        ValueError,
        match=r"all 3 fits of 'b' have failed. The first, for row 100, said: "
        r"ValueError: risk_",
    ):
        walk_forward(
            {"a": Trader(), "b": CompositionalPortfolio(risk_measure="omega")},
            make_returns(160),
            window=100,
        )
    with pytest.raises(ValueError, match="weights_ must be 6 finite numbers"):
        walk_forward(Recent(np.inf), make_returns(160), window=100)


def test_warnings_of_fits_are_recorded():
    R = make_returns(200, 3)
    R[[79, 109], 0] = 0.5
    with pytest.warns(
        ConvergenceWarning,
        match="portfolio: 2 of 5 fits have warned.*for row 80, said: .*nearly singular",
    ):
        result = walk_forward(
            Failing(0.5, 0.5, error=False), R, window=50, refit_every=30
        )
    assert result.warnings == dict.fromkeys(
        [80, 110], ["ConvergenceWarning: nearly singular"]
    )
    assert not result.errors and result.weights[:, 0].all()


# units


def test_percents_and_logarithms_are_refused_or_taken():
    R = make_returns()
    portfolio = CompositionalPortfolio(risk_measure="cvar", constraint="long_only")
    result = quiet(portfolio, R, window=100, refit_every=60, trading_cost=0.001)
    for values, unit in ((100 * R, "percent"), (np.log1p(R), "log"), (R, "fractions")):
        taken = quiet(
            portfolio, values, window=100, refit_every=60, trading_cost=0.001, unit=unit
        )
        np.testing.assert_allclose(taken.returns, result.returns, atol=1e-8)
        np.testing.assert_allclose(
            taken.equal_weights.returns, result.equal_weights.returns, atol=1e-14
        )
    for values, words in (
        (100 * R, "must be fractions.*periods_per_year=252.*unit='percent'"),
        (np.cumprod(1 + R, axis=0), "The returns of prices p are"),
        (1 + R, "must be fractions"),
    ):
        with pytest.raises(ValueError, match=words):
            walk_forward(portfolio, values, window=100, refit_every=60)
    logs = np.log1p(R)
    logs[200, 3] = math.log(0.1)  # nine tenths lost
    frame = pd.DataFrame(logs, columns=NAMES)
    with pytest.raises(
        ValueError, match="got -2.303 in column 'd' for row 200.*unit='log'"
    ):
        walk_forward(portfolio, frame, window=100, refit_every=60)
    assert (
        quiet(portfolio, frame, window=100, refit_every=60, unit="log").returns.min()
        > -0.9
    )


@pytest.mark.parametrize(
    "periods, size", [(252, 0.03), (52, 0.06), (12, 0.12), (1, 0.5), (252, 1e-4)]
)
def test_fractions_are_not_mistaken_for_percents(periods, size):
    R = size * np.random.default_rng(0).standard_normal((60, 3)).clip(-1.9, 1.9)
    quiet(Trader(), R, window=30, periods_per_year=periods)


def test_parameters_of_a_portfolio_are_in_the_unit_of_the_table():
    R = make_returns()
    market = R.mean(axis=1)
    of_unit = [
        quiet(
            CompositionalPortfolio(risk_aversion=10 / unit, constraint="long_only",
            benchmark=unit * market),
            unit * R, window=100, unit=name,
        )
        for unit, name in ((1, None), (100, "percent"))
    ]  # fmt: skip
    for name in ("weights", "returns", "benchmark_returns"):
        np.testing.assert_allclose(
            getattr(of_unit[0], name), getattr(of_unit[1], name), atol=1e-6
        )


# tables


def test_pandas_objects_have_the_labels_of_the_table():
    frame = make_frame()
    portfolio = CompositionalPortfolio(constraint="long_only")
    result, plain = (
        quiet(portfolio, frame, window=100),
        quiet(portfolio, frame.to_numpy(), window=100),
    )
    for name, index in (
        *dict.fromkeys(
            ("returns", "gross_returns", "weights", "in_error"), frame.index[100:]
        ).items(),
        *dict.fromkeys(
            ("weights_before", "weights_after", "turnover", "costs"),
            frame.index[100::21],
        ).items(),
    ):
        values = getattr(result, name)
        assert values.index.equals(index) and type(getattr(plain, name)) is np.ndarray
        np.testing.assert_array_equal(values, getattr(plain, name))
        assert list(getattr(values, "columns", NAMES)) == NAMES
    assert result.dates.equals(frame.index[100:]) and list(
        result.summary().columns
    ) == ["portfolio", "1/N"]
    assert plain.summary() == {
        "portfolio": dict(result.summary()["portfolio"]),
        "1/N": dict(result.summary()["1/N"]),
    }
    polars = quiet(portfolio, pl.DataFrame(frame.to_numpy(), schema=NAMES), window=100)
    assert list(polars.weights.columns) == NAMES
    np.testing.assert_allclose(polars.weights, plain.weights, atol=1e-12)


@pytest.mark.slow
def test_dask_frames():
    dask = pytest.importorskip("dask.dataframe")
    frame = make_frame()
    lazy = quiet(Recent(), dask.from_pandas(frame, npartitions=3), window=100)
    pd.testing.assert_series_equal(
        lazy.returns, quiet(Recent(), frame, window=100).returns, check_freq=False
    )


@pytest.mark.parametrize(
    "returns, words",
    [
        (make_frame()[::-1], "returns.*ascending order"),
        (make_frame().assign(f="x"), "returns must be all numbers, but column 'f'"),
        (
            make_frame().replace(make_frame().iloc[7, 2], np.inf),
            "returns must be finite, got inf in column 'c' for row '2020",
        ),
        (np.full((300, 2), np.nan), "returns must have values"),
        (make_returns()[:, 0], "returns"),
    ],
)
def test_tables_that_are_no_returns(returns, words):
    with pytest.raises(ValueError, match=words):
        walk_forward(CompositionalPortfolio(), returns)


@pytest.mark.parametrize(
    "portfolio",
    [
        None,
        "cvar",
        CompositionalPortfolio,
        {},
        [],
        {"a": 1},
        {"1/N": Recent()},
        {"benchmark": Recent()},
    ],
)
def test_what_is_no_portfolio(portfolio):
    with pytest.raises(ValueError, match="^portfolio must"):
        walk_forward(portfolio, make_returns())
