"""Entropic risk of returns with rare crashes: it holds less of what crashes than the variance of equal mean does."""

import numpy as np

from sk_stormc import CompositionalPortfolio

rng = np.random.default_rng(0)
calm = rng.normal(0.05, 1.0, (4000, 2))  # percent a day
crashes = np.where(rng.random((4000, 1)) < 0.005, -12.0, 0.06)
returns = np.hstack([calm, rng.normal(0.05, 0.55, (4000, 1)) + crashes])
print("mean", returns.mean(0).round(3), "std", returns.std(0).round(2))
for risk_aversion in (0.05, 0.2):
    variance, entropic = (
        CompositionalPortfolio(
            risk_measure=measure, risk_aversion=factor * risk_aversion, constraint="long_only", random_state=0
        ).fit(returns)
        for measure, factor in (("variance", 0.5), ("entropic", 1.0))  # equal for Gaussian returns
    )
    print(f"lambda {risk_aversion}: variance {variance.weights_.round(3)}, entropic {entropic.weights_.round(3)}")
