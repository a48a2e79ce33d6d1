"""The neighbours of the samples and their affinities, from a search or from affinities
that the user passed."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse

from sk_stormc.embedding.affinities import (
    graph_affinities,
    normalised_affinities,
    perplexity_search,
)
from sk_stormc.embedding.mesh import MAX_CELLS
from sk_stormc.embedding.neighbors.graph import neighbor_graph
from sk_stormc.utils.blocks import is_dask
from sk_stormc.utils.machine import machine_memory
from sk_stormc.utils.warnings import warn

SPACING_NEIGHBORS = 10  # training samples that define the distance of a new sample


def refuse_pair(X):
    """Raise a ValueError for indices and distances of neighbours, as umap-learn and
    openTSNE take them."""
    if (
        isinstance(X, (tuple, list))
        and len(X) == 2
        and all(getattr(part, "ndim", 0) == 2 for part in X)
    ):
        raise ValueError(
            f"X must be one table, got two arrays, of shapes {X[0].shape} and "
            f"{X[1].shape}. Pass known neighbours as a sparse graph of their distances "
            "with metric='precomputed', as "
            "sklearn.neighbors.KNeighborsTransformer(mode='distance') creates it"
        )


def refuse_dask(X):
    """Raise a ValueError for a dask collection, which only `transform` takes."""
    if is_dask(X):
        raise ValueError(
            f"X must be in memory for fit, got a {type(X).__name__} of dask: fit a "
            "random sample of at most about a million rows, and transform all rows, "
            "which gives a lazy array"
        )


def warn_of_memory(X, perplexity, on_mesh):
    """Warn if a fit needs more memory than the machine has, by an estimate of its peak
    without the caller's data."""
    n, there = X.shape[0], machine_memory()
    data = (X.data if sparse.issparse(X) else X).nbytes
    nearest = min(n - 1, int(3 * perplexity) + 1)
    # measured: bytes of a node of the mesh for the reported divergence, of which a side
    # has 12 sqrt(n); of a point, and of a neighbour of a point with its edge
    mesh = 40 * min(MAX_CELLS, 12 * np.sqrt(n)) ** 2 if on_mesh else 0
    graph = n * (400 + nearest * 140)
    needed = max(3 * data, data + graph + mesh)  # the search has three copies
    if needed > there:
        warn(
            f"a map of {n} samples at perplexity {perplexity:g} needs about "
            f"{needed / 1e9:.1f} GB of memory, and this machine has {there / 1e9:.1f} "
            "GB. A smaller perplexity and float32 data need less",
            UserWarning,
        )


class Neighborhoods:
    """The neighbours of all samples, and their affinities.

    Parameters
    ----------
    X : ndarray or CSR array
        The checked data.
    per_point : bool
        Whether each sample has its own distribution ("gaussian"), or there is one for
        all pairs ("student-t").
    perplexity : float or sequence of float
    metric : str or callable
    **how
        Further arguments of `perplexity_search`.

    Attributes
    ----------
    search : NeighborSearch or None
        None with metric="affinities".
    perplexity : float or tuple of float
        The perplexity that is used. NaN with metric="affinities".
    joint : bool
        Whether the affinities are joint probabilities.
    recall : float
        Fraction of the true neighbours that the search found. NaN with
        metric="affinities".
    """

    def __init__(self, X, per_point, perplexity, metric, **how):
        self.joint = metric == "affinities" and not per_point
        if metric == "affinities":
            self._graph = normalised_affinities(X, self.joint)
            self.search, self.perplexity, self.recall = None, np.nan, np.nan
            return
        self.search, self.perplexity = perplexity_search(
            X, perplexity, metric=metric, **how
        )
        self._graph = neighbor_graph(self.search)
        self.recall = self.search.recall_

    @cached_property
    def spacing(self):
        """The distance of each sample to its tenth neighbour, or to the farthest if
        there are fewer."""
        graph = self._graph
        count = np.minimum(np.diff(graph.indptr), SPACING_NEIGHBORS)
        distance = graph.data[graph.indptr[:-1] + count - 1].astype(float)
        if distance.any():
            return np.where(distance > 0, distance, distance[distance > 0].mean())
        return np.full(len(distance), np.median(self.search.to_nearest_unlike()))

    def affinities(self):
        """The affinities of the samples, to 3 perplexity + 1 neighbours of each."""
        if self.search is None:
            return self._graph
        return graph_affinities(self._graph, self.perplexity)
