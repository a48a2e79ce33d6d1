"""Logs that are valid and look like a mistake: fits warn of what would give a wrong
answer in silence."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from value_logs import messages, some, walk, walk_on_states

from sk_stormc import ActionValueEstimator, BellmanValueEstimator, off_policy_value

N, STATES = 5, np.eye(5)


def value(**params):
    return BellmanValueEstimator(0.9, fit_intercept=False, **params)


@pytest.mark.filterwarnings("ignore:the value is from 200 episodes")
def test_ratios_that_are_swapped_or_miss_actions_warn():
    parts, action = walk_on_states(200)
    right = np.where(action == 0, 0.9, 0.1) / 0.5
    for ratio in (right, np.where(action == 0, 0.7, 0.3) / 0.5):
        assert not messages(value().fit, **parts, importance_ratio=ratio)
    for wrong in (1 / right, np.full(len(right), 2.0), np.where(action == 0, 0.5, 0.0)):
        with pytest.warns(
            UserWarning,
            match="importance_ratio is .* on average, but should be about 1",
        ):
            value().fit(**parts, importance_ratio=wrong)
        with pytest.warns(
            UserWarning,
            match="importance_ratio is .* on average, but should be about 1",
        ):
            off_policy_value(parts["y"], wrong, parts["episode"])
    with pytest.warns(UserWarning, match="effective sample size is 1:"):
        value().fit(
            **parts, importance_ratio=np.where(np.arange(len(action)) == 3, 1e200, 1.0)
        )


def test_small_differences_of_ratios_from_1_warn():
    """Ratios that are swapped between near policies, and products in place of ratios,
    whose mean is 1 in each row."""
    parts, action = walk_on_states(400)
    right = np.where(action == 0, 0.6, 0.4) / 0.5
    assert not messages(value().fit, **parts, importance_ratio=right)
    with pytest.warns(
        UserWarning, match="importance_ratio is 1.0. on average, but should be about 1"
    ):
        value().fit(**parts, importance_ratio=1 / right)
    rng = np.random.default_rng(0)
    ratio, episode = rng.choice([0.8, 1.2], size=2000), np.repeat(np.arange(500), 4)
    products = np.cumprod(ratio.reshape(500, 4), axis=1).ravel()
    assert not messages(off_policy_value, ratio, ratio, episode)
    with pytest.warns(
        UserWarning,
        match="is 1.* on average, but should be",
    ):
        off_policy_value(ratio, products, episode)


def test_a_chunk_without_terminal_after_one_with_it_warns():
    parts, _ = walk_on_states(60)
    stream = value().partial_fit(**some(parts, slice(100)))
    with pytest.warns(UserWarning, match="terminal was given before, and is None here"):
        stream.partial_fit(**some(parts, slice(100, None), "terminal"))
    assert not messages(
        value().partial_fit(**some(parts, slice(100))).partial_fit,
        **some(parts, slice(100, None)),
    )


def test_successors_of_which_nothing_is_known_warn():
    parts, _ = walk_on_states(60)
    seen, ends = parts["X"][:, 2] == 0, parts["terminal"] | (parts["next_X"][:, 2] > 0)
    with pytest.warns(
        UserWarning, match="of the successors have a feature that no row of X has"
    ):
        value().fit(**some(parts, seen))
    assert not messages(
        value().fit, **some(parts | {"terminal": ends}, seen, "episode")
    )


def test_a_log_that_does_not_tell_actions_apart_warns():
    parts, action = walk_on_states(200)
    ones = np.ones(len(action))
    greedy = ActionValueEstimator(gamma=0.9, fit_intercept=False)
    endless, text = (
        some(parts, slice(None), "y", "episode") | {"terminal": ones < 0},
        "does not tell which action is better: all ",
    )
    with pytest.warns(UserWarning, match=f"{text}rewards are 1 and no episode ends"):
        greedy.fit(**endless, y=ones, action=action)
    assert np.ptp(greedy.predict(STATES), axis=1).max() < 1e-9
    with pytest.warns(UserWarning, match=f"{text}rewards are 0, so that"):
        greedy.fit(**endless, y=0 * ones, action=action)
    with pytest.warns(
        UserWarning, match="all rewards are 1 and each row ends an episode"
    ):
        greedy.fit(parts["X"], ones, action=action, terminal=ones > 0)
    with pytest.warns(
        UserWarning,
        match="action is 1 in all rows that count: there is no other action to choose",
    ):
        greedy.fit(**some(parts, action == 1, "episode"), action=action[action == 1])
    # the longer an episode, the better
    assert not messages(greedy.fit, **parts | {"y": ones}, action=action)
    cut = some(parts, slice(None), "episode") | {"terminal": ones < 0}
    assert not messages(greedy.fit, **cut, action=action)
    assert not messages(
        greedy.set_params(policy=[1] * N).fit, **endless, y=ones, action=action
    )


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler((-2, 2))])
def test_a_pipeline_that_leaves_next_X_warns(scaler):
    parts = some(walk(d=2), slice(None), "terminal")
    pipeline = make_pipeline(scaler, value(objective="projected"))
    with pytest.warns(
        UserWarning, match="next_X and X have different scales: in column 0"
    ):
        pipeline.fit(
            parts["X"], parts["y"], bellmanvalueestimator__next_X=parts["next_X"]
        )
    stream = value()
    with pytest.warns(UserWarning, match="next_X and X have different scales"):
        stream.partial_fit(**parts | {"X": scaler.transform(parts["X"])})
    scaled = parts | {name: scaler.transform(parts[name]) for name in ("X", "next_X")}
    for log in (
        parts,
        scaled,
        some(parts, np.random.default_rng(3).permutation(600)),
        some(parts, slice(1)),
    ):
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
    seen = messages(
        value(alpha=1e-3, objective="projected").fit,
        X,
        X[:, 0],
        next_X=next_X,
        terminal=terminal,
    )
    return sum("different scales" in message for message in seen)


def test_indicators_of_which_only_one_side_was_scaled_warn():
    """What is rare in such a log is a one, and where an episode was cut off it has
    another successor."""
    X, next_X = cells(limit=10)
    scaler, ends = (
        StandardScaler().fit(X),
        np.random.default_rng(0).random(len(X)) < 0.02,
    )
    assert (
        of_scales(scaler.transform(X), next_X, ends)
        == of_scales(X, scaler.transform(next_X))
        == 1
    )
    order, beside = (
        np.random.default_rng(0).permutation(len(X)),
        np.arange(len(X)).reshape(10, -1).T.ravel(),
    )
    for rows in (
        slice(None),
        order,
        beside,
    ):  # the last has ten environments, row by row
        assert not of_scales(X[rows], next_X[rows])
    assert not of_scales(scaler.transform(X), scaler.transform(next_X), ends)


def test_successors_with_other_values_than_states_warn():
    """Rows of episodes of two steps without their last rows, in which no row follows
    another."""
    rng = np.random.default_rng(0)
    X, next_X = (
        np.eye(4)[rng.integers(4, size=300)],
        np.eye(4)[rng.integers(4, size=300)],
    )
    scaler, y = StandardScaler().fit(X), rng.normal(size=300)
    with pytest.warns(
        UserWarning,
        match="next_X is far outside the range of X in column ., or has other values",
    ):
        value(alpha=1e-3).fit(scaler.transform(X), y, next_X=next_X)
    for before, after in (
        (X, next_X),
        (scaler.transform(X), scaler.transform(next_X)),
    ):
        assert not messages(value(alpha=1e-3).fit, before, y, next_X=np.float32(after))


@pytest.mark.filterwarnings("ignore:next_X and X have different scales")
def test_successors_that_were_not_scaled_as_X_warn():
    rng = np.random.default_rng(0)
    X = 100 + 3 * np.cumsum(rng.normal(size=(401, 2)), axis=0)
    X, next_X, y = X[:-1], X[1:].copy(), X[:-1, 0]
    next_X[3] = 1e6  # a single outlier neither hides nor makes it
    estimator = BellmanValueEstimator(0.9)
    assert not messages(estimator.fit, X, y, next_X=next_X)
    pipeline = Pipeline([("scale", StandardScaler()), ("value", estimator)])
    with pytest.warns(
        UserWarning,
        match=r"next_X is far outside the range of X in column \d.*features=",
    ):
        pipeline.fit(X, y, value__next_X=next_X)


@pytest.mark.parametrize("n", [2, 400])
@pytest.mark.parametrize("kind", ["walk", "drifting", "indicators", "heavy tails"])
def test_ordinary_successors_do_not_warn(kind, n):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        steps = (
            rng.standard_t(1.5, (n + 1, 3))
            if kind == "heavy tails"
            else rng.standard_normal((n + 1, 3))
        )
        states = np.cumsum(steps + (kind == "drifting"), axis=0)
        states = (
            np.eye(3)[rng.integers(3, size=n + 1)] if kind == "indicators" else states
        )
        assert not messages(
            BellmanValueEstimator(0.9, alpha=0.1).fit,
            states[:-1],
            np.ones(n),
            next_X=states[1:],
        )


def test_numbers_of_states_warn():
    states, y = np.random.default_rng(0).integers(16, size=(301, 1)), np.ones(300)
    plain = BellmanValueEstimator(0.9, "lstd")
    for fit in (plain.fit, clone(plain).partial_fit):
        with pytest.warns(
            UserWarning, match="one column, of 16 integers that repeat.*OneHotEncoder"
        ):
            fit(states[:-1], y, next_X=states[1:])
    rows = np.arange(301)[:, None]
    for other in (states + 0.5, states % 2, rows, np.hstack([states, states**2])):
        assert not messages(plain.fit, other[:-1], y, next_X=other[1:])
    assert not messages(
        clone(plain).set_params(features=OneHotEncoder()).fit,
        states[:-1],
        y,
        next_X=states[1:],
    )


def growing(growth, seed=0, n=600):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return (
        X,
        X[:, 0] + 0.1 * rng.standard_normal(n),
        X * [growth, 0.5, 0.9] + 0.3 * rng.standard_normal((n, 3)),
    )


def endless(call, *given, **more):
    return sum("do not exist" in message for message in messages(call, *given, **more))


@pytest.mark.parametrize("solver", ["lstd", "storm-c"])
def test_growth_beyond_the_discount_warns(solver):
    for seed in range(4):
        for gamma, growth, expected in ((0.9, 1.2, 1), (0.9, 1.02, 0), (0.7, 1.2, 0)):
            X, y, next_X = growing(growth, seed)
            assert (
                endless(
                    BellmanValueEstimator(gamma, solver, random_state=0).fit,
                    X,
                    y,
                    next_X=next_X,
                )
                == expected
            )
    X, y, next_X = growing(1.3)
    q = ActionValueEstimator(lambda X: np.zeros(len(X), int), 0.9, solver)
    assert endless(q.fit, X, y, action=np.zeros(len(X), int), next_X=next_X)
    if solver == "lstd":
        assert endless(
            BellmanValueEstimator(0.9, trace_decay=0.5).fit, X, y, next_X=next_X
        )
        # no reward grows
        assert not endless(
            BellmanValueEstimator(0.9).fit, X, np.full(len(X), -1.0), next_X=next_X
        )


@pytest.mark.parametrize("growth, expected", [(1.0, 0), (1.2, 1)])
def test_growth_in_rotations_warns(growth, expected):
    """The eigenvalues of a rotation are complex."""
    turn = growth * np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, noise = rng.standard_normal((2, 600, 2))
        assert (
            endless(
                BellmanValueEstimator(0.9).fit,
                X,
                X[:, 0],
                next_X=X @ turn + 0.3 * noise,
            )
            == expected
        )


def test_few_rows_say_nothing_of_growth():
    X, y, next_X = growing(1.3, n=20)
    stream = BellmanValueEstimator(0.9)
    assert not endless(clone(stream).fit, X, y, next_X=next_X)
    assert not endless(stream.partial_fit, X, y, next_X=next_X)
    X, y, next_X = growing(1.3, 1)
    assert endless(stream.partial_fit, X, y, next_X=next_X)
