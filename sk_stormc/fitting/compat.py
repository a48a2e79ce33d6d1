"""scikit-learn's callbacks, which are experimental: the only place that imports them.

Nothing else needs scikit-learn 1.9. Versions from 1.6 to 1.8 have no callbacks, and fits go on without them.
"""

import functools

import sklearn

from sk_stormc.utils.warnings import warn

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Takes callbacks that are never called."""

        def set_callbacks(self, *callbacks):
            """Keep the callbacks; `fit` says that they are off."""
            self.__dict__.pop("_skl_callbacks", None)
            if callbacks:
                self._skl_callbacks = list(callbacks)
            return self

    def with_callbacks(method):
        """The method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "callbacks_of", "open_context", "with_callbacks"]

NEEDED = ("subcontext", "call_on_fit_task_begin", "call_on_fit_task_end")


def callbacks_of(estimator):
    """The callbacks that the user has set; scikit-learn makes the list with the first of them."""
    return vars(estimator).get("_skl_callbacks") or []


def open_context(estimator):
    """The context of a fit's root task, or None: without callbacks, or where this scikit-learn does not know them."""
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


@functools.cache  # once
def say_that_they_are_off():
    """Warn that callbacks do nothing."""
    warn(
        "callbacks are off: they need scikit-learn 1.9, or a newer version whose callbacks are known here, and this is "
        f"{sklearn.__version__}. The fit goes on without them.",
        UserWarning,
    )
