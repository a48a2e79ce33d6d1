"""Budgets that a problem advises, what they leave, and learning rates from the curvature where a run begins."""

import numpy as np
import pytest
from helpers import composition, regression

from sk_stormc import SCGD, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import ALL, Oracle
from sk_stormc.engine.tools import curvature
from sk_stormc.metrics import Identity
from sk_stormc.problems import Advice, PortfolioProblem, StreamingProblem


class Short(PortfolioProblem):
    advice = Advice(max_iter=7)


@pytest.mark.parametrize(("budget", "n_iter"), [({}, 7), ({"max_iter": 9}, 9), ({"max_ifo": 48 * 20}, 20)])
def test_a_problem_advises_iterations_where_the_user_gives_no_budget(budget, n_iter):
    problem = Short(make_gaussian_returns(2000, 4, random_state=0))
    steps = {"learning_rate": 0.01, "batch_size": (16, 16, 16), "tol": 0}
    assert minimize(problem, "scgd", random_state=0, **(steps | budget)).n_iter == n_iter


def test_a_record_knows_about_how_many_more_the_budgets_leave():
    problem, left = PortfolioProblem(make_gaussian_returns(2000, 4, random_state=0)), []

    def note(record):
        left.append(record.n_left())

    steps = {"learning_rate": 0.001, "batch_size": (16, 16, 16), "tol": 0, "record_every": 480, "on_record": note}
    for budget in ({"max_ifo": 4800}, {"max_iter": 100}, {"max_iter": 100, "max_ifo": 10**6}):
        left.clear()
        minimize(problem, "scgd", random_state=0, **(steps | budget))
        assert left[0] == np.inf and left[1:] == list(range(9, -1, -1))  # at the start no cost is known


def test_budgets_of_small_integers_of_numpy_do_not_overflow():
    problem, left = PortfolioProblem(make_gaussian_returns(2000, 4, random_state=0)), []

    def stop(record):
        left.append(record.n_left())
        return record.iteration

    budget = {"max_iter": np.int16(30_000), "batch_size": np.int16(16), "tol": np.float32(0), "record_every": 480}
    minimize(problem, "scgd", random_state=0, learning_rate=0.001, on_record=stop, **budget)
    plain, left[:] = left[1], []
    budget = {name: value.item() if hasattr(value, "item") else value for name, value in budget.items()}
    minimize(problem, "scgd", random_state=0, learning_rate=0.001, on_record=stop, **budget)
    assert plain == left[1] > 1000


def test_a_stream_without_rows_for_the_first_batches_is_exhausted_where_it_began():
    R = make_gaussian_returns(2000, 4, random_state=0)
    for n in (1, 20, 100):
        found = minimize(StreamingProblem([R[:n]], PortfolioProblem), "scgd", random_state=0, batch_size=16)
        assert found.stop_reason == "exhausted" and found.n_iter == 0
        np.testing.assert_array_equal(found.x, np.zeros(4))


@pytest.mark.parametrize(("L", "rate"), [(1e-3, 500.0), (0.5, 1.0), (4.0, 0.125), (0.0, 1.0)])
def test_a_learning_rate_is_the_inverse_of_the_curvature_unless_there_is_none(L, rate):
    problem = PortfolioProblem(make_gaussian_returns(60, 3, random_state=0))
    assert SCGD().step_rule(Oracle(problem, 0), np.zeros(3), ALL, 0.5, L=L).learning_rate == rate


def test_a_problem_is_asked_for_its_smoothness_in_the_metric_of_the_first_step():
    class Dated(Identity):
        stays, t = False, None

        def at(self, x, t):
            metric = Dated()
            metric.t = t
            return metric

    asked = []
    problem = PortfolioProblem(make_gaussian_returns(60, 3, random_state=0))
    problem.advice = Advice(smoothness=lambda problem, size, metric: asked.append(metric.t) or 1e6)
    oracle = Oracle(problem, 0)
    oracle.metric = Dated()
    assert SCGD().step_rule(oracle, np.zeros(3), ALL, 0.5).learning_rate == 0.5e-6
    assert asked == [0]


@pytest.mark.parametrize("x", [np.zeros(3), np.array([1e-9, 0, 0]), np.full(3, 0.5)])
def test_curvature_is_that_near_x_where_it_varies(x):
    """At zero too, where the size of x says nothing of how far it varies."""
    problem, h = composition(*regression(200)), 1e-5
    H = np.array([(problem.gradient(x + h * e) - problem.gradient(x - h * e)) / (2 * h) for e in np.eye(3)])
    top = np.abs(np.linalg.eigvalsh((H + H.T) / 2)).max()
    assert curvature(Oracle(problem, 0), x, ALL) == pytest.approx(top, rel=0.25)  # six power iterations fall short
