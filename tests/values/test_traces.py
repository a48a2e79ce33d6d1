"""Tests of eligibility traces: LSTD(lambda)."""

import numpy as np
import pytest
from helpers import slow_but
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

from sk_stormc import BellmanValueEstimator
from sk_stormc.values import traces as _traces

pytestmark = pytest.mark.filterwarnings("error")


def episodes(lengths, seed=0):
    """Whole episodes in order: (X, y, next_X, terminal)."""
    rng, n = np.random.default_rng(seed), sum(lengths)
    X, next_X, terminal = rng.normal(size=(n, 3)), np.zeros((n, 3)), np.zeros(n, dtype=bool)
    terminal[np.cumsum(lengths) - 1] = True
    next_X[:-1] = X[1:]
    next_X[terminal] = rng.normal(size=(len(lengths), 3))  # not looked at
    return {"X": X, "y": X[:, 0] + rng.normal(size=n), "next_X": next_X, "terminal": terminal}


LENGTHS = [1, 2, 300, 17, 1, 1, 520, 256, 40]


def lstd(trace_decay=0.7, gamma=0.95, **params):
    return BellmanValueEstimator(gamma, **{"solver": "lstd", "trace_decay": trace_decay} | params)


def fed(estimator, size, **parts):
    for start in range(0, len(parts["y"]), size):
        estimator.partial_fit(**{name: part[start : start + size] for name, part in parts.items()})
    return estimator


def by_hand(parts, decay, gamma, breaks=(), weights=None):
    """LSTD(lambda) of Bradtke & Barto and Boyan, row by row."""
    Z, A, b, trace = np.column_stack([parts["X"], np.ones(len(parts["y"]))]), 0, 0, 0
    next_Z = np.column_stack([parts["next_X"], np.ones(len(Z))]) * ~parts["terminal"][:, None]
    weights = np.ones(len(Z)) if weights is None else weights
    for k, phi in enumerate(Z):
        started = k == 0 or parts["terminal"][k - 1] or k in breaks
        trace = phi + (0 if started else gamma * decay * trace)
        A, b = A + weights[k] * np.outer(trace, phi - gamma * next_Z[k]), b + weights[k] * trace * parts["y"][k]
    return np.linalg.solve(A, b)


def coefficients(value):
    return np.append(value.coef_, value.intercept_)


@pytest.mark.parametrize("decay", [0.3, 0.9, 1.0])
def test_against_the_recursion(decay):
    parts = episodes(LENGTHS)
    value = lstd(decay).fit(**parts)
    np.testing.assert_allclose(coefficients(value), by_hand(parts, decay, 0.95), rtol=1e-9)
    assert value.objective_ == "projected" and "traces" in value.objective_reason_ and value.rank_ == 4
    weights = np.random.default_rng(3).random(len(parts["y"]))
    weighted = lstd(decay).fit(**parts, sample_weight=weights)
    np.testing.assert_allclose(coefficients(weighted), by_hand(parts, decay, 0.95, weights=weights), rtol=1e-9)


@pytest.mark.parametrize("gamma", [0.5, 0.99])
def test_lambda_1_is_regression_on_the_returns(gamma):
    parts = episodes(LENGTHS)
    returns, total = np.zeros(len(parts["y"])), 0.0
    for k in range(len(returns) - 1, -1, -1):
        total = returns[k] = parts["y"][k] + gamma * total * (not parts["terminal"][k])
    Z = np.column_stack([parts["X"], np.ones(len(returns))])
    expected = np.linalg.lstsq(Z, returns, rcond=None)[0]
    np.testing.assert_allclose(coefficients(lstd(1.0, gamma).fit(**parts)), expected, rtol=1e-8)


def test_lambda_0_is_lstd_bit_for_bit():
    parts = episodes(LENGTHS)
    plain = BellmanValueEstimator(0.95, "lstd", objective="projected")
    np.testing.assert_array_equal(lstd(0.0).fit(**parts).predict(parts["X"]), plain.fit(**parts).predict(parts["X"]))
    Z, follows = parts["X"], np.arange(len(parts["y"])) > 0
    for rows, traces in _traces.trace_blocks(Z, follows, 0.0, np.ones(3)):
        np.testing.assert_array_equal(traces, Z[rows])


