"""Traces over rounded rows, parameters that change within a stream, and scaled X beside raw next_X."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sk_stormc import BellmanValueEstimator


def drives(n=600, length=50, seed=0):
    """A car on a line: position and speed, episodes of 50 steps that are cut off, none of them ended."""
    rng = np.random.default_rng(seed)
    X, next_X = np.zeros((2, n, 2))
    for k in range(n):
        X[k] = next_X[k - 1] if k % length else rng.normal(size=2)
        speed = 0.9 * X[k, 1] + 0.3 * rng.normal()
        next_X[k] = 0.95 * X[k, 0] + 0.1 * speed, speed
    return {"X": X, "y": X[:, 0] ** 2 + 0.1 * rng.normal(size=n), "next_X": next_X}


def lstd(trace_decay=0.0, **params):
    return BellmanValueEstimator(0.9, "lstd", trace_decay=trace_decay, objective="projected", **params)


# traces


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rounded", [lambda a: a.astype(np.float32).astype(float), lambda a: a.round(6)])
def test_traces_go_on_over_rounded_successors(rounded):
    parts = drives()
    exact, without = lstd(0.9).fit(**parts), lstd().fit(**parts)
    parts["next_X"] = rounded(parts["next_X"])
    streamed = lstd(0.9).partial_fit(**parts)
    for value in (lstd(0.9).fit(**parts), streamed):
        np.testing.assert_allclose(value.coef_, exact.coef_, rtol=1e-4)
    assert abs(without.coef_ - exact.coef_).max() > 0.01


def test_states_of_a_tiny_unit_are_told_apart():
    parts = drives()
    tiny = parts | {name: 1e-9 * parts[name] for name in ("X", "next_X")}
    np.testing.assert_allclose(lstd(0.9).fit(**tiny).predict(tiny["X"]), lstd(0.9).fit(**parts).predict(parts["X"]))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_shuffled_rows_warn(method):
    order = np.random.default_rng(1).permutation(600)
    parts = {name: part[order] for name, part in drives().items()}
    with pytest.warns(UserWarning, match="trace_decay has little effect: of 599 rows .* [01] are"):
        getattr(lstd(0.9), method)(**parts)


# parameters within a stream


@pytest.mark.parametrize(
    ("solver", "params"),
    [
        ("storm-c", {"gamma": 0.5}),
        ("storm-c", {"alpha": 1.0}),
        ("storm-c", {"fit_intercept": False}),
        ("lstd", {"gamma": 0.5}),
        ("lstd", {"fit_intercept": False}),
    ],
)
@pytest.mark.parametrize("n", [100, 600])  # rows that only wait, and a run that goes on
def test_parameters_stay_within_a_stream(solver, params, n):
    parts = {name: part[:n] for name, part in drives().items()}
    value = BellmanValueEstimator(0.9, solver, random_state=0).partial_fit(**parts)
    before = value.coef_.copy()
    (name,) = params
    with pytest.raises(ValueError, match=f"{name} must stay .* while its stream goes on, got"):
        value.set_params(**params).partial_fit(**parts)
    np.testing.assert_array_equal(value.coef_, before)
    value.fit(**parts).partial_fit(**parts)  # begins anew
    assert np.isfinite(value.coef_).all()


def test_alpha_may_change_in_a_stream_of_lstd():
    parts = drives()
    value = lstd().partial_fit(**parts).set_params(alpha=0.1).partial_fit(**parts)
    np.testing.assert_allclose(value.coef_, lstd(alpha=0.1).fit(**parts).coef_, rtol=1e-8)


# X that is scaled beside next_X that is not


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler((-2, 2))])
def test_a_pipeline_that_leaves_next_X_warns(scaler):
    parts = drives()
    pipeline = make_pipeline(scaler, lstd())
    told = {"bellmanvalueestimator__next_X": parts["next_X"]}
    with pytest.warns(UserWarning, match="next_X and X have different scales: in column 0"):
        pipeline.fit(parts["X"], parts["y"], **told)
    terminal = np.arange(600) % 50 == 49
    with pytest.warns(UserWarning, match="next_X and X have different scales"):
        scaled = pipeline[0].transform(parts["X"])
        pipeline[-1].partial_fit(scaled, parts["y"], next_X=parts["next_X"], terminal=terminal)


def test_rows_that_are_scaled_alike_do_not_warn():
    parts, rng = drives(), np.random.default_rng(3)
    indicators = np.eye(7)[np.append(rng.integers(7, size=600), 0)]
    order = rng.permutation(600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lstd().fit(**parts)
        lstd(features=StandardScaler()).fit(**parts)
        lstd().fit(**{name: part[order] for name, part in parts.items()})
        lstd().fit(indicators[:-1], parts["y"], next_X=indicators[1:])
        lstd().fit(indicators[order], parts["y"], next_X=indicators[order + 1])
        lstd(alpha=1e-6).fit(**{name: part[:1] for name, part in parts.items()})


def cells(limit, n_cells=200, n=2100, seed=0):
    """Indicators of cells on a ring, left in one of four steps: episodes begin anywhere, and are cut at ``limit``."""
    rng = np.random.default_rng(seed)
    moves, starts = rng.integers(4, size=n) == 0, rng.integers(n_cells, size=n)
    left, came, cell = np.zeros(n, int), np.zeros(n, int), 0
    for k in range(n):
        left[k] = cell = starts[k] if k % limit == 0 else cell
        came[k] = cell = (cell + moves[k]) % n_cells
    return np.eye(n_cells)[left], np.eye(n_cells)[came]


def of_scales(X, next_X, terminal=None):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        lstd(alpha=1e-3).fit(X, X[:, 0], next_X=next_X, terminal=terminal)
    return sum("different scales" in str(warning.message) for warning in seen)


def test_indicators_with_a_limit_do_not_warn_of_scales():
    """What is rare in such a log is a one, and where an episode was cut off it has another successor."""
    assert sum(of_scales(*cells(limit, seed=seed)) for limit in (10, 30) for seed in range(3)) == 0
    X, next_X = cells(30)
    order = np.random.default_rng(0).permutation(len(X))
    beside = np.arange(len(X)).reshape(10, -1).T.ravel()  # ten environments, row by row
    for rows in (order, beside):
        assert not of_scales(X[rows], next_X[rows])
    spread = np.random.default_rng(1).normal(size=(200, 3))
    X, next_X = (part @ spread / np.linalg.norm(part @ spread, axis=1, keepdims=True) for part in (X, next_X))
    assert not of_scales(X, next_X) and not of_scales(X[order], next_X[order])


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler((0, 0.5)), MinMaxScaler((1, 2))])
@pytest.mark.parametrize("limit", [10, 30])
def test_indicators_of_which_only_one_side_was_scaled_warn(scaler, limit):
    X, next_X = cells(limit, n_cells=100)
    scaler.fit(X)
    ends = np.random.default_rng(0).random(len(X)) < 0.02
    assert of_scales(scaler.transform(X), next_X, ends) == 1
    assert of_scales(X, scaler.transform(next_X)) == 1
    assert of_scales(scaler.transform(X), scaler.transform(next_X), ends) == 0
