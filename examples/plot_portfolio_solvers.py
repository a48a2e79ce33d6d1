"""Objective against oracle calls for four solvers: loss_curve_ over ifo_, written to portfolio_solvers.png."""

from matplotlib.figure import Figure

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns

returns = make_gaussian_returns(3000, 50, mean=0.5, condition_number=20, random_state=0)
figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.add_subplot()
fits = {
    name: CompositionalPortfolio(name, tol=1e-8, random_state=0).fit(returns)
    for name in ("storm-c", "sarah-c", "asc-pg", "lbfgs")
}
best = min(fit.loss_curve_[-1] for fit in fits.values())
for name, fit in fits.items():
    axes.semilogy(fit.ifo_, fit.loss_curve_ - best, label=name)
axes.set(xlabel="IFO", ylabel="objective gap", xlim=(0, 300_000), ylim=(1e-8, None))
axes.legend()
figure.savefig("portfolio_solvers.png", dpi=150)
print({name: int(fit.ifo_[-1]) for name, fit in fits.items()})
