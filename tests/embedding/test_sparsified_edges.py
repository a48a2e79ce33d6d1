"""The edges that stand for all edges of a graph in the metric's linear system."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from sk_stormc import minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding import problem as problems
from sk_stormc.embedding.pairs import Edges
from sk_stormc.embedding.preconditioner import SparsifiedEdges, _scattered
from sk_stormc.problems import SNEProblem

N = 1200


@pytest.fixture(scope="module")
def P():
    X, _ = make_blobs(N, 5, centers=4, random_state=0)
    return perplexity_affinities(X, 20)


@pytest.fixture
def whole(P, monkeypatch):
    """A problem whose metric has all edges."""
    with monkeypatch.context() as patch:
        patch.setattr(problems, "METRIC_EDGES", 40)
        problem = SNEProblem(P, kernel="student-t")
        assert problem.metric_edges is problem.edges  # cached
    return problem


def sums(edges, c):
    return edges.sums(c.astype(np.float32))


def test_the_sums_of_each_point_are_those_of_all_its_edges(P):
    edges = SNEProblem(P, kernel="student-t").edges
    thinned = SparsifiedEdges(edges, 10 * N)
    assert 5 * N < len(thinned.drawn) <= 10 * N < len(edges.weight) / 2
    np.testing.assert_array_equal(thinned.i, edges.i[thinned.drawn])
    np.testing.assert_array_equal(thinned.j, edges.j[thinned.drawn])
    np.testing.assert_allclose(sums(thinned, thinned.of(edges.weight)), sums(edges, edges.weight), rtol=0.1)
    assert thinned.of(edges.weight.astype(np.float32)).dtype == np.float32


def test_products_are_those_of_the_drawn_edges(P):
    thinned = SparsifiedEdges(SNEProblem(P, kernel="student-t").edges, 10 * N)
    rng = np.random.default_rng(0)
    c, X = rng.random(len(thinned.drawn)), rng.normal(size=(2, N))
    C = sparse.coo_array((c, (thinned.i, thinned.j)), shape=(N, N)).toarray()
    np.testing.assert_allclose(thinned.matrix(c)(X), X @ (C + C.T), atol=1e-12)
    np.testing.assert_allclose(thinned.sums(c), (C + C.T).sum(axis=1), atol=1e-12)


def test_other_numbers_of_the_edges_have_nearly_the_same_sums(P):
    """As the weights of the attraction, which are smaller for long edges of the map."""
    edges = SNEProblem(P, kernel="student-t").edges
    thinned, x = SparsifiedEdges(edges, 10 * N), np.random.default_rng(0).normal(size=(N, 2))
    c = edges.weight / (1 + np.square(x[edges.i] - x[edges.j]).sum(axis=1))
    few, all = sums(thinned, thinned.of(c)), sums(edges, c)
    assert np.sqrt(np.mean(np.square(few / all - 1))) < 0.2
    assert few.sum() == pytest.approx(all.sum(), rel=0.01)


def test_of_edges_of_the_same_weight_some_are_drawn():
    """As between copies of points; all or none of them would cut groups of copies off from each other."""
    pairs = np.stack(np.triu_indices(60, 1))
    same = Edges(sparse.csr_array((np.full(pairs.shape[1], 0.25), pairs), shape=(60, 60)))
    for number in (100, 600):
        assert len(SparsifiedEdges(same, number).drawn) == pytest.approx(number, abs=15)
    several = np.repeat([0.1, 0.2, 0.3], 1000)[np.random.default_rng(0).permutation(3000)]
    places = _scattered(several)
    for value in (0.1, 0.2, 0.3):
        assert np.histogram(places[several == value], 10, (0, 1))[0] == pytest.approx(100, abs=3)


def test_no_point_is_without_an_edge(P):
    edges = SNEProblem(P, kernel="student-t").edges
    thinned = SparsifiedEdges(edges, N // 20)
    ends = np.bincount(np.r_[thinned.i, thinned.j], minlength=N)
    assert ends.min() > 0 and len(thinned.drawn) < len(edges.weight)


def test_edges_of_hardly_any_weight_are_not_drawn(P):
    """Their numbers would be divided by nearly nothing."""
    far = P.copy()
    far.data[::2] = 10.0 ** -np.linspace(30, 300, len(far.data[::2]))
    edges = Edges(far)
    thinned = SparsifiedEdges(edges, 10 * N)
    ends = np.bincount(np.r_[thinned.i, thinned.j], minlength=N)
    assert ends.min() > 0 and np.isfinite(thinned.of(edges.weight.astype(np.float32))).all()
    assert edges.weight[thinned.drawn].min() > 1e-12


def test_the_metric_of_student_t_has_fewer_edges_where_there_are_many(P, whole):
    thinned = SNEProblem(P, kernel="student-t")
    assert thinned.metric_edges is not thinned.edges and thinned.stage(5).metric_edges is thinned.metric_edges
    assert whole.stage(5).metric_edges is whole.edges
    gaussian = SNEProblem(P, kernel="gaussian")
    assert gaussian.metric_edges is gaussian.edges
    assert len(SNEProblem(P, 3, kernel="student-t").metric_edges.weight) <= 15 * N
    few = perplexity_affinities(np.random.default_rng(0).normal(size=(300, 5)), 5)
    problem = SNEProblem(few, kernel="student-t")
    assert problem.metric_edges is problem.edges


def test_the_metric_is_much_as_with_all_edges(P, whole):
    x, thinned = minimize(whole, random_state=0, max_iter=30).x, SNEProblem(P, kernel="student-t")
    F = thinned.gradient(x).astype(np.float32)
    few, all = (p.metric.at(x, 0).apply(F) for p in (thinned, whole))
    assert few @ all > 0.85 * np.linalg.norm(few) * np.linalg.norm(all)
    assert np.linalg.norm(few) == pytest.approx(np.linalg.norm(all), rel=0.2)


def test_a_map_is_as_good_and_repeats(P, whole):
    thinned = SNEProblem(P, kernel="student-t")
    few, again, all = (thinned.divergence(minimize(p, random_state=0).x) for p in (thinned, thinned, whole))
    assert few == again and few < 1.02 * all
