"""Affinities and what is behind them: perplexities, neighbours, graphs, exact searches, extreme values."""

import warnings

import numpy as np
import pytest
from helpers import few_of
from scipy import sparse
from scipy.special import entr
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import TSNE, trustworthiness
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import sk_stormc.embedding.neighbors.checks as module
from sk_stormc import SNEEmbedding
from sk_stormc.affinities import (
    affinities,
    conditional_probabilities,
    perplexity_affinities,
    perplexity_search,
)
from sk_stormc.problems import SNEProblem

DIGITS = load_digits().data


def points(n=50, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def graph(n=40, k=12, seed=0, mode="distance"):
    return KNeighborsTransformer(n_neighbors=k, mode=mode).fit_transform(points(n, seed=seed))


def entropies(P):
    return entr(P.toarray()).sum(axis=1)


# --- probabilities ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k", "perplexity"), [(500, 91, 30.0), (70, 1501, 500.0), (2000, 16, 5.0), (9, 7, 6.9)])
def test_perplexity_is_reached(n, k, perplexity):
    rng = np.random.default_rng(0)
    distances = np.abs(rng.normal(size=(n, k))) * 10.0 ** rng.uniform(-9, 9, size=(n, 1)) + 1e-12
    kept = distances.copy()
    P = conditional_probabilities(distances, perplexity)
    np.testing.assert_array_equal(distances, kept)
    np.testing.assert_allclose(np.exp(entr(P).sum(axis=1)), perplexity, rtol=1e-5)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (np.diff(P[np.arange(n)[:, None], np.argsort(distances, axis=1)], axis=1) <= 0).all()


def test_perplexity_of_ties():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        P = conditional_probabilities(np.array([[0.0, 0, 0, 0], [0, 0, 0, 1], [1, 2, 3, 1e9], [5, 5, 5, 5]]), 2.0)
    np.testing.assert_allclose(P[0], 0.25)
    np.testing.assert_allclose(P[1], [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-6)
    assert np.isfinite(P).all()


def test_probabilities_of_distances_that_hardly_differ():
    D = 1000 + 1e-6 * np.random.default_rng(0).uniform(size=(20, 61))
    P = conditional_probabilities(D, 30.0)
    np.testing.assert_allclose(np.exp(-(P * np.log(P)).sum(axis=1)), 30, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1.0, 1e200, 1e300])
def test_probabilities_have_no_unit(scale):
    D = np.random.default_rng(0).uniform(0.5, 1, size=(20, 31))
    np.testing.assert_allclose(conditional_probabilities(D * scale, 10.0), conditional_probabilities(D, 10.0))


def test_a_row_does_not_depend_on_the_others():
    D = np.random.default_rng(0).uniform(0.5, 1, size=(3000, 31))
    P = conditional_probabilities(D, 10.0)
    for rows in (slice(5, 6), slice(100, 1300)):
        np.testing.assert_array_equal(conditional_probabilities(D[rows], 10.0), P[rows])


def test_affinities_are_tsnes():
    # scikit-learn's exact joint probabilities, from the divergence at a known embedding
    X = points(60)
    model = TSNE(perplexity=5, method="exact", random_state=0, init="random").fit(X)
    problem = SNEProblem(perplexity_affinities(X, 5, n_neighbors=59), 2, kernel="student-t", dtype=np.float64)
    assert problem.divergence(model.embedding_.ravel().astype(float)) == pytest.approx(model.kl_divergence_, rel=1e-3)


# --- a perplexity that the data allow -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "asked", "used", "words"),
    [(31, 30, 10.0, "perplexity=30 .* 30 neighbours: lowered to 10,"), (400, 399.0, 133.0, "lowered to 133,")]
    + [(3, 30, 1.0, "2 neighbours: lowered to 1,"), (90, 30, 89 / 3, "lowered to 29.67,")],
)
def test_too_large_a_perplexity_is_lowered(n, asked, used, words):
    X = points(n)
    with pytest.warns(UserWarning, match=words):
        search, perplexity = perplexity_search(X, asked)
    assert perplexity == pytest.approx(used) and search.n_neighbors == min(n - 1, int(3 * used) + 1)
    with pytest.warns(UserWarning, match=words):
        model = SNEEmbedding(perplexity=asked, max_iter=5, random_state=0).fit(X)
    assert model.perplexity_ == perplexity
    np.testing.assert_allclose(np.exp(entropies(affinities(search, perplexity))), used, rtol=1e-3)


