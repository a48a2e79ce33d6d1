"""Where embeddings begin: principal components, eigenvectors of the graph, noise and given arrays."""

import warnings

import numpy as np
import pytest
from helpers import few_of, slow_but
from scipy import sparse
from scipy.sparse.linalg import eigsh
from scipy.spatial import procrustes
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsTransformer

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.datasets import make_augmented_digits
from sk_stormc.embedding.initialization import SIZE, check_init, make_start, spectral_coordinates

DIGITS = load_digits().data
KERNELS = ("gaussian", "student-t")
WAYS = ("pca", "spectral", "random")


def start_of(init, X, d=2, kernel="student-t", seed=0, perplexity=5):
    P = perplexity_affinities(X, perplexity)
    way = check_init(init, "euclidean", X.shape[0], d)
    return make_start(way, X, P, d, kernel, np.random.RandomState(seed))


@pytest.mark.parametrize("kernel", KERNELS)
def test_principal_components(kernel):
    X = DIGITS[:200]
    for layout in (np.asarray, sparse.csr_array, np.float32):
        Z, expected = start_of("pca", layout(X), 3, kernel), PCA(3).fit_transform(X)
        expected = np.abs(expected) / expected[:, 0].std()
        np.testing.assert_allclose(np.abs(Z) / SIZE[kernel], expected, atol=1e-4)
    np.testing.assert_array_equal(start_of("auto", X, 3, kernel), start_of("pca", X, 3, kernel))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_dimension_is_dead(way, kernel):
    rng = np.random.default_rng(0)
    line, plane = rng.normal(size=(60, 1)), rng.normal(size=(60, 2))
    for X in (line, line @ [[1.0, 2.0, 3.0]], plane, (plane @ rng.normal(size=(2, 6))).astype(np.float32)):
        for d in (2, 5):
            deviations = start_of(way, X, d, kernel).std(axis=0)
            expected = min(SIZE[kernel], 1.0) if way == "random" else SIZE[kernel]
            assert deviations.max() == pytest.approx(expected, rel=0.5 if way == "random" else 1e-6)
            assert deviations.min() > 0.005 * expected


def test_sparse_data_of_as_few_features_as_components():
    plane = np.random.default_rng(0).normal(size=(60, 2))
    np.testing.assert_allclose(start_of("pca", sparse.csr_array(plane)), start_of("pca", plane), rtol=1e-9)
    assert start_of("pca", sparse.csr_array(plane), 5).std(axis=0).min() > 0


@pytest.mark.parametrize("kernel", few_of(KERNELS, 1))
def test_more_components_than_the_rank_of_the_data(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 1)) @ rng.normal(size=(1, 4))
    Z = SNEEmbedding(kernel=kernel, perplexity=10, max_iter=40, random_state=0).fit_transform(X)
    assert Z.std(axis=0).min() > 0.005 * Z.std(axis=0).max()
    wide = SNEEmbedding(5, kernel=kernel, perplexity=10, max_iter=50, random_state=0).fit_transform(DIGITS[:200, 26:28])
    assert wide.shape == (200, 5) and np.isfinite(wide).all() and np.linalg.matrix_rank(wide) == 5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", [np.asarray, np.float32, sparse.csr_array])
def test_points_that_are_all_one(way, layout):
    # the mean of some of these numbers is not the number itself, and its rounding is no direction of the data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the .* are all at a distance of 0", UserWarning)
        for n in (2, 3, 20, 90):
            for value in (0.1, 0.3, 1e8 / 3):
                Z = start_of(way, layout(np.full((n, 3), value)), kernel="gaussian", perplexity=1)
                assert np.isfinite(Z).all() and len(np.unique(Z, axis=0)) == n
                assert n < 20 or Z.std(axis=0).min() > 0.1


