"""Scores: the Sharpe ratio, and what it is for constant returns and failed fits."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score

from sk_stormc import CompositionalPortfolio, make_sharpe_scorer, sharpe_ratio

NAMES = ["bonds", "gold", "oil", "shares"]


def make_returns(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.05, 1, (n, 1)) + rng.normal(0.05, 1, (n, d)) * rng.uniform(
        0.5, 2, d
    )


def frame(n=300, seed=0):
    return pd.DataFrame(make_returns(n, seed=seed), columns=NAMES)


def fit(X, **params):
    return CompositionalPortfolio(**{"budget": 1.0, "random_state": 0, **params}).fit(X)


class Returns:
    """An estimator that predicts what it is given."""

    def predict(self, X):
        return X


@pytest.mark.parametrize(
    ("value", "dtype"), [(-0.3, float), (12345.678, np.float32), (0.0, float)]
)
def test_constant_returns_have_no_sharpe_ratio(value, dtype):
    constant = np.full(1000, value, dtype)
    portfolio = fit(np.full((50, 3), value), constraint="long_only")
    for scorer in (
        sharpe_ratio,
        make_sharpe_scorer(),
        make_sharpe_scorer(risk_free=value / 2),
    ):
        assert scorer(Returns(), constant) == 0.0
        assert scorer(portfolio, np.full((1000, 3), value)) == 0.0
    steady = 0.01 + 1e-9 * np.arange(10.0)
    assert sharpe_ratio(Returns(), steady) == pytest.approx(
        steady.mean() / steady.std()
    )


def test_the_annualised_ratio_of_the_excess():
    y = np.random.default_rng(0).normal(0.1, 1, 500)
    for periods, riskless in ((252, 0.0), (12, 0.04)):
        scorer = make_sharpe_scorer(periods, risk_free=riskless)
        assert scorer(Returns(), y) == pytest.approx(
            np.sqrt(periods) * (y.mean() - riskless) / y.std(), rel=1e-12
        )
    assert make_sharpe_scorer()(Returns(), y) == pytest.approx(
        np.sqrt(252) * sharpe_ratio(Returns(), y)
    )


def test_cash_does_not_win():
    table = frame(600).assign(
        cash=0.05 + 1e-4 * np.random.default_rng(1).normal(size=600)
    )
    of_cash, scores = make_sharpe_scorer(risk_free="cash"), {}
    for a in (0.02, 1e4):  # nearly nothing in cash, and nearly all
        portfolio = fit(table, constraint="long_only", risk_aversion=a)
        scores[a] = sharpe_ratio(portfolio, table), of_cash(portfolio, table)
        y, cash = portfolio.predict(table), table["cash"]
        assert scores[a][1] == pytest.approx(
            np.sqrt(252) * (y - cash).mean() / np.std(y - cash)
        )
    assert scores[1e4][0] > 100 > 1 > scores[0.02][0] and scores[1e4][1] < 6
    for X in (make_returns(), frame()):
        with pytest.raises(
            ValueError,
            match="risk_free must be a number or the name of a column of X, got 'cash'",
        ):
            of_cash(fit(X), X)


def test_the_scorer_in_searches():
    scorer = pickle.loads(pickle.dumps(make_sharpe_scorer(52, risk_free=0.01)))
    portfolio, given = CompositionalPortfolio(budget=1.0), {"cv": TimeSeriesSplit(3)}
    scores = cross_val_score(portfolio, make_returns(), scoring=scorer, **given)
    assert np.isfinite(scores).all()


def test_a_run_that_overflowed_does_not_win():
    """Its weights are the start, and a score of 0 would be above that of honest fits
    that lose money."""
    R, grid = make_returns() - 0.5, {"solver__learning_rate": [1e-3, 1e-2, 1e6]}
    portfolio = CompositionalPortfolio("scgd", max_iter=50, random_state=0)
    for scoring in (None, sharpe_ratio, make_sharpe_scorer()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = GridSearchCV(
                portfolio, grid, scoring=scoring, cv=TimeSeriesSplit(3)
            ).fit(R)
        scores = search.cv_results_["mean_test_score"]
        assert scores[2] == -np.inf
        assert np.isfinite(scores[:2]).all()
        assert search.best_index_ != 2
        assert search.cv_results_["rank_test_score"][2] == 3
