"""Tests of policy evaluation: the problems, the models, and BellmanValueEstimator as its user sees it."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from helpers import few_of, slow_but
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sk_stormc import BellmanValueEstimator, minimize
from sk_stormc.datasets import MarkovRewardProcess, make_bellman_problem
from sk_stormc.problems import BellmanProblem, ProjectedBellmanProblem, check_problem
from sk_stormc.solvers import SOLVERS

KINDS = ("dense", "garnet")
TABULAR = {"fit_intercept": False, "tol": 1e-9, "random_state": 0}


def indicators(states, n):
    return np.eye(n)[np.asarray(states)]


# the problems


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_features", [None, 7])
@pytest.mark.parametrize("sampling", ["successor", "column"])
@pytest.mark.parametrize("extra", slow_but(["", "weights and alpha", "no metric"], "weights and alpha"))
def test_check_bellman_problem(kind, n_features, sampling, extra):
    model = make_bellman_problem(20, n_features, 0.9, kind, random_state=0)
    params = {"": {}, "no metric": {"metric": None}}.get(extra)
    if params is None:
        params = {"sample_weight": np.arange(20) % 3, "alpha": 0.1}
    check_problem(model.problem(sampling=sampling, **params), n_draws=100)


def test_contract_with_a_state_that_no_draw_contains():
    """Its entry of f_x is 2 alpha w in every draw, and a little more over all components."""
    P = np.random.default_rng(0).dirichlet(np.ones(6), size=6)
    check_problem(BellmanProblem(P, np.arange(6.0), gamma=0.9, sample_weight=[1, 1, 1, 1, 1, 1e-5], alpha=0.5))


@pytest.mark.parametrize("as_matrix", few_of([np.asarray, sparse.csr_matrix], 1))
def test_check_with_own_successors(as_matrix):
    """Successors that are no states, the end of an episode among them."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(6, 0.3), size=9)
    P[P < 0.05] = 0
    P /= P.sum(1, keepdims=True)
    features, after = rng.normal(size=(9, 4)), rng.normal(size=(6, 4))
    after[2] = 0
    for sampling in ("successor", "column"):
        R = rng.normal(size=(9, 6))
        problem = BellmanProblem(as_matrix(P), R, features, 0.9, next_features=after, sampling=sampling)
        check_problem(problem, n_draws=300)


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighted", few_of([False, True], 1))
def test_check_projected_problem(as_matrix, weighted):
    X, y, next_X, _ = make_bellman_problem(20, 5, 0.9, "garnet", random_state=0).transitions(40, random_state=0)
    given = {"sample_weight": np.arange(40) % 3, "alpha": np.arange(5)} if weighted else {}
    check_problem(ProjectedBellmanProblem(as_matrix(X), as_matrix(next_X), y, 0.9, **given), n_draws=300)


def test_weights_are_repetitions():
    rng = np.random.default_rng(0)
    X, next_X, y, k = rng.normal(size=(15, 3)), rng.normal(size=(15, 3)), rng.normal(size=15), np.arange(15) % 3 + 1
    weighted = ProjectedBellmanProblem(X, next_X, y, 0.9, sample_weight=k)
    check_problem(weighted, repeated=ProjectedBellmanProblem(*(np.repeat(a, k, 0) for a in (X, next_X, y)), 0.9))


def test_published_numbers():
    problem = make_bellman_problem(random_state=1).problem()
    assert 400 * problem.objective(problem.minimizer()) == pytest.approx(47.8389, abs=1e-4)
    assert 400 * problem.objective(np.zeros(100)) == pytest.approx(100.0195, abs=1e-4)


@pytest.mark.slow
def test_published_run():
    """The paper's constants, with an independent successor for every state, over 360 n IFO."""
    problem = make_bellman_problem(random_state=1).problem()
    best, first = problem.objective(problem.minimizer()), problem.objective(np.zeros(100))
    result = minimize(problem, "storm-c-paper", momentum=0.1, max_ifo=144_000, tol=0, random_state=0)
    assert result.ifo[-1] > 143_900
    assert 0.12 < (result.fun - best) / (first - best) < 0.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", ["successor", "column"])
