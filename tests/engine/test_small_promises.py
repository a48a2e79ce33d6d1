"""Promises that no other test held: the average of estimates, which budget a warning names, errors of a start."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc import SCGD, CompositionalPortfolio, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import MethodState
from sk_stormc.engine.stopping import Stopping, StoppingRule
from sk_stormc.problems import PortfolioProblem

RETURNS = make_gaussian_returns(2000, 5, mean=0.3, random_state=0)


def test_estimates_are_averaged_over_a_pass():
    problem = PortfolioProblem(RETURNS)
    run = SimpleNamespace(stopping=Stopping(), start=np.zeros(5))
    oracle = SimpleNamespace(problem=problem, ifo=0, exact=[], metric=None)
    rule = StoppingRule(SCGD(), oracle, run, SimpleNamespace(max_ifo=np.inf))
    a_pass = 3 * len(RETURNS)
    lengths = [5.0, 1.0, 3.0, 7.0, 9.0]
    for t, length in enumerate(lengths):
        rule.watch(MethodState(np.zeros(5), t=t, residual=length))
        oracle.ifo += a_pass // (len(lengths) - 1)
    assert run.stopping.value == run.stopping.began == np.mean(lengths)
    assert run.stopping.measured == len(lengths) - 1 and not run.stopping.exact
    for t in range(5, 10):
        rule.watch(MethodState(np.zeros(5), t=t, residual=2.0))
        oracle.ifo += a_pass // (len(lengths) - 1)
    assert run.stopping.value == 2.0 and run.stopping.began == np.mean(lengths)
    assert rule.residual() == 2.0 / np.mean(lengths)


@pytest.mark.parametrize(
    ("budget", "advice"), [({"max_iter": 5}, "Raise max_iter or tol"), ({}, "Raise max_iter or max_ifo or tol")]
)
def test_a_warning_names_the_budget_that_was_set(budget, advice):
    R = make_gaussian_returns(400, 5, mean=0.3, condition_number=1e4, random_state=0)
    portfolio = CompositionalPortfolio(SCGD(learning_rate=1e-5, **budget), random_state=0)
    with pytest.warns(ConvergenceWarning, match=advice):
        portfolio.fit(R)


def test_parameters_may_be_numbers_of_numpy():
    problem = PortfolioProblem(RETURNS)
    plain = minimize(problem, SCGD(learning_rate=0.01, batch_size=16, max_iter=20, tol=0), random_state=0)
    numpy = SCGD(learning_rate=np.float64(0.01), batch_size=np.int64(16), max_iter=np.int32(20), tol=np.float32(0))
    found = minimize(problem, numpy, random_state=0)
    np.testing.assert_array_equal(found.x, plain.x)
    single = PortfolioProblem(RETURNS.astype(np.float32))
    assert minimize(single, numpy, random_state=0).x.dtype == np.float32  # a float64 scalar would change that


def test_an_end_of_data_in_a_finite_problem_is_an_error():
    class Short(PortfolioProblem):
        def inner_batch(self, draws, weights=None):
            raise EOFError("the file ends")

    with pytest.raises(EOFError, match="the file ends"):
        minimize(Short(RETURNS), SCGD(max_iter=3, batch_size=16, learning_rate=0.1), random_state=0)
