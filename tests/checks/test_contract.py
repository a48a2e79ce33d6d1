"""One contract for every problem with every solver: both are discovered, and `check_solver` checks each pair.

A new solver needs a name in SOLVERS. A new problem needs a line in EXAMPLES.
"""

import copy
import importlib
import inspect
import pickle
import pkgutil

import numpy as np
import pytest
from helpers import composition, few_of, regression

from sk_stormc.affinities import perplexity_affinities
from sk_stormc.checks import check_solver
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns
from sk_stormc.engine import advance
from sk_stormc.penalties import L1, Box, Simplex
from sk_stormc.problems import (
    BellmanProblem,
    CompositionalProblem,
    DifferentiableComposition,
    PortfolioProblem,
    ProjectedBellmanProblem,
    SNEProblem,
    check_problem,
)
from sk_stormc.solvers import SCGD, SOLVERS, STORMCompositional, minimize

RETURNS = make_gaussian_returns(1100, 4, mean=0.3, random_state=0)  # more than are batches of all components


def portfolio(*args, dtype=float, **kwargs):
    return PortfolioProblem(RETURNS.astype(dtype), *args, **kwargs)


def embedding(n=25, **kwargs):
    points = np.random.default_rng(0).normal(size=(n, 5))
    return SNEProblem(perplexity_affinities(points, 5), 2, **kwargs)


def policy(kind="garnet", **kwargs):
    model = make_bellman_problem(50, None, gamma=0.9, kind=kind, random_state=0)
    return BellmanProblem(model.transition_matrix, model.rewards, gamma=0.9, **kwargs)


def transitions(**kwargs):
    model = make_bellman_problem(20, 4, gamma=0.9, kind="garnet", random_state=0)
    log = model.transitions(1100, random_state=0)
    return ProjectedBellmanProblem(log.X, log.next_X, log.y, 0.9, **kwargs)


def composed(way, dtype=float, **kwargs):
    return composition(*regression(1100), way, dtype, **kwargs)


def differentiable(dtype=float, **kwargs):
    jnp = pytest.importorskip("jax.numpy", reason="needs JAX")

    def loss(x, row):
        a, b = row
        return (jnp.tanh(a @ x) - b) ** 2

    def outer(x, u, row):
        return loss(x, row) + jnp.maximum(loss(x, row) - u, 0) ** 2

    data = regression(1100)
    return DifferentiableComposition(loss, outer, data, data, x0=np.array([1.0, -0.5, 0.5], dtype), **kwargs)