def test_a_perplexity_that_fits_is_left():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the map ", ConvergenceWarning)  # five iterations make none
        for kernel in ("gaussian", "student-t"):
            model = SNEEmbedding(kernel=kernel, max_iter=5, random_state=0).fit(points(100))
            assert model.perplexity_ == 30 and model._near.search.n_neighbors == 91
        assert SNEEmbedding(perplexity=1, max_iter=5, random_state=0).fit(points(2)).perplexity_ == 1


def test_a_failed_fit_keeps_the_perplexity():
    model = SNEEmbedding(perplexity=5, max_iter=5, random_state=0).fit(points(40))
    with pytest.raises(ValueError, match="init"):
        model.set_params(perplexity=7, init=np.zeros((3, 2))).fit(points(40))
    assert model.perplexity_ == 5


def test_few_points_with_defaults():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "perplexity=30", UserWarning)
        for n in range(2, 51):
            P = perplexity_affinities(points(n), 30.0)
            assert np.isfinite(P.data).all() and not P.diagonal().any()
            np.testing.assert_allclose(P.sum(axis=1), 1)


@pytest.mark.filterwarnings("ignore:perplexity")
@pytest.mark.parametrize("kernel", ["gaussian", "student-t"])
@pytest.mark.parametrize("n", few_of([2, 3, 4, 5, 11, 31], 0, 1, 3, 5))
def test_few_points_are_embedded(n, kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        Z = SNEEmbedding(kernel=kernel, max_iter=40, random_state=0).fit_transform(points(n))
    assert np.isfinite(Z).all() and len(np.unique(Z, axis=0)) == n
    assert np.ptp(Z, axis=0).min() > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:perplexity=30")
@parametrize_with_checks([SNEEmbedding()])
def test_check_estimator_with_defaults(estimator, check):
    check(estimator)


# --- graphs -------------------------------------------------------------------------------------------


def changed(G, row=3, entries=()):
    """The same graph with a row that lists only these of its entries."""
    rows = [G.data[a:b] for a, b in zip(G.indptr, G.indptr[1:], strict=False)]
    columns = [G.indices[a:b] for a, b in zip(G.indptr, G.indptr[1:], strict=False)]
    rows[row], columns[row] = rows[row][list(entries)], columns[row][list(entries)]
    ends = np.cumsum([0] + [len(r) for r in rows])
    return sparse.csr_array((np.concatenate(rows), np.concatenate(columns), ends), shape=G.shape)


def without_loops(G):
    row = np.repeat(np.arange(G.shape[0]), np.diff(G.indptr))
    keep = row != G.indices
    counts = np.bincount(row[keep], minlength=G.shape[0])
    return sparse.csr_array((G.data[keep], G.indices[keep], np.append(0, np.cumsum(counts))), shape=G.shape)


def shuffled(G):
    rng = np.random.default_rng(0)
    order = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in zip(G.indptr, G.indptr[1:], strict=False)])
    return sparse.csr_array((G.data[order], G.indices[order], G.indptr), shape=G.shape)


def longer(G):
    """Half of the rows list all others."""
    full = sparse.csr_array(pairwise_distances(points(40)))
    return sparse.vstack([full[:20], G[20:]], format="csr")


@pytest.mark.parametrize("change", [lambda G: G, without_loops, shuffled, longer, lambda G: shuffled(without_loops(G))])
@pytest.mark.parametrize("layout", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_graphs(change, layout):
    """All that list the nearest neighbours have the affinities of the points."""
    expected = perplexity_affinities(points(40), 4)
    found = perplexity_affinities(layout(change(graph(k=13))), 4, metric="precomputed")
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-9)
    # float32 distances, more of them than needed
    found = perplexity_affinities(layout(change(graph(k=20))).astype(np.float32), 4, metric="precomputed")
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-5)


