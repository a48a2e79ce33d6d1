"""scikit-learn's face: estimators with a pluggable solver."""

from sk_stormc.estimators.bellman import BellmanValueEstimator
from sk_stormc.estimators.portfolio import CompositionalPortfolio
from sk_stormc.estimators.scorers import make_sharpe_scorer, sharpe_ratio
from sk_stormc.estimators.sne import SNEEmbedding

__all__ = ["BellmanValueEstimator", "CompositionalPortfolio", "SNEEmbedding", "make_sharpe_scorer", "sharpe_ratio"]
