"""Ctrl-C and errors within a stream: no row is lost or used twice, and the bits are the
same."""

import contextlib
import inspect
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer
from stream_helpers import bits, result_bits

import sk_stormc
from sk_stormc import BellmanValueEstimator, CompositionalPortfolio, minimize
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.problems import PortfolioProblem, StreamingProblem

RETURNS = make_gaussian_returns(6000, 4, mean=0.1, random_state=0)
LOG = make_bellman_problem(
    n_states=12, n_features=None, gamma=0.8, random_state=0
).transitions(2800, random_state=0)


def feed_returns(estimator, rows):
    return estimator.partial_fit(RETURNS[rows])


def feed_transitions(estimator, rows):
    return estimator.partial_fit(
        LOG.X[rows], LOG.y[rows], next_X=LOG.next_X[rows], terminal=LOG.terminal[rows]
    )


KINDS = {
    "portfolio": (partial(CompositionalPortfolio, constraint="long_only"), feed_returns),
    "entropic": (
        partial(CompositionalPortfolio, "scgd", risk_measure="entropic"), feed_returns
    ),
    "values": (partial(BellmanValueEstimator, 0.8), feed_transitions),
}  # fmt: skip


class Pressed:
    """Press Ctrl-C at some of the places in the library where Python handles signals,
    which are counted from 0.

    These are the beginnings of functions and the returns of built-in functions. No
    clock is involved, so that every machine runs the same test.
    """

    library = str(Path(sk_stormc.__file__).parent)

    def __init__(self, *at):
        self.at, self.places = at, 0

    def __enter__(self):
        self.before = sys.getprofile()
        sys.setprofile(self._look)
        return self

    def __exit__(self, kind, error, traceback):
        sys.setprofile(self.before)

    def _look(self, frame, event, arg):
        code = frame.f_code
        # where one is closed Python hides errors
        begins = event == "call" and not code.co_flags & inspect.CO_GENERATOR
        if (begins or event == "c_return") and code.co_filename.startswith(
            self.library
        ):
            self.places += 1
            if self.places - 1 in self.at:
                signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("size", "twice"), [(700, False), (2800, True)])
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_in_partial_fit_leaves_the_state_before_the_chunk(kind, size, twice):
    """A second Ctrl-C does not wait for the end of an iteration."""
    make, feed = KINDS[kind]
    whole, broken = (make(random_state=np.random.RandomState(3)) for _ in range(2))
    rng, hits = np.random.default_rng(0), 0
    for start in range(0, 2800, size):
        rows, done = slice(start, start + size), None
        with Pressed() as counted:
            feed(whole, rows)
        for _ in range(3):
            before, at = dict(vars(broken)), rng.integers(counted.places)
            try:
                with Pressed(at, at + rng.integers(1, 400) if twice else at):
                    done = feed(broken, rows)
                break  # it came after the run
            except KeyboardInterrupt:
                hits += 1
            assert vars(broken).keys() == before.keys()
            assert all(vars(broken)[name] is value for name, value in before.items())
        if done is None:
            feed(broken, rows)
        assert bits(broken) == bits(whole)
    assert hits >= 2800 // size


def stream_of(batches):
    return StreamingProblem(
        batches, partial(PortfolioProblem, preconditioner="variance")
    )


def chunks(size=100):
    return np.array_split(RETURNS, len(RETURNS) // size)


@pytest.mark.parametrize(
    "k", [6, 25, 59]
)  # at the start of the run, within, at the end
def test_ctrl_c_within_the_iterator(k):
    def batches(k):
        for number, batch in enumerate(chunks()):
            if number == k:
                signal.raise_signal(signal.SIGINT)
            yield batch

    with pytest.raises(KeyboardInterrupt):  # the window is read as the stream is made
        stream_of(batches(3))
    stream = stream_of(batches(k))
    result = minimize(stream, random_state=0)
    assert result.stop_reason == "interrupted" and result.n_iter <= 6000 // 16
    result = minimize(stream, state=result.state)
    assert result.stop_reason == "exhausted"
    expected = minimize(stream_of(chunks()), random_state=0)
    assert result_bits(result) == result_bits(expected)


@pytest.mark.parametrize("twice", [False, True])
def test_ctrl_c_at_any_time_in_minimize(twice):
    risk = "entropic" if twice else "variance"
    make = partial(PortfolioProblem, preconditioner="variance", risk_measure=risk)
    whole = minimize(StreamingProblem(chunks(), make), random_state=0)
    stream, rng = StreamingProblem(chunks(), make), np.random.default_rng(1)
    result, hits = None, 0
    while result is None or result.stop_reason == "interrupted":
        at = rng.integers(100, 15_000)
        pressed = Pressed(at, at + rng.integers(1, 400) if twice else at)
        with contextlib.suppress(KeyboardInterrupt), pressed:
            result = None  # Ctrl-C may come before or after the run itself
            result = minimize(stream, random_state=0, state=stream.state)
        hits += 1
    assert hits > 3
    assert result_bits(result) == result_bits(whole)


class Unreliable:
    """An iterator that raises an error once."""

    def __init__(self, k, error):
        self.at, self.k, self.error = 0, k, error

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == self.k:
            self.k = None
            raise self.error
        if self.at == len(chunks()):
            raise StopIteration
        self.at += 1
        return chunks()[self.at - 1]


@pytest.mark.parametrize("k", [6, 31])
def test_an_error_of_the_iterator(k):
    stream = stream_of(Unreliable(k, OSError("no connection")))
    assert stream.state is None
    with pytest.raises(OSError, match="no connection"):
        minimize(stream, "asc-pg", random_state=0)
    result = minimize(stream, "asc-pg", state=stream.state)
    expected = minimize(stream_of(chunks()), "asc-pg", random_state=0)
    assert result_bits(result) == result_bits(expected)


def test_an_error_in_a_chunk():
    def fails(X):
        if (X[:, 0] > 1e6).any():
            raise OSError("no connection")
        return X

    features = FunctionTransformer(fails)
    estimator = BellmanValueEstimator(0.8, features=features, random_state=0)
    feed_transitions(estimator, slice(0, 1000))
    before = dict(vars(estimator))
    with pytest.raises(OSError):
        estimator.partial_fit(1e9 * LOG.X[:50], LOG.y[:50], next_X=LOG.next_X[:50])
    assert vars(estimator) == before
