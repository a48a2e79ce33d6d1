"""Sums of the kernel on two meshes: against all pairs, and the coarser one's splines against the finer one's."""

import numpy as np
import pytest
from scipy.interpolate import BSpline

from sk_stormc.embedding.convolution import COARSER, EMPTY, _subdivision
from sk_stormc.embedding.mesh import Mesh, _length


def by_pairs(x, dof):
    difference = x[:, None] - x
    s = 1 + np.square(difference).sum(axis=2) / dof
    return (s**-dof).sum() - len(x), ((s ** -(dof + 1))[:, :, None] * difference).sum(axis=1)


@pytest.mark.parametrize("dof", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("sides", [(60.0, 40.0), (150.0,), (90.0, 0.5), (3.0, 2.0), (1e-3, 1e-3)], ids=str)
def test_sums_are_those_over_all_pairs(sides, dof):
    x = np.random.default_rng(0).random((400, len(sides))) * sides
    total, forces = by_pairs(x, dof)
    for spacing, of_total, of_forces in ((0.5, 1.5e-2, 0.1), (0.25, 1e-3, 0.01)):
        mesh = Mesh(spacing, dof)
        z, f = mesh(x)
        assert z == mesh.total(x) == pytest.approx(total, rel=of_total)
        assert np.linalg.norm(f - forces) < of_forces * np.linalg.norm(forces)


def test_ends_of_a_map_do_not_meet_around_the_mesh():
    gap = (_length(64 + 4 + EMPTY) - EMPTY - 4) * 0.5  # the widest map on that mesh
    x = np.array([[0.0], [gap]])
    total, forces = by_pairs(x, 1.0)
    z, f = Mesh(0.5)(x)
    assert z == pytest.approx(total, abs=2e-3)  # it would be larger by about .1 where they meet
    np.testing.assert_allclose(f, forces, atol=5e-3)


def test_splines_of_the_coarser_mesh_are_sums_of_the_finer_ones():
    U, spline = _subdivision(60, 50, float).toarray(), BSpline.basis_element(np.arange(-2, 3), extrapolate=False)
    places = np.arange(2, 46, 0.3)
    fine, coarse = (
        np.nan_to_num(spline((places[:, None] - middles) / width))
        for middles, width in ((np.arange(60), 1), (COARSER * np.arange(-1, U.shape[1] - 1), COARSER))
    )
    np.testing.assert_allclose(fine @ U, coarse, atol=1e-12)
    np.testing.assert_allclose(coarse.sum(axis=1), 1, atol=1e-12)  # none is missing
    assert not U[50:].any()
