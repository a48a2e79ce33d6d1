"""One run of a method, and what methods are made of.

A run draws batches through the oracle, which charges every component that is evaluated and knows where u, J and F are
exact. `run.py` has a run from its start to its result, and what is done between two iterations: records, budgets, the
stopping rule and Ctrl-C. `base.py` has what a method declares, `estimates.py` what it keeps of g, of its Jacobian and
of F, and `steps.py` how it moves. The names here are all that a solver's author needs.
"""

from sk_stormc.core.schedules import at
from sk_stormc.engine.base import CompositionalSolver
from sk_stormc.engine.estimates import Estimate, advance, guard, start
from sk_stormc.engine.oracle import ALL, Oracle
from sk_stormc.engine.results import MethodState, Record, RunState, SolverResult, StopReason
from sk_stormc.engine.steps import Inertia, Limit, StepRule

__all__ = [
    "ALL",
    "CompositionalSolver",
    "Estimate",
    "Inertia",
    "Limit",
    "MethodState",
    "Oracle",
    "Record",
    "RunState",
    "SolverResult",
    "StepRule",
    "StopReason",
    "advance",
    "at",
    "guard",
    "start",
]
