"""Logs that are valid and look like a mistake: fits warn of what would give a wrong
answer in silence."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from value_logs import messages, some, walk, walk_on_states

from sk_stormc import ActionValueEstimator, BellmanValueEstimator, off_policy_value

N = 5


def value(**params):
    return BellmanValueEstimator(0.9, fit_intercept=False, **params)


@pytest.mark.filterwarnings("ignore:the value is from 200 episodes")
def test_ratios_that_are_swapped_or_miss_actions_warn():
    parts, action = walk_on_states(200)
    right, first = np.where(action == 0, 0.9, 0.1) / 0.5, action == 0
    for ratio in (right, np.where(first, 0.7, 0.3) / 0.5):
        assert not messages(value().fit, **parts, importance_ratio=ratio)
    text = "importance_ratio is .* on average, but should be about 1"
    for wrong in (1 / right, np.full(len(right), 2.0), np.where(first, 0.5, 0.0)):
        with pytest.warns(UserWarning, match=text):
            value().fit(**parts, importance_ratio=wrong)
        with pytest.warns(UserWarning, match=text):
            off_policy_value(parts["y"], wrong, parts["episode"])
    one = np.where(np.arange(len(action)) == 3, 1e200, 1.0)
    with pytest.warns(UserWarning, match="effective sample size is 1:"):
        value().fit(**parts, importance_ratio=one)


def test_small_differences_of_ratios_from_1_warn():
    """Ratios that are swapped between near policies, and products in place of ratios,
    whose mean is 1 in each row."""
    parts, action = walk_on_states(400)
    right = np.where(action == 0, 0.6, 0.4) / 0.5
    assert not messages(value().fit, **parts, importance_ratio=right)
    with pytest.warns(UserWarning, match="is 1.0. on average, but should be about 1"):
        value().fit(**parts, importance_ratio=1 / right)
    ratio = np.random.default_rng(0).choice([0.8, 1.2], size=2000)
    products, episode = (
        np.cumprod(ratio.reshape(500, 4), axis=1).ravel(),
        np.arange(2000),
    )
    assert not messages(off_policy_value, ratio, ratio, episode // 4)
    with pytest.warns(UserWarning, match="is 1.* on average, but should be"):
        off_policy_value(ratio, products, episode // 4)


def test_a_chunk_without_terminal_after_one_with_it_warns():
    parts, _ = walk_on_states(60)
    stream, rest = value().partial_fit(**some(parts, slice(100))), slice(100, None)
    assert not messages(copy.deepcopy(stream).partial_fit, **some(parts, rest))
    with pytest.warns(UserWarning, match="terminal was given before, and is None here"):
        stream.partial_fit(**some(parts, rest, "terminal"))


def test_successors_of_which_nothing_is_known_warn():
    parts, _ = walk_on_states(60)
    seen, ends = parts["X"][:, 2] == 0, parts["terminal"] | (parts["next_X"][:, 2] > 0)
    with pytest.warns(UserWarning, match="successors have a feature that no row of X"):
        value().fit(**some(parts, seen))
    known = some(parts | {"terminal": ends}, seen, "episode")
    assert not messages(value().fit, **known)


def test_a_log_that_does_not_tell_actions_apart_warns():
    parts, action = walk_on_states(200)
    ones, endless = np.ones(len(action)), {"terminal": action < 0}
    q = ActionValueEstimator(gamma=0.9, fit_intercept=False)
    cut = some(parts, slice(None), "episode") | endless | {"action": action}
    contexts = {"X": parts["X"], "y": ones, "action": action, "terminal": ones > 0}
    right = some(parts | {"action": action}, action == 1, "episode")
    text = "does not tell which action is better: all rewards are"
    for log, message in (
        (cut | {"y": ones}, f"{text} 1 and no episode ends"),
        (cut | {"y": 0 * ones}, f"{text} 0, so that"),
        (contexts, "all rewards are 1 and each row ends an episode"),
        (right, "action is 1 in all rows that count: there is no other action to"),
    ):
        with pytest.warns(UserWarning, match=message):
            q.fit(**log)
    q.set_params(policy=[1] * N)
    assert not messages(q.fit, **cut | {"y": ones})
    q.set_params(policy="greedy")
    # the longer an episode, the better
    assert not messages(q.fit, **parts | {"y": ones}, action=action)
    assert not messages(q.fit, **cut)


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler((-2, 2))])
def test_a_pipeline_that_leaves_next_X_warns(scaler):
    parts, text = some(walk(d=2), slice(None), "terminal"), "have different scales"
    pipeline = Pipeline([("scale", scaler), ("value", value(objective="projected"))])
    with pytest.warns(UserWarning, match=f"next_X and X {text}: in column 0"):
        pipeline.fit(parts["X"], parts["y"], value__next_X=parts["next_X"])
    with pytest.warns(UserWarning, match=text):
        value().partial_fit(**parts | {"X": scaler.transform(parts["X"])})
    scaled = parts | {name: scaler.transform(parts[name]) for name in ("X", "next_X")}
    shuffled = some(parts, np.random.default_rng(3).permutation(600))
    for log in (parts, scaled, shuffled, some(parts, slice(1))):
        assert not messages(value(alpha=1e-6).fit, **log)


def cells(limit, n_cells=100, n=2100):
    """Indicators of cells on a ring, left in one of four steps: episodes begin
    anywhere, and are cut at ``limit``."""
    rng = np.random.default_rng(0)
    moves, starts = rng.integers(4, size=n) == 0, rng.integers(n_cells, size=n)
    left, came, cell = np.zeros(n, int), np.zeros(n, int), 0
    for k in range(n):
        left[k] = cell = starts[k] if k % limit == 0 else cell
        came[k] = cell = (cell + moves[k]) % n_cells
    return np.eye(n_cells)[left], np.eye(n_cells)[came]


def of_scales(X, next_X, terminal=None):
    fit = value(alpha=1e-3, objective="projected").fit
    seen = messages(fit, X, X[:, 0], next_X=next_X, terminal=terminal)
    return sum("different scales" in message for message in seen)


def test_indicators_of_which_only_one_side_was_scaled_warn():
    """What is rare in such a log is a one, and where an episode was cut off it has
    another successor."""
    (X, next_X), rng = cells(limit=10), np.random.default_rng(0)
    scaler, ends = StandardScaler().fit(X), rng.random(len(X)) < 0.02
    left, came = scaler.transform(X), scaler.transform(next_X)
    assert of_scales(left, next_X, ends) == of_scales(X, came) == 1
    assert not of_scales(left, came, ends)
    beside = np.arange(len(X)).reshape(10, -1).T.ravel()  # ten environments, row by row
    for rows in (slice(None), rng.permutation(len(X)), beside):
        assert not of_scales(X[rows], next_X[rows])


def test_successors_with_other_values_than_states_warn():
    """Rows of episodes of two steps without their last rows, in which no row follows
    another."""
    rng = np.random.default_rng(0)
    X, next_X = np.eye(4)[rng.integers(4, size=(2, 300))]
    scaler, y = StandardScaler().fit(X), rng.normal(size=300)
    left, came = scaler.transform(X), scaler.transform(next_X)
    fit = value(alpha=1e-3).fit
    with pytest.warns(UserWarning, match="range of X in column ., or has other values"):
        fit(left, y, next_X=next_X)
    for before, after in ((X, next_X), (left, came)):
        assert not messages(fit, before, y, next_X=np.float32(after))


@pytest.mark.filterwarnings("ignore:next_X and X have different scales")
def test_successors_that_were_not_scaled_as_X_warn():
    X = 100 + 3 * np.cumsum(np.random.default_rng(0).normal(size=(401, 2)), axis=0)
    X, next_X, y = X[:-1], X[1:].copy(), X[:-1, 0]
    next_X[3] = 1e6  # a single outlier neither hides nor makes it
    estimator = BellmanValueEstimator(0.9)
    assert not messages(estimator.fit, X, y, next_X=next_X)
    pipeline = Pipeline([("scale", StandardScaler()), ("value", estimator)])
    with pytest.warns(UserWarning, match=r"range of X in column \d.*features="):
        pipeline.fit(X, y, value__next_X=next_X)


@pytest.mark.parametrize("n", [2, 400])
@pytest.mark.parametrize("kind", ["walk", "drifting", "indicators", "heavy tails"])
def test_ordinary_successors_do_not_warn(kind, n):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        steps = rng.standard_normal((n + 1, 3)) + (kind == "drifting")
        if kind == "heavy tails":
            steps = rng.standard_t(1.5, (n + 1, 3))
        states = np.cumsum(steps, axis=0)
        if kind == "indicators":
            states = np.eye(3)[rng.integers(3, size=n + 1)]
        fit = BellmanValueEstimator(0.9, alpha=0.1).fit
        assert not messages(fit, states[:-1], np.ones(n), next_X=states[1:])


def test_numbers_of_states_warn():
    states, y = np.random.default_rng(0).integers(16, size=(301, 1)), np.ones(300)
    plain = BellmanValueEstimator(0.9, "lstd")
    for fit in (plain.fit, clone(plain).partial_fit):
        with pytest.warns(UserWarning, match="16 integers that .*OneHotEncoder"):
            fit(states[:-1], y, next_X=states[1:])
    rows, several = np.arange(301)[:, None], np.hstack([states, states**2])
    for other in (states + 0.5, states % 2, rows, several):
        assert not messages(plain.fit, other[:-1], y, next_X=other[1:])
    plain.set_params(features=OneHotEncoder())
    assert not messages(plain.fit, states[:-1], y, next_X=states[1:])


def growing(growth, seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    next_X = X * [growth, 0.5, 0.9] + 0.3 * rng.standard_normal((n, 3))
    return {"X": X, "y": X[:, 0] + 0.1 * rng.standard_normal(n), "next_X": next_X}


def endless(call, **given):
    return any("do not exist" in message for message in messages(call, **given))


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_growth_beyond_the_discount_warns(solver):
    for seed in range(3):
        for gamma, growth, warns in ((0.9, 1.2, 1), (0.9, 1.02, 0), (0.7, 1.2, 0)):
            value = BellmanValueEstimator(gamma, solver, random_state=0)
            assert endless(value.fit, **growing(growth, seed)) == warns
    log = growing(1.3)
    q = ActionValueEstimator(lambda X: np.zeros(len(X), int), 0.9, solver)
    assert endless(q.fit, **log, action=np.zeros(600, int))
    if solver == "lstd":
        assert endless(BellmanValueEstimator(0.9, trace_decay=0.5).fit, **log)
        # no reward grows
        constant = log | {"y": np.full(600, -1.0)}
        assert not endless(BellmanValueEstimator(0.9).fit, **constant)


def test_growth_in_rotations_warns():
    """The eigenvalues of a rotation are complex."""
    turn = np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
    for growth, warns in ((1.0, False), (1.2, True)):
        X, noise = np.random.default_rng(0).standard_normal((2, 600, 2))
        log = {"X": X, "y": X[:, 0], "next_X": growth * X @ turn + 0.3 * noise}
        assert endless(BellmanValueEstimator(0.9).fit, **log) == warns


def test_few_rows_say_nothing_of_growth():
    stream = BellmanValueEstimator(0.9)
    for call in (clone(stream).fit, stream.partial_fit):
        assert not endless(call, **growing(1.3, n=20))
    assert endless(stream.partial_fit, **growing(1.3, 1))
