"""What looks like a mistake in logged transitions is refused or warned about, and rates hold where they used not to."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
import sklearn
from helpers import few_of
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sk_stormc import ASCPG, SCGD, BellmanValueEstimator
from sk_stormc.metrics import as_metric
from sk_stormc.problems import ProjectedBellmanProblem
from sk_stormc.solvers import SOLVERS


def walk(n=400, seed=0, offset=0.0, scale=1.0):
    """A stationary walk in two dimensions whose reward is its position, cut into episodes of 20 steps."""
    rng = np.random.default_rng(seed)
    position = np.zeros((n + 1, 2))
    for k in range(n):
        position[k + 1] = 0.8 * position[k] + rng.standard_normal(2)
    position = offset + scale * position
    terminal = np.arange(n) % 20 == 19
    return position[:-1], position[:-1, 0] + 0.1 * rng.standard_normal(n), position[1:], terminal


# which objective


def test_weights_are_not_visits():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    data = {"next_X": rng.standard_normal((60, 2)), "terminal": np.arange(60) % 6 == 5}
    ratios = np.where(np.arange(60) % 2, 1.8, 0.2)
    value = BellmanValueEstimator(0.9, "lstd").fit(X, y, **data, sample_weight=ratios)
    assert value.objective_ == "projected" and "0%" in value.objective_reason_
    # rows of the same state are visits, whatever their ratios; those of weight 0 are not there
    twice = {name: np.tile(part, (2,) + (1,) * (part.ndim - 1)) for name, part in data.items()}
    X, y, ratios = np.tile(X, (2, 1)), np.tile(y, 2), np.tile(ratios, 2)
    assert BellmanValueEstimator(0.9, "lstd").fit(X, y, **twice, sample_weight=ratios).objective_ == "bellman"
    ratios[60:] = 0
    assert BellmanValueEstimator(0.9, "lstd").fit(X, y, **twice, sample_weight=ratios).objective_ == "projected"


# scores


@pytest.mark.parametrize("given", [("next_X",), ("next_X", "terminal"), ("time",), ("terminal",)])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_score_wants_what_fit_was_given(given, method):
    X, y, next_X, terminal = walk()
    data = {"next_X": next_X, "terminal": terminal, "time": np.arange(400)}
    if given == ("terminal",):
        data["terminal"] = np.ones(400, dtype=bool)
    data = {name: data[name] for name in given}
    value = getattr(BellmanValueEstimator(0.9, random_state=0), method)(X, y, **data)
    for estimator in (value, pickle.loads(pickle.dumps(value))):
        assert np.isfinite(estimator.score(X, y, **data))
        for scorer in (estimator.score, estimator.td_error):
            with pytest.raises(ValueError, match=rf"{given[0]}.*enable_metadata_routing=True") as raised:
                scorer(X, y)
            assert f"set_score_request({', '.join(f'{name}=True' for name in given)})" in str(raised.value)
    del value._given  # as an older version left it
    assert np.isfinite(value.score(X, y))


def test_score_without_successors_after_a_fit_without():
    X, y, *_ = walk()
    with pytest.warns(UserWarning, match="neither next_X nor terminal nor time"):
        value = BellmanValueEstimator(0.9, "lstd").fit(X, y)
    np.testing.assert_allclose(value.td_error(X, y), y - value.predict(X))


def test_score_without_the_ends_that_fit_was_given_warns():
    X, y, next_X, terminal = walk()
    value = BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X, terminal=terminal)
    with pytest.warns(UserWarning, match="fit was given terminal"):
        value.score(X, y, next_X=next_X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value.score(X, y, next_X=next_X, terminal=np.zeros(400, dtype=bool))


def test_scores_by_time_are_those_by_successors():
    X, y, next_X, terminal = walk()
    time = np.arange(400)
    value = BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X, terminal=terminal)
    terminal[-1] = False  # its successor is not among the rows
    error = value.td_error(X, y, terminal=terminal, time=time)
    assert np.isnan(error[-1])
    expected = value.td_error(X[:-1], y[:-1], next_X=next_X[:-1], terminal=terminal[:-1])
    np.testing.assert_allclose(error[:-1], expected, atol=1e-12)
    assert value.score(X, y, terminal=terminal, time=time) == pytest.approx(-np.mean(expected**2))
    order, k = np.random.default_rng(0).permutation(400), np.arange(400) % 3
    shuffled = {"terminal": terminal[order], "time": time[order], "sample_weight": k[order]}
    expected = -np.average(expected**2, weights=k[:-1])
    assert value.score(X[order], y[order], **shuffled) == pytest.approx(expected)
    with pytest.raises(ValueError, match="time must be None if next_X is given"):
        value.score(X, y, next_X=next_X, time=time, terminal=terminal)
    with pytest.raises(ValueError, match="X must have a transition"):
        value.score(X, y, time=2 * time, terminal=np.zeros(400, dtype=bool))
    with pytest.raises(ValueError, match="time must have distinct"):
        value.score(X, y, time=0 * time, terminal=terminal)


def test_a_search_needs_routing_and_says_so():
    X, y, next_X, terminal = walk()
    data = {"next_X": next_X, "terminal": terminal}
    value, grid = BellmanValueEstimator(0.9, "lstd"), {"alpha": [0.0, 1.0, 100.0]}
    with pytest.raises(ValueError, match="next_X and terminal must be given to score"):
        GridSearchCV(value, grid, cv=3, error_score="raise").fit(X, y, **data)
    with warnings.catch_warnings(record=True) as seen:  # without error_score="raise" scikit-learn turns errors into NaN
        warnings.simplefilter("always")
        search = GridSearchCV(value, grid, cv=3).fit(X, y, **data)
    messages = [str(w.message) for w in seen]
    assert any("enable_metadata_routing=True" in message for message in messages)
    assert any("non-finite" in message for message in messages)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("names", [("next_X", "terminal"), ("time", "terminal")])
def test_a_search_with_routing_finds_the_ridge(names):
    X, y, next_X, terminal = walk()
    data = {"next_X": next_X, "terminal": terminal, "time": np.arange(400)}
    data, alphas, folds = {name: data[name] for name in names}, [0.0, 1.0, 100.0], KFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = dict.fromkeys(names, True)
        value = BellmanValueEstimator(0.9, "lstd").set_fit_request(**asked).set_score_request(**asked)
        search = GridSearchCV(value, {"alpha": alphas}, cv=folds, error_score="raise").fit(X, y, **data)
    by_hand = []
    for alpha in alphas:
        scores = []
        for train, test in folds.split(X):
            fitted = BellmanValueEstimator(0.9, "lstd", alpha=alpha)
            fitted.fit(X[train], y[train], **{name: part[train] for name, part in data.items()})
            scores.append(fitted.score(X[test], y[test], **{name: part[test] for name, part in data.items()}))
        by_hand.append(np.mean(scores))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand)
    assert search.best_params_["alpha"] == alphas[np.argmax(by_hand)] != 100.0


# pipelines


def test_ways_of_scaling_that_are_right():
    X, y, next_X, terminal = walk(offset=100.0, scale=3.0)
    terminal[-1] = True
    data, time = {"next_X": next_X, "terminal": terminal}, np.arange(400)
    plain = BellmanValueEstimator(0.9, "lstd", objective="projected").fit(X, y, **data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside = clone(plain).set_params(features=StandardScaler()).fit(X, y, **data)
        np.testing.assert_allclose(inside.predict(X), plain.predict(X), rtol=1e-8)
        assert inside.score(X, y, **data) == pytest.approx(plain.score(X, y, **data))
        with sklearn.config_context(enable_metadata_routing=True):
            value = clone(plain).set_fit_request(next_X=True, terminal=True)
            pipeline = Pipeline([("scale", StandardScaler()), ("value", value)], transform_input=["next_X"])
            np.testing.assert_allclose(pipeline.fit(X, y, **data).predict(X), plain.predict(X), rtol=1e-8)
            asked = {"time": True, "terminal": True}
            value = clone(plain).set_fit_request(**asked).set_score_request(**asked)
            pipeline = Pipeline([("scale", StandardScaler()), ("value", value)])
            pipeline.fit(X, y, terminal=terminal, time=time)
            np.testing.assert_allclose(pipeline.predict(X), plain.predict(X), rtol=1e-8)
            found = pipeline.score(X, y, terminal=terminal, time=time)
    assert found == pytest.approx(plain.score(X, y, **data))


def test_successors_that_were_not_scaled_as_X_warn():
    X, y, next_X, terminal = walk(offset=100.0, scale=3.0)
    next_X[3], X[5] = 1e6, -1e6  # single outliers neither hide nor make it
    data = {"next_X": next_X, "terminal": terminal}
    value = BellmanValueEstimator(0.9, "lstd")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value.fit(X, y, **data)
    pipeline = Pipeline([("scale", StandardScaler()), ("value", clone(value))])
    X[5] = 100.0
    with pytest.warns(UserWarning, match=r"next_X is far outside the range of X in column \d.*features="):
        pipeline.fit(X, y, value__next_X=next_X, value__terminal=terminal)
    # scikit-learn transforms metadata for fit, and hands it to score as it is
    with sklearn.config_context(enable_metadata_routing=True):
        asked = {"next_X": True, "terminal": True}
        value = clone(value).set_fit_request(**asked).set_score_request(**asked)
        pipeline = Pipeline([("scale", StandardScaler()), ("value", value)], transform_input=["next_X"])
        pipeline.fit(X, y, **data)
        with pytest.warns(UserWarning, match="next_X is far outside the range of X"):
            pipeline.score(X, y, **data)


@pytest.mark.parametrize("n", [1, 2, 5, 20, 400])
@pytest.mark.parametrize("kind", ["walk", "drifting", "indicators", "heavy tails"])
def test_ordinary_successors_do_not_warn(kind, n):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        steps = rng.standard_t(1.5, (n + 1, 3)) if kind == "heavy tails" else rng.standard_normal((n + 1, 3))
        states = np.cumsum(steps + (kind == "drifting"), axis=0)
        if kind == "indicators":
            states = np.eye(3)[rng.integers(3, size=n + 1)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            BellmanValueEstimator(0.9, "lstd", alpha=0.1).fit(states[:-1], np.ones(n), next_X=states[1:])


def test_numbers_of_states_warn():
    rng = np.random.default_rng(0)
    states = rng.integers(16, size=301)
    X, next_X, y = states[:-1, None], states[1:, None], np.ones(300)
    with pytest.warns(UserWarning, match="one column, of 16 integers that repeat.*OneHotEncoder"):
        BellmanValueEstimator(0.9, "lstd").fit(X, y, next_X=next_X)
    with pytest.warns(UserWarning, match="OneHotEncoder"):
        BellmanValueEstimator(0.9).partial_fit(X, y, next_X=next_X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BellmanValueEstimator(0.9, "lstd", features=OneHotEncoder()).fit(X, y, next_X=next_X)
        BellmanValueEstimator(0.9, "lstd").fit(X + 0.5, y, next_X=next_X + 0.5)
        BellmanValueEstimator(0.9, "lstd").fit(X % 2, y, next_X=next_X % 2)
        BellmanValueEstimator(0.9, "lstd").fit(np.arange(300)[:, None], y, next_X=np.arange(1, 301)[:, None])
        BellmanValueEstimator(0.9, "lstd").fit(np.hstack([X, X**2]), y, next_X=np.hstack([next_X, next_X**2]))


# rates that hold


def balancing(n=2000, seed=0):
    """A walk that ends where it is too far out, reward 1 a step: few transitions end an episode, as in CartPole."""
    rng = np.random.default_rng(seed)
    X, next_X, terminal, state = np.zeros((n, 2)), np.zeros((n, 2)), np.zeros(n, dtype=bool), np.zeros(2)
    for k in range(n):
        X[k] = state
        state = 0.9 * state + 0.2 * rng.standard_normal(2)
        next_X[k], terminal[k] = state, abs(state).max() > 1
        if terminal[k]:
            state = np.zeros(2)
    return X, np.ones(n), next_X, terminal


@pytest.mark.parametrize("metric", ["auto", None, np.array([0.5, 2.0])], ids=["inverse Hessian", "none", "diagonal"])
@pytest.mark.parametrize("B", [1, 2, None])
def test_expected_smoothness_is_that_of_all_batches(metric, B):
    rng = np.random.default_rng(0)
    Z, next_Z, weights, alpha = rng.standard_normal((6, 2)), rng.standard_normal((6, 2)), rng.random(6), [0.3, 0.0]
    problem = ProjectedBellmanProblem(Z, next_Z, np.ones(6), 0.9, sample_weight=weights, alpha=alpha)
    if not isinstance(metric, str):
        problem.metric = metric
    metric, weights = as_metric(problem.metric, 2), weights / weights.sum()
    M = np.column_stack([metric.apply(e) for e in np.eye(2)])
    C, J = (Z * weights[:, None]).T @ Z, (Z * weights[:, None]).T @ (Z - 0.9 * next_Z)
    batches = itertools.product(range(6), repeat=B) if B else [range(6)]
    second = 0.0
    for batch in batches:
        batch = list(batch)
        w = weights[batch] if B is None else np.full(B, 1 / B)
        H_B = 2 * J.T @ np.linalg.solve(C, (Z[batch] * w[:, None]).T @ (Z - 0.9 * next_Z)[batch]) + 2 * np.diag(alpha)
        second = second + (1 if B is None else weights[batch].prod()) * H_B.T @ M @ H_B
    expected = eigh(second, problem.hessian(), eigvals_only=True)[-1]
    assert problem.expected_smoothness((B, 0, None), metric) == pytest.approx(expected)


def test_expected_smoothness_where_features_are_collinear():
    X, y, next_X, terminal = balancing(200)
    Z, next_Z = (np.hstack([rows, np.ones((200, 1))]) for rows in (X, next_X * ~terminal[:, None]))
    next_Z[terminal] = 0
    problem = ProjectedBellmanProblem(Z, next_Z, y, 0.9)
    twice = ProjectedBellmanProblem(np.hstack([Z, Z]), np.hstack([next_Z, next_Z]), y, 0.9)
    found = [p.expected_smoothness((16, 0, None), as_metric(p.metric, p.n_variables)) for p in (problem, twice)]
    assert found[1] == pytest.approx(found[0], rel=1e-6)
    nothing = ProjectedBellmanProblem(np.zeros((3, 1)), np.zeros((3, 1)), np.ones(3), 0.9)
    assert nothing.expected_smoothness((1, 0, None), as_metric(None, 1)) == 0


@pytest.mark.parametrize("gamma", [0.99, 0.999])
@pytest.mark.parametrize("solver", ["sarah-c", "civr", "vrsc-pg", "scvr"])
def test_methods_with_checkpoints_converge_on_few_ends(solver, gamma):
    X, y, next_X, terminal = balancing()
    value = BellmanValueEstimator(gamma, "lstd", objective="projected").fit(X, y, next_X=next_X, terminal=terminal)
    expected = value.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value.set_params(solver=solver, random_state=0).fit(X, y, next_X=next_X, terminal=terminal)
    assert value.stop_reason_ == "converged"
    assert abs(value.predict(X) - expected).max() < 0.02 * expected.std()


def test_an_average_of_exact_values_does_not_lag():
    X, y, next_X, _ = walk(2000)  # no episode ends, and every state is another: batches of "bellman" are full
    value = BellmanValueEstimator(0.99, "lstd", objective="bellman").fit(X, y, next_X=next_X)
    expected = value.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        value.set_params(solver="scgd", random_state=0).fit(X, y, next_X=next_X)
    assert value.stop_reason_ != "non_finite"
    assert abs(value.predict(X) - expected).max() < 0.1 * expected.std()


EARLY = [  # full batches, which are advised, would converge
    "storm-c-paper", SCGD(max_ifo=20_000), SOLVERS["acc-scgd"](batch_size=32), ASCPG(batch_size=32, max_iter=2000)
]  # fmt: skip


@pytest.mark.parametrize("solver", few_of(EARLY, 1, 3))
def test_budgets_that_end_too_early_warn(solver):
    X, y, next_X, terminal = balancing()
    value = BellmanValueEstimator(0.99, solver, objective="projected", random_state=0)
    with pytest.warns(ConvergenceWarning, match="has not converged: its budget ended"):
        value.fit(X, y, next_X=next_X, terminal=terminal)
    assert value.stop_reason_ in ("max_ifo", "max_iter")
