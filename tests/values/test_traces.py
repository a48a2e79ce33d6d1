"""LSTD(lambda): eligibility traces, and importance ratios, which multiply transitions
and the traces between them."""

import numpy as np
import pytest
from value_logs import coefficients, fed, some, walk_on_states, with_ones
from value_logs import episodes as log_of

from sk_stormc import BellmanValueEstimator

GAMMA, LENGTHS = 0.95, [1, 2, 300, 17, 1, 1, 520, 256, 40]


def episodes(lengths=LENGTHS):
    return log_of(lengths)[0]


def lstd(trace_decay=0.7, gamma=GAMMA, **params):
    return BellmanValueEstimator(
        gamma, "lstd", trace_decay=trace_decay, objective="projected", **params
    )


@pytest.mark.parametrize("gamma", [0.5, 0.99])
def test_lambda_1_is_regression_on_the_returns(gamma):
    parts = episodes()
    returns, total = np.zeros(len(parts["y"])), 0.0
    for k in range(len(returns) - 1, -1, -1):
        total = returns[k] = parts["y"][k] + gamma * total * (not parts["terminal"][k])
    expected = np.linalg.lstsq(with_ones(parts["X"]), returns, rcond=None)[0]
    found = coefficients(lstd(1.0, gamma).fit(**parts))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_trace_ends_where_the_next_row_is_not_the_successor():
    """As with labels of the episodes, row by row too."""
    parts = episodes([60])
    parts["next_X"][[29, 50]] += 1.0  # truncated: the next row begins an episode
    episode = np.searchsorted([29, 50], np.arange(60))
    expected = coefficients(lstd(0.8).fit(**parts, episode=episode))
    for value in (lstd(0.8).fit(**parts), fed(lstd(0.8), 1, **parts)):
        np.testing.assert_allclose(coefficients(value), expected, rtol=1e-8)


def test_time():
    """Rows in any order in fit; gaps end a trace, and so do terminal rows; the last row
    has no successor."""
    parts, k = episodes([400]), np.arange(400)
    parts["terminal"] = np.isin(k, [99, 180])
    episode = np.searchsorted([99, 180, 250], k)
    time = k + 10**15 + 3 * np.searchsorted([99, 250], k)
    kept = ~np.isin(k, [250, 399])
    expected = lstd(0.8).fit(**some(parts, kept), episode=episode[kept])
    timed = some(parts, slice(None), "next_X") | {"time": time}
    shuffled = some(timed, np.random.default_rng(0).permutation(400))
    values = [fed(lstd(0.8), size, **timed) for size in (99, 100)]
    for value in (lstd(0.8).fit(**shuffled), *values):
        np.testing.assert_allclose(value.coef_, expected.coef_, rtol=1e-8)


@pytest.mark.filterwarnings("error")
def test_traces_go_on_over_rounded_successors():
    parts = episodes()
    exact = lstd(0.9).fit(**parts).coef_
    for rounded in (
        np.float32(parts["next_X"]).astype(float),
        parts["next_X"].round(6),
    ):
        log = parts | {"next_X": rounded}
        for value in (lstd(0.9).fit(**log), lstd(0.9).partial_fit(**log)):
            np.testing.assert_allclose(value.coef_, exact, rtol=1e-4)
    assert abs(lstd(0.0).fit(**parts).coef_ - exact).max() > 0.01


def test_states_of_a_tiny_unit_are_told_apart():
    parts = log_of(LENGTHS, every=2)[0]  # every second episode is cut off
    tiny = parts | {name: 1e-9 * parts[name] for name in ("X", "next_X")}
    found, expected = (lstd(0.9).fit(**log).predict(log["X"]) for log in (tiny, parts))
    np.testing.assert_allclose(found, expected)


def test_rows_in_no_order_warn():
    parts, episode, _ = log_of([600])
    shuffled = some(parts, np.random.default_rng(1).permutation(600))
    text = "trace_decay has little effect"
    for fit in (lstd(0.9).fit, lstd(0.9).partial_fit):
        with pytest.warns(UserWarning, match=f"{text}: of 598 rows .* [0-3] are"):
            fit(**shuffled)
    shuffled["terminal"] = np.zeros(600, bool)
    with pytest.warns(UserWarning, match=text):
        lstd().fit(**shuffled, episode=episode)


def test_without_traces_ratios_are_weights():
    """Of a walk that goes right half of the time, for a policy that does so at .9."""
    parts, action = walk_on_states(20, 7)
    ratio = np.where(action == 1, 1.8, 0.2)
    rated, weighted = (
        parts | {name: ratio} for name in ("importance_ratio", "sample_weight")
    )
    for solver in ("lstd", "storm-c"):
        value = BellmanValueEstimator(0.9, solver, random_state=0)
        expected = value.fit(**weighted).coef_
        np.testing.assert_array_equal(value.fit(**rated).coef_, expected)
        score = value.score(**rated)
        assert score == value.score(**weighted) != value.score(**parts)
