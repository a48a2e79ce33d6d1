"""What a policy is worth from the episodes of another one: against loops, exact values, and itself."""

import warnings

import numpy as np
import pytest
from helpers import slow_but

from sk_stormc import BellmanValueEstimator, off_policy_value

GAMMA, N = 0.9, 4
CHANCES = np.random.default_rng(3).dirichlet(np.ones(N), size=(N, 2)) * 0.75  # the rest ends the episode
REWARDS = np.random.default_rng(4).normal(size=(N, 2))
METHODS = ("is", "wis", "pdis", "wpdis", "dr", "wdr")


def draw(m, seed, target=(0.6, 0.4)):
    """m episodes of a policy that takes both actions alike."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(m):
        s, t = rng.integers(N), 0
        while s is not None:
            a = int(rng.random() < 0.5)
            after = int(np.searchsorted(np.cumsum(CHANCES[s, a]), rng.random()))
            rows.append((s, after % N, after == N, REWARDS[s, a] + 0.2 * rng.normal(), episode, 2 * target[a], t))
            s, t = (after, t + 1) if after < N else (None, 0)
    s, after, ends, y, episode, ratio, t = (np.array(part) for part in zip(*rows, strict=True))
    return {
        "y": y, "importance_ratio": ratio, "episode": episode, "time": t, "X": np.eye(N)[s],
        "next_X": np.eye(N)[after], "terminal": ends.astype(bool),
    }  # fmt: skip


def exact(target=(0.6, 0.4)):
    policy = np.array(target)
    return np.linalg.solve(np.eye(N) - GAMMA * np.einsum("a,sat->st", policy, CHANCES), REWARDS @ policy).mean()


def value_of(parts, method, **changes):
    model = BellmanValueEstimator(0.5, "lstd", objective="projected", fit_intercept=False, alpha=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return off_policy_value(**parts | {"gamma": GAMMA, "method": method, "estimator": model} | changes)


def by_hand(parts):
    """Episode by episode and step by step."""
    episodes = [np.flatnonzero(parts["episode"] == e) for e in np.unique(parts["episode"])]
    longest = max(map(len, episodes))
    W, G = np.ones((longest, len(episodes))), np.zeros((longest, len(episodes)))
    for e, rows in enumerate(episodes):
        products = np.cumprod(parts["importance_ratio"][rows])
        W[:, e] = products[-1]
        W[: len(rows), e] = products
        G[: len(rows), e] = GAMMA ** np.arange(len(rows)) * parts["y"][rows]
    return {
        "is": np.mean(W[-1] * G.sum(axis=0)), "wis": np.average(G.sum(axis=0), weights=W[-1]),
        "pdis": np.mean((W * G).sum(axis=0)), "wpdis": ((W * G).sum(axis=1) / W.sum(axis=1)).sum(),
    }  # fmt: skip


def test_against_loops():
    parts = draw(40, 0)
    expected = by_hand(parts)
    order = np.random.default_rng(0).permutation(len(parts["y"]))
    shuffled = {name: part[order] for name, part in parts.items()}
    for method, value in expected.items():
        found = value_of(parts, method)
        assert found.value == pytest.approx(value)
        assert found.contributions.mean() == pytest.approx(value) and len(found.contributions) == 40
        assert value_of(shuffled | {"next_X": None}, method).value == pytest.approx(value)
        named = parts | {"episode": np.array([f"e{k}" for k in parts["episode"]])}
        assert value_of(named | {"time": None}, method).std_error == pytest.approx(found.std_error)


@pytest.mark.slow
def test_a_model_that_knows_the_values_leaves_only_the_noise():
    """Doubly robust: unbiased with any model of values, and with a good one less noisy than per decision."""
    truth, plain, robust, useless = exact(), [], [], []
    for seed in range(25):
        parts = draw(80, seed)
        plain.append(value_of(parts, "pdis").value)
        robust.append(value_of(parts, "dr", cv=2).value)
        nothing = np.ones((len(parts["y"]), 1))  # one number for the value of all states
        useless.append(value_of(parts | {"X": nothing, "next_X": nothing}, "dr", cv=2).value)
    assert np.std(robust) < 0.9 * np.std(plain)
    for found in (plain, robust, useless):
        assert abs(np.mean(found) - truth) < 4 * np.std(found) / np.sqrt(25)


def test_the_policy_that_acted_has_the_mean_of_its_returns():
    parts = draw(60, 1) | {"importance_ratio": np.ones(len(draw(60, 1)["y"]))}
    returns = np.bincount(parts["episode"], GAMMA ** parts["time"] * parts["y"])
    for method in METHODS[:3]:
        found = value_of(parts, method)
        assert found.value == pytest.approx(returns.mean())
        assert found.std_error == pytest.approx(returns.std(ddof=1) / np.sqrt(60))
        assert found.effective_size == pytest.approx(60)


@pytest.mark.parametrize("method", slow_but(METHODS, "wis", "pdis"))
def test_standard_errors_are_those_over_other_logs(method):
    found = [value_of(draw(80, seed), method, cv=2) for seed in range(40)]
    spread = np.std([value.value for value in found], ddof=1)
    assert np.sqrt(np.mean([value.std_error**2 for value in found])) == pytest.approx(spread, rel=0.4)


def test_the_difference_of_two_policies_is_surer_than_the_two():
    one, other = (value_of(draw(100, 2, target), "wpdis") for target in ((0.6, 0.4), (0.55, 0.45)))
    difference = one - other
    assert difference.value == pytest.approx(one.value - other.value)
    assert difference.std_error < 0.5 * np.hypot(one.std_error, other.std_error)
    low, high = difference.interval(0.5)
    assert low < difference.value < high
    with pytest.raises(ValueError, match="from the same episodes, got 100 episodes and 50"):
        one - value_of(draw(50, 2), "wpdis")
    with pytest.raises(ValueError, match="confidence must be"):
        one.interval(0.0)


@pytest.mark.parametrize("method", METHODS)
def test_ratios_of_0(method):
    parts = draw(60, 5)
    parts["importance_ratio"] = np.where(parts["importance_ratio"] > 1, 2.0, 0.0)  # a policy that always does the same
    found = value_of(parts, method)
    assert np.isfinite([found.value, found.std_error]).all()
    assert found.effective_size < 10  # "is" and "wis" are far off, and warn
    if method not in ("is", "wis"):
        assert abs(found.value - exact((1.0, 0.0))) < 5 * found.std_error


def test_few_episodes_of_the_policy_itself_warn():
    parts = {name: draw(60, 6, (0.95, 0.05))[name] for name in ("y", "importance_ratio", "episode")}
    with pytest.warns(UserWarning, match="60 episodes, whose effective number is"):
        off_policy_value(**parts)
    plain = {name: draw(60, 6)[name] for name in parts} | {"importance_ratio": np.ones(len(draw(60, 6)["y"]))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        off_policy_value(**plain)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "tis"}, "method must be"),
        ({"gamma": 2.0}, "gamma must be"),
        ({"cv": 1}, "cv must be"),
        ({"y": np.full(9, np.nan)}, "y must be finite"),
        ({"importance_ratio": -np.ones(9)}, "importance_ratio must be finite and >= 0, got -1.0 in row 0"),
        ({"importance_ratio": np.ones(3)}, r"importance_ratio must be of shape \(9,\)"),
        ({"importance_ratio": np.zeros(9), "method": "wis"}, "importance_ratio must be positive"),
        ({"importance_ratio": np.zeros(9)}, "importance_ratio must be positive"),
        ({"episode": np.zeros(9)}, "episode must have at least 2 different labels, got 1"),
        ({"time": np.zeros(9, dtype=int)}, "distinct values within an episode"),
        ({"method": "dr"}, "X must be given for the methods 'dr' and 'wdr'"),
        ({"method": "dr", "X": np.eye(9), "estimator": 3}, "estimator must be a BellmanValueEstimator, got 3"),
    ],
)
def test_errors(changes, message):
    parts = {"y": np.ones(9), "importance_ratio": np.ones(9), "episode": np.repeat([0, 1, 2], 3)}
    with pytest.raises(ValueError, match=message):
        off_policy_value(**parts | changes)


def test_a_log_has_the_probabilities_of_what_was_done():
    pytest.importorskip("gymnasium")
    from sk_stormc.datasets import collect_transitions

    acted, target = np.full((16, 4), [0.1, 0.2, 0.3, 0.4]), np.full((16, 4), [0.4, 0.3, 0.2, 0.1])
    target[0] = np.eye(4)[2]
    expected = {}
    for one_hot in (True, False):
        log = collect_transitions("FrozenLake-v1", acted, 300, seed=0, target=target, one_hot=one_hot)
        state = log.X.argmax(axis=1) if one_hot else log.X[:, 0].astype(int)
        np.testing.assert_allclose(log.probability, acted[0, log.action])
        np.testing.assert_allclose(log.target_probability, target[state, log.action])
        np.testing.assert_array_equal(log.importance_ratio, log.target_probability / log.probability)
        assert expected.setdefault("ratio", log.importance_ratio.tolist()) == log.importance_ratio.tolist()
    log = collect_transitions("CartPole-v1", n_transitions=100, seed=0, target=lambda X: (X[:, 2] > 0).astype(int))
    np.testing.assert_array_equal(log.importance_ratio, 2.0 * (log.action == (log.X[:, 2] > 0)))
    chances = lambda X: np.column_stack([np.full(len(X), 0.3), np.full(len(X), 0.7)])  # noqa: E731
    log = collect_transitions("CartPole-v1", n_transitions=100, seed=0, target=chances)
    np.testing.assert_allclose(log.importance_ratio, np.where(log.action == 1, 1.4, 0.6))
    assert np.isnan(collect_transitions("CartPole-v1", lambda x: 0, 10, seed=0).probability).all()
    for changes, message in (
        ({"policy": lambda x: 0, "target": chances}, "policy must be None or an array where target is given"),
        ({"target": lambda X: np.ones((len(X), 2))}, "target must be a policy of the environment: .*sum to 1"),
        ({"target": np.ones((4, 2)) / 2}, "target must be a policy of the environment: env must have Discrete"),
        ({"env": "Pendulum-v1", "target": chances}, "target must be None unless actions are Discrete"),
    ):
        with pytest.raises(ValueError, match=message):
            collect_transitions(**{"env": "CartPole-v1", "n_transitions": 10, "seed": 0} | changes)
