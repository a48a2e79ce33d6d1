"""Records of the runs of a solver: the iteration, the time and the point of each."""

import time
from contextlib import contextmanager

import numpy as np


class RunRecorder:
    """Stores the iterations, the time and the points at the records of successive runs
    of one solver.

    Seconds are measured within the solver's ``solve``, and include the objectives at
    the records. An estimator may make several runs with clones of its solver. Their
    seconds, IFO and iterations are added up.

    Parameters
    ----------
    keep_points : bool, default=False
        Whether to keep x at the records.

    Attributes
    ----------
    problem : CompositionalProblem or None
        The problem of the last run.
    x : ndarray or None
        The point that the last run returned.
    """

    def __init__(self, keep_points=False):
        self.keep_points = keep_points
        self.problem = self.x = None
        self._records = []  # (IFO, iteration, seconds, x or None)
        self._ifo = self._iterations = 0
        # of the runs of the solver, and of a whole fit
        self._seconds = self._fit_seconds = 0.0

    def recording(self, solver):
        """A solver with the same parameters, whose runs and those of its clones are
        recorded."""
        recorder = self

        class Recording(type(solver)):
            def solve(self, problem, *args, on_record=None, **kwargs):
                return recorder._solve(super().solve, problem, args, on_record, kwargs)

        Recording.__name__ = type(solver).__name__
        Recording.__qualname__ = type(solver).__qualname__
        return Recording(**solver.get_params(deep=False))

    @contextmanager
    def timing_fit(self):
        """Measure the time of a fit, which need not run a solver."""
        began = time.perf_counter()
        yield
        self._fit_seconds = time.perf_counter() - began

    def _solve(self, solve, problem, args, on_record, kwargs):
        self.problem = problem
        before, away, began = self._seconds, 0.0, time.perf_counter()

        def note(record):
            nonlocal away
            now = time.perf_counter()
            self._keep(
                record.ifo, record.iteration, before + now - began - away, record.x
            )
            stop = on_record is not None and on_record(record)
            away += time.perf_counter() - now
            return stop

        result = solve(problem, *args, on_record=note, **kwargs)
        self.x = result.x
        self._seconds += time.perf_counter() - began - away
        ifo, n_iter = int(result.ifo[-1]), int(result.n_iter)
        self._keep(ifo, n_iter, self._seconds, result.x)
        self._ifo += ifo
        self._iterations += n_iter
        return result

    def _keep(self, ifo, iteration, seconds, x):
        """Store a record, whose counts are those of this run."""
        ifo, iteration = self._ifo + ifo, self._iterations + iteration
        self._records.append((ifo, iteration, seconds, x if self.keep_points else None))

    def at(self, ifo):
        """Iterations, seconds and points at these IFO. Without a run, only the seconds
        of the whole fit are known."""
        iterations, seconds, points = None, np.full(len(ifo), self._fit_seconds), None
        if self._records:
            seen, *values = zip(*self._records, strict=True)
            # the first record at or after each IFO
            rows = np.searchsorted(seen, ifo).clip(max=len(seen) - 1)
            rows[-1] = len(seen) - 1  # that of the returned point
            iterations, seconds, points = (
                [column[row] for row in rows] for column in values
            )
        # evaluating Phi(x_0) is not part of a method
        seconds = np.where(np.asarray(ifo) == 0, 0.0, seconds)
        return iterations and np.array(iterations), seconds, points
