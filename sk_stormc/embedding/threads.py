"""Threads over fixed parts of a task, so that what comes out does not depend on how many there are."""

from concurrent.futures import ThreadPoolExecutor

from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

__all__ = ["each", "in_one_thread", "n_threads", "parts"]


def n_threads(n_jobs):
    """The number of threads that ``n_jobs`` asks for; None is one, outside of joblib's contexts.

    Parameters
    ----------
    n_jobs : int or None

    Returns
    -------
    int
    """
    return effective_n_jobs(n_jobs)


def in_one_thread():
    """A context in which BLAS and OpenMP have one thread: threads of ours would share the cores with theirs."""
    return threadpool_limits(1)


def each(function, parts, n_jobs):
    """Call a function with each part, in up to so many threads.

    Parameters
    ----------
    function : callable
        Writes where no other part is written. It must not depend on the order.
    parts : list
    n_jobs : int

    Returns
    -------
    list
        Of what it returned, in the order of the parts.
    """
    if n_jobs == 1 or len(parts) < 2:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(min(n_jobs, len(parts))) as pool:
        return list(pool.map(function, parts))


def parts(end, size, begin=0):
    """Slices of at most so many rows, but at least one, from the beginning to the end."""
    size = max(1, size)
    return [slice(first, min(first + size, end)) for first in range(begin, end, size)]
