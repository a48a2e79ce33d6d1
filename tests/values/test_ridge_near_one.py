"""What alpha does to values near gamma = 1, against Monte-Carlo returns; docs/bellman.md has the errors."""

import numpy as np
import pytest
from helpers import few_of
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._value_models import drives
from sk_stormc import BellmanValueEstimator


@pytest.fixture(scope="module")
def logs():
    train, test = (drives(n, seed, at_random=0.7) for n, seed in ((60, 0), (100, 1)))
    steps = np.concatenate([np.arange(len(states) - 1, 0, -1) for states in test])
    return {
        "X": np.vstack([states[:-1] for states in train]),
        "next_X": np.vstack([states[1:] for states in train]),
        "terminal": np.concatenate([np.arange(len(states) - 1) == len(states) - 2 for states in train]),
    }, (np.vstack([states[:-1] for states in test]), steps)


def error(logs, gamma, alpha):
    """Root mean square error to the best linear fit to the returns, each step having the reward -1."""
    parts, (X, steps) = logs
    radial = make_pipeline(StandardScaler(), RBFSampler(n_components=100, gamma=0.5, random_state=0)).fit(parts["X"])
    value = BellmanValueEstimator(gamma, "lstd", objective="projected", features=radial, alpha=alpha)
    value.fit(**parts, y=-np.ones(len(parts["X"])))
    Z = np.column_stack([radial.transform(X), np.ones(len(X))])
    best = Z @ np.linalg.lstsq(Z, -(1 - gamma**steps) / (1 - gamma), rcond=None)[0]
    return np.sqrt(np.mean((value.predict(X) - best) ** 2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The features are nearly collinear")
def test_a_ridge_holds_near_one(logs):
    """As a weight in the mean square projected error, 1e-5 had an error of 10 times that without."""
    without = error(logs, 0.999, 0.0)
    assert error(logs, 0.999, 1e-5) < 1.6 * without
    assert error(logs, 0.999, 1e-4) < 1.6 * without
    assert error(logs, 0.95, 1e-5) < 3  # of values of 19


@pytest.mark.parametrize("decay", few_of([0.0, 0.7], 1))
@pytest.mark.parametrize("n_columns", [3, 400])
def test_it_is_a_ridge_on_the_matrix_of_lstd(n_columns, decay):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(301, n_columns)), rng.normal(size=300)
    parts = {"X": X[:-1], "y": y, "next_X": X[1:], "sample_weight": rng.random(300) + 0.5}
    Z, next_Z = (np.column_stack([part, np.ones(300)]) for part in (parts["X"], parts["next_X"]))
    traces, share = Z.copy(), parts["sample_weight"] / parts["sample_weight"].sum()
    for k in range(1, 300):
        traces[k] += 0.9 * decay * traces[k - 1]
    A = (share[:, None] * traces).T @ (Z - 0.9 * next_Z) + np.diag(np.append(np.full(n_columns, 0.3), 0.0))
    expected = np.linalg.solve(A, traces.T @ (share * y))
    values = [BellmanValueEstimator(0.9, "lstd", alpha=0.3, trace_decay=decay, objective="projected") for _ in "ab"]
    values = [values[0].fit(**parts), values[1].partial_fit(**parts)]
    if not decay:
        values.append(BellmanValueEstimator(0.9, "storm-c", alpha=0.3, objective="projected", tol=1e-9).fit(**parts))
    for value in values:
        np.testing.assert_allclose(np.append(value.coef_, value.intercept_), expected, atol=1e-6)
