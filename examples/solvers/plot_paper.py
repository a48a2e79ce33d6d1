"""
The paper's portfolio experiment
================================

Yuan and Hu (2020) compare STORM-Compositional with four methods on 2,000 Gaussian
returns of 200 assets. This example repeats the experiment on returns that are generated
in the same way. ``python -m sk_stormc reproduce portfolio`` runs the complete
experiment. ``python -m sk_stormc reproduce all --out DIR`` runs all experiments of the
paper, and writes a report on which of its claims are confirmed.
"""

# %%
# Published constants
# -------------------
# All methods are initialized at weights of one. Their step sizes are those of the
# published programs.
import numpy as np

from sk_stormc import minimize
from sk_stormc.problems import PortfolioProblem
from sk_stormc.reproduce.portfolio import METHODS, minimum, published_sets

BUDGET = 300_000  # a tenth of the paper's
problem = PortfolioProblem(published_sets()["condition number 20"])
best, ones = minimum(problem), np.ones(problem.n_variables)


def run(method, **params):
    return minimize(problem, method, ones, random_state=0, max_ifo=BUDGET, **params)


published = {name: run(name, **params) for name, params in METHODS.items()}

# %%
# Automatic step sizes
# --------------------
# The published step size of SARAH-C and VRSC-PG is 2e-5, which is far too small for
# this problem. In the next block each method chooses its own step size: "auto"
# estimates the curvature and uses 0.7 divided by it, or less in later iterations.
automatic = {
    name: run(name, tol=0) for name in ("scgd", "asc-pg", "vrsc-pg", "sarah-c")
}
automatic |= {name: published[name] for name in ("storm-c", "storm-c-paper", "lbfgs")}

# %%
# With the published constants STORM-C reaches a lower objective than the four other
# methods. With automatic step sizes the methods with checkpoints converge to the
# minimum. STORM-C with the constants of the paper does not within this budget.
from matplotlib import pyplot as plt

from sk_stormc.plotting import ConvergenceDisplay

figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained", sharey=True)
for ax, results, title in zip(
    axes, (published, automatic), ("published", "automatic"), strict=True
):
    ConvergenceDisplay.from_results(results, y="gap", optimum=best, ax=ax)
    ax.set_title(f"{title} step sizes")
plt.show()
