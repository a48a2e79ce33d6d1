"""A check of methods against the contract that `minimize` and the estimators rely on."""

from sk_stormc.checks.solver import check_solver

__all__ = ["check_solver"]
