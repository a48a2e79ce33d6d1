"""The theory of STORM-Compositional: constants of a problem, Proposition 3.2's parameters, and their conditions."""

from sk_stormc.theory.constants import estimate_constants
from sk_stormc.theory.parameters import (
    ProblemConstants,
    StormParameters,
    equipartition,
    storm_parameters,
    theorem_condition,
)

__all__ = [
    "ProblemConstants",
    "StormParameters",
    "equipartition",
    "estimate_constants",
    "storm_parameters",
    "theorem_condition",
]
