"""`walk_forward`: what it refuses, and what it says of missing returns, of units, and of
fits that fail or warn. Its accounts and options are in tests/pairs."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import make_pipeline

from sk_stormc import CompositionalPortfolio, walk_forward

NAMES = list("abcdef")
LONG = {"constraint": "long_only"}
LOST = np.vstack([[-2.303, 0.0], 0.01 * np.ones((319, 2))])  # logarithms


def make_returns(n=320, d=6, seed=0):
    """Daily returns with a market factor, as fractions."""
    rng = np.random.default_rng(seed)
    market = 0.008 * rng.standard_t(5, size=(n, 1))
    own = 0.01 * rng.standard_t(5, size=(n, d))
    return 0.0005 + market * rng.uniform(0.5, 1.5, d) + own


def make_frame(n=320, d=6):
    days = pd.bdate_range("2020-01-01", periods=n)
    return pd.DataFrame(make_returns(n, d), index=days, columns=NAMES[:d])


class Equal(BaseEstimator):
    """Equal weights. ``seen`` has the limits of the turnover, and a fit fails, or warns,
    where the last return of the first asset is ``at``."""

    seen = []

    def __init__(
        self, scale=1.0, at=None, error=True, expected_returns=None, max_turnover=None
    ):
        self.scale = scale
        self.at = at
        self.error = error
        self.expected_returns = expected_returns
        self.max_turnover = max_turnover

    def fit(self, X, y=None):
        X = np.asarray(X)
        self.seen.append(self.max_turnover)
        if X[-1, 0] == self.at:
            if self.error:
                raise np.linalg.LinAlgError("singular")
            warnings.warn("nearly singular", ConvergenceWarning, stacklevel=1)
        self.weights_ = np.full(X.shape[1], self.scale / X.shape[1])
        return self


def quiet(*args, **kwargs):
    """`walk_forward` without warnings, which are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return walk_forward(*args, **kwargs)


def test_all_rows_so_far_from_a_first_window_of_252():
    result = quiet(Equal(), make_returns())
    assert result.dates[0] == 252 and not len(result.errors)


def portfolio(*wrong):
    return [{"portfolio": one} for one in wrong]


def returns(wrong):
    return [{"returns": wrong}]


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("^portfolio must", portfolio(None, "cvar", Equal, {}, [], {"a": 1})),
        ("^portfolio must", portfolio({"1/N": Equal()}, {"benchmark": Equal()})),
        ("trading_cost", [{"trading_cost": x} for x in (-0.1, 1.0, "much", np.nan)]),
        ("trading_cost", [{"trading_cost": [0.1, 0.2]}, {"trading_cost": {"a": 0.1}}]),
        ("benchmark", [{"benchmark": "z"}, {"benchmark": np.ones(7)}]),
        ("^window must be smaller.* 320, .*got 320", [{"window": 320}]),
        ("first_window must be smaller.*252, .*got 252", returns(make_returns(252))),
        ("returns.*ascending order", returns(make_frame()[::-1])),
        ("all numbers, but column 'f'", returns(make_frame().assign(f="x"))),
        ("got -?inf in column 'a' for row '2020", returns(make_frame() / 0)),
        ("returns must have values", returns(np.full((300, 2), np.nan))),
        ("returns", returns(make_returns()[:, 0])),
        ("fractions.*periods_per_year=252.*unit='perce", returns(100 * make_returns())),
        ("of prices p are", returns(np.cumprod(1 + make_returns(), axis=0))),
        ("-2.303 in column 0 for row 0.*unit='log'", returns(LOST)),
        (
            "all 4 fits of 'b' have failed. The first, for row '2020-12-18 00:00:00', "
            "said: ValueError: solver must",
            portfolio({"a": Equal(), "b": CompositionalPortfolio("omega")}),
        ),
        ("weights_ must be 6 finite numbers", portfolio(Equal(np.inf))),
        ("previous_wei", portfolio(CompositionalPortfolio(previous_weights=[0.5]))),
        (
            "columns of the returns, but .* 'pca0'",
            portfolio(make_pipeline(PCA(3), Equal())),
        ),
        (
            "expected_returns must have its rows in ascending order",
            portfolio(Equal(expected_returns=make_frame()[::-1])),
        ),
        (
            "expected_returns must have an index of the kind that the returns have",
            portfolio(Equal(expected_returns=make_frame().reset_index(drop=True))),
        ),
    ],
)
def test_what_is_refused(words, given):
    for wrong in given:
        with pytest.raises(ValueError, match=words):
            walk_forward(**{"portfolio": Equal(), "returns": make_frame()} | wrong)


