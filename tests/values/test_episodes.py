"""Labels of episodes: what follows what, where rows alternate, in fit and in
streams."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from value_logs import coefficients, fed, some
from value_logs import episodes as log_of

from sk_stormc import BellmanValueEstimator

LENGTHS = [3, 1, 40, 17, 60, 2, 25]


def episodes():
    return log_of(LENGTHS, every=2)


def alternating(episode, step):
    """The order in which a vector environment logs: one row of each episode in turn."""
    return np.lexsort((episode, step))


def lstd(trace_decay=0.7, **params):
    return BellmanValueEstimator(
        0.95, "lstd", trace_decay=trace_decay, objective="projected", **params
    )


@pytest.mark.filterwarnings("ignore:.* rows that are not terminal have no successor")
def test_the_next_row_of_an_episode_is_the_successor():
    """In chunks too, and where rows begin with the newest."""
    parts, episode, step = episodes()
    last = np.append(np.diff(episode) != 0, True)
    expected = coefficients(lstd().fit(**some(parts, ~last | parts["terminal"])))
    rows = some(parts, slice(None), "next_X") | {"episode": episode, "time": step}
    order = alternating(episode, step)
    for value in (
        lstd().fit(**some(rows, slice(None, None, -1))),
        fed(lstd(), 11, **some(rows, slice(None), "time")),
        fed(lstd(), 40, **some(rows, order)),
    ):
        np.testing.assert_allclose(coefficients(value), expected, rtol=1e-9)


def test_an_episode_that_ended_or_has_no_row_in_a_chunk_waits_for_nothing():
    """Its label may come again, as that of another episode."""
    states = np.eye(4)
    stream = lstd(0.0, fit_intercept=False).set_params(gamma=0.5)
    stream.partial_fit(
        states[:2], [1.0, 5.0], episode=["a", "a"], terminal=[False, True]
    )
    stream.partial_fit(states[2:3], [7.0], episode=["a"], terminal=[True])
    np.testing.assert_allclose(stream.predict(states), [3.5, 5, 7, 0])
    stream.partial_fit(states[3:], [1.0], episode=["b"])  # waits, and in vain
    stream.partial_fit(states[:1], [3.5], episode=["c"], terminal=[True])
    stream.partial_fit(states[1:2], [5.0], episode=["b"], terminal=[True])
    np.testing.assert_allclose(stream.predict(states), [3.5, 5, 7, 0])


def test_labels_of_any_type():
    parts, episode, step = episodes()
    order = alternating(episode, step)
    rows, k = some(parts, order), episode[order]
    expected = lstd().fit(**rows, episode=k).coef_
    for labels in (
        k.astype("M8[D]"), pd.Series(k).astype("category"), k.astype(str).tolist(),
        np.array([f"e{i}" if i % 2 else i for i in k], dtype=object),
    ):  # fmt: skip
        value, stream = lstd().fit(**rows, episode=labels), lstd()
        np.testing.assert_array_equal(value.coef_, expected)
        stream.partial_fit(**rows, episode=labels)
        np.testing.assert_allclose(stream.coef_, expected, rtol=1e-9)


def test_scores_follow_labels():
    parts, episode, step = episodes()
    order = alternating(episode, step)
    rows = some(parts, slice(None), "next_X") | {"episode": episode}
    value = lstd().fit(**rows)
    error, expected = (
        value.td_error(**some(rows, order)),
        value.td_error(**parts)[order],
    )
    last = np.append(np.diff(episode) != 0, True)[order]
    unknown = last & ~parts["terminal"][order]
    assert np.isnan(error[unknown]).all()
    np.testing.assert_allclose(error[~unknown], expected[~unknown])
    assert value.score(**rows) == pytest.approx(-np.mean(expected[~unknown] ** 2))
    with pytest.raises(ValueError, match="terminal and episode must be given to score"):
        value.score(parts["X"], parts["y"])


def test_a_stream_has_labels_in_all_calls_or_in_none():
    parts, episode, _ = episodes()
    for first, second in (({}, {"episode": episode}), ({"episode": episode}, {})):
        stream = lstd().partial_fit(**parts, **first)
        with pytest.raises(
            ValueError, match="episode must stay (given|None) while its"
        ):
            stream.partial_fit(**parts, **second)
        clone(stream).partial_fit(**parts, **second)
