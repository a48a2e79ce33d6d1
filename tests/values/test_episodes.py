"""Labels of episodes: what follows what, where rows alternate, in fit and in streams."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from helpers import few_of
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold

from sk_stormc import BellmanValueEstimator

LENGTHS = [3, 1, 40, 17, 60, 2, 25]


def episodes(seed=0):
    """Whole episodes one behind the other; every second one is cut off, so that its last row does not end it."""
    rng, n = np.random.default_rng(seed), sum(LENGTHS)
    X, last = rng.normal(size=(n, 3)), np.cumsum(LENGTHS) - 1
    next_X = np.roll(X, -1, axis=0)
    next_X[last] = rng.normal(size=(len(last), 3))
    parts = {"X": X, "y": X[:, 0] + rng.normal(size=n), "next_X": next_X, "terminal": np.isin(np.arange(n), last[::2])}
    return parts, np.repeat(np.arange(len(LENGTHS)), LENGTHS), np.concatenate([np.arange(k) for k in LENGTHS])


def alternating(episode, step):
    """The order in which a vector environment logs: one row of each episode in turn."""
    return np.lexsort((episode, step))


def lstd(trace_decay=0.7, **params):
    return BellmanValueEstimator(0.95, "lstd", trace_decay=trace_decay, objective="projected", **params)


def coefficients(value):
    return np.append(value.coef_, value.intercept_)


def taken(parts, rows):
    return {name: part[rows] for name, part in parts.items()}


def fed(value, size, **parts):
    for start in range(0, len(parts["y"]), size):
        value.partial_fit(**taken(parts, slice(start, start + size)))
    return value


@pytest.mark.parametrize("decay", [0.0, 0.7, 1.0])
def test_rows_of_several_episodes_alternate(decay):
    parts, episode, step = episodes()
    expected = coefficients(lstd(decay).fit(**parts))
    order = alternating(episode, step)
    shuffled = taken(parts | {"episode": episode}, order)
    np.testing.assert_allclose(coefficients(lstd(decay).fit(**shuffled)), expected, rtol=1e-9)
    for size in (1, 5, 30, 1000):
        if size in (30, 1000) or decay == 0:  # an episode that has no row in a chunk is over, and so is its trace
            np.testing.assert_allclose(coefficients(fed(lstd(decay), size, **shuffled)), expected, rtol=1e-9)


@pytest.mark.parametrize("size", few_of([1, 7, 1000], 1, 2))
def test_traces_go_on_from_chunk_to_chunk(size):
    parts, episode, _ = episodes()
    expected = coefficients(lstd().fit(**parts))
    stream = fed(lstd(), size, **parts, episode=episode)
    np.testing.assert_allclose(coefficients(stream), expected, rtol=1e-9)
    two = np.repeat([0, 1], 60), np.tile(np.arange(60), 2)  # that alternate in each chunk
    parts, episode = taken(parts, slice(120)), two[0]
    parts["next_X"][:-1], parts["terminal"] = parts["X"][1:], two[1] == 59
    expected = coefficients(lstd().fit(**parts))
    order = alternating(*two)
    stream = fed(lstd(), max(size, 2) // 2 * 2, **taken(parts | {"episode": episode}, order))
    np.testing.assert_allclose(coefficients(stream), expected, rtol=1e-9)


def test_the_next_row_of_an_episode_is_the_successor():
    parts, episode, step = episodes()
    last = np.append(np.diff(episode) != 0, True)
    kept = ~last | parts["terminal"]
    expected = coefficients(lstd().fit(**taken(parts, kept)))
    plain = {name: part for name, part in parts.items() if name != "next_X"}
    order = alternating(episode, step)
    for columns in ({"episode": episode}, {"episode": episode, "time": step}):
        rows = plain | columns
        np.testing.assert_allclose(coefficients(lstd().fit(**rows)), expected, rtol=1e-9)
        np.testing.assert_allclose(coefficients(lstd().fit(**taken(rows, order))), expected, rtol=1e-9)
        for size in (1, 11, 1000):
            np.testing.assert_allclose(coefficients(fed(lstd(), size, **rows)), expected, rtol=1e-9)
        np.testing.assert_allclose(coefficients(fed(lstd(), 40, **taken(rows, order))), expected, rtol=1e-9)
    backwards = taken(plain | {"episode": episode, "time": step}, slice(None, None, -1))
    np.testing.assert_allclose(coefficients(lstd().fit(**backwards)), expected, rtol=1e-9)


def test_a_gap_within_an_episode():
    parts, episode, step = episodes()
    time = step + 5 * (step > 9)
    behind = np.append((np.diff(time) == 1) & (np.diff(episode) == 0), False)
    kept = behind | parts["terminal"]
    expected = coefficients(lstd(0.0).fit(**taken(parts, kept)))
    rows = {name: part for name, part in parts.items() if name != "next_X"} | {"episode": episode, "time": time}
    np.testing.assert_allclose(coefficients(lstd(0.0).fit(**rows)), expected, rtol=1e-9)
    np.testing.assert_allclose(coefficients(fed(lstd(0.0), 13, **rows)), expected, rtol=1e-9)
    traced = coefficients(lstd().fit(**rows))
    np.testing.assert_allclose(coefficients(fed(lstd(), 13, **rows)), traced, rtol=1e-9)


@pytest.mark.parametrize(
    "labels",
    [
        lambda k: k.astype(str),
        lambda k: k + 0.5,
        lambda k: k.astype("M8[D]"),
        lambda k: np.array([f"e{i}" if i % 2 else i for i in k], dtype=object),
        lambda k: pd.Series(k).astype("category"),
        lambda k: k.tolist(),
    ],
)
def test_labels_of_any_type(labels):
    parts, episode, step = episodes()
    order = alternating(episode, step)
    rows = taken(parts, order)
    value = lstd().fit(**rows, episode=labels(episode[order]))
    np.testing.assert_array_equal(value.coef_, lstd().fit(**rows, episode=episode[order]).coef_)
    stream = lstd().partial_fit(**rows, episode=labels(episode[order]))
    np.testing.assert_allclose(stream.coef_, value.coef_, rtol=1e-9)


def test_scores_follow_labels():
    parts, episode, step = episodes()
    order = alternating(episode, step)
    plain = {name: part for name, part in parts.items() if name != "next_X"}
    value = lstd().fit(**plain, episode=episode)
    error = value.td_error(**taken(plain | {"episode": episode}, order))
    expected = value.td_error(**parts)[order]
    last = np.append(np.diff(episode) != 0, True)[order]
    unknown = last & ~parts["terminal"][order]
    assert np.isnan(error[unknown]).all()
    np.testing.assert_allclose(error[~unknown], expected[~unknown])
    assert value.score(**plain, episode=episode) == pytest.approx(-np.mean(expected[~unknown] ** 2))
    with pytest.raises(ValueError, match="terminal and episode must be given to score"):
        value.score(parts["X"], parts["y"])


def test_a_search_hands_labels_on():
    parts, episode, _ = episodes()
    plain = {name: part for name, part in parts.items() if name != "next_X"}
    with sklearn.config_context(enable_metadata_routing=True):
        value = lstd(0.0).set_fit_request(episode=True, terminal=True).set_score_request(episode=True, terminal=True)
        search = GridSearchCV(value, {"alpha": [0.0, 0.1]}, cv=GroupKFold(3), error_score="raise")
        search.fit(**plain, episode=episode, groups=episode)
    assert search.best_estimator_.coef_.shape == (3,)


def bad(**changes):
    parts, episode, step = episodes()
    rows = {"episode": episode} | parts
    return rows | {name: change(rows, step) if callable(change) else change for name, change in changes.items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episode": np.zeros(3)}, r"episode must be one label for each of the 148 rows, got shape \(3,\)"),
        ({"episode": np.where(np.arange(148) == 7, np.nan, 1.0)}, "label in each row, got nan in row 7"),
        ({"episode": np.array([None] * 148)}, "label in each row, got None in row 0"),
        ({"episode": np.array([[1]] * 148 + [1], dtype=object)[:148]}, "labels such as numbers or strings, got"),
        ({"episode": np.zeros(148)}, "terminal must be the last row of an episode, got row 3 behind row 2"),
        ({"next_X": None, "time": lambda rows, step: step // 2}, "distinct values within an episode, got 0 twice in 0"),
        ({"next_X": None, "time": np.zeros(148)}, "time must be integers"),
        ({"time": np.arange(148)}, "time must be None if next_X is given"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "score"])
def test_contradictions(changes, message, method):
    value = lstd().fit(**episodes()[0])
    with pytest.raises(ValueError, match=message):
        getattr(value, method)(**bad(**changes))


def test_a_stream_has_labels_in_all_calls_or_in_none():
    parts, episode, _ = episodes()
    for first, second in (({}, {"episode": episode}), ({"episode": episode}, {})):
        stream = lstd().partial_fit(**parts, **first)
        with pytest.raises(ValueError, match="episode must stay (given|None) while its stream goes on"):
            stream.partial_fit(**parts, **second)
        clone(stream).partial_fit(**parts, **second)


def test_rows_that_are_in_no_order_within_an_episode_warn():
    rng = np.random.default_rng(0)
    parts, episode, _ = episodes()
    parts["terminal"][:] = False
    order = rng.permutation(len(episode))
    with pytest.warns(UserWarning, match="trace_decay has little effect"):
        lstd().fit(**taken(parts | {"episode": episode}, order))


def test_stochastic_solvers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 2))
    episode, step = np.arange(1200) % 8, np.arange(1200) // 8
    y = X[:, 0] + rng.normal(size=1200)
    value = BellmanValueEstimator(0.5, objective="projected", random_state=0).fit(X, y, episode=episode)
    exact = BellmanValueEstimator(0.5, "lstd", objective="projected").fit(X, y, episode=episode, time=step)
    np.testing.assert_allclose(value.coef_, exact.coef_, atol=1e-3)
    streams = [
        fed(BellmanValueEstimator(0.5, random_state=0), size, X=X, y=y, episode=episode) for size in (400, 1200)
    ]
    for stream in streams:
        np.testing.assert_allclose(stream.coef_, exact.coef_, atol=0.05)
