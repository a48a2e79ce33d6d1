"""
Streams from dask collections
=============================

This example passes the partitions of a dask array or data frame to ``partial_fit``,
with one partition in memory at a time. The result does not depend on how the rows are
divided into partitions, to the last bit. It needs ``pip install "sk_stormc[dask]"``.
"""

# %%
# An array, and a data frame
# --------------------------
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns

returns = make_gaussian_returns(5000, 4, mean=0.1, random_state=0)
plain = CompositionalPortfolio(constraint="long_only").partial_fit(returns)

array = da.from_array(returns, chunks=((2000, 1, 37, 2962), 4))
portfolio = CompositionalPortfolio(constraint="long_only")
for i in range(array.numblocks[0]):
    portfolio.partial_fit(array.blocks[i].compute())
np.testing.assert_array_equal(portfolio.weights_, plain.weights_)

frame = dd.from_pandas(
    pd.DataFrame(returns, columns=["A", "B", "C", "D"]), npartitions=40
)
portfolio, seen, weights = (
    CompositionalPortfolio(constraint="long_only"),
    [0],
    [np.full(4, 0.25)],
)
for part in frame.partitions:
    rows = part.compute()
    portfolio.partial_fit(rows)
    seen.append(seen[-1] + len(rows))
    weights.append(portfolio.weights_)
np.testing.assert_array_equal(portfolio.weights_, plain.weights_)
print(
    dict(
        zip(
            portfolio.feature_names_in_,
            portfolio.weights_.round(3).tolist(),
            strict=True,
        )
    )
)

# %%
# Transitions
# -----------
# X, next_X, y and terminal are columns of one table, so that they are divided in the
# same way. This part uses "storm-c", which makes a step for each batch of rows. The
# default would solve the equations of all rows so far after each partition.
log = make_bellman_problem(20, 5, 0.9, "garnet", random_state=0).transitions(
    4000, random_state=0
)
straight = BellmanValueEstimator(0.9, "storm-c", random_state=0)
straight.partial_fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
table = da.from_array(
    np.column_stack([log.X, log.next_X, log.y, log.terminal]), chunks=(900, -1)
)
value = BellmanValueEstimator(0.9, "storm-c", random_state=0)
for i in range(table.numblocks[0]):
    rows = table.blocks[i].compute()
    value.partial_fit(
        rows[:, :5], rows[:, 10], next_X=rows[:, 5:10], terminal=rows[:, 11] == 1
    )
np.testing.assert_array_equal(value.coef_, straight.coef_)
print(value.coef_.round(3), value.stop_reason_)

# %%
# The weights after each partition
# --------------------------------
# The default keeps sums of products of the returns. The weights after a partition are
# therefore the optimum over nearly all rows so far.
from matplotlib import pyplot as plt

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, curve, style in zip(
    "ABCD", np.array(weights).T, ("-", "--", "-.", ":"), strict=True
):
    ax.plot(seen, curve, style, label=name)
ax.set(xlabel="rows seen", ylabel="weight")
ax.legend(frameon=False, title="asset")
plt.show()
