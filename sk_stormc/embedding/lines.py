"""The output of verbose=1."""

import time

__all__ = ["Lines"]


class Lines:
    """A table with a line for each record of a fit, over all its stages. The lines have the divergence.

    Parameters
    ----------
    divergence_of : callable
        Converts a recorded objective to the divergence.
    n_before : int, default=0
        Number of iterations before the first of these stages.
    """

    def __init__(self, divergence_of, n_before=0):
        self.divergence_of, self.began, self.last = divergence_of, time.perf_counter(), None
        self.n_before = n_before
        print(f"{'iteration':>10}{'KL divergence':>16}{'seconds':>10}")

    def line(self, iteration, fun):
        """Print a line, unless this iteration was printed last."""
        if iteration == self.last:
            return
        self.last, seconds = iteration, time.perf_counter() - self.began
        print(f"{self.n_before + iteration:10d}{self.divergence_of(fun):16.6f}{seconds:10.2f}", flush=True)

    def after(self, n_iter):
        """A function that prints the records of a run that begins after n_iter iterations."""
        return lambda record: self.line(n_iter + record.iteration, record.fun)
