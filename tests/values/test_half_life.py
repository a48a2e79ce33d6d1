"""Values that forget: the weight of a transition is halved every half_life rows that
come later."""

import numpy as np
import pytest
from sklearn.base import clone
from value_logs import fed, some

from sk_stormc import BellmanValueEstimator

HALF_LIFE = 150.0


def walk(n=1200):
    """A walk whose rewards drift, in rows that follow one another."""
    rng = np.random.default_rng(0)
    X = np.zeros((n + 1, 2))
    for k in range(n):
        X[k + 1] = 0.8 * X[k] + rng.normal(size=2)
    y, ends = X[:-1, 0] + np.linspace(0, 5, n), rng.random(n) < 0.05
    return {"X": X[:-1], "y": y, "next_X": X[1:], "terminal": ends}


def lstd(**params):
    return BellmanValueEstimator(
        0.9, "lstd", objective="projected", half_life=HALF_LIFE, **params
    )


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_rows_of_episodes_that_alternate_fade_as_they_come(solver):
    """Two walks at once, with labels: the weights are those of the order of the rows,
    not of the episodes."""
    log = some(walk(800), slice(None), "terminal")
    both = {name: np.repeat(part, 2, axis=0) for name, part in log.items()}
    both["y"][1::2] = -7.0
    expected = lstd(trace_decay=0.0).fit(**both).predict(log["X"])
    both |= {"episode": np.arange(1600) % 2, "terminal": np.zeros(1600, dtype=bool)}
    value = fed(lstd().set_params(solver=solver), 800, **both)
    tolerance = 1e-8 if solver == "lstd" else 0.5
    np.testing.assert_allclose(value.predict(log["X"]), expected, atol=tolerance)


def test_a_stochastic_solver_ends_near_lstd():
    """After a number of rows that fills the last batch."""
    log, forgets = walk(512 + 48 * 32), lstd(random_state=0).set_params(half_life=500.0)
    sampled = clone(forgets).set_params(solver="storm-c")
    value, other = (fed(clone(sampled), size, **log) for size in (500, 173))
    np.testing.assert_array_equal(other.coef_, value.coef_)
    expected = fed(forgets, 500, **log).predict(log["X"])
    np.testing.assert_allclose(value.predict(log["X"]), expected, rtol=0.01, atol=0.05)


def test_very_short_half_lives_are_the_last_rows():
    """After thousands of half-lives nothing underflows, and one row has all the
    weight."""
    log, value = walk(3000), lstd(fit_intercept=False)
    fed(value.set_params(half_life=0.5, gamma=0.0), 1000, **log)
    assert log["X"][-1] @ value.coef_ == pytest.approx(log["y"][-1], rel=0.05)


def test_a_half_life_needs_an_order():
    log = some(walk(300), slice(None), "next_X", "terminal")
    log |= {"episode": np.arange(300) // 10, "time": np.arange(300) % 10}
    at = np.random.default_rng(3).permutation(300)
    expected = lstd().fit(**log)
    with pytest.raises(ValueError, match="half_life must be None if rows are"):
        lstd().fit(**some(log, at))
    # increases from one episode to the next
    value = lstd().fit(**some(log, at) | {"time": at})
    np.testing.assert_allclose(value.coef_, expected.coef_, rtol=1e-10)
