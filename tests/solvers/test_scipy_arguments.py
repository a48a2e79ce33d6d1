"""`minimize` with the arguments of `scipy.optimize.minimize`: errors name the
replacement."""

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import REPLACEMENTS

PROBLEM = PortfolioProblem(make_gaussian_returns(30, 3, random_state=0))


def test_a_function_as_problem():
    def sphere(x):
        return x @ x

    with pytest.raises(
        TypeError, match="got the function 'sphere'.*FiniteSumComposition"
    ):
        minimize(sphere, "storm-c")


@pytest.mark.parametrize("start", [np.zeros(3), [0.0, 0.0, 0.0], (0.0, 0.0, 0.0), None])
def test_a_start_as_solver(start):
    with pytest.raises(TypeError, match="a start is given as x0="):
        minimize(PROBLEM, start)


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_arguments_of_scipy(name):
    with pytest.raises(TypeError, match=f"minimize has no {name}=: give "):
        minimize(PROBLEM, **{name: None})
