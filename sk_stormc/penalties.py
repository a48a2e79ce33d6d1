"""Regularisers R that are added to a composition: constraints and penalties with a
proximal operator."""

from sk_stormc.core.penalties import (
    L1,
    Box,
    Simplex,
    check_penalty,
)

__all__ = ["Box", "L1", "Simplex", "check_penalty"]
