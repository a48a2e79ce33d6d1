"""Solvers side by side: on one problem or estimator, from several seeds, with their times and oracle calls."""

from sk_stormc.compare.solvers import compare_solvers
from sk_stormc.compare.table import ComparedRun, SolverComparison

__all__ = ["ComparedRun", "SolverComparison", "compare_solvers"]