@pytest.mark.parametrize("change", [lambda G: G, shuffled])
def test_the_callers_graph_is_left_as_it_is(change):
    G = change(graph(k=20))
    kept = G.copy()
    SNEEmbedding(perplexity=4, metric="precomputed", max_iter=3).fit(G)
    for now, before in ((G.data, kept.data), (G.indices, kept.indices), (G.indptr, kept.indptr)):
        np.testing.assert_array_equal(now, before)
    search, perplexity = perplexity_search(G, 4, metric="precomputed")
    P = affinities(search, perplexity)
    P.sort_indices()
    assert (np.diff(search._fit_X.data.reshape(40, -1), axis=1) >= 0).all()
    np.testing.assert_allclose(P.toarray(), perplexity_affinities(points(40), 4).toarray(), atol=1e-9)


def test_distances_of_zero_are_neighbours():
    X = np.repeat(points(20), 3, axis=0)
    G = KNeighborsTransformer(n_neighbors=13).fit_transform(X)
    P = perplexity_affinities(G, 4, metric="precomputed").toarray()
    np.testing.assert_allclose(np.sort(P)[:, -2:], np.sort(perplexity_affinities(X, 4).toarray())[:, -2:], atol=1e-6)
    assert (P[np.arange(60), np.arange(60) // 3 * 3 + (np.arange(60) + 1) % 3] > 0.1).all()


def test_rows_of_unequal_length():
    G = changed(graph(k=12), 3, range(1, 7))
    with pytest.warns(UserWarning, match="perplexity=4 is too large .* has 6 neighbours: lowered to 2,"):
        search, perplexity = perplexity_search(G, 4, metric="precomputed")
    P = affinities(search, perplexity)
    assert perplexity == 2 and search.n_neighbors == 6
    np.testing.assert_array_equal(np.diff(P.indptr), np.where(np.arange(40) == 3, 6, 7))
    np.testing.assert_allclose(np.exp(entropies(P)), 2, rtol=1e-4)
    nearest = np.sort(G[[3]].data)
    np.testing.assert_allclose(P[[3]].data, conditional_probabilities(nearest[None], 2.0)[0], rtol=1e-6)
    distances, neighbors = search.kneighbors(graph(k=12)[:5])  # as transform asks
    assert distances.shape == neighbors.shape == (5, 6)


@pytest.mark.parametrize("entries", [(), (0,)])
def test_a_row_without_neighbours(entries):
    with pytest.raises(ValueError, match="at least one neighbour of each sample besides itself, got none in row 3"):
        SNEEmbedding(perplexity=2, metric="precomputed").fit(changed(graph(), 3, entries))


def test_connectivity_graphs():
    with pytest.warns(UserWarning, match="mode='connectivity': .* use mode='distance'"):
        P = perplexity_affinities(graph(k=13, mode="connectivity"), 4, metric="precomputed")
    np.testing.assert_allclose(P.sum(axis=1), 1)
    with pytest.warns(UserWarning, match="mode='connectivity'"):
        SNEEmbedding(perplexity=4, metric="precomputed", max_iter=5).fit(graph(k=13, mode="connectivity"))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda D: D - 1, "none negative"),
        (lambda D: D[:10], "must be square"),
        (lambda D: D + np.eye(20), r"0 from each sample to itself; got X\[0, 0\] = 1"),
        (lambda D: D + 9 * np.eye(20, k=2), r"symmetric; the largest asymmetry is 9, .*X\[\d+, \d+\] = .* and X\["),
        (lambda D: 1e200 * D, "must be smaller: column .* above .*; scale the data"),
    ],
)
def test_no_distances(change, match):
    model = SNEEmbedding(perplexity=5, metric="precomputed")
    with pytest.raises(ValueError, match=match):
        model.fit(change(pairwise_distances(points(20))))


def test_the_largest_asymmetry_is_found_in_any_block(monkeypatch):
    D = pairwise_distances(points(20))
    D[3, 15] += 1
    D[18, 2] += 2
    monkeypatch.setattr(module, "BLOCK", 100)
    with pytest.raises(ValueError, match=r"asymmetry is 2, with X\[2, 18\] = .* and X\[18, 2\] = "):
        perplexity_affinities(D, 5, metric="precomputed")
    D = pairwise_distances(points(20).astype(np.float32))
    D[3, 15] *= 1 + 1e-5  # rounding
    perplexity_affinities(D, 5, metric="precomputed")


