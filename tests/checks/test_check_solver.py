"""check_solver accepts what keeps the contract of a solver, and says how another one
breaks it."""

import numpy as np
import pytest

from sk_stormc.checks import check_solver
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.engine import advance
from sk_stormc.penalties import Box
from sk_stormc.problems import PortfolioProblem
from sk_stormc.solvers import SCGD, STORMCompositional

# more than are batches of all components
RETURNS = make_gaussian_returns(1100, 4, mean=0.3, random_state=0)
BOXED, SINGLE = (
    PortfolioProblem(RETURNS, penalty=Box(0, 0.4)),
    PortfolioProblem(RETURNS.astype(np.float32)),
)


class Breach(SCGD):
    """SCGD, to be broken by overriding one method."""

    def step(self, oracle, s):
        super().step(oracle, s)
        self.breach(oracle, s)

    def breach(self, oracle, s):
        pass


def hide_draws(self, oracle, s):
    oracle.draw("outer", 1)
    oracle.ifo -= 1


def count_steps(self, oracle, s):
    self._steps = getattr(self, "_steps", 0) + 1
    s.x = s.x * (1 + 1e-6 * self._steps)


def add_noise(self, oracle, s):
    s.x = s.x + 1e-6 * np.random.default_rng().normal(size=s.x.size)


def use_the_budget(self, oracle, s):
    s.x = s.x * (1 + 1e-3 / self.max_iter)


def evaluate_a_batch_of_ones_own(self, oracle, s):
    batch = oracle.draw("outer", 8)
    batch.data = (batch.data[0], batch.data[1])
    oracle.gradient(s.x, s.u, None, batch)


def go_up(self, oracle, s):
    s.x = 2 * s.x_old - s.x


def assign(name, value):
    """A breach that changes a field of the state."""
    return lambda self, oracle, s: setattr(s, name, value(oracle, s))


AFTER_A_STEP = [  # a breach after each step, and the message
    (
        lambda self, oracle, s: oracle.problem.gradient(s.x),
        r"n_evaluations\['inner'\] must be",
    ),
    (
        lambda self, oracle, s: oracle.problem.inner_batch(np.arange(3)),
        "ifo must be .* as drawn",
    ),
    (hide_draws, "ifo must be .* as drawn"),
    (add_noise, "another run with the same random_state must give the same"),
    (count_steps, "a run resumed after max_iter must give the same"),
    (use_the_budget, "max_iter must not change the iterates"),
    (
        assign("source", lambda oracle, s: oracle),
        "the state must be picklable, but it holds a",
    ),
    (assign("source", lambda oracle, s: lambda t: t), "the state must be picklable"),
    (go_up, "must lower the objective"),
    (assign("x", lambda oracle, s: s.x * np.inf), "must stay finite"),
    (
        assign("residual", lambda oracle, s: 1e-6 * s.residual),
        "s.residual must be about .* the gradient on all data",
    ),
]


@pytest.mark.parametrize("breach, message", AFTER_A_STEP, ids=range(len(AFTER_A_STEP)))
def test_breaches_after_a_step(breach, message):
    with pytest.raises(ValueError, match=f"Broken: .*({message})"):
        check_solver(type("Broken", (Breach,), {"breach": breach})())


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


class IgnoresTheSeed(Breach):
    def init_state(self, oracle, x):
        oracle._generators = {
            kind: np.random.default_rng(0) for kind in oracle._generators
        }
        oracle.rng = np.random.default_rng(0)
        return super().init_state(oracle, x)


class SeesTheRecords(Breach):
    def solve(self, *args, record_every=None, **kwargs):
        self._every = record_every
        return super().solve(*args, record_every=record_every, **kwargs)

    def breach(self, oracle, s):
        s.x = s.x + 1e-12 * self._every


class ChangesItsParameters(Breach):
    def init_state(self, oracle, x):
        self.learning_rate = 0.01
        return super().init_state(oracle, x)


class CostsMoreThanItSays(Breach):
    def cost(self, oracle, s):
        return super().cost(oracle, s) - 1


class MakesItsOwnBatch(Breach):
    breach = evaluate_a_batch_of_ones_own

    def cost(self, oracle, s):
        return super().cost(oracle, s) + 8


