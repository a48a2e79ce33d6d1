"""The variables that scipy's L-BFGS-B sees: x in the metric's scale, in two parts where there is an l1 norm."""

from types import SimpleNamespace

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.penalties import L1, Box
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers.lbfgs import _ScipyRun, _Variables

RETURNS = make_gaussian_returns(300, 4, mean=0.3, random_state=0)
D = np.array([0.5, 2.0, 3.0, 0.25])
PENALTIES = [
    None, L1(0.1), Box(-0.05, 0.1), Box(-0.1, 0.2, alpha=0.1), Box(0.01, 0.3, alpha=0.1), Box(-0.3, -0.01, alpha=0.1)
]  # fmt: skip


@pytest.fixture(params=PENALTIES, ids=str)
def problem(request):
    return PortfolioProblem(RETURNS, penalty=request.param, metric=D)


@pytest.fixture
def variables(problem):
    return _Variables(problem, np.sqrt(D))


def test_a_metric_does_not_move_the_minimum(problem):
    plain = minimize(PortfolioProblem(RETURNS, penalty=problem.penalty), "storm-c", tol=1e-10)
    found = minimize(problem, "lbfgs", tol=1e-10)
    assert found.success
    np.testing.assert_allclose(found.x, plain.x, atol=1e-6)


def test_the_way_to_them_and_back(problem, variables):
    for x in np.random.default_rng(0).normal(size=(5, 4)):
        x = x if problem.penalty is None else problem.penalty.project(x)
        z = variables.to_z(x)
        np.testing.assert_allclose(variables.to_x(z), x, rtol=1e-12)
        assert variables.excess(z, x) == pytest.approx(0, abs=1e-14)
        if variables.bounds is not None:
            assert (z >= variables.bounds.lb - 1e-12).all() and (z <= variables.bounds.ub + 1e-12).all()


def test_within_their_bounds_are_the_points_of_the_box(problem, variables):
    penalty = problem.penalty
    if penalty is None:
        assert variables.bounds is None
        return
    low, high = (np.broadcast_to(getattr(penalty, name, end), 4) for name, end in (("low", -np.inf), ("high", np.inf)))
    lb, ub = variables.bounds.lb, variables.bounds.ub
    if variables.alpha:  # the parts are not negative; x is their difference
        assert (lb >= 0).all()
        lb, ub = lb[:4] - ub[4:], ub[:4] - lb[4:]
    np.testing.assert_allclose(np.sqrt(D) * lb, low)
    np.testing.assert_allclose(np.sqrt(D) * ub, high)


def test_their_gradient_is_that_of_what_scipy_is_given(problem, variables):
    x = np.array([0.02, 0.03, 0.05, 0.04]) * (-1 if getattr(problem.penalty, "high", 1) == -0.01 else 1)
    z, plain = variables.to_z(x), PortfolioProblem(RETURNS)

    def value(z):
        if not variables.alpha:
            return plain.objective(np.sqrt(D) * z)
        return plain.objective(np.sqrt(D) * (z[:4] - z[4:])) + variables.alpha * np.sqrt(D) @ (z[:4] + z[4:])

    slope = variables.gradient(plain.gradient(x))
    moved = 1e-6 * np.eye(z.size)
    np.testing.assert_allclose(slope, [(value(z + h) - value(z - h)) / 2e-6 for h in moved], rtol=1e-5, atol=1e-8)


def test_what_a_bound_stops_has_no_length():
    variables = _Variables(PortfolioProblem(RETURNS, penalty=Box(-0.05, 0.1), metric=D), np.sqrt(D))
    low, high = variables.bounds.lb, variables.bounds.ub
    z = np.array([low[0], low[1], high[2], high[3]])
    assert variables.projected_length(z, np.array([3.0, 0.0, 0.0, -4.0])) == 0
    assert variables.projected_length(z, np.array([-3.0, 0.0, 4.0, 0.0])) == 5
    assert variables.projected_length((low + high) / 2, np.array([3.0, 0.0, 0.0, -4.0])) == 5


def test_two_parts_of_one_coordinate_cost_twice_the_smaller():
    variables = _Variables(PortfolioProblem(RETURNS, penalty=L1(0.1), metric=D), np.sqrt(D))
    z = variables.to_z(np.array([1.0, -2.0, 0.0, 3.0]))
    z[[0, 4]] += 0.5
    assert variables.excess(z, variables.to_x(z)) == pytest.approx(2 * 0.1 * np.sqrt(D[0]) * 0.5)


def test_far_is_far_from_the_start():
    run = SimpleNamespace(z_start=np.full(2, 1e6), first_step=1.0, first_length=1.0, length=100.0)
    assert not _ScipyRun._endless(run, run.z_start + 1)
    assert _ScipyRun._endless(run, run.z_start + 2e4) and _ScipyRun._endless(run, run.z_start - 2e4)
    run.length = 20.0  # not steeper
    assert not _ScipyRun._endless(run, run.z_start + 2e4)
