"""Learning rates and the like as functions of the iteration."""

from sk_stormc.core.schedules import (
    Decay,
    Geometric,
    Power,
    Slowed,
    at,
    constant,
    decay_to,
    inverse,
    power,
)

__all__ = ["Decay", "Geometric", "Power", "Slowed", "at", "constant", "decay_to", "inverse", "power"]
