"""Values of another policy than the one that acted: ratios multiply transitions, and traces from step to step."""

import numpy as np
import pytest
from helpers import few_of

from sk_stormc import BellmanValueEstimator

GAMMA = 0.9
N = 7  # states of the walk, which ends to the left of the first and to the right of the last, there with reward 1
GROUPS = np.repeat(np.eye(2), [4, 3], axis=0)  # two features: the left four states and the right three
TARGET = 0.9  # probability of a step to the right; the walk that is logged has a half


def walk(n_episodes, seed=0):
    rng, rows = np.random.default_rng(seed), []
    for _ in range(n_episodes):
        s = rng.integers(N)
        while 0 <= s < N:
            right = rng.random() < 0.5
            after = s + (1 if right else -1)
            rows.append((s, after, (TARGET if right else 1 - TARGET) / 0.5))
            s = after
    s, after, ratio = (np.array(part) for part in zip(*rows, strict=True))
    terminal = (after < 0) | (after == N)
    return {
        "X": GROUPS[s.astype(int)],
        "y": (after == N).astype(float),
        "next_X": GROUPS[np.clip(after, 0, N - 1).astype(int)],
        "terminal": terminal,
        "importance_ratio": ratio,
    }, s.astype(int)


def exact():
    P = np.diag(np.full(N - 1, TARGET), 1) + np.diag(np.full(N - 1, 1 - TARGET), -1)
    return np.linalg.solve(np.eye(N) - GAMMA * P, np.append(np.zeros(N - 1), TARGET))


def lstd(trace_decay=1.0):
    return BellmanValueEstimator(GAMMA, "lstd", trace_decay=trace_decay, objective="projected", fit_intercept=False)


def by_hand(parts, decay, weights):
    """Yu's recursion, row by row."""
    A, b, trace = 0, 0, 0
    next_Z, ratio, started = parts["next_X"] * ~parts["terminal"][:, None], parts["importance_ratio"], True
    for k, phi in enumerate(parts["X"]):
        trace = phi + (0 if started else GAMMA * decay * ratio[k - 1] * trace)
        A = A + weights[k] * ratio[k] * np.outer(trace, phi - GAMMA * next_Z[k])
        b = b + weights[k] * ratio[k] * trace * parts["y"][k]
        started = parts["terminal"][k]
    return np.linalg.solve(A, b)


def fed(value, size, **parts):
    for start in range(0, len(parts["y"]), size):
        value.partial_fit(**{name: part[start : start + size] for name, part in parts.items()})
    return value


@pytest.mark.parametrize("decay", few_of([0.0, 0.5, 1.0], 1))
def test_against_the_recursion(decay):
    parts, _ = walk(10)
    weights = np.random.default_rng(1).random(len(parts["y"])) + 0.5
    expected = by_hand(parts, decay, weights)
    parts["sample_weight"] = weights
    n = len(weights)
    time = np.arange(n) + np.append(0, np.cumsum(parts["terminal"][:-1]))  # a gap behind each episode
    timed = {name: part for name, part in parts.items() if name != "next_X"} | {"time": time}
    values = [lstd(decay).fit(**parts), lstd(decay).fit(**timed)]
    values += [fed(lstd(decay), size, **rows) for size in (1, 37, n) for rows in (parts, timed)]
    for value in values:
        np.testing.assert_allclose(value.coef_, expected, rtol=1e-9)


@pytest.mark.slow
def test_traces_have_the_best_values_of_the_target():
    parts, s = walk(6000)
    weights = np.bincount(s, minlength=N)
    best = [np.average(exact()[rows], weights=weights[rows]) for rows in (slice(0, 4), slice(4, 7))]
    np.testing.assert_allclose(lstd().fit(**parts).coef_, best, atol=0.05)
    weighted = {("sample_weight" if name == "importance_ratio" else name): part for name, part in parts.items()}
    assert abs(lstd().fit(**weighted).coef_ - best).max() > 0.06  # traces know nothing of weights


@pytest.mark.parametrize("decay", [0.5, 1.0])
def test_no_trace_goes_on_behind_a_ratio_of_0(decay):
    parts, _ = walk(20)
    parts["importance_ratio"] = np.where(np.random.default_rng(2).random(len(parts["y"])) < 0.3, 0.0, 1.3)
    expected = by_hand(parts, decay, np.ones(len(parts["y"])))
    for value in (lstd(decay).fit(**parts), *(fed(lstd(decay), size, **parts) for size in (1, 37))):
        np.testing.assert_allclose(value.coef_, expected, rtol=1e-9)


def test_without_traces_they_are_weights():
    parts, _ = walk(300)
    weighted = {("sample_weight" if name == "importance_ratio" else name): part for name, part in parts.items()}
    for solver in ("lstd", "storm-c"):
        one, other = (
            BellmanValueEstimator(GAMMA, solver, random_state=0).fit(**rows) for rows in (parts, weighted)
        )
        np.testing.assert_array_equal(one.coef_, other.coef_)
        assert one.score(**parts) == one.score(**weighted)


@pytest.mark.parametrize("method", ["fit", "partial_fit", "score"])
@pytest.mark.parametrize(
    ("ratios", "message"),
    [(np.ones(3), r"of shape \(\d+,\), got \(3,\)"), (-1.0, "finite and >= 0, got -1.0 in row 0"), (np.nan, "got nan")],
)
def test_errors(method, ratios, message):
    parts, _ = walk(30)
    value = lstd().fit(**parts)
    parts["importance_ratio"] = np.full(len(parts["y"]), ratios) if np.isscalar(ratios) else ratios
    with pytest.raises(ValueError, match=f"importance_ratio must be .*{message}"):
        getattr(value, method)(**parts)


def test_a_score_is_that_under_the_other_policy():
    parts, _ = walk(200)
    ratio = parts.pop("importance_ratio")
    value = lstd(0.0).fit(**parts, importance_ratio=ratio)
    errors = value.td_error(**parts)
    score = value.score(**parts, importance_ratio=ratio, sample_weight=np.full(len(ratio), 3.0))
    assert score == pytest.approx(-np.average(errors**2, weights=ratio))
    assert score != pytest.approx(value.score(**parts))
