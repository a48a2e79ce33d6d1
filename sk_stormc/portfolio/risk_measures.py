"""Properties of the risk measures, and the registry of their classes."""

import inspect
from typing import NamedTuple

from sk_stormc.utils.docstrings import inherit_parameters
from sk_stormc.utils.validation import check_number

__all__ = ["MEASURES", "ByRiskMeasure", "check_parameters", "is_proportional"]

HIGHEST = 10  # largest order; with a higher one only the largest few losses would matter


class Traits(NamedTuple):
    """Properties of a risk measure."""

    power: int  # degree of homogeneity: the risk of k w is k**power times that of w; 0: it is not homogeneous
    shift: float | None  # change of the risk if the return of each period grows by 1; None: it is not a constant
    parameter: str | None = None  # name of the measure's own parameter
    streams: bool = True  # whether `partial_fit` supports the measure


MEASURES = {
    "variance": Traits(2, 0.0),
    "semivariance": Traits(2, 0.0),
    "entropic": Traits(0, 0.0),  # the shift is that of the objective minus the mean return
    "cvar": Traits(1, -1.0, "confidence"),
    "evar": Traits(1, -1.0, "confidence"),
    "semideviation": Traits(1, 0.0, "order", streams=False),
    "downside": Traits(1, None, "order", streams=False),
    "cdar": Traits(1, None, "confidence", streams=False),
}


def is_proportional(risk_measure):
    """Whether the risk is proportional to the weights: homogeneous of degree 1."""
    return isinstance(risk_measure, str) and risk_measure in MEASURES and MEASURES[risk_measure].power == 1


def check_parameters(confidence=0.5, order=1):
    """Raise a ValueError unless the confidence is between 0 and 1, and the order 1 or from 2 to 10.

    Other powers have no second derivative at 0.
    """
    check_number("confidence", confidence, low=0, high=1, inclusive=False)
    if confidence == 1:
        raise ValueError(f"confidence must be below 1, got {confidence!r}")
    check_number("order", order, low=1, high=HIGHEST)
    if 1 < order < 2:
        raise ValueError(f"order must be 1 or from 2 to {HIGHEST}, got {order!r}")


class ByRiskMeasure:
    """Calling a subclass with ``risk_measure=name`` returns an object of the class for that measure, if there is one.

    A class is registered for a risk measure by ``class Other(Problem, risk_measure="other")``. It inherits the
    descriptions of the parameters that it does not describe itself.
    """

    classes: dict[str, type] = {}  # the registered classes by risk measure
    own_measure: str  # the measure for which a class is registered
    __signature__: inspect.Signature  # that of __init__, because Python 3.11.2 would show that of __new__

    def __init_subclass__(cls, risk_measure=None, **kwargs):
        super().__init_subclass__(**kwargs)
        inherit_parameters(cls)
        of_init = inspect.signature(cls.__init__)
        cls.__signature__ = of_init.replace(parameters=list(of_init.parameters.values())[1:])
        if risk_measure is not None:
            cls.classes[risk_measure], cls.own_measure = cls, risk_measure

    def __new__(cls, *args, risk_measure=None, **kwargs):
        """Create an object of the registered class. Copying and unpickling call this without arguments."""
        other = cls.classes.get(risk_measure, cls) if isinstance(risk_measure, str) else cls
        return super().__new__(other if issubclass(other, cls) else cls)

    def check_class(self, risk_measure):
        """Raise a ValueError if this object is not of the class registered for the risk measure."""
        needed = self.classes.get(risk_measure)
        if needed is not None and not isinstance(self, needed):
            raise ValueError(
                f"risk_measure={risk_measure!r} needs a subclass of {needed.__module__}.{needed.__name__}, "
                f"got {type(self).__name__}"
            )
