"""The theory of STORM-Compositional: constants of a problem, Proposition 3.2's
parameters, and their conditions.

The theory gives parameters that guarantee a small gradient after a known number of
iterations. Constants that a user does not know can be estimated from samples. Only
`STORMCompositional.from_theory` and the paper's experiments need this package.
"""

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
