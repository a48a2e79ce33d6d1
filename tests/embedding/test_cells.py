"""The approximate search: recall, distances, the same bits whatever the threads, data that it is not for."""

import warnings

import numpy as np
import pytest
from helpers import few_of, slow_but
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.metrics import pairwise_distances

import sk_stormc.embedding.neighbors.graph as neighbors_module
import sk_stormc.embedding.neighbors.inverted_file as module
import sk_stormc.embedding.neighbors.search as search_module
from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities, perplexity_search
from sk_stormc.datasets import make_augmented_digits
from sk_stormc.embedding.neighbors.graph import fit_search, neighbors_of_each

DIGITS = make_augmented_digits(2000, random_state=0)[0]


def searched(X, k=31, neighbors="approximate", **kwargs):
    search = fit_search(X, k, neighbors=neighbors, **kwargs)
    return (*neighbors_of_each(search), search.recall_)


def recall(X, found, metric="euclidean"):
    """The part of what was found that is among the k nearest; what is found are distances, and in order."""
    D = pairwise_distances(X if metric == "cosine" else X - X[0], metric=metric)  # which loses what is far from zero
    np.fill_diagonal(D, np.inf)
    distances, neighbors, _ = found
    n, k = neighbors.shape
    assert all(len(set(row)) == k for row in neighbors) and (neighbors != np.arange(n)[:, None]).all()
    actual = np.take_along_axis(D, neighbors, axis=1)
    np.testing.assert_allclose(distances, actual, rtol=1e-3, atol=1e-5 * np.median(D))
    assert (np.diff(distances, axis=1) >= 0).all()
    return (actual <= np.sort(D, axis=1)[:, [k - 1]] * (1 + 1e-5)).mean()


