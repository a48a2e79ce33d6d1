"""Large maps begin from a map of some of their points."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from sk_stormc import SNEEmbedding
from sk_stormc.datasets import make_augmented_digits
from sk_stormc.embedding import coarse
from sk_stormc.embedding.coarse import _means, _spread, coarse_start, is_coarse
from sk_stormc.embedding.neighborhoods import Neighborhoods

N = 800


@pytest.fixture(autouse=True)
def fewer(monkeypatch):
    monkeypatch.setattr(coarse, "FEWEST", 57)
    monkeypatch.setattr(coarse, "LARGE", N)


@pytest.fixture(scope="module")
def data():
    return make_augmented_digits(N, random_state=0)[0]


def test_which_maps_begin_so():
    assert is_coarse(SNEEmbedding(), N) and is_coarse(SNEEmbedding(1), N) and not is_coarse(SNEEmbedding(), N // 2)
    others = {"n_components": 3}, {"init": "pca"}, {"kernel": "gaussian"}, {"metric": "precomputed"}, {"init": None}
    assert not any(is_coarse(SNEEmbedding(**params), N) for params in others)


def test_the_start_is_the_map_of_some_samples_and_means_of_neighbours(data, monkeypatch):
    fitted, fit = [], SNEEmbedding.fit

    def noted(model, X, y=None):
        fitted.append((model, X))
        return fit(model, X, y)

    monkeypatch.setattr(SNEEmbedding, "fit", noted)
    monkeypatch.setattr(coarse, "_means", lambda start, P, rows: start)
    model = SNEEmbedding(perplexity=8, max_iter=30, metric="manhattan", random_state=0)
    P = Neighborhoods(data, False, 8, "manhattan").to_optimise()
    start = coarse_start(model, data, P, np.random.RandomState(0))
    ((few, X),) = fitted
    assert len(X) == coarse.FEWEST and (few.perplexity, few.metric) == (8, "manhattan")
    assert few.n_iter_ == coarse.ITERATIONS  # whatever the model has
    chosen = np.flatnonzero((data[:, None] == X[None]).all(axis=2).any(axis=1))
    np.testing.assert_array_equal(start[chosen], few.embedding_)
    k = np.setdiff1d(np.flatnonzero(P[:, chosen].sum(axis=1) > 0), chosen)[0]
    weights = P[[k]].toarray().ravel()[chosen]
    np.testing.assert_allclose(start[k], weights @ few.embedding_ / weights.sum(), rtol=1e-5)
    skipped = coarse_start(model, data, P, rng := np.random.RandomState(0), needed=False)
    other = np.random.RandomState(0)
    other.randint(coarse.DRAWN)
    assert not skipped.any() and rng.randint(100) == other.randint(100) and len(fitted) == 1


def test_the_map_of_some_samples_does_not_warn(data):
    P = Neighborhoods(data, False, 40, "euclidean").to_optimise()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coarse_start(SNEEmbedding(perplexity=40), data, P, np.random.RandomState(0))  # too large for 57 samples


def test_places_reach_points_that_are_not_next_to_a_sample():
    chain = sparse.csr_array(sparse.diags_array([np.ones(4), np.ones(4)], offsets=[-1, 1], shape=(5, 5)))
    P = sparse.csr_array(sparse.block_diag([chain, np.ones((2, 2))]))
    start = np.zeros((7, 1))
    start[0] = 3
    assert list(_spread(start, np.array([0]), P)) == [5, 6]
    assert list(start.ravel()) == [3, 3, 3, 3, 3, 0, 0]


def test_means_are_over_all_neighbours():
    P = sparse.csr_array(np.array([[0, 3, 1.0], [1, 0, 0], [1, 1, 0]]))
    found = _means(np.array([[1.0], [2.0], [6.0]]), P, np.array([0, 2]))
    assert list(found.ravel()) == [3, 2, 1.5]


def test_a_fit_begins_there_with_the_same_bits_every_time(data):
    maps = [SNEEmbedding(perplexity=8, max_iter=20, random_state=0, n_jobs=n).fit(data).embedding_ for n in (None, 2)]
    np.testing.assert_array_equal(*maps)
    plain = SNEEmbedding(perplexity=8, max_iter=20, init="pca", random_state=0).fit(data).embedding_
    assert np.abs(maps[0] - plain).max() > 0.1 * plain.std()


def test_a_fit_that_is_resumed_has_the_bits_of_one_that_was_not_ended(data, monkeypatch):
    whole = SNEEmbedding(perplexity=8, max_iter=30, random_state=0).fit(data)
    stopped = SNEEmbedding(perplexity=8, max_iter=30, random_state=0, solver="storm-c")
    stopped.set_params(solver__max_ifo=15 * 3 * N).fit(data)
    assert 0 < stopped.n_iter_ < 30
    monkeypatch.setattr(coarse, "_spread", None)  # no map of some samples is made again
    stopped.set_params(solver__max_ifo=None).resume(data)
    np.testing.assert_array_equal(stopped.embedding_, whole.embedding_)


def test_ctrl_c_within_the_start_ends_the_fit(data, monkeypatch):
    def interrupted(model, X, y=None):
        model.stop_reason_, model.embedding_ = "interrupted", np.zeros((len(X), 2))

    P = Neighborhoods(data, False, 8, "euclidean").to_optimise()
    monkeypatch.setattr(SNEEmbedding, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        coarse_start(SNEEmbedding(perplexity=8), data, P, np.random.RandomState(0))
