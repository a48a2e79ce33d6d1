"""Promises of single methods that no other test held."""

import numpy as np
import pytest

from sk_stormc import SCGD, STORMCompositional, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem
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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_of_the_iterates_may_be_drawn():
    problem, last = PortfolioProblem(make_gaussian_returns(60, 3, mean=0.3, random_state=0)), 0
    for seed in range(20):
        methods = [STORMCompositional(max_iter=4, tol=0, learning_rate=1e-3, output=o) for o in ("last", "random")]
        found = [minimize(problem, method, random_state=seed) for method in methods]
        last += np.array_equal(found[0].x, found[1].x)
    assert 1 <= last <= 10  # 5 in the mean