def test_graphs_in_a_pipeline():
    X = DIGITS[:300]
    model = SNEEmbedding(perplexity=10, metric="precomputed", max_iter=100, random_state=0)
    pipe = make_pipeline(KNeighborsTransformer(n_neighbors=31), model)
    assert trustworthiness(X, pipe.fit_transform(X)) > 0.93
    assert np.isfinite(pipe.transform(DIGITS[300:310])).all()
    assert trustworthiness(X, clone(model).fit_transform(pairwise_distances(X))) > 0.93


@pytest.mark.slow
def test_approximate_graphs():
    pynndescent = pytest.importorskip("pynndescent")
    X = DIGITS[:500]
    transformer = pynndescent.PyNNDescentTransformer(n_neighbors=31, metric="euclidean", random_state=0)
    G = transformer.fit_transform(X)
    P, exact = perplexity_affinities(G, 10, metric="precomputed"), perplexity_affinities(X, 10)
    assert abs(P - exact).sum() < 0.02 * 500
    pipe = make_pipeline(
        clone(transformer), SNEEmbedding(perplexity=10, metric="precomputed", max_iter=100, random_state=0)
    )
    assert trustworthiness(X, pipe.fit_transform(X)) > 0.93
    assert np.isfinite(pipe.transform(DIGITS[500:510])).all()


