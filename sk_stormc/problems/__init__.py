"""Public names of the problem classes and of `check_problem`. Each problem is defined
in its application's package."""

from sk_stormc.checks.problem import check_problem
from sk_stormc.core.advice import Advice, Published
from sk_stormc.core.autodiff import DifferentiableComposition
from sk_stormc.core.autodiff_exponents import DifferentiableLogMeanExp
from sk_stormc.core.composition import FiniteSumComposition
from sk_stormc.core.log_mean_exp import LogMeanExpProblem
from sk_stormc.core.problem import CompositionalProblem
from sk_stormc.core.source import FiniteSource, Source
from sk_stormc.core.unit import InUnit
from sk_stormc.embedding.problem import SNEProblem
from sk_stormc.portfolio.compositional import PortfolioProblem
from sk_stormc.portfolio.risk.entropic import EntropicPortfolioProblem
from sk_stormc.streams.problem import StreamingProblem
from sk_stormc.values.sums.problems import BellmanProblem
from sk_stormc.values.sums.projected import ProjectedBellmanProblem

__all__ = [
    "Advice",
    "BellmanProblem",
    "CompositionalProblem",
    "DifferentiableComposition",
    "DifferentiableLogMeanExp",
    "EntropicPortfolioProblem",
    "FiniteSource",
    "FiniteSumComposition",
    "InUnit",
    "LogMeanExpProblem",
    "PortfolioProblem",
    "ProjectedBellmanProblem",
    "Published",
    "SNEProblem",
    "Source",
    "StreamingProblem",
    "check_problem",
]
