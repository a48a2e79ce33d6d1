"""Streams that hold: values from correlated rows, weights of rows, streams that go uphill, streams that are short."""

import warnings

import numpy as np
import pytest
from helpers import few_of, slow_but
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem, StreamingProblem
from sk_stormc.solvers import SCGD, AutomaticSTORM, STORMCompositional, minimize


def walk(n, n_states=30, seed=0, indicators=False, drift=0.55):
    """A random walk in order, with reward at one end: correlated rows, and raw columns of very unequal size."""
    rng = np.random.default_rng(seed)
    right, state, states = rng.random(n) < drift, 0, np.empty(n + 1, dtype=int)
    ends = np.zeros(n, dtype=bool)
    following = np.empty(n, dtype=int)
    for t in range(n):
        states[t] = state
        following[t] = state = min(max(state + (1 if right[t] else -1), 0), n_states - 1)
        ends[t] = state == n_states - 1
        state = 0 if ends[t] else state
    if indicators:
        table = np.eye(n_states)
    else:
        s = np.linspace(0, 1, n_states)
        table = np.column_stack([100 * s, 1e-3 * s**2, np.sin(6 * s)])
    return table[states[:n]], ends.astype(float), table[following], ends


def lstd(Z, y, next_Z, ends, gamma, weights=None):
    """numpy's, on columns of size one, with an intercept."""
    w = np.ones(len(y)) if weights is None else weights
    Z = np.column_stack([Z, np.ones(len(y))])
    next_Z = np.column_stack([next_Z, np.ones(len(y))]) * ~ends[:, None]
    s = np.sqrt((Z**2).mean(0))
    s[s == 0] = 1
    A, b = (Z / s * w[:, None]).T @ ((Z - gamma * next_Z) / s), (Z / s * w[:, None]).T @ y
    return Z @ (np.linalg.lstsq(A, b, rcond=None)[0] / s)


def fed(estimator, data, size, weights=None):
    X, y, next_X, ends = data
    for i in range(0, len(y), size):
        rows = slice(i, i + size)
        w = {} if weights is None else {"sample_weight": weights[rows]}
        estimator.partial_fit(X[rows], y[rows], next_X=next_X[rows], terminal=ends[rows], **w)
    return estimator


def off(values, exact):
    return np.sqrt(np.mean((values - exact) ** 2)) / exact.std()


