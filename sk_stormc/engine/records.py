"""Records of a run, which are stored, passed to a callback and printed."""

import math
import time

from sk_stormc.engine.results import Record, StopReason

__all__ = ["Records"]


class Records:
    """Records of Phi at some points of a run, at regular intervals of IFO.

    Parameters
    ----------
    loop : Loop
    oracle : Oracle
    record_every : int
        IFO between two records.
    on_record : callable or None
    verbose : int
    """

    def __init__(self, loop, oracle, record_every, on_record, verbose):
        self.loop, self.oracle, self.every, self.on_record = loop, oracle, record_every, on_record
        self._untold = None  # a record for which the callback has not been called
        self._report = Report(loop.a_pass) if verbose else None

    def add(self, x):
        """Record Phi(x) at the current iteration. Return NON_FINITE if it is not finite."""
        loop, run, ifo, fun = self.loop, self.loop.run, self.oracle.ifo, self.oracle.reported(x)
        t = run.t
        run.records.append((t, ifo, fun))
        run.next_record = (ifo // self.every + 1) * self.every
        if fun < run.best_fun and (loop.watch.comparable or not t):
            run.best_x, run.best_fun = x, fun
        if self._report is not None:
            self._report.line(t, ifo, fun, loop.rule.residual())
        if not math.isfinite(fun):
            return StopReason.NON_FINITE
        if self.on_record is not None:
            self._untold = Record(t, ifo, fun, x.copy(), loop.snapshot, loop.n_left)
        return None

    def tell(self):
        """Call the callback with a new record. Return a reason to stop, or None."""
        if self._untold is None:
            return None
        record, self._untold = self._untold, None
        try:
            return StopReason.CALLBACK if self.on_record(record) else None
        except KeyboardInterrupt:
            return StopReason.INTERRUPTED


class Report:
    """The output of verbose=1, a line for each record."""

    def __init__(self, a_pass):
        self.a_pass, self.began = a_pass, time.perf_counter()
        print(f"{'iteration':>10}{'passes':>10}{'objective':>16}{'residual':>12}{'seconds':>10}")

    def line(self, t, ifo, fun, residual):
        """Print a record. A stream has no passes."""
        passes = f"{ifo / self.a_pass:10.2f}" if math.isfinite(self.a_pass) else f"{'-':>10}"
        seen = f"{residual:12.2e}" if math.isfinite(residual) else f"{'-':>12}"
        print(f"{t:10d}{passes}{fun:16.8g}{seen}{time.perf_counter() - self.began:10.2f}", flush=True)
