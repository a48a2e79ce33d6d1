"""Ctrl-C in a run: it ends after the present iteration; a second one goes back to a state that was kept."""

import signal
import threading
import time
from contextlib import contextmanager

__all__ = ["Interrupts"]


class Interrupts:
    """The signals that a run was sent, and the state that it goes back to if one comes within an iteration.

    Parameters
    ----------
    loop : Loop
    oracle : Oracle
    run : RunState
        At the start.
    snapshot : callable
        Gives the oracle's snapshot there.
    """

    def __init__(self, loop, oracle, run, snapshot):
        self.loop, self.oracle = loop, oracle
        self.pressed = 0  # times that Ctrl-C was
        self._kept = run, snapshot
        self._at, self._ifo = time.monotonic(), oracle.ifo

    def keep(self):
        """Keep the present state now and then; a stream keeps the rows from there on."""
        now, ifo = time.monotonic(), self.oracle.ifo
        if self.loop.watch.keeps(now - self._at, ifo - self._ifo):
            run = self.loop.snapshot()
            self._kept, self._at, self._ifo = (run, lambda: run.oracle), now, ifo
            self.oracle.hold()

    def go_back(self):
        """The run as it was last kept: an iteration was left half done."""
        run, snapshot = self._kept
        self.oracle.restore(snapshot())
        return run

    @contextmanager
    def listening(self):
        """Count Ctrl-C in place of Python's own answer to it, in the main thread."""
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def note(signum, frame):
            self.pressed += 1
            # a run that is on its way out, or back, must not be disturbed
            if self.pressed == 2 and self.loop.reason is None:
                raise KeyboardInterrupt

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
