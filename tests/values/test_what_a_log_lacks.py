"""Logs that lack ends, last successors or rows: values are right, or the fit says what
is missing."""

import numpy as np
import pytest
from helpers import slow_but
from sklearn.base import clone
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


def without_successors(parts, rows=slice(None)):
    return some(parts, rows, "next_X")


def tabular(**params):
    return BellmanValueEstimator(GAMMA, fit_intercept=False, **params)


def cut_at_three(m, seed):
    return without_successors(log_of(m, seed, cut=3)[0])


def cut_at_random(m, seed):
    """With a probability of .4 after each step."""
    parts, step, _ = log_of(m, seed)
    limit = np.random.default_rng(seed + 1000).geometric(0.4, m)
    return without_successors(parts, step < limit[parts["episode"]])


def with_lost_rows(m, seed):
    """30 % of the rows are missing, which times within episodes show."""
    parts, step, _ = log_of(m, seed)
    found = np.random.default_rng(seed + 1000).random(len(step)) < 0.7
    return without_successors(parts | {"time": step}, found)


def with_lost_rows_of_one_clock(m, seed):
    """The same without labels: there is a gap after each episode too."""
    parts = with_lost_rows(m, seed)
    parts["time"] = 1000 * parts.pop("episode") + parts["time"]
    return parts


def from_arrays(m, seed):
    """As in D4RL, with timeouts after random steps."""
    parts = cut_at_random(m, seed)
    X, y, ends, episode = (parts[name] for name in ("X", "y", "terminal", "episode"))
    cut = np.append(np.diff(episode) > 0, True) & ~ends
    log = transitions_from_arrays(X, np.zeros(len(y), int), y, ends, cut)
    return {name: log[name] for name in (*NAMES, "sample_weight")}


def from_episodes(m, seed):
    """Recorded episodes that were cut off after three steps, without the last
    observation."""
    parts = cut_at_three(m, seed)
    places = np.flatnonzero(np.diff(parts["episode"])) + 1
    X, y, ends = (np.split(parts[name], places) for name in ("X", "y", "terminal"))
    actions = [np.zeros(len(part), int) for part in y]
    log = transitions_from_episodes(list(zip(X, actions, y, ends, strict=True)))
    return {name: log[name] for name in NAMES}


LOGS = [cut_at_three, cut_at_random, with_lost_rows, with_lost_rows_of_one_clock]
LOGS += [from_arrays, from_episodes]


def check_unbiased(errors):
    """The mean error is not above its own standard error by much."""
    errors = np.array(errors)
    limit = 4.5 * errors.std(axis=0) / np.sqrt(len(errors))
    assert (abs(errors.mean(axis=0)) < limit).all()


@pytest.mark.filterwarnings(
    "ignore:.* steps have no successor, because episodes were cut off"
)
@pytest.mark.parametrize("log", LOGS)
def test_values_are_right_where_the_last_successors_are_missing(log):
    """Ends are always seen, and would count too much beside rows whose successors are
    not."""
    fits = [tabular().fit(**log(100, seed)) for seed in range(25)]
    check_unbiased([value.predict(np.eye(N)) - TRUTH for value in fits])


@pytest.mark.parametrize("log", slow_but(LOGS[:3], LOGS[0]))
def test_intervals_hold_where_the_last_successors_are_missing(log):
    within = []
    for seed in range(40):
        value = tabular(objective="projected").fit(**log(150, seed))
        low, high = value.value_interval(np.eye(N)).T
        within.append((low < TRUTH) & (high > TRUTH))
    assert 0.8 < np.mean(within) < 0.97


def test_values_of_actions_are_right_too():
    exact, errors = REWARDS + GAMMA * CHANCES @ TRUTH, []
    for seed in range(25):
        parts, _, action = log_of(100, seed, cut=3)
        q = ActionValueEstimator(np.full((N, 2), 0.5), GAMMA, fit_intercept=False)
        q.fit(**without_successors(parts), action=action)
        errors.append(q.predict(np.eye(N)) - exact)
    check_unbiased(errors)


def test_ends_count_as_the_known_outcomes_of_their_step():
    """Of three episodes that do not end in step 0 one is cut off there, and of two in
    step 1 the one that goes on."""
    X, y = np.eye(2)[[0, 0, 0, 0, 1, 1]], np.array([0.0, 1.0, 0.0, 0.0, 9.0, 0.0])
    columns = {"episode": [0, 1, 2, 3, 0, 2], "time": [0, 0, 0, 0, 1, 1]}
    columns["terminal"] = np.isin(np.arange(6), [1, 4])
    value = tabular().fit(X, y, **columns)
    # nothing is known of state 1
    assert value.predict(X[:1])[0] == pytest.approx((2 / 3) / (2 + 2 / 3))
    error = value.td_error(X, y, **columns)
    assert list(np.isnan(error)) == [False, False, False, True, False, True]
    expected = -np.average(error[:3] ** 2, weights=[1, 2 / 3, 1])
    assert value.score(X, y, **columns) == pytest.approx(expected)
    value.fit(X, y, **columns, sample_weight=[1, 1, 1, 0, 1, 1])
    assert value.predict(X[:1])[0] == pytest.approx(1 / 3)