def test_fractions_are_not_mistaken_for_percents():
    for periods, size in ((252, 1e-4), (252, 0.03), (52, 0.06), (1, 0.5)):
        R = size * np.random.default_rng(0).standard_normal((60, 3)).clip(-1.9, 1.9)
        quiet(Equal(), R, window=30, periods_per_year=periods)
    quiet(Equal(), R / 2, window=30, unit="fractions")


# missing returns


def test_a_missing_return_of_an_asset_that_is_held():
    frame = make_frame(200)
    frame.loc[frame.index[105], "a"] = np.nan
    given = {"window": 100, "refit_every": 60}
    with pytest.raises(
        ValueError, match="'a' for row '2020-05-27 00:00:00': missing='zero' takes 0"
    ):
        walk_forward(Equal(), frame, **given)
    with pytest.warns(UserWarning) as caught:
        result = walk_forward(Equal(), frame, missing="zero", **given)
    texts = [str(warning.message) for warning in caught]
    assert "were taken as 0, after 1 of 2 trades, first after row '2020-05" in texts[0]
    assert "have the weight 0 after it" in texts[1] and "1 of 2 fits" in texts[1]
    assert texts[1].endswith("'a'. left_out of the result has all of them")
    assert list(result.missing.values()) == [["a"]]


def test_missing_returns_of_a_benchmark():
    frame = make_frame(200)
    frame.loc[frame.index[[50, 180]], "c"] = np.nan
    for given in ("c", np.full(6, 1 / 6)):
        with pytest.raises(
            ValueError, match="benchmark must have a return in each period that is held"
        ):
            walk_forward(Equal(), frame, window=100, benchmark=given, missing="zero")
    later = pd.concat([frame["a"], pd.Series([0.0], [pd.Timestamp("2030-01-01")])])
    frame = frame.drop(columns="c")
    result = quiet(Equal(), frame, window=100, benchmark=later)
    np.testing.assert_array_equal(result.benchmark_returns, frame["a"][100:])


# fits that fail or warn


def test_a_fit_that_fails_or_warns():
    R = make_returns(200, 3)
    R[[49, 109], 0] = 0.5  # the last rows of the first and of the third window
    given = {"window": 50, "refit_every": 30}
    with pytest.warns(
        UserWarning,
        match="2 of 5 fits have failed.*first, for row 50, said: LinAlgError: singular",
    ):
        result = walk_forward(Equal(at=0.5, max_turnover=9.0), R, **given)
    assert result.errors == dict.fromkeys([50, 110], "LinAlgError: singular")
    assert "2 failed fits" in repr(result)
    # a fit that failed is no first purchase, which has no limit
    assert Equal.seen[-5:] == [None, None, 9.0, 9.0, 9.0]
    with pytest.warns(
        ConvergenceWarning,
        match="portfolio: 2 of 5 fits have warned.*for row 50, said: .*nearly singular",
    ):
        result = walk_forward(Equal(at=0.5, error=False), R, **given)
    text = ["ConvergenceWarning: nearly singular"]
    assert result.warnings == dict.fromkeys([50, 110], text) and not result.errors


def test_forecasts_that_are_not_of_a_date():
    frame = make_frame(200, 3)
    for given in (
        [0.1, 0.2, 0.3],
        pd.DataFrame([[0.1, 0.2, 0.3]], columns=NAMES[:3]),
        dict(zip("abc", (0.1, 0.2, 0.3), strict=True)),
        pd.Series([0.1, 0.2, 0.3], NAMES[:3]),
    ):
        with pytest.warns(UserWarning, match="is one forecast for all dates"):
            walk_forward(Equal(expected_returns=given), frame, window=50)
    with pytest.warns(
        UserWarning,
        match="portfolio: 1 of 5 fits have failed.*has no row at or before",
    ):
        late = Equal(expected_returns=frame[60:])
        result = walk_forward(late, frame, window=50, refit_every=30)
    assert list(result.errors) == [frame.index[50]]
    assert not result.weights_after.iloc[0].any()


