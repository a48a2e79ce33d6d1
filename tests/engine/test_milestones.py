"""Where a run has been, by which it is seen that an objective falls for ever."""

import numpy as np
import pytest

from sk_stormc import SCGD, minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem


@pytest.mark.parametrize("n_iter, at", [(3, (1, 2)), (8, (4, 8)), (15, (4, 8)), (16, (8, 16)), (40, (16, 32))])
def test_the_last_two_powers_of_two_are_kept(n_iter, at):
    problem = PortfolioProblem(make_gaussian_returns(60, 3, random_state=0))

    def run(max_iter):
        return minimize(problem, SCGD(learning_rate=0.01, tol=0, batch_size=4), max_iter=max_iter, random_state=0).state

    for kept, t in zip(run(n_iter).milestones, at, strict=True):
        np.testing.assert_array_equal(kept, run(t).state.x)


def test_the_start_is_the_first():
    problem = PortfolioProblem(make_gaussian_returns(60, 3, random_state=0))
    run = minimize(problem, SCGD(learning_rate=0.01, tol=0, batch_size=4), max_iter=1, random_state=0).state
    np.testing.assert_array_equal(run.milestones, [run.start, run.state.x])
