"""Warnings that refer to the user's line of code."""

import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar

# pairs of a category and a part of a message
_ignored = ContextVar("ignored", default=())


@contextmanager
def ignored(category, part=""):
    """A context in which `warn` gives no warnings of a category whose messages have
    some part.

    It holds for the present thread. The filters of `warnings` hold for the whole
    process, and fits in several threads that change and restore them leave those of
    another fit behind.
    """
    token = _ignored.set((*_ignored.get(), (category, part)))
    try:
        yield
    finally:
        _ignored.reset(token)


# decorators and context managers are between a fit and its caller
OURS = ("sk_stormc.", "sklearn.", "contextlib")


def warn(message, category=UserWarning):
    """Warn at the line of code that called this package, at any depth of the call
    stack."""
    if any(
        issubclass(category, kind) and part in message for kind, part in _ignored.get()
    ):
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(
        OURS
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_of_an_optimum(given, best, seen):
    """Warn if the given optimum is above an objective that was reached, which ``seen``
    describes."""
    if best < given - 1e-9 * max(abs(given), abs(best)):
        warn(
            f"optimum={given!r} is above an objective that {seen}, {best:.10g}: gaps "
            "to it are wrong"
        )