def test_a_return_of_exactly_minus_one():
    """Nothing is left, and nothing is held afterwards."""
    R = make_returns(60, 3)
    R[45] = -1.0
    with pytest.warns(UserWarning, match="everything was lost in row 45, and nothing"):
        result = walk_forward(Equal(), R, window=30, refit_every=10)
    assert result.returns[15] == -1 and not result.returns[16:].any()
    summary = result.summary()["portfolio"]
    assert summary["annual return"] == -1 and summary["largest drawdown"] == 1
    assert summary["share of time in cash"] == pytest.approx(14 / 30)


# several estimators, pipelines and warm starts


@pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_several_estimators(n_jobs):
    frame = make_frame(160, 3)
    estimators = {"a": CompositionalPortfolio(**LONG), "b": Equal()}
    results = quiet(estimators, frame, window=100, n_jobs=n_jobs)
    assert list(results) == ["a", "b"]
    assert list(results.summary()) == ["a", "b", "1/N"]
    for name, estimator in estimators.items():
        alone = quiet(estimator, frame, window=100)
        np.testing.assert_array_equal(results[name].returns, alone.returns)


def test_columns_with_a_constant_level():
    frame = make_frame(160, 3)
    levels = pd.MultiIndex.from_product([["Close"], frame.columns])
    caps = dict(zip("abc", (0.5, 0.4, 0.3), strict=True))
    portfolio = CompositionalPortfolio(constraint=(0.0, caps), budget=1.0)
    expected = quiet(portfolio, frame, window=100)
    found = quiet(portfolio, frame.set_axis(levels, axis=1), window=100)
    np.testing.assert_allclose(found.returns, expected.returns)


def test_progress(capsys):
    quiet(Equal(), make_frame(200), window=100, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and lines[0].endswith(" s")
    assert lines[0].startswith("portfolio: fit 1 of 5, for row '2020-05-20 00:00:00', ")


def test_a_pipeline_of_arrays():
    R = make_returns(200)
    R[:, 1] = 0.0  # which is left out
    portfolio = CompositionalPortfolio(risk_aversion=np.inf, **LONG)
    given = {"window": 100, "refit_every": 60}
    found = quiet(make_pipeline(VarianceThreshold(), portfolio), R, **given)
    direct = quiet(portfolio, np.delete(R, 1, axis=1), **given)
    np.testing.assert_allclose(found.weights[:, [0, 2, 3, 4, 5]], direct.weights)
    assert not found.weights[:, 1].any()


def test_a_warm_start_outlasts_other_assets():
    frame = make_frame(200)
    frame.loc[frame.index[:130], "b"] = np.nan
    portfolio = CompositionalPortfolio(
        "storm-c", warm_start=True, random_state=0, max_iter=20, tol=0.1, **LONG
    )
    with pytest.warns(UserWarning, match="left_out"):
        result = walk_forward(portfolio, frame, window=60, refit_every=70)
    assert not result.errors


def test_statistics_that_do_not_exist():
    R = make_returns(100, 3)
    cash = quiet(Equal(0.0), R, window=60, benchmark=R[:, 0]).summary()
    of_cash = cash["portfolio"]
    assert of_cash["annual return"] == of_cash["annual deviation"] == 0
    assert math.isnan(of_cash["Sharpe ratio"]) and of_cash["share of time in cash"] == 1
    assert math.isnan(cash["benchmark"]["annual turnover"])
    assert cash["benchmark"]["beta"] == pytest.approx(1)
    constant = quiet(Equal(), np.full((90, 1), 0.0001), window=60).summary()
    assert constant["portfolio"]["annual return"] == pytest.approx(1.0001**252 - 1)
    assert math.isnan(constant["portfolio"]["Sharpe ratio"])
