"""What a policy is worth from the episodes of another one, and ratios where the
behaviour policy is unknown."""

import warnings

import numpy as np
import pytest
from helpers import slow_but
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from value_logs import draw as draw_from
from value_logs import messages

from sk_stormc import ActionValueEstimator, estimated_ratios, off_policy_value

GAMMA, N = 0.9, 4
# the rest ends the episode
CHANCES = np.random.default_rng(3).dirichlet(np.ones(N), size=(N, 2)) * 0.75
REWARDS = np.random.default_rng(4).normal(size=(N, 2))
METHODS = ("is", "wis", "pdis", "wpdis", "dr", "wdr")


def draw(m, seed, target=(0.6, 0.4), cut=None):
    """m episodes, and the target as an array of states."""
    return draw_from(m, seed, CHANCES, REWARDS, target, 0.2, cut) | {
        "target": np.tile(target, (N, 1))
    }


def permuted(parts, order):
    """The rows in another order. The target is an array of states."""
    return {
        name: part if name == "target" else part[order] for name, part in parts.items()
    }


def exact(target=(0.6, 0.4)):
    policy = np.array(target)
    return np.linalg.solve(
        np.eye(N) - GAMMA * np.einsum("a,sat->st", policy, CHANCES), REWARDS @ policy
    ).mean()


