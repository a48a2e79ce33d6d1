"""Comparison of the times and oracle calls of solvers, on a problem or within an
estimator, for several seeds.

All runs are measured in the same way, so that methods are compared by the same clock
and the same counts. The result contains all runs. It can be printed as a table, or
plotted.
"""

from sk_stormc.compare.comparison import ComparedRun, SolverComparison
from sk_stormc.compare.solvers import compare_solvers

__all__ = ["ComparedRun", "SolverComparison", "compare_solvers"]
