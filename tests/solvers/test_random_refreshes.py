"""PAGE for compositions, a method with full gradients at random iterations (docs/write_a_solver.md)."""

from dataclasses import dataclass

from sk_stormc.checks import check_solver
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import CompositionalSolver, Estimate, MethodState, advance, start
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import minimize


@dataclass
class PageState(MethodState):
    """u, J and F at x, and whether the next step uses all data."""

    now: Estimate = None
    batch_size: tuple = None
    refresh: bool = False


class PAGE(CompositionalSolver):
    """Differences as in SARAH, and all data with probability p."""

    p = 0.05

    def __init__(self, learning_rate="auto", batch_size="auto", max_iter=None, max_ifo=None, tol=1e-4):
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_ifo = max_ifo
        self.tol = tol

    def init_state(self, oracle, x):
        size = self.sizes("batch_size", oracle, rule=16)
        rule = self.step_rule(oracle, x, size, 0.5)
        return PageState(x, rule=rule, now=start(oracle, x, oracle.all_like(size)), batch_size=size)

    def size(self, oracle, s):
        return oracle.all_like(s.batch_size) if s.refresh else s.batch_size

    def cost(self, oracle, s):
        return oracle.cost(self.size(oracle, s))

    def step(self, oracle, s):
        x = self.move(oracle, s, s.now.F)
        s.now = advance(oracle, s.now, x, (0, 0, 0), self.size(oracle, s))
        s.x, s.refresh = x, oracle.rng.random() < self.p


PROBLEM = PortfolioProblem(make_gaussian_returns(2000, 5, mean=0.3, random_state=0))


def test_contract():
    check_solver(PAGE())


def test_a_resumed_run_refreshes_as_the_whole_one():
    whole = minimize(PROBLEM, PAGE(), random_state=0, max_iter=200, tol=0)
    part = minimize(PROBLEM, PAGE(), random_state=0, max_iter=77, tol=0)
    resumed = minimize(PROBLEM, PAGE(), state=part.state, max_iter=200, tol=0)
    assert (resumed.x == whole.x).all() and resumed.ifo[-1] == whole.ifo[-1]
    full = 2 * PROBLEM.n_inner  # J is taken once
    refreshes = (whole.ifo[-1] - 200 * 2 * 16) / (full - 32)
    assert 2 < refreshes < 20
