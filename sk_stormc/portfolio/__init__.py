"""Portfolios: weights of assets that balance the mean return against a measure of risk.

The wing has the problem of each measure (variance, semivariance, entropic risk, CVaR, EVaR, semideviation, downside
risk, drawdowns), constraints and the cost of trades, returns with labels and from files, scorers, data sets, and the
estimator `CompositionalPortfolio`.
"""

# each class of a risk measure makes itself known to PortfolioProblem when it is imported
from sk_stormc.portfolio import cvar, drawdown, entropic, evar, semideviation

__all__ = ["cvar", "drawdown", "entropic", "evar", "semideviation"]
