"""What a desk asks of a portfolio: bounds with labels, frames as they come, scores that tell cash from skill."""

import datetime
import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score

from sk_stormc import CompositionalPortfolio, make_sharpe_scorer, sharpe_ratio
from sk_stormc.problems import PortfolioProblem

NAMES = ["bonds", "gold", "oil", "shares"]


def make_returns(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.05, 1, (n, 1)) + rng.normal(0.05, 1, (n, d)) * rng.uniform(0.5, 2, d)


def frame(n=300, seed=0):
    return pd.DataFrame(make_returns(n, seed=seed), columns=NAMES)


def fit(X, **params):
    return CompositionalPortfolio(**{"budget": 1.0, "random_state": 0, **params}).fit(X)


# --- labels ---------------------------------------------------------------------------------------------

CAPS = [0.1, 0.5, 0.35, 0.3]
LABELLED = {
    "Series": lambda caps: pd.Series(caps),
    "dict": dict,
    "frame of one row": lambda caps: pd.DataFrame([caps]),
    "polars frame of one row": lambda caps: pl.DataFrame([caps]),
}


@pytest.mark.parametrize("table", [frame(), pl.DataFrame(frame().to_numpy(), schema=NAMES)], ids=["pandas", "polars"])
@pytest.mark.parametrize("kind", LABELLED)
def test_labelled_bounds_go_to_the_columns_of_their_names(kind, table):
    caps = dict(zip(NAMES, CAPS, strict=True))
    turned = LABELLED[kind]({name: caps[name] for name in reversed(NAMES)})
    expected = fit(table, constraint=(0.0, CAPS)).weights_
    np.testing.assert_array_equal(fit(table, constraint=(0.0, turned)).weights_, expected)
    assert (expected <= CAPS).all() and not (expected <= CAPS[::-1]).all()
    floors = LABELLED[kind]({name: caps[name] / 4 for name in reversed(NAMES)})
    low = fit(table, constraint=(floors, 1.0)).weights_
    np.testing.assert_array_equal(low, fit(table, constraint=(np.array(CAPS) / 4, 1.0)).weights_)
    streamed = CompositionalPortfolio(constraint=(0.0, turned), budget=1.0, random_state=0).partial_fit(table)
    by_position = CompositionalPortfolio(constraint=(0.0, CAPS), budget=1.0, random_state=0).partial_fit(table)
    np.testing.assert_array_equal(streamed.weights_, by_position.weights_)


@pytest.mark.parametrize(
    ("caps", "words"),
    [
        (pd.Series(CAPS, index=["bonds", "gold", "oil", "equities"]), ["'shares'", "'equities'", "upper bound"]),
        (pd.Series(CAPS[:3], index=NAMES[:3]), ["has nothing for 'shares'"]),
        (pd.Series(CAPS, index=["bonds", "gold", "gold", "shares"]), ["twice", "'gold'"]),
        (pd.Series(CAPS), ["'bonds'", "labelled 0, 1, 2, 3"]),
        ({"bonds": 1.0}, ["'gold', 'oil', 'shares'"]),
    ],
)
def test_labels_that_disagree_are_named(caps, words):
    with pytest.raises(ValueError) as raised:
        fit(frame(), constraint=(0.0, caps))
    for word in words:
        assert word in str(raised.value)


def test_columns_without_names_are_known_by_their_numbers():
    turned = pd.Series(CAPS[::-1], index=[3, 2, 1, 0])
    for X in (make_returns(), pd.DataFrame(make_returns())):
        np.testing.assert_array_equal(fit(X, constraint=(0, turned)).weights_, fit(X, constraint=(0, CAPS)).weights_)
    with pytest.raises(ValueError, match="'bonds'.*which X does not have"):
        fit(make_returns(), constraint=(0, pd.Series(CAPS, index=NAMES)))


@pytest.mark.parametrize("wrong", [{"low": 0, "high": 1}, {0: 0, 1: 1}, {0.0, 1.0}, "01"])
def test_bounds_are_a_pair(wrong):
    with pytest.raises(ValueError, match="constraint must be None, 'long_only' or"):
        fit(frame(), constraint=wrong)


# --- frames ---------------------------------------------------------------------------------------------


def days(n):
    return pd.date_range("2020-01-01", periods=n)