EXAMPLES = {
    "PortfolioProblem": {
        "variance": portfolio,
        "semivariance": lambda: portfolio(0.5, risk_measure="semivariance", metric="variance"),
        "weighted": lambda: portfolio(sample_weight=1.0 + np.arange(1100)),
        "l1": lambda: portfolio(penalty=L1(0.05)),
        "box": lambda: portfolio(penalty=Box(0, 0.4)),
        "budget": lambda: portfolio(penalty=Box(0, 0.4, budget=1.0)),
        "float32": lambda: portfolio(dtype=np.float32),
        "matrix metric and penalty": lambda: portfolio(metric=np.eye(4), penalty=L1(0.05)),
        "few periods": lambda: PortfolioProblem(RETURNS[:50]),
    },
    "EntropicPortfolioProblem": {
        "entropic": lambda: portfolio(0.5, risk_measure="entropic"),
        "weighted": lambda: portfolio(0.5, risk_measure="entropic", sample_weight=1.0 + np.arange(1100)),
        "simplex": lambda: portfolio(risk_measure="entropic", penalty=Simplex()),
        "float32": lambda: portfolio(0.5, risk_measure="entropic", dtype=np.float32),
    },
    "CVaRPortfolioProblem": {
        "box": lambda: portfolio(risk_measure="cvar", penalty=Box(0.02, 0.4), metric="variance"),
        "weighted": lambda: portfolio(risk_measure="cvar", sample_weight=1.0 + np.arange(1100), penalty=Box(0, 0.4)),
        "simplex": lambda: portfolio(np.inf, risk_measure="cvar", confidence=0.8, penalty=Simplex()),
        "float32": lambda: portfolio(risk_measure="cvar", dtype=np.float32, penalty=Box(0.02, 0.4)),
    },
    "EVaRPortfolioProblem": {
        "box": lambda: portfolio(risk_measure="evar", confidence=0.5, penalty=Box(0.02, 0.4), metric="variance"),
        "weighted": lambda: portfolio(risk_measure="evar", sample_weight=1.0 + np.arange(1100), penalty=Box(0, 0.4)),
        "simplex": lambda: portfolio(np.inf, risk_measure="evar", confidence=0.8, penalty=Simplex()),
        "float32": lambda: portfolio(risk_measure="evar", dtype=np.float32, penalty=Box(0.02, 0.4)),
    },
    "SemideviationPortfolioProblem": {
        "box": lambda: portfolio(risk_measure="semideviation", order=3, penalty=Box(0.02, 0.4), metric="variance"),
        "weighted": lambda: portfolio(
            risk_measure="semideviation", sample_weight=1.0 + np.arange(1100), penalty=Box(0, 0.4)
        ),
        "float32": lambda: portfolio(risk_measure="semideviation", dtype=np.float32, penalty=Box(0.02, 0.4)),
    },
    "DownsidePortfolioProblem": {
        "box": lambda: portfolio(risk_measure="downside", penalty=Box(0.02, 0.4), metric="variance"),
        "simplex": lambda: portfolio(np.inf, risk_measure="downside", order=1, penalty=Simplex()),
    },
    "SNEProblem": {
        "gaussian": embedding,
        "student-t": lambda: embedding(kernel="student-t"),
        "float64": lambda: embedding(dtype=np.float64),
        "literal": lambda: embedding(near_field=False),
        "dense": lambda: embedding(jacobian="dense"),
    },
    "BellmanProblem": {
        "successor": policy,
        "column": lambda: policy(sampling="column"),
        "plain": lambda: policy(metric=None),
        "weighted": lambda: policy(sample_weight=1.0 + np.arange(50)),
    },
    "ProjectedBellmanProblem": {"full metric": transitions, "plain": lambda: transitions(metric=None, alpha=0.01)},
    "FiniteSumComposition": {
        "jacobian": lambda: composed("jacobian"),
        "vjp": lambda: composed("vjp"),
        "differences": lambda: composed("differences"),
        "float32": lambda: composed("jacobian", np.float32),
        "l1": lambda: composed("vjp", penalty=L1(0.01)),
    },
    "DifferentiableComposition": {
        "sampled": differentiable,
        "operator": lambda: differentiable(jacobian="operator"),
        "weighted": lambda: differentiable(sample_weight=1.0 + np.arange(1100)),
        "float32": lambda: differentiable(np.float32),
        "l1": lambda: differentiable(jacobian="operator", penalty=L1(0.01)),
    },
}
MAY_BE_REFUSED = {"budget", "simplex", "matrix metric and penalty"}  # by some solver
PLAIN_STEPS = {"sketchy-storm"}  # these also refuse operator Jacobians, and problems that limit the steps
EXCLUDED = {  # class: reason; may name a class that is still to come
    "StreamingProblem": "has no number of components, and draws from an iterator once: its own tests",
    "TransitionStream": "the same",
    "DrawdownPortfolioProblem": "has values but no samples: its own tests",
}


