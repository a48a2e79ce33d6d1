"""Neighbours of data far from zero, and the approximate search: recall, unusual data,
threads, the unit of the data."""

import numpy as np
import pytest
from helpers import few_of
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

import sk_stormc.embedding.neighbors.graph as graph_module
from sk_stormc import SNEEmbedding
from sk_stormc.affinities import (
    affinities,
    nearest_neighbors,
    perplexity_affinities,
    perplexity_search,
)
from sk_stormc.datasets import make_augmented_digits

DIGITS = make_augmented_digits(2000, random_state=0)[0]

pytestmark = pytest.mark.filterwarnings(
    "ignore:the map was still:sklearn.exceptions.ConvergenceWarning"
)


def with_times(n=600, seed=0):
    """Normal columns and one of times, in seconds since 1970, whose differences are
    below one."""
    rng = np.random.default_rng(seed)
    return np.hstack([rng.normal(size=(n, 20)), 1.7e9 + rng.uniform(size=(n, 1))])


def far_clusters():
    X = np.random.default_rng(0).normal(size=(600, 20))
    X[:300] += 1e9
    return X


def one_far_out():
    X = np.random.default_rng(0).normal(size=(600, 20))
    X[7] = 1e12
    return X


def by_differences(X, metric="euclidean"):
    """Distances of all pairs, infinite on the diagonal."""
    if metric == "cosine":
        D = pairwise_distances(X, metric=metric)
    else:
        D = np.stack([np.linalg.norm(X - x, axis=1) for x in X])
    np.fill_diagonal(D, np.inf)
    return D


@pytest.mark.parametrize(
    ("data", "metric"),
    [
        (with_times, "euclidean"),
        (far_clusters, "sqeuclidean"),
        (one_far_out, "minkowski"),
    ],
)
def test_neighbours_of_data_far_from_zero(data, metric):
    X = data()
    distances, neighbors = nearest_neighbors(X, 61, metric=metric).kneighbors()
    D = by_differences(X)
    expected = np.sort(D, axis=1)[:, :61]
    # ties in any order
    found = np.take_along_axis(D, neighbors, axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    power = 2 if metric == "sqeuclidean" else 1
    np.testing.assert_allclose(distances, expected**power, rtol=1e-9)


def test_an_offset_and_an_outlier_do_not_matter():
    X, outlier = DIGITS[:700], np.full((1, 64), 1e100)
    expected = nearest_neighbors(X, 30).kneighbors()
    for data in (X + 1e8, np.vstack([X, outlier])):
        found = nearest_neighbors(data, 30).kneighbors()
        np.testing.assert_array_equal(found[0][:700], expected[0])
        np.testing.assert_array_equal(found[1][:700], expected[1])


def test_copies_in_clusters_that_lie_far_apart():
    rows = np.random.default_rng(0).integers(0, 3, size=(20, 30))
    X = np.repeat(rows + 1e12 * np.arange(20)[:, None], 30, axis=0)
    distances, neighbors = nearest_neighbors(X, 10).kneighbors()
    assert (distances == 0).all() and (neighbors != np.arange(600)[:, None]).all()


def test_searches_of_new_samples_and_of_scikit_learn():
    X = with_times()
    P = affinities(NearestNeighbors(n_neighbors=61).fit(X), 20).toarray()
    expected = perplexity_affinities(X, 20, n_neighbors=61).toarray()
    np.testing.assert_array_equal(P, expected)
    search, D = nearest_neighbors(X, 10), by_differences(X)[:50]
    neighbors = search.kneighbors(X[:50] + 0.0, return_distance=False)
    np.testing.assert_array_equal(neighbors[:, 0], np.arange(50))
    np.testing.assert_array_equal(neighbors[:, 1:], np.argsort(D, axis=1)[:, :9])
    near = search.radius_neighbors(X[:50], radius=4.0, return_distance=False)
    for i, row in enumerate(D):
        assert set(near[i]) == {i, *np.flatnonzero(row < 4)}


def test_the_map_of_data_far_from_zero():
    X, near = with_times(200), with_times(200)
    near[:, -1] -= 1.7e9
    model, same = (
        SNEEmbedding(perplexity=20, max_iter=40, random_state=0).fit(data)
        for data in (X, near)
    )
    assert model.kl_divergence_ == pytest.approx(same.kl_divergence_, rel=0.02)
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    shift = 1e-6 * np.random.default_rng(1).normal(size=X.shape)
    away = np.linalg.norm(model.transform(X + shift) - model.embedding_, axis=1)
    assert away.max() < 1e-3


def approximate(X, metric="euclidean", n_jobs=None):
    """Affinities by an approximate search of 31 neighbours, and the recall that it
    reports."""
    search, perplexity = perplexity_search(
        X, 10, metric=metric, neighbors="approximate", n_jobs=n_jobs
    )
    return affinities(search, perplexity), search.recall_


def recall(P, D):
    """The fraction of the entries of P that are among the nearest."""
    n, k = P.shape[0], int(np.diff(P.indptr).min())
    assert not P.diagonal().any() and (np.diff(P.indptr) == k).all()
    assert len(np.unique(P.tocoo().coords, axis=1).T) == P.nnz
    farthest = np.sort(D, axis=1)[:, k - 1] * (1 + 1e-5) + 1e-9
    listed = D[np.repeat(np.arange(n), k), P.indices]
    return np.mean(listed <= np.repeat(farthest, k))


def far_apart(n=2000):
    """Clusters whose distance is so large beside their width that float32 about their
    common middle would not do."""
    X, y = make_blobs(n, 20, centers=6, random_state=2)
    return X - X.mean(axis=0) + 1e6 * y[:, None]


def thin_sheet():
    """Neighbours whose distances float32 changes by more than 1e-5 of them."""
    rng = np.random.default_rng(0)
    flat = np.hstack([rng.uniform(0, 200, size=(2000, 2)), np.zeros((2000, 18))])
    return flat @ np.linalg.qr(rng.normal(size=(20, 20)))[0]


@pytest.mark.parametrize(
    ("data", "metric"),
    few_of(
        [
            (lambda: DIGITS + 1e7, "euclidean"),
            (far_apart, "sqeuclidean"),
            (thin_sheet, "euclidean"),
            (lambda: DIGITS.astype(np.float32), "cosine"),
            (lambda: DIGITS + 1e3, "cosine"),
        ],
        *range(1, 4),
    ),
)
def test_recall(data, metric):
    X = data()
    P, reported = approximate(X, metric)
    actual = recall(P, by_differences(X.astype(float), metric))
    assert actual > 0.98 and reported == pytest.approx(actual, abs=0.015)
    exact = perplexity_affinities(X, 10, metric=metric)
    assert np.abs(exact - P).sum() < 0.03 * len(X)


def test_cosine_of_rows_of_zeros():
    X = np.vstack([DIGITS[:900], np.zeros((40, 64)), DIGITS[900:1500]])
    P, reported = approximate(X, "cosine")
    assert reported > 0.98 and not P[:900, 900:940].nnz


@pytest.mark.filterwarnings(
    "error", "ignore:the .* are all at a distance of 0|perplexity=10 is"
)
@pytest.mark.parametrize(
    "X",
    few_of(
        [
            np.repeat(DIGITS[:20], 60, axis=0),  # more copies than neighbours
            np.vstack([DIGITS[:1199], np.full((1, 64), 1e5)]),
            DIGITS[:40],
            DIGITS[:2, :3],
            np.linspace(0, 1, 1500)[:, None],
            np.ones((1500, 4)),  # all in one cell
            np.repeat(DIGITS[:100], 20, axis=0),
        ],
        *range(5),
    ),
)
def test_unusual_data(X):
    P, reported = approximate(X)
    assert recall(P, by_differences(X)) > 0.98 and reported > 0.97


@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float32, 1e15), (np.float64, 1e150), (np.float64, 1e-150)]
)
def test_the_unit_does_not_matter(dtype, scale):
    P, reported = approximate(DIGITS.astype(dtype))
    again, too = approximate((DIGITS * scale).astype(dtype))
    # the numbers are rounded, and a point between two cells may be in the other one
    assert np.abs(P - again).sum() < 0.01 * len(DIGITS) and abs(reported - too) < 0.01


