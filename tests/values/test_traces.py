"""LSTD(lambda): eligibility traces, and importance ratios, which multiply transitions
and the traces between them."""

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder
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


def by_hand(
    X, y, next_X, terminal, decay, breaks=(), sample_weight=None, importance_ratio=None
):
    """The recursion of Bradtke & Barto and Boyan, with the ratios of Yu, row by row."""
    Z, next_Z, A, b, trace = (
        with_ones(X),
        with_ones(next_X) * ~terminal[:, None],
        0,
        0,
        0,
    )
    weights, ratio = (
        np.ones(len(y)) if part is None else part
        for part in (sample_weight, importance_ratio)
    )
    for k, phi in enumerate(Z):
        started = k == 0 or terminal[k - 1] or k in breaks
        trace = phi + (0 if started else GAMMA * decay * ratio[k - 1] * trace)
        A = A + weights[k] * ratio[k] * np.outer(trace, phi - GAMMA * next_Z[k])
        b = b + weights[k] * ratio[k] * trace * y[k]
    return np.linalg.solve(A, b)


@pytest.mark.parametrize("gamma", [0.5, 0.99])
def test_lambda_1_is_regression_on_the_returns(gamma):
    parts = episodes(LENGTHS)
    returns, total = np.zeros(len(parts["y"])), 0.0
    for k in range(len(returns) - 1, -1, -1):
        total = returns[k] = parts["y"][k] + gamma * total * (not parts["terminal"][k])
    Z = np.column_stack([parts["X"], np.ones(len(returns))])
    expected = np.linalg.lstsq(Z, returns, rcond=None)[0]
    np.testing.assert_allclose(
        coefficients(lstd(1.0, gamma).fit(**parts)), expected, rtol=1e-8
    )


def test_a_trace_ends_where_the_next_row_is_not_the_successor():
    parts = episodes([200])
    parts["next_X"][[49, 120]] += 1.0  # truncated: the next row begins an episode
    expected = by_hand(**parts, decay=0.8, breaks=(50, 121))
    for value in (
        lstd(0.8).fit(**parts),
        fed(lstd(0.8), 50, **parts),
        fed(lstd(0.8), 1, **parts),
    ):
        np.testing.assert_allclose(coefficients(value), expected, rtol=1e-8)


def test_time():
    """Rows in any order in fit; gaps end a trace, and so do terminal rows; the last row
    has no successor."""
    parts = episodes([400])
    time = np.arange(400) + 10**15 + np.isin(np.arange(400), [100, 251]).cumsum() * 3
    parts["terminal"] = np.isin(np.arange(400), [99, 180])
    kept = np.flatnonzero((np.diff(time, append=0) == 1) | parts["terminal"])
    expected = by_hand(
        **some(parts, kept), decay=0.8, breaks=np.flatnonzero(np.diff(kept) > 1) + 1
    )
    timed = some(parts, slice(None), "next_X") | {"time": time}
    value = lstd(0.8).fit(**some(timed, np.random.default_rng(0).permutation(400)))
    np.testing.assert_allclose(coefficients(value), expected, rtol=1e-8)
    for size in (7, 99, 100):
        np.testing.assert_allclose(
            coefficients(fed(lstd(0.8), size, **timed)), expected, rtol=1e-8
        )


def test_sparse_features():
    rng = np.random.default_rng(0)
    states, ends = rng.integers(30, size=(1001, 1)), rng.random(1000) < 0.05
    parts = {
        "X": states[:-1],
        "y": rng.normal(size=1000),
        "next_X": states[1:],
        "terminal": ends,
    }
    one = [
        lstd(features=OneHotEncoder(sparse_output=s)).fit(**parts).coef_
        for s in (True, False)
    ]
    np.testing.assert_allclose(*one, rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "rounded", [lambda a: a.astype(np.float32).astype(float), lambda a: a.round(6)]
)
def test_traces_go_on_over_rounded_successors(rounded):
    parts = episodes()
    exact = lstd(0.9).fit(**parts)
    parts["next_X"] = rounded(parts["next_X"])
    for value in (lstd(0.9).fit(**parts), lstd(0.9).partial_fit(**parts)):
        np.testing.assert_allclose(value.coef_, exact.coef_, rtol=1e-4)
    assert abs(lstd(0.0).fit(**parts).coef_ - exact.coef_).max() > 0.01


def test_states_of_a_tiny_unit_are_told_apart():
    parts = log_of(LENGTHS, every=2)[0]  # every second episode is cut off
    tiny = parts | {name: 1e-9 * parts[name] for name in ("X", "next_X")}
    np.testing.assert_allclose(
        lstd(0.9).fit(**tiny).predict(tiny["X"]),
        lstd(0.9).fit(**parts).predict(parts["X"]),
    )


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_rows_in_no_order_warn(method):
    parts, episode, _ = log_of([600])
    shuffled = some(parts, np.random.default_rng(1).permutation(600))
    with pytest.warns(
        UserWarning, match="trace_decay has little effect: of 598 rows .* [0-3] are"
    ):
        getattr(lstd(0.9), method)(**shuffled)
    if method == "fit":
        with pytest.warns(UserWarning, match="trace_decay has little effect"):
            lstd().fit(**shuffled | {"terminal": np.zeros(600, bool)}, episode=episode)


def off_policy():
    """A walk on seven states that goes right half of the time, and the ratios of a
    policy that does so at .9."""
    parts, action = walk_on_states(20, 7)
    states = np.c_[np.arange(7) < 4, np.arange(7)].astype(float)
    parts |= {"X": parts["X"] @ states, "next_X": parts["next_X"] @ states}
    return some(parts, slice(None), "episode") | {
        "importance_ratio": np.where(action == 1, 1.8, 0.2)
    }


def test_without_traces_ratios_are_weights():
    parts = off_policy()
    weighted = {
        ("sample_weight" if name == "importance_ratio" else name): part
        for name, part in parts.items()
    }
    for solver in ("lstd", "storm-c"):
        one, other = (
            BellmanValueEstimator(0.9, solver, random_state=0).fit(**rows)
            for rows in (parts, weighted)
        )
        np.testing.assert_array_equal(one.coef_, other.coef_)
        assert (
            one.score(**parts)
            == one.score(**weighted)
            != one.score(**some(parts, slice(None), "importance_ratio"))
        )
