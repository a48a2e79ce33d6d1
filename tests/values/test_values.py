"""BellmanValueEstimator as its user sees it: values in closed form, scores, searches,
pipelines, frames."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from value_logs import fed, some

from sk_stormc import BellmanValueEstimator
from sk_stormc.datasets import make_bellman_problem
from sk_stormc.solvers import SOLVERS

TABULAR = {"fit_intercept": False, "tol": 1e-9, "random_state": 0}


def walk(n=400, seed=0, offset=0.0, scale=1.0):
    """A stationary walk in two dimensions whose reward is its position, in episodes of
    17 to 23 steps."""
    rng = np.random.default_rng(seed)
    position = np.zeros((n + 1, 2))
    for k in range(n):
        position[k + 1] = 0.8 * position[k] + rng.standard_normal(2)
    position = offset + scale * position
    terminal = np.isin(np.arange(n) % 120, [16, 39, 57, 79, 98, 119])
    return (
        position[:-1],
        position[:-1, 0] + 0.1 * rng.standard_normal(n),
        position[1:],
        terminal,
    )


@pytest.mark.parametrize("objective", ["bellman", "projected"])
@pytest.mark.parametrize("solver", ["storm-c", "lbfgs", "lstd"])
def test_chain(objective, solver):
    """0 -> 1 -> 2 -> end, reward 1 a step."""
    value = BellmanValueEstimator(0.5, solver, objective=objective, **TABULAR)
    states, ends = np.eye(3), [False, False, True]
    value.fit(states, np.ones(3), next_X=states[[1, 2, 0]], terminal=ends)
    np.testing.assert_allclose(value.predict(states), [1.75, 1.5, 1.0], rtol=1e-6)
    assert value.objective_ == objective and value.n_states_ == 3
    assert value.ifo_.shape == value.loss_curve_.shape


@pytest.mark.parametrize("objective", ["bellman", "projected"])
def test_truncated_is_not_terminated(objective):
    """A loop 0 -> 1 -> 0 for ever, reward 1; the log stops after a step from 1."""
    X, next_X = np.eye(2)[[0, 1, 0, 1]], np.eye(2)[[1, 0, 1, 0]]
    value = BellmanValueEstimator(0.9, objective=objective, **TABULAR)
    value.fit(X, np.ones(4), next_X=next_X, terminal=np.zeros(4, bool))
    np.testing.assert_allclose(value.predict(np.eye(2)), [10, 10], rtol=1e-5)
    # half the time the end
    value.fit(X, np.ones(4), next_X=next_X, terminal=[False, False, False, True])
    v1 = 1.45 / (1 - 0.9 * 0.9 / 2)
    np.testing.assert_allclose(value.predict(np.eye(2)), [1 + 0.9 * v1, v1], rtol=1e-5)


def test_repeated_next_states_make_an_expectation():
    """0 leads to 1 twice and to 2 once; 1 ends with reward 3, 2 with 0."""
    X, next_X = np.eye(3)[[0, 0, 0, 1, 2]], np.eye(3)[[1, 2, 1, 0, 0]]
    y, terminal = [0.0, 0.0, 0.0, 3.0, 0.0], [False, False, False, True, True]
    value = BellmanValueEstimator(0.5, **TABULAR)
    value.fit(X, y, next_X=next_X, terminal=terminal)
    assert value.objective_ == "bellman" and "60%" in value.objective_reason_
    np.testing.assert_allclose(value.predict(np.eye(3)), [1, 3, 0], atol=1e-6)


def test_nothing_given_is_a_regression_with_a_warning():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0)
    with pytest.warns(UserWarning, match="neither next_X nor terminal nor time"):
        value = BellmanValueEstimator(tol=1e-10).fit(X, y)
    coef = np.linalg.lstsq(np.column_stack([X, np.ones(30)]), y)[0]
    np.testing.assert_allclose([*value.coef_, value.intercept_], coef, rtol=1e-6)


@pytest.mark.parametrize("ignored", [np.nan, 1e308, 1.0])
def test_successors_of_the_end_do_not_matter_and_nothing_is_written_into(ignored):
    X, y, next_X, terminal = (part.copy() for part in walk())
    value = BellmanValueEstimator(0.9).fit(X, y, next_X=next_X, terminal=terminal)
    expected = value.coef_
    next_X[terminal] = ignored
    given = X.copy(), next_X.copy(), y.copy()
    value.fit(X, y, next_X=next_X, terminal=terminal)
    np.testing.assert_array_equal(value.coef_, expected)
    for before, after in zip(given, (X, next_X, y), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("objective", ["bellman", "projected"])
def test_weights_equal_repetition(objective):
    model = make_bellman_problem(10, 3, 0.9, "garnet", random_state=0)
    data, k = model.transitions(60, random_state=0)._asdict(), np.arange(60) % 4
    value = BellmanValueEstimator(0.9, "storm-c", objective=objective, random_state=0)
    weighted = clone(value).fit(**data, sample_weight=k)
    value.fit(**{name: np.repeat(part, k, axis=0) for name, part in data.items()})
    np.testing.assert_allclose(weighted.coef_, value.coef_, rtol=1e-8)
    assert weighted.objective_ == value.objective_


def test_every_solver_fits():
    model = make_bellman_problem(20, 3, 0.9, "garnet", random_state=0)
    data = model.transitions(100, random_state=0)._asdict()
    for solver in SOLVERS:
        value = BellmanValueEstimator(0.9, solver, max_iter=5, random_state=0)
        assert np.isfinite(value.fit(**data).predict(data["X"])).all()


def test_td_error_and_score():
    """Of two episodes: 0 -> 1 -> 2 -> end and 1 -> 2, truncated there."""
    X, y = np.eye(3)[[0, 1, 2, 1, 2]], np.array([1.0, 1.0, 3.0, 1.0, 99.0])
    log = {"X": X, "y": y, "next_X": np.roll(X, -1, axis=0)}
    log["terminal"] = np.arange(5) == 2
    value = BellmanValueEstimator(0.5, **TABULAR).fit(**log)
    after = np.where(log["terminal"], 0, value.predict(log["next_X"]))
    error = y + 0.5 * after - value.predict(X)
    np.testing.assert_allclose(value.td_error(**log), error)
    assert value.score(**log) == pytest.approx(-np.mean(error**2))
    k = np.arange(5) % 2 + 1
    expected = -np.average(error**2, weights=k)
    assert value.score(**log, sample_weight=k) == pytest.approx(expected)


@pytest.mark.parametrize("given", [("next_X", "terminal"), ("time",), ("terminal",)])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_score_wants_what_fit_was_given(given, method):
    X, y, next_X, terminal = walk()
    data = {"next_X": next_X, "terminal": terminal, "time": np.arange(400)}
    if given == ("terminal",):
        data["terminal"] = np.ones(400, dtype=bool)
    data = {name: data[name] for name in given}
    value = getattr(BellmanValueEstimator(0.9, random_state=0), method)(X, y, **data)
    request = f"set_score_request({', '.join(f'{name}=True' for name in given)})"
    for estimator in (value, pickle.loads(pickle.dumps(value))):
        assert np.isfinite(estimator.score(X, y, **data))
        for scorer in (estimator.score, estimator.td_error):
            with pytest.raises(ValueError, match=f"{given[0]}.*routing=True") as raised:
                scorer(X, y)
            assert request in str(raised.value)


def test_score_without_the_ends_that_fit_was_given_warns():
    X, y, next_X, terminal = walk()
    value = BellmanValueEstimator(0.9, "lstd")
    value.fit(X, y, next_X=next_X, terminal=terminal)
    with pytest.warns(UserWarning, match="fit was given terminal"):
        value.score(X, y, next_X=next_X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value.score(X, y, next_X=next_X, terminal=np.zeros(400, dtype=bool))


def test_scores_by_time_are_those_by_successors():
    """The last row has no successor."""
    X, y, next_X, _ = walk()
    log = {"X": X, "y": y, "terminal": np.isin(np.arange(400), [50, 120, 250])}
    value = BellmanValueEstimator(0.9, "lstd").fit(**log, next_X=next_X)
    error = value.td_error(**log, time=np.arange(400))
    assert np.isnan(error[-1])
    expected = value.td_error(**log, next_X=next_X)[:-1]
    np.testing.assert_allclose(error[:-1], expected, atol=1e-12)
    order = np.random.default_rng(0).permutation(400)
    score = value.score(**some(log, order), time=order)
    assert score == pytest.approx(-np.mean(expected**2))


def test_a_search_needs_routing_and_says_so():
    X, y, next_X, terminal = walk()
    value = BellmanValueEstimator(0.9)
    search = GridSearchCV(value, {"alpha": [0.0, 1.0]}, cv=3, error_score="raise")
    message = "next_X and terminal must be given to score.*metadata_routing=True"
    with pytest.raises(ValueError, match=message):
        search.fit(X, y, next_X=next_X, terminal=terminal)


def test_ways_of_scaling_that_are_right():
    X, y, next_X, terminal = walk(offset=100.0, scale=3.0)
    data = {"next_X": next_X, "terminal": terminal}
    plain = BellmanValueEstimator(0.9, "lstd", objective="projected").fit(X, y, **data)
    scaler, expected = StandardScaler(), plain.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside = clone(plain).set_params(features=scaler).fit(X, y, **data)
        np.testing.assert_allclose(inside.predict(X), expected, rtol=1e-8)
        assert inside.score(X, y, **data) == pytest.approx(plain.score(X, y, **data))
        with sklearn.config_context(enable_metadata_routing=True):
            value = clone(plain).set_fit_request(next_X=True, terminal=True)
            pipeline = make_pipeline(scaler, value, transform_input=["next_X"])
            found = pipeline.fit(X, y, **data).predict(X)
            np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_columns(frame):
    X, y, next_X, terminal = walk()
    X, next_X = (frame(dict(zip("ab", part.T, strict=True))) for part in (X, next_X))
    value = BellmanValueEstimator(0.9).fit(X, y, next_X=next_X, terminal=terminal)
    np.testing.assert_array_equal(value.feature_names_in_, ["a", "b"])
    before = value.coef_
    with pytest.raises(ValueError, match="next_X"):
        value.fit(X, y, next_X=next_X[["b", "a"]], terminal=terminal)
    np.testing.assert_array_equal(value.coef_, before)


# states of a walk that ends on either side; each step costs 1, so that V(s) = -(s + 1)
# (N - s)
N = 5
EXACT = -(np.arange(N) + 1.0) * (N - np.arange(N))


def ending():
    """Each step of the walk once."""
    s = np.repeat(np.arange(N), 2)
    after = s + np.tile([-1, 1], N)
    return {
        "X": np.eye(N)[s],
        "y": -np.ones(2 * N),
        "next_X": np.eye(N)[np.clip(after, 0, N - 1)],
        "terminal": (after < 0) | (after == N),
    }


@pytest.mark.parametrize(
    "params", [{"tol": 1e-9, "solver": "storm-c"}, {}, {"objective": "projected"}]
)
def test_values_without_a_discount(params):
    value = BellmanValueEstimator(1, random_state=0, **params).fit(**ending())
    np.testing.assert_allclose(value.predict(np.eye(N)), EXACT, rtol=1e-4)
    assert abs(value.td_error(**ending()).mean()) < 1e-4


def test_a_stream_without_a_discount():
    value = fed(BellmanValueEstimator(1.0), 5, **ending())
    np.testing.assert_allclose(value.predict(np.eye(N)), EXACT)


@pytest.mark.parametrize(
    ("solver", "method"), [("storm-c", "fit"), ("lstd", "fit"), ("lstd", "partial_fit")]
)
def test_episodes_that_do_not_end_are_refused(solver, method):
    parts = ending()
    fit = getattr(BellmanValueEstimator(1, solver), method)
    endless = parts | {"terminal": np.zeros(2 * N, dtype=bool)}
    with pytest.raises(ValueError, match="gamma must be .*< 1, got 1: .*Pass te"):
        fit(**endless)
    # two states that lead to each other only
    closed = {"y": np.append(parts["y"], np.zeros(3))}
    closed["terminal"] = np.append(parts["terminal"], np.zeros(3, dtype=bool))
    for name, states in (("X", [5, 6, 5]), ("next_X", [6, 5, 6])):
        before = np.pad(parts[name], ((0, 0), (0, 2)))
        closed[name] = np.vstack([before, np.eye(N + 2)[states]])
    with pytest.raises(ValueError, match="from every state"):
        fit(**closed)


@pytest.mark.parametrize("objective", ["bellman", "projected"])
def test_rewards_that_are_all_zero_end_at_once(objective):
    parts = ending()
    parts["y"] = np.zeros(len(parts["y"]))
    value = BellmanValueEstimator(0.9, objective=objective, random_state=0).fit(**parts)
    assert value.n_iter_ <= 2 and value.stop_reason_ == "converged"
    np.testing.assert_array_equal(value.predict(np.eye(N)), np.zeros(N))
