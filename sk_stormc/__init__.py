"""Stochastic compositional optimisation with scikit-learn's interface."""

from sk_stormc.estimators import BellmanValueEstimator, CompositionalPortfolio, SNEEmbedding, sharpe_ratio
from sk_stormc.solvers import ASCPG, LBFGS, SCGD, VRSCPG, SARAHCompositional, STORMCompositional, minimize

__version__ = "0.1.0"

__all__ = [
    "ASCPG",
    "LBFGS",
    "SCGD",
    "VRSCPG",
    "BellmanValueEstimator",
    "CompositionalPortfolio",
    "SARAHCompositional",
    "SNEEmbedding",
    "STORMCompositional",
    "minimize",
    "sharpe_ratio",
]
