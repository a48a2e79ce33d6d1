"""What an iteration of a map costs: its types, what is found once, and what is chosen by cost."""

import numpy as np
import pytest
from scipy import fft
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from sk_stormc import minimize
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.embedding import convolution
from sk_stormc.embedding.mesh import Mesh
from sk_stormc.problems import SNEProblem

DIGITS = load_digits().data


@pytest.fixture(scope="module")
def digits():
    return perplexity_affinities(DIGITS, 10)


def wide(n, width, d=2):
    return (width * np.random.default_rng(0).random((n, d))).astype(np.float32)


@pytest.mark.parametrize("d", [1, 2])
def test_the_mesh_is_of_the_points_own_precision(d, monkeypatch):
    seen = []

    def watched(transform):
        def call(a, *args, **kwargs):
            seen.append(a.dtype)
            return transform(a, *args, **kwargs)

        return call

    for name in ("rfft", "irfft", "fft", "ifft", "dctn"):
        monkeypatch.setattr(convolution.fft, name, watched(getattr(fft, name)))
    mesh = Mesh()
    points, _, potential = mesh._sums(wide(2000, 50, d))
    density = points.density()
    assert {a.dtype for a in (points._splines, density, potential, points.slopes(density))} == {np.dtype(np.float32)}
    assert mesh(wide(2000, 50, d))[1].dtype == np.float32
    assert len(seen) >= 6 and set(seen) <= {np.dtype(np.float32), np.dtype(np.complex64)}


@pytest.mark.parametrize("kernel, d", [("student-t", 2), ("student-t", 3), ("gaussian", 2)])
def test_an_iteration_is_in_single_precision(digits, kernel, d):
    problem = SNEProblem(digits, d, kernel=kernel).in_run()
    x = wide(1797, 10, d).ravel()
    batch = problem.inner_batch(None)
    u, J = problem.inner(x, batch), problem.jacobian(x, batch)
    f_x, f_u = problem.outer_gradient(x, u, None)
    F = problem.compositional_gradient(x, u, J, None)
    metric = problem.metric.at(x, 1)
    parts = [u, f_x, f_u, F, problem.vjp(J, f_u), metric.c, metric.degree, metric.apply(F), *problem._near().at(x)]
    assert [part.dtype for part in parts] == [np.float32] * len(parts)


@pytest.mark.parametrize("width, most", [(20.0, 2), (200.0, 3)])
def test_a_map_that_grows_a_little_has_the_same_kernel(width, most):
    x, mesh, kernels, results = wide(2000, width), Mesh(), {}, []
    for growth in np.linspace(1, 1.1, 12):
        results.append(mesh((growth * x).astype(np.float32)))
        kernels[id(mesh._known)] = mesh._known  # kept, so that no other gets its id
    assert len(kernels) <= most
    for growth, (total, forces) in zip(np.linspace(1, 1.1, 12), results, strict=True):
        again = Mesh()((growth * x).astype(np.float32))
        assert again[0] == total
        np.testing.assert_array_equal(again[1], forces)


@pytest.mark.slow
def test_few_points_that_lie_far_apart_are_taken_pair_by_pair(digits, monkeypatch):
    problem = SNEProblem(digits, 2, kernel="student-t")
    near, far = wide(1797, 30).ravel(), wide(1797, 900).ravel()
    expected = problem.divergence(far)
    monkeypatch.setattr(Mesh, "pays", lambda self, x: True)
    on_mesh = [problem.divergence(x) for x in (near, far)]
    assert expected == pytest.approx(on_mesh[1], rel=1e-2)
    monkeypatch.undo()

    def refused(self, x):
        raise AssertionError("the map is on a mesh")

    monkeypatch.setattr(Mesh, "__call__", refused)
    monkeypatch.setattr(Mesh, "total", refused)
    assert problem.divergence(far) == expected and np.isfinite(problem.gradient(far)).all()
    with pytest.raises(AssertionError):
        problem.gradient(near)
    assert Mesh().pays(np.full((2000, 2), np.nan, np.float32))


def test_a_record_costs_no_further_sums(digits, monkeypatch):
    problem = SNEProblem(digits, 2, kernel="student-t")
    x = (1e-4 * PCA(2).fit_transform(DIGITS)).astype(np.float32).ravel()
    calls, sums = [], Mesh.__call__

    def counted(self, x):
        calls.append(x.shape)
        return sums(self, x)

    monkeypatch.setattr(Mesh, "__call__", counted)
    minimize(problem, x0=x, max_iter=12, record_every=1, random_state=0)
    every = len(calls)
    calls.clear()
    result = minimize(problem, x0=x, max_iter=12, record_every=2**62, random_state=0)
    assert every <= len(calls) + 2
    monkeypatch.undo()
    assert problem.objective(result.x) == result.fun