def value_of(parts, method, **changes):
    model = ActionValueEstimator(gamma=0.5, fit_intercept=False, alpha=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return off_policy_value(
            **parts | {"gamma": GAMMA, "method": method, "estimator": model} | changes
        )


@pytest.mark.parametrize("method", METHODS)
def test_products_of_many_ratios_do_not_vanish(method):
    rng = np.random.default_rng(0)
    ratio = np.where(rng.random((20, 2000)) < 0.5, 1.8, 0.2).ravel()
    parts = {
        "y": np.ones(40_000),
        "importance_ratio": ratio,
        "episode": np.repeat(np.arange(20), 2000),
    }
    if method in ("dr", "wdr"):
        parts |= {
            "X": np.ones((40_000, 1)),
            "action": (ratio > 1).astype(int),
        }
        parts |= {
            "target": lambda X: np.tile([0.1, 0.9], (len(X), 1)),
            "terminal": np.arange(40_000) % 2000 == 1999,
        }
    estimate = value_of(parts, method, gamma=1.0 if method in ("wis", "wpdis") else 0.9)
    assert np.isfinite(
        [estimate.value, estimate.std_error, estimate.effective_size]
    ).all()
    if method in ("wis", "wpdis"):
        assert estimate.value == pytest.approx(2000)


def test_the_policy_that_acted_has_the_mean_of_its_returns():
    parts = draw(60, 1) | {"importance_ratio": np.ones(len(draw(60, 1)["y"]))}
    returns = np.bincount(parts["episode"], GAMMA ** parts["time"] * parts["y"])
    for method in METHODS[:3]:
        estimate = value_of(parts, method)
        assert estimate.value == pytest.approx(returns.mean())
        assert estimate.std_error == pytest.approx(returns.std(ddof=1) / np.sqrt(60))
        assert estimate.effective_size == pytest.approx(60)


@pytest.mark.parametrize("method", slow_but(METHODS, "wis", "pdis"))
def test_standard_errors_are_those_over_other_logs(method):
    estimates = [value_of(draw(80, seed), method, cv=2) for seed in range(40)]
    spread = np.std([value.value for value in estimates], ddof=1)
    assert np.sqrt(
        np.mean([value.std_error**2 for value in estimates])
    ) == pytest.approx(spread, rel=0.4)


def test_the_difference_of_two_policies_is_surer_than_the_two():
    one, other = (
        value_of(draw(100, 2, target), "wpdis") for target in ((0.6, 0.4), (0.55, 0.45))
    )
    difference = one - other
    assert difference.value == pytest.approx(one.value - other.value)
    assert difference.std_error < 0.5 * np.hypot(one.std_error, other.std_error)
    low, high = difference.interval(0.5)
    assert low < difference.value < high
    with pytest.raises(
        ValueError, match="from the same episodes, got 100 episodes and 50"
    ):
        one - value_of(draw(50, 2), "wpdis")


@pytest.mark.parametrize("method", METHODS)
def test_ratios_of_0(method):
    parts = draw(60, 5)
    # a policy that always does the same
    parts["importance_ratio"] = np.where(parts["importance_ratio"] > 1, 2.0, 0.0)
    parts["target"] = np.tile([1.0, 0.0], (N, 1))
    estimate = value_of(parts, method)
    assert np.isfinite([estimate.value, estimate.std_error]).all()
    assert estimate.effective_size < 10  # "is" and "wis" are far off, and warn
    if method not in ("is", "wis"):
        assert abs(estimate.value - exact((1.0, 0.0))) < 5 * estimate.std_error


@pytest.mark.filterwarnings("ignore:importance_ratio gives nearly all weight")
def test_few_episodes_of_the_policy_itself_warn():
    parts, other = (
        {
            name: draw(60, 6, target)[name]
            for name in ("y", "importance_ratio", "episode")
        }
        for target in ((0.95, 0.05), (0.5, 0.5))
    )
    with pytest.warns(UserWarning, match="60 episodes, whose effective number is"):
        off_policy_value(**parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        off_policy_value(**other)
    parts["importance_ratio"] = np.where(np.arange(len(parts["y"])) == 3, 1e200, 1.0)
    with pytest.warns(UserWarning, match="effective number is 1 "):
        assert off_policy_value(**parts).effective_size == 1.0


@pytest.mark.parametrize("method", METHODS[:4])
def test_rare_returns_warn(method):
    """Their number makes the standard error uncertain, and not that of the episodes."""
    ratio = np.random.default_rng(0).uniform(0.8, 1.2, 600)
    given = {"importance_ratio": ratio, "episode": np.arange(600) // 2}
    for n, usual, warns in ((12, 0.0, True), (0, -1.0, True), (30, 0.0, False)):
        y = np.where((np.arange(600) % 2 == 1) & (np.arange(600) < 2 * n), 1.0, usual)
        found = messages(off_policy_value, y, **given, method=method)
        said = [text for text in found if f"only {n} of 300 episodes have a" in text]
        assert len(said) == len(found) == warns


@pytest.mark.parametrize("method", METHODS[:4])
def test_a_log_without_the_largest_products_warns(method):
    """Its own effective number is large, and 90 % intervals hold in half of such logs
    at most."""
    chances, rewards, target = (
        np.full((1, 2, 1), 0.8),
        np.array([[1.0, 0.0]]),
        np.array([0.75, 0.25]),
    )
    exact, errors, said = 0.75 / (1 - 0.99 * 0.8), [], []
    for seed in range(40):
        log = draw_from(60, seed, chances, rewards, target, 0.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimate = off_policy_value(
                log["y"],
                log["importance_ratio"],
                log["episode"],
                gamma=0.99,
                method=method,
            )
        if estimate.effective_size > 20:
            errors.append(abs(estimate.value - exact) / estimate.std_error)
            said.append(
                any(
                    "on average for ratios of this size" in str(warning.message)
                    for warning in caught
                )
            )
    assert len(errors) > 20 and np.mean(np.array(errors) < 1.67) < 0.6
    assert np.mean(said) > 0.9


@pytest.mark.parametrize("method", ["dr", "wdr"])
def test_a_right_model_makes_up_for_wrong_ratios(method):
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
        for target in (
            chances[parts["X"].argmax(axis=1)],
            lambda X: chances[X.argmax(axis=1)],
        ):
            for next_X in (parts["next_X"], None):
                estimate = value_of(
                    parts | {"target": target, "next_X": next_X}, method
                )
                assert (estimate.value, estimate.std_error) == pytest.approx(
                    (expected.value, expected.std_error)
                )
        takes = parts | {
            "importance_ratio": np.where(parts["action"] == 1, 2.0, 0.0),
            "target": np.ones(n, dtype=int),
        }
        assert value_of(takes, method).value == pytest.approx(
            value_of(takes | {"target": [1] * N}, method).value
        )
        names = takes | {
            "action": np.array(["left", "right"])[parts["action"]],
            "target": lambda X: ["right"] * len(X),
        }
        assert value_of(names, method).value == pytest.approx(
            value_of(takes, method).value
        )


def test_the_target_where_an_episode_was_cut_off_is_needed():
    """Without their last rows, cut episodes would seem to end more often than they
    do."""
    parts, used = draw(40, 1, cut=2), []
    value_of(
        parts
        | {"target": lambda X: used.append(len(X)) or np.tile([0.6, 0.4], (len(X), 1))},
        "dr",
    )
    assert sum(used) == len(parts["y"]) + np.count_nonzero(~parts["terminal"])
    by_row = parts | {"target": np.tile([0.6, 0.4], (len(parts["y"]), 1))}
    with pytest.raises(
        ValueError,
        match="target must be a function of states .* where episodes are cut off.*row",
    ):
        value_of(by_row, "dr")
    for target in (parts["target"], by_row["target"]):
        with pytest.raises(
            ValueError,
            match="next_X must be given .* where episodes are cut off or have gaps: "
            "row",
        ):
            value_of(parts | {"next_X": None, "target": target}, "dr")


def test_folds_are_those_of_labels_whatever_the_order():
    parts = draw(40, 2, cut=5)
    parts["episode"] = np.array([f"log {k}" for k in parts["episode"]])
    radial = ActionValueEstimator(
        features=make_pipeline(StandardScaler(), PolynomialFeatures(1)), alpha=1e-3
    )
    order = np.random.default_rng(0).permutation(len(parts["y"]))
    for method in ("wpdis", "dr", "wdr"):
        expected = value_of(parts, method, estimator=radial)
        estimate = value_of(permuted(parts, order), method, estimator=radial)
        assert (estimate.value, estimate.std_error) == pytest.approx(
            (expected.value, expected.std_error), rel=1e-8
        )


def test_episodes_that_are_cut_off_have_the_standard_error_of_the_model():
    """One step of noise each, and the model's value of what comes after, which is ten
    times the mean reward."""
    rng, n = np.random.default_rng(0), 400
    parts = {
        "y": rng.normal(size=n),
        "importance_ratio": np.ones(n),
        "episode": np.arange(n),
        "X": np.ones((n, 1)),
    }
    parts |= {
        "next_X": np.ones((n, 1)),
        "terminal": np.zeros(n, bool),
        "action": np.arange(n) % 2,
    }
    estimate = value_of(parts, "dr", target=lambda X: np.full((len(X), 2), 0.5))
    assert estimate.std_error == pytest.approx(
        10 * parts["y"].std(ddof=1) / np.sqrt(n), rel=0.05
    )


class Counting(StandardScaler):
    rows: list[int] = []

    def fit(self, X, y=None):
        self.rows.append(len(X))
        return super().fit(X)


def test_a_model_is_not_fitted_on_the_episodes_that_it_corrects():
    parts = draw(40, 4)
    value_of(parts, "dr", estimator=ActionValueEstimator(features=Counting()), cv=4)
    assert len(Counting.rows) == 4 and sum(Counting.rows) == 3 * len(parts["y"])


# of three actions, before a softmax on two features
WEIGHTS = np.array([[0.0, 0.0], [1.0, -0.5], [-0.5, 1.0]])
STEPS = 3


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def log(n_episodes=700, seed=0, chances=lambda X: softmax(X @ WEIGHTS.T)):
    """Episodes of three steps, in which action 1 has a reward where it is probable, and
    moves the state a little."""
    rng = np.random.default_rng(seed)
    state, rows = rng.normal(size=(n_episodes, 2)), []
    for _ in range(STEPS):
        p = chances(state)
        action = (rng.random(n_episodes)[:, None] > np.cumsum(p, axis=1)).sum(axis=1)
        reward = (action == 1) * (1 + state[:, 0]) + 0.3 * rng.normal(size=n_episodes)
        rows.append((state, action, reward))
        state = (
            0.8 * state
            + 0.3 * (action == 1)[:, None]
            + 0.5 * rng.normal(size=(n_episodes, 2))
        )
    # episode by episode
    X, action, y = (np.stack(part, axis=1) for part in zip(*rows, strict=True))
    episode = np.repeat(np.arange(n_episodes), STEPS)
    return X.reshape(-1, 2), action.ravel(), y.ravel(), episode


def target(X):
    """A policy that mixes all actions with the opposite of who acted."""
    return 0.5 * softmax(-0.5 * X @ WEIGHTS.T) + 0.5 / 3


X, ACTION, Y, EPISODE = log()
TRUE = (target(X) / softmax(X @ WEIGHTS.T))[np.arange(len(ACTION)), ACTION]


@pytest.mark.parametrize("episode", [None, EPISODE])
def test_ratios_are_near_the_true_ones(episode):
    ratios = estimated_ratios(
        X, ACTION, target(X), LogisticRegression(), episode=episode
    )
    assert np.abs(np.log(ratios / TRUE)).mean() < 0.1 and abs(ratios.mean() - 1) < 0.1
    own = target(X)[np.arange(len(X)), ACTION]
    np.testing.assert_allclose(
        estimated_ratios(X, ACTION, own, LogisticRegression(), episode=episode), ratios
    )


def test_rows_of_other_kinds():
    ratios = estimated_ratios(
        X, ACTION, target(X), LogisticRegression(), episode=EPISODE
    )
    named, labels = (
        np.array(["a", "b", "c"])[ACTION],
        np.array([f"e{k:05d}" for k in EPISODE]),
    )
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    again = estimated_ratios(X, named, target(X), pipeline, episode=labels)
    np.testing.assert_allclose(again, ratios, rtol=0.05)
    assert not hasattr(pipeline[-1], "coef_")  # a clone was fitted
