"""What a map knows of its data: which samples are near to which, from a search or as affinities that were given."""

from __future__ import annotations

import numpy as np

from sk_stormc.embedding.affinities import graph_affinities, perplexity_search
from sk_stormc.embedding.given import given_affinities
from sk_stormc.embedding.neighbors import neighbor_graph
from sk_stormc.embedding.placing import spacings

__all__ = ["GIVEN", "Neighborhoods"]

GIVEN = "affinities"  # the metric of data that are affinities themselves


class Neighborhoods:
    """The neighbours of all samples, and their affinities.

    Parameters
    ----------
    X : ndarray or CSR array
        Checked.
    per_point : bool
        Whether each sample has a distribution of its own ("gaussian"), or all pairs have one ("student-t").
    perplexity : float or sequence of float
    metric : str or callable
    **how
        Of `perplexity_search`.

    Attributes
    ----------
    search : NeighborSearch or None
        None where affinities were given.
    perplexity : float or tuple of float
        What is used; NaN where affinities were given.
    recall : float
    spacing : ndarray of shape (n_samples,) or None
        From `spacings`.
    """

    def __init__(self, X, per_point, perplexity, metric, **how):
        self.per_point = per_point
        if metric == GIVEN:
            self._graph, self.search, self.spacing = given_affinities(X, joint=not per_point), None, None
            self.perplexity = self.recall = np.nan
            return
        self.search, self.perplexity = perplexity_search(X, perplexity, metric=metric, **how)
        self._graph = neighbor_graph(self.search)
        self.recall, self.spacing = self.search.recall_, spacings(self._graph)

    @property
    def joint(self):
        """Whether the affinities are joint probabilities."""
        return self.search is None and not self.per_point

    def to_optimise(self):
        """The affinities that a map is optimised on.

        Returns
        -------
        CSR array of shape (n_samples, n_samples)
            For "student-t" those to 2 perplexity + 1 neighbours.
        """
        if self.search is None:
            return self._graph
        return graph_affinities(
            self._graph, self.perplexity, None if self.per_point else int(2 * np.max(self.perplexity)) + 1
        )

    def to_report(self):
        """The affinities that the divergence is reported of, to 3 perplexity + 1 neighbours."""
        return self._graph if self.search is None else graph_affinities(self._graph, self.perplexity)
