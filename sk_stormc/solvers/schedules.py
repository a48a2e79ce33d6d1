"""Schedules: picklable functions of the iteration number, for learning rates and momenta."""

from dataclasses import dataclass

__all__ = ["Power", "at"]


@dataclass(frozen=True)
class Power:
    """scale * (t + 1) ** exponent, t = 0, 1, ...

    Parameters
    ----------
    scale : float
    exponent : float

    Examples
    --------
    >>> from sk_stormc.solvers.schedules import Power
    >>> Power(0.5, -0.5)(3)
    0.25
    """

    scale: float
    exponent: float

    def __call__(self, t):
        return self.scale * (t + 1) ** self.exponent


def at(value, t):
    """A schedule's value at iteration t; a number is itself."""
    return float(value(t)) if callable(value) else value