def test_a_trace_ends_where_the_next_row_is_not_the_successor():
    parts = episodes([200])
    parts["next_X"][[49, 120]] += 1.0  # truncated: the next row begins an episode
    expected = by_hand(parts, 0.8, 0.95, breaks=(50, 121))
    for value in (lstd(0.8).fit(**parts), fed(lstd(0.8), 50, **parts), fed(lstd(0.8), 1, **parts)):
        np.testing.assert_allclose(coefficients(value), expected, rtol=1e-8)


@pytest.mark.parametrize("size", slow_but([1, 7, 100, 2000], 7))
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_stream_is_fit(size, fit_intercept):
    parts = episodes(LENGTHS if size > 1 else [50, 1, 30])
    batch = lstd(fit_intercept=fit_intercept).fit(**parts)
    stream = fed(lstd(fit_intercept=fit_intercept), size, **parts)
    np.testing.assert_allclose(stream.coef_, batch.coef_, rtol=1e-9)
    assert stream.rank_ == batch.rank_


def test_time():
    """Rows in any order in fit; gaps end a trace, and so do terminal rows; the last row has no successor."""
    parts = episodes([400])
    time = np.arange(400) + 10**15 + np.isin(np.arange(400), [100, 251]).cumsum() * 3
    terminal = np.isin(np.arange(400), [99, 180])
    kept = np.flatnonzero((np.diff(time, append=0) == 1) | terminal)
    known = {name: part[kept] for name, part in (parts | {"terminal": terminal}).items()}
    expected = by_hand(known, 0.8, 0.95, breaks=np.flatnonzero(np.diff(kept) > 1) + 1)
    X, y, shuffled = parts["X"], parts["y"], np.random.default_rng(0).permutation(400)
    value = lstd(0.8).fit(X[shuffled], y[shuffled], time=time[shuffled], terminal=terminal[shuffled])
    np.testing.assert_allclose(coefficients(value), expected, rtol=1e-8)
    for size in (7, 50, 99, 100):
        stream = fed(lstd(0.8), size, X=X, y=y, time=time, terminal=terminal)
        np.testing.assert_allclose(coefficients(stream), expected, rtol=1e-8)


def test_sparse_features():
    rng = np.random.default_rng(0)
    states, ends = rng.integers(30, size=(1001, 1)), rng.random(1000) < 0.05
    parts = {"X": states[:-1], "y": rng.normal(size=1000), "next_X": states[1:], "terminal": ends}
    one = [lstd(features=OneHotEncoder(sparse_output=s)).fit(**parts).coef_ for s in (True, False)]
    np.testing.assert_allclose(*one, rtol=1e-9)
    Z, follows = sparse.random_array((600, 5), density=0.3, random_state=rng, format="csr"), rng.random(600) < 0.9
    both = [list(_traces.trace_blocks(each, follows, 0.9, np.ones(5))) for each in (Z, Z.toarray())]
    for (_, a), (_, b) in zip(*both, strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"trace_decay": 1.1}, "trace_decay must be .*got 1.1"),
        ({"trace_decay": -0.1}, "trace_decay must be .*got -0.1"),
        ({"solver": "storm-c"}, "trace_decay must be 0 unless solver is 'auto' or 'lstd', got 0.7 with"),
        ({"objective": "bellman"}, "trace_decay must be 0 with objective='bellman', got 0.7"),
    ],
)
def test_errors(params, message):
    with pytest.raises(ValueError, match=message):
        lstd(**params).fit(**episodes([10]))


def test_lambda_stays_within_a_stream():
    stream = lstd().partial_fit(**episodes([10]))
    with pytest.raises(ValueError, match="trace_decay must stay 0.7 .*got 0.2"):
        stream.set_params(trace_decay=0.2).partial_fit(**episodes([10]))
