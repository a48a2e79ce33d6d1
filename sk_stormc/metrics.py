"""The former name of `sk_stormc.preconditioners`, which ends with version 0.7."""

from sk_stormc import preconditioners
from sk_stormc.utils.former_names import warn_of_former

FORMER = {"Metric": "Preconditioner", "as_metric": "as_preconditioner"}


def __getattr__(name):
    new = FORMER.get(name, name)
    if new not in preconditioners.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_of_former(f"{__name__}.{name}", f"{preconditioners.__name__}.{new}")
    return getattr(preconditioners, new)
