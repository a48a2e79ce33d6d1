"""What is minimised: one file a problem."""

from sk_stormc.problems.base import CompositionalProblem
from sk_stormc.problems.check import check_problem
from sk_stormc.problems.portfolio import PortfolioProblem

__all__ = ["CompositionalProblem", "PortfolioProblem", "check_problem"]
