"""
A map of rows on a cluster
==========================

A map is fitted on a sample, and all rows are placed in it on the workers. The cluster
of this example consists of two processes on this computer. It needs ``pip install
"sk_stormc[dask]"``.
"""

# %%
# Fit a sample, transform all rows
# --------------------------------
# ``transform`` of a dask array returns a lazy dask array. Each row is placed on its
# own, so that the places are bit-for-bit those of rows in memory. The program is within
# ``if __name__ == "__main__"``, because the workers import this file.
import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs

from sk_stormc import SNEEmbedding

if __name__ == "__main__":
    rows, label = make_blobs(6000, 20, centers=8, random_state=0)
    # or da.from_zarr, dask.dataframe.read_parquet
    X = da.from_array(rows, chunks=(1500, 20))
    embedding = SNEEmbedding(random_state=0).fit(X[::6].compute())
    places = embedding.transform(X)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        far = places.compute()  # or places.to_zarr, which keeps all rows on the workers
    np.testing.assert_array_equal(far, embedding.transform(rows))
    print(places)

# %%
# The map
# -------
# The sample is in black.
if __name__ == "__main__":
    figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
    ax.scatter(*far.T, c=label, s=3, cmap="tab10")
    ax.scatter(*embedding.embedding_.T, c="k", s=1)
    ax.set(xticks=[], yticks=[], aspect="equal")
    plt.show()