def test_sparse_and_dense_models_agree(kind, sampling):
    model = make_bellman_problem(30, 5, 0.9, kind, random_state=0)
    P = model.transition_matrix
    P = P.toarray() if sparse.issparse(P) else P
    R = np.random.default_rng(0).normal(size=P.shape)
    a = BellmanProblem(P, R, model.features, 0.9, sampling=sampling)
    b = BellmanProblem(sparse.csr_matrix(P), sparse.csr_matrix(R), sparse.csc_matrix(model.features), 0.9)
    x = np.arange(5.0)
    assert a.objective(x) == pytest.approx(b.objective(x), rel=1e-12)
    np.testing.assert_allclose(a.gradient(x), b.gradient(x), rtol=1e-10)
    np.testing.assert_allclose(a.metric, b.metric, rtol=1e-8, atol=1e-12)


def test_rewards_of_states_are_those_of_all_their_transitions():
    P, r = np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([1.0, -2.0])
    values = [MarkovRewardProcess(P, R, gamma=0.9).exact_value() for R in (r, np.tile(r[:, None], 2))]
    np.testing.assert_array_equal(*values)


def test_deterministic_successors_are_exact():
    problem = BellmanProblem(np.roll(np.eye(7), 1, axis=1), np.arange(7.0), gamma=0.9)
    x, rng = np.arange(7.0), np.random.default_rng(0)
    drawn = problem.inner(x, problem.inner_batch(problem.source.draw_inner(rng, (1, 1))[0]))
    np.testing.assert_allclose(drawn, problem.inner(x, problem.inner_batch(None)))


@pytest.mark.parametrize("kind", KINDS)
def test_successors_by_inversion(kind):
    """The guide table finds what a search among the cumulative probabilities finds, skewed rows included."""
    P = make_bellman_problem(50, None, 0.9, kind, random_state=0).transition_matrix
    P = (P.toarray() if sparse.issparse(P) else P.copy()) ** 4
    P[3], P[4] = np.eye(50)[7], np.eye(50)[49]
    P /= P.sum(1, keepdims=True)
    rng, states = np.random.default_rng(0), np.arange(50)
    for matrix in (P, sparse.csr_array(P)):
        problem = BellmanProblem(matrix, np.zeros(50))
        for U in (rng.random((200, 50)), np.zeros((1, 50)), np.full((1, 50), 1 - 2**-53)):
            found = problem.successors_of(problem.entries_of(states, U))
            expected = np.array([np.searchsorted(np.cumsum(P[s]), U[:, s], side="right") for s in states]).T
            differ = found != np.minimum(expected, 49)
            assert (P[states, found] > 0).all()
            assert not differ[(U > 0).all(1) & (U < 1 - 1e-9).all(1)].any()


def test_no_state_holds_the_model():
    problem = make_bellman_problem(2000, 5, 0.9, "garnet", random_state=0).problem()
    result = minimize(problem, batch_size=(16, None, 16), max_iter=20, random_state=0)
    assert len(pickle.dumps(result.state)) < 5e6
    assert result.n_iter == 20


def test_singular_features_have_a_metric():
    features = np.column_stack([np.eye(4), np.ones(4), np.zeros(4)])
    problem = BellmanProblem(np.full((4, 4), 0.25), np.arange(4.0), features, 0.9)
    np.linalg.cholesky(problem.metric)
    result = minimize(problem, tol=1e-8, random_state=0)
    assert result.fun < 1e-12
    assert np.abs(result.x).max() < 100


# defaults, no tuning


