"""
Walk-forward evaluation with sectors and trades
===============================================

Each portfolio is fitted on the last four years and held for half a year, and the window
then advances by half a year. The evaluation thus uses only returns that were unknown
when the weights were chosen. One of the portfolios holds at most a third in each
sector. It also limits its trades, since it is expensive to replace most of a portfolio
each time.

The returns are those of 20 large American companies from 1990 to 2022, from a data set
of skfolio. If skfolio is not installed, the example generates returns with common
factors, volatile periods and large losses.
"""

# %%
# Returns and sectors
# -------------------
import numpy as np
import pandas as pd

SECTORS = {
    "technology": ["AAPL", "AMD", "MSFT"],
    "banks": ["BAC", "JPM"],
    "energy": ["CVX", "RRC", "XOM"],
    "health": ["JNJ", "LLY", "MRK", "PFE", "UNH"],
    "shops": ["BBY", "HD", "WMT"],
    "staples": ["KO", "PEP", "PG"],
    "industry": ["GE"],
}
sector = {name: label for label, names in SECTORS.items() for name in names}
names = sorted(sector)


def real_returns():
    """Daily returns and their dates."""
    from skfolio.datasets import load_sp500_dataset

    return load_sp500_dataset()[names].pct_change().iloc[1:], "20 American companies"


def generated_returns(n_days=8000, n_assets=20, seed=0):
    """Returns with five common factors, and a volatility that changes slowly."""
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(0.1, 0.8, (5, n_assets))
    # of the volatility
    logs = np.convolve(rng.normal(size=n_days + 499), np.ones(500) / 15, mode="valid")
    factors = np.exp(0.4 * logs)[:, None] * rng.standard_t(5, (n_days, 5)) * 0.6
    own = rng.standard_t(4, (n_days, n_assets)) * rng.uniform(0.5, 1.5, n_assets)
    days = pd.bdate_range("1990-01-02", periods=n_days)
    values = (0.03 + factors @ loadings + own) / 100
    return pd.DataFrame(values, days, names), "20 generated assets"


try:
    returns, source = real_returns()
except ImportError:
    returns, source = generated_returns()
print(
    f"{source}: {len(returns)} days from {returns.index[0]:%Y} to "
    f"{returns.index[-1]:%Y}"
)

# %%
# Three portfolios
# ----------------
# "least variance" minimises the risk alone. The other two balance the mean return
# against CVaR. The second of them has constraints: each sector is at most a third, and
# the turnover of each half-year is at most 0.4, which is a fifth sold and a fifth
# bought. Each trade costs 0.1 percent of what is traded. The result of equal weights,
# "1/N", is added.
from sk_stormc import CompositionalPortfolio, walk_forward

tail = {
    "risk_measure": "cvar",
    "risk_aversion": 0.04,
    "confidence": 0.95,
    "constraint": "long_only",
}
portfolios = {
    "least variance": CompositionalPortfolio(
        risk_aversion=np.inf, constraint="long_only"
    ),
    "mean and CVaR": CompositionalPortfolio(**tail),
    "sectors, few trades": CompositionalPortfolio(
        max_turnover=0.4,
        groups=sector,
        linear_constraints=[f"{label} <= 0.3333" for label in SECTORS],
        **tail,
    ),
}
results = walk_forward(
    portfolios, returns, window=4 * 252, refit_every=126, trading_cost=0.001
)
print(results.summary().round(3).to_string())

# %%
# Wealth, drawdowns and weights
# -----------------------------
# The legend has the return and the deviation of a year, after costs.
from matplotlib import pyplot as plt

from sk_stormc.plotting import WalkForwardDisplay

display = WalkForwardDisplay.from_results(results, linewidth=1.2)
plt.show()

# %%
# The largest sector
# ------------------
# The limit of a third holds when the portfolio is bought. Until the next trade the
# weights drift with the returns.
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
for name in ("mean and CVaR", "sectors, few trades"):
    by_sector = results[name].weights.T.groupby(sector).sum().T
    color = display.wealth_lines_[name].get_color()
    ax.plot(by_sector.max(axis=1), color=color, label=name, linewidth=1.2)
ax.axhline(1 / 3, color="0.5", linestyle=":")
ax.set(ylabel="share of the largest sector", ylim=(0, 1.02))
ax.legend(loc="lower right", frameon=False)
plt.show()
