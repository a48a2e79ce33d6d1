"""
A search over the parameters of a solver
========================================

The parameters of a solver are nested parameters of the estimator, with names such as
``solver__learning_rate``. This also holds for a solver that is given by its name.
scikit-learn's searches can therefore find the best learning rate and batch size for a
problem.
"""

# %%
# The score is minus the objective on held-out periods. All candidates have the same
# budget of 20,000 oracle calls, which are a few passes over the data. Most of them do
# not converge within this budget, so their warnings are ignored.
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns

warnings.simplefilter("ignore", ConvergenceWarning)
warnings.filterwarnings("ignore", "One or more of the test scores are non-finite")
returns = make_gaussian_returns(4000, 20, mean=0.3, condition_number=20, random_state=0)
grid = {
    "solver__learning_rate": [0.005, 0.01, 0.02, 0.05, 0.1, 0.2],
    "solver__batch_size": [4, 16, 64, 256],
}
portfolio = CompositionalPortfolio("sarah-c", tol=0, random_state=0)
portfolio.set_params(solver__max_ifo=20_000)
search = GridSearchCV(portfolio, grid, cv=TimeSeriesSplit(3, max_train_size=2000))
# scikit-learn computes the standard deviation of scores, some of which are -inf
with np.errstate(invalid="ignore"):
    search.fit(returns)
print(search.best_params_)

# %%
# Larger batches allow larger steps, but fewer of them within the budget. "storm-c"
# needs no such search; the title contains its score with the same budget. A run that
# overflowed has the score -inf, so that no search selects it.
from matplotlib import pyplot as plt
from sklearn.model_selection import cross_val_score

default = CompositionalPortfolio("storm-c", tol=0, random_state=0).set_params(
    solver__max_ifo=20_000
)
ours = cross_val_score(default, returns, cv=search.cv).mean()
rates, batches = grid["solver__learning_rate"], grid["solver__batch_size"]
scores = search.cv_results_["mean_test_score"].reshape(len(batches), len(rates))
finite = scores[np.isfinite(scores)]
lowest = np.quantile(finite, 0.2)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
image = ax.imshow(scores, cmap="viridis", vmin=lowest, aspect="auto")
for (row, column), score in np.ndenumerate(scores):
    # cells of runs that overflowed are white
    light = score > (finite.max() + lowest) / 2 or np.isinf(score)
    text = (
        f"{score:.3f}"
        if score > -100
        else "overflow"
        if np.isinf(score)
        else "diverged"
    )
    ax.text(
        column, row, text, ha="center", va="center", color="black" if light else "white"
    )
ax.set_xticks(range(len(rates)), rates)
ax.set_yticks(range(len(batches)), batches)
ax.set(
    xlabel="learning rate",
    ylabel="batch size",
    title=f"scores of sarah-c (storm-c without tuning: {ours:.3f})",
)
figure.colorbar(image, label="score (larger is better)", extend="min")
plt.show()