@pytest.mark.parametrize("n", slow_but([50, 400, 2000], 50, 400))
@pytest.mark.parametrize("gamma", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_features", [None, 40])
def test_defaults(n, gamma, kind, n_features):
    if n == 2000 and (kind == "dense" or gamma == 0.95):
        pytest.skip("takes long to make, no more to see than on the others")
    problem = make_bellman_problem(n, n_features, gamma, kind, random_state=0).problem()
    best = problem.objective(problem.minimizer()) if n_features else 0.0
    first = problem.objective(np.zeros(problem.n_variables))
    result = minimize(problem, random_state=0, record_every=n // 2)
    gap = (result.loss_curve - best) / (first - best)
    assert result.ifo[np.argmax(gap <= 1e-3)] <= 120 * n
    assert result.ifo[np.argmax(gap <= 1e-4)] <= 200 * n
    assert result.stop_reason == "converged"
    assert -1e-9 < gap[-1] <= 1e-4


@pytest.mark.parametrize("solver", ["storm-c", "sarah-c", "vrsc-pg", "lbfgs"])
def test_solvers_agree(solver):
    problem = make_bellman_problem(60, 10, 0.95, "garnet", random_state=0).problem()
    result = minimize(problem, solver, tol=1e-7, random_state=0)
    assert result.fun == pytest.approx(problem.objective(problem.minimizer()), rel=1e-9)


def test_minibatches():
    problem = make_bellman_problem(400, 10, 0.9, "garnet", random_state=0).problem()
    best, first = problem.objective(problem.minimizer()), problem.objective(np.zeros(10))
    results = [minimize(problem, batch_size=(16, None, 16), random_state=0) for _ in range(2)]
    assert (results[0].fun - best) / (first - best) < 1e-3
    np.testing.assert_array_equal(results[0].x, results[1].x)


# models


@pytest.mark.parametrize("kind", KINDS)
def test_exact_value(kind):
    model = make_bellman_problem(30, None, 0.9, kind, random_state=0)
    P, R = model.transition_matrix, model.rewards
    P = P.toarray() if sparse.issparse(P) else P
    expected = R if R.ndim == 1 else (P * R).sum(1)
    V = model.exact_value()
    np.testing.assert_allclose(V, expected + 0.9 * P @ V)
    np.testing.assert_allclose(model.problem().minimizer(), V)


def test_garnet():
    P = make_bellman_problem(30, kind="garnet", random_state=0).transition_matrix
    assert sparse.issparse(P)
    assert (np.diff(P.indptr) == 10).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)


def test_transitions_of_a_model():
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    model = MarkovRewardProcess(P, [1.0, 1.0, 0.0], gamma=0.5)
    X, y, next_X, terminal = drawn = model.transitions(4000, random_state=0)
    assert not X[:, 2].any()  # none starts at the end
    np.testing.assert_array_equal(terminal, next_X[:, 2] == 1)
    assert (y == 1).all()
    np.testing.assert_allclose(X[:, 0].mean(), 0.5, atol=0.05)
    value = BellmanValueEstimator(0.5, **TABULAR).fit(**drawn._asdict())
    np.testing.assert_allclose(value.coef_, model.exact_value(), atol=0.05)
    np.testing.assert_array_equal(X, model.transitions(4000, random_state=0).X)


# values known in closed form


@pytest.mark.parametrize("objective", ["bellman", "projected"])
@pytest.mark.parametrize("solver", ["storm-c", "sarah-c", "lbfgs", "lstd"])
def test_chain(objective, solver):
    """0 -> 1 -> 2 -> end, reward 1 a step."""
    value = BellmanValueEstimator(0.5, solver, objective=objective, **TABULAR)
    value.fit(np.eye(3), np.ones(3), next_X=indicators([1, 2, 0], 3), terminal=np.array([False, False, True]))
    np.testing.assert_allclose(value.predict(np.eye(3)), [1.75, 1.5, 1.0], rtol=1e-6)
    assert value.objective_ == objective
    assert value.n_states_ == 3
    assert value.ifo_.shape == value.loss_curve_.shape


@pytest.mark.parametrize("objective", ["bellman", "projected"])
def test_truncated_is_not_terminated(objective):
    """A loop 0 -> 1 -> 0 for ever, reward 1; the log stops after a step from 1."""
    X, next_X = indicators([0, 1, 0, 1], 2), indicators([1, 0, 1, 0], 2)
    value = BellmanValueEstimator(0.9, objective=objective, **TABULAR)
    value.fit(X, np.ones(4), next_X=next_X, terminal=np.zeros(4, bool))
    np.testing.assert_allclose(value.predict(np.eye(2)), [10, 10], rtol=1e-5)
    value.fit(X, np.ones(4), next_X=next_X, terminal=[False, False, False, True])  # half the time the end
    v1 = 1.45 / (1 - 0.9 * 0.9 / 2)
    np.testing.assert_allclose(value.predict(np.eye(2)), [1 + 0.9 * v1, v1], rtol=1e-5)


def episodes():
    """Two of them: 0 -> 1 -> 2 -> end and 1 -> 2, truncated there; reward 1, but 3 from state 2."""
    states, rewards = np.array([0, 1, 2, 1, 2]), np.array([1.0, 1.0, 3.0, 1.0, 99.0])
    return indicators(states, 3), rewards, np.array([0, 0, 1, 0, 0], bool), np.array([10, 11, 12, 20, 21])


@pytest.mark.parametrize("objective", ["bellman", "projected", "auto"])
def test_time(objective):
    X, y, terminal, time = episodes()
    value = BellmanValueEstimator(0.5, objective=objective, **TABULAR)
    value.fit(X, y, terminal=terminal, time=time)
    expected = [1 + 0.5 * 2.5, 1 + 0.5 * 3.0, 3.0]  # the last row leads nowhere and is dropped
    np.testing.assert_allclose(value.predict(np.eye(3)), expected, rtol=1e-6)
    order = np.random.default_rng(0).permutation(5)
    shuffled = clone(value).fit(X[order], y[order], terminal=terminal[order], time=time[order])
    np.testing.assert_allclose(shuffled.coef_, value.coef_, rtol=1e-8)


def test_repeated_next_states_make_an_expectation():
    """0 leads to 1 twice and to 2 once; 1 ends with reward 3, 2 with 0."""
    X, next_X = indicators([0, 0, 0, 1, 2], 3), indicators([1, 2, 1, 0, 0], 3)
    y, terminal = [0.0, 0.0, 0.0, 3.0, 0.0], np.array([0, 0, 0, 1, 1], bool)
    value = BellmanValueEstimator(0.5, **TABULAR).fit(X, y, next_X=next_X, terminal=terminal)
    assert value.objective_ == "bellman"
    assert "60%" in value.objective_reason_
    np.testing.assert_allclose(value.predict(np.eye(3)), [1, 3, 0], atol=1e-6)


def test_ungrouped_td_errors_are_biased():
    """Why transitions of a state are grouped: V(0) must be 1, the mean of 0 and 2, whatever follows."""
    X, next_X = indicators([0, 0, 1, 2], 3), indicators([1, 2, 0, 0], 3)
    next_X[2:] = 0  # 1 and 2 end
    y = np.array([0.0, 0.0, 0.0, 2.0])
    ungrouped = BellmanProblem(np.eye(4), y, X, 0.9, next_features=next_X).minimizer()
    value = BellmanValueEstimator(0.9, objective="bellman", **TABULAR)
    value.fit(X, y, next_X=next_X, terminal=[False, False, True, True])
    np.testing.assert_allclose(value.predict(np.eye(3)), [0.9, 0, 2], atol=1e-6)
    assert abs(ungrouped[1]) > 0.2  # the end values are bent towards each other to make the errors small


def test_states_that_were_not_left_keep_the_start():
    value = BellmanValueEstimator(0.9, **TABULAR).fit(
        indicators([0, 0], 3), [1.0, 1.0], next_X=indicators([1, 0], 3), terminal=[False, False]
    )
    np.testing.assert_allclose(value.coef_, [1 / (1 - 0.45), 0, 0], rtol=1e-6)


def test_nothing_given_is_a_regression_with_a_warning():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0)
    with pytest.warns(UserWarning, match="neither next_X nor terminal nor time"):
        value = BellmanValueEstimator(tol=1e-10).fit(X, y)
    coef = np.linalg.lstsq(np.column_stack([X, np.ones(30)]), y)[0]
    np.testing.assert_allclose([*value.coef_, value.intercept_], coef, rtol=1e-6)


