"""Streams of transitions with stochastic solvers: correlated rows, weights, streams
that are short, threads."""

import warnings

import numpy as np
import pytest
from helpers import few_of, slow_but
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import ThreadpoolController, threadpool_limits
from value_logs import fed, some, with_ones
from value_logs import walk as ar_walk

from sk_stormc import ActionValueEstimator, BellmanValueEstimator
from sk_stormc.solvers import STORMCompositional


def walk(n, n_states=30, seed=0, indicators=False, drift=0.55):
    """A random walk in order, with reward at one end: correlated rows, and raw columns
    of very unequal size."""
    rng = np.random.default_rng(seed)
    right, state, steps, last = rng.random(n) < drift, 0, [], n_states - 1
    for k in range(n):
        after = min(max(state + (1 if right[k] else -1), 0), last)
        steps.append((state, after))
        state = 0 if after == last else after
    left, came = np.transpose(steps)
    s = np.linspace(0, 1, n_states)
    table = np.column_stack([100 * s, 1e-3 * s**2, np.sin(6 * s)])
    table = np.eye(n_states) if indicators else table
    ends = came == last
    return {"X": table[left], "y": ends * 1.0, "next_X": table[came], "terminal": ends}


def lstd(X, y, next_X, terminal, gamma, weights=1.0):
    """numpy's, on columns of size one, with an intercept."""
    Z, next_Z = with_ones(X), with_ones(next_X) * ~terminal[:, None]
    s = np.sqrt((Z**2).mean(0))
    s[s == 0] = 1
    weighted, difference = ((Z / s).T * weights).T, (Z - gamma * next_Z) / s
    w = np.linalg.lstsq(weighted.T @ difference, weighted.T @ y, rcond=None)[0]
    return Z @ (w / s)


def off(values, exact):
    return np.sqrt(np.mean((values - exact) ** 2)) / exact.std()


