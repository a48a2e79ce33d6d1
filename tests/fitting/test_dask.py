"""Streams from the partitions of dask collections have the bits of the same rows in
memory, and whole collections are refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sk_stormc import (
    ActionValueEstimator,
    BellmanValueEstimator,
    CompositionalPortfolio,
)
from sk_stormc.datasets import make_gaussian_returns

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)

RETURNS = make_gaussian_returns(3000, 5, mean=0.1, random_state=0)
FRAME = pd.DataFrame(RETURNS, columns=list("abcde"))
CUTS = [(700, 1, 37, 2262), (1, 2, 509, 1, 2487)]  # rows of the partitions
same_bits = np.testing.assert_array_equal


@pytest.mark.parametrize("cut, frame", [(CUTS[0], False), (CUTS[1], True)])
def test_partial_fit_over_partitions(cut, frame):
    start = CompositionalPortfolio("storm-c", constraint="long_only", random_state=0)
    whole = clone(start).partial_fit(RETURNS)
    if frame:
        rows = [
            dask.delayed(FRAME[end - n : end])
            for n, end in zip(cut, np.cumsum(cut), strict=True)
        ]
        parts = dd.from_delayed(rows, meta=FRAME, verify_meta=False).partitions
    else:
        array = da.from_array(RETURNS, chunks=(cut, (2, 3)))
        parts = [array.blocks[i] for i in range(array.numblocks[0])]
    portfolio = clone(start)
    for part in parts:
        portfolio.partial_fit(part.compute())
    assert portfolio.n_iter_ > 5
    same_bits(portfolio.weights_, whole.weights_)
    same_bits(portfolio.ifo_, whole.ifo_)
    assert (
        getattr(portfolio, "feature_names_in_", np.array([])).tolist()
        == list("abcde") * frame
    )


PARTS = da.from_array(RETURNS, chunks=(1000, 5))
ONE = PARTS[:, 0]
TERMINAL = np.arange(3000) % 10 == 9


@pytest.mark.parametrize(
    "estimator, tables",
    [
        (CompositionalPortfolio(), {"X": PARTS}),
        (CompositionalPortfolio(), {"X": dd.from_pandas(FRAME, npartitions=2)}),
        (CompositionalPortfolio("scgd"), {"X": RETURNS, "sample_weight": abs(ONE)}),
        (BellmanValueEstimator(), {"X": PARTS, "y": RETURNS[:, 0]}),
        (
            BellmanValueEstimator(),
            {"X": RETURNS, "y": RETURNS[:, 0], "next_X": PARTS, "terminal": TERMINAL},
        ),
        (
            ActionValueEstimator(policy=lambda X: np.zeros(len(X), int)),
            {"X": RETURNS, "y": ONE, "action": TERMINAL, "next_X": RETURNS},
        ),
    ],
)
def test_partial_fit_says_what_to_do(estimator, tables):
    """A collection was computed as a whole in the program."""
    with pytest.raises(
        ValueError, match="partial_fit needs rows in memory, got .*X.partitions"
    ):
        estimator.partial_fit(**tables)
