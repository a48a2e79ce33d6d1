"""gamma = 1 where all episodes end, rewards that are all zero, and errors that say what to do."""

import numpy as np
import pytest

from sk_stormc import BellmanValueEstimator
from sk_stormc.datasets import MarkovRewardProcess
from sk_stormc.solvers import STORMCompositional

N = 5  # states of a walk that ends on either side; each step costs 1, so that V(s) = -(s + 1) (N - s)
EXACT = -(np.arange(N) + 1.0) * (N - np.arange(N))


def walk(n_episodes=2000, seed=0):
    rng, rows = np.random.default_rng(seed), []
    for _ in range(n_episodes):
        s = int(rng.integers(N))
        while 0 <= s < N:
            after = s + (1 if rng.random() < 0.5 else -1)
            rows.append((s, after))
            s = after
    s, after = np.array(rows).T
    X, next_X = np.eye(N)[s], np.eye(N)[np.clip(after, 0, N - 1)]
    return {"X": X, "y": -np.ones(len(s)), "next_X": next_X, "terminal": (after < 0) | (after == N)}


@pytest.mark.parametrize(
    "params", [{}, {"solver": "lstd"}, {"objective": "projected"}, {"solver": "lstd", "trace_decay": 0.9}]
)
def test_values_without_a_discount(params):
    value = BellmanValueEstimator(1, random_state=0, **params).fit(**walk())
    np.testing.assert_allclose(value.predict(np.eye(N)), EXACT, rtol=0.06)
    error = value.td_error(**walk(50, seed=1))
    assert abs(error.mean()) < 0.3


def test_a_stream_without_a_discount():
    parts = walk()
    value = BellmanValueEstimator(1.0, "lstd")
    for start in range(0, len(parts["y"]), 500):
        value.partial_fit(**{name: part[start : start + 500] for name, part in parts.items()})
    np.testing.assert_allclose(value.predict(np.eye(N)), EXACT, rtol=0.06)
    with pytest.raises(ValueError, match="gamma must be < 1 for partial_fit, except with solver='lstd', got 1"):
        BellmanValueEstimator(1, "storm-c").partial_fit(**parts)


@pytest.mark.parametrize(("solver", "method"), [("storm-c", "fit"), ("lstd", "fit"), ("lstd", "partial_fit")])
def test_episodes_that_do_not_end_are_refused(solver, method):
    parts = walk(50)
    endless = parts | {"terminal": np.zeros(len(parts["y"]), dtype=bool)}
    with pytest.raises(ValueError, match="gamma must be a number < 1, got 1: .*Pass terminal="):
        getattr(BellmanValueEstimator(1, solver), method)(**endless)
    # two states that lead to each other only
    closed = {
        "X": np.vstack([np.pad(parts["X"], ((0, 0), (0, 2))), np.eye(N + 2)[[5, 6, 5]]]),
        "next_X": np.vstack([np.pad(parts["next_X"], ((0, 0), (0, 2))), np.eye(N + 2)[[6, 5, 6]]]),
        "y": np.append(parts["y"], np.zeros(3)),
        "terminal": np.append(parts["terminal"], np.zeros(3, dtype=bool)),
    }
    with pytest.raises(ValueError, match="from every state"):
        getattr(BellmanValueEstimator(1, solver), method)(**closed)
    with pytest.raises(ValueError, match="gamma must be < 1 for a model"):
        MarkovRewardProcess(np.eye(2), [0.0, 1.0], gamma=1)


def test_a_model_with_ends_is_not_said_to_have_none():
    P = [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]
    with pytest.raises(ValueError, match="gamma must be < 1 for a model, got 1: an end is a state") as raised:
        MarkovRewardProcess(P, [-1.0, -1.0, 0.0], gamma=1)
    assert "no episode ends" not in str(raised.value)
    value = MarkovRewardProcess(P, [-1.0, -1.0, 0.0], gamma=1 - 1e-9).exact_value()  # as the error recommends
    np.testing.assert_allclose(value, [-4.0, -3.0, 0.0], rtol=1e-7)


@pytest.mark.parametrize("objective", ["bellman", "projected"])
def test_rewards_that_are_all_zero_end_at_once(objective):
    parts = walk(100)
    parts["y"] = np.zeros(len(parts["y"]))
    value = BellmanValueEstimator(0.9, objective=objective, random_state=0).fit(**parts)
    assert value.n_iter_ <= 2 and value.stop_reason_ == "converged"
    np.testing.assert_array_equal(value.predict(np.eye(N)), np.zeros(N))


@pytest.mark.parametrize("params", [{}, {"solver": "lstd"}, {"solver": "lstd", "objective": "projected"}])
def test_numbers_whose_squares_overflow(params):
    parts = walk(50)
    huge = parts | {name: 1e200 * parts[name] for name in ("X", "next_X")}
    with pytest.raises(ValueError, match="X, y and sample_weight must have finite products"):
        BellmanValueEstimator(0.9, **params).fit(**huge)


def test_errors_that_say_what_to_do():
    parts = walk(50)
    with pytest.raises(ValueError, match=r"'lstd'\], got a class: give STORMCompositional\(\)"):
        BellmanValueEstimator(solver=STORMCompositional).fit(**parts)
    with pytest.raises(ValueError, match="gamma must be a finite number >= 0 and <= 1, got -1"):
        BellmanValueEstimator(-1).fit(**parts)
    time = np.arange(len(parts["y"])) % 7
    with pytest.raises(ValueError, match="begins again in each episode, give episode=, or continue it"):
        BellmanValueEstimator(0.9).fit(parts["X"], parts["y"], time=time)


@pytest.mark.parametrize("solver", ["storm-c", "lstd"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_states_of_three_dimensions(solver, method):
    parts = walk(50)
    n = len(parts["y"]) // 2
    pairs = {name: parts[name][: 2 * n].reshape(n, 2, N) for name in ("X", "next_X")}
    value = BellmanValueEstimator(0.9, solver)
    with pytest.raises(ValueError, match="X: Found array with dim 3, while dim <= 2"):
        getattr(value, method)(pairs["X"], parts["y"][:n], next_X=pairs["next_X"])
    with pytest.raises(ValueError, match="next_X must have the columns of X: Found array with dim 3"):
        getattr(value, method)(parts["X"][:n], parts["y"][:n], next_X=pairs["next_X"])
