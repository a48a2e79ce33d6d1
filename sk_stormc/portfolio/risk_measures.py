"""Risk measures that have a class of their own, made by calling the class of portfolio problems."""

from sk_stormc.utils.docstrings import inherit_parameters

__all__ = ["ByRiskMeasure"]


class ByRiskMeasure:
    """Calling a subclass with ``risk_measure=name`` makes an object of the class for that measure, if there is one.

    A class is declared for a risk measure by ``class Other(Problem, risk_measure="other")``. It inherits the
    descriptions of the parameters that it does not describe itself.
    """

    classes: dict[str, type] = {}  # by risk measure

    def __init_subclass__(cls, risk_measure=None, **kwargs):
        super().__init_subclass__(**kwargs)
        inherit_parameters(cls)
        if risk_measure is not None:
            cls.classes[risk_measure] = cls

    def __new__(cls, *args, risk_measure=None, **kwargs):
        """An empty object; copying and unpickling give no arguments."""
        other = cls.classes.get(risk_measure, cls) if isinstance(risk_measure, str) else cls
        return super().__new__(other if issubclass(other, cls) else cls)

    def check_class(self, risk_measure):
        """Raise a ValueError where this object is not of the class that has the risk measure."""
        needed = self.classes.get(risk_measure)
        if needed is not None and not isinstance(self, needed):
            raise ValueError(
                f"risk_measure={risk_measure!r} needs a subclass of {needed.__module__}.{needed.__name__}, "
                f"got {type(self).__name__}"
            )
