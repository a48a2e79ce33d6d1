"""What is minimised: one file a problem."""

from sk_stormc.problems.base import CompositionalProblem
from sk_stormc.problems.bellman import BellmanProblem, ProjectedBellmanProblem
from sk_stormc.problems.check import check_problem
from sk_stormc.problems.composition import FiniteSumComposition
from sk_stormc.problems.cvar import CVaRPortfolioProblem
from sk_stormc.problems.entropic import EntropicPortfolioProblem
from sk_stormc.problems.evar import EVaRPortfolioProblem
from sk_stormc.problems.log_mean_exp import LogMeanExpProblem
from sk_stormc.problems.portfolio import PortfolioProblem
from sk_stormc.problems.sne import SNEProblem
from sk_stormc.problems.streaming import StreamingProblem

__all__ = [
    "BellmanProblem",
    "CVaRPortfolioProblem",
    "CompositionalProblem",
    "EVaRPortfolioProblem",
    "EntropicPortfolioProblem",
    "FiniteSumComposition",
    "LogMeanExpProblem",
    "PortfolioProblem",
    "ProjectedBellmanProblem",
    "SNEProblem",
    "StreamingProblem",
    "check_problem",
]
