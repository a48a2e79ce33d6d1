"""
Rare large losses: entropic risk, CVaR and EVaR
===============================================

Two assets vary moderately every day. A third asset varies less on most days, but loses
12 percent on one day in two hundred. The variance does not distinguish such crashes
from many small deviations. Measures of tail risk give more weight to them:

- CVaR, the conditional value at risk, is the mean of the worst five percent of the
  losses.
- EVaR, the entropic value at risk, is an upper bound of CVaR from exponential moments,
  and gives more weight to the largest losses.
- Entropic risk is the logarithm of a mean of exponentials of the losses.
"""

# %%
# Returns with crashes
# --------------------
import numpy as np

rng = np.random.default_rng(0)
calm = rng.normal(0.05, 1.0, (4000, 2))  # percent a day
crashes = np.where(rng.random((4000, 1)) < 0.005, -12.0, 0.06)
returns = np.hstack([calm, rng.normal(0.05, 0.55, (4000, 1)) + crashes])
print(
    "mean",
    returns.mean(axis=0).round(3),
    "standard deviation",
    returns.std(axis=0).round(2),
)

# %%
# Minimum-risk portfolios
# -----------------------
# With ``risk_aversion=numpy.inf`` the estimator minimises the risk alone. The entropic
# risk includes the mean return, and needs a finite value.
from sk_stormc import CompositionalPortfolio

risks = {
    "variance": {"risk_aversion": np.inf},
    "semivariance": {"risk_measure": "semivariance", "risk_aversion": np.inf},
    "CVaR": {"risk_measure": "cvar", "confidence": 0.95, "risk_aversion": np.inf},
    "entropic": {"risk_measure": "entropic", "risk_aversion": 0.5},
    "EVaR": {"risk_measure": "evar", "confidence": 0.95, "risk_aversion": np.inf},
}
portfolios = {
    name: CompositionalPortfolio(constraint="long_only", **params).fit(returns)
    for name, params in risks.items()
}

# %%
# Weights and losses
# ------------------
# CVaR is a mean over one day in twenty, while crashes occur on one day in two hundred.
# Its portfolio holds nearly as much of the third asset as that of the variance. The
# portfolio of EVaR holds the least. Its largest loss is less than half of that of the
# variance's portfolio, and its losses on ordinary days are larger.
from matplotlib import pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
names, base = list(portfolios), np.zeros(len(portfolios))
for j, (asset, colour) in enumerate(
    (("first", "#56B4E9"), ("second", "#0072B2"), ("with crashes", "#D55E00"))
):
    weights = np.array([portfolio.weights_[j] for portfolio in portfolios.values()])
    left.bar(names, weights, bottom=base, color=colour, label=asset)
    base += weights
left.set(ylabel="weight", title="weights", ylim=(0, 1.25))
left.legend(frameon=False, ncols=3, loc="upper center")
for (name, portfolio), style in zip(
    portfolios.items(), ("-", "--", "-.", ":", (0, (5, 1))), strict=True
):
    losses = np.sort(-portfolio.predict(returns))[::-1]
    right.plot(
        np.arange(1, len(losses) + 1) / len(losses), losses, linestyle=style, label=name
    )
right.set(
    xscale="log",
    xlabel="fraction of the days with a larger loss",
    ylabel="loss, percent",
    title="losses",
    ylim=(0, None),
)
right.legend(frameon=False)
plt.show()