@pytest.mark.parametrize("gamma", slow_but([0.95, 0.999], 0.999))
@pytest.mark.parametrize("indicators", few_of([False, True], 1))
def test_values_of_correlated_rows_are_those_of_lstd_without_a_warning(gamma, indicators):
    data = walk(10_000, indicators=indicators)
    exact = lstd(*data, gamma)
    first, rest = ([part[rows] for part in data] for rows in (slice(0, 3000), slice(3000, None)))
    size = 100 if indicators else 1000
    # the first reward of all may come late
    value = fed(BellmanValueEstimator(gamma, "storm-c", random_state=0), first, size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fed(value, rest, size)
    assert off(value.predict(data[0]), exact) < 0.02


@pytest.mark.parametrize("solver", slow_but(["scgd", "acc-scgd", "asc-pg"], "asc-pg"))
def test_other_methods_hold_too(solver):
    data = walk(10_000)
    value = fed(BellmanValueEstimator(0.99, solver, random_state=0), data, 1000)
    assert off(value.predict(data[0]), lstd(*data, 0.99)) < 0.2


def test_values_that_are_not_there_yet_warn_and_say_what_to_do():
    data = walk(5000)
    for solver in ("storm-c-paper", STORMCompositional(learning_rate=1e-4)):
        value = BellmanValueEstimator(0.99, solver, random_state=0).fit(*data[:2], terminal=np.ones(5000, dtype=bool))
        with pytest.warns(ConvergenceWarning, match="from the projected solution.*solver='lstd'"):
            fed(value, data, 5000)
        assert off(value.predict(data[0]), lstd(*data, 0.99)) > 0.02


@pytest.mark.parametrize("n", few_of([1, 3, 40, 300], 0, 1, 2))
def test_a_short_stream_has_the_values_of_its_moments(n):
    data = walk(n, n_states=6, drift=0.7)
    value = BellmanValueEstimator(0.9, "storm-c", random_state=0)
    values = [fed(clone(value), data, size).predict(data[0]) for size in (1, 7, n)]
    assert (values[0] == values[1]).all() and (values[0] == values[2]).all()
    if n == 300:
        assert off(values[0], lstd(*data, 0.9)) < 0.15


def test_a_short_stream_of_returns_says_that_nothing_was_done():
    portfolio = CompositionalPortfolio("storm-c-paper", random_state=0)
    with pytest.warns(ConvergenceWarning, match="until about 512 rows"):
        portfolio.partial_fit(make_gaussian_returns(100, 3, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        portfolio.partial_fit(make_gaussian_returns(100, 3, random_state=1))


# weights


def test_values_with_weights_are_those_of_weighted_lstd_whatever_the_chunks():
    data = walk(6000, n_states=8)
    weights = np.random.default_rng(0).gamma(1.0, size=6000) * (1 + 3 * data[3])  # episodes' ends count more
    weights[1000:1500] = 0  # a whole chunk of them
    weighted = [fed(BellmanValueEstimator(0.9, "storm-c", random_state=0), data, size, weights) for size in (500, 6000)]
    found = [value.predict(data[0]) for value in weighted]
    assert (found[0] == found[1]).all()
    assert off(found[0], lstd(*data, 0.9, weights)) < 0.01 < 0.1 < off(found[0], lstd(*data, 0.9))
    scaled = fed(BellmanValueEstimator(0.9, "storm-c", random_state=0), data, 500, 1024 * weights).predict(data[0])
    assert (scaled == found[0]).all()
    plain, ones = (fed(clone(weighted[0]), data, 500, w) for w in (None, np.ones(6000)))
    assert (plain.coef_ == ones.coef_).all() and (plain.loss_curve_ == ones.loss_curve_).all()


def test_weights_go_with_the_row_that_waits_for_its_successor():
    X, y, next_X, _ = walk(3000, n_states=10**4)
    weights = np.random.default_rng(0).gamma(1.0, size=3000)
    explicit = BellmanValueEstimator(0.9, "storm-c", random_state=0)
    explicit.partial_fit(X[:-1], y[:-1], next_X=next_X[:-1], sample_weight=weights[:-1])
    for size in (37, 1000):
        timed = BellmanValueEstimator(0.9, "storm-c", random_state=0)
        for i in range(0, 3000, size):
            rows = slice(i, i + size)
            timed.partial_fit(X[rows], y[rows], time=np.arange(3000)[rows], sample_weight=weights[rows])
        assert (timed.coef_ == explicit.coef_).all() and timed.intercept_ == explicit.intercept_


@pytest.mark.parametrize("risk", slow_but(["variance", "semivariance", "entropic"], "semivariance"))
def test_a_portfolio_with_weights(risk):
    X = make_gaussian_returns(6000, 4, mean=0.1, random_state=0)
    weights = 7 * np.exp(X @ [0.2, -0.15, 0.07, 0.15])
    weights[2000:2100] = 0

    def stream(size, w, portfolio=None):
        portfolio = portfolio or CompositionalPortfolio(risk_measure=risk, random_state=0)
        for i in range(0, len(X), size):
            portfolio.partial_fit(X[i : i + size], sample_weight=None if w is None else w[i : i + size])
        return portfolio

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the rows that wait
        weighted, plain, ones = stream(100, weights), stream(100, None), stream(100, np.ones(len(X)))
    assert stream(3000, weights).weights_.tobytes() == weighted.weights_.tobytes()
    assert plain.weights_.tobytes() == ones.weights_.tobytes()
    best = CompositionalPortfolio(risk_measure=risk, tol=1e-8, random_state=0).fit(X, sample_weight=weights)
    zero = clone(best).fit(X)
    zero.weights_ = 0 * best.weights_
    gap = [best.score(X, sample_weight=weights) - p.score(X, sample_weight=weights) for p in (weighted, plain, zero)]
    assert gap[0] < 0.02 * gap[2] and gap[1] > 0.3 * gap[2]


def test_wrong_weights_change_nothing():
    X = make_gaussian_returns(700, 3, random_state=0)
    portfolio = CompositionalPortfolio(random_state=0).partial_fit(X)
    before = dict(vars(portfolio))
    for wrong, words in ((np.ones(3), "shape"), (-np.ones(700), ">= 0"), (np.ones(700), "from the first chunk")):
        with pytest.raises(ValueError, match=f"sample_weight must.*{words}"):
            portfolio.partial_fit(X, sample_weight=wrong)
        assert vars(portfolio) == before
    with pytest.raises(ValueError, match="sample_weight must have a positive entry"):
        CompositionalPortfolio().partial_fit(X, sample_weight=np.zeros(700))
    with pytest.raises(ValueError, match="weighted=True needs"):
        StreamingProblem([(X, np.ones(700))], Plain, weighted=True)


class Plain(PortfolioProblem):
    """A problem whose batches have no weights."""

    def inner_batch(self, draws):
        return super().inner_batch(draws)


# uphill


def heavy_tails(n):
    rng = np.random.default_rng(0)
    return 2 * rng.standard_t(2.5, (n, 6)) * np.linspace(0.5, 3, 6) + 0.1


def test_an_entropic_stream_that_runs_away_begins_again_with_shorter_steps():
    X = heavy_tails(20_000)
    solver = AutomaticSTORM(batch_size=32)  # with automatic batches it goes by moments
    portfolio = CompositionalPortfolio(solver, risk_measure="entropic", random_state=0)
    bits = []
    for size in (1000, 20_000):
        stream = clone(portfolio)
        for i in range(0, len(X), size):
            stream.partial_fit(X[i : i + size])
        bits.append((stream.weights_.tobytes(), stream.n_iter_, stream.stop_reason_))
        state = stream._stream[1]
        assert state.times >= 1 and abs(stream.score(X)) < 1  # without the guard: -2e39
    assert bits[0] == bits[1]
    by_moments = CompositionalPortfolio(risk_measure="entropic").partial_fit(X)
    assert -0.1 <= by_moments.score(X) <= 1


def test_a_learning_rate_that_goes_up_is_diverged_and_said():
    X = make_gaussian_returns(30_000, 4, mean=0.1, random_state=0)
    portfolio = CompositionalPortfolio(SCGD(learning_rate=1.2), random_state=0)
    with pytest.warns(ConvergenceWarning, match="went up on this stream.*smaller learning_rate"):
        portfolio.partial_fit(X)
    assert portfolio.stop_reason_ == "diverged" and portfolio.score(X) == -np.inf
    with pytest.raises(ValueError, match="'diverged': begin again"):
        portfolio.partial_fit(X)


def test_regimes_do_not_end_a_stream_with_automatic_steps():
    portfolio = CompositionalPortfolio(AutomaticSTORM(batch_size=32), constraint="long_only", random_state=0)
    reasons = []
    for seed in range(10):
        X = make_gaussian_returns(3000, 20, mean=0.1, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of the chunk that ends uphill
            reasons.append(portfolio.partial_fit(X).stop_reason_)
    assert reasons.count("diverged") == 1 and reasons[-1] == "exhausted"  # it raised from there on
    assert portfolio.weights_.sum() == pytest.approx(1)


def test_chance_is_not_uphill():
    for seed in range(6):
        X = make_gaussian_returns(20_000, 4, mean=0.0, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = minimize(StreamingProblem([X], PortfolioProblem), random_state=seed)
        assert result.stop_reason == "exhausted" and result.state.times == 0


def test_a_short_stream_near_gamma_1_has_the_values_that_its_moments_say():
    """A car that is pushed at random in a valley, -1 for each step; steps from 0 ended half way, without a warning."""
    rng, rows = np.random.default_rng(7), []
    for k in range(1000):
        x, v = (rng.uniform(-0.6, -0.4), 0.0) if k % 200 == 0 else rows[-1][2:]
        push = v + 0.001 * rng.integers(-1, 2) - 0.0025 * np.cos(3 * x)
        rows.append((x, v, x + push, push))
    X, next_X = np.hsplit(np.array(rows), 2)
    radial = make_pipeline(StandardScaler(), RBFSampler(gamma=0.2, n_components=100, random_state=0))
    value = BellmanValueEstimator(0.999, "storm-c", features=radial, alpha=1e-5, random_state=0)
    value.partial_fit(X, -np.ones(1000), next_X=next_X)
    np.testing.assert_allclose(value.predict(X), -1000.0, rtol=0.01)