@pytest.mark.parametrize(
    ("gamma", "indicators"), few_of([(0.999, True), (0.95, False)], 0)
)
def test_values_of_correlated_rows_are_those_of_lstd_without_a_warning(
    gamma, indicators
):
    parts = walk(10_000, indicators=indicators)
    value = BellmanValueEstimator(gamma, "storm-c", random_state=0)
    # the first reward of all may come late
    fed(value, 500, **some(parts, slice(3000)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed(value, 500, **some(parts, slice(3000, None)))
    assert off(value.predict(parts["X"]), lstd(**parts, gamma=gamma)) < 0.02


@pytest.mark.parametrize("solver", slow_but(["scgd", "acc-scgd", "asc-pg"], "asc-pg"))
def test_other_methods_hold_too(solver):
    parts = walk(10_000)
    value = fed(BellmanValueEstimator(0.99, solver, random_state=0), 1000, **parts)
    assert off(value.predict(parts["X"]), lstd(**parts, gamma=0.99)) < 0.2


def test_values_that_are_not_there_yet_warn_and_say_what_to_do():
    parts, slow = walk(2000), STORMCompositional(learning_rate=1e-4, max_iter=10)
    value = BellmanValueEstimator(0.99, slow, random_state=0)
    with pytest.warns(ConvergenceWarning):
        value.fit(parts["X"], parts["y"], terminal=np.ones(2000, dtype=bool))
    with pytest.warns(ConvergenceWarning, match="projected .*solver='lstd'"):
        value.partial_fit(**parts)
    assert off(value.predict(parts["X"]), lstd(**parts, gamma=0.99)) > 0.02


@pytest.mark.parametrize("n", [1, 20])
def test_a_short_stream_has_the_values_of_its_moments(n):
    parts = walk(n, n_states=6, drift=0.7)
    value = BellmanValueEstimator(0.9, "storm-c", random_state=0)
    expected = clone(value).partial_fit(**parts).predict(parts["X"])
    for size in (1, 7):
        found = fed(clone(value), size, **parts).predict(parts["X"])
        np.testing.assert_array_equal(found, expected)


def test_a_short_stream_near_gamma_1_has_the_values_that_its_moments_say():
    """A car that is pushed at random in a valley, -1 for each step; steps from 0 ended
    half way, without a warning."""
    rng, rows = np.random.default_rng(7), []
    for k in range(1000):
        x, v = (rng.uniform(-0.6, -0.4), 0.0) if k % 200 == 0 else rows[-1][2:]
        push = v + 0.001 * rng.integers(-1, 2) - 0.0025 * np.cos(3 * x)
        rows.append((x, v, x + push, push))
    X, next_X = np.hsplit(np.array(rows), 2)
    sampler = RBFSampler(gamma=0.2, n_components=100, random_state=0)
    value = BellmanValueEstimator(
        0.999, "storm-c", features=make_pipeline(StandardScaler(), sampler),
        alpha=1e-5, random_state=0,
    )  # fmt: skip
    value.partial_fit(X, -np.ones(1000), next_X=next_X)
    np.testing.assert_allclose(value.predict(X), -1000.0, rtol=0.01)


def test_values_with_weights_are_those_of_weighted_lstd_whatever_the_chunks():
    parts = walk(5000, n_states=8)
    # episodes' ends count more
    weights = np.random.default_rng(0).gamma(1.0, size=5000)
    weights *= 1 + 3 * parts["terminal"]
    weights[1000:1500] = 0  # an entire chunk

    def stream(size, **given):
        value = BellmanValueEstimator(0.9, "storm-c", random_state=0)
        return fed(value, size, **parts, **given)

    one = stream(500, sample_weight=weights)
    for size, scaled in ((5000, weights), (500, 1024 * weights)):
        other = stream(size, sample_weight=scaled)
        np.testing.assert_array_equal(other.coef_, one.coef_)
    values = one.predict(parts["X"])
    expected, plain = (lstd(**parts, gamma=0.9, weights=w) for w in (weights, 1.0))
    assert off(values, expected) < 0.01 < 0.1 < off(values, plain)
    ones = stream(500, sample_weight=np.ones(5000))
    np.testing.assert_array_equal(stream(500).coef_, ones.coef_)


@pytest.mark.parametrize("column", ["sample_weight", "importance_ratio", "actions"])
def test_a_chunk_whose_weights_are_all_0_is_skipped(column):
    """Row by row, as with the ratios of a deterministic target policy."""
    parts, counts = walk(60, n_states=4), np.arange(60) % 3 == 1
    value, kept = BellmanValueEstimator(0.9, objective="projected"), {}
    if column == "actions":
        value = ActionValueEstimator(lambda X: X[:, 0] > 50, 0.9)
        parts["action"], column = np.arange(60) % 2, "sample_weight"
        kept = {"actions": [0, 1]}
    parts[column] = counts.astype(float)
    expected = clone(value).fit(**some(parts, counts)).predict(parts["X"])
    for k in range(60):
        value.partial_fit(**some(parts, slice(k, k + 1)), **kept)
        if not k:
            np.testing.assert_array_equal(value.predict(parts["X"]), 0.0)
    np.testing.assert_allclose(value.predict(parts["X"]), expected, rtol=1e-9)
    # the values of a fit stay until a row of the stream counts
    value.fit(**some(parts, counts))
    value.partial_fit(**some(parts, slice(1)))
    np.testing.assert_allclose(value.predict(parts["X"]), expected, rtol=1e-9)


def test_the_last_row_of_a_batch_counts():
    parts, n = ar_walk(512 + 4 * 32), 512 + 4 * 32  # rows that fill the last batch
    value = BellmanValueEstimator(0.9, "storm-c", random_state=0)
    value.partial_fit(**parts, sample_weight=np.append(np.ones(n - 1), 1e4))
    # 3 without this row
    assert abs(value.td_error(**some(parts, slice(-1, None)))) < 0.5


def blas():
    """The largest number of threads of a BLAS library."""
    found = ThreadpoolController().select(user_api="blas").info()
    return max(library["num_threads"] for library in found)


@pytest.mark.parametrize(
    ("solver", "method"), [("lstd", "fit"), ("storm-c", "partial_fit")]
)
def test_one_thread_meanwhile(solver, method):
    """As a transformer sees it, which is called in the fit."""
    parts, seen = walk(300), []
    features = FunctionTransformer(lambda X: seen.append(blas()) or X)
    value = BellmanValueEstimator(0.9, solver, features=features, random_state=0)
    with threadpool_limits(2, user_api="blas"):
        if blas() != 2:
            pytest.skip("there is no BLAS here that can have two threads")
        getattr(value, method)(**parts)
        assert set(seen) == {1} and blas() == 2
