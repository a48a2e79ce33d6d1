"""Portfolios: weights of assets that balance the mean return against a measure of risk.

This package has a problem class for each risk measure (variance, semivariance, entropic risk, CVaR, EVaR,
semideviation, downside risk, drawdowns), constraints and transaction costs, labelled returns and returns in files,
scorers, data sets, and the estimator `CompositionalPortfolio`.
"""

# each class of a risk measure registers itself with PortfolioProblem when it is imported
from sk_stormc.portfolio.risk import drawdown, entropic, semideviation, tail

__all__ = ["drawdown", "entropic", "semideviation", "tail"]
