"""What a policy is worth from the episodes of another one, and ratios where the
behaviour policy is unknown."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
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


def exact(target=(0.6, 0.4)):
    policy = np.array(target)
    return np.linalg.solve(
        np.eye(N) - GAMMA * np.einsum("a,sat->st", policy, CHANCES), REWARDS @ policy
    ).mean()


def value_of(parts, method, **changes):
    model = ActionValueEstimator(gamma=0.5, fit_intercept=False, alpha=1e-6)
    given = parts | {"gamma": GAMMA, "method": method, "estimator": model} | changes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return off_policy_value(**given)


def test_products_of_many_ratios_do_not_vanish():
    rng, n = np.random.default_rng(0), 40_000
    ratio = np.where(rng.random(n) < 0.5, 1.8, 0.2)
    parts = {"y": np.ones(n), "importance_ratio": ratio}
    parts["episode"] = np.repeat(np.arange(20), 2000)
    model = parts | {"X": np.ones((n, 1)), "action": (ratio > 1).astype(int)}
    model |= {"target": lambda X: np.tile([0.1, 0.9], (len(X), 1))}
    model["terminal"] = np.arange(n) % 2000 == 1999
    for method in METHODS:
        sums_to_1 = method in ("wis", "wpdis")
        given = model if method in ("dr", "wdr") else parts
        estimate = value_of(given, method, gamma=1.0 if sums_to_1 else 0.9)
        found = estimate.value, estimate.std_error, estimate.effective_size
        assert np.isfinite(found).all()
        assert estimate.value == pytest.approx(2000) or not sums_to_1


@pytest.mark.parametrize("method", ["wis", "wdr"])
def test_standard_errors_are_those_over_other_logs(method):
    estimates = [value_of(draw(50, seed), method, cv=2) for seed in range(40)]
    spread = np.std([value.value for value in estimates], ddof=1)
    errors = np.array([value.std_error for value in estimates])
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(spread, rel=0.4)


def test_the_difference_of_two_policies_is_surer_than_the_two():
    one, other = (
        value_of(draw(100, 2, target), "wpdis") for target in ((0.6, 0.4), (0.55, 0.45))
    )
    difference = one - other
    assert difference.value == pytest.approx(one.value - other.value)
    assert difference.std_error < 0.5 * np.hypot(one.std_error, other.std_error)
    low, high = difference.interval(0.5)
    assert low < difference.value < high
    with pytest.raises(ValueError, match="the same episodes, got 100 episodes and 50"):
        one - value_of(draw(50, 2), "wpdis")


def test_ratios_of_0():
    parts = draw(60, 5)
    # a policy that always does the same
    parts["importance_ratio"] = np.where(parts["importance_ratio"] > 1, 2.0, 0.0)
    parts["target"] = np.tile([1.0, 0.0], (N, 1))
    for method in METHODS:
        estimate = value_of(parts, method)
        assert np.isfinite([estimate.value, estimate.std_error]).all()
        assert estimate.effective_size < 10  # "is" and "wis" are far off, and warn
        if method not in ("is", "wis"):
            assert abs(estimate.value - exact((1.0, 0.0))) < 5 * estimate.std_error


@pytest.mark.filterwarnings("ignore:importance_ratio gives nearly all weight")
def test_few_episodes_of_the_policy_itself_warn():
    log = draw(60, 6, (0.95, 0.05))
    parts = {name: log[name] for name in ("y", "importance_ratio", "episode")}
    with pytest.warns(UserWarning, match="60 episodes, whose effective number is"):
        off_policy_value(**parts)
    even = parts | {"importance_ratio": np.ones(len(log["y"]))}
    assert not messages(off_policy_value, **even)
    assert off_policy_value(**even).effective_size == pytest.approx(60)
    even["importance_ratio"][3] = 1e200
    with pytest.warns(UserWarning, match="effective number is 1 "):
        assert off_policy_value(**even).effective_size == 1.0


def test_rare_returns_warn():
    """Their number makes the standard error uncertain, and not that of the episodes."""
    k, ratio = np.arange(600), np.random.default_rng(0).uniform(0.8, 1.2, 600)
    for n, usual, warns in ((12, 0.0, True), (0, -1.0, True), (30, 0.0, False)):
        y = np.where((k % 2 == 1) & (k < 2 * n), 1.0, usual)
        for method in METHODS[:4]:
            found = messages(off_policy_value, y, ratio, k // 2, method=method)
            said = f"only {n} of 300 episodes have a" in "".join(found)
            assert said == len(found) == warns


def test_a_log_without_the_largest_products_warns():
    """Its own effective number is large, and 90 % intervals hold in half of such logs
    at most."""
    chances, rewards = np.full((1, 2, 1), 0.8), np.array([[1.0, 0.0]])
    exact, errors, said = 0.75 / (1 - 0.99 * 0.8), [], []
    for seed in range(40):
        log = draw_from(60, seed, chances, rewards, np.array([0.75, 0.25]), 0.0)
        columns = log["y"], log["importance_ratio"], log["episode"]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimate = off_policy_value(*columns, gamma=0.99)
        if estimate.effective_size > 20:
            errors.append(abs(estimate.value - exact) / estimate.std_error)
            text = "".join(str(warning.message) for warning in caught)
            said.append("on average for ratios of this size" in text)
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


@pytest.mark.parametrize("method", ["dr", "wdr"])
def test_what_describes_one_target_has_one_value(method):
    parts, chances = draw(50, 0, (0.8, 0.2)), np.array([[0.8, 0.2]] * N)
    n, states = len(parts["y"]), parts["X"].argmax(axis=1)
    takes = {"importance_ratio": np.where(parts["action"] == 1, 2.0, 0.0)}
    names = {"action": np.array(["left", "right"])[parts["action"]]}
    for first, *others in (
        (
            {"target": chances},
            {"target": chances[states]},
            {"target": lambda X: chances[X.argmax(axis=1)], "next_X": None},
        ),
        (
            takes | {"target": [1] * N},
            takes | {"target": np.ones(n, dtype=int)},
            takes | names | {"target": lambda X: ["right"] * len(X)},
        ),
    ):
        expected = value_of(parts | first, method)
        for other in others:
            found = value_of(parts | other, method)
            assert found.value == pytest.approx(expected.value)
            assert found.std_error == pytest.approx(expected.std_error)


def test_the_target_where_an_episode_was_cut_off_is_needed():
    """Without their last rows, cut episodes would seem to end more often than they
    do."""
    parts, used = draw(40, 1, cut=2), []

    def target(X):
        used.append(len(X))
        return np.tile([0.6, 0.4], (len(X), 1))

    value_of(parts | {"target": target}, "dr")
    assert sum(used) == len(parts["y"]) + np.count_nonzero(~parts["terminal"])
    by_row = {"target": np.tile([0.6, 0.4], (len(parts["y"]), 1))}
    gone, missing = {"next_X": None}, "next_X must be given .* are cut off or have gaps"
    for changes, message in (
        (by_row, "be a function of states .* where episodes are cut off.*row"),
        (gone, missing),
        (by_row | gone, missing),
    ):
        with pytest.raises(ValueError, match=message):
            value_of(parts | changes, "dr")


def test_episodes_that_are_cut_off_have_the_standard_error_of_the_model():
    """One step of noise each, and the model's value of what comes after, which is ten
    times the mean reward."""
    rng, n = np.random.default_rng(0), 400
    parts = {"y": rng.normal(size=n), "importance_ratio": np.ones(n)}
    parts |= {"X": np.ones((n, 1)), "next_X": np.ones((n, 1)), "episode": np.arange(n)}
    parts |= {"terminal": np.zeros(n, bool), "action": np.arange(n) % 2}
    estimate = value_of(parts, "dr", target=lambda X: np.full((len(X), 2), 0.5))
    expected = 10 * parts["y"].std(ddof=1) / np.sqrt(n)
    assert estimate.std_error == pytest.approx(expected, rel=0.05)


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


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def test_estimated_ratios_are_near_the_true_ones():
    """Of a policy that mixes all actions with the opposite of who acted."""
    rng, n = np.random.default_rng(0), 2100
    X, episode = rng.normal(size=(n, 2)), np.arange(n) // 3
    acted, target = (
        softmax(X @ WEIGHTS.T),
        0.5 * softmax(-0.5 * X @ WEIGHTS.T) + 0.5 / 3,
    )
    action = (rng.random(n)[:, None] > np.cumsum(acted, axis=1)).sum(axis=1)
    own, true = target[np.arange(n), action], (target / acted)[np.arange(n), action]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    for labels in (None, episode, np.array([f"e{k:05d}" for k in episode])):
        ratios = estimated_ratios(X, action, target, pipeline, episode=labels)
        assert np.abs(np.log(ratios / true)).mean() < 0.1
        assert abs(ratios.mean() - 1) < 0.1
        for name, of in ((action, own), (np.array(["a", "b", "c"])[action], target)):
            again = estimated_ratios(X, name, of, pipeline, episode=labels)
            np.testing.assert_allclose(again, ratios)
    assert not hasattr(pipeline[-1], "coef_")  # a clone was fitted
