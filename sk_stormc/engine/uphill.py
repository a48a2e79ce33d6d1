"""Streams that go uphill: what is looked at, and what is done."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sk_stormc.core.schedules import at
from sk_stormc.engine.results import MethodState, StopReason
from sk_stormc.utils.kept import Kept

__all__ = ["begins_again", "look", "shortened"]

AGAIN = 3  # times that a run on a stream begins again with shorter steps
SHORTER = 0.25  # steps, each time


def look(oracle, run, x):
    """Compare x with the start on the same rows: keep the best x so far, or say that the run has diverged.

    Parameters
    ----------
    oracle : Oracle
    run : RunState
    x : ndarray of shape (n_variables,)

    Returns
    -------
    bool
        Whether it has.
    """
    fun = run.records[-1][2]
    gain = oracle.problem.objective(run.start) - fun
    if gain > run.best_gain:
        run.best_x, run.best_fun, run.best_gain = x, fun, gain
    return gain < 0 and oracle.source.uphill(x, run.start)


def begins_again(solver, oracle, run, reason):
    """Let a run on a stream that went up, or overflowed, begin again from its best point with shorter steps.

    A learning rate that the user has set is not touched.

    Parameters
    ----------
    solver : CompositionalSolver
    oracle : Oracle
    run : RunState
    reason : str
        Why it stopped.

    Returns
    -------
    bool
    """
    automatic = solver.auto("learning_rate", oracle.problem, None) is None
    failed = oracle.streaming and reason in (StopReason.NON_FINITE, StopReason.DIVERGED)
    if not (failed and automatic and run.times < AGAIN):
        return False
    run.times, run.t_before = run.times + 1, run.t
    run.state = MethodState(run.best_x)
    run.last_checked, run.first_length, run.milestones = -1, 0.0, (None, None)
    return True


def shortened(rule, times):
    """A `StepRule` of steps that were made shorter so many times."""
    factor, rate = SHORTER**times, rule.learning_rate
    return replace(rule, learning_rate=Shortened(rate, factor) if callable(rate) else rate * factor)


@dataclass(frozen=True)
class Shortened(Kept):
    """A schedule times a factor."""

    schedule: float | Callable
    factor: float

    def __call__(self, t):
        return self.factor * at(self.schedule, t)