def test_td_error_and_score():
    X, y, terminal, _ = episodes()
    next_X = np.vstack([X[1:], X[:1]])
    value = BellmanValueEstimator(0.5, **TABULAR).fit(X, y, next_X=next_X, terminal=terminal)
    error = y + 0.5 * np.where(terminal, 0, value.predict(next_X)) - value.predict(X)
    np.testing.assert_allclose(value.td_error(X, y, next_X=next_X, terminal=terminal), error)
    assert value.score(X, y, next_X=next_X, terminal=terminal) == pytest.approx(-np.mean(error**2))
    k = np.arange(5) % 2 + 1
    weighted = value.score(X, y, next_X=next_X, terminal=terminal, sample_weight=k)
    assert weighted == pytest.approx(-np.average(error**2, weights=k))
    with pytest.raises(ValueError, match="next_X must be given"):
        value.td_error(X, y, terminal=terminal)


@pytest.mark.parametrize("objective", ["bellman", "projected", "auto"])
@pytest.mark.parametrize("solver", ["storm-c", "lstd"])
def test_weights_equal_repetition(objective, solver):
    model = make_bellman_problem(10, 3, 0.9, "garnet", random_state=0)
    data, k = model.transitions(60, random_state=0), np.arange(60) % 4
    value = BellmanValueEstimator(0.9, solver, objective=objective, random_state=0)
    weighted = clone(value).fit(*data[:2], next_X=data[2], terminal=data[3], sample_weight=k)
    repeated = clone(value).fit(**{name: np.repeat(a, k, axis=0) for name, a in data._asdict().items()})
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)
    assert weighted.objective_ == repeated.objective_


