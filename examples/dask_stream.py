"""Streams from the partitions of dask collections, one in memory at a time: the same bits as from numpy."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

from sk_stormc import BellmanValueEstimator, CompositionalPortfolio
from sk_stormc.datasets import make_bellman_problem, make_gaussian_returns

if __name__ == "__main__":
    returns = make_gaussian_returns(5000, 4, mean=0.1, random_state=0)
    plain = CompositionalPortfolio(constraint="long_only", random_state=0).partial_fit(returns)

    array = da.from_array(returns, chunks=((2000, 1, 37, 2962), 4))
    portfolio = CompositionalPortfolio(constraint="long_only", random_state=0)
    for i in range(array.numblocks[0]):
        portfolio.partial_fit(array.blocks[i].compute())
    np.testing.assert_array_equal(portfolio.weights_, plain.weights_)

    frame = dd.from_pandas(pd.DataFrame(returns, columns=["A", "B", "C", "D"]), npartitions=7)
    portfolio = CompositionalPortfolio(constraint="long_only", random_state=0)
    for part in frame.partitions:
        portfolio.partial_fit(part.compute())
    np.testing.assert_array_equal(portfolio.weights_, plain.weights_)
    print(dict(zip(portfolio.feature_names_in_, portfolio.weights_.round(3).tolist(), strict=True)))

    log = make_bellman_problem(20, 5, 0.9, "garnet", random_state=0).transitions(4000, random_state=0)
    straight = BellmanValueEstimator(0.9, random_state=0)
    straight.partial_fit(log.X, log.y, next_X=log.next_X, terminal=log.terminal)
    # one row a transition: [X | next_X | y | terminal]
    table = da.from_array(np.column_stack([log.X, log.next_X, log.y, log.terminal]), chunks=(900, -1))
    value = BellmanValueEstimator(0.9, random_state=0)
    for i in range(table.numblocks[0]):
        rows = table.blocks[i].compute()
        value.partial_fit(rows[:, :5], rows[:, 10], next_X=rows[:, 5:10], terminal=rows[:, 11] == 1)
    np.testing.assert_array_equal(value.coef_, straight.coef_)
    print(value.coef_.round(3), value.stop_reason_)
