"""Sums over pairs of points against dense ones; no product of matrices has an entry that is not finite."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial import procrustes
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances

from sk_stormc import SNEEmbedding, minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding.mesh import Mesh
from sk_stormc.embedding.pairs import AllPairs, Edges, column_sums, columns
from sk_stormc.problems import SNEProblem


def points(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.fixture
def finite_products(monkeypatch):
    """Whether np.matmul was called, and a failure where its operands are not finite.

    What a kernel makes of infinity times the zeros beside it depends on the processor: values may be right and a
    floating-point flag raised all the same.
    """
    calls, matmul = [], np.matmul

    def checked(a, b, **kwargs):
        assert np.isfinite(a).all() and np.isfinite(b).all()
        calls.append(a.shape)
        return matmul(a, b, **kwargs)

    monkeypatch.setattr(np, "matmul", checked)
    return calls


@pytest.mark.parametrize("kernel", ["gaussian", "student-t"])
def test_products_of_a_run_are_finite(finite_products, kernel):
    problem = SNEProblem(perplexity_affinities(points(1100, 4), 5), 3, kernel=kernel, n_iter=12)
    with np.errstate(invalid="raise"):
        minimize(problem, random_state=0, max_iter=12)
    assert finite_products


# --- edges and columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_edges(d):
    P = perplexity_affinities(points(40, 5), 5)
    P.sort_indices()
    S = (P + P.T).toarray()
    edges, x = Edges(P), points(40, d)
    rows = np.ascontiguousarray(x.T)
    np.testing.assert_array_equal(edges.weight, S[edges.i, edges.j])
    assert edges.pointer.tolist() == np.searchsorted(edges.i, np.arange(41)).tolist()
    assert (edges.i < edges.j).all() and len(edges.i) == (S > 0).sum() / 2
    square = edges.squares(rows, np.empty(len(edges.i)))
    np.testing.assert_allclose(square, np.square(x[edges.i] - x[edges.j]).sum(axis=1))
    np.testing.assert_allclose(edges.matrix(edges.weight)(rows), (S @ x).T)
    np.testing.assert_allclose(edges.sums(edges.weight), S.sum(axis=1))
    expected = S.sum(axis=1)[:, None] * x - S @ x
    np.testing.assert_allclose(edges.forces(edges.weight, rows), expected.T, atol=1e-12)
    np.testing.assert_array_equal(edges.ends(rows[0]), x[edges.i, 0] + x[edges.j, 0])
    np.testing.assert_allclose(edges.symmetric().toarray(), S, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns(dtype):
    x, chosen = points(300, 3).astype(dtype) + 5, np.array([3, 250, 3, 17])
    pattern = sparse.csr_array(perplexity_affinities(x, 5) + sparse.eye_array(300))
    pattern = (pattern + pattern.T).tocsr()
    keep = pattern.toarray()[:, chosen] == 0
    D = pairwise_distances(x.astype(float), metric="sqeuclidean")[:, chosen]
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    E, sums = columns(x, chosen, pattern)
    np.testing.assert_allclose(E, np.exp(-D) * keep, atol=tolerance)
    np.testing.assert_allclose(sums, (np.exp(-D) * keep).sum(axis=1), atol=tolerance)
    total, forces = column_sums(x, chosen, pattern)
    w = keep / (1 + D)
    assert total == pytest.approx(w.sum(), rel=tolerance)
    expected = np.einsum("ib,ibd->id", w * w, x[:, None] - x[chosen][None])
    np.testing.assert_allclose(forces, expected, atol=10 * tolerance)
    assert E.dtype == forces.dtype == dtype


def test_points_without_edges():
    P = sparse.csr_array(([0.25, 0.5, 1.0, 0.125], ([1, 1, 3, 4], [3, 4, 1, 3])), shape=(6, 6))
    edges = Edges(P)
    assert list(zip(edges.i.tolist(), edges.j.tolist(), edges.weight.tolist(), strict=True)) == [
        (1, 3, 1.25), (1, 4, 0.5), (3, 4, 0.125)
    ]  # fmt: skip
    assert edges.pointer.tolist() == [0, 0, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dof", [1, 0.6])
@pytest.mark.parametrize("tile", [500, 2**17])
def test_all_pairs(tile, dof, dtype, monkeypatch):
    monkeypatch.setattr("sk_stormc.embedding.pairs.TILE", tile)
    x = (3 * points(90, 2)).astype(dtype)
    difference = (x[:, None] - x[None]).astype(float)
    w = np.where(np.eye(90, dtype=bool), 0, 1 / (1 + np.square(difference).sum(axis=2) / dof))
    total, forces = AllPairs(90)(x, dof)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    assert total == pytest.approx((w**dof).sum(), rel=tolerance) and forces.dtype == dtype
    np.testing.assert_allclose(forces, np.einsum("ij,ijd->id", w ** (dof + 1), difference), atol=10 * tolerance)


def test_all_pairs_of_few_points():
    for n in (2, 3):
        x = np.arange(2.0 * n).reshape(n, 2)
        total, forces = AllPairs(n)(x)
        assert total == pytest.approx(exact_sums(x)[0])
        np.testing.assert_allclose(forces, exact_sums(x)[1])


# --- the mesh -------------------------------------------------------------------------------------------


def exact_sums(x):
    difference = (x[:, None] - x[None]).astype(float)
    w = 1 / (1 + np.square(difference).sum(axis=2))
    return w.sum() - len(x), np.einsum("ij,ijd->id", w * w, difference)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 30.0])
@pytest.mark.parametrize("d", [1, 2])
def test_mesh(d, scale, dtype):
    x = (scale * points(400, d) + 7 * scale).astype(dtype)
    Z, F = exact_sums(x)
    with np.errstate(all="raise"):
        total, forces = Mesh(0.2)(x)
    assert total == pytest.approx(Z, rel=1e-4, abs=5e-4 * len(x)) and forces.dtype == dtype
    # a map as small as a start has forces too: they do not drown in the rounding of a large constant
    np.testing.assert_allclose(forces, F, atol=0.01 * np.abs(F).max())
    assert Mesh(0.2).total(x) == pytest.approx(total, rel=1e-5)
    mesh = Mesh(0.2)
    mesh(points(900, d))  # another mesh before leaves nothing behind
    np.testing.assert_array_equal(mesh(x)[1], forces)


def test_a_finer_mesh_is_more_exact():
    x = 8 * points(500, 2)
    Z, F = exact_sums(x)
    errors = []
    for spacing in (0.5, 0.25, 0.125):
        total, forces = Mesh(spacing)(x)
        errors.append((abs(total / Z - 1), np.abs(forces - F).max() / np.abs(F).max()))
    assert errors[0][0] < 3e-3 and errors[0][1] < 0.15
    for coarse, fine in zip(errors, errors[1:], strict=False):
        assert fine[0] < coarse[0] / 4 and fine[1] < coarse[1] / 2


def test_forces_are_the_gradient_of_the_meshs_own_sum():
    x = 8 * points(300, 2)
    inside = np.argsort(np.abs(x).max(axis=1))[:5]  # a point of the rim would move the mesh
    mesh = Mesh()
    forces = mesh(x)[1]
    for i in inside:
        for axis in range(2):
            step = np.zeros_like(x)
            step[i, axis] = 1e-5
            slope = (mesh(x + step)[0] - mesh(x - step)[0]) / 2e-5
            assert slope == pytest.approx(-4 * forces[i, axis], abs=1e-5 * np.abs(forces).max())


def test_mesh_of_odd_maps():
    total, forces = Mesh()(np.ones((50, 2), np.float32))
    assert total == pytest.approx(50 * 49, rel=1e-3) and np.abs(forces).max() < 3e-3
    far = np.vstack([points(200, 2), [[1e6, 0.0]]])
    total, forces = Mesh()(far)  # the coarsest mesh there is, not one of 1e6 / .5 cells
    assert np.isfinite(forces).all() and np.isfinite(total)
    with np.errstate(all="raise"):
        total, forces = Mesh()(np.array([[0.0, 0.0], [np.nan, 1.0]]))
    assert np.isnan(total) and np.isnan(forces).all() and np.isnan(Mesh().total(np.array([[np.inf, 0.0]])))


def test_wide_maps_of_few_points_are_exact():
    # forces of the mesh are wrong by a fifth there, and maps of permuted rows then differed
    x = points(1800, 2)
    assert [Mesh().pays(width * x / np.ptp(x)) for width in (100, 160)] == [True, False]


@pytest.mark.slow
def test_permuted_rows_give_the_same_map():
    X = load_digits().data[:1500]
    places = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(X))
        place = np.empty((len(X), 2))
        place[order] = SNEEmbedding(random_state=0).fit_transform(X[order])
        places.append(place)
    assert max(procrustes(places[0], other)[2] for other in places[1:]) < 0.02