def clusters_and_a_continuum(n=2000):
    rng = np.random.default_rng(1)
    t = rng.uniform(size=(n // 2, 1))
    curve = np.hstack([np.sin(6 * t + phase) * 8 for phase in range(30)]) + rng.normal(size=(n // 2, 30))
    return np.vstack([curve, make_blobs(n - n // 2, 30, centers=12, cluster_std=1.5, random_state=1)[0]])


def far_apart(n=2000):
    """Clusters whose distance is so large beside their width that float32 about their common middle would not do."""
    X, y = make_blobs(n, 20, centers=6, random_state=2)
    return X - X.mean(axis=0) + 1e6 * y[:, None]


DATA = [lambda: DIGITS, clusters_and_a_continuum, far_apart, lambda: DIGITS + 1e7]


@pytest.mark.parametrize("data", few_of(DATA, 0, 1))
@pytest.mark.parametrize("dtype", slow_but([np.float64, np.float32], np.float64))
def test_recall(data, dtype):
    X = data()
    if dtype == np.float32 and np.abs(X).max() > 1e4:
        X = X - X[0]  # rounding would have taken the neighbours
        X = X / np.abs(X).max() if np.abs(X).max() < 1e4 else clusters_and_a_continuum()
    found = searched(X.astype(dtype))
    actual = recall(X.astype(dtype).astype(float), found)
    assert actual > 0.98 and found[2] == pytest.approx(actual, abs=0.015)


@pytest.mark.parametrize("metric", slow_but(["cosine", "sqeuclidean", "l2", "minkowski"], "cosine"))
def test_metrics(metric):
    found = searched(DIGITS, metric=metric)
    assert recall(DIGITS, found, metric) > 0.98
    if metric == "cosine":
        assert recall(DIGITS + 1e3, searched(DIGITS + 1e3, metric=metric), metric) > 0.98


@pytest.mark.slow
def test_the_recall_that_is_reported_is_free_of_rounding():
    # neighbours in a thin sheet: float32 changes their distances by more than 1e-5 of them
    rng = np.random.default_rng(0)
    flat = np.hstack([rng.uniform(0, 200, size=(6000, 2)), np.zeros((6000, 18))])
    X = flat @ np.linalg.qr(rng.normal(size=(20, 20)))[0]
    _, neighbors, found = searched(X, 8)
    true = searched(X, 8, neighbors="exact")[1]
    actual = np.mean([np.isin(mine, theirs).mean() for mine, theirs in zip(neighbors, true, strict=True)])
    assert found > 0.985 and found == pytest.approx(actual, abs=0.01)


def test_cosine_of_rows_of_zeros():
    X = np.vstack([DIGITS[:900], np.zeros((40, 64)), DIGITS[900:1500]])
    distances, neighbors, found = searched(X, metric="cosine")
    assert (distances[900:940] == 1).all() and found > 0.98
    assert not np.isin(neighbors[:900], np.arange(900, 940)).any()


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
)
def test_unusual_data(X):
    k = min(31, len(X) - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the .* are all at a distance of 0", UserWarning)
        distances, neighbors, found = searched(X, k)
    assert neighbors.shape == (len(X), k) and (neighbors != np.arange(len(X))[:, None]).all()
    assert all(len(set(row)) == k for row in neighbors)
    exact = np.sort(pairwise_distances(X) + np.diag(np.full(len(X), np.inf)), axis=1)[:, k - 1]
    assert np.mean(distances[:, -1] <= exact * 1.05 + 1e-9) > 0.98 and found > 0.97


@pytest.mark.parametrize(("dtype", "scale"), few_of([(np.float32, 1e15), (np.float64, 1e150), (np.float64, 1e-150)], 0))
def test_the_unit_does_not_matter(dtype, scale):
    distances, neighbors, found = searched(DIGITS.astype(dtype))
    again = searched((DIGITS * scale).astype(dtype))
    # the numbers are rounded, and a point between two cells may be in the other one
    assert np.isclose(again[0] / scale, distances, rtol=0.02).mean() > 0.999
    assert abs(again[2] - found) < 0.01


@pytest.mark.parametrize("neighbors", slow_but(["exact", "approximate"], "approximate"))
def test_same_bits_for_any_number_of_threads(neighbors, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 500)
    one = searched(DIGITS, neighbors=neighbors)
    for jobs in (2, 3):
        for found, again in zip(one, searched(DIGITS, neighbors=neighbors, n_jobs=jobs), strict=True):
            np.testing.assert_array_equal(found, again)


def test_blocks_and_tiles_do_not_matter(monkeypatch):
    distances = searched(DIGITS)[0]
    monkeypatch.setattr(module, "BLOCK", 700)
    monkeypatch.setattr(module, "TILE", 10_000)
    monkeypatch.setattr(module, "PRODUCTS", 100_000)
    monkeypatch.setattr(module, "CROWDED", 1)
    np.testing.assert_allclose(searched(DIGITS)[0], distances, rtol=1e-3)


@pytest.mark.slow
def test_auto_is_approximate_for_many(monkeypatch):
    monkeypatch.setattr(search_module, "MANY", 1400)
    cells, looked = module.approximate_neighbors, []
    monkeypatch.setattr(neighbors_module, "approximate_neighbors", lambda *args: looked.append(args) or cells(*args))
    searched(DIGITS[:1400], neighbors="auto")
    searched(sparse.csr_array(DIGITS[:1500]), neighbors="auto")
    searched(DIGITS[:1500], neighbors="auto", metric="cityblock")
    searched(DIGITS[:1500, 20:23], neighbors="auto")  # few features: a tree is quick
    searched(DIGITS, neighbors="exact")
    assert not looked
    monkeypatch.setattr(neighbors_module, "WORTH", 1.0)
    assert searched(DIGITS, neighbors="auto")[2] < 1 and len(looked) == 1
    monkeypatch.setattr(neighbors_module, "WORTH", 0.01)  # too many cells would be needed
    assert searched(DIGITS, neighbors="auto")[2] == 1 and len(looked) == 2


def test_affinities_of_an_approximate_search():
    exact, found = (perplexity_affinities(DIGITS, 10, neighbors=how) for how in ("exact", "approximate"))
    assert 0 < np.abs(exact - found).sum() < 0.02 * len(DIGITS)


def test_a_poor_recall_warns(monkeypatch):
    monkeypatch.setattr(module.Cells, "limits", lambda self, sample, true: (1, 0.0))
    monkeypatch.setattr(module, "FIRST", 1)
    with pytest.warns(UserWarning, match=r"search found \d\d\.\d% of the true neighbours .* Use neighbors='exact'"):
        found = searched(DIGITS)
    assert found[2] == pytest.approx(recall(DIGITS, found), abs=0.05)


@pytest.mark.parametrize(
    ("X", "metric", "words"),
    [(sparse.csr_array(DIGITS[:50]), "euclidean", "sparse X with metric='euclidean'"), (DIGITS[:50], "cityblock", "")],
)
def test_data_that_it_is_not_for(X, metric, words):
    with pytest.raises(ValueError, match="neighbors='approximate' is for dense X with .*" + words):
        perplexity_search(X, 5, metric=metric, neighbors="approximate")


@pytest.mark.parametrize("neighbors", ["annoy", None, 5])
def test_bad_ways_to_search(neighbors):
    with pytest.raises(ValueError, match="neighbors must be one of 'auto', 'exact', 'approximate'"):
        SNEEmbedding(neighbors=neighbors).fit(DIGITS[:100])


@pytest.mark.slow
def test_a_map():
    shared = {"perplexity": 10, "max_iter": 80, "random_state": 0}
    model = SNEEmbedding(neighbors="approximate", **shared).fit(DIGITS[:1100])
    exact = SNEEmbedding(**shared).fit(DIGITS[:1100])
    assert exact.neighbor_recall_ == 1 > model.neighbor_recall_ > 0.98
    assert model.kl_divergence_ == pytest.approx(exact.kl_divergence_, rel=0.03)
    np.testing.assert_array_equal(model.transform(DIGITS[:1100]), model.embedding_)


def test_the_recall_of_a_graph_is_not_known():
    graph = fit_search(DIGITS[:300], 31).kneighbors_graph(mode="distance")
    model = SNEEmbedding(perplexity=10, metric="precomputed", max_iter=60, random_state=0).fit(graph)
    assert np.isnan(model.neighbor_recall_)
    distances = SNEEmbedding(perplexity=10, metric="precomputed", max_iter=60, random_state=0)
    assert distances.fit(pairwise_distances(DIGITS[:300])).neighbor_recall_ == 1
