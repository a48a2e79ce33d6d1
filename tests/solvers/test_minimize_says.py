"""What `minimize` answers to somebody who writes the call of scipy's function of that name."""

import numpy as np
import pytest

from sk_stormc import minimize
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import INSTEAD

PROBLEM = PortfolioProblem(make_gaussian_returns(30, 3, random_state=0))


def test_a_function_is_no_problem():
    def sphere(x):
        return x @ x

    with pytest.raises(TypeError, match="got the function 'sphere'.*FiniteSumComposition"):
        minimize(sphere, "storm-c")


def test_a_class_is_no_function():
    """It can be called too, but what is missing are its arguments."""
    with pytest.raises(ValueError, match="must be a CompositionalProblem, such as"):
        minimize(PortfolioProblem, "storm-c")


@pytest.mark.parametrize("start", [np.zeros(3), [0.0, 0.0, 0.0], (0.0, 0.0, 0.0), None])
def test_a_start_is_no_solver(start):
    with pytest.raises(TypeError, match="a start is given as x0="):
        minimize(PROBLEM, start)


@pytest.mark.parametrize("name", INSTEAD)
def test_arguments_of_scipy_are_named_with_what_there_is_in_their_place(name):
    with pytest.raises(TypeError, match=f"minimize has no {name}=: give "):
        minimize(PROBLEM, **{name: None})
