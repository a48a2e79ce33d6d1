"""The lines of verbose=1."""

import time

__all__ = ["Lines"]


class Lines:
    """A line for each record of a fit, in one table: the divergence, whatever the stage.

    Parameters
    ----------
    divergence_of : callable
        The divergence of a recorded objective.
    n_before : int, default=0
        Iterations before the first of these.
    """

    def __init__(self, divergence_of, n_before=0):
        self.divergence_of, self.began, self.last = divergence_of, time.perf_counter(), None
        self.n_before = n_before
        print(f"{'iteration':>10}{'KL divergence':>16}{'seconds':>10}")

    def line(self, iteration, fun):
        """Print one, unless it is the last again."""
        if iteration == self.last:
            return
        self.last, seconds = iteration, time.perf_counter() - self.began
        print(f"{self.n_before + iteration:10d}{self.divergence_of(fun):16.6f}{seconds:10.2f}", flush=True)

    def after(self, n_iter):
        """What prints the records of a run that so many iterations came before."""
        return lambda record: self.line(n_iter + record.iteration, record.fun)
