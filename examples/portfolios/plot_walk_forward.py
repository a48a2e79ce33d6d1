"""
Walk-forward evaluation with sectors and trades
===============================================

Each portfolio is fitted on the last four years and held for half a year, and the window then advances by half a year.
The evaluation thus uses only returns that were unknown when the weights were chosen. One of the portfolios holds at
most a third in each sector. It also limits its trades, since it is expensive to replace most of a portfolio each time.

The returns are those of 20 large American companies from 1990 to 2022, from a data set of skfolio. If skfolio is not
installed, the example generates returns with common factors, volatile periods and large losses.
"""

# %%
# Returns and sectors
# -------------------
import numpy as np

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
    """Daily returns in percent and their dates."""
    from skfolio.datasets import load_sp500_dataset

    prices = load_sp500_dataset()[names]
    return (
        100 * prices.pct_change().iloc[1:].to_numpy(),
        prices.index.year.to_numpy()[1:],
        "20 American companies",
    )


def generated_returns(n_days=8000, n_assets=20, seed=0):
    """Returns with five common factors, and a volatility that changes slowly."""
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(0.1, 0.8, (5, n_assets))
    # of the volatility
    logs = np.convolve(rng.normal(size=n_days + 499), np.ones(500) / 15, mode="valid")
    factors = np.exp(0.4 * logs)[:, None] * rng.standard_t(5, (n_days, 5)) * 0.6
    own = rng.standard_t(4, (n_days, n_assets)) * rng.uniform(0.5, 1.5, n_assets)
    return (
        0.03 + factors @ loadings + own,
        1990 + np.arange(n_days) // 250,
        "20 generated assets",
    )


try:
    returns, year, source = real_returns()
except ImportError:
    returns, year, source = generated_returns()
print(f"{source}: {len(returns)} days, {year[0]} to {year[-1]}")
print(f"standard deviation {returns.std():.2f} % a day")

# %%
# Four portfolios
# ---------------
# "minimum variance" minimises the risk alone. The next two balance the mean return against CVaR. The second of them has
# constraints: each sector is at most a third, and the turnover of each half-year is at most 0.4, which is a fifth sold
# and a fifth bought. The fourth has equal weights. The weights of a half-year change with the prices until its end.
from sklearn.model_selection import TimeSeriesSplit

from sk_stormc import CompositionalPortfolio

HALF = 126  # trading days of half a year
caps = {
    "groups": [sector[name] for name in names],
    "linear_constraints": [f"{label} <= 0.3333" for label in SECTORS],
}
tail = {
    "risk_measure": "cvar",
    "risk_aversion": 0.04,
    "confidence": 0.95,
    "constraint": "long_only",
}
portfolios = {
    "minimum variance": CompositionalPortfolio(
        risk_aversion=np.inf, constraint="long_only"
    ),
    "mean and CVaR": CompositionalPortfolio(**tail),
    "sectors, few trades": CompositionalPortfolio(max_turnover=0.4, **caps, **tail),
}
window = 4 * 252
halves = TimeSeriesSplit(
    (len(returns) - window) // HALF, max_train_size=window, test_size=HALF
)
equal = np.full(len(names), 1 / len(names))
held = dict.fromkeys((*portfolios, "equal weights"), equal)
earned, traded, days = {name: [] for name in held}, dict.fromkeys(held, 0.0), []
for past, ahead in halves.split(returns):
    days.append(ahead)
    for name in held:
        before, weights = held[name], equal
        if name in portfolios:
            weights = (
                portfolios[name]
                .set_params(previous_weights=before)
                .fit(returns[past])
                .weights_
            )
        traded[name] += np.abs(weights - before).sum() / halves.n_splits
        # of each asset since it was bought
        growth = np.cumprod(1 + returns[ahead] / 100, axis=0)
        value = growth @ weights
        earned[name].append(value / np.r_[1.0, value[:-1]] - 1)
        held[name] = growth[-1] * weights / value[-1]
days = np.concatenate(days)
print(
    f"{'':24}{'mean':>8}{'std':>8}{'worst day':>11}   % a day{'trades a half-year':>20}"
)
for name, parts in earned.items():
    r = 100 * np.concatenate(parts)
    print(f"{name:24}{r.mean():8.3f}{r.std():8.3f}{r.min():11.2f}{traded[name]:28.2f}")

# %%
# Growth, and the sectors of the last portfolios
# ----------------------------------------------
# The left plot shows the growth of an investment before costs. The right plot shows the sectors of the portfolios of
# the last half-year.
from matplotlib import pyplot as plt

figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.5), layout="constrained", width_ratios=[3, 2]
)
colours = {
    "minimum variance": "C0",
    "mean and CVaR": "C3",
    "sectors, few trades": "C1",
    "equal weights": "0.5",
}
time = year[0] + days / (len(returns) / (year[-1] - year[0] + 1))
for name, parts in earned.items():
    left.semilogy(
        time,
        np.cumprod(1 + np.concatenate(parts)),
        color=colours[name],
        label=name,
        linewidth=1.2,
    )
left.set(xlabel="year", ylabel="growth of 1", title=f"{source}, out of sample")
left.legend(frameon=False)
places = np.arange(len(SECTORS))
for k, (name, portfolio) in enumerate(portfolios.items()):
    shares = [
        sum(
            w
            for asset, w in zip(names, portfolio.weights_, strict=True)
            if sector[asset] == s
        )
        for s in SECTORS
    ]
    right.barh(places + 0.27 * (1 - k), shares, 0.25, color=colours[name], label=name)
right.axvline(1 / 3, color="0.5", linestyle=":")
right.set_yticks(places, list(SECTORS))
right.invert_yaxis()
right.set(
    xlabel="fraction of the last portfolio",
    title="sectors (dotted: limit of one portfolio)",
)
plt.show()
