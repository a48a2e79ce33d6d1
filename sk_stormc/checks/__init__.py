"""Checks of an author's own problem or method against the contract that `minimize` and the estimators rely on.

A problem's derivatives are compared with central differences, and its batches with their mean. A method makes short
runs, and what it says of itself is compared with the truth: its oracle calls, its point, and that it has converged.
`check_solver` is imported from here, and `check_problem` from `sk_stormc.problems`.
"""

from sk_stormc.checks.solver import check_solver

__all__ = ["check_solver"]
