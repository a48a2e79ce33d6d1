"""When a run has converged: one rule for all methods.

What is compared with tol is |x~ - x| / eta, the length of the step that the method would take from x, over that at x_0.
It is measured wherever the oracle has evaluated F at x on all data, where F is exact, and else as the average of a
method's own estimates over a pass. Only exact values say that a run has converged: where estimates say so, a full
gradient is charged at the point that would be returned, and another at x_0 if none is known there. If these do not
agree, the run goes on, and the next full gradient is taken after twice as many IFO.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sk_stormc.core.schedules import at
from sk_stormc.engine.estimates import start
from sk_stormc.engine.steps import direction
from sk_stormc.utils.kept import Kept

__all__ = ["Stopping", "StoppingRule"]

STILL = {8: 1e-6, 4: 1e-2}  # |F| at a point of rest over |F| a thousandth of x away, by the bytes of a float
NEAR = 16  # roundings by which two points may differ that are meant to be one


@dataclass
class Stopping(Kept):
    """All that the rule knows of a run; plain data.

    Attributes
    ----------
    first : float or None
        |x~ - x| / eta at x_0 with an exact F, which tol is relative to; None while it is not known.
    seen, began : float or None
        The first exact value, wherever it was, and the first average. Exact values are over ``seen`` while ``first`` is
        not known; averages are over ``began``, which has the noise of estimates as they have.
    value : float or None
        The last value that was measured.
    exact : bool
        Whether ``value`` is of an exact F.
    measured : int
        The iteration at which it was.
    total, number, begins, ends : float, int, float, float
        Sum and number of the estimates in the present average, and the IFO at which its pass begins and ends. It begins
        a pass after the last exact F at the soonest: some methods have one in each epoch, and are compared there.
    asked : int
        The iteration at which an exact F was last compared with that at x_0.
    found : float
        What it said: the exact value over ``first``.
    ask_again : float
        IFO from which full gradients may be charged again.
    rested : int
        The iteration at which x was found to be at rest but for rounding.
    answer : ndarray of shape (n_variables,) or None
        The point that all this was said of, to be returned if the run has converged.
    """

    first: float | None = None
    seen: float | None = None
    began: float | None = None
    value: float | None = None
    exact: bool = False
    measured: int = -1
    total: float = 0.0
    number: int = 0
    begins: float = 0.0
    ends: float = 0.0
    asked: int = -1
    found: float = math.nan
    ask_again: float = 0.0
    rested: int = -1
    answer: np.ndarray | None = None


class StoppingRule:
    """Whether a run has converged. `watch` is called once after each iteration, then `converged`.

    Parameters
    ----------
    solver : CompositionalSolver
    oracle : Oracle
    run : RunState
        Its ``stopping`` is what the rule knows.
    loop : Loop
        Whose ``max_ifo`` no full gradient exceeds.
    """

    def __init__(self, solver, oracle, run, loop):
        self.solver, self.oracle, self.run, self.loop = solver, oracle, run, loop
        problem = oracle.problem
        self.a_pass = 2 * problem.n_inner + problem.n_outer
        self.eps = float(np.finfo(run.start.dtype).eps)

    # what is measured

    def watch(self, s):
        """Measure the point that an iteration has led to, or average the estimates on the way.

        Streams have no F on all data and no pass: nothing is ever measured there.
        """
        known, oracle = self.run.stopping, self.oracle
        if oracle.exact and self._measure(s):
            return
        if s.residual is None or oracle.ifo < known.begins:
            return
        if not known.number:
            known.ends = oracle.ifo + self.a_pass
        known.total += s.residual
        known.number += 1
        if oracle.ifo >= known.ends:
            self._keep(s, known.total / known.number, exact=False)

    def _measure(self, s):
        """Take the value at ``s.x``, if F is exact there; whether it is, or was when the run was last there."""
        known, evaluated = self.run.stopping, list(self.oracle.exact)
        self.oracle.exact.clear()
        if known.first is None:
            F = self._among(evaluated, self.run.start)
            known.first = None if F is None else self.solver.length(self.oracle, s, self.run.start, F)
        F = self._among(evaluated, s.x)
        if F is None:
            back = known.exact and self._same(s.x, known.answer)  # from where F was evaluated
            if back:
                known.measured, known.number, known.total = s.t, 0, 0.0
            return back
        first = known.seen if known.first is None else known.first
        # in a metric that changes a length costs about an iteration: it is taken where the method's own is small
        small = s.residual is None or first is None or s.residual <= self.solver.tol * first
        measures = small or self.oracle.metric.stays
        self._keep(s, self.solver.length(self.oracle, s, s.x, F) if measures else s.residual, exact=True)
        known.answer = s.x
        known.begins = self.oracle.ifo + self.a_pass if s.t else 0.0
        if measures and known.first is not None:
            self._compare(s, s.x, known.value)
        return True

    def _among(self, evaluated, x):
        """F at x, if it is among these points."""
        return next((F for point, F in reversed(evaluated) if self._same(point, x)), None)

    def _same(self, x, y):
        """Whether two points are one, but for the roundings of two ways to it."""
        return x is y or bool(abs(x - y).max() <= NEAR * self.eps * abs(y).max())

    def _keep(self, s, value, exact):
        known = self.run.stopping
        known.value, known.exact, known.measured = value, exact, s.t
        known.number, known.total = 0, 0.0
        if exact and known.seen is None:
            known.seen = value
        elif not exact and known.began is None:
            known.began = value

    def _first(self):
        """What the last value is over; None before there is one."""
        known = self.run.stopping
        if not known.exact:
            return known.began
        return known.seen if known.first is None else known.first

    # what is said of it

    def converged(self, s):
        """Whether the run has converged where it is; full gradients are charged where only estimates say so."""
        known, tol = self.run.stopping, self.solver.tol
        if not s.t or known.measured != s.t:
            return False
        first = self._first()
        far = not known.value <= tol * first
        # steps that do not move x tell of its rounding, or of a learning rate far too small
        still = known.exact and s.rule is not None and self._is_rounding(s, known.value)
        if still and (far or self._is_rounding(s, first)):
            return self.at_rest(s)
        if far:
            return False
        if known.exact:
            return self._agrees_at(s)
        if known.asked != s.t:
            self._ask(s, self.solver.finish(self.oracle, s))
        return self._agreed(s)

    def _agreed(self, s):
        known = self.run.stopping
        return known.asked == s.t and known.found <= self.solver.tol

    def _agrees_at(self, s):
        """Whether the exact value at ``s.x`` is small enough; what the method makes of that point is then asked for."""
        known = self.run.stopping
        if known.asked != s.t:  # F was exact here, but not at x_0
            self._ask(s, s.x)
        if not self._agreed(s):
            return False
        x = self.solver.finish(self.oracle, s)
        if x is not s.x and known.answer is s.x:
            at_x = known.found
            known.ask_again = 0.0  # the run ends, whatever it says
            self._ask(s, x)
            if not known.found <= self.solver.tol:
                known.found, known.answer = at_x, s.x
        return True

    def _ask(self, s, x):
        """Charge a full gradient at x, and at x_0 if none is known there, and compare them."""
        known = self.run.stopping
        points = [x] if known.first is not None else [x, self.run.start]
        gradients = self._full_gradients(s, points)
        if gradients is None:
            return
        lengths = [self.solver.length(self.oracle, s, y, F) for y, F in zip(points, gradients, strict=True)]
        known.first = lengths[-1] if known.first is None else known.first
        self._compare(s, x, lengths[0])

    def _compare(self, s, x, length):
        """Keep what the exact value at x is over that at x_0, which is 0 where no step is possible."""
        known = self.run.stopping
        known.asked, known.answer = s.t, x
        if known.first:
            known.found = length / known.first
        else:
            none = not length or (s.rule is not None and self._is_rounding(s, length))
            known.found = 0.0 if none else math.inf

    def residual(self):
        """What is compared with tol, as last measured; NaN before. Where estimates were denied, what denied them."""
        known, first = self.run.stopping, self._first()
        if known.value is None or first is None:
            return math.nan
        if not first:
            return 0.0
        value = known.value / first
        return value if known.asked < 0 or value > self.solver.tol else known.found

    # rounding

    def _is_rounding(self, s, value):
        """Whether a step of that value would only move x by its rounding."""
        rate = at(s.rule.learning_rate, s.t)  # 0 at the end of a schedule, where a step says nothing
        return rate > 0 and rate * value <= 4 * self.eps * self.oracle.metric.at(s.x, s.t).size(s.x)

    def at_rest(self, s):
        """Whether steps that move x by a thousandth are far longer there than here: else only the rate is tiny."""
        known = self.run.stopping
        if known.rested == s.t:
            return True
        problem, metric = self.oracle.problem, self.oracle.metric.at(s.x, s.t)
        signs = np.where(np.arange(s.x.size) % 2, -1e-3, 1e-3).astype(s.x.dtype)
        y = s.x + signs * abs(s.x)
        y = y if problem.penalty is None else problem.penalty.project(y)
        found = self._full_gradients(s, [s.x, y])
        if found is None:
            return False
        here, there = found
        if not here.any() and problem.penalty is None:
            known.rested, known.answer = s.t, s.x
            return True
        length = math.sqrt(max(float(there @ metric.apply(there)), 0.0))
        rate = 1e-3 * metric.size(s.x) / length if length else 0.0
        if not 0 < rate < math.inf:
            return False
        here, there = (direction(problem, metric, x, F, rate).length for x, F in ((s.x, here), (y, there)))
        if here <= STILL[s.x.dtype.itemsize] * there:
            known.rested, known.answer = s.t, s.x
        return known.rested == s.t

    def _full_gradients(self, s, points):
        """F at some points on all data, charged; None where that would exceed max_ifo.

        None, too, until there have been twice the IFO of the time before.
        """
        known, oracle = self.run.stopping, self.oracle
        size = None, 0 if oracle.problem.jacobian_kind == "constant" else None, None
        ifo = len(points) * oracle.cost(size)
        if not oracle.source.finite or oracle.ifo < known.ask_again or oracle.ifo + ifo > self.loop.max_ifo:
            return None
        found = [start(oracle, x, size).F for x in points]
        oracle.exact.clear()
        known.ask_again = 2 * oracle.ifo
        return found
