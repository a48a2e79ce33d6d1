"""The part of a run's loop that differs between finite sums and streams."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from sk_stormc.core.schedules import at
from sk_stormc.engine.results import MethodState, StopReason

__all__ = ["Watch", "shortened", "watch_of"]

SAVE_EVERY = 0.1  # minimum number of seconds between states that are saved for a second Ctrl-C
SAVE_IFO = 6000  # the same in IFO for a stream, which keeps the rows since the last saved state
AGAIN = 3  # how often a run on a stream restarts with shorter steps
SHORTER = 0.25  # factor of the learning rate at each restart


def watch_of(source):
    """The `Watch` of runs on a source. Only here the engine distinguishes streams from finite sums."""
    return Watch() if source.finite else StreamWatch()


class Watch:
    """Runs on a finite sum, whose components are never exhausted, and whose records all have the same objective.

    Attributes
    ----------
    runs_out : bool
        Whether the components may be exhausted.
    comparable : bool
        Whether the objectives of all records are over the same components.
    """

    runs_out = False
    comparable = True

    def begins(self, oracle):
        """A snapshot to return to if the start needs more components than there are, or None."""
        return None

    def has_diverged(self, oracle, run, x):
        """Whether the objective has increased significantly. It is called at each record."""
        return False

    def longest(self, first_length):
        """The limit of eps * residual beyond which a residual is an overflow, from the first that is not 0."""
        return first_length

    def keeps(self, seconds, ifo):
        """Whether to save the current state, given the time and the IFO since the last one was saved."""
        return seconds >= SAVE_EVERY

    def begins_again(self, solver, oracle, run, reason):
        """Whether a run that has stopped restarts. If so, its state is reset."""
        return False

    def leave(self, oracle, run):
        """Store the run in the problem, if it can continue without a result."""


class StreamWatch(Watch):
    """Runs on a stream, whose rows may be exhausted, and whose objective is over its last rows.

    If a run becomes worse than its start, it restarts with shorter steps.
    """

    runs_out = True
    comparable = False

    def begins(self, oracle):
        """A snapshot of the oracle before the start."""
        return oracle.snapshot()

    def has_diverged(self, oracle, run, x):
        """Compare x with the start on the same rows, and store the best x so far."""
        fun = run.records[-1][2]
        gain = oracle.problem.objective(run.start) - fun
        if gain > run.best_gain:
            run.best_x, run.best_fun, run.best_gain = x, fun, gain
        return gain < 0 and oracle.source.uphill(x, run.start)

    def longest(self, first_length):
        """Infinity, because a stream may start at the minimum of its first rows."""
        return math.inf

    def keeps(self, seconds, ifo):
        """Whether to save the current state, by IFO, because rows are kept as long as the state."""
        return ifo >= SAVE_IFO

    def begins_again(self, solver, oracle, run, reason):
        """Restart from the best point with shorter steps, unless the user has set the learning rate."""
        automatic = solver.auto("learning_rate", oracle.problem, None) is None
        failed = reason in (StopReason.NON_FINITE, StopReason.DIVERGED)
        if not (failed and automatic and run.times < AGAIN):
            return False
        run.times, run.t_before = run.times + 1, run.t
        run.state = MethodState(run.best_x)
        run.last_checked, run.first_length, run.milestones = -1, 0.0, (None, None)
        return True

    def leave(self, oracle, run):
        """Store the state of the run in the stream, even if an exception has ended the run."""
        run.oracle = oracle.snapshot(last=True)
        oracle.problem.state = run


def shortened(rule, times):
    """The `StepRule` after ``times`` restarts with shorter steps."""
    factor, rate = SHORTER**times, rule.learning_rate
    return replace(rule, learning_rate=Shortened(rate, factor) if callable(rate) else rate * factor)


@dataclass(frozen=True)
class Shortened:
    """A schedule multiplied by a factor."""

    schedule: float | Callable
    factor: float

    def __call__(self, t):
        return self.factor * at(self.schedule, t)
