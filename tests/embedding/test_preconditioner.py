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


def make_problem(n=80, d=2, kernel="student-t", perplexity=5, centers=1, **kwargs):
    X, _ = make_blobs(n, 5, centers=centers, random_state=0)
    return SNEProblem(
        perplexity_affinities(X, perplexity),
        d,
        kernel=kernel,
        dtype=np.float64,
        **kwargs,
    )


def laplacian(problem, x, mu):
    """The graph Laplacian of the attraction's weights 2 alpha s_ij phi'(D_ij), s = P +
    P.T, and mu on the diagonal."""
    P = problem.P.toarray()
    c = 2 * problem.exaggeration * (P + P.T)
    if problem.kernel == "student-t":
        c /= 1 + pairwise_distances(x.reshape(len(P), -1), metric="sqeuclidean")
    return np.diag(c.sum(axis=1) + mu) - c


@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_inverse_of_the_laplacian_of_the_attraction(kernel, d):
    problem = make_problem(d=d, kernel=kernel, exaggeration=2.0)
    x = np.random.default_rng(1).normal(size=problem.n_variables)
    metric, F = problem.preconditioner.at(x, 0), problem.gradient(x)
    L = laplacian(problem, x, metric.mu)
    exact = np.linalg.solve(L, F.reshape(-1, d)).ravel()
    assert np.linalg.norm(metric.apply(F) - exact) < (
        0.1 if kernel == "student-t" else 0.4
    ) * np.linalg.norm(exact)
    metric.iterations = 80
    np.testing.assert_allclose(
        metric.apply(F), exact, rtol=1e-6, atol=1e-8 * np.abs(exact).max()
    )
    X = x.reshape(-1, d)
    assert metric.size(x) == pytest.approx(np.sqrt(np.einsum("id,ij,jd->", X, L, X)))


def test_soft_steps_are_nearly_exact():
    """They move many points together, which few iterations without a coarse level do
    not see."""
    problem = make_problem(600)
    x = np.random.default_rng(1).normal(size=1200)
    metric = problem.preconditioner.at(x, 10**6)
    F = np.repeat(np.sin(np.arange(600) / 40), 2)
    exact = np.linalg.solve(laplacian(problem, x, metric.mu), F.reshape(-1, 2)).ravel()
    assert np.linalg.norm(metric.apply(F) - exact) < 0.15 * np.linalg.norm(exact)


def test_each_coordinate_has_a_system_of_its_own():
    problem = make_problem()
    x = np.random.default_rng(1).normal(size=160)
    metric, F = problem.preconditioner.at(x, 0), problem.gradient(x).reshape(-1, 2)
    both = metric.apply(F.ravel()).reshape(-1, 2)
    # nothing to solve in one
    alone = metric.apply(np.column_stack([F[:, 0], np.zeros(80)]).ravel()).reshape(
        -1, 2
    )
    np.testing.assert_allclose(alone[:, 0], both[:, 0], rtol=1e-12)
    assert not alone[:, 1].any()


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
    problem = SNEProblem(
        sparse.csr_array(P / P.sum()),
        2,
        kernel="student-t",
        joint=True,
        dtype=np.float64,
    )
    x = 1e-3 * np.random.default_rng(0).normal(size=40)
    metric, F = (
        problem.preconditioner.at(x, 10**6),
        np.repeat(np.where(first, 1.0, -1.0), 2),
    )
    metric.iterations = 80
    exact = np.linalg.solve(laplacian(problem, x, metric.mu), F.reshape(20, 2))
    step = metric.apply(F).reshape(20, 2)
    floor = 0.03 / 20  # of mu, for the mean motion of a component
    factor = 1.0 if connected else metric.mu / floor
    np.testing.assert_allclose(
        step[first].mean(axis=0), factor * exact[first].mean(axis=0), rtol=1e-6
    )


def affinities_of(data, n=1200):
    """Joint affinities with so many edges that the preconditioner uses a sample of
    them."""
    X = make_blobs(n, 5, centers=1, random_state=0)[0]
    if data == "copies":  # groups of copies, so that all edges have the same weight
        X = np.repeat(X[:15], n // 15, axis=0)
    if data == "texts":  # word counts of ten subjects, most of which are 0
        rng = np.random.default_rng(0)
        rates = rng.gamma(0.15, 1.0, (10, 300))[np.arange(n) % 10]
        X = sparse.csr_array(rng.poisson(0.3 * rates).astype(float))
    many = data in ("copies", "texts")
    P, weight = perplexity_affinities(X, 25 if many else 20), np.ones(n)
    P = (P + P.T) / 2
    if (
        data == "weak edges"
    ):  # hardly any are drawn, and their weights must not be divided by nearly nothing
        P.data[::2] = 10.0 ** -np.linspace(30, 300, len(P.data[::2]))
    if data == "weak points":  # of some of which no edge would be drawn
        weight[::20] = 0.05
    P = sparse.csr_array(sparse.diags_array(weight) @ P @ sparse.diags_array(weight))
    return sparse.csr_array(P / P.sum())


@pytest.mark.parametrize(
    "data", ["blob", "copies", "texts", "weak edges", "weak points"]
)
@pytest.mark.filterwarnings("ignore:the .* are all at a distance of 0")
def test_a_sample_of_the_edges_has_nearly_the_same_steps(data):
    problem = SNEProblem(affinities_of(data), 2, kernel="student-t", joint=True)
    assert len(problem.graph.drawn.i) < 16 * 1200
    x = np.random.default_rng(0).normal(size=2400).astype(np.float32)
    F, metric = problem.gradient(x), problem.preconditioner.at(x, 34)
    metric.iterations = 20
    step = metric.apply(F)
    exact = np.linalg.solve(
        laplacian(problem, x.astype(float), metric.mu), F.reshape(1200, 2).astype(float)
    ).ravel()
    assert step @ exact > 0.97 * np.linalg.norm(step) * np.linalg.norm(exact)
    assert np.linalg.norm(step) == pytest.approx(np.linalg.norm(exact), rel=0.1)


def disparity_of_permuted(X, order, **params):
    """The Procrustes disparity of a map and that of the same samples in another
    order."""
    model = SNEEmbedding(random_state=0, **params)
    first = model.fit_transform(X)
    second = np.empty_like(first)
    second[order] = model.fit_transform(
        X[order][:, order] if params.get("metric") == "precomputed" else X[order]
    )
    return procrustes(first, second)[2]


def test_permuted_rows_with_ties_give_the_same_map():
    X = np.random.default_rng(0).integers(0, 4, (300, 4)).astype(float)
    order = np.random.default_rng(0).permutation(300)
    graph = KNeighborsTransformer(n_neighbors=31).fit_transform(X)
    assert (
        disparity_of_permuted(graph, order, metric="precomputed", perplexity=10) < 1e-3
    )
    # other ones of equally far neighbours are listed
    assert disparity_of_permuted(X, order, perplexity=10) < 0.1
