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
    X = points(60)
    model = TSNE(perplexity=5, method="exact", random_state=0, init="random").fit(X)
    problem = SNEProblem(
        perplexity_affinities(X, 5, n_neighbors=59),
        2,
        kernel="student-t",
        dtype=np.float64,
    )
    assert problem.divergence(model.embedding_.ravel().astype(float)) == pytest.approx(
        model.kl_divergence_, rel=1e-3
    )


@pytest.mark.parametrize(
    ("n", "asked", "used", "words"),
    [
        (31, 30, 10.0, "perplexity=30 .* 30 neighbours: lowered to 10,"),
        (400, 399.0, 133.0, "lowered to 133,"),
    ]
    + [
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


def test_a_perplexity_that_the_data_allow_is_not_lowered():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert perplexity_search(points(2), 1)[1] == 1
        search, perplexity = perplexity_search(points(91), 30)
    assert (search.n_neighbors, perplexity) == (90, 30)


def test_several_perplexities_are_the_mean_of_their_affinities():
    X = DIGITS[:250]
    search, used = perplexity_search(X, [5, 20])
    assert used == (5.0, 20.0) and search.n_neighbors == 61
    expected = (affinities(search, 5) + affinities(search, 20)).toarray() / 2
    np.testing.assert_allclose(
        perplexity_affinities(X, (5, 20)).toarray(), expected, atol=1e-15
    )
    model = SNEEmbedding(
        perplexity=np.array([5.0, 20.0]), max_iter=5, random_state=0
    ).fit(X)
    assert model.perplexity_ == (5.0, 20.0) and model.transform(X[:5] + 0.1).shape == (
        5,
        2,
    )


def test_perplexities_lowered_to_the_same_number_count_once():
    X = points(91)
    with pytest.warns(UserWarning, match=r"perplexity=\[20, 40, 60\] is too large"):
        found = perplexity_affinities(X, [20, 40, 60])
    expected = (
        perplexity_affinities(X, 20, n_neighbors=91)
        + perplexity_affinities(X, 30, n_neighbors=91)
    ) / 2
    np.testing.assert_allclose(found.toarray(), expected.toarray())
    with pytest.warns(UserWarning, match="is too large"):
        assert perplexity_search(X, [20, 40, 60])[1] == (20.0, 30.0)
    with pytest.warns(UserWarning, match="is too large"):
        # the user's own repetition stays
        assert perplexity_search(X, [30, 40, 30])[1] == (30.0, 30.0)


def with_rows(G, change):
    """The same graph, with the entries of each row that `change` selects by their
    columns."""
    rows = [
        change(i, G.indices[a:b]) + a
        for i, (a, b) in enumerate(zip(G.indptr, G.indptr[1:], strict=False))
    ]
    entries, counts = np.concatenate(rows), [len(row) for row in rows]
    return sparse.csr_array(
        (G.data[entries], G.indices[entries], np.append(0, np.cumsum(counts))),
        shape=G.shape,
    )


def without_loops(G):
    return with_rows(G, lambda i, columns: np.flatnonzero(columns != i))


def shuffled(G):
    return with_rows(
        G, lambda i, columns: np.random.default_rng(i).permutation(len(columns))
    )


def longer(G):
    """Half of the rows list all others."""
    return sparse.vstack(
        [sparse.csr_array(pairwise_distances(points(40)))[:20], G[20:]], format="csr"
    )


def shorter(entries):
    """A function that leaves only these entries of row 3."""
    return lambda G: with_rows(
        G,
        lambda i, columns: (
            np.array(entries, int) if i == 3 else np.arange(len(columns))
        ),
    )


@pytest.mark.parametrize(
    ("change", "layout"),
    [
        (lambda G: G, sparse.csr_matrix),
        (longer, sparse.coo_array),
        (lambda G: shuffled(without_loops(G)), sparse.csr_array),
    ],
)
def test_graphs_that_list_the_nearest_neighbours(change, layout):
    expected = perplexity_affinities(points(40), 4).toarray()
    G = layout(change(graph(k=20)))  # more than needed
    copy = G.copy()
    found = perplexity_affinities(G, 4, metric="precomputed")
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-9)
    SNEEmbedding(perplexity=4, metric="precomputed", max_iter=3).fit(G)
    for name in (
        ("data", "col") if layout is sparse.coo_array else ("data", "indices", "indptr")
    ):
        np.testing.assert_array_equal(getattr(G, name), getattr(copy, name))
    single = perplexity_affinities(G.astype(np.float32), 4, metric="precomputed")
    np.testing.assert_allclose(single.toarray(), expected, atol=1e-5)


def test_connectivity_graphs_warn():
    with pytest.warns(UserWarning, match="mode='connectivity': .* use mode='distance'"):
        perplexity_affinities(graph(k=13, mode="connectivity"), 4, metric="precomputed")


def test_distances_of_zero_in_a_graph_are_neighbours():
    X = np.repeat(points(20), 3, axis=0)
    G = KNeighborsTransformer(n_neighbors=13).fit_transform(X)
    P = perplexity_affinities(G, 4, metric="precomputed").toarray()
    np.testing.assert_allclose(
        np.sort(P)[:, -2:],
        np.sort(perplexity_affinities(X, 4).toarray())[:, -2:],
        atol=1e-6,
    )
    assert (
        P[np.arange(60), np.arange(60) // 3 * 3 + (np.arange(60) + 1) % 3] > 0.1
    ).all()


def test_rows_of_unequal_length():
    G = shorter(range(1, 7))(graph(k=12))
    with pytest.warns(
        UserWarning,
        match="perplexity=4 is too large .* has 6 neighbours: lowered to 2,",
    ):
        P = perplexity_affinities(G, 4, metric="precomputed")
    np.testing.assert_array_equal(np.diff(P.indptr), np.where(np.arange(40) == 3, 6, 7))
    np.testing.assert_allclose(perplexities(P), 2, rtol=1e-4)
    np.testing.assert_allclose(
        P[[3]].data,
        conditional_probabilities(np.sort(G[[3]].data)[None], 2.0)[0],
        rtol=1e-6,
    )


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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda D: D[:10], "must be square"),
        (lambda D: D + np.eye(20), r"0 from each sample to itself; got X\[0, 0\] = 1"),
        (
            lambda D: D + 9 * np.eye(20, k=2),
            r"symmetric; the largest asymmetry is 9, .*X\[\d+, \d+\] = .* and X\[",
        ),
        (lambda D: 1e200 * D, "must be smaller: column .* above .*; scale the data"),
        (
            lambda D: D - 0.01 * np.eye(20)[::-1] - D * np.eye(20)[::-1],
            "none negative, got -0.01, which is no",
        ),
        (
            lambda D: sparse.csr_array(D - 2 * D * np.eye(20)[::-1]),
            "none negative, got -.* beside the largest, 5",
        ),
        (
            lambda D: shorter([])(graph(20)),
            "at least one neighbour of each sample besides itself, got none in row 3",
        ),
        (
            lambda D: shorter([0])(graph(20)),
            "at least one neighbour of each sample besides itself, got none in row 3",
        ),
    ],
)
def test_what_are_no_distances(make, words):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(perplexity=2, metric="precomputed").fit(
            make(pairwise_distances(points(20)))
        )


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


