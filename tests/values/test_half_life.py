"""Values that forget: the weight of a transition is halved every half_life rows that come later."""

import numpy as np
import pytest
from helpers import slow_but
from sklearn.base import clone

from sk_stormc import BellmanValueEstimator

HALF_LIFE = 150.0


def walk(n=1200, seed=0, gamma=0.9):
    """A walk whose rewards drift, in rows that follow one another."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n + 1, 2))
    for k in range(n):
        X[k + 1] = 0.8 * X[k] + rng.normal(size=2)
    ends = rng.random(n) < 0.05
    return {"X": X[:-1], "y": X[:-1, 0] + np.linspace(0, 5, n), "next_X": X[1:], "terminal": ends}


def chunks(log, size):
    n = len(log["y"])
    return [{name: part[k : k + size] for name, part in log.items()} for k in range(0, n, size)]


def streamed(estimator, log, size):
    for chunk in chunks(log, size):
        estimator.partial_fit(**chunk)
    return estimator


def lstd(**params):
    return BellmanValueEstimator(0.9, "lstd", objective="projected", half_life=HALF_LIFE, **params)


def ages(n):
    return np.arange(n)[::-1]


@pytest.mark.parametrize("trace_decay", [0.0, 0.7])
def test_fading_weights_are_sample_weights(trace_decay):
    log = walk()
    forgets = lstd(trace_decay=trace_decay).fit(**log)
    weighted = lstd(trace_decay=trace_decay).set_params(half_life=None)
    weighted.fit(**log, sample_weight=0.5 ** (ages(1200) / HALF_LIFE))
    np.testing.assert_allclose(forgets.coef_, weighted.coef_, rtol=1e-9)
    assert forgets.intercept_ == pytest.approx(weighted.intercept_, rel=1e-9)
    remembers = clone(weighted).fit(**log)
    assert forgets.intercept_ > 1.3 * remembers.intercept_


@pytest.mark.parametrize("trace_decay", [0.0, 0.7])
@pytest.mark.parametrize("size", [3, 37, 600])
def test_chunks_of_any_size_have_the_values_of_a_fit(size, trace_decay):
    log = {name: part[:400] for name, part in walk().items()}
    log["sample_weight"] = np.random.default_rng(1).integers(3, size=400).astype(float)
    whole = lstd(trace_decay=trace_decay).fit(**log)
    found = streamed(lstd(trace_decay=trace_decay), log, size)
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-8)
    assert found.intercept_ == pytest.approx(whole.intercept_, rel=1e-8)


@pytest.mark.parametrize("size", [3, 37, 600])
def test_rows_that_wait_for_their_successor(size):
    """With time, and with labels of two episodes whose rows alternate."""
    log = {name: part[:400] for name, part in walk().items() if name in ("X", "y")}
    timed = log | {"time": np.arange(400)}
    whole = lstd().fit(**timed)
    np.testing.assert_allclose(streamed(lstd(), timed, size).coef_, whole.coef_, rtol=1e-8)
    shuffled = np.random.default_rng(0).permutation(400)
    mixed = lstd().fit(**{name: part[shuffled] for name, part in timed.items()})
    np.testing.assert_allclose(mixed.coef_, whole.coef_, rtol=1e-8)


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_rows_of_episodes_that_alternate_fade_as_they_come(solver):
    """Two walks at once, with labels: the weights are those of the order of the rows, not of the episodes."""
    log = {name: part[:800] for name, part in walk().items()}
    both = {name: np.repeat(part, 2, axis=0) for name, part in log.items() if name != "terminal"}
    both["y"][1::2] = -7.0
    expected = lstd(trace_decay=0.0).fit(**both)
    found = streamed(lstd().set_params(solver=solver), both | {"episode": np.arange(1600) % 2}, 800)
    tolerance = 1e-8 if solver == "lstd" else 0.5
    np.testing.assert_allclose(found.predict(log["X"]), expected.predict(log["X"]), atol=tolerance)


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_a_row_without_weight_has_passed_all_the_same(solver):
    log = walk(1100) | {"sample_weight": np.repeat([1.0, 0.0], [1000, 100])}
    found = streamed(lstd().set_params(solver=solver), log, 300)
    moments = found._stream.moments if solver == "lstd" else found._stream[0].newton.moments
    expected = np.sum(0.5 ** (ages(1100)[:1000] / HALF_LIFE))
    assert moments.weight == pytest.approx(expected, rel=0.2 if solver == "storm-c" else 1e-9)  # some rows may wait


@pytest.mark.parametrize("solver", slow_but(["lstd", "storm-c"], "lstd"))
def test_a_drift_from_0_to_197_is_followed(solver):
    """Rewards begin after half of the rows; without forgetting the value is between the two."""
    rng, n = np.random.default_rng(0), 10_000
    X = rng.integers(2, size=(n + 1, 1)).astype(float)
    log = {"X": X[:-1], "y": np.where(np.arange(n) < n // 2, 0.0, 9.85) + rng.normal(size=n), "next_X": X[1:]}
    values = {}
    for half_life in (None, 300.0):
        estimator = BellmanValueEstimator(0.95, solver, half_life=half_life, random_state=0)
        values[half_life] = streamed(estimator, log, 1000).predict([[0.0], [1.0]])
    assert np.all((values[None] > 80) & (values[None] < 120))
    np.testing.assert_allclose(values[300.0], 197, atol=8)


def test_a_stochastic_solver_ends_where_lstd_does():
    """On the rows that it has used: the last ones wait for a batch."""
    log, forgets = walk(3000), lstd(random_state=0).set_params(half_life=500.0)
    found, other = (streamed(clone(forgets).set_params(solver="storm-c"), log, size) for size in (500, 73))
    np.testing.assert_array_equal(other.coef_, found.coef_)
    used = found._stream[0].newton.moments.n_rows
    assert used > 2900
    exact = streamed(forgets, {name: part[:used] for name, part in log.items()}, 500)
    np.testing.assert_allclose(found.predict(log["X"]), exact.predict(log["X"]), rtol=0.01, atol=0.05)


def test_all_solvers_of_a_fit_forget():
    log = walk(600)
    exact = lstd().fit(**log)
    for solver in ("storm-c", "lbfgs"):
        found = lstd(tol=1e-10, random_state=0).set_params(solver=solver).fit(**log)
        np.testing.assert_allclose(found.predict(log["X"]), exact.predict(log["X"]), rtol=1e-4, atol=1e-4)


def test_very_short_half_lives_are_the_last_rows():
    """After thousands of half-lives nothing underflows, and one row has all the weight."""
    log = walk(3000)
    found = streamed(lstd(fit_intercept=False).set_params(half_life=0.5, gamma=0.0), log, 1000)
    assert log["X"][-1] @ found.coef_ == pytest.approx(log["y"][-1], rel=0.05)


def test_half_life_stays_and_says_nothing_of_uncertainty():
    log = walk(300)
    stream = lstd().partial_fit(**log)
    with pytest.raises(ValueError, match="half_life must stay 150.0 while its stream goes on, got 10"):
        stream.set_params(half_life=10).partial_fit(**log)
    del log["terminal"]
    fitted = lstd().fit(**log, episode=np.arange(300) // 10)
    with pytest.raises(ValueError, match="half_life must be so long that at least 2 episodes count"):
        fitted.set_params(half_life=2.0).fit(**log, episode=np.arange(300) // 10).predict(log["X"], return_std=True)
    for wrong in (0, -1, np.nan, "week"):
        with pytest.raises(ValueError, match="half_life must be a finite number > 0, or None"):
            lstd().set_params(half_life=wrong).fit(**log)