def test_a_poor_recall_warns(monkeypatch):
    monkeypatch.setattr(graph_module, "MIN_RECALL", 1.0)
    words = r"found \d\d\.\d% of the true neighbours .* Use neighbors='exact'"
    with pytest.warns(UserWarning, match=words):
        approximate(DIGITS)


@pytest.mark.slow
def test_auto_is_approximate_for_many_samples():
    X = make_augmented_digits(10_050, random_state=0)[0]
    for data, exact in [
        (X, False),
        (X[:10_000], True),
        (X[:, 20:23], True),
    ]:  # of few features a tree is quick
        search, perplexity = perplexity_search(data, 2, neighbors="auto")
        affinities(search, perplexity)
        assert (search.recall_ == 1) == exact


@pytest.mark.parametrize(
    ("layout", "params", "words"),
    [
        (sparse.csr_array, {}, "is for dense X with .* sparse X with metric="),
        (np.asarray, {"metric": "cityblock"}, "'approximate' is for dense X with"),
        (np.asarray, {"neighbors": "annoy"}, "'auto', 'exact', 'approximate'"),
    ],
)
def test_searches_that_are_not_offered(layout, params, words):
    model = SNEEmbedding(**{"perplexity": 5, "neighbors": "approximate"} | params)
    with pytest.raises(ValueError, match=words):
        model.fit(layout(DIGITS[:50]))


def test_a_map_by_an_approximate_search():
    model = SNEEmbedding(perplexity=10, neighbors="approximate", max_iter=2)
    assert 1 > model.fit(DIGITS).neighbor_recall_ > 0.98
    np.testing.assert_array_equal(model.transform(DIGITS[:100]), model.embedding_[:100])
    assert model.set_params(neighbors="auto").fit(DIGITS[:100]).neighbor_recall_ == 1
