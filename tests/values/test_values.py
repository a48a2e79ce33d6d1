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
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from value_logs import fed

from sk_stormc import BellmanValueEstimator
from sk_stormc.datasets import make_bellman_problem
from sk_stormc.solvers import SOLVERS

TABULAR = {"fit_intercept": False, "tol": 1e-9, "random_state": 0}


def indicators(states, n):
    return np.eye(n)[np.asarray(states)]


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
    value.fit(
        np.eye(3),
        np.ones(3),
        next_X=indicators([1, 2, 0], 3),
        terminal=np.array([False, False, True]),
    )
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
    # half the time the end
    value.fit(X, np.ones(4), next_X=next_X, terminal=[False, False, False, True])
    v1 = 1.45 / (1 - 0.9 * 0.9 / 2)
    np.testing.assert_allclose(value.predict(np.eye(2)), [1 + 0.9 * v1, v1], rtol=1e-5)


def episodes():
    """Two of them: 0 -> 1 -> 2 -> end and 1 -> 2, truncated there; reward 1, but 3 from
    state 2."""
    states, rewards = np.array([0, 1, 2, 1, 2]), np.array([1.0, 1.0, 3.0, 1.0, 99.0])
    return (
        indicators(states, 3),
        rewards,
        np.array([0, 0, 1, 0, 0], bool),
        np.array([10, 11, 12, 20, 21]),
    )


@pytest.mark.parametrize("objective", ["bellman", "projected", "auto"])
def test_time(objective):
    X, y, terminal, time = episodes()
    value = BellmanValueEstimator(0.5, objective=objective, **TABULAR)
    value.fit(X, y, terminal=terminal, time=time)
    # the last row leads nowhere and is dropped
    expected = [1 + 0.5 * 2.5, 1 + 0.5 * 3.0, 3.0]
    np.testing.assert_allclose(value.predict(np.eye(3)), expected, rtol=1e-6)
    order = np.random.default_rng(0).permutation(5)
    shuffled = clone(value).fit(
        X[order], y[order], terminal=terminal[order], time=time[order]
    )
    np.testing.assert_allclose(shuffled.coef_, value.coef_, rtol=1e-8)


def test_repeated_next_states_make_an_expectation():
    """0 leads to 1 twice and to 2 once; 1 ends with reward 3, 2 with 0."""
    X, next_X = indicators([0, 0, 0, 1, 2], 3), indicators([1, 2, 1, 0, 0], 3)
    y, terminal = [0.0, 0.0, 0.0, 3.0, 0.0], np.array([0, 0, 0, 1, 1], bool)
    value = BellmanValueEstimator(0.5, **TABULAR).fit(
        X, y, next_X=next_X, terminal=terminal
    )
    assert value.objective_ == "bellman"
    assert "60%" in value.objective_reason_
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
    data, k = model.transitions(60, random_state=0), np.arange(60) % 4
    value = BellmanValueEstimator(0.9, "storm-c", objective=objective, random_state=0)
    weighted = clone(value).fit(
        *data[:2], next_X=data[2], terminal=data[3], sample_weight=k
    )
    repeated = clone(value).fit(
        **{name: np.repeat(a, k, axis=0) for name, a in data._asdict().items()}
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)
    assert weighted.objective_ == repeated.objective_


def test_every_solver_fits():
    data = make_bellman_problem(20, 3, 0.9, "garnet", random_state=0).transitions(
        100, random_state=0
    )
    for solver in SOLVERS:
        value = BellmanValueEstimator(0.9, solver, max_iter=5, random_state=0).fit(
            **data._asdict()
        )
        assert np.isfinite(value.predict(data.X)).all()


