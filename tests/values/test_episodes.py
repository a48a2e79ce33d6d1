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
    parts, episode, step = episodes()
    last = np.append(np.diff(episode) != 0, True)
    kept = ~last | parts["terminal"]
    expected = coefficients(lstd().fit(**some(parts, kept)))
    plain = some(parts, slice(None), "next_X")
    order = alternating(episode, step)
    for columns in ({"episode": episode}, {"episode": episode, "time": step}):
        rows = plain | columns
        np.testing.assert_allclose(
            coefficients(lstd().fit(**rows)), expected, rtol=1e-9
        )
        np.testing.assert_allclose(
            coefficients(lstd().fit(**some(rows, order))), expected, rtol=1e-9
        )
        np.testing.assert_allclose(
            coefficients(fed(lstd(), 11, **rows)), expected, rtol=1e-9
        )
        np.testing.assert_allclose(
            coefficients(fed(lstd(), 40, **some(rows, order))), expected, rtol=1e-9
        )
    backwards = some(plain | {"episode": episode, "time": step}, slice(None, None, -1))
    np.testing.assert_allclose(
        coefficients(lstd().fit(**backwards)), expected, rtol=1e-9
    )


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


@pytest.mark.parametrize(
    "labels",
    [
        lambda k: k.astype("M8[D]"),
        lambda k: np.array([f"e{i}" if i % 2 else i for i in k], dtype=object),
        lambda k: pd.Series(k).astype("category"),
        lambda k: k.astype(str).tolist(),
    ],
)
def test_labels_of_any_type(labels):
    parts, episode, step = episodes()
    order = alternating(episode, step)
    rows = some(parts, order)
    value = lstd().fit(**rows, episode=labels(episode[order]))
    np.testing.assert_array_equal(
        value.coef_, lstd().fit(**rows, episode=episode[order]).coef_
    )
    stream = lstd().partial_fit(**rows, episode=labels(episode[order]))
    np.testing.assert_allclose(stream.coef_, value.coef_, rtol=1e-9)


def test_scores_follow_labels():
    parts, episode, step = episodes()
    order = alternating(episode, step)
    plain = some(parts, slice(None), "next_X")
    value = lstd().fit(**plain, episode=episode)
    error = value.td_error(**some(plain | {"episode": episode}, order))
    expected = value.td_error(**parts)[order]
    last = np.append(np.diff(episode) != 0, True)[order]
    unknown = last & ~parts["terminal"][order]
    assert np.isnan(error[unknown]).all()
    np.testing.assert_allclose(error[~unknown], expected[~unknown])
    assert value.score(**plain, episode=episode) == pytest.approx(
        -np.mean(expected[~unknown] ** 2)
    )
    with pytest.raises(ValueError, match="terminal and episode must be given to score"):
        value.score(parts["X"], parts["y"])


def test_a_stream_has_labels_in_all_calls_or_in_none():
    parts, episode, _ = episodes()
    for first, second in (({}, {"episode": episode}), ({"episode": episode}, {})):
        stream = lstd().partial_fit(**parts, **first)
        with pytest.raises(
            ValueError, match="episode must stay (given|None) while its stream goes on"
        ):
            stream.partial_fit(**parts, **second)
        clone(stream).partial_fit(**parts, **second)
