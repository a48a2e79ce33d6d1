"""The theory of STORM-Compositional: constants of a problem, Proposition 3.2's parameters, and their conditions.

It tells which parameters guarantee a small gradient after a known number of iterations. Constants that a user does not
know are estimated from samples. No method needs any of it to run: it is for `STORMCompositional.from_theory`, and for
the paper's experiments.
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
