"""Measurement of the runs of a solver: the time and the point of each record."""

import time
from contextlib import contextmanager

import numpy as np

__all__ = ["MeasuredRuns"]


class MeasuredRuns:
    """Stores the time, the IFO and the points of successive runs of one solver.

    Seconds are measured within the solver's ``solve``, and include the objectives at the records. An estimator may make
    several runs with clones of its solver. Their seconds, IFO and iterations are added up.

    Parameters
    ----------
    keep_points : bool, default=False
        Whether to keep x at the records.

    Attributes
    ----------
    problem : CompositionalProblem or None
        The problem of the last run.
    """

    def __init__(self, keep_points=False):
        self.keep_points = keep_points
        self.problem = None
        self.records = []  # (IFO, iteration, seconds, x or None)
        self._ifo = self._iterations = 0
        self._seconds = 0.0
        self._fit_seconds = 0.0  # seconds of a fit

    def instrument(self, solver):
        """A solver with the same parameters, whose runs and those of its clones are recorded."""
        runs = self

        class Measured(type(solver)):
            def solve(self, problem, *args, on_record=None, **kwargs):
                return runs._solve(super().solve, problem, args, on_record, kwargs)

        Measured.__name__, Measured.__qualname__ = type(solver).__name__, type(solver).__qualname__
        return Measured(**solver.get_params(deep=False))

    @contextmanager
    def timing(self):
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
            seconds = before + now - began - away
            self._keep(self._ifo + record.ifo, self._iterations + record.iteration, seconds, record.x)
            stop = on_record is not None and on_record(record)
            away += time.perf_counter() - now
            return stop

        result = solve(problem, *args, on_record=note, **kwargs)
        self._seconds += time.perf_counter() - began - away
        self._ifo += int(result.ifo[-1])
        self._iterations += int(result.n_iter)
        self._keep(self._ifo, self._iterations, self._seconds, result.x)
        return result

    def _keep(self, ifo, iteration, seconds, x):
        self.records.append((ifo, iteration, seconds, x if self.keep_points else None))

    @property
    def pass_ifo(self):
        """IFO of a pass, or None without a run."""
        return None if self.problem is None else 2 * self.problem.n_inner + self.problem.n_outer

    def _at(self, ifo):
        """The first record at or after each IFO. The last record is that of the returned point."""
        seen = [record[0] for record in self.records]
        rows = np.searchsorted(seen, ifo).clip(max=len(seen) - 1)
        rows[-1] = len(seen) - 1
        return [self.records[row] for row in rows]

    def seconds_at(self, ifo):
        """Seconds at the records, or without a run the seconds of the whole fit."""
        seconds = np.full(len(ifo), self._fit_seconds)
        if self.records:
            seconds = np.array([record[2] for record in self._at(ifo)])
        seconds[np.asarray(ifo) == 0] = 0.0  # evaluating Phi(x_0) is not part of a method
        return seconds

    def iterations_at(self, ifo):
        """Iterations at the records, or None without a run."""
        return np.array([record[1] for record in self._at(ifo)]) if self.records else None

    def gradient_norms_at(self, ifo):
        """Norms of the exact gradients of the last problem, or None without a run."""
        if not self.records:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([np.linalg.norm(self.problem.gradient(record[3])) for record in self._at(ifo)])
