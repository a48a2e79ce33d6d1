"""
Efficient frontiers with different constraints
==============================================

The efficient frontier consists of the portfolios with the largest mean return at a
given risk. This example compares long-only portfolios with those that hold at most 30
percent of each asset, and with a risk measure that takes only returns below the mean
into account.
"""

# %%
# Four values of risk_aversion
# ----------------------------
# As the risk aversion increases, the mean return and the standard deviation decrease,
# and the portfolio holds more assets.
import numpy as np

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns

mean = np.linspace(0.02, 0.2, 10)  # percent a day
returns = make_gaussian_returns(2500, 10, mean=mean, condition_number=4, random_state=0)
portfolios = {
    "long only": {"constraint": "long_only"},
    "at most 30 %": {"constraint": (0.0, 0.3), "budget": 1.0},
    "semivariance": {
        "constraint": (0.0, 0.3),
        "budget": 1.0,
        "risk_measure": "semivariance",
    },
}
print(f"{'':14}{'lambda':>8}{'mean':>8}{'std':>8}{'assets':>8}")
for name, params in portfolios.items():
    for risk_aversion in (0.03, 0.1, 0.3, 1.0):
        fit = CompositionalPortfolio(risk_aversion=risk_aversion, **params).fit(returns)
        r = fit.predict(returns)
        held = np.count_nonzero(fit.weights_)
        print(f"{name:14}{risk_aversion:8}{r.mean():8.3f}{r.std():8.3f}{held:8}")

# %%
# The frontiers
# -------------
# ``FrontierDisplay`` fits the portfolios of the curve. The points are the assets. The
# limit of 30 percent reduces the mean return of portfolios with a high risk. It does
# not change those with a low risk, which are diversified anyway.
from matplotlib import pyplot as plt

from sk_stormc.plotting import FrontierDisplay

figure, ax = plt.subplots(layout="constrained")
for name, look in (
    ("long only", {}),
    ("at most 30 %", {"color": "black", "marker": "s"}),
):
    FrontierDisplay.from_estimator(
        CompositionalPortfolio(**portfolios[name]), returns, name=name, ax=ax, **look
    )
plt.show()
