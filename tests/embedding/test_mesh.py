"""Sums over all pairs on the mesh, against closed forms: maps of any shape and size,
degrees of freedom, precision."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from sk_stormc import SNEEmbedding
from sk_stormc.affinities import perplexity_affinities
from sk_stormc.problems import SNEProblem

N = 1100  # enough for a mesh
P = perplexity_affinities(np.random.default_rng(0).normal(size=(N, 5)), 5)


def by_pairs(x, dof=1.0):
    """The normaliser Z and the gradient of log Z."""
    s = 1 + pairwise_distances(x, metric="sqeuclidean") / dof
    slope = s ** -(dof + 1)
    Z = (s**-dof).sum() - len(x)
    return Z, -4 * (slope.sum(axis=1)[:, None] * x - slope @ x) / Z


def by_problem(problem, x):
    """The same, from the problem: its gradient without the attraction."""
    x = x.astype(problem.dtype)
    batch = problem.inner_batch(None)
    u = problem.inner(x.ravel(), batch)
    gradient = problem.vjp(problem.jacobian(x.ravel(), batch), 1 / u)
    assert u.dtype == gradient.dtype == problem.dtype
    return float(u[0]), gradient.reshape(x.shape)


@pytest.mark.parametrize(
    ("sides", "dof"),
    [
        ((60.0, 40.0), 0.5),
        ((60.0, 40.0), 1.0),
        ((150.0,), 3.0),
        ((90.0, 0.5), 1.0),
        ((3.0, 2.0), 3.0),
        ((0.5,), 1.0),
        ((25.0, 25.0), 0.5),
    ],
)
def test_sums_and_forces_are_those_over_all_pairs(sides, dof):
    x = np.random.default_rng(0).random((N, len(sides))) * sides
    Z, forces = by_pairs(x, dof)
    # the mesh of these is finer
    for dtype, of_sum, of_forces in (
        (np.float32, 1.5e-2, 0.1),
        (np.float64, 1e-3, 0.01),
    ):
        problem = SNEProblem(P, len(sides), kernel="student-t", dof=dof, dtype=dtype)
        total, found = by_problem(problem, x)
        assert total == pytest.approx(Z, rel=of_sum)
        assert np.linalg.norm(found - forces) < of_forces * np.linalg.norm(forces)


@pytest.mark.parametrize("d", [1, 2])
def test_a_map_as_small_as_a_start_has_forces(d):
    """They do not drown in the rounding of a large constant."""
    x = 1e-4 * np.random.default_rng(0).normal(size=(N, d)) + 7e-4
    forces = by_pairs(x)[1]
    total, found = by_problem(SNEProblem(P, d, kernel="student-t"), x)
    assert total == pytest.approx(N * (N - 1), rel=1e-3)
    np.testing.assert_allclose(found, forces, atol=0.03 * np.abs(forces).max())


def test_the_ends_of_a_map_do_not_meet_around_the_mesh():
    problem = SNEProblem(P, 1, kernel="student-t", dtype=np.float64)
    for width in np.linspace(30, 45, 31):
        x = np.repeat([0.0, width], N // 2)[:, None]
        Z = 2 * (N // 2) ** 2 * (1 + 1 / (1 + width**2)) - N
        # it is larger by .1 where they meet
        assert by_problem(problem, x)[0] == pytest.approx(Z, rel=1e-3)


def test_reported_divergences_are_accurate():
    x = 8 * np.random.default_rng(0).normal(size=(N, 2))
    joint = ((P + P.T) / (2 * N)).toarray()
    w = 1 / (1 + pairwise_distances(x, metric="sqeuclidean"))
    some = joint > 0
    expected = np.sum(joint[some] * np.log(joint[some] / w[some])) + np.log(
        by_pairs(x)[0]
    )
    for dtype in (np.float32, np.float64):
        problem = SNEProblem(P, 2, kernel="student-t", dtype=dtype)
        flat = x.ravel().astype(dtype)
        assert problem.divergence(flat) == pytest.approx(expected, abs=5e-4)
        assert problem.divergence_of(problem.objective(flat)) == pytest.approx(
            expected, abs=5e-3
        )


def test_wide_maps_of_few_points_are_summed_pair_by_pair():
    # forces of the mesh are wrong by a fifth there, and maps of permuted rows differed
    x = np.random.default_rng(0).random((N, 2)) * 160
    forces = by_pairs(x)[1]
    found = by_problem(SNEProblem(P, 2, kernel="student-t"), x)[1]
    assert np.linalg.norm(found - forces) < 1e-3 * np.linalg.norm(forces)


def test_unusual_maps():
    problem = SNEProblem(P, 2, kernel="student-t")
    total, forces = by_problem(problem, np.ones((N, 2)))
    assert total == pytest.approx(N * (N - 1), rel=1e-3) and np.abs(forces).max() < 3e-3
    x = np.random.default_rng(0).normal(size=(N, 2))
    x[0] = 1e6, 0  # the coarsest mesh there is, not one of 1e6 / .5 cells
    assert np.isfinite(by_problem(problem, x)[1]).all()
    x[0] = np.nan
    with np.errstate(all="raise"):
        total, forces = by_problem(problem, x)
    assert np.isnan(total) and np.isnan(forces).all()


@pytest.mark.parametrize("d", [1, 2])
def test_points_do_not_act_on_themselves(d):
    """Wide maps, in which few other points act on each point."""
    x = 25 * np.random.default_rng(0).normal(size=(N, d))
    Z, forces = by_pairs(x)
    # the meshes of these have spacings of .5 and .25
    for dtype, of_sum, of_forces in (
        (np.float32, 2e-4, 0.06),
        (np.float64, 2e-5, 4e-3),
    ):
        problem = SNEProblem(P, d, kernel="student-t", dtype=dtype)
        total, found = by_problem(problem, x)
        assert total == pytest.approx(Z, rel=of_sum)
        assert np.linalg.norm(found - forces) < of_forces * np.linalg.norm(forces)


def test_forces_are_the_derivative_of_the_sum():
    """Exactly, or maps would have the period of the mesh."""
    x = 5 * np.random.default_rng(0).normal(size=(N, 2))
    problem = SNEProblem(P, 2, kernel="student-t", dtype=np.float64)
    Z, forces = by_problem(problem, x)
    inside = np.argsort(np.abs(x).max(axis=1))[:6]  # they do not move the mesh
    for i, axis in itertools.product(inside, range(2)):
        ends = []
        for h in (1e-4, -1e-4):
            moved = x.copy()
            moved[i, axis] += h
            ends.append(by_problem(problem, moved)[0])
        slope = (ends[0] - ends[1]) / 2e-4 / Z
        assert forces[i, axis] == pytest.approx(slope, rel=0, abs=1e-9)


@pytest.mark.slow
def test_maps_have_no_lattice():
    """No period of the density between .2 and 1, among them the spacing of the mesh."""
    rng, frequency = np.random.default_rng(0), np.linspace(1, 5, 161)
    x = SNEEmbedding(random_state=0).fit_transform(rng.normal(size=(2000, 10)))
    waves = np.exp(2j * np.pi * frequency[:, None, None] * x).mean(axis=1)
    # by chance, one of the 322 amplitudes is larger in one of 10^5 maps
    assert np.abs(waves).max() < 0.1
