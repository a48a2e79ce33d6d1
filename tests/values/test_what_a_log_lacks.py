"""Logs that lack ends, last successors or rows: values are right, or the fit says what
is missing."""

import numpy as np
import pytest
from helpers import slow_but
from value_logs import draw, fed, messages, some

from sk_stormc import ActionValueEstimator, BellmanValueEstimator, off_policy_value
from sk_stormc.datasets import transitions_from_arrays, transitions_from_episodes

GAMMA, N = 0.9, 3
# the rest ends the episode
CHANCES = np.random.default_rng(5).dirichlet(np.ones(N), size=(N, 2)) * 0.7
REWARDS = np.array([[-1.0, -0.5], [-2.0, 0.0], [-1.0, -1.0]])
P = CHANCES.mean(axis=1)
TRUTH = np.linalg.solve(np.eye(N) - GAMMA * P, REWARDS.mean(axis=1))
NAMES = "X", "y", "next_X", "terminal", "episode"


def log_of(m, seed, cut=None):
    """m episodes of a policy that takes both actions alike, which may be cut off:
    columns, and steps."""
    parts = draw(m, seed, CHANCES, REWARDS, np.ones(2) / 2, 0.1, cut)
    return {name: parts[name] for name in NAMES}, parts["time"], parts["action"]


def tabular(**params):
    return BellmanValueEstimator(GAMMA, fit_intercept=False, **params)


def cut_at_three(m, seed):
    parts, _, _ = log_of(m, seed, cut=3)
    return some(parts, slice(None), "next_X")


def cut_at_random(m, seed):
    """With a probability of .4 after each step."""
    parts, step, _ = log_of(m, seed)
    limit = np.random.default_rng(seed + 1000).geometric(0.4, m)
    return some(parts, step < limit[parts["episode"]], "next_X")


def with_lost_rows(m, seed):
    """30 % of the rows are missing, which times within episodes show."""
    parts, step, _ = log_of(m, seed)
    found = np.random.default_rng(seed + 1000).random(len(step)) < 0.7
    return some(parts | {"time": step}, found, "next_X")


def with_lost_rows_of_one_clock(m, seed):
    """The same without labels: there is a gap after each episode too."""
    parts = with_lost_rows(m, seed)
    return some(
        parts | {"time": 1000 * parts["episode"] + parts["time"]},
        slice(None),
        "episode",
    )


def from_arrays(m, seed):
    """As in D4RL, with timeouts after random steps."""
    parts = cut_at_random(m, seed)
    last = np.append(np.diff(parts["episode"]) > 0, True)
    log = transitions_from_arrays(
        parts["X"],
        np.zeros(len(last), int),
        parts["y"],
        parts["terminal"],
        last & ~parts["terminal"],
    )
    return {name: log[name] for name in (*NAMES, "sample_weight")}


def from_episodes(m, seed):
    """Recorded episodes that were cut off after three steps, without the last
    observation."""
    parts, last = cut_at_three(m, seed), []
    for k in range(m):
        rows = parts["episode"] == k
        ends = parts["terminal"][rows]
        last.append(
            (parts["X"][rows], np.zeros(rows.sum(), int), parts["y"][rows], ends)
        )
    log = transitions_from_episodes(last)
    return {name: log[name] for name in NAMES}


LOGS = [
    cut_at_three,
    cut_at_random,
    with_lost_rows,
    with_lost_rows_of_one_clock,
    from_arrays,
    from_episodes,
]


@pytest.mark.filterwarnings(
    "ignore:.* steps have no successor, because episodes were cut off"
)
@pytest.mark.parametrize("log", LOGS)
def test_values_are_right_where_the_last_successors_are_missing(log):
    """Ends are always seen, and would count too much beside rows whose successors are
    not."""
    errors = np.array(
        [
            tabular().fit(**log(150, seed)).predict(np.eye(N)) - TRUTH
            for seed in range(40)
        ]
    )
    assert (abs(errors.mean(axis=0)) < 4.5 * errors.std(axis=0) / np.sqrt(40)).all()


