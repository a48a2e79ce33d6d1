"""Affinities: perplexities, several at once, graphs, precomputed distances, affinities
of the user, extreme values."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial import procrustes
from scipy.special import entr
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsTransformer

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import (
    affinities,
    conditional_probabilities,
    perplexity_affinities,
    perplexity_search,
)
from sk_stormc.problems import SNEProblem

DIGITS = load_digits().data

pytestmark = pytest.mark.filterwarnings(
    "ignore:the map was still:sklearn.exceptions.ConvergenceWarning"
)


def points(n=50, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def graph(n=40, k=12, seed=0, mode="distance"):
    return KNeighborsTransformer(n_neighbors=k, mode=mode).fit_transform(
        points(n, seed=seed)
    )


def perplexities(P):
    return np.exp(entr(P.toarray() if sparse.issparse(P) else P).sum(axis=1))


@pytest.mark.parametrize(
    ("n", "k", "perplexity"),
    [(500, 91, 30.0), (70, 1501, 500.0), (2000, 16, 5.0), (9, 7, 6.9)],
)
def test_perplexity_is_reached(n, k, perplexity):
    rng = np.random.default_rng(0)
    distances = (
        np.abs(rng.normal(size=(n, k))) * 10.0 ** rng.uniform(-9, 9, size=(n, 1))
        + 1e-12
    )
    copy = distances.copy()
    P = conditional_probabilities(distances, perplexity)
    np.testing.assert_array_equal(distances, copy)
    np.testing.assert_allclose(perplexities(P), perplexity, rtol=1e-5)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (
        np.diff(np.take_along_axis(P, np.argsort(distances, axis=1), axis=1), axis=1)
        <= 0
    ).all()


def test_probabilities_of_ties_and_of_distances_that_hardly_differ():
    P = conditional_probabilities(
        np.array([[0.0, 0, 0, 0], [0, 0, 0, 1], [1, 2, 3, 1e9], [5, 5, 5, 5]]), 2.0
    )
    np.testing.assert_allclose(P[[0, 3]], 0.25)
    np.testing.assert_allclose(P[1], [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-6)
    assert np.isfinite(P).all()
    D = 1000 + 1e-6 * np.random.default_rng(0).uniform(size=(20, 61))
    np.testing.assert_allclose(
        perplexities(conditional_probabilities(D, 30.0)), 30, rtol=1e-5
    )


def test_probabilities_of_a_row_depend_on_nothing_but_its_relative_distances():
    D = np.random.default_rng(0).uniform(0.5, 1, size=(3000, 31))
    P = conditional_probabilities(D, 10.0)
    for rows in (slice(5, 6), slice(100, 1300)):
        np.testing.assert_array_equal(conditional_probabilities(D[rows], 10.0), P[rows])
    for unit in (1e-300, 1e-170, 1e200, 1e300):
        np.testing.assert_allclose(
            conditional_probabilities(D[:20] * unit, 10.0), P[:20]
        )


def test_affinities_are_those_of_scikit_learn():
    X = points(30)
    model = TSNE(perplexity=5, method="exact", random_state=0, init="random").fit(X)
    P = perplexity_affinities(X, 5, n_neighbors=29)
    problem = SNEProblem(P, 2, kernel="student-t", dtype=np.float64)
    divergence = problem.divergence(model.embedding_.ravel().astype(float))
    assert divergence == pytest.approx(model.kl_divergence_, rel=1e-3)


@pytest.mark.parametrize(
    ("n", "asked", "used", "words"),
    [
        (31, 30, 10.0, "perplexity=30 .* 30 neighbours: lowered to 10,"),
        (400, 399.0, 133.0, "lowered to 133,"),
        (3, 30, 1.0, "2 neighbours: lowered to 1,"),
        (90, 30, 89 / 3, "lowered to 29.67,"),
    ],
)
def test_too_large_a_perplexity_is_lowered(n, asked, used, words):
    with pytest.warns(UserWarning, match=words):
        search, perplexity = perplexity_search(points(n), asked)
    assert perplexity == pytest.approx(used) and search.n_neighbors == min(
        n - 1, int(3 * used) + 1
    )
    P = affinities(search, perplexity)
    np.testing.assert_allclose(perplexities(P), used, rtol=1e-3)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert not P.diagonal().any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert perplexity_search(points(2), 1)[1] == 1
        assert perplexity_search(points(91), 30)[1] == 30


def test_several_perplexities_are_the_mean_of_their_affinities():
    X = DIGITS[:120]
    search, used = perplexity_search(X, [5, 20])
    assert used == (5.0, 20.0) and search.n_neighbors == 61
    expected = (affinities(search, 5) + affinities(search, 20)).toarray() / 2
    found = perplexity_affinities(X, (5, 20)).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-15)
    several = np.array([5.0, 20.0])
    model = SNEEmbedding(perplexity=several, max_iter=5, random_state=0).fit(X)
    assert model.perplexity_ == (5.0, 20.0)
    assert model.transform(X[:5] + 0.1).shape == (5, 2)


@pytest.mark.filterwarnings("ignore:perplexity.* is too large")
def test_perplexities_lowered_to_the_same_number_count_once():
    X = points(91)
    found = perplexity_affinities(X, [20, 40, 60])
    twice = [perplexity_affinities(X, k, n_neighbors=91) for k in (20, 30)]
    np.testing.assert_allclose(found.toarray(), sum(twice).toarray() / 2)
    assert perplexity_search(X, [20, 40, 60])[1] == (20.0, 30.0)
    # the user's own repetition stays
    assert perplexity_search(X, [30, 40, 30])[1] == (30.0, 30.0)


def without(G, dropped):
    """The graph without some entries, which a function of their rows, columns and
    places in the row selects."""
    counts = np.diff(G.indptr)
    rows = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(G.nnz) - G.indptr[rows]
    kept = ~dropped(rows, G.indices, place)
    pointer = np.append(0, np.cumsum(np.bincount(rows[kept], minlength=len(counts))))
    return sparse.csr_array((G.data[kept], G.indices[kept], pointer), shape=G.shape)


def test_graphs_that_list_the_nearest_neighbours():
    expected = perplexity_affinities(points(40), 4).toarray()
    G = graph(k=20)  # more than needed
    dense = sparse.csr_array(pairwise_distances(points(40)))
    backwards = without(G, lambda rows, columns, place: rows == columns)[:, ::-1]
    for some in (
        sparse.csr_matrix(G),
        sparse.vstack([dense[:20], G[20:]], format="coo"),
        sparse.csr_array(backwards)[:, ::-1],  # not in the order of the distances
    ):
        copy = some.copy()
        found = perplexity_affinities(some, 4, metric="precomputed")
        np.testing.assert_allclose(found.toarray(), expected, atol=1e-9)
        SNEEmbedding(perplexity=4, metric="precomputed", max_iter=3).fit(some)
        np.testing.assert_array_equal(some.data, copy.data)
        assert (some != copy).nnz == 0
        single = some.astype(np.float32)
        found = perplexity_affinities(single, 4, metric="precomputed").toarray()
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_connectivity_graphs_warn():
    with pytest.warns(UserWarning, match="mode='connectivity': .* use mode='distance'"):
        perplexity_affinities(graph(k=13, mode="connectivity"), 4, metric="precomputed")


def test_distances_of_zero_in_a_graph_are_neighbours():
    X, rows = np.repeat(points(20), 3, axis=0), np.arange(60)
    G = KNeighborsTransformer(n_neighbors=13).fit_transform(X)
    P = perplexity_affinities(G, 4, metric="precomputed").toarray()
    expected = np.sort(perplexity_affinities(X, 4).toarray())[:, -2:]
    np.testing.assert_allclose(np.sort(P)[:, -2:], expected, atol=1e-6)
    assert (P[rows, rows // 3 * 3 + (rows + 1) % 3] > 0.1).all()


def test_rows_of_unequal_length():
    G = without(graph(k=12), lambda rows, _, place: (rows == 3) & (place > 6))
    words = "perplexity=4 is too large .* has 6 neighbours: lowered to 2,"
    with pytest.warns(UserWarning, match=words):
        P = perplexity_affinities(G, 4, metric="precomputed")
    np.testing.assert_array_equal(np.diff(P.indptr), np.where(np.arange(40) == 3, 6, 7))
    np.testing.assert_allclose(perplexities(P), 2, rtol=1e-4)
    expected = conditional_probabilities(np.sort(G[[3]].data)[None, 1:], 2.0)[0]
    np.testing.assert_allclose(P[[3]].data, expected, rtol=1e-6)


def test_the_order_of_a_graph_with_equal_distances_does_not_matter():
    X = np.random.default_rng(0).integers(0, 4, (120, 3)).astype(float)
    G = sparse.csr_array(KNeighborsTransformer(n_neighbors=30).fit_transform(X))
    by_index = G.copy()
    by_index.sort_indices()
    assert (by_index.indices != G.indices).any()
    maps = [
        SNEEmbedding(perplexity=5, metric="precomputed", max_iter=20, random_state=0)
        .fit(some)
        .embedding_
        for some in (G, by_index)
    ]
    np.testing.assert_array_equal(*maps)


DISTANCES, BACKWARDS = pairwise_distances(points(20)), np.eye(20)[::-1]
ALONE = "at least one neighbour of each sample besides itself, got none in row 3"


@pytest.mark.parametrize(
    ("D", "words"),
    [
        (DISTANCES[:10], "must be square"),
        (DISTANCES + np.eye(20), r"0 from each sample to itself; got X\[0, 0\] = 1"),
        (
            DISTANCES + 9 * np.eye(20, k=2),
            r"symmetric; the largest asymmetry is 9, .*X\[\d+, \d+\] = .* and X\[",
        ),
        (1e200 * DISTANCES, "must be smaller: column .* above .*; scale the data"),
        (
            DISTANCES * (1 - BACKWARDS) - 0.01 * BACKWARDS,
            "none negative, got -0.01, which is no",
        ),
        (
            sparse.csr_array(DISTANCES * (1 - 2 * BACKWARDS)),
            "none negative, got -.* beside the largest, 5",
        ),
        (without(graph(20), lambda rows, *_: rows == 3), ALONE),
        (without(graph(20), lambda rows, _, place: (rows == 3) & (place > 0)), ALONE),
    ],
)
def test_what_are_no_distances(D, words):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(perplexity=2, metric="precomputed").fit(D)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_below_zero_is_zero(dtype):
    U = (points(60, 5) / np.linalg.norm(points(60, 5), axis=1)[:, None]).astype(dtype)
    D = 1 - U @ U.T
    D[3, 4] = D[4, 3] = -np.finfo(dtype).eps
    copy, clipped = D.copy(), np.maximum(D, 0)
    P = perplexity_affinities(D, 5, metric="precomputed").toarray()
    np.testing.assert_array_equal(
        P, perplexity_affinities(clipped, 5, metric="precomputed").toarray()
    )
    np.testing.assert_array_equal(D, copy)
    model = SNEEmbedding(
        perplexity=5, metric="precomputed", max_iter=5, random_state=0
    ).fit(D)
    np.testing.assert_array_equal(model.transform(D[:5]), model.transform(clipped[:5]))
    G = sparse.csr_array(graph(), dtype=dtype)
    G.data *= 0.02 / G.data.max()
    # pynndescent's, which it computes in float32 and returns in float64
    G.data[[0, 20]] = -2.384185846526776e-07
    copy = G.data.copy()
    assert np.isfinite(perplexity_affinities(G, 3, metric="precomputed").data).all()
    np.testing.assert_array_equal(G.data, copy)
    shifted = pairwise_distances(points(20).astype(dtype))
    shifted[3, 15] *= 1 + 1e-5  # an asymmetry by rounding
    perplexity_affinities(shifted, 5, metric="precomputed")


def test_affinities_in_every_form_give_the_same_map():
    P = perplexity_affinities(DIGITS[:120], 15)
    joint = ((P + P.T) / (2 * P.sum())).toarray()
    model = SNEEmbedding(
        metric="affinities", init="random", max_iter=15, random_state=0
    )
    expected = model.fit(P).embedding_
    assert np.isnan(model.perplexity_) and np.isnan(model.neighbor_recall_)
    for form in (
        np.triu(joint),
        2 * P,
        sparse.coo_matrix(joint),
        1e-200 * (P.toarray() + 3 * np.eye(120)),
    ):
        copy = form.copy()
        other = clone(model).fit(form)
        # rounding may move a map of few iterations
        assert procrustes(other.embedding_, expected)[2] < 1e-2
        assert other.kl_divergence_ == pytest.approx(model.kl_divergence_, rel=2e-2)
        assert (copy != form).sum() == 0


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones((5, 4)), "X must be square"),
        (sparse.csr_array(-np.eye(5)[::-1]), "X must not be negative"),
        (np.eye(5), "positive affinity of each sample to another, got none in row 0"),
        (np.full((5, 5), np.nan), "X must be finite numbers, got NaN in columns"),
    ],
)
def test_what_are_no_affinities(X, words):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(metric="affinities").fit(X)


def test_affinities_have_neither_transform_nor_principal_components():
    P = perplexity_affinities(points(), 5)
    model = SNEEmbedding(metric="affinities", max_iter=3, random_state=0).fit(P)
    with pytest.raises(ValueError, match="^metric must have distances for transform"):
        model.transform(P[:3])
    with pytest.raises(ValueError, match="^init must be .* with metric='affinities'"):
        clone(model).set_params(init="pca").fit(P)


@pytest.mark.parametrize(
    ("dtype", "scale", "words"),
    [
        (np.float32, 1e20, r"smaller: column 2 .*, 7e\+20, .* float32 above 7.8e\+18"),
        (
            np.float64,
            1e200,
            r"smaller: column 2 .*, 7e\+200, .* overflow float64 above",
        ),
        (np.float64, 1e-200, "larger: column 2 .*, 7e-200, .* vanish in float64 below"),
        (np.float32, 1e18, None),
        (np.float64, 1e150, None),
        (np.float64, 1e-150, None),
    ],
)
def test_values_whose_squares_are_no_floats(dtype, scale, words):
    X = np.clip(points(40), -3, 3)
    X[7, 2] = -7
    extreme, model = (X * scale).astype(dtype), SNEEmbedding(perplexity=5, max_iter=5)
    if words is not None:
        for data in (extreme, sparse.csr_array(extreme)):
            with pytest.raises(ValueError, match="must be " + words):
                model.fit(data)
        return
    found, expected = (perplexity_affinities(data, 5) for data in (extreme, X))
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-3)
    assert np.isfinite(model.fit_transform(extreme)).all()
