"""Comparison of solvers on a problem or with an estimator, from several seeds, by their times and oracle calls.

Every run is watched from outside, so that methods are compared by the same clock and the same count. The result is a
table that can be printed, plotted, or read run by run.
"""

from sk_stormc.compare.solvers import compare_solvers
from sk_stormc.compare.table import ComparedRun, SolverComparison

__all__ = ["ComparedRun", "SolverComparison", "compare_solvers"]
