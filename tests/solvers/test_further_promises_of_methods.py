"""Promises of methods that no other test held: exact averages, ends of L-BFGS, the rank of a sketch."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import LBFGS, SCGD, SketchySTORM, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import Oracle
from sk_stormc.metrics import LowRank
from sk_stormc.problems import FiniteSumComposition, PortfolioProblem
from sk_stormc.solvers.sketchy import cauchy_point


def plain(value, slope, d, n=40, **more):
    """A function of x with its gradient, as a composition with g(x) = x."""
    return FiniteSumComposition(
        lambda x, j: x, lambda x, j: np.eye(d), lambda x, u, i: slope(u), lambda x, u: value(u), n, n, **more
    )


def test_exact_values_are_not_averaged_where_steps_are_in_a_matrix():
    R = make_gaussian_returns(200, 3, mean=0.2, random_state=0)
    problem = PortfolioProblem(R)
    problem.metric = np.linalg.inv(np.cov(R.T))
    oracle, solver = Oracle(problem, 0), SCGD(batch_size=None, learning_rate=0.1)
    s = solver.init_state(oracle, np.zeros(3))
    for s.t in range(3):
        x = s.x
        solver.step(oracle, s)
        np.testing.assert_allclose(s.u, problem.inner(x, problem.inner_batch(None)), rtol=1e-12)


def test_lbfgs_ends_as_not_finite_where_a_gradient_is_not():
    problem = plain(lambda u: float(-u.sum()), lambda u: np.where(u > 0.5, np.nan, -1.0), 2, x0=np.zeros(2))
    with pytest.warns(ConvergenceWarning, match="not finite"):
        assert minimize(problem, LBFGS()).stop_reason == "non_finite"


def test_lbfgs_asks_for_nothing_more_once_it_sees_no_end():
    problem = plain(lambda u: float(-(u**4).sum()), lambda u: -4 * u**3, 2, x0=np.array([0.1, 0.2]))
    with pytest.warns(ConvergenceWarning, match="unbounded below"):
        result = minimize(problem, LBFGS())
    assert result.stop_reason == "max_ifo" and result.ifo[-1] == 3 * 40 * result.state.state.n_calls


def test_a_sketch_has_no_directions_without_curvature():
    scale = np.array([4.0, 1.0, 0, 0, 0, 0, 0, 0])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    H = turn * scale @ turn.T
    problem = plain(lambda u: float(u @ H @ u) / 2, lambda u: H @ u, 8, x0=np.ones(8))
    oracle = Oracle(problem, 0)
    metric = SketchySTORM(rank=6).init_state(oracle, np.ones(8)).metric
    assert isinstance(metric, LowRank) and metric.W.shape[1] == 2


@pytest.mark.parametrize("root", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("x", [0.0, 7.0])
def test_a_first_difference_moves_x_by_more_than_its_rounding_in_any_metric(root, x):
    x = np.array([x, 0.0])
    found, h = cauchy_point(lambda y: np.array([3.0, 4.0]), x, np.full(2, root))
    assert found is x and h * root == pytest.approx(np.sqrt(np.finfo(float).eps) * (1 + x[0]))
