"""
A search on a dask cluster
==========================

joblib sends the fits of a search to the workers of a cluster. The results are
bit-for-bit those of one machine. The cluster of this example consists of two processes
on this computer. It needs ``pip install "sk_stormc[dask]"``.
"""

# %%
# The search
# ----------
# The program is within ``if __name__ == "__main__"``, because the workers import this
# file.
import joblib
import numpy as np
from dask.distributed import Client, LocalCluster
from matplotlib import pyplot as plt
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from threadpoolctl import threadpool_limits

from sk_stormc import CompositionalPortfolio, sharpe_ratio
from sk_stormc.datasets import make_gaussian_returns


def make_search():
    """All combinations of three learning rates and two batch sizes, on three splits."""
    return GridSearchCV(
        CompositionalPortfolio(
            "sarah-c", constraint="long_only", max_iter=200, random_state=0
        ),
        {"solver__learning_rate": [0.003, 0.01, 0.03], "solver__batch_size": [8, 32]},
        scoring=sharpe_ratio,
        cv=TimeSeriesSplit(3),
        error_score="raise",
    )


if __name__ == "__main__":
    returns = make_gaussian_returns(4000, 10, mean=0.1, random_state=0)
    # the workers of dask use one BLAS thread each, on which the rounding of sums
    # depends
    with (
        threadpool_limits(1),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        with joblib.parallel_config(backend="dask", scatter=[returns]):
            far = make_search().fit(returns)
        here = make_search().fit(returns)

    for name in here.cv_results_:
        if "test_score" in name:
            np.testing.assert_array_equal(far.cv_results_[name], here.cv_results_[name])
    np.testing.assert_array_equal(
        far.best_estimator_.weights_, here.best_estimator_.weights_
    )
    print(f"{len(here.cv_results_['params'])} candidates")
    print(f"best on the cluster and in this process: {far.best_params_}")

# %%
# The scores
# ----------
# The circles are the candidates' scores on the cluster, and the crosses are those in
# this process.
if __name__ == "__main__":
    names = [
        f"{p['solver__learning_rate']}\n{p['solver__batch_size']}"
        for p in here.cv_results_["params"]
    ]
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    ax.errorbar(
        names,
        far.cv_results_["mean_test_score"],
        far.cv_results_["std_test_score"],
        fmt="o",
        markersize=12,
        fillstyle="none",
        capsize=4,
        label="two workers (bars: standard deviations over the splits)",
    )
    ax.plot(names, here.cv_results_["mean_test_score"], "kx", label="this process")
    ax.set(
        xlabel="learning rate, and batch size below it",
        ylabel="mean return over its standard deviation",
    )
    ax.legend(frameon=False)
    plt.show()