STRANGE = {
    "dates": days,
    "objects": lambda n: [d.date() for d in days(n)],
    "text": lambda n: days(n).astype(str),
    "numbers as text": lambda n: ["0.1"] * n,
    "periods": lambda n: pd.period_range("2020-01", periods=n, freq="M"),
    "time spans": lambda n: pd.to_timedelta(np.arange(n), unit="D"),
    "categories": lambda n: pd.Categorical(["up", "down"] * (n // 2)),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_column_that_is_no_number_is_named(kind):
    table = frame(300).assign(when=STRANGE[kind](300))
    estimator = CompositionalPortfolio(constraint="long_only")
    for run in (estimator.fit, estimator.partial_fit):
        with pytest.raises(ValueError, match="all numbers, but column 'when' holds"):
            run(table)
    assert not hasattr(estimator, "weights_")


@pytest.mark.parametrize(
    "column",
    [
        pl.Series("when", days(300).to_list()),
        pl.Series("when", [d.date() for d in days(300)]),
        pl.Series("when", [datetime.timedelta(1)] * 300),
        pl.Series("when", ["2020"] * 300),
    ],
)
def test_a_column_of_polars_that_is_no_number_is_named(column):
    table = pl.DataFrame(make_returns(), schema=NAMES).with_columns(column)
    with pytest.raises(ValueError, match="all numbers, but column 'when' holds"):
        fit(table)
    portfolio = fit(table.drop("when"))
    for method in (portfolio.predict, portfolio.score):
        with pytest.raises(ValueError, match="column 'when'"):
            method(table)


@pytest.mark.parametrize("dtype", ["Float64", "float64[pyarrow]", object, "float32"])
def test_frames_of_numbers_of_any_kind(dtype):
    expected = fit(frame()).weights_
    np.testing.assert_allclose(fit(frame().astype(dtype)).weights_, expected, rtol=1e-3)


def test_a_column_of_true_and_false_is_one_of_numbers():
    held = np.arange(300) % 3 == 0
    table = frame().assign(oil=held)
    expected = fit(frame().assign(oil=held.astype(float))).weights_
    np.testing.assert_allclose(fit(table).weights_, expected)
    with_bool = pl.DataFrame(frame().to_numpy(), schema=NAMES).with_columns(pl.Series("oil", held))
    np.testing.assert_allclose(fit(with_bool).weights_, expected)


@pytest.mark.parametrize("method", ["predict", "score"])
def test_missing_values_of_new_returns_are_named(method):
    portfolio, new = fit(frame()), frame(20, seed=1)
    new.loc[3, "oil"] = np.nan
    for X in (new, pl.DataFrame(new.to_numpy(), schema=NAMES)):
        with pytest.raises(ValueError, match=r"X must be finite returns, got NaN in column \['oil'\]"):
            getattr(portfolio, method)(X)
    with pytest.raises(ValueError, match=r"got NaN in column \[2\]"):
        getattr(fit(make_returns()), method)(new.to_numpy())


# --- scores ---------------------------------------------------------------------------------------------


class Returns:
    """An estimator that predicts what it is given."""

    def predict(self, X):
        return X


@pytest.mark.parametrize("value", [0.1, -0.3, 1e-9, 12345.678, 0.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_constant_returns_have_no_sharpe_ratio(value, dtype):
    constant = np.full(1000, value, dtype)
    portfolio = fit(np.full((50, 3), value), constraint="long_only")
    new = np.full((1000, 3), value)
    for scorer in (sharpe_ratio, make_sharpe_scorer(), make_sharpe_scorer(risk_free=value / 2)):
        assert scorer(Returns(), constant) == 0.0
        assert scorer(portfolio, new) == 0.0


def test_a_small_deviation_is_one():
    steady = 0.01 + 1e-9 * np.arange(10.0)
    assert sharpe_ratio(Returns(), steady) == pytest.approx(steady.mean() / steady.std())


def test_the_annualised_ratio_of_the_excess():
    y = np.random.default_rng(0).normal(0.1, 1, 500)
    for periods, riskless in ((252, 0.0), (12, 0.04)):
        scorer = make_sharpe_scorer(periods, risk_free=riskless)
        assert scorer(Returns(), y) == pytest.approx(np.sqrt(periods) * (y.mean() - riskless) / y.std(), rel=1e-12)
    assert make_sharpe_scorer()(Returns(), y) == pytest.approx(np.sqrt(252) * sharpe_ratio(Returns(), y))


def test_cash_does_not_win():
    table = frame(600).assign(cash=0.05 + 1e-4 * np.random.default_rng(1).normal(size=600))
    of_cash = make_sharpe_scorer(risk_free="cash")
    scores = {}
    for a in (0.02, 1e4):  # nearly nothing in cash, and nearly all
        portfolio = fit(table, constraint="long_only", risk_aversion=a)
        scores[a] = sharpe_ratio(portfolio, table), of_cash(portfolio, table)
        y, cash = portfolio.predict(table), table["cash"]
        assert scores[a][1] == pytest.approx(np.sqrt(252) * (y - cash).mean() / np.std(y - cash))
    assert scores[1e4][0] > 100 > 1 > scores[0.02][0]
    assert scores[1e4][1] < 6
    for X in (make_returns(), frame()):
        with pytest.raises(ValueError, match="risk_free must be a number or the name of a column of X, got 'cash'"):
            of_cash(fit(X), X)


def test_the_scorer_in_searches():
    scorer = pickle.loads(pickle.dumps(make_sharpe_scorer(52, risk_free=0.01)))
    scores = cross_val_score(CompositionalPortfolio(budget=1.0), make_returns(), scoring=scorer, cv=TimeSeriesSplit(3))
    assert np.isfinite(scores).all()
    with pytest.raises(ValueError, match="periods_per_year must be a finite number > 0, got 0"):
        make_sharpe_scorer(0)
    with pytest.raises(ValueError, match="risk_free must be a finite number, got None"):
        make_sharpe_scorer(risk_free=None)


def test_a_run_that_overflowed_does_not_win():
    """Its weights are the start, and a score of 0 would be above that of honest fits that lose money."""
    R = make_returns() - 0.5
    grid = {"solver__learning_rate": [1e-3, 1e-2, 1e6]}
    portfolio = CompositionalPortfolio("scgd", max_iter=50, random_state=0)
    for scoring in (None, sharpe_ratio, make_sharpe_scorer()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = GridSearchCV(portfolio, grid, scoring=scoring, cv=TimeSeriesSplit(3)).fit(R)
        scores = search.cv_results_["mean_test_score"]
        assert scores[2] == -np.inf and np.isfinite(scores[:2]).all() and search.best_index_ != 2
        assert search.cv_results_["rank_test_score"][2] == 3


@pytest.mark.slow
def test_skfolio_beside_it():
    skfolio = pytest.importorskip("skfolio", exc_type=ImportError)
    model_selection = pytest.importorskip("skfolio.model_selection")
    table = (frame(400) / 100).set_index(pd.bdate_range("2020-01-01", periods=400))
    search = GridSearchCV(
        CompositionalPortfolio(risk_measure="evar", constraint="long_only", random_state=0),
        {"risk_aversion": [0.1, np.inf]},
        scoring=make_sharpe_scorer(),
        cv=model_selection.WalkForward(train_size=200, test_size=50),
    ).fit(table)
    assert search.n_splits_ == 4 and np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_
    held = skfolio.Portfolio(table, weights=best.weights_)
    np.testing.assert_allclose(held.returns, best.predict(table), atol=1e-12)
    assert held.annualized_sharpe_ratio == pytest.approx(make_sharpe_scorer()(best, table), rel=0.01)
    losses = PortfolioProblem(table.to_numpy(), np.inf, risk_measure="evar")
    assert held.evar == pytest.approx(losses.value_at(best.weights_), rel=1e-4)


def test_named_weights():
    portfolio = fit(frame())
    named = portfolio.named_weights()
    assert isinstance(portfolio.weights_, np.ndarray)
    assert list(named.index) == NAMES
    np.testing.assert_array_equal(named.to_numpy(), portfolio.weights_)
    with pytest.raises(ValueError, match="columns have names"):
        fit(make_returns()).named_weights()


def test_named_weights_without_pandas(monkeypatch):
    portfolio = fit(frame())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="install pandas, or use weights_"):
        portfolio.named_weights()


def test_a_table_of_pyarrow():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(dict(zip(NAMES, make_returns().T, strict=True)))
    np.testing.assert_array_equal(fit(table).weights_, fit(make_returns()).weights_)