def test_auto_objective():
    rng = np.random.default_rng(0)
    X, next_X, y = rng.normal(size=(50, 2)), rng.normal(size=(50, 2)), rng.normal(size=50)
    value = BellmanValueEstimator(random_state=0).fit(X, y, next_X=next_X)
    assert value.objective_ == "projected"
    assert "0%" in value.objective_reason_
    A = np.column_stack([X, np.ones(50)])
    w = np.linalg.solve(A.T @ (A - 0.95 * np.column_stack([next_X, np.ones(50)])), A.T @ y)  # LSTD
    exact = clone(value).set_params(solver="lstd").fit(X, y, next_X=next_X)
    np.testing.assert_allclose([*exact.coef_, exact.intercept_], w)
    tight = clone(value).set_params(tol=1e-9).fit(X, y, next_X=next_X)
    np.testing.assert_allclose(tight.coef_, exact.coef_, rtol=1e-5)


# scikit-learn's tools


def test_features_see_states_and_successors():
    n = 6
    model = make_bellman_problem(n, None, 0.9, "garnet", random_state=0)
    data = model.transitions(500, random_state=0)
    numbers = {"X": data.X @ np.arange(n)[:, None], "next_X": data.next_X @ np.arange(n)[:, None]}
    one_hot = BellmanValueEstimator(0.9, features=OneHotEncoder(), **TABULAR)
    one_hot.fit(**data._asdict() | numbers)
    plain = BellmanValueEstimator(0.9, **TABULAR).fit(**data._asdict())
    np.testing.assert_allclose(one_hot.coef_, plain.coef_, rtol=1e-7)
    np.testing.assert_allclose(one_hot.predict(np.arange(n)[:, None]), plain.predict(np.eye(n)), rtol=1e-7)
    rest = {"y": data.y, "next_X": data.next_X}
    assert one_hot.score(**data._asdict() | numbers) == pytest.approx(plain.score(data.X, **rest))


