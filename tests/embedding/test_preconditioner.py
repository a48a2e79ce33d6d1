"""The preconditioner of neighbour embedding, against dense linear algebra, and maps of
permuted rows."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial import procrustes
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsTransformer

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.problems import SNEProblem

KERNELS = ("gaussian", "student-t")
DIGITS = load_digits().data


def make_problem(n=80, d=2, kernel="student-t", centers=1, **kwargs):
    P = perplexity_affinities(make_blobs(n, 5, centers=centers, random_state=0)[0], 5)
    return SNEProblem(P, d, kernel=kernel, dtype=np.float64, **kwargs)


def laplacian(problem, x, mu):
    """The graph Laplacian of the attraction's weights 2 alpha s_ij phi'(D_ij), s = P +
    P.T, and mu on the diagonal."""
    P = problem.P.toarray()
    c = 2 * problem.exaggeration * (P + P.T)
    if problem.kernel == "student-t":
        c /= 1 + pairwise_distances(x.reshape(len(P), -1), metric="sqeuclidean")
    return np.diag(c.sum(axis=1) + mu) - c


def solved(problem, x, metric, F):
    """(L_c + mu I)^-1 F, by a dense solver."""
    L = laplacian(problem, x.astype(float), metric.mu)
    return np.linalg.solve(L, F.reshape(len(L), -1).astype(float)).ravel()


@pytest.mark.parametrize(
    ("kernel", "d", "within"),
    [("student-t", 1, 0.1), ("gaussian", 2, 0.4), ("student-t", 3, 0.1)]
    + [("gaussian", 7, 0.4)],
)
def test_it_is_the_inverse_of_the_laplacian_of_the_attraction(kernel, d, within):
    problem = make_problem(d=d, kernel=kernel, exaggeration=2.0)
    x = np.random.default_rng(1).normal(size=problem.n_variables)
    metric, F = problem.preconditioner.at(x, 0), problem.gradient(x)
    exact = solved(problem, x, metric, F)
    error = np.linalg.norm(metric.apply(F) - exact)
    assert error < within * np.linalg.norm(exact)
    # each coordinate has a system of its own, and in one there is nothing to solve
    only = F.reshape(-1, d) * (np.arange(d) == 0)
    alone = metric.apply(only.ravel()).reshape(-1, d)
    both = metric.apply(F).reshape(-1, d)
    np.testing.assert_allclose(alone[:, 0], both[:, 0], rtol=1e-9)
    assert not alone[:, 1:].any()
    metric.iterations, atol = 80, 1e-8 * np.abs(exact).max()
    np.testing.assert_allclose(metric.apply(F), exact, rtol=1e-6, atol=atol)
    X, L = x.reshape(-1, d), laplacian(problem, x, metric.mu)
    assert metric.size(x) == pytest.approx(np.sqrt(np.einsum("id,ij,jd->", X, L, X)))


def test_soft_steps_are_nearly_exact():
    """They move many points together, which few iterations without a coarse level do
    not see."""
    problem = make_problem(600)
    x = np.random.default_rng(1).normal(size=1200)
    metric = problem.preconditioner.at(x, 10**6)
    F = np.repeat(np.sin(np.arange(600) / 40), 2)
    exact = solved(problem, x, metric, F)
    assert np.linalg.norm(metric.apply(F) - exact) < 0.15 * np.linalg.norm(exact)


def test_the_regularisation_falls_and_stays():
    problem = make_problem()
    x = problem.initial_point(np.random.default_rng(0))
    mu = [problem.preconditioner.at(x, t).mu for t in (0, 35, 70, 100, 140)]
    assert mu[0] > mu[1] > mu[2] == mu[3] == mu[4]
    early = problem.stage(20, 4.0, held=1.0)
    assert (
        early.preconditioner.at(x, 0).mu == early.preconditioner.at(x, 19).mu == mu[0]
    )
    assert problem.stage(20, further=True).preconditioner.at(x, 0).mu == mu[4]


def test_components_of_the_graph_have_a_floor():
    """Without a floor a component moves by 1 / mu times its mean force, until all
    components are dots."""
    problem = make_problem(200, centers=np.eye(4, 5) * 1e3)
    metric = problem.preconditioner.at(np.random.default_rng(1).normal(size=400), 10**6)
    weight = 1 / 200  # of a point
    np.testing.assert_allclose(
        metric.apply(np.ones(400)), 1 / (0.03 * weight), rtol=0.02
    )


@pytest.mark.parametrize("between, connected", [(0.1, False), (5.0, True)])
def test_an_edge_that_is_weak_for_both_of_two_clusters_does_not_connect_them(
    between, connected
):
    """The clusters have total weights of 90 and 1800, so that an edge of 5 is weak for
    the larger one only."""
    P, first = np.zeros((20, 20)), np.arange(20) < 10
    P[:10, :10], P[10:, 10:], P[0, 10], P[10, 0] = 1.0, 20.0, between, between
    np.fill_diagonal(P, 0.0)
    P = sparse.csr_array(P / P.sum())
    problem = SNEProblem(P, kernel="student-t", joint=True, dtype=np.float64)
    x = 1e-3 * np.random.default_rng(0).normal(size=40)
    metric, F = (
        problem.preconditioner.at(x, 10**6),
        np.repeat(np.where(first, 1.0, -1.0), 2),
    )
    metric.iterations = 80
    exact = solved(problem, x, metric, F).reshape(20, 2)[first].mean(axis=0)
    step = metric.apply(F).reshape(20, 2)[first].mean(axis=0)
    floor = 0.03 / 20  # of mu, for the mean motion of a component
    factor = 1.0 if connected else metric.mu / floor
    np.testing.assert_allclose(step, factor * exact, rtol=1e-6)


N = 1200


def affinities_of(data):
    """Affinities with so many edges that the preconditioner uses a sample of them, and
    whether they are joint ones."""
    X = make_blobs(N, 5, centers=1, random_state=0)[0]
    if data == "copies":  # groups of copies, so that all edges have the same weight
        return perplexity_affinities(np.repeat(X[:15], N // 15, axis=0), 25), False
    if data == "texts":  # word counts of ten subjects, most of which are 0
        rng = np.random.default_rng(0)
        rates = rng.gamma(0.15, 1.0, (10, 300))[np.arange(N) % 10]
        counts = sparse.csr_array(rng.poisson(0.3 * rates).astype(float))
        return perplexity_affinities(counts, 25), False
    P, weight = perplexity_affinities(X, 20), np.ones(N)
    P = (P + P.T) / 2
    # hardly any are drawn, and their weights must not be divided by nearly nothing
    if data == "weak edges":
        P.data[::2] = 10.0 ** -np.linspace(30, 300, len(P.data[::2]))
    if data == "weak points":  # of some of which no edge would be drawn
        weight[::20] = 0.05
    P = sparse.csr_array(sparse.diags_array(weight) @ P @ sparse.diags_array(weight))
    return sparse.csr_array(P / P.sum()), True


@pytest.mark.filterwarnings("ignore:the .* are all at a distance of 0")
@pytest.mark.parametrize(
    "data", ["blob", "copies", "texts", "weak edges", "weak points"]
)
def test_a_sample_of_the_edges_has_nearly_the_same_steps(data):
    P, joint = affinities_of(data)
    problem = SNEProblem(P, kernel="student-t", joint=joint)
    assert len(problem.graph.drawn.i) < 16 * N
    x = np.random.default_rng(0).normal(size=2 * N).astype(np.float32)
    F, metric = problem.gradient(x), problem.preconditioner.at(x, 34)
    metric.iterations = 20
    step, exact = metric.apply(F), solved(problem, x, metric, F)
    assert step @ exact > 0.97 * np.linalg.norm(step) * np.linalg.norm(exact)
    assert np.linalg.norm(step) == pytest.approx(np.linalg.norm(exact), rel=0.1)


def test_permuted_rows_with_ties_give_the_same_map():
    X = np.random.default_rng(0).integers(0, 4, (200, 4)).astype(float)
    order = np.random.default_rng(0).permutation(200)
    graph = KNeighborsTransformer(n_neighbors=31).fit_transform(X)
    for metric, data, permuted, most in (
        ("precomputed", graph, graph[order][:, order], 1e-3),
        # other ones of equally far neighbours are listed
        ("euclidean", X, X[order], 0.1),
    ):
        model = SNEEmbedding(perplexity=10, metric=metric, random_state=0)
        first, second = model.fit_transform(data), model.fit_transform(permuted)
        assert procrustes(first, second[np.argsort(order)])[2] < most
