"""Where embeddings begin: principal components, eigenvectors of the graph, noise and
arrays of the user."""

import warnings

import numpy as np
import pytest
from helpers import few_of
from scipy import sparse
from scipy.sparse.linalg import eigsh
from scipy.spatial import procrustes
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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", SIZE)
def test_no_dimension_is_constant(way, kernel):
    rng = np.random.default_rng(0)
    line, plane = rng.normal(size=(60, 1)), rng.normal(size=(60, 2))
    for X in (
        line,
        line @ [[1.0, 2.0, 3.0]],
        (plane @ rng.normal(size=(2, 6))).astype(np.float32),
    ):
        deviations = start_of(way, X, 5, kernel).std(axis=0)
        expected = min(SIZE[kernel], 1.0) if way == "random" else SIZE[kernel]
        assert deviations.max() == pytest.approx(
            expected, rel=0.5 if way == "random" else 1e-5
        )
        assert deviations.min() > 0.005 * expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", [np.asarray, np.float32, sparse.csr_array])
def test_samples_that_are_all_alike(way, layout):
    # the mean of some of these numbers is not the number itself, and its rounding is no
    # direction of the data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings(
            "ignore", "the .* are all at a distance of 0|the map", UserWarning
        )
        for n, value in ((2, 0.1), (3, 0.3), (20, 1e8 / 3), (90, 0.1)):
            Z = start_of(
                way, layout(np.full((n, 3), value)), kernel="gaussian", perplexity=1
            )
            assert np.isfinite(Z).all() and len(np.unique(Z, axis=0)) > n / 2
            assert n < 20 or Z.std(axis=0).min() > 0.1


@pytest.mark.parametrize("kernel", SIZE)
def test_an_array_is_centred_and_rescaled(kernel):
    Z = PCA(2, random_state=0).fit_transform(DIGITS[:200])
    expected = start_of("pca", DIGITS[:200], kernel=kernel)
    for init in (Z, 1e4 * Z, 1e-9 * Z, Z + 1e3, 1e300 * Z):
        copy = init.copy()
        start = start_of(init, DIGITS[:200], kernel=kernel)
        np.testing.assert_allclose(
            np.abs(start), np.abs(expected), atol=1e-3 * SIZE[kernel]
        )
        np.testing.assert_array_equal(init, copy)


def test_the_layout_of_an_embedding_stays():
    first = SNEEmbedding(perplexity=10, random_state=0).fit(DIGITS[:200])
    again = clone(first).set_params(init=first.embedding_).fit(DIGITS[:200])
    assert again.kl_divergence_ < first.kl_divergence_ + 0.02
    assert procrustes(first.embedding_, again.embedding_)[2] < 0.1


@pytest.mark.parametrize("kernel", SIZE)
def test_without_early_exaggeration_an_array_is_only_centred(kernel):
    init = np.random.default_rng(0).normal(3, 7, (200, 2))
    for width in (1.0, 1e-3, 1e3):
        start = start_of(
            width * init, DIGITS[:200], kernel=kernel, early_exaggeration=1
        )
        np.testing.assert_allclose(
            start, width * (init - init.mean(axis=0)), rtol=1e-4, atol=1e-5 * width
        )
    start = start_of(
        np.c_[init[:, 0], np.full(200, 5.0)],
        DIGITS[:200],
        kernel=kernel,
        early_exaggeration=1,
    )
    assert start.std(axis=0) == pytest.approx(
        init[:, 0].std() * np.array([1, 0.1]), rel=0.3
    )
    assert (
        start_of(
            np.zeros((200, 2)), DIGITS[:200], kernel=kernel, early_exaggeration=1
        ).std()
        > 0.5 * SIZE[kernel]
    )
    expected = start_of("pca", DIGITS[:200], kernel=kernel)
    np.testing.assert_array_equal(
        start_of("pca", DIGITS[:200], kernel=kernel, early_exaggeration=1), expected
    )
    with pytest.raises(
        ValueError, match="init must be a map with early_exaggeration=1, .* got 2.45e"
    ):
        start_of(1e12 * init, DIGITS[:200], kernel=kernel, early_exaggeration=1)


def test_a_map_with_new_rows_keeps_the_places_of_the_old_ones():
    X = np.random.default_rng(0).permutation(DIGITS)[:600]
    old = SNEEmbedding(perplexity=15, random_state=0).fit(X[:500])
    moved, divergence = [], []
    for params in (
        {},
        {"init": old.transform(X)},
        {"init": old.transform(X) / 30, "early_exaggeration": 1},
    ):
        model = clone(old).set_params(**params).fit(X)
        aligned = align_embedding(model.embedding_, old.embedding_, rows=slice(500))
        moved.append(np.median(np.linalg.norm(aligned[:500] - old.embedding_, axis=1)))
        divergence.append(model.kl_divergence_)
    assert moved[2] < 0.8 * min(moved[:2])
    assert divergence[2] < 1.02 * min(divergence)


def test_constant_columns_of_an_array_become_noise():
    for value in (0.0, 1e6 / 3):
        assert (
            start_of(np.full((200, 2), value), DIGITS[:200], kernel="gaussian")
            .std(axis=0)
            .min()
            > 2
        )
    init = np.zeros((200, 3))
    init[:, 1] = np.arange(200) / 100
    Z = start_of(init, DIGITS[:200], 3, "gaussian")
    assert (
        Z[:, 1].std() == pytest.approx(3)
        and np.corrcoef(Z[:, 1], init[:, 1])[0, 1] > 1 - 1e-9
    )
    assert 0.1 < Z[:, [0, 2]].std(axis=0).min() < 0.5


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
@pytest.mark.parametrize(
    "sizes", few_of([((30, 40),), ((400, 100, 60, 30),), ((15,) * 120,)], 1, 2)
)
def test_components_of_the_graph_start_apart(sizes, d):
    rng = np.random.default_rng(0)
    X = np.vstack(
        [rng.normal(size=(size, 4)) + 1e3 * k for k, size in enumerate(sizes)]
    )
    label = np.repeat(np.arange(len(sizes)), sizes)
    Z = start_of("spectral", X, d, "gaussian", perplexity=3)
    assert np.isfinite(Z).all() and Z.std(axis=0).min() > 0.01 * Z.std(axis=0).max()
    centres = np.array([np.median(Z[label == k], axis=0) for k in range(len(sizes))])
    radius = np.array(
        [
            np.median(np.linalg.norm(Z[label == k] - centres[k], axis=1))
            for k in range(len(sizes))
        ]
    )
    assert (
        (pairwise_distances(centres) + 1e9 * np.eye(len(sizes))).min(axis=1)
        > 1.5 * radius
    ).all()


def test_components_have_their_own_shape():
    t = np.sort(np.random.default_rng(0).uniform(size=(2, 300)), axis=1)
    X = np.vstack(
        [
            np.column_stack([10 * t[0], np.zeros(300)]),
            np.column_stack([np.zeros(300), 50 + 10 * t[1]]),
        ]
    )
    Z = start_of("spectral", X, perplexity=10)
    for k in range(2):
        assert abs(spearmanr(Z[300 * k : 300 * (k + 1), 0], t[k])[0]) > 0.99


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_spectral_starts_of_few_points(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    for d in (1, 2, 4):
        Z = start_of("spectral", X, d, perplexity=1)
        assert (
            np.isfinite(Z).all()
            and Z.std(axis=0).min() > 0
            and len(np.unique(Z, axis=0)) == n
        )
