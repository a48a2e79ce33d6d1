"""The stopping rule: a run has converged if full gradients at the returned point and at
x_0 confirm it."""

import copy
import math
import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from helpers import composition, regression, slow_but

from sk_stormc import SCGD, STORMCompositional, minimize
from sk_stormc.core.preconditioners import as_preconditioner
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import (
    ALL,
    CompositionalSolver,
    MethodState,
    Oracle,
    StepRule,
    start,
)
from sk_stormc.engine.steps import step_direction
from sk_stormc.penalties import Box, Simplex
from sk_stormc.problems import PortfolioProblem, StreamingProblem
from sk_stormc.solvers import get_solver

RETURNS = make_gaussian_returns(2000, 10, mean=0.3, condition_number=20, random_state=0)
SMALL = make_gaussian_returns(1500, 4, mean=0.3, random_state=0)
PROBLEMS = {
    "variance": PortfolioProblem(RETURNS),
    "entropic": PortfolioProblem(RETURNS, 0.5, risk_measure="entropic"),
    "simplex": PortfolioProblem(RETURNS, penalty=Simplex()),
}
NAMES = [
    "storm-c",
    "storm-c-paper",
    "sketchy-storm",
    "sarah-c",
    "civr",
    "vrsc-pg",
    "scgd",
    "lbfgs",
]
METHODS = {name: get_solver(name) for name in NAMES} | {
    "momentum": STORMCompositional(momentum=0.001),
    "anchors": STORMCompositional(anchor=40),
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def exact_length(problem, solver, state, x):
    """|x~ - x| / eta at x by the gradient on all data, in the problem's preconditioner."""
    if solver == "lbfgs":
        return np.linalg.norm(problem.gradient(x))
    preconditioner = as_preconditioner(problem.preconditioner, problem.n_variables).at(
        x, state.t
    )
    eta = state.rule.learning_rate
    eta = eta(state.t) if callable(eta) else eta
    return step_direction(problem, preconditioner, x, problem.gradient(x), eta).length


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", slow_but(PROBLEMS, "entropic"))
def test_converged_runs_are_below_tol(kind, name):
    if kind == "simplex" and name == "lbfgs":
        return
    problem, converged = PROBLEMS[kind], 0
    for tol in (0.1, 0.01, 1e-3):
        result = minimize(
            problem, METHODS[name], random_state=0, tol=tol, max_ifo=50_000
        )
        if not result.success:
            continue
        converged += 1
        state = result.state.state
        found = exact_length(problem, name, state, result.x) / exact_length(
            problem, name, state, result.state.start
        )
        assert found <= 2 * tol
        assert result.residual <= tol
    assert converged or name in ("storm-c-paper", "scgd", "momentum")


# a method whose estimates are wrong


@dataclass
class PlainState(MethodState):
    batch_size: tuple = None


class PlainSGD(CompositionalSolver):
    """Stochastic gradients of small batches, with a residual that is far too small."""

    def __init__(
        self, learning_rate=1e-3, batch_size=8, max_iter=None, max_ifo=None, tol=1e-4
    ):
        self.learning_rate, self.batch_size = learning_rate, batch_size
        self.max_iter, self.max_ifo, self.tol = max_iter, max_ifo, tol

    def init_state(self, oracle, x):
        return PlainState(
            x,
            rule=StepRule(self.learning_rate),
            batch_size=self.sizes("batch_size", oracle, rule=8),
        )

    def step(self, oracle, s):
        s.x = self.move(oracle, s, start(oracle, s.x, s.batch_size).F)
        s.residual *= 1e-9 if s.t > 1000 else 1.0


def test_full_gradients_decide():
    problem = PortfolioProblem(SMALL)
    result = minimize(problem, PlainSGD(), random_state=0)
    assert result.stop_reason == "max_ifo" and result.residual > 1e-4
    easy = minimize(problem, PlainSGD(tol=0.5), random_state=0)
    found = (
        exact_length(problem, "", easy.state.state, easy.x) / easy.state.first_residual
    )
    assert easy.success == (found <= 0.5)


def test_the_next_full_gradient_after_twice_the_ifo(monkeypatch):
    problem, asked, ask = PortfolioProblem(SMALL), [], PlainSGD.length

    def length(self, oracle, s, x, F):
        asked.append((oracle.ifo, x))
        return ask(self, oracle, s, x, F)

    monkeypatch.setattr(PlainSGD, "length", length)
    result = minimize(problem, PlainSGD(), random_state=0)
    ifo = [one for one, _ in asked]
    assert len(ifo) == len(set(ifo)) + 1  # x and x_0 at first, then x alone
    assert asked[1][1] is result.state.start
    assert all(
        later >= 2 * before for before, later in zip(ifo[1:], ifo[2:], strict=False)
    )
    assert len(ifo) >= 4


# counts


def test_nothing_is_charged_at_tol_0():
    """The count is that of Lemma 3.1, to which another tol adds full gradients."""
    settings = {
        "random_state": 0,
        "max_iter": 300,
        "batch_size": 50,
        "init_batch_size": 50,
    }
    free = minimize(PROBLEMS["variance"], "storm-c-paper", tol=0, **settings)
    asked = minimize(PROBLEMS["variance"], "storm-c-paper", tol=0.999, **settings)
    assert free.stop_reason == "max_iter" and free.ifo[-1] == 3 * 50 + 300 * 3 * 50
    assert asked.ifo[-1] > 3 * 50 + asked.n_iter * 3 * 50


def test_epochs_are_judged_at_their_checkpoints():
    """No full gradient is charged in an epoch that is a little longer than a pass."""
    problem = PROBLEMS["entropic"]
    for name in ("sarah-c", "vrsc-pg", "civr"):
        result = minimize(problem, name, random_state=0, tol=1e-3)
        steps = minimize(problem, name, random_state=0, tol=0, max_iter=result.n_iter)
        assert result.success and result.ifo[-1] == steps.ifo[-1]
        # the checkpoint is returned, not the step from it
        assert result.state.state.since_checkpoint == 0


# the value at x_0


def test_the_residual_is_relative_to_that_at_the_start():
    problem = PROBLEMS["variance"]
    result = minimize(problem, "lbfgs", max_iter=2, tol=1e-9)
    first, last = (
        np.linalg.norm(problem.gradient(x)) for x in (np.zeros(10), result.x)
    )
    assert result.residual == pytest.approx(last / first)


def test_first_residual_of_an_earlier_run():
    problem = PROBLEMS["variance"]
    cold = minimize(problem, random_state=0)
    warm = get_solver("storm-c").solve(
        problem, cold.x, random_state=0, first_residual=cold.state.first_residual
    )
    assert (
        warm.success
        and warm.n_iter < cold.n_iter
        and warm.state.first_residual == cold.state.first_residual
    )


# where F is exact


@dataclass
class GradientState(MethodState):
    F: np.ndarray | None = None


class GradientDescent(CompositionalSolver):
    """Gradient descent that calls the oracle itself, and changes what it returns by
    functions of the name and value."""

    def __init__(
        self, change=lambda name, value: value, max_iter=None, max_ifo=None, tol=1e-4
    ):
        self.change, self.max_iter, self.max_ifo, self.tol = (
            change,
            max_iter,
            max_ifo,
            tol,
        )

    def gradient(self, oracle, x):
        change = self.change
        batch = oracle.draw("inner", None)
        u = change("u", oracle.inner(change("x", x), batch))
        J = change(
            "J", oracle.jacobian(change("x", x), oracle.draw_jacobian(None, batch))
        )
        return oracle.gradient(x, u, J, oracle.draw("outer", None))

    def init_state(self, oracle, x):
        return GradientState(
            x,
            rule=self.step_rule(oracle, x, ALL, factor=0.7),
            F=self.gradient(oracle, x),
        )

    def step(self, oracle, s):
        s.x = self.move(oracle, s, s.F)
        s.F = self.gradient(oracle, s.x)

    def cost(self, oracle, s):
        return oracle.cost(ALL)


KINDS_OF_JACOBIANS = {
    "constant": lambda: PortfolioProblem(SMALL),
    "sampled": lambda: composition(*regression(200)),
    "operator": lambda: composition(*regression(200), way="vjp"),
    "in a unit": lambda: PortfolioProblem(SMALL, 0.5, risk_measure="entropic"),
}


@pytest.mark.parametrize("kind", KINDS_OF_JACOBIANS)
def test_a_method_that_copies_keeps_its_anchors(kind):
    """It paid further full gradients, at the start and where it had converged, and did
    not say so."""
    problem = KINDS_OF_JACOBIANS[kind]()
    plain = minimize(problem, GradientDescent(), random_state=0, tol=0.3)
    assert plain.success
    for names in ("u", "uJx"):
        method = GradientDescent(
            lambda name, value, names=names: (
                copy.deepcopy(value) if name in names else value
            )
        )
        copying = minimize(problem, method, random_state=0, tol=0.3)
        assert (copying.ifo[-1], copying.n_iter, copying.residual) == (
            plain.ifo[-1],
            plain.n_iter,
            plain.residual,
        )
        np.testing.assert_array_equal(copying.x, plain.x)


@pytest.mark.parametrize("name", "uJx")
@pytest.mark.parametrize("kind", KINDS_OF_JACOBIANS)
def test_a_method_that_changes_values_has_no_anchors(kind, name):
    """Otherwise the residual of another function would end a run as converged."""
    problem = KINDS_OF_JACOBIANS[kind]()
    oracle, x = (
        Oracle(problem, 0),
        problem.initial_point(np.random.default_rng(0)) + 0.1,
    )

    def changed(which, value):
        if which != name:
            return value
        # x is in an operator
        return (
            (1.001 * value[0], *value[1:])
            if isinstance(value, tuple)
            else 1.001 * value
        )

    GradientDescent(changed).gradient(oracle, x)
    assert not oracle.exact
    GradientDescent().gradient(oracle, x)
    assert len(oracle.exact) == 1


def test_u_outside_the_domain_of_f_is_not_exact():
    """The guard has put another u in its place."""
    problem = composition(*regression(200))
    problem.inner_floor = 1e9
    oracle = Oracle(problem, 0)
    start(oracle, np.zeros(problem.n_variables), ALL)
    assert oracle.n_guarded and not oracle.exact


# the returned point


def test_the_test_is_at_the_returned_point():
    """With a normalised step and a penalty this is x~, which has exact zeros."""
    problem = PortfolioProblem(SMALL, penalty=Box(0.0, 1.0))
    solver = STORMCompositional(
        anchor=5, normalization="global", precision=0.5, tol=0.05
    )
    result = minimize(problem, solver, random_state=0)
    assert result.success and result.x is result.state.stopping.point
    state = result.state.state
    found = exact_length(problem, "", state, result.x) / exact_length(
        problem, "", state, result.state.start
    )
    assert found <= 0.05


# continued runs


@pytest.mark.parametrize("name", ["storm-c", "storm-c-paper", "lbfgs"])
def test_a_continued_run_tests_as_the_whole_one(name):
    problem = PROBLEMS["entropic"]
    settings = {"tol": 0.1, "record_every": 1000}
    whole = minimize(problem, name, random_state=0, **settings)
    assert whole.success
    for stop in (1, whole.n_iter // 2, whole.n_iter):
        part = minimize(
            problem,
            name,
            random_state=0,
            on_record=lambda r, stop=stop: r.iteration >= stop,
            **settings,
        )
        rest = minimize(
            problem, name, state=pickle.loads(pickle.dumps(part.state)), **settings
        )
        assert (rest.n_iter, rest.ifo[-1], rest.stop_reason) == (
            whole.n_iter,
            whole.ifo[-1],
            "converged",
        )
        np.testing.assert_array_equal(rest.x, whole.x)


def test_a_continued_run_has_its_own_tol():
    problem = PROBLEMS["entropic"]
    whole = minimize(problem, STORMCompositional(anchor=None, tol=0.1), random_state=0)
    assert whole.success and whole.residual > 0.09
    rest = minimize(
        problem, STORMCompositional(anchor=None, tol=0.09), state=whole.state
    )
    assert rest.n_iter > whole.n_iter or not rest.success


def test_streams_have_no_test():
    chunks = (SMALL[k : k + 100] for k in range(0, 1500, 100))
    result = minimize(
        StreamingProblem(chunks, PortfolioProblem),
        SCGD(tol=1e3, batch_size=8),
        random_state=0,
    )
    assert result.stop_reason == "exhausted" and math.isnan(result.residual)


def test_a_learning_rate_that_does_not_move_x_is_not_convergence():
    """Nearby, a thousandth farther out, gradients are as large as at x."""
    problem = PortfolioProblem(SMALL)
    best = np.linalg.solve(2 * np.cov(SMALL.T, bias=True), SMALL.mean(axis=0))
    far = np.array([50.0, -50.0, 50.0, -50.0])
    options = {"learning_rate": 1e-20, "batch_size": None, "max_iter": 5, "tol": 1e-4}
    for x0, reason in ((far, "max_iter"), (best, "converged")):
        result = minimize(problem, "sarah-c", x0, random_state=0, **options)
        assert result.stop_reason == reason
        np.testing.assert_array_equal(result.x, x0)