@pytest.mark.parametrize("log", slow_but(LOGS[:3], LOGS[0]))
def test_intervals_hold_where_the_last_successors_are_missing(log):
    within = []
    for seed in range(60):
        low, high = (
            tabular(objective="projected")
            .fit(**log(150, seed))
            .value_interval(np.eye(N))
            .T
        )
        within.append((low < TRUTH) & (high > TRUTH))
    assert 0.8 < np.mean(within) < 0.97


def test_values_of_actions_are_right_too():
    policy, errors = np.full((N, 2), 0.5), []
    exact = REWARDS + GAMMA * CHANCES @ TRUTH
    for seed in range(40):
        parts, _, action = log_of(150, seed, cut=3)
        q = ActionValueEstimator(
            lambda X: policy[X.argmax(axis=1)], GAMMA, fit_intercept=False
        )
        errors.append(
            q.fit(**some(parts, slice(None), "next_X"), action=action).predict(
                np.eye(N)
            )
            - exact
        )
    errors = np.array(errors)
    assert (abs(errors.mean(axis=0)) < 4.5 * errors.std(axis=0) / np.sqrt(40)).all()


def test_ends_count_as_the_known_outcomes_of_their_step():
    """Of three episodes that do not end in step 0 one is cut off there, and of two in
    step 1 the one that goes on."""
    X, y = np.eye(2)[[0, 0, 0, 0, 1, 1]], np.array([0.0, 1.0, 0.0, 0.0, 9.0, 0.0])
    columns = {
        "terminal": np.isin(np.arange(6), [1, 4]),
        "episode": [0, 1, 2, 3, 0, 2],
        "time": [0, 0, 0, 0, 1, 1],
    }
    value = tabular().fit(X, y, **columns)
    # nothing is known of state 1
    assert value.predict(X[:1])[0] == pytest.approx((2 / 3) / (2 + 2 / 3))
    error = value.td_error(X, y, **columns)
    assert list(np.isnan(error)) == [False, False, False, True, False, True]
    assert value.score(X, y, **columns) == pytest.approx(
        -np.average(error[:3] ** 2, weights=[1, 2 / 3, 1])
    )
    without = tabular().fit(X, y, **columns, sample_weight=[1, 1, 1, 0, 1, 1])
    assert without.predict(X[:1])[0] == pytest.approx(1 / 3)


def test_a_stream_says_what_it_cannot_correct():
    text = (
        "% of the rows that are not terminal have no successor, because episodes were "
        "cut off"
    )
    # their next rows might still come
    at_once = messages(tabular().partial_fit, **cut_at_three(200, 0))
    assert sum(text in message for message in at_once) == 1
    parts = some(log_of(200, 0)[0], slice(None), "next_X")
    assert not messages(fed, tabular(), 100, **parts)
    short = cut_at_three(200, 0)
    assert (
        sum(text in message for message in messages(fed, tabular(), 100, **short)) == 1
    )
    assert not messages(fed, tabular(), 100, **log_of(200, 0, cut=3)[0])
    alone = some(short, slice(None), "episode") | {
        "episode": np.arange(len(short["y"]))
    }
    alone["terminal"] = np.zeros(len(short["y"]), dtype=bool)
    lost = tabular()
    assert (
        sum(f"100.0{text}" in message for message in messages(fed, lost, 100, **alone))
        == 1
    )
    with pytest.raises(
        ValueError, match="at least 2 different labels for uncertainty, got 0"
    ):
        lost.predict(np.eye(N), return_std=True)
    never = short | {"terminal": np.zeros(len(short["y"]), dtype=bool)}
    assert not messages(fed, tabular(), 100, **never)  # then no outcome counts too much


