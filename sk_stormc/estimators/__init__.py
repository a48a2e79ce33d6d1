"""scikit-learn's face of the problems."""

from sk_stormc.estimators.portfolio import CompositionalPortfolio, sharpe_ratio

__all__ = ["CompositionalPortfolio", "sharpe_ratio"]
