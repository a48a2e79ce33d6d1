"""Parameters of solvers: descriptions and checks, which a method inherits."""

from functools import partial

import pytest

from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import ALL, CompositionalSolver, MethodState, advance, start
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


class Descent(Plain):
    """A method with a slip in ``slip``."""

    def __init__(self, slip="", max_iter=5, max_ifo=10_000):
        self.slip, self.max_iter, self.max_ifo = slip, max_iter, max_ifo

    def init_state(self, oracle, x):
        return MethodState(x, rule=self.step_rule(oracle, x, ALL, factor=0.7))

    def cost(self, oracle, s):
        return super().cost(oracle, s) if self.slip == "cost" else oracle.cost(ALL)

    def step(self, oracle, s):
        now = start(oracle, s.x, ALL)
        if self.slip == "momentum":
            advance(oracle, now, s.x, 0.1, ALL)
        s.x = self.move(oracle, s, now.F)
        s.t += self.slip == "t"
        return s if self.slip == "return" else None


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        ("return", "Descent.step must assign to the fields of s and return None, got "),
        ("t", "Descent.step must not change s.t"),
        (
            "cost",
            r"Descent must define cost\(oracle, s\), or its state must have batch",
        ),
        ("momentum", "momentum must be three numbers, for u, J and F, got 0.1"),
    ],
)
def test_slips_of_authors_are_named(slip, words):
    assert minimize(PROBLEM, Descent()).n_iter == 5
    with pytest.raises((TypeError, ValueError), match=words):
        minimize(PROBLEM, Descent(slip))


def test_the_default_says_where_the_parameters_of_algorithm_1_are():
    with pytest.raises(
        ValueError,
        match=r"AutomaticSTORM sets momentum "
        r"itself.*STORMCompositional\(momentum=0.1\)",
    ):
        get_solver("storm-c").set_params(momentum=0.1, batch_size=8)
    with pytest.raises(ValueError, match="Invalid parameter 'beta'"):
        get_solver("storm-c").set_params(beta=0.1)
