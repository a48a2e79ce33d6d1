"""Streams from the partitions of dask collections have the bits of the same rows in
memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sk_stormc import CompositionalPortfolio
from sk_stormc.datasets import make_gaussian_returns

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)

RETURNS = make_gaussian_returns(3000, 5, mean=0.1, random_state=0)
FRAME = pd.DataFrame(RETURNS, columns=list("abcde"))
CUTS = [(700, 1, 37, 2262), (1, 2, 509, 1, 2487)]  # rows of the partitions
same_bits = np.testing.assert_array_equal


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("cut", CUTS, ids=str)
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


def test_dask_arrays_are_computed_once():
    loaded = []

    def load(i):
        loaded.append(i)
        return RETURNS[1000 * i : 1000 * (i + 1)]

    blocks = [
        da.from_delayed(dask.delayed(load)(i), shape=(1000, 5), dtype=float)
        for i in range(3)
    ]
    array = da.concatenate(blocks)
    portfolio, whole = (
        CompositionalPortfolio("scgd", random_state=0) for _ in range(2)
    )
    with dask.config.set(scheduler="synchronous"):
        for i in range(3):
            portfolio.partial_fit(array.blocks[i])
            assert loaded == list(range(i + 1))  # one partition at a time, in order
        whole.partial_fit(array)
    assert sorted(loaded) == [0, 0, 1, 1, 2, 2]
    same_bits(portfolio.weights_, whole.weights_)


def test_dask_frames_have_no_names():
    """scikit-learn does not know their columns."""
    portfolio, expected = (
        CompositionalPortfolio("scgd", random_state=0) for _ in range(2)
    )
    portfolio.partial_fit(dd.from_pandas(FRAME, npartitions=2))
    expected.partial_fit(FRAME)
    same_bits(portfolio.weights_, expected.weights_)
    assert not hasattr(portfolio, "feature_names_in_")
    with pytest.warns(UserWarning, match="feature names"):
        portfolio.partial_fit(FRAME)
