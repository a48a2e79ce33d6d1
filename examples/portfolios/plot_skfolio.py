"""
Use with skfolio
================

skfolio provides many kinds of portfolios, splits and reports. This example chooses the
``risk_aversion`` of a ``CompositionalPortfolio`` with skfolio's walk-forward splits,
and evaluates the weights on later returns with its ``Portfolio``. It needs ``pip
install skfolio``.
"""

# %%
# Returns with dates and names
# ----------------------------
# The data have a thousand business days. The last 250 are used only for the evaluation.
import numpy as np
import pandas as pd

from sk_stormc.datasets import make_gaussian_returns

names = [f"asset {k}" for k in range(8)]
days = pd.bdate_range("2020-01-01", periods=1000)
mean = np.linspace(0.0002, 0.0012, 8)
market = make_gaussian_returns(1000, 8, mean=0.0, condition_number=4, random_state=0)
X = pd.DataFrame(mean + 0.01 * market, columns=names, index=days)
past, future = X[:750], X[750:]

# %%
# A search with skfolio's splits
# ------------------------------
# The score is the annualised Sharpe ratio on the days after each training window.
# ``numpy.inf`` minimises the risk alone.
from sklearn.model_selection import GridSearchCV

from sk_stormc import CompositionalPortfolio, make_sharpe_scorer

# isort: split
from skfolio import Portfolio
from skfolio.model_selection import WalkForward

search = GridSearchCV(
    CompositionalPortfolio(risk_measure="evar", constraint=(0.0, 0.4), budget=1.0),
    {"risk_aversion": [0.02, 0.1, 0.5, np.inf]},
    scoring=make_sharpe_scorer(),
    cv=WalkForward(train_size=250, test_size=125),
).fit(past)
weights = search.best_estimator_.named_weights()
print(search.best_params_)
print(weights.round(3).to_string())

# %%
# Evaluation on later returns
# ---------------------------
held = Portfolio(future, weights=weights.to_numpy(), name="chosen by EVaR")
equal = Portfolio(future, weights=np.full(8, 1 / 8), name="equal weights")
measures = [
    "Annualized Mean",
    "Annualized Standard Deviation",
    "CVaR at 95%",
    "EVaR at 95%",
]
print(
    pd.DataFrame(
        {one.name: one.summary()[measures] for one in (held, equal)}
    ).to_string()
)

# %%
from matplotlib import pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.bar(names, weights, color="#0072B2")
left.tick_params(axis="x", rotation=45)
left.set(ylabel="weight", title="weights, at most 40 percent each")
for portfolio, style in ((held, "-"), (equal, ":")):
    right.plot(
        future.index, 100 * portfolio.returns.cumsum(), style, label=portfolio.name
    )
right.tick_params(axis="x", rotation=45)
right.set(ylabel="sum of the returns, percent", title="the last 250 days")
right.legend(frameon=False)
plt.show()
