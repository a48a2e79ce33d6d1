"""Fits on a dask cluster and from the partitions of dask collections have the bits of local ones."""

import os
import warnings
from functools import partial

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from threadpoolctl import threadpool_limits

from sk_stormc import (
    CompositionalPortfolio,
    STORMCompositional,
    sharpe_ratio,
)
from sk_stormc.datasets import make_gaussian_returns

distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")  # comes with it
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe", exc_type=ImportError)

same_bits = np.testing.assert_array_equal
same_curve = partial(np.testing.assert_array_equal, strict=True)
CUTS = [(700, 1, 37, 2262), (1, 2, 509, 1, 2487)]  # rows of the partitions


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Of a cluster whose workers have one BLAS thread each, and are gone afterwards."""
    patient = {"distributed.comm.timeouts.connect": "60s", "distributed.comm.timeouts.tcp": "120s"}
    with pytest.MonkeyPatch.context() as environment, dask.config.set(patient):
        for library in ("OMP", "OPENBLAS", "MKL"):  # workers inherit what is set; dask's own 1 is only a default
            environment.setenv(f"{library}_NUM_THREADS", "1")
        with (
            distributed.LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                local_directory=str(tmp_path_factory.mktemp("dask")),
            ) as cluster,
            distributed.Client(cluster, timeout=60) as client,
        ):
            client.wait_for_workers(2, timeout=60)
            workers = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
            assert len({os.getpid(), *(worker.pid for worker in workers)}) == 3
            yield client
    assert not psutil.wait_procs(workers, timeout=30)[1]


@pytest.fixture(autouse=True)
def one_thread():
    """With more BLAS threads than the workers have, long sums may be rounded otherwise here than there."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def returns():
    return make_gaussian_returns(3000, 5, mean=0.1, random_state=0)


def on_cluster(run, **options):
    """What ``run`` returns with joblib's dask backend; scikit-learn makes warnings errors in the workers too."""
    with warnings.catch_warnings(), joblib.parallel_config(backend="dask", **options):
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # of settings that a search tries
        return run()


def check_search(search, *args, scatter, weights, **params):
    """A search on the cluster equals the one here."""
    far = on_cluster(lambda: clone(search).fit(*args, **params), scatter=scatter)
    here = clone(search).fit(*args, **params)
    scores = [name for name in here.cv_results_ if "test_score" in name]
    assert len(scores) == search.cv.get_n_splits() + 3
    for name in scores:
        same_bits(far.cv_results_[name], here.cv_results_[name])
    assert len(set(here.cv_results_["mean_test_score"])) == len(here.cv_results_["params"])  # all reach the run
    assert far.best_params_ == here.best_params_
    same_bits(getattr(far.best_estimator_, weights), getattr(here.best_estimator_, weights))
    same_curve(far.best_estimator_.loss_curve_, here.best_estimator_.loss_curve_)


def partitions(rows, cut):
    """Those of a dask dataframe."""
    parts = [rows[end - n : end] for n, end in zip(cut, np.cumsum(cut), strict=True)]
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=rows, verify_meta=False).partitions


# searches


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "frame"), [("storm-c", True), (STORMCompositional(), False)], ids=str)
def test_portfolio_search(client, returns, solver, frame):
    X = pd.DataFrame(returns, columns=list("abcde")) if frame else returns
    search = GridSearchCV(
        CompositionalPortfolio(solver, constraint="long_only", max_iter=30, tol=0, random_state=0),
        {"solver__learning_rate": [0.003, 0.03], "solver__batch_size": [8, 32]},
        scoring=sharpe_ratio,
        cv=TimeSeriesSplit(3),
        error_score="raise",
    )
    check_search(search, X, scatter=[X], weights="weights_")


# partitions


@pytest.mark.parametrize("frame", [False, True])
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_portfolio_over_partitions(returns, cut, frame):
    start = CompositionalPortfolio("storm-c", constraint="long_only", random_state=0)
    plain = clone(start).partial_fit(returns)
    if frame:
        parts = partitions(pd.DataFrame(returns, columns=list("abcde")), cut)
    else:
        array = da.from_array(returns, chunks=(cut, (2, 3)))  # chunks of columns are put together
        parts = [array.blocks[i] for i in range(array.numblocks[0])]
    portfolio = clone(start)
    for part, n_rows in zip(parts, cut, strict=True):
        rows = part.compute()
        assert rows.shape == (n_rows, 5)
        portfolio.partial_fit(rows)
    assert portfolio.n_iter_ > 5
    same_bits(portfolio.weights_, plain.weights_)
    same_curve(portfolio.ifo_, plain.ifo_)
    assert getattr(portfolio, "feature_names_in_", np.array([])).tolist() == list("abcde") * frame


def test_a_dask_array_computes_itself_once(returns):
    loaded = []

    def load(i):
        loaded.append(i)
        return returns[1000 * i : 1000 * (i + 1)]

    blocks = [da.from_delayed(dask.delayed(load)(i), shape=(1000, 5), dtype=float) for i in range(3)]
    array = da.concatenate(blocks)
    portfolio, whole, plain = (CompositionalPortfolio("scgd", random_state=0) for _ in range(3))
    with dask.config.set(scheduler="synchronous"):
        for i in range(3):
            portfolio.partial_fit(array.blocks[i])
            assert loaded == list(range(i + 1))  # one partition at a time, in order
        whole.partial_fit(array)
    assert sorted(loaded) == [0, 0, 1, 1, 2, 2]
    plain.partial_fit(returns)
    same_bits(portfolio.weights_, plain.weights_)
    same_bits(whole.weights_, plain.weights_)


def test_a_dask_frame_computes_itself_without_its_names(returns):
    """As the docs say: scikit-learn does not know the columns of dask's frames."""
    rows = pd.DataFrame(returns, columns=list("abcde"))
    portfolio, plain = (CompositionalPortfolio("scgd", random_state=0) for _ in range(2))
    portfolio.partial_fit(dd.from_pandas(rows, npartitions=2))
    plain.partial_fit(rows)
    same_bits(portfolio.weights_, plain.weights_)
    assert not hasattr(portfolio, "feature_names_in_")
    with pytest.warns(UserWarning, match="feature names"):
        portfolio.partial_fit(rows)