def test_ends_that_were_forgotten_warn():
    parts, step, action = log_of(60, 1)
    columns = some(parts, slice(None), "terminal")
    timed = some(columns, slice(None), "next_X", "episode") | {
        "time": 1000 * parts["episode"] + step
    }
    no_ends = {"terminal": np.zeros(len(step), dtype=bool)}
    q = ActionValueEstimator([0] * N, GAMMA, fit_intercept=False).fit
    for log, then in (
        (columns, "continue from their last next_X"),
        (some(columns, slice(None), "next_X"), "the last row of each is dropped"),
        (timed, "the last row of each is dropped"),
    ):
        text = f"terminal was not given: all episodes count as cut off, and {then}"
        for fit, more in (
            (tabular().fit, {}),
            (tabular().partial_fit, {}),
            (q, {"action": action}),
        ):
            assert sum(text in message for message in messages(fit, **log, **more)) == 1
        for fit, more in (
            (tabular().fit, {}),
            (tabular().partial_fit, {}),
            (q, {"action": action}),
        ):
            assert not any(
                text in message for message in messages(fit, **log, **more, **no_ends)
            )
    stream = tabular().partial_fit(**some(columns, slice(100)))
    # it was said
    assert not messages(stream.partial_fit, **some(columns, slice(100, None)))
    in_one = some(timed, slice(None), "time") | {"time": np.arange(len(step))}
    assert not messages(tabular().fit, **in_one)


def test_ends_that_were_forgotten_in_the_value_of_a_policy():
    parts, _, action = log_of(60, 2)
    log = some(parts, slice(None), "terminal") | {
        "action": action,
        "importance_ratio": np.ones(len(action)),
    }
    target = np.full((N, 2), 0.5)
    for method in ("dr", "wdr"):
        with pytest.warns(
            UserWarning, match="terminal was not given: all episodes count as cut off"
        ):
            off_policy_value(**log, gamma=GAMMA, method=method, target=target)
        with pytest.raises(
            ValueError, match=r"next_X must be given .* If episodes end, pass terminal"
        ):
            off_policy_value(
                **some(log, slice(None), "next_X"),
                gamma=GAMMA,
                method=method,
                target=target,
            )
        with pytest.raises(
            ValueError,
            match=r"target must be a function of states .* If episodes end, pass "
            r"terminal",
        ):
            off_policy_value(
                **log,
                gamma=GAMMA,
                method=method,
                target=target[parts["X"].argmax(axis=1)],
            )
    # ends play no role
    assert not messages(
        off_policy_value, log["y"], log["importance_ratio"], log["episode"]
    )


def test_rows_without_any_successor_are_refused():
    """Only ends would be left, as if each step ended the episode."""
    parts, step, _ = log_of(30, 3)
    columns = some(parts, slice(None), "next_X")
    text = (
        "got no successor of the .* rows that are not terminal. time must increase by 1"
    )
    for time in (10 * step, 10 * np.arange(len(step))):
        with pytest.raises(ValueError, match=text):
            tabular().fit(**columns | {"time": time})
    for method in ("fit", "partial_fit"):
        with pytest.raises(
            ValueError,
            match="next_X must be given for transitions that are not terminal, or "
            "time or",
        ):
            getattr(tabular(), method)(
                parts["X"], parts["y"], terminal=parts["terminal"]
            )
    first = some(columns, step == 0)
    with pytest.raises(ValueError, match="episodes of one row need next_X or terminal"):
        tabular().fit(**some(first, slice(None), "terminal"))


def test_rows_that_are_missing_within_episodes_warn_off_policy():
    parts, step, _ = log_of(60, 4)
    found = np.random.default_rng(0).random(len(step)) < 0.7
    columns = {
        "y": parts["y"],
        "importance_ratio": np.ones(len(step)),
        "episode": parts["episode"],
        "time": step,
    }
    assert not messages(off_policy_value, **columns)
    with pytest.warns(
        UserWarning,
        match="time has .* gaps within episodes, and rows that are missing there",
    ):
        off_policy_value(**some(columns, found))


def test_arrays_say_that_their_log_has_weights():
    with pytest.warns(
        UserWarning,
        match="pass sample_weight=log.sample_weight to fit, or give next_observations",
    ):
        log = from_arrays(100, 0)
    assert (log["sample_weight"][~log["terminal"]] == 1).all() and (
        log["sample_weight"] > 0
    ).all()
    assert log["sample_weight"].min() < 0.9
    assert "sample_weight" not in transitions_from_arrays(
        np.eye(3), [0] * 3, [0.0] * 3, [0, 0, 1]
    )
