"""Threads over fixed parts of a task, so that the results do not depend on the number
of threads."""

import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from threading import Lock

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from sk_stormc.utils.machine import CACHE_NUMBERS
from sk_stormc.utils.types import F
from sk_stormc.utils.validation import check_n_jobs

__all__ = ["each", "in_one_thread", "in_threads", "n_threads", "parts", "threads"]

# the executor and the number of threads of the innermost `threads`
_crew = ContextVar("crew", default=None)


@contextmanager
def threads(n_jobs):
    """A context in which `each` uses several threads, which end with the context. A
    nested context changes nothing.

    Underflow to 0 is correct for kernels of distant points. It raises no error here,
    even if the caller's `numpy.errstate` requests one.

    BLAS and OpenMP have one thread in this context. More threads would compete with
    those of `each` for the cores, and their number would affect the rounding of sums.
    """
    check_n_jobs(n_jobs)
    with ExitStack() as stack:
        stack.enter_context(in_one_thread())
        stack.enter_context(np.errstate(under="ignore"))
        if _crew.get() is None:
            # OpenMP has this setting for each thread
            stack.enter_context(_libraries("openmp").limit(limits=1))
            count = effective_n_jobs(n_jobs)
            pool = (
                ThreadPoolExecutor(count - 1, initializer=_begin_thread)
                if count > 1
                else None
            )
            if pool is not None:
                stack.enter_context(pool)
            token = _crew.set((pool, count))
            stack.callback(_crew.reset, token)
        yield


def _begin_thread():
    _libraries("openmp").limit(limits=1)  # for as long as the thread lives


def n_threads():
    """The number of threads that `each` uses in the present context."""
    crew = _crew.get()
    return 1 if crew is None else crew[1]


def each(function, parts, size=CACHE_NUMBERS):
    """Call a function with each part, in the threads of the context if the arrays have
    many entries (``size``)."""
    pool, count = _crew.get() or (None, 1)
    helpers = min(count, len(parts)) - 1
    if helpers < 1 or size < CACHE_NUMBERS:
        return [function(part) for part in parts]
    results, left = [None] * len(parts), deque(range(len(parts)))

    def work():
        while left:
            try:
                k = left.popleft()
            except IndexError:  # another thread took the last part
                return
            results[k] = function(parts[k])

    others = [pool.submit(work) for _ in range(helpers)]
    try:
        work()
    except BaseException:
        left.clear()
        raise
    finally:
        begun = [other for other in others if not other.cancel()]
        errors = [error for other in begun if (error := other.exception()) is not None]
    if errors:
        raise errors[0]
    return results


def in_threads(method: F) -> F:
    """Decorate a method of an estimator with the parameter n_jobs, so that it runs in
    that many threads."""

    @wraps(method)
    def call(self, *args, **kwargs):
        with threads(self.n_jobs):
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]


def parts(end, size, begin=0):
    """Slices of at most ``size`` rows, but at least one, from ``begin`` to ``end``."""
    size = max(1, size)
    return [slice(first, min(first + size, end)) for first in range(begin, end, size)]


_blas_is_held = Lock()


@contextmanager
def in_one_thread():
    """A context in which BLAS has one thread.

    The number of threads holds for the whole process. If several contexts are active at
    the same time, the first of them therefore sets it, and restores it at its end.
    """
    if not _blas_is_held.acquire(blocking=False):
        yield
        return
    try:
        with _libraries("blas").limit(limits=1):
            yield
    finally:
        _blas_is_held.release()


def _libraries(api):
    """The controller of the number of threads of the loaded libraries."""
    return _found(api, len(sys.modules))


@lru_cache(2)
def _found(api, n_modules):
    """A cached controller. The search takes some milliseconds, and is repeated only
    after other modules were loaded."""
    return ThreadpoolController().select(user_api=api)
