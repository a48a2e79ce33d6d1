"""The neighbours of the samples and their affinities, from a search or from affinities that the user passed."""

from __future__ import annotations

import numpy as np

from sk_stormc.embedding.affinities import graph_affinities, perplexity_search
from sk_stormc.embedding.given import given_affinities
from sk_stormc.embedding.neighbors.graph import neighbor_graph
from sk_stormc.embedding.steps import SMALL
from sk_stormc.embedding.transform import spacings

__all__ = ["GIVEN", "Neighborhoods"]

GIVEN = "affinities"  # the metric of data that are affinities


class Neighborhoods:
    """The neighbours of all samples, and their affinities.

    Parameters
    ----------
    X : ndarray or CSR array
        The checked data.
    per_point : bool
        Whether each sample has its own distribution ("gaussian"), or there is one for all pairs ("student-t").
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
    recall : float
        Fraction of the true neighbours that the search found. NaN with metric="affinities".
    spacing : ndarray of shape (n_samples,) or None
        Distance of each sample to its tenth neighbour, from `spacings`.
    """

    def __init__(self, X, per_point, perplexity, metric, **how):
        self.per_point = per_point
        if metric == GIVEN:
            self._graph, self.search, self.spacing = given_affinities(X, joint=not per_point), None, None
            self.perplexity = self.recall = np.nan
            return
        self.search, self.perplexity = perplexity_search(X, perplexity, metric=metric, **how)
        self._graph = neighbor_graph(self.search)
        self.recall, self.spacing = self.search.recall_, spacings(self._graph, self.search)

    @property
    def joint(self):
        """Whether the affinities are joint probabilities."""
        return self.search is None and not self.per_point

    def to_optimise(self):
        """The affinities for which a map is optimised."""
        if self.search is None:
            return self._graph
        fewer = None if self.per_point or self._graph.shape[0] <= SMALL else int(2 * np.max(self.perplexity)) + 1
        return graph_affinities(self._graph, self.perplexity, fewer)

    def to_report(self):
        """The affinities of the reported divergence, to 3 perplexity + 1 neighbours."""
        return self._graph if self.search is None else graph_affinities(self._graph, self.perplexity)
