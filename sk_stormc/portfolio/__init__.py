"""Portfolio optimization: weights of assets that balance the expected return against a
measure of risk.

This package contains a file for each risk measure (variance, semivariance, entropic
risk, CVaR, EVaR, semideviation, downside risk, drawdowns), constraints and transaction
costs, the validation of labelled returns, scorers, and the estimator
`CompositionalPortfolio`.
"""
