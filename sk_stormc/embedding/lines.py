"""The output of verbose=1."""

import time

__all__ = ["Lines"]


class Lines:
    """A table of a fit: a line for each part of its preparation, and one with the divergence for each record.

    Parameters
    ----------
    shown : bool
        Whether to print anything.
    n_before : int, default=0
        Number of iterations before the first of these stages.
    """

    def __init__(self, shown, n_before=0):
        self.shown, self.n_before = bool(shown), n_before
        self.began, self.last = time.perf_counter(), None
        if shown:
            print(f"{'iteration':>10}{'KL divergence':>16}{'seconds':>10}")

    def done(self, part):
        """Print that a part of the preparation is done."""
        self._print(part, "")

    def record(self, iteration, divergence, early=False):
        """Print a record, unless this iteration was printed last."""
        if iteration != self.last:
            self.last = iteration
            self._print(f"{'early ' if early else ''}{self.n_before + iteration}", f"{divergence:.6f}")

    def _print(self, first, second):
        if self.shown:
            print(f"{first:>10}{second:>16}{time.perf_counter() - self.began:10.2f}", flush=True)
