"""What every method shares: the loop, the oracle, the estimates and the steps. All that a solver's author needs."""

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