class LeavesTheBox(Breach):
    def breach(self, oracle, s):
        s.x = s.x - 1e-3


class IsWide(Breach):
    def breach(self, oracle, s):
        s.x = s.x + np.zeros(s.x.size)


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


class EndsByItself(Breach):
    def iterate(self, oracle, s, loop):
        super().iterate(oracle, s, loop)
        if self.tol:
            s.x = loop.run.stopping.point = loop.run.start
            loop.reason = "converged"


class RefreshesRarely(Breach):
    def step(self, oracle, s):
        super().step(oracle, s)
        if (s.t + 1) % 200 == 0:
            s.u = oracle.inner(s.x, oracle.draw("inner", None))


class Recursive(STORMCompositional):
    """Algorithm 1 with a change of x after its estimates were advanced to it."""

    def __init__(
        self, learning_rate=0.02, batch_size=32, max_iter=None, max_ifo=None, tol=1e-4
    ):
        super().__init__(
            learning_rate=learning_rate,
            batch_size=batch_size,
            max_iter=max_iter,
            max_ifo=max_ifo,
            tol=tol,
        )

    def step(self, oracle, s):
        super().step(oracle, s)
        self.change(s)

    def change(self, s):
        pass


class MovesAfterwards(Recursive):
    def change(self, s):
        s.x = 0.999 * s.x


@pytest.mark.parametrize(
    ("solver", "problem", "message"),
    [
        (WritesIntoX, None, "step writes into an array of the state"),
        (WritesIntoTheState, None, "step writes into an array of the state"),
        (WritesIntoTheStart, None, "init_state writes into x"),
        (MakesItsOwnBatch, None, r"n_evaluations\['outer'\] must be"),
        (IgnoresTheSeed, None, "another random_state must give different iterates"),
        (SeesTheRecords, None, "record_every must not change the iterates"),
        (ChangesItsParameters, None, "changes the solver's parameters"),
        (
            CostsMoreThanItSays,
            None,
            "step must draw the 31 IFO that .* announces, got 32",
        ),
        (GoesBeyondTheBudget, None, "must be used and not exceeded"),
        (AsksNobody, None, "iterate must call loop.after_iteration in every iteration"),
        (LeavesTheBox, BOXED, "must be in the penalty's domain"),
        (EndsByItself, None, "must not end as 'converged' at 1 of its first gradient"),
        (IsWide, SINGLE, "the state must keep the float32 of x, got float64"),
        (
            RefreshesRarely,
            None,
            "step must draw the 32 IFO that .* announces, got 1132",
        ),
        (
            MovesAfterwards,
            None,
            "move starts at another point than that at which F was estimated",
        ),
    ],
)
def test_breaches_are_found(solver, problem, message):
    with pytest.raises(ValueError, match=f"{solver.__name__}: .*({message})"):
        check_solver(solver(), problem)


@pytest.mark.parametrize("solver", [Breach, Recursive])
def test_the_unbroken_solver_passes(solver):
    for problem in (BOXED, SINGLE):
        check_solver(solver(), problem)


class StepsFromElsewhere(Recursive):
    """A correct method, which steps from an extrapolated point, where its estimates
    are."""

    def step(self, oracle, s):
        x = s.x
        s.x = self.move(oracle, s, s.now.F, x=s.now.x)
        s.now = advance(
            oracle, s.now, s.x + 0.5 * (s.x - x), (0.1, 0.1, 0.1), s.batch_size
        )


def test_a_step_may_start_at_an_extrapolated_point():
    check_solver(StepsFromElsewhere(), BOXED)


@pytest.mark.parametrize(
    ("solver", "given", "message"),
    [
        (SCGD(), {"max_iter": 3}, "max_iter must be an integer >= 4, got 3"),
        (
            SCGD(),
            {"random_state": None},
            "random_state must be an integer >= 0, got None",
        ),
        (SCGD(beta=2.0), {}, "beta must be"),
    ],
)
def test_check_solver_names_what_it_was_given(solver, given, message):
    with pytest.raises(ValueError, match=message):
        check_solver(solver, **given)
