"""Neighbours of data far from zero, and the approximate search: recall, unusual data,
threads, the unit of the data."""

import warnings

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
    cosine = metric == "cosine"
    D = (
        pairwise_distances(X, metric=metric)
        if cosine
        else np.stack([np.linalg.norm(X - x, axis=1) for x in X])
    )
    np.fill_diagonal(D, np.inf)
    return D


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "minkowski"])
@pytest.mark.parametrize("data", [with_times, far_clusters, one_far_out])
def test_neighbours_of_data_far_from_zero(data, metric):
    X = data()
    distances, neighbors = nearest_neighbors(X, 61, metric=metric).kneighbors()
    D = by_differences(X)
    expected = np.sort(D, axis=1)[:, :61]
    # ties in any order
    np.testing.assert_allclose(
        np.take_along_axis(D, neighbors, axis=1), expected, rtol=1e-9
    )
    np.testing.assert_allclose(
        distances,
        np.square(expected) if metric == "sqeuclidean" else expected,
        rtol=1e-9,
    )


def test_an_offset_and_an_outlier_do_not_matter():
    near, far = (
        nearest_neighbors(X, 30).kneighbors()
        for X in (DIGITS[:700], DIGITS[:700] + 1e8)
    )
    outlier = nearest_neighbors(
        np.vstack([DIGITS[:700], np.full((1, 64), 1e100)]), 30
    ).kneighbors()
    for found, expected, beside in zip(far, near, outlier, strict=True):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(beside[:700], expected)


def test_copies_in_clusters_that_lie_far_apart():
    X = np.repeat(
        np.random.default_rng(0).integers(0, 3, size=(20, 30))
        + 1e12 * np.arange(20)[:, None],
        30,
        axis=0,
    )
    distances, neighbors = nearest_neighbors(X, 10).kneighbors()
    assert (distances == 0).all() and (neighbors != np.arange(600)[:, None]).all()


def test_searches_of_new_samples_and_of_scikit_learn():
    X = with_times()
    P = affinities(NearestNeighbors(n_neighbors=61).fit(X), 20)
    np.testing.assert_array_equal(
        P.toarray(), perplexity_affinities(X, 20, n_neighbors=61).toarray()
    )
    search, D = nearest_neighbors(X, 10), by_differences(X)
    neighbors = search.kneighbors(X[:50] + 0.0, return_distance=False)
    np.testing.assert_array_equal(neighbors[:, 0], np.arange(50))
    np.testing.assert_array_equal(neighbors[:, 1:], np.argsort(D[:50], axis=1)[:, :9])
    near = search.radius_neighbors(X[:50], radius=4.0, return_distance=False)
    assert [set(row) for row in near] == [
        set(np.flatnonzero(row < 4)) | {i} for i, row in enumerate(D[:50])
    ]


def test_the_map_of_data_far_from_zero():
    X, near = with_times(), with_times()
    near[:, -1] -= 1.7e9
    model, same = (
        SNEEmbedding(perplexity=20, max_iter=60, random_state=0).fit(data)
        for data in (X, near)
    )
    assert model.kl_divergence_ == pytest.approx(same.kl_divergence_, rel=0.02)
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    Z = model.transform(
        X[:100] + 1e-6 * np.random.default_rng(1).normal(size=(100, 21))
    )
    assert np.linalg.norm(Z - model.embedding_[:100], axis=1).max() < 1e-3


def approximate(X, metric="euclidean", n_jobs=None):
    """Affinities by an approximate search of 31 neighbours, and the recall that it
    reports."""
    search, perplexity = perplexity_search(
        X, 10, metric=metric, neighbors="approximate", n_jobs=n_jobs
    )
    return affinities(search, perplexity), search.recall_


def recall(P, D):
    """The fraction of the entries of P that are among the nearest."""
    k = int(np.diff(P.indptr).min())
    assert not P.diagonal().any() and (np.diff(P.indptr) == k).all()
    assert len(np.unique(P.tocoo().coords, axis=1).T) == P.nnz
    farthest = np.sort(D, axis=1)[:, k - 1] * (1 + 1e-5) + 1e-9
    return np.mean(
        D[np.repeat(np.arange(P.shape[0]), k), P.indices] <= np.repeat(farthest, k)
    )


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
    [
        (lambda: DIGITS + 1e7, "euclidean"),
        (far_apart, "sqeuclidean"),
        (thin_sheet, "euclidean"),
        (lambda: DIGITS.astype(np.float32), "cosine"),
        (lambda: DIGITS + 1e3, "cosine"),
    ],
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


@pytest.mark.parametrize(
    "X",
    few_of([
        np.ones((1500, 4)),  # all in one cell
        np.repeat(DIGITS[:100], 20, axis=0),
        np.repeat(DIGITS[:20], 100, axis=0),  # more copies than neighbours
        np.vstack([DIGITS[:1499], np.full((1, 64), 1e5)]),
        DIGITS[:40],
        DIGITS[:2, :3],
        np.linspace(0, 1, 1500)[:, None],
    ], 1, 3, 4, 5, 6),
)  # fmt: skip
def test_unusual_data(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore",
            "the .* are all at a distance of 0|perplexity=10 is too large",
            UserWarning,
        )
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
    with pytest.warns(
        UserWarning,
        match=r"search found \d\d\.\d% of the true neighbours .* Use neighbors='exact'",
    ):
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
    ("X", "params", "words"),
    [
        (
            sparse.csr_array(DIGITS[:50]),
            {"neighbors": "approximate"},
            "is for dense X with .* sparse X with metric=",
        ),
        (
            DIGITS[:50],
            {"neighbors": "approximate", "metric": "cityblock"},
            "'approximate' is for dense X with",
        ),
        (
            DIGITS[:50],
            {"neighbors": "annoy"},
            "neighbors must be one of 'auto', 'exact', 'approximate'",
        ),
    ],
)
def test_searches_that_are_not_offered(X, params, words):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(perplexity=5, **params).fit(X)


def test_a_map_by_an_approximate_search():
    model = SNEEmbedding(
        perplexity=10, neighbors="approximate", max_iter=5, random_state=0
    ).fit(DIGITS)
    assert 1 > model.neighbor_recall_ > 0.98
    np.testing.assert_array_equal(model.transform(DIGITS[:100]), model.embedding_[:100])
    assert (
        SNEEmbedding(perplexity=10, max_iter=5, random_state=0)
        .fit(DIGITS[:100])
        .neighbor_recall_
        == 1
    )
