"""BLAS has one thread while a stream of transitions goes on, and its own number again afterwards."""

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from sk_stormc import ActionValueEstimator, BellmanValueEstimator

RNG = np.random.default_rng(0)
X, Y, ACTION = RNG.normal(size=(301, 3)), RNG.normal(size=300), RNG.integers(2, size=300)


def blas():
    """The largest number of threads of a BLAS library."""
    return max(library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas")


def first_action(states):
    return np.zeros(len(states), dtype=int)


class Seeing:
    """A transformer that keeps how many threads BLAS has while it is called."""

    seen: list[int] = []

    def fit(self, X, y=None):
        self.seen.append(blas())
        return self

    def transform(self, X):
        self.seen.append(blas())
        return np.asarray(X)

    def get_params(self, deep=True):
        return {}


@pytest.mark.parametrize(
    ("estimator", "given"),
    [
        (BellmanValueEstimator(0.9, "lstd", features=Seeing()), {}),
        (BellmanValueEstimator(0.9, "storm-c", features=Seeing(), random_state=0), {}),
        (ActionValueEstimator(first_action, gamma=0.9, features=Seeing()), {"action": ACTION}),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_one_thread_meanwhile(estimator, given, method):
    with threadpool_limits(2, user_api="blas"):
        if blas() != 2:
            pytest.skip("there is no BLAS here that can have two threads")
        Seeing.seen.clear()
        getattr(estimator, method)(X[:-1], Y, next_X=X[1:], **given)
        assert set(Seeing.seen) == {1} and blas() == 2