def test_a_stream_says_what_it_cannot_correct():
    text = (
        "% of the rows that are not terminal have no successor, because episodes were"
    )

    def said(log, size=100):
        found = messages(fed, tabular(), size, **log)
        return [message for message in found if text in message], found

    short, (whole, _, _) = cut_at_three(200, 0), log_of(200, 0)
    no_ends = {"terminal": np.zeros(len(short["y"]), dtype=bool)}
    alone = short | no_ends | {"episode": np.arange(len(short["y"]))}
    # their next rows might still come
    assert len(said(short, size=10_000)[0]) == len(said(short)[0]) == 1
    (of_all,) = said(alone)[0]
    assert f"100.0{text}" in of_all
    # with no ends, no outcome counts too much
    for right in (without_successors(whole), log_of(200, 0, cut=3)[0], short | no_ends):
        assert not said(right)[1]
    lost = tabular()
    messages(fed, lost, 100, **alone)
    with pytest.raises(ValueError, match="different labels for uncertainty, got 0"):
        lost.predict(np.eye(N), return_std=True)


def test_ends_that_were_forgotten_warn():
    parts, step, action = log_of(60, 1)
    columns, no_ends = some(parts, slice(None), "terminal"), {"terminal": step < 0}
    plain = without_successors(columns)
    timed = some(plain, slice(None), "episode")
    timed["time"] = 1000 * parts["episode"] + step
    q = ActionValueEstimator([0] * N, GAMMA, fit_intercept=False)
    calls = (tabular(), "fit"), (tabular(), "partial_fit"), (q, "fit")
    for log, then in (
        (columns, "continue from their last next_X"),
        (plain, "the last row of each is dropped"),
        (timed, "the last row of each is dropped"),
    ):
        text = f"terminal was not given: all episodes count as cut off, and {then}"
        for estimator, method in calls:
            given = log | ({"action": action} if estimator is q else {})
            for more, times in (({}, 1), (no_ends, 0)):
                found = messages(getattr(clone(estimator), method), **given, **more)
                assert "".join(found).count(text) == times
    stream = tabular().partial_fit(**some(columns, slice(100)))
    # it was said
    assert not messages(stream.partial_fit, **some(columns, slice(100, None)))
    in_one = timed | {"time": np.arange(len(step))}
    assert not messages(tabular().fit, **in_one)


def test_ends_that_were_forgotten_in_the_value_of_a_policy():
    parts, _, action = log_of(60, 2)
    log = some(parts, slice(None), "terminal") | {"gamma": GAMMA, "action": action}
    log |= {"importance_ratio": np.ones(len(action)), "target": np.full((N, 2), 0.5)}
    by_row, if_ends = (
        {"target": np.full((len(action), 2), 0.5)},
        "If episodes end, pass",
    )
    for method in ("dr", "wdr"):
        given = log | {"method": method}
        with pytest.warns(UserWarning, match="terminal was not given: all episodes"):
            off_policy_value(**given)
        with pytest.raises(ValueError, match=f"next_X must be given .* {if_ends}"):
            off_policy_value(**given | {"next_X": None})
        with pytest.raises(ValueError, match=f"target must be a function .* {if_ends}"):
            off_policy_value(**given | by_row)
    # ends play no role
    columns = log["y"], log["importance_ratio"], log["episode"]
    assert not messages(off_policy_value, *columns)


def test_rows_without_any_successor_are_refused():
    """Only ends would be left, as if each step ended the episode."""
    parts, step, _ = log_of(30, 3)
    columns, text = (
        without_successors(parts),
        "got no successor of the .* rows that are",
    )
    for time in (10 * step, 10 * np.arange(len(step))):
        with pytest.raises(
            ValueError, match=f"{text} not terminal. time must increase"
        ):
            tabular().fit(**columns | {"time": time})
    del columns["episode"]
    for fit in (tabular().fit, tabular().partial_fit):
        with pytest.raises(ValueError, match="next_X must be given for .* or time or"):
            fit(**columns)
    first = {name: parts[name][step == 0] for name in ("X", "y", "episode")}
    with pytest.raises(ValueError, match="episodes of one row need next_X or terminal"):
        tabular().fit(**first)


def test_rows_that_are_missing_within_episodes_warn_off_policy():
    parts, step, _ = log_of(60, 4)
    found = np.random.default_rng(0).random(len(step)) < 0.7
    columns = {"y": parts["y"], "importance_ratio": np.ones(len(step)), "time": step}
    columns["episode"] = parts["episode"]
    assert not messages(off_policy_value, **columns)
    with pytest.warns(UserWarning, match="time has .* gaps within episodes, and rows"):
        off_policy_value(**some(columns, found))


def test_arrays_say_that_their_log_has_weights():
    with pytest.warns(UserWarning, match="pass sample_weight=log.sample_weight"):
        log = from_arrays(100, 0)
    weights = log["sample_weight"]
    assert (weights[~log["terminal"]] == 1).all() and 0 < weights.min() < 0.9
    whole = transitions_from_arrays(np.eye(3), [0] * 3, [0.0] * 3, [0, 0, 1])
    assert "sample_weight" not in whole
