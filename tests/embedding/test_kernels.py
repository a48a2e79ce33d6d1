"""Degrees of freedom of the Student-t kernel: sums by pairs and on the mesh, gradients, and whole maps."""

import numpy as np
import pytest
from helpers import few_of
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding.mesh import Mesh
from sk_stormc.embedding.transform import _lowest
from sk_stormc.problems import SNEProblem

X, Y = load_digits(return_X_y=True)
POINTS = np.random.default_rng(0).normal(size=(60, 5))


def kernel(points, dof):
    """k and -k' of all pairs, without the diagonal."""
    D = pairwise_distances(points, metric="sqeuclidean")
    w = 1 / (1 + D / dof)
    k, slope = w**dof, w ** (dof + 1)
    np.fill_diagonal(k, 0)
    np.fill_diagonal(slope, 0)
    return D, k, slope


@pytest.mark.parametrize("dof", [0.4, 1.0, 2.5, 40.0])
@pytest.mark.parametrize("d", [2, 3])
def test_objective_and_gradient(dof, d):
    P = perplexity_affinities(POINTS, 8.0)
    problem = SNEProblem(P, d, kernel="student-t", dof=dof, exaggeration=1.5, dtype=np.float64)
    x = np.random.default_rng(1).normal(size=60 * d)
    D, k, _ = kernel(x.reshape(60, d), dof)
    joint = ((P + P.T) / 120).toarray()
    expected = 1.5 * np.sum(joint * dof * np.log1p(D / dof)) + np.log(k.sum())
    assert problem.objective(x) == pytest.approx(expected, rel=1e-12)
    assert problem.divergence(x) == pytest.approx(np.sum(joint[joint > 0] * np.log((joint * k.sum() / np.where(
        joint > 0, k, 1))[joint > 0])), rel=1e-10)
    gradient = problem.gradient(x)
    for i in (0, 7, len(x) - 1):
        step = np.zeros_like(x)
        step[i] = 1e-5
        slope = (problem.objective(x + step) - problem.objective(x - step)) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("dof", [0.3, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("d", [1, 2])
def test_sums_on_the_mesh(dof, d):
    points = (15 if dof < 1 else 6) * np.random.default_rng(2).normal(size=(1500, d))  # such maps are small
    _, k, slope = kernel(points, dof)
    total, forces = Mesh(dof=dof)(points)
    exact = slope.sum(axis=1)[:, None] * points - slope @ points
    assert total == pytest.approx(k.sum(), rel=4e-3)
    assert np.linalg.norm(forces - exact) < 0.06 * np.linalg.norm(exact)
    assert Mesh(0.25, dof).total(points) == pytest.approx(k.sum(), rel=5e-4)


def test_a_mesh_and_pairs_have_the_same_gradient():
    P = perplexity_affinities(X[:1200], 10.0)
    x = (4 * np.random.default_rng(3).normal(size=2400)).astype(np.float32)
    meshed = SNEProblem(P, 2, kernel="student-t", dof=0.5)
    pairs = SNEProblem(P, 2, kernel="student-t", dof=0.5, jacobian="dense")
    assert meshed._far_field.mesh is not None and pairs._far_field.mesh is None
    assert meshed.objective(x) == pytest.approx(pairs.objective(x), rel=1e-3)
    found, exact = meshed.gradient(x), pairs.gradient(x)
    assert np.linalg.norm(found - exact) < 0.05 * np.linalg.norm(exact)


def test_one_degree_is_the_default():
    expected = SNEEmbedding(max_iter=20, random_state=0, perplexity=10).fit(X[:200])
    found = SNEEmbedding(max_iter=20, random_state=0, perplexity=10, dof=1).fit(X[:200])
    np.testing.assert_array_equal(found.embedding_, expected.embedding_)


@pytest.mark.slow
def test_heavy_tails_spread_a_map_and_light_ones_press_it_together():
    widths = [
        SNEEmbedding(dof=dof, max_iter=100, random_state=0, perplexity=15).fit(X[:400]).embedding_.std()
        for dof in (0.6, 1.0, 10.0)
    ]
    assert widths[0] > 1.5 * widths[1] > 3 * widths[2]


@pytest.mark.parametrize("dof", few_of([0.5, 5.0], 0))
def test_new_samples_go_where_that_kernel_draws_them(dof):
    rng = np.random.default_rng(0)
    x, w = 3 * rng.normal(size=(2, 100, 12)), rng.dirichlet(np.ones(12), size=100)
    z = _lowest(w, x, dof)

    def value(z):
        return (w * np.log1p(np.square(x - z.T[:, :, None]).sum(axis=0) / dof)).sum(axis=1)

    for step in 0.3 * rng.normal(size=(10, 2)):
        assert np.mean(value(z) <= value(z + step)) > 0.97
    model = SNEEmbedding(dof=dof, max_iter=60, random_state=0, perplexity=15).fit(X[:400])
    np.testing.assert_array_equal(model.transform(X[:400]), model.embedding_)
    near = pairwise_distances(model.transform(X[400:500]), model.embedding_).argmin(axis=1)
    assert np.mean(Y[near] == Y[400:500]) > 0.9


@pytest.mark.parametrize("dof, kernel", [(0, "auto"), (-1.0, "auto"), (np.inf, "auto"), ("1", "auto"), (2, "gaussian")])
def test_degrees_of_freedom_that_are_refused(dof, kernel):
    with pytest.raises(ValueError, match="^dof must be"):
        SNEEmbedding(dof=dof, kernel=kernel).fit(X[:50])