# --- extreme values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("dtype", "scale", "match"),
    [
        (np.float32, 1e20, r"must be smaller: column 2 has the largest, 7e\+20, .* overflow float32 above 7.8e\+18"),
        (np.float64, 1e200, r"must be smaller: column 2 has the largest, 7e\+200, .* overflow float64 above"),
        (np.float64, 1e-200, r"must be larger: column 2 has the largest, 7e-200, .* vanish in float64 below"),
    ],
)
def test_values_without_a_square(dtype, scale, match, layout):
    X = np.clip(points(40), -3, 3)
    X[7, 2] = -7
    model = SNEEmbedding(perplexity=5, max_iter=5, random_state=0)
    with pytest.raises(ValueError, match=match):
        model.fit(layout((X * scale).astype(dtype)))
    assert not hasattr(model, "embedding_")


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e18), (np.float64, 1e150), (np.float64, 1e-150)])
def test_large_values_that_have_squares(dtype, scale):
    X = np.clip(points(40), -3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        P = perplexity_affinities((X * scale).astype(dtype), 5)
        Z = SNEEmbedding(perplexity=5, max_iter=50, random_state=0).fit_transform((X * scale).astype(dtype))
    np.testing.assert_allclose(P.toarray(), perplexity_affinities(X, 5).toarray(), atol=1e-3)
    assert np.isfinite(Z).all() and Z.std() > 0.1


# --- what was refused, or counted twice -----------------------------------------------------------------------


def test_rounding_below_zero_is_zero():
    U = points(60, 5) / np.linalg.norm(points(60, 5), axis=1)[:, None]
    for dtype in (np.float64, np.float32):
        D = 1 - U.astype(dtype) @ U.astype(dtype).T
        D[3, 4] = D[4, 3] = -np.finfo(dtype).eps
        before = D.copy()
        clipped = np.maximum(D, 0)
        P = perplexity_affinities(D, 5, metric="precomputed").toarray()
        np.testing.assert_array_equal(P, perplexity_affinities(clipped, 5, metric="precomputed").toarray())
        np.testing.assert_array_equal(D, before)
        model = SNEEmbedding(perplexity=5, metric="precomputed", max_iter=5, random_state=0).fit(D)
        np.testing.assert_array_equal(model.transform(D[:5]), model.transform(clipped[:5]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_graphs_with_rounding_below_zero(dtype):
    G = sparse.csr_array(graph(), dtype=dtype)
    G.data *= 0.02 / G.data.max()
    G.data[[0, 20]] = -2.384185846526776e-07  # pynndescent's, which it computes in float32 and returns in float64
    before = G.data.copy()
    P = perplexity_affinities(G, 3, metric="precomputed")
    assert np.isfinite(P.data).all()
    np.testing.assert_array_equal(G.data, before)


@pytest.mark.parametrize("make", [lambda D: D, sparse.csr_array])
def test_what_rounding_does_not_explain_is_refused(make):
    D = pairwise_distances(points(30))
    D[3, 4] = D[4, 3] = -0.01
    with pytest.raises(ValueError, match="none negative, got -0.01, which is no rounding error beside the largest, 5"):
        perplexity_affinities(make(D), 3, metric="precomputed")


def test_perplexities_lowered_to_the_same_number_count_once():
    X = points(91)
    with pytest.warns(UserWarning, match=r"perplexity=\[20, 40, 60\] is too large"):
        search, used = perplexity_search(X, [20, 40, 60])
    assert used == (20.0, 30.0)
    expected = (perplexity_affinities(X, 20, n_neighbors=91) + perplexity_affinities(X, 30, n_neighbors=91)) / 2
    np.testing.assert_allclose(affinities(search, used).toarray(), expected.toarray())
    with pytest.warns(UserWarning, match="is too large"):
        assert perplexity_search(X, [30, 40, 30])[1] == (30.0, 30.0)  # the user's own repetition stays


@pytest.mark.parametrize("metric", ["nan_euclidean", "p", "pyfunc", "matching"])
def test_metrics_that_are_not_offered(metric):
    with pytest.raises(ValueError, match="metric must be one of 'braycurtis'") as raised:
        SNEEmbedding(metric=metric).fit(points())
    assert f"'{metric}'" not in str(raised.value).partition(", got")[0]


def test_all_metrics_that_are_offered_work():
    with pytest.raises(ValueError, match="metric must be one of") as raised:
        SNEEmbedding(metric="none of these").fit(points())
    offered = [name.strip("' ") for name in str(raised.value).partition("one of ")[2].partition(", got")[0].split(",")]
    assert len(offered) > 20
    X = np.abs(points(40, 2))
    params = {"seuclidean": {"V": X.var(axis=0)}, "mahalanobis": {"V": np.cov(X, rowvar=False)}}
    binary = {"dice", "jaccard", "rogerstanimoto", "russellrao", "sokalmichener", "sokalsneath", "yule"}
    for metric in set(offered) - {"precomputed"}:
        data = np.random.default_rng(0).integers(0, 2, (40, 30)) if metric in binary else X
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of distances that are alike
            P = perplexity_affinities(data, 5, metric=metric, metric_params=params.get(metric))
        assert np.isfinite(P.data).all(), metric


def test_mahalanobis_by_the_covariance():
    X = points(60, 4) @ points(4, 4, seed=1)
    V = np.cov(X, rowvar=False)
    found = [
        perplexity_affinities(X, 5, metric="mahalanobis", metric_params=params).toarray()
        for params in ({"V": V}, {"VI": np.linalg.inv(V)})
    ]
    np.testing.assert_array_equal(*found)
    with pytest.raises(ValueError, match="metric='mahalanobis' with metric_params=.*Singular"):
        perplexity_affinities(X, 5, metric="mahalanobis", metric_params={"V": np.zeros((4, 4))})


@pytest.mark.parametrize("metric", ["jaccard", "sqeuclidean", "hamming"])
def test_metrics_for_dense_data_say_so(metric):
    X = sparse.random_array((60, 20), density=0.3, rng=np.random.default_rng(0), format="csr")
    with pytest.raises(ValueError, match=rf"metric='{metric}' is for dense X, got sparse X of .*: pass X.toarray\(\)"):
        SNEEmbedding(metric=metric).fit(X)


@pytest.mark.parametrize(("n_components", "perplexity"), [(2, 2), (3, 10), (4, 2)])
def test_underflows_raise_nothing(n_components, perplexity):
    X = points(1100 if n_components == 3 else 200)
    X[:20] *= 1e3
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SNEEmbedding(n_components, perplexity=perplexity, max_iter=20, random_state=0).fit(X)
        assert np.isfinite(model.kl_divergence_)
        assert np.isfinite(model.optimize(5).transform(X[:3] + 0.1)).all()
        assert np.isfinite(conditional_probabilities([[0.0, 1.0, 1e3]], 1.5)).all()


def test_the_order_of_a_graph_with_equal_distances_does_not_matter():
    X = np.random.default_rng(0).integers(0, 4, (120, 3)).astype(float)
    G = sparse.csr_array(KNeighborsTransformer(n_neighbors=30).fit_transform(X))
    indexed = G.copy()
    indexed.sort_indices()
    assert (indexed.indices != G.indices).any()
    maps = [
        SNEEmbedding(perplexity=5, metric="precomputed", max_iter=20, random_state=0).fit(some).embedding_
        for some in (G, indexed)
    ]
    np.testing.assert_array_equal(*maps)
