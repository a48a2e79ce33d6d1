"""What alpha does to values near gamma = 1, against Monte-Carlo returns; docs/bellman.md has the errors."""

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc import BellmanValueEstimator


def drives(n_episodes, rng):
    """Episodes of MountainCar's dynamics: a push along the speed with probability .3, else at random."""
    episodes = []
    for _ in range(n_episodes):
        x, v = rng.uniform(-0.6, -0.4), 0.0
        states = [(x, v)]
        while x < 0.5:
            push = (1 if v >= 0 else -1) if rng.random() > 0.7 else rng.integers(-1, 2)
            v = min(max(v + 0.001 * push - 0.0025 * np.cos(3 * x), -0.07), 0.07)
            x = min(max(x + v, -1.2), 0.6)
            v = 0.0 if x <= -1.2 and v < 0 else v
            states.append((x, v))
        episodes.append(np.array(states))
    return episodes


@pytest.fixture(scope="module")
def logs():
    train, test = (drives(n, np.random.default_rng(seed)) for n, seed in ((60, 0), (100, 1)))
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


@pytest.mark.filterwarnings("ignore:The features are nearly collinear")
def test_a_ridge_near_one_is_measured_in_the_square_of_what_is_left(logs):
    without = error(logs, 0.999, 0.0)
    assert error(logs, 0.999, 1e-5) > 5 * without
    assert error(logs, 0.999, 1e-9 * (1 - 0.999) ** 2) < 1.2 * without
    assert error(logs, 0.95, 1e-5) < 3  # of values of 19
