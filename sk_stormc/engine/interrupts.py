"""Ctrl-C in a run: the first one ends it after the current iteration, a second one returns to a saved state."""

import signal
import threading
import time
from contextlib import contextmanager

__all__ = ["Interrupts"]


class Interrupts:
    """Counts the interrupts of a run, and saves states to which it can return from within an iteration.

    Parameters
    ----------
    loop : Loop
    oracle : Oracle
    run : RunState
        The run at the start.
    snapshot : callable
        Returns the oracle's snapshot at the start.
    """

    def __init__(self, loop, oracle, run, snapshot):
        self.loop, self.oracle = loop, oracle
        self.pressed = 0  # how often Ctrl-C was pressed
        self._kept = run, snapshot
        self._at, self._ifo = time.monotonic(), oracle.ifo

    def keep(self):
        """Save the current state from time to time. A stream keeps its rows from there on."""
        now, ifo = time.monotonic(), self.oracle.ifo
        if self.loop.watch.keeps(now - self._at, ifo - self._ifo):
            run = self.loop.snapshot()
            self._kept, self._at, self._ifo = (run, lambda: run.oracle), now, ifo
            self.oracle.hold()

    def go_back(self):
        """Return to the last saved state, because an iteration was not completed."""
        run, snapshot = self._kept
        self.oracle.restore(snapshot())
        return run

    @contextmanager
    def listening(self):
        """Count Ctrl-C in place of Python's default handler, in the main thread."""
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def note(signum, frame):
            self.pressed += 1
            # do not interrupt a run that is already ending
            if self.pressed == 2 and self.loop.reason is None:
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
