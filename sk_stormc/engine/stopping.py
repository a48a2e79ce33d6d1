"""The convergence test, one rule for all methods.

The quantity that is compared with tol is the residual |x~ - x| / eta, the length of the step that the method would make
from x divided by eta, relative to that at x_0. It is exact if the oracle has evaluated F at x on all data. Otherwise it
is estimated by the average of a method's own estimates over a pass. Only exact values decide that a run has converged.
If estimates suggest it, a full gradient is computed and counted at the point that would be returned, and another at x_0
if none is known there. If these do not confirm it, the run continues, and the next full gradient is computed after
twice as many IFO.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sk_stormc.core.schedules import at
from sk_stormc.engine.estimates import start
from sk_stormc.engine.steps import direction

__all__ = ["Stopping", "StoppingRule"]

STILL = {8: 1e-6, 4: 1e-2}  # ratio of |F| at a stationary point to |F| nearby, by the bytes of a float
NEAR = 16  # machine epsilons by which two points may differ that count as equal


@dataclass
class Stopping:
    """The state of the stopping rule, as plain data.

    Attributes
    ----------
    first : float or None
        |x~ - x| / eta at x_0 with an exact F, to which tol is relative. None if it is not known yet.
    seen, began : float or None
        The first exact value at any point, and the first average. Exact values are relative to ``seen`` while ``first``
        is not known. Averages are relative to ``began``, which has the same noise.
    value : float or None
        The last value that was measured.
    exact : bool
        Whether ``value`` is from an exact F.
    measured : int
        The iteration at which it was measured.
    total, number, begins, ends : float, int, float, float
        Sum and number of the estimates in the current average, and the IFO at which its pass begins and ends. It begins
        at least one pass after the last exact F, because methods with an exact F in each epoch are tested there.
    asked : int
        The iteration at which an exact F was last compared with that at x_0.
    found : float
        The result of this comparison: the exact value divided by ``first``.
    ask_again : float
        IFO from which full gradients may be computed again.
    rested : int
        The iteration at which x was found to be stationary up to rounding.
    answer : ndarray of shape (n_variables,) or None
        The point of the last exact value, which is returned if the run has converged.
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
    """The convergence test. `watch` is called once after each iteration, and then `converged`.

    Parameters
    ----------
    solver : CompositionalSolver
    oracle : Oracle
    run : RunState
        Its ``stopping`` is the state of the rule.
    loop : Loop
        Full gradients do not exceed its ``max_ifo``.
    """

    def __init__(self, solver, oracle, run, loop):
        self.solver, self.oracle, self.run, self.loop = solver, oracle, run, loop
        problem = oracle.problem
        self.a_pass = 2 * problem.n_inner + problem.n_outer
        self.eps = float(np.finfo(run.start.dtype).eps)

    # measuring

    def watch(self, s):
        """Measure the residual after an iteration if F is exact there, or add the estimate to the average.

        Streams have neither an exact F nor passes, so nothing is measured there.
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
        """Measure the residual at ``s.x`` if F is exact there. Return whether it is, or was at an earlier visit."""
        known, evaluated = self.run.stopping, list(self.oracle.exact)
        self.oracle.exact.clear()
        if known.first is None:
            F = self._among(evaluated, self.run.start)
            known.first = None if F is None else self.solver.length(self.oracle, s, self.run.start, F)
        F = self._among(evaluated, s.x)
        if F is None:
            back = known.exact and self._same(s.x, known.answer)  # the run has returned to the last exact point
            if back:
                known.measured, known.number, known.total = s.t, 0, 0.0
            return back
        first = known.seen if known.first is None else known.first
        # with a metric that changes, a length costs about an iteration, so it is computed only if the estimate is small
        small = s.residual is None or first is None or s.residual <= self.solver.tol * first
        measures = small or self.oracle.metric.stays
        value = s.residual
        if measures:
            at_start = not s.t and s.x is self.run.start and known.first is not None
            value = known.first if at_start else self.solver.length(self.oracle, s, s.x, F)
        self._keep(s, value, exact=True)
        known.answer = s.x
        known.begins = self.oracle.ifo + self.a_pass if s.t else 0.0
        if measures and known.first is not None:
            self._compare(s, s.x, known.value)
        return True

    def _among(self, evaluated, x):
        """F at x, if x is among these points, and otherwise None."""
        return next((F for point, F in reversed(evaluated) if self._same(point, x)), None)

    def _same(self, x, y):
        """Whether two points are equal up to rounding."""
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
        """The value to which the last one is relative, or None before there is one."""
        known = self.run.stopping
        if not known.exact:
            return known.began
        return known.seen if known.first is None else known.first

    # deciding

    def converged(self, s):
        """Whether the run has converged. If only estimates suggest it, full gradients are computed and counted."""
        known, tol = self.run.stopping, self.solver.tol
        if not s.t or known.measured != s.t:
            return False
        first = self._first()
        far = not known.value <= tol * first
        # steps that do not move x mean that it is stationary up to rounding, or that the learning rate is far too small
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
        """Whether the exact value at ``s.x`` is small enough. If so, that at the method's final point is computed."""
        known = self.run.stopping
        if known.asked != s.t:  # F was exact here, but not at x_0
            self._ask(s, s.x)
        if not self._agreed(s):
            return False
        x = self.solver.finish(self.oracle, s)
        if x is not s.x and known.answer is s.x:
            at_x = known.found
            known.ask_again = 0.0  # the run ends for any result
            self._ask(s, x)
            if not known.found <= self.solver.tol:
                known.found, known.answer = at_x, s.x
        return True

    def _ask(self, s, x):
        """Compute full gradients at x, and at x_0 if none is known there, and compare the residuals."""
        known = self.run.stopping
        points = [x] if known.first is not None else [x, self.run.start]
        gradients = self._full_gradients(s, points)
        if gradients is None:
            return
        lengths = [self.solver.length(self.oracle, s, y, F) for y, F in zip(points, gradients, strict=True)]
        known.first = lengths[-1] if known.first is None else known.first
        self._compare(s, x, lengths[0])

    def _compare(self, s, x, length):
        """Store the exact value at x relative to that at x_0. It is 0 if no step is possible at x_0."""
        known = self.run.stopping
        known.asked, known.answer = s.t, x
        if known.first:
            known.found = length / known.first
        else:
            none = not length or (s.rule is not None and self._is_rounding(s, length))
            known.found = 0.0 if none else math.inf

    def residual(self):
        """The last value of the quantity that is compared with tol, or NaN.

        If full gradients have contradicted the estimates, it is the value from full gradients.
        """
        known, first = self.run.stopping, self._first()
        if known.value is None or first is None:
            return math.nan
        if not first:
            return 0.0
        value = known.value / first
        return value if known.asked < 0 or value > self.solver.tol else known.found

    # rounding

    def _is_rounding(self, s, value):
        """Whether a step of this residual would move x by rounding errors only."""
        rate = at(s.rule.learning_rate, s.t)  # 0 at the end of a schedule, where the length of a step has no meaning
        return rate > 0 and rate * value <= 4 * self.eps * self.oracle.metric.at(s.x, s.t).size(s.x)

    def at_rest(self, s):
        """Whether x is stationary up to rounding, and not only the learning rate tiny.

        The residual at x is compared with that at a point that differs from x by a thousandth.
        """
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
        """F at some points on all data, which is counted.

        None if that would exceed max_ifo, or if fewer than twice the IFO of the last time have been made.
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
