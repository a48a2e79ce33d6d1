"""Objective against oracle calls for four solvers, from fitted portfolios, written to portfolio_solvers.png."""

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns
from sk_stormc.plotting import ConvergenceDisplay

returns = make_gaussian_returns(3000, 50, mean=0.5, condition_number=20, random_state=0)
fits = {
    name: CompositionalPortfolio(name, tol=1e-8, random_state=0).fit(returns)
    for name in ("storm-c", "sarah-c", "asc-pg", "lbfgs")
}
display = ConvergenceDisplay.from_estimator(fits, y="gap")
display.figure_.savefig("portfolio_solvers.png", dpi=150)
print({name: int(fit.ifo_[-1]) for name, fit in fits.items()})