# --- given arrays -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", slow_but(KERNELS, "student-t"))
@pytest.mark.parametrize(
    "change", [lambda Z: Z, lambda Z: 1e4 * Z, lambda Z: 1e-9 * Z, lambda Z: Z + 1e3, lambda Z: 1e300 * Z]
)
def test_an_array_is_centred_and_rescaled(kernel, change):
    X = DIGITS[:200]
    given = change(PCA(2, random_state=0).fit_transform(X))
    kept = given.copy()
    Z, expected = start_of(given, X, kernel=kernel), start_of("pca", X, kernel=kernel)
    np.testing.assert_allclose(np.abs(Z), np.abs(expected), atol=1e-3 * SIZE[kernel])
    np.testing.assert_array_equal(given, kept)
    model = SNEEmbedding(kernel=kernel, perplexity=10, max_iter=30, random_state=0).fit(X)
    assert clone(model).set_params(init=given).fit(X).kl_divergence_ < 1.05 * model.kl_divergence_


def test_the_layout_of_an_embedding_stays():
    first = SNEEmbedding(perplexity=10, random_state=0).fit(DIGITS[:200])
    again = clone(first).set_params(init=first.embedding_).fit(DIGITS[:200])
    assert again.kl_divergence_ < first.kl_divergence_ + 0.02
    assert procrustes(first.embedding_, again.embedding_)[2] < 0.1


@pytest.mark.parametrize("value", few_of([0.0, 1e6 / 3], 1))
def test_a_constant_array_becomes_noise(value):
    X = DIGITS[:200]
    Z = start_of(np.full((200, 2), value), X, kernel="gaussian")
    assert Z.std(axis=0).min() > 2 and np.abs(Z.mean(axis=0)).max() < 1
    embedding = SNEEmbedding(perplexity=10, init=np.full((200, 2), value), random_state=0).fit_transform(X)
    assert trustworthiness(X, embedding) > 0.9


def test_a_constant_column_of_an_array_gets_little_noise():
    init = np.zeros((200, 3))
    init[:, 1] = np.arange(200) / 100
    Z = start_of(init, DIGITS[:200], 3, "gaussian")
    assert Z[:, 1].std() == pytest.approx(3) and np.corrcoef(Z[:, 1], init[:, 1])[0, 1] > 1 - 1e-12
    assert 0.1 < Z[:, [0, 2]].std(axis=0).min() < 0.5


@pytest.mark.parametrize("init", ["laplacian", None, np.zeros((3, 2)), np.full((60, 2), np.nan), [["a", "b"]] * 60])
def test_bad_starts(init):
    with pytest.raises(ValueError, match="init must be"):
        check_init(init, "euclidean", 60, 2)


def test_no_principal_components_of_distances():
    D = pairwise_distances(DIGITS[:60])
    with pytest.raises(ValueError, match="init must be 'auto', 'spectral', 'random' or an array with metric='precomp"):
        SNEEmbedding(perplexity=5, metric="precomputed", init="pca").fit(D)
    assert check_init("auto", "precomputed", 60, 2) == "spectral"


# --- eigenvectors -----------------------------------------------------------------------------------------


def exact(P, m):
    S = sparse.csr_array(P + P.T)
    root = np.sqrt(S.sum(axis=1))
    scale = sparse.diags_array(1 / root)
    values, vectors = eigsh(scale @ S @ scale, k=m + 1, which="LA", v0=np.ones(len(root)), tol=1e-9)
    return vectors[:, -2::-1] / root[:, None], values[-2::-1]


def data(name):
    if name == "digits":
        return DIGITS, 30
    return (make_augmented_digits(3000, random_state=0)[0], 30) if name == "augmented" else (DIGITS[:200], 10)


@pytest.mark.parametrize("name", slow_but(["digits", "augmented", "few"], "few", "digits"))
def test_spectral_coordinates_are_eigenvectors(name):
    X, perplexity = data(name)
    P = perplexity_affinities(X, perplexity)
    Z, (vectors, values) = spectral_coordinates(P, 2, np.random.RandomState(0)), exact(P, 2)
    for column, vector in zip(Z.T, vectors.T, strict=True):
        assert np.abs(np.corrcoef(column, vector)[0, 1]) > 0.9999
    wanted = np.sqrt((1 - values[0]) / (1 - values[1]))
    assert Z[:, 1].std() / Z[:, 0].std() == pytest.approx(wanted * vectors[:, 1].std() / vectors[:, 0].std(), rel=0.01)


