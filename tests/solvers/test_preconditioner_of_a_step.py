"""A method with its own preconditioner of steps: Adam's, which changes at every iteration."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sk_stormc.checks import check_solver
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import CompositionalSolver, MethodState, guard
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.preconditioners import Diagonal, Matrix
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import minimize


@dataclass
class AdamState(MethodState):
    """Averages of u, of F and of its square."""

    u: np.ndarray = None
    mean: np.ndarray = None
    square: np.ndarray = None
    batch_size: tuple = None


class AdamSCGD(CompositionalSolver):
    """SCGD with Adam's step."""

    a, b, beta = 0.1, 0.01, 0.5  # weights of the new F, of its square and of the new g

    def __init__(
        self,
        learning_rate=0.01,
        batch_size="auto",
        max_iter=None,
        max_ifo=None,
        tol=1e-4,
    ):
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def init_state(self, oracle, x):
        size = self.sizes("batch_size", oracle, rule=16)
        rule, zero = self.step_rule(oracle, x, size, 0.1), np.zeros_like(x)
        return AdamState(x, rule=rule, mean=zero, square=zero, batch_size=size)

    def step(self, oracle, s):
        B_g, B_dg, B_f = s.batch_size
        batch = oracle.draw("inner", B_g)
        value = oracle.inner(s.x, batch)
        s.u = guard(
            oracle,
            value if s.u is None else (1 - self.beta) * s.u + self.beta * value,
            None,
        )
        J = oracle.jacobian(s.x, oracle.draw_jacobian(B_dg, batch))
        F = oracle.gradient(s.x, s.u, J, oracle.draw("outer", B_f))
        s.mean = (1 - self.a) * s.mean + self.a * F
        s.square = (1 - self.b) * s.square + self.b * F**2
        s.x = self.go(
            oracle,
            s,
            s.mean / (1 - (1 - self.a) ** (s.t + 1)),
            s.square / (1 - (1 - self.b) ** (s.t + 1)),
        )

    def go(self, oracle, s, mean, square):
        return self.move(
            oracle,
            s,
            mean,
            preconditioner=Diagonal(1 / (np.sqrt(square) + np.finfo(mean.dtype).eps)),
        )


R = make_gaussian_returns(200, 6, mean=0.3, random_state=0) * np.array(
    [1.0, 2.0, 0.5, 3.0, 1.5, 0.3]
)
PENALTIES = {"simplex": Simplex(), "box": Box(0.0, 0.1)}


def off(method, penalty):
    """The largest error of a coordinate after 6000 short steps."""
    problem = PortfolioProblem(R, penalty=penalty)
    best = minimize(problem, tol=1e-10, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = minimize(
            problem,
            method(learning_rate=1e-3),
            np.full(6, 1 / 6),
            max_iter=6000,
            tol=0,
            random_state=0,
        )
    return abs(found.x - best.x).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simplex", "box"])
def test_the_proximal_step_is_in_the_norm_of_the_step(name):
    assert off(AdamSCGD, PENALTIES[name]) < 1e-4


@pytest.mark.parametrize("penalty", [None, L1(0.05)], ids=["none", "l1"])
def test_the_method_keeps_the_contract(penalty):
    returns = make_gaussian_returns(2000, 5, mean=0.3, random_state=0)
    check_solver(AdamSCGD(), PortfolioProblem(returns, penalty=penalty))


def test_a_metric_without_a_proximal_step_is_refused():
    class Full(AdamSCGD):
        def go(self, oracle, s, mean, square):
            return self.move(oracle, s, mean, preconditioner=Matrix(np.eye(6)))

    assert minimize(PortfolioProblem(R), Full(), max_iter=2, random_state=0).n_iter == 2
    with pytest.raises(ValueError, match="a penalty needs a diagonal preconditioner"):
        minimize(
            PortfolioProblem(R, penalty=Simplex()), Full(), max_iter=2, random_state=0
        )
