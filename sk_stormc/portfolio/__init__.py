"""Portfolio optimization: weights of assets that balance the expected return against a measure of risk.

This package contains a problem class for each risk measure (variance, semivariance, entropic risk, CVaR, EVaR,
semideviation, downside risk, drawdowns), constraints and transaction costs, the validation of labelled returns,
scorers, and the estimator `CompositionalPortfolio`.
"""

# each class of a risk measure registers itself with PortfolioProblem when it is imported
from sk_stormc.portfolio.risk import drawdown, entropic, semideviation, tail

__all__ = ["drawdown", "entropic", "semideviation", "tail"]
