"""
Own forecasts and a limited number of assets, walked forward
============================================================

Forecasts of the mean return replace the means of the history, a limit of four assets
keeps the portfolio small, and a walk through the years shows what this would have
earned after costs. It needs ``pip install "sk_stormc[integer,pandas]"``.
"""

# %%
# Returns
# -------
# The weekly returns of 15 generated assets have a common factor. Their means change
# slowly, so that forecasts are possible, but not precise.
import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from sk_stormc import CompositionalPortfolio, walk_forward
from sk_stormc.plotting import WalkForwardDisplay

rng = np.random.default_rng(1)
n_weeks, n_assets = 520, 15
means = np.full((n_weeks, n_assets), 0.001)
for week in range(1, n_weeks):
    change = 0.0005 * rng.normal(size=n_assets)
    means[week] = 0.001 + 0.98 * (means[week - 1] - 0.001) + change
market = 0.015 * rng.standard_t(5, size=(n_weeks, 1))
noise = 0.02 * rng.standard_t(5, size=(n_weeks, n_assets))
weeks = pd.date_range("2016-01-01", periods=n_weeks, freq="W-FRI")
names = [f"asset {k}" for k in range(1, n_assets + 1)]
values = means + market * rng.uniform(0.5, 1.5, n_assets) + noise
returns = pd.DataFrame(values, weeks, names)

# %%
# Forecasts of each date
# ----------------------
# A frame of forecasts has a row for each date, of which a fit gets the row at or before
# the last date of its window. This one is known at the end of each week: half of a
# moving average, and half of the mean of all assets.
moving = returns.ewm(halflife=26).mean()
forecasts = 0.5 * moving + 0.5 * moving.mean(axis=1).to_numpy()[:, None]

# %%
# Four assets
# -----------
# ``max_assets`` limits the number of assets, and ``min_held`` excludes tiny positions.
# SCIP chooses the assets. A search that takes longer than ``time_limit`` seconds ends
# with the best portfolio so far, and a warning that contains its gap. A ``tol`` of 1 %
# saves time.
common = {"constraint": (0.0, 0.4), "budget": 1.0, "risk_aversion": 4.0}
few = CompositionalPortfolio(
    expected_returns=forecasts.iloc[103],
    max_assets=4,
    min_held=0.1,
    time_limit=10,
    tol=0.01,
    **common,
).fit(returns.iloc[:104])
weights = few.named_weights()
print(weights[weights > 0].round(3), f"gap {few.dual_gap_:.1e}", few.stop_reason_)

# %%
# The walk
# --------
# Each quarter the portfolios are fitted on the two years before, and trades cost 0.1 %.
portfolios = {
    "history": CompositionalPortfolio(**common),
    "forecasts": CompositionalPortfolio(expected_returns=forecasts, **common),
    "forecasts, four assets": few.set_params(expected_returns=forecasts),
}
results = walk_forward(
    portfolios,
    returns,
    window=104,
    refit_every=13,
    trading_cost=0.001,
    periods_per_year=52,
)
print(results.summary().round(3))
held = results["forecasts, four assets"].weights_after
print(f"assets held: {sorted(set((held > 0).sum(axis=1)))}")

# %%
# Wealth, drawdowns and weights
# -----------------------------
# These forecasts need more trades than the means of the history, and earn no more. The
# limit of four assets changes little.
WalkForwardDisplay.from_results(results)
plt.show()
