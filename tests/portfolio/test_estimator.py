"""The estimator among scikit-learn's tools: data, predict and score, parameters of its
own and of the solver."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

from sk_stormc import (
    LBFGS,
    SCGD,
    ActionValueEstimator,
    AutomaticSTORM,
    BellmanValueEstimator,
    CompositionalPortfolio,
    SARAHCompositional,
    sharpe_ratio,
)
from sk_stormc.solvers import SOLVERS


def make_returns(n=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.05, 1, (n, 1)) + rng.normal(0.05, 1, (n, d)) * rng.uniform(
        0.5, 2, d
    )


def fit(R, solver="storm-c", sample_weight=None, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = {"random_state": 0} | params
        return CompositionalPortfolio(solver, **params).fit(
            R, sample_weight=sample_weight
        )


def same_bits(a, b):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


# data


def test_data_frames_of_pandas_and_polars():
    R, names = make_returns(), ["bonds", "gold", "oil", "shares"]
    plain = fit(R)
    for table in (pd.DataFrame(R, columns=names), pl.DataFrame(R, schema=names)):
        portfolio = fit(table)
        same_bits(portfolio.weights_, plain.weights_)
        assert portfolio.n_features_in_ == 4
        assert list(portfolio.feature_names_in_) == names
        np.testing.assert_allclose(
            portfolio.predict(table), R @ plain.weights_, rtol=1e-10
        )
        assert portfolio.score(table) == pytest.approx(plain.score(R), rel=1e-12)
        for method in (portfolio.predict, portfolio.score):
            with pytest.raises(ValueError, match="feature names"):
                method(table[names[::-1]])
    # a fit without names forgets them
    assert not hasattr(portfolio.fit(R), "feature_names_in_")


def test_a_fit_that_raises_changes_nothing():
    table = pd.DataFrame(make_returns(), columns=list("abcd"))
    portfolio = fit(table, "auto")
    before = pickle.dumps(portfolio)
    with pytest.raises(TypeError, match="strings"):
        portfolio.fit(table.rename(columns={"a": 1}))
    with pytest.raises(ValueError, match="sample_weight"):
        portfolio.fit(table[["a", "b"]], sample_weight=-np.ones(400))
    assert pickle.dumps(portfolio) == before


# parameters


def test_parameters_of_the_solver():
    portfolio = CompositionalPortfolio("storm-c")
    assert portfolio.set_params() is portfolio
    portfolio.set_params(
        solver__learning_rate=0.125, solver__batch_size=(8, None, 4), risk_aversion=3.0
    )
    assert isinstance(portfolio.solver, AutomaticSTORM)
    assert portfolio.risk_aversion == 3.0
    assert portfolio.get_params()["solver__learning_rate"] == 0.125
    assert portfolio.solver.batch_size == (8, None, 4)
    copy = clone(portfolio)
    assert copy.solver is not portfolio.solver and copy.solver.learning_rate == 0.125
    assert copy.get_params(deep=True).keys() == portfolio.get_params(deep=True).keys()
    copy.set_params(solver__learning_rate="auto")
    assert portfolio.solver.learning_rate == 0.125
    assert CompositionalPortfolio("storm-c").get_params()["solver"] == "storm-c"


def test_methods_without_parameters_say_so():
    for estimator in (
        CompositionalPortfolio("newton"),
        CompositionalPortfolio("moments"),
        BellmanValueEstimator(solver="lstd"),
        ActionValueEstimator(solver="lstd"),
    ):
        with pytest.raises(
            ValueError,
            match=f"solver__learning_rate cannot be set with solver='{estimator.solver}'",
        ):
            estimator.set_params(solver__learning_rate=0.1)
    with pytest.raises(ValueError, match="solver must be one of .* got 'bog'"):
        CompositionalPortfolio("bog").set_params(solver__learning_rate=0.1)
    for name in ("solver__beta", "learning_rate"):
        with pytest.raises(ValueError, match=name.removeprefix("solver__")):
            CompositionalPortfolio(LBFGS()).set_params(**{name: 1.0})


def test_the_solver_is_set_before_its_parameters_whatever_the_order():
    first = CompositionalPortfolio().set_params(
        solver__epoch_length=3, solver="sarah-c"
    )
    second = CompositionalPortfolio().set_params(
        solver="sarah-c", solver__epoch_length=3
    )
    third = CompositionalPortfolio(SCGD()).set_params(
        solver__epoch_length=3, solver=SARAHCompositional(tol=0)
    )
    for portfolio in (first, second, third):
        assert isinstance(portfolio.solver, SARAHCompositional)
        assert portfolio.solver.epoch_length == 3
    assert third.solver.tol == 0


def test_fit_does_not_change_the_solver():
    for kind in (SCGD, AutomaticSTORM, LBFGS):
        solver = kind()
        before = pickle.dumps(solver)
        portfolio = fit(make_returns(50, 3), solver, max_iter=2, tol=1e-7)
        assert portfolio.solver is solver and pickle.dumps(solver) == before
        assert portfolio.solver_ is not solver and type(portfolio.solver_) is kind
        assert (portfolio.solver_.max_iter, portfolio.solver_.tol) == (2, 1e-7)
        assert portfolio.n_iter_ == 2 and portfolio.stop_reason_ == "max_iter"


def test_max_iter_and_tol_of_none_are_the_solvers_own():
    R = make_returns(3000)
    assert fit(R, AutomaticSTORM(max_iter=7, tol=0)).n_iter_ == 7
    portfolio = fit(R, SCGD(max_ifo=5000))
    assert portfolio.stop_reason_ == "max_ifo" and portfolio.ifo_[-1] <= 5000
    early, late = (fit(R, tol=tol) for tol in (1e-1, 1e-8))
    assert early.stop_reason_ == late.stop_reason_ == "converged"
    assert early.n_iter_ < late.n_iter_


# scikit-learn's tools


def test_grid_search_over_the_solver_and_the_problem():
    R = make_returns(1500)
    grid = [
        {
            "solver__learning_rate": [0.01, 0.1],
            "solver__batch_size": [8, None],
            "risk_aversion": [50.0],
        },
        # clones of solvers, whose parameters are given by their names only
        {"solver": [LBFGS(), SCGD(beta=0.3), AutomaticSTORM(batch_size=8)]},
        {"solver": [SCGD(beta=0.3)], "solver__learning_rate": [0.02, 0.2]},
    ]
    portfolio = CompositionalPortfolio(
        "storm-c", constraint=(-0.5, 0.5), max_iter=9, tol=0, random_state=0
    )
    search = GridSearchCV(
        portfolio,
        grid,
        scoring=sharpe_ratio,
        cv=TimeSeriesSplit(2),
        error_score="raise",
    ).fit(R)
    scores = search.cv_results_["mean_test_score"]
    # every parameter reaches the run
    assert np.isfinite(scores).all() and len(np.unique(scores)) == 9
    same_bits(
        search.best_estimator_.weights_,
        clone(portfolio).set_params(**search.best_params_).fit(R).weights_,
    )


@pytest.mark.parametrize("solver", ["auto", "scgd"])
def test_pickle(solver):
    R = make_returns(5000)
    table = pd.DataFrame(R, columns=list("abcd"))
    portfolio = fit(table, solver, np.arange(5000.0), constraint=(-1, 1), max_iter=20)
    data = pickle.dumps(portfolio)
    assert len(data) < R.nbytes / 4
    back = pickle.loads(data)
    same_bits(back.predict(table[:10]), portfolio.predict(table[:10]))
    same_bits(back.loss_curve_, portfolio.loss_curve_)
    for name in ("n_iter_", "stop_reason_", "n_evaluations_"):
        assert getattr(back, name) == getattr(portfolio, name)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_at_any_n_jobs():
    R, given = make_returns(3000), {"max_iter": 50, "constraint": (-1, 1)}
    stochastic = [name for name in SOLVERS if name not in ("lbfgs", "corrected-sample")]
    here = [fit(R, solver, **given) for solver in stochastic]
    there = Parallel(n_jobs=2)(delayed(fit)(R, name, **given) for name in stochastic)
    for solver, a, b in zip(stochastic, here, there, strict=True):
        same_bits(a.weights_, b.weights_)
        other = fit(R, solver, **given, random_state=4)
        assert (a.weights_ != other.weights_).any()


def test_random_state_as_in_scikit_learn():
    R = make_returns(3000)

    def run(random_state):
        return fit(R, random_state=random_state, max_iter=10).weights_

    same_bits(run(0), run(np.random.RandomState(0)))
    same_bits(run(0), run(np.int64(0)))
    state = np.random.RandomState(0)
    assert (run(state) != run(state)).any()
    np.random.seed(7)
    first, second = run(None), run(None)
    assert (first != second).any()
    np.random.seed(7)
    before = np.random.get_state()
    run(0)
    np.testing.assert_equal(np.random.get_state(), before)
    same_bits(run(None), first)
