"""Fits on a dask cluster and from the partitions of dask collections have the bits of local ones."""

import os
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from threadpoolctl import threadpool_limits

from sk_stormc import CompositionalPortfolio, sharpe_ratio
from sk_stormc.datasets import make_gaussian_returns

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)

RETURNS = make_gaussian_returns(3000, 5, mean=0.1, random_state=0)
FRAME = pd.DataFrame(RETURNS, columns=list("abcde"))
CUTS = [(700, 1, 37, 2262), (1, 2, 509, 1, 2487)]  # rows of the partitions
same_bits = np.testing.assert_array_equal


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Two worker processes with one BLAS thread each."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        monkeypatch.setenv(f"{library}_NUM_THREADS", "1")
    patient = {"distributed.comm.timeouts.connect": "60s", "distributed.comm.timeouts.tcp": "120s"}
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "local_directory": str(tmp_path)}
    with (
        dask.config.set(patient),
        distributed.LocalCluster(processes=True, **options) as cluster,
        distributed.Client(cluster, timeout=60) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        assert len({os.getpid(), *client.run(os.getpid).values()}) == 3
        yield


@pytest.mark.slow
def test_a_search_on_a_cluster(cluster):
    search = GridSearchCV(
        CompositionalPortfolio("storm-c", constraint="long_only", max_iter=30, tol=0, random_state=0),
        {"solver__learning_rate": [0.003, 0.03], "solver__batch_size": [8, 32]},
        scoring=sharpe_ratio,
        cv=TimeSeriesSplit(3),
        error_score="raise",
    )
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        with joblib.parallel_config(backend="dask", scatter=[FRAME]):
            remote = clone(search).fit(FRAME)
        local = clone(search).fit(FRAME)
    for name in ("mean_test_score", "std_test_score", "split2_test_score"):
        same_bits(remote.cv_results_[name], local.cv_results_[name])
    assert len(set(local.cv_results_["mean_test_score"])) == 4  # all parameters matter
    same_bits(remote.best_estimator_.weights_, local.best_estimator_.weights_)
    same_bits(remote.best_estimator_.loss_curve_, local.best_estimator_.loss_curve_)


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_partial_fit_over_partitions(cut, frame):
    start = CompositionalPortfolio("storm-c", constraint="long_only", random_state=0)
    whole = clone(start).partial_fit(RETURNS)
    if frame:
        rows = [dask.delayed(FRAME[end - n : end]) for n, end in zip(cut, np.cumsum(cut), strict=True)]
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
    assert getattr(portfolio, "feature_names_in_", np.array([])).tolist() == list("abcde") * frame


def test_dask_arrays_are_computed_once():
    loaded = []

    def load(i):
        loaded.append(i)
        return RETURNS[1000 * i : 1000 * (i + 1)]

    blocks = [da.from_delayed(dask.delayed(load)(i), shape=(1000, 5), dtype=float) for i in range(3)]
    array = da.concatenate(blocks)
    portfolio, whole = (CompositionalPortfolio("scgd", random_state=0) for _ in range(2))
    with dask.config.set(scheduler="synchronous"):
        for i in range(3):
            portfolio.partial_fit(array.blocks[i])
            assert loaded == list(range(i + 1))  # one partition at a time, in order
        whole.partial_fit(array)
    assert sorted(loaded) == [0, 0, 1, 1, 2, 2]
    same_bits(portfolio.weights_, whole.weights_)


def test_dask_frames_have_no_names():
    """scikit-learn does not know their columns."""
    portfolio, expected = (CompositionalPortfolio("scgd", random_state=0) for _ in range(2))
    portfolio.partial_fit(dd.from_pandas(FRAME, npartitions=2))
    expected.partial_fit(FRAME)
    same_bits(portfolio.weights_, expected.weights_)
    assert not hasattr(portfolio, "feature_names_in_")
    with pytest.warns(UserWarning, match="feature names"):
        portfolio.partial_fit(FRAME)
