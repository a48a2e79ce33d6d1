"""
Frontiers under different limits
================================

The frontier has the portfolios that give the most return for their risk. Limits on the weights move it. Here long
positions only are compared with positions of at most 30 percent, and with a measure of risk that is about losses only.
"""

# %%
# Four values of the aversion to risk
# -----------------------------------
# The more averse, the less is earned, the less it varies, and the more assets are held.
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
# ``FrontierDisplay`` fits the whole curve. The points are the assets. A limit of 30 percent costs return where little
# risk is avoided, and nothing where risk is avoided most, since assets are mixed there anyway.
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
