"""solver="auto": the exact solution up to a number of features, else "storm-c"; records
of exact solutions."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from sk_stormc import ActionValueEstimator, BellmanValueEstimator
from sk_stormc.solvers import AutomaticSTORM
from sk_stormc.values import linear_estimator


def log(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    next_X = 0.5 * X + 0.5 * rng.normal(size=(n, d))
    return {
        "X": X,
        "y": X[:, 0] + rng.normal(size=n),
        "next_X": next_X,
        "terminal": rng.random(n) < 0.1,
    }


def second(X):
    return np.ones(len(X), int)


def of_actions(seed=0):
    return log(seed=seed) | {"action": np.arange(300) % 2}


@pytest.mark.parametrize("objective", ["bellman", "projected"])
def test_the_default_is_the_exact_solution(objective):
    parts = log()
    value = BellmanValueEstimator(0.9, objective=objective).fit(**parts)
    exact = BellmanValueEstimator(0.9, "lstd", objective=objective).fit(**parts)
    np.testing.assert_array_equal(value.coef_, exact.coef_)
    assert (
        value.solver_ == "lstd" and value.condition_number_ == exact.condition_number_
    )
    sampled = value.set_params(solver__batch_size=16).solver
    assert isinstance(sampled, AutomaticSTORM) and sampled.batch_size == 16
    parts = of_actions()
    q = ActionValueEstimator(second, 0.9).fit(**parts)
    np.testing.assert_array_equal(
        q.coef_, ActionValueEstimator(second, 0.9, "lstd").fit(**parts).coef_
    )
    assert q.solver_ == ActionValueEstimator(gamma=0.9).fit(**parts).solver_ == "lstd"


def test_with_more_features_it_is_storm_c(monkeypatch):
    monkeypatch.setattr(linear_estimator, "EXACT", 5)
    # five columns with the intercept's
    assert BellmanValueEstimator(0.9).fit(**log()).solver_ == "lstd"
    value = BellmanValueEstimator(0.9, max_iter=7, tol=1e-7, random_state=0).fit(
        **log(d=5)
    )
    assert (
        isinstance(value.solver_, AutomaticSTORM)
        and value.solver_.max_iter == 7
        and value.solver_.tol == 1e-7
    )
    assert value.solver == "auto" and not hasattr(value, "rank_")
    assert len(value.loss_curve_) == len(value.ifo_) >= 2
    np.testing.assert_allclose(
        value.coef_, BellmanValueEstimator(0.9, "lstd").fit(**log(d=5)).coef_, rtol=1e-6
    )
    # values of actions have an exact solution for any number of columns
    for policy in (second, "greedy"):
        assert ActionValueEstimator(policy, 0.9).fit(**of_actions()).solver_ == "lstd"
    stream = BellmanValueEstimator(0.9, random_state=0).partial_fit(**log(d=5))
    assert isinstance(stream.solver_, AutomaticSTORM)
    traced = BellmanValueEstimator(0.9, objective="projected", trace_decay=0.5)
    order = {"X": log(d=5)["X"], "y": log()["y"], "episode": np.arange(300) // 30}
    assert (
        traced.fit(**order).solver_
        == clone(traced).partial_fit(**order).solver_
        == "lstd"
    )


@pytest.mark.parametrize("objective", ["bellman", "projected"])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_exact_solutions_leave_the_start_and_the_end(objective, alpha):
    """The same two ends as an iterative solver, which records Phi itself."""
    parts = log()
    value = BellmanValueEstimator(0.9, objective=objective, alpha=alpha).fit(**parts)
    curve = (
        BellmanValueEstimator(0.9, "storm-c", objective=objective, alpha=alpha)
        .fit(**parts)
        .loss_curve_
    )
    np.testing.assert_allclose(value.loss_curve_, curve[[0, -1]], rtol=1e-6, atol=1e-9)
    assert value.ifo_[0] == 0 < value.ifo_[1] == sum(value.n_evaluations_.values())


def test_fewer_states_than_features_warn_and_indicators_do_not():
    """Values of 1e16 where rewards are of order 10, in silence."""
    rng = np.random.default_rng(1)
    states = rng.normal(size=(41, 3))
    smooth = np.column_stack(
        [states**k * states[:, [j]] for k in range(9) for j in range(3)]
    )
    parts = {"next_X": smooth[1:], "terminal": [False] * 40}
    with pytest.warns(
        ConvergenceWarning,
        match="40 distinct states do not determine the coefficients of",
    ):
        BellmanValueEstimator(0.9).fit(smooth[:-1], -(states[:-1, 0] ** 2), **parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BellmanValueEstimator(0.9, alpha=0.1).fit(
            smooth[:-1], -(states[:-1, 0] ** 2), **parts
        )
        # 30 of 50 states are never visited
        visited = np.eye(50)[rng.integers(0, 20, 41)]
        last = np.arange(40) == 39
        BellmanValueEstimator(0.9).fit(
            visited[:-1], rng.normal(size=40), next_X=visited[1:], terminal=last
        )
        # determines nothing that indicators do not
        constant = np.c_[visited, np.full(41, 7.0)]
        BellmanValueEstimator(0.9).fit(
            constant[:-1], rng.normal(size=40), next_X=constant[1:], terminal=last
        )


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