def test_grid_search():
    data = make_bellman_problem(50, 3, 0.9, "garnet", random_state=0).transitions(120, random_state=0)
    with config_context(enable_metadata_routing=True):
        value = BellmanValueEstimator(0.9, features=make_pipeline(StandardScaler(), RBFSampler(n_components=8)))
        value.set_fit_request(next_X=True, terminal=True).set_score_request(next_X=True, terminal=True)
        grid = {"solver__batch_size": [16, None], "features__rbfsampler__gamma": [0.1, 1.0]}
        search = GridSearchCV(value, grid, cv=KFold(2), error_score="raise")
        search.fit(data.X, data.y, next_X=data.next_X, terminal=data.terminal)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_score_ < 0


def test_pipeline():
    data = make_bellman_problem(50, 3, 0.9, "garnet", random_state=0).transitions(120, random_state=0)
    with config_context(enable_metadata_routing=True):
        value = BellmanValueEstimator(0.9, tol=1e-9).set_fit_request(next_X=True, terminal=True)
        steps = [("scale", StandardScaler().set_fit_request()), ("value", value)]
        pipeline = Pipeline(steps, transform_input=["next_X"])
        pipeline.fit(data.X, data.y, next_X=data.next_X, terminal=data.terminal)
        plain = clone(value).fit(**data._asdict())
        np.testing.assert_allclose(pipeline.predict(data.X), plain.predict(data.X), rtol=1e-5)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame):
    data = make_bellman_problem(20, 3, 0.9, "garnet", random_state=0).transitions(50, random_state=0)
    X, next_X = (frame({name: a[:, j] for j, name in enumerate("abc")}) for a in (data.X, data.next_X))
    value = BellmanValueEstimator(0.9, random_state=0).fit(X, data.y, next_X=next_X, terminal=data.terminal)
    np.testing.assert_array_equal(value.feature_names_in_, ["a", "b", "c"])
    plain = BellmanValueEstimator(0.9, random_state=0).fit(**data._asdict())
    np.testing.assert_array_equal(value.coef_, plain.coef_)
    with pytest.raises(ValueError, match="next_X"):
        value.fit(X, data.y, next_X=next_X[["b", "a", "c"]])
    np.testing.assert_array_equal(value.coef_, plain.coef_)


def test_successors_of_the_end_are_not_looked_at():
    X, y, terminal, _ = episodes()
    next_X = np.vstack([X[1:], X[:1]])
    value = BellmanValueEstimator(0.5, **TABULAR)
    expected = value.fit(X, y, next_X=next_X, terminal=terminal).coef_
    next_X[terminal] = np.nan
    np.testing.assert_array_equal(value.fit(X, y, next_X=next_X, terminal=terminal).coef_, expected)


def test_states_without_features():
    value = BellmanValueEstimator(0.9, fit_intercept=False).fit(
        np.zeros((3, 2)), np.ones(3), next_X=np.ones((3, 2)), terminal=[False, False, True]
    )
    np.testing.assert_array_equal(value.coef_, 0)


# bad input


