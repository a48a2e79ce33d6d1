"""The only module that imports scikit-learn's experimental callbacks.

Nothing else needs scikit-learn 1.9. Versions from 1.6 to 1.8 have no callbacks, and
fits run without them.
"""

import functools

import sklearn

from sk_stormc.utils.warnings import warn

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Accepts callbacks that are never called."""

        def set_callbacks(self, *callbacks):
            """Store the callbacks. `fit` warns that they are not called."""
            self.__dict__.pop("_skl_callbacks", None)
            if callbacks:
                self._skl_callbacks = list(callbacks)
            return self

    def with_callbacks(method):
        """Return the method unchanged."""
        return method


NEEDED = ("subcontext", "call_on_fit_task_begin", "call_on_fit_task_end")


def callbacks_of(estimator):
    """The callbacks that the user has set. scikit-learn creates the list with the first
    of them."""
    return vars(estimator).get("_skl_callbacks") or []


def open_context(estimator):
    """The context of a fit's root task. None without callbacks, or if this scikit-learn
    does not support them."""
    if not callbacks_of(estimator):
        return None
    try:
        context = estimator._init_callback_context(max_subtasks=None)
        if all(hasattr(context, name) for name in NEEDED):
            return context
    except (AttributeError, TypeError):
        pass
    say_that_they_are_off()
    return None


@functools.cache  # warn once
def say_that_they_are_off():
    """Warn that callbacks are not called."""
    warn(
        "callbacks are off: they need scikit-learn 1.9, or a newer version with the "
        "same callbacks, and this is "
        f"{sklearn.__version__}. The fit goes on without them.",
        UserWarning,
    )
