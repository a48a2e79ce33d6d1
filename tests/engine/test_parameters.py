"""Parameters of solvers: descriptions and checks, which a method inherits."""

from functools import partial

import pytest

from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import CompositionalSolver
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import get_solver, minimize
from sk_stormc.utils.validation import check_int

PROBLEM = PortfolioProblem(make_gaussian_returns(50, 3, random_state=0))


class Plain(CompositionalSolver):
    """A method with a check of its own."""

    checks = {"depth": partial(check_int, low=2)}

    def __init__(self, depth=3, max_iter=None, tol=1e-4):
        self.depth = depth
        self.max_iter = max_iter
        self.tol = tol

    def init_state(self, oracle, x):
        return get_solver("scgd").init_state(oracle, x)


def test_checks_are_inherited_and_may_be_changed():
    class Deeper(Plain):
        checks = {"depth": partial(check_int, low=10)}

    Plain().validate()
    for solver, words in (
        (Plain(depth=1), "depth must be an integer >= 2, got 1"),
        (Plain(tol=-1), "tol must be"),
        (Deeper(), "depth must be an integer >= 10, got 3"),
        (Deeper(10, max_iter=0), "max_iter must be"),
    ):
        with pytest.raises(ValueError, match=words):
            minimize(PROBLEM, solver)


def test_a_method_without_a_step():
    with pytest.raises(TypeError, match="Plain must define step"):
        minimize(PROBLEM, Plain(max_iter=2))


def test_the_default_says_where_the_parameters_of_algorithm_1_are():
    with pytest.raises(
        ValueError,
        match=r"AutomaticSTORM sets momentum "
        r"itself.*STORMCompositional\(momentum=0.1\)",
    ):
        get_solver("storm-c").set_params(momentum=0.1, batch_size=8)
    with pytest.raises(ValueError, match="Invalid parameter 'beta'"):
        get_solver("storm-c").set_params(beta=0.1)
