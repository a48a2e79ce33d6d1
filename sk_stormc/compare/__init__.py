"""Comparison of solvers on a problem or with an estimator, from several seeds, by their times and oracle calls."""

from sk_stormc.compare.solvers import compare_solvers
from sk_stormc.compare.table import ComparedRun, SolverComparison

__all__ = ["ComparedRun", "SolverComparison", "compare_solvers"]
