"""The graph-Laplacian metric of neighbour embedding, against dense linear algebra."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from sk_stormc import minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding.pairs import Edges
from sk_stormc.embedding.preconditioner import Aggregates, GraphLaplacian, _strongest
from sk_stormc.metrics import as_metric
from sk_stormc.problems import SNEProblem

KERNELS = ("gaussian", "student-t")


def make_problem(n=80, d=2, kernel="student-t", centers=1, **kwargs):
    X, _ = make_blobs(n, 5, centers=centers, center_box=(-300, 300), random_state=0)
    return SNEProblem(perplexity_affinities(X, 5), d, kernel=kernel, dtype=np.float64, **kwargs)


def dense(problem, metric):
    n = problem.n_inner
    L = np.zeros((n, n))
    L[problem.edges.i, problem.edges.j] = metric.c
    L += L.T
    return np.diag(L.sum(axis=1) + metric.mu) - L


@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_inverse_of_the_attractions_laplacian(kernel, d):
    problem = make_problem(d=d, kernel=kernel, exaggeration=2.0)
    x = np.random.default_rng(1).normal(size=problem.n_variables)
    metric, F = problem.metric.at(x, 0), problem.gradient(x)
    L, X = dense(problem, metric), x.reshape(-1, d)
    D = np.square(X[:, None] - X[None]).sum(axis=2)
    P = problem.P.toarray()
    expected = 4.0 * (P + P.T) * (1 if kernel == "gaussian" else 1 / (1 + D))  # 2 alpha s phi'
    np.testing.assert_allclose(-(L - np.diag(L.diagonal())), expected, atol=1e-15)
    exact = np.linalg.solve(L, F.reshape(-1, d)).ravel()
    few, many = (GraphLaplacian(problem, metric.mu, k).at(x, 0).apply(F) for k in (4, 80))
    np.testing.assert_allclose(many, exact, rtol=1e-6, atol=1e-8 * np.abs(exact).max())
    assert np.linalg.norm(few - exact) < 0.25 * np.linalg.norm(exact)
    assert metric.size(x) == pytest.approx(np.sqrt(np.einsum("id,ij,jd->", X, L, X)))


def test_each_coordinate_has_a_system_of_its_own():
    problem = make_problem(d=2)
    x = np.random.default_rng(1).normal(size=160)
    metric, F = problem.metric.at(x, 0), problem.gradient(x).reshape(-1, 2)
    both = metric.apply(F.ravel()).reshape(-1, 2)
    alone = metric.apply(np.column_stack([F[:, 0], np.zeros(80)]).ravel()).reshape(-1, 2)  # nothing to solve in one
    np.testing.assert_allclose(alone[:, 0], both[:, 0], rtol=1e-12)
    assert not alone[:, 1].any()


def test_the_coarse_level_pays():
    problem = make_problem(600)
    x = np.random.default_rng(1).normal(size=1200)
    metric = problem.metric.at(x, 10**6)
    F = np.repeat(np.sin(np.arange(600) / 40), 2)  # soft: it moves many points together
    exact = np.linalg.solve(dense(problem, metric), F.reshape(-1, 2)).ravel()

    def error(q):
        return np.linalg.norm(q - exact) / np.linalg.norm(exact)

    two_levels = error(metric.apply(F))
    problem.aggregates.solver = lambda c, mu: np.zeros_like
    assert two_levels < 0.3 * error(metric.apply(F))


def test_mu_follows_its_schedule():
    problem = make_problem()
    x = problem.initial_point(np.random.default_rng(0))
    mu = [problem.metric.at(x, t).mu for t in (0, 35, 70, 100, 140)]
    assert mu[0] > mu[1] > mu[2] == mu[3] == mu[4]
    early = problem.stage(20, 4.0, held=1.0)
    assert early.metric.at(x, 0).mu == early.metric.at(x, 19).mu == mu[0]
    assert as_metric(problem.metric, 160) is problem.metric and not problem.metric.stays


def test_lengths_of_points_are_euclidean():
    q = np.array([3.0, 4.0, 0.0, 0.0, 5.0, 12.0])
    np.testing.assert_array_equal(make_problem().metric.block_lengths(q, -q, 3), [5, 0, 13])


def test_values_that_are_not_finite_come_back():
    problem = make_problem()
    x = np.random.default_rng(1).normal(size=160)
    with np.errstate(all="raise"):
        assert np.isnan(problem.metric.at(x, 0).apply(np.full(160, np.inf))).all()


@pytest.mark.parametrize("n", [2, 9, 60, 700])
@pytest.mark.parametrize("centers", [1, 4])
def test_aggregates(n, centers):
    X, y = make_blobs(n, 3, centers=centers, center_box=(-1e3, 1e3), random_state=0)
    P = perplexity_affinities(X, 1 if n < 20 else 3)
    edges = Edges(P)
    groups = Aggregates(edges, edges)
    assert groups.label.shape == (n,) and groups.label.min() >= 0 and groups.label.max() < groups.m
    np.testing.assert_array_equal(groups.size, np.bincount(groups.label, minlength=groups.m))
    if n == 700:
        # a group does not span clusters that have no edges between them, but for points that no seed reached
        found = sparse.coo_array((np.ones(n), (groups.label, y))).toarray() > 0
        assert (found.sum(axis=1) > 1).sum() <= 1 and groups.size.max() < 0.2 * n


@pytest.mark.parametrize("kernel", KERNELS)
def test_runs_resume_and_pickle(kernel):
    problem = make_problem(kernel=kernel)
    whole = minimize(problem, max_iter=30, random_state=0)
    part = minimize(pickle.loads(pickle.dumps(problem)), max_iter=11, random_state=0)
    rest = minimize(problem, max_iter=30, state=pickle.loads(pickle.dumps(part.state)))
    np.testing.assert_array_equal(whole.x, rest.x)
    assert whole.fun < 0.9 * whole.loss_curve[0] + 0.1 * whole.fun


def test_the_strongest_of_each_row():
    pull = sparse.random(40, 30, 0.06, format="csr", random_state=0)
    pull.data = np.ceil(4 * pull.data)  # some are equal
    filled = np.flatnonzero(np.diff(pull.indptr))
    assert 0 < len(filled) < 40
    np.testing.assert_array_equal(_strongest(pull)[filled], pull.toarray().argmax(axis=1)[filled])
