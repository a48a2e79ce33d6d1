"""Schedules: learning rates and other parameters as functions of the iteration."""

from sk_stormc.core.schedules import (
    Geometric,
    Slowed,
    at,
    constant,
    decay_to,
    inverse,
    power,
)

__all__ = ["Geometric", "Slowed", "at", "constant", "decay_to", "inverse", "power"]