def test_spectral_start_unrolls():
    X, t = make_swiss_roll(3000, random_state=0)
    Z = start_of("spectral", X, perplexity=10)
    assert abs(spearmanr(Z[:, 0], t)[0]) > 0.99
    assert abs(spearmanr(start_of("pca", X)[:, 0], t)[0]) < 0.9


def test_spectral_start_of_a_graph_with_weak_weights():
    n = 2000
    ring = sparse.csr_array(0.5 * (sparse.eye_array(n, k=1) + sparse.eye_array(n, k=-1)))
    ring = ring + sparse.csr_array(([0.5, 0.5], ([0, n - 1], [1, n - 2])), shape=(n, n))
    Z = spectral_coordinates(ring, 2, np.random.RandomState(0))
    assert abs(spearmanr(Z[:, 0], np.arange(n))[0]) > 0.9


def islands(sizes, seed=0):
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(size, 4)) + 1e3 * k for k, size in enumerate(sizes)])
    return X, np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("sizes", [(30, 40), (800, 200, 60, 30), (15,) * 120])
def test_spectral_start_keeps_components_apart(sizes, d):
    X, label = islands(sizes)
    P = perplexity_affinities(X, 3)
    assert sparse.csgraph.connected_components(P)[0] >= len(sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Z = spectral_coordinates(P, d, np.random.RandomState(0))
    assert np.isfinite(Z).all() and Z.std(axis=0).min() > 0.01 * Z.std(axis=0).max()
    assert len(np.unique(Z, axis=0)) == len(X)
    centres = np.array([np.median(Z[label == k], axis=0) for k in range(len(sizes))])
    far = pairwise_distances(centres) + 1e9 * np.eye(len(sizes))
    spread = np.array([np.median(np.linalg.norm(Z[label == k] - centres[k], axis=1)) for k in range(len(sizes))])
    assert (far.min(axis=1) > 1.5 * spread).all()


def test_components_have_their_own_shape():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(size=(2, 300)), axis=1)
    X = np.vstack([np.column_stack([10 * t[0], np.zeros(300)]), np.column_stack([np.zeros(300), 50 + 10 * t[1]])])
    Z = spectral_coordinates(perplexity_affinities(X, 10), 2, np.random.RandomState(0))
    for k in range(2):
        assert abs(spearmanr(Z[300 * k : 300 * (k + 1), 0], t[k])[0]) > 0.99


@pytest.mark.parametrize("n", [2, 3, 4, 7])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_spectral_start_of_few_points(n, d):
    X = np.random.default_rng(0).normal(size=(n, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Z = start_of("spectral", X, d, perplexity=1)
    assert np.isfinite(Z).all() and Z.std(axis=0).min() > 0 and len(np.unique(Z, axis=0)) == n


def test_same_seed_same_start():
    X = make_augmented_digits(600, random_state=0)[0]
    for way in WAYS:
        np.testing.assert_array_equal(start_of(way, X), start_of(way, X))
        assert not np.array_equal(start_of(way, X, 2, seed=1), start_of(way, X)) or way == "pca"
    one, other = (start_of("spectral", X, seed=seed, perplexity=30) for seed in (0, 1))
    np.testing.assert_allclose(one, other, atol=1e-2 * SIZE["student-t"])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", slow_but(KERNELS, "student-t"))
def test_embeddings_from_every_start(kernel):
    X = DIGITS[:200]
    for way in WAYS:
        Z = SNEEmbedding(kernel=kernel, perplexity=10, init=way, random_state=0).fit_transform(X)
        assert trustworthiness(X, Z) > 0.93
    graph = KNeighborsTransformer(n_neighbors=31).fit_transform(X)
    model = SNEEmbedding(kernel=kernel, perplexity=10, metric="precomputed", random_state=0)
    assert trustworthiness(X, model.fit_transform(graph)) > 0.93