@pytest.mark.parametrize(
    "params, message",
    [
        ({"gamma": 1.1}, "gamma must be .* <= 1, got 1.1"),
        ({"gamma": -0.1}, "gamma must be .*got -0.1"),
        ({"gamma": "0.9"}, "gamma must be .*got '0.9'"),
        ({"objective": "td"}, "objective must be one of .*got 'td'"),
        ({"solver": "sgd"}, "solver must be one of .*'lstd', got 'sgd'"),
        ({"alpha": -1}, "alpha must be .*got -1"),
        ({"features": 3}, "features must be a transformer or None, got 3"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
        ({"tol": -1, "solver": "lstd"}, "tol must be .*got -1"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        BellmanValueEstimator(**params).fit(np.eye(2), [1.0, 2.0], terminal=[True, True])


@pytest.mark.parametrize(
    "given, message",
    [
        ({"next_X": np.eye(3)[:, :2]}, "next_X"),
        ({"next_X": np.eye(3)[:2]}, r"next_X must be of shape \(3, 3\).*got \(2, 3\)"),
        ({"next_X": np.full((3, 3), np.nan)}, "next_X must be finite where not terminal.*row 0"),
        ({"terminal": [0, 1, 1]}, "terminal must be boolean, got int"),
        ({"terminal": [True]}, r"terminal must be of shape \(3,\), got \(1,\)"),
        ({"time": [0.5, 1.0, 2.0]}, "time must be integers, got float64 values such as .*0.5"),
        ({"time": [4, 7, 4]}, "time must have distinct values, got 4 2 times.*gap"),
        ({"time": [1, 2]}, r"time must be of shape \(3,\)"),
        ({"time": [1, 2, 3], "next_X": np.eye(3)}, "time must be None"),
        ({"time": [1, 3, 5]}, "usable transition"),
        ({"terminal": [True] * 3, "sample_weight": [0, 0, 0]}, "sample_weight must have a positive entry"),
        ({"terminal": [True] * 3, "sample_weight": [1, -1, 0]}, "sample_weight must be .*got -1.0 in row 1"),
        ({"terminal": [True, False, False], "time": [3, 5, 7], "sample_weight": [0, 1, 1]}, "usable transition"),
    ],
)
def test_bad_data(given, message):
    value = BellmanValueEstimator(random_state=0).fit(np.eye(3), np.ones(3), terminal=np.ones(3, bool))
    before = pickle.dumps(value)
    with pytest.raises(ValueError, match=message):
        value.fit(np.eye(3), np.arange(3.0), **given)
    assert pickle.dumps(value) == before


@pytest.mark.parametrize("where", ["X", "y"])
def test_nan(where):
    data = {"X": np.eye(3), "y": np.ones(3)}
    data[where][(1,) * data[where].ndim] = np.nan
    with pytest.raises(ValueError, match="(?i)nan"):
        BellmanValueEstimator().fit(**data, terminal=np.ones(3, bool))


@pytest.mark.parametrize("make", [BellmanProblem, MarkovRewardProcess])
@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "P, message",
    [
        ([[0.5, 0.5, 0], [0, 0.9, 0], [0, 0.8, 0]], "transition_matrix must have rows that sum to 1, got 0.9 in row 1"),
        ([[0.5, 0.5, 0], [0, 1, 0], [-0.5, 1.5, 0]], "transition_matrix must have .*got -0.5 in row 2"),
        ([[0.5, 0.5, 0], [0, np.nan, 1], [0, 0, 1]], "transition_matrix must have finite.*got nan in row 1"),
    ],
)
def test_bad_models(make, as_matrix, P, message):
    with pytest.raises(ValueError, match=message):
        make(as_matrix(np.array(P)), np.zeros(3))


@pytest.mark.parametrize(
    "args, message",
    [
        ((np.eye(3), np.zeros(2)), r"rewards must be of shape \(3,\) or \(3, 3\), got \(2,\)"),
        ((np.eye(3), [0, np.inf, 0]), "rewards must be finite, got inf in row 1"),
        ((np.eye(3), np.zeros(3), np.eye(2)), r"features must be of shape \(3, n_features\), got \(2, 2\)"),
        ((np.eye(3), np.zeros(3), np.full((3, 1), np.nan)), "features must be finite"),
        ((np.eye(3), np.zeros(3), None, 1), "gamma must be .*got 1"),
        ((np.eye(3)[:2], np.zeros(2)), "transition_matrix must be square"),
        ((np.zeros(3), np.zeros(2)), "transition_matrix must be of shape"),
    ],
)
def test_bad_model_arguments(args, message):
    with pytest.raises(ValueError, match=message):
        MarkovRewardProcess(*args)


@pytest.mark.parametrize("params", [{"kind": "tree"}, {"n_states": 0}, {"n_features": 0.5}, {"gamma": 2}])
def test_bad_generator_arguments(params):
    with pytest.raises(ValueError, match=f"{next(iter(params))} must be"):
        make_bellman_problem(**params)


def test_every_solver_fits():
    data = make_bellman_problem(20, 3, 0.9, "garnet", random_state=0).transitions(100, random_state=0)
    for solver in SOLVERS:
        value = BellmanValueEstimator(0.9, solver, max_iter=5, random_state=0).fit(**data._asdict())
        assert np.isfinite(value.predict(data.X)).all()


# real environments, under the uniform policy


def environment(name, **options):
    """The model of a Gymnasium environment, its states numbered; (terminated states, model)."""
    gymnasium = pytest.importorskip("gymnasium")
    model = gymnasium.make(name, **options).unwrapped.P
    n, n_actions = len(model), len(model[0])
    rows = [
        (s, n if end else after, p / n_actions, reward)
        for s in model
        for outcomes in model[s].values()
        for p, after, reward, end in outcomes
    ]
    s, after, p, reward = (np.array(column) for column in zip(*rows, strict=True))
    shape = n + 1, n + 1  # the last state is the end
    P = sparse.coo_array((np.append(p, 1.0), (np.append(s, n), np.append(after, n))), shape=shape).tocsr()
    r = np.bincount(s, p * reward, minlength=n + 1)
    return MarkovRewardProcess(P, r, gamma=0.95), (s, after, p, reward)


def walk(outcomes, n_transitions, n, start, seed):
    """A log of episodes from ``start``, cut after 200 steps: states, rewards, successors, terminated, time."""
    s, after, p, reward = outcomes
    order = np.argsort(s, kind="stable")
    after, reward, total = after[order], reward[order], np.cumsum(p[order])
    rng, log, state, steps = np.random.default_rng(seed), [], start, 0
    for u in rng.random(n_transitions):
        e = min(np.searchsorted(total, state + u, side="right"), len(total) - 1)
        log.append((state, reward[e], after[e] % n, after[e] == n))
        steps += 1
        state = after[e]
        if after[e] == n or steps == 200:
            state, steps = start, 0
    return (np.array(column) for column in zip(*log, strict=True))


@pytest.mark.parametrize(
    "name, options, start",
    [
        ("FrozenLake-v1", {"map_name": "4x4"}, 0),
        ("FrozenLake-v1", {"map_name": "8x8"}, 0),
        ("CliffWalking-v1", {}, 36),
        ("Taxi-v4", {}, 328),
    ],
    ids=["FrozenLake 4x4", "FrozenLake 8x8", "CliffWalking", "Taxi"],
)
@pytest.mark.parametrize("n_transitions", slow_but([1000, 10_000, 50_000], 1000, 10_000))
def test_environments(name, options, start, n_transitions):
    model, outcomes = environment(name, **options)
    exact, n = model.exact_value()[:-1], model.n_states - 1
    states, y, after, ended = walk(outcomes, n_transitions, n, start, seed=0)
    seen = np.unique(states)
    encoder = OneHotEncoder(categories=[np.arange(n)])
    errors = []
    for solver in ("storm-c", "lstd"):
        value = BellmanValueEstimator(0.95, solver, features=encoder, fit_intercept=False, random_state=0)
        value.fit(states[:, None], y, next_X=after[:, None], terminal=ended)
        assert value.objective_ == "bellman"
        assert value.n_states_ == len(seen)
        never = np.setdiff1d(np.arange(n), seen)
        np.testing.assert_array_equal(value.coef_[never], 0)
        errors.append(np.sqrt(np.mean((value.predict(seen[:, None]) - exact[seen]) ** 2)))
    assert errors[0] <= 1.05 * errors[1]
    if y.any():  # 1000 steps do not reach the goal of the larger lake
        assert errors[1] < np.sqrt(np.mean(exact[seen] ** 2))


def test_without_a_metric_the_projected_objective_is_sampled():
    # on full batches plain steps are those of gradient descent, which the features' condition number slows
    model = make_bellman_problem(n_states=30, n_features=8, gamma=0.9, random_state=0)
    log = model.transitions(500, random_state=0)
    for metric, size in (("auto", None), (None, "auto")):
        problem = ProjectedBellmanProblem(log.X, log.next_X, log.y, 0.9, metric=metric)
        assert problem.advice.batch_size == size
