"""Data far from zero, and data that change after the fit: neighbours and places stay those of the samples."""

import warnings

import numpy as np
import pytest
from helpers import slow_but
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import affinities, nearest_neighbors, perplexity_affinities
from sk_stormc.embedding.neighbors.graph import fit_search, neighbors_of_each
from sk_stormc.embedding.neighbors.offsets import offsets

DIGITS = load_digits().data


def with_times(n=600, seed=0):
    """Normal columns and one of times, in seconds since 1970, whose differences are below one."""
    rng = np.random.default_rng(seed)
    return np.hstack([rng.normal(size=(n, 20)), 1.7e9 + rng.uniform(size=(n, 1))])


def far_clusters(distance=1e9):
    X = np.random.default_rng(0).normal(size=(600, 20))
    X[:300] += distance
    return X


def one_far_out():
    X = np.random.default_rng(0).normal(size=(600, 20))
    X[7] = 1e12
    return X


def by_differences(X):
    D = np.stack([np.sqrt(np.square(X - x).sum(axis=1)) for x in X])
    np.fill_diagonal(D, np.inf)
    return D


def recall(X, metric="euclidean", k=61):
    """The part of the neighbours that are among the k nearest, and the largest relative error of a distance."""
    distances, neighbors = neighbors_of_each(fit_search(X, k, metric=metric))
    D = by_differences(X)
    found = np.take_along_axis(D, neighbors, axis=1)
    assert all(len(set(row)) == k for row in neighbors)
    among = found <= np.sort(D, axis=1)[:, [k - 1]] * (1 + 1e-12)
    return among.mean(), np.abs(np.sqrt(distances) / found if metric == "sqeuclidean" else distances / found).max() - 1


# --- the search ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", slow_but(["euclidean", "sqeuclidean", "minkowski"], "euclidean"))
@pytest.mark.parametrize("data", [with_times, far_clusters, one_far_out])
def test_neighbours_of_data_far_from_zero(data, metric):
    part, error = recall(data(), metric)
    assert part == 1 and error < 1e-9


def test_digits_far_from_zero():
    near, far = (nearest_neighbors(X, 30).kneighbors() for X in (DIGITS[:700], DIGITS[:700] + 1e8))
    for found, expected in zip(far, near, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_copies_in_a_far_cluster():
    X = np.repeat(np.random.default_rng(0).integers(0, 3, size=(20, 30)) + 1e12 * np.arange(20)[:, None], 30, axis=0)
    distances, neighbors = neighbors_of_each(fit_search(X, 10))
    assert (distances == 0).all() and (neighbors != np.arange(600)[:, None]).all()


def test_others_fitted_searches_are_taken():
    X = with_times()
    P = affinities(NearestNeighbors(n_neighbors=61).fit(X), 20)
    np.testing.assert_array_equal(P.toarray(), perplexity_affinities(X, 20, n_neighbors=61).toarray())


def test_new_samples_of_a_search():
    X = with_times()
    search, D = nearest_neighbors(X, 10), by_differences(X)
    distances, neighbors = search.kneighbors(X[:50] + 0.0)
    np.testing.assert_array_equal(neighbors[:, 0], np.arange(50))
    np.testing.assert_array_equal(neighbors[:, 1:], np.argsort(D[:50], axis=1)[:, :9])
    near = search.radius_neighbors(X[:50], radius=4.0, return_distance=False)
    assert [set(row) for row in near] == [set(np.flatnonzero(row < 4)) | {i} for i, row in enumerate(D[:50])]


def test_offsets_are_values_of_the_data():
    X = with_times()
    assert all(value in column for value, column in zip(offsets(X), X.T, strict=True))
    far_out = np.vstack([DIGITS, np.full((1, 64), 1e100)])
    np.testing.assert_array_equal(offsets(far_out), offsets(DIGITS))


# --- where rounding has taken the neighbours -------------------------------------------------------------


def test_data_that_are_rounded_away_warn():
    X = (DIGITS[:600] + 1e8).astype(np.float32)
    with pytest.warns(UserWarning, match="float32 has rounded them: .* are 24 apart, .* the 31 neighbours .* is at 4"):
        perplexity_affinities(X, 10)
    with pytest.warns(UserWarning, match="is partly chance. Take the columns' means off"):
        SNEEmbedding(perplexity=10, max_iter=60, random_state=0).fit(X)


@pytest.mark.parametrize(
    "X", [DIGITS[:600] + 1e8, (DIGITS[:600] + 1e3).astype(np.float32), np.full((50, 20), 1e15, np.float32), DIGITS[:99]]
)
def test_data_that_are_not_rounded_away_do_not(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the .* neighbours .* are all at a distance of 0", UserWarning)
        perplexity_affinities(X, 10)


# --- the map and new samples -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return SNEEmbedding(perplexity=20, max_iter=60, random_state=0).fit(with_times())


def test_the_map_of_data_far_from_zero(model):
    X = with_times()
    X[:, -1] -= 1.7e9
    same = SNEEmbedding(perplexity=20, max_iter=60, random_state=0).fit(X)
    assert model.kl_divergence_ == pytest.approx(same.kl_divergence_, rel=0.02)


def test_training_rows_far_from_zero_return_their_points(model):
    np.testing.assert_array_equal(model.transform(with_times()), model.embedding_)


def test_a_new_sample_far_from_zero_goes_to_its_neighbours(model):
    X = with_times()
    Z = model.transform(X[:100] + 1e-6 * np.random.default_rng(1).normal(size=(100, 21)))
    assert np.linalg.norm(Z - model.embedding_[:100], axis=1).max() < 1e-3


# --- data that change after the fit ----------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "cosine", "seuclidean", "precomputed"])
@pytest.mark.parametrize("layout", [np.array, sparse.csr_array])
def test_the_callers_array_may_change(metric, layout):
    if layout is not np.array and metric == "seuclidean":
        pytest.skip("scikit-learn has no such metric of sparse data")
    X, new, V = DIGITS[:100].copy(), DIGITS[100:110], np.ones(64)
    if metric == "precomputed":
        graph = KNeighborsTransformer(n_neighbors=31).fit(X)
        X, new = (
            (pairwise_distances(X), pairwise_distances(new, X))
            if layout is np.array
            else (graph.transform(X), graph.transform(new))
        )
    X, params = layout(X), {"V": V} if metric == "seuclidean" else None
    model = SNEEmbedding(perplexity=10, metric=metric, metric_params=params, max_iter=5, random_state=0).fit(X)
    Z = model.transform(new)
    (X if layout is np.array else X.data)[:] = 0
    V[:] = 100 * np.arange(1, 65)
    np.testing.assert_array_equal(model.transform(new), Z)
