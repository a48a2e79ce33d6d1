"""Promises of single methods that no other test held."""

import numpy as np
import pytest

from sk_stormc import SCGD
from sk_stormc.solvers.sketchy import cauchy_point


@pytest.mark.parametrize("exponents", [(0.5, -0.5), (-0.5, 0.5), (1, 0), (0, 1), (-0.5,), -0.5])
def test_exponents_are_two_and_not_above_0(exponents):
    with pytest.raises(ValueError, match="exponents must be two numbers <= 0"):
        SCGD(exponents=exponents).validate()


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_cauchy_point_is_the_same_in_all_units_of_the_objective(unit):
    x, root = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.5, 2.0])
    curvature = unit * (1 - np.tanh(x) ** 2)
    F = unit * np.tanh(x)
    v = -(root**2) * F
    expected = x + (F @ (root**2 * F)) / (v @ (curvature * v)) * v  # by the curvature at x, however it varies
    found, h = cauchy_point(lambda y: unit * np.tanh(y), x, root)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert 0 < h < 1e-3
