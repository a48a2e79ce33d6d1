"""Bookkeeping of a run: records, budgets, the stopping rule, interrupts."""

import copy
import math
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np

from sk_stormc.core.schedules import at
from sk_stormc.engine.estimates import start
from sk_stormc.engine.guard import look
from sk_stormc.engine.results import Record, StopReason
from sk_stormc.engine.steps import direction

__all__ = ["Loop", "falls_for_ever"]

SAVE_EVERY = 0.1  # seconds between states that a KeyboardInterrupt within an iteration goes back to, at the least
STILL = {8: 1e-6, 4: 1e-2}  # |F| at a point of rest over |F| a thousandth of x away, by the bytes of a float
SAVE_IFO = 6000  # the same on a stream, which keeps the rows from the last such state on
IN_VAIN = 100  # iterations after which an objective known to have no minimum is left, without a budget of the user's
SAVE_AT = 16  # iterations after which the clock is looked at


class Loop:
    """Bookkeeping of one run. `take_stock` is called before every iteration; ``reason`` is None while the run goes on.

    Parameters
    ----------
    solver : CompositionalSolver
    oracle : Oracle
    run : RunState
    record_every : int or None
    on_record : callable or None
    verbose : int
    """

    def __init__(self, solver, oracle, run, record_every, on_record, verbose=0):
        problem = oracle.problem
        self.solver, self.oracle, self.run, self.on_record = solver, oracle, run, on_record
        self.a_pass = 2 * problem.n_inner + problem.n_outer
        self.record_every = record_every or problem.defaults.get("record_every", self.a_pass)
        max_iter = solver.max_iter
        if max_iter is None and solver.max_ifo is None:
            max_iter = problem.defaults.get("max_iter")
        self.unlimited = max_iter is None and solver.max_ifo is None
        self.max_iter, self.max_ifo = max_iter or math.inf, solver.max_ifo or math.inf
        self.eps = float(np.finfo(run.state.x.dtype).eps)
        self.reason = None
        self.interrupted = 0  # times that Ctrl-C was pressed
        self._untold = None  # a record that the callback has not seen
        self._saved_at, self._saved_ifo = time.monotonic(), oracle.ifo
        self.saved = None  # the run and a function that gives its oracle's snapshot
        self._report = Report(self.a_pass) if verbose else None

    # records

    def record(self, x):
        """Record Phi(x) for the iteration of the state."""
        run, t, ifo, fun = self.run, self.run.t, self.oracle.ifo, self.oracle.reported(x)
        run.records.append((t, ifo, fun))
        run.next_record = (ifo // self.record_every + 1) * self.record_every
        if fun < run.best_fun and not (self.oracle.streaming and t):  # other rows are no comparison
            run.best_x, run.best_fun = x, fun
        if self._report is not None:
            self._report.line(t, ifo, fun, self.residual())
        if not math.isfinite(fun):
            self.reason = StopReason.NON_FINITE
        elif self.on_record is not None:
            self._untold = Record(t, ifo, fun, x.copy(), self._snapshot, self._n_left)

    def tell(self):
        """Show the callback a new record, and ask it whether to stop."""
        record, self._untold = self._untold, None
        if record is None:
            return
        try:
            if self.on_record(record):
                self.reason = StopReason.CALLBACK
        except KeyboardInterrupt:
            self.reason = StopReason.INTERRUPTED

    def _snapshot(self):
        """The run as it is now: nothing in it changes when the run goes on."""
        run = copy.copy(self.run)
        run.state, run.records, run.oracle = copy.deepcopy(run.state), list(run.records), self.oracle.snapshot()
        return run

    def _n_left(self):
        cost = self.solver.cost(self.oracle, self.run.state)
        ifo = min((self.max_iter - self.run.t) * cost, self.max_ifo - self.oracle.ifo)
        return ifo / max(self.record_every, cost)

    def residual(self):
        """What tol is compared with, as last measured; NaN before."""
        run = self.run
        if run.measured is None or run.first_residual is None:
            return math.nan
        if not run.first_residual:
            return 0.0
        found = run.measured[1] / run.first_residual
        return found if run.denied is None or found > self.solver.tol else run.denied

    def take_stock(self):
        """Record, measure and count after an iteration; sets ``reason`` where the run is to end."""
        s, run = self.run.state, self.run
        if s.t > run.last_checked:
            run.last_checked = s.t
            self._look(s)
        if self.reason is None and self.solver.tol and self._converged(s):
            self.reason = StopReason.CONVERGED
        if self.reason is None and self.interrupted:
            self.reason = StopReason.INTERRUPTED
        if self.unlimited:
            self.max_iter, passes = self.solver.safety_net(self.oracle, s)
            self.max_ifo = passes * self.a_pass
            if s.t == IN_VAIN and math.isinf(self.max_ifo) and self.oracle.problem.unbounded_below():
                self.max_iter = IN_VAIN
        if self.reason is None:
            if run.t >= self.max_iter:
                self.reason = StopReason.MAX_ITER
            else:
                self.reserve(self.solver.cost(self.oracle, s))

    def reserve(self, ifo):
        """Set ``reason`` where so much more IFO would exceed max_ifo, or what a stream has left."""
        if self.oracle.ifo + ifo > self.max_ifo:
            self.reason = StopReason.MAX_IFO
        elif not self.oracle.lasts(ifo):
            self.reason = StopReason.EXHAUSTED

    def _look(self, s):
        run, oracle, t, residual = self.run, self.oracle, s.t, s.residual
        if oracle.log_scale is not None:
            oracle.follow_unit(s)
        if residual is not None:
            if t:
                run.first_length = run.first_length or residual
                # NaN, or nothing of the start is left; a stream may start where its first rows have their minimum
                if not residual * self.eps <= (math.inf if self.oracle.streaming else run.first_length):
                    self.reason = StopReason.NON_FINITE
                    return
            self._measure(s)
        if t and oracle.ifo >= run.next_record:
            self.record(s.x)
            if oracle.streaming and self.reason is None and look(oracle, run, s.x):
                self.reason = StopReason.DIVERGED
        if t & (t - 1) == 0:
            run.milestones = (run.milestones[1], s.x)
        if t % SAVE_AT == 0:
            self._save()
        self.tell()

    # the stopping rule

    def _measure(self, s):
        """Take the residual as it is at an anchor, else its average over a pass where one is complete."""
        run, value = self.run, s.residual
        if s.at_anchor is None:
            total, number, end = run.window
            total, number = total + value, number + 1
            end = self.oracle.ifo + self.a_pass if end is None else end
            if self.oracle.ifo < end:
                run.window = (total, number, end)
                return
            value, run.window = total / number, (0.0, 0, None)
        elif not s.at_anchor:
            return
        run.measured = (s.t, value)
        if run.first_residual is None:
            run.first_residual = value

    def _converged(self, s):
        run, tol = self.run, self.solver.tol
        if s.t == 0 or run.measured is None or run.measured[0] != s.t:
            return False
        far = run.measured[1] > tol * run.first_residual
        # steps that do not move x tell of its rounding, or of a learning rate far too small
        still = s.at_anchor and s.rule is not None and self._is_rounding(s, s.residual)
        if still and (far or self._is_rounding(s, run.first_residual)):
            agreed = run.confirmed == s.t or self.at_rest(s)
        elif far:
            return False
        elif s.at_anchor or self.oracle.streaming or not self.solver.confirms:
            return True
        else:
            agreed = run.confirmed == s.t or self._confirmed(s)
        run.confirmed = s.t if agreed else -1
        return agreed

    def _is_rounding(self, s, residual):
        """Whether a step of that residual would only move x by its rounding."""
        rate = at(s.rule.learning_rate, s.t)  # 0 at the end of a schedule, where a step says nothing
        size = self.oracle.metric.at(s.x, s.t).size(s.x)
        return rate > 0 and rate * residual <= 4 * self.eps * size

    def at_rest(self, s):
        """Whether steps that move x by a thousandth are far longer there than here: else only the rate is tiny."""
        problem, metric = self.oracle.problem, self.oracle.metric.at(s.x, s.t)
        signs = np.where(np.arange(s.x.size) % 2, -1e-3, 1e-3).astype(s.x.dtype)
        y = s.x + signs * abs(s.x)
        y = y if problem.penalty is None else problem.penalty.project(y)
        found = self._full_gradients(s, [s.x, y])
        if found is None:
            return False
        here, there = found
        length = math.sqrt(max(float(there @ metric.apply(there)), 0.0))
        rate = 1e-3 * metric.size(s.x) / length if length else 0.0
        if not 0 < rate < math.inf:
            return False
        here, there = (direction(problem, metric, x, F, rate).length for x, F in ((s.x, here), (y, there)))
        return here <= STILL[s.x.dtype.itemsize] * there

    def _confirmed(self, s):
        """Whether a full gradient agrees with estimates that say that the run is at its end."""
        found = self._full_gradients(s, [s.x])
        if found is None:
            return False
        rate = 1.0 if s.rule is None else at(s.rule.learning_rate, s.t)
        metric = self.oracle.metric.at(s.x, s.t)
        length = direction(self.oracle.problem, metric, s.x, found[0], rate).length
        first = self.run.first_residual
        # the first is 0 where no step is possible, as on the simplex of one variable
        if length <= self.solver.tol * first or (not first and self._is_rounding(s, length)):
            return True
        self.run.denied = length / first if first else math.inf
        return False

    def _full_gradients(self, s, points):
        """F at some points on all data, charged; None where that would exceed max_ifo.

        None, too, until there have been twice the IFO of the time before.
        """
        run, oracle = self.run, self.oracle
        size = None, 0 if oracle.problem.jacobian_kind == "constant" else None, None
        if oracle.ifo < run.ask_again or oracle.ifo + len(points) * oracle.cost(size) > self.max_ifo:
            return None
        found = [start(oracle, x, size).F for x in points]
        if s.log_scale != oracle.log_scale:  # all components may show that u has left the range of its unit
            s.to_unit(oracle.log_scale)
        run.ask_again = 2 * oracle.ifo
        return found

    # interrupts

    def _save(self):
        """Keep what a KeyboardInterrupt within an iteration goes back to; a stream keeps the rows from there on."""
        now, ifo = time.monotonic(), self.oracle.ifo
        due = ifo - self._saved_ifo >= SAVE_IFO if self.oracle.streaming else now - self._saved_at >= SAVE_EVERY
        if due:
            run = self._snapshot()
            self.saved, self._saved_at, self._saved_ifo = (run, lambda: run.oracle), now, ifo
            self.oracle.hold()

    def go_back(self):
        """Return to the run as it was last saved: an iteration was left half done."""
        self.run, snapshot = self.saved
        self.oracle.restore(snapshot())
        self.reason = StopReason.INTERRUPTED

    @contextmanager
    def listening(self):
        """Let Ctrl-C end the run after the present iteration; a second one goes back to the last state saved."""
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def note(signum, frame):
            self.interrupted += 1
            # a run that is on its way out, or back, must not be disturbed
            if self.interrupted == 2 and self.reason is None:
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class Report:
    """The lines of verbose=1, one a record."""

    def __init__(self, a_pass):
        self.a_pass, self.began = a_pass, time.perf_counter()
        print(f"{'iteration':>10}{'passes':>10}{'objective':>16}{'residual':>12}{'seconds':>10}")

    def line(self, t, ifo, fun, residual):
        """Print a record; a stream has no passes."""
        passes = f"{ifo / self.a_pass:10.2f}" if math.isfinite(self.a_pass) else f"{'-':>10}"
        seen = f"{residual:12.2e}" if math.isfinite(residual) else f"{'-':>12}"
        print(f"{t:10d}{passes}{fun:16.8g}{seen}{time.perf_counter() - self.began:10.2f}", flush=True)


def falls_for_ever(problem, run, x, fun):
    """Whether Phi is unbounded below: the problem knows, or it falls in proportion along the way of the run.

    The way from the milestone before the last is made longer by the factors 1e8 and 1e10. So far out a bounded
    objective has turned up again, even where the steps were far too short.
    """
    known = problem.unbounded_below()
    if known is not None:
        return known
    way = x - (x if run.milestones[0] is None else run.milestones[0])
    if abs(way).max() <= 16 * np.finfo(x.dtype).eps * abs(x).max():
        return False  # rounding leads nowhere

    def fall(s):
        point = x + s * way
        return fun - problem.objective(point if problem.penalty is None else problem.penalty.project(point))

    return fall(1e8) > 0 and fall(1e10) > 10 * fall(1e8)
