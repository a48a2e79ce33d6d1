"""What differs between runs on streams and on finite sums."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from sk_stormc.core.schedules import at
from sk_stormc.engine.results import MethodState, StopReason


class StreamPolicy:
    """What differs on a stream, whose rows may be exhausted, and whose objective is
    over its last rows.

    If the objective rises above that at the start, the run restarts with shorter steps.
    The problem stores a state from which the run can continue after an error or an
    interrupt, and the rows since then.
    """

    def __init__(self):
        self.stored_at = -math.inf  # IFO at which the state was last stored

    def init_state(self, loop, x):
        """The method's state at x, or none if there are too few rows so far. After a
        restart, its steps are shorter."""
        oracle, run = loop.oracle, loop.run
        before = oracle.snapshot()
        try:
            state = loop.solver.init_state(oracle, x)
        except EOFError:
            oracle.restore(before)
            loop.reason = StopReason.EXHAUSTED
            return run.state
        if run.n_restarts and state.rule is not None:
            # three restarts, each with a quarter of the rate before
            factor, rate = 0.25**run.n_restarts, state.rule.learning_rate
            shorter = Shortened(rate, factor) if callable(rate) else rate * factor
            state.rule = replace(state.rule, learning_rate=shorter)
        return state

    def has_diverged(self, oracle, run, x):
        """Compare x with the start on the same rows, and store the best x so far.

        The iterate of each record is also compared with the start on the rows since
        then, which have not influenced it.
        """
        fun, source = run.records[-1][2], oracle.source
        if run.recorded is not None:
            before, place = run.recorded
            excess = source.excess(before, run.start, place)
            run.excesses += [] if math.isnan(excess) else [excess]
        run.recorded = x, source.place()
        gain = oracle.problem.objective(run.start) - fun
        if gain > run.best_gain:
            run.best_x, run.best_fun, run.best_gain = x, fun, gain
        return gain < 0 and source.uphill(x, run.start)

    def restarts(self, solver, oracle, run, reason):
        """Restart from the best point with shorter steps, unless the user has set the
        learning rate."""
        automatic = solver.auto("learning_rate", oracle.problem, None) is None
        failed = reason in (StopReason.NON_FINITE, StopReason.DIVERGED)
        if not (failed and automatic and run.n_restarts < 3):
            return False
        run.n_restarts, run.t_before_restart = run.n_restarts + 1, run.t
        run.state = MethodState(run.best_x)
        run.last_processed, run.first_length, run.milestones = -1, 0.0, (None, None)
        run.recorded, run.excesses = None, []
        return True

    def store(self, loop):
        """Store the state by IFO, because rows are kept as long as the state."""
        oracle = loop.oracle
        # storing costs as much as some iterations, and rows between two states stay in
        # memory
        if oracle.ifo - self.stored_at >= 6000:
            oracle.problem.state = loop.snapshot()
            oracle.hold()
            self.stored_at = oracle.ifo

    def store_last(self, oracle, run):
        """Store the last state, even if an exception has ended the run."""
        run.oracle = oracle.snapshot(last=True)
        oracle.hold()
        oracle.problem.state = run


@dataclass(frozen=True)
class Shortened:
    """A schedule multiplied by a factor."""

    schedule: float | Callable
    factor: float

    def __call__(self, t):
        return self.factor * at(self.schedule, t)
