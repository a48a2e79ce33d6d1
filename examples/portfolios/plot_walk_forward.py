"""
Walk forward through years of returns
=====================================

A portfolio is fitted on the last five years and held for one. Then the window moves on by a year. So each return that
is counted was unknown when its weights were chosen.

The returns are those of 25 European portfolios, by size and profitability, from the library of Kenneth French. Where
they are not on this computer, returns with common factors are generated in their place. They have volatile times and
large losses. ``download_if_missing=True`` gets the real ones.
"""

# %%
# Returns
# -------
from pathlib import Path

import numpy as np

import sk_stormc
from sk_stormc.datasets import fetch_french_portfolios


def generated(n_days=7240, n_assets=25, seed=0):
    """Daily returns in percent: five common factors, and volatility that changes slowly."""
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(0.1, 0.5, (5, n_assets))
    logs = np.convolve(rng.normal(size=n_days + 499), np.ones(500) / 15, mode="valid")  # of the volatility
    factors = np.exp(0.4 * logs)[:, None] * rng.standard_t(5, (n_days, 5)) * 0.6
    return 0.03 + factors @ loadings + rng.normal(0, 0.3, (n_days, n_assets))


def european_returns():
    """Returns in percent, and where they are from."""
    try:
        found = fetch_french_portfolios("Europe", "OP", download_if_missing=False)
        whole = np.isfinite(found.returns).all(axis=1)
        return 100 * found.returns[whole], "25 European portfolios"
    except OSError:
        checkout = Path(sk_stormc.__file__).parents[1]
        file = checkout.parent / "shared" / "data" / "french25_Europe_OP.npz"
        if file.exists():
            return np.load(file)["returns_bp"] / 100, "25 European portfolios"
    return generated(), "25 generated assets"


returns, source = european_returns()
print(f"{source}: {len(returns)} days of {returns.shape[1]} assets, standard deviation {returns.std():.2f} % a day")

# %%
# Four ways to choose weights
# ---------------------------
# None of them may sell short. Each fit starts from the weights of the year before.
from sklearn.model_selection import TimeSeriesSplit

from sk_stormc import CompositionalPortfolio

YEAR = 250  # trading days
common = {"constraint": (0.0, 0.2), "budget": 1.0, "warm_start": True, "random_state": 0}
portfolios = {
    "variance": CompositionalPortfolio(risk_aversion=1.0, **common),
    "semivariance": CompositionalPortfolio(risk_aversion=2.0, risk_measure="semivariance", **common),
    "entropic": CompositionalPortfolio(risk_aversion=2.0, risk_measure="entropic", **common),
}
years = TimeSeriesSplit(n_splits=(len(returns) - 5 * YEAR) // YEAR, max_train_size=5 * YEAR, test_size=YEAR)
earned = {name: [] for name in (*portfolios, "equal weights")}
for past, year in years.split(returns):
    for name, portfolio in portfolios.items():
        earned[name].append(portfolio.fit(returns[past]).predict(returns[year]))
    earned["equal weights"].append(returns[year].mean(axis=1))
earned = {name: np.concatenate(parts) for name, parts in earned.items()}
print(f"{'':15}{'mean':>8}{'std':>8}{'worst day':>11}   % a day")
for name, r in earned.items():
    print(f"{name:15}{r.mean():8.3f}{r.std():8.3f}{r.min():11.2f}")

# %%
# What they earned, and the frontier of the last five years
# ---------------------------------------------------------
# On the left is the sum of the returns. On the right each point of a curve is a portfolio for another aversion to risk,
# fitted on the last window. More return is to be had only with more risk.
from matplotlib import pyplot as plt

from sk_stormc.plotting import FrontierDisplay

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
styles = {"variance": "-", "semivariance": "--", "entropic": "-.", "equal weights": ":"}
for name, r in earned.items():
    left.plot(5 + np.arange(1, len(r) + 1) / YEAR, r.cumsum(), styles[name], label=name, linewidth=1.6)
left.set(xlabel="years since the first return", ylabel="sum of the returns, percent", title=f"{source}, out of sample")
left.legend(frameon=False)
FrontierDisplay.from_estimator(
    CompositionalPortfolio(constraint=(0.0, 0.2), budget=1.0, random_state=0),
    returns[-5 * YEAR :], name="at most 20 % in each", ax=right,
)  # fmt: skip
right.set_title("the last five years, percent a day")
plt.show()
