"""
Four solvers on one portfolio
=============================

All solvers have the same interface, and measure their cost in the same unit: oracle
calls, which are evaluations of sampled components. Their convergence curves can
therefore be compared independently of the computer.
"""

# %%
# The next block fits the same estimator with each solver. "asc-pg" warns that its
# budget is used up before the tolerance is met.
import warnings

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns

# only risk_aversion limits the weights, which is intended here
warnings.filterwarnings("ignore", "CompositionalPortfolio has no constraint")
returns = make_gaussian_returns(3000, 50, mean=0.5, condition_number=20, random_state=0)
fits = {
    name: CompositionalPortfolio(name, tol=1e-8, random_state=0).fit(returns)
    for name in ("storm-c", "sarah-c", "asc-pg", "lbfgs")
}
for name, fit in fits.items():
    print(f"{name:8} {fit.stop_reason_}, {fit.ifo_[-1]} oracle calls")

# %%
# Three of the solvers converge to the limit of double precision. "asc-pg" has no
# variance reduction, and its noise slows the convergence.
from matplotlib import pyplot as plt

from sk_stormc.plotting import ConvergenceDisplay

ConvergenceDisplay.from_estimator(fits, y="gap")
plt.show()