def discovered():
    """All concrete problems within the package, by name."""
    found = {}
    names = ("core", "streams", "portfolio", "embedding", "values")
    rooms = [importlib.import_module(f"sk_stormc.{name}") for name in names]
    modules = [module for room in rooms for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")]
    for module in modules:
        for name, value in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(value) and issubclass(value, CompositionalProblem) and not inspect.isabstract(value):
                found[name] = value
    return found


def examples():
    return [(name, label) for name, labels in EXAMPLES.items() for label in labels]


def pairs():
    """Each solver, with its defaults and with small batches: all on the first example of a problem, a part on others.

    Most are left to the slow tests.
    """
    sampled = [name for name, solver in SOLVERS.items() if "batch_size" in solver().get_params()]
    ways = [(name, "auto") for name in SOLVERS] + [(name, 32) for name in sampled]
    found = []
    for i, example in enumerate(examples()):
        first = example[1] == next(iter(EXAMPLES[example[0]]))
        for j, way in enumerate(ways):
            default = way == ("storm-c", "auto")
            quick = (default and first) or (i + j) % 29 == 0
            if quick or default or first or (i + j) % 3 == 0 or (i + j) % 17 == 0:
                length, marks = (12, []) if quick else (24, [pytest.mark.slow])  # of a run, in iterations
                found.append(pytest.param(*example, *way, length, marks=marks))
    return found


@pytest.mark.parametrize("name", sorted(set(discovered()) - set(EXCLUDED)))
def test_every_problem_has_an_example(name):
    assert EXAMPLES.get(name), f"{name} is new: add a small example of it to EXAMPLES in {__file__}"
    for label, factory in EXAMPLES[name].items():
        assert type(factory()) is discovered()[name], f"{label} is no example of {name}"


def test_examples_are_of_problems_that_exist():
    assert set(EXAMPLES) <= set(discovered())


QUICK = [k for k, (name, label) in enumerate(examples()) if name != "SNEProblem" or label == "gaussian"]


@pytest.mark.parametrize(("name", "label"), few_of(examples(), *QUICK))
def test_problem(name, label):
    if label == "literal":
        pytest.skip("one column has no entry for its own point, whose u is then 0: tests/embedding/test_sne.py")
    check_problem(EXAMPLES[name][label](), n_draws=100)


class Worked(Exception):
    """Something of the problem was asked for."""


def refusal(solver, problem):
    """What a solver says that does not run on the problem, before it asks anything of it; None if it runs."""
    barred = copy.copy(problem)

    def work(*args):
        raise Worked

    for method, _ in inspect.getmembers(CompositionalProblem, inspect.isfunction):
        setattr(barred, method, work)
    try:
        solver.solve(barred)
    except Worked:
        return None
    except ValueError as error:
        return str(error)
    raise AssertionError("ran without the problem")


@pytest.mark.parametrize(("name", "label", "solver", "batch_size", "max_iter"), pairs())
def test_pair(name, label, solver, batch_size, max_iter):
    method = SOLVERS[solver]() if batch_size == "auto" else SOLVERS[solver](batch_size=batch_size)
    if batch_size == 32 and name.startswith(("CVaR", "EVaR")):
        method.set_params(batch_size=256)  # of 32 periods one or two are in the tail
    problem = EXAMPLES[name][label]()
    if refusal(method, problem) is None:
        check_solver(method, problem, max_iter=max_iter)
    else:
        special = problem.jacobian_kind == "operator" or problem.advice.normalization is not None
        expected = label in MAY_BE_REFUSED or (solver in PLAIN_STEPS and special)
        assert expected, f"{solver} refuses: {refusal(method, problem)}"


@pytest.mark.parametrize("name", SOLVERS)
def test_state_is_free_of_the_data(name):
    big = PortfolioProblem(make_gaussian_returns(20_000, 6, random_state=0))
    state = minimize(big, name, random_state=0, max_iter=5).state
    assert len(pickle.dumps(state)) < big.returns.nbytes / 4


# the checks find what they are for


class Breach(SCGD):
    """SCGD, to be broken by overriding one method."""

    def step(self, oracle, s):
        super().step(oracle, s)
        self.breach(oracle, s)

    def breach(self, oracle, s):
        pass


class WritesIntoX(Breach):
    def step(self, oracle, s):
        s.x[0] += 1e-9
        super().step(oracle, s)


class WritesIntoTheState(Breach):
    def step(self, oracle, s):
        if s.u is not None:
            s.u += 1e-9
        super().step(oracle, s)


class WritesIntoTheStart(Breach):
    def init_state(self, oracle, x):
        x += 1e-3
        return super().init_state(oracle, x)


class EvaluatesUncharged(Breach):
    def breach(self, oracle, s):
        oracle.problem.gradient(s.x)


class GathersUncharged(Breach):
    def breach(self, oracle, s):
        oracle.problem.inner_batch(np.arange(3))


class HidesItsDraws(Breach):
    def breach(self, oracle, s):
        oracle.draw("outer", 1)
        oracle.ifo -= 1


class IsRandom(Breach):
    def breach(self, oracle, s):
        s.x = s.x + 1e-6 * np.random.default_rng().normal(size=s.x.size)


class IgnoresTheSeed(Breach):
    def init_state(self, oracle, x):
        oracle._generators = {kind: np.random.default_rng(0) for kind in oracle._generators}
        oracle.rng = np.random.default_rng(0)
        return super().init_state(oracle, x)


class SeesTheRecords(Breach):
    def solve(self, *args, record_every=None, **kwargs):
        self._every = record_every
        return super().solve(*args, record_every=record_every, **kwargs)

    def breach(self, oracle, s):
        s.x = s.x + 1e-12 * self._every


class RemembersInTheSolver(Breach):
    def breach(self, oracle, s):
        self._steps = getattr(self, "_steps", 0) + 1
        s.x = s.x * (1 + 1e-6 * self._steps)


class KnowsItsEnd(Breach):
    def breach(self, oracle, s):
        s.x = s.x * (1 + 1e-3 / self.max_iter)


class ChangesItsParameters(Breach):
    def init_state(self, oracle, x):
        self.learning_rate = 0.01
        return super().init_state(oracle, x)


class HoldsTheOracle(Breach):
    def breach(self, oracle, s):
        s.source = oracle


class CannotBePickled(Breach):
    def breach(self, oracle, s):
        s.source = lambda t: t


class CostsMoreThanItSays(Breach):
    def cost(self, oracle, s):
        return super().cost(oracle, s) - 1


class SaysMoreThanItCosts(Breach):
    def cost(self, oracle, s):
        return super().cost(oracle, s) + 1


class GoesUp(Breach):
    def breach(self, oracle, s):
        s.x = 2 * s.x_old - s.x


class Overflows(Breach):
    def breach(self, oracle, s):
        s.x = s.x * np.inf


class GoesBeyondTheBudget(Breach):
    def iterate(self, oracle, s, loop):
        super().iterate(oracle, s, loop)
        if s.t and loop.reason == "max_ifo":
            self.step(oracle, s)
            s.t += 1
            loop.after_iteration()


class AsksNobody(Breach):
    def iterate(self, oracle, s, loop):
        for _ in range(self.max_iter):
            self.step(oracle, s)
            s.t += 1
        loop.after_iteration()


class LeavesTheBox(Breach):
    def breach(self, oracle, s):
        s.x = s.x - 1e-3


class MakesItsOwnBatch(Breach):
    def cost(self, oracle, s):
        return super().cost(oracle, s) + 8

    def breach(self, oracle, s):
        batch = oracle.draw("outer", 8)
        batch.data = (batch.data[0], batch.data[1])
        oracle.gradient(s.x, s.u, None, batch)


class SaysItIsThere(Breach):
    def breach(self, oracle, s):
        s.residual *= 1e-6


class SaysItIsExact(Breach):
    def breach(self, oracle, s):
        s.at_anchor = True


class EndsByItself(Breach):
    def iterate(self, oracle, s, loop):
        super().iterate(oracle, s, loop)
        if self.tol:
            s.x = loop.run.stopping.answer = loop.run.start
            loop.reason = "converged"


class IsWide(Breach):
    def breach(self, oracle, s):
        s.x = s.x + np.zeros(s.x.size)


class RefreshesRarely(Breach):
    def step(self, oracle, s):
        super().step(oracle, s)
        if (s.t + 1) % 200 == 0:
            s.u = oracle.inner(s.x, oracle.draw("inner", None))


class Recursive(STORMCompositional):
    """Algorithm 1 with a change of x after its estimates were advanced to it."""

    def __init__(self, learning_rate=0.02, batch_size=32, max_iter=None, max_ifo=None, tol=1e-4):
        super().__init__(learning_rate, batch_size=batch_size, max_iter=max_iter, max_ifo=max_ifo, tol=tol)

    def step(self, oracle, s):
        super().step(oracle, s)
        self.change(s)

    def change(self, s):
        pass


class MovesAfterwards(Recursive):
    def change(self, s):
        s.x = 0.999 * s.x


class MovesByF(Recursive):
    def change(self, s):
        s.x = s.x - 1e-3 * s.now.F


BOXED, SINGLE = EXAMPLES["PortfolioProblem"]["box"], EXAMPLES["PortfolioProblem"]["float32"]


@pytest.mark.parametrize(
    ("solver", "problem", "message"),
    [
        (WritesIntoX, None, "step writes into an array of the state"),
        (WritesIntoTheState, None, "step writes into an array of the state"),
        (WritesIntoTheStart, None, "init_state writes into x"),
        (EvaluatesUncharged, None, r"n_evaluations\['inner'\] must be"),
        (GathersUncharged, None, "ifo must be .* as drawn"),
        (MakesItsOwnBatch, None, r"n_evaluations\['outer'\] must be"),
        (HidesItsDraws, None, "ifo must be .* as drawn"),
        (IsRandom, None, "another run with the same random_state must give the same"),
        (IgnoresTheSeed, None, "another random_state must give different iterates"),
        (SeesTheRecords, None, "record_every must not change the iterates"),
        (RemembersInTheSolver, None, "a run resumed after max_iter must give the same"),
        (KnowsItsEnd, None, "max_iter must not change the iterates"),
        (ChangesItsParameters, None, "changes the solver's parameters"),
        (HoldsTheOracle, None, "the state must be picklable, but it holds a"),
        (CannotBePickled, None, "the state must be picklable"),
        (CostsMoreThanItSays, None, "step must draw the 31 IFO that .* announces, got 32"),
        (SaysMoreThanItCosts, None, "step must draw the 33 IFO that .* announces, got 32"),
        (GoesBeyondTheBudget, None, "must be used and not exceeded"),
        (GoesUp, None, "must lower the objective"),
        (Overflows, None, "must stay finite"),
        (AsksNobody, None, "every iteration must be offered"),
        (LeavesTheBox, BOXED, "must be in the penalty's domain"),
        (SaysItIsThere, None, "s.residual must be about .* the gradient on all data says"),
        (SaysItIsExact, None, "s.at_anchor says that F is exact where the oracle has not evaluated it"),
        (EndsByItself, None, "must not end as 'converged' at 1 of its first gradient"),
        (IsWide, SINGLE, "the state must keep the float32 of x, got float64"),
        (IsWide, None, "the state must keep the float32 of x, got float64"),
        (RefreshesRarely, None, "step must draw the 32 IFO that .* announces, got 1132"),
        (MovesAfterwards, None, "move starts at another point than that at which F was estimated"),
        (MovesByF, None, "move starts at another point than that at which F was estimated"),
    ],
)
def test_breaches_are_found(solver, problem, message):
    with pytest.raises(ValueError, match=f"{solver.__name__}: .*({message})"):
        check_solver(solver(), problem and problem())


@pytest.mark.parametrize("name", SOLVERS)
def test_writing_into_a_record_is_harmless(name):
    """Records have copies of x: whatever a callback does to them, the run and its state know nothing of it."""
    problem, settings = portfolio(), {"random_state": 0, "max_iter": 12, "record_every": 1, "tol": 0}

    def spoil(record):
        record.x[:] = np.nan

    plain, spoilt = (minimize(problem, name, on_record=look, **settings) for look in (None, spoil))
    np.testing.assert_array_equal(spoilt.x, plain.x)
    np.testing.assert_array_equal(spoilt.loss_curve, plain.loss_curve)
    rests = [minimize(problem, name, state=part.state, max_iter=24, tol=0) for part in (plain, spoilt)]
    np.testing.assert_array_equal(rests[1].x, rests[0].x)
    np.testing.assert_array_equal(rests[1].state.best_x, rests[0].state.best_x)


@pytest.mark.parametrize("solver", [Breach, Recursive])
def test_the_unbroken_solver_passes(solver):
    for problem in (None, BOXED(), SINGLE()):
        check_solver(solver(), problem)


class StepsFromElsewhere(Recursive):
    """A method whose estimates are those of an extrapolated point, from which it steps: nothing is wrong with that."""

    def step(self, oracle, s):
        x = s.x
        s.x = self.move(oracle, s, s.now.F, x=s.now.x)
        s.now = advance(oracle, s.now, s.x + 0.5 * (s.x - x), (0.1, 0.1, 0.1), s.batch_size)


def test_a_step_may_start_at_an_extrapolated_point():
    check_solver(StepsFromElsewhere())


@pytest.mark.parametrize(
    ("solver", "given", "message"),
    [
        ("scgd", {}, "solver must be a CompositionalSolver, got 'scgd'"),
        (SCGD, {}, "solver must be a CompositionalSolver"),
        (SCGD(), {"max_iter": 3}, "max_iter must be an integer >= 4, got 3"),
        (SCGD(), {"random_state": None}, "random_state must be an integer >= 0, got None"),
        (SCGD(beta=2.0), {}, "beta must be"),
    ],
)
def test_check_solver_names_what_it_was_given(solver, given, message):
    with pytest.raises(ValueError, match=message):
        check_solver(solver, **given)
