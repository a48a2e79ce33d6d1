"""solver="auto": the exact solution up to a number of features, else "storm-c"; records
of exact solutions."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from value_logs import messages

from sk_stormc import ActionValueEstimator, BellmanValueEstimator
from sk_stormc.solvers import AutomaticSTORM
from sk_stormc.values import linear_estimator


def log(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    parts = {"X": X, "y": X[:, 0] + rng.normal(size=n), "terminal": rng.random(n) < 0.1}
    return parts | {"next_X": 0.5 * X + 0.5 * rng.normal(size=(n, d))}


def second(X):
    return np.ones(len(X), int)


def of_actions():
    return log() | {"action": np.arange(300) % 2}


@pytest.mark.parametrize("objective", ["bellman", "projected"])
def test_the_default_is_the_exact_solution(objective):
    value = BellmanValueEstimator(0.9, objective=objective)
    exact = clone(value).set_params(solver="lstd").fit(**log())
    np.testing.assert_array_equal(value.fit(**log()).coef_, exact.coef_)
    assert value.solver_ == "lstd"
    assert value.condition_number_ == exact.condition_number_
    sampled = value.set_params(solver__batch_size=16).solver
    assert isinstance(sampled, AutomaticSTORM) and sampled.batch_size == 16


def test_with_more_features_it_is_storm_c(monkeypatch):
    monkeypatch.setattr(linear_estimator, "EXACT", 5)
    # five columns with the intercept's
    assert BellmanValueEstimator(0.9).fit(**log()).solver_ == "lstd"
    five, exact = log(d=5), BellmanValueEstimator(0.9, "lstd").fit(**log(d=5))
    value = BellmanValueEstimator(0.9, max_iter=7, tol=1e-7, random_state=0).fit(**five)
    assert isinstance(value.solver_, AutomaticSTORM)
    assert (value.solver_.max_iter, value.solver_.tol) == (7, 1e-7)
    assert value.solver == "auto" and not hasattr(value, "rank_")
    assert len(value.loss_curve_) == len(value.ifo_) >= 2
    np.testing.assert_allclose(value.coef_, exact.coef_, rtol=1e-6)
    stream = BellmanValueEstimator(0.9, random_state=0).partial_fit(**five)
    assert isinstance(stream.solver_, AutomaticSTORM)
    # values of actions have an exact solution for any number of columns, and traces no
    # other
    for policy in (second, "greedy"):
        assert ActionValueEstimator(policy, 0.9).fit(**of_actions()).solver_ == "lstd"
    traced = BellmanValueEstimator(0.9, objective="projected", trace_decay=0.5)
    order = {"X": five["X"], "y": five["y"], "episode": np.arange(300) // 30}
    for fit in (traced.fit, clone(traced).partial_fit):
        assert fit(**order).solver_ == "lstd"


@pytest.mark.parametrize("objective", ["bellman", "projected"])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_exact_solutions_leave_the_start_and_the_end(objective, alpha):
    """The same two ends as an iterative solver, which records Phi itself."""
    value = BellmanValueEstimator(0.9, objective=objective, alpha=alpha).fit(**log())
    sampled = clone(value).set_params(solver="storm-c").fit(**log())
    ends = sampled.loss_curve_[[0, -1]]
    np.testing.assert_allclose(value.loss_curve_, ends, rtol=1e-6, atol=1e-9)
    assert value.ifo_[0] == 0 < value.ifo_[1] == sum(value.n_evaluations_.values())


def test_fewer_states_than_features_warn_and_indicators_do_not():
    """Values of 1e16 where rewards are of order 10, in silence."""
    rng, k = np.random.default_rng(1), np.arange(40)
    states, y = rng.normal(size=(41, 3)), rng.normal(size=40)
    smooth = np.hstack([states**p * states[:, [j]] for p in range(9) for j in range(3)])
    # 30 of 50 states are never visited
    visited = np.eye(50)[rng.integers(0, 20, 41)]
    # determines nothing that indicators do not
    constant = np.c_[visited, np.full(41, 7.0)]
    text = "40 distinct states do not determine the coefficients of"
    for table, ends, alpha, warns in (
        (smooth, k < 0, 0.0, True),
        (smooth, k < 0, 0.1, False),
        (visited, k == 39, 0.0, False),
        (constant, k == 39, 0.0, False),
    ):
        fit = BellmanValueEstimator(0.9, alpha=alpha).fit
        found = messages(fit, table[:-1], y, next_X=table[1:], terminal=ends)
        assert any(text in message for message in found) == len(found) == warns


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [
        BellmanValueEstimator(),
        BellmanValueEstimator(solver="storm-c", objective="projected"),
        ActionValueEstimator(),
    ]
)
def test_check_estimator(estimator, check):
    check(estimator)
