"""Stochastic compositional optimisation with scikit-learn's interface."""

from sk_stormc.backtest.walk_forward import walk_forward
from sk_stormc.backtest.walk_results import (
    WalkForwardComparison,
    WalkForwardResult,
)
from sk_stormc.compare import PolicyComparison, compare_policies, compare_solvers
from sk_stormc.embedding.estimator import SNEEmbedding
from sk_stormc.portfolio.estimator import CompositionalPortfolio
from sk_stormc.portfolio.metrics import make_sharpe_scorer, sharpe_ratio
from sk_stormc.portfolio.whole_shares import WholeShares, whole_shares
from sk_stormc.solvers import (
    ASCPG,
    CIVR,
    LBFGS,
    SCGD,
    SCVR,
    VRSCPG,
    AutomaticSTORM,
    CorrectedSample,
    SARAHCompositional,
    SketchySTORM,
    STORMCompositional,
    minimize,
)
from sk_stormc.values.action_values import ActionValueEstimator
from sk_stormc.values.estimator import BellmanValueEstimator
from sk_stormc.values.off_policy.behaviour import estimated_ratios
from sk_stormc.values.off_policy.value import PolicyValue, off_policy_value

__version__ = "0.6.0.dev0"

__all__ = [
    "ASCPG",
    "CIVR",
    "LBFGS",
    "SCGD",
    "SCVR",
    "VRSCPG",
    "ActionValueEstimator",
    "AutomaticSTORM",
    "BellmanValueEstimator",
    "CompositionalPortfolio",
    "CorrectedSample",
    "SARAHCompositional",
    "SNEEmbedding",
    "PolicyComparison",
    "PolicyValue",
    "STORMCompositional",
    "SketchySTORM",
    "WalkForwardComparison",
    "WalkForwardResult",
    "WholeShares",
    "compare_policies",
    "compare_solvers",
    "estimated_ratios",
    "make_sharpe_scorer",
    "minimize",
    "off_policy_value",
    "sharpe_ratio",
    "walk_forward",
    "whole_shares",
]
