"""
Cells in an AnnData object
==========================

AnnData is the format of scanpy and of most packages for single cells. A map needs its
principal components or its graph of neighbours, and its positions are stored in
``obsm["X_tsne"]``, where scanpy's plots find them (``pip install anndata``).
"""

# %%
# Simulated counts
# ----------------
# The cells are of eight types. Other cells are on the way from type 0 to type 1.
import anndata
import numpy as np
import pandas as pd
from scipy import sparse

rng = np.random.default_rng(0)
n_cells, n_genes, n_types = 3000, 600, 8
differs = rng.random((n_types, n_genes)) < 0.25
expression = rng.normal(0, 1, n_genes) + differs * rng.normal(0, 0.8, differs.shape)
kind = rng.integers(0, n_types + 1, n_cells)  # the last one is the path
log_mean = expression[np.minimum(kind, n_types - 1)]
time = rng.random(n_cells)
time[kind < n_types] = np.nan
t = time[kind == n_types, None]
log_mean[kind == n_types] = (1 - t) * expression[0] + t * expression[1]
depth, noise = rng.lognormal(0, 0.4, (n_cells, 1)), rng.gamma(2, 0.5, log_mean.shape)
counts = rng.poisson(depth * noise * np.exp(log_mean - 1))

names = [f"type {k}" for k in range(n_types)] + ["0 to 1"]
adata = anndata.AnnData(
    sparse.csr_matrix(counts, dtype=np.float32),
    obs=pd.DataFrame(
        {"cell_type": pd.Categorical.from_codes(kind, names), "time": time},
        index=[f"cell {k}" for k in range(n_cells)],
    ),
)
print(adata)

# %%
# From counts to principal components
# -----------------------------------
# Counts are divided by the sum of their cell, and transformed by ``log1p``. scanpy does
# this by ``normalize_total``, ``log1p`` and ``pca``.
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

adata.obs["total counts"] = np.asarray(adata.X.sum(axis=1)).ravel()
normalized = (1e4 * normalize(adata.X, norm="l1")).log1p().toarray()
adata.obsm["X_pca"] = PCA(30, random_state=0).fit_transform(normalized)

# %%
# A map of the principal components
# ---------------------------------
# The map is stored beside them. Its colours are columns of ``obs``. Within each type
# the map orders the cells by their total counts, because dividing does not remove all
# effects of the depth.
import matplotlib.pyplot as plt

from sk_stormc import SNEEmbedding
from sk_stormc.plotting import EmbeddingDisplay

embedding = SNEEmbedding(random_state=0).fit(adata.obsm["X_pca"])
adata.obsm["X_tsne"] = embedding.embedding_
figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
for ax, column in zip(axes, ("cell_type", "time", "total counts"), strict=True):
    display = EmbeddingDisplay(adata.obsm["X_tsne"], y=adata.obs[column])
    display.plot(ax, legend=column != "cell_type")  # the names of types are on the map
    ax.set_title(column)

# %%
# A map of the graph of neighbours
# --------------------------------
# ``obsp["distances"]`` is a sparse graph of distances, which scanpy's ``neighbors``
# writes. A map with perplexity 30 needs 91 neighbours of each cell. With scanpy's
# default of 15 neighbours, ``fit`` lowers the perplexity to a third of their number,
# with a warning. Here scikit-learn makes the graph.
from sklearn.neighbors import kneighbors_graph

adata.obsp["distances"] = kneighbors_graph(adata.obsm["X_pca"], 91, mode="distance")
of_graph = SNEEmbedding(metric="precomputed", random_state=0).fit(
    adata.obsp["distances"]
)
print(of_graph.kl_divergence_, embedding.kl_divergence_)

# %%
# The two maps show the same groups. Their orientation is arbitrary, so that
# ``align_embedding`` turns the second one. The places of separate groups have little
# meaning, and differ. ``obsp["connectivities"]`` holds similarities. Their metric is
# "affinities".
from sk_stormc.plotting import align_embedding

adata.obsm["X_tsne_graph"] = align_embedding(of_graph.embedding_, adata.obsm["X_tsne"])
figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for ax, key in zip(axes, ("X_tsne", "X_tsne_graph"), strict=True):
    EmbeddingDisplay(adata.obsm[key], y=adata.obs["cell_type"]).plot(ax, legend=False)
    ax.set_title(f'obsm["{key}"]')
plt.show()
