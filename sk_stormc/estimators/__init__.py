"""Estimators with scikit-learn's interface and an exchangeable solver."""

from sk_stormc.embedding.estimator import SNEEmbedding
from sk_stormc.portfolio.estimator import CompositionalPortfolio
from sk_stormc.portfolio.metrics import make_sharpe_scorer, sharpe_ratio
from sk_stormc.values.action_values import ActionValueEstimator
from sk_stormc.values.estimator import BellmanValueEstimator

__all__ = [
    "ActionValueEstimator",
    "BellmanValueEstimator",
    "CompositionalPortfolio",
    "SNEEmbedding",
    "make_sharpe_scorer",
    "sharpe_ratio",
]
