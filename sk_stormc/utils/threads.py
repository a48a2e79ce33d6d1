"""Threads over fixed parts of a task, so that the results do not depend on the number
of threads."""

import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from threading import Lock
from typing import NamedTuple
from weakref import WeakSet

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from sk_stormc.utils.machine import CACHE_NUMBERS
from sk_stormc.utils.parameters import check_n_jobs
from sk_stormc.utils.types import F

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
            stack.enter_context(_libraries().of_thread.limit(limits=1))
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
    _libraries().of_thread.limit(limits=1)  # for as long as the thread lives


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


class _SharedNumber:
    """The number of threads of the BLAS libraries that have one for the whole process:
    1 for as long as there are users."""

    def __init__(self):
        # a user that Ctrl-C ended before its context began is collected
        self.lock, self.users, self.before = Lock(), WeakSet(), {}

    def begin(self, user):
        """Add a user. Libraries that were loaded since the first one are limited
        too."""
        with self.lock:
            if not self.users:
                self.before.clear()
            self.users.add(user)
            for library in _libraries().of_process:
                number = library.num_threads
                self.before.setdefault(library.filepath, (library, number))
                if number != 1:
                    _set_number(library, 1)

    def end(self, user):
        """Restore the numbers if there is no other user."""
        with self.lock:
            self.users.discard(user)
            if not self.users:
                for library, number in self.before.values():
                    _set_number(library, number)
                self.before.clear()


class _User:
    """A context that needs BLAS to have one thread."""


_shared_number = _SharedNumber()


def _set_number(library, number):
    """Set the number of threads of a library for the whole process."""
    # from threadpoolctl 3.8 on, one thread has the number of OpenBLAS, and calls of
    # others have no effect
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


@contextmanager
def in_one_thread():
    """A context in which BLAS has one thread.

    Some libraries have a number of threads for the whole process. If several contexts
    are active at the same time, the first of them therefore sets it, and the last
    restores it.
    """
    user = _User()
    with _libraries().of_blas.limit(limits=1):
        try:
            _shared_number.begin(user)
            yield
        finally:
            _shared_number.end(user)


class _Libraries(NamedTuple):
    """The loaded libraries with threads, by what their numbers of threads hold for."""

    of_thread: ThreadpoolController  # for the thread that sets it
    of_blas: ThreadpoolController  # those of them that are BLAS
    of_process: list  # other BLAS libraries


def _libraries():
    """The loaded libraries."""
    return _found(len(sys.modules))


@lru_cache(1)
def _found(n_modules):
    """The libraries. The search takes some milliseconds, and is repeated only after
    other modules were loaded."""
    loaded = ThreadpoolController()
    blas = loaded.select(user_api="blas")
    own = {"internal_api": "mkl", "threading_layer": "openmp"}  # one of these
    of_blas = blas.select(**own)
    own_paths = {library.filepath for library in of_blas.lib_controllers}
    return _Libraries(
        loaded.select(user_api="openmp", **own),
        of_blas,
        [lib for lib in blas.lib_controllers if lib.filepath not in own_paths],
    )
