"""Where embeddings begin: principal components, eigenvectors of the graph, noise and
arrays of the user."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import eigsh
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances

from sk_stormc import SNEEmbedding, STORMCompositional
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.plotting import align_embedding

DIGITS = load_digits().data
SIZE = {"gaussian": 3.0, "student-t": 1e-4}
WAYS = ("pca", "spectral", "random")

pytestmark = pytest.mark.filterwarnings(
    "ignore:the map:sklearn.exceptions.ConvergenceWarning"
)


def start_of(init, X, d=2, kernel="student-t", seed=0, perplexity=5, **params):
    """The centred start: the map after one step of hardly any length."""
    still = {"solver": STORMCompositional(learning_rate=1e-12), "max_iter": 1}
    model = SNEEmbedding(
        d,
        kernel=kernel,
        init=init,
        perplexity=perplexity,
        random_state=seed,
        **still,
        **params,
    )
    return model.fit(X).embedding_.astype(float)


@pytest.mark.parametrize("kernel", SIZE)
def test_principal_components(kernel):
    X = DIGITS[:200]
    expected = PCA(3).fit_transform(X)
    expected = np.abs(expected) / expected[:, 0].std()
    for layout in (np.asarray, sparse.csr_array, np.float32):
        np.testing.assert_allclose(
            np.abs(start_of("auto", layout(X), 3, kernel)) / SIZE[kernel],
            expected,
            atol=1e-4,
        )
    dense, of_sparse = (
        start_of("pca", layout(X[:, 26:28]), 2, kernel)
        for layout in (np.asarray, sparse.csr_array)
    )
    # all components, which sparse PCA does not give
    np.testing.assert_allclose(of_sparse, dense, rtol=1e-5)


@pytest.mark.parametrize(
    ("way", "kernel"),
    [("pca", "gaussian"), ("spectral", "student-t"), ("random", "gaussian")],
)
def test_no_dimension_is_constant(way, kernel):
    rng = np.random.default_rng(0)
    line, plane = rng.normal(size=(60, 1)), rng.normal(size=(60, 2))
    for X in (
        line,
        line @ [[1.0, 2.0, 3.0]],
        (plane @ rng.normal(size=(2, 6))).astype(np.float32),
    ):
        deviations, drawn = start_of(way, X, 5, kernel).std(axis=0), way == "random"
        expected = min(SIZE[kernel], 1.0) if drawn else SIZE[kernel]
        within = 0.5 if drawn else 1e-5
        assert deviations.max() == pytest.approx(expected, rel=within)
        assert deviations.min() > 0.005 * expected


@pytest.mark.filterwarnings("ignore:the .* are all at a distance of 0|the map")
@pytest.mark.parametrize(
    ("way", "layout"),
    [
        ("pca", np.asarray),
        ("pca", sparse.csr_array),
        ("spectral", np.float32),
        ("random", sparse.csr_array),
    ],
)
def test_samples_that_are_all_alike(way, layout):
    # the mean of some of these numbers is not the number itself, and its rounding is no
    # direction of the data
    for n, value in ((2, 0.1), (3, 0.3), (20, 1e8 / 3), (90, 0.1)):
        X = layout(np.full((n, 3), value))
        Z = start_of(way, X, kernel="gaussian", perplexity=1)
        assert np.isfinite(Z).all() and len(np.unique(Z, axis=0)) > n / 2
        assert n < 20 or Z.std(axis=0).min() > 0.1


@pytest.mark.parametrize("kernel", SIZE)
def test_an_array_is_centred_and_rescaled(kernel):
    X, size = DIGITS[:120], SIZE[kernel]
    Z = PCA(2, random_state=0).fit_transform(X)
    expected = np.abs(start_of("pca", X, kernel=kernel))
    for init in (Z, 1e4 * Z, 1e-9 * Z, Z + 1e3, 1e300 * Z):
        copy, start = init.copy(), np.abs(start_of(init, X, kernel=kernel))
        np.testing.assert_allclose(start, expected, atol=1e-3 * size)
        np.testing.assert_array_equal(init, copy)
    # constant columns become noise
    for value in (0.0, 1e6 / 3):
        start = start_of(np.full((120, 2), value), X, kernel=kernel)
        assert start.std(axis=0).min() > size / 2
    rising = np.linspace(0, 2, 120)
    start = start_of(np.outer(rising, [0.0, 1.0, 0.0]), X, 3, kernel)
    assert start[:, 1].std() == pytest.approx(size)
    assert np.corrcoef(start[:, 1], rising)[0, 1] > 1 - 1e-5
    noise = start[:, [0, 2]].std(axis=0) / size
    assert noise.min() > 0.03 and noise.max() < 0.17


@pytest.mark.parametrize("kernel", SIZE)
def test_without_early_exaggeration_an_array_is_only_centred(kernel):
    X, init = DIGITS[:120], np.random.default_rng(0).normal(3, 7, (120, 2))

    def plain(init):
        return start_of(init, X, kernel=kernel, early_exaggeration=1)

    for width in (1.0, 1e-3, 1e3):
        expected = width * (init - init.mean(axis=0))
        found = plain(width * init)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * width)
    flat = plain(np.c_[init[:, 0], np.full(120, 5.0)]).std(axis=0)
    assert flat == pytest.approx(init[:, 0].std() * np.array([1, 0.1]), rel=0.3)
    assert plain(np.zeros((120, 2))).std() > 0.5 * SIZE[kernel]
    expected = start_of("pca", X, kernel=kernel)
    np.testing.assert_array_equal(plain("pca"), expected)
    words = r"init must be a map with early_exaggeration=1, .* got \d\.\d+e\+13"
    with pytest.raises(ValueError, match=words):
        plain(1e12 * init)


def test_a_map_with_new_rows_keeps_the_places_of_the_old_ones():
    X = np.random.default_rng(0).permutation(DIGITS)[:240]
    old = SNEEmbedding(perplexity=10, random_state=0).fit(X[:200])
    moved, divergence, placed = [], [], old.transform(X)
    for params in (
        {},
        {"init": placed},
        {"init": placed / 30, "early_exaggeration": 1},
    ):
        model = clone(old).set_params(**params).fit(X)
        aligned = align_embedding(model.embedding_, old.embedding_, rows=slice(200))
        moved.append(np.median(np.linalg.norm(aligned[:200] - old.embedding_, axis=1)))
        divergence.append(model.kl_divergence_)
    assert moved[2] < 0.8 * min(moved[:2])
    assert divergence[2] < 1.03 * min(divergence)


@pytest.mark.parametrize("n", [200, 1797])
def test_spectral_starts_are_eigenvectors_of_the_random_walk(n):
    X = DIGITS[:n]
    Z, P = start_of("spectral", X, perplexity=30), perplexity_affinities(X, 30)
    S = sparse.csr_array(P + P.T)
    root = np.sqrt(S.sum(axis=1))
    scale = sparse.diags_array(1 / root)
    values, vectors = eigsh(scale @ S @ scale, k=3, which="LA", v0=np.ones(n), tol=1e-9)
    vectors, values = vectors[:, -2::-1] / root[:, None], values[-2::-1]
    for column, vector in zip(Z.T, vectors.T, strict=True):
        assert np.abs(np.corrcoef(column, vector)[0, 1]) > 0.9999
    ratio = (
        np.sqrt((1 - values[0]) / (1 - values[1]))
        * vectors[:, 1].std()
        / vectors[:, 0].std()
    )
    assert Z[:, 1].std() / Z[:, 0].std() == pytest.approx(ratio, rel=0.01)


@pytest.mark.filterwarnings("ignore:perplexity")
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("sizes", [(30, 40), (400, 100, 60, 30), (15,) * 40])
def test_components_of_the_graph_start_apart(sizes, d):
    rng, parts = np.random.default_rng(0), range(len(sizes))
    X = [rng.normal(size=(size, 4)) + 1e3 * k for k, size in enumerate(sizes)]
    label = np.repeat(parts, sizes)
    Z = start_of("spectral", np.vstack(X), d, "gaussian", perplexity=3)
    assert np.isfinite(Z).all() and Z.std(axis=0).min() > 0.01 * Z.std(axis=0).max()
    centres = np.array([np.median(Z[label == k], axis=0) for k in parts])
    away = np.linalg.norm(Z - centres[label], axis=1)
    radius = np.array([np.median(away[label == k]) for k in parts])
    between = pairwise_distances(centres) + 1e9 * np.eye(len(sizes))
    assert (between.min(axis=1) > 1.5 * radius).all()


def test_components_have_their_own_shape():
    t = np.sort(np.random.default_rng(0).uniform(size=(2, 150)), axis=1)
    X = np.zeros((300, 2))
    X[:150, 0], X[150:, 1] = 10 * t[0], 50 + 10 * t[1]
    Z = start_of("spectral", X, perplexity=10)
    for some, at in zip(np.split(Z[:, 0], 2), t, strict=True):
        assert abs(spearmanr(some, at)[0]) > 0.99


def test_spectral_starts_of_few_points():
    for n, d in ((2, 1), (2, 4), (3, 2), (4, 1), (4, 4), (7, 2)):
        X = np.random.default_rng(0).normal(size=(n, 3))
        Z = start_of("spectral", X, d, perplexity=1)
        assert np.isfinite(Z).all() and Z.std(axis=0).min() > 0
        assert len(np.unique(Z, axis=0)) == n