def joint(P):
    P = ((P + P.T) / 2).toarray()
    return P / P.sum()


def test_affinities_in_every_form_give_the_same_map():
    P = perplexity_affinities(DIGITS[:250], 15)
    model = SNEEmbedding(
        metric="affinities", init="random", max_iter=30, random_state=0
    )
    expected = model.fit(P).embedding_
    assert np.isnan(model.perplexity_) and np.isnan(model.neighbor_recall_)
    for form in (
        np.triu(joint(P)),
        2 * P,
        sparse.coo_matrix(joint(P)),
        1e-200 * (P.toarray() + 3 * np.eye(250)),
    ):
        copy = form.copy()
        other = clone(model).fit(form)
        # rounding may move a map of few iterations
        assert procrustes(other.embedding_, expected)[2] < 1e-2
        assert other.kl_divergence_ == pytest.approx(model.kl_divergence_, rel=2e-2)
        assert (copy != form).sum() == 0
    D = np.square(expected[:, None] - expected).sum(axis=2)
    q, p = 1 / (1 + D) - np.eye(250), joint(P)
    some = p > 0
    assert model.kl_divergence_ == pytest.approx(
        np.sum(p[some] * np.log(p[some] * q.sum() / q[some])), rel=1e-4
    )
    divergence = model.kl_divergence_
    assert model.optimize(40).kl_divergence_ < divergence


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones((5, 4)), "X must be square"),
        (-np.eye(5)[::-1], "X must not be negative"),
        (np.eye(5), "positive affinity of each sample to another, got none in row 0"),
        (np.full((5, 5), np.nan), "X must be finite numbers, got NaN in columns"),
    ],
)
def test_what_are_no_affinities(X, words, layout):
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(metric="affinities").fit(layout(X))


def test_affinities_have_neither_transform_nor_principal_components():
    P = perplexity_affinities(points(), 5)
    model = SNEEmbedding(metric="affinities", max_iter=3, random_state=0).fit(P)
    with pytest.raises(ValueError, match="^metric must have distances for transform"):
        model.transform(P[:3])
    with pytest.raises(ValueError, match="^init must be .* with metric='affinities'"):
        clone(model).set_params(init="pca").fit(P)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("dtype", "scale", "words"),
    [
        (
            np.float32,
            1e20,
            r"must be smaller: column 2 has the largest, 7e\+20, .* overflow float32 "
            r"above 7.8e\+18",
        ),
        (
            np.float64,
            1e200,
            r"must be smaller: column 2 has the largest, 7e\+200, .* overflow float64 "
            r"above",
        ),
        (
            np.float64,
            1e-200,
            r"must be larger: column 2 has the largest, 7e-200, .* vanish in float64 "
            r"below",
        ),
    ],
)
def test_values_whose_squares_are_no_floats(dtype, scale, words, layout):
    X = np.clip(points(40), -3, 3)
    X[7, 2] = -7
    with pytest.raises(ValueError, match=words):
        SNEEmbedding(perplexity=5).fit(layout((X * scale).astype(dtype)))


@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float32, 1e18), (np.float64, 1e150), (np.float64, 1e-150)]
)
def test_values_whose_squares_are_floats(dtype, scale):
    X = np.clip(points(40), -3, 3)
    P = perplexity_affinities((X * scale).astype(dtype), 5)
    np.testing.assert_allclose(
        P.toarray(), perplexity_affinities(X, 5).toarray(), atol=1e-3
    )
    Z = SNEEmbedding(perplexity=5, max_iter=20, random_state=0).fit_transform(
        (X * scale).astype(dtype)
    )
    assert np.isfinite(Z).all() and Z.std() > 0.1
