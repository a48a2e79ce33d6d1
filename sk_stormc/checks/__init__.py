"""Checks of user-defined problems and methods against the contract that `minimize` and
the estimators rely on.

A problem's derivatives are compared with central differences, and its batches with the
mean over all components. A method is checked in short runs: the oracle calls, the point
and the convergence that it reports are compared with independent computations.
`check_solver` is imported from here, and `check_problem` from `sk_stormc.problems`.
"""

from sk_stormc.checks.solver import check_solver

__all__ = ["check_solver"]