def test_td_error_and_score():
    X, y, terminal, _ = episodes()
    next_X = np.vstack([X[1:], X[:1]])
    value = BellmanValueEstimator(0.5, **TABULAR).fit(
        X, y, next_X=next_X, terminal=terminal
    )
    error = y + 0.5 * np.where(terminal, 0, value.predict(next_X)) - value.predict(X)
    np.testing.assert_allclose(
        value.td_error(X, y, next_X=next_X, terminal=terminal), error
    )
    assert value.score(X, y, next_X=next_X, terminal=terminal) == pytest.approx(
        -np.mean(error**2)
    )
    k = np.arange(5) % 2 + 1
    weighted = value.score(X, y, next_X=next_X, terminal=terminal, sample_weight=k)
    assert weighted == pytest.approx(-np.average(error**2, weights=k))


@pytest.mark.parametrize("given", [("next_X", "terminal"), ("time",), ("terminal",)])
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
            with pytest.raises(
                ValueError, match=rf"{given[0]}.*enable_metadata_routing=True"
            ) as raised:
                scorer(X, y)
            assert (
                f"set_score_request({', '.join(f'{name}=True' for name in given)})"
                in str(raised.value)
            )


def test_score_without_the_ends_that_fit_was_given_warns():
    X, y, next_X, terminal = walk()
    value = BellmanValueEstimator(0.9, "lstd").fit(
        X, y, next_X=next_X, terminal=terminal
    )
    with pytest.warns(UserWarning, match="fit was given terminal"):
        value.score(X, y, next_X=next_X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value.score(X, y, next_X=next_X, terminal=np.zeros(400, dtype=bool))


def test_scores_by_time_are_those_by_successors():
    """The last row has no successor."""
    X, y, next_X, _ = walk()
    time, terminal = np.arange(400), np.isin(np.arange(400), [50, 120, 250])
    value = BellmanValueEstimator(0.9, "lstd").fit(
        X, y, next_X=next_X, terminal=terminal
    )
    error = value.td_error(X, y, terminal=terminal, time=time)
    assert np.isnan(error[-1])
    expected = value.td_error(
        X[:-1], y[:-1], next_X=next_X[:-1], terminal=terminal[:-1]
    )
    np.testing.assert_allclose(error[:-1], expected, atol=1e-12)
    order = np.random.default_rng(0).permutation(400)
    shuffled = {"terminal": terminal[order], "time": time[order]}
    assert value.score(X[order], y[order], **shuffled) == pytest.approx(
        -np.mean(expected**2)
    )


def test_features_see_states_and_successors():
    n = 6
    model = make_bellman_problem(n, None, 0.9, "garnet", random_state=0)
    data = model.transitions(500, random_state=0)
    numbers = {
        "X": data.X @ np.arange(n)[:, None],
        "next_X": data.next_X @ np.arange(n)[:, None],
    }
    one_hot = BellmanValueEstimator(0.9, features=OneHotEncoder(), **TABULAR)
    one_hot.fit(**data._asdict() | numbers)
    plain = BellmanValueEstimator(0.9, **TABULAR).fit(**data._asdict())
    np.testing.assert_allclose(one_hot.coef_, plain.coef_, rtol=1e-7)
    np.testing.assert_allclose(
        one_hot.predict(np.arange(n)[:, None]), plain.predict(np.eye(n)), rtol=1e-7
    )
    rest = {"y": data.y, "next_X": data.next_X}
    assert one_hot.score(**data._asdict() | numbers) == pytest.approx(
        plain.score(data.X, **rest)
    )


def test_a_search_needs_routing_and_says_so():
    X, y, next_X, terminal = walk()
    search = GridSearchCV(
        BellmanValueEstimator(0.9), {"alpha": [0.0, 1.0]}, cv=3, error_score="raise"
    )
    with pytest.raises(
        ValueError,
        match="next_X and terminal must be given to "
        "score.*enable_metadata_routing=True",
    ):
        search.fit(X, y, next_X=next_X, terminal=terminal)


def test_ways_of_scaling_that_are_right():
    X, y, next_X, terminal = walk(offset=100.0, scale=3.0)
    data = {"next_X": next_X, "terminal": terminal}
    plain = BellmanValueEstimator(0.9, "lstd", objective="projected").fit(X, y, **data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside = clone(plain).set_params(features=StandardScaler()).fit(X, y, **data)
        np.testing.assert_allclose(inside.predict(X), plain.predict(X), rtol=1e-8)
        assert inside.score(X, y, **data) == pytest.approx(plain.score(X, y, **data))
        with sklearn.config_context(enable_metadata_routing=True):
            value = clone(plain).set_fit_request(next_X=True, terminal=True)
            pipeline = Pipeline(
                [("scale", StandardScaler()), ("value", value)],
                transform_input=["next_X"],
            )
            np.testing.assert_allclose(
                pipeline.fit(X, y, **data).predict(X), plain.predict(X), rtol=1e-8
            )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame):
    data = make_bellman_problem(20, 3, 0.9, "garnet", random_state=0).transitions(
        50, random_state=0
    )
    X, next_X = (
        frame({name: a[:, j] for j, name in enumerate("abc")})
        for a in (data.X, data.next_X)
    )
    value = BellmanValueEstimator(0.9, random_state=0).fit(
        X, data.y, next_X=next_X, terminal=data.terminal
    )
    np.testing.assert_array_equal(value.feature_names_in_, ["a", "b", "c"])
    plain = BellmanValueEstimator(0.9, random_state=0).fit(**data._asdict())
    np.testing.assert_array_equal(value.coef_, plain.coef_)
    with pytest.raises(ValueError, match="next_X"):
        value.fit(X, data.y, next_X=next_X[["b", "a", "c"]])
    np.testing.assert_array_equal(value.coef_, plain.coef_)


# states of a walk that ends on either side; each step costs 1, so that V(s) = -(s + 1)
# (N - s)
N = 5
EXACT = -(np.arange(N) + 1.0) * (N - np.arange(N))


def ending():
    """Each step of the walk once."""
    s, after = (
        np.repeat(np.arange(N), 2),
        np.repeat(np.arange(N), 2) + np.tile([-1, 1], N),
    )
    X, next_X = np.eye(N)[s], np.eye(N)[np.clip(after, 0, N - 1)]
    return {
        "X": X,
        "y": -np.ones(2 * N),
        "next_X": next_X,
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
    parts = {
        name: np.tile(part, (2,) + (1,) * (part.ndim - 1))
        for name, part in ending().items()
    }
    value = fed(BellmanValueEstimator(1.0), 10, **parts)
    np.testing.assert_allclose(value.predict(np.eye(N)), EXACT)


@pytest.mark.parametrize(
    ("solver", "method"), [("storm-c", "fit"), ("lstd", "fit"), ("lstd", "partial_fit")]
)
def test_episodes_that_do_not_end_are_refused(solver, method):
    parts = ending()
    endless = parts | {"terminal": np.zeros(len(parts["y"]), dtype=bool)}
    with pytest.raises(
        ValueError, match="gamma must be a number < 1, got 1: .*Pass terminal="
    ):
        getattr(BellmanValueEstimator(1, solver), method)(**endless)
    # two states that lead to each other only
    closed = {
        "X": np.vstack(
            [np.pad(parts["X"], ((0, 0), (0, 2))), np.eye(N + 2)[[5, 6, 5]]]
        ),
        "next_X": np.vstack(
            [np.pad(parts["next_X"], ((0, 0), (0, 2))), np.eye(N + 2)[[6, 5, 6]]]
        ),
        "y": np.append(parts["y"], np.zeros(3)),
        "terminal": np.append(parts["terminal"], np.zeros(3, dtype=bool)),
    }
    with pytest.raises(ValueError, match="from every state"):
        getattr(BellmanValueEstimator(1, solver), method)(**closed)


@pytest.mark.parametrize("objective", ["bellman", "projected"])
def test_rewards_that_are_all_zero_end_at_once(objective):
    parts = ending()
    parts["y"] = np.zeros(len(parts["y"]))
    value = BellmanValueEstimator(0.9, objective=objective, random_state=0).fit(**parts)
    assert value.n_iter_ <= 2 and value.stop_reason_ == "converged"
    np.testing.assert_array_equal(value.predict(np.eye(N)), np.zeros(N))
