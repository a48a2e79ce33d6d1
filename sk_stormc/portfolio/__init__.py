"""Portfolios: weights of assets that balance the mean return against a measure of risk.

This package has a problem class for each risk measure (variance, semivariance, entropic risk, CVaR, EVaR,
semideviation, downside risk, drawdowns), constraints and transaction costs, labelled returns and returns in files,
scorers, data sets, and the estimator `CompositionalPortfolio`.
"""

# each class of a risk measure registers itself with PortfolioProblem when it is imported
from sk_stormc.portfolio import cvar, drawdown, entropic, evar, semideviation

__all__ = ["cvar", "drawdown", "entropic", "evar", "semideviation"]
