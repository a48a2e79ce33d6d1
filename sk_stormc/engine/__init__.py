"""The loop of a run, and the building blocks of methods.

A run draws batches through the oracle, which counts every component and records at
which points u, J and F are exact. `loop.py` contains a run from its start to its
result, with records, budgets and Ctrl-C between iterations, and `stopping.py` the
convergence test. `solver.py` contains the base class of methods, and `steps.py` the
steps of Algorithm 1. The author of a solver needs only the names exported here.
"""

from sk_stormc.core.schedules import at
from sk_stormc.engine.oracle import ALL, Oracle
from sk_stormc.engine.results import (
    MethodState,
    Record,
    RunState,
    SolverResult,
    StopReason,
)
from sk_stormc.engine.solver import CompositionalSolver
from sk_stormc.engine.steps import (
    Estimate,
    Inertia,
    Limit,
    StepRule,
    advance,
    guard,
    start,
)

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
