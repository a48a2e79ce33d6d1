"""Portfolios: weights of assets that balance the mean return against a measure of risk.

The wing has the problem of each measure (variance, semivariance, entropic risk, CVaR, EVaR), constraints and the cost
of trades, returns with labels and from files, scorers, data sets, and the estimator `CompositionalPortfolio`.
"""

from sk_stormc.portfolio import cvar, entropic, evar  # noqa: F401 - which declare the risk measures that they have
