"""Parameters of solvers: descriptions and checks, which a method inherits."""

from functools import partial

import numpy as np
import pytest

from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import ALL, CompositionalSolver, MethodState, advance, start
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import get_solver, minimize
from sk_stormc.utils.parameters import check_int

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
        rule = self.step_rule(oracle, x, 16 if self.slip == "rule" else ALL, factor=0.7)
        if self.slip == "state":
            return MethodState(x, 0, rule)
        return x if self.slip == "no state" else MethodState(x, rule=rule)

    def cost(self, oracle, s):
        return super().cost(oracle, s) if self.slip == "cost" else oracle.cost(ALL)

    def step(self, oracle, s):
        now = start(oracle, s.x, 16 if self.slip == "sizes" else ALL)
        if self.slip == "momentum":
            advance(oracle, now, s.x, 0.1, ALL)
        x = self.move(oracle, s, now.F)
        if self.slip != "x":
            s.x = x[:1] if self.slip == "short" else x
        if self.slip == "in place":
            s.x = now.x
            s.x += 1.0
        s.t += self.slip == "t"
        return s if self.slip == "return" else None


SLIPS = {
    "return": "Descent.step must assign to the fields of s and return None, got ",
    "t": "Descent.step must not change s.t",
    "x": "Descent.step must assign a new array to s.x, the next point",
    "in place": "Descent.step must assign a new array to s.x, the next point",
    "short": r"Descent.step must assign to s.x of shape \(\d,\), got shape \(1,\)",
    "cost": r"Descent must define cost\(oracle, s\), or its state must have batch",
    "momentum": "momentum must be three numbers, for u, J and F, got 0.1",
    "sizes": r"sizes of a step must be three, \(B_g, B_dg, B_f\), .* got 16",
    "rule": r"sizes of a step must be three, \(B_g, B_dg, B_f\), .* got 16",
    "state": r"takes 2 positional arguments but 4 were given",
    "no state": "init_state must return a MethodState, got ndarray",
}


@pytest.mark.parametrize("slip", SLIPS)
def test_slips_of_authors_are_named(slip):
    assert minimize(PROBLEM, Descent()).n_iter == 5
    with pytest.raises((TypeError, ValueError), match=SLIPS[slip]):
        minimize(PROBLEM, Descent(slip))


def test_checks_have_names_of_parameters():
    class Shallow(Plain):
        checks = {"dept": partial(check_int, low=10)}

    with pytest.raises(ValueError, match=r"Shallow.checks must have .*got 'dept', exp"):
        minimize(PROBLEM, Shallow())


@pytest.mark.parametrize("name", ["storm-c", "scgd", "lbfgs"])
def test_parameters_of_solvers_are_named(name):
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        type(get_solver(name))(0.1)


SHAPES = {
    "a scalar u": ({"inner": lambda *_: 1.0}, r"inner must return a vector .*\(\)"),
    "u in a column": (
        {"inner": lambda self, x, batch: np.ones((1, 1))},
        r"Mine.inner must return a vector of shape \(l,\), got shape \(1, 1\)",
    ),
    "J transposed": (
        {"jacobian": lambda self, x, batch: np.ones((len(x), 1))},
        r"Mine.jacobian must return an array of shape \(1, \d\), got shape",
    ),
    "no None": (
        {"outer_gradient": lambda self, x, u, batch: np.ones(1)},
        r"Mine.outer_gradient must return the tuple \(f_x, f_u\), with None for f_x",
    ),
    "a long f_u": (
        {"outer_gradient": lambda self, x, u, batch: (None, np.ones(7))},
        r"f_u of Mine.outer_gradient must be of shape \(1,\), got shape \(7,\)",
    ),
    "a short f_x": (
        {"outer_gradient": lambda self, x, u, batch: (np.ones(1), np.ones(1))},
        r"f_x of Mine.outer_gradient must be of shape \(\d,\), got shape \(1,\)",
    ),
}


@pytest.mark.parametrize("solver", ["storm-c", "lbfgs"])
@pytest.mark.parametrize("case", SHAPES)
def test_functions_of_other_shapes_are_named(case, solver):
    members, words = SHAPES[case]
    problem = type("Mine", (PortfolioProblem,), members)(PROBLEM.returns)
    with pytest.raises(ValueError, match=words):
        minimize(problem, solver, random_state=0, max_iter=2)


def test_the_default_says_where_the_parameters_of_algorithm_1_are():
    with pytest.raises(
        ValueError,
        match=r"AutomaticSTORM sets momentum "
        r"itself.*STORMCompositional\(momentum=0.1\)",
    ):
        get_solver("storm-c").set_params(momentum=0.1, batch_size=8)
    with pytest.raises(ValueError, match="Invalid parameter 'beta'"):
        get_solver("storm-c").set_params(beta=0.1)
