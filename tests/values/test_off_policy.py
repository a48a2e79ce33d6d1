"""What a policy is worth from the episodes of another one: against loops, exact values, and itself."""

import tracemalloc
import warnings

import numpy as np
import pytest
from helpers import slow_but
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from sk_stormc import ActionValueEstimator, BellmanValueEstimator, off_policy_value

GAMMA, N = 0.9, 4
CHANCES = np.random.default_rng(3).dirichlet(np.ones(N), size=(N, 2)) * 0.75  # the rest ends the episode
REWARDS = np.random.default_rng(4).normal(size=(N, 2))
METHODS = ("is", "wis", "pdis", "wpdis", "dr", "wdr")


def draw(m, seed, target=(0.6, 0.4), cut=None):
    """m episodes of a policy that takes both actions alike, perhaps cut off after some steps."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(m):
        s, t = rng.integers(N), 0
        while s is not None:
            a = int(rng.random() < 0.5)
            after = int(np.searchsorted(np.cumsum(CHANCES[s, a]), rng.random()))
            rows.append((s, after % N, after == N, REWARDS[s, a] + 0.2 * rng.normal(), episode, 2 * target[a], t, a))
            s, t = (after, t + 1) if after < N and t + 1 != cut else (None, 0)
    s, after, ends, y, episode, ratio, t, a = (np.array(part) for part in zip(*rows, strict=True))
    return {
        "y": y, "importance_ratio": ratio, "episode": episode, "time": t, "X": np.eye(N)[s], "action": a,
        "next_X": np.eye(N)[after], "terminal": ends.astype(bool), "target": np.tile(target, (N, 1)),
    }  # fmt: skip


def permuted(parts, order):
    """The rows in another order. The target is an array of states."""
    return {name: part if name == "target" else part[order] for name, part in parts.items()}


def exact(target=(0.6, 0.4)):
    policy = np.array(target)
    return np.linalg.solve(np.eye(N) - GAMMA * np.einsum("a,sat->st", policy, CHANCES), REWARDS @ policy).mean()


def value_of(parts, method, **changes):
    model = ActionValueEstimator(gamma=0.5, fit_intercept=False, alpha=1e-6)
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
    shuffled = permuted(parts, order)
    for method, value in expected.items():
        found = value_of(parts, method)
        assert found.value == pytest.approx(value)
        assert found.contributions.mean() == pytest.approx(value) and len(found.contributions) == 40
        assert value_of(shuffled | {"next_X": None}, method).value == pytest.approx(value)
        named = parts | {"episode": np.array([f"e{k}" for k in parts["episode"]])}
        assert value_of(named | {"time": None}, method).std_error == pytest.approx(found.std_error)


@pytest.mark.slow
def test_a_model_that_knows_the_values_leaves_only_the_noise():
    """Unbiased with any model of values and right ratios, and with a good model less noisy than per decision."""
    truth, plain, robust, useless = exact(), [], [], []
    for seed in range(25):
        parts = draw(80, seed)
        plain.append(value_of(parts, "pdis").value)
        robust.append(value_of(parts, "dr", cv=2).value)
        nothing = np.ones((len(parts["y"]), 1))  # one number for the value of all states
        always = {"X": nothing, "next_X": nothing, "target": lambda X: np.tile([0.6, 0.4], (len(X), 1))}
        useless.append(value_of(parts | always, "dr", cv=2).value)
    assert np.std(robust) < 0.9 * np.std(plain)
    for found in (plain, robust, useless):
        assert abs(np.mean(found) - truth) < 4 * np.std(found) / np.sqrt(25)


# doubly robust


@pytest.mark.parametrize("method", ["dr", "wdr"])
def test_a_right_model_makes_up_for_wrong_ratios(method):
    """A step is worth what was done, and the log does both alike: ratios of 1 would have its own value, .5."""
    right = np.random.default_rng(0).random(400) < 0.5
    data = {"X": np.ones((400, 1)), "action": right.astype(int), "terminal": np.ones(400, dtype=bool)}
    data |= {"episode": np.arange(400), "target": np.tile([0.1, 0.9], (400, 1))}
    found = off_policy_value(right, np.ones(400), method=method, **data)
    assert found.value == pytest.approx(0.9, abs=1e-4)
    errors = []
    for seed in range(12):
        parts = draw(100, seed, (0.8, 0.2))
        parts["importance_ratio"] = np.ones(len(parts["y"]))
        errors.append(value_of(parts, method).value - exact((0.8, 0.2)))
    assert abs(np.mean(errors)) < 0.1 < abs(exact((0.5, 0.5)) - exact((0.8, 0.2)))


def test_what_describes_one_target_has_one_value():
    parts = draw(50, 0, (0.8, 0.2))
    n, chances = len(parts["y"]), np.array([[0.8, 0.2]] * N)
    for method in ("dr", "wdr"):
        expected = value_of(parts, method)
        for target in (chances[parts["X"].argmax(axis=1)], lambda X: chances[X.argmax(axis=1)]):
            for next_X in (parts["next_X"], None):
                found = value_of(parts | {"target": target, "next_X": next_X}, method)
                assert (found.value, found.std_error) == pytest.approx((expected.value, expected.std_error))
        takes = parts | {"importance_ratio": np.where(parts["action"] == 1, 2.0, 0.0), "target": np.ones(n, dtype=int)}
        assert value_of(takes, method).value == pytest.approx(value_of(takes | {"target": [1] * N}, method).value)
        names = takes | {"action": np.array(["left", "right"])[parts["action"]], "target": lambda X: ["right"] * len(X)}
        assert value_of(names, method).value == pytest.approx(value_of(takes, method).value)


def test_the_target_where_an_episode_was_cut_off_is_needed():
    """Without their last rows, cut episodes would seem to end more often than they do."""
    parts, used = draw(40, 1, cut=2), []
    value_of(parts | {"target": lambda X: used.append(len(X)) or np.tile([0.6, 0.4], (len(X), 1))}, "dr")
    assert sum(used) == len(parts["y"]) + np.count_nonzero(~parts["terminal"])
    by_row = parts | {"target": np.tile([0.6, 0.4], (len(parts["y"]), 1))}
    with pytest.raises(ValueError, match="target must be a function of states .* where episodes are cut off.*row"):
        value_of(by_row, "dr")
    for target in (parts["target"], by_row["target"]):
        with pytest.raises(ValueError, match="next_X must be given .* where episodes are cut off or have gaps: row"):
            value_of(parts | {"next_X": None, "target": target}, "dr")


def test_folds_are_those_of_labels_whatever_the_order():
    parts = draw(40, 2, cut=5)
    parts["episode"] = np.array([f"log {k}" for k in parts["episode"]])
    radial = ActionValueEstimator(features=make_pipeline(StandardScaler(), PolynomialFeatures(1)), alpha=1e-3)
    for method in ("wpdis", "dr", "wdr"):
        expected = value_of(parts, method, estimator=radial)
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(parts["y"]))
            found = value_of(permuted(parts, order), method, estimator=radial)
            assert (found.value, found.std_error) == pytest.approx((expected.value, expected.std_error), rel=1e-8)


@pytest.mark.parametrize("method", slow_but(["dr", "wdr"], "dr"))
@pytest.mark.parametrize("cut", slow_but([1, 3, 6], 3))
def test_standard_errors_have_the_models_where_episodes_are_cut(cut, method):
    found = [value_of(draw(80, seed, cut=cut), method, cv=2) for seed in range(30)]
    spread = np.std([value.value for value in found], ddof=1)
    assert np.sqrt(np.mean([value.std_error**2 for value in found])) == pytest.approx(spread, rel=0.4)
    assert np.mean(found[0].contributions) == pytest.approx(found[0].value)


@pytest.mark.slow
@pytest.mark.parametrize("target", [(0.5, 0.5), (0.7, 0.3)])
@pytest.mark.parametrize("cut", [None, 3, 6])
def test_intervals_hold(target, cut):
    truth, inside = exact(target), {"dr": [], "wdr": []}
    for seed in range(200):
        parts = draw(60, 1000 + seed, target, cut) | {"target": lambda X: np.tile(target, (len(X), 1))}
        for method, held in inside.items():
            low, high = value_of(parts, method).interval()
            held.append(low < truth < high)
    assert all(0.82 <= np.mean(held) <= 0.96 for held in inside.values())


# long episodes


@pytest.mark.parametrize("method", METHODS)
def test_products_of_many_ratios_do_not_vanish(method):
    rng = np.random.default_rng(0)
    ratio = np.where(rng.random((30, 3000)) < 0.5, 1.8, 0.2).ravel()
    parts = {"y": np.ones(90_000), "importance_ratio": ratio, "episode": np.repeat(np.arange(30), 3000)}
    if method in ("dr", "wdr"):
        parts |= {"X": np.ones((90_000, 1)), "action": (ratio > 1).astype(int),}
        parts |= {"target": lambda X: np.tile([0.1, 0.9], (len(X), 1)), "terminal": np.arange(90_000) % 3000 == 2999}
    found = value_of(parts, method, gamma=1.0 if method in ("wis", "wpdis") else 0.9)
    assert np.isfinite([found.value, found.std_error, found.effective_size]).all()
    if method in ("wis", "wpdis"):
        assert found.value == pytest.approx(3000)


def test_weighted_means_over_long_episodes_are_those_of_products():
    """Against arrays of steps and episodes, with episodes of all lengths and weights that still fit."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 60, size=25)
    numbers, n = np.repeat(np.arange(25), lengths), lengths.sum()
    y, ratio = rng.normal(size=n), rng.choice([0.5, 0.9, 1.6, 0.0], p=[0.4, 0.3, 0.29, 0.01], size=n)
    W, G = np.ones((60, 25)), np.zeros((60, 25))
    for e in range(25):
        products = np.cumprod(ratio[numbers == e])
        W[:, e] = products[-1]
        W[: lengths[e], e], G[: lengths[e], e] = products, 0.9 ** np.arange(lengths[e]) * y[numbers == e]
    W, G = W[: lengths.max()], G[: lengths.max()]
    mean = (W * G).sum(axis=1) / W.sum(axis=1)
    influence = (W / W.mean(axis=1, keepdims=True) * (G - mean[:, None])).sum(axis=0)
    found = value_of({"y": y, "importance_ratio": ratio, "episode": numbers}, "wpdis")
    assert found.value == pytest.approx(mean.sum())
    np.testing.assert_allclose(found.contributions, mean.sum() + influence, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_memory_does_not_grow_with_the_longest_episode(method):
    """Arrays of steps and episodes would take 64 MB."""
    n, rng = 4000, np.random.default_rng(0)
    parts = {"y": rng.normal(size=n), "episode": np.maximum(np.arange(n) - 2000, 0), "importance_ratio": np.ones(n)}
    parts |= {"X": np.ones((n, 1)), "action": np.arange(n) % 2, "target": np.full((n, 2), 0.5)}
    parts["terminal"] = np.append(np.diff(parts["episode"]) > 0, True)
    tracemalloc.start()
    value_of(parts, method)
    assert tracemalloc.get_traced_memory()[1] < 8e6
    tracemalloc.stop()


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
    parts["target"] = np.tile([1.0, 0.0], (N, 1))
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


Q = {
    "method": "dr", "X": np.eye(9), "action": np.arange(9) % 2, "target": np.full((9, 2), 0.5),
    "terminal": np.arange(9) % 3 == 2,
}  # fmt: skip


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
        ({"method": "dr"}, "X must be given for the methods 'dr' and 'wdr'.*pass the states"),
        (Q | {"action": None}, "action must be given for the methods 'dr' and 'wdr'.*the action of each row.*'pdis'"),
        (Q | {"target": None}, r"target must be given .*of all actions in each row, \(n_transitions, n_actions"),
        (Q | {"estimator": 3}, r"estimator must be an ActionValueEstimator .*Q\(s, a\), got 3"),
        (Q | {"estimator": BellmanValueEstimator()}, "estimator must be an ActionValueEstimator .*got Bellman"),
        (Q | {"estimator": ActionValueEstimator(solver="storm-c")}, "estimator must be an .*with solver='auto'"),
        (Q | {"target": np.full((9, 3), 1 / 3)}, "target must give probabilities of the actions .*0, 1.*got .*9, 3"),
        (Q | {"target": np.full((9, 2), 0.4)}, "target must have probabilities >= 0 that sum to 1, got .* in row 0"),
        (Q | {"target": "greedy"}, "target must be a function of states, or an array"),
        (Q | {"target": lambda X: np.full(len(X), 7)}, "actions of target must be among .*got 7 in row 0"),
        (Q | {"X": np.eye(9)[:4]}, "X must have 9 rows, as y has, got 4"),
        (Q | {"time": np.tile([0, 1, 3], 3)}, "next_X must be given .*are cut off or have gaps: row 1 is"),
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
