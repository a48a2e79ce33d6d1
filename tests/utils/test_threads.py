"""The library's own threads: results do not depend on their number, and BLAS has one
thread meanwhile."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from sk_stormc import (
    BellmanValueEstimator,
    CompositionalPortfolio,
    SNEEmbedding,
    minimize,
)
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem
from sk_stormc.utils.threads import each, in_one_thread, n_threads, threads

RETURNS = make_gaussian_returns(300, 3, random_state=0)


def blas():
    """The largest number of threads of a BLAS library."""
    return max(
        library["num_threads"]
        for library in ThreadpoolController().info()
        if library["user_api"] == "blas"
    )


def openmp():
    found = [
        library["num_threads"]
        for library in ThreadpoolController().info()
        if library["user_api"] == "openmp"
    ]
    return max(found, default=1)


@pytest.fixture
def two_of_blas():
    with threadpool_limits(2, user_api="blas"):
        if blas() != 2:
            pytest.skip("there is no BLAS here that can have two threads")
        yield


def test_parts_are_taken_by_several_threads_that_end_with_their_context():
    both, before = threading.Barrier(2, timeout=30), threading.active_count()
    with threads(2):
        names = each(
            lambda _: both.wait() is not None and threading.current_thread().name,
            [0, 1],
        )
        with threads(4):
            assert n_threads() == 2
    assert len(set(names)) == 2 and threading.active_count() == before


def test_a_part_may_have_parts_of_its_own():
    with threads(2):
        assert each(lambda i: each(lambda j: 10 * i + j, [1, 2]), [1, 2, 3]) == [
            [11, 12],
            [21, 22],
            [31, 32],
        ]


@pytest.mark.parametrize("wrong", [0, 1, 7])
def test_an_error_of_a_part_comes_out(wrong):
    def part(k):
        if k == wrong:
            raise KeyError(k)

    with threads(3), pytest.raises(KeyError, match=str(wrong)):
        each(part, range(8))


def test_the_last_user_gives_blas_its_threads_back(two_of_blas):
    """The first one did, while another thread still computed."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with in_one_thread():
            held.set()
            done.wait(30)

    other = threading.Thread(target=hold)
    with in_one_thread():
        with in_one_thread():
            other.start()
            assert held.wait(30)
        assert blas() == 1
    assert blas() == 1
    done.set()
    other.join()
    assert blas() == 2
    with pytest.raises(KeyError), in_one_thread():
        raise KeyError
    assert blas() == 2


@pytest.mark.slow
def test_fits_in_eight_threads_have_the_bits_of_one(two_of_blas):
    rng = np.random.default_rng(0)
    X, following = rng.normal(size=(2, 3000, 60))

    def coefficients(k=0):
        y = X[:, 0] + X[:, k % 5]
        return BellmanValueEstimator(gamma=0.9).fit(X, y, next_X=following).coef_

    expected = [coefficients(k) for k in range(5)]
    with ThreadPoolExecutor(8) as pool:
        for k, found in enumerate(pool.map(coefficients, range(40))):
            np.testing.assert_array_equal(found, expected[k % 5])
    assert blas() == 2


def test_fits_in_several_threads_leave_the_filters_of_warnings():
    """Each restored the filters of the process as it had found them, and the last one
    left those of another fit: ConvergenceWarnings were ignored from then on."""
    rows = make_gaussian_returns(1100, 3, random_state=0)
    problem = PortfolioProblem(rows, risk_measure="entropic", risk_aversion=20.0)
    fit = partial(minimize, problem, "corrected-sample", sample_size=200)
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: fit(random_state=k), range(8)))
    assert warnings.filters == before


def test_blas_has_one_thread_beside_the_librarys_own(two_of_blas):
    with threads(2):
        assert blas() == 1
    assert blas() == 2


def test_openmp_has_one_in_each_thread():
    with threadpool_limits(2, user_api="openmp"), threads(2):
        both = threading.Barrier(2, timeout=30)
        assert each(lambda _: both.wait() is not None and openmp(), [0, 1]) == [1, 1]


def test_a_run_has_one_thread_of_blas(two_of_blas):
    seen = []
    minimize(
        PortfolioProblem(RETURNS),
        max_iter=3,
        tol=0,
        random_state=0,
        on_record=lambda _: seen.append(blas()),
    )
    assert set(seen) == {1} and blas() == 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_estimator_holds_blas(two_of_blas, monkeypatch):
    seen, make = [], CompositionalPortfolio._make_solver
    monkeypatch.setattr(
        CompositionalPortfolio,
        "_make_solver",
        lambda self: seen.append(blas()) or make(self),
    )
    portfolio = CompositionalPortfolio("storm-c", max_iter=3, tol=0, random_state=0)
    portfolio.partial_fit(RETURNS)
    assert set(seen) == {1} and blas() == 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_map_has_the_threads_of_n_jobs():
    def distance(a, b):
        seen.add(n_threads())
        return np.abs(a - b).sum()

    seen = set()
    SNEEmbedding(n_jobs=3, metric=distance, perplexity=5, max_iter=5).fit(
        np.random.default_rng(0).random((60, 3))
    )
    assert 3 in seen and n_threads() == 1
    with pytest.raises(
        ValueError, match="n_jobs must be None or an integer other than 0"
    ):
        SNEEmbedding(n_jobs=0).fit(np.zeros((1, 1)))
