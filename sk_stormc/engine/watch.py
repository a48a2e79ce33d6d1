"""What a run looks at besides its steps: one answer for finite sums, another for streams."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from sk_stormc.core.schedules import at
from sk_stormc.engine.results import MethodState, StopReason
from sk_stormc.utils.kept import Kept

__all__ = ["Watch", "shortened", "watch_of"]

SAVE_EVERY = 0.1  # seconds between states that are kept for a second Ctrl-C, at the least
SAVE_IFO = 6000  # the same on a stream, which keeps the rows from the last such state on
AGAIN = 3  # times that a run on a stream begins again with shorter steps
SHORTER = 0.25  # steps, each time


def watch_of(source):
    """The `Watch` of runs on a source: here alone the engine asks whether it is a stream."""
    return Watch() if source.finite else StreamWatch()


class Watch:
    """Runs on a finite sum: components never run out, and objectives are of the same components.

    Attributes
    ----------
    runs_out : bool
        Whether components may run out.
    comparable : bool
        Whether the objectives of records are of the same components.
    """

    runs_out = False
    comparable = True

    def begins(self, oracle):
        """What to go back to where a start needs more components than have come, or None."""
        return None

    def has_diverged(self, oracle, run, x):
        """Whether the objective went up beyond chance; asked at each record."""
        return False

    def longest(self, first_length):
        """The residual that makes an overflow where its rounding is longer, from the first that is not 0."""
        return first_length

    def keeps(self, seconds, ifo):
        """Whether to keep the present state, so long after the last that was kept."""
        return seconds >= SAVE_EVERY

    def begins_again(self, solver, oracle, run, reason):
        """Whether a run that stopped has been made ready to begin again."""
        return False

    def leave(self, oracle, run):
        """Leave the run with the problem, if it can go on although no result comes of it."""


class StreamWatch(Watch):
    """Runs on a stream, whose rows may run out, and whose objective is of the last ones.

    Where a run is worse than its start, it begins again with shorter steps.
    """

    runs_out = True
    comparable = False

    def begins(self, oracle):
        """The oracle before the start."""
        return oracle.snapshot()

    def has_diverged(self, oracle, run, x):
        """Compare x with the start on the same rows, and keep the best x so far."""
        fun = run.records[-1][2]
        gain = oracle.problem.objective(run.start) - fun
        if gain > run.best_gain:
            run.best_x, run.best_fun, run.best_gain = x, fun, gain
        return gain < 0 and oracle.source.uphill(x, run.start)

    def longest(self, first_length):
        """Infinite: a stream may start where its first rows have their minimum."""
        return math.inf

    def keeps(self, seconds, ifo):
        """By rows, which are kept as long as the state is."""
        return ifo >= SAVE_IFO

    def begins_again(self, solver, oracle, run, reason):
        """Go on from the best point with shorter steps. A learning rate that the user has set is not touched."""
        automatic = solver.auto("learning_rate", oracle.problem, None) is None
        failed = reason in (StopReason.NON_FINITE, StopReason.DIVERGED)
        if not (failed and automatic and run.times < AGAIN):
            return False
        run.times, run.t_before = run.times + 1, run.t
        run.state = MethodState(run.best_x)
        run.last_checked, run.first_length, run.milestones = -1, 0.0, (None, None)
        return True

    def leave(self, oracle, run):
        """The stream has the state of its last run, also where an exception ended that."""
        run.oracle = oracle.snapshot(last=True)
        oracle.problem.state = run


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
