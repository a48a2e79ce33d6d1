"""The convergence tests: one rule for all iterative methods, and `Gap` for the exact
ones.

The quantity that is compared with tol is the residual |x~ - x| / eta, the length of the
step that the method would make from x divided by eta, relative to that at x_0. It is
exact if the oracle has evaluated F at x on all data. Otherwise it is estimated by the
average of a method's own estimates over a pass. Only exact values decide that a run has
converged. If estimates suggest convergence, a full gradient is computed and counted at
the point that would be returned, and another one at x_0 if it was not computed before.
If the full gradients do not confirm convergence, the run continues, and the next full
gradient is computed after twice as many IFO.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from sk_stormc.core.penalties import projected
from sk_stormc.core.schedules import at
from sk_stormc.engine.steps import start, step_direction

# part of the scale of a gap up to which rounding explains it; more is said
MOST_ROUNDING = 1e-3


@dataclass(frozen=True)
class Gap:
    """What is known of a minimum, lower <= minimum <= value: the stopping rule of exact
    methods, and what their fits state."""

    value: float
    lower: float
    scale: float  # to which tol is relative
    tol: float
    rounding: float = 0.0  # size of rounding errors of both

    @property
    def size(self):
        """An upper bound of value - minimum. Where it is small, rounding does not make
        it negative. It is infinite if the bounds contradict each other."""
        if self.contradiction:
            return math.inf
        size = self.value - self.lower
        return max(size, 0.0) if self.is_small else size

    @property
    def is_small(self):
        """Whether the bounds are equal up to tol and rounding, which never counts more
        than a small part of the scale, unless that is 0."""
        size = abs(self.value - self.lower)
        rounding = min(self.rounding, MOST_ROUNDING * self.scale or np.inf)
        return bool(size <= self.tol * self.scale + rounding)

    @property
    def contradiction(self):
        """By how much the lower bound is above the value if tol and rounding do not
        explain it, and otherwise 0. Such bounds prove nothing."""
        return 0.0 if self.is_small else max(0.0, self.lower - self.value)


@dataclass
class Stopping:
    """The state of the stopping rule, as plain data.

    Attributes
    ----------
    first : float or None
        |x~ - x| / eta at x_0 with an exact F, to which tol is relative. None if it was
        not computed yet.
    first_exact, first_average : float or None
        The first exact value at any point, and the first average. Exact values are
        relative to ``first_exact`` while ``first`` is None. Averages are relative to
        ``first_average``, which has the same noise.
    value : float or None
        The last measured value.
    exact : bool
        Whether ``value`` is from an exact F.
    measured_at : int
        The iteration at which it was measured.
    total, number, average_from, average_until : float, int, float, float
        Sum and number of the estimates in the current average, and the IFO at which its
        pass begins and ends. It begins at least one pass after the last exact F,
        because methods with an exact F in each epoch are tested there.
    compared_at : int
        The iteration at which an exact value was last compared with ``first``.
    ratio : float
        The result of this comparison: the exact value divided by ``first``.
    next_comparison : float
        IFO from which full gradients may be computed again.
    stationary_at : int
        The iteration at which x was stationary up to rounding.
    point : ndarray of shape (n_variables,) or None
        The point of the last exact value, which is returned if the run has converged.
    """

    first: float | None = None
    first_exact: float | None = None
    first_average: float | None = None
    value: float | None = None
    exact: bool = False
    measured_at: int = -1
    total: float = 0.0
    number: int = 0
    average_from: float = 0.0
    average_until: float = 0.0
    compared_at: int = -1
    ratio: float = math.nan
    next_comparison: float = 0.0
    stationary_at: int = -1
    point: np.ndarray | None = None


def point_beside(problem, x):
    """A feasible point of which each variable differs from x by about a thousandth."""
    signs = np.where(np.arange(x.size) % 2, -1e-3, 1e-3).astype(x.dtype)
    return projected(problem.penalty, x + signs * abs(x))


class StoppingRule:
    """The convergence test. After each iteration `measure` is called once, and then
    `converged`.

    Parameters
    ----------
    loop : Loop
        The loop of the run. Full gradients do not exceed its ``max_ifo``.
    """

    def __init__(self, loop):
        self.solver, self.oracle = loop.solver, loop.oracle
        self.run, self.loop = loop.run, loop
        self.eps = float(np.finfo(loop.run.start.dtype).eps)

    # measuring

    def measure(self, s):
        """Measure the residual after an iteration if F is exact there, or add the
        estimate to the average.

        Streams have neither an exact F nor passes, so nothing is measured for them.
        """
        stopping, oracle = self.run.stopping, self.oracle
        if oracle.exact and self._measure_exact(s):
            return
        if s.residual is None or oracle.ifo < stopping.average_from:
            return
        if not stopping.number:
            stopping.average_until = oracle.ifo + self.loop.pass_ifo
        stopping.total += s.residual
        stopping.number += 1
        if oracle.ifo >= stopping.average_until:
            self._store(s, stopping.total / stopping.number, exact=False)

    def _measure_exact(self, s):
        """Measure the residual at ``s.x`` if F is exact there. Return whether ``s.x``
        has an exact value."""
        stopping, evaluated = self.run.stopping, list(self.oracle.exact)
        self.oracle.exact.clear()
        if stopping.first is None:
            F = self._exact_at(evaluated, self.run.start)
            if F is not None:
                stopping.first = self.solver.length(self.oracle, s, self.run.start, F)
        F = self._exact_at(evaluated, s.x)
        if F is None:
            has_returned = stopping.exact and self._same(s.x, stopping.point)
            if has_returned:
                stopping.measured_at, stopping.number, stopping.total = s.t, 0, 0.0
            return has_returned
        first = stopping.first_exact if stopping.first is None else stopping.first
        # with a preconditioner that changes, a length costs about an iteration, so it
        # is computed only if the estimate is small
        small = (
            s.residual is None or first is None or s.residual <= self.solver.tol * first
        )
        measures = small or self.oracle.preconditioner.stays
        value = self.solver.length(self.oracle, s, s.x, F) if measures else s.residual
        self._store(s, value, exact=True)
        stopping.point = s.x
        stopping.average_from = self.oracle.ifo + self.loop.pass_ifo if s.t else 0.0
        if measures and stopping.first is not None:
            self._store_ratio(s, s.x, stopping.value)
        return True

    def _exact_at(self, evaluated, x):
        """F at x if x is one of the evaluated points, and otherwise None."""
        return next(
            (F for point, F in reversed(evaluated) if self._same(point, x)), None
        )

    def _same(self, x, y):
        """Whether two points are equal up to rounding."""
        return x is y or bool(abs(x - y).max() <= 16 * self.eps * abs(y).max())

    def _store(self, s, value, exact):
        stopping = self.run.stopping
        stopping.value, stopping.exact, stopping.measured_at = value, exact, s.t
        stopping.number, stopping.total = 0, 0.0
        if exact and stopping.first_exact is None:
            stopping.first_exact = value
        elif not exact and stopping.first_average is None:
            stopping.first_average = value

    def _reference(self):
        """The value to which the last one is relative, or None before there is one."""
        stopping = self.run.stopping
        if not stopping.exact:
            return stopping.first_average
        return stopping.first_exact if stopping.first is None else stopping.first

    # deciding

    def converged(self, s):
        """Whether the run has converged. If only estimates suggest it, full gradients
        are computed and counted."""
        stopping, tol = self.run.stopping, self.solver.tol
        if not s.t or stopping.measured_at != s.t:
            return False
        first = self._reference()
        far = not stopping.value <= tol * first
        # if steps do not move x, it is stationary up to rounding, or the learning rate
        # is far too small
        at_rounding = stopping.exact and self._is_rounding(s, stopping.value)
        if at_rounding and (far or self._is_rounding(s, first)):
            return self.is_stationary(s)
        if far:
            return False
        if stopping.exact:
            return self._confirms_at(s)
        if stopping.compared_at != s.t:
            self._compare_full_gradients(s, self.solver.finish(self.oracle, s))
        return self._is_confirmed(s)

    def _is_confirmed(self, s):
        stopping = self.run.stopping
        return stopping.compared_at == s.t and stopping.ratio <= self.solver.tol

    def _confirms_at(self, s):
        """Whether the exact value at ``s.x`` is small enough. The run then returns the
        method's final point if the value there is as small, and otherwise ``s.x``."""
        stopping = self.run.stopping
        if stopping.compared_at != s.t:  # F is exact at s.x, but not at x_0
            self._compare_full_gradients(s, s.x)
        if not self._is_confirmed(s):
            return False
        x = self.solver.finish(self.oracle, s)
        if not np.array_equal(x, s.x):
            ratio = stopping.ratio
            stopping.next_comparison = 0.0  # the run ends for any result
            self._compare_full_gradients(s, x)
            if not stopping.ratio <= self.solver.tol:
                stopping.ratio, stopping.point = ratio, s.x
        return True

    def _compare_full_gradients(self, s, x):
        """Compute full gradients at x, and at x_0 if ``first`` is None, and compare the
        residuals."""
        stopping = self.run.stopping
        points = [x] if stopping.first is not None else [x, self.run.start]
        gradients = self._full_gradients(s, points)
        if gradients is not None:
            length = partial(self.solver.length, self.oracle, s)
            lengths = list(map(length, points, gradients))
            stopping.first = lengths[-1] if stopping.first is None else stopping.first
            self._store_ratio(s, x, lengths[0])

    def _store_ratio(self, s, x, length):
        """Store the exact value at x relative to that at x_0. It is 0 if no step is
        possible at x_0."""
        stopping = self.run.stopping
        stopping.compared_at, stopping.point = s.t, x
        if stopping.first:
            stopping.ratio = length / stopping.first
        else:
            no_step = not length or self._is_rounding(s, length)
            stopping.ratio = 0.0 if no_step else math.inf

    def residual(self):
        """The last value of the quantity that is compared with tol, or NaN.

        If full gradients have contradicted the estimates, it is the value from full
        gradients.
        """
        stopping, first = self.run.stopping, self._reference()
        if stopping.value is None or first is None:
            return math.nan
        if not first:
            return 0.0
        value = stopping.value / first
        is_estimate = stopping.compared_at < 0 or value > self.solver.tol
        return value if is_estimate else stopping.ratio

    # rounding

    def _is_rounding(self, s, value):
        """Whether a step of this residual would move x by rounding errors only."""
        # 0 at the end of a schedule, where the length of a step has no meaning
        rate = 0.0 if s.rule is None else at(s.rule.learning_rate, s.t)
        size = self.oracle.preconditioner.at(s.x, s.t).size(s.x)
        return rate > 0 and rate * value <= 4 * self.eps * size

    def is_stationary(self, s, by_values=False):
        """Whether x is stationary up to rounding, which a tiny learning rate alone does
        not imply.

        The residual at x is compared with the residual at a point that differs from x
        by a thousandth. ``by_values`` is for methods that compare values of Phi: x is
        also stationary if a step would lower Phi by less than its rounding error.
        """
        stopping = self.run.stopping
        if stopping.stationary_at == s.t:
            return True
        problem = self.oracle.problem
        preconditioner = self.oracle.preconditioner.at(s.x, s.t)
        y = point_beside(problem, s.x)
        gradients = self._full_gradients(s, [s.x, y])
        if gradients is None:
            return False
        F, F_nearby = gradients
        stationary = problem.penalty is None and not F.any()
        length = math.sqrt(max(float(F_nearby @ preconditioner.apply(F_nearby)), 0.0))
        rate = 1e-3 * preconditioner.size(s.x) / length if length else 0.0
        if not stationary and 0 < rate < math.inf:
            here = step_direction(problem, preconditioner, s.x, F, rate).length
            nearby = step_direction(problem, preconditioner, y, F_nearby, rate).length
            stationary = here <= np.cbrt(self.eps) * nearby
            if by_values and not stationary:
                rounding = 8 * self.eps * abs(self.oracle.reported(s.x))
                stationary = rate * here**2 / 2 <= rounding
        if stationary:
            stopping.stationary_at, stopping.point = s.t, s.x
        return stationary

    def _full_gradients(self, s, points):
        """F at some points on all data, which is counted, or None.

        It is None on a stream, if max_ifo would be exceeded, or if the IFO are less
        than twice those after the last full gradients.
        """
        stopping, oracle = self.run.stopping, self.oracle
        size = None, 0 if oracle.problem.jacobian_kind == "constant" else None, None
        ifo = len(points) * oracle.cost(size)
        if (
            not oracle.source.finite
            or oracle.ifo < stopping.next_comparison
            or oracle.ifo + ifo > self.loop.max_ifo
        ):
            return None
        gradients = [start(oracle, x, size).F for x in points]
        oracle.exact.clear()
        stopping.next_comparison = 2 * oracle.ifo
        return gradients
