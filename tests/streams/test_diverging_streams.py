"""Streams of returns that go uphill, that are short, and whose rows have weights."""

import warnings

import numpy as np
import pytest
from helpers import slow_but
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from stream_helpers import bits, fed

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem, StreamingProblem
from sk_stormc.solvers import SCGD, AutomaticSTORM, minimize


def test_a_short_stream_of_returns_says_that_nothing_was_done():
    portfolio = CompositionalPortfolio("storm-c-paper", random_state=0)
    with pytest.warns(ConvergenceWarning, match="until about 512 rows"):
        portfolio.partial_fit(make_gaussian_returns(100, 3, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        portfolio.partial_fit(make_gaussian_returns(100, 3, random_state=1))


def test_weights_come_with_every_chunk_or_with_none():
    X, p = make_gaussian_returns(1000, 3, random_state=0), np.full(500, 100.0)
    for solver in ("moments", "storm-c"):
        portfolio = CompositionalPortfolio(solver, constraint="long_only")
        for first, then in ((p, None), (None, p)):
            stream = clone(portfolio).partial_fit(X[:500], sample_weight=first)
            with pytest.raises(ValueError, match="with every chunk .* or with none"):
                stream.partial_fit(X[500:], sample_weight=then)


def test_parameters_that_a_stream_does_not_use_are_checked():
    with pytest.raises(ValueError, match="time_limit must be a finite number > 0"):
        CompositionalPortfolio(time_limit=-1).partial_fit(np.eye(5))


def test_a_period_that_comes_again_with_the_next_chunk_is_said():
    pandas = pytest.importorskip("pandas")
    dates = pandas.date_range("2020-01-01", periods=40, freq="D")
    X = pandas.DataFrame(make_gaussian_returns(40, 3, random_state=0), index=dates)
    revised = X[19:].copy()
    revised.iloc[0] += 0.01  # another row of the same date
    portfolio = CompositionalPortfolio("moments", constraint="long_only")
    again = clone(portfolio).partial_fit(X[:20])
    with pytest.warns(UserWarning, match="2020-01-20.*and counts again: leave it out"):
        again.partial_fit(X[19:])
    values = X.to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for first, then in (
            (X[:20], X[20:]), (X[:20], revised), (values[:20], values[19:])
        ):  # fmt: skip
            clone(portfolio).partial_fit(first).partial_fit(then)


def test_wrong_weights_change_nothing():
    X = make_gaussian_returns(700, 3, random_state=0)
    portfolio = CompositionalPortfolio(random_state=0).partial_fit(X)
    before, ones = dict(vars(portfolio)), np.ones(700)
    for wrong, words in ((ones[:3], "shape"), (-ones, ">= 0"), (ones, "every chunk")):
        with pytest.raises(ValueError, match=f"sample_weight must.*{words}"):
            portfolio.partial_fit(X, sample_weight=wrong)
        assert vars(portfolio) == before
    with pytest.raises(ValueError, match="sample_weight must have a positive entry"):
        CompositionalPortfolio().partial_fit(X, sample_weight=0 * ones)
    with pytest.raises(ValueError, match="weighted=True needs"):
        StreamingProblem([(X, ones)], Plain, weighted=True)


class Plain(PortfolioProblem):
    """A problem whose batches have no weights."""

    def inner_batch(self, draws):
        return super().inner_batch(draws)


def test_an_entropic_stream_that_runs_away_begins_again_with_shorter_steps():
    rng, learned = np.random.default_rng(0), []
    X = 2 * rng.standard_t(2.5, (20_000, 6)) * np.linspace(0.5, 3, 6) + 0.1
    solver = AutomaticSTORM(batch_size=32)  # with automatic batches it goes by moments
    portfolio = CompositionalPortfolio(solver, risk_measure="entropic", random_state=0)
    for size in (5000, 20_000):
        stream = fed(clone(portfolio), X, size)
        learned.append(bits(stream))
        # without the guard: -2e39
        assert stream._stream.state.n_restarts >= 1 and abs(stream.score(X)) < 1
    assert learned[0] == learned[1]
    by_moments = CompositionalPortfolio(risk_measure="entropic").partial_fit(X)
    assert -0.1 <= by_moments.score(X) <= 1


def test_a_learning_rate_that_goes_up_is_diverged_and_said():
    X = make_gaussian_returns(30_000, 4, mean=0.1, random_state=0)
    portfolio = CompositionalPortfolio(SCGD(learning_rate=1.2), random_state=0)
    with pytest.warns(ConvergenceWarning, match="up on this stream.*smaller learning_"):
        portfolio.partial_fit(X)
    assert portfolio.stop_reason_ == "diverged" and portfolio.score(X) == -np.inf
    with pytest.raises(ValueError, match="'diverged': begin again"):
        portfolio.partial_fit(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_regimes_do_not_end_a_stream_with_automatic_steps():
    solver, reasons = AutomaticSTORM(batch_size=32), []
    portfolio = CompositionalPortfolio(solver, constraint="long_only", random_state=0)
    for seed in range(10):
        X = make_gaussian_returns(3000, 20, mean=0.1, random_state=seed)
        reasons.append(portfolio.partial_fit(X).stop_reason_)
    # it raised from there on
    assert reasons.count("diverged") == 1 and reasons[-1] == "exhausted"
    assert portfolio.weights_.sum() == pytest.approx(1)


def heavy_tailed(n, seed):
    rng = np.random.default_rng(seed)
    return 0.01 * rng.standard_t(3, (n, 20)) * rng.lognormal(0, 0.5, 20) + 2e-4


@pytest.mark.parametrize("solver", slow_but(["sarah-c", "civr", "scvr"], "sarah-c"))
def test_an_iterate_that_oscillates_above_the_start_is_said(solver):
    for seed in (10_002, 10_003, 10_004):
        X = heavy_tailed(20_000, seed)
        stream = StreamingProblem([X], PortfolioProblem)
        with pytest.warns(ConvergenceWarning, match="on average over its last records"):
            result = minimize(stream, solver, checkpoint_batch_size=64, random_state=0)
        problem = PortfolioProblem(X)
        assert problem.objective(result.x) > problem.objective(result.state.start)


@pytest.mark.parametrize("solver", slow_but(["storm-c", "asc-pg", "scgd"], "storm-c"))
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_a_right_run_on_heavy_tails_is_no_oscillation(solver):
    for seed in range(4):
        stream = StreamingProblem([heavy_tailed(14_000, seed)], PortfolioProblem)
        assert minimize(stream, solver, random_state=0).stop_reason == "exhausted"


@pytest.mark.filterwarnings("error")
def test_chance_is_not_uphill():
    for seed in range(3):
        X = make_gaussian_returns(20_000, 4, mean=0.0, random_state=seed)
        stream = StreamingProblem([X], PortfolioProblem)
        result = minimize(stream, random_state=seed)
        assert result.stop_reason == "exhausted" and result.state.n_restarts == 0
